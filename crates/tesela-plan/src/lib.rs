//! Pure decisions: layouts, packing with certificate, mode, placement, quotas, cost, validation.

pub mod activity;
mod assemble;
pub mod burst;
pub mod carried_out;
pub mod cost;
mod decide;
pub mod estimate;
pub mod evidence;
pub mod input;
pub mod layouts;
pub mod pack;
mod place;
mod planner;
pub mod quota;
pub mod reconfigure;
mod running;
pub mod slo;
pub mod today;
pub mod validate;
mod world;

pub use planner::{ASSUMED_PRODUCT, plan};
