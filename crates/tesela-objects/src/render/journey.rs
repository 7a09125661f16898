//! The plan as a problem of order, and the order as steps: which folder holds what, whom each step restarts, and
//! who has no pod in between.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::demand::PodRef;
use tesela_model::plan::{Plan, Restart, RestartCause};

use super::error::RenderError;
use super::name::file_stem;
use super::node::NodePlan;
use super::requests::Request;
use super::waves::{self, At, Kind, NodeTask, Order, Place, Pod, Problem, Stage, Work};

/// A workload: namespace, kind, name.
pub(super) type Key<'a> = (&'a str, &'a str, &'a str);

/// The order of the way, with names.
pub(super) struct Journey<'a> {
    pub(super) order: Order,
    works: Vec<Key<'a>>,
    pods: Vec<PodRef>,
    nodes: Vec<&'a str>,
    /// Digits of a wave's number.
    width: usize,
    /// Folder of each step that restarts pods or opens nodes.
    dirs: BTreeMap<At, String>,
}

impl<'a> Journey<'a> {
    pub(super) fn of(
        plan: &'a Plan,
        nodes: &[NodePlan<'a>],
        requests: &[Request<'a>],
    ) -> Result<Self, RenderError> {
        check(plan)?;
        let keys = keys(plan);
        let names = node_names(plan, nodes);
        let problem = problem(plan, nodes, requests, &keys, &names);
        let order = waves::order(&problem);
        let restarts = plan.restarting.iter();
        let mut journey = Self {
            width: order.stages.len().to_string().len().max(2),
            order,
            works: keys,
            pods: restarts.map(|r| PodRef { namespace: r.namespace.clone(), name: r.name.clone() }).collect(),
            nodes: names,
            dirs: BTreeMap::new(),
        };
        journey.dirs = journey.folders();
        Ok(journey)
    }

    /// Folders of all steps of the order.
    fn folders(&self) -> BTreeMap<At, String> {
        let mut dirs = BTreeMap::new();
        for (index, stage) in self.order.stages.iter().enumerate() {
            let stem = self.stem(index);
            for (i, change) in stage.nodes.iter().enumerate() {
                let name = file_stem(self.node(change.node));
                let dir = match stage.kind {
                    Kind::Canary => format!("20-canary-{name}"),
                    _ => format!("{stem}/1-nodes/{:04}-{name}", i + 1),
                };
                dirs.insert(At::Node(change.node), dir);
            }
            for roll in &stage.rolls {
                dirs.insert(At::Roll(roll.work), format!("{stem}/2-requests/{}", self.works[roll.work].0));
            }
            for (i, moved) in stage.moves.iter().enumerate() {
                let name = file_stem(self.node(moved.node));
                dirs.insert(At::Move(moved.node), format!("{stem}/3-moves/{:04}-{name}", i + 1));
            }
            if !stage.opens.is_empty() || !stage.lends.is_empty() {
                dirs.insert(At::Open(index), format!("{stem}/4-open-nodes"));
            }
        }
        dirs
    }

    /// The folder of a stage: `30-wave-01`. The canary has none.
    fn stem(&self, index: usize) -> String {
        let kinds = self.order.stages.iter().take(index + 1);
        let wave = kinds.filter(|s| s.kind == Kind::Wave).count();
        match self.order.stages[index].kind {
            Kind::BeforeCanary => "19-before-canary".to_owned(),
            Kind::Canary => "20-canary".to_owned(),
            Kind::Wave => format!("30-wave-{wave:0width$}", width = self.width),
        }
    }

    pub(super) fn number(stage: &Stage) -> u32 {
        match stage.kind {
            Kind::BeforeCanary => 19,
            Kind::Canary => 20,
            Kind::Wave => 30,
        }
    }

    pub(super) fn dir(&self, at: At) -> &str {
        self.dirs.get(&at).map_or("", String::as_str)
    }

    pub(super) fn node(&self, node: usize) -> &'a str {
        self.nodes[node]
    }

    pub(super) fn work(&self, work: usize) -> Key<'a> {
        self.works[work]
    }

    /// `namespace/name` of a workload.
    pub(super) fn work_name(&self, work: usize) -> String {
        let (namespace, _, name) = self.works[work];
        format!("{namespace}/{name}")
    }

    pub(super) fn names(&self, pods: &[usize]) -> Vec<PodRef> {
        let mut names: Vec<PodRef> = pods.iter().map(|p| self.pods[*p].clone()).collect();
        names.sort();
        names
    }

    /// Nodes by name, for people.
    pub(super) fn nodes_of(&self, nodes: &[usize]) -> String {
        let names: Vec<&str> = nodes.iter().map(|n| self.nodes[*n]).collect();
        names.join(", ")
    }

    /// Each workload that has no pod for a while, in words, with its steps.
    pub(super) fn outages(&self) -> Vec<(At, Option<At>, String)> {
        let mut out = Vec::new();
        for outage in &self.order.outages {
            let who = self.work_name(outage.work);
            let from = self.dir(outage.from);
            let mut text = match outage.to {
                Some(to) if self.dir(to) == from => format!("{who} has no pod while step {from} runs"),
                Some(to) => format!("{who} has no pod from step {from} to step {}", self.dir(to)),
                None => format!("{who} has no pod from step {from} on, until it finds a place"),
            };
            if !outage.spare.is_empty() {
                text.push_str(&format!(
                    ", unless a free GPU of {} takes it meanwhile",
                    self.nodes_of(&few(&outage.spare))
                ));
            }
            out.push((outage.from, outage.to, text));
        }
        out.sort_by(|a, b| (self.dir(a.0), &a.2).cmp(&(self.dir(b.0), &b.2)));
        out
    }
}

/// The first few of a list: a sentence shall stay one.
fn few(nodes: &[usize]) -> Vec<usize> {
    nodes.iter().copied().take(4).collect()
}

/// A plan that does not name the pods it restarts cannot be followed without restarting others.
fn check(plan: &Plan) -> Result<(), RenderError> {
    let moves = plan.restarting.iter().filter(|r| r.cause == RestartCause::Moves).count() as u64;
    if plan.summary.restarts != moves {
        let what = format!(
            "`summary.restarts` counts {} pods that get another device, `restarting` names {moves}",
            plan.summary.restarts
        );
        return Err(RenderError::Contradiction { what });
    }
    let mut seen = BTreeSet::new();
    for r in &plan.restarting {
        if !seen.insert((&r.namespace, &r.name)) {
            let what = format!("`restarting` names pod {}/{} twice", r.namespace, r.name);
            return Err(RenderError::Contradiction { what });
        }
    }
    Ok(())
}

/// Every workload that has a place or a pod that restarts, in order.
fn keys(plan: &Plan) -> Vec<Key<'_>> {
    let mut keys: BTreeSet<Key<'_>> = BTreeSet::new();
    keys.extend(plan.assignments.iter().map(|a| (&*a.namespace, &*a.kind, &*a.workload)));
    keys.extend(plan.restarting.iter().map(|r| (&*r.namespace, &*r.kind, &*r.workload)));
    keys.into_iter().collect()
}

/// The nodes of the plan, then those that it does not know and that pods leave.
fn node_names<'a>(plan: &'a Plan, nodes: &[NodePlan<'a>]) -> Vec<&'a str> {
    let mut names: Vec<&str> = nodes.iter().map(|n| n.name).collect();
    let known: BTreeSet<&str> = names.iter().copied().collect();
    let others: BTreeSet<&str> = plan.restarting.iter().map(|r| r.node.as_str()).collect();
    names.extend(others.difference(&known));
    names
}

fn problem<'a>(
    plan: &'a Plan,
    nodes: &[NodePlan<'a>],
    requests: &[Request<'a>],
    keys: &[Key<'a>],
    names: &[&'a str],
) -> Problem {
    let work_of: BTreeMap<Key<'_>, usize> = keys.iter().enumerate().map(|(i, k)| (*k, i)).collect();
    let node_of: BTreeMap<&str, usize> = names.iter().enumerate().map(|(i, n)| (*n, i)).collect();
    let mut works = vec![Work { units: 1, ..Work::default() }; keys.len()];
    for request in requests {
        if let Some(w) = work_of.get(&(request.namespace, request.kind, request.name)) {
            works[*w].patched = true;
        }
    }
    let mut counts = vec![0_u64; keys.len()];
    for a in &plan.assignments {
        let Some(w) = work_of.get(&(&*a.namespace, &*a.kind, &*a.workload)) else { continue };
        let work = &mut works[*w];
        counts[*w] += a.count;
        work.units = work.units.max(u64::from(a.gpus));
        let node = a.node.as_deref().and_then(|n| node_of.get(n).copied());
        if let Some(from) = &a.request_today {
            work.today = from.to_string();
        } else if work.today.is_empty() {
            work.today = a.resource.to_string();
        }
        if let Some(n) = node.filter(|_| a.staying > 0) {
            work.stays.push((n, a.staying));
        }
        work.places.push(Place { node, resource: a.resource.to_string(), pods: a.count });
    }
    let restart = |r: &Restart| {
        let work = *work_of.get(&(&*r.namespace, &*r.kind, &*r.workload))?;
        Some(Pod { work, node: *node_of.get(&*r.node)?, moves: r.cause == RestartCause::Moves })
    };
    // Every workload and node that `restarting` names is known by now, so none is left out.
    let pods: Vec<Pod> = plan.restarting.iter().filter_map(restart).collect();
    for (w, work) in works.iter_mut().enumerate() {
        let stays: u64 = work.stays.iter().map(|(_, n)| n).sum();
        let moves = pods.iter().filter(|p| p.work == w && p.moves).count() as u64;
        work.waiting = counts[w].saturating_sub(stays + moves);
    }
    let leaves = leaving(plan);
    let mut tasks: Vec<NodeTask> = nodes.iter().map(|n| task(plan, n, &work_of, &leaves)).collect();
    tasks.extend(
        names[nodes.len()..].iter().map(|n| NodeTask { name: (*n).to_owned(), ..NodeTask::default() }),
    );
    Problem { nodes: tasks, works, pods }
}

fn task(
    plan: &Plan,
    node: &NodePlan<'_>,
    work_of: &BTreeMap<Key<'_>, usize>,
    leaves: &BTreeSet<(&str, &str)>,
) -> NodeTask {
    let mut also: BTreeMap<usize, u64> = BTreeMap::new();
    for a in &node.also {
        if let Some(w) = work_of.get(&(&*a.namespace, &*a.kind, &*a.workload)) {
            *also.entry(*w).or_insert(0) += a.staying;
        }
    }
    NodeTask {
        name: node.name.to_owned(),
        pool: node.pools.first().map_or(String::new(), |p| p.name.clone()),
        changes: !node.changes.is_empty(),
        gpus: node.reach.cleared_gpus,
        room: node.known.then(|| node.offer.allocatable.clone()),
        also: also.into_iter().collect(),
        strangers: strangers(node, leaves).len() as u64,
        comes_free: plan.summary.nodes_free.iter().any(|n| n == node.name),
    }
}

/// Pods that leave their device, by namespace and name.
pub(super) fn leaving(plan: &Plan) -> BTreeSet<(&str, &str)> {
    let moves = plan.restarting.iter().filter(|r| r.cause == RestartCause::Moves);
    moves.map(|r| (r.namespace.as_str(), r.name.as_str())).collect()
}

/// Pods that the node's changes disturb and that `restarting` does not name as pods that leave.
pub(super) fn strangers(node: &NodePlan<'_>, leaves: &BTreeSet<(&str, &str)>) -> Vec<PodRef> {
    let disturbed: BTreeSet<&PodRef> = node.changes.iter().flat_map(|c| &c.disturbed_pods).collect();
    disturbed.into_iter().filter(|p| !leaves.contains(&(&*p.namespace, &*p.name))).cloned().collect()
}
