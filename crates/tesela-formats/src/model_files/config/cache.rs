//! What each layer keeps of a sequence, from a config.

use tesela_model::network::{Attention, CacheKind, LayerCache, Span};

use super::super::fields::{BadField, Fields};
use super::Facts;
use super::family::Sliding;

/// Layers looked at one by one; no network has more.
const MOST_LAYERS: u64 = 100_000;

/// How one layer looks back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Full,
    Sliding,
    Chunked,
    /// Linear attention, Mamba and the like.
    State,
}

/// What is kept, and how attention is built.
pub(super) struct Kept {
    pub(super) cache: Vec<LayerCache>,
    pub(super) attention: Attention,
    pub(super) notes: Vec<String>,
    /// Whether some layers are of a kind whose tensors are not counted from a config.
    pub(super) hybrid: bool,
}

/// Reads it from a config.
pub(super) fn read(fields: &Fields, facts: &Facts) -> Result<Kept, BadField> {
    let mut notes = Vec::new();
    let window = fields.size(&["sliding_window", "sliding_window_size", "window_size"]).unwrap_or_default();
    let chunk = fields.size(&["attention_chunk_size"]).unwrap_or_default();
    let looks = looks(fields, facts, window, chunk)?;
    let hybrid = looks.contains(&Look::State);
    if !facts.family.decodes {
        return Ok(Kept { cache: Vec::new(), attention: Attention::None, notes, hybrid });
    }
    let kind = match facts.latent {
        Some(latent) => CacheKind::Latent { width: latent.rank + latent.rope },
        None => CacheKind::Heads { kv_heads: facts.kv_heads, key: facts.head_dim, value: facts.head_dim },
    };
    let count = |look: Look| looks.iter().filter(|l| **l == look).count() as u64;
    let mut cache = Vec::new();
    let mut keep = |layers, kind, span| {
        if layers > 0 {
            cache.push(LayerCache { layers, kind, span });
        }
    };
    keep(count(Look::Full), kind, Span::Context);
    keep(count(Look::Sliding), kind, window.map_or(Span::Context, Span::Window));
    keep(count(Look::Chunked), kind, chunk.map_or(Span::Context, Span::Window));
    match (count(Look::State), state_elements(fields)?) {
        (0, _) => {}
        (layers, Some(elements)) => keep(layers, CacheKind::State { elements }, Span::Context),
        (layers, None) => notes.push(format!(
            "{layers} layers keep a state of fixed size that the config does not size; it is small and not counted"
        )),
    }
    if window.is_some() && !facts.known && count(Look::Sliding) == 0 {
        notes.push("it names a sliding window, but not for which layers: none is taken to slide".to_owned());
    }
    let attention = match (&facts.latent, count(Look::State) == looks.len() as u64) {
        (_, true) => Attention::None,
        (Some(_), _) => Attention::Latent,
        (None, _) => Attention::of_heads(facts.heads, facts.kv_heads),
    };
    Ok(Kept { cache, attention, notes, hybrid })
}

/// How each layer looks back: as the config lists it, else by the family's rule.
fn looks(
    fields: &Fields,
    facts: &Facts,
    window: Option<u64>,
    chunk: Option<u64>,
) -> Result<Vec<Look>, BadField> {
    let layers = facts.layers.min(MOST_LAYERS);
    if let Some(listed) =
        fields.texts(&["layer_types", "layers_block_type"]).filter(|l| l.len() as u64 == layers)
    {
        return Ok(listed.into_iter().map(look_of).collect());
    }
    let each = fields.size(&["full_attention_interval", "attn_layer_period"])?;
    let offset = fields.number(&["attn_layer_offset"])?;
    let all = (0..layers).map(|layer| {
        if let Some(each) = each {
            // Jamba: those whose number leaves the offset; Qwen3-Next: each n-th.
            let full = layer % each == offset.unwrap_or(each - 1) % each;
            return if full { Look::Full } else { Look::State };
        }
        if chunk.is_some() {
            return if (layer + 1) % 4 == 0 { Look::Full } else { Look::Chunked };
        }
        if window.is_none() {
            return Look::Full;
        }
        by_family(fields, facts, layer)
    });
    Ok(all.collect())
}

fn by_family(fields: &Fields, facts: &Facts, layer: u64) -> Look {
    let slides = match facts.family.sliding {
        Sliding::Never => false,
        Sliding::All => fields.flag("use_sliding_window") != Some(false),
        Sliding::AllButEach(n) => {
            let n = fields.size(&["sliding_window_pattern"]).ok().flatten().unwrap_or(n);
            !(layer + 1).is_multiple_of(n)
        }
        Sliding::FromLayer => {
            let from = fields.number(&["max_window_layers"]).ok().flatten().unwrap_or(0);
            fields.flag("use_sliding_window") == Some(true) && layer >= from
        }
    };
    if slides { Look::Sliding } else { Look::Full }
}

fn look_of(text: &str) -> Look {
    match text {
        "sliding_attention" => Look::Sliding,
        "chunked_attention" => Look::Chunked,
        "linear_attention" | "mamba" | "mamba2" | "recurrent" | "conv" => Look::State,
        _ => Look::Full,
    }
}

/// Elements of a layer's state: Gated DeltaNet (Qwen3-Next) or Mamba 2 (Bamba, Granite 4).
fn state_elements(fields: &Fields) -> Result<Option<u64>, BadField> {
    let times = |factors: &[u64]| factors.iter().copied().fold(1u64, u64::saturating_mul);
    let delta = (
        fields.size(&["linear_num_value_heads"])?,
        fields.size(&["linear_num_key_heads"])?,
        fields.size(&["linear_key_head_dim"])?,
        fields.size(&["linear_value_head_dim"])?,
    );
    if let (Some(values), Some(keys), Some(key), Some(value)) = delta {
        let window = fields.size(&["linear_conv_kernel_dim"])?.unwrap_or(4);
        let channels = times(&[2, keys, key]).saturating_add(times(&[values, value]));
        return Ok(Some(times(&[values, key, value]).saturating_add(channels.saturating_mul(window - 1))));
    }
    let mamba = (
        fields.size(&["mamba_n_heads"])?,
        fields.size(&["mamba_d_head"]).unwrap_or_default(),
        fields.size(&["mamba_d_state"])?,
    );
    if let (Some(heads), Some(head), Some(state)) = mamba {
        let groups = fields.size(&["mamba_n_groups"])?.unwrap_or(1);
        let window = fields.size(&["mamba_d_conv"])?.unwrap_or(4);
        let channels = times(&[heads, head]).saturating_add(times(&[2, groups, state]));
        return Ok(Some(times(&[heads, head, state]).saturating_add(channels.saturating_mul(window - 1))));
    }
    Ok(None)
}
