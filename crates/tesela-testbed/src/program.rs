//! A program of the cluster that runs.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{Context as _, Result, bail};

use crate::keeper::Keeper;

/// How much of a log is shown when its program has died.
const TAIL: usize = 3000;

pub(crate) struct Program {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts it, with both streams into `FOLDER/NAME.log`.
    pub(crate) fn start(keeper: &Keeper, folder: &Path, name: &str, mut command: Command) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&log);
        let file = file.with_context(|| format!("cannot write {}", log.display()))?;
        command.stdout(file.try_clone()?).stderr(file);
        let child = keeper.spawn(command)?;
        Ok(Self { name: name.to_owned(), child, log })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// # Errors
    /// When the program has ended, with the end of its log.
    pub(crate) fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended with {status}:\n{}", self.name, tail(&self.log)),
        }
    }

    /// Kills it hard: in tests nothing is worth the seconds of a graceful end.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn tail(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let from = bytes.len().saturating_sub(TAIL);
    String::from_utf8_lossy(bytes.get(from..).unwrap_or_default()).into_owned()
}
