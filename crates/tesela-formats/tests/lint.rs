//! The linter on whole files: snapshots of its findings, places inside ConfigMaps, every rule covered.

#![expect(clippy::unwrap_used, reason = "a test may fail by panic")]

use std::collections::BTreeSet;
use std::fmt::Write as _;

use tesela_formats::diagnostic::Severity;
use tesela_formats::lint::{FileFindings, FileKind, RULES, lint};
use tesela_model::product::ProductTable;

/// Each fixture with its text.
macro_rules! fixtures {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("fixtures/lint/", $name)))),*]
    };
}

const FIXTURES: [(&str, &str); 17] = fixtures![
    "device-plugin-clean.yaml",
    "device-plugin-time-slicing.yaml",
    "device-plugin-mps.yaml",
    "device-plugin-mps-single.yaml",
    "device-plugin-words.yaml",
    "device-plugin-refused.yaml",
    "mig-parted-clean.yaml",
    "mig-parted-contradictions.yaml",
    "mig-parted-refused.yaml",
    "mig-parted-empty.yaml",
    "mig-parted-no-version.yaml",
    "mig-parted-misspelt.yaml",
    "version-alone.yaml",
    "configmap.yaml",
    "configmap-list.json",
    "tesela.yaml",
    "deployment.yaml",
];

fn look(name: &str, text: &str) -> FileFindings {
    lint(name, text.as_bytes(), ProductTable::builtin()).unwrap()
}

/// A file with its findings below the lines they are about, as a person would like to read them.
fn annotated(name: &str, text: &str) -> String {
    let found = look(name, text);
    let mut out = format!("{name}: {}\n", serde_json::to_string(&found.kind).unwrap());
    for (index, line) in text.lines().enumerate() {
        writeln!(out, "{:3} | {line}", index + 1).unwrap();
        for finding in found.findings.iter().filter(|f| usize::try_from(f.line).unwrap() == index + 1) {
            let caret = " ".repeat(usize::try_from(finding.column - 1).unwrap());
            writeln!(out, "    | {caret}^ {} [{}] {}", finding.severity, finding.rule, finding.message)
                .unwrap();
            writeln!(out, "    | {caret}  fix: {}", finding.fix).unwrap();
        }
    }
    out
}

#[test]
fn snapshots() {
    for (name, text) in FIXTURES {
        insta::assert_snapshot!(name, annotated(name, text));
    }
}

#[test]
fn clean_files_have_no_findings() {
    for (name, text) in FIXTURES.iter().filter(|(name, _)| name.contains("clean")) {
        assert_eq!(look(name, text).findings, [], "{name}");
    }
}

#[test]
fn every_finding_stands_on_a_line_of_the_file_and_has_a_known_rule() {
    let known: BTreeSet<&str> = RULES.iter().map(|rule| rule.id).collect();
    let from_the_reader =
        ["truncated-yaml", "yaml-depth", "yaml-nodes", "yaml-cycle", "yaml-key", "yaml-tag"];
    for (name, text) in FIXTURES {
        for finding in look(name, text).findings {
            let line = text.lines().nth(usize::try_from(finding.line - 1).unwrap());
            let columns = line.unwrap().chars().count();
            assert!(usize::try_from(finding.column).unwrap() <= columns + 1, "{name}: {finding:?}");
            assert!(!finding.message.is_empty() && !finding.fix.is_empty(), "{name}: {finding:?}");
            if name == "tesela.yaml" {
                continue;
            }
            let rule = finding.rule;
            assert!(known.contains(rule) || from_the_reader.contains(&rule), "{name}: {rule} is in no list");
        }
    }
}

#[test]
fn each_rule_is_triggered_by_some_fixture() {
    let mut missing: BTreeSet<&str> = RULES.iter().map(|rule| rule.id).collect();
    for (name, text) in FIXTURES {
        for finding in look(name, text).findings {
            missing.remove(finding.rule);
        }
    }
    assert_eq!(missing, BTreeSet::new());
}

#[test]
fn rules_are_sorted_and_unique() {
    let ids: Vec<&str> = RULES.iter().map(|rule| rule.id).collect();
    let sorted: Vec<&str> = ids.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    assert_eq!(ids, sorted);
}

#[test]
fn places_in_block_scalars_are_those_of_the_outer_file() {
    let text = FIXTURES.iter().find(|(name, _)| *name == "configmap.yaml").unwrap().1;
    let found = look("configmap.yaml", text);
    let place = |rule: &str| {
        let finding = found.findings.iter().find(|finding| finding.rule == rule).unwrap();
        let line = text.lines().nth(usize::try_from(finding.line - 1).unwrap()).unwrap();
        line.chars().skip(usize::try_from(finding.column - 1).unwrap()).collect::<String>()
    };
    assert_eq!(place("replicas-too-few"), "1");
    assert_eq!(place("misplaced-field"), "replicas: 4");
    assert_eq!(place("counts-infeasible"), "8");
    assert!(place("unknown-field").starts_with("\"version: v1\\nflags"));
}

#[test]
fn what_is_no_yaml_or_kubectls_table_is_an_error() {
    let rule = |bytes: &[u8]| {
        let found = lint("f", bytes, ProductTable::builtin()).unwrap_err();
        found.iter().next().unwrap().rule
    };
    assert_eq!(rule(b"NAME   DATA   AGE\nx      1      2d\n"), "kubectl-table");
    assert_eq!(rule(b"No resources found in gpu-operator namespace.\n"), "kubectl-message");
    assert_eq!(rule(b""), "empty-input");
    assert_eq!(rule(b"a: [1\n"), "truncated-yaml");
    assert_eq!(rule(b"a: \xFF\n"), "invalid-utf8");
}

#[test]
fn kinds_in_json() {
    let kinds = [
        (FileKind::DevicePlugin, "device-plugin"),
        (FileKind::MigParted, "mig-parted"),
        (FileKind::ConfigMap, "configmap"),
        (FileKind::Tesela, "tesela"),
        (FileKind::Unknown, "unknown"),
    ];
    for (kind, word) in kinds {
        assert_eq!(serde_json::to_value(kind).unwrap(), word);
    }
    let found = look("f", "version: v1\nflags: {migStrategy: off}\n");
    assert_eq!(found.worst(), Some(Severity::Error));
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(json["findings"][0]["severity"], "error");
    assert_eq!(json["findings"][0]["line"], 2);
}

/// Known configs of mig-parted's own tests on an A100 40 GB, restated.
#[test]
fn counts_on_an_a100_40gb() {
    let cases = [
        ("{}", true),
        ("{1g.5gb: 7}", true),
        ("{1g.5gb: 6}", true),
        ("{1g.5gb: 8}", false),
        ("{1g.5gb: 3, 2g.10gb: 2}", true),
        ("{1g.5gb: 2, 2g.10gb: 2}", true),
        ("{1g.5gb: 2, 2g.10gb: 1}", true),
        ("{1g.5gb: 4, 2g.10gb: 2}", false),
        ("{3g.20gb: 2, 1g.5gb: 1}", false),
        ("{3g.20gb: 1, 1g.5gb: 4}", true),
        ("{1g.5gb+me: 1, 1g.5gb: 6}", true),
        ("{1g.5gb+me: 2}", false),
        ("{1c.3g.20gb: 6}", true),
        ("{1c.3g.20gb: 7}", false),
        ("{2g.11gb: 1}", false),
        ("{1g.5gb: 4294967295}", false),
    ];
    for (counts, valid) in cases {
        let text = format!(
            "version: v1\nmig-configs:\n  a:\n  - {{devices: all, device-filter: \"0x20B010DE\", mig-enabled: true, mig-devices: {counts}}}\n"
        );
        let found = look("f", &text).findings;
        assert_eq!(found.is_empty(), valid, "{counts}: {found:?}");
    }
}
