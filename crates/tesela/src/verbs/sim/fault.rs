//! `tesela sim fault`: something goes wrong.

use tesela_model::driver::{Code, EventKind, GpuUuid};
use tesela_sim::Simulator;
use tesela_sim::call::Call;
use tesela_sim::fault::{Effect, Fault, Happening};

use super::place;
use crate::cli::sim::{SimFault, What};
use crate::failure::{Failure, Outcome};
use crate::printer::Printer;

/// Lets it happen, and says what did.
///
/// # Errors
/// No such GPU or instance.
pub(super) fn run(words: &SimFault, printer: &Printer) -> Result<Outcome, Failure> {
    let said = super::change(&words.machine.machine, |simulator| happen(words, simulator))?;
    printer.note(&said);
    Ok(Outcome::Done)
}

fn happen(words: &SimFault, simulator: &mut Simulator) -> Result<String, Failure> {
    if words.what == What::Clear {
        simulator.clear_faults();
        return Ok("refusals are over".to_owned());
    }
    let gpus = match &words.gpu {
        Some(text) => vec![place::gpu(simulator.state(), text)?.clone()],
        None => simulator.state().gpus.clone(),
    };
    let mut said = Vec::new();
    for gpu in &gpus {
        let instance = words.instance.as_ref().map(|text| place::instance(gpu, text)).transpose()?;
        let device = || words.instance.as_ref().map(|text| place::device(gpu, text)).transpose();
        let event = |kind| -> Result<Happening, Failure> { Ok(Happening::Event(kind, device()?)) };
        let what = match words.what {
            What::Xid(number) => event(EventKind::Xid(number))?,
            What::EccSingle => event(EventKind::SingleBitEcc)?,
            What::EccDouble => event(EventKind::DoubleBitEcc)?,
            What::Lost => Happening::Lost,
            What::NeedsReset => Happening::NeedsReset,
            What::Healed => Happening::Healed,
            What::InUse(times) => {
                said.push(refuse(simulator, &gpu.uuid, instance.map(|(gi, _)| gi), times));
                continue;
            }
            What::Clear => continue,
        };
        said.push(format!("{}: {}", gpu.uuid, told(&what)));
        simulator.happen(&gpu.uuid, what);
    }
    Ok(said.join("\n"))
}

/// Removing instances is refused: of a GPU, or one GPU instance.
fn refuse(simulator: &mut Simulator, gpu: &GpuUuid, gpu_instance: Option<u32>, times: Option<u32>) -> String {
    for call in [Call::DestroyComputeInstance, Call::DestroyGpuInstance] {
        simulator.lay(Fault {
            call: Some(call),
            gpu: Some(gpu.clone()),
            gpu_instance,
            skip: 0,
            times,
            effect: Effect::Refuse(Code::InUse),
        });
    }
    let what = gpu_instance.map_or_else(|| "instances".to_owned(), |id| format!("GPU instance {id}"));
    let times = times.map_or_else(|| "for ever".to_owned(), |times| format!("the next {times} times each"));
    format!("{gpu}: removing {what} is refused as in use, {times}")
}

fn told(what: &Happening) -> String {
    match what {
        Happening::Lost => "fell off the bus".to_owned(),
        Happening::NeedsReset => "needs a reset".to_owned(),
        Happening::Healed => "works again".to_owned(),
        Happening::Event(EventKind::Xid(number), _) => format!("reports XID {number}"),
        Happening::Event(EventKind::SingleBitEcc, _) => "reports a corrected memory error".to_owned(),
        Happening::Event(EventKind::DoubleBitEcc, _) => "reports a memory error".to_owned(),
        other => format!("{other:?}"),
    }
}
