//! `tesela sim reset`: what NVML cannot do, and `nvidia-smi` or a reboot can.

use super::place;
use crate::cli::sim::SimReset;
use crate::failure::{Failure, Outcome};
use crate::printer::Printer;

/// Resets a GPU, or reboots the node.
///
/// # Errors
/// No such GPU, or one that cannot be reset now.
pub(super) fn run(words: &SimReset, printer: &Printer) -> Result<Outcome, Failure> {
    let said = super::change(&words.machine.machine, |simulator| {
        let Some(text) = &words.gpu else {
            simulator.reboot();
            return Ok("the node was rebooted".to_owned());
        };
        let gpu = place::gpu(simulator.state(), text)?.uuid.clone();
        simulator.reset(&gpu).map_err(|error| {
            Failure::program(error.to_string()).hint("end the processes on it, and clients that hold it open")
        })?;
        Ok(format!("{gpu} was reset"))
    })?;
    printer.note(&said);
    Ok(Outcome::Done)
}
