//! The command line of Tesela: reads at the rim, decides in the pure crates, prints through one printer.

mod activity;
#[cfg(test)]
#[path = "../../tesela-plan/tests/builders/mod.rs"]
mod builders;
mod cli;
mod driver;
mod failure;
mod input;
mod io;
mod node;
mod outline;
mod printer;
mod report;
mod sniff;
mod start;
mod table;
mod usage;
mod verbs;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};

use crate::cli::Cli;
use crate::printer::Printer;

fn main() -> ExitCode {
    let words = std::env::args_os().collect::<Vec<_>>();
    let cli = match parse(words) {
        Ok(cli) => cli,
        Err(refusal) => {
            // Help and version go to standard output with 0, refusals to standard error with 2.
            let _ = refusal.print();
            return ExitCode::from(u8::try_from(refusal.exit_code()).unwrap_or(2));
        }
    };
    let printer = Printer::new(&cli.global);
    match verbs::run(&cli, &printer) {
        Ok(outcome) => ExitCode::from(outcome.code()),
        Err(failure) => {
            printer.note(&failure.to_string());
            ExitCode::from(failure.code())
        }
    }
}

/// Reads the command line. kubectl finds plugins by their file name, and people then type `kubectl tesela`.
fn parse(words: Vec<OsString>) -> Result<Cli, clap::Error> {
    let called = words.first().and_then(|word| Path::new(word).file_stem()?.to_str()).unwrap_or_default();
    let name = if called == "kubectl-tesela" { "kubectl tesela" } else { "tesela" };
    let mut command = Cli::command().bin_name(name);
    let matches = command.try_get_matches_from_mut(words)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}
