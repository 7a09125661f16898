//! Our documents: what is read, and what is refused with which words.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test stops at the first surprise")]

#[path = "documents/bad_input.rs"]
mod bad_input;
#[path = "documents/examples.rs"]
mod examples;
#[path = "documents/good_input.rs"]
mod good_input;
#[path = "documents/prices.rs"]
mod prices;
#[path = "documents/round_trip.rs"]
mod round_trip;

use tesela_formats::diagnostic::Diagnostics;
use tesela_formats::documents::{Document, read_document};
use tesela_model::product::ProductTable;

fn read(text: &str) -> Result<Vec<Document>, Diagnostics> {
    read_document("f.yaml", text.as_bytes(), ProductTable::builtin())
}

/// A document of a kind with its content, the content beginning on line 4.
fn of_kind(kind: &str, content: &str) -> String {
    let indented: String = content.lines().map(|line| format!("  {line}\n")).collect();
    format!("apiVersion: tesela.dev/v1alpha1\nkind: {kind}\nspec:\n{indented}")
}
