//! GPUs that nobody holds, and parts of GPUs that nobody can hold.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::finding::Severity;
use tesela_model::fleet::{MigStrategy, Offer};
use tesela_model::layout::Instance;
use tesela_model::product::{Product, ProfileName};
use tesela_model::quantity::{Bytes, MilliCpu};
use tesela_model::resource::{GpuDevice, GpuResource};

use super::{Draft, Group, Scene, counted, product, size, some_of};
use crate::observe::cut::Cutter;
use crate::observe::node::Observed;
use crate::observe::workload;

/// A pod that asks for nearly nothing still needs this much to start, where nobody says what pods ask for.
const LEAST_CPU: MilliCpu = MilliCpu(100);
const LEAST_MEMORY: Bytes = Bytes(64 << 20);

pub(super) fn find(scene: &Scene<'_>, cutter: &mut Cutter, drafts: &mut Vec<Draft>) {
    idle(scene, drafts);
    lost_slices(scene, cutter, drafts);
    out_of_reach(scene, drafts);
}

/// Nodes whose GPUs pods can get; what is closed or broken is told elsewhere.
fn usable<'a>(scene: &Scene<'a>) -> impl Iterator<Item = &'a Observed> {
    scene.nodes.iter().filter(|o| o.node.unusable.is_none() && o.node.schedulable)
}

/// What of one product nobody holds.
#[derive(Default)]
struct Idle<'a> {
    gpus: u64,
    whole: u64,
    others: u64,
    group: Group<'a>,
    instances: BTreeMap<String, (u64, u64)>,
    instance_nodes: Group<'a>,
}

fn idle(scene: &Scene<'_>, drafts: &mut Vec<Draft>) {
    let mut products = BTreeMap::<&str, Idle<'_>>::new();
    for observed in usable(scene).filter(|o| !o.node.gpus.is_empty()) {
        count_idle(scene, observed, products.entry(product(observed)).or_default());
    }
    for (product, idle) in products {
        if idle.group.gpus > 0 {
            drafts.push(idle_gpus(product, &idle));
        }
        if idle.instances.values().any(|(free, _)| *free > 0) {
            drafts.push(idle_instances(product, &idle, scene));
        }
    }
}

fn count_idle<'a>(scene: &Scene<'_>, observed: &'a Observed, idle: &mut Idle<'a>) {
    let count =
        |wanted: fn(&Offer) -> bool| size(observed.node.gpus.iter().filter(|g| wanted(&g.offer)).count());
    idle.gpus += size(observed.node.gpus.len());
    let (mut whole, mut others, mut free_instances) = (0, 0, 0);
    let (mut cut_held, mut share_held) = (0, 0);
    let single = in_single_instances(observed);
    for (resource, offered) in &observed.offered {
        let taken = scene.held_on(observed, resource);
        let free = offered.allocatable.saturating_sub(taken);
        match &resource.device {
            GpuDevice::Gpu if !single => {
                whole += free;
                share_held += taken;
            }
            _ => {
                let name = match &resource.device {
                    GpuDevice::Mig(profile) => profile.to_string(),
                    GpuDevice::Gpu => single_profile(observed),
                };
                let entry = idle.instances.entry(name).or_default();
                entry.0 += free;
                entry.1 += offered.allocatable;
                free_instances += free;
                cut_held += taken;
            }
        }
    }
    let exclusive = count(|o| *o == Offer::Exclusive);
    let shared = count(|o| matches!(o, Offer::TimeSliced { .. } | Offer::Mps { .. }));
    let cut = count(|o| matches!(o, Offer::Mig { instances, .. } if !instances.is_empty()));
    whole = if shared == 0 { whole.min(exclusive) } else { 0 };
    // Which GPU a share or an instance is on is not known: so many GPUs at least have no pod.
    if shared > 0 {
        others += (shared + exclusive).saturating_sub(share_held);
    }
    others += cut.saturating_sub(cut_held);
    idle.whole += whole;
    idle.others += others;
    if whole + others > 0 {
        idle.group.add(observed, whole + others);
    }
    if free_instances > 0 {
        idle.instance_nodes.add(observed, free_instances);
    }
}

/// Whether `nvidia.com/gpu` means an instance there. The label alone does not say so: it also stands on nodes
/// whose GPUs have MIG off.
fn in_single_instances(observed: &Observed) -> bool {
    observed.node.mig_strategy == MigStrategy::Single
        && observed.node.gpus.iter().any(|gpu| matches!(gpu.offer, Offer::Mig { .. }))
}

fn single_profile(observed: &Observed) -> String {
    let first = observed.node.gpus.iter().find_map(|gpu| match &gpu.offer {
        Offer::Mig { instances, .. } => instances.first(),
        _ => None,
    });
    first.map_or_else(|| "nvidia.com/gpu".to_owned(), |i| i.profile.to_string())
}

fn idle_gpus(product: &str, idle: &Idle<'_>) -> Draft {
    let kinds = match (idle.whole, idle.others) {
        (whole, 0) => format!("{whole} whole"),
        (0, others) => format!("at least {others} shared or cut"),
        (whole, others) => format!("{whole} whole, at least {others} shared or cut"),
    };
    Draft {
        severity: Severity::Warning,
        rule: "gpus-idle",
        subject: idle.group.subject(product),
        message: format!(
            "{} of {} of {product} that can be asked for {} held by no pod ({kinds}), on {}",
            idle.group.gpus,
            counted(idle.gpus, "GPU"),
            if idle.group.gpus == 1 { "is" } else { "are" },
            some_of(idle.group.nodes.iter().copied()),
        ),
        fix: "give them to pods that wait, keep them as headroom on purpose, or set the nodes free"
            .to_owned(),
        gpus: idle.group.gpus,
    }
}

fn idle_instances(product: &str, idle: &Idle<'_>, scene: &Scene<'_>) -> Draft {
    let free = idle.instances.iter().filter(|(_, (free, _))| *free > 0);
    let list = free.clone().map(|(name, (free, all))| format!("{free} of {all} {name}")).collect::<Vec<_>>();
    let asked = |name: &str| {
        let of = |r: &GpuResource| matches!(&r.device, GpuDevice::Mig(p) if p.as_str() == name);
        scene.demand.workloads.iter().any(|w| w.request.as_ref().is_some_and(of))
    };
    let single = |name: &str| scene.nodes.iter().any(|o| in_single_instances(o) && single_profile(o) == name);
    let unasked =
        free.map(|(name, _)| name.as_str()).filter(|name| !asked(name) && !single(name)).collect::<Vec<_>>();
    let unasked = if unasked.is_empty() {
        String::new()
    } else {
        format!("; no workload asks for {}", some_of(unasked))
    };
    Draft {
        severity: Severity::Info,
        rule: "mig-instances-idle",
        subject: idle.instance_nodes.subject(product),
        message: format!(
            "MIG devices of {product} held by no pod: {}, on {}{unasked}",
            list.join(", "),
            some_of(idle.instance_nodes.nodes.iter().copied()),
        ),
        fix: "let `tesela plan` cut what is asked for, or keep them as room to grow".to_owned(),
        gpus: 0,
    }
}

/// What of one product's MIG GPUs is in no instance.
#[derive(Default)]
struct Lost<'a> {
    slices: u64,
    units: u64,
    /// Whether one GPU alone loses two slices or units, more than most layouts must.
    heavy: bool,
    stranded: Group<'a>,
    room: Group<'a>,
    fitting: BTreeSet<ProfileName>,
}

/// Compute slices and memory units in no instance: stranded where no profile in use fits, else room not cut.
fn lost_slices(scene: &Scene<'_>, cutter: &mut Cutter, drafts: &mut Vec<Draft>) {
    let mut lost = BTreeMap::<&str, Lost<'_>>::new();
    let used = profiles_in_use(scene);
    for observed in usable(scene) {
        for gpu in &observed.node.gpus {
            let Offer::Mig { instances, .. } = &gpu.offer else {
                continue;
            };
            let Some(product) = scene.table.look_up(&gpu.product) else {
                continue;
            };
            if !instances.is_empty() {
                // Under strategy single all instances of the node are of one profile.
                let in_use = if observed.node.mig_strategy == MigStrategy::Single {
                    instances.iter().map(|i| i.profile.clone()).collect()
                } else {
                    used.get(gpu.product.as_str()).cloned().unwrap_or_default()
                };
                look_at(observed, product, instances, &in_use, cutter, lost.entry(&gpu.product).or_default());
            }
        }
    }
    for (product, lost) in lost {
        let in_use = used.get(product).into_iter().flatten().map(ToString::to_string).collect::<Vec<_>>();
        if lost.stranded.gpus > 0 {
            drafts.push(stranded(product, &lost, &in_use));
        }
        if lost.room.gpus > 0 {
            drafts.push(room(product, &lost));
        }
    }
}

fn look_at<'a>(
    observed: &'a Observed,
    product: &Product,
    instances: &[Instance],
    in_use: &BTreeSet<ProfileName>,
    cutter: &mut Cutter,
    lost: &mut Lost<'a>,
) {
    let mut geometry = BTreeMap::<ProfileName, u64>::new();
    let (mut slices, mut units) = (product.compute_slices, product.units());
    for instance in instances {
        *geometry.entry(instance.profile.clone()).or_default() += 1;
        units = units.saturating_sub(instance.size);
        let taken = product.profile(instance.profile.as_str()).map_or(0, |p| p.compute_slices);
        slices = slices.saturating_sub(taken);
    }
    if slices + units == 0 {
        return;
    }
    // By geometry and not by start, since the starts are estimated.
    let fits = |profile: &&ProfileName| {
        let mut more = geometry.clone();
        *more.entry((*profile).clone()).or_default() += 1;
        cutter.spread(product, &more, 1).is_ok()
    };
    let fitting = in_use.iter().filter(fits).cloned().collect::<Vec<_>>();
    if fitting.is_empty() {
        lost.slices += u64::from(slices);
        lost.units += u64::from(units);
        lost.heavy |= slices >= 2 || units >= 2;
        lost.stranded.add(observed, 1);
    } else {
        lost.fitting.extend(fitting);
        lost.room.add(observed, 1);
    }
}

/// Profiles that instances or requests name, by product.
fn profiles_in_use<'a>(scene: &Scene<'a>) -> BTreeMap<&'a str, BTreeSet<ProfileName>> {
    let mut used = BTreeMap::<&str, BTreeSet<ProfileName>>::new();
    for gpu in scene.nodes.iter().flat_map(|o| &o.node.gpus) {
        if let Offer::Mig { instances, .. } = &gpu.offer {
            used.entry(&gpu.product).or_default().extend(instances.iter().map(|i| i.profile.clone()));
        }
    }
    for workload in &scene.demand.workloads {
        let Some(GpuDevice::Mig(profile)) = workload.request.as_ref().map(|r| &r.device) else {
            continue;
        };
        for (product, profiles) in &mut used {
            let known = scene.table.look_up(product).and_then(|p| p.profile(profile.as_str()).ok());
            profiles.extend(known.map(|p| p.name.clone()));
        }
    }
    used
}

fn stranded(product: &str, lost: &Lost<'_>, in_use: &[String]) -> Draft {
    let parts = [(lost.slices, "compute slice"), (lost.units, "memory unit")];
    let parts = parts.iter().filter(|(n, _)| *n > 0).map(|(n, one)| counted(*n, one)).collect::<Vec<_>>();
    Draft {
        severity: if lost.heavy { Severity::Warning } else { Severity::Info },
        rule: "mig-stranded-slices",
        subject: lost.stranded.subject(product),
        message: format!(
            "{} of {} of {product} are in no instance, and no profile in use ({}) fits there, on {} (layouts estimated from counts)",
            parts.join(" and "),
            counted(lost.stranded.gpus, "MIG GPU"),
            some_of(in_use.iter().map(String::as_str)),
            some_of(lost.stranded.nodes.iter().copied()),
        ),
        fix: "cut other layouts: `tesela plan` packs the same instances with the least waste, `tesela layouts` lists what is possible".to_owned(),
        gpus: lost.stranded.gpus,
    }
}

fn room(product: &str, lost: &Lost<'_>) -> Draft {
    let fitting = lost.fitting.iter().map(ToString::to_string).collect::<Vec<_>>();
    Draft {
        severity: Severity::Warning,
        rule: "mig-room-not-cut",
        subject: lost.room.subject(product),
        message: format!(
            "{} of {product} on {} {} room for more instances (of {}) that were never made, so nobody can ask for them (layouts estimated from counts)",
            counted(lost.room.gpus, "MIG GPU"),
            some_of(lost.room.nodes.iter().copied()),
            if lost.room.gpus == 1 { "has" } else { "have" },
            some_of(fitting.iter().map(String::as_str)),
        ),
        fix: "add the instances to the node's MIG config when pods of these GPUs may restart: NVIDIA's MIG Manager makes all instances of a changed GPU anew".to_owned(),
        gpus: lost.room.gpus,
    }
}

/// CPU and memory that pods leave on each node.
fn left_on_nodes<'a>(scene: &Scene<'a>) -> BTreeMap<&'a str, (Option<MilliCpu>, Option<Bytes>)> {
    let mut left = BTreeMap::new();
    for observed in scene.nodes {
        let node = &observed.node;
        let cpu = node.cpu.map(|c| MilliCpu(c.0.saturating_sub(node.cpu_taken.0)));
        let memory = node.memory.map(|m| Bytes(m.0.saturating_sub(node.memory_taken.0)));
        left.insert(node.name.as_str(), (cpu, memory));
    }
    for (_, record, pod) in scene.asking {
        let entry = record.node.as_deref().and_then(|name| left.get_mut(name));
        if let Some((cpu, memory)) = entry.filter(|_| workload::is_demand(record, pod)) {
            *cpu = cpu.map(|c| MilliCpu(c.0.saturating_sub(record.cpu.0)));
            *memory = memory.map(|m| Bytes(m.0.saturating_sub(record.memory.0)));
        }
    }
    left
}

/// Devices that are free on a node whose CPU or memory is used up.
fn out_of_reach(scene: &Scene<'_>, drafts: &mut Vec<Draft>) {
    let left = left_on_nodes(scene);
    let mut needs = BTreeMap::<&GpuResource, BTreeSet<(MilliCpu, Bytes)>>::new();
    for workload in &scene.demand.workloads {
        if let Some(resource) = &workload.request {
            needs.entry(resource).or_default().insert((workload.cpu, workload.memory));
        }
    }
    let least = BTreeSet::from([(LEAST_CPU, LEAST_MEMORY)]);
    let mut found = BTreeMap::<(&str, &GpuResource), (Group<'_>, BTreeSet<String>)>::new();
    for observed in usable(scene) {
        let (cpu, memory) = left.get(observed.node.name.as_str()).copied().unwrap_or_default();
        for (resource, offered) in &observed.offered {
            let free = offered.allocatable.saturating_sub(scene.held_on(observed, resource));
            if free == 0 {
                continue;
            }
            let needs = needs.get(resource).unwrap_or(&least);
            let fits =
                |(c, m): &(MilliCpu, Bytes)| cpu.is_none_or(|l| *c <= l) && memory.is_none_or(|l| *m <= l);
            if needs.iter().any(fits) {
                continue;
            }
            let (group, said) = found.entry((product(observed), resource)).or_default();
            group.add(observed, free);
            said.extend(needs.first().map(|need| short_of(*need, cpu, memory)));
        }
    }
    for ((product, resource), (group, said)) in found {
        drafts.push(Draft {
            severity: Severity::Warning,
            rule: "fraction-out-of-reach",
            subject: group.subject(product),
            message: format!(
                "{} {resource} {} free on {}, but no pod can get {}: {}",
                group.gpus,
                if group.gpus == 1 { "is" } else { "are" },
                some_of(group.nodes.iter().copied()),
                if group.gpus == 1 { "it" } else { "them" },
                some_of(said.iter().map(String::as_str)),
            ),
            fix: "lower the CPU and memory requests of pods there, move pods without GPUs away (taint the nodes), or cut fewer and larger fractions".to_owned(),
            gpus: group.gpus,
        });
    }
}

fn short_of(need: (MilliCpu, Bytes), cpu: Option<MilliCpu>, memory: Option<Bytes>) -> String {
    let mut parts = Vec::new();
    if let Some(left) = cpu.filter(|left| *left < need.0) {
        parts.push(format!("{left} CPU left, the least pod that asks for it wants {}", need.0));
    }
    if let Some(left) = memory.filter(|left| *left < need.1) {
        parts.push(format!("{left} memory left, the least pod that asks for it wants {}", need.1));
    }
    parts.join(" and ")
}
