//! Several snapshots as a series in time, and servers that reserve memory.

use proptest::prelude::*;
use serde_json::{Value, json};
use tesela_model::server::Program;
use tesela_objects::observe::{Observation, Options};

use crate::build::{list, node, observe, owned, pod, read, with};

fn gpu_node(heard: &str) -> Value {
    let object = node("n", &[("gpu.product", "NVIDIA-L4"), ("gpu.count", "8")], &[("gpu", 8)]);
    let ready = json!([{"type": "Ready", "status": "True", "lastHeartbeatTime": heard}]);
    with(object, "/status/conditions", ready)
}

/// A snapshot at an hour of one day, with pods as (namespace, owner's kind, owner, pods).
fn at(hour: u8, pods: &[(&str, &str, &str, usize)]) -> String {
    let mut items = vec![gpu_node(&format!("2026-11-30T{hour:02}:00:00Z"))];
    items.extend(["kube-system", "monitoring"].map(|namespace| pod(namespace, "d", "n", &[])));
    for (namespace, kind, owner, count) in pods {
        let name = |k| format!("{owner}-{k}");
        items.extend((0..*count).map(|k| owned(pod(namespace, &name(k), "n", &[("gpu", 1)]), kind, owner)));
    }
    list(&items)
}

fn all(texts: &[String]) -> Observation {
    read(&texts.iter().map(String::as_str).collect::<Vec<_>>(), Options::default()).unwrap()
}

fn counts(read: &Observation) -> Vec<(&str, u64, usize)> {
    let running = |w: &tesela_model::demand::Workload| w.running.iter().map(|h| h.pods.len()).sum();
    read.demand.workloads.iter().map(|w| (w.key.name.as_str(), w.count, running(w))).collect()
}

fn message<'a>(read: &'a Observation, rule: &str) -> Option<&'a str> {
    read.findings.iter().find(|f| f.rule == rule).map(|f| f.message.as_str())
}

#[test]
fn each_workload_counts_with_the_most_it_had_at_once() {
    let read = all(&[
        at(1, &[("a", "Deployment", "web", 2), ("b", "StatefulSet", "batch", 3)]),
        at(9, &[("a", "Deployment", "web", 4)]),
        at(17, &[("a", "Deployment", "web", 1), ("a", "Deployment", "new", 1)]),
    ]);
    assert_eq!(counts(&read), [("new", 1, 1), ("web", 4, 1), ("batch", 3, 0)]);
    let told = message(&read, "snapshots-as-series").unwrap();
    for part in ["3 snapshots", "6 pods", "StatefulSet/b/batch (1 of 3)", "Deployment/a/web (3 of 3)"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    // 4 + 3 + 1, and never more than 5 at once.
    assert!(
        told.contains("add up to 8 devices, though at most 5 were asked for at once (today 2)"),
        "{told}"
    );
    assert_eq!(message(&read, "snapshots-out-of-order"), None);
    let batch = read.demand.tenants.iter().find(|t| t.name == "b");
    assert_eq!(batch.map(|t| t.namespaces.clone()), Some(vec!["b".to_owned()]));
    let earlier = read.earlier.iter().find(|(name, _)| name.name == "batch-0").unwrap();
    let [earlier] = &earlier.1[..] else { panic!("{earlier:?}") };
    assert_eq!((earlier.workload.name.as_str(), earlier.node.as_str()), ("batch", "n"));
}

#[test]
fn runs_of_a_cron_job_stand_for_each_other() {
    let night = |minute: &str, pods| at(1, &[("a", "Job", &format!("eval-{minute}"), pods)]);
    let read = all(&[night("29401260", 2), night("29402700", 3), night("29404140", 1)]);
    assert_eq!(counts(&read), [("eval-29404140", 3, 1)]);
    let gone = all(&[night("29401260", 2), night("29402700", 3), at(9, &[])]);
    assert_eq!(counts(&gone), [("eval-29402700", 3, 0)]);
}

#[test]
fn work_that_ends_counts_with_the_most_at_once() {
    let read = all(&[
        at(1, &[("a", "Job", "one", 1), ("a", "Job", "two", 1)]),
        at(2, &[("a", "Job", "three", 1), ("a", "Job", "four", 2)]),
        at(3, &[("a", "Job", "five", 1)]),
        at(4, &[("a", "Job", "six", 1)]),
    ]);
    // Three at once at most: today's, and two of the busiest hour.
    assert_eq!(counts(&read), [("four", 2, 0), ("six", 1, 1)]);
}

#[test]
fn parts_of_one_snapshot_are_no_series() {
    let whole = at(1, &[("a", "Deployment", "web", 2), ("b", "Deployment", "api", 1)]);
    let part = at(1, &[("a", "Deployment", "web", 2)]);
    for texts in [
        // A part that the whole holds too, in either order.
        vec![part.clone(), whole.clone()],
        vec![whole.clone(), whole.clone()],
        // Pods apart from nodes, namespace by namespace.
        vec![
            list(&[gpu_node("2026-11-30T01:00:00Z")]),
            list(&[owned(pod("a", "p", "n", &[("gpu", 1)]), "Deployment", "web")]),
            list(&[owned(pod("b", "p", "n", &[("gpu", 1)]), "Deployment", "web")]),
        ],
    ] {
        let read = all(&texts);
        assert_eq!(message(&read, "snapshots-as-series"), None, "{texts:?}");
        assert!(read.earlier.is_empty());
    }
    assert_eq!(counts(&all(&[part, whole.clone()])), counts(&all(&[whole])));
}

#[test]
fn snapshots_may_come_in_parts() {
    let pods = |namespace: &str, count: usize| {
        let name = |k| format!("p-{k}");
        let one = |k| owned(pod(namespace, &name(k), "n", &[("gpu", 1)]), "Deployment", "web");
        list(&(0..count).map(one).collect::<Vec<_>>())
    };
    let nodes = |hour: u8| list(&[gpu_node(&format!("2026-11-30T{hour:02}:00:00Z"))]);
    let read = all(&[nodes(1), pods("a", 3), pods("b", 1), nodes(2), pods("a", 1), pods("b", 2)]);
    assert_eq!(counts(&read), [("web", 3, 1), ("web", 2, 2)]);
    let told = message(&read, "snapshots-as-series").unwrap();
    assert!(told.contains("2 snapshots"), "{told}");
}

#[test]
fn an_order_that_cannot_be_is_said() {
    let (early, late) = (at(1, &[("a", "Deployment", "web", 1)]), at(9, &[("a", "Deployment", "web", 2)]));
    let told = all(&[late.clone(), early.clone()]);
    let said = message(&told, "snapshots-out-of-order").unwrap();
    assert!(said.contains("2026-11-30T01:00:00Z") && said.contains("2026-11-30T09:00:00Z"), "{said}");
    assert_eq!(message(&all(&[early, late]), "snapshots-out-of-order"), None);
}

#[test]
fn news_of_single_pods_are_no_snapshots() {
    let before = at(1, &[("a", "StatefulSet", "web", 2)]);
    let done = owned(pod("a", "web-0", "n", &[("gpu", 1)]), "StatefulSet", "web");
    let done = with(done, "/status/phase", json!("Succeeded")).to_string();
    assert_eq!(counts(&all(&[before, done])), [("web", 1, 1)]);
}

#[test]
fn servers_are_known_and_nothing_else_of_their_arguments() {
    let mut vllm = owned(pod("a", "p", "n", &[("gpu", 1)]), "Deployment", "chat");
    vllm["spec"]["containers"][0]["image"] = json!("docker.io/vllm/vllm-openai:v0.11.2");
    vllm["spec"]["containers"][0]["args"] =
        json!(["--api-key", "do-not-show", "--model=do-not-show/Llama-3.1-8B", "--max-model-len", "8192"]);
    // A sidecar of that name without a GPU is no server.
    let mut plain = owned(pod("a", "q", "n", &[("gpu", 1)]), "Deployment", "plain");
    let sidecar = json!({"name": "s", "image": "vllm/vllm-openai", "resources": {}});
    plain["spec"]["containers"].as_array_mut().unwrap().push(sidecar);
    let read = observe(&[gpu_node("2026-11-30T01:00:00Z"), vllm, plain]);
    assert_eq!(read.servers.len(), 1);
    let (key, server) = read.servers.first_key_value().unwrap();
    assert_eq!((key.name.as_str(), server.program), ("chat", Program::Vllm));
    assert_eq!((server.context, server.parameters_millions), (Some(8192), Some(8000)));
    assert!(!format!("{read:?}").contains("do-not-show"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Of any snapshots each lasting workload counts with its maximum, and holds what the last one shows.
    #[test]
    fn counts_are_maxima(snapshots in prop::collection::vec([0usize..4, 0..4, 0..4], 1..5)) {
        let names = ["one", "two", "three"];
        let texts = snapshots.iter().zip(1u8..).map(|(counts, hour)| {
            let pods = names.iter().zip(counts).map(|(name, count)| ("a", "Deployment", *name, *count));
            at(hour, &pods.collect::<Vec<_>>())
        });
        let found = all(&texts.collect::<Vec<_>>());
        for (k, name) in names.iter().enumerate() {
            let most = snapshots.iter().map(|counts| counts[k]).max().unwrap() as u64;
            let last = snapshots.last().unwrap()[k];
            let told = counts(&found).into_iter().find(|(n, ..)| n == name).map(|(_, count, running)| (count, running));
            prop_assert_eq!(told, (most > 0).then_some((most, last)), "{} of {:?}", name, snapshots);
        }
    }
}
