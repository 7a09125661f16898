//! `tesela plan`: from what the cluster is to a proven plan.

use std::fmt::Write as _;
use std::path::Path;

use tesela_formats::documents::write_demand;
use tesela_model::plan::{Plan, PlanStatus};
use tesela_model::product::ProductTable;
use tesela_plan::burst;
use tesela_plan::input::{PlanInput, Settings};
use tesela_plan::validate::{Fault, validate};

use crate::activity::{self, Joint};
use crate::cli;
use crate::failure::{Failure, Outcome};
use crate::input::{Gathered, gather};
use crate::io::{self, Existing};
use crate::printer::Printer;
use crate::report::{Language, html};
use crate::table;
use crate::table::plan::Sheet;
use crate::table::words::many;
use crate::usage;

/// Faults told when a plan breaks rules; the first says most.
const FAULTS: usize = 5;

/// Reads, plans, checks the plan, writes the demand where asked, prints.
///
/// # Errors
/// Input not usable, demand file not writable, output not writable, or a plan that breaks a rule.
pub(crate) fn run(
    words: &cli::Plan,
    products: &ProductTable,
    products_file: Option<&Path>,
    printer: &Printer,
) -> Result<Outcome, Failure> {
    if words.print_usage_query {
        return usage::print_queries(printer);
    }
    let mut gathered = gather(words, products, printer)?;
    if let Some(target) = &words.target {
        return super::reconfigure::run(words, target, &gathered, printer);
    }
    let measured = gathered.evidence.as_ref().and_then(|e| e.activity.clone());
    let joint = activity::read(words, measured, &mut gathered.demand, &Settings::default(), printer)?;
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
    printer.progress(&format!("planning {} on {}", many(pods, "pod"), many(nodes, "node")));
    let mut plan = tesela_plan::plan(&input);
    plan.assumptions.extend(gathered.evidence.iter().flat_map(|e| e.assumptions.clone()));
    plan.assumptions.extend(joint.iter().map(Joint::assumption));
    printer.progress("checking the plan");
    let mut faults = validate(&input, &plan);
    faults.extend(joint.iter().flat_map(|joint| joint.faults(&plan)));
    if !faults.is_empty() {
        return Err(broken(&faults));
    }
    if let Some(file) = &words.write_demand {
        write(file, &gathered, words, printer)?;
    }
    if let Some(list) = words.burst.filter(|_| !plan.unmet.is_empty()) {
        printer.progress("looking for cloud instances");
        plan.burst = burst::suggest(&input, &plan, list);
        if plan.burst.is_empty() {
            printer.note(&format!("--burst: no instance of {} serves a pod that does not fit", list.name()));
        }
    }
    if let Some(file) = &words.html {
        write_report(file, &plan, words, printer)?;
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
        options: options(words, products_file),
    };
    print(&plan, &sheet, printer)
}

/// The options that change the answer, for a command that can be copied.
fn options(words: &cli::Plan, products: Option<&Path>) -> Vec<String> {
    let path = |path: &Path| path.display().to_string();
    let mut options = Vec::new();
    let mut add = |name: &str, value: String| options.extend([name.to_owned(), value]);
    words.usage.iter().for_each(|file| add("--usage", path(file)));
    words.tenant_label.iter().for_each(|key| add("--tenant-label", key.clone()));
    products.iter().for_each(|file| add("--products", path(file)));
    words.price_book.iter().for_each(|file| add("--prices", path(file)));
    words.prices.iter().for_each(|price| add("--price", price.clone()));
    words.currency.iter().for_each(|code| add("--currency", code.clone()));
    words.requests.iter().for_each(|file| add("--requests", path(file)));
    words.service_time.iter().for_each(|time| add("--service-time", time.clone()));
    words.window.iter().for_each(|seconds| add("--window", seconds.to_string()));
    words.at_once.iter().for_each(|pods| add("--at-once", pods.to_string()));
    words.at_once_risk.iter().for_each(|percent| add("--at-once-risk", percent.to_string()));
    words.cloud_prices.iter().for_each(|list| add("--cloud-prices", list.name()));
    words.burst.iter().for_each(|list| add("--burst", list.name()));
    options
}

fn print(plan: &Plan, sheet: &Sheet<'_>, printer: &Printer) -> Result<Outcome, Failure> {
    printer.result(plan, |page| table::plan::put(page, sheet))?;
    Ok(match plan.status {
        PlanStatus::Complete => Outcome::Done,
        PlanStatus::Partial => Outcome::Partly,
    })
}

/// Writes the demand as observed, before documents of ours changed it.
fn write(file: &Path, gathered: &Gathered, words: &cli::Plan, printer: &Printer) -> Result<(), Failure> {
    if words.files.iter().any(|input| input == file) {
        let name = file.display();
        return Err(Failure::input(format!(
            "--write-demand {name}: is among the inputs, and what it says would be lost"
        ))
        .hint("write to another name, and plan with both: that one first, since what stands later wins"));
    }
    let Some(observed) = &gathered.observed else {
        return Err(Failure::input(
            "--write-demand: nothing was observed, the inputs are documents of ours only",
        )
        .hint("add what `kubectl get nodes,pods -A -o json` prints"));
    };
    let existing = if words.force { Existing::Replace } else { Existing::Keep };
    io::write(file, &write_demand(observed), existing)?;
    let workloads = many(observed.workloads.len() as u64, "workload");
    printer.note(&format!("{}: written, {workloads} as observed", file.display()));
    Ok(())
}

/// Writes the plan as a page for people.
fn write_report(file: &Path, plan: &Plan, words: &cli::Plan, printer: &Printer) -> Result<(), Failure> {
    let name = file.display();
    let other = words.write_demand.iter().chain(&words.files).chain(&words.price_book);
    if other.into_iter().any(|known| known == file) {
        let text = format!("--html {name}: is read or written otherwise in this call, and would be lost");
        return Err(Failure::input(text).hint("write the page to another name"));
    }
    let language = match words.lang {
        cli::Language::En => Language::English,
        cli::Language::Es => Language::Spanish,
    };
    let existing = if words.force { Existing::Replace } else { Existing::Keep };
    io::write(file, &html(plan, language), existing)?;
    printer.note(&format!("{name}: written, open it in a browser"));
    Ok(())
}

/// A plan that its own checker refuses is never shown.
fn broken(faults: &[Fault]) -> Failure {
    let mut text = format!(
        "the plan breaks its own rules in {}, so it is not shown:",
        many(faults.len() as u64, "place")
    );
    for fault in faults.iter().take(FAULTS) {
        let _ = write!(text, "\n  {fault}");
    }
    Failure::program(text)
        .hint("this is a defect of tesela, not of the input; please report it with the input")
}
