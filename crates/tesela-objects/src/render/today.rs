//! How much of a node may be held while it changes: what the GPUs offer that the executor leaves alone.

use std::collections::BTreeMap;

use tesela_model::fleet::{MigStrategy, Mode};
use tesela_model::plan::{Change, ChangeKind, GpuToday, Plan, PlannedGpu, PlannedNode};
use tesela_model::product::ProfileName;
use tesela_model::resource::GpuResource;

use super::Target;

/// Units by resource before sharing, as pods hold them today, that may still be held when a node's labels change.
/// `None` where the plan does not say what the node is today.
pub(super) fn may_hold(
    plan: &Plan,
    target: Target,
    node: &PlannedNode,
    changes: &[&Change],
) -> Option<BTreeMap<String, u64>> {
    let name = node.name.as_deref()?;
    let today = plan.nodes_today.iter().find(|n| n.name == name)?;
    if today.gpus.len() != node.gpus.len() {
        return None;
    }
    let strategy = node.mig_strategy_today?;
    let mut held = BTreeMap::new();
    for (now, then) in today.gpus.iter().zip(&node.gpus) {
        let kept = kept(target, changes, now, then);
        for (resource, most) in units(now, strategy) {
            let left = match &kept {
                Kept::All => most.0,
                Kept::Nothing => 0,
                Kept::Profiles(units) => most.1.as_ref().and_then(|p| units.get(p)).copied().unwrap_or(0),
            };
            *held.entry(resource).or_insert(0) += left;
        }
    }
    Some(held)
}

/// Whether a GPU is touched, going by what it is today and what it becomes.
pub(super) fn differs(now: &GpuToday, then: &PlannedGpu) -> bool {
    now.mode != then.mode || now.replicas != then.replicas || counts_now(now) != counts_then(then)
}

/// What of a GPU may be in use while its node changes.
enum Kept {
    All,
    Nothing,
    /// Units by profile.
    Profiles(BTreeMap<ProfileName, u64>),
}

fn kept(target: Target, changes: &[&Change], now: &GpuToday, then: &PlannedGpu) -> Kept {
    let any = |kind| changes.iter().any(|c| c.change == kind);
    if target == Target::GpuOperator
        && (any(ChangeKind::MigModeReset) || any(ChangeKind::MigMode) && now.mode == Mode::Mig)
    {
        return Kept::Nothing;
    }
    if !differs(now, then) {
        return Kept::All;
    }
    match (now.mode, then.mode) {
        // Only the number of replicas changes: nobody must go.
        (Mode::TimeSliced, Mode::TimeSliced) | (Mode::Mps, Mode::Mps) => Kept::All,
        (Mode::Mig, Mode::Mig) if target == Target::Native => {
            let then = counts_then(then);
            let shares = |p: &ProfileName| {
                let instance = now.instances.iter().find(|i| i.profile == *p);
                u64::from(instance.and_then(|i| i.replicas).unwrap_or(1))
            };
            let kept = counts_now(now).into_iter().map(|(p, n)| {
                let units = n.min(then.get(&p).copied().unwrap_or(0)) * shares(&p);
                (p, units)
            });
            Kept::Profiles(kept.collect())
        }
        _ => Kept::Nothing,
    }
}

fn counts_now(gpu: &GpuToday) -> BTreeMap<ProfileName, u64> {
    let mut counts = BTreeMap::new();
    for instance in &gpu.instances {
        *counts.entry(instance.profile.clone()).or_insert(0) += 1;
    }
    counts
}

fn counts_then(gpu: &PlannedGpu) -> BTreeMap<ProfileName, u64> {
    let mut counts = BTreeMap::new();
    for instance in &gpu.instances {
        *counts.entry(instance.profile.clone()).or_insert(0) += 1;
    }
    counts
}

/// What a GPU offers today, by resource before sharing: units, and the profile where it is cut.
fn units(gpu: &GpuToday, strategy: MigStrategy) -> BTreeMap<String, (u64, Option<ProfileName>)> {
    let mut units: BTreeMap<String, (u64, Option<ProfileName>)> = BTreeMap::new();
    if gpu.mode != Mode::Mig {
        units.insert(GpuResource::gpu().to_string(), (u64::from(gpu.replicas.unwrap_or(1)), None));
        return units;
    }
    for instance in &gpu.instances {
        let resource = match strategy {
            MigStrategy::None => continue,
            MigStrategy::Single => GpuResource::gpu(),
            MigStrategy::Mixed => GpuResource::mig(instance.profile.clone()),
        };
        let entry = units.entry(resource.to_string()).or_insert((0, Some(instance.profile.clone())));
        entry.0 += u64::from(instance.replicas.unwrap_or(1));
    }
    units
}
