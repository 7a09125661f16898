//! A fleet of 20 nodes with work on it, and a valid plan made by hand.

#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a module of a test, which may panic"
)]

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::demand::{Demand, Isolation, Slo, TenantClass, Toleration, Workload, WorkloadKey};
use tesela_model::finding::Finding;
use tesela_model::fleet::{Fleet, Gpu, MigStrategy, Mode, Node, Offer};
use tesela_model::origin::Origin;
use tesela_model::plan::{
    API_VERSION, Assignment, Certificate, Change, ChangeKind, Figures, Headroom, Plan, PlanStatus,
    PlannedGpu, PlannedInstance, PlannedNode, PlannedPool, ProductUse, Summary, Unmet, Use,
};
use tesela_model::price::PriceBook;
use tesela_model::product::{Product, ProductFacts, ProductTable};
use tesela_plan::input::{PlanInput, Settings};
use tesela_plan::{cost, quota, today};

use crate::builders::*;

/// What a test starts from and may break.
#[derive(Clone)]
pub struct Example {
    pub products: ProductTable,
    pub fleet: Fleet,
    pub demand: Demand,
    pub prices: Option<PriceBook>,
    pub plan: Plan,
}

impl Example {
    pub fn input(&self) -> PlanInput<'_> {
        const NONE: &[Finding] = &[];
        PlanInput {
            products: &self.products,
            fleet: &self.fleet,
            demand: &self.demand,
            findings: NONE,
            prices: self.prices.as_ref(),
            settings: Settings::default(),
        }
    }

    pub fn node(&mut self, name: &str) -> &mut PlannedNode {
        self.plan.nodes.iter_mut().find(|n| n.name.as_deref() == Some(name)).unwrap()
    }

    pub fn is(&mut self, name: &str) -> &mut Node {
        self.fleet.nodes.iter_mut().find(|n| n.name == name).unwrap()
    }

    pub fn of(&mut self, workload: &str, node: &str) -> &mut Assignment {
        let mine = |a: &&mut Assignment| a.workload == workload && a.node.as_deref() == Some(node);
        self.plan.assignments.iter_mut().find(mine).unwrap()
    }

    pub fn workload(&mut self, name: &str) -> &mut Workload {
        self.demand.workloads.iter_mut().find(|w| w.key.name == name).unwrap()
    }

    pub fn product(&mut self, name: &str) -> &mut ProductUse {
        self.plan.gpus.iter_mut().find(|g| g.product == name).unwrap()
    }

    pub fn change(&mut self, node: &str) -> &mut Change {
        self.plan.changes.iter_mut().find(|c| c.node == node).unwrap()
    }

    /// Makes everything that is derived from nodes and assignments right again.
    pub fn settle(&mut self) {
        *self = Hand { fleet: self.fleet.clone(), demand: self.demand.clone(), plan: self.plan.clone() }
            .settle(self.prices.clone());
    }
}

fn named(mut node: Node) -> Node {
    let name = node.name.clone();
    node.gpus.iter_mut().enumerate().for_each(|(i, gpu)| gpu.uuid = Some(format!("GPU-{name}-{i}")));
    node
}

fn seven(product: &str, profile_name: &str) -> Offer {
    let starts = (0..7).map(|start| (profile_name, start)).collect::<Vec<_>>();
    mig_offer(product, &starts)
}

fn nodes() -> Vec<Node> {
    let whole = Offer::Exclusive;
    let zone = |name: &'static str| move |n: &mut Node| drop(n.labels.insert("zone".into(), name.into()));
    let single = mig_offer(A30, &[("1g.6gb", 0), ("1g.6gb", 1), ("1g.6gb", 2), ("1g.6gb", 3)]);
    let mut h3 = named(node("h3", H100, 8, &mig_offer(H100, &[])));
    h3.operator = false;
    h3.gpus[0].offer = match seven(H100, "1g.10gb") {
        Offer::Mig { instances, replicas, .. } => {
            Offer::Mig { instances, replicas, origin: Origin::Measured }
        }
        other => other,
    };
    let mut nodes = vec![
        node("a1", A100, 8, &seven(A100, "1g.5gb")),
        node("a2", A100, 8, &whole),
        node("a3", A100, 8, &whole),
        node("a4", A100, 8, &whole)
            .with(zone("vault"))
            .with(|n| n.taints = vec![taint("bank", "", "NoSchedule")]),
        node("a5", A100, 8, &whole),
        node("h1", H100, 8, &whole),
        node("h2", H100, 8, &whole),
        h3,
        node("h4", H100, 8, &whole),
        node("h5", H100, 8, &whole),
        node("h6", H100, 8, &whole).with(|n| n.schedulable = false),
        node("i1", A30, 4, &single).with(|n| n.mig_strategy = MigStrategy::Single),
        named(node("i2", A30, 4, &whole)),
        node("i3", A30, 4, &whole),
        node("i4", A30, 4, &whole),
        node("i5", A30, 4, &whole),
        node("t1", T4, 4, &Offer::TimeSliced { replicas: 4 }),
        node("t2", T4, 4, &Offer::TimeSliced { replicas: 4 }),
        node("t3", T4, 4, &whole),
        node("t4", T4, 4, &whole),
    ];
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    nodes
}

fn workloads() -> Vec<Workload> {
    const GPU: &str = "nvidia.com/gpu";
    let runs = |w: Workload, node: &str, resource: &str, n| running(w, node, resource, n);
    let train = workload("ml", "train", 2)
        .with(|w| w.gpus = 8)
        .with(|w| w.isolation = isolated(Isolation::Device))
        .with(|w| w.gpu_memory = needs(gi(70)))
        .with(|w| w.movable = false);
    let mut agent = workload("web", "agent", 10).with(|w| w.gpu_memory = needs(gi(8)));
    for start in 0..4 {
        agent = runs(agent, "h3", "nvidia.com/mig-1g.10gb", 1);
        let held = &mut agent.running[start];
        held.place = place("GPU-h3-0", Some(start as u32));
        held.pods = pods("web", &format!("agent-{start}"), 1);
    }
    let mut batch = workload("web", "batch", 2).with(|w| w.gpu_memory = needs(gi(4)));
    for index in 0..2 {
        batch = runs(batch, "i2", GPU, 1);
        batch.running[index].place = place(&format!("GPU-i2-{index}"), None);
        batch.running[index].pods = pods("web", &format!("batch-{index}"), 1);
    }
    let rank = workload("web", "rank", 2)
        .with(|w| w.gpu_memory = needs(gi(16)))
        .with(|w| w.slo = Some(Slo { percentile: 990, latency_ms: 100 }))
        .with(|w| w.max_per_node = Some(2));
    let score = workload("bank", "score", 3)
        .with(|w| w.gpu_memory = needs(gi(4)))
        .with(|w| drop(w.constraints.node_selector.insert("zone".into(), "vault".into())))
        .with(|w| {
            w.constraints.tolerations =
                vec![Toleration { key: "bank".into(), exists: true, ..Toleration::default() }];
        });
    let embed = workload("web", "embed", 5).with(|w| w.gpu_memory = needs(gi(4)));
    let notebook = workload("nb", "notebook", 6).with(|w| w.gpu_memory = needs(gi(3)));
    let teach = workload("school", "teach", 3)
        .with(|w| w.gpu_memory = needs(gi(3)))
        .with(|w| w.isolation = isolated(Isolation::Tenant));
    let mut all = vec![
        runs(runs(train, "h1", GPU, 1), "h2", GPU, 1),
        agent,
        rank,
        runs(workload("lab", "legacy", 3), "h5", GPU, 3),
        runs(workload("lab", "old", 1), "h6", GPU, 1),
        score,
        runs(embed, "a1", "nvidia.com/mig-1g.5gb", 3),
        runs(notebook, "t1", GPU, 4),
        teach,
        workload("lab", "pair", 2).with(|w| (w.gpus, w.same_node) = (2, true)),
        runs(workload("lab", "tiny", 2), "i1", GPU, 2),
        batch,
        workload("ml", "tune", 2).with(|w| w.gpu_memory = needs(gi(30))),
        workload("ml", "giant", 1).with(|w| w.gpus = 16),
    ];
    all.sort_by(|a, b| a.key.cmp(&b.key));
    all
}

/// The valid plan.
pub fn example() -> Example {
    let mut fleet = fleet(nodes());
    fleet.namespaces = ["idle".to_owned()].into();
    let mut demand = demand(workloads());
    demand.tenants = vec![tenant("bank", &["bank"], TenantClass::Regulated)];
    let mut hand = Hand::keep(fleet, demand);
    for node in ["h1", "h2"] {
        hand.whole("train", node, 0..8, 1);
    }
    hand.whole("legacy", "h5", 0..3, 3);
    hand.whole("old", "h6", 0..1, 1);
    hand.whole("tune", "a2", 0..2, 0);
    hand.whole("pair", "i3", 0..4, 0);
    for start in 0..7 {
        hand.instance("agent", "h3", 0, start, u64::from(start < 4));
    }
    hand.cut("h3", 1, &[("1g.10gb", 0), ("1g.10gb", 1), ("1g.10gb", 2), ("2g.20gb", 4)]);
    hand.cut("h3", 2, &[("2g.20gb", 0)]);
    for start in 0..3 {
        hand.instance("agent", "h3", 1, start, 0);
    }
    hand.instance("rank", "h3", 1, 4, 0);
    hand.instance("rank", "h3", 2, 0, 0);
    for start in 0..5 {
        hand.instance("embed", "a1", 0, start, u64::from(start < 3));
    }
    hand.cut("a4", 0, &[("1g.5gb", 0), ("1g.5gb", 1), ("1g.5gb", 2)]);
    for start in 0..3 {
        hand.instance("score", "a4", 0, start, 0);
    }
    for start in 0..2 {
        hand.instance("tiny", "i1", 0, start, 1);
    }
    hand.cut("i2", 0, &[("1g.6gb", 0), ("1g.6gb", 1), ("1g.6gb", 2), ("1g.6gb", 3)]);
    for start in 0..2 {
        hand.instance("batch", "i2", 0, start, 0);
    }
    hand.share("notebook", "t1", 0, 4, 4);
    hand.share("notebook", "t1", 1, 2, 0);
    hand.share("teach", "t2", 0, 3, 0);
    hand.changes();
    hand.plan.unmet = vec![Unmet {
        workload: "giant".into(),
        kind: "Deployment".into(),
        namespace: "ml".into(),
        count: 1,
        reason: "no node has 16 GPUs".into(),
    }];
    let prices = prices(&[(H100, 300), (A100, 200), (A30, 100), (T4, 50)]);
    hand.plan.headroom = vec![Headroom {
        pool: format!("exclusive-{H100}"),
        wanted_nodes: 1,
        nodes: vec!["h4".into()],
        survives_node_loss: true,
        message: "h4 stays free".into(),
    }];
    hand.settle(Some(prices))
}

/// Puts a plan together by hand.
pub struct Hand {
    fleet: Fleet,
    demand: Demand,
    plan: Plan,
}

fn kept(gpu: &Gpu) -> PlannedGpu {
    let (replicas, instances) = match &gpu.offer {
        Offer::Exclusive => (None, Vec::new()),
        Offer::TimeSliced { replicas } | Offer::Mps { replicas } => (Some(*replicas), Vec::new()),
        Offer::Mig { instances, replicas, .. } => {
            let kept = instances.iter().map(|i| PlannedInstance {
                profile: i.profile.clone(),
                start: i.start,
                size: i.size,
                replicas: replicas.get(&i.profile).copied(),
                used_by: Vec::new(),
            });
            (None, kept.collect())
        }
    };
    PlannedGpu {
        uuid: gpu.uuid.clone(),
        product: gpu.product.clone(),
        mode: gpu.offer.mode(),
        replicas,
        instances,
        starts: Origin::Estimated,
        used_by: Vec::new(),
        mode_today: Some(gpu.offer.mode()),
    }
}

impl Hand {
    /// Every node as it is, nothing assigned.
    fn keep(fleet: Fleet, demand: Demand) -> Self {
        let node = |n: &Node| PlannedNode {
            name: Some(n.name.clone()),
            mig_strategy: n.mig_strategy,
            mig_strategy_today: Some(n.mig_strategy),
            operator: n.operator,
            plugin_config_today: None,
            mig_config_today: None,
            gpus: n.gpus.iter().map(kept).collect(),
        };
        let plan = Plan {
            api_version: API_VERSION.into(),
            kind: "Plan".into(),
            status: PlanStatus::Complete,
            gpus: Vec::new(),
            pools: Vec::new(),
            assignments: Vec::new(),
            unmet: Vec::new(),
            findings: Vec::new(),
            quotas: Vec::new(),
            today: None,
            changes: Vec::new(),
            assumptions: Vec::new(),
            sensitivity: Vec::new(),
            cost: None,
            cost_reason: None,
            nodes: fleet.nodes.iter().map(node).collect(),
            summary: Summary::default(),
            headroom: Vec::new(),
            nodes_today: Vec::new(),
            restarting: Vec::new(),
            burst: Vec::new(),
            operator_namespace: None,
        };
        Self { fleet, demand, plan }
    }

    fn gpu(&mut self, node: &str, gpu: usize) -> &mut PlannedGpu {
        let node = self.plan.nodes.iter_mut().find(|n| n.name.as_deref() == Some(node)).unwrap();
        &mut node.gpus[gpu]
    }

    fn cut(&mut self, node: &str, index: usize, instances: &[(&str, u32)]) {
        let gpu = self.gpu(node, index);
        let product = gpu.product.clone();
        gpu.mode = Mode::Mig;
        gpu.instances = instances
            .iter()
            .map(|(name, start)| {
                let i = instance(&product, name, *start);
                PlannedInstance {
                    profile: i.profile,
                    start: i.start,
                    size: i.size,
                    replicas: None,
                    used_by: vec![],
                }
            })
            .collect();
        let node = self.plan.nodes.iter_mut().find(|n| n.name.as_deref() == Some(node)).unwrap();
        if node.mig_strategy == MigStrategy::None {
            node.mig_strategy = MigStrategy::Mixed;
        }
    }

    fn whole(&mut self, workload: &str, node: &str, gpus: std::ops::Range<usize>, staying: u64) {
        let (user, each) = self.user(workload, 1);
        let count = gpus.len() as u64 / u64::from(each);
        for index in gpus {
            self.gpu(node, index).used_by.push(user.clone());
        }
        self.assign(workload, node, 0, None, count, staying);
    }

    fn instance(&mut self, workload: &str, node: &str, gpu: usize, start: u32, staying: u64) {
        let (user, _) = self.user(workload, 1);
        let place = self.gpu(node, gpu).instances.iter_mut().find(|i| i.start == start).unwrap();
        place.used_by.push(user);
        self.assign(workload, node, gpu, Some(start), 1, staying);
    }

    fn share(&mut self, workload: &str, node: &str, gpu: usize, pods: u64, staying: u64) {
        let (user, _) = self.user(workload, pods);
        self.gpu(node, gpu).used_by.push(user);
        self.assign(workload, node, gpu, None, pods, staying);
    }

    fn user(&self, workload: &str, pods: u64) -> (Use, u32) {
        let w = self.demand.workloads.iter().find(|w| w.key.name == workload).unwrap();
        let WorkloadKey { namespace, kind, name } = w.key.clone();
        (Use { namespace, kind, workload: name, pods }, w.gpus)
    }

    /// One more entry, or more pods in the one there is.
    fn assign(
        &mut self,
        workload: &str,
        node: &str,
        gpu: usize,
        start: Option<u32>,
        count: u64,
        staying: u64,
    ) {
        let device = self.gpu(node, gpu).clone();
        let is = self.plan.nodes.iter().find(|n| n.name.as_deref() == Some(node)).unwrap();
        let instance = start.map(|start| device.instances.iter().find(|i| i.start == start).unwrap());
        let name = match instance {
            Some(i) if is.mig_strategy == MigStrategy::Mixed => format!("nvidia.com/mig-{}", i.profile),
            _ => "nvidia.com/gpu".into(),
        };
        let w = self.demand.workloads.iter().find(|w| w.key.name == workload).unwrap();
        let entry = Assignment {
            workload: workload.into(),
            kind: "Deployment".into(),
            namespace: w.key.namespace.clone(),
            tenant: w.tenant.clone(),
            mode: device.mode,
            replicas: device.replicas,
            resource: resource(&name),
            count,
            gpus: w.gpus,
            node: Some(node.into()),
            gpu: None,
            product: device.product,
            profile: instance.map(|i| i.profile.clone()),
            start: None,
            staying,
            request_today: w.request.clone().filter(|r| *r != resource(&name)),
            reason: "by hand".into(),
        };
        let same = |a: &&mut Assignment| {
            (&a.workload, &a.node, &a.resource) == (&entry.workload, &entry.node, &entry.resource)
        };
        match self.plan.assignments.iter_mut().find(same) {
            Some(there) => {
                there.count += count;
                there.staying += staying;
            }
            None => self.plan.assignments.push(entry),
        }
    }

    fn changes(&mut self) {
        let change = |node: &str, gpu: Option<&str>, change, to: &str, disturbed_pods| Change {
            node: node.into(),
            gpu: gpu.map(Into::into),
            change,
            to: to.into(),
            disturbed_pods,
        };
        self.plan.changes = vec![
            change("a4", None, ChangeKind::MigModeReset, "mig 1g.5gb × 3", vec![]),
            change("h3", Some("GPU-h3-1"), ChangeKind::Geometry, "mig 1g.10gb × 3 + 2g.20gb", vec![]),
            change("h3", Some("GPU-h3-2"), ChangeKind::Geometry, "mig 2g.20gb", vec![]),
            change(
                "i2",
                Some("GPU-i2-0"),
                ChangeKind::MigModeReset,
                "mig 1g.6gb × 4",
                pods("web", "batch-0", 1),
            ),
        ];
    }

    fn settle(mut self, prices: Option<PriceBook>) -> Example {
        let plan = &mut self.plan;
        plan.status = if plan.unmet.is_empty() { PlanStatus::Complete } else { PlanStatus::Partial };
        plan.gpus = uses(&self.fleet, &plan.nodes);
        plan.pools = pools_of(&plan.nodes);
        plan.quotas = quota::close(&self.fleet, &self.demand, &plan.assignments, &plan.nodes);
        plan.today = today::today(&self.fleet, prices.as_ref());
        let input = PlanInput {
            products: ProductTable::builtin(),
            fleet: &self.fleet,
            demand: &self.demand,
            findings: &[],
            prices: prices.as_ref(),
            settings: Settings::default(),
        };
        (plan.cost, plan.cost_reason) = cost::cost(&input, &plan.nodes, &plan.headroom, &BTreeSet::new());
        let kept = cost::kept(&self.fleet, &plan.nodes, &plan.headroom, &BTreeSet::new());
        let names = kept.iter().filter_map(|n| n.name.clone()).collect::<BTreeSet<_>>();
        plan.summary = Summary {
            today: today::figures(&self.fleet, &self.demand, prices.as_ref()),
            plan: Figures {
                gpus: kept.iter().map(|n| n.gpus.len() as u64).sum(),
                gpus_held: plan.gpus.iter().map(|g| g.used).sum(),
                nodes: kept.len() as u64,
                nodes_held: cost::kept(&Fleet::default(), &plan.nodes, &[], &BTreeSet::new()).len() as u64,
                pods_served: plan.assignments.iter().map(|a| a.count).sum(),
                pods_waiting: plan.unmet.iter().map(|u| u.count).sum(),
                hourly_micros: plan.cost.as_ref().map(|c| c.hourly_micros),
            },
            restarts: 2,
            requests_to_change: plan
                .assignments
                .iter()
                .filter(|a| a.request_today.is_some())
                .map(|a| a.count)
                .sum(),
            unknown_pods: 6,
            unknown_gpus: 4,
            nodes_free: plan
                .nodes
                .iter()
                .filter_map(|n| n.name.clone())
                .filter(|n| !names.contains(n))
                .collect(),
        };
        Example {
            products: ProductTable::builtin().clone(),
            fleet: self.fleet,
            demand: self.demand,
            prices,
            plan: self.plan,
        }
    }
}

/// Prices by hand: one for each compute slice, since seven (A30: four) are the most a GPU has.
fn certificate(
    product: &str,
    demand: &BTreeMap<tesela_model::product::ProfileName, u64>,
) -> Option<Certificate> {
    let scale = if product == A30 { 4 } else { 7 };
    let prices = demand.keys().map(|p| (p.clone(), u64::from(p.slices()))).collect();
    (!demand.is_empty()).then_some(Certificate { scale, prices })
}

fn uses(fleet: &Fleet, nodes: &[PlannedNode]) -> Vec<ProductUse> {
    [A100, A30, H100, T4].map(|product| product_use(product, fleet, nodes)).to_vec()
}

fn product_use(product: &str, fleet: &Fleet, nodes: &[PlannedNode]) -> ProductUse {
    let gpus = nodes.iter().flat_map(|n| &n.gpus).filter(|g| g.product == product).collect::<Vec<_>>();
    let used = |mode| {
        let of = gpus.iter().filter(|g| g.mode == mode);
        of.filter(|g| !g.used_by.is_empty() || g.instances.iter().any(|i| !i.used_by.is_empty())).count()
            as u64
    };
    let mut mig_demand = BTreeMap::new();
    for i in gpus.iter().flat_map(|g| &g.instances).filter(|i| !i.used_by.is_empty()) {
        *mig_demand.entry(i.profile.clone()).or_insert(0) += 1;
    }
    let slices = mig_demand.iter().map(|(p, n)| u64::from(p.slices()) * n).sum::<u64>();
    let scale = if product == A30 { 4 } else { 7 };
    let pods =
        gpus.iter().filter(|g| g.replicas.is_some()).flat_map(|g| &g.used_by).map(|u| u.pods).sum::<u64>();
    let (exclusive, shared, mig) = (used(Mode::Exclusive), used(Mode::TimeSliced), used(Mode::Mig));
    let lower_bound = exclusive + pods.div_ceil(4) + slices.div_ceil(scale);
    ProductUse {
        product: product.into(),
        exist: fleet.nodes.iter().flat_map(|n| &n.gpus).filter(|g| g.product == product).count() as u64,
        used: exclusive + shared + mig,
        lower_bound,
        proven_optimal: lower_bound == exclusive + shared + mig,
        exclusive,
        shared,
        mig,
        certificate: certificate(product, &mig_demand),
        mig_demand,
    }
}

fn pools_of(nodes: &[PlannedNode]) -> Vec<PlannedPool> {
    let mut pools: BTreeMap<String, PlannedPool> = BTreeMap::new();
    for node in cost::kept(&Fleet::default(), nodes, &[], &BTreeSet::new()) {
        for gpu in &node.gpus {
            let name = format!("{}-{}", gpu.mode, gpu.product);
            let pool = pools.entry(name.clone()).or_insert(PlannedPool {
                name,
                product: gpu.product.clone(),
                mode: gpu.mode,
                replicas: gpu.replicas,
                tenant: None,
                nodes: Vec::new(),
                gpus: 0,
            });
            pool.gpus += 1;
            pool.nodes.extend(node.name.clone().filter(|n| !pool.nodes.contains(n)));
        }
    }
    pools.into_values().collect()
}

// ---- ways to break it ----

impl Example {
    pub fn resettle_quotas(&mut self) {
        self.plan.quotas = quota::close(&self.fleet, &self.demand, &self.plan.assignments, &self.plan.nodes);
    }

    pub fn quota(&mut self, namespace: &str, resource: &str) -> &mut tesela_model::plan::Quota {
        let mine = |q: &&mut tesela_model::plan::Quota| q.namespace == namespace && q.resource == resource;
        self.plan.quotas.iter_mut().find(mine).unwrap()
    }

    /// All pods of a workload become new ones on a GPU of another node.
    pub fn move_pods(&mut self, workload: &str, from: &str, to: &str, gpu: usize) {
        let index = self
            .plan
            .assignments
            .iter()
            .position(|a| a.workload == workload && a.node.as_deref() == Some(from));
        let mut moved = self.plan.assignments.remove(index.unwrap());
        moved.node = Some(to.into());
        moved.staying = 0;
        self.plan.assignments.push(moved);
        let users = self.node(from).gpus.iter_mut().flat_map(|g| std::mem::take(&mut g.used_by)).collect();
        self.node(to).gpus[gpu].used_by = users;
        self.settle();
    }

    /// Pods of a shared GPU become new ones on a GPU of another node.
    pub fn move_use(&mut self, workload: &str, from: (&str, usize), to: (&str, usize), pods: u64) {
        let users = std::mem::take(&mut self.node(from.0).gpus[from.1].used_by);
        self.node(to.0).gpus[to.1].used_by = users;
        let mut moved = self.of(workload, from.0).clone();
        self.of(workload, from.0).count -= pods;
        (moved.node, moved.count, moved.staying) = (Some(to.0.into()), pods, 0);
        self.plan.assignments.push(moved);
    }

    /// `tune` goes to new nodes of one A100 each.
    pub fn buy_tune(&mut self, nodes: usize) {
        for index in 0..nodes {
            let mut gpu = self.node("a2").gpus[index].clone();
            self.node("a2").gpus[index].used_by.clear();
            gpu.mode_today = None;
            self.plan.nodes.push(PlannedNode {
                name: None,
                mig_strategy: MigStrategy::None,
                mig_strategy_today: None,
                operator: false,
                plugin_config_today: None,
                mig_config_today: None,
                gpus: vec![gpu],
            });
        }
        self.of("tune", "a2").node = None;
        self.settle();
    }

    pub fn recut(&mut self, node: &str, gpu: usize, instances: &[(&str, u32)]) {
        let product = self.node(node).gpus[gpu].product.clone();
        self.node(node).gpus[gpu].instances = instances
            .iter()
            .map(|(name, start)| {
                let i = instance(&product, name, *start);
                PlannedInstance {
                    profile: i.profile,
                    start: i.start,
                    size: i.size,
                    replicas: None,
                    used_by: vec![],
                }
            })
            .collect();
    }

    /// Free instances beside those that are there.
    pub fn add_free(&mut self, node: &str, gpu: usize, instances: &[(&str, u32)]) {
        let there = self.node(node).gpus[gpu].instances.clone();
        self.recut(node, gpu, instances);
        self.node(node).gpus[gpu].instances.splice(0..0, there);
        self.resettle_quotas();
    }

    /// The table with other facts of one product.
    pub fn change_product(&mut self, id: &str, change: impl FnOnce(&mut ProductFacts)) {
        let mut facts = self.products.find(id).unwrap().clone().into_facts();
        change(&mut facts);
        self.products = self.products.with_user([Product::new(facts).unwrap()]);
    }

    pub fn list_change(&mut self, node: &str, change: ChangeKind) {
        let (node, to) = (node.into(), "by hand".into());
        self.plan.changes.push(Change { node, gpu: None, change, to, disturbed_pods: vec![] });
    }
}
