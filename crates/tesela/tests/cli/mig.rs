//! `tesela mig` against the emulated driver: the library that other programs load, in a process of its own.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{Run, command, feed, folder, told};

/// A node: a machine file, a state folder, and a root in which other managers may be seen.
struct Node {
    folder: PathBuf,
}

impl Node {
    fn new(test: &str, machine: &str) -> Self {
        let folder = folder(test);
        std::fs::write(folder.join("machine.yaml"), machine).unwrap();
        std::fs::create_dir_all(folder.join("root")).unwrap();
        Self { folder }
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn command(&self, words: &[&str]) -> std::process::Command {
        let mut command = command(words);
        let (library, state, root) = (library(), self.folder.join("state"), self.folder.join("root"));
        command.env("TESELA_SIM", self.folder.join("machine.yaml"));
        command
            .arg("--driver-library")
            .arg(library)
            .arg("--state-dir")
            .arg(state)
            .arg("--host-root")
            .arg(root);
        command
    }

    fn run(&self, words: &[&str]) -> Run {
        told(words, feed(self.command(words), b""))
    }

    fn as_user(&self, words: &[&str]) -> Run {
        let mut command = self.command(words);
        command.env("TESELA_SIM_RIGHTS", "user");
        told(words, feed(command, b""))
    }
}

/// The emulated driver, built beside these tests.
fn library() -> PathBuf {
    let deps = Path::new(env!("CARGO_BIN_EXE_tesela")).parent().unwrap().join("deps");
    let file = deps.join("libnvml_sim.so");
    assert!(file.exists(), "{} is not there", file.display());
    file
}

const MIXED: &str = "\
gpus:
  - product: a100-40gb
    uuid: GPU-00000000-0000-0000-0000-00000000000a
    mig: [{profile: 1g.5gb, start: 0}, {profile: 1g.5gb, start: 1}, {profile: 3g.20gb, start: 4}]
    processes: [{pid: 4321, name: python, memory_mib: 100, instance: 0}]
  - product: a100-40gb
    uuid: GPU-00000000-0000-0000-0000-00000000000b
    mig: [{profile: 7g.40gb, start: 0}]
    processes: [{pid: 4322, name: train, memory_mib: 100, instance: 0}]
  - product: h100-sxm-80gb
    uuid: GPU-00000000-0000-0000-0000-00000000000c
";

const CONFIG: &str = "\
version: v1
mig-configs:
  mixed:
    - device-filter: '0x20B010DE'
      devices: [0]
      mig-enabled: true
      mig-devices: {1g.5gb: 1, 2g.10gb: 1, 3g.20gb: 1}
    - devices: [2]
      mig-enabled: true
      mig-devices: {1g.10gb: 7}
  all-seven:
    - {devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}
";

fn pieces(gpu: &Value, key: &str) -> String {
    let one = |p: &Value| format!("{}@{}", p["profile"].as_str().unwrap(), p["start"]);
    gpu[key].as_array().unwrap().iter().map(one).collect::<Vec<_>>().join(" ")
}

/// The table id's PCI id differs between forms of the A100: the test takes what the emulated driver says.
fn config(node: &Node) -> String {
    let export = node.run(&["mig", "export", "--format", "json"]);
    let json = export.json();
    let entries = json["mig-configs"]["current"].as_array().unwrap().clone();
    let filter = entries.iter().find(|e| e["devices"] == serde_json::json!([0])).unwrap();
    let filter = filter["device-filter"].as_str().unwrap();
    node.file("config.yaml", &CONFIG.replace("0x20B010DE", filter))
}

#[test]
fn a_plan_says_what_an_apply_then_does() {
    let node = Node::new("mig_plan", MIXED);
    let config = config(&node);
    let plan = node.run(&["mig", "plan", "-f", &config, "-c", "mixed", "--format", "json"]);
    assert_eq!(plan.code, Some(0), "{plan}");
    let json = plan.json();
    let gpus = json["gpus"].as_array().unwrap();
    assert_eq!(gpus.len(), 2, "GPU 1 is not named: {plan}");
    assert_eq!((&gpus[0]["change"], &gpus[1]["change"]), (&"geometry".into(), &"migMode".into()));
    assert_eq!(pieces(&gpus[0], "keep"), "1g.5gb@0 3g.20gb@4");
    assert_eq!(pieces(&gpus[0], "destroy"), "1g.5gb@1");
    assert_eq!(pieces(&gpus[0], "create"), "2g.10gb@2");
    assert_eq!(gpus[1]["create"].as_array().unwrap().len(), 7);
    assert_eq!(
        (&gpus[0]["disturbed_pods"], &gpus[0]["disturbed_processes"]),
        (&Value::Null, &serde_json::json!([]))
    );
    assert_eq!((gpus[0]["index"].as_u64(), gpus[0]["product"].as_str()), (Some(0), Some("a100-40gb")));
    assert_eq!(gpus[0]["keep"][1]["size"], 4);
    let table = node.run(&["mig", "plan", "-f", &config, "-c", "mixed"]).stdout;
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/mig.md")).unwrap();
    let shown = table.split("\n\nWhich pods").next().unwrap();
    assert!(page.contains(shown), "docs/mig.md shows another plan than\n{shown}");
    insta::assert_snapshot!("mig plan", table);
    let assert = node.run(&["mig", "assert", "-f", &config, "-c", "mixed"]);
    assert_eq!(assert.code, Some(1), "{assert}");

    let apply = node.run(&["mig", "apply", "-f", &config, "-c", "mixed"]);
    assert_eq!(apply.code, Some(0), "{apply}");
    insta::assert_snapshot!("mig apply", apply.stdout);
    let again = node.run(&["mig", "apply", "-f", &config, "-c", "mixed", "--format", "json"]);
    assert_eq!(again.code, Some(0), "{again}");
    assert!(again.json()["gpus"].as_array().unwrap().iter().all(|g| g["outcome"] == "unchanged"), "{again}");
    let assert = node.run(&["mig", "assert", "-f", &config, "-c", "mixed"]);
    assert_eq!(assert.code, Some(0), "{assert}");
}

#[test]
fn what_is_in_the_way_is_named_and_the_rest_is_done() {
    let node = Node::new("mig_blocked", MIXED);
    let config = node.file(
        "c.yaml",
        "version: v1\nmig-configs:\n  x:\n    - {devices: [0], mig-enabled: true, mig-devices: {1g.5gb: 2}}\n    - {devices: [1], mig-enabled: true, mig-devices: {1g.5gb: 7}}\n",
    );
    let plan = node.run(&["mig", "plan", "-f", &config, "--format", "json"]);
    assert_eq!(plan.code, Some(3), "{plan}");
    let json = plan.json();
    assert_eq!(json["blocked"][0]["uuid"], "GPU-00000000-0000-0000-0000-00000000000b");
    let reason = json["blocked"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("7g.40gb@0 is in use by process 4322"), "{reason}");
    let holders = &json["gpus"][1]["disturbed_processes"];
    assert_eq!(holders[0]["pid"], 4322, "{plan}");
    let apply = node.run(&["mig", "apply", "-f", &config]);
    assert_eq!(apply.code, Some(3), "{apply}");
    insta::assert_snapshot!("mig apply in part", apply.stdout);
    let export = node.run(&["mig", "export"]);
    insta::assert_snapshot!("mig export", export.stdout);
    // What is printed is a config that asserts.
    let now = node.file("now.yaml", &export.stdout);
    assert_eq!(node.run(&["mig", "assert", "-f", &now]).code, Some(0));
}

#[test]
fn what_cannot_be_is_said_with_the_nearest() {
    let node = Node::new("mig_infeasible", "gpus:\n  - {product: a100-40gb, mig: []}\n");
    let config = |counts: &str| {
        node.file("c.yaml", &format!("version: v1\nmig-configs:\n  x:\n    - {{devices: all, mig-enabled: true, mig-devices: {{{counts}}}}}\n"))
    };
    let plan = node.run(&["mig", "plan", "-f", &config("1g.5gb: 8")]);
    assert_eq!(plan.code, Some(3), "{plan}");
    assert!(
        plan.stdout.contains("no layout has 8x 1g.5gb; the largest part of it that fits is 7x 1g.5gb"),
        "{plan}"
    );
    let other = node.run(&["mig", "plan", "-f", &config("1g.6gb: 1"), "--format", "json"]);
    assert!(
        other.json()["blocked"][0]["reason"]
            .as_str()
            .unwrap()
            .contains("`1g.6gb` is not a MIG profile of a100-40gb"),
        "{other}"
    );
}

#[test]
fn the_generated_labels_need_no_file() {
    let node = Node::new("mig_generated", "gpus:\n  - {product: h100-sxm-80gb, count: 2}\n");
    let apply = node.run(&["mig", "apply", "-c", "all-balanced", "--format", "json"]);
    assert_eq!(apply.code, Some(0), "{apply}");
    assert_eq!(pieces(&apply.json()["gpus"][1], "create"), "1g.10gb@0 1g.10gb@1 2g.20gb@2 3g.40gb@4");
    let off = node.run(&["mig", "apply", "-c", "all-disabled", "--format", "json"]);
    assert_eq!((off.code, &off.json()["gpus"][0]["change"]), (Some(0), &"migMode".into()), "{off}");
    node.run(&["mig", "plan", "-c", "all-balnced"])
        .refused(&["there is no label `all-balnced`", "all-balanced"]);
    node.run(&["mig", "plan"]).refused(&["which label?", "-c"]);
}

#[test]
fn a_checkpoint_is_written_and_brought_back() {
    let node = Node::new(
        "mig_checkpoint",
        "gpus:\n  - {product: a100-40gb, mig: [{profile: 1g.5gb, start: 6}, {profile: 3g.20gb, start: 0}]}\n",
    );
    let file = node.folder.join("layouts.json").display().to_string();
    let written = node.run(&["mig", "checkpoint", "-f", &file]);
    assert_eq!(written.code, Some(0), "{written}");
    assert_eq!(node.run(&["mig", "apply", "-c", "all-7g.40gb"]).code, Some(0));
    let back = node.run(&["mig", "restore", "-f", &file, "--format", "json"]);
    assert_eq!(back.code, Some(0), "{back}");
    assert_eq!(pieces(&back.json()["gpus"][0], "create"), "3g.20gb@0 1g.5gb@6");
    let printed = node.run(&["mig", "checkpoint"]);
    assert_eq!(printed.stdout, std::fs::read_to_string(&file).unwrap());
    node.run(&["mig", "restore", "-f", "parted.yaml"]).refused(&["parted.yaml", "not a checkpoint"]);
    let elsewhere = std::fs::read_to_string(&file).unwrap().replace("GPU-", "GPU-ffff");
    let elsewhere = node.file("other.json", &elsewhere);
    node.run(&["mig", "restore", "-f", &elsewhere]).refused(&["none of its GPUs is on this node"]);
}

#[test]
fn beside_another_manager_it_refuses_and_names_it() {
    let node = Node::new("mig_managers", "gpus:\n  - {product: h100-sxm-80gb, mig: []}\n");
    node.file("root/var/lib/kubelet/device-plugins/nvidia-gpu.sock", "");
    node.file("root/proc/77/cmdline", "/usr/bin/nvidia-mig-manager\0--flag\0");
    let refused = node.run(&["mig", "apply", "-c", "all-1g.10gb"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{refused}");
    for said in [
        "NVIDIA's device plugin",
        "nvidia-gpu.sock",
        "NVIDIA's MIG Manager",
        "process 77",
        "--allow-other-managers",
    ] {
        assert!(refused.stderr.contains(said), "{said}: {refused}");
    }
    let plan = node.run(&["mig", "plan", "-c", "all-1g.10gb"]);
    assert_eq!(plan.code, Some(0), "{plan}");
    assert!(plan.stderr.contains("would refuse"), "{plan}");
    let anyway = node.run(&["mig", "apply", "-c", "all-1g.10gb", "--allow-other-managers"]);
    assert_eq!(anyway.code, Some(0), "{anyway}");
}

#[test]
fn hooks_are_refused_with_the_reason() {
    let node = Node::new("mig_hooks", "gpus:\n  - {product: h100-sxm-80gb, mig: []}\n");
    let hooks = node.file("hooks.yaml", "version: v1\nhooks:\n  pre-apply-mode:\n    - {command: systemctl, args: [stop, kubelet], workdir: /}\n");
    node.run(&["mig", "apply", "-f", &hooks]).refused(&["hooks.yaml", "hooks are not run"]);
    node.run(&["mig", "apply", "-c", "all-1g.10gb", "-k", &hooks]).refused(&["hooks are not run"]);
}

#[test]
fn bad_input_exits_with_2_and_places() {
    let node = Node::new("mig_bad", "gpus:\n  - {product: h100-sxm-80gb, mig: []}\n");
    let bad = node.file(
        "bad.yaml",
        "version: v1\nmig-configs:\n  x:\n    - {devices: some, mig-enabled: true, mig-devices: {}}\n",
    );
    node.run(&["mig", "plan", "-f", &bad]).refused(&["bad.yaml:4:", "`all`"]);
    node.run(&["mig", "plan", "-f", "nowhere.yaml"]).refused(&["nowhere.yaml", "no such file"]);
    node.run(&["mig", "apply", "-c", "x", "--wait", "soon"]).refused(&["--wait", "30s"]);
}

#[test]
fn a_reader_without_rights_is_told_which_it_lacks() {
    let node =
        Node::new("mig_rights", "gpus:\n  - {product: a100-40gb, mig: []}\n  - {product: h100-sxm-80gb}\n");
    let plan = node.as_user(&["mig", "plan", "-c", "all-enabled", "--format", "json"]);
    assert_eq!(plan.code, Some(3), "{plan}");
    let json = plan.json();
    assert!(json["blocked"][0]["reason"].as_str().unwrap().contains("run as root"), "{plan}");
    assert_eq!(json["gpus"][1]["change"], "migMode", "{plan}");
    let export = node.as_user(&["mig", "export"]);
    assert_eq!((export.code, export.stdout.as_str()), (Some(1), ""), "{export}");
}

#[test]
fn without_a_driver_it_says_so() {
    let run = crate::harness::run(&["mig", "plan", "-c", "all-enabled", "--driver-library", "nowhere.so"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{run}");
    assert!(run.stderr.contains("libnvidia-ml.so.1 cannot be loaded"), "{run}");
}

#[test]
fn a_second_executor_and_a_foreign_journal_are_refused() {
    let node = Node::new("mig_lock", "gpus:\n  - {product: h100-sxm-80gb, mig: []}\n");
    std::fs::create_dir_all(node.folder.join("state")).unwrap();
    let lock = tesela_executor::lock::Lock::take(&node.folder.join("state")).unwrap();
    let refused = node.run(&["mig", "apply", "-c", "all-1g.10gb"]);
    assert_eq!(refused.code, Some(1), "{refused}");
    assert!(refused.stderr.contains(&format!("(pid {})", std::process::id())), "{refused}");
    drop(lock);
    let journal = node.file("state/mig.journal", "not ours\n");
    let refused = node.run(&["mig", "apply", "-c", "all-1g.10gb"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{refused}");
    assert!(
        refused.stderr.contains("it is not a journal of Tesela")
            && refused.stderr.contains(&format!("mv {journal} ")),
        "{refused}"
    );
    std::fs::remove_file(&journal).unwrap();
    assert_eq!(node.run(&["mig", "apply", "-c", "all-1g.10gb"]).code, Some(0));
}
