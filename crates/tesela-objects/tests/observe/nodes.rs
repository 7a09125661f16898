//! How many GPUs a node has and how they are offered, by labels and capacity.

use std::collections::BTreeMap;

use serde_json::json;
use tesela_model::fleet::{MigStrategy, Node, Offer};

use crate::build::{node, observe, with};

const H100: (&str, &str) = ("gpu.product", "NVIDIA-H100-80GB-HBM3");
const A100: (&str, &str) = ("gpu.product", "NVIDIA-A100-SXM4-40GB");

fn only(items: &[serde_json::Value]) -> Node {
    observe(items).fleet.nodes.into_iter().next().unwrap()
}

/// Offers of a node in words, with their counts: `8 exclusive h100-sxm-80gb`.
fn offers(node: &Node) -> Vec<String> {
    let mut counts = BTreeMap::<String, u32>::new();
    for gpu in &node.gpus {
        let offer = match &gpu.offer {
            Offer::Exclusive => "exclusive".to_owned(),
            Offer::TimeSliced { replicas } => format!("timeSliced/{replicas}"),
            Offer::Mps { replicas } => format!("mps/{replicas}"),
            Offer::Mig { instances, replicas, origin } => {
                let mut shown = instances.iter().map(ToString::to_string).collect::<Vec<_>>();
                shown.extend(replicas.iter().map(|(p, n)| format!("{p}/{n}")));
                format!("mig[{}] {origin}", shown.join(" "))
            }
        };
        *counts.entry(format!("{offer} {}", gpu.product)).or_default() += 1;
    }
    // By name; what an offer begins with decides.
    counts.into_iter().map(|(offer, count)| format!("{count} {offer}")).collect()
}

#[test]
fn whole_and_shared_gpus() {
    let full = node("n", &[H100, ("gpu.count", "8"), ("gpu.replicas", "1")], &[("gpu", 8)]);
    assert_eq!(offers(&only(&[full])), ["8 exclusive h100-sxm-80gb"]);

    let labels = [("gpu.count", "4"), ("gpu.replicas", "4"), ("gpu.sharing-strategy", "time-slicing")];
    let renamed = node("n", &[&[H100][..], &labels].concat(), &[("gpu", 0), ("gpu.shared", 16)]);
    let read = only(&[renamed]);
    assert_eq!(offers(&read), ["4 timeSliced/4 h100-sxm-80gb"]);
    assert!(read.shares_renamed);

    let shared = ("gpu.product", "NVIDIA-H100-80GB-HBM3-SHARED");
    let plain = node("n", &[&[shared][..], &labels].concat(), &[("gpu", 16)]);
    let read = only(&[plain]);
    assert_eq!(offers(&read), ["4 timeSliced/4 h100-sxm-80gb"]);
    assert!(!read.shares_renamed);

    let mps = [shared, ("gpu.count", "2"), ("gpu.replicas", "10"), ("gpu.sharing-strategy", "mps")];
    assert_eq!(offers(&only(&[node("n", &mps, &[("gpu", 20)])])), ["2 mps/10 h100-sxm-80gb"]);
}

#[test]
fn mig_single_counts_devices() {
    let labels = [
        ("gpu.product", "NVIDIA-A100-SXM4-40GB-MIG-3g.20gb"),
        ("gpu.count", "3"),
        ("gpu.replicas", "1"),
        ("mig.strategy", "single"),
    ];
    let read = only(&[node("n", &labels, &[("gpu", 3)])]);
    // Two of 3g.20gb fit one GPU, so three of them need two GPUs.
    assert_eq!(
        offers(&read),
        ["1 mig[3g.20gb@0 3g.20gb@4] estimated a100-40gb", "1 mig[3g.20gb@4] estimated a100-40gb"]
    );
    assert_eq!(read.mig_strategy, MigStrategy::Single);
    assert_eq!(read.unusable, None);

    let shared = ("gpu.product", "NVIDIA-A100-SXM4-40GB-MIG-7g.40gb-SHARED");
    let labels = [shared, ("gpu.count", "2"), ("gpu.replicas", "3"), ("mig.strategy", "single")];
    let read = only(&[node("n", &labels, &[("gpu", 6)])]);
    assert_eq!(offers(&read), ["2 mig[7g.40gb@0 7g.40gb/3] estimated a100-40gb"]);
}

#[test]
fn mig_mixed_spreads_counts_over_gpus() {
    let labels = [H100, ("gpu.count", "4"), ("gpu.replicas", "1"), ("mig.strategy", "mixed")];
    let some = [("gpu", 2), ("mig-1g.10gb", 4), ("mig-2g.20gb", 2), ("mig-3g.40gb", 2)];
    let read = only(&[node("n", &labels, &some)]);
    assert_eq!(
        offers(&read),
        [
            "2 exclusive h100-sxm-80gb",
            "2 mig[1g.10gb@0 1g.10gb@1 2g.20gb@2 3g.40gb@4] estimated h100-sxm-80gb",
        ]
    );

    let empty = only(&[node("n", &labels, &[("gpu", 3)])]);
    assert_eq!(offers(&empty), ["3 exclusive h100-sxm-80gb", "1 mig[] estimated h100-sxm-80gb"]);

    let too_many = only(&[node("n", &labels, &[("gpu", 2), ("mig-3g.40gb", 5)])]);
    assert!(too_many.unusable.unwrap().contains("5x 3g.40gb"));
    assert_eq!(too_many.gpus.len(), 4);

    let replicas = ("mig-1g.10gb.replicas", "2");
    let shared =
        only(&[node("n", &[&labels[..], &[replicas]].concat(), &[("gpu", 3), ("mig-1g.10gb.shared", 14)])]);
    let seven = "1 mig[1g.10gb@0 1g.10gb@1 1g.10gb@2 1g.10gb@3 1g.10gb@4 1g.10gb@5 1g.10gb@6 1g.10gb/2]";
    assert_eq!(offers(&shared), ["3 exclusive h100-sxm-80gb", &format!("{seven} estimated h100-sxm-80gb")]);
}

#[test]
fn uneven_counts_are_found_by_search() {
    // Ten 1g and one 7g on three GPUs: an even share is impossible.
    let labels = [A100, ("gpu.count", "3"), ("gpu.replicas", "0"), ("mig.strategy", "mixed")];
    let read = only(&[node("n", &labels, &[("gpu", 0), ("mig-1g.5gb", 10), ("mig-7g.40gb", 1)])]);
    assert_eq!(read.unusable, None);
    let sizes = read.gpus.iter().map(|g| match &g.offer {
        Offer::Mig { instances, .. } => instances.len(),
        other => panic!("{other:?}"),
    });
    let mut sizes = sizes.collect::<Vec<_>>();
    sizes.sort_unstable();
    assert_eq!((sizes.iter().sum::<usize>(), sizes[0]), (11, 1));
}

#[test]
fn products_that_the_table_lacks_are_plain_gpus() {
    let labels = [
        ("gpu.product", "NVIDIA-L4-SHARED"),
        ("gpu.count", "2"),
        ("gpu.memory", "23034"),
        ("gpu.replicas", "2"),
    ];
    let read = only(&[node("n", &labels, &[("gpu", 4)])]);
    assert_eq!(offers(&read), ["2 timeSliced/2 NVIDIA-L4"]);
    assert_eq!(read.gpus[0].memory.unwrap().0, 23034);
}

#[test]
fn what_cannot_be_counted_is_not_counted() {
    let invalid = [
        ("gpu.product", "NVIDIA-H100-80GB-HBM3-MIG-INVALID"),
        ("gpu.count", "0"),
        ("mig.strategy", "single"),
    ];
    let read = observe(&[node("n", &invalid, &[("gpu", 0)])]);
    assert!(read.fleet.nodes[0].gpus.is_empty() && read.fleet.nodes[0].unusable.is_some());
    assert!(read.findings.iter().any(|f| f.rule == "mig-invalid" && f.subject == "Node/n"));

    let vm = [("gpu.workload.config", "vm-passthrough"), ("gpu.present", "true")];
    let read = only(&[node("n", &vm, &[])]);
    assert!(read.gpus.is_empty() && read.unusable.unwrap().contains("vm-passthrough"));

    let absurd = [H100, ("gpu.count", "4000000000")];
    assert_eq!(only(&[node("n", &absurd, &[("gpu", 4)])]).gpus.len(), 4);
}

#[test]
fn unlabelled_nodes_have_gpus_of_an_unknown_product() {
    let read = observe(&[node("a", &[], &[("gpu", 2)]), node("b", &[], &[("gpu", 0)]), node("c", &[], &[])]);
    assert_eq!(read.fleet.nodes.len(), 1);
    assert_eq!(offers(&read.fleet.nodes[0]), ["2 exclusive unknown"]);
    assert_eq!(read.nodes, 3);
    assert!(read.findings.iter().any(|f| f.rule == "gpu-labels-absent"));
}

#[test]
fn several_products_on_one_node_are_said() {
    let labels = [A100, ("gpu.count", "2"), ("gpu.replicas", "1"), ("gpu.sharing-strategy", "none")];
    let read = observe(&[node("n", &labels, &[("gpu", 3)])]);
    assert_eq!(offers(&read.fleet.nodes[0]), ["2 exclusive a100-40gb", "1 exclusive unknown"]);
    assert!(read.findings.iter().any(|f| f.rule == "labels-count-fewer-gpus"));
}

#[test]
fn closed_nodes_are_not_schedulable() {
    let open = node("n", &[H100, ("gpu.count", "1")], &[("gpu", 1)]);
    assert!(only(std::slice::from_ref(&open)).schedulable);
    assert!(!only(&[with(open.clone(), "/spec/unschedulable", json!(true))]).schedulable);
    assert!(!only(&[with(open.clone(), "/status/conditions/0/status", json!("Unknown"))]).schedulable);
    let taint = json!([{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]);
    let tainted = only(&[with(open.clone(), "/spec/taints", taint)]);
    assert_eq!((tainted.taints[0].key.as_str(), tainted.schedulable), ("nvidia.com/gpu", true));
    assert!(!tainted.operator);
    let labels = [H100, ("gpu.count", "1"), ("gpu.deploy.device-plugin", "true")];
    assert!(only(&[node("n", &labels, &[("gpu", 1)])]).operator);
}
