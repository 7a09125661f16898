//! From a place in an inner text to the place in the file that holds it.

use crate::reading::Note;
use crate::source::Span;
use crate::tree::{Node, Style};

/// Where an inner text stands in the outer file.
pub(super) enum Origin {
    /// In a block scalar after `|`: line by line, indented.
    Block { first_line: u32, indent: u32 },
    /// In quotes or folded: all of it at one place.
    Point { at: Span, path: String },
}

impl Origin {
    /// The origin of a scalar's text. `path` names the scalar for messages.
    pub(super) fn of(node: &Node, path: &str) -> Self {
        let point = || Self::Point {
            at: node.at,
            path: path.to_owned(),
        };
        let Some(scalar) = node.as_scalar().filter(|scalar| scalar.style == Style::Literal) else {
            return point();
        };
        // The scalar's place is its first line that is not blank.
        let blank = scalar.text.bytes().take_while(|b| *b == b'\n').count();
        match u32::try_from(blank)
            .ok()
            .and_then(|blank| node.at.line.checked_sub(blank))
        {
            Some(first_line) => Self::Block {
                first_line,
                indent: node.at.column.saturating_sub(1),
            },
            None => point(),
        }
    }

    /// The note at its place in the outer file.
    pub(super) fn lift(&self, mut note: Note) -> Note {
        if let Self::Point { path, .. } = self {
            note.message = format!("{} (line {} of `{path}`)", note.message, note.at.line.max(1));
        }
        note.at = self.place(note.at);
        note
    }

    fn place(&self, inner: Span) -> Span {
        match self {
            Self::Block { first_line, indent } => Span::new(
                first_line.saturating_add(inner.line.saturating_sub(1)),
                indent.saturating_add(inner.column.max(1)),
            ),
            Self::Point { at, .. } => *at,
        }
    }
}
