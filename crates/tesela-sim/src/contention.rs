//! What processes that share a device leave each other.

use serde::{Deserialize, Serialize};

/// What a process would do if it had the whole GPU for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Demand {
    /// Share of the time in which it keeps the GPU busy, in thousandths.
    pub busy: u16,
    /// Share of the GPU that it fills while it runs, in thousandths.
    pub fill: u16,
}
