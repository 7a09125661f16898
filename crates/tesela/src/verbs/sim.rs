//! `tesela sim`: GPUs on a machine that has none.

mod env;
mod fault;
mod load;
mod place;
mod reset;
mod run;
pub(crate) mod show;

use std::path::Path;

use nvml_sim::store::{Store, StoreError};
use tesela_model::driver::Code;
use tesela_sim::Simulator;

use crate::cli::sim::{Sim, SimVerb};
use crate::failure::{Failure, Outcome};
use crate::printer::Printer;

/// Does what the words say to an emulated node.
///
/// # Errors
/// A wrong machine file, a state that cannot be used, something that is not there.
pub(crate) fn run(words: &Sim, printer: &Printer) -> Result<Outcome, Failure> {
    match &words.verb {
        SimVerb::Env(words) => env::run(words, printer),
        SimVerb::Load(words) => load::run(words, printer),
        SimVerb::Fault(words) => fault::run(words, printer),
        SimVerb::Reset(words) => reset::run(words, printer),
        SimVerb::Show(words) => show::run(words, printer),
        SimVerb::Run(words) => run::run(words),
    }
}

/// The node of a machine file.
///
/// # Errors
/// Why it cannot be used: the file's fault, or the state's.
fn node(machine: &Path) -> Result<Store, Failure> {
    Store::open(machine).map_err(refused)
}

/// Changes a node.
///
/// # Errors
/// As above, and what the change is refused for.
fn change<T>(machine: &Path, act: impl FnOnce(&mut Simulator) -> Result<T, Failure>) -> Result<T, Failure> {
    node(machine)?.change(act).map_err(refused)?
}

fn refused(error: StoreError) -> Failure {
    match error {
        StoreError::Machine(faults) => faults.into(),
        error if error.code() == Code::DriverNotLoaded => Failure::input(error.to_string()),
        error => Failure::program(error.to_string()),
    }
}
