//! Findings: something true about today that costs money, breaks work, or is not known.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Work fails or a promise is broken.
    Error,
    /// Money or capacity is lost.
    Warning,
    /// Worth knowing.
    Info,
}

/// One finding, with its evidence in the message and what to do in the fix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// Stable kebab-case name of the rule.
    pub rule: String,
    /// `kind/namespace/name` or `kind/name`.
    pub subject: String,
    /// What is so, with the figures that show it.
    pub message: String,
    /// What to do.
    pub fix: String,
}
