//! What runs today: whether it already is as decided, and who may or must move.

use std::collections::BTreeSet;

use tesela_model::demand::{Holding, Isolation, Workload};
use tesela_model::fleet::{MigStrategy, Mode, Node, Offer};
use tesela_model::product::ProfileName;
use tesela_model::resource::GpuDevice;

use crate::decide::{Decision, InstanceNeed, Shape, ShareNeed};
use crate::input::PlanInput;

/// What a pod's device really is, given how its node offers GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Held<'a> {
    Whole,
    Shared {
        mode: Mode,
        replicas: u32,
        product: &'a str,
    },
    Instance {
        profile: &'a ProfileName,
        shared: bool,
        product: &'a str,
    },
    /// The node does not offer such a device, as far as can be seen.
    Unseen,
}

/// What a holding is.
pub(crate) fn held<'a>(input: &PlanInput<'a>, holding: &Holding) -> Held<'a> {
    let node = input.fleet.nodes.binary_search_by(|n| n.name.as_str().cmp(&holding.node));
    let node = match node {
        Ok(index) => Some(&input.fleet.nodes[index]),
        Err(_) => input.fleet.nodes.iter().find(|n| n.name == holding.node),
    };
    node.map_or(Held::Unseen, |node| held_on(node, holding))
}

fn held_on<'a>(node: &'a Node, holding: &Holding) -> Held<'a> {
    let here = holding.place.as_ref();
    for gpu in &node.gpus {
        if here.is_some_and(|place| gpu.uuid.as_ref().is_some_and(|u| *u != place.gpu)) {
            continue;
        }
        match (&gpu.offer, &holding.resource.device) {
            (Offer::Exclusive, GpuDevice::Gpu) if !holding.resource.shared => return Held::Whole,
            (Offer::TimeSliced { replicas }, GpuDevice::Gpu) => {
                return Held::Shared { mode: Mode::TimeSliced, replicas: *replicas, product: &gpu.product };
            }
            (Offer::Mps { replicas }, GpuDevice::Gpu) => {
                return Held::Shared { mode: Mode::Mps, replicas: *replicas, product: &gpu.product };
            }
            (Offer::Mig { instances, replicas, .. }, device) => {
                let single = node.mig_strategy == MigStrategy::Single;
                let mine = instances.iter().find(|i| match device {
                    GpuDevice::Gpu => single,
                    GpuDevice::Mig(wanted) => *wanted == i.profile,
                });
                if let Some(instance) = mine {
                    let shared = replicas.contains_key(&instance.profile);
                    return Held::Instance { profile: &instance.profile, shared, product: &gpu.product };
                }
            }
            _ => {}
        }
    }
    Held::Unseen
}

/// Whether what a pod holds is what was decided for it.
pub(crate) fn matches(input: &PlanInput<'_>, decision: &Decision, w: usize, holding: &Holding) -> bool {
    let workload = &input.demand.workloads[w];
    let held = held(input, holding);
    match decision.shapes.first() {
        Some(Shape::AsRequested) | None => isolates(input, decision, w, holding),
        Some(Shape::Whole) => held == Held::Whole && holding.devices == workload.gpus,
        Some(Shape::Instance(need)) => is_wanted_instance(input, need, &held),
        Some(Shape::Share(need)) => is_wanted_share(input, need, &held, holding),
    }
}

/// Whether what a pod holds isolates as much as it needs. What cannot be seen is left alone.
pub(crate) fn isolates(input: &PlanInput<'_>, decision: &Decision, w: usize, holding: &Holding) -> bool {
    let held = held(input, holding);
    let shared = matches!(held, Held::Shared { .. } | Held::Instance { shared: true, .. });
    match decision.isolation {
        Isolation::None => true,
        Isolation::Tenant => !shared || is_alone(input, &holding.node, &input.demand.workloads[w].tenant),
        Isolation::Instance => !shared,
        Isolation::Device => matches!(held, Held::Whole | Held::Unseen),
    }
}

fn is_wanted_instance(input: &PlanInput<'_>, need: &InstanceNeed, held: &Held<'_>) -> bool {
    let Held::Instance { profile, shared: false, product } = held else {
        return false;
    };
    let Ok(product) = input.products.find(product) else {
        return false;
    };
    let Some(rules) = crate::world::mig::MigRules::of(product) else {
        return false;
    };
    crate::place::wanted_profile(&rules, need) == rules.find(profile)
}

fn is_wanted_share(input: &PlanInput<'_>, need: &ShareNeed, held: &Held<'_>, holding: &Holding) -> bool {
    let Held::Shared { mode, replicas, product } = held else {
        return false;
    };
    let memory = gpu_memory(input, &holding.node, product);
    let most = crate::place::most_replicas(memory, need, &input.settings);
    *mode == need.mode
        && *replicas <= most
        && need.tenant.as_ref().is_none_or(|t| is_alone(input, &holding.node, t))
}

fn gpu_memory(input: &PlanInput<'_>, node: &str, product: &str) -> Option<tesela_model::quantity::Mib> {
    let gpus = input.fleet.nodes.iter().find(|n| n.name == node).map(|n| n.gpus.as_slice())?;
    let found = gpus.iter().find(|g| g.product == product).and_then(|g| g.memory);
    found.or_else(|| input.products.find(product).ok().and_then(|p| p.memory))
}

/// Whether only this tenant shares devices on a node.
fn is_alone(input: &PlanInput<'_>, node: &str, tenant: &str) -> bool {
    let shares =
        |h: &Holding| matches!(held(input, h), Held::Shared { .. } | Held::Instance { shared: true, .. });
    input
        .demand
        .workloads
        .iter()
        .filter(|w| w.tenant != tenant)
        .flat_map(|w| &w.running)
        .all(|h| h.node != node || !shares(h))
}

/// Workloads whose running pods must move (their device does not isolate enough), and those that may because
/// something else was decided for them.
pub(crate) fn movers(input: &PlanInput<'_>, decisions: &[Decision]) -> (BTreeSet<usize>, BTreeSet<usize>) {
    let (mut forced, mut willing) = (BTreeSet::new(), BTreeSet::new());
    for (w, workload) in input.demand.workloads.iter().enumerate() {
        if !workload.movable {
            continue;
        }
        let decision = &decisions[w];
        if workload.running.iter().any(|h| !isolates(input, decision, w, h)) {
            forced.insert(w);
        } else if may_gain(workload, decision)
            && workload.running.iter().any(|h| !matches(input, decision, w, h))
        {
            willing.insert(w);
        }
    }
    (forced, willing)
}

/// Work of unknown need keeps what it has; so does work whose decision is what it asks for.
fn may_gain(workload: &Workload, decision: &Decision) -> bool {
    decision.known && !workload.running.is_empty() && decision.shapes.first() != Some(&Shape::AsRequested)
}
