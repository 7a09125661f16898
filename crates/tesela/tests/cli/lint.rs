//! `tesela lint`: findings with their places, thresholds, and what is refused.

use crate::harness::{run, run_with};

#[test]
fn findings_for_people() {
    insta::assert_snapshot!(run(&["lint", "plugin.yaml", "parted.yaml", "sound.yaml", "other.yaml"]));
}

#[test]
fn findings_for_programs() {
    let answer = run(&["lint", "plugin.yaml", "sound.yaml", "--format", "json"]).json();
    let files = answer["files"].as_array().unwrap();
    assert_eq!(files[0]["file"], "plugin.yaml");
    assert_eq!(files[0]["kind"], "device-plugin");
    assert_eq!(files[1]["findings"].as_array().unwrap().len(), 0);
    let findings = files[0]["findings"].as_array().unwrap();
    let at_replicas = findings.iter().find(|f| f["line"] == 10).unwrap();
    assert_eq!(at_replicas["severity"], "error");
    for key in ["column", "rule", "message", "fix"] {
        assert!(!at_replicas[key].is_null(), "{key}");
    }
}

#[test]
fn the_threshold_decides_the_exit_code() {
    let code = |words: &[&str]| run(words).code;
    assert_eq!(code(&["lint", "sound.yaml"]), Some(0));
    assert_eq!(code(&["lint", "plugin.yaml"]), Some(3));
    assert_eq!(code(&["lint", "plugin.yaml", "--fail-on", "error"]), Some(3));
    let warning = b"version: v1\nmig-configs:\n  a:\n  - devices: all\n    mig-enabled: true\n    mig-devices: {1g.10gb: 8}\n";
    let found = run_with(&["lint", "-", "--format", "json"], warning);
    let worst = |run: &crate::harness::Run| run.stdout.contains("\"error\"");
    assert_eq!((found.code, worst(&found)), (Some(3), false), "{found}");
    assert_eq!(run_with(&["lint", "-", "--fail-on", "error"], warning).code, Some(0));
}

#[test]
fn documents_of_ours_are_checked_too() {
    let text = b"apiVersion: tesela.dev/v1alpha1\nkind: Demand\nspec:\n  workloads:\n  - {name: a, namespace: b, gpuMem: 9Gi}\n";
    let answer = run_with(&["lint", "-", "--format", "json"], text);
    assert_eq!(answer.code, Some(3), "{answer}");
    let file = &answer.json()["files"][0];
    assert_eq!(file["kind"], "tesela");
    assert_eq!(file["findings"][0]["line"], 5);
    assert!(file["findings"][0]["fix"].as_str().unwrap().contains("gpuMemory"), "{file}");
}

#[test]
fn what_cannot_be_read_is_refused_as_a_whole() {
    run(&["lint", "sound.yaml", "missing.yaml", "."])
        .refused(&["missing.yaml: there is no such file", ".: is a folder"]);
    run_with(&["lint", "-"], b"a: [1, 2\nb: 3\n").refused(&["-:"]);
    run_with(&["lint", "-"], b"\xff\xfe\xfd").refused(&["-"]);
    run_with(&["lint", "-"], b"NAME   DATA   AGE\nx      1      3d\n").refused(&["-o json"]);
}
