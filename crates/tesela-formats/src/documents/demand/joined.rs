//! What observation and several documents say of one workload together.

use std::collections::BTreeMap;

use tesela_model::demand::{Demand, Isolation, TenantClass, Workload, WorkloadKey};
use tesela_model::finding::{Finding, Severity};
use tesela_model::fleet::Mode;
use tesela_model::resource::GpuDevice;

use crate::diagnostic::nearest;

/// Two things said of a workload that cannot both be, each perhaps in a file of its own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{workload} has `mode: {mode}` and {against}: {why}")]
pub struct JoinedContradiction {
    /// Which workload.
    pub workload: WorkloadKey,
    /// The mode that was chosen by hand.
    pub mode: Mode,
    /// What stands against it.
    pub against: String,
    /// The rule.
    pub why: &'static str,
    /// What to do.
    pub fix: &'static str,
}

/// The first workload, by key, whose mode was chosen by hand and cannot be.
///
/// # Errors
/// What contradicts what.
pub fn check_joined(demand: &Demand) -> Result<(), JoinedContradiction> {
    let class: BTreeMap<&str, TenantClass> =
        demand.tenants.iter().map(|t| (t.name.as_str(), t.class)).collect();
    for workload in &demand.workloads {
        let regulated = class.get(workload.tenant.as_str()) == Some(&TenantClass::Regulated);
        if let Some((mode, (against, why, fix))) = workload.mode.zip(contradiction(workload, regulated)) {
            return Err(JoinedContradiction { workload: workload.key.clone(), mode, against, why, fix });
        }
    }
    Ok(())
}

fn contradiction(w: &Workload, regulated: bool) -> Option<(String, &'static str, &'static str)> {
    let turns = matches!(w.mode?, Mode::TimeSliced | Mode::Mps);
    let asks_for_instances = w.request.as_ref().is_some_and(|r| matches!(r.device, GpuDevice::Mig(_)));
    let alone = "write `mode: mig` or `mode: exclusive`";
    if w.gpus > 1 && (turns || w.mode == Some(Mode::Mig) && !asks_for_instances) {
        let why = "work over several GPUs gets whole ones";
        return Some((format!("{} GPUs for each pod", w.gpus), why, "write `mode: exclusive`, or `gpus: 1`"));
    }
    if turns && w.slo.is_some() && w.mode == Some(Mode::TimeSliced) {
        return Some(("an `slo`".into(), "work that takes turns cannot promise a latency", alone));
    }
    let isolation = w.isolation.map(|known| known.value).filter(|i| *i >= Isolation::Instance);
    if let Some(isolation) = isolation.filter(|_| turns) {
        let why = "work that shares a GPU this way is not isolated";
        return Some((format!("`isolation: {isolation}`"), why, alone));
    }
    if turns && regulated {
        let why = "a regulated tenant shares no GPU below an instance";
        return Some((format!("the regulated tenant {}", w.tenant), why, alone));
    }
    None
}

/// Workloads of documents that look like misspelt observed ones: no pod of theirs was observed, and one of nearly
/// their name was.
#[must_use]
pub fn unlike_observed(observed: &Demand, joined: &Demand) -> Vec<Finding> {
    let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for workload in &observed.workloads {
        names.entry(&workload.key.namespace).or_default().push(&workload.key.name);
    }
    let seen = |key: &WorkloadKey| observed.workloads.iter().any(|w| w.key == *key);
    let new = joined.workloads.iter().filter(|w| w.count > 0 && w.running.is_empty());
    new.filter_map(|w| {
        let near = nearest(&w.key.name, names.get(w.key.namespace.as_str())?.iter().copied())?;
        (!seen(&w.key)).then(|| Finding {
            severity: Severity::Info,
            rule: "demand-not-observed".into(),
            subject: w.key.to_string(),
            message: format!(
                "no pod of it was observed, so it is planned for as new work; {near} was observed in that namespace"
            ),
            fix: format!("write `name: {near}` (and its kind, or none) if that is what was meant"),
        })
    })
    .collect()
}
