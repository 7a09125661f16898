//! What runs today: whether it already is as decided, and who may or must move.

use std::collections::{BTreeMap, BTreeSet};

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
    node(input, &holding.node).map_or(Held::Unseen, |node| held_on(node, holding))
}

/// A node by its name. The planner's nodes are in order.
fn node<'a>(input: &PlanInput<'a>, name: &str) -> Option<&'a Node> {
    match input.fleet.nodes.binary_search_by(|n| n.name.as_str().cmp(name)) {
        Ok(index) => Some(&input.fleet.nodes[index]),
        Err(_) => input.fleet.nodes.iter().find(|n| n.name == name),
    }
}

/// Tenants whose pods hold shares, by node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sharers<'a> {
    tenants: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> Sharers<'a> {
    pub(crate) fn of(input: &PlanInput<'a>) -> Self {
        let mut tenants: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for workload in &input.demand.workloads {
            for holding in &workload.running {
                if held(input, holding).is_shared(holding) {
                    tenants.entry(&holding.node).or_default().insert(&workload.tenant);
                }
            }
        }
        Self { tenants }
    }

    /// Whether only this tenant shares devices on a node.
    fn is_alone(&self, node: &str, tenant: &str) -> bool {
        self.tenants.get(node).is_none_or(|here| here.iter().all(|t| *t == tenant))
    }
}

impl Held<'_> {
    /// What cannot be seen is what its name says.
    fn is_shared(&self, holding: &Holding) -> bool {
        matches!(self, Self::Shared { .. } | Self::Instance { shared: true, .. })
            || *self == Self::Unseen && holding.resource.shared
    }
}

fn held_on<'a>(node: &'a Node, holding: &Holding) -> Held<'a> {
    let here = holding.place.as_ref();
    for gpu in &node.gpus {
        if here.is_some_and(|place| gpu.uuid.as_ref().is_some_and(|u| *u != place.gpu)) {
            continue;
        }
        // Under another name it is not this that the pod holds.
        let named = |shared: bool| holding.resource.shared == (shared && node.shares_renamed);
        match (&gpu.offer, &holding.resource.device) {
            (Offer::Exclusive, GpuDevice::Gpu) if !holding.resource.shared => return Held::Whole,
            (Offer::TimeSliced { replicas }, GpuDevice::Gpu) if named(true) => {
                return Held::Shared { mode: Mode::TimeSliced, replicas: *replicas, product: &gpu.product };
            }
            (Offer::Mps { replicas }, GpuDevice::Gpu) if named(true) => {
                return Held::Shared { mode: Mode::Mps, replicas: *replicas, product: &gpu.product };
            }
            (Offer::Mig { instances, replicas, .. }, device) => {
                let single = node.mig_strategy == MigStrategy::Single;
                let mine = instances.iter().find(|i| {
                    let device = match device {
                        GpuDevice::Gpu => single,
                        GpuDevice::Mig(wanted) => *wanted == i.profile,
                    };
                    device && named(replicas.contains_key(&i.profile))
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
pub(crate) fn matches(
    input: &PlanInput<'_>,
    sharers: &Sharers<'_>,
    decision: &Decision,
    w: usize,
    holding: &Holding,
) -> bool {
    let workload = &input.demand.workloads[w];
    let held = held(input, holding);
    match decision.shapes.first() {
        Some(Shape::AsRequested) | None => isolates(input, sharers, decision, w, holding),
        Some(Shape::Whole) => held == Held::Whole && holding.devices == workload.gpus,
        Some(Shape::Instance(need)) => is_wanted_instance(input, need, &held),
        Some(Shape::Share(need)) => is_wanted_share(input, sharers, need, &held, holding),
    }
}

/// Whether what a pod holds isolates as much as it needs. What cannot be seen is left alone.
pub(crate) fn isolates(
    input: &PlanInput<'_>,
    sharers: &Sharers<'_>,
    decision: &Decision,
    w: usize,
    holding: &Holding,
) -> bool {
    let held = held(input, holding);
    let shared = held.is_shared(holding);
    match decision.isolation {
        Isolation::None => true,
        Isolation::Tenant => !shared || sharers.is_alone(&holding.node, &input.demand.workloads[w].tenant),
        Isolation::Instance => !shared,
        Isolation::Device => {
            let named_whole = holding.resource.device == GpuDevice::Gpu && !shared;
            held == Held::Whole || held == Held::Unseen && named_whole
        }
    }
}

fn is_wanted_instance(input: &PlanInput<'_>, need: &InstanceNeed, held: &Held<'_>) -> bool {
    let Held::Instance { profile, shared: false, product } = held else {
        return false;
    };
    let Some(product) = input.products.look_up(product) else {
        return false;
    };
    let Some(rules) = crate::world::mig::MigRules::of(product) else {
        return false;
    };
    crate::place::wanted_profile(&rules, need) == rules.find(profile)
}

fn is_wanted_share(
    input: &PlanInput<'_>,
    sharers: &Sharers<'_>,
    need: &ShareNeed,
    held: &Held<'_>,
    holding: &Holding,
) -> bool {
    let Held::Shared { mode, replicas, product } = held else {
        return false;
    };
    let memory = gpu_memory(input, &holding.node, product);
    let most = crate::place::most_replicas(memory, need, &input.settings);
    *mode == need.mode
        && *replicas <= most
        && need.tenant.as_ref().is_none_or(|t| sharers.is_alone(&holding.node, t))
}

/// The least memory that a GPU of a product has on a node.
fn gpu_memory(input: &PlanInput<'_>, name: &str, product: &str) -> Option<tesela_model::quantity::Mib> {
    let gpus = node(input, name)?.gpus.iter();
    let found = gpus.filter(|g| g.product == product).filter_map(|g| g.memory).min();
    found.or_else(|| input.products.look_up(product).and_then(|p| p.memory))
}

/// Who may leave where its pods run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Movers {
    /// Their device does not isolate enough: they must leave, and wait when there is no seat.
    pub(crate) forced: BTreeSet<usize>,
    /// They hold something else than a person chose by hand: they leave when there is a seat.
    pub(crate) chosen: BTreeSet<usize>,
    /// Something else was decided for them: they leave when that gains something.
    pub(crate) willing: BTreeSet<usize>,
}

/// `fits[w][h]`: whether holding `h` of workload `w` is what was decided.
pub(crate) fn movers(
    input: &PlanInput<'_>,
    sharers: &Sharers<'_>,
    decisions: &[Decision],
    fits: &[Vec<bool>],
) -> Movers {
    let mut movers = Movers::default();
    for (w, workload) in input.demand.workloads.iter().enumerate() {
        if !workload.movable {
            continue;
        }
        let decision = &decisions[w];
        if workload.running.iter().any(|h| !isolates(input, sharers, decision, w, h)) {
            movers.forced.insert(w);
        } else if may_gain(workload, decision) && fits[w].contains(&false) {
            let by_hand = workload.mode.is_some() || workload.profile.is_some();
            if by_hand { &mut movers.chosen } else { &mut movers.willing }.insert(w);
        }
    }
    movers
}

/// Work of unknown need keeps what it has; so does work whose decision is what it asks for.
fn may_gain(workload: &Workload, decision: &Decision) -> bool {
    decision.known && !workload.running.is_empty() && decision.shapes.first() != Some(&Shape::AsRequested)
}
