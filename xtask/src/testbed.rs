//! `cargo xtask testbed`: a real Kubernetes by one command, for people and for programs that are no Rust tests.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use tesela_testbed::{Binaries, Cluster, NodeBinaries, Release, until};

const USAGE: &str = "\
usage: cargo xtask testbed build [RELEASE…]               build what is missing; without a release, all
       cargo xtask testbed up [RELEASE] [--nodes N]       start a cluster that stays, print how to use it
       cargo xtask testbed down                           end it
       cargo xtask testbed run [RELEASE] [--nodes N] -- COMMAND
                                                          run a command with KUBECONFIG and PATH of a fresh cluster

RELEASE: newest (the default), floor, or a minor version such as 1.34
N: real nodes, with kubelets and containers; takes root. The command then runs in the cluster's network namespace,
   and so must whatever talks to a cluster that stays";

/// How long a cluster may take to start or to end.
const LIMIT: Duration = Duration::from_secs(300);

/// Runs the task with the words behind `testbed`.
pub(crate) fn run(words: &[String]) -> Result<ExitCode> {
    let words = words.iter().map(String::as_str).collect::<Vec<_>>();
    match words[..] {
        ["build", ref names @ ..] => build(names)?,
        ["up", ref words @ ..] => up(&Wanted::read(words)?)?,
        ["down"] => down()?,
        ["hold", state, ref words @ ..] => hold(Path::new(state), &Wanted::read(words)?)?,
        ["run", ref words @ ..] => {
            let at = words.iter().position(|word| *word == "--").context(USAGE)?;
            return with(&Wanted::read(&words[..at])?, &words[at + 1..]);
        }
        _ => bail!("{USAGE}"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Which cluster.
pub(crate) struct Wanted {
    pub(crate) release: Release,
    pub(crate) nodes: Option<usize>,
}

impl Wanted {
    fn read(words: &[&str]) -> Result<Self> {
        let mut wanted = Self { release: Release::Newest, nodes: None };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if *word == "--nodes" {
                let count = words.next().and_then(|count| count.parse().ok());
                wanted.nodes = Some(count.context("--nodes takes a number")?);
            } else {
                wanted.release = Release::named(word)?;
            }
        }
        Ok(wanted)
    }

    /// The same as words.
    fn words(&self) -> Vec<String> {
        let mut words = vec![self.release.name().to_owned()];
        words.extend(self.nodes.into_iter().flat_map(|nodes| ["--nodes".to_owned(), nodes.to_string()]));
        words
    }

    fn build(&self) -> Result<Binaries> {
        if self.nodes.is_some() {
            NodeBinaries::build()?;
        }
        Binaries::build(self.release)
    }

    fn start(&self, binaries: &Binaries) -> Result<Cluster> {
        match self.nodes {
            None => Cluster::start(binaries),
            Some(count) => Cluster::with_nodes(binaries, &NodeBinaries::find()?, count),
        }
    }
}

fn build(names: &[&str]) -> Result<()> {
    let mut releases = names.iter().map(|name| Release::named(name)).collect::<Result<Vec<_>>>()?;
    if releases.is_empty() {
        releases.extend(Release::ALL);
    }
    for release in releases {
        let binaries = Binaries::build(release)?;
        println!("{} ({}): {}", release.name(), release.version()?, binaries.folder().display());
    }
    NodeBinaries::build().map(|_| ())
}

/// Runs a command beside a cluster of its own. Its exit code is ours.
fn with(wanted: &Wanted, command: &[&str]) -> Result<ExitCode> {
    let (program, words) = command.split_first().context(USAGE)?;
    let binaries = wanted.build()?;
    let cluster = wanted.start(&binaries)?;
    let mut path = binaries.folder().as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let status =
        Command::new(program).args(words).env("PATH", path).env("KUBECONFIG", cluster.config()).status();
    let status = status.with_context(|| format!("cannot start `{program}`"))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(ExitCode::from(code))
}

/// Where the cluster that stays is written down: the process that holds it, and its folder.
fn state() -> Result<PathBuf> {
    Ok(tesela_testbed::cache()?.join("up.json"))
}

/// Starts a process that holds a cluster, and waits until it stands.
fn up(wanted: &Wanted) -> Result<()> {
    let binaries = wanted.build()?;
    let state = state()?;
    if held(&state)?.is_some() {
        bail!("a cluster is up already: `cargo xtask testbed down` ends it");
    }
    let told = begin(&state, wanted)?;
    println!("# Kubernetes {}, until `cargo xtask testbed down`", binaries.release().version()?);
    println!("export KUBECONFIG={}", told["config"].as_str().unwrap_or_default());
    println!("export PATH={}:$PATH", binaries.folder().display());
    if let Some(network) = told["network"].as_str() {
        println!("# its network: nsenter --net={network} -- COMMAND");
    }
    Ok(())
}

/// Starts a process that holds a cluster; what it tells once the cluster stands.
pub(crate) fn begin(state: &Path, wanted: &Wanted) -> Result<serde_json::Value> {
    let _ = std::fs::remove_file(state);
    let log = state.with_extension("log");
    let file = std::fs::File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut holder = Command::new(std::env::current_exe()?);
    holder.args(["testbed", "hold"]).arg(state).args(wanted.words());
    // In a group of its own, so that this terminal's Ctrl-C is not meant for it.
    holder.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).process_group(0);
    let mut holder = holder.spawn().context("cannot start the holder")?;
    until("the cluster", LIMIT, |_| {
        if let Some(status) = holder.try_wait()? {
            bail!("it ended with {status}: {}", std::fs::read_to_string(&log)?);
        }
        held(state)
    })
}

/// Holds a cluster until it is killed.
fn hold(state: &Path, wanted: &Wanted) -> Result<()> {
    let mut cluster = wanted.start(&Binaries::find(wanted.release)?)?;
    let told = serde_json::json!({
        "pid": std::process::id(), "began": began(std::process::id()),
        "config": cluster.config(), "folder": cluster.folder(), "network": cluster.network(),
    });
    // Whole or not at all: `up` reads it meanwhile.
    let half = state.with_extension("half");
    std::fs::File::create(&half)?.write_all(told.to_string().as_bytes())?;
    std::fs::rename(&half, state)?;
    loop {
        cluster.check()?;
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// What is written down, when the process that wrote it lives.
fn held(state: &Path) -> Result<Option<serde_json::Value>> {
    let Ok(text) = std::fs::read_to_string(state) else { return Ok(None) };
    let told = serde_json::from_str::<serde_json::Value>(&text)?;
    let pid = told["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).context("no process")?;
    // The number may belong to somebody else by now.
    let lives = began(pid).is_some_and(|began| told["began"] == began);
    Ok(lives.then_some(told))
}

/// When a process began, in clock ticks since the machine did (proc_pid_stat(5), field 22); `None` when it is gone.
fn began(pid: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind_name) = text.rsplit_once(") ")?;
    let mut fields = behind_name.split(' ');
    let state = fields.next()?;
    (state != "Z").then(|| fields.nth(18).map(str::to_owned))?
}

fn down() -> Result<()> {
    let state = state()?;
    let Some(told) = held(&state)? else {
        println!("no cluster is up");
        return Ok(());
    };
    end(&told)?;
    std::fs::remove_file(&state)?;
    println!("ended");
    Ok(())
}

/// Kills the process that holds a cluster, and waits until what it left behind is gone.
pub(crate) fn end(told: &serde_json::Value) -> Result<()> {
    let pid = told["pid"].to_string();
    let status = Command::new("kill").args(["-KILL", &pid]).status().context("cannot start `kill`")?;
    ensure!(status.success(), "cannot end process {pid}");
    // What it leaves behind is ended and removed by the one that waits beside it.
    let folder = PathBuf::from(told["folder"].as_str().context("no folder")?);
    until("the cluster's end", LIMIT, |_| Ok((!folder.exists()).then_some(())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_number_and_its_begin() {
        let pid = std::process::id();
        let folder = std::env::temp_dir().join(format!("tesela-held-{pid}"));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("up.json");
        let write = |began: &str| {
            std::fs::write(&file, serde_json::json!({"pid": pid, "began": began}).to_string()).unwrap();
        };
        assert!(held(&file).unwrap().is_none());
        write(&began(pid).unwrap());
        assert!(held(&file).unwrap().is_some());
        write("1");
        assert!(held(&file).unwrap().is_none(), "another process of the same number");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
