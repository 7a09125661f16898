//! Calls of kubectl.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

/// kubectl of the cluster's own version, with the cluster's administrator.
#[derive(Clone, Debug)]
pub struct Kubectl {
    program: PathBuf,
    config: PathBuf,
    /// The network namespace of the API server.
    network: Option<PathBuf>,
}

/// kubectl has failed: what it was asked and what it said.
#[derive(Debug)]
pub struct Refused {
    /// The words behind `kubectl`.
    pub words: String,
    /// Its standard error.
    pub said: String,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`kubectl {}` failed: {}", self.words, self.said.trim())
    }
}

impl std::error::Error for Refused {}

impl Kubectl {
    pub(crate) fn new(program: &Path, config: &Path, network: Option<&Path>) -> Self {
        Self { program: program.to_owned(), config: config.to_owned(), network: network.map(Path::to_owned) }
    }

    /// A call that is not started yet.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = crate::network::command(self.network.as_deref(), &self.program);
        command.args(words).env("KUBECONFIG", &self.config).stdin(Stdio::null());
        command
    }

    /// What it prints.
    ///
    /// # Errors
    /// [`Refused`] when it fails.
    pub fn call(&self, words: &[&str]) -> Result<String> {
        self.give(words, "")
    }

    /// What it prints when it is given a text on its standard input.
    ///
    /// # Errors
    /// [`Refused`] when it fails.
    pub fn give(&self, words: &[&str], text: &str) -> Result<String> {
        let mut command = self.command(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start kubectl")?;
        let mut input = child.stdin.take().context("kubectl has no input")?;
        // It may fail without having read everything; its own message is the better one.
        let _ = input.write_all(text.as_bytes());
        drop(input);
        let ended = child.wait_with_output()?;
        if !ended.status.success() {
            let said = String::from_utf8_lossy(&ended.stderr).into_owned();
            return Err(Refused { words: words.join(" "), said }.into());
        }
        String::from_utf8(ended.stdout).context("kubectl printed something that is no text")
    }
}
