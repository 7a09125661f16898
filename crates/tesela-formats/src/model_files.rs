//! Files that say how large a model is: Hugging Face's `config.json`, safetensors headers and their index, GGUF headers.
//!
//! All of it is foreign: unknown fields are ignored, nothing is read but headers, memory is bounded, and a length that
//! lies is refused before anything is allocated for it. A reader takes an [`std::io::Read`] and the length of the file,
//! so that of a file of 100 GB only the first megabytes are read.

mod config;
mod fields;
mod gguf;
mod index;
mod safetensors;
mod tally;
mod together;

pub use self::config::{Config, read_config};
pub use self::gguf::{GgufHeader, read_gguf};
pub use self::index::{Index, read_index};
pub use self::safetensors::{SafetensorsHeader, read_safetensors};
pub use self::together::{Choices, ModelFiles, network};

/// What a file is, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelFileKind {
    /// JSON: a config or an index; [`json_kind`] tells which.
    Json,
    /// A safetensors file.
    Safetensors,
    /// A GGUF file.
    Gguf,
}

/// Tells a file by its first bytes; 9 are enough for all but JSON behind blanks.
#[must_use]
pub fn kind_of(head: &[u8]) -> Option<ModelFileKind> {
    if head.starts_with(b"GGUF") {
        return Some(ModelFileKind::Gguf);
    }
    let text = head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head);
    if text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{') {
        return Some(ModelFileKind::Json);
    }
    // A header is shorter than 16 MiB as a rule, so that the upper bytes of its length are 0.
    (head.len() > 8 && head[8] == b'{' && head[5..8] == [0; 3]).then_some(ModelFileKind::Safetensors)
}

/// Which of the two JSON files a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonKind {
    /// `config.json`.
    Config,
    /// `model.safetensors.index.json`.
    Index,
}

/// Tells an index from a config: it alone has a `weight_map`.
#[must_use]
pub fn json_kind(bytes: &[u8]) -> JsonKind {
    #[derive(serde::Deserialize)]
    struct Head {
        weight_map: Option<serde::de::IgnoredAny>,
    }
    match serde_json::from_slice::<Head>(bytes) {
        Ok(Head { weight_map: Some(_) }) => JsonKind::Index,
        _ => JsonKind::Config,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_by_their_first_bytes() {
        assert_eq!(kind_of(b"GGUF\x03\0\0\0"), Some(ModelFileKind::Gguf));
        assert_eq!(kind_of(b" \n{\"a\": 1}"), Some(ModelFileKind::Json));
        assert_eq!(kind_of(b"\x08\0\0\0\0\0\0\0{\"a\"}"), Some(ModelFileKind::Safetensors));
        assert_eq!(kind_of(b"PK\x03\x04 a pickle"), None);
        assert_eq!(kind_of(b""), None);
        assert_eq!(json_kind(br#"{"weight_map": {}}"#), JsonKind::Index);
        assert_eq!(json_kind(br#"{"model_type": "llama"}"#), JsonKind::Config);
        assert_eq!(json_kind(b"{"), JsonKind::Config);
    }
}
