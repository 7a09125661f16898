//! Each rule fires on what it is about, and not beside it.

use serde_json::{Value, json};
use tesela_model::finding::{Finding, Severity};

use crate::build::{node, observe, owned, pending, pod, with};

const H100: (&str, &str) = ("gpu.product", "NVIDIA-H100-80GB-HBM3");

fn h100s(name: &str, count: u64) -> Value {
    node(name, &[H100, ("gpu.count", &count.to_string()), ("gpu.replicas", "1")], &[("gpu", count)])
}

fn shared(name: &str, resource: &str) -> Value {
    let labels = [H100, ("gpu.count", "2"), ("gpu.replicas", "4"), ("gpu.sharing-strategy", "time-slicing")];
    node(name, &labels, &[(resource, 8)])
}

fn mixed(name: &str, count: u64, gpus: &[(&str, u64)]) -> Value {
    node(name, &[H100, ("gpu.count", &count.to_string()), ("mig.strategy", "mixed")], gpus)
}

/// The finding of a rule; fails when there is none or more than one.
fn one(items: &[Value], rule: &str) -> Finding {
    let all = observe(items).findings;
    let found = all.iter().filter(|f| f.rule == rule).collect::<Vec<_>>();
    assert_eq!(found.len(), 1, "{rule} in {all:#?}");
    found[0].clone()
}

fn none(items: &[Value], rule: &str) {
    let all = observe(items).findings;
    assert!(all.iter().all(|f| f.rule != rule), "{rule} in {all:#?}");
}

/// A finding's parts in one line, to compare with what it must hold.
fn holds(finding: &Finding, severity: Severity, subject: &str, parts: &[&str]) {
    assert_eq!((finding.severity, finding.subject.as_str()), (severity, subject), "{finding:?}");
    for part in parts {
        assert!(finding.message.contains(part), "`{part}` not in: {}", finding.message);
    }
    assert!(!finding.fix.is_empty());
}

#[test]
fn more_than_one_share() {
    for resource in ["gpu.shared", "gpu"] {
        let items = [shared("n", resource), owned(pod("ns", "p", "n", &[(resource, 2)]), "StatefulSet", "s")];
        let found = one(&items, "shared-replicas-above-one");
        holds(&found, Severity::Warning, "StatefulSet/ns/s", &["asks for 2 nvidia.com/gpu"]);
        none(&[shared("n", resource), pod("ns", "p", "n", &[(resource, 1)])], "shared-replicas-above-one");
    }
    none(&[h100s("n", 8), pod("ns", "p", "n", &[("gpu", 2)])], "shared-replicas-above-one");
}

#[test]
fn two_products_under_one_name() {
    let a100 = node("b", &[("gpu.product", "NVIDIA-A100-SXM4-40GB"), ("gpu.count", "4")], &[("gpu", 4)]);
    let asks = pod("ns", "p", "a", &[("gpu", 1)]);
    let items = [h100s("a", 8), a100.clone(), asks.clone()];
    let found = one(&items, "resource-name-two-products");
    holds(&found, Severity::Warning, "Resource/nvidia.com/gpu", &["h100-sxm-80gb", "a100-40gb", "Pod/ns/p"]);
    let pinned =
        with(asks.clone(), "/spec/nodeSelector", json!({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}));
    none(&[h100s("a", 8), a100.clone(), pinned], "resource-name-two-products");
    let taint = json!([{"key": "a100", "effect": "NoSchedule"}]);
    none(&[h100s("a", 8), with(a100, "/spec/taints", taint), asks.clone()], "resource-name-two-products");
    none(&[h100s("a", 8), h100s("b", 8), asks.clone()], "resource-name-two-products");
    let found = one(&[h100s("a", 8), shared("b", "gpu"), asks], "resource-name-two-sizes");
    holds(&found, Severity::Warning, "Resource/nvidia.com/gpu", &["whole GPU", "a share (1 of 4)"]);
}

#[test]
fn gpus_held_in_vain() {
    let with_status = |status: Value| {
        let base = owned(pod("ns", "p", "n", &[("gpu", 2)]), "Job", "j");
        let base = with(base, "/spec/restartPolicy", json!("Never"));
        [h100s("n", 8), with(base, "/status", status)]
    };
    let waiting = |phase: &str, key: &str, reason: &str| {
        with_status(
            json!({"phase": phase, key: [{"name": "main", "restartCount": 7, "state": {"waiting": {"reason": reason}}}]}),
        )
    };
    for (phase, key, reason, rule, said) in [
        (
            "Pending",
            "containerStatuses",
            "ImagePullBackOff",
            "gpu-held-by-pod-that-cannot-start",
            "ImagePullBackOff",
        ),
        (
            "Pending",
            "containerStatuses",
            "CreateContainerConfigError",
            "gpu-held-by-pod-that-cannot-start",
            "CreateContainerConfigError",
        ),
        (
            "Pending",
            "initContainerStatuses",
            "ErrImagePull",
            "gpu-held-by-pod-that-cannot-start",
            "Init:ErrImagePull",
        ),
        ("Running", "containerStatuses", "CrashLoopBackOff", "gpu-held-by-crashing-pod", "7 restarts"),
    ] {
        let found = one(&waiting(phase, key, reason), rule);
        holds(&found, Severity::Warning, "Job/ns/j", &[said, "holds 2 nvidia.com/gpu on n: p"]);
    }
    let starting = waiting("Pending", "containerStatuses", "ContainerCreating");
    none(&starting, "gpu-held-by-pod-that-cannot-start");

    let ended = with_status(json!({"phase": "Running", "containerStatuses": [
        {"name": "main", "state": {"terminated": {"reason": "Completed", "finishedAt": "2026-11-29T10:00:00Z"}}},
        {"name": "proxy", "state": {"running": {}}},
    ]}));
    let found = one(&ended, "gpu-held-by-ended-pod");
    holds(&found, Severity::Warning, "Job/ns/j", &["still running: proxy", "ended 2026-11-29T10:00:00Z"]);
    let again = ended.map(|object| {
        if object["kind"] == "Pod" { with(object, "/spec/restartPolicy", json!("Always")) } else { object }
    });
    none(&again, "gpu-held-by-ended-pod");

    let going = with(
        pod("ns", "p", "n", &[("gpu", 1)]),
        "/metadata/deletionTimestamp",
        json!("2026-11-29T10:00:00Z"),
    );
    let found = one(&[h100s("n", 8), going], "gpu-held-by-terminating-pod");
    holds(&found, Severity::Warning, "Pod/ns/p", &["is being deleted (since 2026-11-29T10:00:00Z)"]);
}

#[test]
fn notebooks_on_whole_gpus() {
    let image = json!("quay.io/jupyter/scipy-notebook");
    let notebook = |node: &str, resource: &str| {
        with(pod("ns", "nb", node, &[(resource, 1)]), "/spec/containers/0/image", image.clone())
    };
    let found = one(&[h100s("n", 8), notebook("n", "gpu")], "notebook-holds-whole-gpu");
    holds(&found, Severity::Warning, "Pod/ns/nb", &["1 whole GPU", "quay.io/jupyter/scipy-notebook"]);
    none(&[shared("n", "gpu"), notebook("n", "gpu")], "notebook-holds-whole-gpu");
    none(&[h100s("n", 8), pending(notebook("n", "gpu"), "no")], "notebook-holds-whole-gpu");
}

#[test]
fn mig_gpus_without_instances() {
    let found = one(&[mixed("n", 4, &[("gpu", 1)])], "mig-gpu-without-instances");
    holds(&found, Severity::Warning, "Node/n", &["3 of 3 MIG GPUs"]);
    let found = one(&[mixed("n", 4, &[("gpu", 1), ("mig-7g.80gb", 1)])], "mig-gpu-without-instances");
    holds(&found, Severity::Warning, "Node/n", &["at least 2 of 3 MIG GPUs"]);
    none(&[mixed("n", 2, &[("mig-1g.10gb", 4)])], "mig-gpu-without-instances");
}

#[test]
fn slices_in_no_instance() {
    let two = |more: &[(&str, u64)]| mixed("n", 1, &[&[("mig-3g.40gb", 1)], more].concat());
    // One 3g.40gb leaves four slices: another one fits, so this is room and not lost.
    let found = one(&[two(&[])], "mig-room-not-cut");
    holds(&found, Severity::Warning, "Node/n", &["1 MIG GPU of h100-sxm-80gb", "3g.40gb"]);
    none(&[two(&[])], "mig-stranded-slices");
    // 4g + 2g leave one slice and two units, and no profile in use is small enough.
    let cut = [("mig-4g.40gb", 1), ("mig-2g.20gb", 1)];
    let found = one(&[mixed("n", 1, &cut)], "mig-stranded-slices");
    holds(&found, Severity::Warning, "Node/n", &["1 compute slice and 2 memory units of 1 MIG GPU"]);
    // A pod that asks for 1g makes the rest of use.
    let asks = pod("ns", "p", "n", &[("mig-1g.10gb", 1)]);
    none(&[mixed("n", 1, &cut), asks], "mig-stranded-slices");
    // Seven 1g leave one memory unit, as every such layout must.
    let found = one(&[mixed("n", 1, &[("mig-1g.10gb", 7)])], "mig-stranded-slices");
    holds(&found, Severity::Info, "Node/n", &["1 memory unit of 1 MIG GPU of h100-sxm-80gb"]);
    none(&[mixed("n", 1, &[("mig-7g.80gb", 1)])], "mig-stranded-slices");
}

#[test]
fn fractions_that_no_pod_can_get() {
    let hog = with(pod("ns", "hog", "n", &[]), "/spec/containers/0/resources/requests/cpu", json!("62"));
    let asks = pod("ns", "p", "n", &[("mig-1g.10gb", 1)]);
    let items = [
        mixed("n", 1, &[("mig-1g.10gb", 7)]),
        hog,
        with(asks.clone(), "/spec/nodeName", json!("m")),
        h100s("m", 1),
    ];
    let found = one(&items, "fraction-out-of-reach");
    holds(
        &found,
        Severity::Warning,
        "Node/n",
        &["7 nvidia.com/mig-1g.10gb are free on n", "2 CPU left", "wants 4"],
    );
    none(&[mixed("n", 1, &[("mig-1g.10gb", 7)]), asks], "fraction-out-of-reach");
}

#[test]
fn requests_that_nothing_can_meet() {
    let asks = |gpus: &[(&str, u64)]| pending(pod("ns", "p", "", gpus), "0/1 nodes are available");
    let found = one(&[h100s("n", 8), asks(&[("mig-1g.10gb", 1)])], "resource-nobody-offers");
    holds(
        &found,
        Severity::Error,
        "Pod/ns/p",
        &["1 pod waits", "offered: nvidia.com/gpu", "0/1 nodes are available"],
    );
    let found = one(&[h100s("n", 8), asks(&[("gpu", 16)])], "request-above-any-node");
    holds(&found, Severity::Error, "Pod/ns/p", &["no node has more than 8"]);
    let wide = with(asks(&[("gpu", 1)]), "/spec/containers/0/resources/requests/cpu", json!("65"));
    holds(&one(&[h100s("n", 8), wide], "request-above-any-node"), Severity::Error, "Pod/ns/p", &["65 CPU"]);
    let picky = with(asks(&[("gpu", 1)]), "/spec/nodeSelector", json!({"zone": "b"}));
    holds(
        &one(&[h100s("n", 8), picky], "no-node-matches"),
        Severity::Error,
        "Pod/ns/p",
        &["match none of 1 node"],
    );
    let tainted =
        with(h100s("n", 8), "/spec/taints", json!([{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]));
    holds(
        &one(&[tainted, asks(&[("gpu", 1)])], "no-node-matches"),
        Severity::Error,
        "Pod/ns/p",
        &["taint nvidia.com/gpu:NoSchedule"],
    );
    let full = [h100s("n", 1), pod("ns", "runs", "n", &[("gpu", 1)]), asks(&[("gpu", 1)])];
    holds(&one(&full, "gpu-pods-pending"), Severity::Warning, "Pod/ns/p", &["0 nvidia.com/gpu are free"]);
}

#[test]
fn gpus_that_nobody_holds() {
    let found = one(&[h100s("a", 8), h100s("b", 8), pod("ns", "p", "a", &[("gpu", 3)])], "gpus-idle");
    holds(&found, Severity::Warning, "Product/h100-sxm-80gb", &["13 of 16 GPUs", "13 whole", "a, b"]);
    // Five shares may sit on both GPUs; one share leaves one GPU for sure.
    none(&[shared("n", "gpu"), pod("ns", "p", "n", &[("gpu", 5)])], "gpus-idle");
    let found = one(&[shared("n", "gpu"), pod("ns", "p", "n", &[("gpu", 1)])], "gpus-idle");
    holds(&found, Severity::Warning, "Node/n", &["1 of 2 GPUs", "at least 1 shared or cut"]);
    let found = one(
        &[mixed("n", 1, &[("mig-1g.10gb", 7)]), pod("ns", "p", "n", &[("mig-1g.10gb", 2)])],
        "mig-instances-idle",
    );
    holds(&found, Severity::Info, "Node/n", &["5 of 7 1g.10gb"]);
}

#[test]
fn nodes_that_offer_nothing_or_are_closed() {
    let closed = with(h100s("n", 8), "/spec/unschedulable", json!(true));
    holds(
        &one(&[closed], "gpu-node-cordoned"),
        Severity::Warning,
        "Node/n",
        &["8 GPUs of h100-sxm-80gb", "1 node cordoned (n)"],
    );
    let lost = with(h100s("n", 8), "/status/conditions/0/status", json!("Unknown"));
    holds(&one(&[lost], "gpu-node-not-ready"), Severity::Error, "Node/n", &["8 GPUs"]);
    let mut sick = h100s("n", 8);
    sick["status"]["allocatable"]["nvidia.com/gpu"] = json!("7");
    holds(&one(&[sick], "gpus-unhealthy"), Severity::Error, "Node/n", &["1 of 8 nvidia.com/gpu"]);
    let silent = node("n", &[H100, ("gpu.count", "8")], &[("gpu", 0)]);
    holds(
        &one(std::slice::from_ref(&silent), "gpus-not-offered"),
        Severity::Error,
        "Node/n",
        &["the node offers 0"],
    );
    assert!(!observe(&[silent]).fleet.nodes[0].schedulable);
    let failed = node(
        "n",
        &[H100, ("gpu.count", "1"), ("mig.config", "all-1g.10gb"), ("mig.config.state", "failed")],
        &[("gpu", 1)],
    );
    holds(&one(&[failed], "mig-config-failed"), Severity::Error, "Node/n", &["all-1g.10gb"]);
    let over = [h100s("n", 1), pod("ns", "p", "n", &[("mig-1g.10gb", 1)])];
    holds(&one(&over, "held-above-offer"), Severity::Error, "Node/n", &["1 nvidia.com/mig-1g.10gb of 0"]);
}

#[test]
fn pods_on_nodes_that_are_not_there() {
    let items = [h100s("n", 8), pod("ns", "p", "gone", &[("gpu", 2)])];
    holds(&one(&items, "held-on-missing-node"), Severity::Error, "Node/gone", &["2 devices on 1 node"]);
}

#[test]
fn quotas_are_judged_only_when_they_are_there() {
    let items = [
        h100s("n", 8),
        pod("a", "p", "n", &[("gpu", 1)]),
        pod("b", "p", "n", &[]),
        pod("c", "p", "n", &[("gpu", 1)]),
    ];
    one(&items, "quotas-not-in-input");
    none(&items, "quota-gap");
    let quota = |namespace: &str, hard: Value| {
        json!({"apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": namespace}, "spec": {"hard": hard}})
    };
    let full = quota("a", json!({"requests.nvidia.com/gpu": "4", "pods": "10"}));
    let items = [&items[..], &[full, quota("c", json!({"pods": "10"}))]].concat();
    none(&items, "quotas-not-in-input");
    let found = one(&items, "quota-gap");
    holds(&found, Severity::Warning, "Namespace/c", &["ask for 1 nvidia.com/gpu"]);
    assert!(found.fix.contains("kubectl -n c create quota gpus --hard=requests.nvidia.com/gpu=1"));
    holds(&one(&items, "quota-gap-unused"), Severity::Info, "Demand/observed", &["1 namespace", "b"]);
    // A quota bound to some pods does not cover the namespace.
    let scoped =
        with(quota("c", json!({"requests.nvidia.com/gpu": "4"})), "/spec/scopes", json!(["BestEffort"]));
    one(&[&items[..4], &[scoped]].concat(), "quota-gap-unused");
}

#[test]
fn what_is_not_known_is_said_once() {
    let items = [h100s("n", 8), pod("a", "p", "n", &[("gpu", 1)]), pod("b", "q", "n", &[("gpu", 2)])];
    holds(
        &one(&items, "need-unknown"),
        Severity::Info,
        "Demand/observed",
        &["2 pods of 2 workloads", "3 nvidia.com/gpu in all"],
    );
    none(&[mixed("n", 1, &[("mig-1g.10gb", 7)]), pod("a", "p", "n", &[("mig-1g.10gb", 1)])], "need-unknown");
    let claims = with(pod("a", "p", "n", &[]), "/spec/resourceClaims", json!([{"name": "gpu"}]));
    holds(
        &one(&[h100s("n", 8), claims], "resource-claims-not-counted"),
        Severity::Info,
        "Demand/observed",
        &["1 pod"],
    );
    let refused = with(
        pod("a", "p", "n", &[("gpu", 2)]),
        "/status",
        json!({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "Allocate failed"}),
    );
    holds(
        &one(&[shared("n", "gpu"), refused], "gpu-admission-refused"),
        Severity::Warning,
        "Namespace/a",
        &["Allocate failed"],
    );
    let both = pod("a", "p", "n", &[("gpu", 1), ("mig-1g.10gb", 1)]);
    holds(
        &one(&[h100s("n", 8), both], "two-gpu-resources"),
        Severity::Warning,
        "Pod/a/p",
        &["1 nvidia.com/gpu and 1 nvidia.com/mig-1g.10gb"],
    );
    let two = pod("a", "p", "n", &[("mig-1g.10gb", 2)]);
    holds(
        &one(&[mixed("n", 1, &[("mig-1g.10gb", 7)]), two], "mig-devices-above-one"),
        Severity::Warning,
        "Pod/a/p",
        &["asks for 2"],
    );
}

#[test]
fn the_gravest_and_largest_come_first() {
    let mut sick = h100s("z", 8);
    sick["status"]["allocatable"]["nvidia.com/gpu"] = json!("7");
    let found = observe(&[sick, h100s("a", 4), pod("ns", "p", "a", &[("gpu", 1)])]).findings;
    let severities = found.iter().map(|f| f.severity).collect::<Vec<_>>();
    assert!(severities.is_sorted() && severities[0] == Severity::Error, "{found:#?}");
}

#[test]
fn scheduling_rules_that_are_not_looked_at() {
    let own = json!({"matchLabels": {"app": "web"}});
    let labelled = with(pod("ns", "p", "n", &[("gpu", 1)]), "/metadata/labels", json!({"app": "web"}));
    let term =
        |key: &str, selector: &serde_json::Value| json!([{"topologyKey": key, "labelSelector": selector}]);
    let anti = |terms: serde_json::Value| {
        let rule = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
        with(labelled.clone(), "/spec/affinity", rule)
    };
    let spread = |when: &str| {
        let rule = json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": when}]);
        with(labelled.clone(), "/spec/topologySpreadConstraints", rule)
    };
    let rule = "scheduling-rules-not-looked-at";
    let node = || h100s("n", 2);
    let found = one(&[node(), spread("DoNotSchedule")], rule);
    holds(&found, Severity::Warning, "Demand/observed", &["topologySpreadConstraints", "Pod/ns/p"]);
    // A wish binds nothing, and one pod of its kind for each host is kept.
    none(&[node(), spread("ScheduleAnyway")], rule);
    none(&[node(), anti(term("kubernetes.io/hostname", &own))], rule);
    for other in [term("zone", &own), term("kubernetes.io/hostname", &json!({"matchLabels": {"app": "db"}}))]
    {
        let found = one(&[node(), anti(other)], rule);
        holds(&found, Severity::Warning, "Demand/observed", &["podAntiAffinity"]);
    }
}

#[test]
fn pods_that_a_gate_holds_back_are_no_shortage() {
    let gated =
        json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "gated"}]);
    let waiting = with(pod("ns", "p", "", &[("gpu", 1)]), "/status/conditions", gated);
    let found = one(&[h100s("n", 2), waiting.clone()], "gpu-pods-gated");
    holds(&found, Severity::Info, "Pod/ns/p", &["scheduling gate"]);
    none(&[h100s("n", 2), waiting], "gpu-pods-pending");
}
