//! The steps of a rendering, as its README lists them.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};

/// The folders of the steps, in the order in which they are taken.
pub(super) fn of(out: &Path) -> Result<Vec<String>> {
    let readme = std::fs::read_to_string(out.join("00-README.md")).context("no README of the steps")?;
    let steps = listed(&readme);
    for step in &steps {
        for script in ["change.sh", "verify.sh", "undo.sh"] {
            let file = out.join(step).join(script);
            ensure!(file.is_file(), "{} is not there", file.display());
        }
    }
    Ok(steps)
}

/// Rows of the table: `| [DIR](DIR/STEP.md) | …`.
fn listed(readme: &str) -> Vec<String> {
    let rows = readme.lines().filter_map(|line| line.strip_prefix("| [")?.split_once("]("));
    rows.filter(|(step, rest)| rest.starts_with(&format!("{step}/STEP.md)")))
        .map(|(step, _)| step.to_owned())
        .collect()
}

/// Workloads that the README asks to scale down first: namespace and name.
pub(super) fn to_scale_down(readme: &str) -> Vec<(String, String)> {
    let lines = readme.lines().filter(|line| line.contains("scale it down or delete it first"));
    let named =
        lines.filter_map(|line| line.strip_prefix("- ")?.split_once(" holds GPUs")?.0.split_once('/'));
    named.map(|(namespace, name)| (namespace.to_owned(), name.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_requests_of_a_readme() {
        let readme = "- a/b holds GPUs today and has no place in the plan (its count is 0): scale it down or delete it first. Else\n\
            | step | what |\n| --- | --- |\n| [05-x](05-x/STEP.md) | X |\n| [30-w/1-n](30-w/1-n/STEP.md) | Y |\n| [other](else) | Z |\n";
        assert_eq!(listed(readme), ["05-x", "30-w/1-n"]);
        assert_eq!(to_scale_down(readme), [("a".to_owned(), "b".to_owned())]);
    }
}
