//! What does not fit, on the cheapest cloud instances.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod builders;

use builders::*;
use tesela_model::cloud::CloudList;
use tesela_model::demand::{Duty, Isolation, Workload};
use tesela_model::fleet::{Fleet, Offer};
use tesela_model::origin::Known;
use tesela_model::plan::Burst;
use tesela_model::product::ProductTable;
use tesela_model::quantity::Micros;
use tesela_plan::burst::suggest;
use tesela_plan::input::{PlanInput, Settings};

/// The suggestion for work that finds no room on a node that is full.
fn for_work(workloads: Vec<Workload>, list: &str) -> Vec<Burst> {
    let busy = running(workload("full", "busy", 1), "a", "nvidia.com/gpu", 1);
    let fleet: Fleet = fleet(vec![node("a", T4, 1, &Offer::Exclusive)]);
    let demand = demand(workloads.into_iter().chain([busy]).collect());
    let settings = Settings { what_if: false, ..Settings::default() };
    let products = ProductTable::builtin();
    let input = PlanInput { products, fleet: &fleet, demand: &demand, findings: &[], prices: None, settings };
    let plan = tesela_plan::plan(&input);
    suggest(&input, &plan, CloudList::find(list).unwrap())
}

fn told(burst: &[Burst]) -> Vec<(&str, u64, i64)> {
    burst.iter().map(|b| (b.instance_type.as_str(), b.nodes, b.hourly_micros.0)).collect()
}

#[test]
fn one_large_model_goes_to_the_cheapest_gpu_that_holds_it() {
    // 60 GiB: an A100 of 80 GB for 3.673, not 8 of them on AWS for 27.447 nor an H100 for 6.98.
    let large = workload("x", "llm", 1).with(|w| {
        w.gpu_memory = needs(gi(60));
        w.isolation = isolated(Isolation::Device);
    });
    assert_eq!(
        told(&for_work(vec![large.clone()], "azure/eastus")),
        [("Standard_NC24ads_A100_v4", 1, 3_673_000)]
    );
    // On AWS an RTX PRO 6000 of 96 GB is the least.
    assert_eq!(told(&for_work(vec![large], "aws")), [("g7e.2xlarge", 1, 3_363_120)]);
}

#[test]
fn selectors_of_the_cluster_do_not_keep_work_from_the_cloud() {
    let picky = workload("x", "job", 2).with(|w| {
        w.gpu_memory = needs(gi(10));
        w.isolation = isolated(Isolation::Device);
        w.constraints.node_selector.insert("rack".into(), "7".into());
    });
    let burst = for_work(vec![picky], "aws");
    assert_eq!(told(&burst), [("g4dn.xlarge", 2, 2 * 526_000)]);
    assert_eq!((burst[0].workloads[0].count, burst[0].as_of.as_str()), (2, "2026-07-20"));
}

#[test]
fn works_of_different_size_go_to_different_instances_where_that_is_cheaper() {
    let alone = |name: &str, memory| {
        workload("x", name, 1).with(|w| {
            w.gpu_memory = needs(gi(memory));
            w.isolation = isolated(Isolation::Device);
        })
    };
    let burst = for_work(vec![alone("small", 10), alone("large", 60)], "azure/eastus");
    assert_eq!(
        told(&burst),
        [("Standard_NC24ads_A100_v4", 1, 3_673_000), ("Standard_NC4as_T4_v3", 1, 526_000)]
    );
}

#[test]
fn light_work_shares_a_gpu_there_too() {
    let light = workload("x", "notebooks", 8).with(|w| {
        w.gpu_memory = needs(gi(1));
        w.isolation = isolated(Isolation::None);
        w.duty = Some(Known::given(Duty::permille(50).unwrap()));
    });
    let burst = for_work(vec![light], "aws");
    assert_eq!(told(&burst), [("g4dn.xlarge", 1, 526_000)]);
}

#[test]
fn nothing_is_suggested_where_nothing_fits_or_nothing_is_unmet() {
    let huge = workload("x", "huge", 1).with(|w| {
        w.gpu_memory = needs(gi(900));
        w.isolation = isolated(Isolation::Device);
    });
    assert_eq!(for_work(vec![huge], "aws"), []);
    assert_eq!(for_work(vec![], "aws"), []);
    let largest = CloudList::builtin().iter().flat_map(|l| l.instances).map(|i| i.hourly).max();
    assert_eq!(largest, Some(Micros(142_416_000)));
}

/// Nobody says what it needs, so it gets no less than the least GPU it could get at home: a T4 of 15 GiB.
#[test]
fn work_of_unknown_need_goes_to_no_smaller_gpu() {
    let unknown = workload("x", "unknown", 1).with(|w| w.request = Some(resource("nvidia.com/gpu")));
    assert_eq!(told(&for_work(vec![unknown.clone()], "aws")), [("g4dn.xlarge", 1, 526_000)]);
    let busy = running(workload("full", "busy", 1), "a", "nvidia.com/gpu", 1);
    let fleet = fleet(vec![node("a", H100, 1, &Offer::Exclusive)]);
    let demand = demand(vec![unknown, busy]);
    let settings = Settings { what_if: false, ..Settings::default() };
    let products = ProductTable::builtin();
    let input = PlanInput { products, fleet: &fleet, demand: &demand, findings: &[], prices: None, settings };
    let burst = suggest(&input, &tesela_plan::plan(&input), CloudList::find("azure/eastus").unwrap());
    assert_eq!(told(&burst), [("Standard_NC24ads_A100_v4", 1, 3_673_000)]);
}
