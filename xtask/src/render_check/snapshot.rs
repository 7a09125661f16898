//! What the steps may change, before and after.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use serde_json::{Value, json};
use tesela_testbed::Api;

use super::seed::{items, name, path_name};

/// Parts of the cluster by what they are.
type Snapshot = BTreeMap<String, Value>;

/// Labels, annotations, taints and devices of nodes; templates of workloads; ConfigMaps; quotas; the ClusterPolicy.
pub(super) fn take(api: &Api) -> Result<Snapshot> {
    let mut all = Snapshot::new();
    for node in items(&api.get("/api/v1/nodes")?) {
        let mut labels = node["metadata"]["labels"].clone();
        if let Some(labels) = labels.as_object_mut() {
            // A report of the MIG Manager, not a wish of ours.
            labels.remove("nvidia.com/mig.config.state");
        }
        let devices = super::gpu_stack::gpus(&node["status"]["allocatable"]).filter(|(_, count)| *count > 0);
        let devices = devices.map(|(name, count)| (name, json!(count))).collect::<serde_json::Map<_, _>>();
        // Whether a node is cordoned is a person's to decide after an undo: its STEP.md says so.
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        let taints = taints.iter().filter(|taint| taint["key"] != "node.kubernetes.io/unschedulable");
        let taints = taints.map(|taint| json!([taint["key"], taint["value"], taint["effect"]]));
        let part = json!({
            "labels": labels, "devices": devices, "taints": taints.collect::<Vec<_>>(),
            "annotations": ours(&node["metadata"]["annotations"]),
        });
        all.insert(format!("node {}", name(node)), part);
    }
    for kind in ["deployments", "statefulsets", "daemonsets"] {
        for item in items(&api.get(&format!("/apis/apps/v1/{kind}"))?) {
            all.insert(format!("{kind} {}", path_name(item)), item["spec"]["template"].clone());
        }
    }
    for map in items(&api.get("/api/v1/configmaps")?).filter(|map| name(map) != "kube-root-ca.crt") {
        all.insert(format!("configmap {}", path_name(map)), json!([map["data"], map["metadata"]["labels"]]));
    }
    for quota in items(&api.get("/api/v1/resourcequotas")?) {
        all.insert(format!("quota {}", path_name(quota)), quota["spec"].clone());
    }
    if let Ok(policies) = api.get("/apis/nvidia.com/v1/clusterpolicies") {
        for policy in items(&policies) {
            let annotations = ours(&policy["metadata"]["annotations"]);
            // An empty name is none.
            let parts = ["migManager", "devicePlugin"].map(|part| {
                let config = policy["spec"][part]["config"].as_object().cloned().unwrap_or_default();
                config.into_iter().filter(|(_, value)| value != "").collect::<serde_json::Map<_, _>>()
            });
            all.insert(format!("policy {}", name(policy)), json!([parts, annotations]));
        }
    }
    Ok(all)
}

/// Annotations of ours that carry state from step to step. What a policy read before stays written down.
fn ours(annotations: &Value) -> Vec<(&String, &Value)> {
    let all = annotations.as_object().into_iter().flatten();
    all.filter(|(key, _)| key.starts_with("tesela.dev/") && !key.ends_with("-config-before")).collect()
}

/// # Errors
/// When something differs; all of it.
pub(super) fn compare(before: &Snapshot, after: &Snapshot) -> Result<()> {
    let mut differences = Vec::new();
    for (what, was) in before {
        match after.get(what) {
            Some(is) if is == was => {}
            Some(is) => differences.push(format!("{what}:\n    was {was}\n    is  {is}")),
            None => differences.push(format!("{what} is gone")),
        }
    }
    differences
        .extend(after.keys().filter(|what| !before.contains_key(*what)).map(|what| format!("{what} is new")));
    if differences.is_empty() {
        return Ok(());
    }
    bail!("after undo the cluster is not as it was:\n  {}", differences.join("\n  "))
}
