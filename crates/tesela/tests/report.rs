//! `tesela plan --html`: what a person reads, in both languages; the file; what must never be on it.
#![expect(clippy::disallowed_methods, reason = "tests start the program and prepare files for it")]
#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

#[path = "cli/harness.rs"]
#[expect(dead_code, reason = "the command-line tests use more of it")]
mod harness;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::{data, folder, run_in};

const EXAMPLES: [(&str, &[&str]); 3] = [
    ("agents-company", &["cluster.json", "demand.yaml", "fleet.yaml", "prices.yaml"]),
    ("mixed-fleet", &["cluster.json"]),
    ("regulated", &["cluster.json", "demand.yaml", "fleet.yaml"]),
];

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

/// What a person or a reader of screens gets of a page: its text, and what tiles are called.
fn text(page: &str) -> String {
    const BLOCKS: [&str; 12] =
        ["h1", "h2", "h3", "p", "li", "tr", "caption", "section", "summary", "title", "table", "footer"];
    let mut out = String::new();
    let mut skipped = 0;
    for part in page.split('<').skip(1) {
        let (tag, words) = part.split_once('>').unwrap();
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
        match (name, tag.starts_with('/')) {
            ("svg" | "style", false) => skipped += 1,
            ("svg" | "style", true) => skipped -= 1,
            ("td" | "th", true) => out.push_str(" | "),
            _ if BLOCKS.contains(&name) => out.push('\n'),
            _ => {}
        }
        if tag.contains("role=\"img\"") {
            out.push_str(tag.split("aria-label=\"").nth(1).unwrap().split('"').next().unwrap());
        }
        if skipped == 0 {
            out.push_str(words);
        }
    }
    for (escaped, plain) in
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&"), ("\u{a0}", " ")]
    {
        out = out.replace(escaped, plain);
    }
    let lines = out.lines().map(|l| l.trim().trim_end_matches('|').trim_end()).filter(|l| !l.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn what_a_person_reads() {
    for (name, inputs) in EXAMPLES {
        for language in ["en", "es"] {
            let page = folder(&format!("report_{name}_{language}")).join("page.html");
            let words = [&["plan"], inputs, &["--html", page.to_str().unwrap(), "--lang", language]].concat();
            let told = run_in(&example(name), &words);
            assert!(matches!(told.code, Some(0 | 3)), "{told}");
            let page = std::fs::read_to_string(page).unwrap();
            if language == "es" {
                assert!(!page.contains("<span lang=\"en\">"), "a sentence of {name} is told in English");
            }
            insta::assert_snapshot!(format!("report of {name} in {language}"), text(&page));
        }
    }
}

fn cluster(test: &str) -> PathBuf {
    let folder = folder(test);
    std::fs::copy(data().join("cluster.json"), folder.join("cluster.json")).unwrap();
    folder
}

#[test]
fn the_page_is_written_beside_the_result() {
    let folder = cluster("report_beside");
    let plain = run_in(&folder, &["plan", "cluster.json", "--format", "json"]);
    let words = ["plan", "cluster.json", "--format", "json", "--html", "out/page.html"];
    let told = run_in(&folder, &words);
    assert_eq!((plain.code, &plain.stdout), (told.code, &told.stdout));
    assert!(told.stderr.contains("out/page.html: written"), "{told}");
    let page = std::fs::read(folder.join("out/page.html")).unwrap();
    // The same page again is no replacement.
    assert_eq!(run_in(&folder, &words).code, plain.code);
    assert_eq!(std::fs::read(folder.join("out/page.html")).unwrap(), page);
    assert_eq!(std::fs::read_dir(folder.join("out")).unwrap().count(), 1, "nothing half-written is left");
}

#[test]
fn another_file_is_not_replaced_silently() {
    let folder = cluster("report_replace");
    let page = folder.join("page.html");
    std::fs::write(&page, "mine").unwrap();
    let words = ["plan", "cluster.json", "--html", "page.html", "--lang", "es"];
    run_in(&folder, &words).refused(&["page.html", "exists and has another content", "--force"]);
    assert_eq!(std::fs::read_to_string(&page).unwrap(), "mine");
    let told = run_in(&folder, &[&words[..], &["--force"]].concat());
    assert!(matches!(told.code, Some(0 | 3)), "{told}");
    assert!(std::fs::read_to_string(&page).unwrap().contains("<html lang=\"es\">"));
}

#[test]
fn words_that_make_no_sense_are_refused() {
    let folder = cluster("report_words");
    run_in(&folder, &["plan", "cluster.json", "--lang", "es"]).refused(&["--html"]);
    run_in(&folder, &["plan", "cluster.json", "--force"]).refused(&["--html", "--write-demand"]);
    run_in(&folder, &["plan", "cluster.json", "--html", "page.html", "--lang", "fr"]).refused(&["fr", "es"]);
    let both = ["plan", "cluster.json", "--html", "x", "--write-demand", "x"];
    run_in(&folder, &both).refused(&["--html x", "another name"]);
    run_in(&folder, &["plan", "cluster.json", "--html", "cluster.json", "--force"])
        .refused(&["cluster.json"]);
    assert!(std::fs::read_to_string(folder.join("cluster.json")).unwrap().starts_with('{'));
}

const CANARY: &str = "sparrow-4711";

/// Puts a canary wherever pods and nodes carry what is nobody's business.
fn with_canary(value: &mut Value) {
    for object in value["items"].as_array_mut().unwrap() {
        object["metadata"]["annotations"] = json!({ "example.com/note": CANARY, CANARY: "x" });
        for list in ["containers", "initContainers"] {
            let Some(containers) = object["spec"].get_mut(list).and_then(Value::as_array_mut) else {
                continue;
            };
            for container in containers {
                container["env"] = json!([{ "name": CANARY, "value": CANARY }]);
                container["args"] = json!(["--token", CANARY]);
                container["command"] = json!(["serve", CANARY]);
            }
        }
    }
}

#[test]
fn what_pods_carry_is_never_on_the_page() {
    let folder = folder("report_canary");
    for (name, _) in EXAMPLES {
        let text = std::fs::read_to_string(example(name).join("cluster.json")).unwrap();
        let mut input = serde_json::from_str(&text).unwrap();
        with_canary(&mut input);
        std::fs::write(folder.join("cluster.json"), serde_json::to_vec(&input).unwrap()).unwrap();
        for language in ["en", "es"] {
            let words = ["plan", "cluster.json", "--html", "page.html", "--lang", language, "--force"];
            let told = run_in(&folder, &words);
            assert!(matches!(told.code, Some(0 | 3)), "{told}");
            let page = std::fs::read_to_string(folder.join("page.html")).unwrap();
            assert!(!page.contains(CANARY) && !told.stdout.contains(CANARY), "{name}");
        }
    }
}
