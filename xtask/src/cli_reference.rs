//! `docs/cli.md` from the clap definitions, so that the reference cannot fall behind the program.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Result, bail};
use clap::{Command, CommandFactory as _};

#[path = "../../crates/tesela/src/cli.rs"]
mod cli;

/// Where the reference lies.
const FILE: &str = "docs/cli.md";
/// Columns of the help texts in it.
const WIDTH: usize = 100;

/// Writes the reference, or with `check` says that it is stale.
pub(crate) fn generate(root: &Path, check: bool) -> Result<()> {
    let path = root.join(FILE);
    let text = reference();
    if !check {
        return Ok(std::fs::write(path, text)?);
    }
    if std::fs::read_to_string(path).unwrap_or_default() != text {
        bail!("{FILE} is stale: run `cargo xtask generate`");
    }
    Ok(())
}

fn reference() -> String {
    let mut text = "# Command line\n\n\
        Written by `cargo xtask generate` from `crates/tesela/src/cli.rs`; do not edit. \
        A link called `kubectl-tesela` on the PATH makes all of this `kubectl tesela`.\n"
        .to_owned();
    let mut root = cli::Cli::command().term_width(WIDTH);
    root.build();
    let names = root.get_subcommands().map(|c| c.get_name().to_owned()).filter(|name| name != "help");
    let names = names.collect::<Vec<_>>();
    section(&mut text, "tesela", &mut root);
    for name in names {
        if let Some(verb) = root.find_subcommand_mut(&name) {
            verb_section(&mut text, &format!("tesela {name}"), verb);
        }
    }
    text
}

/// A verb, then the verbs in it.
fn verb_section(text: &mut String, title: &str, verb: &mut Command) {
    section(text, title, verb);
    let names = verb.get_subcommands().map(|c| c.get_name().to_owned()).filter(|name| name != "help");
    for name in names.collect::<Vec<_>>() {
        if let Some(inner) = verb.find_subcommand_mut(&name) {
            verb_section(text, &format!("{title} {name}"), inner);
        }
    }
}

fn section(text: &mut String, title: &str, command: &mut Command) {
    let help = command.render_long_help().to_string();
    let help = help.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    let _ = write!(text, "\n## `{title}`\n\n```text\n{}\n```\n", help.trim_end());
}
