//! Lists, mappings, keys, enums and located values for serde.

use std::iter::Enumerate;
use std::slice::Iter;
use std::sync::Arc;

use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeSeed, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, VariantAccess, Visitor,
};

use super::Context;
use super::fault::Fault;
use super::node::{NodeDe, read};
use super::path::Path;
use crate::source::Span;
use crate::tree::{Entry, Key, Mapping, Node, Scalar, Style, Value};

/// The elements of a list.
pub(super) struct Items<'c, 'n, 'p> {
    pub(super) context: &'c Context<'c>,
    pub(super) items: Enumerate<Iter<'n, Node>>,
    pub(super) path: &'p Path<'p>,
    /// Report a bad element and end the list there, so that the rest of the document is read too.
    pub(super) recover: bool,
}

impl<'de> SeqAccess<'de> for Items<'_, '_, '_> {
    type Error = Fault;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Fault> {
        let Some((index, node)) = self.items.next() else {
            return Ok(None);
        };
        let path = Path::Index { parent: self.path, index };
        match read(self.context, node, path, seed) {
            Ok(value) => Ok(Some(value)),
            Err(fault) if self.recover => {
                self.context.report_fault(fault.at(node, &path.named()));
                // The report makes sure that the document is refused in the end.
                self.items = [].iter().enumerate();
                Ok(None)
            }
            Err(fault) => Err(fault),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

/// The entries of a mapping; with a list of fields, only those.
pub(super) struct Entries<'c, 'n, 'p> {
    context: &'c Context<'c>,
    entries: Iter<'n, Entry>,
    path: &'p Path<'p>,
    fields: Option<&'static [&'static str]>,
    current: Option<&'n Entry>,
}

impl<'c, 'n, 'p> Entries<'c, 'n, 'p> {
    pub(super) fn new(
        context: &'c Context<'c>,
        mapping: &'n Mapping,
        path: &'p Path<'p>,
        fields: Option<&'static [&'static str]>,
    ) -> Self {
        Self { context, entries: mapping.entries.iter(), path, fields, current: None }
    }
}

impl<'de> MapAccess<'de> for Entries<'_, '_, '_> {
    type Error = Fault;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Fault> {
        let fields = self.fields;
        let known = |entry: &&Entry| fields.is_none_or(|fields| fields.contains(&&*entry.key.text));
        let Some(entry) = self.entries.find(known) else {
            return Ok(None);
        };
        self.current = Some(entry);
        seed.deserialize(KeyDe { key: &entry.key })
            .map(Some)
            .map_err(|fault: Fault| fault.at(&key_node(&entry.key), &format!("the key `{}`", entry.key.text)))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Fault> {
        // serde asks for the value right after its key.
        let Some(entry) = self.current.take() else {
            return Err(de::Error::custom("a value was asked for before its key"));
        };
        let path = Path::Field { parent: self.path, name: &entry.key.text };
        read(self.context, &entry.value, path, seed).map_err(|fault| fault.at(&entry.value, &path.named()))
    }
}

fn key_node(key: &Key) -> Node {
    let scalar = Scalar { text: Arc::clone(&key.text), style: Style::Quoted, tagged_text: true };
    Node { at: key.at, value: Value::Scalar(scalar) }
}

/// A key: text, a number that was written as a key, or a located one of these.
struct KeyDe<'n> {
    key: &'n Key,
}

impl KeyDe<'_> {
    fn number<T: std::str::FromStr>(&self) -> Result<T, Fault> {
        self.key.text.parse().map_err(|_| {
            let message = format!("the key `{}` must be a whole number", self.key.text);
            Fault::new("wrong-type", message).at(&key_node(self.key), "")
        })
    }
}

macro_rules! number_keys {
    ($($method:ident $visit:ident),* $(,)?) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            visitor.$visit(self.number()?)
        }
    )*};
}

impl<'de> serde::Deserializer<'de> for KeyDe<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_str(&self.key.text)
    }

    number_keys! {
        deserialize_i8 visit_i8, deserialize_i16 visit_i16, deserialize_i32 visit_i32, deserialize_i64 visit_i64,
        deserialize_u8 visit_u8, deserialize_u16 visit_u16, deserialize_u32 visit_u32, deserialize_u64 visit_u64,
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        if name == crate::source::LOCATED {
            let at = self.key.at;
            return visitor.visit_seq(LocatedParts::new(at, self));
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let word: StrDeserializer<'_, Fault> = (*self.key.text).into_deserializer();
        visitor.visit_enum(word)
    }

    serde::forward_to_deserialize_any! {
        bool i128 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct
        map struct identifier ignored_any
    }
}

/// Line, column, value: what `Located` takes.
pub(super) struct LocatedParts<D> {
    at: Span,
    step: u8,
    inner: Option<D>,
}

impl<D> LocatedParts<D> {
    pub(super) fn new(at: Span, inner: D) -> Self {
        Self { at, step: 0, inner: Some(inner) }
    }
}

impl<'de, D: serde::Deserializer<'de, Error = Fault>> SeqAccess<'de> for LocatedParts<D> {
    type Error = Fault;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Fault> {
        self.step += 1;
        match self.step {
            1 => seed.deserialize(self.at.line.into_deserializer()).map(Some),
            2 => seed.deserialize(self.at.column.into_deserializer()).map(Some),
            _ => self.inner.take().map(|inner| seed.deserialize(inner)).transpose(),
        }
    }
}

/// A variant by its word, with its content where it has one.
pub(super) struct Variant<'v, 'c, 'n, 'p> {
    pub(super) outer: &'v NodeDe<'c, 'n, 'p>,
    pub(super) word: &'v str,
    pub(super) content: Option<&'n Node>,
}

impl<'de> EnumAccess<'de> for Variant<'_, '_, '_, '_> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Fault> {
        let word: StrDeserializer<'_, Fault> = self.word.into_deserializer();
        Ok((seed.deserialize(word)?, self))
    }
}

impl Variant<'_, '_, '_, '_> {
    fn content(&self) -> Result<&Node, Fault> {
        self.content.ok_or_else(|| {
            let message = format!("{} needs more than the word `{}`", self.outer.path.named(), self.word);
            Fault::new("wrong-type", message).fix(format!("write it as a mapping: `{}: …`", self.word))
        })
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, '_, '_, '_> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        match self.content {
            Some(node) if !node.is_null() => {
                let message = format!("`{}` takes nothing more", self.word);
                Err(Fault::new("wrong-type", message).at(node, ""))
            }
            _ => Ok(()),
        }
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Fault> {
        let path = Path::Field { parent: &self.outer.path, name: self.word };
        read(self.outer.context, self.content()?, path, seed)
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Fault> {
        let path = Path::Field { parent: &self.outer.path, name: self.word };
        let inner = NodeDe::new(self.outer.context, self.content()?, path);
        serde::Deserializer::deserialize_tuple(inner, length, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let path = Path::Field { parent: &self.outer.path, name: self.word };
        let inner = NodeDe::new(self.outer.context, self.content()?, path);
        serde::Deserializer::deserialize_struct(inner, "", fields, visitor)
    }
}
