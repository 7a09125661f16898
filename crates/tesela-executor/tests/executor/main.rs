//! Plans and their execution on simulated GPUs.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod change;
mod crash;
mod deaths;
mod files;
mod random;
mod reach;
mod refusals;
mod tables;
mod world;
