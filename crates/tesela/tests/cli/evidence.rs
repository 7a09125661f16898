//! `plan --usage` where the answer tells less than it seems to: pods that are young, fail or never load anything,
//! programs that reserve, other clusters, and hours of which one workload has no samples.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::harness::{Run, folder, run_in};

/// When the answers end: 2026-11-30T00:00:00Z.
const END: u64 = 1_795_996_800;
const STEP: u64 = 300;
/// Samples of a day.
const DAY: u64 = 288;

/// Nodes with one GPU each, and pods.
fn cluster(product: (&str, u32), nodes: &[&str], pods: &[Value]) -> Value {
    let node = |name: &&str| {
        let resources = json!({"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "1"});
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": product.0, "nvidia.com/gpu.count": "1",
                "nvidia.com/gpu.memory": product.1.to_string()}},
            "spec": {}, "status": {"capacity": resources, "allocatable": resources},
        })
    };
    json!({"apiVersion": "v1", "kind": "List", "items": nodes.iter().map(node).chain(pods.iter().cloned()).collect::<Vec<_>>()})
}

/// A pod `<name>-0` of namespace `a` on a whole GPU, started so many samples before the end.
fn pod(kind: &str, name: &str, node: &str, age: u64) -> Value {
    let start = utc(END - age * STEP);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("{name}-0"), "namespace": "a", "creationTimestamp": start,
            "ownerReferences": [{"kind": kind, "name": name, "controller": true}]},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "registry.example.com/app:1",
            "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
        "status": {"phase": "Running", "startTime": start},
    })
}

/// A time of the last days of November 2026.
fn utc(second: u64) -> String {
    let before = END - second;
    let (days, rest) = (before.div_ceil(86_400), (86_400 - before % 86_400) % 86_400);
    format!("2026-11-{:02}T{:02}:{:02}:{:02}Z", 30 - days, rest / 3600, rest / 60 % 60, rest % 60)
}

/// Labels of a pod's series on a node.
fn of(pod: &str, node: &str) -> Value {
    json!({"namespace": "a", "pod": pod, "Hostname": node, "UUID": format!("GPU-{pod}")})
}

/// A series of one value every five minutes up to the end; `None` = no sample.
fn series(metric: &str, labels: &Value, values: impl IntoIterator<Item = Option<f64>>) -> Value {
    let values = values.into_iter().collect::<Vec<_>>();
    let from = END - STEP * values.len() as u64;
    let sample =
        |(k, value): (usize, &Option<f64>)| Some(json!([from + STEP * k as u64, (*value)?.to_string()]));
    let mut metric_of = labels.clone();
    metric_of["__name__"] = json!(metric);
    json!({"metric": metric_of, "values": values.iter().enumerate().filter_map(sample).collect::<Vec<_>>()})
}

/// Memory in MiB and share of the time at work, the same for so many samples.
fn steady(labels: &Value, mib: f64, share: f64, samples: u64) -> [Value; 2] {
    let same = |value: f64| (0..samples).map(move |_| Some(value));
    [
        series("DCGM_FI_DEV_FB_USED", labels, same(mib)),
        series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", labels, same(share)),
    ]
}

fn prepared(test: &str, cluster: &Value, result: &[Value]) -> PathBuf {
    let folder = folder(&format!("evidence_{test}"));
    let answer = json!({"status": "success", "data": {"resultType": "matrix", "result": result}});
    std::fs::write(folder.join("cluster.json"), cluster.to_string()).unwrap();
    std::fs::write(folder.join("usage.json"), answer.to_string()).unwrap();
    folder
}

struct Planned(Value);

impl Planned {
    fn new(test: &str, cluster: &Value, result: &[Value], more: &[&str]) -> Self {
        let plan = run(test, cluster, result, more).json();
        // What is said of it is said in Spanish too.
        let page = ["plan", "cluster.json", "--usage", "usage.json", "--html", "page.html", "--lang", "es"];
        let folder = prepared(test, cluster, result);
        run_in(&folder, &[&page[..], more].concat());
        let page = std::fs::read_to_string(folder.join("page.html")).unwrap();
        let english = page.split("<span lang=\"en\">").nth(1);
        assert!(english.is_none(), "a sentence is told in English: {}", &english.unwrap_or_default()[..200]);
        Self(plan)
    }

    fn mode(&self, workload: &str) -> &str {
        let list = self.0["assignments"].as_array().unwrap();
        let one = list.iter().find(|a| a["workload"] == workload);
        one.unwrap_or_else(|| panic!("{workload}: {:#}", self.0))["mode"].as_str().unwrap()
    }

    fn told(&self, rule: &str) -> Option<&str> {
        let found = self.0["findings"].as_array().unwrap().iter().find(|f| f["rule"] == rule);
        found.map(|f| f["message"].as_str().unwrap())
    }

    #[track_caller]
    fn says(&self, rule: &str, part: &str) {
        let told = self.told(rule).unwrap_or_else(|| panic!("{rule}: {:#}", self.0));
        assert!(told.contains(part), "{rule}: {told}");
    }

    fn rests_on(&self, subject: &str) -> Option<&str> {
        let found = self.0["assumptions"].as_array().unwrap().iter().find(|a| a["subject"] == subject);
        found.map(|a| a["value"].as_str().unwrap())
    }
}

fn run(test: &str, cluster: &Value, result: &[Value], more: &[&str]) -> Run {
    let folder = prepared(test, cluster, result);
    run_in(&folder, &[&["plan", "cluster.json", "--usage", "usage.json", "--format", "json"], more].concat())
}

const H100: (&str, u32) = ("NVIDIA-H100-80GB-HBM3", 81_559);

/// Two workloads on two nodes; the second is as old as told.
fn two(kind: &str, age: u64) -> Value {
    cluster(H100, &["n1", "n2"], &[pod("StatefulSet", "old", "n1", 20 * DAY), pod(kind, "young", "n2", age)])
}

/// Use of both over a week, both at work in the same half hours.
fn both(young: impl Fn(u64) -> bool) -> Vec<Value> {
    let busy = |k: u64| if k % 12 < 4 { 0.8 } else { 0.0 };
    let week = || 0..7 * DAY;
    let memory = |_| Some(4000.0);
    vec![
        series("DCGM_FI_DEV_FB_USED", &of("old-0", "n1"), week().map(memory)),
        series("DCGM_FI_DEV_FB_USED", &of("young-0", "n2"), week().map(memory)),
        series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", &of("old-0", "n1"), week().map(|k| Some(busy(k)))),
        series(
            "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
            &of("young-0", "n2"),
            week().map(|k| young(k).then(|| busy(k))),
        ),
    ]
}

#[test]
fn a_window_without_a_sample_is_not_idle() {
    let at_once = ["--at-once", "1"];
    // All the week: they meet, and share nothing.
    let known = Planned::new("known", &two("StatefulSet", 20 * DAY), &both(|_| true), &at_once);
    assert!(
        known.rests_on("joint activity").unwrap().contains("2 workloads over 2016 windows"),
        "{:#}",
        known.0
    );
    assert_eq!((known.mode("old"), known.mode("young")), ("exclusive", "exclusive"));
    assert_eq!((known.told("activity-in-part"), known.told("activity-not-covered")), (None, None));
    // The last day only: nothing is known of the six days before.
    let young = Planned::new("young", &two("StatefulSet", DAY), &both(|k| k >= 6 * DAY), &at_once);
    assert!(
        young.rests_on("joint activity").unwrap().contains("1 workload over 2016 windows"),
        "{:#}",
        young.0
    );
    young.says("activity-not-covered", "StatefulSet/a/young");
    assert_eq!(young.mode("old"), "exclusive");
    // The last five days: what is compared are those.
    let five = Planned::new("five", &two("StatefulSet", 5 * DAY), &both(|k| k >= 2 * DAY), &at_once);
    let joint = five.rests_on("joint activity").unwrap();
    assert!(joint.contains("2 workloads over 1440 windows"), "{joint}");
    five.says("activity-in-part", "1440 of 2016 windows");
    assert_eq!((five.mode("old"), five.mode("young")), ("exclusive", "exclusive"));
}

#[test]
fn a_job_that_is_not_there_does_not_work() {
    let job = Planned::new("job", &two("Job", DAY), &both(|k| k >= 6 * DAY), &["--at-once", "1"]);
    let joint = job.rests_on("joint activity").unwrap();
    assert!(joint.contains("2 workloads over 2016 windows"), "{joint}");
    // It runs since a day; a gap in that day is not known.
    let gaps = |k: u64| k >= 6 * DAY && !k.is_multiple_of(6);
    let job = Planned::new("job_gaps", &two("Job", DAY), &both(gaps), &["--at-once", "1"]);
    let joint = job.rests_on("joint activity").unwrap();
    assert!(joint.contains(&format!("2 workloads over {} windows", 7 * DAY - DAY / 6)), "{joint}");
}

#[test]
fn too_few_common_windows_are_none() {
    // Each covers more than half of what was measured, and together they have six windows.
    let n = 11;
    let half = |from: u64, to: u64| (0..2 * n).map(move |k| (from..to).contains(&k).then_some(0.5));
    let engine = "DCGM_FI_PROF_GR_ENGINE_ACTIVE";
    let result = [
        series(engine, &of("old-0", "n1"), half(0, n + 3)),
        series(engine, &of("young-0", "n2"), half(n - 3, 2 * n)),
    ];
    run("few", &two("StatefulSet", 20 * DAY), &result, &["--at-once", "1"])
        .refused(&["--at-once", "at least 12 windows"]);
}

#[test]
fn use_from_before_a_pod_started_is_not_its_own() {
    let week = 7 * DAY;
    let labelled =
        [steady(&of("old-0", "n1"), 3000.0, 0.05, week), steady(&of("young-0", "n2"), 3000.0, 0.05, week)]
            .concat();
    let plan = Planned::new("namesake", &two("StatefulSet", 13), &labelled, &[]);
    let short = plan.rests_on("use measured for less than a day").unwrap();
    assert!(short.starts_with("of 1 workload over 60 minutes"), "{short}");
    plan.says("usage-of-namesakes", "samples of 1 pod are from before");
    plan.says("usage-of-namesakes", "a/young-0");
    // Nothing is left of a pod that started after the answer.
    let plan = Planned::new("newborn", &two("StatefulSet", 0), &labelled, &[]);
    plan.says("usage-missing", "StatefulSet/a/young");
    assert_eq!(plan.mode("young"), "exclusive");
    // The same for series without a pod, on nodes that a pod holds whole.
    let bare = |node: &str| json!({"Hostname": node, "UUID": format!("GPU-{node}")});
    let bare = [steady(&bare("n1"), 3000.0, 0.05, week), steady(&bare("n2"), 3000.0, 0.05, week)].concat();
    let plan = Planned::new("bare", &two("StatefulSet", 13), &bare, &[]);
    let short = plan.rests_on("use measured for less than a day").unwrap();
    assert!(short.starts_with("of 1 workload over 60 minutes"), "{short}");
    plan.says("usage-before-pods", "GPU-n2 of n2");
    // A pod of that name on another node is another pod.
    let moved =
        [steady(&of("old-0", "n1"), 3000.0, 0.05, week), steady(&of("young-0", "n1"), 3000.0, 0.05, week)]
            .concat();
    let plan = Planned::new("moved", &two("StatefulSet", 20 * DAY), &moved, &[]);
    plan.says("usage-of-namesakes", "a/young-0");
    assert_eq!(plan.mode("young"), "exclusive");
}

/// Snapshots of earlier days know the pod that had the name then.
#[test]
fn an_earlier_snapshot_knows_the_pod_before() {
    let week = 7 * DAY;
    let labelled =
        [steady(&of("old-0", "n1"), 3000.0, 0.05, week), steady(&of("young-0", "n2"), 3000.0, 0.05, week)]
            .concat();
    let folder = prepared("earlier", &two("StatefulSet", 13), &labelled);
    std::fs::write(folder.join("before.json"), two("StatefulSet", 7 * DAY).to_string()).unwrap();
    let words = ["plan", "before.json", "cluster.json", "--usage", "usage.json", "--format", "json"];
    let plan = Planned(run_in(&folder, &words).json());
    assert_eq!(plan.told("usage-of-namesakes"), None);
    assert!(plan.rests_on("measured use").unwrap().starts_with("of 2 workloads over 7 days"), "{:#}", plan.0);
}

#[test]
fn absence_of_work_is_no_need() {
    let idle =
        [steady(&of("old-0", "n1"), 9000.0, 0.3, 7 * DAY), steady(&of("young-0", "n2"), 300.0, 0.0, 7 * DAY)]
            .concat();
    let plan = Planned::new("nothing", &two("StatefulSet", 20 * DAY), &idle, &[]);
    assert_eq!((plan.mode("old"), plan.mode("young")), ("exclusive", "exclusive"));
    plan.says(
        "usage-below-context",
        "used at most 300Mi of GPU memory in the 7 days that were measured, less than the 500Mi",
    );
    assert_eq!(plan.told("gpu-idle-as-measured"), None, "one finding is enough");
    assert!(plan.rests_on("measured use").unwrap().starts_with("of 1 workload "), "{:#}", plan.0);
    // A pod that dies again and again has loaded something, but who knows what it needs when it lives.
    let mut dying = two("StatefulSet", 20 * DAY);
    let state =
        json!([{"name": "c", "restartCount": 900, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]);
    dying["items"][3]["status"]["containerStatuses"] = state;
    let some = [
        steady(&of("old-0", "n1"), 9000.0, 0.3, 7 * DAY),
        steady(&of("young-0", "n2"), 700.0, 0.01, 7 * DAY),
    ]
    .concat();
    let plan = Planned::new("dying", &dying, &some, &[]);
    assert_eq!(plan.mode("young"), "exclusive");
    plan.says("usage-of-failing-pods", "die again and again");
    // A sidecar's trouble is not the program's.
    dying["items"][3]["status"]["containerStatuses"][0]["name"] = json!("sidecar");
    let plan = Planned::new("sidecar", &dying, &some, &[]);
    assert_eq!(plan.told("usage-of-failing-pods"), None);
    assert!(plan.rests_on("measured use").unwrap().starts_with("of 2 workloads "), "{:#}", plan.0);
}

/// Whatever the program is called: memory that nearly fills the device and stays there is no need.
#[test]
fn what_looks_like_a_reservation_is_no_need() {
    let a30 = ("NVIDIA-A30", 24_576);
    let cluster = cluster(a30, &["n1"], &[pod("StatefulSet", "served", "n1", 20 * DAY)]);
    let of = of("served-0", "n1");
    let with = |test: &str, memory: &dyn Fn(u64) -> f64| {
        let memory = series("DCGM_FI_DEV_FB_USED", &of, (0..3 * DAY).map(|k| Some(memory(k))));
        let engine = steady(&of, 0.0, 0.05, 3 * DAY)[1].clone();
        Planned::new(test, &cluster, &[memory, engine], &[])
    };
    // Minutes of loading do not hide it.
    for (test, memory) in [
        ("flat", &(|_| 22_000.0) as &dyn Fn(u64) -> f64),
        ("loading", &|k| if k < 3 { 9000.0 } else { 22_000.0 }),
    ] {
        let plan = with(test, memory);
        plan.says("usage-looks-reserved", "stayed near the peak of 22000Mi in the 3 days");
        assert_eq!(plan.mode("served"), "exclusive");
        assert!(!plan.0["assignments"][0]["reason"].as_str().unwrap().contains("needs 2"), "{:#}", plan.0);
    }
    for (test, memory) in [
        ("small", &(|_| 19_000.0) as &dyn Fn(u64) -> f64),
        ("waves", &|k| if k % 2 == 0 { 18_000.0 } else { 22_000.0 }),
    ] {
        assert_eq!(with(test, memory).told("usage-looks-reserved"), None, "{test}");
    }
}

#[test]
fn series_of_another_cluster_are_left_out() {
    let at = |pod: &str, node: &str, cluster: &str| {
        let mut labels = of(pod, node);
        labels["cluster"] = json!(cluster);
        labels
    };
    let cluster = two("StatefulSet", 20 * DAY);
    let use_of = |labels: &Value, mib: f64| steady(labels, mib, 0.05, 7 * DAY);
    // Of staging only, where both pods are on one node; here they are on two.
    let staging =
        [use_of(&at("old-0", "s7", "staging"), 900.0), use_of(&at("young-0", "s7", "staging"), 900.0)]
            .concat();
    let plan = Planned::new("staging", &cluster, &staging, &[]);
    plan.says("usage-of-other-nodes", "4 series are of what is no node");
    plan.says("usage-missing", "2 of 2 workloads");
    assert_eq!((plan.mode("old"), plan.mode("young")), ("exclusive", "exclusive"));
    // Of both: those of the input's nodes count, whichever come first.
    let prod = [use_of(&at("old-0", "n1", "prod"), 30_000.0), use_of(&at("young-0", "n2", "prod"), 30_000.0)]
        .concat();
    for (test, mixed) in
        [("prod_first", [prod.clone(), staging.clone()]), ("prod_last", [staging.clone(), prod.clone()])]
    {
        let plan = Planned::new(test, &cluster, &mixed.concat(), &[]);
        plan.says("usage-of-other-nodes", "left out: s7");
        assert!(plan.rests_on("measured use").unwrap().starts_with("of 2 workloads"), "{:#}", plan.0);
        let reason = &plan.0["assignments"][0]["reason"];
        assert!(reason.as_str().unwrap().contains("needs 32500Mi"), "{reason}");
        assert_eq!(plan.told("usage-of-several-clusters"), None);
    }
    // Two clusters with the same names of nodes cannot be told apart, and that is said.
    let twins = [prod, use_of(&at("old-0", "n1", "east"), 900.0).to_vec()].concat();
    Planned::new("twins", &cluster, &twins, &[]).says("usage-of-several-clusters", "2 values: east, prod");
}

/// Exporters write the name of their own pod where nobody told them the node's.
#[test]
fn a_name_in_place_of_a_node_is_no_other_cluster() {
    let cluster = two("StatefulSet", 20 * DAY);
    let named = |names: [&str; 2]| {
        [
            steady(&of("old-0", names[0]), 3000.0, 0.05, 7 * DAY),
            steady(&of("young-0", names[1]), 3000.0, 0.05, 7 * DAY),
        ]
        .concat()
    };
    for (test, names, told) in [
        ("exporter", ["nvidia-dcgm-exporter-abcde", "nvidia-dcgm-exporter-fghij"], false),
        ("some", ["n1", "nvidia-dcgm-exporter-fghij"], false),
        ("domain", ["n1.east.example.com", "N2"], false),
        ("other_names", ["gpu-metrics-abcde", "gpu-metrics-fghij"], true),
    ] {
        let plan = Planned::new(test, &cluster, &named(names), &[]);
        assert_eq!(plan.told("usage-of-other-nodes"), None, "{test}");
        assert_eq!(plan.told("usage-names-no-node").is_some(), told, "{test}");
        assert!(plan.rests_on("measured use").unwrap().starts_with("of 2 workloads"), "{test}: {:#}", plan.0);
    }
}
