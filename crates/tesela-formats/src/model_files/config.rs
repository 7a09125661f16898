//! `config.json` as Hugging Face's transformers writes it: sizes of a network, and how it is quantised.
//!
//! Unknown fields are ignored. What is known of families is in [`family`]; how tensors follow from sizes in [`count`];
//! what is kept of each sequence in [`cache`]; quantisation in [`storage`].

mod cache;
mod count;
mod family;
mod storage;

use tesela_model::network::{Attention, DataType, Experts, LayerCache, Network, Shape, Weights};
use tesela_model::origin::{Known, Origin};

use self::count::{Stored, Tensors};
use self::family::{Family, Mlp};
use self::storage::{Packing, Quantisation};
use super::fields::{BadField, Fields};
use crate::diagnostic::{Diagnostic, Diagnostics, shown};

/// What a `config.json` says.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    file: String,
    architecture: Option<String>,
    /// `None` where a field is missing.
    body: Option<Body>,
    /// Fields without which nothing can be computed.
    missing: Vec<&'static str>,
    compute: Known<DataType>,
    quantisation: Option<Quantisation>,
    notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
struct Body {
    shape: Shape,
    /// `None` where the tensors of such a network are not counted from a config.
    tensors: Option<Vec<Tensors>>,
}

/// More than 64 bits hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TooLarge;

/// The sizes of a network.
#[derive(Clone, Debug)]
struct Facts {
    family: &'static Family,
    /// Whether the family is known by its name.
    known: bool,
    hidden: u64,
    layers: u64,
    heads: u64,
    kv_heads: u64,
    head_dim: u64,
    /// Width of the dense feed-forward layer.
    inner: u64,
    vocabulary: u64,
    positions: Option<u64>,
    token_types: u64,
    embedding_width: Option<u64>,
    latent: Option<LatentSizes>,
    experts: Option<Mixture>,
    tied: bool,
    norms: u64,
    outer_norms: u64,
    qkv_bias: bool,
    out_bias: bool,
    mlp_bias: bool,
    sinks: bool,
}

/// Sizes of multi-head latent attention.
#[derive(Clone, Copy, Debug)]
struct LatentSizes {
    rank: u64,
    query_rank: Option<u64>,
    nope: u64,
    rope: u64,
    value: u64,
}

/// Sizes of a mixture of experts.
#[derive(Clone, Copy, Debug)]
struct Mixture {
    count: u64,
    active: Option<u64>,
    inner: u64,
    /// Width of the experts that always work, together.
    shared: u64,
    shared_gate: bool,
    router_bias: bool,
    /// Layers that have experts.
    layers: u64,
}

/// Reads a config. A config that lacks fields is read too: it may stand beside the weights themselves.
///
/// # Errors
/// Rules `empty-input`, `truncated-json`, `model-json`, `model-field` (a known field with an impossible value, with its
/// line and column).
pub fn read_config(file: &str, bytes: &[u8]) -> Result<Config, Diagnostics> {
    let outer = Fields::read(file, bytes)?;
    of_fields(file, &outer).map_err(|bad| bad.in_text(file, bytes))
}

fn of_fields(file: &str, outer: &Fields) -> Result<Config, BadField> {
    const INNER: [&str; 5] =
        ["text_config", "language_config", "llm_config", "thinker_config", "language_model"];
    let mut notes = Vec::new();
    let mut fields = outer;
    // Qwen2.5-Omni has its text_config inside of thinker_config.
    while let Some((name, inner)) = fields.object(&INNER) {
        if notes.is_empty() {
            notes.push(format!(
                "its language part ({name}) alone is counted; name the safetensors files for the encoders' bytes too"
            ));
        }
        fields = inner;
    }
    if notes.is_empty() && outer.has("vision_config") {
        notes.push(
            "its image encoder is not counted; name the safetensors files for its bytes too".to_owned(),
        );
    }
    let class = outer.texts(&["architectures"]).and_then(|list| list.first().map(|name| (*name).to_owned()));
    let model_type = fields.text(&["model_type"]).or_else(|| outer.text(&["model_type"]));
    let compute = compute_type(fields, outer, &mut notes);
    let mut config = Config {
        file: file.to_owned(),
        architecture: class.clone().or_else(|| model_type.map(str::to_owned)),
        body: None,
        missing: Vec::new(),
        compute,
        quantisation: None,
        notes,
    };
    let quantised =
        if outer.has("quantization_config") || outer.has("compression_config") { outer } else { fields };
    config.quantisation = Quantisation::read(quantised, scale_type(compute.value))?;
    if fields.flag("is_encoder_decoder") == Some(true) {
        two_stacks(&mut config, fields)?;
        return Ok(config);
    }
    let known = model_type.and_then(family::of);
    let encoder = class.as_deref().is_some_and(|class| {
        ["ForMaskedLM", "BertModel", "EncoderModel"].iter().any(|end| class.ends_with(end))
    });
    let family = known.unwrap_or(if encoder { &family::UNKNOWN_ENCODER } else { &family::UNKNOWN });
    match facts(fields, family, known.is_some(), model_type.unwrap_or_default(), &mut config.notes)? {
        Ok(facts) => config.body = Some(body(fields, &facts, compute, &mut config.notes)?),
        Err(missing) => config.missing = missing,
    }
    if known.is_none() && config.body.is_some() {
        let name = config.architecture.clone().unwrap_or_else(|| "an architecture without a name".to_owned());
        config.notes.push(format!(
            "{name} is not known by name: its tensors are counted as those of a network built like Llama; name the \
             safetensors files, or --parameters, for a better number"
        ));
    }
    if let Some(more) = fields.number(&["num_nextn_predict_layers"])?.filter(|n| *n > 0) {
        config.notes.push(format!(
            "its files also hold {more} layer{} for multi-token prediction, which servers load only to speculate; \
             the config's count leaves them out",
            if more == 1 { "" } else { "s" }
        ));
    }
    Ok(config)
}

/// The type of the numbers that are not quantised.
fn compute_type(fields: &Fields, outer: &Fields, notes: &mut Vec<String>) -> Known<DataType> {
    const NAMES: [&str; 2] = ["torch_dtype", "dtype"];
    let text =
        fields.text(&NAMES).or_else(|| outer.text(&NAMES)).map(|text| text.trim_start_matches("torch."));
    let said = text.and_then(|text| DataType::parse(text).ok()).filter(|found| found.is_wide_float());
    if let Some(text) = text.filter(|_| said.is_none()) {
        let text = shown(text);
        notes.push(format!(
            "its torch_dtype `{text}` is no type of weights that is known here; fp32 is taken"
        ));
    }
    if said.is_none_or(|found| found == DataType::FP32) {
        notes.push(
            "fp32 is what transformers loads it in; vLLM and others take fp16 then: --data-type fp16 says so"
                .to_owned(),
        );
    }
    said.map_or(Known::assumed(DataType::FP32), Known::measured)
}

/// Scales of compressed tensors have the type of activations.
fn scale_type(compute: DataType) -> DataType {
    if compute == DataType::FP32 { DataType::FP32 } else { DataType::BF16 }
}

/// Sizes, or the names of the fields that are missing.
fn facts(
    fields: &Fields,
    family: &'static Family,
    known: bool,
    model_type: &str,
    notes: &mut Vec<String>,
) -> Result<Result<Facts, Vec<&'static str>>, BadField> {
    let mut missing = Vec::new();
    let mut taken = Vec::new();
    let mut need = |name: &'static str, found: Option<u64>| {
        found.or_else(|| {
            let default = family.defaults.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
            match default {
                Some(value) => taken.push(format!("{name} {value}")),
                None => missing.push(name),
            }
            default
        })
    };
    let hidden = need("hidden_size", fields.size(&["hidden_size", "n_embd", "d_model", "dim"])?);
    let layers =
        need("num_hidden_layers", fields.size(&["num_hidden_layers", "n_layer", "n_layers", "num_layers"])?);
    let heads =
        need("num_attention_heads", fields.size(&["num_attention_heads", "n_head", "n_heads", "num_heads"])?);
    let vocabulary = need("vocab_size", fields.size(&["vocab_size", "n_vocab"])?);
    let inner = inner(fields, family, hidden)?;
    let mixture = mixture(fields, inner, layers.unwrap_or(0))?;
    // Where each layer has experts, the width of a dense layer may go unsaid.
    let inner = inner.or_else(|| mixture.filter(|m| Some(m.layers) == layers).map(|m| m.inner));
    let inner = need("intermediate_size", inner);
    let latent = latent(fields)?;
    let said_dim = fields.size(&["head_dim", "attention_head_dim", "kv_channels"])?;
    let head_dim =
        said_dim.or_else(|| family.defaults.iter().find(|(n, _)| *n == "head_dim").map(|(_, v)| *v));
    let head_dim = head_dim.or(hidden.zip(heads).map(|(hidden, heads)| (hidden / heads).max(1)));
    let kv_heads = kv_heads(fields, family, model_type)?.or(heads);
    if let Some((kv, _)) = kv_heads.zip(heads).filter(|(kv, heads)| !heads.is_multiple_of(*kv)) {
        const WANTED: &str = "a number that divides num_attention_heads";
        return Err(BadField {
            name: "num_key_value_heads".to_owned(),
            value: kv.to_string(),
            wanted: WANTED,
        });
    }
    let falcon = (family.names.contains(&"falcon")).then(|| {
        (fields.flag("new_decoder_architecture") == Some(true), fields.flag("parallel_attn") != Some(false))
    });
    let (Some(hidden), Some(layers), Some(heads), Some(vocabulary), Some(inner)) =
        (hidden, layers, heads, vocabulary, inner)
    else {
        return Ok(Err(missing));
    };
    if !taken.is_empty() {
        notes.push(format!(
            "it leaves out {}: the value of its class in transformers is taken",
            taken.join(", ")
        ));
    }
    let every_bias =
        fields.flag("attention_bias").or_else(|| fields.flag("bias")).or_else(|| fields.flag("use_bias"));
    let qkv_only = fields.flag("use_qkv_bias").or_else(|| fields.flag("qkv_bias"));
    let gpt_oss = family.names.contains(&"gpt_oss");
    Ok(Ok(Facts {
        family,
        known,
        hidden,
        layers,
        heads,
        kv_heads: kv_heads.unwrap_or(heads),
        head_dim: head_dim.unwrap_or(1),
        inner,
        vocabulary,
        positions: match family.positions {
            Some(beyond) => fields.size(&["max_position_embeddings", "n_positions"])?.map(|n| n + beyond),
            None => None,
        },
        token_types: if family.decodes { 0 } else { fields.number(&["type_vocab_size"])?.unwrap_or(0) },
        embedding_width: fields.size(&["word_embed_proj_dim"])?,
        latent,
        experts: mixture,
        tied: fields.flag("tie_word_embeddings").unwrap_or(family.tied),
        norms: count::norms(family, falcon),
        outer_norms: family.outer_norms,
        qkv_bias: qkv_only.or(every_bias).unwrap_or(family.qkv_bias),
        out_bias: every_bias.filter(|_| !family.qkv_bias || family.out_bias).unwrap_or(family.out_bias),
        mlp_bias: fields.flag("mlp_bias").or(every_bias.filter(|_| family.mlp == Mlp::Plain)).unwrap_or(
            // gpt-oss' experts have biases.
            family.mlp_bias || gpt_oss,
        ),
        sinks: gpt_oss,
    }))
}

/// The width of the dense feed-forward layer.
fn inner(fields: &Fields, family: &Family, hidden: Option<u64>) -> Result<Option<u64>, BadField> {
    const NAMES: [&str; 5] = ["intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "hidden_dim"];
    if let Some(said) = fields.size(&NAMES)? {
        return Ok(Some(said));
    }
    if let Some(times) = fields.size(&["expansion_ratio"])? {
        return Ok(hidden.and_then(|hidden| hidden.checked_mul(times)));
    }
    // Families of two matrices that say nothing take four times the hidden size.
    Ok(hidden.filter(|_| family.mlp == Mlp::Plain).and_then(|hidden| hidden.checked_mul(4)))
}

/// How many heads have keys and values of their own.
fn kv_heads(fields: &Fields, family: &Family, model_type: &str) -> Result<Option<u64>, BadField> {
    if let Some((_, attention)) = fields.object(&["attn_config"])
        && let Some(said) = attention.size(&["kv_n_heads", "num_key_value_heads"])?
    {
        return Ok(Some(said));
    }
    let said = fields.size(&["num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num"])?;
    let falcon = family.names.contains(&"falcon");
    // The first Falcons name num_kv_heads and use it only in the new architecture.
    if falcon && fields.flag("new_decoder_architecture") != Some(true) {
        let multi_query = fields.flag("multi_query") != Some(false);
        return Ok(if multi_query { Some(1) } else { fields.size(&["num_attention_heads", "n_head"])? });
    }
    if model_type == "gpt_bigcode" && fields.flag("multi_query") != Some(false) {
        return Ok(Some(1));
    }
    let default = || family.defaults.iter().find(|(name, _)| *name == "num_key_value_heads").map(|(_, v)| *v);
    Ok(said.or_else(default))
}

fn latent(fields: &Fields) -> Result<Option<LatentSizes>, BadField> {
    let (Some(rank), Some(rope)) = (fields.size(&["kv_lora_rank"])?, fields.size(&["qk_rope_head_dim"])?)
    else {
        return Ok(None);
    };
    let nope = fields.size(&["qk_nope_head_dim"])?.unwrap_or(128);
    let value = fields.size(&["v_head_dim"])?.unwrap_or(128);
    Ok(Some(LatentSizes { rank, query_rank: fields.size(&["q_lora_rank"])?, nope, rope, value }))
}

fn mixture(fields: &Fields, inner: Option<u64>, layers: u64) -> Result<Option<Mixture>, BadField> {
    let count = fields.size(&["n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts"]);
    // A network without experts may say so with 0 or 1.
    let Some(count) = count.ok().flatten().filter(|n| *n > 1) else { return Ok(None) };
    let Some(width) = fields.size(&["moe_intermediate_size"])?.or(inner) else { return Ok(None) };
    let shared = match fields.number(&["shared_expert_intermediate_size"])? {
        Some(shared) => shared,
        None => {
            // Llama 4 does not name the expert that always works beside the routed ones; its class has one.
            let unsaid = u64::from(fields.text(&["model_type"]) == Some("llama4_text"));
            fields.number(&["n_shared_experts", "num_shared_experts"])?.unwrap_or(unsaid) * width
        }
    };
    let dense_first = fields.number(&["first_k_dense_replace"])?.unwrap_or(0).min(layers);
    let step = fields.size(&["decoder_sparse_step", "moe_layer_freq", "interleave_moe_layer_step"]);
    let step = step.ok().flatten().unwrap_or(1);
    let dense = fields.numbers("mlp_only_layers").map_or(0, |list| list.len() as u64);
    Ok(Some(Mixture {
        count,
        active: fields.size(&[
            "num_experts_per_tok",
            "num_experts_per_token",
            "experts_per_token",
            "moe_topk",
        ])?,
        inner: width,
        shared,
        shared_gate: fields.has("shared_expert_intermediate_size"),
        router_bias: fields.text(&["topk_method"]) == Some("noaux_tc")
            || fields.text(&["model_type"]) == Some("gpt_oss"),
        layers: ((layers - dense_first) / step).saturating_sub(dense),
    }))
}

fn body(
    fields: &Fields,
    facts: &Facts,
    compute: Known<DataType>,
    notes: &mut Vec<String>,
) -> Result<Body, BadField> {
    let kept = cache::read(fields, facts)?;
    notes.extend(kept.notes);
    if kept.hybrid {
        notes.push(
            "some of its layers keep a state instead of keys and values; their tensors are not counted from a config: \
             name the safetensors files, or --parameters"
                .to_owned(),
        );
    }
    let (residual, inner) = in_flight(facts);
    let shape = Shape {
        hidden: facts.hidden,
        heads: Some(facts.heads),
        attention: kept.attention,
        cache: kept.cache,
        residual,
        inner,
        vocabulary: if facts.family.decodes { facts.vocabulary } else { 0 },
        max_context: fields
            .tokens(&["max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx"])
            .or(facts.family.defaults.iter().find(|(n, _)| *n == "max_position_embeddings").map(|(_, v)| *v)),
        decodes: facts.family.decodes,
        compute: compute.value,
        compute_origin: compute.origin,
        experts: facts.experts.map(|e| Experts { count: e.count, active: e.active }),
    };
    Ok(Body { shape, tensors: (!kept.hybrid).then(|| count::tensors(facts)) })
}

/// Elements in flight for one token: those on each GPU, and those that tensor parallelism splits.
///
/// The residual stream, what is added to it, and the norm of it; then the widest of the attention's queries, keys,
/// values and result, or the feed-forward layer's gate, up and product. A mixture does that for each active expert.
fn in_flight(facts: &Facts) -> (u64, u64) {
    let matrices = if facts.family.mlp == Mlp::Gated { 3 } else { 2 };
    let dense = matrices * facts.inner;
    let attention = 2 * facts.heads * facts.head_dim + 2 * facts.kv_heads * facts.head_dim;
    let (mut residual, mut inner) = (3 * facts.hidden, dense.max(attention));
    if let Some(experts) = facts.experts {
        let active = experts.active.unwrap_or(1);
        residual = residual.saturating_add(active.saturating_mul(facts.hidden));
        let mixed = active.saturating_mul(matrices * experts.inner);
        inner = inner.max(mixed.saturating_add(matrices.saturating_mul(experts.shared)));
    }
    (residual, inner)
}

/// An encoder with a decoder (T5, BART, Whisper): the decoder keeps its own keys and values and those of the input.
fn two_stacks(config: &mut Config, fields: &Fields) -> Result<(), BadField> {
    let layers = fields.size(&["decoder_layers", "num_decoder_layers", "num_layers"])?;
    let heads = fields.size(&["decoder_attention_heads", "num_heads", "num_attention_heads"])?;
    let hidden = fields.size(&["d_model", "hidden_size"])?;
    let vocabulary = fields.size(&["vocab_size"])?;
    let all = [("d_model", hidden), ("num_layers", layers), ("num_heads", heads), ("vocab_size", vocabulary)];
    config.missing = all.iter().filter(|(_, found)| found.is_none()).map(|(name, _)| *name).collect();
    let (Some(layers), Some(heads), Some(hidden), Some(vocabulary)) = (layers, heads, hidden, vocabulary)
    else {
        return Ok(());
    };
    let width = fields.size(&["d_kv"])?.unwrap_or((hidden / heads).max(1));
    let inner = fields.size(&["decoder_ffn_dim", "d_ff"])?.unwrap_or(4 * hidden);
    let kind = tesela_model::network::CacheKind::Heads { kv_heads: heads, key: width, value: width };
    let cache = vec![LayerCache { layers: 2 * layers, kind, span: tesela_model::network::Span::Context }];
    config.notes.push(
        "it has an encoder and a decoder: the decoder keeps keys and values of what it wrote and of the input, both \
         taken as long as the context; tensors are not counted from a config: name the safetensors files, or \
         --parameters"
            .to_owned(),
    );
    let shape = Shape {
        hidden,
        heads: Some(heads),
        attention: Attention::MultiHead,
        cache,
        residual: 3 * hidden,
        inner: (3 * inner).max(4 * heads * width),
        vocabulary,
        max_context: fields.tokens(&["max_position_embeddings", "n_positions", "max_target_positions"]),
        decodes: true,
        compute: config.compute.value,
        compute_origin: config.compute.origin,
        experts: None,
    };
    config.body = Some(Body { shape, tensors: None });
    Ok(())
}

impl Config {
    /// The name of the file.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// What is known of the network. `data_type` is the type that a person says the weights are loaded in.
    ///
    /// # Errors
    /// Rules `model-data-type` (a narrower type for weights that are quantised already), `model-size` (more than 64
    /// bits hold). Missing fields are no error here: [`Config::require`] makes one of them.
    pub fn network(&self, data_type: Option<DataType>) -> Result<Network, Diagnostics> {
        let mut network = Network {
            architecture: self.architecture.clone(),
            parameters: None,
            weights: None,
            shape: self.body.as_ref().map(|body| body.shape.clone()),
            notes: self.notes.clone(),
        };
        if let (Some(shape), Some(wide)) = (&mut network.shape, data_type.filter(|t| t.is_wide_float())) {
            (shape.compute, shape.compute_origin) = (wide, Origin::Given);
        }
        if data_type.is_some_and(DataType::is_wide_float) {
            network.notes.retain(|note| !note.starts_with("fp32 is what"));
        }
        let Some(tensors) = self.body.as_ref().and_then(|body| body.tensors.as_ref()) else {
            return Ok(network);
        };
        let too_large = |_| {
            let message = "its sizes make more bytes than 64 bits count";
            Diagnostics::from(
                Diagnostic::error(&self.file, "model-size", message).fix("check the file's numbers"),
            )
        };
        network.parameters = Some(count::parameters(tensors).map_err(too_large)?);
        let Some((stored, words)) = self.stored(data_type, &mut network.notes)? else { return Ok(network) };
        let groups = count::groups(tensors, &stored).map_err(too_large)?;
        network.weights = Some(Weights {
            groups,
            origin: Origin::Estimated,
            formula: format!("tensors of {} counted from its sizes × bytes of {words}", self.name()),
            source: self.file.clone(),
        });
        Ok(network)
    }

    fn name(&self) -> &str {
        self.architecture.as_deref().unwrap_or("the network")
    }

    /// How tensors are stored, with words for it; `None` where the quantisation is not understood.
    fn stored(
        &self,
        data_type: Option<DataType>,
        notes: &mut Vec<String>,
    ) -> Result<Option<(Stored, String)>, Diagnostics> {
        let compute = self.compute.value;
        let plain = |linear: DataType, rest: DataType| Stored {
            linear: Packing::Plain(linear),
            only_experts: false,
            not_attention: false,
            rest,
        };
        match (&self.quantisation, data_type) {
            (None, None) => Ok(Some((plain(compute, compute), compute.to_string()))),
            (None, Some(wide)) if !wide.is_narrow() => Ok(Some((plain(wide, wide), wide.to_string()))),
            (None, Some(narrow)) => {
                let rest = if compute == DataType::FP32 { DataType::FP16 } else { compute };
                let words = format!("{narrow} for the matrices of its layers and {rest} for the rest");
                notes.push(format!(
                    "{narrow} without scales; a quantised checkpoint's own config.json counts those too"
                ));
                Ok(Some((plain(narrow, rest), words)))
            }
            (Some(quantised), Some(narrow)) if narrow.is_narrow() => {
                let message = format!(
                    "says that its weights are quantised ({}); they cannot be {narrow} at the same time",
                    quantised.words()
                );
                Err(Diagnostic::error(&self.file, "model-data-type", message)
                    .value(narrow.to_string())
                    .fix("leave --data-type out, or name bf16 or fp16 for what is not quantised")
                    .into())
            }
            (Some(quantised), wide) => {
                let Some(packing) = quantised.packing else {
                    notes.push(format!(
                        "how `{}` stores weights is not known: name the safetensors files, or --parameters with \
                         --data-type",
                        quantised.method
                    ));
                    return Ok(None);
                };
                if quantised.left > 0 {
                    notes.push(format!(
                        "its quantisation leaves out {} named modules, which are counted as quantised here",
                        quantised.left
                    ));
                }
                let rest = wide.unwrap_or(if compute == DataType::FP32 { DataType::FP16 } else { compute });
                let stored = Stored {
                    linear: packing,
                    only_experts: quantised.only_experts,
                    not_attention: quantised.not_attention,
                    rest,
                };
                Ok(Some((stored, format!("{}, the rest {rest}", quantised.words()))))
            }
        }
    }

    /// An error when fields are missing without which nothing can be computed.
    ///
    /// # Errors
    /// Rule `model-unknown`, with the names of the fields and how to estimate without them.
    pub fn require(&self) -> Result<(), Diagnostics> {
        if self.missing.is_empty() {
            return Ok(());
        }
        let message = format!(
            "{} does not say {}; without {} neither weights nor KV cache can be computed",
            self.name(),
            self.missing.join(", "),
            if self.missing.len() == 1 { "it" } else { "them" },
        );
        Err(Diagnostic::error(&self.file, "model-unknown", message)
            .fix("estimate from a number of parameters instead: --parameters 7b --data-type bf16; or name the weights (.safetensors, .gguf) beside it")
            .into())
    }

    /// The names of fields that are missing.
    #[must_use]
    pub fn missing(&self) -> &[&'static str] {
        &self.missing
    }
}
