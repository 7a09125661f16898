//! `cargo xtask soak [--cases N] [--seed S]`: hundreds of thousands of deaths of the executor. What it does stands in
//! `crates/tesela-executor/benches/soak.rs`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Runs the soak with the words behind `soak`.
pub(crate) fn run(root: &Path, words: &[String]) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let fixed = ["bench", "--quiet", "--locked", "-p", "tesela-executor", "--bench", "soak", "--"];
    let status = Command::new(cargo).args(fixed).args(words).current_dir(root).status();
    ensure!(
        status.context("cannot start cargo")?.success(),
        "a GPU ended between; the last seed names the case"
    );
    Ok(())
}
