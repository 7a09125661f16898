//! What a GPU hour costs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::quantity::Micros;

/// Prices per GPU hour, all in one currency. Nothing here is made up: a product without a price has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriceBook {
    /// Such as `EUR`.
    pub currency: String,
    /// Who says so: a file's name, or `command line`.
    pub source: String,
    /// The day the prices are of, `YYYY-MM-DD`, where given.
    pub as_of: Option<String>,
    /// Product (table id, or the name as found) → price of one GPU hour, above zero.
    pub gpu_hour: BTreeMap<String, Micros>,
}
