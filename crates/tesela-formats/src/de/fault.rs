//! The error that travels through serde, and what it becomes.

use std::fmt;

use serde::de::{self, Expected, Unexpected};

use crate::diagnostic::{Diagnostic, nearest, shown};
use crate::source::Span;
use crate::tree::Node;

/// One error on its way out. Boxed: serde hands results around by value.
#[derive(Debug)]
pub(super) struct Fault(Box<Inner>);

#[derive(Debug)]
struct Inner {
    at: Option<Span>,
    rule: &'static str,
    value: Option<String>,
    message: String,
    fix: Option<String>,
    /// The field that is missing, so that a misspelt one next to it is told only once.
    missing: Option<&'static str>,
    /// Told already; only stops the reading.
    told: bool,
}

impl Fault {
    pub(super) fn new(rule: &'static str, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            at: None,
            rule,
            value: None,
            message: message.into(),
            fix: None,
            missing: None,
            told: false,
        }))
    }

    pub(super) fn value(mut self, value: impl Into<String>) -> Self {
        self.0.value = Some(value.into());
        self
    }

    pub(super) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.0.fix = Some(fix.into());
        self
    }

    /// The place and value of a node, unless a deeper node gave its own, and the path it stands at.
    pub(super) fn at(mut self, node: &Node, path: &str) -> Self {
        let inner = &mut *self.0;
        if inner.at.is_none() {
            inner.at = Some(node.at);
            if let Some(text) = node.as_text().filter(|_| inner.value.is_none()) {
                inner.value = Some(shown(text));
            }
            if inner.missing.is_some() || inner.rule == "invalid-value" {
                inner.message = format!("{path}: {}", inner.message);
            }
        }
        self
    }

    /// The field that is missing, if that is the error.
    pub(super) fn missing(&self) -> Option<&'static str> {
        self.0.missing
    }

    /// Says no more about it.
    pub(super) fn told(mut self) -> Self {
        self.0.told = true;
        self
    }

    pub(super) fn into_diagnostic(self, file: &str) -> Option<Diagnostic> {
        let inner = *self.0;
        if inner.told {
            return None;
        }
        let mut found = Diagnostic::error(file, inner.rule, inner.message);
        found.at = inner.at;
        found.value = inner.value;
        found.fix = inner.fix;
        Some(found)
    }
}

/// "did you mean", and the list of what is allowed.
pub(super) fn suggestion(word: &str, allowed: &[&str]) -> Option<String> {
    let list = || allowed.iter().map(|one| format!("`{one}`")).collect::<Vec<_>>().join(", ");
    if allowed.is_empty() {
        return None;
    }
    Some(match nearest(word, allowed.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? allowed: {}", list()),
        None => format!("allowed: {}", list()),
    })
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        let text = message.to_string();
        match text.split_once('\n') {
            Some((first, rest)) => Self::new("invalid-value", first).fix(rest.trim()),
            None => Self::new("invalid-value", text),
        }
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new("wrong-type", format!("expected {expected}, found {unexpected}"))
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new("invalid-value", format!("expected {expected}, found {unexpected}"))
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        Self::new("wrong-type", format!("expected {expected}, found {length} elements"))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let fault = Self::new("unknown-value", format!("`{}` is not known here", shown(variant)))
            .value(shown(variant));
        match suggestion(variant, expected) {
            Some(text) => fault.fix(text),
            None => fault,
        }
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let fault =
            Self::new("unknown-field", format!("unknown field `{}`", shown(field))).value(shown(field));
        match suggestion(field, expected) {
            Some(text) => fault.fix(text),
            None => fault,
        }
    }

    fn missing_field(field: &'static str) -> Self {
        let mut fault =
            Self::new("missing-field", format!("`{field}` is missing")).fix(format!("add `{field}:`"));
        fault.0.missing = Some(field);
        fault
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::new("duplicate-key", format!("`{field}` stands twice in one mapping"))
            .fix("keep one of the two")
    }
}
