//! Pods of the made-up cluster.

use serde_json::{Value, json};

use super::Random;
use super::node::{Stock, fields};

const TEAMS: u64 = 40;

/// What a pod is there for; the shares are in `plan`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Server,
    Training,
    Notebook,
    Job,
    Plain,
    Daemon,
}

/// A pod before it is written.
struct Draft {
    role: Role,
    node: Option<String>,
    gpus: Option<(&'static str, u64)>,
    phase: &'static str,
    state: Value,
    deleted: bool,
}

/// The pod as the API server prints it. Devices it holds are taken from the stock.
pub(super) fn object(index: u64, stocks: &mut [Stock], random: &mut Random) -> Value {
    let draft = plan(stocks, random);
    let team = random.below(TEAMS);
    let (namespace, owner, kind) = match draft.role {
        Role::Server => (format!("team-{team:02}"), format!("serve-{}", random.below(50)), "ReplicaSet"),
        Role::Training => (format!("team-{team:02}"), format!("train-{}", random.below(50)), "StatefulSet"),
        Role::Notebook => (format!("team-{team:02}"), format!("notebook-{index}"), "StatefulSet"),
        Role::Job => (format!("team-{team:02}"), format!("job-{}", index / 4), "Job"),
        Role::Plain => (format!("web-{team:02}"), format!("api-{}", random.below(50)), "ReplicaSet"),
        Role::Daemon => ("kube-system".to_owned(), format!("agent-{}", random.below(4)), "DaemonSet"),
    };
    let hash = (kind == "ReplicaSet").then(|| "7d9f4b8c6d".to_owned());
    let set = hash.as_ref().map_or_else(|| owner.clone(), |hash| format!("{owner}-{hash}"));
    let mut labels =
        json!({"app": owner, "app.kubernetes.io/managed-by": "Helm", "team": format!("team-{team:02}")});
    if let Some(hash) = &hash {
        labels["pod-template-hash"] = json!(hash);
    }
    let mut metadata = json!({
        "annotations": {
            "checksum/config": format!("{:064x}", random.next()),
            "kubectl.kubernetes.io/restartedAt": "2026-11-01T10:00:00Z",
        },
        "creationTimestamp": "2026-11-20T10:00:00Z",
        "generateName": format!("{set}-"),
        "labels": labels,
        "managedFields": fields(&["f:metadata"], 3),
        "name": format!("{set}-{index}"),
        "namespace": namespace,
        "ownerReferences": [{"apiVersion": "apps/v1", "blockOwnerDeletion": true, "controller": true, "kind": kind,
            "name": set, "uid": random.uid()}],
        "resourceVersion": random.below(1 << 40).to_string(),
        "uid": random.uid(),
    });
    if draft.deleted {
        metadata["deletionTimestamp"] = json!("2026-11-30T09:59:00Z");
    }
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": spec(&draft, random),
        "status": status(&draft, random),
    })
}

fn plan(stocks: &mut [Stock], random: &mut Random) -> Draft {
    let (role, wish): (Role, &[(&'static str, u64)]) = match random.below(100) {
        0..10 => (Role::Server, &[("gpu", 1), ("gpu", 2)]),
        10..25 => (
            Role::Server,
            &[
                ("mig-1g.10gb", 1),
                ("mig-2g.20gb", 1),
                ("mig-3g.40gb", 1),
                ("mig-1g.6gb", 1),
                ("mig-2g.10gb", 1),
            ],
        ),
        25..31 => (Role::Training, &[("gpu", 8), ("gpu", 4)]),
        31..34 => (Role::Notebook, &[("gpu", 1)]),
        34..38 => (Role::Server, &[("gpu.shared", 1), ("gpu.shared", 2)]),
        38..44 => (Role::Job, &[("gpu", 1)]),
        44..88 => (Role::Plain, &[]),
        _ => (Role::Daemon, &[]),
    };
    let running = json!({"running": {"startedAt": "2026-11-20T10:00:30Z"}});
    let mut draft = Draft { role, node: None, gpus: None, phase: "Running", state: running, deleted: false };
    if wish.is_empty() {
        draft.node = Some(random.one_of(stocks).node.clone());
        return draft;
    }
    let (resource, devices) = *random.one_of(wish);
    draft.gpus = Some((resource, devices));
    if role == Role::Job && random.below(2) == 0 {
        draft.node = Some(random.one_of(stocks).node.clone());
        draft.phase = "Succeeded";
        draft.state = json!({"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": "2026-11-21T10:00:00Z"}});
        return draft;
    }
    draft.node = take(stocks, random, resource, devices);
    match (draft.node.is_some(), random.below(200)) {
        (false, _) => draft.phase = "Pending",
        (true, 0) => draft.deleted = true,
        (true, 1) => {
            draft.state = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}});
        }
        (true, 2) => {
            draft.phase = "Pending";
            draft.state =
                json!({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}});
        }
        _ => {}
    }
    draft
}

/// The first of a few random nodes that has so many devices free.
fn take(stocks: &mut [Stock], random: &mut Random, resource: &str, devices: u64) -> Option<String> {
    let nodes = u64::try_from(stocks.len()).ok()?;
    for _ in 0..60 {
        let stock = stocks.get_mut(usize::try_from(random.below(nodes)).ok()?)?;
        if let Some(free) = stock.free.get_mut(resource)
            && *free >= devices
        {
            *free -= devices;
            return Some(stock.node.clone());
        }
    }
    None
}

fn spec(draft: &Draft, random: &mut Random) -> Value {
    let mut requests = json!({"cpu": "1500m", "memory": "8Gi"});
    let mut limits = json!({"memory": "8Gi"});
    if let Some((resource, devices)) = draft.gpus {
        for list in [&mut requests, &mut limits] {
            list[format!("nvidia.com/{resource}")] = json!(devices.to_string());
        }
    }
    let image = match draft.role {
        Role::Notebook => "quay.io/jupyter/scipy-notebook:2026-11".to_owned(),
        _ => format!("registry.example.com/{}:v{}", random.word(10), random.below(100)),
    };
    let mut spec = json!({
        "containers": [{
            "command": ["/bin/sh", "-c", "exec /app/run --port 8080"],
            "env": environment(random),
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "name": "main",
            "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
            "readinessProbe": probe("/ready"),
            "resources": {"limits": limits, "requests": requests},
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "volumeMounts": mounts(),
        }],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": true,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": random.below(3) * 1000,
        "restartPolicy": if draft.role == Role::Job { "Never" } else { "Always" },
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "serviceAccount": "default",
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 30,
        "tolerations": [
            {"effect": "NoExecute", "key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300},
            {"effect": "NoExecute", "key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 300},
        ],
        "volumes": volumes(random),
    });
    if let Some(node) = &draft.node {
        spec["nodeName"] = json!(node);
    }
    spec
}

fn environment(random: &mut Random) -> Value {
    (0..4).map(|n| json!({"name": format!("SETTING_{n}"), "value": random.word(24)})).collect()
}

fn probe(path: &str) -> Value {
    json!({"failureThreshold": 3, "httpGet": {"path": path, "port": "http", "scheme": "HTTP"},
        "initialDelaySeconds": 30, "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 5})
}

fn mounts() -> Value {
    ["cache", "models", "kube-api-access"]
        .map(|name| json!({"mountPath": format!("/mnt/{name}"), "name": name, "readOnly": name != "cache"}))
        .into_iter()
        .collect()
}

fn volumes(random: &mut Random) -> Value {
    json!([
        {"emptyDir": {"sizeLimit": "20Gi"}, "name": "cache"},
        {"name": "models", "persistentVolumeClaim": {"claimName": format!("models-{}", random.word(6))}},
        {"name": "kube-api-access", "projected": {"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
            {"downwardAPI": {"items": [{"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}, "path": "namespace"}]}},
        ]}},
    ])
}

fn status(draft: &Draft, random: &mut Random) -> Value {
    let condition = |kind: &str, status: bool| {
        json!({"lastProbeTime": null, "lastTransitionTime": "2026-11-20T10:00:31Z",
            "status": if status { "True" } else { "False" }, "type": kind})
    };
    let ready = draft.phase == "Running";
    let mut conditions =
        vec![condition("Initialized", true), condition("Ready", ready), condition("ContainersReady", ready)];
    let mut scheduled = condition("PodScheduled", draft.node.is_some());
    if draft.node.is_none() {
        scheduled["reason"] = json!("Unschedulable");
        scheduled["message"] = json!("0/5000 nodes are available: 5000 Insufficient nvidia.com/gpu.");
    }
    conditions.push(scheduled);
    let mut status = json!({"conditions": conditions, "phase": draft.phase, "qosClass": "Burstable"});
    if draft.node.is_some() {
        status["containerStatuses"] = json!([{
            "containerID": format!("containerd://{:064x}", random.next()),
            "image": "registry.example.com/app:v1",
            "imageID": format!("registry.example.com/app@sha256:{:064x}", random.next()),
            "lastState": {}, "name": "main", "ready": ready, "restartCount": random.below(5), "started": ready,
            "state": draft.state,
        }]);
        status["hostIP"] = json!("172.16.0.1");
        status["podIP"] = json!(format!("10.0.{}.{}", random.below(256), random.below(256)));
        status["startTime"] = json!("2026-11-20T10:00:00Z");
    }
    status
}
