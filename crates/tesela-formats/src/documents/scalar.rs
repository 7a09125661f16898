//! Values as written. The checks say later what they must be, so that one message names value, rule and unit,
//! and so that every wrong value of a document is told in one run.

use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, IntoDeserializer, MapAccess, Visitor};
use tesela_model::origin::Origin;

use crate::diagnostic::shown;
use crate::source::Located;

/// A scalar as written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Raw {
    Bool(bool),
    /// Saturates beyond 128 bits.
    Int(i128),
    Float(f64),
    Text(String),
}

impl Raw {
    /// The text of the value; numbers in plain decimals.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
            Self::Text(text) => text.clone(),
        }
    }

    /// In the words of a message: `the number 5`, `the text "x"`.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Bool(value) => format!("the boolean {value}"),
            Self::Int(_) | Self::Float(_) => format!("the number {}", shown(&self.text())),
            Self::Text(text) => format!("the text \"{}\"", shown(text)),
        }
    }
}

struct RawVisitor {
    what: &'static str,
}

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Int(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Raw, E> {
        Ok(Raw::Int(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_owned()))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Raw, E> {
        Err(E::custom(format!("it is empty; it must be {}", self.what)))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, _: A) -> Result<Raw, A::Error> {
        Err(de::Error::custom(format!("it is a list; it must be {}", self.what)))
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<Raw, A::Error> {
        Err(de::Error::custom(format!("it is a mapping; it must be {}", self.what)))
    }
}

macro_rules! written {
    ($($(#[$doc:meta])* $name:ident, $what:literal, $schema:tt;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub(crate) struct $name(pub(crate) Raw);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(RawVisitor { what: $what }).map(Self)
            }
        }

        impl AsRef<Raw> for $name {
            fn as_ref(&self) -> &Raw {
                &self.0
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                json_schema!($schema)
            }
        }
    )*};
}

written! {
    /// A whole number from 0.
    Whole, "a whole number", { "type": "integer", "minimum": 0 };
    /// A whole number from 1.
    Positive, "a whole number from 1", { "type": "integer", "minimum": 1 };
    /// A whole number from 2.
    Replicas, "a whole number from 2", { "type": "integer", "minimum": 2 };
    /// A whole number of either sign.
    Signed, "a whole number", { "type": "integer" };
    /// Bytes with a unit.
    Memory, "a size with its unit, such as 80Gi", {
        "type": "string",
        "pattern": "^[0-9]+(\\.[0-9]+)?(B|Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)$",
        "examples": ["80Gi", "512Mi"]
    };
    /// Cores.
    Cpu, "a number of cores, such as 8 or 500m", {
        "anyOf": [
            { "type": "number", "minimum": 0 },
            { "type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?m?$" }
        ],
        "examples": [8, "500m"]
    };
    /// A share of the time.
    DutyText, "a share such as 10% or 0.1", {
        "anyOf": [
            { "type": "number", "minimum": 0, "maximum": 1 },
            { "type": "string", "pattern": "^([0-9]+(\\.[0-9])?%|0?\\.[0-9]{1,3}|[01])$" }
        ],
        "examples": ["10%", 0.1]
    };
    /// A percentile.
    Percentile, "a percentile such as p99", {
        "type": "string", "pattern": "^p[0-9]{1,2}(\\.[0-9])?$", "examples": ["p99", "p99.9"]
    };
    /// A time with its unit.
    Duration, "a time with its unit, such as 200ms", {
        "type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?(ms|s)$", "examples": ["200ms", "1.5s"]
    };
    /// Money.
    Amount, "an amount such as 2.50", {
        "anyOf": [
            { "type": "number", "exclusiveMinimum": 0 },
            { "type": "string", "pattern": "^[0-9]+(\\.[0-9]{1,6})?$" }
        ],
        "examples": ["2.50"]
    };
}

/// A value that is not certain: written plain when a person gives it, else with where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Uncertain<T> {
    pub(super) value: Located<T>,
    pub(super) origin: Origin,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Marked<T> {
    value: Located<T>,
    origin: Origin,
}

struct UncertainVisitor<T>(PhantomData<T>);

impl<T> UncertainVisitor<T> {
    fn plain<'de, E: de::Error>(value: impl IntoDeserializer<'de, E>) -> Result<Uncertain<T>, E>
    where
        T: Deserialize<'de>,
    {
        let value = T::deserialize(value.into_deserializer())?;
        Ok(Uncertain { value: value.into(), origin: Origin::Given })
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for UncertainVisitor<T> {
    type Value = Uncertain<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, or {value: …, origin: given|measured|estimated|assumed}")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Self::Value, E> {
        Self::plain(value)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Self::Value, E> {
        Self::plain(value)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Self::Value, E> {
        Self::plain(value)
    }

    fn visit_i128<E: de::Error>(self, value: i128) -> Result<Self::Value, E> {
        Self::plain(value)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Self::Value, E> {
        Self::plain(value)
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Self::Value, E> {
        Self::plain(value)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let Marked { value, origin } = Marked::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Uncertain { value, origin })
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Uncertain<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UncertainVisitor(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Uncertain<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("Uncertain{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let value = generator.subschema_for::<T>();
        let origin = generator.subschema_for::<Origin>();
        json_schema!({
            "anyOf": [
                value,
                {
                    "type": "object",
                    "properties": { "value": value, "origin": origin },
                    "required": ["value", "origin"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}
