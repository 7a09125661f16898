//! One node as a serde deserializer.

use serde::de::{DeserializeSeed, IntoDeserializer, Visitor};

use super::access::{Entries, Items, LocatedParts, Variant};
use super::fault::{Fault, suggestion};
use super::path::Path;
use super::{Context, Unknown};
use crate::diagnostic::{Diagnostic, nearest, shown};
use crate::source::LOCATED;
use crate::tree::{Mapping, Node, Resolved, Schema, Value};

/// A node, the context of its document, and the path to it.
pub(super) struct NodeDe<'c, 'n, 'p> {
    pub(super) context: &'c Context<'c>,
    pub(super) node: &'n Node,
    pub(super) path: Path<'p>,
}

impl<'c, 'n, 'p> NodeDe<'c, 'n, 'p> {
    pub(super) fn new(context: &'c Context<'c>, node: &'n Node, path: Path<'p>) -> Self {
        Self { context, node, path }
    }

    fn resolved(&self) -> Option<Resolved> {
        self.node.as_scalar().map(|scalar| scalar.resolve(Schema::Core))
    }

    fn place(&self, fault: Fault) -> Fault {
        fault.at(self.node, &self.path.named())
    }

    /// "must be X, found Y", with what to do where that is plain.
    fn wrong(&self, wanted: &str) -> Fault {
        let message = format!("{} must be {wanted}, found {}", self.path.named(), self.node.describe());
        let mut fault = Fault::new("wrong-type", message);
        if let (Some(text), Some(resolved)) = (self.node.as_text(), self.resolved()) {
            let quoted = self.node.as_scalar().is_some_and(|s| s.style != crate::tree::Style::Plain);
            if wanted == "text" && resolved != Resolved::Text {
                fault = fault.fix(format!("put quotes around it: \"{}\"", shown(text)));
            } else if quoted && wanted.contains("number") && text.parse::<f64>().is_ok() {
                fault = fault.fix(format!("remove the quotes: {}", shown(text)));
            } else if wanted.contains("true or false") {
                fault = match text.to_ascii_lowercase().as_str() {
                    "yes" | "on" | "y" | "true" => fault.fix("write `true`, without quotes"),
                    "no" | "off" | "n" | "false" => fault.fix("write `false`, without quotes"),
                    _ => fault,
                };
            }
        }
        self.place(fault)
    }

    fn integer(&self, least: i128, most: i128) -> Result<i128, Fault> {
        match self.resolved() {
            Some(Resolved::Int(value)) if (least..=most).contains(&value) => Ok(value),
            Some(Resolved::Int(_)) => {
                let text = shown(self.node.as_text().unwrap_or_default());
                let message = format!(
                    "{} must be a whole number from {least} to {most}, found {text}",
                    self.path.named()
                );
                Err(self.place(Fault::new("number-range", message)))
            }
            Some(Resolved::Float(_)) => Err(self.wrong("a whole number")),
            _ => Err(self.wrong("a whole number")),
        }
    }

    fn text(&self) -> Result<&'n str, Fault> {
        match (self.node.as_scalar(), self.resolved()) {
            (Some(scalar), Some(Resolved::Text)) => Ok(&scalar.text),
            _ => Err(self.wrong("text")),
        }
    }

    fn mapping(&self, fields: &[&str]) -> Result<&'n Mapping, Fault> {
        if let Value::Mapping(mapping) = &self.node.value {
            return Ok(mapping);
        }
        let fault = self.wrong("a mapping");
        Err(if fields.is_empty() { fault } else { fault.fix(format!("fields: {}", fields.join(", "))) })
    }

    fn visit_items<'de, V: Visitor<'de>>(self, visitor: V, recover: bool) -> Result<V::Value, Fault> {
        let Some(items) = self.node.as_sequence() else {
            return Err(self.wrong("a list"));
        };
        let access =
            Items { context: self.context, items: items.iter().enumerate(), path: &self.path, recover };
        visitor.visit_seq(access).map_err(|fault| self.place(fault))
    }

    /// Reports every field that is not in the list; answers those it thinks were meant.
    fn report_unknown(&self, mapping: &Mapping, fields: &'static [&'static str]) -> Vec<&'static str> {
        let mut meant = Vec::new();
        for entry in &mapping.entries {
            let key = &*entry.key.text;
            if fields.contains(&key) {
                continue;
            }
            let shown_key = shown(key);
            let inside = match &self.path {
                Path::Root => String::new(),
                path => format!(" in `{path}`"),
            };
            let places: Vec<&str> =
                self.context.options.places.iter().filter(|p| p.field == key).map(|p| p.belongs).collect();
            let found = if places.is_empty() {
                let found = Diagnostic::error(
                    self.context.file,
                    "unknown-field",
                    format!("unknown field `{shown_key}`{inside}"),
                );
                let absent = fields.iter().copied().filter(|field| mapping.get(field).is_none());
                meant.extend(nearest(key, absent));
                match suggestion(key, fields) {
                    Some(text) => found.fix(text),
                    None => found,
                }
            } else {
                let belongs = places.iter().map(|p| format!("`{p}`")).collect::<Vec<_>>().join(" or ");
                let message = format!(
                    "`{shown_key}` does not belong{}",
                    if inside.is_empty() { " here".to_owned() } else { inside }
                );
                Diagnostic::error(self.context.file, "misplaced-field", message)
                    .fix(format!("move it under {belongs}"))
            };
            self.context.report(found.at(entry.key.at).value(shown_key));
        }
        meant
    }
}

macro_rules! integers {
    ($($method:ident $visit:ident $kind:ty),* $(,)?) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            let value = self.integer(<$kind>::MIN.into(), <$kind>::MAX.into())?;
            // `integer` has checked the range.
            let value = <$kind>::try_from(value).map_err(|_| self.wrong("a whole number"))?;
            visitor.$visit(value).map_err(|fault| self.place(fault))
        }
    )*};
}

impl<'de> serde::Deserializer<'de> for NodeDe<'_, '_, '_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.node.value {
            Value::Sequence(_) => self.visit_items(visitor, false),
            Value::Mapping(_) => self.deserialize_map(visitor),
            Value::Scalar(scalar) => match scalar.resolve(Schema::Core) {
                Resolved::Null => visitor.visit_unit(),
                Resolved::Bool(value) => visitor.visit_bool(value),
                Resolved::Int(value) => match (u64::try_from(value), i64::try_from(value)) {
                    (Ok(value), _) => visitor.visit_u64(value),
                    (_, Ok(value)) => visitor.visit_i64(value),
                    _ => visitor.visit_i128(value),
                },
                Resolved::Float(value) => visitor.visit_f64(value),
                Resolved::Text => visitor.visit_str(&scalar.text),
            }
            .map_err(|fault: Fault| self.place(fault)),
        }
    }

    integers! {
        deserialize_i8 visit_i8 i8,
        deserialize_i16 visit_i16 i16,
        deserialize_i32 visit_i32 i32,
        deserialize_i64 visit_i64 i64,
        deserialize_u8 visit_u8 u8,
        deserialize_u16 visit_u16 u16,
        deserialize_u32 visit_u32 u32,
        deserialize_u64 visit_u64 u64,
    }

    fn deserialize_i128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let value = self.integer(i128::MIN + 1, i128::MAX - 1)?;
        visitor.visit_i128(value).map_err(|fault| self.place(fault))
    }

    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let value = self.integer(0, i128::MAX - 1)?;
        visitor.visit_u128(value.unsigned_abs()).map_err(|fault| self.place(fault))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let Some(Resolved::Bool(value)) = self.resolved() else {
            return Err(self.wrong("true or false"));
        };
        visitor.visit_bool(value).map_err(|fault| self.place(fault))
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let value = match self.resolved() {
            Some(Resolved::Float(value)) => value,
            // A whole number that a float cannot hold exactly is near enough where a float is wanted.
            #[expect(clippy::cast_precision_loss, reason = "a float is what was asked for")]
            Some(Resolved::Int(value)) => value as f64,
            _ => return Err(self.wrong("a number")),
        };
        if !value.is_finite() {
            return Err(self.wrong("a finite number"));
        }
        visitor.visit_f64(value).map_err(|fault| self.place(fault))
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let text = self.text()?;
        visitor.visit_str(text).map_err(|fault| self.place(fault))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if self.node.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if self.node.is_null() { visitor.visit_unit() } else { Err(self.wrong("empty")) }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        if name == LOCATED {
            let at = self.node.at;
            return visitor.visit_seq(LocatedParts::new(at, self));
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.visit_items(visitor, true)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, Fault> {
        self.visit_items(visitor, false)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.visit_items(visitor, false)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let mapping = self.mapping(&[])?;
        let access = Entries::new(self.context, mapping, &self.path, None);
        visitor.visit_map(access).map_err(|fault| self.place(fault))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let mapping = self.mapping(fields)?;
        let refuse = self.context.options.unknown == Unknown::Refuse;
        let meant = if refuse { self.report_unknown(mapping, fields) } else { Vec::new() };
        let access = Entries::new(self.context, mapping, &self.path, Some(fields));
        visitor.visit_map(access).map_err(|fault| {
            let told = fault.missing().is_some_and(|field| meant.contains(&field));
            let fault = self.place(fault);
            if told { fault.told() } else { fault }
        })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let (word, at, content) = match &self.node.value {
            Value::Scalar(scalar) if !self.node.is_null() => (&*scalar.text, self.node.at, None),
            Value::Mapping(mapping) if mapping.entries.len() == 1 => {
                let entry = &mapping.entries[0];
                (&*entry.key.text, entry.key.at, Some(&entry.value))
            }
            _ => {
                let list = variants.iter().map(|v| format!("`{v}`")).collect::<Vec<_>>().join(", ");
                return Err(self.wrong(&format!("one of {list}")));
            }
        };
        if !variants.contains(&word) {
            let field = self.path.field().map_or_else(String::new, |field| format!(" of `{field}`"));
            let fault = Fault::new("unknown-value", format!("`{}` is no value{field}", shown(word)))
                .value(shown(word));
            let fault = match suggestion(word, variants) {
                Some(text) => fault.fix(text),
                None => fault,
            };
            return Err(fault.at(&Node { at, value: self.node.value.clone() }, &self.path.named()));
        }
        let variant = Variant { outer: &self, word, content };
        visitor.visit_enum(variant).map_err(|fault| self.place(fault))
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }
}

impl<'de> IntoDeserializer<'de, Fault> for NodeDe<'_, '_, '_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// Reads a node with a seed.
pub(super) fn read<'de, S: DeserializeSeed<'de>>(
    context: &Context<'_>,
    node: &Node,
    path: Path<'_>,
    seed: S,
) -> Result<S::Value, Fault> {
    seed.deserialize(NodeDe { context, node, path })
}
