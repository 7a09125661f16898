//! Which running pods must restart, by name.

use std::collections::BTreeSet;

use tesela_model::plan::{Assignment, PlannedPool, Restart, RestartCause};

use crate::input::PlanInput;
use crate::planner::Outcome;

/// Pods that get another device, and pods whose controller replaces them because its pod template must change.
pub(super) fn restarting(
    input: &PlanInput<'_>,
    outcome: &Outcome<'_>,
    assignments: &[Assignment],
    pools: &[PlannedPool],
) -> Vec<Restart> {
    let patched = patched(assignments, pools);
    let mut list = Vec::new();
    for (w, workload) in input.demand.workloads.iter().enumerate() {
        let key = &workload.key;
        let template = patched.contains(&(key.namespace.as_str(), key.kind.as_str(), key.name.as_str()));
        for (h, held) in workload.running.iter().enumerate() {
            let cause = match (outcome.leaving.contains(&(w, h)), template) {
                (true, _) => RestartCause::Moves,
                (false, true) => RestartCause::Template,
                (false, false) => continue,
            };
            list.extend(held.pods.iter().map(|pod| Restart {
                node: held.node.clone(),
                namespace: pod.namespace.clone(),
                name: pod.name.clone(),
                kind: key.kind.clone(),
                workload: key.name.clone(),
                cause,
            }));
        }
    }
    list.sort();
    list.dedup();
    list
}

/// Workloads of which the pod template must change: another request, or a place in a pool of one tenant's own,
/// which is fenced by a taint. A pod by itself has no template.
fn patched<'a>(
    assignments: &'a [Assignment],
    pools: &[PlannedPool],
) -> BTreeSet<(&'a str, &'a str, &'a str)> {
    let fenced = |a: &Assignment| {
        pools.iter().filter(|p| p.tenant.is_some()).any(|p| {
            p.product == a.product
                && p.mode == a.mode
                && a.node.as_ref().is_none_or(|n| p.nodes.contains(n))
                && (p.replicas == a.replicas || p.replicas.is_none())
        })
    };
    assignments
        .iter()
        .filter(|a| a.kind != "Pod" && (a.request_today.is_some() || fenced(a)))
        .map(|a| (a.namespace.as_str(), a.kind.as_str(), a.workload.as_str()))
        .collect()
}
