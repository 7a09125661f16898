//! Tasks of the repository. `cargo xtask` lists them.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "these tasks read and write the repository, start programs, look at the clock and print"
)]

mod bench_observe;
mod bench_plan;
mod cli_reference;
mod cloud_prices;
mod cluster;
mod edges;
mod lint_reference;
mod node_check;
mod nvml_clients;
mod nvml_coverage;
mod profiles;
mod reference;
mod render_check;
mod report;
mod schema;
mod soak;
mod suite;
mod testbed;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::suite::Extent;

const USAGE: &str = "\
usage: cargo xtask TASK

  test                 every test of the repository
  test --quick         the everyday tests only
  test --from STEP     all from a step on
  edges                who may import whom
  generate [--check]   what is generated: write it, or say what is stale
  cluster [--nodes N] [--pods M] [--seed S]
                       a large made-up cluster as kubectl prints it, on standard output
  bench-observe [--nodes N] [--pods M] [--seed S]
                       time and memory of `tesela plan` on such a cluster
  soak [--cases N] [--seed S]
                       ends `tesela mig apply`'s executor at every point of random changes on simulated GPUs
  nvml-clients         gpustat, nvitop, NVIDIA's Python and Go clients on an emulated node
  bench-plan           time of `tesela plan` on the example with 20 nodes, with use, prices and report
  report [--picture]   the pages of `tesela plan --html` in a real browser, or the picture of docs/report.md
  testbed build|up|down|run [RELEASE] [-- COMMAND]
                       a real Kubernetes for tests (testbed/README.md)
  node-check [RELEASE|all]
                       nodes of the testbed: kubelets, containers, devices
  render-check [RELEASE|all] [EXAMPLE…]
                       everything that `tesela render` writes, applied to a real API server";

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let words = std::env::args().skip(1).collect::<Vec<_>>();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["test"] => return suite::run(&root, Extent::All),
        ["test", "--quick"] => return suite::run(&root, Extent::Quick),
        ["test", "--from", step] => return suite::run(&root, Extent::From(step)),
        ["edges"] => edges::run(&root)?,
        ["generate"] => generate(&root, false)?,
        ["generate", "--check"] => generate(&root, true)?,
        ["cluster", ..] => cluster::run(&words[1..])?,
        ["soak", ..] => soak::run(&root, &words[1..])?,
        ["nvml-clients"] => nvml_clients::run(&root)?,
        ["report", ..] => report::run(&root, &words[1..])?,
        ["testbed", ..] => return testbed::run(&words[1..]),
        ["node-check", ..] => node_check::run(&words[1..])?,
        ["render-check", ..] => render_check::run(&root, &words[1..])?,
        ["bench-plan"] => bench_plan::run(&root)?,
        ["bench-observe", ..] => bench_observe::run(&root, &words[1..])?,
        _ => bail!("{USAGE}"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes everything that is generated, or with `check` says what is stale.
fn generate(root: &Path, check: bool) -> Result<()> {
    profiles::generate(root, check)?;
    cloud_prices::generate(root, check)?;
    schema::generate(root, check)?;
    reference::generate(root, check)?;
    lint_reference::generate(root, check)?;
    nvml_coverage::generate(root, check)?;
    cli_reference::generate(root, check)
}
