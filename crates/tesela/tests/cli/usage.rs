//! `plan --usage`: from saved answers to a plan, what is refused, and the queries that are printed.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::{Run, folder, run, run_in};

/// A node of four A30, and pods as (workload, pod, image, arguments), each on a whole GPU.
fn cluster(pods: &[(&str, &str, &str, Value)]) -> Value {
    let resources = json!({"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "4"});
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n", "labels": {"nvidia.com/gpu.product": "NVIDIA-A30", "nvidia.com/gpu.count": "4",
            "nvidia.com/gpu.memory": "24576"}},
        "spec": {}, "status": {"capacity": resources, "allocatable": resources},
    });
    let pod = |(workload, name, image, args): &(&str, &str, &str, Value)| {
        let request = json!({"nvidia.com/gpu": "1"});
        let owner = json!({"kind": "StatefulSet", "name": workload, "controller": true});
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "a", "ownerReferences": [owner]},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": image, "args": args,
                "env": [{"name": "TOKEN", "value": "do-not-show"}], "resources": {"limits": request}}]},
            "status": {"phase": "Running"},
        })
    };
    let items = std::iter::once(node).chain(pods.iter().map(pod)).collect::<Vec<_>>();
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

fn plain() -> Value {
    cluster(&[
        ("web", "web-0", "app", json!([])),
        ("web", "web-1", "app", json!([])),
        ("lone", "lone-0", "app", json!([])),
    ])
}

/// A series of one value per five minutes, for a pod of namespace `a`.
fn series(metric: &str, pod: &str, values: impl Iterator<Item = String>) -> Value {
    let values =
        values.enumerate().map(|(k, value)| json!([1_764_000_000 + 300 * k, value])).collect::<Vec<_>>();
    json!({"metric": {"__name__": metric, "namespace": "a", "pod": pod, "UUID": "GPU-1"}, "values": values})
}

fn answer(result: &[Value]) -> String {
    json!({"status": "success", "data": {"resultType": "matrix", "result": result}}).to_string()
}

/// Memory in MiB and percent of the time, the same for so many samples.
fn used(pod: &str, mib: u32, percent: u32, samples: usize) -> String {
    let same = |value: u32| std::iter::repeat_n(value.to_string(), samples);
    answer(&[
        series("DCGM_FI_DEV_FB_USED", pod, same(mib)),
        series("DCGM_FI_DEV_GPU_UTIL", pod, same(percent)),
    ])
}

/// A folder with the cluster and an answer.
fn with(test: &str, cluster: &Value, usage: &str) -> PathBuf {
    let folder = folder(&format!("usage_{test}"));
    std::fs::write(folder.join("cluster.json"), cluster.to_string()).unwrap();
    std::fs::write(folder.join("usage.json"), usage).unwrap();
    folder
}

const WORDS: [&str; 4] = ["plan", "cluster.json", "--usage", "usage.json"];

fn planned(folder: &Path, more: &[&str]) -> Run {
    run_in(folder, &[&WORDS[..], more].concat())
}

fn json_of(folder: &Path, more: &[&str]) -> Value {
    planned(folder, &[more, &["--format", "json"]].concat()).json()
}

fn assignment<'a>(plan: &'a Value, workload: &str) -> &'a Value {
    let list = plan["assignments"].as_array().unwrap();
    list.iter().find(|a| a["workload"] == workload).unwrap_or_else(|| panic!("{workload}: {plan:#}"))
}

fn finding<'a>(plan: &'a Value, rule: &str) -> Option<&'a Value> {
    plan["findings"].as_array().unwrap().iter().find(|f| f["rule"] == rule)
}

#[test]
fn measured_work_leaves_its_whole_gpu() {
    let folder = with(
        "leaves",
        &plain(),
        &format!("{}\n{}\n", used("web-0", 4000, 15, 300), used("web-1", 5000, 20, 300)),
    );
    let plan = json_of(&folder, &[]);
    let web = assignment(&plan, "web");
    assert_ne!(web["mode"], "exclusive");
    // 5,000 Mi and a tenth of it, less the context that the plan adds.
    assert!(web["reason"].as_str().unwrap().contains("needs 5000Mi of GPU memory"), "{web}");
    assert_eq!(assignment(&plan, "lone")["mode"], "exclusive");
    assert!(finding(&plan, "need-unknown").is_none());
    assert!(finding(&plan, "usage-missing").unwrap()["message"].as_str().unwrap().contains("lone"));
    let measured =
        plan["assumptions"].as_array().unwrap().iter().find(|a| a["subject"] == "measured use").unwrap();
    assert_eq!(measured["origin"], "measured");
    assert!(measured["value"].as_str().unwrap().contains("over 24 hours"), "{measured}");
    let busy = with(
        "busy",
        &plain(),
        &format!("{}\n{}\n", used("web-0", 4000, 70, 300), used("web-1", 5000, 60, 300)),
    );
    let kept = json_of(&busy, &[]);
    assert_eq!(assignment(&kept, "web")["mode"], "exclusive", "a quarter of the compute is too little");
    let without = run_in(&folder, &["plan", "cluster.json", "--format", "json"]).json();
    assert_eq!(assignment(&without, "web")["mode"], "exclusive");
}

#[test]
fn what_was_measured_is_written_and_what_is_given_wins() {
    let folder = with("written", &plain(), &used("web-0", 4000, 20, 300));
    let told = planned(&folder, &["--write-demand", "demand.yaml"]);
    assert!(told.stdout.contains("--usage usage.json"), "the command to plan again has it: {told}");
    let text = std::fs::read_to_string(folder.join("demand.yaml")).unwrap();
    let web = &text[text.find("name: web").unwrap()..];
    for part in ["gpuMemory:", "value: 3900Mi", "origin: measured", "value: \"20%\""] {
        assert!(web.contains(part), "{part}: {text}");
    }
    let again = json_of(&folder, &["demand.yaml"]);
    assert_eq!(again, json_of(&folder, &[]));
    let given = "apiVersion: tesela.dev/v1alpha1\nkind: Demand\nspec:\n  workloads:\n  - {name: web, namespace: a, gpuMemory: 9Gi}\n";
    std::fs::write(folder.join("given.yaml"), given).unwrap();
    let plan = json_of(&folder, &["given.yaml"]);
    assert!(assignment(&plan, "web")["reason"].as_str().unwrap().contains("needs 9Gi"), "{plan:#}");
}

#[test]
fn a_reservation_is_no_need_and_secrets_stay_inside() {
    let args = json!([
        "serve",
        "do-not-show/model-7b",
        "--api-key=do-not-show",
        "--max-model-len",
        "4096",
        "--dtype",
        "half"
    ]);
    let served = cluster(&[("chat", "chat-0", "vllm/vllm-openai:v0.11.2", args)]);
    let folder = with("reservation", &served, &used("chat-0", 21_000, 60, 300));
    let plan = json_of(&folder, &[]);
    assert_eq!(assignment(&plan, "chat")["mode"], "exclusive");
    let told = finding(&plan, "server-reserves-memory").unwrap();
    assert_eq!(told["subject"], "StatefulSet/a/chat");
    assert!(told["message"].as_str().unwrap().contains("21000Mi"), "{told}");
    let fix = told["fix"].as_str().unwrap();
    assert!(
        fix.starts_with(
            "tesela estimate --parameters 7b --data-type fp16 --context 4096 (put in --concurrency"
        ),
        "{fix}"
    );
    for more in [&["--format", "json"][..], &["--findings", "all"], &["--write-demand", "d.yaml"]] {
        let told = planned(&folder, more);
        assert!(!told.to_string().contains("do-not-show"), "{told}");
    }
    assert!(!std::fs::read_to_string(folder.join("d.yaml")).unwrap().contains("do-not-show"));
    let quiet = run_in(&folder, &["plan", "cluster.json", "--format", "json"]).json();
    assert!(finding(&quiet, "server-reserves-memory").is_none(), "without --usage nothing changes");
}

#[test]
fn doubtful_evidence_is_taken_and_said() {
    let values = ["700", "NaN", "900"].map(str::to_owned);
    let gone = series("DCGM_FI_DEV_FB_USED", "gone-7", values.clone().into_iter());
    let odd = series("DCGM_FI_DEV_FB_USED", "web-0", values.into_iter());
    let clock = series("DCGM_FI_DEV_SM_CLOCK", "web-0", std::iter::once("1".to_owned()));
    let mut back = odd.clone();
    back["values"].as_array_mut().unwrap().reverse();
    let usage = format!("{}{}", answer(&[odd, gone, clock, back]), answer(&[]));
    let plan = json_of(&with("doubtful", &plain(), &usage), &[]);
    for (rule, part) in [
        ("usage-not-numbers", "3 samples are NaN or infinite"),
        ("usage-of-other-pods", "a/gone-7"),
        ("usage-left-out", "DCGM_FI_DEV_SM_CLOCK"),
        ("usage-out-of-order", "times go back in 1 series"),
        ("usage-empty-answer", "1 of 2 queries matched nothing"),
    ] {
        let told = finding(&plan, rule).unwrap_or_else(|| panic!("{rule}: {plan:#}"));
        assert!(told["message"].as_str().unwrap().contains(part), "{told}");
    }
    let short = plan["assumptions"].as_array().unwrap().iter();
    let short = short.clone().find(|a| a["subject"] == "use measured for less than a day").unwrap();
    assert!(short["value"].as_str().unwrap().contains("over 10 minutes"), "{short}");
    assert!(short["if_wrong"].as_str().unwrap().contains("measure a week"), "{short}");
}

#[test]
fn answers_that_tell_nothing_are_refused() {
    let refused = |name: &str, usage: &str, mentions: &[&str]| {
        planned(&with(name, &plain(), usage), &[]).refused(&[&["usage.json"], mentions].concat());
    };
    let error = r#"{"status":"error","errorType":"bad_data","error":"parse error: unexpected end of input"}"#;
    refused("error", error, &["usage.json:1:", "bad_data: parse error"]);
    refused("html", "<html><body>502</body></html>", &["HTML", "--print-usage-query"]);
    refused("cut", &used("web-0", 1, 1, 9)[..200], &["usage.json:1:200", "cut off"]);
    refused("empty", "", &["empty"]);
    refused("nothing", &answer(&[]), &["matched nothing"]);
    refused(
        "metric",
        &used("web-0", 1, 1, 9).replace("DCGM_FI_DEV_", "DCGM_FI_DEVICE_"),
        &["DCGM_FI_DEV_FB_USED"],
    );
    refused(
        "labels",
        &used("web-0", 1, 1, 9).replace("\"pod\"", "\"pods\"").replace("UUID", "id"),
        &["`pods` is near to `pod`"],
    );
    refused("cluster", &plain().to_string(), &["no answer of Prometheus", "kubectl"]);
}

#[test]
fn answers_stand_behind_the_flag_and_need_pods() {
    let folder = with("places", &plain(), &used("web-0", 1, 1, 9));
    let refused =
        |words: &[&str], mentions: &[&str]| run_in(&folder, &[&["plan"], words].concat()).refused(mentions);
    refused(
        &["cluster.json", "usage.json"],
        &["usage.json: is an answer of Prometheus", "--usage usage.json"],
    );
    refused(&["cluster.json", "--usage", "none.json"], &["none.json: there is no such file"]);
    refused(&["cluster.json", "--usage", "usage.json", "--usage", "usage.json"], &["named twice"]);
    refused(&["cluster.json", "--usage", "cluster.json"], &["among the other inputs"]);
    let words = ["cluster.json", "--usage", "usage.json", "--write-demand", "usage.json", "--force"];
    refused(&words, &["usage.json", "would be lost"]);
    std::fs::write(folder.join("demand.yaml"), "apiVersion: tesela.dev/v1alpha1\nkind: Demand\nspec: {}\n")
        .unwrap();
    refused(&["demand.yaml", "--usage", "usage.json"], &["no pods", "kubectl get nodes,pods -A -o json"]);
    refused(&["--usage", "usage.json"], &["<FILE>"]);
}

/// Two that work in the same hours share by their means, and not by who works when.
#[test]
fn who_works_when_decides_who_shares() {
    let both = cluster(&[("day", "day-0", "app", json!([])), ("dusk", "dusk-0", "app", json!([]))]);
    let hours = |pod: &str| {
        let busy = |k: usize| if k % 288 < 96 { "100" } else { "0" }.to_owned();
        let memory = std::iter::repeat_n("2000".to_owned(), 7 * 288);
        let util = series("DCGM_FI_DEV_GPU_UTIL", pod, (0..7 * 288).map(busy));
        answer(&[series("DCGM_FI_DEV_FB_USED", pod, memory), util])
    };
    let folder = with("joint", &both, &format!("{}{}", hours("day-0"), hours("dusk-0")));
    let apart =
        ["day", "dusk"].map(|one| assignment(&json_of(&folder, &["--at-once", "1"]), one)["mode"].clone());
    assert!(!apart.contains(&json!("timeSliced")), "{apart:?}");
    let evidence = json_of(&folder, &["--at-once", "1"]);
    let joint = evidence["assumptions"].as_array().unwrap().iter().find(|a| a["subject"] == "joint activity");
    assert!(joint.unwrap()["value"].as_str().unwrap().contains("2 workloads over 2016 windows"), "{joint:?}");
    let by_means = planned(&folder, &["--width", "200"]);
    assert!(by_means.stdout.contains("works 34 % of the time"), "{by_means}");
}

#[test]
fn snapshots_are_a_series() {
    let folder = with("snapshots", &plain(), "");
    let night = cluster(&[("web", "web-0", "app", json!([])), ("batch", "batch-0", "app", json!([]))]);
    std::fs::write(folder.join("night.json"), night.to_string()).unwrap();
    let plan = run_in(&folder, &["plan", "night.json", "cluster.json", "--format", "json"]).json();
    let pods = |workload: &str| -> u64 {
        let list = plan["assignments"].as_array().unwrap().iter().filter(|a| a["workload"] == workload);
        list.map(|a| a["count"].as_u64().unwrap()).sum()
    };
    assert_eq!((pods("web"), pods("lone"), pods("batch")), (2, 1, 1));
    let told = finding(&plan, "snapshots-as-series").unwrap()["message"].as_str().unwrap();
    assert!(told.contains("2 snapshots") && told.contains("StatefulSet/a/batch (1 of 2)"), "{told}");
}

#[test]
fn the_queries_for_people_and_programs() {
    insta::assert_snapshot!(run(&["plan", "--print-usage-query"]));
    let all = run(&["plan", "--print-usage-query", "--format", "json"]).json();
    let queries = all["queries"].as_array().unwrap();
    assert_eq!((queries.len(), &all["step"]), (6, &json!("5m")));
    assert!(
        queries
            .iter()
            .any(|q| q["labels"] == "exported" && q["query"].as_str().unwrap().contains("exported_pod!="))
    );
}

/// The script is one that a shell understands, and each query reaches curl as one word.
#[test]
fn the_script_runs() {
    let script = run(&["plan", "--print-usage-query"]).stdout;
    let folder = folder("usage_script");
    let fake =
        "curl() { for word in \"$@\"; do case \"$word\" in query=*) printf '%s' \"$word\";; esac; done; }\n";
    std::fs::write(folder.join("ask.sh"), format!("{fake}{script}")).unwrap();
    let mut shell = std::process::Command::new("/bin/sh");
    let done = shell.arg("ask.sh").current_dir(&folder).output().unwrap();
    assert!(done.status.success() && done.stderr.is_empty(), "{}", String::from_utf8_lossy(&done.stderr));
    let asked = std::fs::read_to_string(folder.join("usage.json")).unwrap();
    let lines = asked.lines().collect::<Vec<_>>();
    assert_eq!(lines.len(), 3, "{asked}");
    assert!(
        lines.iter().all(|l| l.starts_with("query=label_replace(max by (namespace, pod, container")),
        "{asked}"
    );
}
