//! A step of the suite: some calls of cargo, or a check of ours.

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::tools;

/// A call of cargo.
pub(super) struct Call {
    words: Vec<String>,
    env: Vec<(&'static str, &'static str)>,
}

impl Call {
    /// `cargo` with words parted by blanks.
    pub(super) fn cargo(words: &str) -> Self {
        Self { words: words.split_whitespace().map(str::to_owned).collect(), env: Vec::new() }
    }

    /// The same with one more environment variable.
    pub(super) fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.env.push((name, value));
        self
    }

    fn run(&self, root: &Path) -> Result<()> {
        println!("    {self}");
        let mut command = Command::new("cargo");
        command.args(&self.words).envs(self.env.iter().copied()).env("PATH", tools::path(root)?);
        let status = command.current_dir(root).stdin(Stdio::null()).status().context("cannot start cargo")?;
        if !status.success() {
            bail!("`{self}` ended with {status}");
        }
        Ok(())
    }
}

/// As one would type it.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.env {
            write!(f, "{name}='{value}' ")?;
        }
        write!(f, "cargo {}", self.words.join(" "))
    }
}

enum Work {
    Calls(Vec<Call>),
    Counted(Call),
    Own(&'static str, fn(&Path) -> Result<()>),
}

/// A step with its name.
pub(super) struct Step {
    pub(super) name: String,
    work: Work,
}

/// What came of a step. `failed` is above 0 exactly when there is a fault.
pub(super) struct Outcome {
    pub(super) passed: u64,
    pub(super) failed: u64,
    pub(super) fault: Option<String>,
}

impl Step {
    /// Calls of cargo, one after the other.
    pub(super) fn calls(name: &str, calls: Vec<Call>) -> Self {
        Self { name: name.to_owned(), work: Work::Calls(calls) }
    }

    /// A call of the test runner, whose tests are counted one by one.
    pub(super) fn counted(name: &str, call: Call) -> Self {
        Self { name: name.to_owned(), work: Work::Counted(call) }
    }

    /// A check inside this program, with the command that runs it alone.
    pub(super) fn own(name: &str, command: &'static str, check: fn(&Path) -> Result<()>) -> Self {
        Self { name: name.to_owned(), work: Work::Own(command, check) }
    }

    pub(super) fn run(&self, root: &Path) -> Outcome {
        match &self.work {
            Work::Calls(calls) => Outcome::of_one(calls.iter().try_for_each(|call| call.run(root))),
            Work::Own(command, check) => {
                println!("    {command}");
                Outcome::of_one(check(root).with_context(|| format!("`{command}`")))
            }
            Work::Counted(call) => counted(call, root),
        }
    }
}

impl Outcome {
    fn of_one(result: Result<()>) -> Self {
        match result {
            Ok(()) => Self { passed: 1, failed: 0, fault: None },
            Err(error) => Self { passed: 0, failed: 1, fault: Some(format!("{error:#}")) },
        }
    }
}

/// Where the test runner writes its report (.config/nextest.toml).
const REPORT: &str = "target/nextest/default/junit.xml";

fn counted(call: &Call, root: &Path) -> Outcome {
    // An old report must not stand in for a run that never came to its tests.
    let _ = std::fs::remove_file(root.join(REPORT));
    let result = call.run(root);
    let report = std::fs::read_to_string(root.join(REPORT)).unwrap_or_default();
    let (tests, failed) = counts(&report).unwrap_or_default();
    let passed = tests.saturating_sub(failed);
    match result {
        Ok(()) if passed == 0 => {
            Outcome { passed, failed: 1, fault: Some(format!("`{call}` ran no test that {REPORT} tells of")) }
        }
        Ok(()) => Outcome { passed, failed: 0, fault: None },
        Err(error) => Outcome { passed, failed: failed.max(1), fault: Some(format!("{error:#}")) },
    }
}

/// Tests and failed ones of a JUnit report's outermost element.
fn counts(report: &str) -> Option<(u64, u64)> {
    let (_, rest) = report.split_once("<testsuites ")?;
    let (head, _) = rest.split_once('>')?;
    let number = |name: &str| {
        let (_, rest) = head.split_once(&format!("{name}=\""))?;
        rest.split_once('"')?.0.parse::<u64>().ok()
    };
    Some((number("tests")?, number("failures")? + number("errors")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_from_the_report() {
        let report =
            r#"<?xml version="1.0"?><testsuites name="run" tests="12" failures="2" errors="1" uuid="x">"#;
        assert_eq!(counts(report), Some((12, 3)));
        assert_eq!(counts("<testsuites tests=\"x\">"), None);
        assert_eq!(counts(""), None);
    }

    #[test]
    fn a_step_without_a_report_has_passed_nothing() {
        let nowhere = Path::new("/nonexistent");
        let outcome = counted(&Call::cargo("nextest run"), nowhere);
        assert_eq!((outcome.passed, outcome.failed), (0, 1));
        assert!(outcome.fault.is_some());
    }
}
