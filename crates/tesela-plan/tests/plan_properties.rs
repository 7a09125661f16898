//! What must hold of every plan, on random small fleets and demands.

#![allow(clippy::disallowed_methods, reason = "tests read the number of cases from the environment")]
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod builders;
#[path = "strategies/mod.rs"]
mod strategies;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{RngSeed, TestRunner};
use strategies::{Case, case, cases, fresh_case, grown_case};
use tesela_model::demand::TenantClass;
use tesela_model::fleet::{Mode, Offer};
use tesela_model::plan::Plan;
use tesela_plan::carried_out::carried_out;
use tesela_plan::input::PlanInput;
use tesela_plan::plan;
use tesela_plan::validate::validate;

fn bytes(plan: &Plan) -> String {
    serde_json::to_string_pretty(plan).unwrap()
}

/// A case in few lines, for a person to read when a property fails.
fn brief(case: &Case) -> String {
    let mut text = String::new();
    for n in &case.fleet.nodes {
        let offers: Vec<String> = n
            .gpus
            .iter()
            .map(|g| match &g.offer {
                Offer::Mig { instances, replicas, origin } => {
                    let cuts: Vec<String> =
                        instances.iter().map(|i| format!("{}@{}", i.profile, i.start)).collect();
                    format!("mig[{} {replicas:?} {origin}]", cuts.join(" "))
                }
                other => format!("{other:?}"),
            })
            .collect();
        let others: Vec<String> = n
            .held_by_others
            .iter()
            .map(|h| format!("{}x{}x{}", h.pods.len(), h.devices, h.resource))
            .collect();
        text += &format!(
            "node {} {} open={} unusable={:?} cpu={:?} mem={:?} taken={} {:?} renamed={} uuid={} taints={:?} zone={:?} {} others={others:?}\n",
            n.name,
            n.gpus[0].product,
            n.schedulable,
            n.unusable,
            n.cpu,
            n.memory,
            n.cpu_taken,
            n.mig_strategy,
            n.shares_renamed,
            n.gpus[0].uuid.is_some(),
            n.taints.iter().map(|t| &t.key).collect::<Vec<_>>(),
            n.labels.get("zone"),
            offers.join(" | ")
        );
    }
    text += &format!(
        "buy {:?} headroom {}\n",
        case.fleet.buy.iter().map(|b| (&b.product, b.gpus_per_node, b.max_nodes)).collect::<Vec<_>>(),
        case.fleet.headroom_nodes
    );
    for w in &case.demand.workloads {
        let class = case.demand.tenants.iter().find(|t| t.name == w.tenant).map(|t| t.class);
        let running: Vec<String> = w
            .running
            .iter()
            .map(|h| {
                format!(
                    "{}:{}x{}x{}@{:?}",
                    h.node,
                    h.pods.len(),
                    h.devices,
                    h.resource,
                    h.place.as_ref().map(|p| (&p.gpu, p.start))
                )
            })
            .collect();
        text += &format!(
            "{} {class:?} count={} gpus={} same={} cpu={} mem={} need={:?} iso={:?} slo={} duty={:?} mode={:?} products={:?} prio={} movable={} max={:?} inter={:?} req={:?} running={running:?} tol={} sel={:?} aff={:?}\n",
            w.key,
            w.count,
            w.gpus,
            w.same_node,
            w.cpu,
            w.memory,
            w.gpu_memory.map(|m| m.value),
            w.isolation.map(|i| i.value),
            w.slo.is_some(),
            w.duty.map(|d| d.value.as_permille()),
            w.mode,
            w.products,
            w.priority,
            w.movable,
            w.max_per_node,
            w.interactive.map(|i| i.value),
            w.request.as_ref().map(ToString::to_string),
            w.constraints.tolerations.len(),
            w.constraints.node_selector,
            w.constraints.affinity
        );
    }
    text
}

/// Unmet pods from the highest priority down.
fn unmet(case: &Case, plan: &Plan) -> Vec<u64> {
    let mut levels: BTreeMap<Reverse<i32>, u64> =
        case.demand.workloads.iter().map(|w| (Reverse(w.priority), 0)).collect();
    for left in &plan.unmet {
        let w = case
            .demand
            .workloads
            .iter()
            .find(|w| w.key.name == left.workload && w.key.namespace == left.namespace)
            .unwrap();
        *levels.get_mut(&Reverse(w.priority)).unwrap() += left.count;
    }
    levels.into_values().collect()
}

/// A fixed seed, so that a run says the same twice; `PROPTEST_CASES=5000` looks further.
fn config() -> ProptestConfig {
    let cases = ProptestConfig::default().cases.min(40);
    let cases =
        if std::env::var_os("PROPTEST_CASES").is_some() { ProptestConfig::default().cases } else { cases };
    let shrink = std::env::var_os("PROPTEST_MAX_SHRINK_ITERS").is_some();
    ProptestConfig {
        cases,
        max_shrink_iters: if shrink { ProptestConfig::default().max_shrink_iters } else { 2000 },
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(2026),
        ..ProptestConfig::default()
    }
}

/// The case with as many nodes of one offer as there are pods: to buy, and standing there empty.
fn bought_and_there(case: Case, (product, gpus): (usize, u32)) -> (Case, Case) {
    let (mut bought, mut there) = (case.clone(), case);
    let pods: u64 = bought.demand.workloads.iter().map(|w| w.count).sum();
    let most = u32::try_from(pods.max(1)).unwrap();
    let nodes = most as usize;
    let product = strategies::PRODUCTS[product];
    let mut offer = builders::offer(product, gpus, Some(most));
    offer.gpu_memory = offer.gpu_memory.or(Some(builders::gi(40)));
    let node = |i: usize| {
        let mut node = builders::node(&format!("n{i:02}"), product, gpus as usize, &Offer::Exclusive);
        node.labels.clear();
        (node.cpu, node.memory, node.operator) = (None, None, false);
        (node.mig_strategy, node.shares_renamed) = (tesela_model::fleet::MigStrategy::None, true);
        node.gpus.iter_mut().for_each(|g| g.memory = offer.gpu_memory);
        node
    };
    there.fleet.nodes = (0..nodes).map(node).collect();
    there.fleet.buy.clear();
    bought.fleet.nodes.clear();
    bought.fleet.has_nodes = true;
    for case in [&mut bought, &mut there] {
        case.prices = None;
        case.demand
            .workloads
            .iter_mut()
            .for_each(|w| w.constraints = tesela_model::demand::NodeConstraints::default());
    }
    bought.fleet.buy = vec![offer];
    (bought, there)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_plan_is_valid(case in case()) {
        let plan = plan(&case.input());
        let faults = validate(&case.input(), &plan);
        let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
        prop_assert!(faults.is_empty(), "{}\n{}\n{:?}\n{:?}\n{:?}", told.join("\n"), brief(&case), plan.assignments, plan.changes, plan.nodes);
    }

    #[test]
    fn assignments_and_unmet_are_the_demand(case in case()) {
        let plan = plan(&case.input());
        for w in &case.demand.workloads {
            let assigned: u64 = plan.assignments.iter()
                .filter(|a| (&a.workload, &a.namespace) == (&w.key.name, &w.key.namespace))
                .map(|a| a.count).sum();
            let left: u64 = plan.unmet.iter()
                .filter(|u| (&u.workload, &u.namespace) == (&w.key.name, &w.key.namespace))
                .map(|u| u.count).sum();
            prop_assert_eq!(assigned + left, w.count, "{}\n{}\n{:?}", w.key, brief(&case), plan.assignments);
        }
    }

    #[test]
    fn the_same_input_gives_the_same_bytes_in_any_order(case in case(), by in 0..7usize) {
        let once = bytes(&plan(&case.input()));
        prop_assert_eq!(&once, &bytes(&plan(&case.input())));
        prop_assert_eq!(&once, &bytes(&plan(&case.shuffled(by).input())));
    }

    #[test]
    fn more_gpus_never_make_a_plan_worse((before, after) in grown_case()) {
        let (small, large) = (plan(&before.input()), plan(&after.input()));
        prop_assert!(unmet(&after, &large) <= unmet(&before, &small),
            "unmet {:?} became {:?}\n{}\n{:?}\n{:?}", unmet(&before, &small), unmet(&after, &large), brief(&after), small.assignments, large.assignments);
    }

    #[test]
    fn a_node_that_nobody_can_use_changes_nothing((before, after) in grown_case(), unusable in any::<bool>(), first in any::<bool>()) {
        let mut after = after;
        let node = after.fleet.nodes.last_mut().unwrap();
        (node.schedulable, node.unusable) = (unusable, unusable.then(|| "kept for virtual machines".into()));
        if first {
            node.name = "aa-new".into();
        }
        let (small, large) = (plan(&before.input()), plan(&after.input()));
        prop_assert_eq!(small.assignments, large.assignments, "{}", brief(&after));
        prop_assert_eq!(small.unmet.iter().map(|u| (&u.workload, u.count)).collect::<Vec<_>>(),
            large.unmet.iter().map(|u| (&u.workload, u.count)).collect::<Vec<_>>(), "{}", brief(&after));
    }

    #[test]
    fn hardware_to_buy_is_used_as_the_same_hardware_that_is_there(case in fresh_case(), offer in (0..5usize, 1..5u32)) {
        let (bought, there) = bought_and_there(case, offer);
        let (new, old) = (plan(&bought.input()), plan(&there.input()));
        let used = |plan: &Plan| plan.gpus.iter().map(|g| (g.product.clone(), g.used)).filter(|(_, n)| *n > 0).collect::<Vec<_>>();
        prop_assert_eq!(unmet(&bought, &new), unmet(&there, &old), "{}", brief(&there));
        prop_assert_eq!(used(&new), used(&old), "{}\n{:?}\n{:?}", brief(&there), new.assignments, old.assignments);
    }

    #[test]
    fn what_a_person_chose_is_had_or_said_to_be_short(case in case()) {
        let plan = plan(&case.input());
        let regulated = |tenant: &str| case.demand.tenants.iter().any(|t| t.name == tenant && t.class == TenantClass::Regulated);
        let free = |w: &&tesela_model::demand::Workload| w.isolation.is_none() && w.slo.is_none() && !regulated(&w.tenant);
        for w in case.demand.workloads.iter().filter(|w| w.movable && w.gpus == 1).filter(free) {
            let Some(mode) = w.mode else { continue };
            let mine = plan.assignments.iter().filter(|a| (&a.workload, &a.namespace) == (&w.key.name, &w.key.namespace));
            for a in mine.filter(|a| a.staying > 0 && a.mode != mode) {
                prop_assert!(a.reason.contains("no seat of that kind")
                    || a.reason.contains("nothing is planned around it"), "{:?}\n{}", a, brief(&case));
            }
        }
    }

    #[test]
    fn a_carried_out_plan_changes_nothing(case in cases(1..9, 0..9)) {
        // Hardware that is bought is not there to be looked at again. Work that a person chose a mode for keeps
        // looking for a seat of that kind, and may find one in what the first plan set free.
        let mut case = case;
        case.fleet.buy.clear();
        for w in case.demand.workloads.iter_mut().filter(|w| !w.running.is_empty()) {
            (w.mode, w.profile) = (None, None);
        }
        let first = plan(&case.input());
        let (fleet, demand) = carried_out(&case.fleet, &case.demand, &first.nodes, &first.assignments);
        let input = PlanInput { fleet: &fleet, demand: &demand, ..case.input() };
        let second = plan(&input);
        let told = || format!("{}\n{:?}\n{:?}", brief(&case), first.assignments, second.assignments);
        prop_assert_eq!(unmet(&case, &second), unmet(&case, &first), "{}", told());
        prop_assert!(second.changes.is_empty(), "{:?}\n{}", second.changes, told());
        prop_assert_eq!(second.summary.restarts, 0, "{}", told());
        for a in &second.assignments {
            prop_assert_eq!(a.staying, a.count, "{} on {:?}", a.workload, a.node);
        }
    }

    #[test]
    fn a_regulated_tenant_shares_nothing_below_an_instance(case in case()) {
        let plan = plan(&case.input());
        let regulated: BTreeSet<&str> = case.demand.tenants.iter()
            .filter(|t| t.class == TenantClass::Regulated).map(|t| t.name.as_str()).collect();
        for a in plan.assignments.iter().filter(|a| regulated.contains(a.tenant.as_str()) && a.staying < a.count) {
            prop_assert!(a.replicas.is_none() && matches!(a.mode, Mode::Exclusive | Mode::Mig), "{:?}\n{}", a, brief(&case));
        }
    }

    #[test]
    fn work_of_unknown_need_keeps_what_it_holds(case in case()) {
        let plan = plan(&case.input());
        for w in &case.demand.workloads {
            let regulated = case.demand.tenants.iter().any(|t| t.name == w.tenant && t.class == TenantClass::Regulated);
            let says = w.gpu_memory.is_some() || w.mode.is_some() || w.profile.is_some() || w.isolation.is_some() || w.slo.is_some();
            if says || regulated || w.request.is_none() {
                continue;
            }
            for held in &w.running {
                let kept: u64 = plan.assignments.iter()
                    .filter(|a| (&a.workload, &a.namespace) == (&w.key.name, &w.key.namespace))
                    .filter(|a| a.node.as_ref() == Some(&held.node) && a.resource == held.resource)
                    .map(|a| a.staying).sum();
                let held: u64 = w.running.iter().filter(|h| (&h.node, &h.resource) == (&held.node, &held.resource))
                    .map(|h| h.pods.len() as u64).sum();
                prop_assert!(kept >= held.min(w.count), "{} keeps {} of {}\n{}\n{:?}", w.key, kept, held, brief(&case), plan.assignments);
            }
        }
    }
}

/// Larger fleets under more kinds of trouble at once: a second plan may see what the first could only guess, and a
/// search of bounded work may miss a seat. How often is counted over fixed seeds, and may only become less.
#[test]
fn nearly_every_plan_of_a_larger_fleet_settles_at_once() {
    let mut runner = TestRunner::new(config());
    let strategy = cases(1..15, 0..15);
    let (looked_at, mut settled) = (120, 0);
    for _ in 0..looked_at {
        let mut case = strategy.new_tree(&mut runner).unwrap().current();
        case.fleet.buy.clear();
        for w in case.demand.workloads.iter_mut().filter(|w| !w.running.is_empty()) {
            (w.mode, w.profile) = (None, None);
        }
        let first = plan(&case.input());
        let (fleet, demand) = carried_out(&case.fleet, &case.demand, &first.nodes, &first.assignments);
        let second = plan(&PlanInput { fleet: &fleet, demand: &demand, ..case.input() });
        let same = unmet(&case, &second) == unmet(&case, &first);
        settled += u32::from(same && second.changes.is_empty() && second.summary.restarts == 0);
    }
    println!("{settled} of {looked_at} plans change nothing once they are carried out");
    assert!(settled >= 117, "{settled} of {looked_at}");
}
