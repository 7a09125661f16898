//! Nodes of the made-up cluster.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Random;

/// One node of each position of the cycle below.
pub(super) struct NodeKind {
    name: &'static str,
    product: &'static str,
    count: u64,
    memory: u64,
    strategy: &'static str,
    replicas: u64,
    /// GPU resources by name behind `nvidia.com/`.
    offers: &'static [(&'static str, u64)],
}

/// Nodes come in this order again and again; those behind the last kind have no GPU.
pub(super) const CYCLE: u64 = 10;

/// The kinds; the last one has no GPU and fills the rest of the cycle.
pub(super) const NODE_KINDS: [NodeKind; 9] = [
    whole("train-a"),
    whole("train-b"),
    whole("train-c"),
    NodeKind {
        name: "mixed",
        product: "NVIDIA-H100-80GB-HBM3",
        count: 8,
        memory: 81_559,
        strategy: "mixed",
        replicas: 1,
        offers: &[("gpu", 0), ("mig-1g.10gb", 16), ("mig-2g.20gb", 8), ("mig-3g.40gb", 8)],
    },
    NodeKind {
        name: "single",
        product: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
        count: 56,
        memory: 4_864,
        strategy: "single",
        replicas: 1,
        offers: &[("gpu", 56)],
    },
    NodeKind {
        name: "half",
        product: "NVIDIA-A100-SXM4-40GB",
        count: 8,
        memory: 40_960,
        strategy: "mixed",
        replicas: 1,
        offers: &[("gpu", 4), ("mig-2g.10gb", 9), ("mig-1g.5gb", 5), ("mig-3g.20gb", 1)],
    },
    NodeKind {
        name: "slices",
        product: "NVIDIA-L4",
        count: 4,
        memory: 23_034,
        strategy: "none",
        replicas: 4,
        offers: &[("gpu", 0), ("gpu.shared", 16)],
    },
    NodeKind {
        name: "small",
        product: "NVIDIA-A30",
        count: 4,
        memory: 24_576,
        strategy: "mixed",
        replicas: 1,
        offers: &[("gpu", 2), ("mig-1g.6gb", 4), ("mig-2g.12gb", 2)],
    },
    NodeKind { name: "plain", product: "", count: 0, memory: 0, strategy: "none", replicas: 1, offers: &[] },
];

const fn whole(name: &'static str) -> NodeKind {
    NodeKind {
        name,
        product: "NVIDIA-H100-80GB-HBM3",
        count: 8,
        memory: 81_559,
        strategy: "mixed",
        replicas: 1,
        offers: &[("gpu", 8)],
    }
}

/// What of a node is still free.
pub(super) struct Stock {
    pub(super) node: String,
    pub(super) free: BTreeMap<&'static str, u64>,
}

impl Stock {
    pub(super) fn of(index: u64, kind: &NodeKind) -> Self {
        let free = kind.offers.iter().copied().filter(|(_, n)| *n > 0).collect();
        Self { node: name(index, kind), free }
    }
}

fn name(index: u64, kind: &NodeKind) -> String {
    format!("{}-{index:05}.cluster.example.com", kind.name)
}

/// The node as the API server prints it.
pub(super) fn object(index: u64, kind: &NodeKind, random: &mut Random) -> Value {
    let name = name(index, kind);
    let mut capacity = json!({
        "cpu": "192", "ephemeral-storage": "7441183616Ki", "hugepages-1Gi": "0", "hugepages-2Mi": "0",
        "memory": "2113481692Ki", "pods": "250"});
    let mut allocatable = json!({
        "cpu": "191450m", "ephemeral-storage": "6857794809152", "hugepages-1Gi": "0", "hugepages-2Mi": "0",
        "memory": "2096397276Ki", "pods": "250"});
    for (resource, amount) in kind.offers {
        capacity[format!("nvidia.com/{resource}")] = json!(amount.to_string());
        allocatable[format!("nvidia.com/{resource}")] = json!(amount.to_string());
    }
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "annotations": {
                "csi.volume.kubernetes.io/nodeid": format!("{{\"csi.example.com\":\"{name}\"}}"),
                "nfd.node.kubernetes.io/feature-labels": features(random),
                "node.alpha.kubernetes.io/ttl": "15",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
            "creationTimestamp": "2026-09-01T07:12:44Z",
            "labels": labels(&name, kind),
            "managedFields": fields(&["f:metadata", "f:status"], 6),
            "name": name,
            "resourceVersion": random.below(1 << 40).to_string(),
            "uid": random.uid(),
        },
        "spec": {
            "podCIDR": format!("10.{}.{}.0/24", index / 256 % 256, index % 256),
            "podCIDRs": [format!("10.{}.{}.0/24", index / 256 % 256, index % 256)],
            "providerID": format!("example://{}", random.uid()),
        },
        "status": {
            "addresses": [
                {"address": format!("172.16.{}.{}", index / 256 % 256, index % 256), "type": "InternalIP"},
                {"address": name, "type": "Hostname"},
            ],
            "allocatable": allocatable,
            "capacity": capacity,
            "conditions": conditions(),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "images": images(random),
            "nodeInfo": {
                "architecture": "amd64", "bootID": random.uid(), "containerRuntimeVersion": "containerd://2.1.4",
                "kernelVersion": "6.8.0-79-generic", "kubeletVersion": "v1.34.1", "machineID": random.uid(),
                "operatingSystem": "linux", "osImage": "Ubuntu 24.04.3 LTS", "systemUUID": random.uid(),
            },
        },
    })
}

fn labels(name: &str, kind: &NodeKind) -> Value {
    let mut labels = json!({
        "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": kind.name, "topology.kubernetes.io/region": "one",
        "topology.kubernetes.io/zone": "one-a",
    });
    for feature in
        ["ADX", "AESNI", "AMXBF16", "AMXINT8", "AMXTILE", "AVX", "AVX2", "AVX512BF16", "AVX512F", "FMA3"]
    {
        labels[format!("feature.node.kubernetes.io/cpu-cpuid.{feature}")] = json!("true");
    }
    if kind.count == 0 {
        return labels;
    }
    let sharing = if kind.replicas > 1 { "time-slicing" } else { "none" };
    for (key, value) in [
        ("gpu.product", kind.product),
        ("gpu.count", &kind.count.to_string()),
        ("gpu.memory", &kind.memory.to_string()),
        ("gpu.replicas", &kind.replicas.to_string()),
        ("gpu.sharing-strategy", sharing),
        ("gpu.present", "true"),
        ("gpu.machine", "HGX"),
        ("gpu.mode", "compute"),
        ("gpu.compute.major", "9"),
        ("gpu.compute.minor", "0"),
        ("gpu.family", "hopper"),
        ("cuda.driver-version.full", "580.95.05"),
        ("cuda.runtime-version.full", "13.0"),
        ("mig.capable", if kind.strategy == "none" { "false" } else { "true" }),
        ("mig.config", "custom"),
        ("mig.config.state", "success"),
    ] {
        labels[format!("nvidia.com/{key}")] = json!(value);
    }
    if kind.strategy != "none" {
        labels["nvidia.com/mig.strategy"] = json!(kind.strategy);
    }
    for part in
        ["container-toolkit", "dcgm", "dcgm-exporter", "device-plugin", "driver", "gpu-feature-discovery"]
    {
        labels[format!("nvidia.com/gpu.deploy.{part}")] = json!("true");
    }
    labels
}

fn features(random: &mut Random) -> String {
    (0..12).map(|_| format!("cpu-cpuid.{}", random.word(8))).collect::<Vec<_>>().join(",")
}

fn conditions() -> Value {
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({"lastHeartbeatTime": "2026-11-30T09:58:11Z", "lastTransitionTime": "2026-09-01T07:13:20Z",
            "message": format!("kubelet says {reason}"), "reason": reason, "status": status, "type": kind})
    };
    json!([
        condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
        condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
        condition("PIDPressure", "False", "KubeletHasSufficientPID"),
        condition("Ready", "True", "KubeletReady"),
    ])
}

fn images(random: &mut Random) -> Value {
    let image = |random: &mut Random| {
        let (path, digest) = (random.word(12), format!("{:064x}", random.next()));
        json!({
            "names": [format!("registry.example.com/{path}@sha256:{digest}"), format!("registry.example.com/{path}:v1")],
            "sizeBytes": random.below(1 << 34),
        })
    };
    (0..40).map(|_| image(random)).collect()
}

/// Managed fields: nested keys that a reader must skip.
pub(super) fn fields(parts: &[&str], keys: usize) -> Value {
    let mut tree = json!({});
    for part in parts {
        for key in 0..keys {
            tree[*part][format!("f:key-{key}")] = json!({".": {}, "f:value": {}});
        }
    }
    json!([{"apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": tree, "manager": "kubelet",
        "operation": "Update", "time": "2026-11-30T09:58:11Z"}])
}
