//! An independent checker of a finished plan.
//!
//! It shares no code with the planner, only the vocabulary (`tesela_model`): whatever a plan says, it derives
//! again from the fleet, the demand and the profile table, and names each difference by a stable rule. What
//! runs today and stays as it is is no fault of the plan; what the plan moves or adds must obey every rule.

mod changes;
mod demand;
mod device;
mod figures;
mod guess;
mod isolation;
mod node;
mod placement;
mod proof;
mod quota;
mod rule;
mod together;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use tesela_model::demand::{Isolation, TenantClass, Workload};
use tesela_model::fleet::{Gpu, Mode, Node};
use tesela_model::plan::{Assignment, Plan, PlannedNode};
use tesela_model::product::Product;
use tesela_model::quantity::Mib;
use tesela_model::resource::GpuResource;

pub use self::rule::Rule;
pub use self::together::{JOINT_ACTIVITY, validate_together};
use crate::input::PlanInput;

/// A rule that a plan breaks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// Stable kebab-case name of the rule ([`Rule::id`]).
    pub rule: &'static str,
    /// What breaks it: `kind/namespace/name`, `Node/name`, `Product/id` and the like.
    pub subject: String,
    /// What is so and what should be, with figures.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.rule, self.subject, self.message)
    }
}

/// Every rule that the plan breaks, sorted; empty = the plan is valid for this input.
#[must_use]
pub fn validate(input: &PlanInput<'_>, plan: &Plan) -> Vec<Fault> {
    let facts = Facts::new(input, plan);
    let mut faults = Faults::default();
    demand::check(&facts, &mut faults);
    node::check(&facts, &mut faults);
    device::check(&facts, &mut faults);
    placement::check(&facts, &mut faults);
    isolation::check(&facts, &mut faults);
    proof::check(&facts, &mut faults);
    changes::check(&facts, &mut faults);
    guess::check(&facts, &mut faults);
    quota::check(&facts, &mut faults);
    figures::check(&facts, &mut faults);
    faults.found.into_iter().collect()
}

/// Faults so far, each once.
#[derive(Default)]
struct Faults {
    found: BTreeSet<Fault>,
}

impl Faults {
    fn add(&mut self, rule: Rule, subject: impl fmt::Display, message: String) {
        self.found.insert(Fault { rule: rule.id(), subject: subject.to_string(), message });
    }
}

/// Namespace, kind and name of a workload.
type Key<'a> = (&'a str, &'a str, &'a str);

/// The plan and its input, indexed by name.
struct Facts<'a> {
    input: &'a PlanInput<'a>,
    plan: &'a Plan,
    workloads: BTreeMap<Key<'a>, &'a Workload>,
    /// Nodes that exist.
    nodes: BTreeMap<&'a str, &'a Node>,
    /// Planned nodes with a name.
    planned: BTreeMap<&'a str, &'a PlannedNode>,
    /// Planned nodes that are not there yet.
    bought: Vec<&'a PlannedNode>,
    regulated: BTreeSet<&'a str>,
    /// Devices that pods hold and that their node does not offer, by node.
    unseen: BTreeMap<&'a str, BTreeMap<GpuResource, u64>>,
}

impl<'a> Facts<'a> {
    fn new(input: &'a PlanInput<'a>, plan: &'a Plan) -> Self {
        let key = |w: &'a Workload| (w.key.namespace.as_str(), w.key.kind.as_str(), w.key.name.as_str());
        let regulated = input.demand.tenants.iter().filter(|t| t.class == TenantClass::Regulated);
        let workloads = input.demand.workloads.iter().map(|w| (key(w), w)).collect();
        let nodes = input.fleet.nodes.iter().map(|n| (n.name.as_str(), n)).collect();
        Self {
            input,
            plan,
            unseen: device::unseen(&nodes, &workloads),
            workloads,
            nodes,
            planned: plan.nodes.iter().filter_map(|n| Some((n.name.as_deref()?, n))).collect(),
            bought: plan.nodes.iter().filter(|n| n.name.is_none()).collect(),
            regulated: regulated.map(|t| t.name.as_str()).collect(),
        }
    }

    fn workload(&self, assignment: &Assignment) -> Option<&'a Workload> {
        self.workloads.get(&key_of(assignment)).copied()
    }

    /// Whether its pods stay on devices that their node does not offer: they keep what nobody can see.
    fn is_unseen(&self, a: &Assignment) -> bool {
        let Some(name) = a.node.as_deref().filter(|_| a.staying == a.count) else { return false };
        // A node that was deleted between two lists offers nothing that anybody could look at.
        let gone = !self.nodes.contains_key(name);
        gone || self.unseen.get(name).is_some_and(|held| held.contains_key(&a.resource))
    }

    /// Assignments with the workload they are of.
    fn assigned(&self) -> impl Iterator<Item = (&'a Assignment, &'a Workload)> {
        self.plan.assignments.iter().filter_map(|a| Some((a, self.workload(a)?)))
    }

    /// Assignments by node; `None` = hardware that is not there yet.
    fn by_node(&self) -> BTreeMap<Option<&'a str>, Vec<(&'a Assignment, &'a Workload)>> {
        let mut nodes: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for pair in self.assigned() {
            nodes.entry(pair.0.node.as_deref()).or_default().push(pair);
        }
        nodes
    }

    fn product(&self, name: &str) -> Option<&'a Product> {
        self.input.products.look_up(name)
    }

    /// Memory of a whole GPU: as the node shows it, else the most that an offer names, else the table's.
    fn gpu_memory(&self, gpu: Option<&Gpu>, product: &str) -> Option<Mib> {
        let offers = || self.input.fleet.buy.iter().filter(|o| o.product == product);
        gpu.and_then(|g| g.memory)
            .or_else(|| offers().filter_map(|o| o.gpu_memory).max())
            .or_else(|| self.product(product).and_then(|p| p.memory))
    }

    /// What a workload must not share, its tenant's class included.
    fn isolation(&self, workload: &Workload) -> Isolation {
        let own = workload.isolation.map_or(Isolation::None, |known| known.value);
        if self.regulated.contains(workload.tenant.as_str()) { own.max(Isolation::Instance) } else { own }
    }

    /// GPU memory of one pod with its context, where the need is known.
    fn need(&self, workload: &Workload) -> Option<u64> {
        workload.gpu_memory.map(|m| m.value.0.saturating_add(self.input.settings.context_overhead.0))
    }
}

/// The workload of an assignment.
fn key_of(a: &Assignment) -> Key<'_> {
    (&a.namespace, &a.kind, &a.workload)
}

/// Devices that an assignment takes.
fn devices(assignment: &Assignment) -> u64 {
    assignment.count.saturating_mul(u64::from(assignment.gpus))
}

/// Whether several pods share each device.
fn takes_turns(mode: Mode, replicas: Option<u32>) -> bool {
    matches!(mode, Mode::TimeSliced | Mode::Mps) || replicas.is_some()
}

/// `kind/namespace/name`, as findings write a subject.
fn subject(assignment: &Assignment) -> String {
    format!("{}/{}/{}", assignment.kind, assignment.namespace, assignment.workload)
}

/// The node for messages.
fn node_name(node: Option<&str>) -> String {
    node.map_or_else(|| "Node that is not there yet".to_owned(), |name| format!("Node/{name}"))
}
