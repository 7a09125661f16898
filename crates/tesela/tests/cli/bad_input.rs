//! Bad input of `plan`: each says where, what and what to do, exits with 2 and prints nothing.

use crate::harness::{run, run_with};

fn refused(stdin: impl AsRef<[u8]>, mentions: &[&str]) {
    run_with(&["plan", "-"], stdin.as_ref()).refused(mentions);
}

/// A Demand with these lines under `spec`.
fn demand(spec: &str) -> String {
    format!("apiVersion: tesela.dev/v1alpha1\nkind: Demand\nspec:\n{spec}\n")
}

fn fleet(spec: &str) -> String {
    demand(spec).replace("Demand", "Fleet")
}

#[test]
fn what_is_no_json_of_kubectl() {
    refused("", &["-: the input is empty", "kubectl get nodes,pods -A -o json"]);
    refused(" \n", &["empty"]);
    refused("NAME   STATUS   ROLES    AGE   VERSION\nn1     Ready    <none>   3d    v1.34.1\n", &["-o json"]);
    refused("No resources found in default namespace.\n", &["kubectl"]);
    refused("apiVersion: v1\nkind: List\nitems: []\n", &["-o json", "-:1:13"]);
    refused(b"\xff\xfek\0i\0", &["UTF-16"]);
    refused(b"\x1f\x8b\x08\0", &["not text"]);
    refused("[1, 2, 3]", &["-:1:"]);
    refused("{\"kind\": \"Pod\"", &["-:1:", "cut off"]);
    refused(
        r#"{"apiVersion": "v1", "kind": "List", "items": [{"kind": "Node", "metadata": {"na"#,
        &["-:1:", "cut off"],
    );
}

#[test]
fn lists_that_do_not_tell_enough() {
    refused(r#"{"apiVersion": "v1", "kind": "List", "items": []}"#, &["no items"]);
    let pod = r#"{"kind": "List", "apiVersion": "v1", "items": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "b"}, "spec": {"containers": []}, "status": {"phase": "Running"}}]}"#;
    refused(pod, &["no nodes", "kubectl get nodes,pods -A -o json"]);
    let service = r#"{"kind": "List", "apiVersion": "v1", "items": [{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}]}"#;
    refused(service, &["Service", "no Node"]);
    let status = r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "nodes is forbidden: User cannot list", "reason": "Forbidden", "code": 403}"#;
    refused(status, &["forbidden"]);
}

#[test]
fn files_that_cannot_be_read() {
    run(&["plan", "missing.json"]).refused(&["missing.json: there is no such file"]);
    run(&["plan", "."]).refused(&[".: is a folder"]);
    run(&["plan", "cluster.json", "cluster.json"]).refused(&["cluster.json: is named twice"]);
    run(&["plan", "-", "-"]).refused(&["-: is named twice"]);
    run(&["plan", "cluster.json/inside"]).refused(&["cluster.json/inside"]);
}

#[test]
fn inputs_with_nothing_to_plan() {
    run(&["plan", "prices.yaml"]).refused(&["nothing to plan"]);
    run(&["plan", "needs.yaml", "fleet.yaml", "--write-demand", "x.yaml"])
        .refused(&["--write-demand", "observed"]);
}

#[test]
fn a_plan_is_no_input() {
    let plan = run(&["plan", "cluster.json", "--format", "json"]);
    run_with(&["plan", "-"], plan.stdout.as_bytes()).refused(&["is a Plan", "tesela render"]);
}

#[test]
fn documents_are_strict() {
    let workload = |fields: &str| demand(&format!("  workloads:\n  - {{name: a, namespace: b, {fields}}}"));
    refused(workload("gpuMem: 9Gi"), &["-:5:", "`gpuMem`", "gpuMemory"]);
    refused(demand("  workload: []"), &["-:4:3", "`workload`", "workloads"]);
    refused(demand("  headroom: {nodes: 1}"), &["-:4:3", "`headroom`"]);
    refused(workload("gpuMemory: 9"), &["-:5:", "9", "unit"]);
    refused(workload("gpuMemory: 9GB"), &["-:5:", "9GB"]);
    refused(workload("count: -1"), &["-:5:", "-1"]);
    refused(workload("count: 99999999999999999999999"), &["-:5:", "99999999999999999999999"]);
    refused(workload("count: many"), &["-:5:", "many"]);
    refused(workload("products: [h100]"), &["-:5:", "`h100`", "h100-sxm-80gb"]);
    refused(workload("profile: 1g.10bg"), &["-:5:", "1g.10bg"]);
    refused(workload("products: [a30-24gb], profile: 1g.10gb"), &["-:5:", "1g.10gb", "a30-24gb"]);
    refused(workload("mode: timeSliced, isolation: instance"), &["-:5:", "timeSliced", "instance"]);
    refused(workload("name: c"), &["-:5:", "name"]);
    let twice =
        "  workloads:\n  - {name: a, namespace: b, kind: Job}\n  - {name: a, namespace: b, kind: Job}";
    refused(demand(twice), &["-:6:", "a"]);
    let tenants = "  tenants:\n  - {name: x, namespaces: [n]}\n  - {name: y, namespaces: [n]}";
    refused(demand(tenants), &["-:6:", "n"]);
}

#[test]
fn fleets_are_strict_too() {
    let gpus = |gpus: &str| fleet(&format!("  nodes:\n  - name: n1\n    gpus: [{gpus}]"));
    refused(gpus("{product: h100-sxm-80g}"), &["-:6:", "h100-sxm-80g", "h100-sxm-80gb"]);
    refused(gpus("{product: a30-24gb, mode: timeSliced, replicas: 1}"), &["-:6:", "replicas", "2"]);
    refused(gpus("{product: a30-24gb, mig: [{profile: 1g.10gb, start: 0}]}"), &["-:6:", "1g.10gb"]);
    refused(gpus("{product: a30-24gb, mig: [{profile: 2g.12gb, start: 1}]}"), &["-:6:", "start"]);
    refused(fleet("  nodes:\n  - {name: n1}\n  - {name: n1}"), &["-:6:", "n1"]);
}

#[test]
fn yaml_that_means_harm_is_bounded() {
    refused(b"kind: Demand\nspec: \xff\n", &["UTF-8"]);
    refused(format!("kind: Demand\nspec: {}\n", "[".repeat(100_000)), &["-:2:"]);
    refused("a: &a [*a]\n", &["-:1:"]);
    let mut bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (from, to) in ('a'..='y').zip('b'..='z') {
        bomb.push_str(&format!("{to}: &{to} [{}]\n", vec![format!("*{from}"); 9].join(", ")));
    }
    refused(bomb, &["-:"]);
    refused(format!("kind: Demand\nspec: {}\n", "x".repeat(17 << 20)), &["-", "16 MiB"]);
    refused("kind: Demand\nkind: Demand\n", &["-:2:1", "kind"]);
}
