//! What a plan costs, and what one way of sharing for all would.

mod builders;

use std::collections::BTreeSet;

use builders::*;
use tesela_model::demand::{Isolation, Slo, TenantClass, Workload};
use tesela_model::fleet::{Fleet, MigStrategy, Mode, Offer};
use tesela_model::origin::Origin;
use tesela_model::plan::{Alternative, Headroom, PlannedGpu, PlannedNode, Use};
use tesela_model::price::PriceBook;
use tesela_model::product::ProductTable;
use tesela_model::quantity::Micros;
use tesela_plan::cost::{alternatives, cost};
use tesela_plan::input::{PlanInput, Settings};

fn input<'a>(
    fleet: &'a Fleet,
    demand: &'a tesela_model::demand::Demand,
    prices: Option<&'a PriceBook>,
) -> PlanInput<'a> {
    PlanInput {
        products: ProductTable::builtin(),
        fleet,
        demand,
        findings: &[],
        prices,
        settings: Settings::default(),
    }
}

fn planned(name: Option<&str>, product: &str, gpus: usize, pods: u64) -> PlannedNode {
    let used_by = match pods {
        0 => vec![],
        _ => vec![Use { namespace: "x".into(), kind: "Deployment".into(), workload: "w".into(), pods }],
    };
    let gpu = PlannedGpu {
        uuid: None,
        product: product.into(),
        mode: Mode::Exclusive,
        replicas: None,
        instances: vec![],
        starts: Origin::Given,
        used_by,
        mode_today: Some(Mode::Exclusive),
    };
    PlannedNode {
        name: name.map(Into::into),
        mig_strategy: MigStrategy::None,
        mig_strategy_today: Some(MigStrategy::None),
        operator: true,
        plugin_config_today: None,
        mig_config_today: None,
        gpus: vec![gpu; gpus],
    }
}

fn reserve(node: &str) -> Headroom {
    Headroom {
        pool: "p".into(),
        wanted_nodes: 1,
        nodes: vec![node.into()],
        survives_node_loss: true,
        message: String::new(),
    }
}

#[test]
fn nodes_with_work_or_headroom_cost_whole() {
    let (fleet, demand) = (Fleet::default(), demand(vec![]));
    let book = prices(&[(H100, 300), (T4, 50)]);
    let nodes = [
        planned(Some("a"), H100, 8, 1),
        planned(Some("b"), T4, 2, 0),
        planned(Some("c"), T4, 4, 0),
        planned(None, T4, 1, 1),
    ];
    let with = input(&fleet, &demand, Some(&book));
    let found = cost(&with, &nodes, &[reserve("b")], &BTreeSet::new()).0.unwrap();
    assert_eq!(found.hourly_micros, Micros(8 * 3_000_000 + 2 * 500_000 + 500_000));
    assert_eq!((found.currency.as_str(), found.source.as_str()), ("EUR", "prices.yaml"));

    let (none, reason) = cost(&input(&fleet, &demand, None), &nodes, &[], &BTreeSet::new());
    assert_eq!(none, None);
    assert!(reason.unwrap().contains("--price PRODUCT=AMOUNT/h"));
}

#[test]
fn a_missing_price_is_named_and_no_sum_wraps() {
    let (fleet, demand) = (Fleet::default(), demand(vec![]));
    let nodes = [planned(Some("a"), H100, 1, 1), planned(Some("b"), T4, 1, 1)];
    let book = prices(&[(H100, 300)]);
    let reason = cost(&input(&fleet, &demand, Some(&book)), &nodes, &[], &BTreeSet::new()).1.unwrap();
    assert!(reason.contains(T4) && !reason.contains(H100), "{reason}");
    let mut dear = prices(&[(T4, 1)]);
    dear.gpu_hour.insert(H100.into(), Micros(i64::MAX));
    let reason = cost(&input(&fleet, &demand, Some(&dear)), &nodes, &[], &BTreeSet::new()).1.unwrap();
    assert!(reason.contains("64 bits"), "{reason}");
}

/// The three answers, each as (gpus, nodes, cents an hour) or its reason.
fn answers(fleet: &Fleet, workloads: Vec<Workload>) -> [Result<(u64, u64, i64), String>; 3] {
    let book = prices(&[(H100, 300), (A100, 200), (A30, 100), (T4, 50)]);
    let demand = demand(workloads);
    let found = alternatives(&input(fleet, &demand, Some(&book)));
    let read = |answer: Option<Alternative>, name: &str| match (answer, found.reasons.get(name)) {
        (Some(a), None) => Ok((a.gpus, a.nodes, a.hourly_micros.map_or(-1, |m| m.0 / 10_000))),
        (None, Some(reason)) => Err(reason.clone()),
        other => panic!("{name}: {other:?}"),
    };
    [
        read(found.all_exclusive, "all_exclusive"),
        read(found.all_mig, "all_mig"),
        read(found.all_time_sliced, "all_time_sliced"),
    ]
}

#[test]
fn three_ways_for_small_work() {
    let fleet = fleet(vec![
        node("a", A100, 8, &Offer::Exclusive),
        node("b", A100, 8, &Offer::Exclusive),
        node("c", T4, 4, &Offer::Exclusive),
    ]);
    // 4 GiB and 500 MiB each: 1g.5gb has 4,864 MiB, seven fit an A100; a 40 GiB A100 holds eight by memory, a
    // T4 three.
    let small = workload("x", "w", 14).with(|w| w.gpu_memory = needs(gi(4)));
    let [exclusive, mig, sliced] = answers(&fleet, vec![small]);
    assert_eq!(exclusive, Ok((14, 3, 4 * 50 + 16 * 200)));
    assert_eq!(mig, Ok((2, 1, 8 * 200)));
    // T4 first would take four of them for twelve pods and an A100 node for two more: 1800 cents.
    assert_eq!(sliced, Ok((2, 1, 8 * 200)));
}

#[test]
fn each_refusal_names_the_first_workload_and_why() {
    let fleet = fleet(vec![node("a", A100, 2, &Offer::Exclusive)]);
    let small = |name: &str| workload("x", name, 1).with(|w| w.gpu_memory = needs(gi(4)));
    let refusals = |w: Workload| {
        let [_, mig, sliced] = answers(&fleet, vec![small("fine"), w]);
        (mig.err().unwrap_or_default(), sliced.err().unwrap_or_default())
    };
    let both = |w: Workload, words: [&str; 2]| {
        let (mig, sliced) = refusals(w);
        for (found, word) in [(&mig, words[0]), (&sliced, words[1])] {
            assert!(found.contains(word), "{found:?} lacks {word:?}");
            assert!(word.is_empty() || found.contains("Deployment/x/it"), "{found}");
        }
    };
    both(small("it").with(|w| w.gpus = 2), ["2 GPUs", "2 GPUs"]);
    both(workload("x", "it", 1), ["not known", "not known"]);
    both(small("it").with(|w| w.isolation = isolated(Isolation::Device)), ["whole device", "isolation"]);
    both(small("it").with(|w| w.isolation = isolated(Isolation::Instance)), ["", "isolation"]);
    both(
        small("it").with(|w| {
            w.slo = Some(Slo { percentile: 990, latency_ms: 80 });
        }),
        ["", "80 ms"],
    );
    both(small("it").with(|w| w.gpu_memory = needs(gi(60))), ["more than any profile", "more than any GPU"]);
    both(small("it").with(|w| w.profile = Some(profile("1g.99gb"))), ["1g.99gb", ""]);
}

#[test]
fn a_regulated_tenant_takes_no_turns_and_tenants_stay_apart() {
    let fleet = fleet(vec![node("a", T4, 4, &Offer::Exclusive)]);
    let small = |namespace: &str| workload(namespace, "w", 1).with(|w| w.gpu_memory = needs(gi(2)));
    let book = prices(&[(T4, 50)]);
    let mut demand = demand(vec![small("bank")]);
    demand.tenants = vec![tenant("bank", &["bank"], TenantClass::Regulated)];
    let found = alternatives(&input(&fleet, &demand, Some(&book)));
    assert!(found.reasons["all_time_sliced"].contains("instance"), "{found:?}");
    assert!(found.reasons["all_mig"].contains("no product with MIG"), "{found:?}");
    let apart = |namespace| small(namespace).with(|w| w.isolation = isolated(Isolation::Tenant));
    assert_eq!(answers(&fleet, vec![apart("a"), apart("b"), small("c"), small("d")])[2], Ok((3, 1, 200)));
}

#[test]
fn what_is_there_is_used_before_more_is_bought_and_lack_is_said() {
    let here = fleet(vec![node("a", H100, 2, &Offer::Exclusive)]);
    let work = vec![workload("x", "w", 2).with(|w| w.gpus = 2)];
    let [exclusive, ..] = answers(&here, work.clone());
    assert!(exclusive.clone().unwrap_err().contains("2 GPUs"), "{exclusive:?}");
    let more = here.clone().with(|f| f.buy = vec![offer(H100, 8, Some(1)), offer(T4, 1, None)]);
    assert_eq!(answers(&more, work)[0], Ok((4, 2, 3000)));
    // A node that must not be planned with is no room.
    let closed = here.with(|f| f.nodes[0].unusable = Some("vGPU".into()));
    assert!(answers(&closed, vec![workload("x", "w", 1)])[0].is_err());
    let nothing = answers(&Fleet::default(), vec![]);
    assert_eq!(nothing, [Ok((0, 0, 0)), Ok((0, 0, 0)), Ok((0, 0, 0))]);
}

#[test]
fn time_slices_fill_memory_and_places() {
    let fleet = fleet(vec![node("a", A100, 4, &Offer::Exclusive)]);
    let of = |name: &str, count, mib| {
        workload("x", name, count).with(|w| w.gpu_memory = needs(tesela_model::quantity::Mib(mib)))
    };
    // 40,960 MiB: 20,480 twice on one GPU, then 16 places of 500 MiB and nothing more on the next.
    let [_, _, sliced] = answers(&fleet, vec![of("large", 2, 19_980), of("tiny", 17, 0)]);
    assert_eq!(sliced.unwrap().0, 3);
    // Small work fills what large work leaves.
    let [_, _, sliced] = answers(&fleet, vec![of("large", 2, 29_500), of("small", 2, 9_500)]);
    assert_eq!(sliced.unwrap().0, 2);
}
