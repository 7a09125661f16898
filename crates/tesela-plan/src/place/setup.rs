//! What does not change while a placement is searched: who may go where, and how shared pools are cut.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use tesela_model::demand::{NodeConstraints, Workload};
use tesela_model::label;

use super::Seats;
use super::share::Pools;
use crate::decide::Decision;
use crate::input::PlanInput;
use crate::world::{NodeState, Source, World};

/// Facts about an input that every way of placing it starts from.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(super) pools: Pools,
    /// The group of each workload.
    group: Vec<usize>,
    groups: Vec<Group>,
}

/// Workloads with the same constraints: labels, taints and products do not change.
#[derive(Clone, Debug)]
struct Group {
    member: usize,
    nodes: Rc<Vec<usize>>,
    /// Kinds of GPU on these nodes and of hardware to buy.
    kinds: Vec<usize>,
}

impl Setup {
    /// `world` may have anybody seated; only what its nodes are is looked at.
    pub(crate) fn of(input: &PlanInput<'_>, decisions: &[Decision], world: &World<'_>) -> Self {
        let pools = Pools::plan(input, decisions, world);
        let mut known: BTreeMap<(&NodeConstraints, &[String]), usize> = BTreeMap::new();
        let (mut group, mut groups) = (Vec::new(), Vec::new());
        for (w, workload) in input.demand.workloads.iter().enumerate() {
            let key = (&workload.constraints, workload.products.as_slice());
            group.push(*known.entry(key).or_insert_with(|| {
                groups.push(Group::of(world, workload, w));
                groups.len() - 1
            }));
        }
        Self { pools, group, groups }
    }

    pub(super) fn group(&self, w: usize) -> usize {
        self.group[w]
    }

    pub(super) fn member(&self, group: usize) -> usize {
        self.groups[group].member
    }

    pub(super) fn eligible(&self) -> Vec<Rc<Vec<usize>>> {
        self.groups.iter().map(|g| Rc::clone(&g.nodes)).collect()
    }

    pub(super) fn kinds(&self, w: usize) -> &[usize] {
        &self.groups[self.group[w]].kinds
    }

    /// What one try to place these costs: nodes looked at for each workload, and pods. Nodes that nobody may go to
    /// do not count.
    pub(crate) fn work(&self, seats: &[Seats]) -> u64 {
        let seats = seats.iter().filter(|s| s.count > 0);
        seats.map(|s| self.groups[self.group[s.workload]].nodes.len() as u64 + s.count).sum()
    }

    /// Nodes that somebody may go to who needs a seat.
    pub(crate) fn wanted(&self, seats: &[Seats]) -> BTreeSet<usize> {
        let groups: BTreeSet<usize> =
            seats.iter().filter(|s| s.count > 0).map(|s| self.group[s.workload]).collect();
        groups.into_iter().flat_map(|g| self.groups[g].nodes.iter().copied()).collect()
    }
}

impl Group {
    fn of(world: &World<'_>, workload: &Workload, member: usize) -> Self {
        let nodes: Vec<usize> =
            (0..world.nodes.len()).filter(|&n| may_go(world, workload, &world.nodes[n])).collect();
        let mut kinds: BTreeSet<usize> = world.offered.iter().copied().collect();
        kinds.extend(nodes.iter().flat_map(|&n| world.nodes[n].gpus.iter().map(|g| g.kind)));
        Self { member, nodes: Rc::new(nodes), kinds: kinds.into_iter().collect() }
    }
}

/// Whether new pods of a workload may go to a node, as far as the node is what it is.
pub(super) fn may_go(world: &World<'_>, workload: &Workload, node: &NodeState<'_>) -> bool {
    let taints = match node.source {
        Source::Exists(n) => n.taints.as_slice(),
        Source::Bought => &[],
    };
    let products = &workload.products;
    node.open
        && !node.gpus.is_empty()
        && selects(world, &workload.constraints, node)
        && workload.constraints.repelled_by(taints).is_none()
        && (products.is_empty() || node.gpus.iter().any(|g| products.contains(&world.kinds[g.kind].name)))
}

fn selects(world: &World<'_>, constraints: &NodeConstraints, node: &NodeState<'_>) -> bool {
    if let Some(name) = node.name() {
        return constraints.selects(name, node.labels);
    }
    // A node that is not there yet will carry the label of its product.
    let mut labels = node.labels.clone();
    if let Some(product) = node.gpus.first().and_then(|g| world.kinds[g.kind].product)
        && let Some(nvml) = product.nvml_names.first()
    {
        labels.entry(label::GPU_PRODUCT.to_owned()).or_insert_with(|| nvml.replace(' ', "-"));
    }
    constraints.selects("", &labels)
}
