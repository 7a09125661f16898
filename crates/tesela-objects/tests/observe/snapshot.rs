//! One cluster with a node of every kind, whole: a person has read this answer and found it right.

use std::fmt::Write as _;

use serde_json::json;
use tesela_objects::observe::Observation;

use crate::build::{node, observe, owned, pending, pod, with};

#[test]
fn six_kinds_of_nodes() {
    let h100 = ("gpu.product", "NVIDIA-H100-80GB-HBM3");
    let operator = ("gpu.deploy.device-plugin", "true");
    let items = [
        node("train-1", &[h100, ("gpu.count", "8"), ("gpu.replicas", "1"), operator], &[("gpu", 8)]),
        node(
            "mixed-1",
            &[h100, ("gpu.count", "4"), ("mig.strategy", "mixed"), ("gpu.replicas", "1"), operator],
            &[("gpu", 1), ("mig-1g.10gb", 6), ("mig-2g.20gb", 3), ("mig-3g.40gb", 3)],
        ),
        node(
            "single-1",
            &[
                ("gpu.product", "NVIDIA-A100-SXM4-40GB-MIG-2g.10gb"),
                ("gpu.count", "6"),
                ("mig.strategy", "single"),
                ("gpu.replicas", "1"),
            ],
            &[("gpu", 6)],
        ),
        node(
            "slices-1",
            &[
                ("gpu.product", "NVIDIA-L4"),
                ("gpu.count", "2"),
                ("gpu.replicas", "4"),
                ("gpu.sharing-strategy", "time-slicing"),
                ("gpu.memory", "23034"),
            ],
            &[("gpu", 0), ("gpu.shared", 8)],
        ),
        node(
            "broken-1",
            &[
                ("gpu.product", "NVIDIA-A100-SXM4-40GB-MIG-INVALID"),
                ("gpu.count", "0"),
                ("mig.strategy", "single"),
            ],
            &[("gpu", 0)],
        ),
        node("plain-1", &[], &[]),
        owned(pod("ml", "train-0", "train-1", &[("gpu", 4)]), "StatefulSet", "train"),
        owned(pod("ml", "train-1", "train-1", &[("gpu", 4)]), "StatefulSet", "train"),
        owned(
            with(
                pod("chat", "bot-6f4-a", "mixed-1", &[("mig-3g.40gb", 1)]),
                "/metadata/labels/pod-template-hash",
                json!("6f4"),
            ),
            "ReplicaSet",
            "bot-6f4",
        ),
        with(
            pod("dev", "nb", "mixed-1", &[("gpu", 1)]),
            "/spec/containers/0/image",
            json!("quay.io/jupyter/scipy-notebook:2026-11"),
        ),
        pod("dev", "try", "slices-1", &[("gpu.shared", 2)]),
        with(
            pod("dev", "old", "single-1", &[("gpu", 1)]),
            "/metadata/deletionTimestamp",
            json!("2026-11-30T09:00:00Z"),
        ),
        pending(
            owned(pod("chat", "big-0", "", &[("gpu", 16)]), "StatefulSet", "big"),
            "0/6 nodes are available: 6 Insufficient nvidia.com/gpu.",
        ),
        pod("gpu-operator", "nvidia-cuda-validator-1", "single-1", &[("gpu", 1)]),
        pod("kube-system", "proxy", "train-1", &[]),
    ];
    insta::assert_snapshot!(shown(&observe(&items)));
}

/// The answer as lines.
fn shown(read: &Observation) -> String {
    let mut out = String::new();
    for node in &read.fleet.nodes {
        let taken = format!("cpu {:?} taken {}", node.cpu, node.cpu_taken);
        let _ = writeln!(
            out,
            "{} {:?} operator={} renamed={} {taken}",
            node.name, node.mig_strategy, node.operator, node.shares_renamed
        );
        for gpu in &node.gpus {
            let _ = writeln!(out, "  {} {:?} {:?}", gpu.product, gpu.memory, gpu.offer);
        }
        for held in &node.held_by_others {
            let _ = writeln!(
                out,
                "  others hold {} x {} in {} pods",
                held.devices,
                held.resource,
                held.pods.len()
            );
        }
        if let Some(reason) = &node.unusable {
            let _ = writeln!(out, "  unusable: {reason}");
        }
    }
    let _ = writeln!(out, "namespaces {:?}", read.fleet.namespaces);
    for w in &read.demand.workloads {
        let request = w.request.as_ref().map(ToString::to_string).unwrap_or_default();
        let held = w
            .running
            .iter()
            .map(|h| format!("{}x{} on {}", h.pods.len(), h.devices, h.node))
            .collect::<Vec<_>>();
        let _ = writeln!(
            out,
            "{} of {}: {} pods x {} {request}, movable={}, held {held:?}",
            w.key, w.tenant, w.count, w.gpus, w.movable
        );
    }
    for f in &read.findings {
        let _ = writeln!(out, "{:?} {} {}\n  {}\n  > {}", f.severity, f.rule, f.subject, f.message, f.fix);
    }
    out
}
