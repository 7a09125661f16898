//! The random cases that other tests are built on are what they claim to be.

mod builders;
#[path = "strategies/mod.rs"]
mod strategies;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use strategies::{Case, case, units};
use tesela_model::fleet::Mode;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_runs_holds_what_its_node_offers(case in case()) {
        let mut held: BTreeMap<_, u64> = BTreeMap::new();
        let of_demand = case.demand.workloads.iter().flat_map(|w| &w.running);
        let of_others = case.fleet.nodes.iter().flat_map(|n| &n.held_by_others);
        for h in of_demand.chain(of_others) {
            *held.entry((&h.node, &h.resource)).or_insert(0) += h.pods.len() as u64 * u64::from(h.devices);
        }
        for ((name, resource), count) in held {
            let node = case.fleet.nodes.iter().find(|n| n.name == *name).unwrap();
            let offered: u64 = node.gpus.iter().filter_map(|g| units(node, g).get(resource).copied()).sum();
            // What is not offered at all any more is held on purpose.
            prop_assert!(count <= offered || offered == 0, "{} of {} {} held on {}", count, offered, resource, name);
        }
        for w in &case.demand.workloads {
            let runs: u64 = w.running.iter().map(|h| h.pods.len() as u64).sum();
            prop_assert!(runs <= w.count);
        }
    }

    #[test]
    fn another_order_is_the_same_case(case in case(), by in 0..7usize) {
        let turned = case.shuffled(by);
        let names = |c: &Case| c.fleet.nodes.iter().map(|n| n.name.clone()).collect::<BTreeSet<_>>();
        prop_assert_eq!(names(&case), names(&turned));
        let pods = |c: &Case| c.demand.workloads.iter().map(|w| w.count).sum::<u64>();
        prop_assert_eq!(pods(&case), pods(&turned));
    }
}

/// A strategy that never makes the hard cases proves nothing, so each kind must come up in a fixed sample.
#[test]
fn hard_cases_come_up() {
    let mut runner = TestRunner::deterministic();
    runner = TestRunner::new_with_rng(Config::default(), runner.rng().clone());
    let mut seen = BTreeSet::new();
    for _ in 0..300 {
        let case = case().new_tree(&mut runner).unwrap().current();
        let mut see = |what: &'static str, is: bool| {
            if is {
                seen.insert(what);
            }
        };
        see("buy", !case.fleet.buy.is_empty());
        see("cordoned", case.fleet.nodes.iter().any(|n| !n.schedulable));
        see("unusable", case.fleet.nodes.iter().any(|n| n.unusable.is_some()));
        see("others", case.fleet.nodes.iter().any(|n| !n.held_by_others.is_empty()));
        see("prices", case.prices.is_some());
        see("several offers", case.fleet.buy.len() > 1);
        see("many nodes", case.fleet.nodes.len() > 12);
        let kinds = |n: &tesela_model::fleet::Node| {
            n.gpus.iter().map(|g| g.product.clone()).collect::<BTreeSet<_>>().len()
        };
        see("two products", case.fleet.nodes.iter().any(|n| kinds(n) > 1));
        let memories: BTreeSet<_> = case
            .fleet
            .nodes
            .iter()
            .flat_map(|n| &n.gpus)
            .filter(|g| g.product == builders::ODD)
            .map(|g| g.memory)
            .collect();
        see("one name, two kinds", memories.len() > 1);
        see("native", case.fleet.nodes.iter().any(|n| !n.operator));
        see("unwell", case.fleet.nodes.iter().any(|n| !n.allocatable.is_empty()));
        for mode in [Mode::Exclusive, Mode::Mig, Mode::TimeSliced, Mode::Mps] {
            let name = ["exclusive", "mig", "timeSliced", "mps"][mode as usize];
            see(name, case.fleet.nodes.iter().any(|n| n.gpus.iter().any(|g| g.offer.mode() == mode)));
        }
        for w in &case.demand.workloads {
            see("running", !w.running.is_empty());
            see("placed", w.running.iter().any(|h| h.place.is_some()));
            let node = |h: &tesela_model::demand::Holding| {
                case.fleet.nodes.iter().find(|n| n.name == h.node).unwrap()
            };
            let uuid = |h: &tesela_model::demand::Holding| node(h).gpus.iter().any(|g| g.uuid.is_some());
            see("unknown place", w.running.iter().any(|h| h.place.is_none() && uuid(h)));
            let offers = |h: &tesela_model::demand::Holding| {
                node(h).gpus.iter().any(|g| units(node(h), g).contains_key(&h.resource))
            };
            see("not offered any more", w.running.iter().any(|h| !offers(h)));
            let by_hand = |mode| w.mode == Some(mode);
            see("shares by hand", by_hand(Mode::TimeSliced) && w.count > 0);
            see("MPS by hand", by_hand(Mode::Mps) && w.count > 0);
            see("by hand and running", w.mode.is_some() && w.movable && !w.running.is_empty());
            see("profile by hand and running", w.profile.is_some() && w.movable && !w.running.is_empty());
            see("pinned and isolated", !w.movable && w.isolation.is_some() && !w.running.is_empty());
            see("waiting", w.running.is_empty() && w.count > 0);
            see("unknown", w.gpu_memory.is_none());
            see("unknown and running", w.gpu_memory.is_none() && !w.running.is_empty());
            see("several gpus", w.gpus > 1 && w.count > 0);
            see("same node", w.same_node && w.count > 1);
            see("spread", w.max_per_node.is_some() && w.count > 1);
            see("pinned", !w.movable && !w.running.is_empty());
            see("isolated", w.isolation.is_some());
            see("regulated", w.tenant == "bank" && strategies_regulated(&case));
        }
    }
    assert_eq!(seen.len(), 33, "only {seen:?} came up");
}

fn strategies_regulated(case: &Case) -> bool {
    case.demand.tenants.iter().any(|t| t.class == tesela_model::demand::TenantClass::Regulated)
}
