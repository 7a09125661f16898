//! `plan --requests` and `plan --usage --at-once`: what joint activity says of who may share a device.

use tesela_formats::requests::{Recorder, ServiceTime};
use tesela_model::activity::Activity;
use tesela_model::demand::{Demand, WorkloadKey};
use tesela_model::origin::Origin;
use tesela_model::plan::{Assumption, Plan};
use tesela_plan::activity::{Rule, share};
use tesela_plan::input::Settings;
use tesela_plan::validate::{Fault, validate_together};

use crate::cli;
use crate::failure::Failure;
use crate::io::{Input, open};
use crate::printer::Printer;
use crate::table::words::many;

/// Joint activity, and the workloads of the demand that it spoke for.
pub(crate) struct Joint {
    activity: Activity,
    rule: Rule,
    known: Vec<WorkloadKey>,
}

/// Reads the logs that `--requests` names and writes what they say into the demand. Without logs, `measured` (from
/// `--usage`) is taken where `--at-once` asks for it; else `None`.
///
/// # Errors
/// What is wrong with a log, or logs that speak of no workload of the demand.
pub(crate) fn read(
    words: &cli::Plan,
    measured: Option<Activity>,
    demand: &mut Demand,
    settings: &Settings,
    printer: &Printer,
) -> Result<Option<Joint>, Failure> {
    let activity = match (words.requests.is_empty(), words.at_once.or(words.at_once_risk), measured) {
        (false, ..) => recorded(words, printer)?,
        (true, Some(_), Some(measured)) => measured,
        (true, Some(_), None) => {
            return Err(Failure::input("--at-once: nothing says who works when")
                .hint("add --requests with a log, or --usage with series of GPU use over time that cover the same hours (at least 12 windows of an hour or less)"));
        }
        (true, None, _) => return Ok(None),
    };
    let standard = Rule::default();
    let rule = Rule {
        together: words.at_once.unwrap_or(standard.together),
        risk_ppm: words.at_once_risk.map_or(standard.risk_ppm, |percent| percent * 10_000),
        ..standard
    };
    named(&activity, demand)?;
    printer.progress("looking who works when");
    let known = share(demand, &activity, &rule, settings).into_iter().map(|t| t.key).collect();
    Ok(Some(Joint { activity, rule, known }))
}

/// The logs of `--requests` as activity.
fn recorded(words: &cli::Plan, printer: &Printer) -> Result<Activity, Failure> {
    let service = words.service_time.as_deref().map(ServiceTime::parse).transpose().map_err(refused)?;
    let mut recorder = Recorder::new(words.window.unwrap_or(1) * 1000, service).map_err(refused)?;
    for (k, path) in words.requests.iter().enumerate() {
        if words.requests[..k].contains(path) || words.files.contains(path) {
            return Err(Failure::input(format!("--requests {}: is named twice", path.display())));
        }
        let Input { name, reader } = open(path)?;
        printer.progress(&format!("reading {name}"));
        recorder.log(&name, reader, None).map_err(refused)?;
    }
    recorder.finish().map_err(refused)
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err takes")]
fn refused(fault: tesela_formats::diagnostic::Diagnostic) -> Failure {
    Failure::input(fault.to_string())
}

/// A log that names no workload of the demand is of another cluster, or spells names differently.
fn named(activity: &Activity, demand: &Demand) -> Result<(), Failure> {
    if demand.workloads.iter().any(|w| activity.of(&w.key).is_some()) {
        return Ok(());
    }
    let names = |all: &mut dyn Iterator<Item = String>| all.take(3).collect::<Vec<_>>().join(", ");
    let logged = names(&mut activity.series().iter().map(|s| s.name.to_string()));
    let wanted = names(&mut demand.workloads.iter().map(|w| format!("{}/{}", w.key.namespace, w.key.name)));
    Err(Failure::input(format!(
        "--requests: the logs are of {logged}, and no workload of the demand is called so"
    ))
    .hint(format!("name namespace and workload as the demand does, such as {wanted}")))
}

impl Joint {
    /// What a plan made with it breaks.
    pub(crate) fn faults(&self, plan: &Plan) -> Vec<Fault> {
        validate_together(plan, &self.activity, &self.known, self.rule.together, self.rule.risk_ppm)
    }

    /// What the plan then rests on.
    pub(crate) fn assumption(&self) -> Assumption {
        Assumption {
            subject: "joint activity".to_owned(),
            value: format!(
                "of {} over {} windows of {} s: any pods that may meet on a shared device work more than {} at a time \
                 in at most {} % of the windows, with 95 % confidence",
                many(self.known.len() as u64, "workload"),
                self.activity.windows(),
                self.activity.window_ms() / 1000,
                self.rule.together,
                self.rule.risk_ppm / 10_000,
            ),
            origin: Origin::Measured,
            if_wrong: "what works together at another hour waits for its turn: log the busiest day of the week before \
                       you carry this out"
                .to_owned(),
        }
    }
}
