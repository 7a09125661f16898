//! Assignments against the devices of the planned nodes: how many, who, and whether they fit.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::demand::{Holding, Workload};
use tesela_model::fleet::{Gpu, MigStrategy, Mode, Node, Offer};
use tesela_model::plan::{Assignment, PlannedGpu, PlannedNode, Use};
use tesela_model::product::ProfileName;
use tesela_model::resource::{GpuDevice, GpuResource};

use super::{Facts, Faults, Rule, devices, node_name, subject};

/// One device of a planned node: a whole GPU or an instance.
struct Device<'a> {
    kind: Kind<'a>,
    uuid: Option<&'a str>,
    start: Option<u32>,
    used_by: &'a [Use],
    /// Memory that those who share it have together, where known.
    memory: Option<u64>,
}

/// Devices that an assignment does not tell apart.
type Kind<'a> = (Mode, Option<u32>, &'a str, Option<&'a ProfileName>);

fn kind_of(a: &Assignment) -> Kind<'_> {
    (a.mode, a.replicas, &a.product, a.profile.as_ref())
}

fn describe((mode, replicas, product, profile): Kind<'_>) -> String {
    let profile = profile.map_or_else(String::new, |p| format!(" {p}"));
    let replicas = replicas.map_or_else(String::new, |r| format!(" × {r}"));
    format!("{mode}{profile}{replicas} of {product}")
}

pub(super) fn check(facts: &Facts<'_>, faults: &mut Faults) {
    let by_node = facts.by_node();
    for node in &facts.plan.nodes {
        for device in devices_of(facts, node) {
            crowded(node, &device, faults);
        }
    }
    for (name, assigned) in &by_node {
        let planned = match name {
            Some(name) => facts.planned.get(name).copied().into_iter().collect::<Vec<_>>(),
            None => facts.bought.clone(),
        };
        if planned.is_empty() {
            continue;
        }
        let all = planned.iter().flat_map(|node| devices_of(facts, node)).collect::<Vec<_>>();
        let assigned = assigned.iter().map(|(a, _)| *a).collect::<Vec<_>>();
        let none = BTreeMap::new();
        let unseen = name.and_then(|name| facts.unseen.get(name)).unwrap_or(&none);
        count(*name, &all, &assigned, unseen, faults);
        seats(&all, &assigned, faults);
        together(&planned, &assigned, unseen, faults);
        memory(facts, *name, &all, &assigned, faults);
    }
    users(facts, faults);
    for (a, w) in facts.assigned().filter(|(a, _)| a.gpus > 1 && a.mode == Mode::Mig) {
        let cut = w.request.as_ref().is_some_and(|r| matches!(r.device, GpuDevice::Mig(_)));
        if a.staying < a.count && !cut {
            faults.add(Rule::SeveralGpus, subject(a), format!("{} devices per pod on MIG", a.gpus));
        }
    }
}

fn devices_of<'a>(facts: &Facts<'a>, node: &'a PlannedNode) -> Vec<Device<'a>> {
    let is = node.name.as_deref().and_then(|name| facts.nodes.get(name));
    let mut devices = Vec::new();
    for (index, gpu) in node.gpus.iter().enumerate() {
        let real = is.and_then(|n| n.gpus.get(index));
        if gpu.mode == Mode::Mig {
            devices.extend(instances_of(facts, gpu));
        } else {
            devices.push(Device {
                kind: (gpu.mode, gpu.replicas, &gpu.product, None),
                uuid: gpu.uuid.as_deref(),
                start: None,
                used_by: &gpu.used_by,
                memory: facts.gpu_memory(real, &gpu.product).map(|m| m.0),
            });
        }
    }
    devices
}

fn instances_of<'a>(facts: &Facts<'a>, gpu: &'a PlannedGpu) -> impl Iterator<Item = Device<'a>> {
    let product = facts.product(&gpu.product);
    gpu.instances.iter().map(move |i| Device {
        kind: (Mode::Mig, i.replicas, &gpu.product, Some(&i.profile)),
        uuid: gpu.uuid.as_deref(),
        start: Some(i.start),
        used_by: &i.used_by,
        memory: product.and_then(|p| p.profile(i.profile.as_str()).ok()).and_then(|p| p.memory).map(|m| m.0),
    })
}

/// One pod on a whole device, no more than its shares on a shared one.
fn crowded(node: &PlannedNode, device: &Device<'_>, faults: &mut Faults) {
    let pods = device.used_by.iter().map(|u| u.pods).fold(0u64, u64::saturating_add);
    let (rule, most) = match device.kind.1 {
        None => (Rule::UsedTwice, 1),
        Some(replicas) => (Rule::Shares, u64::from(replicas)),
    };
    if pods > most {
        let what = describe(device.kind);
        faults.add(rule, node_name(node.name.as_deref()), format!("{pods} pods use one {what}, {most} may"));
    }
    if let Some(user) = device.used_by.iter().find(|u| u.pods == 0) {
        faults.add(
            Rule::ZeroCount,
            node_name(node.name.as_deref()),
            format!("0 pods of {} use a device", user.workload),
        );
    }
}

/// Devices that pods hold today though their node does not offer so many, by node and resource: the pods go on, and
/// no plan can say where they are.
pub(super) fn unseen<'a>(
    nodes: &BTreeMap<&'a str, &'a Node>,
    workloads: &BTreeMap<super::Key<'a>, &'a Workload>,
) -> BTreeMap<&'a str, BTreeMap<GpuResource, u64>> {
    let mut holdings: BTreeMap<&str, Vec<&Holding>> = BTreeMap::new();
    for held in workloads.values().flat_map(|w| &w.running) {
        holdings.entry(&held.node).or_default().push(held);
    }
    let none = Vec::new();
    let of_node = |(name, node): (&&'a str, &&'a Node)| {
        let unseen = unseen_on(node, holdings.get(name).unwrap_or(&none));
        (!unseen.is_empty()).then_some((*name, unseen))
    };
    nodes.iter().filter_map(of_node).collect()
}

fn unseen_on(node: &Node, of_demand: &[&Holding]) -> BTreeMap<GpuResource, u64> {
    let mut offered: BTreeMap<GpuResource, u64> = BTreeMap::new();
    for gpu in &node.gpus {
        for (resource, units) in units_today(node, gpu) {
            *offered.entry(resource).or_insert(0) += units;
        }
    }
    let mut left = offered;
    let mut unseen: BTreeMap<GpuResource, u64> = BTreeMap::new();
    for held in node.held_by_others.iter().chain(of_demand.iter().copied()) {
        let wanted = (held.pods.len() as u64).saturating_mul(u64::from(held.devices));
        let free = left.entry(held.resource.clone()).or_insert(0);
        let seen = if place_exists(node, held) { wanted.min(*free) } else { 0 };
        *free -= seen;
        if wanted > seen {
            *unseen.entry(held.resource.clone()).or_insert(0) += wanted - seen;
        }
    }
    unseen
}

/// Whether pods that are no demand hold more here than the node offers.
pub(super) fn others_hide(node: &Node) -> bool {
    let mut left: BTreeMap<GpuResource, u64> = BTreeMap::new();
    for (resource, units) in node.gpus.iter().flat_map(|gpu| units_today(node, gpu)) {
        *left.entry(resource).or_insert(0) += units;
    }
    node.held_by_others.iter().any(|held| {
        let wanted = (held.pods.len() as u64).saturating_mul(u64::from(held.devices));
        let free = left.entry(held.resource.clone()).or_insert(0);
        let hides = wanted > *free;
        *free = free.saturating_sub(wanted);
        hides
    })
}

fn place_exists(node: &Node, held: &Holding) -> bool {
    held.place
        .as_ref()
        .is_none_or(|place| node.gpus.iter().any(|g| g.uuid.as_ref().is_none_or(|u| *u == place.gpu)))
}

/// Units of each resource that a GPU offers today.
pub(super) fn units_today(node: &Node, gpu: &Gpu) -> Vec<(GpuResource, u64)> {
    let named = |name: GpuResource| if node.shares_renamed { name.renamed() } else { name };
    match &gpu.offer {
        Offer::Exclusive => vec![(GpuResource::gpu(), 1)],
        Offer::TimeSliced { replicas } | Offer::Mps { replicas } => {
            vec![(named(GpuResource::gpu()), u64::from(*replicas))]
        }
        Offer::Mig { instances, replicas, .. } => {
            let name = |profile: &ProfileName| match node.mig_strategy {
                MigStrategy::None => None,
                MigStrategy::Single => Some(GpuResource::gpu()),
                MigStrategy::Mixed => Some(GpuResource::mig(profile.clone())),
            };
            let unit = |profile: &ProfileName| {
                Some(match replicas.get(profile) {
                    Some(n) => (named(name(profile)?), u64::from(*n)),
                    None => (name(profile)?, 1),
                })
            };
            instances.iter().filter_map(|i| unit(&i.profile)).collect()
        }
    }
}

/// No more devices are assigned than there are, and the devices' users are the assignments.
fn count(
    name: Option<&str>,
    all: &[Device<'_>],
    assigned: &[&Assignment],
    unseen: &BTreeMap<GpuResource, u64>,
    faults: &mut Faults,
) {
    let mut there: BTreeMap<Kind<'_>, u64> = BTreeMap::new();
    let mut taken: BTreeMap<Kind<'_>, u64> = BTreeMap::new();
    for device in all {
        let others = device.used_by.iter().filter(|u| u.namespace.is_empty()).map(|u| u.pods).sum::<u64>();
        let units = device.kind.1.map_or(1, u64::from);
        *there.entry(device.kind).or_insert(0) += units.saturating_sub(others);
    }
    for a in assigned {
        let hidden = if a.staying == a.count { unseen.get(&a.resource).copied().unwrap_or(0) } else { 0 };
        *taken.entry(kind_of(a)).or_insert(0) += devices(a).saturating_sub(hidden);
    }
    for (kind, wanted) in taken {
        let have = there.get(&kind).copied().unwrap_or(0);
        if wanted > have {
            let message = format!("{wanted} × {} are assigned, {have} are there", describe(kind));
            faults.add(Rule::Devices, node_name(name), message);
        }
    }
}

/// `gpu` and `start` name a device that the plan makes.
fn seats(all: &[Device<'_>], assigned: &[&Assignment], faults: &mut Faults) {
    for a in assigned.iter().filter(|a| a.gpu.is_some() || a.start.is_some()) {
        let found = all.iter().any(|d| {
            d.kind == kind_of(a)
                && a.gpu.as_deref().is_none_or(|uuid| d.uuid == Some(uuid))
                && a.start.is_none_or(|start| d.start == Some(start))
        });
        if !found {
            let message =
                format!("gpu {:?}, start {:?} is no {} of the node", a.gpu, a.start, describe(kind_of(a)));
            faults.add(Rule::Seat, subject(a), message);
        }
    }
}

/// All GPUs of a pod are on one node: each node takes whole pods only.
fn together(
    nodes: &[&PlannedNode],
    assigned: &[&Assignment],
    unseen: &BTreeMap<GpuResource, u64>,
    faults: &mut Faults,
) {
    for a in assigned.iter().filter(|a| a.gpus > 1 && unseen.get(&a.resource).is_none()) {
        let of_kind = |node: &&PlannedNode| -> u64 {
            let whole = node.gpus.iter().filter(|g| g.product == a.product && g.mode == a.mode);
            whole
                .map(|g| match a.mode {
                    Mode::Mig => {
                        let mine = g.instances.iter().filter(|i| Some(&i.profile) == a.profile.as_ref());
                        mine.map(|i| i.replicas.map_or(1, u64::from)).sum()
                    }
                    _ => g.replicas.map_or(1, u64::from),
                })
                .sum()
        };
        let pods = nodes.iter().map(|node| of_kind(node) / u64::from(a.gpus)).sum::<u64>();
        let largest = nodes.iter().map(of_kind).max().unwrap_or(0);
        if pods < a.count && devices(a) <= nodes.iter().map(of_kind).sum() || largest < u64::from(a.gpus) {
            let message = format!(
                "{} pods with {} GPUs each, the largest node has {largest} of that kind",
                a.count, a.gpus
            );
            faults.add(Rule::CrossesNode, subject(a), message);
        }
    }
}

/// The workload that a device names.
pub(super) fn used_by(user: &Use) -> super::Key<'_> {
    (&user.namespace, &user.kind, &user.workload)
}

/// The users that the devices name are the assignments, workload by workload.
fn users(facts: &Facts<'_>, faults: &mut Faults) {
    let mut named: BTreeMap<(Option<&str>, Kind<'_>, super::Key<'_>), u64> = BTreeMap::new();
    let mut assigned = named.clone();
    let mut hidden: BTreeSet<Option<&str>> = BTreeSet::new();
    for node in &facts.plan.nodes {
        let name = node.name.as_deref();
        if name.is_some_and(|name| facts.unseen.contains_key(name)) {
            hidden.insert(name);
        }
        for device in devices_of(facts, node) {
            for user in device.used_by.iter().filter(|u| !u.namespace.is_empty()) {
                *named.entry((name, device.kind, used_by(user))).or_insert(0) += user.pods;
            }
        }
    }
    for a in facts.plan.assignments.iter() {
        let name = a.node.as_deref();
        if name.is_some_and(|name| !facts.planned.contains_key(name)) {
            continue;
        }
        *assigned.entry((name, kind_of(a), super::key_of(a))).or_insert(0) += devices(a);
    }
    let keys = named.keys().chain(assigned.keys()).copied().collect::<BTreeSet<_>>();
    for key in keys {
        let (on, given) = (named.get(&key).copied().unwrap_or(0), assigned.get(&key).copied().unwrap_or(0));
        let (name, kind, (namespace, owner, workload)) = key;
        if on > given || on < given && !hidden.contains(&name) {
            let message = format!(
                "{owner}/{namespace}/{workload} uses {on} × {}, {given} are assigned",
                describe(kind)
            );
            faults.add(Rule::Users, node_name(name), message);
        }
    }
}

/// New pods on an instance have the part of the GPU's compute that their work keeps busy.
fn compute(facts: &Facts<'_>, workload: &Workload, a: &Assignment, faults: &mut Faults) {
    // A profile that a person chose by hand is theirs to judge.
    let judged = a.mode == Mode::Mig && a.staying < a.count && workload.profile.is_none();
    let Some(part) = workload.compute.filter(|_| judged) else { return };
    let Some(product) = facts.product(&a.product) else { return };
    let slices = a.profile.as_ref().and_then(|p| product.profile(p.as_str()).ok()).map(|p| p.compute_slices);
    let (all, wants) = (u64::from(product.compute_slices), u64::from(part.value.as_permille()));
    if let Some(has) = slices.filter(|has| u64::from(*has) * 1000 < wants * all) {
        let message =
            format!("keeps {wants} thousandths of a GPU busy, its instance has {has} of {all} slices");
        faults.add(Rule::DeviceCompute, subject(a), message);
    }
}

/// Need and context of each pod fit its device, and those of all who share one fit it together.
fn memory(
    facts: &Facts<'_>,
    name: Option<&str>,
    all: &[Device<'_>],
    assigned: &[&Assignment],
    faults: &mut Faults,
) {
    let mut needs: BTreeMap<super::Key<'_>, (u64, u64)> = BTreeMap::new();
    let mut fresh: BTreeSet<(Kind<'_>, super::Key<'_>)> = BTreeSet::new();
    for a in assigned {
        let Some(workload) = facts.workload(a) else { continue };
        compute(facts, workload, a, faults);
        let Some(need) = facts.need(workload) else { continue };
        if a.staying < a.count {
            fresh.insert((kind_of(a), super::key_of(a)));
        }
        let entry = needs.entry(super::key_of(a)).or_insert((0, 1));
        *entry = (need.max(entry.0), u64::from(a.gpus.max(1)).max(entry.1));
        let room = all.iter().filter(|d| d.kind == kind_of(a)).map(|d| d.memory.unwrap_or(u64::MAX)).max();
        if let Some(room) = room.filter(|room| a.staying < a.count && need > *room) {
            let message = format!("needs {need} MiB with its context, {} has {room}", describe(kind_of(a)));
            faults.add(Rule::DeviceMemory, subject(a), message);
        }
    }
    // Where nobody comes whose need is known, what sits together today is no fault of the plan.
    let comes = |d: &Device<'_>| d.used_by.iter().any(|u| fresh.contains(&(d.kind, used_by(u))));
    for device in all.iter().filter(|d| d.kind.1.is_some() && comes(d)) {
        let of = |u: &Use| needs.get(&used_by(u)).copied().unwrap_or((0, 1));
        let need = |u: &Use| of(u).0;
        // Several shares that one pod has of a device hold its memory once.
        let pods = |u: &Use| u.pods.div_ceil(of(u).1);
        let sum =
            device.used_by.iter().map(|u| need(u).saturating_mul(pods(u))).fold(0u64, u64::saturating_add);
        let single = device.used_by.iter().map(need).max().unwrap_or(0);
        if let Some(room) = device.memory.filter(|room| sum > *room && single <= *room) {
            let message =
                format!("its sharers need {sum} MiB together, {} has {room}", describe(device.kind));
            faults.add(Rule::SharedMemory, node_name(name), message);
        }
    }
}
