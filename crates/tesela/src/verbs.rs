//! What each verb does: read, decide, print.

mod completions;
mod layouts;
mod pack;

use tesela_model::product::ProductTable;

use crate::cli::{Cli, Verb};
use crate::failure::{Failure, Outcome};
use crate::printer::Printer;

/// Runs the verb of a command line.
///
/// # Errors
/// What the user has to be told; nothing is on standard output then.
pub(crate) fn run(cli: &Cli, printer: &Printer) -> Result<Outcome, Failure> {
    let products = ProductTable::builtin().clone();
    match &cli.verb {
        Verb::Layouts(words) => layouts::run(words, &products, printer),
        Verb::Pack(words) => pack::run(words, &products, printer),
        Verb::Completions(words) => completions::run(words, printer),
        _ => Err(Failure::program("not there yet")),
    }
}
