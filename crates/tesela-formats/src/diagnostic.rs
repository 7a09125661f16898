//! What is wrong, where, by which rule, and what to do about it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::source::Span;

/// How bad a diagnostic is. Ordered: `Info < Warning < Error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; nothing is wrong.
    Info,
    /// It works, but not as written.
    Warning,
    /// It is refused.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// One thing that is wrong with a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The name of the text ([`crate::source::Source::name`]).
    pub file: String,
    /// The place, where there is one.
    pub at: Option<Span>,
    /// How bad it is.
    pub severity: Severity,
    /// The rule that was broken, in kebab-case: `unknown-field`.
    pub rule: &'static str,
    /// The offending value as written.
    pub value: Option<String>,
    /// What is wrong, in one sentence.
    pub message: String,
    /// What to do, in one sentence.
    pub fix: Option<String>,
}

impl Diagnostic {
    /// An error of a rule.
    pub fn error(file: impl Into<String>, rule: &'static str, message: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            at: None,
            severity: Severity::Error,
            rule,
            value: None,
            message: message.into(),
            fix: None,
        }
    }

    /// The same, a warning.
    pub fn warning(file: impl Into<String>, rule: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(file, rule, message) }
    }

    /// The same, for information.
    pub fn info(file: impl Into<String>, rule: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Info, ..Self::error(file, rule, message) }
    }

    /// With the place. An unknown place ([`Span::default`]) is left out.
    #[must_use]
    pub fn at(mut self, at: Span) -> Self {
        self.at = at.is_known().then_some(at);
        self
    }

    /// With the offending value as written.
    #[must_use]
    pub fn value(mut self, value: impl Into<String>) -> Self {
        self.value = Some(value.into());
        self
    }

    /// With what to do.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

/// `file:line:column: message`, the fix on an indented line of its own.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(at) = self.at {
            write!(f, ":{at}")?;
        }
        match self.severity {
            Severity::Error => write!(f, ": {} [{}]", self.message, self.rule)?,
            other => write!(f, ": {other}: {} [{}]", self.message, self.rule)?,
        }
        if let Some(fix) = &self.fix {
            write!(f, "\n    {fix}")?;
        }
        Ok(())
    }
}

/// Everything that is wrong with a text: at least one diagnostic, in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    /// A list, sorted by file (in order of appearance) and place.
    #[must_use]
    pub fn new(mut list: Vec<Diagnostic>) -> Self {
        // A stable sort inside runs of one file keeps the order in which files were given.
        for run in list.chunk_by_mut(|a, b| a.file == b.file) {
            run.sort_by_key(|d| d.at.unwrap_or_default());
        }
        Self(list)
    }

    /// True when there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Each diagnostic.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.0.iter()
    }

    /// Adds those of another list at the end.
    pub fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    /// The worst severity, if there is any diagnostic.
    #[must_use]
    pub fn worst(&self) -> Option<Severity> {
        self.0.iter().map(|d| d.severity).max()
    }

    /// `Err` with the list when it holds an error, else `Ok` of the value.
    ///
    /// # Errors
    /// The list itself, when one of its diagnostics is an error.
    pub fn into_result<T>(self, value: T) -> Result<T, Self> {
        if self.worst() == Some(Severity::Error) { Err(self) } else { Ok(value) }
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(one: Diagnostic) -> Self {
        Self(vec![one])
    }
}

impl IntoIterator for Diagnostics {
    type Item = Diagnostic;
    type IntoIter = std::vec::IntoIter<Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, one) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            one.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

/// The known word nearest to a misspelt one, if one is near enough to be meant.
///
/// Case, `-`, `_` and blanks are forgiven first; then the Damerau-Levenshtein distance may be a
/// third of the word's length (at least 1, at most 4). On a tie the earlier candidate wins.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| -> String {
        text.chars().filter(|c| !matches!(c, '-' | '_' | ' ')).flat_map(char::to_lowercase).collect()
    };
    let wanted = plain(word);
    let limit = (wanted.chars().count() / 3).clamp(1, 4);
    let mut best: Option<(usize, &'a str)> = None;
    for candidate in known {
        // A very long word is near to nothing; skipping it bounds the quadratic distance.
        if candidate.len().abs_diff(word.len()) > 16 {
            continue;
        }
        let distance = strsim::osa_distance(&wanted, &plain(candidate));
        if distance <= limit && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Shortens a value for a message: at most 60 characters, control characters escaped.
#[must_use]
pub fn shown(value: &str) -> String {
    const MOST: usize = 60;
    let mut text = String::new();
    for c in value.chars().take(MOST) {
        if c.is_control() {
            text.extend(c.escape_default());
        } else {
            text.push(c);
        }
    }
    if value.chars().nth(MOST).is_some() {
        text.push('…');
    }
    text
}
