//! A node of the API server → a node with its GPUs, by the counting rules of DESIGN 9 (`today.gpus_by_mode`).

mod count;

use std::collections::BTreeMap;

use tesela_model::fleet::{Node, Offer, Taint};
use tesela_model::label;
use tesela_model::product::ProductTable;
use tesela_model::quantity::{Bytes, MilliCpu};
use tesela_model::resource::GpuResource;

use self::count::{Counted, count};
use super::cut::Cutter;
use super::finding::Draft;
use super::wire::{Metadata, NodeSpec, NodeStatus, ResourceList};

/// GPU feature discovery: whether a PCI scan found a vGPU.
const VGPU_PRESENT: &str = "nvidia.com/vgpu.present";
/// The GPU Operator's switch that takes all its parts off a node.
const OPERANDS: &str = "nvidia.com/gpu.deploy.operands";
/// Name of a GPU whose node has no product label.
pub(super) const UNKNOWN: &str = "unknown";
/// More GPUs in one node than any machine has: the label is wrong.
const MOST_GPUS: u64 = 1024;

/// What is kept of a node that may have GPUs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NodeRecord {
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    cordoned: bool,
    /// `None` when the node has no Ready condition.
    ready: Option<bool>,
    capacity: ResourceList,
    allocatable: ResourceList,
}

/// Devices of one resource name on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Offered {
    /// Healthy and unhealthy.
    pub(super) capacity: u64,
    /// Healthy.
    pub(super) allocatable: u64,
}

/// A node with GPUs, and what its findings need beside the model.
#[derive(Debug)]
pub(super) struct Observed {
    pub(super) node: Node,
    pub(super) offered: BTreeMap<GpuResource, Offered>,
    pub(super) cordoned: bool,
    pub(super) ready: bool,
}

/// Keeps what matters of a node; `None` when nothing on it speaks of GPUs.
pub(super) fn record(metadata: Metadata, spec: NodeSpec, status: NodeStatus) -> Option<NodeRecord> {
    let labels = metadata.labels;
    let set = |key: &str| labels.get(key).map(String::as_str);
    let labelled = [label::GPU_PRODUCT, label::GPU_COUNT].iter().any(|key| set(key).is_some())
        || set(label::GPU_PRESENT) == Some("true")
        || set(VGPU_PRESENT) == Some("true")
        || set(label::WORKLOAD_CONFIG).is_some_and(|w| w.starts_with("vm-"));
    if !labelled && status.capacity.gpus.is_empty() && status.allocatable.gpus.is_empty() {
        return None;
    }
    let mut taints = spec.taints.into_iter().map(|t| Taint { key: t.key, value: t.value, effect: t.effect });
    let mut taints = taints.by_ref().collect::<Vec<_>>();
    taints.sort();
    Some(NodeRecord {
        labels,
        taints,
        cordoned: spec.unschedulable,
        ready: status.conditions.iter().find(|c| c.kind == "Ready").map(|c| c.status == "True"),
        capacity: status.capacity,
        allocatable: status.allocatable,
    })
}

impl NodeRecord {
    /// GPU resource names the node knows, counts of zero included.
    pub(super) fn names(&self) -> impl Iterator<Item = &GpuResource> {
        self.capacity.gpus.keys().chain(self.allocatable.gpus.keys())
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str).filter(|v| !v.is_empty())
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.text(key)?.parse().ok()
    }

    /// Where one of the two lists names no GPU at all, the other speaks for both.
    fn offered(&self) -> BTreeMap<GpuResource, Offered> {
        let (capacity, allocatable) = match (self.capacity.gpus.is_empty(), self.allocatable.gpus.is_empty())
        {
            (true, false) => (&self.allocatable.gpus, &self.allocatable.gpus),
            (false, true) => (&self.capacity.gpus, &self.capacity.gpus),
            _ => (&self.capacity.gpus, &self.allocatable.gpus),
        };
        let mut offered = BTreeMap::<GpuResource, Offered>::new();
        for (name, amount) in capacity {
            offered.entry(name.clone()).or_default().capacity = *amount;
        }
        for (name, amount) in allocatable {
            let entry = offered.entry(name.clone()).or_default();
            entry.allocatable = *amount;
            entry.capacity = entry.capacity.max(*amount);
        }
        offered
    }

    fn is_gpu_node(&self, offered: &BTreeMap<GpuResource, Offered>) -> bool {
        // A name left at zero without any label is what a plugin that has gone leaves behind.
        offered.values().any(|o| o.capacity > 0)
            || self.text(label::GPU_PRODUCT).is_some()
            || self.number(label::GPU_COUNT).is_some_and(|n| n > 0)
            || self.text(label::GPU_PRESENT) == Some("true")
            || self.text(VGPU_PRESENT) == Some("true")
            || self.text(label::WORKLOAD_CONFIG).is_some_and(|w| w.starts_with("vm-"))
    }

    fn is_operator_managed(&self) -> bool {
        self.text(OPERANDS) != Some("false")
            && (self
                .labels
                .iter()
                .any(|(k, v)| k.starts_with(label::DEPLOY_PREFIX) && k != OPERANDS && !v.is_empty())
                || self.text(label::MIG_CONFIG_STATE).is_some())
    }

    fn virtual_gpus(&self) -> Option<String> {
        match self.text(label::WORKLOAD_CONFIG) {
            Some("vm-passthrough") => Some(format!(
                "its GPUs go to virtual machines whole ({}=vm-passthrough)",
                label::WORKLOAD_CONFIG
            )),
            Some("vm-vgpu") => {
                Some(format!("its GPUs go to virtual machines as vGPUs ({}=vm-vgpu)", label::WORKLOAD_CONFIG))
            }
            _ => (self.text(VGPU_PRESENT) == Some("true"))
                .then(|| format!("its GPUs are vGPUs of a hypervisor ({VGPU_PRESENT}=true)")),
        }
    }
}

/// Reads the GPUs of a node. `None` when it has none.
pub(super) fn observe(
    name: &str,
    record: NodeRecord,
    table: &ProductTable,
    cutter: &mut Cutter,
    drafts: &mut Vec<Draft>,
) -> Option<Observed> {
    let offered = record.offered();
    if !record.is_gpu_node(&offered) {
        return None;
    }
    let Counted { gpus, allocatable, strategy, unusable } =
        count(name, &record, &offered, table, cutter, drafts);
    let renamed = offered.iter().any(|(r, o)| r.shared && o.capacity > 0);
    let ready = record.ready.unwrap_or(true);
    // A MIG GPU without instances has nothing to offer and is well; anything else should offer something.
    let empty_mig =
        gpus.iter().all(|g| matches!(&g.offer, Offer::Mig { instances, .. } if instances.is_empty()));
    let silent = !empty_mig && offered.values().all(|o| o.allocatable == 0);
    let operator = record.is_operator_managed();
    let node = Node {
        name: name.to_owned(),
        taints: record.taints,
        schedulable: ready && !record.cordoned && !silent,
        cpu: record.allocatable.cpu.or(record.capacity.cpu),
        memory: record.allocatable.memory.or(record.capacity.memory),
        cpu_taken: MilliCpu(0),
        memory_taken: Bytes(0),
        pods: record.allocatable.pods.or(record.capacity.pods),
        pods_taken: 0,
        gpus,
        allocatable,
        mig_strategy: strategy,
        shares_renamed: renamed,
        held_by_others: Vec::new(),
        operator,
        unusable,
        labels: record.labels,
    };
    Some(Observed { node, offered, cordoned: record.cordoned, ready })
}
