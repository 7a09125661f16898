//! `kind: ProductTable`: GPU products and MIG profiles beyond the built-in table, in the shape of its data file.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use tesela_model::product::{
    Confidence, Engines, Placement, Product, ProductError, ProductFacts, ProductId, Profile, ProfileName,
};
use tesela_model::quantity::Mib;

use super::check::Check;
use super::scalar::{Positive, Whole};
use crate::diagnostic::{Diagnostics, shown};
use crate::source::{Located, Span};

/// MiB of one GPU: at most 16 Ti.
const MOST_MIB: i128 = 1 << 24;

/// Products that the built-in table lacks, or has otherwise. One with a known id takes that one's place.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ProductTableSpec {
    /// The products.
    models: Vec<Located<ModelEntry>>,
}

/// A GPU product.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ModelEntry {
    /// Its id here: lower-case letters, digits and `-`, such as `h100-sxm-80gb`.
    id: Located<String>,
    /// Title for people. Default: the id.
    #[serde(default)]
    title: Option<String>,
    /// Exact names that NVML gives (`nvidia-smi -L` prints them).
    #[serde(default)]
    nvml_product_names: Vec<Located<String>>,
    /// NVIDIA's name of the generation, lower case, such as `hopper`. Default: empty.
    #[serde(default)]
    architecture: Option<String>,
    /// CUDA compute capability, such as "9.0". Default: not known.
    #[serde(default)]
    compute_capability: Option<String>,
    /// Compute slices of the whole GPU, such as 7.
    compute_slices: Located<Positive>,
    /// Memory units of the whole GPU, 1 to 64, such as 8. Default: not known.
    #[serde(default)]
    memory_slices: Option<Located<Positive>>,
    /// Memory of the whole GPU in MiB, as NVML reports it. Default: not known.
    #[serde(default)]
    memory_mib: Option<Located<Positive>>,
    /// Streaming multiprocessors of the whole GPU. Default: not known.
    #[serde(default)]
    sms_full_gpu: Option<Located<Positive>>,
    /// Whether switching MIG on or off takes a reset of the GPU (Ampere). Default: not known.
    #[serde(default)]
    mode_change_needs_reset: Option<bool>,
    /// Whether MIG mode outlives a reboot (Ampere). Default: not known.
    #[serde(default)]
    mode_survives_reboot: Option<bool>,
    /// First driver that does MIG on it. Default: not known.
    #[serde(default)]
    min_driver: Option<String>,
    /// Its MIG profiles; none = a GPU without MIG.
    #[serde(default)]
    profiles: Vec<Located<ProfileEntry>>,
}

/// A MIG profile of a product. What is left out is not known, and not a constraint.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ProfileEntry {
    /// Its name, such as `1g.10gb` or `1g.10gb+me`.
    name: Located<String>,
    /// Names that other driver versions give the same profile. Default: none.
    #[serde(default)]
    aliases: Vec<Located<String>>,
    /// The id that `nvidia-smi mig -lgip` prints.
    #[serde(default)]
    profile_id: Option<Located<Whole>>,
    /// NVML's NVML_GPU_INSTANCE_PROFILE_* constant.
    #[serde(default)]
    gi_profile_enum: Option<Located<Whole>>,
    /// Compute slices it takes.
    gpu_slices: Located<Positive>,
    /// Memory units it takes.
    #[serde(default)]
    memory_slices: Option<Located<Positive>>,
    /// Memory in MiB that a process sees.
    #[serde(default)]
    memory_mib: Option<Located<Positive>>,
    /// How many of it one GPU can hold.
    #[serde(default)]
    max_instances: Option<Located<Positive>>,
    /// Where it may sit, as `start:size` in memory units (`nvidia-smi mig -lgipp`). None: nothing is planned with it.
    #[serde(default)]
    placements: Vec<Located<String>>,
    /// Streaming multiprocessors.
    #[serde(default)]
    sms: Option<Located<Positive>>,
    /// Engines it takes.
    #[serde(default)]
    engines: Option<EngineEntry>,
    /// Whether it has graphics.
    #[serde(default)]
    graphics: Option<bool>,
    /// Whether peer-to-peer copies work.
    #[serde(default)]
    p2p: Option<bool>,
}

/// Engines of an instance. What is left out is not known.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct EngineEntry {
    /// Copy engines.
    #[serde(default)]
    copy: Option<Located<Whole>>,
    /// Video decoders.
    #[serde(default)]
    decoder: Option<Located<Whole>>,
    /// Video encoders.
    #[serde(default)]
    encoder: Option<Located<Whole>>,
    /// JPEG decoders.
    #[serde(default)]
    jpeg: Option<Located<Whole>>,
    /// Optical-flow accelerators.
    #[serde(default)]
    ofa: Option<Located<Whole>>,
}

/// Reads the content of a ProductTable document.
pub(super) fn read(file: &str, spec: &ProductTableSpec) -> Result<Vec<Product>, Diagnostics> {
    let mut check = Check::new(file);
    let mut ids: BTreeMap<&str, Span> = BTreeMap::new();
    let mut names: BTreeMap<&str, Span> = BTreeMap::new();
    let mut products = Vec::new();
    for entry in &spec.models {
        let id = &entry.value.id;
        match ids.get(id.value.as_str()) {
            Some(&first) => check.duplicate("the product", &id.value, first, id.at),
            None => {
                ids.insert(&id.value, id.at);
            }
        }
        for name in &entry.value.nvml_product_names {
            match names.get(name.value.as_str()) {
                Some(&first) => check.duplicate("the NVML name", &name.value, first, name.at),
                None => {
                    names.insert(&name.value, name.at);
                }
            }
        }
        products.extend(product(&mut check, &entry.value));
    }
    check.finish(products)
}

fn product(check: &mut Check<'_>, entry: &ModelEntry) -> Option<Product> {
    let id = match ProductId::parse(&entry.id.value) {
        Ok(id) => Some(id),
        Err(error) => {
            let near = entry.id.value.trim().to_lowercase().replace(['_', ' ', '.'], "-");
            let fix = match ProductId::parse(&near) {
                Ok(near) => format!("did you mean `{near}`?"),
                Err(_) => "choose a short name for this product".to_owned(),
            };
            check.error(entry.id.at, "invalid-name", &entry.id.value, error.to_string(), fix);
            None
        }
    };
    let compute_slices = check.count("computeSlices", Some(&entry.compute_slices), 1, 64);
    let memory_units = check.count("memorySlices", entry.memory_slices.as_ref(), 1, 64);
    let memory = check.count("memoryMib", entry.memory_mib.as_ref(), 1, MOST_MIB).map(Mib);
    let sms = check.count("smsFullGpu", entry.sms_full_gpu.as_ref(), 1, 100_000);
    let profiles: Option<Vec<Profile>> = {
        // Every profile is looked at, so that all that is wrong is told.
        let read: Vec<_> = entry.profiles.iter().map(|p| profile(check, &p.value)).collect();
        read.into_iter().collect()
    };
    let id = id?;
    let facts = ProductFacts {
        title: entry.title.clone().unwrap_or_else(|| id.to_string()),
        id,
        nvml_names: entry.nvml_product_names.iter().map(|n| n.value.clone()).collect(),
        pci_ids: Vec::new(),
        architecture: entry.architecture.clone().unwrap_or_default(),
        compute_capability: entry.compute_capability.clone(),
        compute_slices: compute_slices?,
        memory_units,
        memory,
        naming_total_gb: None,
        sms,
        mode_change_needs_reset: entry.mode_change_needs_reset,
        mode_survives_reboot: entry.mode_survives_reboot,
        min_driver: entry.min_driver.clone(),
        confidence: Confidence::Medium,
        profiles: profiles?,
    };
    match Product::new(facts) {
        Ok(product) => Some(product),
        Err(error) => {
            let (at, value) = place_of(entry, &error);
            let fix = "compare with what `nvidia-smi mig -lgip` and `-lgipp` print on the node";
            check.error(at, "contradiction", &value, error.to_string(), fix);
            None
        }
    }
}

/// The place that a contradiction is about.
fn place_of(entry: &ModelEntry, error: &ProductError) -> (Span, String) {
    let named = |name: &ProfileName| {
        // The last one: of two profiles with one name, the second is the wrong one.
        let same = |p: &&Located<ProfileEntry>| {
            let names = std::iter::once(&p.value.name).chain(&p.value.aliases);
            names.map(|n| ProfileName::parse(&n.value)).any(|n| n.as_ref() == Ok(name))
        };
        entry.profiles.iter().rev().find(same).map(|p| &p.value)
    };
    let fallback = (entry.id.at, entry.id.value.clone());
    match error {
        ProductError::NoComputeSlices { .. } | ProductError::MemoryUnits { .. } => fallback,
        ProductError::DuplicateProfile { profile, .. } => {
            named(profile).map_or(fallback, |p| (p.name.at, profile.to_string()))
        }
        ProductError::ProfileSlices { profile, slices, .. } => {
            named(profile).map_or(fallback, |p| (p.gpu_slices.at, slices.to_string()))
        }
        ProductError::Placement { profile, placement, .. } => {
            let text = placement.to_string();
            let written = named(profile).and_then(|p| p.placements.iter().rev().find(|w| w.value == text));
            written.map_or(fallback, |w| (w.at, text))
        }
    }
}

fn profile(check: &mut Check<'_>, entry: &ProfileEntry) -> Option<Profile> {
    let name = profile_name(check, &entry.name);
    let aliases: Vec<_> = entry.aliases.iter().map(|alias| profile_name(check, alias)).collect();
    let placements: Vec<_> = entry.placements.iter().map(|written| placement(check, written)).collect();
    let engine =
        |check: &mut Check<'_>, field, count: Option<&Located<Whole>>| check.count(field, count, 0, 1024);
    let engines = entry.engines.as_ref().map(|engines| Engines {
        copy: engine(check, "copy", engines.copy.as_ref()),
        decoder: engine(check, "decoder", engines.decoder.as_ref()),
        encoder: engine(check, "encoder", engines.encoder.as_ref()),
        jpeg: engine(check, "jpeg", engines.jpeg.as_ref()),
        ofa: engine(check, "ofa", engines.ofa.as_ref()),
    });
    let profile_id = check.count("profileId", entry.profile_id.as_ref(), 0, u32::MAX.into());
    let gi_profile_enum = check.count("giProfileEnum", entry.gi_profile_enum.as_ref(), 0, u32::MAX.into());
    let compute_slices = check.count("gpuSlices", Some(&entry.gpu_slices), 1, 64);
    let memory_units = check.count("memorySlices", entry.memory_slices.as_ref(), 1, 64);
    let memory = check.count("memoryMib", entry.memory_mib.as_ref(), 1, MOST_MIB).map(Mib);
    let max_instances = check.count("maxInstances", entry.max_instances.as_ref(), 1, 64);
    let sms = check.count("sms", entry.sms.as_ref(), 1, 100_000);
    Some(Profile {
        name: name?,
        aliases: aliases.into_iter().collect::<Option<_>>()?,
        profile_id,
        gi_profile_enum,
        compute_slices: compute_slices?,
        memory_units,
        memory,
        memory_also_seen: Vec::new(),
        max_instances,
        placements: placements.into_iter().collect::<Option<_>>()?,
        sms,
        engines: engines.unwrap_or_default(),
        compute_instances: Vec::new(),
        graphics: entry.graphics,
        p2p: entry.p2p,
        confidence: Confidence::Medium,
    })
}

fn profile_name(check: &mut Check<'_>, written: &Located<String>) -> Option<ProfileName> {
    match ProfileName::parse(&written.value) {
        Ok(name) => Some(name),
        Err(error) => {
            let near = written.value.trim().to_lowercase().replace("bg", "gb");
            let fix = match ProfileName::parse(&near) {
                Ok(near) => format!("did you mean `{near}`?"),
                Err(_) => "`nvidia-smi mig -lgip` prints the names".to_owned(),
            };
            check.error(written.at, "invalid-name", &written.value, error.to_string(), fix);
            None
        }
    }
}

/// `start:size`.
fn placement(check: &mut Check<'_>, written: &Located<String>) -> Option<Placement> {
    let number = |text: &str| text.parse::<u32>().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
    let found = written
        .value
        .split_once(':')
        .and_then(|(start, size)| Some(Placement { start: number(start)?, size: number(size)? }));
    if found.is_none() {
        let message = format!("`{}` is no placement", shown(&written.value));
        check.error(
            written.at,
            "invalid-value",
            &written.value,
            message,
            "write start:size in memory units, such as \"0:2\"",
        );
    }
    found
}
