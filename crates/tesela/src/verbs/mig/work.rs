//! Carries a change out: the lock, what an earlier run left, the plan, the work.

use tesela_executor::apply::{
    ApplyError, Event, NoLadder, Options, Outcome as Ended, Ports, Stop, apply, journal,
};
use tesela_executor::disk::{FileDisk, make_folder};
use tesela_executor::lock::Lock;
use tesela_executor::recover::recover;
use tesela_model::driver::{GpuDriver, GpuReset};

use super::{Answer, Planned};
use crate::cli::mig as cli;
use crate::driver;
use crate::failure::{Failure, Outcome};
use crate::node::{MachineClock, NvidiaSmi, managers};
use crate::printer::Printer;
use crate::table;

/// Plans with `wish` and carries the plans out.
///
/// # Errors
/// What keeps it from beginning.
pub(super) fn run(
    work: &cli::Work,
    node: &cli::Node,
    wish: &dyn Fn(&dyn GpuDriver) -> Result<Planned, Failure>,
    printer: &Printer,
) -> Result<Outcome, Failure> {
    alone(work, node)?;
    let session = driver::open(&node.driver)?;
    let folder = &node.state_dir;
    make_folder(folder).map_err(|error| {
        Failure::program(format!("{}: cannot be made: {error}", folder.display()))
            .hint("run as root, or name a folder of yours with --state-dir; it must outlive a crash")
    })?;
    let _lock = Lock::take(folder).map_err(|error| {
        Failure::program(error.to_string()).hint("wait for it to end; the lock goes with its process")
    })?;
    let mut disk = FileDisk::new(folder);
    let path = disk.path().display().to_string();
    let unusable = |error: ApplyError| unusable(&error, &path);
    let clock = MachineClock::new();
    let smi = NvidiaSmi::new(node);
    let mut ladder = NoLadder;
    let mut progress = |event: &Event<'_>| tell(printer, event);
    let options = Options { wait_for_processes: work.wait.0, in_use: work.patience.0, ..Options::default() };
    let unfinished = journal(&mut disk).map_err(unusable)?.is_some_and(|journal| journal.is_open());
    let mut ports = Ports {
        driver: &session,
        reset: work.reset.then_some(&smi as &dyn GpuReset),
        disk: &mut disk,
        clock: &clock,
        ladder: &mut ladder,
        progress: &mut progress,
    };
    if unfinished {
        finish_earlier(&mut ports, &options, &path, printer)?;
    }
    let planned = wish(&session)?;
    let outcomes = apply(&planned.plans, &mut ports, &options).map_err(unusable)?;
    printer.progress("");
    let answer = Answer::new(planned, Some(&outcomes), &node.host_root);
    printer.result(&answer, |page| table::mig::put(page, &answer, table::mig::Told::Apply))?;
    Ok(ending(&outcomes, !answer.blocked.is_empty()))
}

/// Refuses to work beside another manager.
fn alone(work: &cli::Work, node: &cli::Node) -> Result<(), Failure> {
    if work.allow_other_managers {
        return Ok(());
    }
    let others = managers(&node.host_root);
    if others.is_empty() {
        return Ok(());
    }
    let list = others.iter().map(|m| format!("{} ({})", m.name, m.evidence)).collect::<Vec<_>>().join(", ");
    Err(Failure::program(format!("this node is served by {list}: two managers of one GPU undo each other's work")).hint(
        "let that manager make the change, or take it off the node; with --allow-other-managers Tesela goes on, and the \
         device plugin must be restarted after it to see the new instances",
    ))
}

fn unusable(error: &ApplyError, path: &str) -> Failure {
    let failure = Failure::program(format!("{path}: {error}"));
    match error {
        ApplyError::Driver(_) | ApplyError::Disk(_) => failure,
        _ => failure.hint(format!(
            "nothing was changed. Look at the GPUs with `nvidia-smi mig -lgi`; when they may be taken as they are, move \
             the journal away (mv {path} {path}.old) and run again"
        )),
    }
}

fn finish_earlier(
    ports: &mut Ports<'_>,
    options: &Options,
    path: &str,
    printer: &Printer,
) -> Result<(), Failure> {
    printer.note("note: an earlier change was cut short; it is finished or undone first");
    let recovered = recover(ports, options).map_err(|error| unusable(&error, path))?;
    let mut stuck = Vec::new();
    for (gpu, outcome) in &recovered {
        let word = match outcome {
            Ended::Done | Ended::Unchanged => "is as it was to be".to_owned(),
            Ended::RolledBack(stop) => format!("is as it was before: {stop}"),
            Ended::Between { undo, .. } => {
                stuck.push(Failure::program(format!(
                    "{gpu} is neither as before nor as it was to be: {undo}"
                )));
                continue;
            }
            Ended::NeedsReboot(stop) | Ended::Lost(stop) | Ended::Untouched(stop) => stop.to_string(),
            Ended::Blocked => continue,
        };
        printer.note(&format!("note: {gpu} {word}"));
    }
    match Failure::join(stuck) {
        None => Ok(()),
        Some(failure) => Err(failure.hint(format!(
            "see that it can go on, and run again; or move the journal away (mv {path} {path}.old) to take it as it is"
        ))),
    }
}

/// What is going on, on the terminal.
fn tell(printer: &Printer, event: &Event<'_>) {
    match event {
        Event::Step { gpu, what } => printer.progress(&format!("{gpu}: {what}")),
        Event::Waiting { gpu, what, holders } => {
            let whom = holders.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let whom = if whom.is_empty() {
                "the driver says that it is in use".to_owned()
            } else {
                format!("in use by {whom}")
            };
            printer.progress(&format!("{gpu}: {what}: waiting, {whom}"));
        }
        Event::Paused { client } => printer.note(&format!("note: {client} is paused")),
        Event::Undo { gpu, why } => printer.note(&format!("note: {gpu} goes back to what it was: {why}")),
    }
}

fn ending(outcomes: &[Ended], blocked: bool) -> Outcome {
    let failed = |o: &Ended| match o {
        Ended::RolledBack(_) | Ended::Lost(_) | Ended::Between { .. } => true,
        // That somebody is still there is in the way, and no failure.
        Ended::Untouched(stop) => !matches!(stop, Stop::InUse { .. }),
        _ => false,
    };
    if outcomes.iter().any(failed) {
        Outcome::NotSo
    } else if blocked {
        Outcome::Partly
    } else {
        Outcome::Done
    }
}
