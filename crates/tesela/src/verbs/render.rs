//! `tesela render`: a plan as numbered steps of manifests.

use std::path::{Path, PathBuf};

use serde::Serialize;
use tesela_model::demand::PodRef;
use tesela_model::product::ProductTable;
use tesela_objects::render::{Existing as ConfigMaps, File, Rendering, Target as For, render};

use crate::cli::{Render, Target};
use crate::failure::{Failure, Outcome};
use crate::input::plan;
use crate::io::{Existing, NewFile, open, read_all, write_folder};
use crate::printer::Printer;
use crate::table;

/// What was written, for programs.
#[derive(Serialize)]
struct Answer<'a> {
    out: String,
    steps: Vec<Written<'a>>,
    warnings: &'a [String],
}

#[derive(Serialize)]
struct Written<'a> {
    number: u32,
    dir: &'a str,
    title: &'a str,
    hits: &'a str,
    /// Pods that it restarts.
    restarts: &'a [PodRef],
    /// Workloads that have no pod from it on or again from it on.
    outages: &'a [String],
    notes: &'a [String],
    files: Vec<&'a str>,
}

/// Reads a plan, renders it, writes the folder, prints the steps.
///
/// # Errors
/// Plan or ConfigMaps not usable, a plan that cannot be rendered, files in the way or not writable.
pub(crate) fn run(words: &Render, products: &ProductTable, printer: &Printer) -> Result<Outcome, Failure> {
    let plan = plan(&words.plan, products)?;
    let existing = config_maps(&words.existing)?.in_operator_namespace(words.operator_namespace.clone());
    let target = match words.target {
        Target::Native => For::Native,
        Target::GpuOperator => For::GpuOperator,
    };
    let rendering = render(&plan, target, &existing).map_err(|error| Failure::input(error.to_string()))?;
    write(&words.out, &rendering.files(), words.force)?;
    let answer = answer(&words.out, &rendering);
    printer.result(&answer, |page| table::render::put(page, &words.out, &rendering))?;
    Ok(Outcome::Done)
}

fn config_maps(files: &[PathBuf]) -> Result<ConfigMaps, Failure> {
    let mut existing = ConfigMaps::none();
    for file in files {
        let input = open(file)?;
        let name = input.name.clone();
        existing.read(&name, &read_all(input)?)?;
    }
    Ok(existing)
}

fn write(folder: &Path, files: &[File], force: bool) -> Result<(), Failure> {
    let file =
        |f: &File| NewFile { path: PathBuf::from(&f.path), text: f.text.clone(), executable: f.executable };
    let files = files.iter().map(file).collect::<Vec<_>>();
    write_folder(folder, &files, if force { Existing::Replace } else { Existing::Keep })
}

fn answer<'a>(out: &Path, rendering: &'a Rendering) -> Answer<'a> {
    let steps = rendering.steps.iter().map(|step| Written {
        number: step.number,
        dir: &step.dir,
        title: &step.title,
        hits: &step.hits,
        restarts: &step.restarts,
        outages: &step.outages,
        notes: &step.notes,
        files: step.files.iter().map(|f| f.path.as_str()).collect(),
    });
    Answer { out: out.display().to_string(), steps: steps.collect(), warnings: &rendering.warnings }
}
