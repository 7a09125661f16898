//! Pods that run are disturbed only for a gain, what is true today is never the plan's fault, and limits that others set
//! are kept or said.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod builders;

use builders::*;
use tesela_model::demand::{Isolation, Slo, Workload};
use tesela_model::fleet::{Fleet, Offer};
use tesela_model::plan::Plan;
use tesela_model::product::ProductTable;
use tesela_plan::input::{PlanInput, Settings};
use tesela_plan::validate::validate;

const GPU: &str = "nvidia.com/gpu";
const SHARED: &str = "nvidia.com/gpu.shared";

fn planned(fleet: &Fleet, workloads: Vec<Workload>) -> Plan {
    let demand = demand(workloads);
    let settings = Settings { what_if: false, ..Settings::default() };
    let products = ProductTable::builtin();
    let input = PlanInput { products, fleet, demand: &demand, findings: &[], prices: None, settings };
    let plan = tesela_plan::plan(&input);
    let faults = validate(&input, &plan);
    assert!(faults.is_empty(), "{faults:#?}");
    plan
}

/// One node whose GPUs are shared under a name of their own.
fn shared(gpus: usize) -> Fleet {
    fleet(vec![node("n", A100, gpus, &Offer::TimeSliced { replicas: 4 }).with(|n| n.shares_renamed = true)])
}

fn asks(workload: Workload) -> Workload {
    workload.with(|w| w.request = Some(resource(SHARED)))
}

#[test]
fn pods_that_share_are_guessed_to_sit_where_they_fit() {
    // Two of 25 GiB do not fit one GPU of 40; on two GPUs they do.
    let large = |name: &str| {
        running(asks(workload("a", name, 1)), "n", SHARED, 1).with(|w| w.gpu_memory = needs(gi(25)))
    };
    for gpus in [1, 2] {
        let plan = planned(&shared(gpus), vec![large("x"), large("y"), asks(workload("a", "new", 1))]);
        assert_eq!(plan.assignments.iter().map(|a| a.staying).sum::<u64>(), 2, "{:?}", plan.assignments);
    }
}

#[test]
fn nobody_new_comes_beside_strangers_who_stay() {
    let alone = running(asks(workload("mine", "alone", 6)), "n", SHARED, 1)
        .with(|w| w.isolation = isolated(Isolation::Tenant))
        .with(|w| w.movable = false);
    let stranger = running(asks(workload("theirs", "other", 1)), "n", SHARED, 1);
    let plan = planned(&shared(4), vec![alone, stranger]);
    assert!(plan.assignments.iter().filter(|a| a.workload == "alone").all(|a| a.staying == a.count));
}

#[test]
fn pods_that_would_be_put_where_they_are_stay_there() {
    let t4 = |name: &str| node(name, "Tesla-T4", 4, &Offer::Exclusive);
    let ocr = workload("vision", "ocr", 3)
        .with(|w| w.request = Some(resource(GPU)))
        .with(|w| w.gpu_memory = needs(gi(3)))
        .with(|w| w.slo = Some(Slo { percentile: 990, latency_ms: 200 }));
    let ocr = running(running(ocr, "a", GPU, 1), "b", GPU, 2);
    let plan = planned(&fleet(vec![t4("a"), t4("b")]), vec![ocr]);
    let staying: u64 = plan.assignments.iter().map(|a| a.staying).sum();
    assert!(staying >= 2, "{:?}", plan.assignments);
    assert_eq!(plan.restarting.len() as u64, 3 - staying, "{:?}", plan.restarting);
}

#[test]
fn pods_of_one_template_get_one_resource() {
    let cut = mig_offer(H100, &[("3g.40gb", 0), ("3g.40gb", 4)]);
    let small = workload("a", "rank", 4)
        .with(|w| w.request = Some(mig("3g.40gb")))
        .with(|w| w.gpu_memory = needs(gi(8)));
    let small = running(small, "n", "nvidia.com/mig-3g.40gb", 3);
    let plan = planned(&fleet(vec![node("n", H100, 2, &cut)]), vec![small]);
    let resources: std::collections::BTreeSet<_> = plan.assignments.iter().map(|a| &a.resource).collect();
    assert_eq!((resources.len(), plan.unmet.len()), (1, 0), "{:?}", plan.assignments);
}

#[test]
fn kubelet_takes_only_so_many_pods() {
    let full = node("n", H100, 4, &Offer::Exclusive).with(|n| (n.pods, n.pods_taken) = (Some(10), 8));
    let plan = planned(&fleet(vec![full]), vec![workload("a", "w", 4)]);
    assert_eq!(plan.unmet.iter().map(|u| u.count).sum::<u64>(), 2);
    assert!(plan.unmet[0].reason.contains("as many pods as kubelet takes"), "{:?}", plan.unmet);
}

#[test]
fn a_quota_in_force_that_refuses_the_plan_is_an_error() {
    let mut fleet = fleet(vec![node("n", H100, 4, &Offer::Exclusive)]);
    fleet.quotas_in_force.insert(("a".to_owned(), resource(GPU)), 1);
    let plan = planned(&fleet, vec![workload("a", "w", 3).with(|w| w.request = Some(resource(GPU)))]);
    let found = plan.findings.iter().find(|f| f.rule == "quota-in-force-refuses").unwrap();
    assert!(found.message.contains("a requests 3 of nvidia.com/gpu, 1 allowed"), "{}", found.message);
}

#[test]
fn work_too_large_for_any_gpu_is_told_so() {
    let t4 = node("n", "Tesla-T4", 4, &Offer::Exclusive).with(|n| {
        n.gpus.iter_mut().for_each(|g| g.memory = Some(gi(15)));
    });
    let plan = planned(&fleet(vec![t4]), vec![workload("a", "w", 1).with(|w| w.gpu_memory = needs(gi(20)))]);
    assert!(plan.unmet[0].reason.contains("the largest GPU of its 1 node has 15Gi"), "{:?}", plan.unmet);
}
