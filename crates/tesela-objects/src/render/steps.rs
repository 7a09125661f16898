//! The order of the way as steps.

use super::journey::Journey;
use super::requests::Request;
use super::waves::{At, Kind};
use super::{Context, Step, moves, node_steps, requests};

/// The steps of all stages: hold, what leaves the canary, the canary, the waves, nodes that come free.
pub(super) fn steps(context: &Context<'_>, journey: &Journey<'_>, all: &[Request<'_>]) -> Vec<Step> {
    let mut steps = Vec::new();
    steps.extend(moves::hold(context, journey));
    for (index, stage) in journey.order.stages.iter().enumerate() {
        let number = Journey::number(stage);
        for change in &stage.nodes {
            let canary = stage.kind == Kind::Canary;
            steps.extend(node_steps::step(context, journey, change, number, canary));
        }
        steps.extend(requests::steps(context, journey, stage, all));
        steps.extend(stage.moves.iter().map(|m| moves::step(context, journey, m, number)));
        steps.extend(moves::open(context, journey, index));
    }
    steps.extend(moves::free(context, journey));
    for (from, to, text) in journey.outages() {
        let (from, to) = (journey.dir(from).to_owned(), to.map(|to| journey.dir(to).to_owned()));
        for step in &mut steps {
            if step.dir == from || Some(&step.dir) == to.as_ref() {
                step.outages.push(text.clone());
            }
        }
    }
    steps
}

/// What eviction means for pods that no controller simply replaces. `pods`: indexes into `restarting`.
pub(super) fn not_created_again(context: &Context<'_>, pods: &[usize]) -> Vec<String> {
    let of_kind = |kind: &str| -> Vec<String> {
        let pods = pods.iter().filter_map(|p| context.plan.restarting.get(*p)).filter(|r| r.kind == kind);
        pods.map(|r| format!("{}/{}", r.namespace, r.name)).collect()
    };
    let mut notes = Vec::new();
    let bare = of_kind("Pod");
    if !bare.is_empty() {
        notes.push(format!(
            "Nothing owns {}, so nobody but you creates it again: save it first (`kubectl get pod NAME -n NAMESPACE -o \
             yaml`).",
            bare.join(", ")
        ));
    }
    let jobs = of_kind("Job");
    if !jobs.is_empty() {
        notes.push(format!(
            "{}: an evicted pod of a Job starts its work again, and counts against the Job's backoffLimit.",
            jobs.join(", ")
        ));
    }
    notes
}

/// Why pods are evicted before their new place is ready, in words: who waits for whom.
pub(super) fn cycle(journey: &Journey<'_>, at: At, waits: &[(usize, Vec<usize>)]) -> Option<String> {
    let mut groups: Vec<(&Vec<usize>, Vec<String>)> = Vec::new();
    for (work, nodes) in waits.iter().filter(|(_, nodes)| !nodes.is_empty()) {
        let name = journey.work_name(*work);
        match groups.iter_mut().find(|(known, _)| *known == nodes) {
            Some((_, names)) => names.push(name),
            None => groups.push((nodes, vec![name])),
        }
    }
    let here = |node: &usize| matches!(at, At::Node(n) if n == *node);
    let lines: Vec<String> = groups
        .iter()
        .map(|(nodes, names)| {
            let others: Vec<usize> = nodes.iter().copied().filter(|n| !here(n)).collect();
            let mut places = Vec::new();
            if others.len() < nodes.len() {
                places.push("this node".to_owned());
            }
            if !others.is_empty() {
                places.push(journey.nodes_of(&others));
            }
            format!("the new place of {} is on {}", names.join(", "), places.join(" and "))
        })
        .collect();
    (!lines.is_empty()).then(|| {
        format!(
            "Pods are evicted here before their new place is ready, because no order avoids it: {}. This is the \
             change that hurts least.",
            lines.join("; ")
        )
    })
}
