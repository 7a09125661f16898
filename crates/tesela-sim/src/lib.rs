//! Simulated GPUs: a driver without a GPU.
//!
//! [`Simulator`] holds the GPUs of one node and obeys the MIG rules of the profile table: modes, GPU and compute
//! instances with placements, processes, counters, events, faults. It is a pure state machine. Time comes from outside
//! ([`Simulator::advance_to`]), made-up values from a seed; the same calls give the same bytes. Its [`State`] can be
//! written down and read again, so that several programs share one node.
//!
//! [`SimDriver`] is the port `GpuDriver` over it, for programs in the same process; its clock is the simulated one.
//!
//! | module | what |
//! | --- | --- |
//! | [`assumptions`] | where no source tells what a driver does: what ours does |
//! | [`board`] | what the driver of a product offers |
//! | [`call`] | the calls: names, rights, latency |
//! | [`contention`] | what processes that share a device leave each other |
//! | [`fault`] | faults on purpose |
//! | [`figures`] | watts and megahertz of products |
//! | [`state`] | everything that is not a rule |

pub mod assumptions;
pub mod board;
pub mod call;
mod clock;
mod compute;
pub mod contention;
mod driver;
mod events;
pub mod fault;
pub mod figures;
mod identity;
mod invariant;
mod mig;
mod mode;
mod place;
mod process;
mod readings;
mod reset;
mod simulator;
pub mod state;

pub use self::driver::SimDriver;
pub use self::process::ProcessError;
pub use self::readings::{Activity, ProcessActivity};
pub use self::simulator::{MachineError, Simulator, StateError};
pub use self::state::State;
