//! The plan if an assumption is wrong: planned again, the weightiest first.

mod builders;

use builders::*;
use tesela_model::demand::{Demand, Isolation};
use tesela_model::fleet::{Fleet, Offer};
use tesela_model::plan::{Doubt, Plan};
use tesela_model::product::ProductTable;
use tesela_plan::input::{PlanInput, Settings};

fn plan(fleet: &Fleet, demand: &Demand, cents: &[(&str, i64)], what_if: bool) -> Plan {
    let book = prices(cents);
    let products = ProductTable::builtin();
    let settings = Settings { what_if, ..Settings::default() };
    let prices = Some(&book);
    tesela_plan::plan(&PlanInput { products, fleet, demand, findings: &[], prices, settings })
}

/// Two nodes; one model that just fits a 3g.40gb, one of unknown need.
fn case() -> (Fleet, Demand) {
    let fleet = fleet(vec![node("a", H100, 2, &Offer::Exclusive), node("b", H100, 2, &Offer::Exclusive)]);
    let fits = workload("x", "fits", 4).with(|w| {
        w.gpu_memory = needs(gi(36));
        w.isolation = isolated(Isolation::Instance);
    });
    let unknown = running(workload("x", "unknown", 1), "b", "nvidia.com/gpu", 1);
    (fleet, demand(vec![fits, unknown]))
}

#[test]
fn each_doubt_is_planned_again() {
    let (fleet, demand) = case();
    let plan = plan(&fleet, &demand, &[(H100, 200)], true);
    let of = |doubt: Doubt| plan.sensitivity.iter().filter(move |w| w.subject == doubt);
    // 36 GiB and 20 % more is beyond 3g.40gb, so each of the four pods takes a GPU of its own, and one finds none.
    let memory = of(Doubt::GpuMemory).next().unwrap();
    assert_eq!((plan.summary.plan.pods_waiting, memory.pods_waiting), (0, 1));
    // Prices: both ways, and the plan itself stays.
    let money = of(Doubt::Price).map(|w| w.hourly_micros.unwrap().0).collect::<Vec<_>>();
    let now = plan.cost.as_ref().unwrap().hourly_micros.0;
    assert_eq!(money, [now * 6 / 5, now * 4 / 5]);
    // If the unknown work needed 8 GiB it would be movable, and never more is used.
    assert!(of(Doubt::UnknownNeed).all(|w| w.gpus_held <= plan.summary.plan.gpus_held));
    // What leaves a pod without a place weighs most.
    assert_eq!(plan.sensitivity[0].subject, Doubt::GpuMemory);
    let mut subjects = plan.sensitivity.iter().map(|w| w.subject).collect::<Vec<_>>();
    subjects.dedup();
    assert!(subjects.len() <= 5, "{subjects:?}");
    // The sentence beside the assumption says the same.
    let said = plan.assumptions.iter().find(|a| a.subject == "GPU memory that workloads need").unwrap();
    assert!(said.if_wrong.contains("1 pod waits instead of 0"), "{}", said.if_wrong);
}

#[test]
fn the_plan_itself_is_the_same_with_and_without() {
    let (fleet, demand) = case();
    let with = plan(&fleet, &demand, &[(H100, 200)], true);
    let without = plan(&fleet, &demand, &[(H100, 200)], false);
    assert!(without.sensitivity.is_empty());
    assert_eq!(with.assignments, without.assignments);
    assert_eq!((with.nodes, with.summary), (without.nodes, without.summary));
}
