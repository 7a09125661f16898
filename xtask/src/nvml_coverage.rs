//! `docs/nvml-coverage.md` from the table that the emulated driver is built from.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

const FILE: &str = "docs/nvml-coverage.md";
/// The table.
pub(crate) const TABLE: &str = "crates/nvml-sim/data/functions.tsv";

/// A function of NVML.
pub(crate) struct Function {
    /// Its name.
    pub(crate) name: String,
    /// Whether NVIDIA's Python client, the Rust bindings and the Go client name it.
    pub(crate) named_by: [bool; 3],
    /// Whether the emulated driver has it in full.
    pub(crate) full: bool,
}

/// Reads the table.
pub(crate) fn functions(root: &Path) -> Result<Vec<Function>> {
    let text = std::fs::read_to_string(root.join(TABLE)).with_context(|| format!("cannot read {TABLE}"))?;
    let mut all = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let columns = line.split('\t').collect::<Vec<_>>();
        let [name, python, sys, go, answer] = columns[..] else { bail!("{TABLE}: no row: {line}") };
        let named_by = [python == "py", sys == "sys", go == "go"];
        all.push(Function { name: name.to_owned(), named_by, full: answer == "full" });
    }
    if !all.is_sorted_by(|one, next| one.name < next.name) {
        bail!("{TABLE}: rows are sorted by name, each once");
    }
    Ok(all)
}

/// Writes the document, or with `check` says that it is stale.
pub(crate) fn generate(root: &Path, check: bool) -> Result<()> {
    let path = root.join(FILE);
    let text = document(&functions(root)?);
    if std::fs::read_to_string(&path).unwrap_or_default() == text {
        return Ok(());
    }
    if check {
        bail!("{FILE} is stale: run `cargo xtask generate` and commit the result");
    }
    std::fs::write(&path, text).with_context(|| format!("cannot write {FILE}"))
}

fn document(functions: &[Function]) -> String {
    let full = functions.iter().filter(|function| function.full).count();
    let mut out = format!(
        "# What the emulated driver has of NVML\n\n\
         Written by `cargo xtask generate` from `{TABLE}`; do not edit. How to use it: \
         [emulated GPUs](emulated-gpus.md).\n\n\
         {} functions are exported: every one that NVIDIA's Python client, the Rust bindings or NVIDIA's Go client \
         name, whichever driver version is emulated, since a missing symbol ends a Go program. {full} behave in full. \
         The others answer `NVML_ERROR_NOT_SUPPORTED`, as a driver does where a GPU lacks something, and \
         `NVML_ERROR_UNINITIALIZED` before `nvmlInit`.\n\n\
         | function | answer | Python | Rust | Go |\n| --- | --- | --- | --- | --- |\n",
        functions.len()
    );
    for function in functions {
        let answer = if function.full { "full" } else { "not supported" };
        let [python, rust, go] = function.named_by.map(|named| if named { "yes" } else { "" });
        let _ = writeln!(out, "| `{}` | {answer} | {python} | {rust} | {go} |", function.name);
    }
    out
}
