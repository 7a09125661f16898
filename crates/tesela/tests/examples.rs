//! The examples of this repository: whole outputs as a person has read them, the demand fed back, the steps written.
#![expect(clippy::disallowed_methods, reason = "tests start the program and prepare files for it")]
#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

#[path = "cli/harness.rs"]
#[expect(dead_code, reason = "the command-line tests use more of it")]
mod harness;

use std::path::{Path, PathBuf};

use crate::harness::{Run, folder, run_in};

/// A folder under `examples/` and the inputs that its README names, in that order.
struct Example {
    name: &'static str,
    inputs: &'static [&'static str],
}

const COMPANY: Example =
    Example { name: "agents-company", inputs: &["cluster.json", "demand.yaml", "fleet.yaml", "prices.yaml"] };
const MIXED: Example = Example { name: "mixed-fleet", inputs: &["cluster.json"] };
const MEASURED: Example = Example { name: "measured", inputs: &["cluster.json", "--usage", "usage.json"] };
const REGULATED: Example =
    Example { name: "regulated", inputs: &["cluster.json", "demand.yaml", "fleet.yaml"] };

impl Example {
    fn folder(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(self.name)
    }

    /// `tesela plan` with the example's inputs and these words behind them.
    fn plan(&self, words: &[&str]) -> Run {
        run_in(&self.folder(), &[&["plan"], self.inputs, words].concat())
    }
}

fn output_for_people(example: &Example) {
    insta::assert_snapshot!(
        format!("{} for people", example.name),
        example.plan(&["--width", "120", "--rows", "all"])
    );
}

fn output_for_programs(example: &Example) {
    insta::assert_snapshot!(format!("{} for programs", example.name), example.plan(&["--format", "json"]));
}

/// The README of an example shows this very command, and each of its commands works where it says.
fn readme_commands_work(example: &Example) {
    let readme = std::fs::read_to_string(example.folder().join("README.md")).unwrap();
    let blocks = readme.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let commands = blocks.flat_map(str::lines).filter_map(|line| line.strip_prefix("tesela "));
    let commands = commands.collect::<Vec<_>>();
    let plain = format!("plan {}", example.inputs.join(" "));
    assert!(commands.contains(&plain.as_str()), "{}/README.md does not say `tesela {plain}`", example.name);
    let folder = copied(example, "readme");
    for command in commands {
        let (words, file) = command.split_once(" > ").map_or((command, None), |(w, f)| (w, Some(f)));
        let told = run_in(&folder, &words.split_whitespace().collect::<Vec<_>>());
        // A plan that breaks one of its rules would end with 1.
        assert!(matches!(told.code, Some(0 | 3)), "{told}");
        if let Some(file) = file {
            std::fs::write(folder.join(file), &told.stdout).unwrap();
        }
    }
}

/// The example's inputs in a folder that a test may write to.
fn copied(example: &Example, test: &str) -> PathBuf {
    let folder = folder(&format!("{test}_{}", example.name));
    for input in example.inputs.iter().filter(|input| !input.starts_with("--")) {
        std::fs::copy(example.folder().join(input), folder.join(input)).unwrap();
    }
    folder
}

/// The demand as observed, written beside the plan and given back with the same inputs, changes nothing. A document
/// that stands later wins, so the observed one goes first.
fn observed_demand_changes_nothing(example: &Example) {
    let folder = copied(example, "observed");
    let words = [&["plan"], example.inputs, &["--format", "json"]].concat();
    let written = run_in(&folder, &[&words[..], &["--write-demand", "observed.yaml"]].concat());
    assert!(folder.join("observed.yaml").is_file(), "{written}");
    let fed = run_in(&folder, &[&["plan", "observed.yaml"], &words[1..]].concat());
    assert_eq!(written.code, fed.code, "{fed}");
    assert_eq!(written.stdout, fed.stdout);
}

/// `tesela render` writes steps for both executors, a README first.
fn steps_are_written(example: &Example) {
    let folder = folder(&format!("steps_{}", example.name));
    let plan = example.plan(&["--format", "json"]);
    std::fs::write(folder.join("plan.json"), &plan.stdout).unwrap();
    for executor in ["gpu-operator", "native"] {
        let told = run_in(&folder, &["render", "plan.json", "--for", executor, "--out", executor]);
        assert_eq!(told.code, Some(0), "{told}");
        assert!(folder.join(executor).join("00-README.md").is_file(), "{told}");
        let entries = std::fs::read_dir(folder.join(executor)).unwrap();
        let steps = entries.filter(|entry| entry.as_ref().unwrap().path().is_dir()).count();
        assert!(steps >= 2, "{executor} of {}: {steps} steps", example.name);
    }
}

macro_rules! tests_of {
    ($module:ident, $example:expr) => {
        mod $module {
            use super::*;

            #[test]
            fn for_people() {
                output_for_people(&$example);
            }

            #[test]
            fn for_programs() {
                output_for_programs(&$example);
            }

            #[test]
            fn the_commands_of_the_readme_work() {
                readme_commands_work(&$example);
            }

            #[test]
            fn the_demand_as_observed_changes_nothing() {
                observed_demand_changes_nothing(&$example);
            }

            #[test]
            fn steps_for_both_executors() {
                steps_are_written(&$example);
            }
        }
    };
}

tests_of!(agents_company, COMPANY);
tests_of!(measured, MEASURED);
tests_of!(mixed_fleet, MIXED);
tests_of!(regulated, REGULATED);
