//! Use of pods → need and duty of their workloads.

use std::collections::BTreeMap;

use tesela_model::demand::{Duty, WorkloadKey};
use tesela_model::quantity::Mib;
use tesela_model::usage::Metric;

use super::collect::Collector;
use super::heap::Use;
use super::hold::Hold;
use super::{COMPUTE_PERCENT, FEW_SAMPLES, Measured, RESERVE_LEAST, RESERVE_PERCENT, Unread};
use crate::input::Settings;

/// A pod that was measured.
struct Pod<'a> {
    used: &'a Use,
    /// Memory of its device.
    memory: Option<Mib>,
    /// Part of a GPU's compute that its device has, in thousandths.
    part: u64,
    failing: bool,
}

pub(super) fn measured(all: &Collector<'_>, settings: &Settings) -> BTreeMap<WorkloadKey, Measured> {
    let mut pods = BTreeMap::<&WorkloadKey, Vec<Pod<'_>>>::new();
    for (name, used) in &all.own.pods {
        if let Some(holder) = all.ground.holders.get(name)
            && let Hold::Own(device) = holder.hold
        {
            let pod = Pod { used, memory: device.memory, part: device.part, failing: holder.failing };
            pods.entry(holder.workload).or_default().push(pod);
        }
    }
    let one = |(key, pods): (&WorkloadKey, Vec<Pod<'_>>)| {
        let reserves = all.scene.servers.contains_key(key);
        (key.clone(), workload(&pods, reserves, settings))
    };
    pods.into_iter().map(one).collect()
}

/// Why need and duty cannot be read from these pods.
fn unread(pods: &[Pod<'_>], peak: Option<Mib>, reserves: bool, settings: &Settings) -> Option<Unread> {
    if pods.iter().all(|pod| pod.failing) {
        return Some(Unread::Failing);
    }
    if peak.is_some_and(|peak| peak < settings.context_overhead) {
        return Some(Unread::NothingLoaded);
    }
    let looks = !reserves && pods.iter().any(|pod| pod.used.looks_reserved(pod.memory));
    looks.then_some(Unread::LooksReserved)
}

fn workload(pods: &[Pod<'_>], reserves: bool, settings: &Settings) -> Measured {
    let peaks = || pods.iter().filter_map(|pod| Some((pod.used.peak()?, pod.memory)));
    let peak = peaks().map(|(peak, _)| peak).max();
    let unread = unread(pods, peak, reserves, settings);
    let need = peaks().map(|(peak, memory)| need(peak, memory, settings)).max();
    let need = need.filter(|_| !reserves && unread.is_none());
    let shows_work = !matches!(unread, Some(Unread::Failing | Unread::NothingLoaded));
    let spans = pods.iter().filter_map(|pod| pod.used.span);
    let span = spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let samples = pods.iter().map(|pod| pod.used.samples).max().unwrap_or(0);
    // One metric for all pods, so that they are compared alike.
    let by = Metric::ALL.into_iter().find(|m| pods.iter().any(|pod| pod.used.stats.contains_key(m)));
    let busiest = by.and_then(|by| pods.iter().filter_map(|pod| permille(pod.used, by)).max());
    let duty = busiest.filter(|_| shows_work).map(|busy| {
        let least = if samples < FEW_SAMPLES { settings.assumed_duty_permille } else { 10 };
        let whole = busy.div_ceil(10).saturating_mul(10);
        whole.max(u64::from(least)).min(1000)
    });
    let compute = by.filter(|by| by.is_time() && samples >= FEW_SAMPLES && shows_work).and_then(|by| {
        let busy = |pod: &Pod<'_>| Some((permille(pod.used, by)? * pod.part).div_ceil(1000));
        let most = pods.iter().filter_map(busy).max()?;
        let with_reserve = (most * 100).div_ceil(COMPUTE_PERCENT).div_ceil(10).saturating_mul(10);
        Duty::permille(u16::try_from(with_reserve.min(1000)).ok()?)
    });
    Measured {
        pods: pods.len() as u64,
        peak,
        need,
        unread,
        duty: duty.and_then(|d| Duty::permille(u16::try_from(d).ok()?)),
        compute,
        by,
        span_ms: span.map_or(0, |(first, last)| last - first),
        samples,
    }
}

/// Thousandths of the time with work.
fn permille(used: &Use, by: Metric) -> Option<u64> {
    let stat = used.stats.get(&by)?;
    Some(if by.is_time() {
        stat.sum.div_ceil(stat.samples.max(1)).div_ceil(1000)
    } else {
        (stat.active * 1000).div_ceil(stat.samples.max(1))
    })
}

/// Peak and reserve, at most what the device has, without the context that the plan adds.
pub(super) fn need(peak: Mib, device: Option<Mib>, settings: &Settings) -> Mib {
    let reserve = peak.0.saturating_mul(RESERVE_PERCENT).div_ceil(100).max(RESERVE_LEAST.0);
    let all = peak.0.saturating_add(reserve);
    let all = device.map_or(all, |device| all.min(device.0));
    Mib(all.saturating_sub(settings.context_overhead.0).max(1))
}
