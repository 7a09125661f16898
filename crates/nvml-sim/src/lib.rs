//! `libnvidia-ml.so.1` without a GPU: the C interface of NVML over simulated GPUs.
//!
//! A program that loads this library instead of NVIDIA's sees the GPUs of the machine file that `TESELA_SIM` names, as
//! all processes with that file do: the state lies in a file beside it ([`store`]). What other programs look for in
//! the file system, `tree` renders.
//!
//! `docs/nvml-coverage.md` of the repository lists what each function does.

mod abi;
pub mod environment;
mod facts;
mod live;
pub mod store;

/// The functions of NVML that this library exports, and what each does: `data/functions.tsv`.
pub const FUNCTIONS: &str = include_str!("../data/functions.tsv");
