//! All steps of an example, carried out by bash against a small cluster, one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Output;
use std::sync::{Arc, Mutex};

use tesela_formats::documents::{DEFAULT_HEADROOM_NODES, Document, merge_all, merge_fleet, read_document};
use tesela_model::fleet::{Fleet, MigStrategy, Mode};
use tesela_model::plan::Plan;
use tesela_model::product::ProductTable;
use tesela_objects::observe::{Observer, Options};
use tesela_objects::render::{Existing, Rendering, Step, Target, render};
use tesela_plan::input::{PlanInput, Settings};

use crate::cluster::{Cluster, KUBECTL, serve};
use crate::fleet;
use crate::scripts::{bash, read, remove, said, write};

fn example(file: &str) -> String {
    let text = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/agents-company").join(file));
    assert!(!text.is_empty(), "{file}");
    text
}

/// The plan of `examples/agents-company`.
fn company() -> Plan {
    let table = ProductTable::builtin();
    let mut observer = Observer::new(table, Options { nodes_elsewhere: true, ..Options::default() });
    observer.read("cluster.json", example("cluster.json").as_bytes()).unwrap();
    let seen = observer.finish().unwrap();
    let mut fleet = Fleet { headroom_nodes: DEFAULT_HEADROOM_NODES, ..seen.fleet };
    let mut demands = Vec::new();
    for file in ["demand.yaml", "fleet.yaml"] {
        for document in read_document(file, example(file).as_bytes(), table).unwrap() {
            match document {
                Document::Fleet(document) => fleet = merge_fleet(fleet, document),
                Document::Demand(document) => demands.push(document),
                _ => {}
            }
        }
    }
    let demand = merge_all(seen.demand, demands.iter());
    let settings = Settings { what_if: false, ..Settings::default() };
    let input =
        PlanInput { products: table, fleet: &fleet, demand: &demand, findings: &[], prices: None, settings };
    tesela_plan::plan(&input)
}

/// A folder of steps and the cluster they are carried out on.
struct Stage {
    root: std::path::PathBuf,
    cluster: Arc<Mutex<Cluster>>,
    port: u16,
    rendering: Rendering,
}

impl Stage {
    /// The example's cluster.
    fn company(test: &str, plan: &Plan) -> Self {
        let cluster = serde_json::from_str(&example("cluster.json")).unwrap();
        let stage = Self::new(test, plan, Target::GpuOperator, &cluster);
        // The one pod whose image does not exist, as the README of the steps asks.
        let warned = "care-test/dialog-canary holds GPUs today and has no place in the plan";
        assert!(stage.rendering.readme.contains(warned), "{}", stage.rendering.readme);
        stage.cluster.lock().unwrap().delete("care-test", "dialog-canary");
        stage
    }

    fn new(test: &str, plan: &Plan, target: Target, cluster: &serde_json::Value) -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("replay-{test}"));
        let _ = remove(&root);
        write(&root.join("bin/kubectl"), KUBECTL, true);
        write(&root.join("bin/sleep"), "#!/bin/sh\n", true);
        let rendering = render(plan, target, &Existing::none()).unwrap();
        let mut cluster = Cluster::read(cluster);
        for file in rendering.files() {
            write(&root.join("out").join(&file.path), &file.text, file.executable);
            let text = |key: &str| {
                let value = file.text.split(&format!("\n{key}='")).nth(1)?.split('\'').next()?;
                Some(value.to_owned())
            };
            let node = text("NODE").filter(|_| file.path.ends_with("change.sh"));
            if let (Some(node), Some(expected)) = (node, text("EXPECTED")) {
                let offers = expected.lines().map(|l| l.split_once('=').unwrap());
                cluster.nodes.get_mut(&node).unwrap().next =
                    offers.map(|(k, v)| (k.to_owned(), v.parse().unwrap())).collect();
            }
        }
        let cluster = Arc::new(Mutex::new(cluster));
        let port = serve(&cluster);
        Self { root, cluster, port, rendering }
    }

    fn run(&self, script: &str) -> Output {
        bash()
            .args(["-c", "PATH=\"$BIN:$PATH\" exec bash \"$0\""])
            .arg(self.root.join("out").join(script))
            .env("BIN", self.root.join("bin"))
            .env("PAPER_PORT", self.port.to_string())
            .env("WAIT_SECONDS", "5")
            .env("EVICT_SECONDS", "0")
            .output()
            .unwrap()
    }

    /// Carries one step out, and says who restarted and who had no ready pod meanwhile.
    fn take(&self, step: &Step) -> (BTreeSet<String>, BTreeSet<String>) {
        self.cluster.lock().unwrap().begin();
        let done = self.run(&format!("{}/change.sh", step.dir));
        assert!(
            done.status.success(),
            "{}: {}{}",
            step.dir,
            said(&done),
            String::from_utf8_lossy(&done.stdout)
        );
        if (18..70).contains(&step.number) && step.number != 50 {
            let done = self.run(&format!("{}/verify.sh", step.dir));
            assert!(done.status.success(), "{}: {}", step.dir, said(&done));
        }
        let cluster = self.cluster.lock().unwrap();
        assert!(cluster.faults.is_empty(), "{}: {:?}", step.dir, cluster.faults);
        let dark = cluster.least.iter().filter(|(_, least)| **least == 0);
        let dark = dark.map(|(w, _)| format!("{}/{}", cluster.works[*w].namespace, cluster.works[*w].name));
        (cluster.restarted.clone(), dark.collect())
    }
}

/// `namespace/workload` in an outage's sentence, and the folders it names.
fn outages(rendering: &Rendering) -> BTreeMap<String, (usize, usize)> {
    let mut spans: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (index, step) in rendering.steps.iter().enumerate() {
        for text in &step.outages {
            let who = text.split(" has no pod").next().unwrap().to_owned();
            let span = spans.entry(who).or_insert((index, index));
            span.1 = index;
        }
    }
    spans
}

#[test]
fn the_example_is_carried_out_without_an_outage_that_is_not_said() {
    let plan = company();
    let stage = Stage::company("company", &plan);
    let spans = outages(&stage.rendering);
    let started: BTreeSet<String> = {
        let cluster = stage.cluster.lock().unwrap();
        let ran = (0..cluster.works.len()).filter(|w| cluster.ready(*w) > 0);
        ran.map(|w| format!("{}/{}", cluster.works[w].namespace, cluster.works[w].name)).collect()
    };
    let mut restarted = BTreeSet::new();
    for (index, step) in stage.rendering.steps.iter().enumerate() {
        let (now, dark) = stage.take(step);
        let named: BTreeSet<String> =
            step.restarts.iter().map(|p| format!("{}/{}", p.namespace, p.name)).collect();
        assert_eq!(now, named, "{} restarts exactly the pods it names", step.dir);
        restarted.extend(now);
        for who in dark.intersection(&started) {
            let said = spans.get(who).is_some_and(|(from, to)| (*from..=*to).contains(&index));
            // A StatefulSet of one pod stops it before the new one starts; its step says so.
            let alone = step.notes.iter().any(|n| {
                let name = who.split_once('/').unwrap().1;
                n.contains("a StatefulSet of one pod") && n.contains(name)
            });
            assert!(said || alone, "{}: {who} has no pod, and no step says so: {spans:?}", step.dir);
        }
    }
    let wanted: BTreeSet<String> =
        plan.restarting.iter().map(|r| format!("{}/{}", r.namespace, r.name)).collect();
    assert_eq!(restarted, wanted, "the pods that the plan names, and no others");
    let cluster = stage.cluster.lock().unwrap();
    for a in &plan.assignments {
        let same = |w: &&crate::cluster::Workload| w.namespace == a.namespace && w.name == a.workload;
        let work = cluster.works.iter().position(|w| same(&w)).unwrap();
        assert!(cluster.ready(work) as u64 >= a.count, "{}/{} is served", a.namespace, a.workload);
    }
    assert!(cluster.nodes.values().filter(|n| n.cordoned).count() <= plan.summary.nodes_free.len());
}

/// A request that is not changed in time stops the next node, which would restart pods that it does not name.
#[test]
fn a_step_that_was_left_out_stops_the_node_behind_it() {
    let plan = company();
    let stage = Stage::company("left-out", &plan);
    let dir = |part: &str| {
        let step = stage.rendering.steps.iter().position(|s| s.dir.contains(part));
        step.unwrap_or_else(|| panic!("no step {part}"))
    };
    let (request, node) = (dir("2-requests/platform"), dir("1-nodes/0001-l4-1"));
    assert!(request < node, "the pods of platform leave l4-1 before it changes");
    for step in &stage.rendering.steps[..request] {
        stage.take(step);
    }
    stage.cluster.lock().unwrap().begin();
    let stopped = stage.run(&format!("{}/change.sh", stage.rendering.steps[node].dir));
    assert!(!stopped.status.success());
    let told = said(&stopped);
    assert!(told.contains("platform/embeddings: 2 pods that this step lets be, the plan knows 0"), "{told}");
    assert!(stage.cluster.lock().unwrap().restarted.is_empty());
}

/// Two pods leave l4-07 with the request they have, so that it comes free.
#[test]
fn pods_move_by_name_to_where_there_is_room_and_the_node_comes_free() {
    let gpu = "nvidia.com/gpu";
    let whole = |n| vec![fleet::gpu("", Mode::Exclusive, Mode::Exclusive); n];
    let mut plan = fleet::empty();
    plan.nodes =
        ["l4-07", "l4-08"].map(|name| fleet::node(name, MigStrategy::None, whole(4))).into_iter().collect();
    for (kind, name, pods) in [("ReplicaSet", "embed", 3), ("StatefulSet", "rank", 1)] {
        let workload = format!("nim/{kind}/{name}");
        let counts = (pods, pods - 1);
        plan.assignments.push(fleet::assignment(
            &workload,
            Mode::Exclusive,
            None,
            (None, gpu),
            "l4-08",
            counts,
        ));
    }
    fleet::leave(&mut plan, "nim/ReplicaSet/embed", "l4-07", &["embed-7f-a"]);
    fleet::leave(&mut plan, "nim/StatefulSet/rank", "l4-07", &["rank-0"]);
    plan.summary.nodes_free = vec!["l4-07".to_owned()];
    let node = |name: &str| {
        serde_json::json!({"kind": "Node", "metadata": {"name": name, "labels": {}},
            "status": {"allocatable": {"nvidia.com/gpu": "4"}}})
    };
    let pod = |name: &str, node: &str, kind: &str, owner: &str, hash: Option<&str>| {
        serde_json::json!({"kind": "Pod", "status": {"phase": "Running"},
            "metadata": {"namespace": "nim", "name": name, "labels": {"pod-template-hash": hash},
                "ownerReferences": [{"kind": kind, "name": owner, "controller": true}]},
            "spec": {"nodeName": node, "containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}})
    };
    let replica = |name: &str, node: &str| pod(name, node, "ReplicaSet", "embed-7f", Some("7f"));
    let cluster = serde_json::json!({"items": [
        node("l4-07"), node("l4-08"),
        replica("embed-7f-a", "l4-07"), replica("embed-7f-b", "l4-08"), replica("embed-7f-c", "l4-08"),
        pod("rank-0", "l4-07", "StatefulSet", "rank", None),
    ]});
    let stage = Stage::new("moves", &plan, Target::Native, &cluster);
    let dirs: Vec<_> = stage.rendering.steps.iter().map(|s| s.dir.as_str()).filter(|d| *d > "17").collect();
    assert_eq!(dirs, ["18-hold-nodes", "30-wave-01/3-moves/0001-l4-07", "60-free-nodes"]);
    let mut restarted = BTreeSet::new();
    for step in &stage.rendering.steps {
        let (now, dark) = stage.take(step);
        let named: BTreeSet<String> =
            step.restarts.iter().map(|p| format!("{}/{}", p.namespace, p.name)).collect();
        assert_eq!(now, named, "{}", step.dir);
        assert!(!dark.contains("nim/embed"), "{} keeps two of its three pods", step.dir);
        restarted.extend(now);
    }
    assert_eq!(restarted.len(), 2);
    let cluster = stage.cluster.lock().unwrap();
    assert!(cluster.nodes["l4-07"].cordoned && !cluster.nodes["l4-08"].cordoned);
    for name in ["embed", "rank"] {
        assert!(cluster.nodes_of(name).iter().all(|n| n == "l4-08"), "{name}");
    }
}
