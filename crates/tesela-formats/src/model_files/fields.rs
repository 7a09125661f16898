//! The fields of a JSON object that somebody else wrote: unknown ones are skipped unread, the rest is kept as it is.
//!
//! Memory is bounded by the number of values that are kept, whatever the text holds.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::diagnostic::{Diagnostic, Diagnostics, shown};
use crate::source::Span;

/// Values kept of one text. Real configs have some hundred.
const MOST_VALUES: usize = 20_000;
/// A larger number is no dimension of a network; it keeps products of five inside 128 bits.
const MOST: u64 = 1 << 24;
/// No context is longer.
const LONGEST: u64 = 1 << 40;
/// Objects that are read; all others are skipped, except inside those of [`OPEN`].
const NESTED: [&str; 12] = [
    "attn_config",
    "compression_config",
    "ffn_config",
    "language_config",
    "language_model",
    "linear_attn_config",
    "llm_config",
    "metadata",
    "quantization_config",
    "rope_parameters",
    "text_config",
    "thinker_config",
];
/// Objects of which everything inside is read.
const OPEN: [&str; 2] = ["quantization_config", "compression_config"];

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Field {
    Null,
    Bool(bool),
    /// A whole number, 0 or more.
    Number(u64),
    /// Any other number.
    Odd(f64),
    Text(String),
    List(Vec<Field>),
    Object(Fields),
    /// An object that nobody asks for.
    Skipped,
}

/// Fields by name; of a name that stands twice the last counts, as everywhere in JSON.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Fields {
    entries: BTreeMap<String, Field>,
}

/// A field that does not hold what it must.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadField {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) wanted: &'static str,
}

impl Fields {
    /// Reads a text that must be one JSON object.
    pub(super) fn read(file: &str, bytes: &[u8]) -> Result<Self, Diagnostics> {
        let budget = Cell::new(MOST_VALUES);
        let mut reader = serde_json::Deserializer::from_slice(bytes);
        let found = Object { budget: &budget, open: false }.deserialize(&mut reader);
        found.and_then(|fields| reader.end().map(|()| fields)).map_err(|error| refusal(file, bytes, &error))
    }

    /// The first of these fields that is there and not null.
    pub(super) fn first(&self, names: &[&str]) -> Option<(&str, &Field)> {
        let found = names.iter().filter_map(|name| self.entries.get_key_value(*name));
        found.map(|(name, field)| (name.as_str(), field)).find(|(_, field)| **field != Field::Null)
    }

    /// A whole number, 0 or more.
    pub(super) fn number(&self, names: &[&str]) -> Result<Option<u64>, BadField> {
        const WANTED: &str = "a whole number from 0 to 2^24";
        let Some((name, field)) = self.first(names) else { return Ok(None) };
        match field {
            Field::Number(number) if *number <= MOST => Ok(Some(*number)),
            other => Err(BadField { name: name.to_owned(), value: other.describe(), wanted: WANTED }),
        }
    }

    /// A whole number, 1 or more.
    pub(super) fn size(&self, names: &[&str]) -> Result<Option<u64>, BadField> {
        const WANTED: &str = "a whole number from 1 to 2^24";
        match self.number(names)? {
            Some(0) => {
                let name = self.first(names).map(|(name, _)| name.to_owned()).unwrap_or_default();
                Err(BadField { name, value: "0".to_owned(), wanted: WANTED })
            }
            other => Ok(other),
        }
    }

    /// A length in tokens; anything else says nothing, as some write a number without end there.
    pub(super) fn tokens(&self, names: &[&str]) -> Option<u64> {
        match self.first(names) {
            Some((_, Field::Number(number))) if (1..=LONGEST).contains(number) => Some(*number),
            _ => None,
        }
    }

    /// A boolean; anything else says nothing.
    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        match self.entries.get(name) {
            Some(Field::Bool(flag)) => Some(*flag),
            _ => None,
        }
    }

    /// A text; anything else says nothing.
    pub(super) fn text(&self, names: &[&str]) -> Option<&str> {
        match self.first(names) {
            Some((_, Field::Text(text))) => Some(text),
            _ => None,
        }
    }

    /// The texts of a list; anything else says nothing.
    pub(super) fn texts(&self, names: &[&str]) -> Option<Vec<&str>> {
        let Some((_, Field::List(list))) = self.first(names) else { return None };
        Some(
            list.iter()
                .filter_map(|f| if let Field::Text(text) = f { Some(text.as_str()) } else { None })
                .collect(),
        )
    }

    /// The whole numbers of a list; anything else says nothing.
    pub(super) fn numbers(&self, name: &str) -> Option<Vec<u64>> {
        let Some(Field::List(list)) = self.entries.get(name) else { return None };
        Some(list.iter().filter_map(|f| if let Field::Number(n) = f { Some(*n) } else { None }).collect())
    }

    /// An object inside.
    pub(super) fn object(&self, names: &[&str]) -> Option<(&str, &Self)> {
        match self.first(names) {
            Some((name, Field::Object(fields))) => Some((name, fields)),
            _ => None,
        }
    }

    /// The objects inside, by name.
    pub(super) fn objects(&self) -> impl Iterator<Item = &Self> {
        self.entries.values().filter_map(|f| if let Field::Object(fields) = f { Some(fields) } else { None })
    }

    /// Whether a field of this name is there, null or not.
    pub(super) fn has(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }
}

impl Field {
    fn describe(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(flag) => flag.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Odd(number) => number.to_string(),
            Self::Text(text) => format!("\"{}\"", shown(text)),
            Self::List(_) => "a list".to_owned(),
            Self::Object(_) | Self::Skipped => "an object".to_owned(),
        }
    }
}

impl BadField {
    /// As a diagnostic with the place of the field in the text.
    pub(super) fn in_text(&self, file: &str, bytes: &[u8]) -> Diagnostics {
        let message = format!("`{}` is {}; it must be {}", self.name, self.value, self.wanted);
        Diagnostic::error(file, "model-field", message)
            .at(place_of(bytes, &self.name))
            .value(self.value.clone())
            .fix("mend the field, or estimate from a number of parameters alone: --parameters 7b --data-type bf16")
            .into()
    }
}

/// Where a key stands first in a JSON text; unknown where it does not.
fn place_of(bytes: &[u8], key: &str) -> Span {
    let wanted = format!("\"{key}\"");
    let text = String::from_utf8_lossy(bytes);
    for (line, content) in (1u32..).zip(text.lines()) {
        if let Some(at) = content.find(&wanted) {
            let column = content[..at].chars().count() + 1;
            return Span::new(line, u32::try_from(column).unwrap_or(u32::MAX));
        }
    }
    Span::default()
}

/// serde_json's refusal with its place.
pub(super) fn refusal(file: &str, bytes: &[u8], error: &serde_json::Error) -> Diagnostics {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let message = text.split(" at line ").next().unwrap_or_default();
    let found = if bytes.iter().all(u8::is_ascii_whitespace) {
        Diagnostic::error(file, "empty-input", "there is nothing in it")
    } else if error.is_eof() {
        Diagnostic::error(file, "truncated-json", format!("the JSON is cut off here ({message})"))
    } else {
        Diagnostic::error(file, "model-json", format!("this is no JSON object of a model: {message}"))
    };
    let at =
        Span::new(u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column.max(1)).unwrap_or(u32::MAX));
    found.at(at).fix("fetch the file again, as JSON and whole").into()
}

/// Reads one object.
struct Object<'a> {
    budget: &'a Cell<usize>,
    /// Whether all objects inside are read too.
    open: bool,
}

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = Fields;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Fields, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Fields::default();
        while let Some(name) = map.next_key::<String>()? {
            let nested = self.open || NESTED.contains(&name.as_str());
            let open = self.open || OPEN.contains(&name.as_str());
            let value = map.next_value_seed(One { budget: self.budget, nested, open })?;
            fields.entries.insert(name, value);
        }
        Ok(fields)
    }
}

/// Reads one value.
struct One<'a> {
    budget: &'a Cell<usize>,
    /// Whether it is read if it is an object.
    nested: bool,
    open: bool,
}

impl<'de> DeserializeSeed<'de> for One<'_> {
    type Value = Field;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Field, D::Error> {
        let Some(left) = self.budget.get().checked_sub(1) else {
            return Err(serde::de::Error::custom(
                "it has more than 20,000 values, which no config of a model has",
            ));
        };
        self.budget.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for One<'_> {
    type Value = Field;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Field, E> {
        Ok(Field::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Field, E> {
        Ok(Field::Bool(flag))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Field, E> {
        Ok(Field::Number(number))
    }

    #[expect(clippy::cast_precision_loss, reason = "a negative number is refused wherever it is asked for")]
    fn visit_i64<E>(self, number: i64) -> Result<Field, E> {
        Ok(u64::try_from(number).map_or(Field::Odd(number as f64), Field::Number))
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is whole, not negative and below 2^53"
    )]
    fn visit_f64<E>(self, number: f64) -> Result<Field, E> {
        // Python writes whole numbers as 4096.0 now and then.
        let whole = number.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(&number);
        Ok(if whole { Field::Number(number as u64) } else { Field::Odd(number) })
    }

    fn visit_str<E>(self, text: &str) -> Result<Field, E> {
        // No field that is asked for has a longer text; the rest need not be kept.
        Ok(Field::Text(text.chars().take(256).collect()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Field, A::Error> {
        let mut kept = Vec::new();
        while let Some(value) =
            list.next_element_seed(One { budget: self.budget, nested: self.open, open: self.open })?
        {
            kept.push(value);
        }
        Ok(Field::List(kept))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Field, A::Error> {
        if self.nested {
            return Object { budget: self.budget, open: self.open }.visit_map(map).map(Field::Object);
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Field::Skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Fields {
        Fields::read("c.json", text.as_bytes()).unwrap()
    }

    #[test]
    fn known_objects_are_read_and_others_skipped() {
        let fields = read(
            r#"{"a": 1, "b": 2.0, "c": -1, "d": null, "x": {"a": 5}, "text_config": {"a": 7},
                "quantization_config": {"config_groups": {"g": {"weights": {"num_bits": 4}}}}, "l": ["u", 3]}"#,
        );
        assert_eq!(fields.number(&["d", "a"]), Ok(Some(1)));
        assert_eq!(fields.number(&["b"]), Ok(Some(2)));
        assert_eq!(fields.number(&["z"]), Ok(None));
        assert!(fields.number(&["c"]).is_err() && fields.number(&["l"]).is_err());
        assert!(fields.object(&["x"]).is_none());
        assert_eq!(fields.object(&["text_config"]).unwrap().1.number(&["a"]), Ok(Some(7)));
        let quantised = fields.object(&["quantization_config"]).unwrap().1;
        let groups = quantised.object(&["config_groups"]).unwrap().1;
        let weights = groups.objects().next().unwrap().object(&["weights"]).unwrap().1;
        assert_eq!(weights.number(&["num_bits"]), Ok(Some(4)));
        assert_eq!(fields.texts(&["l"]), Some(vec!["u"]));
        assert_eq!(fields.numbers("l"), Some(vec![3]));
    }

    #[test]
    fn a_flood_of_values_is_refused() {
        let flood = format!("{{\"a\": [{}0]}}", "0,".repeat(MOST_VALUES));
        let refusal = Fields::read("c.json", flood.as_bytes()).unwrap_err().to_string();
        assert!(refusal.contains("more than 20,000 values"), "{refusal}");
        // Labels of a classifier lie in an object that is skipped.
        let labels = format!("{{\"id2label\": {{{}\"x\": 0}}, \"a\": 1}}", "\"y\": 0,".repeat(MOST_VALUES));
        assert_eq!(read(&labels).number(&["a"]), Ok(Some(1)));
    }

    #[test]
    fn a_wrong_field_is_told_with_its_place() {
        let text = b"{\n  \"hidden_size\": \"wide\"\n}";
        let fields = Fields::read("c.json", text).unwrap();
        let bad = fields.size(&["hidden_size"]).unwrap_err();
        let told = bad.in_text("c.json", text).to_string();
        assert!(
            told.starts_with("c.json:2:3: `hidden_size` is \"wide\"; it must be a whole number"),
            "{told}"
        );
    }
}
