//! What another program's parser makes of a file, as data.
//!
//! NVIDIA's two config formats are read here the way NVIDIA's own programs read them. Each thing that
//! does not come out as written is a [`Note`]: refused, refused later at start, dropped, without effect,
//! or merely worth knowing. [`crate::lint`] turns the notes into findings.

use crate::diagnostic::{Diagnostic, Severity, nearest, shown};
use crate::source::{Located, Span};
use crate::tree::{Entry, Mapping, Node, Resolved, Schema, Style};

/// What the other program does about a thing in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// Takes it; worth knowing.
    Note,
    /// Takes it, but it has no effect, contradicts something else, or can never work.
    Inert,
    /// Reads it and drops it.
    Dropped,
    /// Loads the file and ends with an error when it starts to work with it.
    FailsAtStart,
    /// Refuses the file.
    Refused,
}

impl Effect {
    /// What is refused is an error; what is dropped or can never work a warning; a note is info.
    #[must_use]
    pub const fn severity(self) -> Severity {
        match self {
            Self::Note => Severity::Info,
            Self::Inert | Self::Dropped => Severity::Warning,
            Self::FailsAtStart | Self::Refused => Severity::Error,
        }
    }
}

/// What happens to the file as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Taken as written.
    Accepted,
    /// Taken, but something in it is dropped.
    AcceptedButDropped,
    /// Not taken, at load or at start.
    Refused,
}

/// One thing that does not come out as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Where it stands.
    pub at: Span,
    /// The rule, in kebab-case.
    pub rule: &'static str,
    /// What the other program does about it.
    pub effect: Effect,
    /// The value as written.
    pub value: Option<String>,
    /// What it is, in one sentence.
    pub message: String,
    /// What to do, in one sentence.
    pub fix: String,
}

impl Note {
    /// A note with its place, rule, effect, message and fix.
    pub fn new(
        at: Span,
        rule: &'static str,
        effect: Effect,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { at, rule, effect, value: None, message: message.into(), fix: fix.into() }
    }

    /// With the value as written.
    #[must_use]
    pub fn value(mut self, value: impl AsRef<str>) -> Self {
        self.value = Some(shown(value.as_ref()));
        self
    }

    /// The note as a diagnostic of a file.
    #[must_use]
    pub fn to_diagnostic(&self, file: &str) -> Diagnostic {
        let mut found = Diagnostic::error(file, self.rule, &self.message).at(self.at).fix(&self.fix);
        found.severity = self.effect.severity();
        found.value.clone_from(&self.value);
        found
    }
}

/// A file as another program reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading<T> {
    /// What it reads; nothing when it refuses the file at load.
    pub config: Option<T>,
    /// What does not come out as written, in the order of the file.
    pub notes: Vec<Note>,
}

impl<T> Reading<T> {
    /// What happens to the file as a whole.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match self.notes.iter().map(|note| note.effect).max() {
            Some(Effect::Refused | Effect::FailsAtStart) => Verdict::Refused,
            Some(Effect::Dropped) => Verdict::AcceptedButDropped,
            _ => Verdict::Accepted,
        }
    }

    pub(crate) fn new(config: T, mut walk: Walk) -> Self {
        walk.notes.sort_by_key(|note| note.at);
        let refused = walk.notes.iter().any(|note| note.effect == Effect::Refused);
        Self { config: (!refused).then_some(config), notes: walk.notes }
    }
}

/// Whether a mapping's keys are matched as Go matches them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    /// Go's JSON decoder of a plain struct: upper and lower case are the same.
    Folded,
    /// A decoder by hand: exactly.
    Exact,
}

/// A walk over a tree that collects notes. Scalars are read by YAML 1.1, as Go's parser does.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    pub(crate) notes: Vec<Note>,
}

impl Walk {
    pub(crate) fn note(&mut self, note: Note) {
        self.notes.push(note);
    }

    pub(crate) fn refuse(
        &mut self,
        at: Span,
        rule: &'static str,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.note(Note::new(at, rule, Effect::Refused, message, fix));
    }

    /// A value of the wrong type. Go's decoder refuses the file.
    pub(crate) fn wrong(&mut self, node: &Node, what: &str, wanted: &str) {
        let note = Note::new(
            node.at,
            "wrong-type",
            Effect::Refused,
            format!("{what} must be {wanted}, found {}", node.describe()),
            format!("write {wanted}"),
        );
        self.note(match node.as_text() {
            Some(text) => note.value(text),
            None => note,
        });
    }

    pub(crate) fn mapping<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n Mapping> {
        let mapping = node.as_mapping();
        if mapping.is_none() {
            self.wrong(node, what, "a mapping");
        }
        mapping
    }

    /// The elements of a list; null is an empty list, as in Go.
    pub(crate) fn list<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n [Node]> {
        if node.is_null() {
            return Some(&[]);
        }
        let items = node.as_sequence();
        if items.is_none() {
            self.wrong(node, what, "a list");
        }
        items
    }

    /// A boolean. Null leaves it unset.
    pub(crate) fn boolean(&mut self, node: &Node, what: &str) -> Option<Located<bool>> {
        if node.is_null() {
            return None;
        }
        let scalar = node.as_scalar();
        let Some(Resolved::Bool(value)) = scalar.map(|scalar| scalar.resolve(Schema::Yaml11)) else {
            self.wrong(node, what, "true or false");
            return None;
        };
        if let Some(scalar) = scalar.filter(|scalar| scalar.resolve(Schema::Core) == Resolved::Text) {
            let text = &scalar.text;
            self.note(
                Note::new(
                    node.at,
                    "yaml11-boolean",
                    Effect::Note,
                    format!("`{text}` is {value} to NVIDIA's parser (YAML 1.1) and text to YAML 1.2"),
                    format!("write `{value}`"),
                )
                .value(text),
            );
        }
        Some(Located::new(value, node.at))
    }

    /// Text where Go knows that text is wanted: numbers and booleans become their text.
    pub(crate) fn loose_text(&mut self, node: &Node, what: &str) -> Option<Located<String>> {
        if node.is_null() {
            return None;
        }
        let Some(scalar) = node.as_scalar() else {
            self.wrong(node, what, "text");
            return None;
        };
        let text = match scalar.resolve(Schema::Yaml11) {
            Resolved::Bool(value) => value.to_string(),
            Resolved::Int(value) => value.to_string(),
            _ => scalar.text.to_string(),
        };
        Some(Located::new(text, node.at))
    }

    /// Text where a decoder by hand looks at the value: a number is refused.
    pub(crate) fn strict_text(&mut self, node: &Node, what: &str) -> Option<Located<String>> {
        match is_text(node) {
            Some(text) => Some(Located::new(text.to_owned(), node.at)),
            None => {
                self.wrong(node, what, "text");
                None
            }
        }
    }

    /// A whole number of 64 bits.
    pub(crate) fn integer(&mut self, node: &Node, what: &str) -> Option<Located<i64>> {
        match is_integer(node) {
            Some(value) => Some(Located::new(value, node.at)),
            None => {
                self.wrong(node, what, "a whole number");
                None
            }
        }
    }

    /// Notes every key that stands twice: Go's YAML parser takes the last in silence.
    pub(crate) fn duplicates(&mut self, tree: &crate::tree::Tree) {
        for twice in &tree.duplicates {
            let key = shown(&twice.key);
            self.note(
                Note::new(
                    twice.again,
                    "duplicate-key",
                    Effect::Dropped,
                    format!(
                        "`{key}` stands on line {} and again here; the first one is dropped",
                        twice.first.line
                    ),
                    "keep one of the two",
                )
                .value(&key),
            );
        }
    }
}

/// The text of a scalar that is text by YAML 1.1.
pub(crate) fn is_text(node: &Node) -> Option<&str> {
    let scalar = node.as_scalar()?;
    (scalar.resolve(Schema::Yaml11) == Resolved::Text).then_some(&*scalar.text)
}

/// A whole number of 64 bits, written as one. `2.0` is none, as in Go.
pub(crate) fn is_integer(node: &Node) -> Option<i64> {
    let scalar = node.as_scalar().filter(|scalar| scalar.style == Style::Plain)?;
    match scalar.resolve(Schema::Yaml11) {
        Resolved::Int(value) => i64::try_from(value).ok(),
        _ => None,
    }
}

/// The entry of a known field, by Go's rules. The last one counts.
pub(crate) fn field<'n>(mapping: &'n Mapping, name: &str, case: Case) -> Option<&'n Entry> {
    match case {
        Case::Exact => mapping.entry(name),
        Case::Folded => mapping.entries.iter().rev().find(|e| e.key.text.eq_ignore_ascii_case(name)),
    }
}

/// "did you mean", from a list.
pub(crate) fn did_you_mean(word: &str, known: &[&str]) -> String {
    let list = known.join(", ");
    match nearest(word, known.iter().copied()) {
        Some(near) => format!("write `{near}`; known: {list}"),
        None => format!("known: {list}"),
    }
}
