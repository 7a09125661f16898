//! `--usage`: saved answers of Prometheus → what the observed pods need; and the queries to ask for.

use std::path::{Path, PathBuf};

use serde::Serialize;
use tesela_formats::documents::{FleetDocument, merge_fleet};
use tesela_formats::prometheus::{self, Reading, UsageQuery, Vintage, usage_queries};
use tesela_model::product::ProductTable;
use tesela_objects::observe::Observation;
use tesela_plan::evidence::{Collector, Evidence, Scene};
use tesela_plan::input::Settings;

use crate::cli;
use crate::failure::{Failure, Outcome};
use crate::io::open;
use crate::printer::Printer;
use crate::table;

/// The finding that counts the needs a cluster does not tell.
const NEED_UNKNOWN: &str = "need-unknown";

/// Reads every answer and writes what was measured into the observed demand. `None` when there is none to read.
///
/// # Errors
/// What is wrong with an answer, with file and place; answers without anything of kubectl.
pub(crate) fn measure(
    words: &cli::Plan,
    observation: Option<&mut Observation>,
    fleets: &[FleetDocument],
    products: &ProductTable,
    printer: &Printer,
) -> Result<Option<Evidence>, Failure> {
    if words.usage.is_empty() {
        return Ok(None);
    }
    check(words)?;
    let Some(observed) = observation else {
        return Err(Failure::input("--usage: the inputs hold no pods, so nobody knows whose use it is")
            .hint("add what `kubectl get nodes,pods -A -o json` prints"));
    };
    let fleet = fleets.iter().cloned().fold(observed.fleet.clone(), merge_fleet);
    let scene = Scene {
        demand: &observed.demand,
        fleet: &fleet,
        products,
        servers: &observed.servers,
        lives: &observed.lives,
    };
    let mut collector = Collector::new(scene);
    for (pod, held) in observed.earlier.iter().flat_map(|(pod, lives)| lives.iter().map(move |l| (pod, l))) {
        collector.earlier(pod, &held.workload, &held.node, &held.resource, held.started_ms);
    }
    let mut findings = Vec::new();
    let mut unclear = false;
    for file in &words.usage {
        let reading = read(file, &mut collector, printer)?;
        unclear |= reading.util_may_be_ratio;
        findings.extend(reading.findings(&file.display().to_string()));
    }
    let evidence = collector.finish(&Settings::default(), unclear);
    if evidence.apply(&mut observed.demand) > 0 {
        // It counts needs that the cluster does not tell, and its number is wrong now.
        observed.findings.retain(|finding| finding.rule != NEED_UNKNOWN);
    }
    findings.extend(evidence.findings.iter().cloned());
    if words.at_once.or(words.at_once_risk).is_some() {
        findings.extend(evidence.activity_findings.iter().cloned());
    }
    observed.findings.extend(findings);
    Ok(Some(evidence))
}

fn check(words: &cli::Plan) -> Result<(), Failure> {
    for (index, file) in words.usage.iter().enumerate() {
        if words.usage[..index].contains(file) {
            return Err(Failure::input(format!("--usage {}: is named twice", file.display())));
        }
        if words.files.contains(file) {
            let text = format!("--usage {}: is among the other inputs too", file.display());
            return Err(Failure::input(text).hint("name an answer of Prometheus behind --usage only"));
        }
    }
    let lost = |written: &PathBuf| words.usage.contains(written);
    match words.write_demand.as_ref().filter(|file| lost(file)) {
        Some(file) => Err(Failure::input(format!(
            "--write-demand {}: is read with --usage, and would be lost",
            file.display()
        ))),
        None => Ok(()),
    }
}

fn read(file: &Path, collector: &mut Collector<'_>, printer: &Printer) -> Result<Reading, Failure> {
    let input = open(file)?;
    printer.progress(&format!("reading {}", input.name));
    Ok(prometheus::read(&input.name, input.reader, &mut |series| collector.take(&series))?)
}

/// What to ask Prometheus.
#[derive(Serialize)]
struct Queries {
    /// Path of the HTTP API.
    path: &'static str,
    /// Step between samples.
    step: &'static str,
    queries: Vec<UsageQuery>,
}

/// Prints the queries: commands of a shell for people, data for programs.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) fn print_queries(printer: &Printer) -> Result<Outcome, Failure> {
    let queries = [Vintage::Plain, Vintage::Exported].into_iter().flat_map(usage_queries).collect();
    let all = Queries { path: "/api/v1/query_range", step: prometheus::STEP, queries };
    printer.result(&all, |page| table::usage::put(page, &all.queries))?;
    Ok(Outcome::Done)
}
