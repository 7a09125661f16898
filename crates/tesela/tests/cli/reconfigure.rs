//! `tesela plan --target`: whole outputs, what cannot be reached, and what is refused.

use std::path::PathBuf;

use serde_json::json;

use crate::harness::{Run, data, folder, run, run_in};

fn example() -> PathBuf {
    data().join("../../../../examples/recut")
}

fn on_cluster(target: &str, more: &[&str]) -> Run {
    run_in(&example(), &[&["plan", "cluster.json", "--target", target], more].concat())
}

const TWO_WHOLE: &str = "7g.80gb=2,1g.10gb=2,2g.20gb=1,3g.40gb=1";

#[test]
fn a_way_for_people() {
    insta::assert_snapshot!(on_cluster(TWO_WHOLE, &["--width", "100"]));
    insta::assert_snapshot!(run(&["plan", "cut.yaml", "--target", "7g.80gb=1,3g.40gb=1"]));
}

#[test]
fn a_way_for_programs() {
    insta::assert_snapshot!(on_cluster(TWO_WHOLE, &["--format", "json"]));
}

#[test]
fn what_is_there_already_takes_no_step() {
    let way = run(&["plan", "cut.yaml", "--target", "1g.10gb=2,3g.40gb=1", "--format", "json"]).json();
    assert_eq!((&way["steps"], &way["disturbed_weight"], &way["gpus"]), (&json!([]), &json!(0), &json!([])));
}

#[test]
fn what_cannot_be_reached_exits_with_3_and_says_why() {
    let homeless = on_cluster("7g.80gb=3", &[]);
    assert_eq!(homeless.code, Some(3), "{homeless}");
    let said = homeless.stdout.replace('\n', " ");
    assert!(said.contains("1 of 2g.20gb are busy and the target has 0"), "{homeless}");
    let many = run(&["plan", "cut.yaml", "--target", "7g.80gb=3", "--format", "json"]);
    assert_eq!(many.code, Some(3), "{many}");
    let blocked = &many.json()["blocked"][0];
    assert_eq!((&blocked["profile"], &blocked["missing"]), (&json!("7g.80gb"), &json!(1)), "{many}");
    assert!(blocked["reason"].as_str().unwrap().contains("needs at least 3 GPUs"), "{many}");
}

#[test]
fn a_pod_that_nobody_starts_again_keeps_its_instance() {
    // `search/index` has no owner and sits at 2 to 4 of the only GPU of gpu-2.
    let way = on_cluster("7g.80gb=1,4g.40gb=1,3g.40gb=1,1g.10gb=2,2g.20gb=1", &["--format", "json"]).json();
    let moved = way["steps"].as_array().unwrap().iter().filter(|step| step["action"] == "move");
    assert!(
        moved.flat_map(|step| step["pods"].as_array().unwrap()).all(|pod| pod["name"] != "index"),
        "{way}"
    );
    assert_eq!(way["executors"]["native"]["pinned"], 0, "{way}");
}

#[test]
fn targets_without_sense_are_refused() {
    let refused = |target: &str, mentions: &[&str]| {
        run(&["plan", "cut.yaml", "--target", target]).refused(mentions);
    };
    refused("1g.9gb=1", &["1g.9gb", "did you mean 1g.10gb", "h100-sxm-80gb"]);
    refused("1g.10gb=-1", &["--target", "1g.10gb", "`-1`", "negative"]);
    refused("1g.10gb=1,1g.10gb=2", &["--target", "1g.10gb is named twice"]);
    refused("1g.10gb=many", &["`many`", "whole number"]);
    refused("1g.10gb", &["PROFILE=COUNT"]);
    refused("", &["--target is empty"]);
    run(&["plan", "cut.yaml", "--product", "h100-sxm-80gb"]).refused(&["--target"]);
    let product = ["plan", "cut.yaml", "--target", "7g.80gb=1", "--product"];
    run(&[&product[..], &["k80"]].concat()).refused(&["unknown product `k80`"]);
    run(&[&product[..], &["a30-24gb"]].concat()).refused(&["1g.6gb", "7g.80gb"]);
}

#[test]
fn fleets_without_a_gpu_to_change_are_refused() {
    let folder = folder("reconfigure");
    let cut = std::fs::read_to_string(data().join("cut.yaml")).unwrap();
    let refused = |text: &str, mentions: &[&str]| {
        std::fs::write(folder.join("fleet.yaml"), text).unwrap();
        run_in(&folder, &["plan", "fleet.yaml", "--target", "7g.80gb=1"]).refused(mentions);
    };
    refused(&cut.replace("mixed", "single"), &["gpu-1", "MIG strategy single", "h100-sxm-80gb"]);
    refused(
        &cut.replacen("h100-sxm-80gb", "a100-80gb", 1),
        &["MIG is on for 2 products", "--product a100-80gb or --product h100-sxm-80gb"],
    );
    let off = cut.lines().filter(|line| !line.contains("mig:")).collect::<Vec<_>>().join("\n");
    refused(&off, &["no GPU of the inputs has MIG on"]);
}
