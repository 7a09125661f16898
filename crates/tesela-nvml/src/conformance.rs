//! The conformance suite: what a driver must answer, as data with sources, and what asks it.
//!
//! The same cases run on simulated GPUs, on the emulated library, and on a real driver. On a real one only those that
//! change nothing, unless somebody allows more.

mod case;
mod laws;
mod run;

pub use self::case::{Case, Scene, Step};
pub use self::run::{Access, Bench, Failure, Report, run};

/// The cases.
///
/// # Errors
/// When the data file is not what this program reads.
pub fn cases() -> Result<Vec<Case>, serde_json::Error> {
    serde_json::from_str(include_str!("conformance/cases.json"))
}
