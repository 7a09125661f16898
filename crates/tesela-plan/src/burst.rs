//! What does not fit, on which cloud instances, at which list price.
//!
//! Each kind of instance is planned for with the same planner, as hardware to buy; the cheapest answer wins. Node
//! selectors, affinities and tolerations of the cluster are left out: new nodes get the labels they need. CPU and main
//! memory of the instances are not known here and no constraint.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use tesela_model::cloud::{CloudInstance, CloudList};
use tesela_model::demand::{Demand, NodeConstraints, Workload, WorkloadKey};
use tesela_model::fleet::{Fleet, NodeOffer};
use tesela_model::plan::{Burst, BurstWorkload, Plan};
use tesela_model::quantity::Micros;

use crate::input::{PlanInput, Settings};
use crate::planner;

/// Beyond so many workloads only one kind of instance for all of them is looked for.
const SINGLE_WORKLOADS: usize = 24;

/// Cloud instances for the unmet pods of a plan, the cheapest way found; empty where everything fits, or no instance of
/// the list serves any of the pods. Pods that no instance serves are left out.
#[must_use]
pub fn suggest(input: &PlanInput<'_>, plan: &Plan, list: &CloudList) -> Vec<Burst> {
    let waiting = waiting(input.demand, plan);
    if waiting.is_empty() {
        return Vec::new();
    }
    let mut best: Vec<Answer<'_>> = cheapest(input, &waiting, list).into_iter().collect();
    if waiting.len() > 1 && waiting.len() <= SINGLE_WORKLOADS {
        let apart = apart(input, &waiting, list);
        if rank(&apart) < rank(&best) {
            best = apart;
        }
    }
    best.into_iter().map(|answer| answer.told(list)).collect()
}

/// Most pods served, then least money, then fewest machines.
fn rank(answers: &[Answer<'_>]) -> (Reverse<u64>, i128, u64) {
    let pods = answers.iter().flat_map(|a| &a.workloads).map(|w| w.count).sum();
    let money = answers.iter().map(|a| i128::from(a.hourly.0)).sum();
    (Reverse(pods), money, answers.iter().map(|a| a.nodes).sum())
}

/// The unmet pods as a demand of their own.
fn waiting(demand: &Demand, plan: &Plan) -> Vec<Workload> {
    let mut unmet: BTreeMap<WorkloadKey, u64> = BTreeMap::new();
    for left in &plan.unmet {
        let key = WorkloadKey {
            namespace: left.namespace.clone(),
            kind: left.kind.clone(),
            name: left.workload.clone(),
        };
        *unmet.entry(key).or_insert(0) += left.count;
    }
    let of = |w: &Workload| {
        let count = *unmet.get(&w.key)?;
        Some(Workload { count, running: Vec::new(), constraints: NodeConstraints::default(), ..w.clone() })
    };
    demand.workloads.iter().filter_map(of).collect()
}

/// One kind of instance for some of the pods.
struct Answer<'a> {
    instance: &'a CloudInstance,
    nodes: u64,
    hourly: Micros,
    workloads: Vec<BurstWorkload>,
}

impl Answer<'_> {
    fn told(self, list: &CloudList) -> Burst {
        Burst {
            provider: list.provider.to_string(),
            region: list.region.to_owned(),
            instance_type: self.instance.name.to_owned(),
            product: self.instance.product.to_owned(),
            gpus_per_node: self.instance.gpus,
            nodes: self.nodes,
            hourly_micros: self.hourly,
            currency: list.currency.to_owned(),
            source: list.source.to_owned(),
            as_of: list.as_of.to_owned(),
            workloads: self.workloads,
        }
    }
}

/// The kind of instance that serves most of these pods, and of those the cheapest.
fn cheapest<'a>(input: &PlanInput<'_>, waiting: &[Workload], list: &'a CloudList) -> Option<Answer<'a>> {
    let answers = list.instances.iter().filter_map(|instance| on(input, waiting, instance));
    answers.min_by_key(|answer| (rank(std::slice::from_ref(answer)), answer.instance.name))
}

/// For each workload the instance that is cheapest for it alone, then those of one kind planned together.
fn apart<'a>(input: &PlanInput<'_>, waiting: &[Workload], list: &'a CloudList) -> Vec<Answer<'a>> {
    let mut kinds: BTreeMap<&str, (&CloudInstance, Vec<Workload>)> = BTreeMap::new();
    for workload in waiting {
        if let Some(answer) = cheapest(input, std::slice::from_ref(workload), list) {
            let entry = kinds.entry(answer.instance.name).or_insert((answer.instance, Vec::new()));
            entry.1.push(workload.clone());
        }
    }
    kinds.into_values().filter_map(|(instance, workloads)| on(input, &workloads, instance)).collect()
}

/// A need that is known does not go to a GPU of which nobody says how much memory it has. One that is not known goes to
/// no smaller GPU than the least it could get in the fleet.
fn may_be_large_enough(input: &PlanInput<'_>, workload: &Workload, instance: &CloudInstance) -> bool {
    let of_table = |product: &str| input.products.look_up(product).and_then(|p| p.memory);
    let has = instance.gpu_memory.or_else(|| of_table(instance.product));
    if workload.gpu_memory.is_some() {
        return has.is_some();
    }
    let constraints = input.demand.workloads.iter().find(|w| w.key == workload.key).map(|w| &w.constraints);
    let here = input.fleet.nodes.iter().filter(|n| constraints.is_none_or(|c| c.selects(&n.name, &n.labels)));
    let least = here.flat_map(|n| &n.gpus).filter_map(|g| g.memory.or_else(|| of_table(&g.product))).min();
    least.is_none_or(|least| has.is_some_and(|has| has >= least))
}

/// These pods on as many machines of one kind as it takes; `None` where it serves none of them.
fn on<'a>(input: &PlanInput<'_>, waiting: &[Workload], instance: &'a CloudInstance) -> Option<Answer<'a>> {
    if !waiting.iter().all(|w| may_be_large_enough(input, w, instance)) {
        return None;
    }
    let offer = NodeOffer {
        product: instance.product.to_owned(),
        gpus_per_node: instance.gpus,
        max_nodes: None,
        cpu: None,
        memory: None,
        gpu_memory: instance.gpu_memory,
        labels: BTreeMap::new(),
    };
    let fleet = Fleet { buy: vec![offer], ..Fleet::default() };
    let demand = Demand { tenants: input.demand.tenants.clone(), workloads: waiting.to_vec() };
    let settings = Settings { what_if: false, ..input.settings };
    let there = PlanInput { fleet: &fleet, demand: &demand, findings: &[], prices: None, settings, ..*input };
    let plan = planner::plan(&there);
    let mut served: BTreeMap<BurstWorkload, u64> = BTreeMap::new();
    for a in &plan.assignments {
        let workload = BurstWorkload {
            namespace: a.namespace.clone(),
            kind: a.kind.clone(),
            workload: a.workload.clone(),
            count: 0,
            mode: a.mode,
            profile: a.profile.clone(),
        };
        *served.entry(workload).or_insert(0) += a.count;
    }
    let workloads: Vec<_> = served.into_iter().map(|(w, count)| BurstWorkload { count, ..w }).collect();
    let nodes = plan.summary.plan.nodes;
    let hourly = instance.hourly.times(nodes)?;
    (nodes > 0 && !workloads.is_empty()).then_some(Answer { instance, nodes, hourly, workloads })
}
