//! What series say of pods and devices, added up. Of the samples only figures are kept, and who worked when by workload.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use tesela_model::demand::PodRef;
use tesela_model::quantity::Mib;
use tesela_model::usage::{Metric, Sample, UsageSeries};

use super::collect::Ground;
use super::hold::Hold;
use super::together::Together;
use super::{ACTIVE_PPM, FEW_SAMPLES, RESERVED_FLAT_PERCENT, RESERVED_SHARE_PERCENT, SHORT_MS};

/// Pods and devices that the cluster does not have, counted one by one; beyond, only that there are more.
const STRANGERS: usize = 100_000;
/// Names of clusters kept for a message.
const CLUSTERS: usize = 24;

/// What a pod or a device used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Use {
    /// Most memory in use, KiB.
    used: Option<u64>,
    /// Least memory free, KiB.
    free: Option<u64>,
    /// Memory in all, KiB.
    total: Option<u64>,
    /// Sum and number of the samples of memory in use, KiB.
    used_sum: (u64, u64),
    /// The same of memory free.
    free_sum: (u64, u64),
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
        let (sum, count) = (values().fold(0, u64::saturating_add), samples.len() as u64);
        let add = |to: &mut (u64, u64)| *to = (to.0.saturating_add(sum), to.1 + count);
        match metric {
            Metric::MemoryUsed => {
                self.used = self.used.max(values().max());
                add(&mut self.used_sum);
            }
            Metric::MemoryFree => {
                self.free = self.free.into_iter().chain(values()).min();
                add(&mut self.free_sum);
            }
            Metric::MemoryTotal => self.total = self.total.max(values().max()),
            _ => {
                let stat = self.stats.entry(metric).or_default();
                stat.samples += count;
                stat.sum = stat.sum.saturating_add(sum);
                stat.active += values().filter(|value| *value > ACTIVE_PPM).count() as u64;
            }
        }
        let times = || samples.iter().map(|s| s.at_ms);
        self.widen(times().min().zip(times().max()));
        self.samples = self.samples.max(count);
    }

    fn widen(&mut self, span: Option<(i64, i64)>) {
        self.span = match (self.span, span) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
    }

    fn absorb(&mut self, other: Self) {
        self.used = self.used.max(other.used);
        self.free = self.free.into_iter().chain(other.free).min();
        self.total = self.total.max(other.total);
        let add = |a: (u64, u64), b: (u64, u64)| (a.0.saturating_add(b.0), a.1 + b.1);
        self.used_sum = add(self.used_sum, other.used_sum);
        self.free_sum = add(self.free_sum, other.free_sum);
        for (metric, stat) in other.stats {
            let mine = self.stats.entry(metric).or_default();
            mine.samples += stat.samples;
            mine.sum = mine.sum.saturating_add(stat.sum);
            mine.active += stat.active;
        }
        self.widen(other.span);
        self.samples = self.samples.max(other.samples);
    }

    /// Most memory in use: as measured, else what was not free.
    pub(super) fn peak(&self) -> Option<Mib> {
        let not_free = || Some(self.total?.saturating_sub(self.free?));
        self.used.or_else(not_free).map(|kib| Mib(kib.div_ceil(1024)))
    }

    /// Whether memory looks like a reservation: nearly all of the device, and nearly as much in the mean as at the
    /// peak. The mean and not the least, so that the minutes in which a server starts do not hide it.
    pub(super) fn looks_reserved(&self, device: Option<Mib>) -> bool {
        let mean = |(sum, count): (u64, u64)| (count > 0).then(|| sum / count);
        let used = || Some((self.used?, mean(self.used_sum)?, self.used_sum.1));
        let not_free = || {
            let of = |free: u64| Some(self.total?.saturating_sub(free));
            Some((of(self.free?)?, of(mean(self.free_sum)?)?, self.free_sum.1))
        };
        let Some((peak, mean, count)) = used().or_else(not_free) else { return false };
        let Some(device) = device.map(|mib| mib.0.saturating_mul(1024)).or(self.total) else { return false };
        let part = |of: u64, percent: u64| u128::from(of) * u128::from(percent);
        let long = self.span.is_some_and(|(first, last)| last - first >= SHORT_MS);
        let flat = u128::from(mean) * 100 >= part(peak, RESERVED_FLAT_PERCENT);
        let large = u128::from(peak) * 100 >= part(device, RESERVED_SHARE_PERCENT);
        (count >= FEW_SAMPLES || long) && flat && large && peak > 0
    }
}

/// A GPU, or an instance of one: node, GPU, instance.
pub(super) type Device = (String, String, String);

/// The node that the pods of a name's series are on; `None` = they are on several.
type Standing = Option<String>;

/// All that a group of series says.
#[derive(Debug, Default)]
pub(super) struct Heap {
    pub(super) pods: BTreeMap<PodRef, Use>,
    /// Devices of which the series name no pod, or that pods share.
    pub(super) devices: BTreeMap<Device, Use>,
    /// Pods that hold no GPU in the input.
    pub(super) strangers: BTreeSet<PodRef>,
    /// Pods of which samples are of a pod of the same name that ran before, or on another node.
    pub(super) namesakes: BTreeSet<PodRef>,
    /// Devices of which samples are from before the pods that hold their node: node and GPU.
    pub(super) devices_cut: BTreeSet<(String, String)>,
    /// Series of pods whose node is not known.
    pub(super) unplaced: u64,
    /// Series of pods that share their device.
    pub(super) shared: u64,
    /// All series.
    pub(super) series: u64,
    pub(super) together: Together,
    /// Clusters that series name.
    pub(super) clusters: BTreeSet<String>,
    /// Names in place of a node's.
    pub(super) names: BTreeMap<String, Standing>,
}

impl Heap {
    /// Takes a series. `node` = the node of the input that its labels name.
    pub(super) fn take(&mut self, ground: &Ground<'_>, series: &UsageSeries, node: Option<&str>) {
        let UsageSeries { metric, subject, samples } = series;
        self.series += 1;
        if let Some(cluster) = subject.cluster.as_ref().filter(|c| !self.clusters.contains(*c))
            && self.clusters.len() < CLUSTERS
        {
            self.clusters.insert(cluster.clone());
        }
        let device = |node: &str| -> Option<Device> {
            let instance = subject.instance.clone().unwrap_or_default();
            Some((node.to_owned(), subject.gpu.clone()?, instance))
        };
        let label = subject.node.as_deref().unwrap_or_default();
        // Where Prometheus kept its own labels, the series of an idle GPU names the exporter's pod.
        let Some(pod) = subject.pod.as_ref().filter(|pod| !pod.name.contains("dcgm-exporter")) else {
            self.stand(node, label, None);
            let since = node.and_then(|node| ground.owners.get(node)?.since);
            let device = device(node.unwrap_or(label));
            let samples = since_then(samples, since);
            if let Some((node, gpu, _)) = device.as_ref().filter(|_| samples.len() < series.samples.len()) {
                self.devices_cut.insert((node.clone(), gpu.clone()));
            }
            self.take_device(device, *metric, &samples);
            return;
        };
        let Some(holder) = ground.holders.get(pod) else {
            self.stand(node, label, None);
            remember(&mut self.strangers, pod);
            return;
        };
        let moved = node.is_some_and(|node| !holder.nodes.contains(&node));
        let samples = if moved { Cow::Borrowed(&[][..]) } else { since_then(samples, holder.since) };
        if samples.len() < series.samples.len() {
            remember(&mut self.namesakes, pod);
        }
        if samples.is_empty() {
            return;
        }
        self.stand(node, label, holder.nodes.first().copied());
        match holder.hold {
            Hold::Own(_) => {
                self.pods.entry(pod.clone()).or_default().take(*metric, &samples);
                self.together.take(holder, *metric, &samples);
            }
            Hold::Shared => {
                let node = holder.nodes.first().copied().unwrap_or_default();
                self.shared += 1;
                self.take_device(device(node), *metric, &samples);
            }
            Hold::Unknown => self.unplaced += 1,
        }
    }

    /// Keeps a name that is no node's, with the node of its pods.
    fn stand(&mut self, node: Option<&str>, label: &str, pods: Option<&str>) {
        if node.is_some() || label.is_empty() {
            return;
        }
        if let Some(standing) = self.names.get_mut(label) {
            match (standing.as_deref(), pods) {
                (Some(""), Some(pods)) => *standing = Some(pods.to_owned()),
                (Some(known), Some(pods)) if known != pods => *standing = None,
                _ => {}
            }
        } else if self.names.len() < STRANGERS {
            self.names.insert(label.to_owned(), Some(pods.unwrap_or_default().to_owned()));
        }
    }

    /// Whether one of the names stands for several nodes. An exporter reports the GPUs of its own node only, so that
    /// name is of another cluster.
    pub(super) fn contradicts(&self) -> bool {
        self.names.values().any(Option::is_none)
    }

    fn take_device(&mut self, device: Option<Device>, metric: Metric, samples: &[Sample]) {
        let Some(device) = device.filter(|_| !samples.is_empty()) else { return };
        if self.devices.len() < STRANGERS || self.devices.contains_key(&device) {
            self.devices.entry(device).or_default().take(metric, samples);
        }
    }

    pub(super) fn forget(&mut self, metric: Metric) {
        let all = self.pods.values_mut().chain(self.devices.values_mut());
        all.for_each(|one| one.stats.retain(|known, _| *known != metric));
        self.together.forget(metric);
    }

    /// Adds what other series say.
    pub(super) fn absorb(&mut self, other: Self) {
        for (pod, used) in other.pods {
            self.pods.entry(pod).or_default().absorb(used);
        }
        for (device, used) in other.devices {
            self.devices.entry(device).or_default().absorb(used);
        }
        self.strangers.extend(other.strangers);
        self.namesakes.extend(other.namesakes);
        self.devices_cut.extend(other.devices_cut);
        self.clusters.extend(other.clusters);
        self.unplaced += other.unplaced;
        self.shared += other.shared;
        self.series += other.series;
        self.together.absorb(other.together);
    }
}

fn remember(pods: &mut BTreeSet<PodRef>, pod: &PodRef) {
    if pods.len() < STRANGERS && !pods.contains(pod) {
        pods.insert(pod.clone());
    }
}

/// Samples from a time on.
fn since_then(samples: &[Sample], since: Option<i64>) -> Cow<'_, [Sample]> {
    match since {
        Some(since) if samples.iter().any(|s| s.at_ms < since) => {
            samples.iter().filter(|s| s.at_ms >= since).copied().collect::<Vec<_>>().into()
        }
        _ => samples.into(),
    }
}
