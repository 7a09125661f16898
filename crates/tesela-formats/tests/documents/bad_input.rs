//! One case for each way in which people get a document wrong. The whole message is held: file, line, column, value,
//! rule, nearest right spelling.

use insta::assert_snapshot;

use super::{of_kind, read};

fn refused(text: &str) -> String {
    match read(text) {
        Ok(documents) => panic!("read as {documents:?}\n{text}"),
        Err(found) => found.to_string(),
    }
}

fn fleet(content: &str) -> String {
    refused(&of_kind("Fleet", content))
}

fn node(content: &str) -> String {
    let indented: String = content.lines().map(|line| format!("    {line}\n")).collect();
    fleet(&format!("nodes:\n  - name: n1\n{indented}"))
}

fn demand(content: &str) -> String {
    refused(&of_kind("Demand", content))
}

fn workload(content: &str) -> String {
    let indented: String = content.lines().map(|line| format!("    {line}\n")).collect();
    demand(&format!("workloads:\n  - name: chat\n    namespace: agents\n{indented}"))
}

fn prices(content: &str) -> String {
    refused(&of_kind("PriceBook", content))
}

#[test]
fn the_head_of_a_document() {
    let cases = [
        "",
        "kind: Fleet\nspec: {}\n",
        "apiVersion: tesela.dev/v1\nkind: Fleet\n",
        "apiVersion: v1\nkind: List\nitems: []\n",
        "apiVersion: tesela.dev/v1alpha1\nkind: fleets\n",
        "apiVersion: tesela.dev/v1alpha1\n",
        "- a\n",
        "NAME   STATUS   ROLES   AGE   VERSION\nn1     Ready    <none>  3d    v1.34.1\n",
        "No resources found\n",
        "{\"apiVersion\": \"tesela.dev/v1alpha1\", \"kind\": \"Fleet\", \"spec\": {\"nodes\": [",
        "apiVersion: tesela.dev/v1alpha1\nkind: Fleet\nkind: Demand\n",
        "apiVersion: tesela.dev/v1alpha1\nkind: Fleet\nnodes: []\n",
    ];
    assert_snapshot!(cases.map(refused).join("\n\n"));
}

#[test]
fn unknown_and_misplaced_fields() {
    let cases = [
        node("gpuss: []\nlabel: {a: b}\n"),
        node("mode: mig\n"),
        fleet("surviveNodeloss: true\n"),
        workload("gpu_memory: 9Gi\n"),
        workload("quota: {nvidia.com/gpu: 1}\n"),
        workload("gpuMemory: {value: 9Gi, from: measured}\n"),
        workload("wibble: 1\n"),
        prices("currency: EUR\nprice: []\n"),
    ];
    assert_snapshot!(cases.join("\n\n"));
}

#[test]
fn products_and_profiles() {
    let cases = [
        node("gpus: [{product: h100-sxm-80g}]\n"),
        node("gpus: [{product: h100}]\n"),
        node("gpus: [{product: NVIDIA L4}]\n"),
        node("gpus: [{product: h100-sxm-80gb, gpuMemory: 80Gi}]\n"),
        node("gpus: [{product: h100-sxm-80gb, mig: [{profile: 1g.10bg, start: 0}]}]\n"),
        node("gpus: [{product: a30-24gb, mig: [{profile: 1g.10gb, start: 0}]}]\n"),
        node("gpus: [{product: NVIDIA L4, gpuMemory: 24Gi, mode: mig}]\n"),
        workload("profile: 1g.10bg\n"),
        workload("profile: 1g.11gb\n"),
        workload("profile: 1g.10gb\nproducts: [a30-24gb]\n"),
        workload("profile: 1g.6gb\nproducts: [NVIDIA L4]\n"),
        workload("products: [a30-24gb, NVIDIA A30]\n"),
    ];
    assert_snapshot!(cases.join("\n\n"));
}

#[test]
fn layouts() {
    let cases = [
        node(
            "gpus:\n  - product: h100-sxm-80gb\n    mig:\n      - {profile: 3g.40gb, start: 0}\n      - {profile: 1g.10gb, start: 3}\n",
        ),
        node("gpus:\n  - product: h100-sxm-80gb\n    mig:\n      - {profile: 3g.40gb, start: 1}\n"),
        node(
            "gpus:\n  - product: a100-40gb\n    mig:\n      - {profile: 1g.5gb+me, start: 0}\n      - {profile: 1g.5gb+me, start: 1}\n",
        ),
        node("gpus: [{product: h100-sxm-80gb, mig: [{profile: 1g.10gb, start: -1}]}]\n"),
        node("gpus: [{product: h100-sxm-80gb, mig: [{profile: 1g.10gb}]}]\n"),
    ];
    assert_snapshot!(cases.join("\n\n"));
}

#[test]
fn replicas_and_modes_of_gpus() {
    let cases = [
        node("gpus: [{product: a30-24gb, mode: timeSliced, replicas: 1}]\n"),
        node("gpus: [{product: a30-24gb, replicas: 4}]\n"),
        node("gpus: [{product: a30-24gb, mode: exclusive, replicas: 4}]\n"),
        node("gpus: [{product: a30-24gb, mode: mps}]\n"),
        node("gpus: [{product: a30-24gb, mode: exclusive, mig: [{profile: 1g.6gb, start: 0}]}]\n"),
        node("gpus: [{product: a30-24gb, mode: timesliced, replicas: 4}]\n"),
        node(
            "migStrategy: single\ngpus: [{product: a30-24gb, mig: [{profile: 1g.6gb, start: 0}, {profile: 2g.12gb, start: 2}]}]\n",
        ),
        node("gpus: [{product: a30-24gb, count: 2, uuid: GPU-1}]\n"),
        node("gpus: [{product: a30-24gb, uuid: MIG-1}]\n"),
    ];
    assert_snapshot!(cases.join("\n\n"));
}

#[test]
fn names_that_stand_twice() {
    let cases = [
        fleet("nodes: [{name: n1}, {name: n1}]\n"),
        fleet("nodes: [{name: n2}, {namePrefix: n, count: 3}]\n"),
        fleet(
            "nodes:\n  - name: n1\n    gpus: [{product: a30-24gb, uuid: GPU-1}]\n  - name: n2\n    gpus: [{product: a30-24gb, uuid: GPU-1}]\n",
        ),
        fleet("nodes: [{gpus: []}]\n"),
        fleet("nodes: [{name: n1, namePrefix: n}]\n"),
        fleet("nodes: [{name: n1, count: 3}]\n"),
        fleet("nodes: [{namePrefix: n, count: 2, gpus: [{product: a30-24gb, uuid: GPU-1}]}]\n"),
        fleet("namespaces: [a, b, a]\n"),
        demand(
            "workloads: [{name: a, namespace: x}, {name: a, namespace: y}, {name: a, namespace: x, kind: Deployment}]\n",
        ),
        demand("workloads: [{name: a, namespace: x}, {name: a, namespace: x, kind: Job}]\n"),
        demand("tenants: [{name: t}, {name: t}]\n"),
        demand("tenants: [{name: t, namespaces: [x]}, {name: u, namespaces: [y, x]}]\n"),
        prices(
            "currency: EUR\nprices: [{product: a30-24gb, gpuHour: 1}, {product: NVIDIA A30, gpuHour: 2}]\n",
        ),
    ];
    assert_snapshot!(cases.join("\n\n"));
}

#[test]
fn numbers() {
    let cases = [
        workload("count: -1\n"),
        workload("count: 99999999999999999999\n"),
        workload("count: \"3\"\n"),
        workload("count: 1.5\n"),
        workload("count: many\n"),
        workload("gpus: 0\n"),
        workload("maxPodsPerNode: 0\n"),
        workload("priority: 9999999999\n"),
        fleet("headroom: {nodes: -1}\n"),
        fleet("nodes: [{namePrefix: n, count: 0}]\n"),
        fleet("nodes: [{namePrefix: n, count: 4000000000}]\n"),
        fleet("nodes: [{namePrefix: n, count: 90000, gpus: [{product: a30-24gb, count: 1000}]}]\n"),
        node("gpus: [{product: a30-24gb, count: 5000}]\n"),
        fleet("buy: [{product: a30-24gb, gpusPerNode: 0, maxNodes: 0}]\n"),
        demand("tenants: [{name: t, quota: {nvidia.com/gpu: -4}}]\n"),
    ];
    assert_snapshot!(cases.join("\n\n"));
}

#[test]
fn units() {
    let memory =
        ["80", "81920", "80GB", "80GiB", "80gi", "80g", "512m", "80 Q", "-1Gi", "9999999Ti", "Gi", "[1]"];
    let cases: Vec<String> = memory.iter().map(|text| workload(&format!("memory: {text}\n"))).collect();
    let gpu_memory = ["9", "{value: 16GB, origin: estimated}", "0", "90000Gi"];
    let cases =
        cases.into_iter().chain(gpu_memory.iter().map(|text| workload(&format!("gpuMemory: {text}\n"))));
    let cpu = ["4Gi", "-2", "lots", "9999999"];
    let cases = cases.chain(cpu.iter().map(|text| workload(&format!("cpu: {text}\n"))));
    let duty = ["10", "150%", "1.5", "-0.1", "10.55%", "often"];
    let cases = cases.chain(duty.iter().map(|text| workload(&format!("duty: {text}\n"))));
    let slo = [
        "{percentile: 99, latency: 200ms}",
        "{percentile: p99, latency: 200}",
        "{percentile: p100, latency: 2 sec}",
        "{percentile: p99, latency: 0ms}",
        "{latency: 1s}",
        "200ms",
    ];
    let cases = cases.chain(slo.iter().map(|text| workload(&format!("slo: {text}\n"))));
    assert_snapshot!(cases.collect::<Vec<_>>().join("\n\n"));
}

#[test]
fn names_and_labels() {
    let cases = [
        fleet("nodes: [{name: GPU_1}]\n"),
        fleet("nodes: [{namePrefix: GPU_, count: 3}]\n"),
        node("labels: {\"a b\": c}\n"),
        node("labels: {zone: \"a/b\"}\n"),
        node("labels: {ready: true}\n"),
        node("taints: [{key: nvidia.com/gpu, effect: NoScheduling}]\n"),
        demand("workloads: [{name: Chat Bot, namespace: agents}]\n"),
        demand("workloads: [{name: chat, namespace: a.b, kind: deployment}]\n"),
        demand("workloads: [{name: chat}]\n"),
        workload("request: requests.nvidia.com/gpu\n"),
        workload("request: nvidia.com/1g.10gb\n"),
        workload("affinity: [{matchExpressions: [{key: zone, operator: In}]}]\n"),
        workload("affinity: [{matchFields: [{key: zone, operator: In, values: [a]}]}]\n"),
        workload("affinity: [{matchExpressions: [{key: size, operator: Gt, values: [big]}]}]\n"),
        workload("tolerations: [{value: x}]\n"),
        workload("tolerations: [{key: k, operator: Exists, value: x}]\n"),
    ];
    assert_snapshot!(cases.join("\n\n"));
}

#[test]
fn contradictions_of_workloads() {
    let tenants = "tenants:\n  - name: bank\n    class: regulated\n    namespaces: [vault]\n";
    let vault =
        |more: &str| demand(&format!("{tenants}workloads:\n  - name: w\n    namespace: vault\n{more}"));
    let cases = [
        workload("mode: timeSliced\nisolation: instance\n"),
        workload("mode: mps\nisolation: device\n"),
        workload("mode: mig\nisolation: device\n"),
        workload("gpus: 2\nmode: mig\n"),
        workload("gpus: 2\nprofile: 1g.10gb\n"),
        workload("mode: timeSliced\nslo: {percentile: p99, latency: 200ms}\n"),
        workload("mode: exclusive\nprofile: 1g.10gb\n"),
        workload("isolation: device\nprofile: 1g.10gb\n"),
        vault("    mode: timeSliced\n"),
        vault("    isolation: tenant\n"),
        vault("    tenant: shop\n"),
        demand(&format!("{tenants}workloads: [{{name: w, namespace: other, tenant: bank, mode: mps}}]\n")),
    ];
    assert_snapshot!(cases.join("\n\n"));
}

#[test]
fn prices_that_are_none() {
    let price = |amount: &str| {
        prices(&format!("currency: EUR\nprices: [{{product: a30-24gb, gpuHour: {amount}}}]\n"))
    };
    let cases = [
        price("0"),
        price("-1"),
        price(".nan"),
        price("1e30"),
        price("2.1234567"),
        price("2.50 EUR"),
        prices("currency: eur\nprices: []\n"),
        prices("currency: €\nprices: []\n"),
        prices("currency: EUR\nasOf: 2026-02-30\nprices: []\n"),
        prices("currency: EUR\nprices: [{product: h100, gpuHour: 1}]\n"),
        prices("currency: EUR\n"),
    ];
    assert_snapshot!(cases.join("\n\n"));
}

#[test]
fn product_tables() {
    let table = |content: &str| refused(&of_kind("ProductTable", content));
    let model = |profiles: &str| {
        table(&format!(
            "models:\n  - id: x1\n    computeSlices: 4\n    memorySlices: 4\n    profiles:\n{profiles}"
        ))
    };
    let cases = [
        table("models: [{id: X 1, computeSlices: 4}]\n"),
        table("models: [{id: x1, computeSlices: 4}, {id: x1, computeSlices: 4}]\n"),
        table("models: [{id: x1, computeSlices: 0, memorySlices: 65}]\n"),
        table("models: [{id: x1, compute_slices: 4}]\n"),
        model("      - {name: 1g.6bg, gpuSlices: 1}\n"),
        model("      - {name: 1g.6gb, gpuSlices: 5}\n"),
        model("      - {name: 1g.6gb, gpuSlices: 1, placements: [\"4:1\"]}\n"),
        model("      - {name: 1g.6gb, gpuSlices: 1, placements: [\"0-1\"]}\n"),
        model("      - {name: 1g.6gb, gpuSlices: 1, memorySlices: 2, placements: [\"0:1\"]}\n"),
        model("      - {name: 1g.6gb, gpuSlices: 1}\n      - {name: 1g.6gb, gpuSlices: 1}\n"),
    ];
    assert_snapshot!(cases.join("\n\n"));
}

#[test]
fn every_wrong_value_of_a_file_is_told_in_one_run() {
    let first =
        of_kind("Demand", "workloads: [{name: chat, namespace: agents, memory: 80, cpu: 4Gi, count: -1}]");
    let second = of_kind("PriceBook", "currency: eur\nprices: []");
    let found = refused(&format!("{first}---\n{second}"));
    assert_snapshot!(found);
}

#[test]
fn texts_that_are_no_documents_at_all() {
    let big = vec![b' '; (16 << 20) + 1];
    let deep = "[".repeat(100);
    let bomb: String = std::iter::once("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned())
        .chain((1..9).map(|i| {
            let before = format!("*a{}", i - 1);
            format!("a{i}: &a{i} [{}]\n", vec![before; 10].join(", "))
        }))
        .collect();
    let texts: [&[u8]; 6] = [b"", b"\xFF\xFEa\0", b"kind: \xE4\n", &big, deep.as_bytes(), bomb.as_bytes()];
    let found = texts.map(|text| {
        let table = tesela_model::product::ProductTable::builtin();
        tesela_formats::documents::read_document("f.yaml", text, table).unwrap_err().to_string()
    });
    assert_snapshot!(found.join("\n\n"));
}

#[test]
fn price_flags() {
    let table = tesela_model::product::ProductTable::builtin();
    let flag = |text| tesela_formats::documents::parse_price_flag(text, "EUR", table);
    let wrong = [
        "h100-sxm-80gb",
        "h100-sxm-80gb=2.50",
        "h100=2/h",
        "h100-sxm-80gb=0/h",
        "h100-sxm-80gb=-1/h",
        "=1/h",
    ];
    assert_snapshot!(wrong.map(|text| flag(text).unwrap_err().to_string()).join("\n\n"));
    let book = flag("NVIDIA H100 80GB HBM3 = 2.50/h").unwrap();
    assert_eq!(book.gpu_hour["h100-sxm-80gb"].0, 2_500_000);
    assert_eq!(book.source, "command line");
}
