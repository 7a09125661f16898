//! Placement: which node, GPU, instance or share each pod gets.
//!
//! Everything is tried in a fixed order, so the same input gives the same plan. Pods of higher priority go
//! first, then what is hardest to place: work over many GPUs, then large instances, then small ones, then shares.
//! GPUs already in use are filled before others are opened, so that whole nodes come free.

mod instance;
mod setup;
mod share;
mod whole;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use tesela_model::demand::{Isolation, Workload};
use tesela_model::fleet::{Mode, Offer};
use tesela_model::product::ProfileName;
use tesela_model::quantity::Mib;
use tesela_model::resource::{GpuDevice, GpuResource};

use crate::decide::{Decision, InstanceNeed, Shape, ShareNeed, need_with_context};
use crate::input::PlanInput;
use crate::world::mig::MigRules;
use crate::world::{NodeState, World};

pub(crate) use self::setup::Setup;
pub(crate) use self::share::most_replicas;

/// Which pods of one priority go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The largest pieces.
    Largest,
    /// Those that the fewest nodes will do for.
    Picky,
    /// Those that need the most CPU or main memory.
    Hungry,
}

/// The orders that are tried.
pub(crate) const ORDERS: [Order; 3] = [Order::Largest, Order::Picky, Order::Hungry];

/// Which nodes are avoided, before anything else is weighed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Avoid {
    /// None: nodes in use are filled first.
    Nothing,
    /// Nodes that many workloads may go to leave room for the picky when they come last.
    Wanted,
    /// Nodes with dear GPUs.
    Dear,
    /// One node.
    Node(usize),
}

/// One way to place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recipe {
    pub(crate) order: Order,
    pub(crate) avoid: Avoid,
    /// For each workload how far ahead of its order it goes; empty = nobody does.
    pub(crate) ahead: Vec<u32>,
    /// Whether that goes before priorities. Which plan is better is judged by priorities all the same.
    pub(crate) above_priority: bool,
    /// Nodes that pods of a workload try first, and how many of them.
    pub(crate) guide: Guide,
}

/// For each workload the nodes that its pods try first, and how many of them; workloads without an entry try none.
pub(crate) type Guide = Rc<BTreeMap<usize, Vec<(usize, u64)>>>;

impl Recipe {
    pub(crate) fn new(order: Order, avoid: Avoid) -> Self {
        Self { order, avoid, ahead: Vec::new(), above_priority: false, guide: Guide::default() }
    }
}

/// Pods of one workload that still need a seat.
#[derive(Clone, Debug)]
pub(crate) struct Seats {
    pub(crate) workload: usize,
    pub(crate) count: u64,
    /// Whether they get what their workload's running pods hold, where such devices are free: pods of one workload have
    /// one template.
    pub(crate) like_running: bool,
}

/// Pods that found no seat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unseated {
    pub(crate) workload: usize,
    pub(crate) count: u64,
}

/// Places seats in a world.
pub(crate) struct Placer<'p, 'a> {
    pub(crate) input: &'p PlanInput<'a>,
    pub(crate) decisions: &'p [Decision],
    pub(crate) world: World<'a>,
    setup: &'p Setup,
    /// For each node how much it is avoided; empty = not at all.
    avoided: Vec<u64>,
    /// Nodes that satisfy the constraints of each of the set-up's groups.
    eligible: Vec<Rc<Vec<usize>>>,
    guide: Guide,
    /// Workloads of [`Seats::like_running`].
    like_running: BTreeSet<usize>,
}

impl<'p, 'a> Placer<'p, 'a> {
    pub(crate) fn new(
        input: &'p PlanInput<'a>,
        decisions: &'p [Decision],
        setup: &'p Setup,
        world: World<'a>,
    ) -> Self {
        let eligible = setup.eligible();
        Self {
            input,
            decisions,
            world,
            setup,
            avoided: Vec::new(),
            eligible,
            guide: Guide::default(),
            like_running: BTreeSet::new(),
        }
    }

    /// Avoids some nodes from now on.
    fn avoid(&mut self, avoid: Avoid, seats: &[Seats]) {
        let nodes = self.world.nodes.len();
        self.avoided = match avoid {
            Avoid::Nothing => Vec::new(),
            Avoid::Node(node) => (0..nodes).map(|n| u64::from(n == node)).collect(),
            Avoid::Dear => {
                let dearest =
                    |n: &NodeState<'_>| n.gpus.iter().map(|g| self.world.kinds[g.kind].weight).max();
                self.world.nodes.iter().map(|n| dearest(n).unwrap_or(0)).collect()
            }
            Avoid::Wanted => {
                let mut wanted = vec![0; nodes];
                for seat in seats.iter().filter(|s| s.count > 0) {
                    for &node in self.eligible(seat.workload).iter() {
                        wanted[node] += seat.count;
                    }
                }
                wanted
            }
        };
    }

    fn distaste(&self, node: usize) -> u64 {
        self.avoided.get(node).copied().unwrap_or(0)
    }

    /// Places what it can; what is left over comes back.
    pub(crate) fn place_all(&mut self, seats: &[Seats], recipe: &Recipe) -> Vec<Unseated> {
        self.avoid(recipe.avoid, seats);
        self.guide = Rc::clone(&recipe.guide);
        self.like_running = seats.iter().filter(|s| s.like_running).map(|s| s.workload).collect();
        let mut keyed: Vec<_> = Vec::new();
        for seat in seats.iter().filter(|s| s.count > 0) {
            keyed.push((self.rank(seat.workload, recipe), seat));
        }
        keyed.sort_by(|a, b| a.0.cmp(&b.0));
        let mut left = Vec::new();
        for (_, seat) in keyed {
            let placed = self.place(seat.workload, seat.count);
            if placed < seat.count {
                left.push(Unseated { workload: seat.workload, count: seat.count - placed });
            }
        }
        left
    }

    fn workload(&self, w: usize) -> &'a Workload {
        &self.input.demand.workloads[w]
    }

    /// Priority, then what the recipe asks for, then the name.
    fn rank(&self, w: usize, recipe: &Recipe) -> impl Ord + use<'a> {
        let workload = self.workload(w);
        let eligible = self.eligible(w).len();
        let size = match self.decisions[w].shapes.first() {
            Some(Shape::Whole) | None => (0, Reverse(u64::from(workload.gpus)), Reverse(0)),
            Some(Shape::AsRequested) => match workload.request.as_ref().map(|r| &r.device) {
                Some(GpuDevice::Mig(p)) => {
                    (1, Reverse(u64::from(p.gigabytes())), Reverse(u64::from(p.slices())))
                }
                _ => (0, Reverse(u64::from(workload.gpus)), Reverse(0)),
            },
            Some(Shape::Instance(need)) => {
                let units = self.largest_units(w, need);
                (1, Reverse(units.0), Reverse(units.1))
            }
            Some(Shape::Share(need)) => (2, Reverse(need.memory.map_or(0, |m| m.0)), Reverse(0)),
        };
        let together = Reverse(workload.same_node);
        let picky = match recipe.order {
            Order::Largest => 0,
            Order::Picky => eligible,
            Order::Hungry => {
                usize::try_from(u64::MAX - workload.cpu.0.max(workload.memory.0 >> 20)).unwrap_or(0)
            }
        };
        let ahead = recipe.ahead.get(w).copied().unwrap_or(0);
        let first = Reverse(if recipe.above_priority { ahead } else { 0 });
        let urgent = (first, Reverse(workload.priority), Reverse(ahead));
        (urgent, picky, size.0, together, size.1, size.2, eligible, &workload.key)
    }

    /// Memory of the instance in GB as its name says, and its slices, on the product where it is largest of those
    /// that the workload may go to.
    fn largest_units(&self, w: usize, need: &InstanceNeed) -> (u64, u64) {
        let kinds = self.setup.kinds(w).iter();
        kinds
            .filter_map(|&kind| {
                let rules = self.world.kinds[kind].rules.as_ref()?;
                let profile = &rules.profiles[wanted_profile(rules, need)?];
                Some((u64::from(profile.name.gigabytes()), u64::from(profile.slices)))
            })
            .max()
            .unwrap_or_default()
    }

    /// Places up to `count` pods of a workload by its shapes, the best first.
    pub(crate) fn place(&mut self, w: usize, count: u64) -> u64 {
        if self.workload(w).same_node {
            return self.place_together(w, count);
        }
        let guide = Rc::clone(&self.guide);
        let first = guide.get(&w).into_iter().flatten().map(|&(node, pods)| (pods, Some(node)));
        let mut placed = 0;
        for (pods, only) in first.chain([(count, None)]) {
            placed += self.place_by_shapes(w, pods.min(count - placed), only);
        }
        placed
    }

    fn place_by_shapes(&mut self, w: usize, count: u64, only: Option<usize>) -> u64 {
        let decisions = self.decisions;
        let mut placed = 0;
        if self.like_running.contains(&w) {
            placed += self.place_as_requested(w, count, only);
        }
        for shape in &decisions[w].shapes {
            if placed == count {
                break;
            }
            placed += self.place_shape(w, shape, count - placed, only);
        }
        placed
    }

    /// All pods on one node, or none: the node where some run already, else the first with room for all.
    fn place_together(&mut self, w: usize, count: u64) -> u64 {
        let here = self.world.nodes.iter().position(|n| n.pods.get(&w).is_some_and(|p| *p > 0));
        let mut candidates = self.eligible(w).to_vec();
        if let Some(node) = here {
            candidates.retain(|n| *n == node);
        }
        let guided: Vec<usize> = self.guide.get(&w).into_iter().flatten().map(|(node, _)| *node).collect();
        candidates.sort_by_key(|&n| (!guided.contains(&n), !self.world.nodes[n].used(), n));
        let decisions = self.decisions;
        for shape in &decisions[w].shapes {
            for &node in &candidates {
                if self.try_together(w, shape, count, node) {
                    return count;
                }
            }
            if here.is_none() && self.buy_together(w, shape, count) {
                return count;
            }
        }
        0
    }

    fn try_together(&mut self, w: usize, shape: &Shape, count: u64, node: usize) -> bool {
        let before = self.world.nodes[node].clone();
        if self.place_shape(w, shape, count, Some(node)) == count {
            return true;
        }
        self.world.nodes[node] = before;
        false
    }

    fn buy_together(&mut self, w: usize, shape: &Shape, count: u64) -> bool {
        for offer in self.offers() {
            let Some(node) = self.buy(w, offer) else { continue };
            if self.try_together(w, shape, count, node) {
                return true;
            }
            self.return_last(offer);
        }
        false
    }

    fn place_shape(&mut self, w: usize, shape: &Shape, count: u64, only: Option<usize>) -> u64 {
        match shape {
            Shape::Whole => self.place_whole(w, count, only),
            Shape::Instance(need) => self.place_instance(w, need, count, only),
            Shape::Share(need) => self.place_share(w, need, count, only),
            Shape::AsRequested => self.place_as_requested(w, count, only),
        }
    }

    /// What is asked for, where the scheduler would find it: a device that is offered so today, else one that
    /// can be made so.
    fn place_as_requested(&mut self, w: usize, count: u64, only: Option<usize>) -> u64 {
        let workload = self.workload(w);
        let Some(request) = &workload.request else { return self.place_whole(w, count, only) };
        match (&request.device, request.shared) {
            (GpuDevice::Gpu, false) => {
                let mut placed = self.place_whole_as_offered(w, count, only);
                if self.decisions[w].isolation == Isolation::None {
                    placed += self.place_free_device(w, request, count - placed, only);
                }
                placed + self.place_whole(w, count - placed, only)
            }
            (GpuDevice::Mig(profile), false) => {
                self.place_instance(w, &InstanceNeed::Profile(profile.clone()), count, only)
            }
            (GpuDevice::Gpu, true) => {
                if self.decisions[w].isolation > Isolation::None {
                    return 0;
                }
                let placed = self.place_free_device(w, request, count, only);
                let need = ShareNeed {
                    mode: Mode::TimeSliced,
                    memory: None,
                    tenant: None,
                    duty: self.input.settings.assumed_duty_permille,
                    // Other pods of the workload run with this name, and one template serves them all.
                    renamed: (!workload.running.is_empty()).then_some(true),
                };
                // A share that is made for it is one device; several are only had where they are offered.
                if workload.gpus > 1 {
                    placed
                } else {
                    placed + self.place_share(w, &need, count - placed, only)
                }
            }
            (GpuDevice::Mig(_), true) if self.decisions[w].isolation > Isolation::None => 0,
            (GpuDevice::Mig(_), true) => self.place_free_device(w, request, count, only),
        }
    }

    /// Devices that nodes offer today under exactly this name and that are free.
    fn place_free_device(&mut self, w: usize, request: &GpuResource, count: u64, only: Option<usize>) -> u64 {
        let gpus = self.workload(w).gpus;
        let mut placed = 0;
        for &node in self.candidates(w, only).iter() {
            if !self.share_holds(w, node, request) {
                continue;
            }
            while placed < count && self.room(w, node) > 0 {
                if !self.world.nodes[node].take_free_device(request, gpus, w) {
                    break;
                }
                self.took(w, node, 1);
                placed += 1;
            }
        }
        placed
    }

    /// Whether each share and instance of this name on a node has the memory that a pod needs, where that is known.
    fn share_holds(&self, w: usize, node: usize, request: &GpuResource) -> bool {
        let Some(need) = need_with_context(self.workload(w), &self.input.settings) else { return true };
        let enough = |memory: Mib, replicas: u32| memory.0 / u64::from(replicas.max(1)) >= need.0;
        let asked = |profile: &ProfileName| match &request.device {
            GpuDevice::Mig(wanted) => wanted == profile,
            GpuDevice::Gpu => true,
        };
        self.world.nodes[node].gpus.iter().all(|gpu| match gpu.today {
            Some(Offer::TimeSliced { replicas } | Offer::Mps { replicas }) => {
                self.world.kinds[gpu.kind].memory.is_none_or(|memory| enough(memory, *replicas))
            }
            Some(Offer::Mig { instances, replicas, .. }) => {
                instances.iter().map(|i| &i.profile).filter(|p| asked(p)).all(|profile| {
                    let product = self.world.kinds[gpu.kind].product;
                    let memory =
                        product.and_then(|p| p.profile(profile.as_str()).ok()).and_then(|p| p.memory);
                    memory.is_none_or(|m| enough(m, replicas.get(profile).copied().unwrap_or(1)))
                })
            }
            _ => true,
        })
    }

    /// Nodes that may take new pods of a workload, in the fleet's order.
    fn eligible(&self, w: usize) -> Rc<Vec<usize>> {
        Rc::clone(&self.eligible[self.setup.group(w)])
    }

    fn candidates(&self, w: usize, only: Option<usize>) -> Rc<Vec<usize>> {
        match only {
            Some(node) => Rc::new(vec![node]),
            None => self.eligible(w),
        }
    }

    /// How many more pods of a workload the node's CPU, memory and the workload's spread allow.
    fn room(&self, w: usize, node: usize) -> u64 {
        let (workload, state) = (self.workload(w), &self.world.nodes[node]);
        let by = |left: Option<u64>, each: u64| {
            left.map_or(u64::MAX, |left| left.checked_div(each).unwrap_or(u64::MAX))
        };
        let spread = workload
            .max_per_node
            .map_or(u64::MAX, |max| u64::from(max).saturating_sub(state.pods.get(&w).copied().unwrap_or(0)));
        let pods = state.pods_left.unwrap_or(u64::MAX);
        by(state.cpu_left, workload.cpu.0).min(by(state.memory_left, workload.memory.0)).min(pods).min(spread)
    }

    fn took(&mut self, w: usize, node: usize, pods: u64) {
        let workload = self.workload(w);
        self.world.nodes[node].take(w, pods, workload.cpu.0, workload.memory.0);
    }

    fn product_allowed(&self, w: usize, kind: usize) -> bool {
        let products = &self.workload(w).products;
        products.is_empty() || products.contains(&self.world.kinds[kind].name)
    }

    /// Offers of hardware to buy, the cheapest GPU first.
    fn offers(&self) -> Vec<usize> {
        let mut offers: Vec<usize> = (0..self.world.offered.len()).collect();
        offers.sort_by_key(|&offer| (self.world.kinds[self.world.offered[offer]].weight, offer));
        offers
    }

    /// One more node of an offer, where the workload may go to such a node.
    fn buy(&mut self, w: usize, offer: usize) -> Option<usize> {
        let node = self.world.buy(self.input, offer)?;
        self.note_bought(node);
        if !self.eligible(w).contains(&node) {
            self.return_last(offer);
            return None;
        }
        Some(node)
    }

    /// Keeps the eligible lists true when a node comes.
    fn note_bought(&mut self, node: usize) {
        for (group, nodes) in self.eligible.iter_mut().enumerate() {
            let member = &self.input.demand.workloads[self.setup.member(group)];
            if setup::may_go(&self.world, member, &self.world.nodes[node]) {
                Rc::make_mut(nodes).push(node);
            }
        }
    }

    fn return_last(&mut self, offer: usize) {
        self.world.nodes.pop();
        self.world.bought[offer] -= 1;
        let gone = self.world.nodes.len();
        for nodes in &mut self.eligible {
            Rc::make_mut(nodes).retain(|&n| n != gone);
        }
    }
}

/// The profile of a product that satisfies a need.
pub(crate) fn wanted_profile(rules: &MigRules<'_>, need: &InstanceNeed) -> Option<usize> {
    match need {
        InstanceNeed::Profile(name) => rules.find(name),
        InstanceNeed::Least { memory, compute } => rules.smallest(*memory, *compute),
    }
}
