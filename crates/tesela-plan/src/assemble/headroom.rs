//! Room to live: free nodes kept for each pool, and whether a pool can lose a node.
//!
//! The promise is made in a form that can be checked without moving pods in the mind: a free node whose GPUs,
//! CPU and memory are at least those of any node of the pool can take over that node's whole work.

use std::collections::BTreeSet;

use tesela_model::finding::{Finding, Severity};
use tesela_model::fleet::Mode;
use tesela_model::plan::{Headroom, PlannedNode, PlannedPool};

use crate::input::PlanInput;
use crate::planner::Outcome;
use crate::world::{NodeState, Source};

/// One entry per pool. A free node stands in for one pool only.
pub(super) fn headroom(
    input: &PlanInput<'_>,
    outcome: &Outcome<'_>,
    nodes: &[PlannedNode],
    pools: &[PlannedPool],
) -> Vec<Headroom> {
    let wanted =
        if input.fleet.has_nodes || !input.fleet.nodes.is_empty() { input.fleet.headroom_nodes } else { 0 };
    let mut taken: BTreeSet<usize> = BTreeSet::new();
    let mut result = Vec::new();
    for pool in pools {
        let members: Vec<usize> = (0..nodes.len())
            .filter(|&n| nodes[n].name.as_ref().is_some_and(|name| pool.nodes.binary_search(name).is_ok()))
            .collect();
        let stands_in =
            |n: usize, member: usize| covers(input, &outcome.world.nodes[n], &outcome.world.nodes[member]);
        let spare: Vec<usize> = (0..nodes.len())
            .filter(|n| is_free(&outcome.world.nodes[*n]) && !taken.contains(n))
            .filter(|&n| members.iter().any(|&m| stands_in(n, m)))
            .take(wanted as usize)
            .collect();
        taken.extend(&spare);
        let survives = members.iter().all(|&m| spare.iter().any(|&n| stands_in(n, m)));
        let names: Vec<String> = spare.iter().filter_map(|&n| nodes[n].name.clone()).collect();
        let message = sentence(pool, wanted, &names, survives, members.is_empty());
        result.push(Headroom {
            pool: pool.name.clone(),
            wanted_nodes: wanted,
            nodes: names,
            survives_node_loss: survives && !members.is_empty(),
            message,
        });
    }
    result
}

fn is_free(node: &NodeState<'_>) -> bool {
    node.open && !node.gpus.is_empty() && node.is_empty() && !node.ailing && node.name().is_some()
}

/// Whether a free node can take over the whole work of another: GPUs, CPU, memory, and every pod may go there.
fn covers(input: &PlanInput<'_>, spare: &NodeState<'_>, member: &NodeState<'_>) -> bool {
    let (Source::Exists(a), Source::Exists(b)) = (spare.source, member.source) else { return false };
    let admits = |w: &usize| {
        let constraints = &input.demand.workloads[*w].constraints;
        constraints.selects(&a.name, &a.labels) && constraints.repelled_by(&a.taints).is_none()
    };
    let kinds = |n: &NodeState<'_>| {
        let mut kinds: Vec<usize> = n.gpus.iter().map(|g| g.kind).collect();
        kinds.sort_unstable();
        kinds
    };
    let enough = |has: Option<u64>, needs: Option<u64>| match (has, needs) {
        (Some(has), Some(needs)) => has >= needs,
        _ => true,
    };
    kinds(spare) == kinds(member)
        && enough(spare.cpu_left, b.cpu.map(|c| c.0.saturating_sub(member.cpu_left.unwrap_or(0))))
        && enough(spare.memory_left, b.memory.map(|m| m.0.saturating_sub(member.memory_left.unwrap_or(0))))
        && member.pods.keys().all(admits)
}

fn sentence(pool: &PlannedPool, wanted: u32, names: &[String], survives: bool, new: bool) -> String {
    let (pool, mode) = (&pool.name, pool.mode);
    if new {
        return format!(
            "pool {pool} is of hardware that is not there yet; buy a spare node to survive the loss of one"
        );
    }
    match (wanted, names.len(), survives) {
        (0, _, _) => format!("no node is kept free for pool {pool}"),
        (_, 0, _) => format!("no free node could stand in for a node of pool {pool}"),
        (_, _, true) => {
            let names = names.join(", ");
            // Its GPUs stay as they are: nothing is cut or shared before it is needed.
            match mode {
                Mode::Exclusive => format!("{names} stays free and can stand in for any node of pool {pool}"),
                _ => format!(
                    "{names} stays free and can stand in for any node of pool {pool}, once its GPUs are set up like that node's"
                ),
            }
        }
        (_, _, false) => {
            format!(
                "{} stays free for pool {pool}, but cannot take over each of its nodes (other GPUs, CPU, memory, labels or taints)",
                names.join(", ")
            )
        }
    }
}

/// Where the fleet asks for a promise that the plan cannot keep.
pub(super) fn findings(input: &PlanInput<'_>, headroom: &[Headroom]) -> Vec<Finding> {
    if !input.fleet.survive_node_loss {
        return Vec::new();
    }
    let broken = headroom.iter().filter(|h| !h.survives_node_loss);
    broken
        .map(|h| Finding {
            severity: Severity::Warning,
            rule: "no-node-loss".into(),
            subject: format!("Pool/{}", h.pool),
            message: format!("the fleet asks to survive the loss of a node; {}", h.message),
            fix: "add a node like the largest of the pool, or set surviveNodeLoss: false".into(),
        })
        .collect()
}
