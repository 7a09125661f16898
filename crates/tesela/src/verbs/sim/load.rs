//! `tesela sim load`: processes come, change, end.

use tesela_model::driver::ProcessKind;
use tesela_model::machine::CONTEXT_MIB;
use tesela_sim::Simulator;
use tesela_sim::contention::{Demand, MEASURED_FILL};
use tesela_sim::state::Process;

use super::place;
use crate::cli::sim::{SimKind, SimLoad};
use crate::failure::{Failure, Outcome};
use crate::printer::Printer;

/// Does what the words say, and says what came of it.
///
/// # Errors
/// No such GPU, instance or process; no room for its memory.
pub(super) fn run(words: &SimLoad, printer: &Printer) -> Result<Outcome, Failure> {
    let said = super::change(&words.machine.machine, |simulator| load(words, simulator))?;
    printer.note(&said);
    Ok(Outcome::Done)
}

fn load(words: &SimLoad, simulator: &mut Simulator) -> Result<String, Failure> {
    let gpu = place::gpu(simulator.state(), &words.gpu)?.clone();
    let pid = words.pid;
    let before = gpu.processes.iter().find(|process| process.pid == pid).cloned();
    let refused = |error: tesela_sim::ProcessError| Failure::input(error.to_string());
    if words.end {
        simulator.end_process(&gpu.uuid, pid).map_err(refused)?;
        return Ok(format!("process {pid} ended on {}", gpu.uuid));
    }
    let on = match &words.instance {
        Some(text) => Some(place::device(&gpu, text)?),
        None => before.as_ref().and_then(|before| before.on),
    };
    let kind = words.kind.map(|kind| match kind {
        SimKind::Compute => ProcessKind::Compute,
        SimKind::Graphics => ProcessKind::Graphics,
        SimKind::Mps => ProcessKind::Mps,
    });
    let mib = |mib: u64| mib << 20;
    let fill = before.as_ref().map_or(MEASURED_FILL, |before| before.demand.fill);
    let busy = words.busy.map(|percent| percent * 10);
    let process = Process {
        pid,
        name: words.name.clone().or(before.as_ref().and_then(|before| before.name.clone())),
        kind: kind.or(before.as_ref().map(|before| before.kind)).unwrap_or(ProcessKind::Compute),
        memory: words.memory_mib.map(mib).or(before.as_ref().map(|b| b.memory)).unwrap_or(mib(CONTEXT_MIB.0)),
        on,
        demand: Demand { busy: busy.or(before.as_ref().map(|before| before.demand.busy)).unwrap_or(0), fill },
        since: 0,
    };
    let there = before.is_some();
    if there {
        simulator.end_process(&gpu.uuid, pid).map_err(refused)?;
    }
    let started = simulator.start_process(&gpu.uuid, process);
    if let (Err(_), Some(before)) = (&started, before) {
        // What it held is free, so it can be as it was.
        simulator.start_process(&gpu.uuid, before).map_err(refused)?;
    }
    started.map_err(|error| {
        let hint = "with MIG on, say which device it is on: --instance GI[/CI]";
        let needs = matches!(error, tesela_sim::ProcessError::NeedsInstance(_));
        if needs { refused(error).hint(hint) } else { refused(error) }
    })?;
    Ok(format!("process {pid} {} on {}", if there { "changed" } else { "came" }, gpu.uuid))
}
