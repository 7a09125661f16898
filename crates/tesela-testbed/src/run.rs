//! The folder of one run, and who cleans up behind it.

use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};

/// Names the mark in the environment of every program that a run starts.
const MARK: &str = "TESELA_TESTBED_MARK";

/// A folder for data, logs, keys and sockets, removed with everything that still runs when this is dropped.
pub(crate) struct Run {
    folder: PathBuf,
    mark: String,
    reaper: Child,
}

impl Run {
    pub(crate) fn begin() -> Result<Self> {
        // Short, because a unix socket's path has at most 107 bytes.
        let name = format!("tesela-testbed-{}", secret(6)?);
        let folder = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        let mark = secret(16)?;
        let script = folder.join("reaper.sh");
        std::fs::write(&script, include_str!("reaper.sh"))?;
        let reaper = Command::new("sh")
            .arg(&script)
            .arg(&folder)
            .arg(format!("{MARK}={mark}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // A terminal's Ctrl-C goes to the group of its foreground.
            .process_group(0)
            .spawn()
            .context("cannot start sh")?;
        Ok(Self { folder, mark, reaper })
    }

    /// The folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A command whose process ends with the thread that starts it, and that the reaper knows.
    pub(crate) fn command(&self, program: &Path) -> Command {
        self.command_in(None, program)
    }

    /// The same in a network namespace.
    pub(crate) fn command_in(&self, network: Option<&Path>, program: &Path) -> Command {
        let mut command = Command::new("setpriv");
        command.arg("--pdeathsig=KILL").arg("--");
        if let Some(file) = network {
            command.arg("nsenter").arg(format!("--net={}", file.display())).arg("--");
        }
        command.arg(program);
        command.env(MARK, &self.mark).stdin(Stdio::null());
        command
    }

    /// Writes a file that only its owner may read.
    pub(crate) fn keep(&self, name: &str, text: &str) -> Result<PathBuf> {
        use std::io::Write as _;
        let path = self.folder.join(name);
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Its standard input ends, and with it the run.
        drop(self.reaper.stdin.take());
        let _ = self.reaper.wait();
    }
}

/// So many random bytes as hexadecimal digits.
pub(crate) fn secret(bytes: usize) -> Result<String> {
    let mut random = vec![0; bytes];
    let mut source = std::fs::File::open("/dev/urandom").context("cannot open /dev/urandom")?;
    source.read_exact(&mut random).context("cannot read /dev/urandom")?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keeper::Keeper;

    fn alive(pid: u32) -> bool {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = state.rsplit(") ").next().unwrap_or_default().to_owned();
        !state.is_empty() && !state.starts_with('Z')
    }

    #[test]
    fn the_end_of_a_run_ends_what_it_started_and_nothing_else() {
        let run = Run::begin().unwrap();
        let keeper = Keeper::start().unwrap();
        let mut words = run.command(Path::new("sh"));
        // A grandchild in a session of its own, as a daemon would be.
        words.args(["-c", "setsid sleep 600 & echo $!; wait"]).stdout(Stdio::piped());
        let mut ours = keeper.spawn(words).unwrap();
        let mut grandchild = String::new();
        let mut told = ours.stdout.take().unwrap();
        while !grandchild.ends_with('\n') {
            let mut byte = [0];
            told.read_exact(&mut byte).unwrap();
            grandchild.push(char::from(byte[0]));
        }
        let grandchild = grandchild.trim().parse().unwrap();
        let mut other = Command::new("sleep").arg("600").spawn().unwrap();
        let folder = run.folder().to_owned();
        assert!(alive(ours.id()) && alive(grandchild) && folder.exists());
        drop(run);
        assert!(!alive(ours.id()) && !alive(grandchild) && !folder.exists());
        assert!(alive(other.id()));
        other.kill().unwrap();
        other.wait().unwrap();
        ours.wait().unwrap();
    }

    #[test]
    fn a_program_ends_with_the_keeper_that_started_it() {
        let run = Run::begin().unwrap();
        let keeper = Keeper::start().unwrap();
        let mut words = run.command(Path::new("sleep"));
        words.arg("600");
        let mut child = keeper.spawn(words).unwrap();
        // Until `setpriv` has asked for the signal.
        crate::until("sleep", std::time::Duration::from_secs(20), |_| {
            let words = std::fs::read_to_string(format!("/proc/{}/cmdline", child.id())).unwrap_or_default();
            Ok(words.starts_with("sleep").then_some(()))
        })
        .unwrap();
        drop(keeper);
        let ended = child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(9));
    }
}
