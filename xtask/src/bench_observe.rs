//! `cargo xtask bench-observe [--nodes N] [--pods M] [--seed S]`: how long the program takes over a large cluster, and
//! how much memory it holds. Prints figures, asserts none.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::cluster;

/// Runs the task with the words behind `bench-observe`, which are those of `cluster`.
pub(crate) fn run(root: &Path, words: &[String]) -> Result<()> {
    let program = program(root, &["--release"])?;
    let file = std::env::temp_dir().join(format!("tesela-bench-observe-{}.json", std::process::id()));
    let result = measure(&program, &file, words);
    let _ = std::fs::remove_file(&file);
    result
}

/// A build of the program, and where it lies.
pub(crate) fn program(root: &Path, profile: &[&str]) -> Result<String> {
    let words = [&["build", "--locked", "-p", "tesela", "--message-format=json-render-diagnostics"], profile]
        .concat();
    let mut command = Command::new("cargo");
    let mut child =
        command.args(&words).current_dir(root).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let told = BufReader::new(child.stdout.take().context("cargo has no output")?);
    let mut program = None;
    for line in told.lines() {
        let message = serde_json::from_str::<serde_json::Value>(&line?)?;
        if let Some(path) = message["executable"].as_str() {
            program = Some(path.to_owned());
        }
    }
    ensure!(child.wait()?.success(), "`cargo {}` failed", words.join(" "));
    program.context("cargo told of no program")
}

fn measure(program: &str, file: &Path, words: &[String]) -> Result<()> {
    cluster::write_to(file, words)?;
    let bytes = std::fs::metadata(file)?.len();
    println!("| what | seconds | peak memory, MiB | output, bytes |");
    println!("| --- | --- | --- | --- |");
    for format in ["table", "json"] {
        let file = file.to_str().context("a path that is no text")?;
        let run = timed(program, &["plan", file, "--format", format])?;
        let seconds = run.time.as_secs_f64();
        println!(
            "| `tesela plan --format {format}` on {} MB of kubectl JSON | {seconds:.2} | {} | {} |",
            bytes / 1_000_000,
            run.peak_kib / 1024,
            run.bytes
        );
    }
    Ok(())
}

/// What one run took.
pub(crate) struct Run {
    pub(crate) time: Duration,
    pub(crate) peak_kib: u64,
    bytes: usize,
}

/// One run of the program. The kernel's high-water mark of its memory is read every few milliseconds and once more
/// when its output begins, for then its work is done and only printing is left.
pub(crate) fn timed(program: &str, words: &[&str]) -> Result<Run> {
    let begin = Instant::now();
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start {program}"))?;
    let status = format!("/proc/{}/status", child.id());
    let mut out = child.stdout.take().context("the program has no output")?;
    let reader = std::thread::spawn({
        let status = status.clone();
        move || -> std::io::Result<(usize, u64)> {
            let mut first = [0; 1];
            let mut bytes = out.read(&mut first)?;
            let peak = peak_kib(&status);
            bytes += usize::try_from(std::io::copy(&mut out, &mut std::io::sink())?).unwrap_or(usize::MAX);
            Ok((bytes, peak))
        }
    });
    let mut peak = 0;
    let ended = loop {
        peak = peak.max(peak_kib(&status));
        if let Some(ended) = child.try_wait()? {
            break ended;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let time = begin.elapsed();
    let Ok(read) = reader.join() else { bail!("the reader of the output stopped") };
    let (bytes, at_output) = read?;
    // 3: done in part, some pods do not fit.
    ensure!(matches!(ended.code(), Some(0 | 3)), "`{program} plan` ended with {ended}");
    ensure!(bytes > 1, "`{program} plan` printed nothing");
    Ok(Run { time, peak_kib: peak.max(at_output), bytes })
}

/// 0 where the kernel does not tell.
fn peak_kib(status: &str) -> u64 {
    let text = std::fs::read_to_string(status).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
