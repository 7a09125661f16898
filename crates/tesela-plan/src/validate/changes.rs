//! What changes on each GPU, derived from today and the plan, against the changes listed.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::demand::{Holding, PodRef};
use tesela_model::fleet::{Gpu, Node, Offer};
use tesela_model::origin::Origin;
use tesela_model::plan::{Change, ChangeKind, PlannedGpu, PlannedNode};
use tesela_model::product::ProfileName;
use tesela_model::resource::GpuResource;

use super::device::units_today;
use super::{Facts, Faults, Rule};

/// What becomes of one GPU.
enum Becomes {
    /// Nothing changes.
    Same,
    /// Only how many share it; who holds a share keeps it.
    Replicas,
    /// One of these kinds; what pods hold there goes, except instances that stay (native only).
    Changes(&'static [ChangeKind]),
}

pub(super) fn check(facts: &Facts<'_>, faults: &mut Faults) {
    let mut listed: BTreeMap<&str, Vec<&Change>> = BTreeMap::new();
    for change in &facts.plan.changes {
        listed.entry(&change.node).or_default().push(change);
    }
    for (name, node) in &facts.nodes {
        let Some(planned) = facts.planned.get(name) else { continue };
        let here = listed.remove(name).unwrap_or_default();
        kinds(facts, node, planned, &here, faults);
        disturbed(facts, node, planned, &here, faults);
    }
    for (name, changes) in listed {
        let message = format!("{} changes on a node that is not in the fleet", changes.len());
        faults.add(Rule::ChangeUnneeded, format!("Node/{name}"), message);
    }
}

fn becomes(facts: &Facts<'_>, node: &Node, planned: &PlannedNode, is: &Gpu, gpu: &PlannedGpu) -> Becomes {
    use tesela_model::fleet::Mode;
    match (&is.offer, gpu.mode) {
        (Offer::Exclusive, Mode::Exclusive) => Becomes::Same,
        (Offer::TimeSliced { replicas }, Mode::TimeSliced) | (Offer::Mps { replicas }, Mode::Mps) => {
            if gpu.replicas == Some(*replicas) { Becomes::Same } else { Becomes::Replicas }
        }
        (Offer::Mig { .. }, Mode::Mig) => cut(node, planned, is, gpu),
        (Offer::Mig { .. }, _) | (_, Mode::Mig) => {
            let reset = facts.product(&gpu.product).and_then(|p| p.mode_change_needs_reset);
            Becomes::Changes(match reset {
                Some(true) => &[ChangeKind::MigModeReset],
                Some(false) => &[ChangeKind::MigMode],
                None => &[ChangeKind::MigMode, ChangeKind::MigModeReset],
            })
        }
        _ => Becomes::Changes(&[ChangeKind::Sharing]),
    }
}

/// Where starts are only guessed, a layout with the same profiles is the same.
fn cut(node: &Node, planned: &PlannedNode, is: &Gpu, gpu: &PlannedGpu) -> Becomes {
    let Offer::Mig { instances, replicas, origin } = &is.offer else { return Becomes::Same };
    let real = *origin <= Origin::Measured;
    let key = |profile: &ProfileName, start: u32| (profile.clone(), if real { start } else { 0 });
    let mut before = instances.iter().map(|i| key(&i.profile, i.start)).collect::<Vec<_>>();
    let mut after = gpu.instances.iter().map(|i| key(&i.profile, i.start)).collect::<Vec<_>>();
    before.sort();
    after.sort();
    if before != after {
        return Becomes::Changes(&[ChangeKind::Geometry]);
    }
    let shares = |i: &tesela_model::plan::PlannedInstance| (i.replicas, replicas.get(&i.profile).copied());
    let mode = gpu.instances.iter().map(shares).any(|(a, b)| a.is_some() != b.is_some());
    let renamed = planned.mig_strategy != node.mig_strategy && !gpu.instances.is_empty();
    if mode || renamed {
        Becomes::Changes(&[ChangeKind::Sharing])
    } else if gpu.instances.iter().map(shares).any(|(a, b)| a != b) {
        Becomes::Replicas
    } else {
        Becomes::Same
    }
}

fn kinds(facts: &Facts<'_>, node: &Node, planned: &PlannedNode, listed: &[&Change], faults: &mut Faults) {
    let mut expected: BTreeMap<Option<&str>, Vec<&'static [ChangeKind]>> = BTreeMap::new();
    for (is, gpu) in node.gpus.iter().zip(&planned.gpus) {
        let kinds: &'static [ChangeKind] = match becomes(facts, node, planned, is, gpu) {
            Becomes::Same => continue,
            Becomes::Replicas => &[ChangeKind::Sharing],
            Becomes::Changes(kinds) => kinds,
        };
        expected.entry(gpu.uuid.as_deref()).or_default().push(kinds);
    }
    let mut found: BTreeMap<Option<&str>, Vec<ChangeKind>> = BTreeMap::new();
    for change in listed {
        found.entry(change.gpu.as_deref()).or_default().push(change.change);
    }
    let uuids = expected.keys().chain(found.keys()).copied().collect::<BTreeSet<_>>();
    for uuid in uuids {
        let mut left = found.remove(&uuid).unwrap_or_default();
        let mut wanted = expected.remove(&uuid).unwrap_or_default();
        wanted.retain(|kinds| match left.iter().position(|kind| kinds.contains(kind)) {
            Some(index) => {
                left.remove(index);
                false
            }
            None => true,
        });
        let subject = format!("Node/{}/{}", node.name, uuid.unwrap_or("unknown UUID"));
        for pair in 0..wanted.len().max(left.len()) {
            match (wanted.get(pair), left.get(pair)) {
                (Some(kinds), Some(kind)) => {
                    faults.add(Rule::ChangeKind, &subject, format!("is listed as {kind:?}, it is {kinds:?}"));
                }
                (Some(kinds), None) => {
                    faults.add(
                        Rule::ChangeMissing,
                        &subject,
                        format!("changes ({kinds:?}) and is not listed"),
                    );
                }
                (None, Some(kind)) => {
                    faults.add(
                        Rule::ChangeUnneeded,
                        &subject,
                        format!("is listed as {kind:?} and stays as it is"),
                    );
                }
                (None, None) => {}
            }
        }
    }
}

/// Who holds something on a node today.
struct Holder<'a> {
    pod: &'a PodRef,
    held: &'a Holding,
}

/// Pods whose device goes away are named with the change; those named do not stay.
fn disturbed(facts: &Facts<'_>, node: &Node, planned: &PlannedNode, listed: &[&Change], faults: &mut Faults) {
    let subject = format!("Node/{}", node.name);
    let of_demand = facts.workloads.values().flat_map(|w| &w.running).filter(|h| h.node == node.name);
    let holders = of_demand
        .chain(&node.held_by_others)
        .flat_map(|held| held.pods.iter().map(move |pod| Holder { pod, held }));
    let holders = holders.collect::<Vec<_>>();
    let named = listed.iter().flat_map(|c| &c.disturbed_pods).collect::<BTreeSet<_>>();
    for pod in &named {
        if !holders.iter().any(|h| h.pod == *pod) {
            let message =
                format!("{}/{} is disturbed by a change and holds nothing here", pod.namespace, pod.name);
            faults.add(Rule::Disturbed, &subject, message);
        }
    }
    let mut kept: BTreeMap<GpuResource, u64> = BTreeMap::new();
    let mut today: BTreeMap<GpuResource, u64> = BTreeMap::new();
    for (is, gpu) in node.gpus.iter().zip(&planned.gpus) {
        for (resource, units) in units_today(node, is) {
            *today.entry(resource).or_insert(0) += units;
        }
        let becomes = becomes(facts, node, planned, is, gpu);
        for (resource, units) in kept_units(node, is, gpu, &becomes) {
            *kept.entry(resource).or_insert(0) += units;
        }
        seen(node, is, gpu, &becomes, listed, &holders, faults);
    }
    let mut held: BTreeMap<&GpuResource, (u64, u64)> = BTreeMap::new();
    for holder in &holders {
        let sums = held.entry(&holder.held.resource).or_insert((0, 0));
        sums.0 += u64::from(holder.held.devices);
        if !named.contains(holder.pod) {
            sums.1 += u64::from(holder.held.devices);
        }
    }
    for (resource, (all, quiet)) in held {
        let of = |units: &BTreeMap<GpuResource, u64>| units.get(resource).copied().unwrap_or(0);
        // What is held beyond what the node offers is on no device that anybody can see.
        let room = of(&kept) + all.saturating_sub(of(&today));
        if quiet > room {
            let message = format!("{quiet} of {resource} are held by pods that no change names, {room} stay");
            faults.add(Rule::Disturbed, &subject, message);
        }
    }
    staying(facts, node, &named, faults);
}

/// Units that pods can go on holding while the GPU changes. NVIDIA's MIG manager destroys every instance of a
/// GPU that differs; Tesela's agent keeps those that the new layout has too.
fn kept_units(node: &Node, is: &Gpu, gpu: &PlannedGpu, becomes: &Becomes) -> Vec<(GpuResource, u64)> {
    match becomes {
        Becomes::Same | Becomes::Replicas => units_today(node, is),
        Becomes::Changes([ChangeKind::Geometry]) if !node.operator => {
            let Offer::Mig { instances, replicas, origin } = &is.offer else { return Vec::new() };
            let mut after = gpu.instances.iter().collect::<Vec<_>>();
            let real = *origin <= Origin::Measured;
            let stays = |i: &&tesela_model::layout::Instance| {
                let same = after.iter().position(|p| p.profile == i.profile && (!real || p.start == i.start));
                same.map(|index| after.remove(index)).is_some()
            };
            let instances = instances.iter().filter(stays).cloned().collect();
            let offer = Offer::Mig { instances, replicas: replicas.clone(), origin: *origin };
            units_today(node, &Gpu { offer, ..is.clone() })
        }
        Becomes::Changes(_) => Vec::new(),
    }
}

/// Pods whose place is known: on a device that goes away they are named with exactly that GPU's change.
fn seen(
    node: &Node,
    is: &Gpu,
    gpu: &PlannedGpu,
    becomes: &Becomes,
    listed: &[&Change],
    holders: &[Holder<'_>],
    faults: &mut Faults,
) {
    let (Becomes::Changes(kinds), Some(uuid)) = (becomes, &is.uuid) else { return };
    for holder in holders {
        let Some(place) = holder.held.place.as_ref().filter(|p| p.gpu == *uuid) else { continue };
        let today = match &is.offer {
            Offer::Mig { instances, .. } => instances.iter().find(|i| Some(i.start) == place.start),
            _ => None,
        };
        let stays = |i: &tesela_model::layout::Instance| {
            gpu.instances.iter().any(|p| p.profile == i.profile && p.start == i.start)
        };
        let inside = *kinds == [ChangeKind::Geometry] && !node.operator;
        // Without a start nobody knows which instance it is; the count over the node looks at that.
        if inside && (place.start.is_none() || today.is_some_and(stays)) {
            continue;
        }
        let named =
            listed.iter().any(|c| c.gpu.as_ref() == Some(uuid) && c.disturbed_pods.contains(holder.pod));
        if !named {
            let message =
                format!("changes under {}/{}, which is not named", holder.pod.namespace, holder.pod.name);
            faults.add(Rule::Disturbed, format!("Node/{}/{uuid}", node.name), message);
        }
    }
}

/// A pod that must be restarted does not stay.
fn staying(facts: &Facts<'_>, node: &Node, named: &BTreeSet<&PodRef>, faults: &mut Faults) {
    for workload in facts.workloads.values() {
        let here = workload.running.iter().filter(|h| h.node == node.name);
        let pods = here.flat_map(|h| &h.pods).collect::<Vec<_>>();
        let gone = pods.iter().filter(|pod| named.contains(*pod)).count() as u64;
        if gone == 0 {
            continue;
        }
        let assigned =
            facts.assigned().filter(|(a, w)| w.key == workload.key && a.node.as_ref() == Some(&node.name));
        let stay = assigned.map(|(a, _)| a.staying).sum::<u64>();
        if stay + gone > pods.len() as u64 {
            let message =
                format!("{stay} of {} pods stay on {}, {gone} are disturbed there", pods.len(), node.name);
            faults.add(Rule::Disturbed, &workload.key, message);
        }
    }
}
