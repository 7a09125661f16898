//! How pods hold their devices, and the nodes that one workload holds whole.

use std::collections::BTreeMap;

use tesela_model::demand::WorkloadKey;
use tesela_model::fleet::{MigStrategy, Node, Offer};
use tesela_model::quantity::Mib;
use tesela_model::resource::{GpuDevice, GpuResource};

use super::collect::Scene;

/// A GPU or an instance, as evidence needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Device {
    /// Its memory, where known.
    pub(super) memory: Option<Mib>,
    /// Which part of its GPU's compute it has, in thousandths.
    pub(super) part: u64,
}

/// How a pod holds its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// Alone.
    Own(Device),
    /// With others.
    Shared,
    /// Its node is not known.
    Unknown,
}

impl Hold {
    /// The same hold in several lives: of devices alone the larger, since each life fitted into its own.
    pub(super) fn joined(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Own(a), Self::Own(b)) => Some(Self::Own(Device {
                memory: a.memory.zip(b.memory).map(|(a, b)| a.max(b)),
                part: a.part.max(b.part),
            })),
            (a, b) => (a == b).then_some(a),
        }
    }
}

/// A workload that holds every GPU of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner<'a> {
    pub(super) workload: &'a WorkloadKey,
    /// One of the GPUs.
    pub(super) gpu: Device,
    /// When the last of its pods there started; before, the GPUs may have been another's.
    pub(super) since: Option<i64>,
    /// Whether all its pods there fail.
    pub(super) failing: bool,
}

/// Nodes whose GPUs are all held whole by one workload.
pub(super) fn whole_nodes<'a>(scene: &Scene<'a>) -> BTreeMap<&'a str, Owner<'a>> {
    let mut held = BTreeMap::<&str, (&WorkloadKey, u64, bool)>::new();
    for workload in &scene.demand.workloads {
        for holding in &workload.running {
            let devices = u64::from(holding.devices).saturating_mul(holding.pods.len() as u64);
            let entry = held.entry(&holding.node).or_insert((&workload.key, 0, true));
            entry.1 = entry.1.saturating_add(devices);
            entry.2 &= *entry.0 == workload.key;
        }
    }
    let mut nodes = BTreeMap::new();
    for node in &scene.fleet.nodes {
        let Some(&(workload, devices, alone)) = held.get(node.name.as_str()) else { continue };
        let whole = node.gpus.iter().all(|g| g.offer == Offer::Exclusive);
        if alone && whole && node.held_by_others.is_empty() && devices == node.gpus.len() as u64 {
            let gpu = device(scene, node, &GpuResource::gpu());
            let (since, failing) = lives(scene, workload, &node.name);
            nodes.insert(node.name.as_str(), Owner { workload, gpu, since, failing });
        }
    }
    nodes
}

/// When the last pod of a workload on a node started, and whether all of them fail.
fn lives(scene: &Scene<'_>, key: &WorkloadKey, node: &str) -> (Option<i64>, bool) {
    let of = scene.demand.workloads.iter().filter(|w| w.key == *key).flat_map(|w| &w.running);
    let pods = of.filter(|held| held.node == node).flat_map(|held| &held.pods);
    let lives = pods.map(|pod| scene.lives.get(pod).copied().unwrap_or_default()).collect::<Vec<_>>();
    (lives.iter().filter_map(|l| l.started_ms).max(), lives.iter().all(|l| l.failing))
}

/// How a pod that asks for this name on that node holds its device.
pub(super) fn hold(scene: &Scene<'_>, node: Option<&Node>, resource: &GpuResource) -> Hold {
    let Some(node) = node else { return Hold::Unknown };
    let shared = resource.shared
        || !node.shares_renamed
            && node.gpus.iter().any(|gpu| match (&gpu.offer, &resource.device) {
                (Offer::TimeSliced { .. } | Offer::Mps { .. }, GpuDevice::Gpu) => true,
                (Offer::Mig { replicas, .. }, GpuDevice::Mig(profile)) => replicas.contains_key(profile),
                (Offer::Mig { replicas, .. }, GpuDevice::Gpu) => {
                    node.mig_strategy == MigStrategy::Single && !replicas.is_empty()
                }
                _ => false,
            });
    if shared { Hold::Shared } else { Hold::Own(device(scene, node, resource)) }
}

/// One device of a name on a node; of devices that differ the least memory and the largest part.
fn device(scene: &Scene<'_>, node: &Node, resource: &GpuResource) -> Device {
    let of_gpu = |gpu: &tesela_model::fleet::Gpu| -> Option<Device> {
        let product = scene.products.look_up(&gpu.product);
        let profile = match (&resource.device, &gpu.offer) {
            (GpuDevice::Gpu, Offer::Mig { instances, .. }) if node.mig_strategy == MigStrategy::Single => {
                instances.first().map(|i| i.profile.clone())
            }
            (GpuDevice::Gpu, Offer::Mig { .. }) => return None,
            (GpuDevice::Gpu, _) => None,
            (GpuDevice::Mig(profile), Offer::Mig { .. }) => Some(profile.clone()),
            (GpuDevice::Mig(_), _) => return None,
        };
        match profile {
            Some(profile) => {
                let (product, profile) = (product?, product?.profile(profile.as_str()).ok()?);
                let part = u64::from(profile.compute_slices) * 1000;
                let part = part.div_ceil(u64::from(product.compute_slices.max(1)));
                Some(Device { memory: profile.memory, part })
            }
            // The table's figure and the node's label may differ; the plan must fit both.
            None => {
                let memory = product.and_then(|p| p.memory).into_iter().chain(gpu.memory).min();
                Some(Device { memory, part: 1000 })
            }
        }
    };
    let all = || node.gpus.iter().filter_map(of_gpu);
    Device { memory: all().filter_map(|d| d.memory).min(), part: all().map(|d| d.part).max().unwrap_or(1000) }
}
