//! What each verb does: read, decide, print.

mod completions;
mod estimate;
pub(crate) mod gpus;
mod layouts;
pub(crate) mod lint;
pub(crate) mod mig;
mod pack;
mod plan;
pub(crate) mod reconfigure;
mod render;
pub(crate) mod sim;

use crate::cli::{Cli, Verb};
use crate::failure::{Failure, Outcome};
use crate::input::products;
use crate::printer::Printer;

/// Runs the verb of a command line.
///
/// # Errors
/// What the user has to be told; nothing is on standard output then.
pub(crate) fn run(cli: &Cli, printer: &Printer) -> Result<Outcome, Failure> {
    let table = || products(cli.global.products.as_deref());
    match &cli.verb {
        Verb::Plan(words) => plan::run(words, &table()?, cli.global.products.as_deref(), printer),
        Verb::Pack(words) => pack::run(words, &table()?, printer),
        Verb::Layouts(words) => layouts::run(words, &table()?, printer),
        Verb::Estimate(words) => estimate::run(words, &table()?, printer),
        Verb::Lint(words) => lint::run(words, &table()?, printer),
        Verb::Render(words) => render::run(words, &table()?, printer),
        Verb::Mig(words) => mig::run(&words.verb, &table()?, printer),
        Verb::Sim(words) => sim::run(words, printer),
        Verb::Gpus(words) => gpus::run(words, &table()?, printer),
        Verb::Completions(words) => completions::run(words, printer),
    }
}
