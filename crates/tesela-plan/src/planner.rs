//! From input to plan: which running pods move, the best of several placements, and the plan as a document.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use tesela_model::demand::{Demand, Holding, Isolation};
use tesela_model::fleet::{Fleet, NodeOffer};
use tesela_model::plan::Plan;

use crate::assemble;
use crate::decide::{Decision, decide_all};
use crate::input::PlanInput;
use crate::place::{Avoid, ORDERS, Order, Placer, Seats, Unseated};
use crate::running;
use crate::world::World;

/// Product taken when neither a fleet nor anything to buy is given.
pub const ASSUMED_PRODUCT: &str = "h100-sxm-80gb";
/// GPUs of a node of that product.
const ASSUMED_GPUS_PER_NODE: u32 = 8;
/// Beyond this many pods only the two main choices (move all that gain, move none) are compared, so that large
/// fleets stay quick.
const FINE_SEARCH_PODS: u64 = 4_000;
/// Up to this many nodes, each in turn is tried as the last to be filled when something found no seat.
const FEW_NODES: usize = 12;
/// Workloads whose move is judged one by one.
const FINE_SEARCH_WORKLOADS: usize = 48;

/// Makes the plan. The same input gives the same plan.
#[must_use]
pub fn plan(input: &PlanInput<'_>) -> Plan {
    let (fleet, demand) = (in_order(input.fleet), sorted_demand(input.demand));
    let input = &PlanInput { fleet: &fleet, demand: &demand, ..*input };
    let decisions = decide_all(input.demand, &input.settings);
    let outcome = search(input, &decisions);
    assemble::plan(input, &decisions, &outcome)
}

/// The fleet in an order of its own, so that the order of the input does not matter, with hardware assumed where
/// nothing is there and nothing may be bought.
fn in_order(fleet: &Fleet) -> Fleet {
    let mut fleet = fleet.clone();
    if fleet.nodes.is_empty() && fleet.buy.is_empty() && !fleet.has_nodes {
        fleet.buy.push(assumed_offer());
    }
    fleet.nodes.sort_by(|a, b| a.name.cmp(&b.name));
    for node in &mut fleet.nodes {
        node.taints.sort();
        sort_holdings(&mut node.held_by_others);
    }
    fleet.buy.sort_by(|a, b| offer_key(a).cmp(&offer_key(b)));
    fleet
}

fn offer_key(offer: &NodeOffer) -> impl Ord + '_ {
    (&offer.product, offer.gpus_per_node, offer.max_nodes, offer.cpu, offer.memory, &offer.labels)
}

fn sorted_demand(demand: &Demand) -> Demand {
    let mut demand = demand.clone();
    demand.workloads.sort_by(|a, b| a.key.cmp(&b.key));
    demand.tenants.sort_by(|a, b| a.name.cmp(&b.name));
    for workload in &mut demand.workloads {
        sort_holdings(&mut workload.running);
    }
    demand
}

fn sort_holdings(holdings: &mut [Holding]) {
    for held in holdings.iter_mut() {
        held.pods.sort();
    }
    holdings.sort_by(|a, b| {
        let key = |h: &Holding| (h.node.clone(), h.resource.clone(), h.devices, h.pods.first().cloned());
        key(a).cmp(&key(b))
    });
}

fn assumed_offer() -> NodeOffer {
    NodeOffer {
        product: ASSUMED_PRODUCT.to_owned(),
        gpus_per_node: ASSUMED_GPUS_PER_NODE,
        max_nodes: None,
        cpu: None,
        memory: None,
        gpu_memory: None,
        labels: BTreeMap::new(),
    }
}

/// A finished placement.
#[derive(Clone, Debug)]
pub(crate) struct Outcome<'a> {
    pub(crate) world: World<'a>,
    pub(crate) unseated: Vec<Unseated>,
    /// Workloads whose running pods leave where they are.
    pub(crate) moving: BTreeSet<usize>,
    /// Running pods that are restarted.
    pub(crate) restarts: u64,
}

/// How good an outcome is, smaller first: unmet pods from the highest priority down, what is bought weighs, what the used nodes and then the used GPUs
/// weigh, restarts.
type Score = (Vec<u64>, u128, u128, u128, u64);

/// The best of: moving nobody, moving everybody who then needs less, and what one-by-one changes of that give.
pub(crate) fn search<'a>(input: &PlanInput<'a>, decisions: &[Decision]) -> Outcome<'a> {
    let (forced, willing) = running::movers(input, decisions);
    let mut best = attempt(input, decisions, &forced, &forced, Effort::Thorough);
    if willing.is_empty() {
        return best;
    }
    let mut all = forced.clone();
    all.extend(&willing);
    let everyone = attempt(input, decisions, &all, &forced, Effort::Thorough);
    if score(input, &everyone) < score(input, &best) {
        best = everyone;
    }
    let pods: u64 = input.demand.workloads.iter().map(|w| w.count).sum();
    if pods > FINE_SEARCH_PODS || best.moving.len() > FINE_SEARCH_WORKLOADS {
        return best;
    }
    // Moves that gain nothing are taken back, the one that restarts most pods first.
    let mut order: Vec<usize> = best.moving.difference(&forced).copied().collect();
    order.sort_by_key(|&w| (Reverse(running_pods(input, w)), w));
    for w in order {
        let mut fewer = best.moving.clone();
        fewer.remove(&w);
        let without = attempt(input, decisions, &fewer, &forced, Effort::Quick);
        if score(input, &without) < score(input, &best) {
            best = without;
        }
    }
    best
}

/// How much is tried once everything is seated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effort {
    /// Nothing more.
    Quick,
    /// Other orders and nodes, which may use less.
    Thorough,
}

/// Places with these workloads moving. A running pod that would find no seat keeps the one it has.
fn attempt<'a>(
    input: &PlanInput<'a>,
    decisions: &[Decision],
    moving: &BTreeSet<usize>,
    forced: &BTreeSet<usize>,
    effort: Effort,
) -> Outcome<'a> {
    let mut moving = moving.clone();
    loop {
        let stays = |w: usize, held: &Holding| {
            !moving.contains(&w) || running::matches(input, &decisions[w], w, held)
        };
        let mut world = World::build(input, &stays);
        world.claim(&|w| {
            let alone = decisions[w].isolation == Isolation::Tenant;
            alone.then(|| input.demand.workloads[w].tenant.clone())
        });
        let seats = seats(input, &world);
        let outcome = place(input, decisions, &world, &seats, &moving, effort);
        let stranded: Vec<usize> = outcome
            .unseated
            .iter()
            .filter(|u| moving.contains(&u.workload) && !forced.contains(&u.workload))
            .filter(|u| u.count > waiting_pods(input, u.workload))
            .map(|u| u.workload)
            .collect();
        if stranded.is_empty() {
            return outcome;
        }
        for w in stranded {
            moving.remove(&w);
        }
    }
}

/// Tries the standing order, and when something found no seat, orders that put the picky first and ways to
/// leave them room.
fn place<'a>(
    input: &PlanInput<'a>,
    decisions: &[Decision],
    world: &World<'a>,
    seats: &[Seats],
    moving: &BTreeSet<usize>,
    effort: Effort,
) -> Outcome<'a> {
    let restarts = restarts(input, world, moving);
    let try_one = |order: Order, avoid: Avoid| {
        let mut placer = Placer::new(input, decisions, world.clone());
        placer.avoid(avoid, seats);
        let unseated = placer.place_all(seats, order);
        Outcome { world: placer.world, unseated, moving: moving.clone(), restarts }
    };
    let mut best = try_one(Order::Largest, Avoid::Nothing);
    if seats.iter().all(|s| s.count == 0) {
        return best;
    }
    let pods: u64 = input.demand.workloads.iter().map(|w| w.count).sum();
    let mut ways = vec![Avoid::Nothing];
    if pods <= FINE_SEARCH_PODS {
        ways.extend([Avoid::Wanted, Avoid::Dear]);
        let few = world.nodes.len() <= FEW_NODES;
        ways.extend((0..world.nodes.len()).filter(|_| few).map(Avoid::Node));
    }
    for avoid in ways {
        for order in ORDERS {
            let cheap =
                effort == Effort::Thorough && pods <= FINE_SEARCH_PODS && !matches!(avoid, Avoid::Node(_));
            if best.unseated.is_empty() && !cheap {
                return best;
            }
            let other = try_one(order, avoid);
            if score(input, &other) < score(input, &best) {
                best = other;
            }
        }
    }
    best
}

fn seats(input: &PlanInput<'_>, world: &World<'_>) -> Vec<Seats> {
    let mut seated = vec![0u64; input.demand.workloads.len()];
    for node in &world.nodes {
        for (&w, &pods) in &node.pods {
            seated[w] += pods;
        }
    }
    for lost in &world.lost {
        seated[lost.workload] += lost.pods;
    }
    (input.demand.workloads.iter().enumerate())
        .map(|(w, workload)| Seats { workload: w, count: workload.count.saturating_sub(seated[w]) })
        .collect()
}

/// Pods of moving workloads that run today and do not stay.
fn restarts(input: &PlanInput<'_>, world: &World<'_>, moving: &BTreeSet<usize>) -> u64 {
    moving
        .iter()
        .map(|w| {
            let staying: u64 = world.nodes.iter().filter_map(|n| n.pods.get(w)).sum();
            running_pods(input, *w).saturating_sub(staying)
        })
        .sum()
}

pub(crate) fn running_pods(input: &PlanInput<'_>, w: usize) -> u64 {
    input.demand.workloads[w].running.iter().map(|h| h.pods.len() as u64).sum()
}

fn waiting_pods(input: &PlanInput<'_>, w: usize) -> u64 {
    input.demand.workloads[w].count.saturating_sub(running_pods(input, w))
}

fn score(input: &PlanInput<'_>, outcome: &Outcome<'_>) -> Score {
    let mut unmet: BTreeMap<Reverse<i32>, u64> =
        input.demand.workloads.iter().map(|w| (Reverse(w.priority), 0)).collect();
    for left in &outcome.unseated {
        *unmet.entry(Reverse(input.demand.workloads[left.workload].priority)).or_insert(0) += left.count;
    }
    let (mut bought, mut nodes, mut gpus) = (0u128, 0u128, 0u128);
    for node in outcome.world.nodes.iter().filter(|n| n.used()) {
        for gpu in &node.gpus {
            let weight = u128::from(outcome.world.kinds[gpu.kind].weight);
            nodes += weight;
            bought += if node.name().is_none() { weight } else { 0 };
            gpus += if gpu.used() { weight } else { 0 };
        }
    }
    (unmet.into_values().collect(), bought, nodes, gpus, outcome.restarts)
}
