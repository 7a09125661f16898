//! `tesela plan --requests`: who works when decides who shares a device.

use crate::harness::run;

const EXAMPLE: &str = "../../../../docs/examples/activity";

fn file(name: &str) -> String {
    format!("{EXAMPLE}/{name}")
}

/// Workloads by the node they are on.
fn nodes(more: &[&str]) -> Vec<Vec<String>> {
    let (fleet, demand) = (file("fleet.yaml"), file("demand.yaml"));
    let mut words = vec!["plan", fleet.as_str(), demand.as_str(), "--format", "json"];
    words.extend(more);
    let plan = run(&words).json();
    let mut nodes = std::collections::BTreeMap::<String, Vec<String>>::new();
    for one in plan["assignments"].as_array().unwrap() {
        let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
        nodes.entry(text("node")).or_default().push(text("workload"));
    }
    nodes.into_values().collect()
}

#[test]
fn those_who_work_together_are_kept_apart() {
    let log = file("requests.csv");
    // By mean load alone all four share one GPU. embed and rerank work at the same seconds.
    assert_eq!(nodes(&[]).len(), 1);
    let apart = nodes(&["--requests", &log]);
    assert_eq!(apart.len(), 2, "{apart:?}");
    let together = |node: &Vec<String>| node.contains(&"embed".into()) && node.contains(&"rerank".into());
    assert!(!apart.iter().any(together), "{apart:?}");
    // Where two may work at the same time, all may share again.
    assert_eq!(nodes(&["--requests", &log, "--at-once", "2"]).len(), 1);
}

#[test]
fn what_a_plan_rests_on_is_said() {
    let (fleet, demand, log) = (file("fleet.yaml"), file("demand.yaml"), file("requests.csv"));
    let plan = run(&["plan", &fleet, &demand, "--requests", &log, "--format", "json"]).json();
    let assumptions = plan["assumptions"].as_array().unwrap();
    let one = assumptions.iter().find(|a| a["subject"] == "joint activity").unwrap();
    assert_eq!(one["origin"], "measured");
    let said = one["value"].as_str().unwrap();
    assert!(said.starts_with("of 4 workloads over 2679 windows of 1 s"), "{said}");
}

#[test]
fn what_cannot_be_used_is_refused() {
    let (fleet, demand, log) = (file("fleet.yaml"), file("demand.yaml"), file("requests.csv"));
    let plan = |more: &[&str]| run(&[&["plan", fleet.as_str(), demand.as_str()], more].concat());
    plan(&["--requests", "none.csv"]).refused(&["none.csv", "no such file"]);
    plan(&["--requests", &log, "--requests", &log]).refused(&["named twice"]);
    plan(&["--requests", &fleet]).refused(&["fleet.yaml"]);
    plan(&["--at-once", "2"]).refused(&["--requests", "--usage"]);
    plan(&["--service-time", "1,2,3"]).refused(&["--requests"]);
    plan(&["--requests", &log, "--service-time", "1,2"]).refused(&["--service-time", "three numbers"]);
    plan(&["--requests", &log, "--window", "11"]).refused(&["--window"]);
    let needs = ["plan", "needs.yaml", "fleet.yaml", "--requests", log.as_str()];
    run(&needs).refused(&["no workload of the demand is called so", "search/embed"]);
}
