//! Where a value comes from.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a value comes from, the most trusted first (DESIGN: each value says which).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Origin {
    /// A person wrote it.
    Given,
    /// It was read from the cluster or from a measurement.
    Measured,
    /// It was computed from other facts.
    Estimated,
    /// Nothing is known; a default was taken.
    Assumed,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Given => "given",
            Self::Measured => "measured",
            Self::Estimated => "estimated",
            Self::Assumed => "assumed",
        })
    }
}

/// A value and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Known<T> {
    /// The value.
    pub value: T,
    /// Where it comes from.
    pub origin: Origin,
}

impl<T> Known<T> {
    /// A value that a person wrote.
    pub fn given(value: T) -> Self {
        Self { value, origin: Origin::Given }
    }

    /// A value read from the cluster.
    pub fn measured(value: T) -> Self {
        Self { value, origin: Origin::Measured }
    }

    /// A value computed from other facts.
    pub fn estimated(value: T) -> Self {
        Self { value, origin: Origin::Estimated }
    }

    /// A default.
    pub fn assumed(value: T) -> Self {
        Self { value, origin: Origin::Assumed }
    }
}
