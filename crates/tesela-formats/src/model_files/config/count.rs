//! The tensors of a network, from the sizes that its config names.

use tesela_model::network::{DataType, WeightGroup};

use super::family::{Family, HeadNorms, Mlp};
use super::storage::Packing;
use super::{Facts, TooLarge};

/// Equal tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tensors {
    pub(super) part: Part,
    pub(super) inputs: u64,
    /// 1 for vectors.
    pub(super) outputs: u64,
    pub(super) copies: u64,
    /// Among how many GPUs one can be split.
    pub(super) ways: u64,
}

/// What tensors are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Embedding,
    Attention,
    FeedForward,
    Experts,
    Router,
    /// Norms and biases.
    Vectors,
    Output,
}

impl Part {
    fn words(self) -> &'static str {
        match self {
            Self::Embedding => "embedding",
            Self::Attention => "attention",
            Self::FeedForward => "feed-forward",
            Self::Experts => "experts",
            Self::Router => "router",
            Self::Vectors => "norms and biases",
            Self::Output => "output",
        }
    }
}

/// Collects tensors.
struct List(Vec<Tensors>);

impl List {
    fn matrix(&mut self, part: Part, inputs: u64, outputs: u64, copies: u64) {
        self.split(part, inputs, outputs, copies, WeightGroup::ANY);
    }

    fn split(&mut self, part: Part, inputs: u64, outputs: u64, copies: u64, ways: u64) {
        self.0.push(Tensors { part, inputs, outputs, copies, ways });
    }

    fn vector(&mut self, elements: u64, copies: u64) {
        self.split(Part::Vectors, elements, 1, copies, 1);
    }

    fn vector_if(&mut self, there: bool, elements: u64, copies: u64) {
        if there {
            self.vector(elements, copies);
        }
    }
}

/// All tensors of a network.
pub(super) fn tensors(facts: &Facts) -> Vec<Tensors> {
    let family = facts.family;
    let mut list = List(Vec::new());
    let hidden = facts.hidden;
    list.matrix(Part::Embedding, hidden, facts.vocabulary, 1);
    if let Some(rows) = facts.positions {
        list.matrix(Part::Embedding, hidden, rows, 1);
    }
    if facts.token_types > 0 {
        list.matrix(Part::Embedding, hidden, facts.token_types, 1);
    }
    if let Some(narrow) = facts.embedding_width.filter(|width| *width != hidden) {
        // The vocabulary is embedded narrower and projected in and out (OPT-350m).
        list.0[0].inputs = narrow;
        list.matrix(Part::Embedding, narrow, hidden, 2);
    }
    if facts.latent.is_some() {
        latent_attention(&mut list, facts);
    } else {
        attention(&mut list, facts);
    }
    feed_forward(&mut list, facts);
    let bias = if family.norm_bias { 2 } else { 1 };
    list.vector(hidden, facts.norms * facts.layers * bias);
    list.vector(hidden, facts.outer_norms * bias);
    if family.pooler {
        list.matrix(Part::Output, hidden, hidden, 1);
        list.vector(hidden, 1);
    }
    if family.decodes && !facts.tied {
        list.matrix(Part::Output, hidden, facts.vocabulary, 1);
    }
    list.vector_if(family.head_bias, facts.vocabulary, 1);
    list.0
}

fn attention(list: &mut List, facts: &Facts) {
    let (hidden, layers) = (facts.hidden, facts.layers);
    let (queries, keys) = (facts.heads * facts.head_dim, facts.kv_heads * facts.head_dim);
    list.matrix(Part::Attention, hidden, queries, layers);
    list.split(Part::Attention, hidden, keys, 2 * layers, facts.kv_heads);
    list.matrix(Part::Attention, queries, hidden, layers);
    list.vector_if(facts.qkv_bias, queries, layers);
    list.vector_if(facts.qkv_bias, keys, 2 * layers);
    list.vector_if(facts.out_bias, hidden, layers);
    list.vector_if(facts.sinks, facts.heads, layers);
    match facts.family.head_norms {
        HeadNorms::None => {}
        HeadNorms::OfHead => list.vector(facts.head_dim, 2 * layers),
        HeadNorms::OfAll => {
            list.vector(queries, layers);
            list.vector(keys, layers);
        }
    }
}

/// Multi-head latent attention (DeepSeek-V2, section 2.1).
fn latent_attention(list: &mut List, facts: &Facts) {
    let Some(latent) = facts.latent else { return };
    let (hidden, layers) = (facts.hidden, facts.layers);
    let queries = facts.heads * (latent.nope + latent.rope);
    match latent.query_rank {
        Some(rank) => {
            list.split(Part::Attention, hidden, rank, layers, 1);
            list.vector(rank, layers);
            list.matrix(Part::Attention, rank, queries, layers);
        }
        None => list.matrix(Part::Attention, hidden, queries, layers),
    }
    list.split(Part::Attention, hidden, latent.rank + latent.rope, layers, 1);
    list.vector(latent.rank, layers);
    list.matrix(Part::Attention, latent.rank, facts.heads * (latent.nope + latent.value), layers);
    list.matrix(Part::Attention, facts.heads * latent.value, hidden, layers);
}

fn feed_forward(list: &mut List, facts: &Facts) {
    let Some(experts) = facts.experts else {
        mlp(list, Part::FeedForward, facts, facts.inner, facts.layers);
        return;
    };
    let (hidden, layers) = (facts.hidden, experts.layers);
    mlp(list, Part::FeedForward, facts, facts.inner, facts.layers - layers);
    mlp(list, Part::Experts, facts, experts.inner, layers * experts.count);
    if experts.shared > 0 {
        mlp(list, Part::FeedForward, facts, experts.shared, layers);
    }
    list.split(Part::Router, hidden, experts.count, layers, 1);
    list.vector_if(experts.router_bias, experts.count, layers);
    if experts.shared_gate {
        list.vector(hidden, layers);
    }
}

fn mlp(list: &mut List, part: Part, facts: &Facts, inner: u64, copies: u64) {
    let up = if facts.family.mlp == Mlp::Gated { 2 } else { 1 };
    list.matrix(part, facts.hidden, inner, up * copies);
    list.matrix(part, inner, facts.hidden, copies);
    list.vector_if(facts.mlp_bias, inner, up * copies);
    list.vector_if(facts.mlp_bias, facts.hidden, copies);
}

/// How many numbers a network has.
pub(super) fn parameters(tensors: &[Tensors]) -> Result<u64, TooLarge> {
    let each = tensors.iter().map(|t| u128::from(t.inputs) * u128::from(t.outputs) * u128::from(t.copies));
    let sum = each.fold(0u128, u128::saturating_add);
    u64::try_from(sum).map_err(|_| TooLarge)
}

/// How each kind of tensor is stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored {
    /// Matrices of the layers.
    pub(super) linear: Packing,
    pub(super) only_experts: bool,
    pub(super) not_attention: bool,
    /// Everything else.
    pub(super) rest: DataType,
}

impl Stored {
    fn of(&self, tensors: &Tensors) -> Packing {
        let linear = match tensors.part {
            Part::Experts => true,
            Part::Attention => !self.only_experts && !self.not_attention,
            Part::FeedForward => !self.only_experts,
            Part::Embedding | Part::Router | Part::Vectors | Part::Output => false,
        };
        if linear { self.linear } else { Packing::Plain(self.rest) }
    }
}

/// The tensors as they are stored, equal kinds together.
pub(super) fn groups(tensors: &[Tensors], stored: &Stored) -> Result<Vec<WeightGroup>, TooLarge> {
    let mut groups: Vec<WeightGroup> = Vec::new();
    for one in tensors {
        for (what, data_type, elements) in stored.of(one).of(one.inputs, one.outputs) {
            let each = u64::try_from(elements).map_err(|_| TooLarge)?;
            let bytes = data_type.bytes_of(each).and_then(|b| b.checked_mul(one.copies)).ok_or(TooLarge)?;
            let elements = each.checked_mul(one.copies).ok_or(TooLarge)?;
            let part = if what.is_empty() {
                one.part.words().to_owned()
            } else {
                format!("{} {what}", one.part.words())
            };
            let same =
                |g: &&mut WeightGroup| g.part == part && g.data_type == Some(data_type) && g.ways == one.ways;
            match groups.iter_mut().find(same) {
                Some(group) => {
                    group.elements = group.elements.checked_add(elements).ok_or(TooLarge)?;
                    group.bytes = group.bytes.checked_add(bytes).ok_or(TooLarge)?;
                }
                None => groups.push(WeightGroup {
                    part,
                    data_type: Some(data_type),
                    elements,
                    bytes,
                    ways: one.ways,
                }),
            }
        }
    }
    groups.retain(|group| group.bytes > 0);
    Ok(groups)
}

/// Norms of a layer, where the family's number depends on the config (Falcon).
pub(super) fn norms(family: &Family, falcon: Option<(bool, bool)>) -> u64 {
    match falcon {
        // (new decoder architecture, parallel attention)
        Some((false, true)) => 1,
        Some(_) => 2,
        None => family.norms,
    }
}
