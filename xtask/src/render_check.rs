//! `cargo xtask render-check [newest|floor|all] [EXAMPLE…]`: everything that `tesela render` writes, applied to a real API
//! server.
//!
//! For each example and both ways of rendering a fresh control plane gets the example's nodes and pods, with the
//! Deployments, StatefulSets, DaemonSets and Jobs that own them. The plan is made of what kubectl prints of that cluster, and
//! must be the plan of the example's file. Then the steps are taken in the order of their README, as a person would: each
//! `change.sh` and `verify.sh` must succeed. At the end no quota is exceeded, a pod that asks for a closed resource is
//! refused with the quota's message, and a planned pod is admitted and runs. At last every `undo.sh`, in reverse order, and
//! the cluster is as it was.
//!
//! Real: etcd, API server, controllers, scheduler, kubectl, and NVIDIA's CRD. Stand-ins: kubelets and GPU stack of the nodes.

mod example;
mod gpu_stack;
mod quotas;
mod seed;
mod snapshot;
mod stage;
mod steps;

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use tesela_testbed::{Binaries, Release};

use self::stage::Stage;

/// An example: its folder and the inputs of its plan.
struct Case {
    name: &'static str,
    inputs: &'static [&'static str],
    /// ConfigMaps that the cluster has and that its nodes' labels name.
    config_maps: Option<&'static str>,
}

const CASES: [Case; 5] = [
    Case { name: "agents-company", inputs: &["demand.yaml", "fleet.yaml", "prices.yaml"], config_maps: None },
    Case { name: "measured", inputs: &["--usage", "usage.json"], config_maps: None },
    Case {
        name: "mixed-fleet",
        inputs: &[],
        config_maps: Some(include_str!("render_check/config_maps/mixed-fleet.json")),
    },
    Case { name: "recut", inputs: &[], config_maps: None },
    Case {
        name: "regulated",
        inputs: &["demand.yaml", "fleet.yaml"],
        config_maps: Some(include_str!("render_check/config_maps/regulated.json")),
    },
];
const TARGETS: [&str; 2] = ["native", "gpu-operator"];

/// Runs the task with the words behind `render-check`.
pub(crate) fn run(root: &Path, words: &[String]) -> Result<()> {
    let mut releases = Vec::new();
    let mut cases = Vec::new();
    for word in words {
        if word == "all" {
            releases.extend(Release::ALL);
        } else if let Some(case) = CASES.iter().find(|case| case.name == word) {
            cases.push(case);
        } else {
            let names = CASES.map(|case| case.name).join(", ");
            releases.push(Release::named(word).with_context(|| format!("no example either: {names}"))?);
        }
    }
    if releases.is_empty() {
        releases.push(Release::Newest);
    }
    if cases.is_empty() {
        cases.extend(&CASES);
    }
    let program = crate::bench_observe::program(root, &[])?;
    releases.into_iter().try_for_each(|release| check(root, &program, release, &cases))
}

fn check(root: &Path, program: &str, release: Release, cases: &[&Case]) -> Result<()> {
    let binaries = Binaries::build(release)?;
    let mut faults = Vec::new();
    for case in cases {
        for target in TARGETS {
            let begin = Instant::now();
            let told = format!("{}, {target}, Kubernetes {}", case.name, release.version()?);
            match Stage::open(root, program, &binaries, case, target).and_then(play) {
                Ok(done) => println!("    {told}: {done}, {:.0} s", begin.elapsed().as_secs_f64()),
                Err(error) => {
                    println!("    {told}: FAULT: {error:#}");
                    faults.push(told);
                }
            }
        }
    }
    ensure!(faults.is_empty(), "faults with {}", faults.join("; "));
    Ok(())
}

/// All steps there and back. Says what was done.
fn play(mut stage: Stage) -> Result<String> {
    let steps = steps::of(&stage.out())?;
    ensure!(!steps.is_empty(), "a rendering without steps");
    stage.prepare()?;
    let before = snapshot::take(&stage.api())?;
    for step in &steps {
        stage.take(step)?;
    }
    let closed = quotas::check(&mut stage)?;
    for step in steps.iter().rev() {
        stage.undo(step)?;
    }
    snapshot::compare(&before, &snapshot::take(&stage.api())?)?;
    stage.finish()?;
    Ok(format!(
        "{} steps taken, verified and undone; {closed} refusals by zero quotas; start {:.1} s",
        steps.len(),
        stage.started.as_secs_f64()
    ))
}

/// A document of JSON.
fn json(text: &str) -> Result<Value> {
    serde_json::from_str(text).context("no JSON")
}

/// A program that must succeed, or end with another code that is allowed; what it prints.
fn call(mut command: std::process::Command, allowed: &[i32]) -> Result<String> {
    let shown = format!("{command:?}");
    let ended = command.output().with_context(|| format!("cannot start {shown}"))?;
    let said = String::from_utf8_lossy(&ended.stderr);
    if !ended.status.code().is_some_and(|code| allowed.contains(&code)) {
        bail!("{shown} ended with {}: {}{said}", ended.status, String::from_utf8_lossy(&ended.stdout));
    }
    String::from_utf8(ended.stdout).context("output that is no text")
}
