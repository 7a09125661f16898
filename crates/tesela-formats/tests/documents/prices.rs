//! What owned hardware costs for an hour, and what several documents say of one workload together.

use insta::assert_snapshot;
use tesela_formats::documents::{Document, check_joined, merge_all, unlike_observed};
use tesela_model::demand::Demand;

use super::{of_kind, read};

fn price(entry: &str) -> i64 {
    let text = of_kind("PriceBook", &format!("currency: EUR\nprices:\n  - product: h100-sxm-80gb\n{entry}"));
    let documents = read(&text).unwrap_or_else(|e| panic!("{e}"));
    let [Document::PriceBook(book)] = &documents[..] else { panic!("{documents:?}") };
    book.gpu_hour["h100-sxm-80gb"].0
}

#[test]
fn owned_hardware_costs_its_purchase_and_its_energy() {
    // 35,040 / (4 × 8,760 h) = 1 an hour.
    assert_eq!(price("    owned: {purchase: 35040, years: 4}"), 1_000_000);
    // 0.9 kW × 1.4 × 0.20 = 0.252 more.
    let with_energy = "    owned: {purchase: 35040, years: 4, watts: 900, pue: 1.4, kilowattHour: 0.20}";
    assert_eq!(price(with_energy), 1_252_000);
    // Never rounded to nothing: 0.01 over 30 years.
    assert_eq!(price("    owned: {purchase: 0.01, years: 30}"), 1);
    // The largest figures fit.
    let largest = "    owned: {purchase: 100000000, years: 0.25, watts: 100000, pue: 10, kilowattHour: 1000}";
    assert_eq!(price(largest), 45_662_100_457 + 1_000_000_000_000);
}

#[test]
fn owned_hardware_that_cannot_be() {
    let refused = |entry: &str| {
        let text =
            of_kind("PriceBook", &format!("currency: EUR\nprices:\n  - product: h100-sxm-80gb\n{entry}"));
        read(&text).expect_err(entry).to_string()
    };
    let cases = [
        "    owned: {purchase: 0, years: 4}",
        "    owned: {purchase: 30k, years: 4}",
        "    owned: {purchase: 28000, years: 0}",
        "    owned: {purchase: 28000, years: 4, pue: 0.9}",
        "    owned: {purchase: 28000, years: 4, watts: -700}",
        "    owned: {purchase: 28000, years: 4, kilowatthour: 0.2}",
        "    owned: {purchase: 28000}",
        "    owned: {purchase: 28000, years: 4}\n    gpuHour: 2.5",
        "    # no price at all",
    ];
    assert_snapshot!(cases.map(refused).join("\n\n"));
}

/// Documents joined over an observed demand.
fn joined(observed: &Demand, contents: &[&str]) -> Demand {
    let documents = contents.iter().flat_map(|content| read(&of_kind("Demand", content)).unwrap());
    let documents = documents.map(|document| match document {
        Document::Demand(demand) => demand,
        other => panic!("{other:?}"),
    });
    merge_all(observed.clone(), &documents.collect::<Vec<_>>())
}

#[test]
fn a_mode_and_what_another_document_says_against_it() {
    let mode = "workloads: [{name: a, namespace: n, mode: timeSliced}]";
    let cases = [
        "workloads: [{name: a, namespace: n, gpus: 2}]",
        "workloads: [{name: a, namespace: n, slo: {percentile: p99, latency: 50ms}}]",
        "workloads: [{name: a, namespace: n, isolation: device}]",
        "tenants: [{name: bank, namespaces: [n], class: regulated}]",
    ];
    let refused = cases.map(|case| {
        let error = check_joined(&joined(&Demand::default(), &[mode, case])).expect_err(case);
        format!("{error}\n  fix: {}", error.fix)
    });
    assert_snapshot!(refused.join("\n"));
    assert_eq!(check_joined(&joined(&Demand::default(), &[mode])), Ok(()));
}

#[test]
fn a_deployment_is_the_replica_set_that_was_observed() {
    let observed =
        joined(&Demand::default(), &["workloads: [{name: web, namespace: n, kind: ReplicaSet, count: 3}]"]);
    let both =
        joined(&observed, &["workloads: [{name: web, namespace: n, kind: Deployment, gpuMemory: 4Gi}]"]);
    assert_eq!(both.workloads.len(), 1);
    assert_eq!((both.workloads[0].count, both.workloads[0].key.kind.as_str()), (3, "ReplicaSet"));
    // Another kind of that name is other work.
    let other = joined(&observed, &["workloads: [{name: web, namespace: n, kind: Job, gpuMemory: 4Gi}]"]);
    assert_eq!(other.workloads.len(), 2);
}

#[test]
fn a_misspelt_workload_is_told() {
    let observed = joined(
        &Demand::default(),
        &["workloads: [{name: vllm-guard, namespace: n, kind: ReplicaSet, count: 3}]"],
    );
    let said = |content: &str| {
        let found = unlike_observed(&observed, &joined(&observed, &[content]));
        found.iter().map(|f| format!("{}: {}", f.subject, f.message)).collect::<Vec<_>>().join("\n")
    };
    let found = said("workloads: [{name: vllm-gaurd, namespace: n, gpuMemory: 4Gi}]");
    assert!(found.starts_with("Deployment/n/vllm-gaurd: ") && found.contains("vllm-guard"), "{found}");
    for right in [
        "workloads: [{name: vllm-guard, namespace: n, gpuMemory: 4Gi}]",
        "workloads: [{name: train-large, namespace: n, gpuMemory: 4Gi}]",
        "workloads: [{name: vllm-gaurd, namespace: other, gpuMemory: 4Gi}]",
    ] {
        assert_eq!(said(right), "", "{right}");
    }
}
