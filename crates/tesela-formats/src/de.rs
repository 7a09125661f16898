//! A serde deserializer over [`crate::tree`], for wire structs that derive `Deserialize`.
//!
//! Every error carries file, line, column, the value, the rule, and where it can, the nearest right
//! spelling with the list of what is allowed. All unknown fields of a document are reported together;
//! of wrong values the first one of each list or mapping.
//!
//! Rules: `unknown-field`, `misplaced-field`, `missing-field`, `wrong-type`, `number-range`,
//! `unknown-value`, `invalid-value`.
//!
//! A type's own check (`#[serde(try_from = "…")]`, a `Deserialize` by hand) reports through
//! `Error::custom`: the first line of its text is the message, the rest is the fix.

mod access;
mod fault;
mod node;
mod path;

use std::cell::RefCell;

use serde::de::DeserializeOwned;

use self::fault::Fault;
use self::node::NodeDe;
use self::path::Path;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::tree::{Node, Tree};

/// What a field that the type does not know means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unknown {
    /// An error.
    #[default]
    Refuse,
    /// Foreign data: passed over.
    Ignore,
}

/// Where a field belongs that people write elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The field.
    pub field: &'static str,
    /// The path it belongs under: `sharing.timeSlicing`.
    pub belongs: &'static str,
}

/// How to read a tree into a type.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options<'a> {
    /// What unknown fields mean.
    pub unknown: Unknown,
    /// Where misplaced fields belong. More than one row per field is allowed.
    pub places: &'a [Place],
}

/// Reads one document into a type.
///
/// # Errors
/// Everything found wrong, in the order of the text.
pub fn from_tree<T: DeserializeOwned>(tree: &Tree, options: Options<'_>) -> Result<T, Diagnostics> {
    from_node(&tree.file, &tree.root, options)
}

/// Reads one value of a document into a type.
///
/// # Errors
/// Everything found wrong, in the order of the text.
pub fn from_node<T: DeserializeOwned>(
    file: &str,
    node: &Node,
    options: Options<'_>,
) -> Result<T, Diagnostics> {
    let context = Context { file, options, found: RefCell::new(Vec::new()) };
    let result = T::deserialize(NodeDe::new(&context, node, Path::Root));
    let mut found = context.found.into_inner();
    match result {
        Ok(value) if found.is_empty() => Ok(value),
        Ok(_) => Err(Diagnostics::new(found)),
        Err(fault) => {
            found.extend(fault.into_diagnostic(file));
            Err(Diagnostics::new(found))
        }
    }
}

/// What all deserializers of one document share.
struct Context<'a> {
    file: &'a str,
    options: Options<'a>,
    found: RefCell<Vec<Diagnostic>>,
}

impl Context<'_> {
    fn report(&self, one: Diagnostic) {
        self.found.borrow_mut().push(one);
    }

    fn report_fault(&self, fault: Fault) {
        self.found.borrow_mut().extend(fault.into_diagnostic(self.file));
    }
}
