//! What is not known about a node: who holds which GPU, and which GPU does not work. Nothing may rest on a guess.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::demand::{Holding, Workload};
use tesela_model::fleet::{Mode, Node, Offer};
use tesela_model::plan::{Assignment, Change, ChangeKind, PlannedGpu, PlannedNode};
use tesela_model::product::ProfileName;
use tesela_model::resource::GpuResource;

use super::device::units_today;
use super::{Facts, Faults, Rule};

pub(super) fn check(facts: &Facts<'_>, faults: &mut Faults) {
    let mut running: BTreeMap<&str, Vec<&Holding>> = BTreeMap::new();
    for held in facts.workloads.values().flat_map(|w| &w.running) {
        running.entry(&held.node).or_default().push(held);
    }
    let by_node = facts.by_node();
    for (name, node) in &facts.nodes {
        let assigned = by_node.get(&Some(*name)).map_or(&[][..], Vec::as_slice);
        let Some(planned) = facts.planned.get(name) else { continue };
        let changes = facts.plan.changes.iter().filter(|c| c.node == *name).collect::<Vec<_>>();
        let mut holders = running.remove(name).unwrap_or_default();
        holders.extend(&node.held_by_others);
        if changes.iter().any(|c| c.change != ChangeKind::Sharing) {
            seats(node, planned, &changes, &holders, faults);
            hidden(node, assigned, faults);
        }
        unwell(assigned, node, planned, &changes, faults);
    }
}

fn is_cut(offer: &Offer) -> bool {
    matches!(offer, Offer::Mig { .. })
}

/// The MIG manager is told which GPU to cut. Who may sit on it must have been told to go.
fn seats(node: &Node, planned: &PlannedNode, changes: &[&Change], holders: &[&Holding], faults: &mut Faults) {
    let mut pairs = node.gpus.iter().zip(&planned.gpus);
    if !node.operator || !pairs.any(|(is, gpu)| !is_cut(&is.offer) && gpu.mode == Mode::Mig) {
        return;
    }
    let names = |cut: bool| {
        let gpus = node.gpus.iter().filter(|g| is_cut(&g.offer) == cut);
        gpus.flat_map(|g| units_today(node, g)).map(|(name, _)| name).collect::<BTreeSet<_>>()
    };
    let (whole, cut) = (names(false), names(true));
    let named = changes.iter().flat_map(|c| &c.disturbed_pods).collect::<BTreeSet<_>>();
    let anywhere =
        |h: &&&Holding| h.place.is_none() && whole.contains(&h.resource) && !cut.contains(&h.resource);
    for pod in holders.iter().filter(anywhere).flat_map(|h| &h.pods).filter(|pod| !named.contains(pod)) {
        let message = format!(
            "a GPU is cut that {}/{} may hold: its place is not known, and no change names it",
            pod.namespace, pod.name
        );
        faults.add(Rule::Guessed, format!("Node/{}", node.name), message);
    }
}

/// Pods that stay on more devices than the node offers hold something that nobody sees.
fn hidden(node: &Node, assigned: &[(&Assignment, &Workload)], faults: &mut Faults) {
    let mut left = offered(node);
    for (a, w) in assigned {
        let free = left.entry(a.resource.clone()).or_insert(0);
        let stay = a.staying.saturating_mul(u64::from(a.gpus));
        if stay > *free {
            let message =
                format!("is cut while {} holds {} there, which it does not offer", w.key, a.resource);
            faults.add(Rule::Guessed, format!("Node/{}", node.name), message);
        }
        *free = free.saturating_sub(stay);
    }
}

fn offered(node: &Node) -> BTreeMap<GpuResource, u64> {
    let mut offered = BTreeMap::new();
    for (resource, units) in node.gpus.iter().flat_map(|gpu| units_today(node, gpu)) {
        *offered.entry(resource).or_insert(0) += units;
    }
    offered
}

/// As many units as kubelet does not give out are left over, beyond those that pods go on holding.
fn unwell(
    assigned: &[(&Assignment, &Workload)],
    node: &Node,
    planned: &PlannedNode,
    changes: &[&Change],
    faults: &mut Faults,
) {
    let offered = offered(node);
    let subject = format!("Node/{}", node.name);
    let mut ailing = false;
    for (resource, given_out) in &node.allocatable {
        let has = offered.get(resource).copied().unwrap_or(0);
        let missing = has.saturating_sub(*given_out);
        ailing = ailing || missing > 0;
        let here = assigned.iter().filter(|(a, _)| a.resource == *resource);
        let fresh = here.clone().any(|(a, _)| a.staying < a.count);
        let stay = here.map(|(a, _)| a.staying.saturating_mul(u64::from(a.gpus))).sum::<u64>();
        let others = node.held_by_others.iter().filter(|h| h.resource == *resource);
        let others = others.map(|h| (h.pods.len() as u64).saturating_mul(u64::from(h.devices))).sum::<u64>();
        let wanted = missing.min(has.saturating_sub(stay.saturating_add(others)));
        let left =
            node.gpus.iter().zip(&planned.gpus).map(|(is, gpu)| left(node, is, gpu, resource)).sum::<u64>();
        if left < wanted && (fresh || !changes.is_empty()) {
            let message = format!(
                "kubelet gives out {given_out} of {has} {resource}, so {wanted} must be left alone; {left} are"
            );
            faults.add(Rule::Unwell, &subject, message);
        }
    }
    let cut = changes.iter().find(|c| c.change != ChangeKind::Sharing);
    if let Some(change) = cut.filter(|_| ailing && node.operator) {
        let message =
            format!("which GPU does not work is not known, and one is cut anew ({:?})", change.change);
        faults.add(Rule::Unwell, &subject, message);
    }
}

/// Units of a name that a GPU offers today and that the plan leaves alone.
fn left(node: &Node, is: &tesela_model::fleet::Gpu, gpu: &PlannedGpu, resource: &GpuResource) -> u64 {
    let units = units_today(node, is).into_iter().filter(|(name, _)| name == resource).map(|(_, n)| n);
    let units = units.sum::<u64>();
    let used = gpu.used_by.iter().map(|u| u.pods).sum::<u64>();
    let replicas = match &is.offer {
        Offer::Mig { instances, .. } => return left_cut(node, is, instances, gpu, resource),
        Offer::Exclusive => None,
        Offer::TimeSliced { replicas } | Offer::Mps { replicas } => Some(*replicas),
    };
    match gpu.mode {
        Mode::Mig => 0,
        _ if used == 0 => units,
        mode if (mode, gpu.replicas) == (is.offer.mode(), replicas) => units.saturating_sub(used),
        _ => 0,
    }
}

fn left_cut(
    node: &Node,
    is: &tesela_model::fleet::Gpu,
    instances: &[tesela_model::layout::Instance],
    gpu: &PlannedGpu,
    resource: &GpuResource,
) -> u64 {
    let sorted = |mut profiles: Vec<ProfileName>| {
        profiles.sort();
        profiles
    };
    let today = sorted(instances.iter().map(|i| i.profile.clone()).collect());
    let then = sorted(gpu.instances.iter().map(|i| i.profile.clone()).collect());
    if gpu.mode != Mode::Mig || today != then {
        return 0;
    }
    let of = |profile: &ProfileName| {
        let offer = match &is.offer {
            Offer::Mig { instances, replicas, origin } => Offer::Mig {
                instances: instances.iter().filter(|i| i.profile == *profile).take(1).cloned().collect(),
                replicas: replicas.clone(),
                origin: *origin,
            },
            other => other.clone(),
        };
        let one = tesela_model::fleet::Gpu { offer, ..is.clone() };
        units_today(node, &one).into_iter().filter(|(name, _)| name == resource).map(|(_, n)| n).sum::<u64>()
    };
    let used = |i: &tesela_model::plan::PlannedInstance| i.used_by.iter().map(|u| u.pods).sum::<u64>();
    gpu.instances.iter().map(|i| of(&i.profile).saturating_sub(used(i))).sum()
}
