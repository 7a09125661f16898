//! Where a value stands in a text.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};

/// A named text. The name is a file's path as the user gave it, or `-` for standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// What messages call the text.
    pub name: String,
    /// The text itself.
    pub text: String,
}

/// A place in a text: line and column, both counted from 1, columns in characters.
///
/// The default value (`0:0`) means "place not known"; only values that did not come through
/// [`crate::de`] have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl Span {
    /// A place by its line and column, both from 1.
    #[must_use]
    pub const fn new(line: u32, column: u32) -> Self {
        Self { line, column }
    }

    /// True unless this is the default value.
    #[must_use]
    pub const fn is_known(self) -> bool {
        self.line != 0
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A value together with the place it was read from.
///
/// Deserialized through [`crate::de`] it receives the place of its node; through any other
/// deserializer (`serde_json`) the place is [`Span::default`]. It also works as a map key. It does
/// not survive serde's buffering (`untagged`, `flatten`, internally tagged enums).
///
/// Equality, order and hash look at the value alone: two equal values at two places are equal, so
/// that a file written and read again equals itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Where it stands.
    pub at: Span,
}

impl<T> Located<T> {
    /// A value at a place.
    pub const fn new(value: T, at: Span) -> Self {
        Self { value, at }
    }

    /// Another value at the same place.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Located<U> {
        Located { value: change(self.value), at: self.at }
    }

    /// A borrowed value at the same place.
    pub const fn as_ref(&self) -> Located<&T> {
        Located { value: &self.value, at: self.at }
    }
}

impl<T> From<T> for Located<T> {
    /// A value without a known place, as a program makes it.
    fn from(value: T) -> Self {
        Self { value, at: Span::default() }
    }
}

impl<T: fmt::Display> fmt::Display for Located<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<T: PartialEq> PartialEq for Located<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: Eq> Eq for Located<T> {}

impl<T: PartialOrd> PartialOrd for Located<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.value.partial_cmp(&other.value)
    }
}

impl<T: Ord> Ord for Located<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.value.cmp(&other.value)
    }
}

impl<T: std::hash::Hash> std::hash::Hash for Located<T> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.value.hash(state);
    }
}

impl<T: serde::Serialize> serde::Serialize for Located<T> {
    /// Writes the value alone.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

/// The schema of a located value is that of the value.
impl<T: schemars::JsonSchema> schemars::JsonSchema for Located<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> std::borrow::Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        T::json_schema(generator)
    }
}

/// The newtype name by which [`crate::de`] knows that a place is wanted.
pub(crate) const LOCATED: &str = "$tesela_formats::Located";

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Located<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(LOCATED, LocatedVisitor(PhantomData))
    }
}

struct LocatedVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for LocatedVisitor<T> {
    type Value = Located<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Self::Value, D::Error> {
        T::deserialize(inner).map(Located::from)
    }

    // Our own deserializer answers with line, column, value.
    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
        let missing = || de::Error::custom("a located value needs a line, a column and a value");
        let line = parts.next_element()?.ok_or_else(missing)?;
        let column = parts.next_element()?.ok_or_else(missing)?;
        let value = parts.next_element()?.ok_or_else(missing)?;
        Ok(Located { value, at: Span { line, column } })
    }
}
