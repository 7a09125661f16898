//! The program as people and scripts meet it: whole outputs, exit codes, refusals.
#![expect(clippy::disallowed_methods, reason = "tests start the program and prepare files for it")]
#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

mod activity;
mod bad_input;
mod estimate;
mod evidence;
mod harness;
mod help;
mod layouts;
mod lint;
mod mig;
mod mig_rules;
mod output;
mod pack;
mod plan;
mod reconfigure;
mod render;
mod sim;
mod usage;
