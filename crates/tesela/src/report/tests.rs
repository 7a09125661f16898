//! The page as a document: what every page must be, in both languages, whatever is in the plan.
#![expect(clippy::disallowed_methods, reason = "tests read the sources and inputs of the repository")]

mod colours;
mod complete;
mod document;
mod large;
#[path = "../../../tesela-plan/tests/strategies/mod.rs"]
mod strategies;

use std::path::{Path, PathBuf};

use tesela_model::plan::Plan;
use tesela_model::product::ProductTable;
use tesela_objects::observe::Options;
use tesela_plan::input::{PlanInput, Settings};

use super::*;

const BOTH: [Language; 2] = [Language::English, Language::Spanish];

/// A path of the repository.
fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}
