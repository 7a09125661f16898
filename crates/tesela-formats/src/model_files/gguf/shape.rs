//! What a request adds, from a GGUF file's metadata.
//!
//! Keys: docs/gguf.md of github.com/ggml-org/ggml and `constants.py` of gguf-py. Which layers slide is not in the file;
//! it is what llama.cpp sets for each architecture (`set_swa_pattern` in llama-model.cpp).

use std::collections::BTreeMap;

use tesela_model::network::{Attention, CacheKind, DataType, Experts, LayerCache, Shape, Span};
use tesela_model::origin::Origin;

use super::value::Value;

/// Larger numbers are no sizes of a network.
const MOST: u64 = 1 << 24;
/// No context is longer.
const LONGEST: u64 = 1 << 40;
/// More layers than any network has.
const MOST_LAYERS: u64 = 100_000;

struct Metadata<'a> {
    architecture: &'a str,
    kept: &'a BTreeMap<String, Value>,
}

impl Metadata<'_> {
    fn value(&self, key: &str) -> Option<&Value> {
        self.kept.get(&format!("{}.{key}", self.architecture))
    }

    fn size(&self, key: &str) -> Option<u64> {
        self.value(key)?.number().filter(|n| (1..=MOST).contains(n))
    }

    /// A number for each layer, written once or as a list.
    fn each(&self, key: &str, layers: u64) -> Option<Vec<u64>> {
        match self.value(key)? {
            Value::Number(n) if *n <= MOST => Some(vec![*n; usize::try_from(layers).ok()?]),
            Value::Numbers(list) if list.len() as u64 >= layers && list.iter().all(|n| *n <= MOST) => {
                Some(list[..usize::try_from(layers).ok()?].to_vec())
            }
            _ => None,
        }
    }
}

/// The shape, where the metadata tells enough; else a note says what is missing.
pub(super) fn of(
    architecture: &str,
    kept: &BTreeMap<String, Value>,
    notes: &mut Vec<String>,
) -> Option<Shape> {
    let meta = Metadata { architecture, kept };
    let layers = meta.size("block_count").filter(|n| *n <= MOST_LAYERS);
    let hidden = meta.size("embedding_length");
    let heads = layers.and_then(|layers| meta.each("attention.head_count", layers));
    let (Some(layers), Some(hidden), Some(heads)) = (layers, hidden, heads) else {
        let keys = [
            ("block_count", layers.is_none()),
            ("embedding_length", hidden.is_none()),
            ("attention.head_count", layers.is_none() || meta.value("attention.head_count").is_none()),
        ];
        let missing = keys.iter().filter(|(_, gone)| *gone).map(|(key, _)| format!("{architecture}.{key}"));
        notes.push(format!(
            "its metadata has no usable {}: what a request adds is not known",
            missing.collect::<Vec<_>>().join(", ")
        ));
        return None;
    };
    let decodes =
        !matches!(meta.value("attention.causal"), Some(Value::Flag(false))) && !architecture.contains("bert");
    let most_heads = heads.iter().copied().max().unwrap_or(1).max(1);
    let kv_heads = meta.each("attention.head_count_kv", layers).unwrap_or_else(|| heads.clone());
    let key = meta.size("attention.key_length").unwrap_or((hidden / most_heads).max(1));
    let value = meta.size("attention.value_length").unwrap_or((hidden / most_heads).max(1));
    let cache = if decodes { cache(&meta, &kv_heads, key, value, notes) } else { Vec::new() };
    let most_kv = kv_heads.iter().copied().max().unwrap_or(0);
    let attention = if !decodes || cache.is_empty() {
        Attention::None
    } else if cache.iter().any(|c| matches!(c.kind, CacheKind::Latent { .. })) {
        Attention::Latent
    } else {
        Attention::of_heads(most_heads, most_kv)
    };
    let words = kept.get("tokenizer.ggml.tokens").and_then(|tokens| match tokens {
        Value::Length(n) => Some(*n),
        Value::Numbers(list) => Some(list.len() as u64),
        _ => None,
    });
    let vocabulary = meta.size("vocab_size").or(words).filter(|n| *n <= MOST).unwrap_or(0);
    let (residual, inner, experts) =
        in_flight(&meta, layers, hidden, 2 * most_heads * key + most_kv * (key + value));
    Some(Shape {
        hidden,
        heads: Some(most_heads),
        attention,
        cache,
        residual,
        inner,
        vocabulary: if decodes { vocabulary } else { 0 },
        max_context: meta
            .value("context_length")
            .and_then(Value::number)
            .filter(|n| (1..=LONGEST).contains(n)),
        decodes,
        compute: DataType::FP16,
        compute_origin: Origin::Assumed,
        experts,
    })
}

fn in_flight(meta: &Metadata<'_>, layers: u64, hidden: u64, attention: u64) -> (u64, u64, Option<Experts>) {
    let dense = meta
        .each("feed_forward_length", layers)
        .and_then(|list| list.into_iter().max())
        .unwrap_or(4 * hidden);
    let experts = meta.size("expert_count").filter(|n| *n > 1);
    let experts = experts.map(|count| Experts { count, active: meta.size("expert_used_count") });
    let (mut residual, mut inner) = (3 * hidden, (3 * dense).max(attention));
    if let Some(experts) = experts {
        let active = experts.active.unwrap_or(1);
        let width = meta.size("expert_feed_forward_length").unwrap_or(dense);
        let shared = meta.size("expert_shared_count").unwrap_or(0).saturating_mul(width);
        residual = residual.saturating_add(active.saturating_mul(hidden));
        inner = inner.max(3 * active.saturating_mul(width).saturating_add(shared).min(MOST << 16));
    }
    (residual, inner, experts)
}

fn cache(
    meta: &Metadata<'_>,
    kv_heads: &[u64],
    key: u64,
    value: u64,
    notes: &mut Vec<String>,
) -> Vec<LayerCache> {
    let rank = meta.size("attention.kv_lora_rank");
    let rope = meta.size("rope.dimension_count");
    // Files that name key_length_mla are run with the compressed cache; older ones keep keys and values of all heads.
    if let (Some(rank), Some(rope), Some(_)) = (rank, rope, meta.value("attention.key_length_mla")) {
        let kind = CacheKind::Latent { width: rank + rope };
        return vec![LayerCache { layers: kv_heads.len() as u64, kind, span: Span::Context }];
    }
    if rank.is_some() {
        notes.push(
            "it was written before llama.cpp kept latent attention compressed: keys and values of all heads are kept"
                .to_owned(),
        );
    }
    let window = meta.size("attention.sliding_window");
    let pattern = match (meta.architecture, meta.size("attention.sliding_window_pattern")) {
        (_, Some(n)) => Some(n),
        ("gemma2" | "gpt-oss", None) => Some(2),
        ("gemma3" | "gemma3n", None) => Some(6),
        ("cohere2" | "llama4" | "olmo2", None) => Some(4),
        _ => None,
    };
    let mut kept: Vec<LayerCache> = Vec::new();
    let mut states = 0;
    for (layer, &heads) in (1u64..).zip(kv_heads) {
        if heads == 0 {
            states += 1;
            continue;
        }
        let slides = pattern.is_some_and(|n| layer % n != 0);
        let span = window.filter(|_| slides).map_or(Span::Context, Span::Window);
        let kind = CacheKind::Heads { kv_heads: heads, key, value };
        match kept.iter_mut().find(|c| c.kind == kind && c.span == span) {
            Some(same) => same.layers += 1,
            None => kept.push(LayerCache { layers: 1, kind, span }),
        }
    }
    if states > 0 {
        kept.extend(state(meta, states, notes));
    }
    if window.is_some() && pattern.is_none() {
        notes.push(
            "it names a sliding window, which llama.cpp does not use to keep less for this architecture"
                .to_owned(),
        );
    }
    kept
}

/// The state of layers without attention (Mamba).
fn state(meta: &Metadata<'_>, layers: u64, notes: &mut Vec<String>) -> Option<LayerCache> {
    let sizes = (meta.size("ssm.state_size"), meta.size("ssm.inner_size"), meta.size("ssm.conv_kernel"));
    let (Some(state), Some(inner), Some(window)) = sizes else {
        notes.push(format!("{layers} layers keep a state of fixed size that the metadata does not size"));
        return None;
    };
    let groups = meta.value("ssm.group_count").and_then(Value::number).unwrap_or(0).min(MOST);
    let channels = inner.saturating_add(2u64.saturating_mul(groups).saturating_mul(state));
    let elements = inner.saturating_mul(state).saturating_add((window - 1).saturating_mul(channels));
    Some(LayerCache { layers, kind: CacheKind::State { elements }, span: Span::Context })
}
