//! `tesela render`: the folder it writes, and what it leaves alone.

use std::collections::BTreeMap;
use std::path::Path;

use crate::harness::{data, feed, folder, run, run_in, told};

/// A plan with changes, in a folder of its own.
fn planned(test: &str) -> std::path::PathBuf {
    let folder = folder(test);
    let plan = run(&["plan", "cluster.json", "needs.yaml", "--format", "json"]);
    std::fs::write(folder.join("plan.json"), &plan.stdout).unwrap();
    folder
}

fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                found.insert(name, std::fs::read_to_string(path).unwrap());
            }
        }
    }
    found
}

#[test]
fn the_steps_are_written_and_told() {
    let folder = planned("render_steps");
    for target in ["gpu-operator", "native"] {
        let told = run_in(&folder, &["render", "plan.json", "--for", target, "--out", target]);
        assert_eq!((told.code, told.stderr.as_str()), (Some(0), ""), "{told}");
        let written = files(&folder.join(target));
        assert!(written.contains_key("00-README.md"));
        assert!(written.keys().all(|name| !name.ends_with(".part")), "{written:?}");
        insta::assert_snapshot!(format!("render {target}"), told);
    }
}

/// Report, plan and steps agree on who restarts: each pod by name, in one step.
#[test]
fn the_steps_name_each_pod_that_the_plan_restarts() {
    let folder = planned("render_restarts");
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let plan = json(&std::fs::read_to_string(folder.join("plan.json")).unwrap());
    let names = |pods: &serde_json::Value| -> Vec<String> {
        let name = |p: &serde_json::Value| format!("{}/{}", p["namespace"], p["name"]);
        pods.as_array().unwrap().iter().map(name).collect()
    };
    let mut wanted = names(&plan["restarting"]);
    wanted.sort();
    assert!(!wanted.is_empty());
    for target in ["gpu-operator", "native"] {
        let words = ["render", "plan.json", "--for", target, "--out", target, "--format", "json"];
        let told = run_in(&folder, &words);
        let steps = json(&told.stdout);
        let steps = steps["steps"].as_array().unwrap();
        let mut named: Vec<String> = steps.iter().flat_map(|s| names(&s["restarts"])).collect();
        named.sort();
        assert_eq!(named, wanted, "{target}");
    }
}

#[cfg(unix)]
#[test]
fn scripts_can_be_run() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = planned("render_modes");
    run_in(&folder, &["render", "plan.json", "--for", "native", "--out", "steps"]);
    let scripts =
        files(&folder.join("steps")).into_keys().filter(|n| n.ends_with("change.sh")).collect::<Vec<_>>();
    assert!(!scripts.is_empty());
    for script in scripts {
        let mode = std::fs::metadata(folder.join("steps").join(&script)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755, "{script}");
    }
}

#[test]
fn yaml_json_and_standard_input_give_the_same_steps() {
    let folder = planned("render_same");
    let plan = run(&["plan", "cluster.json", "needs.yaml", "--format", "yaml"]);
    std::fs::write(folder.join("plan.yaml"), &plan.stdout).unwrap();
    run_in(&folder, &["render", "plan.json", "--for", "native", "--out", "a"]);
    run_in(&folder, &["render", "plan.yaml", "--for", "native", "--out", "b"]);
    let words = ["render", "-", "--for", "native", "--out", "c"];
    let mut command = crate::harness::command(&words);
    command.current_dir(&folder);
    let piped = told(&words, feed(command, &std::fs::read(folder.join("plan.json")).unwrap()));
    assert_eq!(piped.code, Some(0), "{piped}");
    assert!(!files(&folder.join("a")).is_empty());
    assert_eq!(files(&folder.join("a")), files(&folder.join("b")));
    assert_eq!(files(&folder.join("a")), files(&folder.join("c")));
}

#[test]
fn foreign_files_are_never_replaced_in_silence() {
    let folder = planned("render_foreign");
    let words = ["render", "plan.json", "--for", "native", "--out", "steps"];
    run_in(&folder, &words);
    let again = run_in(&folder, &words);
    assert_eq!(again.code, Some(0), "the same content again is no conflict: {again}");
    let readme = folder.join("steps/00-README.md");
    std::fs::write(&readme, "mine").unwrap();
    std::fs::write(folder.join("steps/notes.txt"), "mine too").unwrap();
    std::fs::remove_file(folder.join("steps/lib.sh")).unwrap();
    run_in(&folder, &words).refused(&["00-README.md", "not touched", "--force"]);
    assert!(!folder.join("steps/lib.sh").exists(), "nothing is written when one file is in the way");
    let forced = run_in(&folder, &[&words[..], &["--force"]].concat());
    assert_eq!(forced.code, Some(0), "{forced}");
    assert_ne!(std::fs::read_to_string(&readme).unwrap(), "mine");
    assert_eq!(std::fs::read_to_string(folder.join("steps/notes.txt")).unwrap(), "mine too");
}

#[test]
fn what_is_no_plan_is_refused() {
    let out = ["--for", "native", "--out", "steps"];
    let render = |file: &str| run_in(&data(), &[&["render", file][..], &out].concat());
    render("needs.yaml").refused(&["needs.yaml", "is a Demand, not a Plan"]);
    render("cluster.json").refused(&["cluster.json"]);
    render("missing.json").refused(&["missing.json", "no such file"]);
    run(&["render", "needs.yaml", "--for", "helm", "--out", "x"]).refused(&["helm", "gpu-operator"]);
    assert!(!data().join("steps").exists());
}
