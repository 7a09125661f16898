//! What a fleet's MIG GPUs hold, and who holds it, as reconfiguration reads it.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod builders;

use builders::*;
use tesela_model::demand::Demand;
use tesela_model::fleet::{MigStrategy, Node, Offer};
use tesela_model::origin::Origin;
use tesela_model::product::ProductTable;
use tesela_plan::reconfigure::force::{Force, cut_products, in_force};
use tesela_plan::reconfigure::{Executor, Usage};

const CUT: &[(&str, u32)] = &[("1g.10gb", 0), ("1g.10gb", 1), ("3g.40gb", 4)];
const SMALL: &str = "nvidia.com/mig-1g.10gb";
const HALF: &str = "nvidia.com/mig-3g.40gb";

fn cut(name: &str, gpus: usize) -> Node {
    node(name, H100, gpus, &mig_offer(H100, CUT)).with(|n| n.operator = false)
}

fn read(nodes: Vec<Node>, demand: &Demand) -> Force {
    in_force(ProductTable::builtin().find(H100).unwrap(), &fleet(nodes), demand)
}

fn usages(force: &Force, gpu: usize) -> Vec<Usage> {
    force.gpus[gpu].gpu.instances.iter().map(|held| held.usage).collect()
}

fn busy(weight: u64, pinned: bool) -> Usage {
    Usage::Busy { weight, pinned }
}

#[test]
fn pods_sit_in_a_fixed_order_and_weigh_by_priority() {
    let low = running(workload("chat", "router", 3), "a", SMALL, 3);
    let high = running(workload("chat", "answers", 1), "a", HALF, 1).with(|w| w.priority = 100);
    let force = read(vec![cut("a", 2)], &demand(vec![low, high]));
    assert_eq!(usages(&force, 0), [busy(1, false), busy(1, false), busy(2, false)]);
    assert_eq!(usages(&force, 1), [busy(1, false), Usage::Idle, Usage::Idle]);
    assert_eq!(force.gpus[1].gpu.name, "a GPU 1");
    assert!(force.gpus.iter().all(|gpu| gpu.starts_assumed && gpu.seats_assumed), "{force:?}");
    let pods = force.gpus.iter().flat_map(|gpu| &gpu.pods).map(Vec::len).collect::<Vec<_>>();
    assert_eq!(pods, [1, 1, 1, 1, 0, 0]);
    assert!(force.unseated.is_empty() && force.aside.is_empty());
}

#[test]
fn what_must_not_move_is_pinned() {
    let fixed = running(workload("a", "fixed", 1), "a", HALF, 1).with(|w| w.movable = false);
    let pair = running(workload("b", "pair", 1), "a", SMALL, 1).with(|w| w.running[0].devices = 2);
    let mut node = cut("a", 1);
    let force = read(vec![node.clone()], &demand(vec![fixed, pair.clone()]));
    assert_eq!(usages(&force, 0), [busy(1, true); 3]);
    // A pod that is no demand, such as one that terminates.
    node.held_by_others = pair.running;
    node.held_by_others[0].devices = 1;
    let force = read(vec![node], &demand(vec![]));
    assert_eq!(usages(&force, 0), [busy(1, true), Usage::Idle, Usage::Idle]);
}

#[test]
fn known_places_are_taken_first_and_nothing_is_assumed() {
    let mut node = cut("a", 2);
    for (index, gpu) in node.gpus.iter_mut().enumerate() {
        gpu.uuid = Some(format!("GPU-{index}"));
        let Offer::Mig { origin, .. } = &mut gpu.offer else { panic!("not cut") };
        *origin = Origin::Measured;
    }
    let told = running(workload("a", "told", 1), "a", SMALL, 1)
        .with(|w| w.running[0].place = place("GPU-1", Some(1)));
    let force = read(vec![node], &demand(vec![told]));
    assert_eq!(usages(&force, 0), [Usage::Idle; 3]);
    assert_eq!(usages(&force, 1), [Usage::Idle, busy(1, false), Usage::Idle]);
    assert!(force.gpus.iter().all(|gpu| !gpu.starts_assumed && !gpu.seats_assumed), "{force:?}");
}

#[test]
fn more_pods_than_instances_are_named() {
    let four = running(workload("a", "four", 4), "a", HALF, 4);
    let force = read(vec![cut("a", 3)], &demand(vec![four]));
    assert_eq!(force.unseated.len(), 1);
    // Held on another node: not ours to seat.
    let elsewhere = running(workload("a", "one", 1), "b", HALF, 1);
    let force = read(vec![cut("a", 1)], &demand(vec![elsewhere]));
    assert_eq!((usages(&force, 0), force.unseated.len()), (vec![Usage::Idle; 3], 0));
}

#[test]
fn gpus_that_cannot_be_changed_are_left_aside_with_the_reason() {
    let shared = |n: &mut Node| {
        let Offer::Mig { replicas, .. } = &mut n.gpus[0].offer else { panic!("not cut") };
        replicas.insert(profile("1g.10gb"), 2);
    };
    let nodes = vec![
        cut("single", 2).with(|n| n.mig_strategy = MigStrategy::Single),
        cut("none", 1).with(|n| n.mig_strategy = MigStrategy::None),
        cut("cordoned", 1).with(|n| n.schedulable = false),
        cut("broken", 1).with(|n| n.unusable = Some("MIG-INVALID".into())),
        cut("shared", 1).with(shared),
        node("whole", H100, 3, &Offer::Exclusive),
        node("other", A100, 1, &mig_offer(A100, &[])),
        cut("fine", 1).with(|n| n.operator = true),
    ];
    let products = fleet(nodes.clone());
    assert_eq!(cut_products(&products).into_iter().collect::<Vec<_>>(), [A100, H100]);
    let force = read(nodes, &demand(vec![]));
    let names = force.gpus.iter().map(|gpu| (gpu.node.as_str(), gpu.gpu.executor)).collect::<Vec<_>>();
    assert_eq!(names, [("fine", Executor::GpuOperator)]);
    let aside = force.aside.iter().map(|a| (a.node.as_str(), a.gpus, a.reason.as_str())).collect::<Vec<_>>();
    let reasons = [
        ("single", 2, "MIG strategy single"),
        ("none", 1, "MIG strategy none"),
        ("cordoned", 1, "cordoned"),
        ("broken", 1, "MIG-INVALID"),
        ("shared", 1, "replicas"),
        ("whole", 3, "MIG is off"),
    ];
    assert_eq!(aside.len(), reasons.len(), "{aside:?}");
    for (found, (node, gpus, reason)) in aside.iter().zip(reasons) {
        assert!((found.0, found.1) == (node, gpus) && found.2.contains(reason), "{found:?}");
    }
}
