//! From a place in an inner text to the place in the file that holds it.

use crate::reading::Note;
use crate::source::Span;
use crate::tree::{Node, Offset, Style};

/// Where an inner text stands in the outer file.
pub(super) enum Origin {
    /// In a block scalar after `|`: line by line, so it can be read with its true places.
    Block(Offset),
    /// In quotes or folded: all of it at one place. The path names the scalar for messages.
    Point { at: Span, path: String },
}

impl Origin {
    /// The origin of a scalar's text. `path` names the scalar for messages.
    pub(super) fn of(node: &Node, path: &str) -> Self {
        let point = || Self::Point { at: node.at, path: path.to_owned() };
        let Some(scalar) = node.as_scalar().filter(|scalar| scalar.style == Style::Literal) else {
            return point();
        };
        // The scalar's place is its first line that is not blank.
        let blank = scalar.text.bytes().take_while(|b| *b == b'\n').count();
        let first_line = u32::try_from(blank).ok().and_then(|blank| node.at.line.checked_sub(blank));
        match first_line.and_then(|line| line.checked_sub(1)) {
            Some(lines) => Self::Block(Offset { lines, columns: node.at.column.saturating_sub(1) }),
            None => point(),
        }
    }

    /// With which offset the text is to be read.
    pub(super) fn offset(&self) -> Offset {
        match self {
            Self::Block(offset) => *offset,
            Self::Point { .. } => Offset::default(),
        }
    }

    /// The first place of the text, to be lifted like any other.
    pub(super) fn start(&self) -> Span {
        self.offset().lift(Span::new(1, 1))
    }

    /// The note at its place in the outer file.
    pub(super) fn lift(&self, mut note: Note) -> Note {
        if let Self::Point { at, path } = self {
            note.message = format!("{} (line {} of `{path}`)", note.message, note.at.line.max(1));
            note.at = *at;
        }
        note
    }
}
