//! What is said of evidence that is not used: what shows no need, and what is of other pods or other clusters.

use std::collections::BTreeMap;

use tesela_model::demand::{Workload, WorkloadKey};
use tesela_model::finding::{Finding, Severity};

use super::collect::Collector;
use super::together::Joint;
use super::words::{counted, counted_is, finding, held, some_of, span};
use super::{Measured, SHORT_MS, Unread};
use crate::input::Settings;

/// Workloads whose use shows no need.
pub(super) fn unread(
    all: &Collector<'_>,
    measured: &BTreeMap<WorkloadKey, Measured>,
    settings: &Settings,
) -> Vec<Finding> {
    let mut found = Vec::new();
    for workload in &all.scene.demand.workloads {
        let Some(one) = measured.get(&workload.key) else { continue };
        let told = match one.unread {
            Some(Unread::NothingLoaded) => nothing_loaded(workload, one, settings),
            Some(Unread::Failing) if asks_for_need(workload) => Some((
                Severity::Info,
                "usage-of-failing-pods",
                "its pods cannot start or die again and again, so what they used shows no need, and it keeps what it holds".to_owned(),
                "mend or delete it, and measure it at work",
            )),
            Some(Unread::LooksReserved) if asks_for_need(workload) => looks_reserved(one),
            _ => None,
        };
        found.extend(told.map(|(severity, rule, message, fix)| Finding {
            severity,
            rule: rule.into(),
            subject: workload.key.to_string(),
            message,
            fix: fix.into(),
        }));
    }
    found
}

/// What to do where samples are from before the pods of today.
const SNAPSHOTS: &str =
    "give kubectl snapshots of the same days too: tesela plan monday.json tuesday.json --usage …";

type Told = (Severity, &'static str, String, &'static str);

/// Whether nobody said what a workload needs.
fn asks_for_need(workload: &Workload) -> bool {
    workload.gpu_memory.is_none() && workload.profile.is_none()
}

fn nothing_loaded(workload: &Workload, one: &Measured, settings: &Settings) -> Option<Told> {
    let idle = one.span_ms >= SHORT_MS && held(workload) > 0;
    if !idle && !asks_for_need(workload) {
        return None;
    }
    let mut message = format!(
        "used at most {} of GPU memory in the {} that were measured, less than the {} of a CUDA context",
        one.peak?,
        span(one.span_ms),
        settings.context_overhead
    );
    if asks_for_need(workload) {
        message.push_str(", so nothing shows what it needs when it works, and it keeps what it holds");
    }
    let severity = if idle { Severity::Warning } else { Severity::Info };
    let fix = "ask its owner whether it is still needed; else measure it at work, or write its gpuMemory into a Demand";
    Some((severity, "usage-below-context", message, fix))
}

fn looks_reserved(one: &Measured) -> Option<Told> {
    let message = format!(
        "its GPU memory stayed near the peak of {} in the {} that were measured, and that is nearly all of its device: a program that takes memory before it needs it looks like this, so the figure is not read as its need, and it keeps what it holds",
        one.peak?,
        span(one.span_ms)
    );
    let fix = "look what its program takes by default; write the gpuMemory it really needs into a Demand (tesela estimate tells it for a model)";
    Some((Severity::Info, "usage-looks-reserved", message, fix))
}

/// Series of what is no node of the input.
pub(super) fn elsewhere(all: &Collector<'_>) -> Option<Finding> {
    let other = all.elsewhere.as_ref()?;
    let (series, names) = (counted_is(other.series, "series"), some_of(&other.names));
    Some(if other.taken {
        finding(
            Severity::Warning,
            "usage-names-no-node",
            format!(
                "no series names a node of the input: {names} stand in place of it, so whether the answer is of this cluster is not known; pods were taken by their names"
            ),
            "look whether these are the exporter's own pods; if not, ask the Prometheus of this cluster",
        )
    } else {
        finding(
            Severity::Warning,
            "usage-of-other-nodes",
            format!(
                "{series} of what is no node of the input (another cluster's, or gone) and left out: {names}"
            ),
            "ask for this cluster only (its label, such as cluster, in the braces of the query), and give all its nodes",
        )
    })
}

/// Series of several clusters.
pub(super) fn clusters(all: &Collector<'_>) -> Option<Finding> {
    let names = all.own.clusters.iter().cloned().collect::<Vec<_>>();
    (names.len() > 1).then(|| {
        finding(
            Severity::Warning,
            "usage-of-several-clusters",
            format!(
                "the label cluster of the series that were taken has {} values: {}; pods of one name in two clusters were taken as one",
                names.len(),
                some_of(&names)
            ),
            "put cluster=\"…\" of this cluster into the braces of each query, and save the answer again",
        )
    })
}

/// Samples of pods that had the name of one that runs.
pub(super) fn namesakes(all: &Collector<'_>) -> Vec<Finding> {
    let pods = all.own.namesakes.iter().map(|p| format!("{}/{}", p.namespace, p.name)).collect::<Vec<_>>();
    let devices =
        all.own.devices_cut.iter().map(|(node, gpu)| format!("{gpu} of {node}")).collect::<Vec<_>>();
    let pods = (!pods.is_empty()).then(|| {
        finding(
            Severity::Info,
            "usage-of-namesakes",
            format!(
                "samples of {} are from before the pod of that name started, or from another node, and were left out: {}",
                counted(pods.len() as u64, "pod"),
                some_of(&pods)
            ),
            SNAPSHOTS,
        )
    });
    let devices = (!devices.is_empty()).then(|| {
        finding(
            Severity::Info,
            "usage-before-pods",
            format!(
                "samples of {} are from before the pods that hold its node started, and were left out: {}",
                counted(devices.len() as u64, "device"),
                some_of(&devices)
            ),
            SNAPSHOTS,
        )
    });
    pods.into_iter().chain(devices).collect()
}

/// What is not in the joint activity.
pub(super) fn joint(joint: &Joint) -> Vec<Finding> {
    let mut found = Vec::new();
    if !joint.left_out.is_empty() {
        let names = joint.left_out.iter().map(ToString::to_string).collect::<Vec<_>>();
        found.push(finding(
            Severity::Warning,
            "activity-not-covered",
            format!(
                "less than half of the {} windows are known of {}, so joint activity leaves out {}: a window without a sample is not known, and not idle",
                joint.windows,
                counted(names.len() as u64, "workload"),
                some_of(&names)
            ),
            "measure longer, or give kubectl snapshots of the same days, so that pods of then are known",
        ));
    }
    if joint.activity.is_some() && joint.common < joint.windows {
        // Where many are missing, they may well be those in which the GPUs were busy.
        let many = joint.common * 10 < joint.windows * 9;
        found.push(finding(
            if many { Severity::Warning } else { Severity::Info },
            "activity-in-part",
            format!(
                "joint activity is over {} of {} windows: only those in which each of its series has a sample",
                joint.common, joint.windows
            ),
            "look why the exporter or Prometheus has gaps, where these are many",
        ));
    }
    found
}
