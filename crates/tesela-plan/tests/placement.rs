//! What is not known or not well is not built on, and what is to be bought counts like what is there.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod builders;

use builders::*;
use tesela_model::demand::{Demand, Isolation, Workload};
use tesela_model::fleet::{Fleet, Mode, Node, Offer};
use tesela_model::origin::Known;
use tesela_model::plan::{ChangeKind, Plan};
use tesela_model::product::ProductTable;
use tesela_plan::input::{PlanInput, Settings};
use tesela_plan::validate::validate;

const GPU: &str = "nvidia.com/gpu";

fn planned(fleet: &Fleet, workloads: Vec<Workload>) -> Plan {
    let demand: Demand = demand(workloads);
    let settings = Settings { what_if: false, ..Settings::default() };
    let products = ProductTable::builtin();
    let input = PlanInput { products, fleet, demand: &demand, findings: &[], prices: None, settings };
    let plan = tesela_plan::plan(&input);
    let faults = validate(&input, &plan);
    assert!(faults.is_empty(), "{faults:#?}");
    plan
}

fn waiting(plan: &Plan) -> u64 {
    plan.unmet.iter().map(|u| u.count).sum()
}

fn used(plan: &Plan) -> u64 {
    plan.gpus.iter().map(|g| g.used).sum()
}

fn light(count: u64) -> Workload {
    workload("lab", "notebook", count)
        .with(|w| w.gpu_memory = needs(gi(4)))
        .with(|w| w.isolation = isolated(Isolation::None))
        .with(|w| w.duty = tesela_model::demand::Duty::permille(50).map(Known::given))
}

#[test]
fn hardware_to_buy_is_shared_too() {
    // 23,034 MiB hold five of 4 GiB and 500 MiB.
    let mut l4 = offer("NVIDIA L4", 4, None);
    l4.gpu_memory = Some(tesela_model::quantity::Mib(23_034));
    let plan = planned(&Fleet { buy: vec![l4], ..fleet(Vec::new()) }, vec![light(160)]);
    assert_eq!((used(&plan), waiting(&plan)), (32, 0));
}

#[test]
fn shares_chosen_by_hand_are_had_of_assumed_hardware() {
    for mode in [Mode::TimeSliced, Mode::Mps] {
        let plan = planned(&Fleet::default(), vec![light(8).with(|w| w.mode = Some(mode))]);
        assert_eq!(waiting(&plan), 0, "{:?}", plan.unmet);
        assert!(plan.assignments.iter().all(|a| a.mode == mode));
    }
    // Two shares may be of one GPU: nobody gets more by asking for two.
    let two = light(2).with(|w| (w.gpus, w.mode) = (2, Some(Mode::TimeSliced)));
    assert_eq!(waiting(&planned(&Fleet::default(), vec![two])), 2);
}

#[test]
fn pods_that_hold_what_is_gone_use_cpu_and_keep_their_node() {
    let cut = node("a", H100, 8, &mig_offer(H100, &[("1g.10gb", 0), ("1g.10gb", 1)]));
    let cut = cut.with(|n| n.cpu = Some(tesela_model::quantity::MilliCpu(100_000)));
    let old = running(workload("lab", "old", 1), "a", GPU, 1)
        .with(|w| w.cpu = tesela_model::quantity::MilliCpu(90_000));
    let new = workload("lab", "new", 4)
        .with(|w| w.request = Some(mig("1g.10gb")))
        .with(|w| w.cpu = tesela_model::quantity::MilliCpu(10_000));
    let plan = planned(&fleet(vec![cut.clone()]), vec![old.clone(), new]);
    assert_eq!(waiting(&plan), 3);
    let free = Fleet { headroom_nodes: 1, ..fleet(vec![cut.clone(), cut.with(|n| n.name = "b".into())]) };
    let plan =
        planned(&free, vec![old, running(workload("lab", "here", 1), "b", "nvidia.com/mig-1g.10gb", 1)]);
    assert!(plan.summary.nodes_free.is_empty() && plan.headroom.iter().all(|h| h.nodes.is_empty()));
    assert_eq!(plan.summary.plan.nodes, 2);
}

#[test]
fn nothing_is_cut_on_a_node_whose_pods_hold_what_is_gone() {
    let old = running(workload("lab", "old", 1), "a", "nvidia.com/mig-1g.10gb", 1);
    let small = workload("lab", "small", 6).with(|w| w.gpu_memory = needs(gi(6)));
    let plan = planned(&fleet(vec![node("a", H100, 2, &Offer::Exclusive)]), vec![old, small]);
    assert!(plan.changes.is_empty(), "{:?}", plan.changes);
    assert_eq!(waiting(&plan), 4);
}

#[test]
fn devices_that_do_not_work_get_no_pods() {
    let ill = |offer: &Offer, name: &str, out: u64| {
        fleet(vec![node("a", H100, 8, offer).with(|n| {
            n.allocatable.insert(resource(name), out);
        })])
    };
    let whole = workload("lab", "w", 8).with(|w| w.request = Some(resource(GPU)));
    let plan = planned(&ill(&Offer::Exclusive, GPU, 7), vec![whole.clone()]);
    assert_eq!((used(&plan), waiting(&plan)), (7, 1));
    // Also when some are held already, and when the node could be cut or shared.
    let some = running(workload("lab", "w", 8), "a", GPU, 5);
    assert_eq!(waiting(&planned(&ill(&Offer::Exclusive, GPU, 6), vec![some])), 2);
    let small = workload("lab", "small", 60).with(|w| w.gpu_memory = needs(gi(6)));
    let plan = planned(&ill(&Offer::Exclusive, GPU, 7), vec![small]);
    assert!(plan.changes.is_empty() && waiting(&plan) == 53, "{:?}", plan.changes);
    let shared = ill(&Offer::TimeSliced { replicas: 4 }, GPU, 28);
    assert_eq!(waiting(&planned(&shared, vec![whole.with(|w| w.count = 32)])), 4);
    let seven = [0, 1, 2, 3, 4, 5, 6].map(|start| ("1g.10gb", start));
    let cut = ill(&mig_offer(H100, &seven), "nvidia.com/mig-1g.10gb", 54);
    let asks = workload("lab", "asks", 56).with(|w| w.request = Some(mig("1g.10gb")));
    assert_eq!(waiting(&planned(&cut, vec![asks])), 2);
}

fn operated(operator: bool, named: bool) -> Node {
    node("a", H100, 4, &Offer::Exclusive).with(|n| n.operator = operator).with(|n| {
        let name = |(i, gpu): (usize, &mut tesela_model::fleet::Gpu)| gpu.uuid = Some(format!("GPU-{i}"));
        n.gpus.iter_mut().enumerate().filter(|_| named).for_each(name);
    })
}

#[test]
fn no_idle_gpu_is_guessed_for_a_manager_that_needs_its_index() {
    let train = running(workload("ml", "train", 3), "a", GPU, 3).with(|w| w.movable = false);
    let small = workload("lab", "small", 6)
        .with(|w| w.gpu_memory = needs(gi(6)))
        .with(|w| w.isolation = isolated(Isolation::Instance));
    for named in [false, true] {
        let plan = planned(&fleet(vec![operated(true, named)]), vec![train.clone(), small.clone()]);
        assert!(plan.changes.is_empty(), "{:?}", plan.changes);
        // The agent finds the idle one when it starts; the plan does not say which.
        let plan = planned(&fleet(vec![operated(false, named)]), vec![train.clone(), small.clone()]);
        assert_eq!((plan.changes.len(), waiting(&plan)), (1, 0));
        assert_eq!((&plan.changes[0].gpu, plan.changes[0].change), (&None, ChangeKind::MigMode));
        assert!(plan.assignments.iter().all(|a| a.gpu.is_none()));
    }
    // Where it is known who sits where, the idle one may be cut.
    let mut placed = train;
    placed.running = (0..3).map(|i| holding(&placed, "a", GPU, 1).at(i)).collect();
    let plan = planned(&fleet(vec![operated(true, true)]), vec![placed, small]);
    assert_eq!(plan.changes.first().and_then(|c| c.gpu.as_deref()), Some("GPU-3"));
}

trait At {
    fn at(self, gpu: usize) -> Self;
}

impl At for tesela_model::demand::Holding {
    fn at(mut self, gpu: usize) -> Self {
        self.pods[0].name = format!("train-{gpu}");
        self.place = place(&format!("GPU-{gpu}"), None);
        self
    }
}

#[test]
fn who_leaves_a_gpu_that_may_be_the_one_cut_is_named() {
    let moves = running(workload("lab", "small", 3), "a", GPU, 3)
        .with(|w| w.gpu_memory = needs(gi(6)))
        .with(|w| w.isolation = isolated(Isolation::Instance));
    let plan = planned(&fleet(vec![operated(true, false)]), vec![moves]);
    let named: usize = plan.changes.iter().map(|c| c.disturbed_pods.len()).sum();
    assert_eq!((plan.changes.len(), named, used(&plan)), (1, 3, 1));
}

#[test]
fn one_name_with_two_memories_is_two_kinds() {
    let odd = |name: &str, memory| {
        node(name, ODD, 2, &Offer::Exclusive).with(|n| {
            n.gpus.iter_mut().for_each(|g| g.memory = Some(gi(memory)));
        })
    };
    let big = workload("lab", "big", 4)
        .with(|w| w.gpu_memory = needs(gi(20)))
        .with(|w| w.isolation = isolated(Isolation::Device));
    for nodes in [vec![odd("a", 40), odd("b", 10)], vec![odd("a", 10), odd("b", 40)]] {
        assert_eq!(waiting(&planned(&fleet(nodes), vec![big.clone()])), 2);
    }
}

#[test]
fn a_gpu_held_under_another_name_is_no_share() {
    let renamed = node("a", H100, 1, &Offer::TimeSliced { replicas: 4 }).with(|n| n.shares_renamed = true);
    let old = running(workload("lab", "old", 1), "a", GPU, 1);
    let plan = planned(&fleet(vec![renamed]), vec![old]);
    assert_eq!(plan.assignments[0].resource, resource(GPU));
    assert!(plan.assignments[0].reason.contains("does not offer"), "{:?}", plan.assignments);
}

#[test]
fn work_that_fits_nowhere_makes_nothing_worse() {
    let nodes = || (0..3).map(|i| node(&format!("n{i}"), A100, 2, &Offer::Exclusive)).collect::<Vec<_>>();
    let small = |i: usize| {
        let w = running(workload("lab", &format!("w{i}"), 2), &format!("n{i}"), GPU, 2);
        w.with(|w| w.gpu_memory = needs(gi(3)))
    };
    let work: Vec<Workload> = (0..3).map(small).collect();
    let giant = workload("lab", "giant", 3).with(|w| w.gpus = 8);
    let without = planned(&fleet(nodes()), work.clone());
    let with = planned(&fleet(nodes()), work.into_iter().chain([giant]).collect());
    assert_eq!((used(&with), waiting(&with)), (used(&without), 3));
}

#[test]
fn what_was_chosen_by_hand_moves_when_there_is_a_seat() {
    let chosen =
        running(workload("lab", "llm", 4), "a", GPU, 4).with(|w| w.profile = Some(profile("3g.40gb")));
    let cut = mig_offer(H100, &[("3g.40gb", 0), ("3g.40gb", 4)]);
    let two = vec![node("a", H100, 4, &Offer::Exclusive), node("b", H100, 2, &cut)];
    let plan = planned(&fleet(two), vec![chosen.clone()]);
    let profiles: Vec<_> = plan.assignments.iter().map(|a| a.profile.clone()).collect();
    assert_eq!(profiles, [Some(profile("3g.40gb"))]);
    assert_eq!((plan.assignments[0].count, plan.summary.restarts), (4, 4));
    // Without a seat of that kind it stays, and the plan says why.
    let plan = planned(&fleet(vec![node("a", T4, 4, &Offer::Exclusive)]), vec![chosen]);
    assert_eq!((plan.assignments[0].staying, waiting(&plan)), (4, 0));
    assert!(plan.assignments[0].reason.contains("no seat of that kind"), "{}", plan.assignments[0].reason);
}

/// The promise that is broken today is a finding; a fence around another tenant's pod would break more.
#[test]
fn no_fence_is_put_around_pods_of_another_tenant() {
    let fleet = fleet(vec![node("s1", T4, 1, &Offer::TimeSliced { replicas: 4 })]);
    let other = running(workload("b", "w0", 1), "s1", GPU, 1);
    let alone = running(workload("c", "w3", 1), "s1", GPU, 1)
        .with(|w| w.isolation = isolated(Isolation::Tenant))
        .with(|w| w.movable = false);
    let plan = planned(&fleet, vec![other, alone.clone()]);
    assert!(plan.pools.iter().all(|p| p.tenant.is_none()), "{:?}", plan.pools);
    assert!(plan.restarting.is_empty(), "{:?}", plan.restarting);
}

/// A request says what a pod asks for; where its need is known, a smaller instance will not do.
#[test]
fn an_instance_that_is_asked_for_holds_what_is_needed() {
    let cut = mig_offer(H100, &[("1g.10gb", 0), ("1g.10gb", 1), ("1g.10gb", 2), ("1g.10gb", 3)]);
    let fleet = fleet(vec![node("m1", H100, 1, &cut)]);
    let asks = |memory| {
        workload("c", "w", 1)
            .with(|w| (w.gpus, w.request) = (2, Some(mig("1g.10gb"))))
            .with(|w| w.gpu_memory = needs(gi(memory)))
    };
    assert_eq!(waiting(&planned(&fleet, vec![asks(4)])), 0);
    assert_eq!(waiting(&planned(&fleet, vec![asks(70)])), 1);
}

/// What the device plugin refuses: MPS and MIG on one node; whole GPUs beside shared ones under one name.
#[test]
fn a_node_is_offered_in_ways_that_go_together() {
    let mps = fleet(vec![node("n", A100, 4, &Offer::Mps { replicas: 4 })]);
    let client = running(workload("b", "client", 1), "n", GPU, 1).with(|w| w.movable = false);
    let new = workload("c", "new", 1).with(|w| w.gpu_memory = needs(gi(18)));
    let plan = planned(&mps, vec![client, new]);
    let modes: std::collections::BTreeSet<Mode> =
        plan.nodes.iter().flat_map(|n| &n.gpus).map(|g| g.mode).collect();
    assert!(!(modes.contains(&Mode::Mps) && modes.contains(&Mode::Mig)), "{modes:?}");
    let buy = Fleet { buy: vec![offer(H100, 2, None)], ..fleet(Vec::new()) };
    let plan = planned(&buy, vec![light(2)]);
    let ways: std::collections::BTreeSet<_> =
        plan.nodes.iter().flat_map(|n| &n.gpus).map(|g| (g.mode, g.replicas)).collect();
    assert_eq!(ways.len(), 1, "{ways:?}");
}

/// A node that was deleted between two lists takes nobody's plan with it.
#[test]
fn pods_of_a_node_that_is_gone_keep_what_they_hold() {
    let fleet = fleet(vec![node("n", H100, 2, &Offer::Exclusive)]);
    for name in ["nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared", GPU] {
        let plan = planned(&fleet, vec![running(workload("b", "a", 1), "gone", name, 1)]);
        assert_eq!((waiting(&plan), plan.assignments.len()), (0, 1), "{name}");
    }
}

/// Who comes to a shared GPU may meet anybody on it.
#[test]
fn a_large_sharer_keeps_newcomers_away() {
    let fleet = fleet(vec![node("s", A30, 1, &Offer::TimeSliced { replicas: 4 })]);
    let large = running(workload("b", "large", 1), "s", GPU, 1)
        .with(|w| w.gpu_memory = needs(gi(18)))
        .with(|w| w.movable = false);
    let plan = planned(&fleet, vec![large, light(3)]);
    assert_eq!(waiting(&plan), 3, "{:?}", plan.assignments);
}
