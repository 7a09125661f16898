//! The four parts, each with its bytes, its formula in words and where its numbers come from.

use std::fmt::Write as _;

use tesela_model::network::{CacheKind, DataType, LayerCache, Network, Shape, Span};
use tesela_model::origin::{Known, Origin};
use tesela_model::quantity::Mib;

use super::{CHOOSING_COPIES, Question, batch};

/// A part of the memory of one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Bytes; `None` = not known.
    pub bytes: Option<u64>,
    /// Where the number comes from.
    pub origin: Origin,
    /// How it was computed; where the bytes are not known, why not.
    pub formula: String,
    /// Where the formula's numbers come from.
    pub source: String,
}

/// What a sequence keeps on one GPU.
pub(super) struct Kept {
    /// Bytes of one more token while no window is full.
    pub(super) token: u64,
    /// Bytes of a sequence of the full context.
    pub(super) sequence: u64,
    formula: String,
}

pub(super) fn weights(network: &Network, gpus: u64) -> Option<Part> {
    let Some(weights) = &network.weights else {
        return Some(Part {
            bytes: None,
            origin: Origin::Assumed,
            formula: "not known: no file says it; give --parameters and --data-type".to_owned(),
            source: "-".to_owned(),
        });
    };
    let bytes =
        weights.groups.iter().try_fold(0u64, |sum, group| sum.checked_add(group.bytes_on_each(gpus)))?;
    let mut formula = weights.formula.clone();
    if gpus > 1 {
        write!(formula, ", matrices split among {gpus} GPUs, the rest on each").ok()?;
    }
    if let Some(experts) = network.shape.as_ref().and_then(|shape| shape.experts) {
        write!(formula, "; all {} experts of a layer are resident", experts.count).ok()?;
    }
    Some(Part { bytes: Some(bytes), origin: weights.origin, formula, source: weights.source.clone() })
}

/// What a sequence of `context` tokens keeps on each of `gpus` GPUs; `None` beyond 64 bits.
pub(super) fn kept(shape: &Shape, context: u64, kind: DataType, gpus: u64) -> Option<Kept> {
    let (mut token, mut sequence) = (0u64, 0u64);
    let mut words = Vec::new();
    for layer in &shape.cache {
        let (each, text) = one_layer(layer, kind, shape.compute, gpus)?;
        let tokens = match layer.kind {
            CacheKind::State { .. } => 1,
            _ => layer.span.tokens(context),
        };
        let all = each.checked_mul(layer.layers)?;
        sequence = sequence.checked_add(all.checked_mul(tokens)?)?;
        if !matches!(layer.kind, CacheKind::State { .. }) {
            token = token.checked_add(all)?;
        }
        let of = match (layer.kind, layer.span) {
            (CacheKind::State { .. }, _) => String::new(),
            (_, Span::Context) => format!(" × {context} tokens"),
            (_, Span::Window(window)) => format!(" × min({context}, window {window}) tokens"),
        };
        words.push(format!("{} layers × {text}{of}", layer.layers));
    }
    Some(Kept { token, sequence, formula: words.join(" + ") })
}

/// Bytes that one layer keeps of a token (or, for a state, of a sequence), with the formula.
fn one_layer(layer: &LayerCache, kind: DataType, compute: DataType, gpus: u64) -> Option<(u64, String)> {
    Some(match layer.kind {
        CacheKind::Heads { kv_heads, key, value } => {
            // Fewer heads than GPUs: each GPU holds one, and some hold the same.
            let heads = kv_heads.div_ceil(gpus.min(kv_heads).max(1));
            let bytes = kind
                .bytes_of(heads.checked_mul(key)?)?
                .checked_add(kind.bytes_of(heads.checked_mul(value)?)?)?;
            let width = if key == value { format!("2 × {key}") } else { format!("({key} + {value})") };
            let copies = if gpus > kv_heads { ", some held twice," } else { "" };
            let split = if gpus > 1 { format!(" of {kv_heads}{copies} on each GPU") } else { String::new() };
            let word = if heads == 1 { "head" } else { "heads" };
            (bytes, format!("{heads} KV {word}{split} × {width} × {} bytes of {kind}", kind.ratio()))
        }
        CacheKind::Latent { width } => {
            let copy = if gpus > 1 { ", the same on each GPU," } else { "" };
            (
                kind.bytes_of(width)?,
                format!("{width} latent elements{copy} × {} bytes of {kind}", kind.ratio()),
            )
        }
        CacheKind::State { elements } => {
            let elements = elements.div_ceil(gpus);
            (
                compute.bytes_of(elements)?,
                format!("a state of {elements} × {} bytes of {compute}", compute.ratio()),
            )
        }
    })
}

pub(super) fn kv_cache(
    question: &Question<'_>,
    shape: Option<&Shape>,
    kept: Option<&Kept>,
    kind: Option<Known<DataType>>,
) -> Option<Part> {
    let source = "sizes of the network".to_owned();
    let (Some(shape), Some(kept)) = (shape, kept) else {
        if shape.is_some_and(|shape| !shape.decodes) {
            let formula = "none: an encoder keeps no keys and values between passes".to_owned();
            return Some(Part { bytes: Some(0), origin: Origin::Estimated, formula, source });
        }
        return Some(Part {
            bytes: None,
            origin: Origin::Assumed,
            formula: "not known: layers, KV heads and their width are in a config.json or a GGUF header"
                .to_owned(),
            source: "-".to_owned(),
        });
    };
    let bytes = kept.sequence.checked_mul(question.concurrency)?;
    let formula = if kept.formula.is_empty() {
        "none: no layer keeps anything".to_owned()
    } else {
        format!("{} × ({})", sequences(question.concurrency), kept.formula)
    };
    // Exact, given the type; a type that is assumed makes it an assumption.
    let origin = match kind.map(|kind| kind.origin) {
        Some(Origin::Assumed) => Origin::Assumed,
        _ => Origin::Estimated,
    };
    let source = format!("{source} ({})", shape.attention.words());
    Some(Part { bytes: Some(bytes), origin, formula, source })
}

fn sequences(count: u64) -> String {
    if count == 1 { "1 sequence".to_owned() } else { format!("{count} sequences") }
}

/// The peak of one pass: the widest layer for all tokens of a batch, or the choice of a token for each sequence.
pub(super) fn activations(
    question: &Question<'_>,
    shape: Option<&Shape>,
    context: Option<u64>,
    gpus: u64,
) -> Option<Part> {
    let (Some(shape), Some(context)) = (shape, context) else {
        return Some(Part {
            bytes: None,
            origin: Origin::Assumed,
            formula: "not known: the widths of its layers are in a config.json or a GGUF header".to_owned(),
            source: "-".to_owned(),
        });
    };
    let tokens = batch(question, shape, context)?;
    let inner = shape.inner.div_ceil(gpus);
    let elements = tokens.checked_mul(shape.residual.checked_add(inner)?)?;
    let forward = shape.compute.bytes_of(elements)?;
    let choosing =
        question.concurrency.checked_mul(shape.vocabulary)?.checked_mul(4)?.checked_mul(CHOOSING_COPIES)?;
    let mut formula = format!(
        "{tokens} tokens at once × ({} + {inner}) elements × {} bytes of {}",
        shape.residual,
        shape.compute.ratio(),
        shape.compute
    );
    if shape.vocabulary > 0 {
        formula = format!(
            "the larger of {formula} = {forward}, and {} × {} words × 4 bytes × {CHOOSING_COPIES} = {choosing}",
            sequences(question.concurrency),
            shape.vocabulary
        );
    }
    Some(Part {
        bytes: Some(forward.max(choosing)),
        origin: Origin::Estimated,
        formula,
        source: "sizes of the network; factors fitted to peaks that vLLM printed".to_owned(),
    })
}

pub(super) fn overhead(overhead: Mib) -> Option<Part> {
    Some(Part {
        bytes: Some(overhead.0.checked_mul(1 << 20)?),
        origin: Origin::Assumed,
        formula: format!("{} MiB for the driver and one CUDA context", overhead.0),
        source: "300–500 MiB seen per process: pytorch/pytorch#20532, pytorch/serve#2128".to_owned(),
    })
}
