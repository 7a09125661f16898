//! In which order nodes change, requests change and pods move, so that as few pods as possible have no place in
//! between.
//!
//! Plain numbers go in and come out: nodes, workloads and pods by index. The rule: a canary; nodes whose change
//! hits nobody; the requests of workloads whose new places are all ready; pods that move with the request they
//! have; nodes that are empty by then open again; and so on. When everybody waits for somebody else, the change
//! that hurts least is made all the same, and who has no pod meanwhile is said.

mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use state::State;

/// What has to be put in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Problem {
    pub(super) nodes: Vec<NodeTask>,
    pub(super) works: Vec<Work>,
    pub(super) pods: Vec<Pod>,
}

/// A node that exists.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeTask {
    pub(super) name: String,
    /// Its first pool: nodes of one pool go together.
    pub(super) pool: String,
    /// Whether GPUs of it change.
    pub(super) changes: bool,
    /// GPUs that the executor touches.
    pub(super) gpus: usize,
    /// Units it offers afterwards, by resource; `None` = not known, never short.
    pub(super) room: Option<BTreeMap<String, u64>>,
    /// Pods that stay by the plan and may be hit by the executor all the same: work and pods.
    pub(super) also: Vec<(usize, u64)>,
    /// Pods that its change evicts and of which nothing else is known.
    pub(super) strangers: u64,
    /// Whether it holds no GPU work under the plan and can be given back.
    pub(super) comes_free: bool,
}

/// A workload.
#[derive(Clone, Debug, Default)]
pub(super) struct Work {
    /// Whether its pod template changes: all its pods are replaced then.
    pub(super) patched: bool,
    /// Devices of one pod.
    pub(super) units: u64,
    /// What its pods request today.
    pub(super) today: String,
    /// Pods that wait for a place today.
    pub(super) waiting: u64,
    /// Pods that keep their device, by node.
    pub(super) stays: Vec<(usize, u64)>,
    /// Where its pods are under the plan.
    pub(super) places: Vec<Place>,
}

/// Pods of a workload on one node under the plan, those that stay included.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// `None`: hardware that is not there yet.
    pub(super) node: Option<usize>,
    pub(super) resource: String,
    pub(super) pods: u64,
}

/// A running pod that the plan restarts.
#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) work: usize,
    pub(super) node: usize,
    /// Whether it leaves its device; else only its template changes, and it is one of `stays`.
    pub(super) moves: bool,
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Order {
    /// Nodes that take no new pods from the start: those that change, and those that pods leave.
    pub(super) hold: Vec<usize>,
    pub(super) stages: Vec<Stage>,
    pub(super) outages: Vec<Outage>,
}

/// What happens together; nodes first, then requests, moves and nodes that open again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stage {
    pub(super) kind: Kind,
    pub(super) nodes: Vec<NodeChange>,
    pub(super) rolls: Vec<Roll>,
    pub(super) moves: Vec<Move>,
    /// Nodes that nobody leaves any more.
    pub(super) opens: Vec<usize>,
    /// Nodes that open before that, because pods that the next stage evicts can run there meanwhile.
    pub(super) lends: Vec<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// Who can leave the canary before it changes.
    BeforeCanary,
    Canary,
    #[default]
    Wave,
}

/// The change of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeChange {
    pub(super) node: usize,
    /// Pods that it evicts.
    pub(super) evicts: Vec<usize>,
    /// Pods that may be there and are let be: work and pods.
    pub(super) keeps: Vec<(usize, u64)>,
    /// Whose places are not ready, and the nodes (not ready themselves, or full) that they wait for.
    pub(super) waits: Vec<(usize, Vec<usize>)>,
}

/// The change of a workload's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Roll {
    pub(super) work: usize,
    /// Named pods that it replaces; those evicted before are not here.
    pub(super) restarts: Vec<usize>,
    /// Nodes that it waits for, where its places are not all ready; empty = they are.
    pub(super) waits: Vec<usize>,
}

/// Pods that leave a node with the request they have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) node: usize,
    pub(super) pods: Vec<usize>,
    /// Whose places are not ready, and for which nodes they wait.
    pub(super) waits: Vec<(usize, Vec<usize>)>,
}

/// A workload that has pods today and none from one step to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outage {
    pub(super) work: usize,
    pub(super) from: At,
    /// The step that brings its pods back; the same as `from` when they are back at its end. `None`: no step does.
    pub(super) to: Option<At>,
    /// Nodes with free devices of the kind it requests today, that can take it meanwhile.
    pub(super) spare: Vec<usize>,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum At {
    Node(usize),
    Roll(usize),
    Move(usize),
    /// The nodes that a stage opens or lends.
    Open(usize),
}

/// What a change of a node costs: workloads without a pod and without a spare device, workloads without a pod,
/// pods, GPUs. The canary weighs pods first.
type Cost = (usize, usize, u64, usize);

/// Puts a problem in order. Each changed node, each patched workload and each pod that leaves occurs once.
pub(super) fn order(problem: &Problem) -> Order {
    let mut state = State::new(problem);
    let mut stages = Vec::new();
    let mut hold = state.held();
    let canary = canary(problem, &state);
    if let Some(canary) = canary {
        let mut before = leave_first(&mut state, canary);
        before.lends = state.lend(canary, 0);
        if before.is_empty() {
            hold.retain(|n| *n != canary);
        } else {
            stages.push(before);
        }
        let change = state.change(canary);
        stages.push(Stage { kind: Kind::Canary, nodes: vec![change], ..Stage::default() });
    }
    loop {
        let mut stage = wave(&mut state, stages.len());
        if stage.is_empty() {
            match force(&mut state, stages.len()) {
                Some(forced) => stage = forced,
                None => break,
            }
        }
        stages.push(stage);
    }
    Order { hold, stages, outages: state.outages() }
}

impl Stage {
    fn is_empty(&self) -> bool {
        self.nodes.is_empty()
            && self.rolls.is_empty()
            && self.moves.is_empty()
            && self.opens.is_empty()
            && self.lends.is_empty()
    }
}

/// The node whose change disturbs least.
fn canary(problem: &Problem, state: &State<'_>) -> Option<usize> {
    let spares = state.spares();
    let key = |n: &usize| {
        let (dark, spared, pods, gpus) = state.cost(*n, &spares);
        (pods, dark, spared, gpus, &problem.nodes[*n].name)
    };
    state.to_change().min_by_key(key)
}

/// Workloads and pods on the canary that have a ready place elsewhere.
fn leave_first(state: &mut State<'_>, canary: usize) -> Stage {
    let mut stage = Stage { kind: Kind::BeforeCanary, ..Stage::default() };
    let ready: Vec<usize> = state.works_on(canary).into_iter().filter(|w| state.may_roll(*w)).collect();
    stage.rolls = state.roll_all(&ready);
    stage.moves.extend(state.try_move(canary));
    stage
}

/// One round of what is ready.
fn wave(state: &mut State<'_>, stage_index: usize) -> Stage {
    let mut stage = Stage::default();
    let mut quiet: Vec<usize> = state.to_change().filter(|n| state.hits(*n) == 0).collect();
    state.by_pool(&mut quiet);
    stage.nodes = quiet.into_iter().map(|n| state.change(n)).collect();
    let ready = state.to_roll();
    stage.rolls = state.roll_all(&ready);
    for node in state.nodes_to_leave() {
        stage.moves.extend(state.try_move(node));
    }
    stage.opens = state.open(stage_index);
    stage
}

/// When nobody can go first: the node whose change hurts least, else pods that wait elsewhere for a while, else a
/// request whose place is not free yet.
fn force(state: &mut State<'_>, stage_index: usize) -> Option<Stage> {
    let mut stage = Stage::default();
    let spares = state.spares();
    let node = state.to_change().min_by_key(|n| (state.cost(*n, &spares), state.name(*n)));
    if let Some(node) = node {
        stage.lends = state.lend(node, stage_index);
        if !stage.lends.is_empty() {
            return Some(stage);
        }
        stage.nodes.push(state.change(node));
    } else if let Some(node) = state.nodes_to_leave().into_iter().min_by_key(|n| state.leaving(*n).len()) {
        stage.moves.push(state.force_move(node));
    } else {
        let work = state.unrolled()?;
        stage.rolls = state.roll_all(&[work]);
    }
    stage.opens = state.open(stage_index);
    Some(stage)
}
