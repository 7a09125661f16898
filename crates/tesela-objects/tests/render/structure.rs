//! What every rendering must be, whatever the plan.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tesela_formats::diagnostic::Severity;
use tesela_formats::lint::lint;
use tesela_formats::tree::{Node, read_documents};
use tesela_model::fleet::{MigStrategy, Mode};
use tesela_model::plan::{ChangeKind, Plan};
use tesela_model::product::ProductTable;
use tesela_objects::render::{Existing, Rendering, Target, render};

use crate::fleet;

fn object(path: &str, text: &str) -> Node {
    let mut trees = read_documents(path, text.as_bytes()).unwrap_or_else(|e| panic!("{path}: {e}\n{text}"));
    assert_eq!(trees.len(), 1, "{path} is one document");
    trees.remove(0).root
}

fn text<'a>(node: &'a Node, keys: &[&str]) -> &'a str {
    let found = keys.iter().try_fold(node, |n, key| n.get(key));
    found.and_then(Node::as_text).unwrap_or_else(|| panic!("no text at {keys:?}"))
}

fn is_dns(name: &str, most: usize) -> bool {
    !name.is_empty()
        && name.len() <= most
        && name.split('.').all(|part| {
            !part.is_empty()
                && !part.starts_with('-')
                && !part.ends_with('-')
                && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        })
}

/// Every manifest is one complete object with valid names; returns the quotas as written.
fn check_manifests(rendering: &Rendering) -> BTreeMap<(String, String), (u32, u64)> {
    let mut quotas = BTreeMap::new();
    for step in &rendering.steps {
        for file in step.files.iter().filter(|f| f.path.ends_with(".yaml")) {
            let root = object(&file.path, &file.text);
            assert_eq!(text(&root, &["apiVersion"]), "v1", "{}", file.path);
            assert!(is_dns(text(&root, &["metadata", "name"]), 253), "{}", file.path);
            match text(&root, &["kind"]) {
                "Namespace" => {}
                "ConfigMap" => {
                    assert!(is_dns(text(&root, &["metadata", "namespace"]), 63), "{}", file.path);
                    for entry in &root.get("data").unwrap().as_mapping().unwrap().entries {
                        assert!(entry.value.as_scalar().is_some(), "{}", file.path);
                        let ok = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
                        assert!(
                            entry.key.text.len() <= 253 && entry.key.text.bytes().all(ok),
                            "{}",
                            file.path
                        );
                    }
                }
                "ResourceQuota" => {
                    let namespace = text(&root, &["metadata", "namespace"]);
                    let hard = root.get("spec").and_then(|s| s.get("hard")).unwrap();
                    for entry in &hard.as_mapping().unwrap().entries {
                        let scalar = entry.value.as_scalar().unwrap();
                        let resolved = scalar.resolve(tesela_formats::tree::Schema::Yaml11);
                        assert_eq!(resolved, tesela_formats::tree::Resolved::Text, "a quantity is a string");
                        let key = (namespace.to_owned(), entry.key.text.to_string());
                        let amount = (step.number, scalar.text.parse().unwrap());
                        assert!(quotas.insert(key, amount).is_none(), "one quota per name");
                    }
                }
                kind => panic!("{}: unexpected kind {kind}", file.path),
            }
        }
    }
    quotas
}

/// The order and the shape of the folder.
fn check_folder(plan: &Plan, rendering: &Rendering) {
    let numbers: Vec<_> = rendering.steps.iter().map(|s| s.number).collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
    let dirs: Vec<_> = rendering.steps.iter().map(|s| &s.dir).collect();
    assert!(dirs.is_sorted(), "a file manager shows the order of the steps: {dirs:?}");
    let files = rendering.files();
    let paths: BTreeSet<_> = files.iter().map(|f| &f.path).collect();
    assert_eq!(paths.len(), files.len(), "each path once");
    for file in &files {
        assert!(
            !file.path.starts_with('/')
                && !file.path.split('/').any(|p| p == ".." || p.is_empty() || p.len() > 255)
        );
        assert!(file.text.ends_with('\n'), "{}", file.path);
    }
    for step in &rendering.steps {
        for name in ["STEP.md", "change.sh", "verify.sh", "undo.sh"] {
            assert!(paths.contains(&format!("{}/{name}", step.dir)), "{} lacks {name}", step.dir);
        }
    }
    let changed: BTreeSet<_> = plan.changes.iter().map(|c| &c.node).collect();
    let node_steps: Vec<_> = rendering.steps.iter().filter(|s| s.blast.is_some()).collect();
    assert_eq!(node_steps.len(), changed.len(), "one step per node that changes");
    if let Some((canary, rest)) = node_steps.split_first() {
        assert_eq!(canary.number, 20);
        assert!(rest.iter().all(|s| s.number == 30));
    }
    let named = rendering.steps.iter().flat_map(|s| &s.restarts);
    let mut named: Vec<_> = named.map(|p| (p.namespace.as_str(), p.name.as_str())).collect();
    named.sort_unstable();
    let restarting = plan.restarting.iter().map(|r| (r.namespace.as_str(), r.name.as_str()));
    let disturbed = plan.changes.iter().flat_map(|c| &c.disturbed_pods);
    let disturbed = disturbed.map(|p| (p.namespace.as_str(), p.name.as_str()));
    let wanted: BTreeSet<_> = restarting.chain(disturbed).collect();
    assert_eq!(named, wanted.into_iter().collect::<Vec<_>>(), "each pod that the plan names, in one step");
}

/// The quota files are the plan's quotas, the zeros in the last step and nowhere else.
fn check_quotas(plan: &Plan, rendering: &Rendering) {
    let written = check_manifests(rendering);
    let wanted: BTreeMap<_, _> = plan
        .quotas
        .iter()
        .map(|q| {
            let step = if q.hard == 0 { 90 } else { 80 };
            ((q.namespace.clone(), q.resource.clone()), (step, q.hard))
        })
        .collect();
    assert_eq!(written, wanted);
    if wanted.values().any(|(step, _)| *step == 90) {
        assert_eq!(rendering.steps.last().unwrap().number, 90, "zero quotas are the last step");
    }
}

/// NVIDIA's parser takes a config as written: nothing refused, nothing dropped.
fn accepted(path: &str, text: &str) {
    let found = lint(path, text.as_bytes(), ProductTable::builtin()).unwrap();
    let bad: Vec<_> = found.findings.iter().filter(|f| f.severity > Severity::Info).collect();
    assert!(bad.is_empty(), "{path}: {bad:#?}\n{text}");
}

/// Each label that a node gets is an entry of a ConfigMap of the rendering.
fn check_labels(rendering: &Rendering) {
    let mut known: BTreeSet<String> = BTreeSet::new();
    let files = rendering.files();
    for file in files.iter().filter(|f| f.path.starts_with("10-configmaps/") && f.path.ends_with(".yaml")) {
        let root = object(&file.path, &file.text);
        let data = root.get("data").unwrap().as_mapping().unwrap();
        for entry in &data.entries {
            match &*entry.key.text {
                "config.yaml" => {
                    let text = entry.value.as_text().unwrap();
                    accepted(&file.path, text);
                    let document = object("config.yaml", text);
                    let labels = document.get("mig-configs").unwrap().as_mapping().unwrap();
                    known.extend(labels.entries.iter().map(|e| e.key.text.to_string()));
                }
                name => {
                    accepted(&format!("{}:{name}", file.path), entry.value.as_text().unwrap());
                    known.insert(name.to_owned());
                }
            }
        }
    }
    for file in files.iter().filter(|f| f.path.ends_with("/change.sh")) {
        for line in file.text.lines() {
            for variable in ["MIG='", "PLUGIN='"] {
                let value = line.strip_prefix(variable).map(|v| v.trim_end_matches('\''));
                if let Some(value) = value.filter(|v| !v.is_empty()) {
                    assert!(known.contains(value), "{}: {value} is in no ConfigMap", file.path);
                    assert!(value.len() <= 63);
                }
            }
        }
    }
}

fn check_all(plan: &Plan, target: Target) -> Rendering {
    let rendering = render(plan, target, &Existing::none()).unwrap();
    assert_eq!(rendering, render(plan, target, &Existing::none()).unwrap(), "the same bytes twice");
    check_folder(plan, &rendering);
    check_quotas(plan, &rendering);
    check_labels(&rendering);
    rendering
}

#[test]
fn hand_made_plans_are_sound() {
    for plan in [fleet::busy(), fleet::fenced(), fleet::empty()] {
        for target in [Target::Native, Target::GpuOperator] {
            check_all(&plan, target);
        }
    }
}

#[test]
fn the_gpu_operator_hits_more_than_the_agent() {
    let plan = fleet::busy();
    let blast = |target| -> BTreeMap<String, (u64, bool, usize)> {
        let rendering = render(&plan, target, &Existing::none()).unwrap();
        let steps = rendering.steps.into_iter().filter_map(|s| s.blast.map(|b| (s.dir, b)));
        steps
            .map(|(dir, b)| {
                let node = dir.rsplit('/').next().unwrap();
                let node = &node[node.find("gpu-").unwrap()..];
                (node.to_owned(), (b.pods_total, b.plugin_stops, b.cleared_gpus))
            })
            .collect()
    };
    let native = blast(Target::Native);
    assert_eq!(native["gpu-a"], (1, false, 1));
    // Its leaver has gone before, with the request that became ready on gpu-a.
    assert_eq!(native["gpu-b"], (0, false, 1));
    assert_eq!(native["gpu-c"], (3, false, 2));
    let operator = blast(Target::GpuOperator);
    // MIG mode on one GPU: the exclusive job on the other stays.
    assert_eq!(operator["gpu-a"], (1, true, 1));
    // Geometry: the pods whose GPU is not known may be on the GPU that is cleared.
    assert_eq!(operator["gpu-b"], (2, true, 1));
    assert_eq!(operator["gpu-c"], (3, true, 2));
}

#[test]
fn a_reset_hits_every_pod_of_the_node() {
    let mut plan = fleet::busy();
    plan.changes[0].change = ChangeKind::MigModeReset;
    let rendering = render(&plan, Target::GpuOperator, &Existing::none()).unwrap();
    let step = rendering.steps.iter().find(|s| s.dir.ends_with("gpu-a")).unwrap();
    let blast = step.blast.as_ref().unwrap();
    assert!(blast.reset);
    assert_eq!(blast.workloads.iter().map(|w| w.workload.as_str()).collect::<Vec<_>>(), ["fit"]);
    assert_eq!((blast.pods_total, blast.cleared_gpus), (2, 2));
}

#[test]
fn geometry_on_a_known_gpu_spares_the_pods_of_the_others() {
    let mut plan = fleet::busy();
    for a in plan.assignments.iter_mut().filter(|a| a.node.as_deref() == Some("gpu-b")) {
        a.gpu = Some("GPU-b0".to_owned());
    }
    let rendering = render(&plan, Target::GpuOperator, &Existing::none()).unwrap();
    let step = rendering.steps.iter().find(|s| s.dir.ends_with("gpu-b")).unwrap();
    assert_eq!(step.blast.as_ref().unwrap().pods_total, 0);
}

#[test]
fn a_pod_of_unknown_gpu_may_sit_on_the_one_that_is_switched() {
    let step = |plan: &Plan, target| {
        let steps = render(plan, target, &Existing::none()).unwrap().steps;
        steps.into_iter().find(|s| s.blast.is_some()).unwrap()
    };
    let plan = fleet::one_idle();
    let operator = step(&plan, Target::GpuOperator);
    let workloads = &operator.blast.as_ref().unwrap().workloads;
    assert_eq!(workloads.iter().map(|w| (w.workload.as_str(), w.pods)).collect::<Vec<_>>(), [("vllm", 7)]);
    let notes = operator.notes.join("\n");
    assert!(notes.contains("nvidia-smi -i 7 --query-compute-apps="), "{notes}");
    assert!(notes.contains("ALSO_RESTART"), "{notes}");
    assert!(operator.restarts.is_empty());
    // The agent refuses a GPU that is busy.
    assert!(step(&plan, Target::Native).blast.unwrap().workloads.is_empty());
    let mut known = plan;
    for (index, gpu) in known.nodes[0].gpus.iter_mut().enumerate() {
        gpu.uuid = Some(format!("GPU-{index}"));
    }
    known.changes[0].gpu = Some("GPU-7".to_owned());
    known.assignments[0].gpu = Some("GPU-0".to_owned());
    assert!(step(&known, Target::GpuOperator).blast.unwrap().workloads.is_empty());
}

#[test]
fn a_replica_set_is_its_deployment_where_the_names_of_its_pods_say_so() {
    let mut plan = fleet::empty();
    plan.nodes = vec![fleet::node(
        "n",
        MigStrategy::None,
        vec![fleet::shared(fleet::gpu("", Mode::TimeSliced, Mode::Exclusive), 3)],
    )];
    let shared = "nvidia.com/gpu.shared";
    for (name, pods) in [("web", &["web-7f9c-a1b2c"][..]), ("own", &["own-a1b2c"][..]), ("idle", &[])] {
        let workload = format!("team/ReplicaSet/{name}");
        let request = (Some("nvidia.com/gpu"), shared);
        plan.assignments.push(fleet::assignment(&workload, Mode::TimeSliced, Some(3), request, "n", (1, 0)));
        fleet::leave(&mut plan, &workload, "n", pods);
    }
    plan.assignments.sort();
    plan.changes = vec![fleet::change("n", "", ChangeKind::Sharing, "timeSliced × 3", &[])];
    let steps = render(&plan, Target::Native, &Existing::none()).unwrap().steps;
    let notes = steps.iter().find(|s| s.dir.contains("requests")).unwrap().notes.join("\n");
    assert!(notes.contains("Deployment team/web:"), "{notes}");
    assert!(notes.contains("own: no Deployment owns it"), "{notes}");
    assert_eq!(notes.matches("no Deployment owns it").count(), 1, "{notes}");
    assert!(notes.contains("idle: no pod runs"), "{notes}");
}

#[test]
fn the_operators_namespace_is_the_one_that_was_seen_or_given() {
    let namespace = |plan: &Plan, target, existing| {
        let files = render(plan, target, &existing).unwrap().files();
        let map = files.iter().find(|f| f.path == "10-configmaps/device-plugin.yaml").unwrap();
        let readme = files.iter().find(|f| f.path == "00-README.md").unwrap();
        let root = object(&map.path, &map.text);
        let namespace = text(&root, &["metadata", "namespace"]).to_owned();
        assert!(
            readme.text.contains(&format!("Namespace of the GPU stack: {namespace} (")),
            "{}",
            readme.text
        );
        let scripts = files.iter().filter(|f| f.executable);
        let line = format!("STACK_NAMESPACE='{namespace}'");
        assert!(scripts.clone().all(|f| f.text.contains(&line)));
        namespace
    };
    let mut plan = fleet::busy();
    assert_eq!(namespace(&plan, Target::GpuOperator, Existing::none()), "gpu-operator");
    plan.operator_namespace = Some("nvidia-gpu-operator".to_owned());
    assert_eq!(namespace(&plan, Target::GpuOperator, Existing::none()), "nvidia-gpu-operator");
    assert_eq!(namespace(&plan, Target::Native, Existing::none()), "tesela-system");
    let given = Existing::none().in_operator_namespace(Some("gpus".to_owned()));
    assert_eq!(namespace(&plan, Target::GpuOperator, given), "gpus");
    let bad = Existing::none().in_operator_namespace(Some("a;b".to_owned()));
    assert!(render(&plan, Target::GpuOperator, &bad).is_err());
}

/// A plan that counts restarts and does not name them cannot be followed.
#[test]
fn restarts_that_are_not_named_are_refused() {
    let mut plan = fleet::busy();
    plan.restarting.clear();
    let error = render(&plan, Target::Native, &Existing::none()).unwrap_err().to_string();
    assert!(error.contains("counts 5 pods") && error.contains("names 0"), "{error}");
}

/// How many GPUs a node has, what they become (0 to 3), what they are today (0 to 2), whether they change, and
/// the stem of their UUIDs.
type SomeNode = (usize, u8, u8, bool, Option<u32>);

prop_compose! {
    /// Plans of up to five nodes, each of one kind, with quotas and workloads.
    fn some_plan()(
        nodes in prop::collection::vec((1..4usize, 0..4u8, 0..3u8, any::<bool>(), prop::option::of(0..9999u32)), 0..5),
        quotas in prop::collection::btree_map(("[a-c]", 0..4usize), 0..3u64, 0..8),
        workloads in prop::collection::vec(("[a-c]", 0..6usize, 0..4usize, any::<bool>()), 0..6),
    ) -> Plan {
        build(&nodes, &quotas, &workloads)
    }
}

const RESOURCES: [&str; 4] =
    ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"];
const KINDS: [&str; 6] = ["Deployment", "StatefulSet", "CronJob", "Job", "Pod", "Notebook"];

fn build(
    nodes: &[SomeNode],
    quotas: &BTreeMap<(String, usize), u64>,
    workloads: &[(String, usize, usize, bool)],
) -> Plan {
    let mut plan = fleet::empty();
    for (index, (count, kind, today, changes, uuid)) in nodes.iter().enumerate() {
        let name = format!("n{index}");
        let today = [Mode::Exclusive, Mode::Mig, Mode::TimeSliced][usize::from(*today)];
        let one = |i: usize| {
            let uuid = uuid.map_or(String::new(), |u| format!("GPU-{u}-{i}"));
            match kind {
                0 => fleet::gpu(&uuid, Mode::Exclusive, today),
                1 => fleet::cut(fleet::gpu(&uuid, Mode::Mig, today), &[("1g.10gb", 0, 1), ("3g.40gb", 4, 4)]),
                2 => fleet::shared(fleet::gpu(&uuid, Mode::TimeSliced, today), 3),
                _ => fleet::shared(fleet::gpu(&uuid, Mode::Mps, today), 2),
            }
        };
        let gpus: Vec<_> = (0..*count).map(one).collect();
        let strategy = if *kind == 1 { MigStrategy::Mixed } else { MigStrategy::None };
        if *changes {
            for gpu in &gpus {
                let change = if (gpu.mode == Mode::Mig) == (today == Mode::Mig) {
                    if gpu.mode == Mode::Mig { ChangeKind::Geometry } else { ChangeKind::Sharing }
                } else {
                    ChangeKind::MigMode
                };
                let pod = format!("a/p{index}");
                plan.changes.push(fleet::change(
                    &name,
                    gpu.uuid.as_deref().unwrap_or(""),
                    change,
                    "x",
                    &[&pod],
                ));
            }
        }
        let mode = gpus[0].mode;
        plan.pools.push(fleet::pool(&format!("p{}", index % 2), mode, gpus[0].replicas, &[&name], 1));
        plan.nodes.push(fleet::node(&name, strategy, gpus));
    }
    for ((namespace, resource), hard) in quotas {
        plan.quotas.push(fleet::quota(namespace, RESOURCES[*resource], *hard));
    }
    for (index, (namespace, kind, resource, changes)) in workloads.iter().enumerate() {
        let resource = RESOURCES[*resource];
        let mode = [Mode::Exclusive, Mode::TimeSliced, Mode::Mig, Mode::Mig];
        let mode = mode[RESOURCES.iter().position(|r| *r == resource).unwrap()];
        let name = format!("{namespace}/{}/w{index}", KINDS[*kind]);
        let replicas = (mode == Mode::TimeSliced).then_some(3);
        let today = changes.then_some("nvidia.com/gpu");
        plan.assignments.push(fleet::assignment(&name, mode, replicas, (today, resource), "n0", (1, 0)));
        if *changes {
            // On a node that the plan may not know.
            let node = format!("n{}", index % 3);
            fleet::leave(&mut plan, &name, &node, &[&format!("w{index}-7f-x")]);
        }
    }
    plan
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_rendering_is_sound(plan in some_plan()) {
        for target in [Target::Native, Target::GpuOperator] {
            check_all(&plan, target);
        }
    }
}
