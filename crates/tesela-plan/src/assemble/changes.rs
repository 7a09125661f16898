//! Which GPUs change, how, and which pods that disturbs.

use tesela_model::fleet::{Mode, Offer};
use tesela_model::layout::Geometry;
use tesela_model::plan::{Change, ChangeKind, PlannedGpu, PlannedNode};

use crate::world::{GpuState, NodeState, World};

/// Changes of nodes that exist, by node and GPU.
pub(super) fn changes(world: &World<'_>, nodes: &[PlannedNode]) -> Vec<Change> {
    let mut changes = Vec::new();
    for (node, state) in nodes.iter().zip(&world.nodes) {
        let Some(name) = &node.name else { continue };
        if !state.used() {
            continue;
        }
        for (planned, gpu) in node.gpus.iter().zip(&state.gpus) {
            let Some(change) = change(world, state, planned, gpu) else { continue };
            let mut disturbed_pods: Vec<_> = gpu.leaving.iter().map(|(pod, _)| pod.clone()).collect();
            // The MIG manager is told indices, and which GPU is idle is a guess: any of these may be hit.
            let cut = matches!(change, ChangeKind::MigMode | ChangeKind::MigModeReset);
            if cut && state.operator() && !matches!(gpu.today, Some(Offer::Mig { .. })) {
                disturbed_pods.extend(state.guessed_leavers.iter().cloned());
            }
            disturbed_pods.sort();
            disturbed_pods.dedup();
            changes.push(Change {
                node: name.clone(),
                gpu: planned.uuid.clone(),
                change,
                to: words(planned),
                disturbed_pods,
            });
        }
    }
    changes.sort();
    changes
}

fn change(
    world: &World<'_>,
    state: &NodeState<'_>,
    planned: &PlannedGpu,
    gpu: &GpuState<'_>,
) -> Option<ChangeKind> {
    let mode_change = || {
        let reset = world.kinds[gpu.kind].product.and_then(|p| p.mode_change_needs_reset);
        Some(if reset == Some(true) { ChangeKind::MigModeReset } else { ChangeKind::MigMode })
    };
    match (gpu.today?, planned.mode) {
        (Offer::Mig { .. }, Mode::Mig) => cut_change(state, planned, gpu),
        (Offer::Mig { .. }, _) | (_, Mode::Mig) => mode_change(),
        (Offer::Exclusive, Mode::Exclusive) => None,
        (Offer::TimeSliced { replicas }, Mode::TimeSliced) | (Offer::Mps { replicas }, Mode::Mps) => {
            (planned.replicas != Some(*replicas)).then_some(ChangeKind::Sharing)
        }
        _ => Some(ChangeKind::Sharing),
    }
}

fn cut_change(state: &NodeState<'_>, planned: &PlannedGpu, gpu: &GpuState<'_>) -> Option<ChangeKind> {
    let Some(Offer::Mig { instances, replicas, .. }) = gpu.today else { return None };
    let before: Vec<_> = instances.iter().map(|i| (i.start, &i.profile)).collect();
    let after: Vec<_> = planned.instances.iter().map(|i| (i.start, &i.profile)).collect();
    let geometry = |names: &[(u32, &tesela_model::product::ProfileName)]| {
        names.iter().map(|(_, p)| (*p).clone()).collect::<Geometry>()
    };
    let same =
        if gpu.exact { sorted(&before) == sorted(&after) } else { geometry(&before) == geometry(&after) };
    if !same && !planned.instances.is_empty() {
        return Some(ChangeKind::Geometry);
    }
    let shares = planned.instances.iter().any(|i| i.replicas != replicas.get(&i.profile).copied());
    let renamed = match state.source {
        crate::world::Source::Exists(node) => node.mig_strategy != state.strategy,
        crate::world::Source::Bought => false,
    };
    (shares || renamed && !planned.instances.is_empty()).then_some(ChangeKind::Sharing)
}

fn sorted<T: Ord + Clone>(items: &[T]) -> Vec<T> {
    let mut items = items.to_vec();
    items.sort();
    items
}

/// Such as `mig 2g.20gb + 1g.10gb × 3`, `timeSliced × 4`, `exclusive`.
fn words(gpu: &PlannedGpu) -> String {
    match (gpu.mode, gpu.replicas) {
        (Mode::Mig, _) => {
            let geometry: Geometry = gpu.instances.iter().map(|i| i.profile.clone()).collect();
            let parts: Vec<String> = geometry
                .counts()
                .map(|(profile, n)| if n == 1 { profile.to_string() } else { format!("{profile} × {n}") })
                .collect();
            format!("mig {}", parts.join(" + "))
        }
        (mode, Some(replicas)) => format!("{mode} × {replicas}"),
        (mode, None) => mode.to_string(),
    }
}
