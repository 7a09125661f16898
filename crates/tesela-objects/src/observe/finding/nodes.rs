//! GPUs that are there and that nobody can ask for: closed, unhealthy, being changed, not cut.

use std::collections::BTreeMap;

use tesela_model::finding::Severity;
use tesela_model::fleet::{Gpu, Offer};
use tesela_model::label;

use super::{Draft, Group, Held, Scene, counted, product, size, some_of};
use crate::observe::node::Observed;

pub(super) fn find(scene: &Scene<'_>, drafts: &mut Vec<Draft>) {
    for observed in scene.nodes {
        drafts.extend(config_state(observed));
        drafts.extend(unhealthy(observed));
        drafts.extend(empty_mig(observed));
        drafts.extend(held_above_offer(observed, &scene.held));
    }
    closed(scene, drafts);
    missing_nodes(scene, drafts);
}

/// Pods bound to a node that is not in the input or has no GPUs.
fn missing_nodes(scene: &Scene<'_>, drafts: &mut Vec<Draft>) {
    let mut missing = BTreeMap::<&str, u64>::new();
    for ((node, _), devices) in &scene.held {
        if scene.node(node).is_none() {
            let sum = missing.entry(node).or_default();
            *sum = sum.saturating_add(*devices);
        }
    }
    if scene.nodes.is_empty() || missing.is_empty() {
        return;
    }
    let devices = missing.values().fold(0_u64, |sum, n| sum.saturating_add(*n));
    drafts.push(Draft {
        severity: Severity::Error,
        rule: "held-on-missing-node",
        subject: format!("Node/{}", missing.keys().next().unwrap_or(&"")),
        message: format!(
            "pods hold {} on {} that the input shows without GPUs or not at all: {}",
            counted(devices, "device"),
            counted(size(missing.len()), "node"),
            some_of(missing.keys().copied()),
        ),
        fix: "take nodes and pods in one snapshot; if the node is gone, delete its pods".to_owned(),
        gpus: devices,
    });
}

fn on_node(
    observed: &Observed,
    severity: Severity,
    rule: &'static str,
    gpus: u64,
    what: &str,
    fix: &str,
) -> Draft {
    Draft {
        severity,
        rule,
        subject: format!("Node/{}", observed.node.name),
        message: format!("node {}: {what}", observed.node.name),
        fix: fix.to_owned(),
        gpus,
    }
}

/// What NVIDIA's MIG manager last said. It does not try again by itself.
fn config_state(observed: &Observed) -> Option<Draft> {
    let state = observed.node.labels.get(label::MIG_CONFIG_STATE)?;
    let wanted = observed.node.labels.get(label::MIG_CONFIG).map_or("", String::as_str);
    let gpus = size(observed.node.gpus.len());
    match state.as_str() {
        "failed" => Some(on_node(
            observed,
            Severity::Error,
            "mig-config-failed",
            gpus,
            &format!(
                "the change to MIG config {wanted} failed; NVIDIA's MIG manager does not try again, and its layout may be half done"
            ),
            "look at the log of the nvidia-mig-manager pod there, mend the cause, then set another value of nvidia.com/mig.config and the wanted one again",
        )),
        "pending" | "rebooting" => Some(on_node(
            observed,
            Severity::Warning,
            "mig-config-pending",
            gpus,
            &format!(
                "a change to MIG config {wanted} is under way ({state}); what the node offers now may be neither old nor new"
            ),
            "take the snapshot again when nvidia.com/mig.config.state says success; if it stays so for half an hour, look at the nvidia-mig-manager pod there",
        )),
        _ => None,
    }
}

/// Capacity counts healthy and unhealthy devices, allocatable the healthy ones.
fn unhealthy(observed: &Observed) -> Option<Draft> {
    let gaps = observed.offered.iter().filter(|(_, o)| o.capacity > o.allocatable);
    let gaps = gaps.map(|(name, o)| (name, o.capacity - o.allocatable, o.capacity)).collect::<Vec<_>>();
    if gaps.is_empty() {
        return None;
    }
    let list =
        gaps.iter().map(|(name, gap, all)| format!("{gap} of {all} {name}")).collect::<Vec<_>>().join(", ");
    let gpus = gaps.iter().map(|(_, gap, _)| *gap).sum::<u64>().min(size(observed.node.gpus.len()));
    let what = format!("{list} cannot be had: unhealthy, or the device plugin is not there");
    Some(on_node(
        observed,
        Severity::Error,
        "gpus-unhealthy",
        gpus,
        &what,
        "look for XID errors in the node's kernel log and at the device plugin's pod; the plugin takes a healed GPU back only when it is restarted",
    ))
}

fn instances(gpu: &Gpu) -> Option<usize> {
    match &gpu.offer {
        Offer::Mig { instances, .. } => Some(instances.len()),
        _ => None,
    }
}

/// MIG on and nothing to ask for. Which GPU is empty is not known, so only what must be is said.
fn empty_mig(observed: &Observed) -> Option<Draft> {
    if observed.node.unusable.is_some() {
        return None;
    }
    let counts = observed.node.gpus.iter().filter_map(instances).collect::<Vec<_>>();
    let empty = counts.len().saturating_sub(counts.iter().sum());
    if empty == 0 {
        return None;
    }
    let least = if empty == counts.len() { "" } else { "at least " };
    let what = format!(
        "{least}{empty} of {} have MIG on and no instances; nobody can ask for anything of them",
        counted(size(counts.len()), "MIG GPU"),
    );
    Some(on_node(
        observed,
        Severity::Warning,
        "mig-gpu-without-instances",
        size(empty),
        &what,
        "cut them (nvidia.com/mig.config), or turn MIG off there (all-disabled); when the device plugin is just down, restart it",
    ))
}

/// Pods hold more than is offered: the node was changed under them.
fn held_above_offer(observed: &Observed, held: &Held<'_>) -> Option<Draft> {
    let on_this = held.iter().filter(|((node, _), _)| *node == observed.node.name);
    let over = on_this.filter_map(|((_, resource), n)| {
        let capacity = observed.offered.get(*resource).map_or(0, |o| o.capacity);
        (*n > capacity).then(|| (n - capacity, format!("{n} {resource} of {capacity}")))
    });
    let over = over.collect::<Vec<_>>();
    if over.is_empty() {
        return None;
    }
    let list = over.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(", ");
    let what = format!(
        "pods hold {list}: its GPUs were changed under running pods, or nodes and pods were read at different times"
    );
    let gpus = over.iter().map(|(n, _)| *n).sum::<u64>().min(size(observed.node.gpus.len()));
    Some(on_node(
        observed,
        Severity::Error,
        "held-above-offer",
        gpus,
        &what,
        "take one snapshot of nodes and pods together; if it stays, restart the pods that hold what is gone",
    ))
}

fn closed(scene: &Scene<'_>, drafts: &mut Vec<Draft>) {
    let mut lost = BTreeMap::<&str, Group<'_>>::new();
    let mut cordoned = BTreeMap::<&str, Group<'_>>::new();
    for observed in scene.nodes.iter().filter(|o| !o.node.gpus.is_empty()) {
        let gpus = size(observed.node.gpus.len());
        if !observed.ready {
            lost.entry(product(observed)).or_default().add(observed, gpus);
        } else if observed.cordoned {
            cordoned.entry(product(observed)).or_default().add(observed, gpus);
        }
    }
    let mut say = |groups: BTreeMap<&str, Group<'_>>, severity, rule, what: &str, fix: &str| {
        for (product, group) in groups {
            drafts.push(Draft {
                severity,
                rule,
                subject: group.subject(product),
                message: format!(
                    "{} of {product} can take no new pods: {} {what} ({})",
                    counted(group.gpus, "GPU"),
                    counted(size(group.nodes.len()), "node"),
                    some_of(group.nodes.iter().copied()),
                ),
                fix: fix.to_owned(),
                gpus: group.gpus,
            });
        }
    };
    say(
        lost,
        Severity::Error,
        "gpu-node-not-ready",
        "not Ready",
        "kubectl describe node; bring it back or take it out of the fleet",
    );
    say(
        cordoned,
        Severity::Warning,
        "gpu-node-cordoned",
        "cordoned",
        "kubectl uncordon, if nobody works on it",
    );
}
