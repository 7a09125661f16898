//! The best of many placements: who moves, in which order pods are placed, and which nodes are filled last.
//!
//! What may be spent is counted in work and not in time, so the same input gives the same plan. Work is counted
//! over nodes that somebody may go to, so that nodes which nobody can use change nothing.

mod settle;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use tesela_model::demand::{Holding, Isolation};

use crate::decide::Decision;
use crate::input::PlanInput;
use crate::place::{Avoid, ORDERS, Order, Placer, Recipe, Seats, Setup, Unseated};
use crate::running::{self, Movers, Sharers};
use crate::world::World;

/// Nodes looked at for a workload, and pods placed, in one search: about a second on one core.
const WORK: u64 = 2_000_000;
/// However small a try is, it counts for this much.
const LEAST_WORK: u64 = 20_000;
/// Workloads of which the largest part is tried to be left where it is.
const MOST_SPARED: usize = 8;
/// So many tries in a row that better nothing end a search for seats.
const STALE_TRIES: u32 = 12;

/// A finished placement.
#[derive(Clone, Debug)]
pub(crate) struct Outcome<'a> {
    pub(crate) world: World<'a>,
    pub(crate) unseated: Vec<Unseated>,
    /// Workloads whose running pods leave where they are.
    pub(crate) moving: BTreeSet<usize>,
    /// Holdings whose pods leave, by workload and position; known once the search is over.
    pub(crate) leaving: BTreeSet<(usize, usize)>,
    /// Running pods that are restarted.
    pub(crate) restarts: u64,
    /// Who shares devices today.
    pub(crate) sharers: Rc<Sharers<'a>>,
    recipe: Recipe,
}

/// How good an outcome is, smaller first: unmet pods from the highest priority down, what is bought weighs, what
/// the used nodes and then the used GPUs weigh, restarts.
type Score = (Vec<u64>, u128, u128, u128, u64);

/// The best of: moving nobody, moving everybody who then needs less, and what one-by-one changes of that give; then
/// what the same would better in the fleet as it is after that.
pub(crate) fn search<'a>(input: &PlanInput<'a>, decisions: &[Decision]) -> Outcome<'a> {
    let mut search = Search::new(input, decisions);
    let mut best = search.run();
    settle::settle(&mut search, &mut best);
    best.leaving = search.leaving(&best.moving);
    best
}

struct Search<'p, 'a> {
    input: &'p PlanInput<'a>,
    decisions: &'p [Decision],
    setup: Setup,
    sharers: Rc<Sharers<'a>>,
    /// Whether each holding of each workload is what was decided.
    fits: Vec<Vec<bool>>,
    /// Holdings that stay although their workload moves, by workload and position.
    spared: BTreeSet<(usize, usize)>,
    movers: Movers,
    /// Workloads of which no pod finds a seat, whoever moves. They are left out, so that they spoil nothing.
    hopeless: BTreeSet<usize>,
    /// The recipe that did best so far.
    recipe: Recipe,
    work_left: u64,
}

/// How much is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effort {
    /// The best recipe so far and the plain one.
    Quick,
    /// Other orders and nodes, which may seat more or use less.
    Thorough,
}

impl<'p, 'a> Search<'p, 'a> {
    fn new(input: &'p PlanInput<'a>, decisions: &'p [Decision]) -> Self {
        let sharers = Rc::new(Sharers::of(input));
        let fits: Vec<Vec<bool>> = (input.demand.workloads.iter().enumerate())
            .map(|(w, workload)| {
                let decision = &decisions[w];
                // Work of unknown need keeps what it holds wherever that isolates enough.
                let fits = |held| match decision.known {
                    true => running::matches(input, &sharers, decision, w, held),
                    false => running::isolates(input, &sharers, decision, w, held),
                };
                workload.running.iter().map(fits).collect()
            })
            .collect();
        let movers = running::movers(input, &sharers, decisions, &fits);
        let setup = Setup::of(input, decisions, &World::build(input, &|_, _| false));
        Self {
            input,
            decisions,
            setup,
            sharers,
            fits,
            spared: BTreeSet::new(),
            movers,
            hopeless: BTreeSet::new(),
            recipe: Recipe::new(Order::Largest, Avoid::Nothing),
            work_left: WORK,
        }
    }

    fn run(&mut self) -> Outcome<'a> {
        let must: BTreeSet<usize> = self.movers.forced.union(&self.movers.chosen).copied().collect();
        let all: BTreeSet<usize> = must.union(&self.movers.willing).copied().collect();
        self.hopeless = self.hopeless(&all, &must);
        let mut best = self.attempt(&must, Effort::Thorough);
        if !self.movers.willing.is_empty() {
            let everyone = self.attempt(&all, Effort::Thorough);
            self.keep_better(&mut best, everyone);
            self.one_by_one(&mut best);
        }
        self.spare(&mut best);
        self.add_hopeless(&mut best);
        best
    }

    /// Names the workloads that were left out among those without a seat.
    fn add_hopeless(&self, outcome: &mut Outcome<'a>) {
        let seats = self.seats(&outcome.world);
        for &workload in &self.hopeless {
            let count = seats[workload].count;
            if count > 0 {
                outcome.unseated.push(Unseated { workload, count });
            }
        }
    }

    /// Holdings that do not stay when these workloads move.
    fn leaving(&self, moving: &BTreeSet<usize>) -> BTreeSet<(usize, usize)> {
        let of = |&w: &usize| (0..self.fits[w].len()).map(move |h| (w, h));
        let leaves = |&(w, h): &(usize, usize)| !self.fits[w][h] && !self.spared.contains(&(w, h));
        moving.iter().flat_map(of).filter(leaves).collect()
    }

    /// Pods that would be put where they are, on what they hold, stay there instead; and of a workload that moves
    /// together, those stay where most of it is, if that is as good.
    fn spare(&mut self, best: &mut Outcome<'a>) {
        let mut back = BTreeSet::new();
        let mut most: Vec<(usize, (usize, usize))> = Vec::new();
        for &w in &best.moving {
            let mine = self.input.demand.workloads[w].running.iter().enumerate();
            let may = mine.filter(|(h, held)| {
                !self.fits[w][*h] && running::isolates(self.input, &self.sharers, &self.decisions[w], w, held)
            });
            let may: Vec<_> = may.collect();
            for (h, held) in &may {
                let node = best.world.nodes.iter().find(|n| n.name() == Some(&held.node));
                if node.is_some_and(|n| n.takes_alike(w, held)) {
                    back.insert((w, *h));
                }
            }
            if may.len() > 1 {
                let largest = may.iter().max_by_key(|(h, held)| (held.pods.len(), Reverse(*h)));
                most.extend(largest.map(|(h, held)| (held.pods.len(), (w, *h))));
            }
        }
        most.sort_by_key(|(pods, at)| (Reverse(*pods), *at));
        let most = most.into_iter().take(MOST_SPARED).map(|(_, at)| BTreeSet::from([at]));
        for more in std::iter::once(back).chain(most) {
            if more.is_subset(&self.spared) {
                continue;
            }
            let before = self.spared.clone();
            let of: BTreeSet<usize> = more.iter().map(|(w, _)| *w).collect();
            self.spared.retain(|(w, _)| !of.contains(w));
            self.spared.extend(more);
            self.recipe = best.recipe.clone();
            let other = self.attempt(&best.moving.clone(), Effort::Quick);
            if !self.keep_better(best, other) {
                self.spared = before;
            }
        }
    }

    fn keep_better(&self, best: &mut Outcome<'a>, other: Outcome<'a>) -> bool {
        let better = self.score(&other) < self.score(best);
        if better {
            *best = other;
        }
        better
    }

    /// Moves that gain nothing are taken back, and others tried, the workload with the most pods first.
    fn one_by_one(&mut self, best: &mut Outcome<'a>) {
        let mut order: Vec<usize> = self.movers.willing.iter().copied().collect();
        order.sort_by_key(|&w| (!best.moving.contains(&w), Reverse(running_pods(self.input, w)), w));
        for w in order {
            if self.work_left == 0 {
                return;
            }
            let mut moving = best.moving.clone();
            if !moving.remove(&w) {
                moving.insert(w);
            }
            let other = self.attempt(&moving, Effort::Quick);
            self.keep_better(best, other);
        }
    }

    /// The world with these workloads leaving what does not fit them.
    fn world(&self, moving: &BTreeSet<usize>) -> World<'a> {
        let stays = |w, h| !moving.contains(&w) || self.fits[w][h] || self.spared.contains(&(w, h));
        let mut world = World::build(self.input, &stays);
        world.claim(&|w| {
            let alone = self.decisions[w].isolation == Isolation::Tenant;
            alone.then(|| self.input.demand.workloads[w].tenant.clone())
        });
        world
    }

    /// Workloads that only wait and of which no pod finds a seat, whether everybody who may makes room or only those
    /// who must.
    fn hopeless(&mut self, all: &BTreeSet<usize>, must: &BTreeSet<usize>) -> BTreeSet<usize> {
        let world = self.world(all);
        let seats = self.seats(&world);
        let first = self.try_one(&world, &seats, all, &self.recipe.clone());
        let waits = |w: usize| self.input.demand.workloads[w].running.is_empty();
        let mut left: Vec<Unseated> = first.unseated.into_iter().filter(|u| waits(u.workload)).collect();
        for moving in [all, must] {
            let world = self.world(moving);
            let alone = self.alone(&world, &seats, &left);
            left.retain(|u| alone.get(&u.workload) == Some(&0));
        }
        self.work_left = WORK;
        left.into_iter().map(|u| u.workload).collect()
    }

    /// How many pods of each of these find a seat when nobody else looks for one.
    fn alone(&mut self, world: &World<'a>, seats: &[Seats], of: &[Unseated]) -> BTreeMap<usize, u64> {
        let mut alone = BTreeMap::new();
        let least = self.work_left - self.work_left / 3;
        for left in of {
            let mine = [seats[left.workload].clone()];
            if self.work_left <= least {
                // Not looked at: it may find one for all that is known.
                alone.insert(left.workload, mine[0].count);
                continue;
            }
            self.spend(&mine);
            let mut placer = Placer::new(self.input, self.decisions, &self.setup, world.clone());
            alone.insert(left.workload, placer.place(left.workload, mine[0].count));
        }
        alone
    }

    fn spend(&mut self, seats: &[Seats]) {
        let work = self.setup.work(seats).max(LEAST_WORK);
        self.work_left = self.work_left.saturating_sub(work);
    }

    /// Whether running pods hold what the workload's template asks for, and nobody chose something else by hand.
    fn has_template(&self, w: usize) -> bool {
        let workload = &self.input.demand.workloads[w];
        let by_hand = workload.mode.is_some() || workload.profile.is_some();
        let asked = |held: &Holding| {
            Some(&held.resource) == workload.request.as_ref() && held.devices == workload.gpus
        };
        !by_hand && workload.running.iter().any(asked)
    }

    /// Places with these workloads moving. A running pod that would find no seat keeps the one it has.
    fn attempt(&mut self, moving: &BTreeSet<usize>, effort: Effort) -> Outcome<'a> {
        let mut moving = moving.clone();
        loop {
            let outcome = self.place(&moving, effort);
            let mut stranded: Vec<usize> = outcome
                .unseated
                .iter()
                .filter(|u| moving.contains(&u.workload) && !self.movers.forced.contains(&u.workload))
                .filter(|u| u.count > waiting_pods(self.input, u.workload))
                .map(|u| u.workload)
                .collect();
            if stranded.is_empty() {
                return outcome;
            }
            // Who need not move makes room for who was moved by hand.
            if stranded.iter().any(|w| self.movers.willing.contains(w)) {
                stranded.retain(|w| self.movers.willing.contains(w));
            }
            for w in stranded {
                moving.remove(&w);
            }
        }
    }

    fn try_one(
        &mut self,
        world: &World<'a>,
        seats: &[Seats],
        moving: &BTreeSet<usize>,
        recipe: &Recipe,
    ) -> Outcome<'a> {
        self.spend(seats);
        let mut placer = Placer::new(self.input, self.decisions, &self.setup, world.clone());
        let unseated = placer.place_all(seats, recipe);
        Outcome {
            world: placer.world,
            unseated,
            moving: moving.clone(),
            leaving: BTreeSet::new(),
            restarts: 0,
            sharers: Rc::clone(&self.sharers),
            recipe: recipe.clone(),
        }
    }

    fn place(&mut self, moving: &BTreeSet<usize>, effort: Effort) -> Outcome<'a> {
        let world = self.world(moving);
        let mut seats = self.seats(&world);
        for seat in seats.iter_mut().filter(|s| self.hopeless.contains(&s.workload)) {
            seat.count = 0;
        }
        for seat in seats.iter_mut().filter(|s| !moving.contains(&s.workload)) {
            seat.like_running = self.has_template(seat.workload);
        }
        let plain = Recipe::new(Order::Largest, Avoid::Nothing);
        let recipe = self.recipe.clone();
        let mut best = self.try_one(&world, &seats, moving, &plain);
        best.restarts = restarts(self.input, &world, moving);
        if seats.iter().all(|s| s.count == 0) {
            return best;
        }
        let mut hunt = Hunt { world, seats, moving, best, floor: BTreeMap::new(), least: 0 };
        if recipe != plain {
            self.hunt_one(&mut hunt, &recipe);
        }
        if effort == Effort::Quick {
            return hunt.best;
        }
        // One placement of several takes no more than a part of what is left.
        hunt.least = self.work_left - self.work_left / 3;
        let unseated = hunt.best.unseated.clone();
        let alone = self.alone(&hunt.world, &hunt.seats, &unseated);
        hunt.floor = alone.iter().map(|(&w, &seated)| (w, hunt.seats[w].count - seated)).collect();
        for avoid in [Avoid::Nothing, Avoid::Wanted, Avoid::Dear] {
            for order in ORDERS {
                self.hunt_one(&mut hunt, &Recipe::new(order, avoid));
            }
        }
        if !hunt.is_full() {
            self.seat_more(&mut hunt);
        }
        self.recipe = hunt.best.recipe.clone();
        hunt.best
    }

    /// Tries one more recipe: who finds no seat by it, and whether it is better. `None` = nothing left to spend.
    fn hunt_one(&mut self, hunt: &mut Hunt<'_, 'a>, recipe: &Recipe) -> Option<(Vec<Unseated>, bool)> {
        if self.work_left <= hunt.least {
            return None;
        }
        let mut other = self.try_one(&hunt.world, &hunt.seats, hunt.moving, recipe);
        other.restarts = hunt.best.restarts;
        let unseated = other.unseated.clone();
        Some((unseated, self.keep_better(&mut hunt.best, other)))
    }

    /// Who finds no seat goes earlier the next time (Joslin and Clements, "Squeaky wheel" optimization, 1999);
    /// then each node in turn is the last to be filled.
    fn seat_more(&mut self, hunt: &mut Hunt<'_, 'a>) {
        for above_priority in [false, true] {
            let mut ahead = vec![0; self.input.demand.workloads.len()];
            let mut last = hunt.best.unseated.clone();
            let (mut stale, mut round) = (0, 0);
            let base = hunt.best.recipe.clone();
            while stale < STALE_TRIES && !hunt.is_full() {
                for left in last.iter().filter(|u| u.count > hunt.floor(u.workload)) {
                    ahead[left.workload] += 1;
                }
                let avoid = [base.avoid, Avoid::Wanted, Avoid::Nothing][round % 3];
                let ahead = ahead.clone();
                let recipe = Recipe { avoid, ahead, above_priority, ..Recipe::new(base.order, avoid) };
                let Some((unseated, better)) = self.hunt_one(hunt, &recipe) else { return };
                last = unseated;
                stale = if better { 0 } else { stale + 1 };
                round += 1;
            }
        }
        for node in self.setup.wanted(&hunt.seats) {
            if hunt.is_full() {
                return;
            }
            let recipe = Recipe { avoid: Avoid::Node(node), ..hunt.best.recipe.clone() };
            if self.hunt_one(hunt, &recipe).is_none() {
                return;
            }
        }
    }

    fn seats(&self, world: &World<'_>) -> Vec<Seats> {
        let mut seated = vec![0u64; self.input.demand.workloads.len()];
        for node in &world.nodes {
            for (&w, &pods) in &node.pods {
                seated[w] += pods;
            }
        }
        for lost in world.lost.iter().filter(|l| !l.on_node) {
            seated[lost.workload] += lost.pods;
        }
        (self.input.demand.workloads.iter().enumerate())
            .map(|(w, workload)| {
                let count = workload.count.saturating_sub(seated[w]);
                Seats { workload: w, count, like_running: false }
            })
            .collect()
    }

    fn score(&self, outcome: &Outcome<'_>) -> Score {
        let workloads = &self.input.demand.workloads;
        let mut unmet: BTreeMap<Reverse<i32>, u64> =
            workloads.iter().map(|w| (Reverse(w.priority), 0)).collect();
        for left in &outcome.unseated {
            *unmet.entry(Reverse(workloads[left.workload].priority)).or_insert(0) += left.count;
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
}

/// A search for the best placement of the same seats.
struct Hunt<'m, 'a> {
    world: World<'a>,
    seats: Vec<Seats>,
    moving: &'m BTreeSet<usize>,
    best: Outcome<'a>,
    /// Pods of each workload that find no seat even when nobody else looks for one.
    floor: BTreeMap<usize, u64>,
    /// Work that must be left when it ends.
    least: u64,
}

impl Hunt<'_, '_> {
    fn floor(&self, w: usize) -> u64 {
        self.floor.get(&w).copied().unwrap_or(0)
    }

    /// Whether everything is seated that can be.
    fn is_full(&self) -> bool {
        self.best.unseated.iter().all(|u| u.count <= self.floor(u.workload))
    }
}

/// About what one try costs at most.
pub(crate) fn work(input: &PlanInput<'_>) -> u64 {
    let nodes = input.fleet.nodes.len() as u64;
    input.demand.workloads.iter().map(|w| w.count.saturating_add(nodes)).fold(0, u64::saturating_add)
}

/// Pods of moving workloads that run today and do not stay.
fn restarts(input: &PlanInput<'_>, world: &World<'_>, moving: &BTreeSet<usize>) -> u64 {
    moving
        .iter()
        .map(|w| {
            let staying: u64 = world.nodes.iter().filter_map(|n| n.pods.get(w)).sum();
            let elsewhere = world.lost.iter().filter(|l| l.workload == *w && !l.on_node);
            running_pods(input, *w).saturating_sub(staying + elsewhere.map(|l| l.pods).sum::<u64>())
        })
        .sum()
}

pub(crate) fn running_pods(input: &PlanInput<'_>, w: usize) -> u64 {
    input.demand.workloads[w].running.iter().map(|h| h.pods.len() as u64).sum()
}

fn waiting_pods(input: &PlanInput<'_>, w: usize) -> u64 {
    input.demand.workloads[w].count.saturating_sub(running_pods(input, w))
}
