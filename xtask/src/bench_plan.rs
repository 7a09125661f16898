//! `cargo xtask bench-plan`: how long the whole of `tesela plan` takes on the example with 20 nodes, with a week of use of
//! every GPU pod, prices, what-ifs and the report. Prints figures, asserts none.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::bench_observe::{program, timed};

const CLUSTER: &str = "examples/mixed-fleet/cluster.json";
/// Hours of use, as a query over a week answers them.
const HOURS: u64 = 24 * 7;
/// The first moment of that week, in seconds since 1970.
const FIRST: u64 = 1_795_392_000;
const RUNS: usize = 9;
/// Made up; what they are does not matter for the time.
const PRICES: [&str; 5] =
    ["h100-sxm-80gb=3.00/h", "a100-40gb=1.60/h", "a30-24gb=0.70/h", "NVIDIA-A30=0.70/h", "Tesla-T4=0.30/h"];

/// Runs the task.
pub(crate) fn run(root: &Path) -> Result<()> {
    let program = program(root, &["--release"])?;
    let folder = std::env::temp_dir().join(format!("tesela-bench-plan-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let result = measure(&program, root, &folder);
    let _ = std::fs::remove_dir_all(&folder);
    result
}

fn measure(program: &str, root: &Path, folder: &Path) -> Result<()> {
    let cluster = root.join(CLUSTER);
    let text = std::fs::read_to_string(&cluster).with_context(|| format!("cannot read {CLUSTER}"))?;
    let pods = gpu_pods(&serde_json::from_str(&text)?);
    let usage = folder.join("usage.json");
    std::fs::write(&usage, serde_json::to_string(&answer(&pods))?)?;
    let bytes = std::fs::metadata(&usage)?.len();
    let page = folder.join("plan.html");
    let path = |path: &Path| path.to_str().map(str::to_owned).context("a path that is no text");
    let (cluster, usage, page) = (path(&cluster)?, path(&usage)?, path(&page)?);

    let mut all = vec!["plan", &cluster, "--usage", &usage, "--html", &page];
    all.extend(PRICES.iter().flat_map(|price| ["--price", price]));
    println!(
        "20 nodes, {} pods with GPUs, {} kB of use ({HOURS} hours, two series a pod)\n",
        pods.len(),
        bytes / 1000
    );
    println!("| `tesela plan` with | median, ms | slowest, ms | peak memory, MiB |");
    println!("| --- | --- | --- | --- |");
    for (what, words) in [("the cluster alone", &all[..2]), ("use, prices and the report", &all[..])] {
        let (mut times, mut peak) = (Vec::new(), 0);
        for _ in 0..RUNS {
            let run = timed(program, words)?;
            times.push(run.time);
            peak = peak.max(run.peak_kib);
        }
        times.sort_unstable();
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        println!("| {what} | {:.0} | {:.0} | {} |", ms(times[RUNS / 2]), ms(times[RUNS - 1]), peak / 1024);
    }
    Ok(())
}

/// Namespace and name of every running pod that asks for a GPU.
fn gpu_pods(cluster: &Value) -> Vec<(String, String)> {
    let items = cluster["items"].as_array().map_or(&[][..], Vec::as_slice);
    let asks = |pod: &Value| {
        let containers = pod["spec"]["containers"].as_array().map_or(&[][..], Vec::as_slice);
        let limits = containers.iter().filter_map(|c| c["resources"]["limits"].as_object());
        limits.flat_map(|l| l.keys()).any(|name| name.starts_with("nvidia.com/"))
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    items
        .iter()
        .filter(|item| item["kind"] == "Pod" && item["status"]["phase"] == "Running" && asks(item))
        .map(|pod| (text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"])))
        .collect()
}

/// What Prometheus would answer: memory in use and the share of time at work, hour by hour, made up.
fn answer(pods: &[(String, String)]) -> Value {
    let mut series = Vec::new();
    for (p, (namespace, pod)) in (0u64..).zip(pods) {
        for (metric, most) in [("DCGM_FI_DEV_FB_USED", 9_000), ("DCGM_FI_DEV_GPU_UTIL", 60)] {
            // Any numbers that go up and down will do.
            let value = |hour: u64| (p * 131 + hour * hour * 17) % most + most / 10;
            let values: Vec<Value> =
                (0..HOURS).map(|hour| json!([FIRST + hour * 3600, value(hour).to_string()])).collect();
            series.push(json!({
                "metric": {"metric": metric, "namespace": namespace, "pod": pod, "container": "main", "UUID": format!("GPU-{p}")},
                "values": values,
            }));
        }
    }
    json!({"status": "success", "data": {"resultType": "matrix", "result": series}})
}
