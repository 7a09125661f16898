//! Pure decisions: layouts, packing with certificate, mode, placement, quotas, cost, validation.

pub mod layouts;
pub mod pack;
pub mod cost;
pub mod input;
pub mod quota;
pub mod today;
pub mod validate;
mod assemble;
mod decide;
mod place;
mod planner;
mod running;
mod world;

pub use planner::{ASSUMED_PRODUCT, plan};
