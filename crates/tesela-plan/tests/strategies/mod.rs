//! Small random fleets and demands that fit each other: what runs holds devices that its node really offers.
//!
//! Each case is built from plain numbers, so that a failing one shrinks to few nodes, GPUs and pods. A file
//! that uses this module declares `mod builders;` beside it.

#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "each test file uses a part of these, and a test may panic"
)]

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use tesela_model::demand::{
    Demand, DevicePlace, Duty, Holding, Isolation, LabelOperator, LabelRule, PodRef, Slo, TenantClass,
    Toleration, Workload,
};
use tesela_model::fleet::{Fleet, Gpu, MigStrategy, Mode, Node, Offer};
use tesela_model::layout::{Instance, Layout};
use tesela_model::origin::{Known, Origin};
use tesela_model::price::PriceBook;
use tesela_model::product::{Product, ProductTable, ProfileName};
use tesela_model::quantity::{Bytes, Mib, MilliCpu};
use tesela_model::resource::GpuResource;
use tesela_plan::input::{PlanInput, Settings};

use crate::builders;

pub const PRODUCTS: [&str; 5] = [builders::H100, builders::A100, builders::A30, builders::T4, builders::ODD];
pub const NAMESPACES: [&str; 3] = ["bank", "lab", "web"];

/// A fleet, what teams need of it, and perhaps prices.
#[derive(Clone, Debug)]
pub struct Case {
    pub fleet: Fleet,
    pub demand: Demand,
    pub prices: Option<PriceBook>,
}

impl Case {
    pub fn input(&self) -> PlanInput<'_> {
        PlanInput {
            products: ProductTable::builtin(),
            fleet: &self.fleet,
            demand: &self.demand,
            findings: &[],
            prices: self.prices.as_ref(),
            settings: Settings { what_if: false, ..Settings::default() },
        }
    }

    /// The same case with its lists in another order. Everything that has no order of its own is turned by
    /// `by` places and reversed.
    pub fn shuffled(&self, by: usize) -> Self {
        fn turn<T>(list: &mut [T], by: usize) {
            if !list.is_empty() {
                list.reverse();
                let by = by % list.len();
                list.rotate_left(by);
            }
        }
        let mut case = self.clone();
        turn(&mut case.fleet.nodes, by);
        turn(&mut case.fleet.buy, by);
        turn(&mut case.demand.workloads, by);
        turn(&mut case.demand.tenants, by);
        for workload in &mut case.demand.workloads {
            turn(&mut workload.running, by);
            for held in &mut workload.running {
                turn(&mut held.pods, by);
            }
        }
        for node in &mut case.fleet.nodes {
            turn(&mut node.taints, by);
        }
        case
    }
}

/// Mostly 1 to 8 nodes and up to 8 workloads, sometimes up to 14 nodes.
pub fn case() -> impl Strategy<Value = Case> {
    prop_oneof![5 => cases(1..9, 0..9), 1 => cases(10..15, 3..9)]
}

/// A case in which every workload's need is known and nothing runs yet.
pub fn fresh_case() -> impl Strategy<Value = Case> {
    case().prop_map(|mut case| {
        for workload in &mut case.demand.workloads {
            workload.running.clear();
            workload.request = None;
            workload.gpu_memory.get_or_insert(Known::given(Mib(4096)));
        }
        case
    })
}

/// A case with one more node, equal to one that is there and empty: `(before, after)`.
pub fn grown_case() -> impl Strategy<Value = (Case, Case)> {
    (case(), any::<prop::sample::Index>()).prop_map(|(before, which)| {
        let mut after = before.clone();
        let mut node = before.fleet.nodes[which.index(before.fleet.nodes.len())].clone();
        node.name = "zz-new".into();
        node.labels.insert("kubernetes.io/hostname".into(), node.name.clone());
        node.held_by_others.clear();
        node.gpus.iter_mut().enumerate().for_each(|(i, gpu)| {
            gpu.uuid = gpu.uuid.as_ref().map(|_| format!("GPU-zz-new-{i}"));
        });
        after.fleet.nodes.push(node);
        (before, after)
    })
}

pub fn cases(
    nodes: std::ops::Range<usize>,
    workloads: std::ops::Range<usize>,
) -> impl Strategy<Value = Case> {
    let fleet =
        (vec(node_seed(), nodes), vec((0..5usize, 1..5u32, prop::option::of(0..4u32)), 0..4), 0..2u32);
    let extra = (any::<[bool; 3]>(), any::<bool>(), 0..4u8);
    (fleet, vec(workload_seed(), workloads), extra).prop_map(|((nodes, buy, headroom), workloads, extra)| {
        let (regulated, priced, others) = extra;
        let mut fleet = builders::fleet(nodes.iter().enumerate().map(|(i, seed)| seed.build(i)).collect());
        // Two offers are the fewest, so that none is drawn as often as some.
        fleet.buy = if buy.len() < 2 { Vec::new() } else { buy }
            .into_iter()
            .map(|(p, gpus, max)| builders::offer(PRODUCTS[p], gpus, max))
            .collect();
        for offer in &mut fleet.buy {
            offer.gpu_memory = offer.gpu_memory.or(Some(odd_memory(offer.gpus_per_node > 2)));
        }
        fleet.headroom_nodes = headroom;
        fleet.namespaces = NAMESPACES.iter().map(ToString::to_string).collect();
        let mut seats = Seats::of(&fleet);
        let tenants = NAMESPACES.iter().zip(regulated).map(|(name, regulated)| {
            let class =
                if regulated && *name == "bank" { TenantClass::Regulated } else { TenantClass::Standard };
            builders::tenant(name, &[name], class)
        });
        let mut demand = Demand { tenants: tenants.collect(), workloads: Vec::new() };
        for node in &mut fleet.nodes {
            if others == 0 {
                node.held_by_others = seats.one(&node.name, "operator").into_iter().collect();
            }
        }
        for (i, seed) in workloads.iter().enumerate() {
            let workload = seed.build(i, &fleet, &mut seats);
            demand.workloads.push(workload);
        }
        let offered = fleet.nodes.iter().flat_map(|n| n.gpus.iter().flat_map(|g| units(n, g).into_keys()));
        fleet.resources = offered.collect::<BTreeSet<_>>();
        demand.workloads.sort_by(|a, b| a.key.cmp(&b.key));
        let cents = [(builders::H100, 300), (builders::A100, 180), (builders::A30, 90), (builders::T4, 40)];
        Case { fleet, demand, prices: priced.then(|| builders::prices(&cents)) }
    })
}

// ---- nodes ----

#[derive(Clone, Debug)]
struct NodeSeed {
    product: usize,
    gpus: usize,
    /// 0–3 exclusive, 4–5 time-sliced, 6 MPS, 7–10 MIG mixed, 11 MIG single.
    offer: u8,
    replicas: u32,
    /// For each GPU: (profile, placement) tries, taken where they fit.
    cuts: Vec<Vec<(prop::sample::Index, prop::sample::Index)>>,
    mig_replicas: bool,
    named: bool,
    zone: bool,
    taint: u8,
    cpu: Option<u8>,
    memory: Option<u8>,
    renamed: bool,
    closed: u8,
    /// The product of the last GPU, where it is another one.
    last: Option<usize>,
    operator: bool,
    /// Devices of one name that do not work.
    unwell: Option<u64>,
}

prop_compose! {
    fn node_seed()(
        (product, gpus, offer, replicas) in (0..5usize, 1..5usize, 0..12u8, 2..9u32),
        cuts in vec(vec(any::<(prop::sample::Index, prop::sample::Index)>(), 0..6), 4),
        (mig_replicas, named, zone, renamed) in any::<(bool, bool, bool, bool)>(),
        (taint, closed) in (0..8u8, 0..12u8),
        cpu in prop::option::of(1..40u8),
        memory in prop::option::of(1..40u8),
        last in prop::option::weighted(0.15, 0..5usize),
        operator in prop::bool::weighted(0.7),
        unwell in prop::option::weighted(0.15, 1..6u64),
    ) -> NodeSeed {
        NodeSeed { last, operator, unwell, product, gpus, offer, replicas, cuts, mig_replicas, named, zone, taint, cpu, memory, renamed, closed }
    }
}

impl NodeSeed {
    fn build(&self, index: usize) -> Node {
        let name = format!("n{index}");
        let product = PRODUCTS[self.product];
        let mut node = builders::node(&name, product, self.gpus, &Offer::Exclusive);
        let table = ProductTable::builtin().find(product).ok().filter(|p| p.has_placements());
        match (self.offer, table) {
            (4 | 5, _) => set_offers(&mut node, |_| Offer::TimeSliced { replicas: self.replicas }),
            (6, _) => set_offers(&mut node, |_| Offer::Mps { replicas: self.replicas }),
            (7..=10, Some(table)) => {
                node.mig_strategy = MigStrategy::Mixed;
                // The device plugin shares a resource of a node alike on all its GPUs.
                let shared = self.cut(table, 0).first().map(|i| i.profile.clone());
                set_offers(&mut node, |i| self.mig(self.cut(table, i), shared.as_ref()));
            }
            (11, Some(table)) => {
                node.mig_strategy = MigStrategy::Single;
                let alike = self.alike(table);
                set_offers(&mut node, |_| self.mig(alike.clone(), None));
            }
            _ => {}
        }
        if let Some(last) = self.last.filter(|_| self.gpus > 1 && self.offer != 11) {
            let offer = match &node.gpus[0].offer {
                Offer::Mig { .. } => Offer::Exclusive,
                other => other.clone(),
            };
            node.gpus[self.gpus - 1] = builders::gpu(PRODUCTS[last], offer);
        }
        for gpu in &mut node.gpus {
            gpu.memory = gpu.memory.or(Some(odd_memory(self.zone)));
        }
        if self.named {
            node.gpus.iter_mut().enumerate().for_each(|(i, gpu)| gpu.uuid = Some(format!("GPU-{name}-{i}")));
        }
        node.labels.insert("zone".into(), if self.zone { "a" } else { "b" }.into());
        node.taints = match self.taint {
            0 => vec![builders::taint("nvidia.com/gpu", "present", "NoSchedule")],
            1 => vec![builders::taint("team", "lab", "NoExecute")],
            2 => vec![builders::taint("old", "", "PreferNoSchedule")],
            _ => Vec::new(),
        };
        node.cpu = self.cpu.map(|c| MilliCpu(u64::from(c) * 1000));
        node.memory = self.memory.map(|m| Bytes(u64::from(m) * (4 << 30)));
        node.cpu_taken = MilliCpu(if self.zone { 500 } else { 0 });
        node.operator = self.operator;
        node.shares_renamed = self.renamed;
        node.schedulable = self.closed != 0;
        node.unusable = (self.closed == 1).then(|| "kept for virtual machines".to_owned());
        if let Some(unwell) = self.unwell.filter(|_| !self.named) {
            let all = node.gpus.iter().flat_map(|g| units(&node, g));
            let mut sums: BTreeMap<GpuResource, u64> = BTreeMap::new();
            all.for_each(|(resource, n)| *sums.entry(resource).or_insert(0) += n);
            node.allocatable = sums.into_iter().take(1).map(|(r, n)| (r, n.saturating_sub(unwell))).collect();
        }
        node
    }

    fn mig(&self, instances: Vec<Instance>, shared: Option<&ProfileName>) -> Offer {
        let shared = shared.filter(|_| self.mig_replicas && self.offer == 7);
        let shared = shared.filter(|profile| instances.iter().any(|i| i.profile == **profile));
        let replicas = shared.map(|profile| (profile.clone(), self.replicas)).into_iter().collect();
        let origin = if self.named { Origin::Measured } else { Origin::Estimated };
        Offer::Mig { instances, replicas, origin }
    }

    fn cut(&self, product: &Product, gpu: usize) -> Vec<Instance> {
        let mut placed: Vec<(_, u32)> = Vec::new();
        let profiles = product.profiles.iter().filter(|p| !p.placements.is_empty()).collect::<Vec<_>>();
        for (profile, start) in self.cuts.get(gpu).into_iter().flatten() {
            let profile = profiles[profile.index(profiles.len())];
            let start = profile.placements[start.index(profile.placements.len())].start;
            placed.push((profile.name.clone(), start));
            if Layout::new(product, placed.iter().cloned()).is_err() {
                placed.pop();
            }
        }
        Layout::new(product, placed).unwrap().instances().to_vec()
    }

    fn alike(&self, product: &Product) -> Vec<Instance> {
        let wanted = self.cuts[0].first().map_or(0, |(profile, _)| profile.index(product.profiles.len()));
        let profile = &product.profiles[wanted];
        let mut placed = Vec::new();
        for placement in &profile.placements {
            placed.push((profile.name.clone(), placement.start));
            if Layout::new(product, placed.iter().cloned()).is_err() {
                placed.pop();
            }
        }
        Layout::new(product, placed).unwrap().instances().to_vec()
    }
}

/// Memory of one of the two kinds that have the name [`builders::ODD`].
fn odd_memory(large: bool) -> Mib {
    builders::gi(if large { 40 } else { 10 })
}

fn set_offers(node: &mut Node, offer: impl Fn(usize) -> Offer) {
    node.gpus.iter_mut().enumerate().for_each(|(i, gpu)| gpu.offer = offer(i));
}

// ---- what is free today ----

/// A place for one device: GPU index, start of the instance, and the memory of one share of it.
#[derive(Clone, Debug)]
struct Seat {
    gpu: usize,
    uuid: Option<String>,
    start: Option<u32>,
    memory: u64,
    shared: bool,
}

/// Free seats by node and resource.
struct Seats {
    free: BTreeMap<(String, GpuResource), Vec<Seat>>,
}

impl Seats {
    fn of(fleet: &Fleet) -> Self {
        let mut free: BTreeMap<_, Vec<Seat>> = BTreeMap::new();
        for node in fleet.nodes.iter().filter(|n| n.unusable.is_none()) {
            for (index, gpu) in node.gpus.iter().enumerate() {
                for (resource, seat, count) in seats(node, index, gpu) {
                    let list = free.entry((node.name.clone(), resource)).or_default();
                    list.extend(std::iter::repeat_n(seat, count as usize));
                }
            }
        }
        Self { free }
    }

    /// Devices for one pod on the node, of the resource if one is given.
    fn take(
        &mut self,
        node: &str,
        resource: Option<&GpuResource>,
        devices: usize,
    ) -> Option<(GpuResource, Vec<Seat>)> {
        let here =
            self.free.iter_mut().filter(|((n, r), _)| n == node && resource.is_none_or(|wanted| wanted == r));
        let ((_, resource), seats) =
            here.max_by_key(|(_, seats)| seats.len()).filter(|(_, s)| s.len() >= devices)?;
        let taken = seats.split_off(seats.len() - devices);
        // One pod never sits twice on one whole GPU or instance, and a share beside its own gives nothing.
        Some((resource.clone(), taken))
    }

    fn one(&mut self, node: &str, namespace: &str) -> Option<Holding> {
        let (resource, _) = self.take(node, None, 1)?;
        let pods = builders::pods(namespace, &format!("gone-{node}"), 1);
        Some(Holding { node: node.to_owned(), resource, devices: 1, pods, place: None })
    }
}

fn seats(node: &Node, index: usize, gpu: &Gpu) -> Vec<(GpuResource, Seat, u32)> {
    let memory = gpu.memory.unwrap_or_default().0;
    let seat = |start, memory, shared| Seat { gpu: index, uuid: gpu.uuid.clone(), start, memory, shared };
    let named = |name: GpuResource| if node.shares_renamed { name.renamed() } else { name };
    match &gpu.offer {
        Offer::Exclusive => vec![(GpuResource::gpu(), seat(None, memory, false), 1)],
        Offer::TimeSliced { replicas } | Offer::Mps { replicas } => {
            vec![(named(GpuResource::gpu()), seat(None, memory / u64::from(*replicas), true), *replicas)]
        }
        Offer::Mig { instances, replicas, .. } => instances
            .iter()
            .map(|i| {
                let product = ProductTable::builtin().find(&gpu.product).unwrap();
                let memory = product.profile(i.profile.as_str()).unwrap().memory.unwrap_or_default().0;
                let name = match node.mig_strategy {
                    MigStrategy::Single => GpuResource::gpu(),
                    _ => GpuResource::mig(i.profile.clone()),
                };
                match replicas.get(&i.profile) {
                    Some(n) => (named(name), seat(Some(i.start), memory / u64::from(*n), true), *n),
                    None => (name, seat(Some(i.start), memory, false), 1),
                }
            })
            .collect(),
    }
}

/// Units of each resource that a GPU offers.
pub fn units(node: &Node, gpu: &Gpu) -> BTreeMap<GpuResource, u64> {
    let mut units = BTreeMap::new();
    for (resource, _, count) in seats(node, 0, gpu) {
        *units.entry(resource).or_insert(0) += u64::from(count);
    }
    units
}

// ---- workloads ----

#[derive(Clone, Debug)]
struct WorkloadSeed {
    namespace: usize,
    waiting: u8,
    runs_on: Vec<prop::sample::Index>,
    /// GPUs per pod: 1 mostly.
    gpus: u8,
    same_node: u8,
    cpu: u8,
    memory: u8,
    constraint: u8,
    max_per_node: Option<u32>,
    need: Option<u64>,
    isolation: u8,
    promise: u8,
    duty: Option<u16>,
    chosen: u8,
    priority: u8,
    movable: u8,
    interactive: u8,
    /// Whether it is seen where its pods sit.
    placed: bool,
    /// Where a pod of it holds what is not offered any more.
    lost: Option<(prop::sample::Index, u8)>,
}

prop_compose! {
    fn workload_seed()(
        (namespace, waiting, gpus, same_node) in (0..3usize, 0..4u8, 0..10u8, 0..8u8),
        runs_on in vec(any::<prop::sample::Index>(), 0..4),
        (cpu, memory, constraint) in (0..5u8, 0..5u8, 0..12u8),
        max_per_node in prop::option::weighted(0.2, 1..3u32),
        need in prop::option::weighted(0.7, 1..80u64),
        (isolation, promise, chosen) in (0..8u8, 0..8u8, 0..16u8),
        duty in prop::option::of(0..=1000u16),
        (priority, movable, interactive) in (0..3u8, 0..5u8, 0..5u8),
        placed in prop::bool::weighted(0.8),
        lost in prop::option::weighted(0.15, (any::<prop::sample::Index>(), 0..4u8)),
    ) -> WorkloadSeed {
        WorkloadSeed {
            placed, lost,
            namespace, waiting, runs_on, gpus, same_node, cpu, memory, constraint, max_per_node, need, isolation,
            promise, duty, chosen, priority, movable, interactive,
        }
    }
}

impl WorkloadSeed {
    fn build(&self, index: usize, fleet: &Fleet, seats: &mut Seats) -> Workload {
        let mut w = builders::workload(NAMESPACES[self.namespace], &format!("w{index}"), 0);
        w.gpus = match self.gpus {
            0 => 2,
            1 => 4,
            _ => 1,
        };
        w.cpu = MilliCpu(u64::from(self.cpu) * 500);
        w.memory = Bytes(u64::from(self.memory) << 30);
        w.max_per_node = self.max_per_node;
        w.priority = i32::from(self.priority);
        w.isolation = match self.isolation {
            0 => Some(Known::given(Isolation::None)),
            1 => Some(Known::given(Isolation::Tenant)),
            2 => Some(Known::given(Isolation::Instance)),
            3 => Some(Known::given(Isolation::Device)),
            _ => None,
        };
        self.constrain(&mut w);
        let least = self.run(&mut w, fleet, seats);
        self.lose(&mut w, fleet);
        w.duty = self.duty.and_then(Duty::permille).map(Known::given);
        w.slo = (self.promise == 0).then_some(Slo { percentile: 990, latency_ms: 200 });
        w.interactive = (self.interactive == 0).then_some(Known::estimated(true));
        w.gpu_memory = self.need.and_then(|gi| known_need(gi * 1024, least)).map(Known::given);
        match self.chosen {
            0 => w.mode = Some(Mode::Exclusive),
            1 if w.running.is_empty() => w.products = vec![PRODUCTS[self.namespace].to_owned()],
            2 if w.gpu_memory.is_none() && w.running.is_empty() => w.request = Some(GpuResource::gpu()),
            3 => w.mode = Some(Mode::TimeSliced),
            4 => w.mode = Some(Mode::Mps),
            5 if w.gpus == 1 => w.mode = Some(Mode::Mig),
            6 if w.gpus == 1 => w.profile = Some(builders::profile("1g.10gb")),
            _ => {}
        }
        w.movable = self.movable != 0;
        let nodes = w.running.iter().map(|h| &h.node).collect::<BTreeSet<_>>().len();
        w.same_node = self.same_node == 0 && nodes <= 1;
        w.count = w.running.iter().map(|h| h.pods.len() as u64).sum::<u64>() + u64::from(self.waiting);
        w
    }

    fn constrain(&self, w: &mut Workload) {
        let zone = |operator, value: &str| LabelRule {
            key: "zone".into(),
            operator,
            values: vec![value.into()],
            field: false,
        };
        let tolerates = |key: &str| Toleration { key: key.into(), exists: true, ..Toleration::default() };
        match self.constraint {
            0 => drop(w.constraints.node_selector.insert("zone".into(), "a".into())),
            1 => w.constraints.affinity = vec![vec![zone(LabelOperator::In, "b")]],
            2 => w.constraints.affinity = vec![vec![zone(LabelOperator::NotIn, "a")]],
            3..=5 => w.constraints.tolerations = vec![tolerates("nvidia.com/gpu")],
            6 => w.constraints.tolerations = vec![tolerates("nvidia.com/gpu"), tolerates("team")],
            7 => w.constraints.tolerations = vec![Toleration { exists: true, ..Toleration::default() }],
            _ => {}
        }
    }

    /// Puts pods where seats are free; says the least memory one of them has and whether any of them shares.
    fn run(&self, w: &mut Workload, fleet: &Fleet, seats: &mut Seats) -> Option<(u64, bool)> {
        let mut least: Option<(u64, bool)> = None;
        let mut per_node: BTreeMap<String, u32> = BTreeMap::new();
        for (i, pick) in self.runs_on.iter().enumerate() {
            let node = &fleet.nodes[pick.index(fleet.nodes.len())];
            // Which of two products a pod with several GPUs holds, no kubectl tells.
            if w.gpus > 1 && node.gpus.iter().any(|g| g.product != node.gpus[0].product) {
                continue;
            }
            let here = per_node.entry(node.name.clone()).or_insert(0);
            if self.max_per_node.is_some_and(|max| *here >= max) {
                continue;
            }
            let Some((resource, taken)) = seats.take(&node.name, w.request.as_ref(), w.gpus as usize) else {
                continue;
            };
            *here += 1;
            for seat in &taken {
                let (memory, shared) = least.unwrap_or((u64::MAX, false));
                least = Some((memory.min(seat.memory), shared || seat.shared));
            }
            let place = match taken.as_slice() {
                [Seat { uuid: Some(uuid), start, .. }] if self.placed => {
                    Some(DevicePlace { gpu: uuid.clone(), start: *start })
                }
                _ => None,
            };
            w.request = Some(resource.clone());
            let pod = PodRef { namespace: w.key.namespace.clone(), name: format!("{}-{i}", w.key.name) };
            let alike = |h: &&mut Holding| h.node == node.name && h.place == place;
            match w.running.iter_mut().find(alike) {
                Some(held) => held.pods.push(pod),
                None => w.running.push(Holding {
                    node: node.name.clone(),
                    resource,
                    devices: w.gpus,
                    pods: vec![pod],
                    place,
                }),
            }
        }
        least
    }
}

impl WorkloadSeed {
    /// One pod holds a device that its node offered once.
    fn lose(&self, w: &mut Workload, fleet: &Fleet) {
        let Some((node, resource)) = self.lost.filter(|_| w.running.is_empty()) else { return };
        let node = &fleet.nodes[node.index(fleet.nodes.len())];
        let names =
            ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-1g.5gb"];
        let resource = builders::resource(names[usize::from(resource)]);
        if node.gpus.iter().any(|gpu| units(node, gpu).contains_key(&resource)) {
            return;
        }
        let pods = vec![PodRef { namespace: w.key.namespace.clone(), name: format!("{}-lost", w.key.name) }];
        w.request = Some(resource.clone());
        w.running.push(Holding { node: node.name.clone(), resource, devices: w.gpus, pods, place: None });
    }
}

/// A need that is not above what the pods that run have; unknown when even little does not fit.
fn known_need(need: u64, least: Option<(u64, bool)>) -> Option<Mib> {
    let overhead = Settings::default().context_overhead.0;
    let most = least.map_or(u64::MAX, |(memory, _)| memory.saturating_sub(overhead));
    (most >= 256).then_some(Mib(need.min(most)))
}
