//! The scripts, run against a `kubectl` of paper: a shell script that keeps the nodes' labels in files and writes
//! down what it was asked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tesela_model::plan::Plan;
use tesela_objects::render::{Existing, Target, render};

use crate::fleet;

/// Answers `get node` from files, changes labels and annotations there, and logs every changing call.
const KUBECTL: &str = r#"#!/usr/bin/env bash
set -euo pipefail
cd "$PAPER"
key_of() { printf '%s' "$1" | tr '/' '_'; }
write() { # labels|annotations NODE ARGUMENTS...
  local store=$1 node=$2 argument; shift 2
  for argument in "$@"; do
    case $argument in
      --*) ;;
      *=*) mkdir -p "$store/$node"; printf '%s' "${argument#*=}" >"$store/$node/$(key_of "${argument%%=*}")" ;;
      *-) rm -f "$store/$node/$(key_of "${argument%-}")" ;;
    esac
  done
}
case "$1 $2" in
  'get node')
    node=$3
    for argument in "$@"; do
      case $argument in
        *'.metadata.labels'* | *'.metadata.annotations'*)
          store=labels; case $argument in *annotations*) store=annotations ;; esac
          key=${argument#*index . \"}; key=${key%%\"*}
          cat "$store/$node/$(key_of "$key")" 2>/dev/null || true ;;
        *'.spec.unschedulable'*) if [ -e "cordoned/$node" ]; then printf yes; fi ;;
        *'.status.allocatable'*) printf 'cpu=64\nnvidia.com/old=0\n'; cat "allocatable/$node" 2>/dev/null || true ;;
      esac
    done ;;
  'get nodes') ls labels | while read -r node; do printf '%s %s\n' "$node" "$(cat "labels/$node/nvidia.com_mig.config" 2>/dev/null || true)"; done ;;
  'get pods') for argument in "$@"; do case $argument in spec.nodeName=*) node=${argument#spec.nodeName=}; cat "pods/${node%%,*}" 2>/dev/null || true ;; esac; done ;;
  'get pod') if ! grep -qs "^evict .*/pods/$3/" log; then printf 'uid-of-%s' "$3"; fi ;;
  'get resourcequota' | 'get namespace') ;;
  'label node')
    write labels "$3" "${@:4}"; printf '%s\n' "$*" >>log
    # The executor of paper is done at once, and offers what the test put in `next`.
    case "$*" in *mig.config=*) printf success >"labels/$3/nvidia.com_mig.config.state" ;; esac
    if [ -e "next/$3" ]; then mkdir -p allocatable; cp "next/$3" "allocatable/$3"; fi ;;
  'annotate node') write annotations "$3" "${@:4}" ;;
  'create --raw') printf 'evict %s\n' "$3" >>log; cat >/dev/null ;;
  'wait --for=delete') ;;
  *) printf '%s\n' "$*" >>log
    case $1 in cordon) mkdir -p cordoned; touch "cordoned/$2" ;; uncordon) rm -f "cordoned/$2" ;; esac ;;
esac
"#;

struct Paper {
    root: PathBuf,
}

impl Paper {
    fn new(test: &str, plan: &Plan, target: Target) -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("render-{test}"));
        write(&root.join("bin/kubectl"), KUBECTL, true);
        let paper = Self { root };
        for name in ["state", "out"] {
            let _ = remove(&paper.root.join(name));
        }
        for file in render(plan, target, &Existing::none()).unwrap().files() {
            write(&paper.root.join("out").join(&file.path), &file.text, file.executable);
        }
        for node in &plan.nodes {
            let Some(name) = &node.name else { continue };
            for (key, value) in
                [("mig.config", &node.mig_config_today), ("device-plugin.config", &node.plugin_config_today)]
            {
                if let Some(value) = value {
                    paper.state(&format!("labels/{name}/nvidia.com_{key}"), value);
                }
            }
        }
        paper
    }

    fn state(&self, path: &str, text: &str) {
        write(&self.root.join("state").join(path), text, false);
    }

    fn run(&self, script: &str, environment: &[(&str, &str)]) -> Output {
        bash()
            .args(["-c", "PATH=\"$BIN:$PATH\" exec bash \"$0\""])
            .arg(self.root.join("out").join(script))
            .env("BIN", self.root.join("bin"))
            .env("PAPER", self.root.join("state"))
            .env("WAIT_SECONDS", "0")
            .envs(environment.iter().copied())
            .output()
            .unwrap()
    }

    /// All labels and annotations of a node.
    fn labels(&self, node: &str) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for store in ["labels", "annotations"] {
            let Ok(files) = fs::read_dir(self.root.join("state").join(store).join(node)) else { continue };
            for file in files {
                let file = file.unwrap();
                let value = read(&file.path());
                all.push((format!("{store} {}", file.file_name().display()), value));
            }
        }
        all.retain(|(key, _)| !key.ends_with("mig.config.state"));
        all.sort();
        all
    }

    fn log(&self) -> String {
        read(&self.root.join("state/log"))
    }
}

#[expect(clippy::disallowed_methods, reason = "the scripts are checked by the shell that will run them")]
pub(crate) fn bash() -> Command {
    Command::new("bash")
}

#[expect(clippy::disallowed_methods, reason = "a test's own files, under the target folder")]
pub(crate) fn write(path: &Path, text: &str, executable: bool) {
    use std::os::unix::fs::PermissionsExt;
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    let mode = if executable { 0o755 } else { 0o644 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[expect(clippy::disallowed_methods, reason = "a test's own files, under the target folder")]
pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

pub(crate) fn remove(path: &Path) -> std::io::Result<()> {
    fs::remove_dir_all(path)
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_script_is_bash() {
    for (index, plan) in [fleet::busy(), fleet::fenced()].iter().enumerate() {
        for target in [Target::Native, Target::GpuOperator] {
            let paper = Paper::new(&format!("syntax-{index}-{target}"), plan, target);
            let files = render(plan, target, &Existing::none()).unwrap().files();
            let scripts: Vec<_> = files.iter().filter(|f| f.executable || f.path == "lib.sh").collect();
            assert!(scripts.len() > 10);
            for file in scripts {
                let output = bash().arg("-n").arg(paper.root.join("out").join(&file.path)).output().unwrap();
                assert!(output.status.success(), "{}: {}", file.path, said(&output));
            }
        }
    }
}

const PODS: &str = "chat agent-7f-x1 Running+ ReplicaSet agent-7f 7f c:nvidia.com/gpu=1 c:cpu=4\n\
                    train fit-abc Running+ Job fit - c:nvidia.com/gpu=1\n\
                    gpu-operator validator-1 Running Pod validator-1 - c:nvidia.com/gpu=1\n\
                    web page-1 Running+ ReplicaSet page-x x c:cpu=2 i:cpu=1\n";
const OFFERS: &str =
    "nvidia.com/gpu=1\nnvidia.com/mig-1g.10gb=2\nnvidia.com/mig-2g.20gb=1\nnvidia.com/mig-3g.40gb=1\n";

fn gpu_a(test: &str) -> Paper {
    let paper = Paper::new(test, &fleet::busy(), Target::GpuOperator);
    paper.state("pods/gpu-a", PODS);
    paper.state("allocatable/gpu-a", "nvidia.com/gpu=2\n");
    paper.state("next/gpu-a", OFFERS);
    paper
}

#[test]
fn a_node_changes_and_undo_restores_exactly_the_labels_of_today() {
    let paper = gpu_a("there-and-back");
    let before = paper.labels("gpu-a");
    let done = paper.run("20-canary-gpu-a/change.sh", &[]);
    assert!(done.status.success(), "{}", said(&done));
    let log = paper.log();
    assert_eq!(
        log.lines().filter(|l| l.starts_with("evict")).collect::<Vec<_>>(),
        ["evict /api/v1/namespaces/chat/pods/agent-7f-x1/eviction"]
    );
    let order: Vec<_> = log.lines().map(|l| l.split(' ').next().unwrap()).collect();
    assert_eq!(order.first(), Some(&"cordon"), "{log}");
    assert_eq!(order.last(), Some(&"uncordon"), "{log}");
    assert_ne!(paper.labels("gpu-a"), before);
    let verified = paper.run("20-canary-gpu-a/verify.sh", &[]);
    assert!(verified.status.success(), "{}", said(&verified));
    // A second run changes nothing and is no failure.
    assert!(paper.run("20-canary-gpu-a/change.sh", &[]).status.success());
    let undone = paper.run("20-canary-gpu-a/undo.sh", &[]);
    assert!(undone.status.success(), "{}", said(&undone));
    assert_eq!(paper.labels("gpu-a"), before);
}

#[test]
fn every_node_comes_back_to_its_labels() {
    for target in [Target::Native, Target::GpuOperator] {
        let plan = fleet::busy();
        let paper = Paper::new(&format!("all-{target}"), &plan, target);
        let steps = render(&plan, target, &Existing::none()).unwrap().steps;
        for step in steps.iter().filter(|s| s.blast.is_some()) {
            let node =
                plan.nodes.iter().filter_map(|n| n.name.as_deref()).find(|n| step.dir.ends_with(n)).unwrap();
            let expected = step.files.iter().find(|f| f.path.ends_with("verify.sh")).unwrap();
            let offers = expected.text.split("EXPECTED='").nth(1).unwrap().split('\'').next().unwrap();
            paper.state(&format!("next/{node}"), &format!("{offers}\n"));
            paper.state(&format!("labels/{node}/tesela.dev_pool"), "former");
            let before = paper.labels(node);
            let done = paper.run(&format!("{}/change.sh", step.dir), &[]);
            assert!(done.status.success(), "{}: {}", step.dir, said(&done));
            assert_ne!(paper.labels(node), before);
            assert!(paper.run(&format!("{}/undo.sh", step.dir), &[]).status.success());
            assert_eq!(paper.labels(node), before, "{}", step.dir);
        }
    }
}

#[test]
fn a_pod_that_the_plan_does_not_name_stops_the_step() {
    let paper = gpu_a("unknown-pod");
    paper.state("pods/gpu-a", &format!("{PODS}new late-1 Running ReplicaSet late-x x c:nvidia.com/gpu=1\n"));
    let output = paper.run("20-canary-gpu-a/change.sh", &[]);
    assert!(!output.status.success());
    let told = said(&output);
    assert!(told.contains("new/late: 1 pods that this step lets be, the plan knows 0: new/late-1"), "{told}");
    assert!(told.contains("plan again"), "{told}");
    assert_eq!(paper.log(), "");
}

#[test]
fn a_label_that_changed_since_stops_the_step() {
    let paper = gpu_a("stale-label");
    paper.state("labels/gpu-a/nvidia.com_mig.config", "all-balanced");
    let output = paper.run("20-canary-gpu-a/change.sh", &[]);
    assert!(!output.status.success());
    assert!(said(&output).contains("plan again"), "{}", said(&output));
    assert_eq!(paper.log(), "");
}

#[test]
fn a_node_that_does_not_become_as_planned_stays_fenced() {
    let paper = gpu_a("not-as-planned");
    paper.state("next/gpu-a", "nvidia.com/gpu=2\n");
    let output = paper.run("20-canary-gpu-a/change.sh", &[]);
    assert!(!output.status.success());
    assert!(said(&output).contains("stays fenced"), "{}", said(&output));
    assert!(!paper.log().contains("uncordon"));
}

#[test]
fn somebody_elses_cordon_stays() {
    let paper = gpu_a("cordon");
    paper.state("cordoned/gpu-a", "");
    assert!(paper.run("20-canary-gpu-a/change.sh", &[]).status.success());
    assert!(!paper.log().contains("cordon gpu-a"), "{}", paper.log());
}

#[test]
fn a_dry_run_changes_nothing() {
    let paper = gpu_a("dry-run");
    let before = paper.labels("gpu-a");
    for script in ["20-canary-gpu-a/change.sh", "20-canary-gpu-a/undo.sh", "80-quotas/change.sh"] {
        let output = paper.run(script, &[("DRY_RUN", "1")]);
        assert!(output.status.success(), "{}", said(&output));
        assert!(said(&output).contains("would run: kubectl"), "{}", said(&output));
    }
    assert_eq!(paper.log(), "");
    assert_eq!(paper.labels("gpu-a"), before);
}

fn vllm(pods: usize) -> String {
    let line = |i: usize| format!("chat vllm-5d-{i} Running+ ReplicaSet vllm-5d 5d c:nvidia.com/gpu=1\n");
    (0..pods).map(line).collect()
}

fn one_idle(test: &str, target: Target, pods: &str) -> Paper {
    let paper = Paper::new(test, &fleet::one_idle(), target);
    paper.state("pods/gpu-h", pods);
    paper.state("next/gpu-h", "nvidia.com/gpu=7\nnvidia.com/mig-1g.10gb=7\n");
    paper
}

#[test]
fn a_node_on_which_no_gpu_is_idle_is_left_alone() {
    for target in [Target::Native, Target::GpuOperator] {
        let paper = one_idle(&format!("all-busy-{target}"), target, &vllm(8));
        for environment in [&[("DRY_RUN", "1")][..], &[]] {
            let output = paper.run("20-canary-gpu-h/change.sh", environment);
            assert!(!output.status.success());
            let told = said(&output);
            assert!(
                told.contains("chat/vllm: 8 pods that this step lets be, the plan knows 7: chat/vllm-5d-0"),
                "{told}"
            );
            assert!(!told.contains("would run"), "{told}");
        }
        assert_eq!(paper.log(), "");
    }
}

#[test]
fn a_pod_that_is_ending_still_holds_its_gpu() {
    let ending = "chat old-1 ending Pod old-1 - c:nvidia.com/gpu=1\n";
    let paper = one_idle("ending", Target::Native, &(vllm(7) + ending));
    let output = paper.run("20-canary-gpu-h/change.sh", &[]);
    assert!(!output.status.success());
    let told = said(&output);
    assert!(told.contains("8 of nvidia.com/gpu stay in use and at most 7 may"), "{told}");
    assert!(told.contains("chat/old-1 (ending)"), "{told}");
    assert_eq!(paper.log(), "");
}

#[test]
fn as_many_pods_as_the_plan_knows_are_no_reason_to_stop() {
    let paper = one_idle("seven", Target::Native, &vllm(7));
    let output = paper.run("20-canary-gpu-h/change.sh", &[]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(!paper.log().contains("evict"), "{}", paper.log());
}

#[test]
fn pods_that_the_executor_may_hit_are_evicted_only_when_a_person_names_them() {
    let paper = one_idle("also", Target::GpuOperator, &vllm(7));
    let output = paper.run("20-canary-gpu-h/change.sh", &[]);
    assert!(!output.status.success());
    let told = said(&output);
    let names: Vec<String> = (0..7).map(|i| format!("chat/vllm-5d-{i}")).collect();
    assert!(told.contains(&format!("ALSO_RESTART='{}'", names.join(" "))), "{told}");
    assert_eq!(paper.log(), "");
    let agreed = paper.run("20-canary-gpu-h/change.sh", &[("ALSO_RESTART", &names.join(" "))]);
    assert!(agreed.status.success(), "{}", said(&agreed));
    assert_eq!(paper.log().lines().filter(|l| l.starts_with("evict")).count(), 7);
}
