//! What is said of the evidence: what is missing in it, what must not be read from it, and what the plan rests on.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::demand::{Workload, WorkloadKey};
use tesela_model::finding::{Finding, Severity};
use tesela_model::origin::Origin;
use tesela_model::plan::Assumption;

use super::collect::Collector;
use super::doubt;
use super::hold::Hold;
use super::{FEW_SAMPLES, Measured, RESERVE_LEAST, RESERVE_PERCENT, SHORT_MS, reserve};
use crate::decide::percent;
use crate::input::Settings;

/// Names listed before it says "and N more".
const LISTED: usize = 3;
/// Subject of findings about all evidence.
const SUBJECT: &str = "Usage/measured";

pub(super) fn told(
    all: &Collector<'_>,
    measured: &BTreeMap<WorkloadKey, Measured>,
    settings: &Settings,
) -> (Vec<Finding>, Vec<Assumption>) {
    let mut findings = Vec::new();
    findings.extend(idle(all, measured));
    findings.extend(doubt::unread(all, measured, settings));
    findings.extend(servers(all, measured));
    findings.extend(doubt::elsewhere(all));
    findings.extend(doubt::clusters(all));
    findings.extend(doubt::namesakes(all));
    findings.extend(shared(all));
    findings.extend(nobodys(all));
    findings.extend(gone(all));
    findings.extend(unmeasured(all, measured));
    (findings, assumptions(all, measured, settings))
}

pub(super) fn finding(severity: Severity, rule: &str, message: String, fix: &str) -> Finding {
    Finding { severity, rule: rule.into(), subject: SUBJECT.into(), message, fix: fix.into() }
}

/// Devices that the pods of a workload hold.
pub(super) fn held(workload: &Workload) -> u64 {
    workload.running.iter().map(|h| u64::from(h.devices).saturating_mul(h.pods.len() as u64)).sum()
}

/// GPUs that were held for a day or more and never worked.
fn idle(all: &Collector<'_>, measured: &BTreeMap<WorkloadKey, Measured>) -> Vec<Finding> {
    let mut found = Vec::new();
    for workload in &all.scene.demand.workloads {
        let Some(one) = measured.get(&workload.key) else { continue };
        let least = one.duty.is_some_and(|d| d.as_permille() <= 10);
        if !least || one.span_ms < SHORT_MS || held(workload) == 0 {
            continue;
        }
        let devices = counted(held(workload), "device");
        found.push(Finding {
            severity: Severity::Warning,
            rule: "gpu-idle-as-measured".into(),
            subject: workload.key.to_string(),
            message: format!(
                "holds {devices} and worked at most 1 % of the time in the {} that were measured",
                span(one.span_ms)
            ),
            fix: "ask its owner whether it is still needed; else let the plan give it a share".into(),
        });
    }
    found
}

fn servers(all: &Collector<'_>, measured: &BTreeMap<WorkloadKey, Measured>) -> Vec<Finding> {
    let workloads = all.scene.demand.workloads.iter();
    let unknown = workloads.filter(|w| w.gpu_memory.is_none() && w.profile.is_none());
    let served = unknown.filter_map(|w| Some((w, all.scene.servers.get(&w.key)?)));
    // What fails or never loaded anything shows no reservation either.
    let shown = |w: &Workload| measured.get(&w.key).filter(|m| m.unread.is_none());
    served.map(|(w, server)| reserve::finding(w, server, shown(w))).collect()
}

fn shared(all: &Collector<'_>) -> Option<Finding> {
    let nodes: BTreeSet<&str> = all
        .scene
        .demand
        .workloads
        .iter()
        .flat_map(|w| &w.running)
        .filter(|h| h.pods.iter().any(|p| all.ground.holders.get(p).is_some_and(|h| h.hold == Hold::Shared)))
        .map(|h| h.node.as_str())
        .collect();
    let devices = all.own.devices.iter().filter(|((node, ..), _)| nodes.contains(node.as_str()));
    let peaks = devices.filter_map(|((node, gpu, _), used)| Some((used.peak()?, node, gpu)));
    let peaks = peaks.collect::<Vec<_>>();
    let bound = match peaks.iter().max() {
        Some((most, node, gpu)) => format!(" (at most {most}, on {gpu} of {node})"),
        None if all.own.shared > 0 => String::new(),
        None => return None,
    };
    let what = match peaks.len() as u64 {
        0 => format!("{} of pods that share their device are", counted(all.own.shared, "series")),
        n => counted_is(n, "device"),
    };
    let what = if peaks.is_empty() { format!("{what} left out") } else { format!("{what} shared by pods") };
    Some(finding(
        Severity::Info,
        "usage-of-shared-devices",
        format!(
            "{what}: the exporter tells what the device does and not which container did it. Its figures bound the sum of all pods on a device{bound} and are nobody's need"
        ),
        "measure such a pod alone on a device for a day, or write its gpuMemory into a Demand",
    ))
}

/// Devices of which no series names a pod.
fn nobodys(all: &Collector<'_>) -> Option<Finding> {
    let holds = |h: &Hold| matches!(h, Hold::Shared);
    let shared = all.ground.holders.values().filter(|h| holds(&h.hold)).count();
    let devices = all.own.devices.len();
    // On a cluster with shared devices these are told by the finding above.
    if devices == 0 || shared > 0 {
        return None;
    }
    Some(finding(
        Severity::Info,
        "usage-without-pods",
        format!(
            "{} in the answer without a pod's name; whose use that is is not known, unless one workload holds a whole node",
            counted_is(devices as u64, "device")
        ),
        "let the exporter map pods (DCGM_EXPORTER_KUBERNETES=true), and keep pod and namespace in the query",
    ))
}

fn gone(all: &Collector<'_>) -> Option<Finding> {
    let pods = all.own.strangers.len();
    if pods + usize::try_from(all.own.unplaced).unwrap_or(usize::MAX) == 0 {
        return None;
    }
    let names = all.own.strangers.iter().map(|p| format!("{}/{}", p.namespace, p.name)).collect::<Vec<_>>();
    let unplaced = match all.own.unplaced {
        0 => String::new(),
        n => format!("; {} of pods on nodes that the input lacks", counted(n, "series")),
    };
    Some(finding(
        Severity::Info,
        "usage-of-other-pods",
        format!(
            "{} of the answer {} no GPU in the cluster's JSON (ended, replaced, or of another cluster) and {} left out: {}{unplaced}",
            counted(pods as u64, "pod"),
            if pods == 1 { "holds" } else { "hold" },
            if pods == 1 { "is" } else { "are" },
            some_of(&names)
        ),
        "give kubectl snapshots of the same days too: tesela plan monday.json tuesday.json --usage …",
    ))
}

/// Workloads that run and of which nothing was measured, where something was of others.
fn unmeasured(all: &Collector<'_>, measured: &BTreeMap<WorkloadKey, Measured>) -> Option<Finding> {
    let own = |w: &&Workload| {
        let mut pods = w.running.iter().flat_map(|h| &h.pods);
        pods.any(|p| all.ground.holders.get(p).is_some_and(|h| matches!(h.hold, Hold::Own(_))))
    };
    let running = all.scene.demand.workloads.iter().filter(own).collect::<Vec<_>>();
    let lacking = running.iter().filter(|w| !measured.contains_key(&w.key)).collect::<Vec<_>>();
    let names = lacking.iter().map(|w| w.key.to_string()).collect::<Vec<_>>();
    (!lacking.is_empty()).then(|| {
        finding(
            Severity::Info,
            "usage-missing",
            format!(
                "no use was measured of {} of {} that run: {}",
                lacking.len(),
                counted(running.len() as u64, "workload"),
                some_of(&names)
            ),
            "look whether the exporter runs on their nodes, and whether the query keeps their namespaces",
        )
    })
}

/// What the plan rests on: long evidence and short evidence apart.
fn assumptions(
    all: &Collector<'_>,
    measured: &BTreeMap<WorkloadKey, Measured>,
    settings: &Settings,
) -> Vec<Assumption> {
    let taken = |w: &&Workload| {
        measured.get(&w.key).is_some_and(|m| {
            m.need.is_some() && w.gpu_memory.is_none() || m.duty.is_some() && w.duty.is_none()
        })
    };
    let used = all.scene.demand.workloads.iter().filter(taken).filter_map(|w| measured.get(&w.key));
    let (short, long): (Vec<&Measured>, Vec<&Measured>) = used.partition(|m| m.span_ms < SHORT_MS);
    let mut list = Vec::new();
    for (group, what) in [(long, "measured use"), (short, "use measured for less than a day")] {
        let Some(least) = group.iter().map(|m| m.span_ms).min() else { continue };
        let most = group.iter().map(|m| m.span_ms).max().unwrap_or(least);
        let few = group.iter().filter(|m| m.duty.is_some() && m.samples < FEW_SAMPLES).count();
        let over = match (span(least), span(most)) {
            (a, b) if a == b => a,
            (a, b) => format!("{a} to {b}"),
        };
        let mut value = format!(
            "of {} over {over}: memory is the peak of all pods and {RESERVE_PERCENT} % (at least {RESERVE_LEAST}), no more than the device has; duty is the mean of the busiest pod, as on the product where it ran",
            counted(group.len() as u64, "workload"),
        );
        if few > 0 {
            let least = percent(settings.assumed_duty_permille);
            value.push_str(&format!(
                "; from fewer than {FEW_SAMPLES} samples, duty is not taken below {least} ({few} of them)"
            ));
        }
        let if_wrong = if what == "measured use" {
            "a peak beyond these days ends in a pod that runs out of memory on its instance: a Demand with the gpuMemory you know wins over what was measured"
        } else {
            "what peaks at another hour or day needs more than this, and runs out of memory on its instance: measure a week (tesela plan --print-usage-query) before you carry this out"
        };
        list.push(Assumption {
            subject: what.into(),
            value,
            origin: Origin::Measured,
            if_wrong: if_wrong.into(),
        });
    }
    list
}

/// A time in words: `one instant`, `45 minutes`, `6 hours`, `7 days`.
pub(super) fn span(ms: i64) -> String {
    let minutes = u64::try_from(ms / 60_000).unwrap_or(0);
    match minutes {
        0 => "one instant".to_owned(),
        1..120 => counted(minutes, "minute"),
        120..2880 => counted(minutes / 60, "hour"),
        _ => counted((minutes + 720) / 1440, "day"),
    }
}

pub(super) fn counted(count: u64, one: &str) -> String {
    if count == 1 || one.ends_with('s') { format!("{count} {one}") } else { format!("{count} {one}s") }
}

/// `1 pod is`, `2 pods are`.
pub(super) fn counted_is(count: u64, one: &str) -> String {
    format!("{} {}", counted(count, one), if count == 1 { "is" } else { "are" })
}

pub(super) fn some_of(names: &[String]) -> String {
    let shown = names.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(LISTED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_as_people_say_them() {
        for (ms, wanted) in [
            (0, "one instant"),
            (60_000, "1 minute"),
            (45 * 60_000, "45 minutes"),
            (6 * 3_600_000, "6 hours"),
            (167 * 3_600_000, "7 days"),
        ] {
            assert_eq!(span(ms), wanted);
        }
        assert_eq!(some_of(&["a", "b", "c", "d"].map(String::from)), "a, b, c and 1 more");
    }
}
