//! What documents say, read right; and what they change of an observed state.

use tesela_formats::documents::{
    Document, DocumentKind, FleetDocument, join_price_books, merge, merge_fleet, parse_price_flag,
    read_document,
};
use tesela_formats::schema;
use tesela_model::demand::{Demand, Holding, Isolation, PodRef, Tenant, TenantClass, Workload};
use tesela_model::fleet::{MigStrategy, Mode, Offer};
use tesela_model::origin::{Known, Origin};
use tesela_model::product::ProductTable;
use tesela_model::quantity::{Bytes, Mib, MilliCpu};

use super::{of_kind, read};

fn fleet(content: &str) -> FleetDocument {
    match read(&of_kind("Fleet", content)).unwrap_or_else(|e| panic!("{e}")).pop().unwrap() {
        Document::Fleet(fleet) => fleet,
        other => panic!("{other:?}"),
    }
}

fn demand(observed: Demand, content: &str) -> Demand {
    match read(&of_kind("Demand", content)).unwrap_or_else(|e| panic!("{e}")).pop().unwrap() {
        Document::Demand(document) => merge(observed, &document),
        other => panic!("{other:?}"),
    }
}

fn workload<'d>(demand: &'d Demand, name: &str) -> &'d Workload {
    demand.workloads.iter().find(|w| w.key.name == name).unwrap()
}

#[test]
fn a_group_of_nodes_is_written_out() {
    let document = fleet(
        "nodes:
  - namePrefix: gpu-
    count: 10
    labels: {zone: a}
    taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
    cpu: 63500m
    memory: 512Gi
    gpus:
      - {product: NVIDIA H100 80GB HBM3, count: 2}
      - {product: h100-sxm-80gb, mode: timeSliced, replicas: 4}
      - {product: h100-sxm-80gb, replicas: 2, mig: [{profile: 3g.40gb, start: 4}, {profile: 1g.10gb, start: 0}]}
      - {product: NVIDIA L4, gpuMemory: 23034Mi, mode: mps, replicas: 2}
headroom: {nodes: 2}
surviveNodeLoss: true
namespaces: [agents]
",
    );
    let fleet = document.into_fleet();
    assert_eq!((fleet.headroom_nodes, fleet.survive_node_loss, fleet.has_nodes), (2, true, true));
    let names: Vec<&str> = fleet.nodes.iter().map(|n| n.name.as_str()).collect();
    assert_eq!((names.len(), names[0], names[9]), (10, "gpu-01", "gpu-10"));
    let node = &fleet.nodes[3];
    assert_eq!((node.cpu, node.memory), (Some(MilliCpu(63_500)), Some(Bytes(512 << 30))));
    assert_eq!((node.schedulable, node.operator, node.mig_strategy), (true, false, MigStrategy::Mixed));
    assert_eq!(node.taints[0].effect, "NoSchedule");
    let products: Vec<&str> = node.gpus.iter().map(|g| g.product.as_str()).collect();
    assert_eq!(products, ["h100-sxm-80gb", "h100-sxm-80gb", "h100-sxm-80gb", "h100-sxm-80gb", "NVIDIA-L4"]);
    let modes: Vec<Mode> = node.gpus.iter().map(|g| g.offer.mode()).collect();
    assert_eq!(modes, [Mode::Exclusive, Mode::Exclusive, Mode::TimeSliced, Mode::Mig, Mode::Mps]);
    assert_eq!(node.gpus[4].memory, Some(Mib(23_034)));
    let Offer::Mig { instances, replicas, origin } = &node.gpus[3].offer else { panic!() };
    let placed: Vec<String> = instances.iter().map(ToString::to_string).collect();
    assert_eq!(placed, ["1g.10gb@0", "3g.40gb@4"]);
    assert_eq!((replicas.len(), *origin), (2, Origin::Given));
    let resources: Vec<String> = fleet.resources.iter().map(ToString::to_string).collect();
    assert_eq!(resources, ["nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"]);
}

#[test]
fn defaults_of_a_fleet() {
    let document = fleet(
        "nodes: [{name: n, gpus: [{product: a30-24gb}]}]\nbuy: [{product: a30-24gb, gpusPerNode: 4}]\n",
    );
    assert_eq!((document.headroom_nodes, document.survive_node_loss), (None, None));
    let fleet = document.into_fleet();
    assert_eq!((fleet.headroom_nodes, fleet.survive_node_loss), (1, false));
    assert_eq!(fleet.nodes[0].gpus[0].offer, Offer::Exclusive);
    assert_eq!(
        (fleet.buy[0].gpus_per_node, fleet.buy[0].max_nodes, fleet.buy[0].gpu_memory),
        (4, None, None)
    );
}

#[test]
fn a_fleet_document_refines_the_observed_fleet() {
    let mut observed = fleet(
        "nodes: [{name: a, cpu: 8, labels: {zone: x, old: y}, gpus: [{product: a30-24gb}]}, {name: b}]",
    )
    .into_fleet();
    observed.nodes[0].cpu_taken = MilliCpu(500);
    let document = fleet(
        "nodes: [{name: a, labels: {zone: z}, gpus: [{product: a30-24gb, uuid: GPU-1}]}, {name: c}]\nheadroom: {nodes: 0}",
    );
    let merged = merge_fleet(observed, document);
    let names: Vec<&str> = merged.nodes.iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let node = &merged.nodes[0];
    assert_eq!((node.cpu, node.cpu_taken), (Some(MilliCpu(8000)), MilliCpu(500)));
    assert_eq!(node.gpus[0].uuid.as_deref(), Some("GPU-1"));
    assert_eq!((node.labels["zone"].as_str(), node.labels["old"].as_str()), ("z", "y"));
    assert_eq!(merged.headroom_nodes, 0);
}

#[test]
fn defaults_of_a_workload() {
    let demand = demand(
        Demand::default(),
        "tenants: [{name: research, namespaces: [lab]}]\nworkloads: [{name: a, namespace: lab}, {name: b, namespace: own}]\n",
    );
    let a = workload(&demand, "a");
    assert_eq!((a.key.kind.as_str(), a.tenant.as_str(), a.count, a.gpus), ("Deployment", "research", 1, 1));
    assert!(a.movable && !a.same_node && a.gpu_memory.is_none() && a.isolation.is_none());
    assert_eq!(workload(&demand, "b").tenant, "own");
}

#[test]
fn values_with_and_without_origin() {
    let demand = demand(
        Demand::default(),
        "workloads:
  - name: a
    namespace: x
    gpuMemory: 9.5Gi
    isolation: {value: instance, origin: assumed}
    duty: {value: 12.5%, origin: measured}
    interactive: true
    slo: {percentile: p99.9, latency: 1.5s}
    memory: 1500B
    cpu: 0.5
    products: [NVIDIA H100 80GB HBM3, NVIDIA L4]
    profile: 1g.10gb
  - {name: b, namespace: x, duty: 0.25, gpus: 8, mode: exclusive}
",
    );
    let a = workload(&demand, "a");
    assert_eq!(a.gpu_memory, Some(Known::given(Mib(9728))));
    assert_eq!(a.isolation, Some(Known::assumed(Isolation::Instance)));
    assert_eq!(a.duty.map(|d| (d.value.as_permille(), d.origin)), Some((125, Origin::Measured)));
    assert_eq!(a.interactive, Some(Known::given(true)));
    let slo = a.slo.as_ref().unwrap();
    assert_eq!((slo.percentile, slo.latency_ms), (999, 1500));
    assert_eq!((a.memory, a.cpu), (Bytes(1500), MilliCpu(500)));
    assert_eq!(a.products, ["h100-sxm-80gb", "NVIDIA-L4"]);
    assert_eq!(workload(&demand, "b").duty.map(|d| d.value.as_permille()), Some(250));
}

#[test]
fn an_alias_becomes_the_name_of_the_table() {
    let demand = demand(
        Demand::default(),
        "workloads: [{name: a, namespace: x, products: [gb200-186gb], profile: 7g.189gb}]",
    );
    assert_eq!(workload(&demand, "a").profile.as_ref().unwrap().as_str(), "7g.186gb");
}

fn observed() -> Demand {
    let mut demand = demand(
        Demand::default(),
        "tenants: [{name: lab, namespaces: [lab]}, {name: shop, namespaces: [shop]}]
workloads:
  - {name: train, namespace: lab, kind: StatefulSet, count: 3, request: nvidia.com/gpu}
  - {name: web, namespace: shop, count: 2, priority: 5}
",
    );
    let pod = |name: &str| PodRef { namespace: "lab".into(), name: name.into() };
    let holding = Holding {
        node: "n1".into(),
        resource: "nvidia.com/gpu".parse().unwrap(),
        devices: 1,
        pods: vec![pod("train-0"), pod("train-1")],
        place: None,
    };
    demand.workloads[0].running.push(holding);
    demand
}

#[test]
fn a_document_refines_by_key() {
    let before = observed();
    let after = demand(
        before.clone(),
        "workloads: [{name: train, namespace: lab, gpuMemory: 9Gi, count: 1}, {name: new, namespace: lab}]",
    );
    // No kind is written, and one workload of that name was observed.
    let train = workload(&after, "train");
    assert_eq!((train.key.kind.as_str(), train.count), ("StatefulSet", 1));
    assert_eq!(train.gpu_memory, Some(Known::given(Mib(9216))));
    assert_eq!(train.request, workload(&before, "train").request);
    assert_eq!(train.running, workload(&before, "train").running, "what pods hold is kept");
    assert_eq!(workload(&after, "web"), workload(&before, "web"), "what is not named stays");
    assert_eq!(workload(&after, "new").tenant, "lab");
    assert_eq!(after.workloads.len(), 3);
}

#[test]
fn a_namespace_moves_with_its_workloads() {
    let after = demand(observed(), "tenants: [{name: shop, class: regulated, namespaces: [shop, lab]}]");
    let tenant = |name: &str| after.tenants.iter().find(|t| t.name == name).unwrap();
    assert_eq!(tenant("lab").namespaces, Vec::<String>::new());
    assert_eq!(
        *tenant("shop"),
        Tenant {
            name: "shop".into(),
            namespaces: vec!["shop".into(), "lab".into()],
            class: TenantClass::Regulated,
            quota: std::collections::BTreeMap::new(),
        }
    );
    assert_eq!(workload(&after, "train").tenant, "shop");
}

#[test]
fn several_documents_and_kinds_in_one_file() {
    let table = of_kind(
        "ProductTable",
        "models: [{id: x1, nvmlProductNames: [NVIDIA X1], computeSlices: 2, memorySlices: 2, memoryMib: 49152,
profiles: [{name: 1g.24gb, gpuSlices: 1, placements: ['0:1', '1:1']}]}]",
    );
    let fleet = of_kind(
        "Fleet",
        "nodes: [{name: n, gpus: [{product: NVIDIA X1, mig: [{profile: 1g.24gb, start: 1}]}]}]",
    );
    let prices = of_kind(
        "PriceBook",
        "currency: EUR\nasOf: 2026-11-30\nprices: [{product: x1, gpuHour: \"2.50\"}, {product: NVIDIA L4, gpuHour: 0.8}]",
    );
    // The table comes last, and is known to the documents before it.
    let documents = read(&format!("{fleet}---\n{prices}---\n{table}")).unwrap_or_else(|e| panic!("{e}"));
    let kinds: Vec<DocumentKind> = documents.iter().map(Document::kind).collect();
    assert_eq!(kinds, [DocumentKind::Fleet, DocumentKind::PriceBook, DocumentKind::ProductTable]);
    let Document::PriceBook(book) = &documents[1] else { panic!() };
    assert_eq!(book.gpu_hour["x1"].0, 2_500_000);
    assert_eq!(book.gpu_hour["NVIDIA-L4"].0, 800_000);
    assert_eq!((book.source.as_str(), book.as_of.as_deref()), ("f.yaml", Some("2026-11-30")));
}

#[test]
fn price_books_join_in_one_currency() {
    let table = ProductTable::builtin();
    let flag = |text, currency| parse_price_flag(text, currency, table).unwrap();
    let joined = join_price_books([
        flag("a30-24gb=1/h", "EUR"),
        flag("a30-24gb=2/h", "EUR"),
        flag("a100-40gb=3/h", "EUR"),
    ]);
    let joined = joined.unwrap().unwrap();
    assert_eq!((joined.gpu_hour["a30-24gb"].0, joined.gpu_hour.len()), (2_000_000, 2));
    assert_eq!(joined.source, "command line");
    let mixed = join_price_books([flag("a30-24gb=1/h", "EUR"), flag("a100-40gb=3/h", "USD")]).unwrap_err();
    assert!(mixed.message.contains("USD") && mixed.message.contains("EUR"), "{mixed}");
    assert_eq!(join_price_books([]).unwrap(), None);
}

#[test]
fn json_is_read_like_yaml() {
    let text = r#"{"apiVersion": "tesela.dev/v1alpha1", "kind": "Demand", "metadata": {"name": "mine"},
        "spec": {"workloads": [{"name": "a", "namespace": "x", "gpuMemory": {"value": "9Gi", "origin": "measured"}}]}}"#;
    let documents = read_document("d.json", text.as_bytes(), ProductTable::builtin()).unwrap();
    let Document::Demand(document) = &documents[0] else { panic!() };
    assert_eq!(document.workloads[0].gpu_memory, Some(Known::measured(Mib(9216))));
}

#[test]
fn a_plan_is_read_strictly() {
    let plan = r#"{"apiVersion":"tesela.dev/v1alpha1","kind":"Plan","status":"complete","gpus":[],"pools":[],
        "assignments":[],"unmet":[],"findings":[],"quotas":[],"today":null,"changes":[],"assumptions":[],"cost":null,
        "cost_reason":"no prices","nodes":[],"headroom":[],
        "summary":{"today":FIGURES,"plan":FIGURES,"restarts":0,"requests_to_change":0,"unknown_pods":0,
        "unknown_gpus":0,"nodes_free":[]}EXTRA}"#;
    let figures = r#"{"gpus":0,"gpus_held":0,"nodes":0,"nodes_held":0,"pods_served":0,"pods_waiting":0,"hourly_micros":null}"#;
    let plan = plan.replace("FIGURES", figures);
    let read = |text: String| read_document("plan.json", text.as_bytes(), ProductTable::builtin());
    let documents = read(plan.replace("EXTRA", "")).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(documents[0].kind(), DocumentKind::Plan);
    let refused = read(plan.replace("EXTRA", r#","assignment":[]"#)).unwrap_err().to_string();
    assert!(refused.contains("unknown field `assignment`") && refused.contains("`assignments`"), "{refused}");
    let refused = read(plan.replace("EXTRA", "").replace("complete", "done")).unwrap_err().to_string();
    assert!(refused.contains("plan.json:1:") && refused.contains("`complete`"), "{refused}");
}

#[test]
fn schemas_are_closed_and_name_their_kind() {
    for kind in DocumentKind::ALL {
        let schema = schema::schema(kind);
        assert_eq!(schema["properties"]["kind"]["const"], kind.as_str());
        assert_eq!(schema["additionalProperties"], false, "{}", kind.as_str());
    }
}
