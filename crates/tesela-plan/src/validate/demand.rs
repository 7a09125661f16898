//! Assignments against the demand: every pod accounted for, every field in agreement with the others.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::demand::{Isolation, Workload};
use tesela_model::fleet::{MigStrategy, Mode, Node, Offer};
use tesela_model::plan::{Assignment, PlanStatus};
use tesela_model::resource::{GpuDevice, GpuResource};

use super::{Facts, Faults, Key, Rule, node_name, subject, takes_turns};

pub(super) fn check(facts: &Facts<'_>, faults: &mut Faults) {
    accounted(facts, faults);
    keys(facts, faults);
    let wanted = if facts.plan.unmet.is_empty() { PlanStatus::Complete } else { PlanStatus::Partial };
    if facts.plan.status != wanted {
        let count = facts.plan.unmet.len();
        faults.add(
            Rule::Status,
            "Plan",
            format!("status is {:?} with {count} entries unmet", facts.plan.status),
        );
    }
    for (assignment, workload) in facts.assigned() {
        of_workload(assignment, workload, faults);
        // What pods hold that nobody can see is told as they ask for it; the node offers nothing to compare it with.
        if !facts.is_unseen(assignment) {
            replicas_and_profile(facts, assignment, faults);
            resource(facts, assignment, faults);
        }
        request_today(assignment, workload, faults);
        chosen(facts, assignment, workload, faults);
    }
    staying(facts, faults);
}

fn accounted(facts: &Facts<'_>, faults: &mut Faults) {
    let mut pods: BTreeMap<Key<'_>, u64> = BTreeMap::new();
    let mut add = |key, count: u64| {
        let sum = pods.entry(key).or_insert(0);
        *sum = sum.saturating_add(count);
    };
    for a in &facts.plan.assignments {
        if facts.workload(a).is_none() {
            faults.add(Rule::UnknownWorkload, subject(a), "is assigned and no workload of the demand".into());
        }
        add((a.namespace.as_str(), a.kind.as_str(), a.workload.as_str()), a.count);
    }
    for u in &facts.plan.unmet {
        let key = (u.namespace.as_str(), u.kind.as_str(), u.workload.as_str());
        if !facts.workloads.contains_key(&key) {
            let name = format!("{}/{}/{}", u.kind, u.namespace, u.workload);
            faults.add(Rule::UnknownWorkload, name, "is unmet and no workload of the demand".into());
        }
        add(key, u.count);
    }
    for (key, workload) in &facts.workloads {
        let found = pods.get(key).copied().unwrap_or(0);
        if found != workload.count {
            let message = format!("{found} pods are assigned or unmet, the demand has {}", workload.count);
            faults.add(Rule::PodsAccounted, &workload.key, message);
        }
    }
}

fn keys(facts: &Facts<'_>, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for a in &facts.plan.assignments {
        let way = (a.mode, a.replicas, &a.resource, &a.profile, &a.product, a.gpus);
        let key = (&a.namespace, &a.kind, &a.workload, &a.node, way);
        if !seen.insert(key) {
            let message = format!("has two entries for {} and {}", node_name(a.node.as_deref()), a.resource);
            faults.add(Rule::DuplicateAssignment, subject(a), message);
        }
        if a.count == 0 || a.gpus == 0 {
            faults.add(Rule::ZeroCount, subject(a), format!("{} pods with {} GPUs each", a.count, a.gpus));
        }
    }
    for u in facts.plan.unmet.iter().filter(|u| u.count == 0) {
        faults.add(
            Rule::ZeroCount,
            format!("{}/{}/{}", u.kind, u.namespace, u.workload),
            "0 pods unmet".into(),
        );
    }
}

fn of_workload(a: &Assignment, workload: &Workload, faults: &mut Faults) {
    // Pods that stay hold what they hold: in a roll-out two templates run side by side.
    if a.gpus != workload.gpus && a.staying < a.count {
        let message = format!("{} GPUs per pod, the workload has {}", a.gpus, workload.gpus);
        faults.add(Rule::WorkloadFacts, subject(a), message);
    }
    if a.tenant != workload.tenant {
        let message = format!("tenant `{}`, the workload's is `{}`", a.tenant, workload.tenant);
        faults.add(Rule::WorkloadFacts, subject(a), message);
    }
    if a.staying > a.count {
        faults.add(Rule::Staying, subject(a), format!("{} of {} pods stay", a.staying, a.count));
    }
}

fn replicas_and_profile(facts: &Facts<'_>, a: &Assignment, faults: &mut Faults) {
    let wrong = match (a.mode, a.replicas) {
        (_, Some(0 | 1)) => Some("below 2"),
        (Mode::Exclusive, Some(_)) => Some("of a whole GPU"),
        (Mode::TimeSliced | Mode::Mps, None) => Some("missing for a shared device"),
        _ => None,
    };
    if let Some(wrong) = wrong {
        faults.add(
            Rule::Replicas,
            subject(a),
            format!("replicas {:?} {wrong} in mode {}", a.replicas, a.mode),
        );
    }
    match (a.mode, &a.profile) {
        (Mode::Mig, None) => faults.add(Rule::Profile, subject(a), "mode mig without a profile".into()),
        (Mode::Mig, Some(profile)) => {
            // A product that the table lacks keeps the names its node shows.
            let of_table = facts.product(&a.product).map(|p| p.profiles.iter().any(|p| p.name == *profile));
            if of_table == Some(false) {
                let message = format!("{profile} is not the table's name of a profile of {}", a.product);
                faults.add(Rule::Profile, subject(a), message);
            }
        }
        (_, Some(profile)) => {
            faults.add(Rule::Profile, subject(a), format!("profile {profile} in mode {}", a.mode));
        }
        (_, None) => {}
    }
    if a.mode != Mode::Mig && a.start.is_some() {
        faults.add(Rule::Seat, subject(a), format!("start {:?} in mode {}", a.start, a.mode));
    }
}

/// The names under which a device of this kind can be offered on its node.
fn resource(facts: &Facts<'_>, a: &Assignment, faults: &mut Faults) {
    let strategies = match a.node.as_deref() {
        Some(name) => facts.planned.get(name).map(|n| n.mig_strategy).into_iter().collect::<Vec<_>>(),
        None => facts.bought.iter().map(|n| n.mig_strategy).collect(),
    };
    let mut names = BTreeSet::new();
    match (a.mode, &a.profile) {
        (Mode::Mig, Some(profile)) => {
            for strategy in strategies {
                match strategy {
                    MigStrategy::None => {}
                    MigStrategy::Single => drop(names.insert(GpuResource::gpu())),
                    MigStrategy::Mixed => drop(names.insert(GpuResource::mig(profile.clone()))),
                }
            }
        }
        (Mode::Mig, None) => return,
        _ => drop(names.insert(GpuResource::gpu())),
    }
    let shared = takes_turns(a.mode, a.replicas);
    if shared {
        let plain = names.clone();
        names.extend(plain.into_iter().map(GpuResource::renamed));
        // While pods stay, the node's plugin goes on offering its shares under the name they hold.
        let here = a.node.as_deref().and_then(|name| facts.nodes.get(name));
        if let Some(node) = here.filter(|_| a.staying > 0) {
            names.retain(|name| name.shared == node.shares_renamed);
        }
    }
    if !names.contains(&a.resource) {
        let names = names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
        let here = node_name(a.node.as_deref());
        let message = format!(
            "requests {}; {here} offers {} as {}",
            a.resource,
            a.mode,
            if names.is_empty() { "nothing" } else { &names }
        );
        faults.add(Rule::Resource, subject(a), message);
    }
}

fn request_today(a: &Assignment, workload: &Workload, faults: &mut Faults) {
    let other = workload.request.as_ref().filter(|request| **request != a.resource);
    // Pods that stay keep their request, whatever the others of their owner ask for.
    let other = other.filter(|_| a.staying < a.count);
    if a.request_today.as_ref() != other {
        let say = |r: Option<&GpuResource>| r.map_or_else(|| "null".to_owned(), ToString::to_string);
        let message = format!("request_today is {}, should be {}", say(a.request_today.as_ref()), say(other));
        faults.add(Rule::RequestToday, subject(a), message);
    }
}

/// What a person wrote down binds every pod that does not stay.
fn chosen(facts: &Facts<'_>, a: &Assignment, workload: &Workload, faults: &mut Faults) {
    if a.staying >= a.count {
        return;
    }
    // Isolation goes before a mode that does not give it.
    let apart = facts.isolation(workload) >= Isolation::Instance || workload.slo.is_some();
    let alone = facts.isolation(workload) == Isolation::Device;
    let too_weak = |mode: Mode| match mode {
        Mode::TimeSliced | Mode::Mps => apart,
        Mode::Mig => alone,
        Mode::Exclusive => false,
    };
    if let Some(mode) = workload.mode.filter(|mode| *mode != a.mode && !too_weak(*mode)) {
        faults.add(Rule::Chosen, subject(a), format!("mode {}, a person chose {mode}", a.mode));
    }
    if let (Mode::Mig, Some(wanted), Some(profile)) = (a.mode, &workload.profile, &a.profile) {
        let named = facts.product(&a.product).and_then(|p| p.profile(wanted.as_str()).ok());
        if named.is_none_or(|p| p.name != *profile) {
            faults.add(Rule::Chosen, subject(a), format!("profile {profile}, a person chose {wanted}"));
        }
    }
    if !workload.products.is_empty() && !workload.products.contains(&a.product) {
        let message = format!("is on {}, only {} will do", a.product, workload.products.join(", "));
        faults.add(Rule::Chosen, subject(a), message);
    }
}

/// Pods that stay, pods that must, and pods of which nothing is known.
fn staying(facts: &Facts<'_>, faults: &mut Faults) {
    let mut stay: BTreeMap<(Key<'_>, &str), Vec<&Assignment>> = BTreeMap::new();
    for (a, w) in facts.assigned().filter(|(a, _)| a.staying > 0) {
        let key = (w.key.namespace.as_str(), w.key.kind.as_str(), w.key.name.as_str());
        match a.node.as_deref() {
            Some(node) => stay.entry((key, node)).or_default().push(a),
            None => faults.add(Rule::Staying, subject(a), "pods stay on a node that is not there yet".into()),
        }
    }
    for (key, workload) in &facts.workloads {
        let mut runs: BTreeMap<&str, BTreeMap<&GpuResource, u64>> = BTreeMap::new();
        for held in &workload.running {
            *runs.entry(&held.node).or_default().entry(&held.resource).or_insert(0) += held.pods.len() as u64;
        }
        let nodes = stay.range((*key, "")..).take_while(|((k, _), _)| k == key).map(|((_, node), _)| *node);
        for node in nodes.filter(|node| !runs.contains_key(node)).collect::<Vec<_>>() {
            faults.add(Rule::Staying, &workload.key, format!("pods stay on {node}, where none runs"));
        }
        for (node, by_resource) in runs {
            let here = stay.get(&(*key, node)).map(Vec::as_slice).unwrap_or_default();
            stays_here(facts, workload, node, &by_resource, here, faults);
        }
    }
}

fn stays_here(
    facts: &Facts<'_>,
    workload: &Workload,
    node: &str,
    runs: &BTreeMap<&GpuResource, u64>,
    stay: &[&Assignment],
    faults: &mut Faults,
) {
    let subject = &workload.key;
    let total = |resource: &GpuResource| {
        stay.iter().filter(|a| a.resource == *resource).map(|a| a.staying).sum::<u64>()
    };
    for a in stay {
        let running = runs.get(&a.resource).copied().unwrap_or(0);
        if total(&a.resource) > running {
            let message =
                format!("{} pods stay with {} on {node}, {running} run", total(&a.resource), a.resource);
            faults.add(Rule::Staying, subject, message);
        } else if let Some(here) = facts.nodes.get(node)
            && !facts.is_unseen(a)
            && !offered_alike(here, a)
        {
            let message = format!(
                "pods stay on {node} as {} {:?}, which is not how it offers {} today",
                a.mode, a.profile, a.resource
            );
            faults.add(Rule::Staying, subject, message);
        }
    }
    // Pods beyond the demand's count are not wanted any more, so they need not stay.
    let running: u64 = runs.values().sum();
    let stays = stay.iter().map(|a| a.staying).sum::<u64>();
    let everywhere = workload.running.iter().map(|h| h.pods.len() as u64).sum::<u64>();
    let surplus = everywhere.saturating_sub(workload.count);
    if stays.saturating_add(surplus) >= running {
        return;
    }
    let gone = running - stays;
    if !workload.movable {
        let message = format!("{gone} of {running} pods on {node} do not stay and may not be moved");
        faults.add(Rule::Pinned, subject, message);
    }
    if nothing_known(workload) && !must_leave(facts, workload, node) {
        let message = format!(
            "{gone} of {running} pods on {node} do not keep what they hold, and only their request is known"
        );
        faults.add(Rule::UnknownNeed, subject, message);
    }
}

/// Only `nvidia.com/gpu` is asked for and nothing says what is needed: no memory, no promise, no choice by hand.
fn nothing_known(workload: &Workload) -> bool {
    let asks = workload.request.as_ref().is_some_and(|r| r.device == GpuDevice::Gpu);
    let says = workload.gpu_memory.is_some() || workload.slo.is_some();
    asks && !says && workload.profile.is_none() && workload.mode.is_none()
}

/// What the pods hold on the node gives less isolation than they need.
fn must_leave(facts: &Facts<'_>, workload: &Workload, node: &str) -> bool {
    let Some(node) = facts.nodes.get(node) else { return true };
    let gives = |offer: &Offer| match offer {
        Offer::Exclusive => tesela_model::demand::Isolation::Device,
        Offer::Mig { replicas, .. } if replicas.is_empty() => tesela_model::demand::Isolation::Instance,
        _ => tesela_model::demand::Isolation::None,
    };
    let least = node.gpus.iter().map(|gpu| gives(&gpu.offer)).min();
    least.is_none_or(|least| least < facts.isolation(workload))
}

/// Whether a GPU of the node offers today what the assignment's pods stay on.
fn offered_alike(node: &Node, a: &Assignment) -> bool {
    node.gpus.iter().any(|gpu| match &gpu.offer {
        Offer::Mig { instances, replicas, .. } => {
            let shared = |p| replicas.contains_key(p) == a.replicas.is_some();
            a.mode == Mode::Mig
                && instances.iter().any(|i| Some(&i.profile) == a.profile.as_ref() && shared(&i.profile))
        }
        other => other.mode() == a.mode,
    })
}
