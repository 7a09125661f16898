//! `tesela completions`: scripts that complete words in a shell.

use clap::CommandFactory as _;
use clap_complete::Shell as Form;

use crate::cli::{Cli, Completions, Shell};
use crate::failure::{Failure, Outcome};
use crate::printer::Printer;

/// Prints the script.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) fn run(words: &Completions, printer: &Printer) -> Result<Outcome, Failure> {
    let form = match words.shell {
        Shell::Bash => Form::Bash,
        Shell::Zsh => Form::Zsh,
        Shell::Fish => Form::Fish,
        Shell::Powershell => Form::PowerShell,
        Shell::Elvish => Form::Elvish,
    };
    let mut script = Vec::new();
    clap_complete::generate(form, &mut Cli::command(), "tesela", &mut script);
    printer.text(&script)?;
    Ok(Outcome::Done)
}
