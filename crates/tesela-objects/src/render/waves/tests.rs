//! Problems of all shapes, and the order of each followed by another bookkeeper than the one that made it.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const GPU: &str = "nvidia.com/gpu";
const SMALL: &str = "nvidia.com/mig-1g.10gb";

fn node(name: &str, changes: bool, room: &[(&str, u64)]) -> NodeTask {
    let room = room.iter().map(|(r, n)| ((*r).to_owned(), *n)).collect();
    NodeTask { name: name.to_owned(), changes, gpus: 1, room: Some(room), ..NodeTask::default() }
}

fn work(patched: bool, stays: &[(usize, u64)], places: &[(usize, &str, u64)]) -> Work {
    let place = |p: &(usize, &str, u64)| Place { node: Some(p.0), resource: p.1.to_owned(), pods: p.2 };
    Work {
        patched,
        units: 1,
        today: GPU.to_owned(),
        waiting: 0,
        stays: stays.to_vec(),
        places: places.iter().map(place).collect(),
    }
}

fn leaves(work: usize, node: usize) -> Pod {
    Pod { work, node, moves: true }
}

/// Everything in the order in which it happens.
fn events(order: &Order) -> Vec<At> {
    let mut events = Vec::new();
    for (index, stage) in order.stages.iter().enumerate() {
        events.extend(stage.nodes.iter().map(|c| At::Node(c.node)));
        events.extend(stage.rolls.iter().map(|r| At::Roll(r.work)));
        events.extend(stage.moves.iter().map(|m| At::Move(m.node)));
        if !stage.opens.is_empty() || !stage.lends.is_empty() {
            events.push(At::Open(index));
        }
    }
    events
}

fn at(order: &Order, what: At) -> usize {
    events(order).iter().position(|e| *e == what).unwrap()
}

#[test]
fn who_can_leave_leaves_before_the_node_changes() {
    // `a` is idle and becomes MIG; the work of `b` goes there; then `b` changes and hits nobody.
    let problem = Problem {
        nodes: vec![node("a", true, &[(SMALL, 7)]), node("b", true, &[("nvidia.com/gpu.shared", 4)])],
        works: vec![work(true, &[], &[(0, SMALL, 2)])],
        pods: vec![leaves(0, 1), leaves(0, 1)],
    };
    let order = order(&problem);
    assert_eq!(events(&order), [At::Node(0), At::Roll(0), At::Node(1)]);
    assert!(order.stages.iter().flat_map(|s| &s.nodes).all(|c| c.evicts.is_empty()));
    assert!(order.outages.is_empty());
    assert_eq!(order.hold, [1]);
}

#[test]
fn two_nodes_that_wait_for_each_other_break_where_it_hurts_least() {
    // The three pods of work 0 on `a` go to `b`, the one pod of work 1 on `b` goes to `a`.
    let problem = Problem {
        nodes: vec![node("a", true, &[(SMALL, 7)]), node("b", true, &[(SMALL, 7)])],
        works: vec![work(true, &[], &[(1, SMALL, 3)]), work(true, &[], &[(0, SMALL, 1)])],
        pods: vec![leaves(0, 0), leaves(0, 0), leaves(0, 0), leaves(1, 1)],
    };
    let order = order(&problem);
    assert_eq!(events(&order), [At::Node(1), At::Roll(0), At::Node(0), At::Roll(1)]);
    assert_eq!(order.stages[0].nodes[0].waits, [(1, vec![0])], "work 1 waits for node a");
    let outage = Outage { work: 1, from: At::Node(1), to: Some(At::Roll(1)), spare: Vec::new() };
    assert_eq!(order.outages, [outage]);
}

#[test]
fn a_spare_device_is_said() {
    let mut problem = Problem {
        nodes: vec![node("a", true, &[(SMALL, 7)]), node("free", false, &[(GPU, 1)])],
        works: vec![work(true, &[], &[(0, SMALL, 1)])],
        pods: vec![leaves(0, 0)],
    };
    assert_eq!(order(&problem).outages[0].spare, [1]);
    problem.nodes[1].room = Some(BTreeMap::new());
    assert!(order(&problem).outages[0].spare.is_empty());
}

#[test]
fn a_held_node_with_a_free_device_opens_for_who_would_have_no_pod() {
    // The pod on `a` gets its place on `a`; `half` loses one pod by the same work's patch and has a device free.
    let problem = Problem {
        nodes: vec![node("a", true, &[(SMALL, 7)]), node("half", false, &[(GPU, 2)])],
        works: vec![work(true, &[], &[(0, SMALL, 1)]), work(true, &[], &[(0, SMALL, 1)])],
        pods: vec![leaves(0, 0), leaves(1, 1)],
    };
    let order = order(&problem);
    assert_eq!((&order.stages[0].kind, &order.stages[0].lends), (&Kind::BeforeCanary, &vec![1]));
    assert_eq!(order.outages[0].spare, [1]);
}

#[test]
fn pods_that_keep_their_request_move_and_the_node_stays_held_when_it_comes_free() {
    let mut problem = Problem {
        nodes: vec![node("l4-07", false, &[(GPU, 4)]), node("l4-08", false, &[(GPU, 4)])],
        works: vec![work(false, &[(1, 3)], &[(1, GPU, 4)])],
        pods: vec![leaves(0, 0)],
    };
    problem.nodes[0].comes_free = true;
    let order = order(&problem);
    assert_eq!(events(&order), [At::Move(0)]);
    assert_eq!((order.hold, order.outages), (vec![0], Vec::new()));
}

#[test]
fn a_place_that_another_still_holds_is_waited_for() {
    // Work 0 moves from node 0 to node 1, whose device work 1 holds until it moves to node 2.
    let problem = Problem {
        nodes: vec![
            node("a", false, &[(GPU, 1)]),
            node("b", false, &[(GPU, 1)]),
            node("c", false, &[(GPU, 1)]),
        ],
        works: vec![work(false, &[], &[(1, GPU, 1)]), work(false, &[], &[(2, GPU, 1)])],
        pods: vec![leaves(0, 0), leaves(1, 1)],
    };
    let order = order(&problem);
    assert!(at(&order, At::Move(1)) < at(&order, At::Move(0)), "{order:?}");
    assert!(order.outages.is_empty());
}

#[test]
fn who_can_leave_the_canary_leaves_it_first() {
    let problem = Problem {
        nodes: vec![node("a", true, &[(SMALL, 7)]), node("b", false, &[(SMALL, 7)])],
        works: vec![work(true, &[], &[(1, SMALL, 1)])],
        pods: vec![leaves(0, 0)],
    };
    let order = order(&problem);
    assert_eq!(order.stages[0].kind, Kind::BeforeCanary);
    assert_eq!(events(&order), [At::Roll(0), At::Node(0)]);
    assert!(order.outages.is_empty());
}

/// Follows an order with its own books.
struct Follower<'a> {
    problem: &'a Problem,
    here: BTreeSet<usize>,
    rolled: BTreeSet<usize>,
    open: BTreeSet<usize>,
}

impl<'a> Follower<'a> {
    fn new(problem: &'a Problem, order: &Order) -> Self {
        let open = (0..problem.nodes.len()).filter(|n| !order.hold.contains(n) && !problem.nodes[*n].changes);
        Self {
            problem,
            here: (0..problem.pods.len()).collect(),
            rolled: BTreeSet::new(),
            open: open.collect(),
        }
    }

    /// Units that are certainly in use: of pods that have not moved and of works that have.
    fn used(&self, node: usize, resource: &str) -> u64 {
        let mut used = 0;
        for (w, work) in self.problem.works.iter().enumerate() {
            if self.rolled.contains(&w) {
                let there = work.places.iter().filter(|p| p.node == Some(node) && p.resource == resource);
                used += there.map(|p| p.pods).sum::<u64>() * work.units;
            } else if work.today == resource {
                let stays = work.stays.iter().filter(|(n, _)| *n == node).map(|(_, p)| p).sum::<u64>();
                let moving = self.here.iter().map(|p| &self.problem.pods[*p]);
                let leaving = moving.filter(|p| p.moves && p.work == w && p.node == node).count() as u64;
                used += (stays + leaving) * work.units;
            }
        }
        used
    }

    /// Whether all places of a patched work are open and empty enough.
    fn ready(&self, work: usize) -> bool {
        let task = &self.problem.works[work];
        task.places.iter().all(|p| {
            let Some(node) = p.node else { return true };
            let stays = task.stays.iter().filter(|(n, _)| *n == node && p.resource == task.today);
            let new = p.pods.saturating_sub(stays.map(|(_, n)| n).sum());
            let room = self.problem.nodes[node].room.as_ref().unwrap().get(&p.resource).copied().unwrap_or(0);
            self.open.contains(&node) && room.saturating_sub(self.used(node, &p.resource)) >= new * task.units
        })
    }
}

/// Nodes change, works change or not, pods are spread over nodes; room for what is planned.
fn problems() -> impl Strategy<Value = Problem> {
    let nodes = prop::collection::vec((any::<bool>(), 0..2usize, any::<bool>()), 1..6);
    nodes.prop_flat_map(|nodes| {
        let n = nodes.len();
        let pods = prop::collection::vec((0..n, 0..3u8), 0..5);
        let places = prop::collection::vec((0..n, 1..3u64), 1..3);
        let works = prop::collection::vec((any::<bool>(), pods, places, 1..3u64, 0..2u64), 0..6);
        (Just(nodes), works).prop_map(|(nodes, works)| build(&nodes, &works))
    })
}

/// Patched?, pods today (node, what becomes of it), places (node, pods), devices of a pod, pods that wait.
type SomeWork = (bool, Vec<(usize, u8)>, Vec<(usize, u64)>, u64, u64);

fn build(nodes: &[(bool, usize, bool)], works: &[SomeWork]) -> Problem {
    let mut problem = Problem::default();
    for (index, (changes, slack, free)) in nodes.iter().enumerate() {
        let mut task = node(&format!("n{index}"), *changes, &[]);
        task.gpus = index % 3;
        task.comes_free = *free && !changes;
        let room = [(GPU.to_owned(), *slack as u64), (SMALL.to_owned(), *slack as u64)];
        task.room = Some(room.into_iter().collect());
        problem.nodes.push(task);
    }
    for (w, (patched, pods, places, units, waiting)) in works.iter().enumerate() {
        let mut stays: BTreeMap<usize, u64> = BTreeMap::new();
        for (node, fate) in pods {
            // A pod stays, stays with a new template, or leaves.
            match (fate, patched) {
                (0, _) | (1, false) => *stays.entry(*node).or_default() += 1,
                (1, true) => {
                    *stays.entry(*node).or_default() += 1;
                    problem.pods.push(Pod { work: w, node: *node, moves: false });
                }
                _ => problem.pods.push(leaves(w, *node)),
            }
        }
        let resource = if *patched { SMALL } else { GPU };
        let mut wanted: BTreeMap<usize, u64> = places.iter().copied().collect();
        for (node, pods) in &stays {
            *wanted.entry(*node).or_default() += if *patched { 0 } else { *pods };
        }
        for (node, pods) in &wanted {
            let room = problem.nodes[*node].room.as_mut().unwrap();
            *room.entry(resource.to_owned()).or_default() += pods * units;
        }
        for (node, pods) in &stays {
            let room = problem.nodes[*node].room.as_mut().unwrap();
            *room.entry(GPU.to_owned()).or_default() += pods * units;
        }
        let places: Vec<_> = wanted.iter().map(|(n, pods)| (*n, resource, *pods)).collect();
        let stays: Vec<_> = stays.into_iter().collect();
        let mut task = work(*patched, &stays, &places);
        (task.units, task.waiting) = (*units, *waiting);
        problem.works.push(task);
    }
    problem
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn everything_happens_once_and_only_named_pods_restart(problem in problems()) {
        let order = order(&problem);
        let mut restarted = BTreeMap::new();
        for stage in &order.stages {
            let evicted = stage.nodes.iter().flat_map(|c| &c.evicts);
            let rolled = stage.rolls.iter().flat_map(|r| &r.restarts);
            for pod in evicted.chain(rolled).chain(stage.moves.iter().flat_map(|m| &m.pods)) {
                *restarted.entry(*pod).or_insert(0) += 1;
            }
        }
        let all: BTreeMap<usize, i32> = (0..problem.pods.len()).map(|p| (p, 1)).collect();
        prop_assert_eq!(restarted, all, "each named pod in one step, and no others");
        let happened = events(&order);
        for (n, node) in problem.nodes.iter().enumerate() {
            let times = happened.iter().filter(|e| **e == At::Node(n)).count();
            prop_assert_eq!(times, usize::from(node.changes));
        }
        for (w, work) in problem.works.iter().enumerate() {
            let times = happened.iter().filter(|e| **e == At::Roll(w)).count();
            prop_assert_eq!(times, usize::from(work.patched));
        }
    }

    #[test]
    fn the_canary_disturbs_least(problem in problems()) {
        let order = order(&problem);
        let disturbed = |n: usize| problem.pods.iter().filter(|p| p.moves && p.node == n).count();
        let changes: Vec<usize> = (0..problem.nodes.len()).filter(|n| problem.nodes[*n].changes).collect();
        let canary = order.stages.iter().find(|s| s.kind == Kind::Canary).map(|s| s.nodes[0].node);
        prop_assert_eq!(canary.is_some(), !changes.is_empty());
        if let Some(canary) = canary {
            prop_assert_eq!(Some(disturbed(canary)), changes.iter().map(|n| disturbed(*n)).min());
            let first = events(&order).into_iter().find(|e| matches!(e, At::Node(_)));
            prop_assert_eq!(first, Some(At::Node(canary)));
        }
    }

    /// A node evicts nobody whose request could have changed before.
    #[test]
    fn a_node_changes_after_the_requests_of_all_who_can_leave(problem in problems()) {
        let order = order(&problem);
        let mut follower = Follower::new(&problem, &order);
        for stage in &order.stages {
            for change in &stage.nodes {
                for pod in &change.evicts {
                    let work = problem.pods[*pod].work;
                    let could = problem.works[work].patched && follower.ready(work);
                    // What found its place by itself meanwhile is not in the follower's books, so it may think a
                    // place free that is not: then the order must say what is waited for.
                    let waits = change.waits.iter().any(|(w, nodes)| *w == work && !nodes.is_empty());
                    prop_assert!(!could || waits, "work {} can leave node {}", work, change.node);
                }
                for pod in &change.evicts {
                    follower.here.remove(pod);
                }
                follower.open.insert(change.node);
            }
            for roll in &stage.rolls {
                prop_assert!(!roll.waits.is_empty() || follower.ready(roll.work), "work {}", roll.work);
                for pod in &roll.restarts {
                    follower.here.remove(pod);
                }
                follower.rolled.insert(roll.work);
            }
            for pod in stage.moves.iter().flat_map(|m| &m.pods) {
                follower.here.remove(pod);
            }
            follower.open.extend(stage.opens.iter().chain(&stage.lends));
        }
    }

    /// Whoever loses its last pod is said to, from that step to the one that brings it back.
    #[test]
    fn outages_are_all_said(problem in problems()) {
        let order = order(&problem);
        let started = |w: usize| {
            let stays: u64 = problem.works[w].stays.iter().map(|(_, n)| n).sum();
            stays + problem.pods.iter().filter(|p| p.work == w && p.moves).count() as u64
        };
        let mut here: BTreeSet<usize> = (0..problem.pods.len()).filter(|p| problem.pods[*p].moves).collect();
        for stage in &order.stages {
            for change in &stage.nodes {
                for pod in &change.evicts {
                    here.remove(pod);
                }
                for pod in &change.evicts {
                    let work = problem.pods[*pod].work;
                    let stays: u64 = problem.works[work].stays.iter().map(|(_, n)| n).sum();
                    let left = here.iter().filter(|p| problem.pods[**p].work == work).count() as u64;
                    let moved = started(work) - stays - left - change.evicts.iter()
                        .filter(|p| problem.pods[**p].work == work).count() as u64;
                    // A pod that waited may run by then, elsewhere.
                    if stays + left + moved == 0 && problem.works[work].waiting == 0 {
                        prop_assert!(
                            order.outages.iter().any(|o| o.work == work && o.from == At::Node(change.node)),
                            "work {} is dark from node {}", work, change.node
                        );
                    }
                }
            }
            for pod in stage.rolls.iter().flat_map(|r| &r.restarts).chain(stage.moves.iter().flat_map(|m| &m.pods)) {
                here.remove(pod);
            }
        }
        let happened = events(&order);
        let index = |what: At| happened.iter().position(|e| *e == what);
        for outage in &order.outages {
            prop_assert!(started(outage.work) > 0);
            if let Some(to) = outage.to {
                prop_assert!(index(outage.from) <= index(to));
            }
        }
    }
}
