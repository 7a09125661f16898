//! `tesela plan`: whole outputs, the demand written and fed back, prices, exit codes.

use serde_json::Value;

use crate::harness::{data, folder, run, run_in, run_with};

#[test]
fn what_a_cluster_alone_tells() {
    let cluster = std::fs::read(data().join("cluster.json")).unwrap();
    insta::assert_snapshot!(run_with(&["plan", "-"], &cluster));
    insta::assert_snapshot!(run(&["plan", "cluster.json", "--width", "80", "--ascii"]));
}

#[test]
fn what_a_cluster_and_its_needs_tell() {
    insta::assert_snapshot!(run(&["plan", "cluster.json", "needs.yaml", "prices.yaml", "--width", "120"]));
}

#[test]
fn documents_alone_and_a_fleet_that_is_too_small() {
    let told = run(&["plan", "fleet.yaml", "too-much.yaml"]);
    assert_eq!(told.code, Some(3));
    insta::assert_snapshot!(told);
    let plan = run(&["plan", "too-much.yaml", "fleet.yaml", "--format", "json"]).json();
    assert_eq!(plan["status"], "partial");
}

#[test]
fn a_demand_without_a_fleet() {
    insta::assert_snapshot!(run(&["plan", "too-much.yaml"]));
}

#[test]
fn all_keys_are_always_there() {
    let keys = [
        "status",
        "gpus",
        "pools",
        "assignments",
        "unmet",
        "findings",
        "quotas",
        "today",
        "changes",
        "assumptions",
        "cost",
        "cost_reason",
    ];
    for words in [
        &["plan", "cluster.json"][..],
        &["plan", "fleet.yaml"],
        &["plan", "too-much.yaml", "--price", "a30-24gb=1/h"],
    ] {
        let plan = run(&[words, &["--format", "json"]].concat()).json();
        for key in keys {
            assert!(plan.get(key).is_some(), "{key} of {words:?}");
        }
        if plan["cost"].is_null() {
            assert!(plan["cost_reason"].is_string());
        }
    }
}

#[test]
fn the_order_of_inputs_does_not_matter_and_neither_does_the_second_run() {
    let json = |words: &[&str]| run(&[&["plan", "--format", "json"], words].concat()).stdout;
    let first = json(&["cluster.json", "needs.yaml", "prices.yaml"]);
    assert_eq!(first, json(&["prices.yaml", "needs.yaml", "cluster.json"]));
    assert_eq!(first, json(&["cluster.json", "needs.yaml", "prices.yaml"]));
}

#[test]
fn the_demand_as_observed_changes_nothing() {
    let folder = folder("plan_write_demand");
    std::fs::copy(data().join("cluster.json"), folder.join("cluster.json")).unwrap();
    let plain = run_in(&folder, &["plan", "cluster.json", "--format", "json"]);
    let written =
        run_in(&folder, &["plan", "cluster.json", "--format", "json", "--write-demand", "demand.yaml"]);
    assert_eq!(plain.stdout, written.stdout);
    assert!(written.stderr.contains("demand.yaml: written"), "{written}");
    let fed = run_in(&folder, &["plan", "cluster.json", "demand.yaml", "--format", "json"]);
    assert_eq!(plain.stdout, fed.stdout);
}

#[test]
fn an_edited_demand_is_not_lost() {
    let folder = folder("plan_keep_demand");
    std::fs::copy(data().join("cluster.json"), folder.join("cluster.json")).unwrap();
    let demand = folder.join("demand.yaml");
    std::fs::write(&demand, "edited by hand\n").unwrap();
    let words = ["plan", "cluster.json", "--write-demand", "demand.yaml"];
    run_in(&folder, &words).refused(&["demand.yaml", "not touched", "--force"]);
    assert_eq!(std::fs::read_to_string(&demand).unwrap(), "edited by hand\n");
    let forced = run_in(&folder, &[&words[..], &["--force"]].concat());
    assert_eq!(forced.code, Some(0), "{forced}");
    assert!(std::fs::read_to_string(&demand).unwrap().contains("kind: Demand"));
}

#[test]
fn prices_come_from_flags_books_or_both() {
    let cost = |words: &[&str]| -> Value {
        run(&[&["plan", "cluster.json", "--format", "json"], words].concat()).json()["cost"].clone()
    };
    let flags =
        ["--price", "h100-sxm-80gb=2.50/h", "--price", "a30-24gb=0.60/h", "--price", "NVIDIA L4=0.80/h"];
    let by_flags = cost(&flags);
    let by_book = cost(&["--prices", "prices.yaml"]);
    assert_eq!(by_flags["hourly_micros"], by_book["hourly_micros"]);
    assert_eq!(by_book["as_of"], "2026-11-30");
    assert_eq!(by_flags["currency"], "EUR");
    assert_eq!(cost(&[&flags[..], &["--currency", "USD"]].concat())["currency"], "USD");
    let dearer = cost(&["prices.yaml", "--price", "h100-sxm-80gb=5/h"]);
    assert!(
        dearer["hourly_micros"].as_i64() > by_book["hourly_micros"].as_i64(),
        "a flag replaces the book's price"
    );
    assert!(cost(&["--price", "h100-sxm-80gb=2.50/h"]).is_null(), "no number is made up for the others");
}

#[test]
fn wrong_prices_are_refused() {
    let refused = |words: &[&str], mentions: &[&str]| {
        run(&[&["plan", "cluster.json"], words].concat()).refused(mentions);
    };
    refused(&["--price", "h100-sxm-80gb"], &["--price", "h100-sxm-80gb=2.50/h"]);
    refused(&["--price", "h100-sxm-80gb=2.50"], &["/h"]);
    refused(&["--price", "h100-sxm-80gb=-2/h"], &["-2"]);
    refused(&["--price", "h100-sxm-80g=2/h"], &["h100-sxm-80g", "h100-sxm-80gb"]);
    refused(&["--price", "h100-sxm-80gb=2/h", "--currency", "euro"], &["euro", "EUR"]);
    refused(&["--prices", "prices.yaml", "--currency", "USD"], &["USD", "EUR"]);
    refused(&["--prices", "needs.yaml"], &["needs.yaml", "Demand", "PriceBook"]);
}

#[test]
fn a_label_can_name_the_tenant() {
    let plan = run(&["plan", "cluster.json", "--tenant-label", "app", "--format", "json"]).json();
    let assignments = plan["assignments"].as_array().unwrap();
    let tenant = |name: &str| assignments.iter().find(|a| a["workload"] == name).unwrap()["tenant"].clone();
    assert_eq!(tenant("router"), "router");
    assert_eq!(tenant("pretrain"), "research");
}

#[test]
fn rows_left_out_are_counted() {
    let few = run(&["plan", "cluster.json", "--rows", "2", "--findings", "1"]).stdout;
    assert!(few.contains("more: --rows all") && few.contains("more: --findings all"), "{few}");
    let all = run(&["plan", "cluster.json", "--rows", "all", "--findings", "all"]).stdout;
    assert!(!all.contains("more: --"), "{all}");
}

/// A Demand that says one thing.
fn demand(spec: &str) -> String {
    format!("apiVersion: tesela.dev/v1alpha1\nkind: Demand\nspec: {spec}\n")
}

#[test]
fn of_two_demands_the_later_wins() {
    let folder = folder("plan_two_demands");
    std::fs::copy(data().join("cluster.json"), folder.join("cluster.json")).unwrap();
    let memory = |size: &str| {
        demand(&format!("{{workloads: [{{name: router, namespace: chat, gpuMemory: {size}}}]}}"))
    };
    std::fs::write(folder.join("small.yaml"), memory("3Gi")).unwrap();
    std::fs::write(folder.join("large.yaml"), memory("30Gi")).unwrap();
    let reason = |files: &[&str]| {
        let plan = run_in(&folder, &[&["plan", "--format", "json"], files].concat()).json();
        let found =
            plan["assignments"].as_array().unwrap().iter().find(|a| a["workload"] == "router").cloned();
        found.unwrap()["reason"].as_str().unwrap().to_owned()
    };
    let large = reason(&["small.yaml", "cluster.json", "large.yaml"]);
    assert!(large.contains("needs 30Gi"), "{large}");
    let small = reason(&["large.yaml", "small.yaml", "cluster.json"]);
    assert!(small.contains("needs 3Gi"), "{small}");
}

#[test]
fn a_namespace_is_of_one_tenant() {
    let folder = folder("plan_two_tenants");
    std::fs::copy(data().join("cluster.json"), folder.join("cluster.json")).unwrap();
    let tenant = |name: &str| demand(&format!("{{tenants: [{{name: {name}, namespaces: [chat]}}]}}"));
    for name in ["support", "sales"] {
        std::fs::write(folder.join(format!("{name}.yaml")), tenant(name)).unwrap();
    }
    let plan = |files: &[&str]| run_in(&folder, &[&["plan", "cluster.json"], files].concat());
    plan(&["support.yaml", "sales.yaml"]).refused(&[
        "sales.yaml",
        "support.yaml",
        "namespace chat",
        "one tenant",
    ]);
    // What was observed is no claim, and a document before it would be undone silently.
    assert_eq!(plan(&["--write-demand", "observed.yaml"]).code, Some(0));
    assert_eq!(plan(&["observed.yaml", "sales.yaml"]).code, Some(0));
    plan(&["sales.yaml", "observed.yaml"]).refused(&["name it before sales.yaml"]);
}

#[test]
fn the_way_to_say_needs_works_as_printed() {
    let folder = folder("plan_way_to_say");
    std::fs::copy(data().join("cluster.json"), folder.join("cluster.json")).unwrap();
    std::fs::write(folder.join("observed.yaml"), demand("{workloads: []}")).unwrap();
    let inputs = ["cluster.json", "observed.yaml", "--tenant-label", "app"];
    let told = run_in(&folder, &[&["plan"][..], &inputs].concat()).stdout;
    let commands = told.lines().filter_map(|line| line.strip_prefix("  tesela ")).collect::<Vec<_>>();
    assert_eq!(commands.len(), 2, "{told}");
    for command in commands {
        assert!(command.contains("observed-2.yaml") && command.contains("--tenant-label app"), "{command}");
        let run = run_in(&folder, &command.split(' ').collect::<Vec<_>>());
        assert_eq!(run.code, Some(0), "{run}");
    }
}

#[test]
fn an_input_is_not_written_over() {
    let folder = folder("plan_write_over");
    std::fs::copy(data().join("cluster.json"), folder.join("cluster.json")).unwrap();
    std::fs::write(folder.join("mine.yaml"), demand("{workloads: []}")).unwrap();
    let words = ["plan", "cluster.json", "mine.yaml", "--write-demand", "mine.yaml", "--force"];
    run_in(&folder, &words).refused(&["mine.yaml", "among the inputs"]);
    assert_eq!(std::fs::read_to_string(folder.join("mine.yaml")).unwrap(), demand("{workloads: []}"));
}

#[test]
fn needs_that_documents_tell_are_not_called_unknown() {
    let unknown = |words: &[&str]| {
        let plan = run(&[&["plan", "cluster.json", "--format", "json"], words].concat()).json();
        plan["findings"].as_array().unwrap().iter().any(|f| f["rule"] == "need-unknown")
    };
    assert!(unknown(&[]));
    assert!(!unknown(&["needs.yaml"]));
}
