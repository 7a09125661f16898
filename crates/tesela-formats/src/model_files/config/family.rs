//! What configs of known families leave unsaid: biases, norms, which layers slide, defaults of absent fields.
//!
//! Source of each row: the family's `configuration_*.py` and `modeling_*.py` in
//! github.com/huggingface/transformers; the counts are checked against published totals in
//! `tests/model_files.rs`.

/// How a feed-forward layer is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mlp {
    /// Gate, up and down: three matrices.
    Gated,
    /// Up and down: two.
    Plain,
}

/// Norms of queries and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadNorms {
    None,
    /// One of a head's width for all heads.
    OfHead,
    /// One over all heads.
    OfAll,
}

/// Which layers look back over a window only, where the config names a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sliding {
    /// None, whatever the config says.
    Never,
    /// All.
    All,
    /// All but each n-th.
    AllButEach(u64),
    /// Those from `max_window_layers` on, if `use_sliding_window` says so.
    FromLayer,
}

/// A family of networks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Family {
    /// Values of `model_type`.
    pub(super) names: &'static [&'static str],
    pub(super) mlp: Mlp,
    /// Biases of queries, keys and values; of the attention's output; of the feed-forward matrices; of the output.
    pub(super) qkv_bias: bool,
    pub(super) out_bias: bool,
    pub(super) mlp_bias: bool,
    pub(super) head_bias: bool,
    /// Norms of a layer, each of the hidden size.
    pub(super) norms: u64,
    /// Whether norms have a bias beside their scale.
    pub(super) norm_bias: bool,
    /// Norms outside of the layers.
    pub(super) outer_norms: u64,
    pub(super) head_norms: HeadNorms,
    /// Whether the output shares the embedding's weights when the config does not say.
    pub(super) tied: bool,
    pub(super) sliding: Sliding,
    /// Learned positions: rows beyond the longest context.
    pub(super) positions: Option<u64>,
    pub(super) decodes: bool,
    /// A matrix of hidden × hidden at the end (BERT's pooler), with bias.
    pub(super) pooler: bool,
    /// Fields that the config may leave out, with the value of the family's class.
    pub(super) defaults: &'static [(&'static str, u64)],
}

/// Llama and all that is built like it.
const LLAMA: Family = Family {
    names: &[
        "llama",
        "mistral",
        "ministral",
        "mixtral",
        "granite",
        "granitemoe",
        "deepseek_v2",
        "deepseek_v3",
        "deepseek",
        "kimi_k2",
        "llama4_text",
        "mistral3",
        "internlm3",
        "solar",
        "yi",
        "arcee_llama",
    ],
    mlp: Mlp::Gated,
    qkv_bias: false,
    out_bias: false,
    mlp_bias: false,
    head_bias: false,
    norms: 2,
    norm_bias: false,
    outer_norms: 1,
    head_norms: HeadNorms::None,
    tied: false,
    sliding: Sliding::All,
    positions: None,
    decodes: true,
    pooler: false,
    defaults: &[],
};

/// GPT-2 and its kin: two matrices, biases everywhere, norms with bias, the output tied to the embedding.
const GPT2: Family = Family {
    names: &["gpt2", "gpt_bigcode"],
    mlp: Mlp::Plain,
    qkv_bias: true,
    out_bias: true,
    mlp_bias: true,
    norm_bias: true,
    tied: true,
    sliding: Sliding::Never,
    positions: Some(0),
    ..LLAMA
};

/// BERT and its kin.
const BERT: Family = Family { names: &["bert"], positions: Some(0), decodes: false, pooler: true, ..GPT2 };

const FAMILIES: [Family; 26] = [
    LLAMA,
    Family {
        names: &["qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl", "qwen2_5_vl_text", "qwen2_vl_text"],
        qkv_bias: true,
        sliding: Sliding::FromLayer,
        ..LLAMA
    },
    Family {
        names: &["qwen3", "qwen3_moe", "qwen3_vl_text", "qwen3_vl_moe_text"],
        head_norms: HeadNorms::OfHead,
        sliding: Sliding::FromLayer,
        ..LLAMA
    },
    Family { names: &["phi3"], ..LLAMA },
    Family { names: &["gemma"], tied: true, sliding: Sliding::Never, ..LLAMA },
    Family { names: &["gemma2"], norms: 4, tied: true, sliding: Sliding::AllButEach(2), ..LLAMA },
    Family {
        names: &["gemma3", "gemma3_text"],
        norms: 4,
        tied: true,
        head_norms: HeadNorms::OfHead,
        sliding: Sliding::AllButEach(6),
        defaults: &[
            ("num_attention_heads", 8),
            ("num_key_value_heads", 4),
            ("head_dim", 256),
            ("vocab_size", 262_208),
            ("sliding_window", 4096),
            ("max_position_embeddings", 131_072),
        ],
        ..LLAMA
    },
    Family { names: &["cohere"], norms: 1, tied: true, sliding: Sliding::Never, ..LLAMA },
    Family { names: &["cohere2"], norms: 1, tied: true, sliding: Sliding::AllButEach(4), ..LLAMA },
    Family { names: &["olmo2"], head_norms: HeadNorms::OfAll, ..LLAMA },
    Family { names: &["gpt_oss"], sliding: Sliding::AllButEach(2), ..LLAMA },
    Family { names: &["stablelm"], norm_bias: true, sliding: Sliding::Never, ..LLAMA },
    Family { names: &["starcoder2"], positions: None, sliding: Sliding::All, ..GPT2 },
    Family { names: &["phi"], norms: 1, tied: false, head_bias: true, positions: None, ..GPT2 },
    Family {
        names: &["falcon", "refinedweb", "refinedwebmodel"],
        qkv_bias: false,
        out_bias: false,
        mlp_bias: false,
        positions: None,
        ..GPT2
    },
    Family { names: &["gpt_neox"], tied: false, positions: None, ..GPT2 },
    Family {
        names: &["gptj"],
        qkv_bias: false,
        out_bias: false,
        norms: 1,
        tied: false,
        head_bias: true,
        positions: None,
        ..GPT2
    },
    Family { names: &["gpt_neo"], qkv_bias: false, ..GPT2 },
    Family { names: &["bloom"], outer_norms: 2, positions: None, ..GPT2 },
    Family { names: &["opt"], positions: Some(2), ..GPT2 },
    Family {
        names: &["mpt"],
        qkv_bias: false,
        out_bias: false,
        mlp_bias: false,
        norm_bias: false,
        positions: None,
        ..GPT2
    },
    GPT2,
    BERT,
    Family { names: &["roberta", "xlm-roberta", "camembert", "mpnet"], ..BERT },
    Family { names: &["distilbert"], pooler: false, ..BERT },
    Family { names: &["electra"], pooler: false, ..BERT },
];

/// The family that a `model_type` belongs to.
pub(super) fn of(model_type: &str) -> Option<&'static Family> {
    let wanted = model_type.to_ascii_lowercase();
    FAMILIES.iter().find(|family| family.names.contains(&wanted.as_str()))
}

/// What is taken of a network whose family is not known: built like Llama, and no layer slides.
pub(super) const UNKNOWN: Family = Family { names: &[], sliding: Sliding::Never, ..LLAMA };

/// The same for one whose class says that it encodes only.
pub(super) const UNKNOWN_ENCODER: Family = Family { names: &[], decodes: false, tied: true, ..UNKNOWN };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_of_two_families() {
        let mut names = FAMILIES.iter().flat_map(|family| family.names).collect::<Vec<_>>();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(of("Llama").is_some() && of("mamba").is_none());
    }
}
