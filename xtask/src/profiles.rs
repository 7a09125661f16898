//! `data/mig-profiles.yaml` of tesela-model → `src/product/builtin.rs`.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use tesela_model::product::{ProductId, ProfileName};

const SOURCE: &str = "crates/tesela-model/data/mig-profiles.yaml";
const TARGET: &str = "crates/tesela-model/src/product/builtin.rs";

#[derive(Deserialize)]
struct Document {
    schema_version: u32,
    models: Vec<Model>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Model {
    id: String,
    title: String,
    #[serde(default)]
    nvml_product_names: Vec<String>,
    #[serde(default)]
    pci_device_ids: Vec<PciId>,
    architecture: String,
    compute_capability: String,
    #[serde(rename = "geometry_family")]
    _geometry_family: String,
    compute_slices: u32,
    memory_slices: Option<u32>,
    memory_mib_nominal: Option<u64>,
    memory_mib_reported: Option<u64>,
    naming_total_gb: Option<u32>,
    sms_full_gpu: Option<u32>,
    mode_change_needs_reset: Option<bool>,
    mode_survives_reboot: Option<bool>,
    min_driver: Option<String>,
    confidence: String,
    #[serde(rename = "why")]
    _why: Option<String>,
    #[serde(rename = "note")]
    _note: Option<String>,
    sources: Vec<String>,
    profiles: Vec<Row>,
}

#[derive(Deserialize)]
struct PciId {
    id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    #[serde(default)]
    aliases: Vec<String>,
    #[serde(rename = "gi_profile")]
    _gi_profile: Option<String>,
    gi_profile_enum: Option<u32>,
    profile_id: Option<u32>,
    gpu_slices: u32,
    memory_slices: Option<u32>,
    memory_mib: Option<u64>,
    #[serde(default)]
    memory_mib_also_seen: Vec<u64>,
    max_instances: Option<u32>,
    placements: Option<Vec<String>>,
    sms: Option<u32>,
    engines: EngineRow,
    p2p: Option<bool>,
    graphics: Option<bool>,
    #[serde(default)]
    compute_instances: Vec<ComputeRow>,
    confidence: String,
    #[serde(rename = "why")]
    _why: Option<String>,
    #[serde(rename = "note")]
    _note: Option<String>,
    sources: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EngineRow {
    copy: Option<u32>,
    decoder: Option<u32>,
    encoder: Option<u32>,
    jpeg: Option<u32>,
    ofa: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ComputeRow {
    name: String,
    #[serde(rename = "ci_profile")]
    _ci_profile: Option<String>,
    ci_profile_enum: u32,
    slices: u32,
    max_instances: u32,
    sms: Option<u32>,
}

/// Writes the table, or with `check` fails when the committed one is stale. `root` is the repository's.
///
/// # Errors
/// When the data file cannot be read, a name is malformed, an entry lacks its source, or the table is stale.
#[expect(clippy::disallowed_methods, reason = "xtask writes what is generated")]
pub(crate) fn generate(root: &Path, check: bool) -> Result<()> {
    let source = root.join(SOURCE);
    let text =
        std::fs::read_to_string(&source).with_context(|| format!("cannot read {}", source.display()))?;
    let wanted = render(&text).with_context(|| format!("in {SOURCE}"))?;
    let target = root.join(TARGET);
    let found = std::fs::read_to_string(&target).unwrap_or_default();
    if found == wanted {
        return Ok(());
    }
    if check {
        bail!("{TARGET} is stale: run `cargo xtask generate` and commit the result");
    }
    std::fs::write(&target, wanted).with_context(|| format!("cannot write {}", target.display()))
}

fn render(text: &str) -> Result<String> {
    let document: Document = serde_saphyr::from_str(text)?;
    ensure!(document.schema_version == 1, "schema_version is {}, not 1", document.schema_version);
    let mut out = format!(
        "//! Generated from `{SOURCE}` by `cargo xtask generate`. Do not edit.\n\n\
         use super::Confidence::{{High, Low, Medium}};\nuse super::rows::{{ProductRow, ProfileRow}};\n\n\
         #[rustfmt::skip]\npub(super) static ROWS: &[ProductRow] = &[\n"
    );
    for model in &document.models {
        product(&mut out, model).with_context(|| format!("product {}", model.id))?;
    }
    out.push_str("];\n");
    Ok(out)
}

fn product(out: &mut String, model: &Model) -> Result<()> {
    ProductId::parse(&model.id)?;
    ensure!(!model.sources.is_empty(), "no sources");
    let pci = model.pci_device_ids.iter().map(|p| p.id.as_str()).collect::<Vec<_>>();
    let capability = Some(&model.compute_capability).filter(|c| *c != "unknown");
    writeln!(out, "    ProductRow {{")?;
    writeln!(out, "        id: {:?},\n        title: {:?},", model.id, model.title)?;
    writeln!(out, "        nvml_names: &{:?},\n        pci_ids: &{pci:?},", model.nvml_product_names)?;
    writeln!(
        out,
        "        architecture: {:?},\n        compute_capability: {capability:?},",
        model.architecture
    )?;
    writeln!(out, "        compute_slices: {},", model.compute_slices)?;
    writeln!(out, "        memory_units: {:?},", model.memory_slices)?;
    writeln!(out, "        memory_mib: {:?},", model.memory_mib_reported.or(model.memory_mib_nominal))?;
    writeln!(
        out,
        "        naming_total_gb: {:?},\n        sms: {:?},",
        model.naming_total_gb, model.sms_full_gpu
    )?;
    writeln!(out, "        mode_change_needs_reset: {:?},", model.mode_change_needs_reset)?;
    writeln!(out, "        mode_survives_reboot: {:?},", model.mode_survives_reboot)?;
    writeln!(out, "        min_driver: {:?},", model.min_driver)?;
    writeln!(out, "        confidence: {},\n        profiles: &[", confidence(&model.confidence)?)?;
    for row in &model.profiles {
        profile(out, row).with_context(|| format!("profile {}", row.name))?;
    }
    writeln!(out, "        ],\n    }},")?;
    Ok(())
}

fn profile(out: &mut String, row: &Row) -> Result<()> {
    for name in std::iter::once(&row.name).chain(&row.aliases) {
        ProfileName::parse(name)?;
    }
    ensure!(!row.sources.is_empty(), "no sources");
    let placements = row.placements.iter().flatten().map(|p| placement(p)).collect::<Result<Vec<_>>>()?;
    let EngineRow { copy, decoder, encoder, jpeg, ofa } = row.engines;
    let mut compute = Vec::new();
    for c in &row.compute_instances {
        ProfileName::parse(&c.name)?;
        compute.push((&c.name, c.ci_profile_enum, c.slices, c.max_instances, c.sms));
    }
    writeln!(out, "            ProfileRow {{")?;
    writeln!(out, "                name: {:?},\n                aliases: &{:?},", row.name, row.aliases)?;
    writeln!(out, "                profile_id: {:?},", row.profile_id)?;
    writeln!(out, "                gi_profile_enum: {:?},", row.gi_profile_enum)?;
    writeln!(out, "                compute_slices: {},", row.gpu_slices)?;
    writeln!(out, "                memory_units: {:?},", row.memory_slices)?;
    writeln!(out, "                memory_mib: {:?},", row.memory_mib)?;
    writeln!(out, "                memory_mib_also_seen: &{:?},", row.memory_mib_also_seen)?;
    writeln!(out, "                max_instances: {:?},", row.max_instances)?;
    writeln!(out, "                placements: &{placements:?},")?;
    writeln!(out, "                sms: {:?},", row.sms)?;
    writeln!(out, "                engines: {:?},", [copy, decoder, encoder, jpeg, ofa])?;
    writeln!(out, "                compute_instances: &{compute:?},")?;
    writeln!(out, "                graphics: {:?},\n                p2p: {:?},", row.graphics, row.p2p)?;
    writeln!(out, "                confidence: {},\n            }},", confidence(&row.confidence)?)?;
    Ok(())
}

fn placement(text: &str) -> Result<(u32, u32)> {
    let (start, size) =
        text.split_once(':').with_context(|| format!("placement {text} is not START:SIZE"))?;
    Ok((start.parse()?, size.parse()?))
}

fn confidence(text: &str) -> Result<&'static str> {
    Ok(match text {
        "high" => "High",
        "medium" => "Medium",
        "low" => "Low",
        _ => bail!("confidence `{text}` is not high, medium or low"),
    })
}
