//! `tesela lint`: what NVIDIA's two config formats and documents of ours say wrongly.

use serde::Serialize;
use tesela_formats::diagnostic::Severity;
use tesela_formats::lint::{FileFindings, lint};
use tesela_model::product::ProductTable;

use crate::cli::{FailOn, Lint};
use crate::failure::{Failure, Outcome};
use crate::io::{Input, open, read_all};
use crate::printer::Printer;
use crate::table;

/// The result as DESIGN 9 fixes it.
#[derive(Serialize)]
struct Answer<'a> {
    files: Vec<&'a FileFindings>,
}

/// A file and what was found in it.
pub(crate) struct Linted {
    /// Its text, for the lines shown beside findings.
    pub(crate) text: String,
    /// What was found.
    pub(crate) found: FileFindings,
}

/// Checks every file, and prints what was found.
///
/// # Errors
/// When a file cannot be read or is no YAML; all such files are told.
pub(crate) fn run(words: &Lint, products: &ProductTable, printer: &Printer) -> Result<Outcome, Failure> {
    let mut linted = Vec::new();
    let mut failures = Vec::new();
    for file in &words.files {
        match open(file).and_then(|input| check(input, products)) {
            Ok(one) => linted.push(one),
            Err(failure) => failures.push(failure),
        }
    }
    if let Some(failure) = Failure::join(failures) {
        return Err(failure);
    }
    let answer = Answer { files: linted.iter().map(|l| &l.found).collect() };
    printer.result(&answer, |page| table::lint::put(page, &linted))?;
    let threshold = match words.fail_on {
        FailOn::Error => Severity::Error,
        FailOn::Warning => Severity::Warning,
        FailOn::Info => Severity::Info,
    };
    let worst = linted.iter().filter_map(|l| l.found.worst()).max();
    Ok(if worst.is_some_and(|w| w >= threshold) { Outcome::Partly } else { Outcome::Done })
}

fn check(input: Input, products: &ProductTable) -> Result<Linted, Failure> {
    let name = input.name.clone();
    let bytes = read_all(input)?;
    let found = lint(&name, &bytes, products)?;
    Ok(Linted { text: String::from_utf8_lossy(&bytes).into_owned(), found })
}
