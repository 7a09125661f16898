//! The two configs of NVIDIA's programs that a node gets: a label of a mig-parted v1 document and an entry of
//! device plugin configs v1.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Map, Value};
use tesela_model::fleet::{MigStrategy, Mode};
use tesela_model::plan::PlannedNode;
use tesela_model::product::ProfileName;
use tesela_model::resource::GpuResource;

use super::error::RenderError;
use super::manifest::yaml;
use super::name::named_by_content;

/// What MIG looks like on the GPUs of one node: one entry of a mig-parted v1 label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MigDevices {
    /// GPU indexes; the order of the plan.
    devices: Vec<usize>,
    /// Instances by profile; `None` = MIG off.
    counts: Option<BTreeMap<ProfileName, u32>>,
}

/// The entries of a node: equal GPUs together, by first index. Every GPU is named, because mig-parted finds a
/// label applied only when it covers the whole node.
pub(super) fn mig_devices(node: &PlannedNode) -> Vec<MigDevices> {
    let mut entries: Vec<MigDevices> = Vec::new();
    for (index, gpu) in node.gpus.iter().enumerate() {
        let counts = (gpu.mode == Mode::Mig).then(|| {
            let mut counts = BTreeMap::new();
            for instance in &gpu.instances {
                *counts.entry(instance.profile.clone()).or_insert(0) += 1;
            }
            counts
        });
        match entries.iter_mut().find(|e| e.counts == counts) {
            Some(entry) => entry.devices.push(index),
            None => entries.push(MigDevices { devices: vec![index], counts }),
        }
    }
    entries
}

/// The entries as block YAML without indent, as they stand under a label.
pub(super) fn mig_text(entries: &[MigDevices]) -> String {
    let mut text = String::new();
    for entry in entries {
        let devices: Vec<_> = entry.devices.iter().map(usize::to_string).collect();
        let _ = writeln!(text, "- devices: [{}]", devices.join(", "));
        let _ = writeln!(text, "  mig-enabled: {}", entry.counts.is_some());
        match &entry.counts {
            Some(counts) if counts.is_empty() => text.push_str("  mig-devices: {}\n"),
            Some(counts) => {
                text.push_str("  mig-devices:\n");
                for (profile, count) in counts {
                    let _ = writeln!(text, "    \"{profile}\": {count}");
                }
            }
            None => {}
        }
    }
    text
}

/// The name of a node's label: the product, and a digest of the content. A changed content has another name,
/// because NVIDIA's MIG Manager acts on a change of the label's value only.
pub(super) fn mig_label(node: &PlannedNode, text: &str) -> String {
    let product = node.gpus.first().map_or("gpu", |g| g.product.as_str());
    named_by_content(&format!("tesela-{product}"), text)
}

/// A whole mig-parted document of our labels.
pub(super) fn mig_document(labels: &BTreeMap<String, String>) -> String {
    let mut text = "version: v1\nmig-configs:\n".to_owned();
    for (label, entries) in labels {
        let _ = writeln!(text, "  {label}:");
        for line in entries.lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

/// How the device plugin of a node must offer its devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sharing {
    /// How MIG devices are named.
    pub(super) strategy: MigStrategy,
    /// Whether MPS shares the devices; else they take turns.
    pub(super) mps: bool,
    /// Whether shares carry `.shared`.
    pub(super) renamed: bool,
    /// Replicas by the resource's name before sharing; at least 2 each.
    pub(super) replicas: BTreeMap<String, u32>,
}

/// What a node offers to pods, and how its plugin must be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    /// Units by resource name, as in the node's allocatable.
    pub(super) allocatable: BTreeMap<String, u64>,
    /// The plugin's side.
    pub(super) sharing: Sharing,
}

const OWN_NODES: &str = "give each way of sharing nodes of its own, then plan again";

/// What a node offers under the plan. `renamed`: whether shares carry `.shared`.
///
/// # Errors
/// When the device plugin's config cannot say it: it shares all devices of one name alike, MPS or time slices.
pub(super) fn offer(node: &PlannedNode, name: &str, renamed: bool) -> Result<Offer, RenderError> {
    let mut allocatable = BTreeMap::new();
    let mut replicas_of: BTreeMap<GpuResource, Option<u32>> = BTreeMap::new();
    let mut modes = Vec::new();
    let not = |what: String| RenderError::NotExpressible { node: name.to_owned(), what, fix: OWN_NODES };
    for (base, replicas, mode) in devices(node, name)? {
        if replicas.is_some() && !modes.contains(&mode) {
            modes.push(mode);
        }
        match replicas_of.get(&base) {
            Some(other) if *other != replicas => {
                let shares = |r: &Option<u32>| r.map_or("whole".to_owned(), |r| format!("in {r} shares"));
                let what = format!(
                    "offers `{base}` both {} and {}; NVIDIA's device plugin shares all devices of a name alike",
                    shares(other),
                    shares(&replicas)
                );
                return Err(not(what));
            }
            _ => {}
        }
        replicas_of.insert(base.clone(), replicas);
        let resource = if replicas.is_some() && renamed { base.renamed() } else { base };
        *allocatable.entry(resource.to_string()).or_insert(0) += u64::from(replicas.unwrap_or(1));
    }
    let mps = modes.contains(&Mode::Mps);
    if mps && modes.len() > 1 {
        return Err(not(
            "uses both MPS and time slices; NVIDIA's device plugin then ignores the time slices".into(),
        ));
    }
    let has_mig = node.gpus.iter().any(|g| g.mode == Mode::Mig);
    if mps && has_mig {
        return Err(not("uses both MPS and MIG; NVIDIA's device plugin refuses to start then".into()));
    }
    let strategy = if mps { MigStrategy::None } else { node.mig_strategy };
    let replicas = replicas_of.into_iter().filter_map(|(k, r)| r.map(|r| (k.to_string(), r))).collect();
    Ok(Offer { allocatable, sharing: Sharing { strategy, mps, renamed, replicas } })
}

/// Every device of a node: its name before sharing, its replicas, its mode.
fn devices(node: &PlannedNode, name: &str) -> Result<Vec<(GpuResource, Option<u32>, Mode)>, RenderError> {
    let contradiction = |what: String| RenderError::Contradiction { what: format!("node {name}: {what}") };
    let mut devices = Vec::new();
    for gpu in &node.gpus {
        match (gpu.mode, gpu.replicas) {
            (Mode::Exclusive, None) => devices.push((GpuResource::gpu(), None, Mode::Exclusive)),
            (Mode::TimeSliced | Mode::Mps, Some(replicas)) if replicas >= 2 => {
                devices.push((GpuResource::gpu(), Some(replicas), gpu.mode));
            }
            (Mode::Mig, None) => {
                for instance in &gpu.instances {
                    let base = match node.mig_strategy {
                        MigStrategy::Single => GpuResource::gpu(),
                        MigStrategy::Mixed => GpuResource::mig(instance.profile.clone()),
                        MigStrategy::None => {
                            return Err(contradiction("has instances and the MIG strategy `none`".into()));
                        }
                    };
                    if instance.replicas.is_some_and(|r| r < 2) {
                        return Err(contradiction("an instance has fewer than 2 replicas".into()));
                    }
                    devices.push((base, instance.replicas, Mode::TimeSliced));
                }
            }
            (mode, replicas) => {
                let replicas = replicas.map_or("null".to_owned(), |r| r.to_string());
                return Err(contradiction(format!("a GPU is {mode} with replicas {replicas}")));
            }
        }
    }
    Ok(devices)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PluginConfig {
    version: &'static str,
    flags: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sharing: Option<SharingConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    imex: Option<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SharingConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    time_slicing: Option<Replicated>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mps: Option<Replicated>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Replicated {
    rename_by_default: bool,
    fail_requests_greater_than_one: bool,
    resources: Vec<ReplicatedResource>,
}

#[derive(Serialize)]
struct ReplicatedResource {
    name: String,
    replicas: u32,
}

/// The name and text of a device plugin entry. `base`: the entry that the node has today; its flags stay, apart
/// from the MIG strategy.
pub(super) fn plugin_entry(
    sharing: &Sharing,
    base: Option<&Map<String, Value>>,
) -> Result<(String, String), RenderError> {
    let mut flags = match base.and_then(|b| b.get("flags")) {
        Some(Value::Object(flags)) => flags.clone(),
        _ => Map::new(),
    };
    let strategy = match sharing.strategy {
        MigStrategy::None => "none",
        MigStrategy::Single => "single",
        MigStrategy::Mixed => "mixed",
    };
    flags.insert("migStrategy".to_owned(), Value::from(strategy));
    if sharing.mps {
        // Without a root the plugin ends at its start; where the DaemonSet sets MPS_ROOT, that wins.
        flags.entry("mpsRoot").or_insert_with(|| Value::from("/run/nvidia/mps"));
    }
    let mut stem = format!("tesela-mig-{strategy}");
    let replicated = (!sharing.replicas.is_empty()).then(|| Replicated {
        rename_by_default: sharing.renamed,
        fail_requests_greater_than_one: true,
        resources: sharing
            .replicas
            .iter()
            .map(|(name, replicas)| ReplicatedResource { name: name.clone(), replicas: *replicas })
            .collect(),
    });
    let sharing = replicated.map(|replicated| {
        let most = replicated.resources.iter().map(|r| r.replicas).max().unwrap_or_default();
        stem = format!("tesela-{}-{most}-mig-{strategy}", if sharing.mps { "mps" } else { "timesliced" });
        if sharing.mps {
            SharingConfig { time_slicing: None, mps: Some(replicated) }
        } else {
            SharingConfig { time_slicing: Some(replicated), mps: None }
        }
    });
    let imex = base.and_then(|b| b.get("imex")).cloned();
    let text = yaml("device plugin config", &PluginConfig { version: "v1", flags, sharing, imex })?;
    Ok((named_by_content(&stem, &text), text))
}
