//! A text as a tree of values, each with its place: YAML 1.2, of which JSON is a part.
//!
//! Reading is bounded ([`Budget`]): a text that is too long, too deep, cyclic, or grows by aliases
//! beyond the budget is refused with the rule named. Scalars keep their text and style, so that
//! what `yes` or `0640` mean can be asked by either schema ([`Scalar::resolve`]). Mappings keep
//! their keys, each with its place, in the order of the text.

mod budget;
mod build;
mod fault;
mod scalar;

use std::collections::BTreeSet;
use std::sync::Arc;

pub use budget::Budget;
pub use scalar::{Resolved, Scalar, Schema, Style};

use crate::diagnostic::Diagnostics;
use crate::source::Span;

/// One document of a text.
#[derive(Debug, Clone)]
pub struct Tree {
    /// The name of the text it came from.
    pub file: Arc<str>,
    /// The outermost value.
    pub root: Node,
    /// Keys that stand twice in one mapping; empty unless the caller asked for [`Duplicates::Keep`].
    pub duplicates: Vec<Duplicate>,
}

/// A value with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Where it begins. For an alias, where the alias stands.
    pub at: Span,
    /// The value.
    pub value: Value,
}

/// A value. Collections are shared, so that an alias costs nothing.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Text, number, boolean or null, not yet told apart.
    Scalar(Scalar),
    /// A list.
    Sequence(Arc<Vec<Node>>),
    /// A mapping.
    Mapping(Arc<Mapping>),
}

/// Keys and values in the order of the text.
///
/// With [`Duplicates::Keep`] a key can stand more than once; [`Mapping::get`] answers the last, as
/// Go's parser does.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Mapping {
    /// The entries.
    pub entries: Vec<Entry>,
}

/// One key with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// The value.
    pub value: Node,
}

/// The key of an entry: always a scalar, known by its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The text of the key, quotes removed.
    pub text: Arc<str>,
    /// Where it stands.
    pub at: Span,
}

/// A key that stands twice in one mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Duplicate {
    /// The text of the key.
    pub key: Arc<str>,
    /// Where it stands first.
    pub first: Span,
    /// Where it stands again.
    pub again: Span,
}

/// What to do when a key stands twice in one mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Duplicates {
    /// An error that names both lines.
    #[default]
    Refuse,
    /// Keep all, list them in [`Tree::duplicates`]. NVIDIA's parsers keep the last in silence.
    Keep,
}

/// How to read.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadOptions {
    /// How much is read at most.
    pub budget: Budget,
    /// What a key that stands twice means.
    pub duplicates: Duplicates,
    /// Where the text begins in an outer file.
    pub offset: Offset,
}

/// How far the places of an inner text are moved, so that they are those of the file that holds it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offset {
    /// Lines before the first line of the text.
    pub lines: u32,
    /// Columns before the first column of each line.
    pub columns: u32,
}

impl Offset {
    /// A place of the text, from 1, as a place of the outer file.
    #[must_use]
    pub fn lift(self, at: Span) -> Span {
        Span::new(at.line.saturating_add(self.lines), at.column.saturating_add(self.columns))
    }
}

impl Node {
    /// What the value is, in the words of a message: `a list`, `the number 5`.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.value {
            Value::Scalar(scalar) => scalar.describe(),
            Value::Sequence(_) => "a list".to_owned(),
            Value::Mapping(_) => "a mapping".to_owned(),
        }
    }

    /// The scalar, if it is one.
    #[must_use]
    pub fn as_scalar(&self) -> Option<&Scalar> {
        match &self.value {
            Value::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    /// The elements, if it is a list.
    #[must_use]
    pub fn as_sequence(&self) -> Option<&[Node]> {
        match &self.value {
            Value::Sequence(items) => Some(items),
            _ => None,
        }
    }

    /// The mapping, if it is one.
    #[must_use]
    pub fn as_mapping(&self) -> Option<&Mapping> {
        match &self.value {
            Value::Mapping(mapping) => Some(mapping),
            _ => None,
        }
    }

    /// The value of a key, if this is a mapping that has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.as_mapping()?.get(key)
    }

    /// True for a null by either schema: an empty value, `~`, `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.as_scalar().is_some_and(|scalar| scalar.resolve(Schema::Core) == Resolved::Null)
    }

    /// The text of a scalar, whatever its type; nothing for null and for collections.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        if self.is_null() {
            return None;
        }
        self.as_scalar().map(|scalar| &*scalar.text)
    }
}

impl Mapping {
    /// The last entry with this key.
    #[must_use]
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().rev().find(|entry| &*entry.key.text == key)
    }

    /// The entries that count where a key can stand more than once: the last of each key.
    #[must_use]
    pub fn last_entries(&self) -> Vec<&Entry> {
        let mut seen = BTreeSet::new();
        let mut entries: Vec<&Entry> =
            self.entries.iter().rev().filter(|entry| seen.insert(&*entry.key.text)).collect();
        entries.reverse();
        entries
    }

    /// The value of the last entry with this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.value)
    }
}

/// Reads every document of a text that is given as bytes, with the default budget.
///
/// `name` is what messages call the text. Documents that hold nothing (two `---` in a row) are left
/// out, as kubectl does.
///
/// # Errors
/// Rules `input-size`, `invalid-utf8`, `not-text`, `empty-input`, `yaml-syntax`, `truncated-json`,
/// `truncated-yaml`, `duplicate-key`, `yaml-depth`, `yaml-nodes`, `yaml-cycle`, `yaml-alias`,
/// `yaml-key`, `yaml-tag`, `yaml-merge`.
pub fn read_documents(name: &str, bytes: &[u8]) -> Result<Vec<Tree>, Diagnostics> {
    read_documents_with(name, bytes, ReadOptions::default())
}

/// The same with a budget and a choice about duplicate keys.
///
/// # Errors
/// As [`read_documents`].
pub fn read_documents_with(name: &str, bytes: &[u8], options: ReadOptions) -> Result<Vec<Tree>, Diagnostics> {
    let text = budget::text_of(name, bytes, options.budget)?;
    build::documents(name, text, options)
}
