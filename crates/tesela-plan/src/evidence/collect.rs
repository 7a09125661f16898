//! Series, one after the other, → what each pod and each device used. Of the samples only figures are kept, and who
//! worked when by workload.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::demand::{Demand, PodRef, WorkloadKey};
use tesela_model::fleet::{Fleet, MigStrategy, Node, Offer};
use tesela_model::product::ProductTable;
use tesela_model::quantity::Mib;
use tesela_model::resource::{GpuDevice, GpuResource};
use tesela_model::server::Server;
use tesela_model::usage::{Metric, Sample, UsageSeries};

use super::together::Together;
use super::{ACTIVE_PPM, Evidence};
use crate::input::Settings;

/// Pods and devices that the cluster does not have, counted one by one; beyond, only that there are more.
const STRANGERS: usize = 100_000;

/// What the evidence is about.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// Workloads with what their pods hold.
    pub demand: &'a Demand,
    /// Nodes, and how their GPUs are offered.
    pub fleet: &'a Fleet,
    /// Memory of devices.
    pub products: &'a ProductTable,
    /// Workloads that run a server which reserves memory.
    pub servers: &'a BTreeMap<WorkloadKey, Server>,
}

/// What a pod or a device used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Use {
    /// Most memory in use, KiB.
    used: Option<u64>,
    /// Least memory free, KiB.
    free: Option<u64>,
    /// Memory in all, KiB.
    total: Option<u64>,
    pub(super) stats: BTreeMap<Metric, Stat>,
    /// First and last sample.
    pub(super) span: Option<(i64, i64)>,
    /// Samples of the longest series.
    pub(super) samples: u64,
}

/// Activity of one metric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) samples: u64,
    /// Millionths.
    pub(super) sum: u64,
    /// Samples above [`ACTIVE_PPM`].
    pub(super) active: u64,
}

impl Use {
    fn take(&mut self, metric: Metric, samples: &[Sample]) {
        let values = || samples.iter().map(|s| s.value);
        match metric {
            Metric::MemoryUsed => self.used = self.used.max(values().max()),
            Metric::MemoryFree => self.free = self.free.into_iter().chain(values()).min(),
            Metric::MemoryTotal => self.total = self.total.max(values().max()),
            _ => {
                let stat = self.stats.entry(metric).or_default();
                for value in values() {
                    stat.samples += 1;
                    stat.sum = stat.sum.saturating_add(value);
                    stat.active += u64::from(value > ACTIVE_PPM);
                }
            }
        }
        for sample in samples {
            let (first, last) = self.span.unwrap_or((sample.at_ms, sample.at_ms));
            self.span = Some((first.min(sample.at_ms), last.max(sample.at_ms)));
        }
        self.samples = self.samples.max(samples.len() as u64);
    }

    /// Most memory in use: as measured, else what was not free.
    pub(super) fn peak(&self) -> Option<Mib> {
        let not_free = || Some(self.total?.saturating_sub(self.free?));
        self.used.or_else(not_free).map(|kib| Mib(kib.div_ceil(1024)))
    }
}

/// How a pod holds its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// Alone; with the device's memory, where known.
    Own(Option<Mib>),
    /// With others.
    Shared,
    /// Its node is not known.
    Unknown,
}

#[derive(Clone, Debug)]
pub(super) struct Holder<'a> {
    pub(super) workload: &'a WorkloadKey,
    pub(super) hold: Hold,
    node: &'a str,
}

/// A GPU, or an instance of one: node, GPU, instance.
type Device = (String, String, String);

/// Takes series one by one.
#[derive(Debug)]
pub struct Collector<'a> {
    pub(super) scene: Scene<'a>,
    nodes: BTreeMap<&'a str, &'a Node>,
    pub(super) holders: BTreeMap<PodRef, Holder<'a>>,
    pub(super) pods: BTreeMap<PodRef, Use>,
    /// Devices of which the series name no pod, or that pods share.
    pub(super) devices: BTreeMap<Device, Use>,
    pub(super) strangers: BTreeSet<PodRef>,
    /// Series of pods whose node is not known.
    pub(super) unplaced: u64,
    /// Series of pods that share their device.
    pub(super) shared: u64,
    pub(super) together: Together,
}

impl<'a> Collector<'a> {
    /// Knows the pods that run.
    #[must_use]
    pub fn new(scene: Scene<'a>) -> Self {
        let nodes = scene.fleet.nodes.iter().map(|n| (n.name.as_str(), n)).collect::<BTreeMap<_, _>>();
        let mut holders = BTreeMap::new();
        for workload in &scene.demand.workloads {
            for held in &workload.running {
                let hold = hold(&scene, nodes.get(held.node.as_str()).copied(), &held.resource);
                for pod in &held.pods {
                    let holder = Holder { workload: &workload.key, hold, node: &held.node };
                    holders.insert(pod.clone(), holder);
                }
            }
        }
        let (pods, devices, strangers) = Default::default();
        Self {
            scene,
            nodes,
            holders,
            pods,
            devices,
            strangers,
            unplaced: 0,
            shared: 0,
            together: Together::default(),
        }
    }

    /// Knows a pod that ran before and may be gone; `node` and `resource` are what it held.
    pub fn earlier(
        &mut self,
        pod: &PodRef,
        workload: &'a WorkloadKey,
        node: &'a str,
        resource: &GpuResource,
    ) {
        let hold = hold(&self.scene, self.nodes.get(node).copied(), resource);
        self.holders.entry(pod.clone()).or_insert(Holder { workload, hold, node });
    }

    /// Takes a series.
    pub fn take(&mut self, series: &UsageSeries) {
        let UsageSeries { metric, subject, samples } = series;
        // Where Prometheus kept its own labels, the series of an idle GPU names the exporter's pod.
        let pod = subject.pod.as_ref().filter(|pod| !pod.name.contains("dcgm-exporter"));
        let device = |node: &str| -> Option<Device> {
            let instance = subject.instance.clone().unwrap_or_default();
            Some((node.to_owned(), subject.gpu.clone()?, instance))
        };
        let Some(pod) = pod else {
            let node = subject.node.as_deref().unwrap_or_default();
            self.take_device(device(node), *metric, samples);
            return;
        };
        let Some(holder) = self.holders.get(pod) else {
            if self.strangers.len() < STRANGERS {
                self.strangers.insert(pod.clone());
            }
            return;
        };
        match holder.hold {
            Hold::Own(_) => {
                self.pods.entry(pod.clone()).or_default().take(*metric, samples);
                self.together.take(holder.workload, *metric, samples);
            }
            Hold::Shared => {
                let node = holder.node.to_owned();
                self.shared += 1;
                self.take_device(device(&node), *metric, samples);
            }
            Hold::Unknown => self.unplaced += 1,
        }
    }

    fn take_device(&mut self, device: Option<Device>, metric: Metric, samples: &[Sample]) {
        let Some(device) = device else { return };
        if self.devices.len() < STRANGERS || self.devices.contains_key(&device) {
            self.devices.entry(device).or_default().take(metric, samples);
        }
    }

    /// Puts together what was measured. `util_may_be_ratio` = `DCGM_FI_DEV_GPU_UTIL` cannot be trusted.
    #[must_use]
    pub fn finish(mut self, settings: &Settings, util_may_be_ratio: bool) -> Evidence {
        if util_may_be_ratio {
            let all = self.pods.values_mut().chain(self.devices.values_mut());
            all.for_each(|one| one.stats.retain(|metric, _| *metric != Metric::GpuUtil));
            self.together.forget(Metric::GpuUtil);
        }
        self.give_whole_nodes();
        let measured = super::need::measured(&self, settings);
        let (findings, assumptions) = super::words::told(&self, &measured, settings);
        let activity = self.together.activity(self.scene.demand);
        Evidence { measured, findings, assumptions, activity }
    }

    /// Devices without a pod's name, on a node whose GPUs are all held whole by pods of one workload, are that
    /// workload's: each stands for one of its pods.
    fn give_whole_nodes(&mut self) {
        let owners = whole_nodes(&self.scene);
        let named =
            |(pod, holder): (&PodRef, &Holder<'a>)| self.pods.contains_key(pod).then_some(holder.workload);
        let measured = self.holders.iter().filter_map(named).collect::<BTreeSet<_>>();
        let devices = std::mem::take(&mut self.devices);
        for (device, used) in devices {
            let (node, gpu, instance) = &device;
            let owner = owners.get(node.as_str()).filter(|_| instance.is_empty());
            let Some(&(key, memory)) = owner.filter(|(key, _)| !measured.contains(key)) else {
                self.devices.insert(device, used);
                continue;
            };
            // A name that no pod can have, so that it meets none.
            let pod = PodRef { namespace: key.namespace.clone(), name: format!("{node}/{gpu}") };
            self.holders.insert(pod.clone(), Holder { workload: key, hold: Hold::Own(memory), node: "" });
            self.pods.insert(pod, used);
        }
    }
}

/// Nodes whose GPUs are all held whole by one workload, with that workload and the memory of a GPU.
fn whole_nodes<'a>(scene: &Scene<'a>) -> BTreeMap<&'a str, (&'a WorkloadKey, Option<Mib>)> {
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
        let Some(&(key, devices, alone)) = held.get(node.name.as_str()) else { continue };
        let whole = node.gpus.iter().all(|g| g.offer == Offer::Exclusive);
        if alone && whole && node.held_by_others.is_empty() && devices == node.gpus.len() as u64 {
            let memory = memory(scene, node, &GpuResource::gpu());
            nodes.insert(node.name.as_str(), (key, memory));
        }
    }
    nodes
}

/// How a pod that asks for this name on that node holds its device.
fn hold(scene: &Scene<'_>, node: Option<&Node>, resource: &GpuResource) -> Hold {
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
    if shared { Hold::Shared } else { Hold::Own(memory(scene, node, resource)) }
}

/// Memory of one device of a name on a node; the least, where devices differ.
fn memory(scene: &Scene<'_>, node: &Node, resource: &GpuResource) -> Option<Mib> {
    let of_gpu = |gpu: &tesela_model::fleet::Gpu| -> Option<Mib> {
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
            Some(profile) => product?.profile(profile.as_str()).ok()?.memory,
            // The table's figure and the node's label may differ; the plan must fit both.
            None => product.and_then(|p| p.memory).into_iter().chain(gpu.memory).min(),
        }
    };
    node.gpus.iter().filter_map(of_gpu).min()
}
