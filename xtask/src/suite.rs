//! `cargo xtask test [--quick]`: every test of the repository, in one command, on a machine that has only Rust, a C++
//! compiler and Python. It stops at the first step that fails and prints the command that shows the fault alone.
//! `--from STEP` goes on from a step, once its fault is mended.

mod step;
mod tools;

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use self::step::{Call, Step};

/// Seconds that each fuzz target searches.
const FUZZ_SECONDS: u32 = 20;

/// Which steps.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Extent<'a> {
    /// All of them.
    All,
    /// Those from the step of this name.
    From(&'a str),
    /// The everyday tests.
    Quick,
}

/// Runs the steps.
pub(crate) fn run(root: &Path, extent: Extent<'_>) -> Result<ExitCode> {
    tools::install(root)?;
    if !matches!(extent, Extent::Quick) {
        tools::install_browser()?;
    }
    let steps = match extent {
        Extent::Quick => vec![tests()],
        Extent::All => all(root)?,
        Extent::From(name) => {
            let mut steps = all(root)?;
            let names = steps.iter().map(|step| step.name.clone()).collect::<Vec<_>>();
            let Some(first) = names.iter().position(|step| step == name) else {
                bail!("no step is called `{name}`: {}", names.join(", "))
            };
            steps.drain(..first);
            steps
        }
    };
    let (mut passed, mut times) = (0, Vec::new());
    let all = steps.len();
    for (index, step) in steps.into_iter().enumerate() {
        println!("\n==> {}/{all} {}", index + 1, step.name);
        let begin = Instant::now();
        let outcome = step.run(root);
        let seconds = begin.elapsed().as_secs_f64();
        passed += outcome.passed;
        if let Some(fault) = outcome.fault {
            println!("\n{} failed after {seconds:.1} s: {fault}", step.name);
            println!("{passed} passed, {} failed", outcome.failed);
            return Ok(ExitCode::FAILURE);
        }
        println!("    {} took {seconds:.1} s", step.name);
        times.push((step.name, seconds));
    }
    println!("\nSeconds by step:");
    for (name, seconds) in &times {
        println!("{seconds:>8.1}  {name}");
    }
    println!("{:>8.1}  all", times.iter().map(|(_, seconds)| seconds).sum::<f64>());
    println!("\nEach test of the test runner counts as one, each other step as one.");
    println!("{passed} passed, 0 failed");
    Ok(ExitCode::SUCCESS)
}

/// The everyday tests.
fn tests() -> Step {
    Step::counted("tests", Call::cargo("nextest run --workspace --locked"))
}

/// Every step, the cheap ones first.
fn all(root: &Path) -> Result<Vec<Step>> {
    let cargo = |name: &str, words: &str| Step::calls(name, vec![Call::cargo(words)]);
    let alone =
        members(root)?.into_iter().map(|name| Call::cargo(&format!("check --quiet --locked -p {name}")));
    let mut steps = vec![
        Step::calls(
            "format",
            vec![
                Call::cargo("fmt --all --check"),
                Call::cargo("fmt --manifest-path fuzz/Cargo.toml --check"),
            ],
        ),
        Step::own("edges", "cargo xtask edges", crate::edges::run),
        Step::own("generated files", "cargo xtask generate --check", |root| crate::generate(root, true)),
        cargo("licences and sources", "deny --locked check bans licenses sources"),
        cargo("lints", "clippy --quiet --workspace --all-targets --locked -- -D warnings"),
        Step::calls("each crate alone", alone.collect()),
        tests(),
        cargo("examples in documentation", "test --quiet --doc --workspace --locked"),
        Step::calls(
            "documentation",
            vec![
                Call::cargo("doc --quiet --workspace --no-deps --locked").with("RUSTDOCFLAGS", "-D warnings"),
            ],
        ),
        Step::own("NVML's clients on an emulated node", "cargo xtask nvml-clients", crate::nvml_clients::run),
        Step::own("report in a browser", "cargo xtask report", crate::report::step),
        cargo("the README's main job", &main_job(root)?),
        cargo("benchmark of packing, quick", "test --quiet --locked -p tesela-plan --bench pack -- --quick"),
        cargo(
            "benchmark of reconfiguring, quick",
            "test --quiet --locked -p tesela-plan --bench reconfigure -- --quick",
        ),
        cargo("benchmark of MIG changes", "test --quiet --locked -p tesela-executor --bench apply"),
        cargo(
            "soak of MIG changes, quick",
            "test --quiet --locked -p tesela-executor --bench soak -- --quick",
        ),
        Step::own(
            "benchmark of observing, quick",
            "cargo xtask bench-observe --nodes 200 --pods 2000",
            |root| crate::bench_observe::run(root, &["--nodes", "200", "--pods", "2000"].map(str::to_owned)),
        ),
        Step::own("benchmark of a whole plan", "cargo xtask bench-plan", crate::bench_plan::run),
    ];
    steps.extend(fuzz(root)?);
    Ok(steps)
}

/// What the README runs first, without the leading `cargo`.
fn main_job(root: &Path) -> Result<String> {
    let readme = std::fs::read_to_string(root.join("README.md")).context("cannot read README.md")?;
    let line = readme.lines().find_map(|line| line.strip_prefix("cargo run "));
    Ok(format!("run {}", line.context("README.md has no line that begins with `cargo run`")?))
}

/// One build of all fuzz targets, then each on its kept corpus. What a run finds new stays in `fuzz/target`.
fn fuzz(root: &Path) -> Result<Vec<Step>> {
    let cargo = |words: &str| Call::cargo(words).with("RUSTC_BOOTSTRAP", "1");
    let mut steps = vec![Step::calls("build of the fuzz targets", vec![cargo("fuzz build")])];
    for target in fuzz_targets(root)? {
        let found = format!("fuzz/target/corpus/{target}");
        std::fs::create_dir_all(root.join(&found)).with_context(|| format!("cannot make {found}"))?;
        let words = format!(
            "fuzz run {target} {found} fuzz/corpus/{target} -- -max_total_time={FUZZ_SECONDS} -verbosity=0 \
             -print_final_stats=1"
        );
        steps.push(Step::calls(&format!("fuzz target {target}"), vec![cargo(&words)]));
    }
    Ok(steps)
}

fn fuzz_targets(root: &Path) -> Result<Vec<String>> {
    let listed =
        std::fs::read_dir(root.join("fuzz/fuzz_targets")).context("cannot list fuzz/fuzz_targets")?;
    let mut names = Vec::new();
    for entry in listed {
        let path = entry?.path();
        let name = path.file_stem().and_then(|stem| stem.to_str()).filter(|_| path.is_file());
        names.extend(name.map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

fn members(root: &Path) -> Result<Vec<String>> {
    let mut names = vec!["xtask".to_owned()];
    for entry in std::fs::read_dir(root.join("crates")).context("cannot list crates")? {
        names.extend(entry?.file_name().into_string());
    }
    names.sort();
    Ok(names)
}
