//! Pure decisions: layouts, packing with certificate, mode, placement, quotas, cost, validation.

pub mod layouts;
pub mod pack;
pub mod input;
pub mod quota;
pub mod today;
