//! Use of pods → need and duty of their workloads.

use std::collections::BTreeMap;

use tesela_model::demand::{Duty, WorkloadKey};
use tesela_model::quantity::Mib;
use tesela_model::usage::Metric;

use super::collect::{Collector, Hold, Use};
use super::{FEW_SAMPLES, Measured, RESERVE_LEAST, RESERVE_PERCENT};
use crate::input::Settings;

pub(super) fn measured(all: &Collector<'_>, settings: &Settings) -> BTreeMap<WorkloadKey, Measured> {
    let mut pods = BTreeMap::<&WorkloadKey, Vec<(&Use, Option<Mib>)>>::new();
    for (name, used) in &all.pods {
        if let Some(holder) = all.holders.get(name)
            && let Hold::Own(memory) = holder.hold
        {
            pods.entry(holder.workload).or_default().push((used, memory));
        }
    }
    let one = |(key, pods): (&WorkloadKey, Vec<(&Use, Option<Mib>)>)| {
        let reserves = all.scene.servers.contains_key(key);
        (key.clone(), workload(&pods, reserves, settings))
    };
    pods.into_iter().map(one).collect()
}

fn workload(pods: &[(&Use, Option<Mib>)], reserves: bool, settings: &Settings) -> Measured {
    let peaks = || pods.iter().filter_map(|(used, memory)| Some((used.peak()?, *memory)));
    let need = peaks().map(|(peak, memory)| need(peak, memory, settings)).max().filter(|_| !reserves);
    let spans = pods.iter().filter_map(|(used, _)| used.span);
    let span = spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let samples = pods.iter().map(|(used, _)| used.samples).max().unwrap_or(0);
    // One metric for all pods, so that they are compared alike.
    let by = Metric::ALL.into_iter().find(|m| pods.iter().any(|(used, _)| used.stats.contains_key(m)));
    let busiest = by.and_then(|by| pods.iter().filter_map(|(used, _)| permille(used, by)).max());
    let duty = busiest.map(|busy| {
        let least = if samples < FEW_SAMPLES { settings.assumed_duty_permille } else { 10 };
        let whole = busy.div_ceil(10).saturating_mul(10);
        whole.max(u64::from(least)).min(1000)
    });
    Measured {
        pods: pods.len() as u64,
        peak: peaks().map(|(peak, _)| peak).max(),
        need,
        duty: duty.and_then(|d| Duty::permille(u16::try_from(d).ok()?)),
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
