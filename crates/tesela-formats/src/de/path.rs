//! Where in the document a value is, for messages: `pools[2].name`.

use std::fmt;

/// A path from the value outwards; it lives on the stack beside the recursion.
#[derive(Clone, Copy)]
pub(super) enum Path<'p> {
    Root,
    Field { parent: &'p Path<'p>, name: &'p str },
    Index { parent: &'p Path<'p>, index: usize },
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field { parent: Path::Root, name } => f.write_str(name),
            Self::Field { parent, name } => write!(f, "{parent}.{name}"),
            Self::Index { parent, index } => write!(f, "{parent}[{index}]"),
        }
    }
}

impl Path<'_> {
    /// The path in backticks, or what the outermost value is called.
    pub(super) fn named(&self) -> String {
        match self {
            Self::Root => "the document".to_owned(),
            path => format!("`{path}`"),
        }
    }

    /// The name of the field the value stands in.
    pub(super) fn field(&self) -> Option<&str> {
        match self {
            Self::Root => None,
            Self::Field { name, .. } => Some(name),
            Self::Index { parent, .. } => parent.field(),
        }
    }
}
