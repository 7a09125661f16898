//! Checked GPUs, equal ones together.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::layout::{Instance, Layout};
use tesela_model::product::{Product, ProfileName};

use super::{Executor, Gpu, ReconfigureError, Usage};

/// An instance in force, checked.
pub(super) type InForce = (Instance, Usage);

/// GPUs that hold the same and are changed by the same executor.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) executor: Executor,
    /// By start, then profile.
    pub(super) instances: Vec<InForce>,
    /// Indexes into the request's GPUs, by name.
    pub(super) members: Vec<usize>,
}

impl Group {
    pub(super) fn count(&self) -> i128 {
        self.members.len() as i128
    }

    /// Weight of all that is busy on one of its GPUs.
    pub(super) fn busy_weight(&self) -> u64 {
        self.instances.iter().map(|(_, usage)| weight(*usage)).fold(0, u64::saturating_add)
    }
}

pub(super) fn weight(usage: Usage) -> u64 {
    match usage {
        Usage::Busy { weight, .. } => weight,
        Usage::Idle => 0,
    }
}

pub(super) fn is_busy(usage: Usage) -> bool {
    matches!(usage, Usage::Busy { .. })
}

pub(super) fn is_pinned(usage: Usage) -> bool {
    matches!(usage, Usage::Busy { pinned: true, .. })
}

/// Groups GPUs, in an order that depends on what they hold alone.
pub(super) fn groups(product: &Product, gpus: &[Gpu]) -> Result<Vec<Group>, ReconfigureError> {
    let mut names = BTreeSet::new();
    let mut found: BTreeMap<(Executor, Vec<InForce>), Vec<usize>> = BTreeMap::new();
    for (index, gpu) in gpus.iter().enumerate() {
        if !names.insert(&gpu.name) {
            return Err(ReconfigureError::NamedTwice { gpu: gpu.name.clone() });
        }
        found.entry((gpu.executor, in_force(product, gpu)?)).or_default().push(index);
    }
    let group = |((executor, instances), mut members): (_, Vec<usize>)| {
        members.sort_by_key(|&gpu| &gpus[gpu].name);
        Group { executor, instances, members }
    };
    Ok(found.into_iter().map(group).collect())
}

fn in_force(product: &Product, gpu: &Gpu) -> Result<Vec<InForce>, ReconfigureError> {
    let placed = gpu.instances.iter().map(|held| (held.profile.clone(), held.start));
    let layout = Layout::new(product, placed)
        .map_err(|fault| ReconfigureError::State { gpu: gpu.name.clone(), fault })?;
    let usage = |instance: &Instance| {
        // No two instances of a layout start at the same unit.
        gpu.instances.iter().find(|held| held.start == instance.start).map_or(Usage::Idle, |held| held.usage)
    };
    Ok(layout.instances().iter().map(|i| (i.clone(), usage(i))).collect())
}

/// Busy instances of a profile over all groups.
pub(super) fn busy(groups: &[Group], profile: &ProfileName) -> u64 {
    let on = |group: &Group| {
        let busy = group.instances.iter().filter(|(i, usage)| i.profile == *profile && is_busy(*usage));
        busy.count() as u64 * group.members.len() as u64
    };
    groups.iter().map(on).sum()
}
