//! `tesela plan`: from what the cluster is to a proven plan.

use std::fmt::Write as _;
use std::path::Path;

use tesela_formats::documents::write_demand;
use tesela_model::plan::{Plan, PlanStatus};
use tesela_model::product::ProductTable;
use tesela_plan::input::{PlanInput, Settings};
use tesela_plan::validate::{Fault, validate};

use crate::cli;
use crate::failure::{Failure, Outcome};
use crate::input::{Gathered, gather};
use crate::io::{self, Existing};
use crate::printer::Printer;
use crate::table;
use crate::table::plan::Sheet;
use crate::table::words::count;

/// Faults told when a plan breaks rules; the first says most.
const FAULTS: usize = 5;

/// Reads, plans, checks the plan, writes the demand where asked, prints.
///
/// # Errors
/// Input not usable, demand file not writable, output not writable, or a plan that breaks a rule.
pub(crate) fn run(words: &cli::Plan, products: &ProductTable, printer: &Printer) -> Result<Outcome, Failure> {
    let gathered = gather(words, products, printer)?;
    let input = PlanInput {
        products: &gathered.products,
        fleet: &gathered.fleet,
        demand: &gathered.demand,
        findings: &gathered.findings,
        prices: gathered.prices.as_ref(),
        settings: Settings::default(),
    };
    let pods = gathered.demand.workloads.iter().map(|w| w.count).fold(0u64, u64::saturating_add);
    let nodes = gathered.fleet.nodes.len() as u64;
    printer.progress(&format!("planning {} pods on {} nodes", count(pods), count(nodes)));
    let plan = tesela_plan::plan(&input);
    printer.progress("checking the plan");
    let faults = validate(&input, &plan);
    if !faults.is_empty() {
        return Err(broken(&faults));
    }
    if let Some(file) = &words.write_demand {
        write(file, &gathered, words.force, printer)?;
    }
    printer.progress("");
    let sheet = Sheet {
        plan: &plan,
        fleet: &gathered.fleet,
        demand: &gathered.demand,
        products: &gathered.products,
        findings: words.findings.0,
        rows: words.rows.0,
        demand_file: words.write_demand.as_ref().map(|p| p.display().to_string()),
        inputs: words.files.iter().map(|f| f.display().to_string()).collect(),
    };
    print(&plan, &sheet, printer)
}

fn print(plan: &Plan, sheet: &Sheet<'_>, printer: &Printer) -> Result<Outcome, Failure> {
    printer.result(plan, |page| table::plan::put(page, sheet))?;
    Ok(match plan.status {
        PlanStatus::Complete => Outcome::Done,
        PlanStatus::Partial => Outcome::Partly,
    })
}

/// Writes the demand as observed, before documents of ours changed it.
fn write(file: &Path, gathered: &Gathered, force: bool, printer: &Printer) -> Result<(), Failure> {
    let Some(observed) = &gathered.observed else {
        return Err(Failure::input(
            "--write-demand: nothing was observed, the inputs are documents of ours only",
        )
        .hint("add what `kubectl get nodes,pods -A -o json` prints"));
    };
    let existing = if force { Existing::Replace } else { Existing::Keep };
    io::write(file, &write_demand(observed), existing)?;
    let workloads = count(observed.workloads.len() as u64);
    printer.note(&format!("{}: written, {workloads} workloads as observed", file.display()));
    Ok(())
}

/// A plan that its own checker refuses is never shown.
fn broken(faults: &[Fault]) -> Failure {
    let mut text = format!("the plan breaks {} of its own rules, so it is not shown:", faults.len());
    for fault in faults.iter().take(FAULTS) {
        let _ = write!(text, "\n  {fault}");
    }
    Failure::program(text)
        .hint("this is a defect of tesela, not of the input; please report it with the input")
}
