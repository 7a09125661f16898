//! A served network: what the memory of a model server depends on.
//!
//! `tesela_formats::model_files` reads it from a `config.json`, safetensors or GGUF headers; `tesela_plan::estimate`
//! says what it takes. A fact that no file tells is `None`, never a guess.

mod data_type;

use serde::Serialize;

pub use self::data_type::{DataType, UnknownDataType};
use crate::origin::Origin;

/// What is known of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Its kind as the file calls it: `llama`, `LlamaForCausalLM`.
    pub architecture: Option<String>,
    /// Numbers that were trained, packed ones counted each; `None` = not known.
    pub parameters: Option<u64>,
    /// The weights as they lie in GPU memory; `None` = not known.
    pub weights: Option<Weights>,
    /// What a request adds; `None` = not known.
    pub shape: Option<Shape>,
    /// What a reader of the answer should know, one sentence each.
    pub notes: Vec<String>,
}

/// Weights as they lie in GPU memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weights {
    /// Tensors of one kind and type together.
    pub groups: Vec<WeightGroup>,
    /// `measured` from headers, `estimated` from a config, `given` as a number of parameters.
    pub origin: Origin,
    /// How the bytes were found, as a formula.
    pub formula: String,
    /// The file or the words they come from.
    pub source: String,
}

/// Tensors of one kind and type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WeightGroup {
    /// What they are for: `attention`, `experts`, `scales of int4`.
    pub part: String,
    /// How their elements are stored; `None` = a total that says nothing of types.
    pub data_type: Option<DataType>,
    /// Elements as stored.
    pub elements: u64,
    /// Bytes, exactly.
    pub bytes: u64,
    /// Among how many GPUs tensor parallelism can split them at most; 1 = each GPU holds a copy.
    pub ways: u64,
}

impl WeightGroup {
    /// Any number of GPUs.
    pub const ANY: u64 = u64::MAX;

    /// Bytes on each of `gpus` GPUs, rounded up.
    #[must_use]
    pub fn bytes_on_each(&self, gpus: u64) -> u64 {
        self.bytes.div_ceil(gpus.min(self.ways).max(1))
    }
}

/// What decides how much a request adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Width of the residual stream.
    pub hidden: u64,
    /// Query heads; `None` = no attention.
    pub heads: Option<u64>,
    /// How keys and values are kept, in words.
    pub attention: Attention,
    /// What is kept of each sequence, layer by layer. Layers that keep nothing are not listed.
    pub cache: Vec<LayerCache>,
    /// Elements in flight for one token that each GPU of a tensor-parallel group holds: the residual stream and
    /// what is added to it.
    pub residual: u64,
    /// Elements that the widest layer has in flight for one token beside those; tensor parallelism splits them.
    pub inner: u64,
    /// Words; 0 where no word is chosen (encoders).
    pub vocabulary: u64,
    /// The longest sequence it was made for, in tokens.
    pub max_context: Option<u64>,
    /// Whether it writes token by token. An encoder reads once and keeps nothing.
    pub decodes: bool,
    /// Type of activations, and of keys and values unless told otherwise.
    pub compute: DataType,
    /// Where `compute` comes from.
    pub compute_origin: Origin,
    /// Mixture of experts.
    pub experts: Option<Experts>,
}

/// How keys and values are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Attention {
    /// Each query head has its own keys and values.
    MultiHead,
    /// Groups of query heads share them.
    GroupedQuery,
    /// All query heads share them.
    MultiQuery,
    /// One compressed vector for all heads (multi-head latent attention).
    Latent,
    /// No layer looks back; a state of fixed size or nothing is kept.
    None,
}

impl Attention {
    /// By numbers of heads.
    #[must_use]
    pub fn of_heads(heads: u64, kv_heads: u64) -> Self {
        match kv_heads {
            1 if heads > 1 => Self::MultiQuery,
            n if n < heads => Self::GroupedQuery,
            _ => Self::MultiHead,
        }
    }

    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::MultiHead => "multi-head attention",
            Self::GroupedQuery => "grouped-query attention",
            Self::MultiQuery => "multi-query attention",
            Self::Latent => "latent attention",
            Self::None => "no attention over the past",
        }
    }
}

/// What equal layers keep of each sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerCache {
    /// How many such layers.
    pub layers: u64,
    /// What one layer keeps.
    pub kind: CacheKind,
    /// Of how many tokens.
    pub span: Span,
}

/// What one layer keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKind {
    /// A key and a value for each KV head and token.
    Heads {
        /// KV heads.
        kv_heads: u64,
        /// Elements of a key.
        key: u64,
        /// Elements of a value.
        value: u64,
    },
    /// One vector for each token, the same for all heads; each GPU of a tensor-parallel group holds it.
    Latent {
        /// Elements (`kv_lora_rank + qk_rope_head_dim`).
        width: u64,
    },
    /// A state of fixed size for each sequence (linear attention, Mamba).
    State {
        /// Elements.
        elements: u64,
    },
}

/// Of how many tokens something is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// All of the context.
    Context,
    /// The last so many tokens at most.
    Window(u64),
}

impl Span {
    /// Tokens kept of a context of so many.
    #[must_use]
    pub fn tokens(self, context: u64) -> u64 {
        match self {
            Self::Context => context,
            Self::Window(window) => window.min(context),
        }
    }
}

/// A mixture of experts. All of them lie in memory; the active ones matter for speed alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Experts {
    /// Experts of a layer.
    pub count: u64,
    /// Experts that work on a token; `None` = not known.
    pub active: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attention_is_told_by_heads() {
        assert_eq!(Attention::of_heads(32, 32), Attention::MultiHead);
        assert_eq!(Attention::of_heads(32, 8), Attention::GroupedQuery);
        assert_eq!(Attention::of_heads(71, 1), Attention::MultiQuery);
        assert_eq!(Attention::of_heads(1, 1), Attention::MultiHead);
    }

    #[test]
    fn what_cannot_be_split_lies_on_each_gpu() {
        let group = |ways| WeightGroup {
            part: "attention".into(),
            data_type: Some(DataType::BF16),
            elements: 5,
            bytes: 10,
            ways,
        };
        assert_eq!(group(1).bytes_on_each(4), 10);
        assert_eq!(group(2).bytes_on_each(4), 5);
        assert_eq!(group(WeightGroup::ANY).bytes_on_each(4), 3);
    }
}
