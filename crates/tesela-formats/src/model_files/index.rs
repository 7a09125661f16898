//! `model.safetensors.index.json`: the total of all shards, and their names.

use std::collections::BTreeSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use super::fields;
use crate::diagnostic::{Diagnostic, Diagnostics, shown};

/// More shards than any model has.
const MOST_SHARDS: usize = 10_000;

/// What an index says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Its name.
    pub file: String,
    /// Bytes of all tensors, where it says.
    pub total: Option<u64>,
    /// Names of the shards, in bytewise order.
    pub shards: Vec<String>,
}

#[derive(Deserialize)]
struct Wire {
    #[serde(default)]
    metadata: Metadata,
    weight_map: Shards,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    total_size: Option<serde_json::Number>,
}

/// The distinct values of `weight_map`; its keys are not kept.
struct Shards(BTreeSet<String>);

impl<'de> Deserialize<'de> for Shards {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = Shards;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object from tensors to files")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Shards, A::Error> {
                let mut names = BTreeSet::new();
                while let Some((_, file)) = map.next_entry::<IgnoredAny, String>()? {
                    if file.is_empty() || file.len() > 255 || file.contains(['/', '\\', '\0']) || file == ".."
                    {
                        let what = format!("`{}` is no name of a file beside the index", shown(&file));
                        return Err(serde::de::Error::custom(what));
                    }
                    names.insert(file);
                    if names.len() > MOST_SHARDS {
                        return Err(serde::de::Error::custom("it names more than 10,000 files"));
                    }
                }
                Ok(Shards(names))
            }
        }
        deserializer.deserialize_map(Names)
    }
}

/// Reads an index.
///
/// # Errors
/// Rules `empty-input`, `truncated-json`, `model-json`, `model-field` (a total that is no number of bytes).
pub fn read_index(file: &str, bytes: &[u8]) -> Result<Index, Diagnostics> {
    let wire: Wire = serde_json::from_slice(bytes).map_err(|error| fields::refusal(file, bytes, &error))?;
    let total = wire.metadata.total_size.map(|number| whole(file, &number)).transpose()?;
    Ok(Index { file: file.to_owned(), total, shards: wire.weight_map.0.into_iter().collect() })
}

/// A number of bytes; some tools write it with a fraction of 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is whole, not negative and below 2^53"
)]
fn whole(file: &str, number: &serde_json::Number) -> Result<u64, Diagnostics> {
    let float = number.as_f64().filter(|n| n.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(n));
    number.as_u64().or_else(|| float.map(|n| n as u64)).ok_or_else(|| {
        let message = format!("`metadata.total_size` is {number}; it must be a whole number of bytes");
        Diagnostic::error(file, "model-field", message)
            .fix("name the shards themselves instead of the index")
            .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_and_shards() {
        let text = br#"{"metadata": {"total_size": 16060522496.0, "x": 1}, "weight_map":
            {"a": "model-00002-of-00002.safetensors", "b": "model-00001-of-00002.safetensors",
             "c": "model-00002-of-00002.safetensors"}}"#;
        let index = read_index("i.json", text).unwrap();
        assert_eq!(index.total, Some(16_060_522_496));
        assert_eq!(index.shards, ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]);
    }

    #[test]
    fn an_index_leads_nowhere_else() {
        for name in ["../secret", "/etc/passwd", "a/b", "", ".."] {
            let text = format!("{{\"weight_map\": {{\"a\": \"{name}\"}}}}");
            let told = read_index("i.json", text.as_bytes()).unwrap_err().to_string();
            assert!(told.contains("no name of a file"), "{told}");
        }
        let told =
            read_index("i.json", br#"{"metadata": {"total_size": -1}, "weight_map": {}}"#).unwrap_err();
        assert!(told.to_string().contains("total_size"), "{told}");
        assert!(read_index("i.json", b"{}").is_err());
    }
}
