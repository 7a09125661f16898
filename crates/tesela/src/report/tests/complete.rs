//! Both languages are complete: the words of the page, and every sentence that a plan can hold.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

use super::super::english::ENGLISH;
use super::super::sentence::{english_forms, spanish};
use super::super::spanish::SPANISH;
use super::document::observed;
use super::strategies::case;
use super::*;

/// Words that both languages write alike.
const ALIKE: [&str; 7] = ["gpus", "pods", "plan", "tile_mig", "pods_word", "way_instance", "error"];

fn holes(text: &str) -> BTreeSet<&str> {
    text.split('{').skip(1).map(|rest| rest.split('}').next().unwrap()).collect()
}

#[test]
fn each_word_is_there_in_both_languages() {
    for ((name, english), (_, spanish)) in ENGLISH.entries().into_iter().zip(SPANISH.entries()) {
        assert!(!english.is_empty() && !spanish.is_empty(), "{name}");
        assert_eq!(holes(english), holes(spanish), "{name}");
        let blanks = |text: &str| (text.starts_with(' '), text.ends_with(' '));
        assert_eq!(blanks(english), blanks(spanish), "{name}");
        let mut parts = english.split('{').flat_map(|part| part.split('}').next_back());
        let has_words = parts.any(|part| part.contains(char::is_alphabetic));
        assert!(
            english != spanish || !has_words || ALIKE.contains(&name),
            "{name} is not translated: {english}"
        );
    }
}

/// Every sentence of a plan that the page translates.
fn sentences(plan: &Plan) -> Vec<&str> {
    let mut all: Vec<&str> = plan.assignments.iter().map(|a| a.reason.as_str()).collect();
    all.extend(plan.unmet.iter().map(|u| u.reason.as_str()));
    for finding in &plan.findings {
        let ours = finding.message.split("; the scheduler says: ").next().unwrap();
        all.extend([ours.split("; it says: ").next().unwrap(), &finding.fix]);
    }
    for a in &plan.assumptions {
        all.extend([a.subject.as_str(), &a.value, &a.if_wrong]);
    }
    all.extend(plan.sensitivity.iter().map(|w| w.change.as_str()));
    all.extend(plan.headroom.iter().map(|h| h.message.as_str()));
    all.extend(plan.cost_reason.as_deref());
    all.extend(plan.cost.iter().flat_map(|c| c.alternatives.reasons.values().map(String::as_str)));
    all.extend(plan.nodes_today.iter().filter_map(|n| n.unusable.as_deref()));
    all
}

#[track_caller]
fn all_known(plan: &Plan) {
    for sentence in sentences(plan) {
        assert!(
            spanish(sentence).is_some(),
            "no form of report/sentence takes this sentence, so a Spanish report would tell it in English:\n{sentence}"
        );
    }
    // The page says some of them of several pools at once.
    assert!(!html(plan, Language::Spanish).contains("<span lang=\"en\">"), "a sentence is told in English");
}

#[test]
fn plans_of_the_kept_inputs_are_told_in_spanish() {
    let mut inputs = vec!["crates/tesela/tests/data/cluster.json".to_owned()];
    inputs
        .extend(["mixed-fleet", "agents-company", "regulated"].map(|n| format!("examples/{n}/cluster.json")));
    for input in inputs {
        all_known(&observed(&input));
    }
}

proptest! {
    #![proptest_config(Config { cases: 24, rng_seed: RngSeed::Fixed(20), failure_persistence: None, ..Config::default() })]

    #[test]
    fn plans_of_any_fleet_are_told_in_spanish(case in case()) {
        let mut plan = tesela_plan::plan(&case.input());
        // Why a node cannot be planned with is said by who observes it; the cases make something up.
        plan.nodes_today.iter_mut().for_each(|node| node.unusable = None);
        all_known(&plan);
    }
}

// ---- every string of the sources ----

/// Where the sentences of plans are made.
const SOURCES: [&str; 13] = [
    "crates/tesela-plan/src/assemble",
    "crates/tesela-plan/src/cost",
    "crates/tesela-plan/src/cost.rs",
    "crates/tesela-plan/src/decide.rs",
    "crates/tesela-plan/src/evidence",
    "crates/tesela-plan/src/quota.rs",
    "crates/tesela-plan/src/world",
    "crates/tesela-objects/src/observe/finding",
    "crates/tesela-objects/src/observe/finding.rs",
    "crates/tesela-objects/src/observe/node",
    "crates/tesela-objects/src/observe/node.rs",
    "crates/tesela-objects/src/observe/series.rs",
    "crates/tesela-formats/src/documents/demand/joined.rs",
];

/// Strings in them that are no sentence of a plan: why each is not told.
const NOT_TOLD: [(&str, &str); 18] = [
    ("mig {}", "a change's target, which the page words itself"),
    ("{profile} × {n}", "the same"),
    ("{mode} × {replicas}", "the same"),
    (" --parameters {}b", "a flag of a command"),
    (" --parameters {m}m", "a flag of a command"),
    (" --data-type {data_type}", "a flag of a command"),
    (" --kv-data-type {data_type}", "a flag of a command"),
    ("{n}x {p}", "instances in figures"),
    ("write `mode: mig` or `mode: exclusive`", "a refused Demand"),
    ("work over several GPUs gets whole ones", "a refused Demand"),
    ("{} GPUs for each pod", "a refused Demand"),
    ("write `mode: exclusive`, or `gpus: 1`", "a refused Demand"),
    ("an `slo`", "a refused Demand"),
    ("work that takes turns cannot promise a latency", "a refused Demand"),
    ("work that shares a GPU this way is not isolated", "a refused Demand"),
    ("`isolation: {isolation}`", "a refused Demand"),
    ("a regulated tenant shares no GPU below an instance", "a refused Demand"),
    ("the regulated tenant {}", "a refused Demand"),
];

fn files(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        let mut entries: Vec<PathBuf> = std::fs::read_dir(path).unwrap().map(|e| e.unwrap().path()).collect();
        entries.sort();
        entries.iter().for_each(|entry| files(entry, found));
    } else {
        assert!(path.is_file(), "{} is not there: mend SOURCES", path.display());
        found.push(path.to_owned());
    }
}

/// String literals of a source, comments, attributes and tests left out, as the compiler reads them.
fn literals(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]").next().unwrap();
    let mut found = Vec::new();
    let mut chars = source.chars().peekable();
    let mut in_attribute = false;
    while let Some(c) = chars.next() {
        match c {
            '/' if chars.peek() == Some(&'/') => while chars.next_if(|c| *c != '\n').is_some() {},
            '#' if matches!(chars.peek(), Some('[')) => in_attribute = true,
            ']' => in_attribute = false,
            '\'' => {
                // A character, or the mark of a lifetime.
                let mut ahead = chars.clone();
                let first = ahead.next();
                if first == Some('\\') || ahead.next() == Some('\'') {
                    if chars.next() == Some('\\') {
                        chars.next();
                    }
                    while chars.next_if(|c| *c != '\'').is_some() {}
                    chars.next();
                }
            }
            '"' => {
                let mut text = String::new();
                while let Some(c) = chars.next() {
                    match c {
                        '"' => break,
                        '\\' => match chars.next() {
                            Some('\n') => while chars.next_if(|c| c.is_whitespace()).is_some() {},
                            Some('n') => text.push('\n'),
                            Some(other) => text.push(other),
                            None => break,
                        },
                        other => text.push(other),
                    }
                }
                if !in_attribute {
                    found.push(text);
                }
            }
            _ => {}
        }
    }
    found
}

/// What the page puts between a sentence of ours and one of the scheduler or the kubelet.
const SPLIT: [&str; 2] = ["the scheduler says", "it says"];

/// The fixed parts of a string that is filled in, from letter to letter.
fn fixed(literal: &str) -> Vec<&str> {
    let parts = literal.split('{').flat_map(|part| part.split('}').next_back());
    parts.map(|part| part.trim_matches(|c: char| !c.is_alphanumeric())).filter(|p| !p.is_empty()).collect()
}

#[test]
fn every_sentence_of_the_sources_has_a_form() {
    let forms = english_forms();
    let mut sources = Vec::new();
    SOURCES.iter().for_each(|path| files(&repository(path), &mut sources));
    let mut missing = Vec::new();
    for source in &sources {
        for literal in literals(&std::fs::read_to_string(source).unwrap()) {
            let told = literal.contains(' ') && literal.contains(|c: char| c.is_ascii_lowercase());
            if !told || NOT_TOLD.iter().any(|(known, _)| *known == literal) {
                continue;
            }
            let unknown = fixed(&literal)
                .into_iter()
                .find(|part| !SPLIT.contains(part) && !forms.iter().any(|form| form.contains(part)));
            if let Some(part) = unknown {
                missing.push(format!("{}: {literal:?} ({part:?})", source.display()));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "these strings can be in a plan and no form of crates/tesela/src/report/sentence has them; add the English and \
         the Spanish form there, or NOT_TOLD here:\n{}",
        missing.join("\n")
    );
}

#[test]
fn literals_are_read_as_the_compiler_reads_them() {
    let source = "let a = 'x'; // \"no\"\nfn f<'a>(b: &'a str) { g(\"one \\\"two\\\"\", '\"', \"three \\\n   four\") }\n\
                  #[doc = \"no\"]\nlet c = '\\'';\nlet d = \"{x} is {}\";\n#[cfg(test)]\nlet e = \"no\";";
    assert_eq!(literals(source), ["one \"two\"", "three four", "{x} is {}"]);
    assert_eq!(fixed("{x} is {}, or so"), ["is", "or so"]);
}

#[test]
fn where_prices_come_from_is_told_in_spanish() {
    for list in tesela_model::cloud::CloudList::builtin() {
        for source in [
            list.price_book().source,
            list.source.to_owned(),
            format!("{}, own.yaml", list.price_book().source),
        ] {
            let told = super::super::sentence::spanish_source(&source);
            assert!(!told.contains("as in") && !told.contains("list prices"), "{told}");
            assert!(
                told.contains("según") && source.contains("own.yaml") == told.contains("own.yaml"),
                "{told}"
            );
        }
    }
    assert_eq!(super::super::sentence::spanish_source("prices, of mine.yaml"), "prices, of mine.yaml");
}
