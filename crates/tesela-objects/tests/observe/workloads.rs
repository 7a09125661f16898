//! Which pods are demand, whose they are and what they ask for.

use serde_json::{Value, json};
use tesela_model::demand::Workload;
use tesela_objects::observe::{Observation, Options};

use crate::build::{list, node, observe, owned, pending, pod, read, with};

fn gpu_node() -> Value {
    node("n", &[("gpu.product", "NVIDIA-H100-80GB-HBM3"), ("gpu.count", "8")], &[("gpu", 8)])
}

fn beside_a_node(pods: &[Value]) -> Observation {
    observe(&[&[gpu_node()], pods].concat())
}

fn workload(pods: &[Value]) -> Workload {
    let mut all = beside_a_node(pods).demand.workloads;
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

#[test]
fn names_come_from_the_controlling_owner() {
    let plain = pod("ns", "web-7d9f-x", "n", &[("gpu", 1)]);
    assert_eq!(workload(std::slice::from_ref(&plain)).key.to_string(), "Pod/ns/web-7d9f-x");
    let set = owned(plain.clone(), "ReplicaSet", "web-7d9f");
    assert_eq!(workload(std::slice::from_ref(&set)).key.to_string(), "ReplicaSet/ns/web-7d9f");
    let hashed = with(set, "/metadata/labels/pod-template-hash", json!("7d9f"));
    assert_eq!(workload(&[hashed]).key.to_string(), "ReplicaSet/ns/web");
    let job =
        with(owned(plain.clone(), "Job", "j-7d9f"), "/metadata/labels/pod-template-hash", json!("7d9f"));
    assert_eq!(workload(&[job]).key.to_string(), "Job/ns/j-7d9f");
    let loose = with(owned(plain, "Thing", "t"), "/metadata/ownerReferences/0/controller", json!(false));
    assert_eq!(workload(&[loose]).key.kind, "Pod");
}

#[test]
fn ended_pods_are_no_demand_and_terminating_ones_hold() {
    let one = |name: &str| pod("ns", name, "n", &[("gpu", 1)]);
    let read = beside_a_node(&[
        with(one("done"), "/status/phase", json!("Succeeded")),
        with(one("lost"), "/status/phase", json!("Failed")),
        with(one("going"), "/metadata/deletionTimestamp", json!("2026-11-30T10:00:00Z")),
        pending(one("waits"), "0/1 nodes are available"),
        one("runs"),
    ]);
    let names = read.demand.workloads.iter().map(|w| w.key.name.as_str()).collect::<Vec<_>>();
    assert_eq!(names, ["runs", "waits"]);
    assert!(read.demand.workloads[1].running.is_empty());
    assert_eq!(read.demand.workloads[0].running[0].node, "n");
    let node = &read.fleet.nodes[0];
    assert_eq!(node.held_by_others.len(), 1);
    assert_eq!(node.held_by_others[0].pods[0].name, "going");
    assert_eq!((node.cpu_taken.0, node.memory_taken.0), (4000, 16 << 30));
}

#[test]
fn the_operators_pods_are_no_demand() {
    let validator = pod("gpu-operator", "nvidia-cuda-validator-x", "n", &[("gpu", 1)]);
    let plugin =
        with(pod("gpus", "p", "n", &[("gpu", 1)]), "/metadata/labels/app", json!("nvidia-cuda-validator"));
    let team = pod("team", "t", "n", &[]);
    let system = pod("kube-system", "dns", "n", &[]);
    let read = beside_a_node(&[validator, plugin, team, system]);
    assert!(read.demand.workloads.is_empty());
    assert_eq!(read.fleet.nodes[0].held_by_others[0].pods.len(), 2);
    assert_eq!(read.fleet.namespaces.into_iter().collect::<Vec<_>>(), ["team"]);
}

/// Requests of a pod by the rule of init containers and sidecars.
#[test]
fn requests_are_the_larger_of_phases() {
    let container = |gpus: u64, cpu: &str, restart: Value| {
        json!({"name": "c", "image": "i", "restartPolicy": restart, "resources": {
        "requests": {"cpu": cpu, "nvidia.com/gpu": gpus.to_string()}, "limits": {"nvidia.com/gpu": gpus.to_string()}}})
    };
    let always = || json!("Always");
    let shape = |init: Vec<Value>, main: Vec<Value>| {
        let base = with(pod("ns", "p", "n", &[]), "/spec/initContainers", json!(init));
        let found = workload(&[with(base, "/spec/containers", json!(main))]);
        (found.gpus, found.cpu.0)
    };
    assert_eq!(
        shape(vec![], vec![container(1, "1", Value::Null), container(2, "1", Value::Null)]),
        (3, 2000)
    );
    assert_eq!(
        shape(vec![container(4, "500m", Value::Null)], vec![container(1, "1", Value::Null)]),
        (4, 1000)
    );
    // The sidecar before the init container runs beside it, the one behind does not.
    let init = vec![container(1, "1", always()), container(2, "3", Value::Null), container(1, "1", always())];
    assert_eq!(shape(init, vec![container(1, "1", Value::Null)]), (3, 4000));
}

#[test]
fn limits_overhead_and_pod_level_requests_count() {
    let bare = with(
        pod("ns", "p", "n", &[]),
        "/spec/containers/0/resources",
        json!({"limits": {"nvidia.com/gpu": 2, "cpu": "3"}}),
    );
    let found = workload(&[with(bare.clone(), "/spec/overhead", json!({"cpu": "250m", "memory": "1Gi"}))]);
    assert_eq!((found.gpus, found.cpu.0, found.memory.0), (2, 3250, 1 << 30));
    let pod_level = with(bare, "/spec/resources", json!({"requests": {"cpu": "7"}}));
    assert_eq!(workload(&[pod_level]).cpu.0, 7000);
}

#[test]
fn a_zero_request_is_no_demand() {
    assert!(beside_a_node(&[pod("ns", "p", "n", &[("gpu", 0)])]).demand.workloads.is_empty());
}

#[test]
fn pods_that_differ_keep_what_they_hold() {
    let of = |name: &str, gpus: u64| owned(pod("ns", name, "n", &[("gpu", gpus)]), "StatefulSet", "s");
    let found = workload(&[of("s-0", 2), of("s-1", 1), of("s-2", 1)]);
    assert_eq!((found.count, found.gpus), (3, 1));
    let held = found.running.iter().map(|h| (h.devices, h.pods.len())).collect::<Vec<_>>();
    assert_eq!(held, [(1, 2), (2, 1)]);
}

#[test]
fn two_resource_names_hold_both() {
    let read = beside_a_node(&[pod("ns", "p", "n", &[("gpu", 1), ("mig-1g.10gb", 2)])]);
    assert_eq!(read.demand.workloads[0].request.as_ref().unwrap().to_string(), "nvidia.com/gpu");
    let rest = &read.fleet.nodes[0].held_by_others[0];
    assert_eq!((rest.resource.to_string().as_str(), rest.devices), ("nvidia.com/mig-1g.10gb", 2));
    let names = read.fleet.resources.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names, ["nvidia.com/gpu", "nvidia.com/mig-1g.10gb"]);
}

#[test]
fn constraints_are_read() {
    let mut p = with(pod("ns", "p", "n", &[("gpu", 1)]), "/spec/nodeSelector", json!({"zone": "a"}));
    p = with(p, "/metadata/labels", json!({"app": "x"}));
    p = with(
        p,
        "/spec/tolerations",
        json!([
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        ]),
    );
    p = with(
        p,
        "/spec/affinity",
        json!({
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["40000"]}]}]}},
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}]},
        }),
    );
    let found = workload(&[with(p.clone(), "/spec/priority", json!(1000))]);
    assert_eq!(found.constraints.node_selector["zone"], "a");
    assert_eq!(found.constraints.affinity[0][0].key, "nvidia.com/gpu.memory");
    assert_eq!(found.constraints.tolerations.len(), 1);
    assert_eq!((found.max_per_node, found.priority), (Some(1), 1000));
    let others = with(p, "/metadata/labels/app", json!("y"));
    assert_eq!(workload(&[others]).max_per_node, None);
}

#[test]
fn tenants_come_from_the_label_or_the_namespace() {
    let labelled = with(pod("ns", "a", "n", &[("gpu", 1)]), "/metadata/labels/team", json!("red"));
    let items = list(&[gpu_node(), labelled, pod("other", "b", "n", &[("gpu", 1)])]);
    let options = Options { tenant_label: Some("team".to_owned()), ..Options::default() };
    let found = read(&[&items], options).unwrap().demand;
    let tenants = found.workloads.iter().map(|w| w.tenant.as_str()).collect::<Vec<_>>();
    assert_eq!(tenants, ["red", "other"]);
    assert_eq!(found.tenants.iter().map(|t| t.namespaces.concat()).collect::<Vec<_>>(), ["other", "ns"]);
}

#[test]
fn notebooks_are_guessed() {
    let image =
        |image: &str| with(pod("ns", "p", "n", &[("gpu", 1)]), "/spec/containers/0/image", json!(image));
    for (name, is) in [
        ("quay.io/jupyter/scipy-notebook:latest", true),
        ("rocker/rstudio", true),
        ("jupyter.example.com/vllm:1", false),
        ("example.com/vllm:notebook", false),
    ] {
        assert_eq!(workload(&[image(name)]).interactive.is_some(), is, "{name}");
    }
    assert!(workload(&[owned(image("x"), "Notebook", "n")]).interactive.unwrap().value);
}
