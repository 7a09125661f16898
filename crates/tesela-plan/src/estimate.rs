//! GPU memory of a served model: weights, KV cache, activations and context overhead, each with its formula.
//!
//! Exact where the arithmetic is exact (weights from headers, bytes of keys and values), an estimate where it is not
//! (activations), an assumption where nothing is known (the context's overhead). `docs/estimate.md` holds the figures
//! beside published measurements. The smallest profile that holds it is in `fit`.

mod fit;
mod part;

use tesela_model::network::{DataType, Network, Shape};
use tesela_model::origin::{Known, Origin};
use tesela_model::quantity::Mib;

pub use self::fit::{Fit, fits};
pub use self::part::Part;

/// Tokens that a server computes in one pass unless told otherwise: vLLM's `max_num_batched_tokens` with chunked
/// prefill on data-centre GPUs.
pub const BATCH_TOKENS: u64 = 8_192;
/// Arrays of the vocabulary's size in fp32 that choosing a token takes at its peak: logits, probabilities, their sorted
/// copies with indices. Fitted to the peaks that vLLM prints (docs/estimate.md).
pub const CHOOSING_COPIES: u64 = 10;
/// The context of a model that names none, in tokens.
pub const ASSUMED_CONTEXT: u64 = 4_096;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The model.
    pub network: &'a Network,
    /// Tokens of a sequence, prompt and answer; `None` = as many as the model was made for.
    pub context: Option<u64>,
    /// Sequences at once, each of the full context.
    pub concurrency: u64,
    /// GPUs that share each layer; `None` = one.
    pub tensor_parallel: Option<u64>,
    /// Type of keys and values; `None` = that of activations.
    pub kv_data_type: Option<DataType>,
    /// Tokens computed in one pass at most; `None` = [`BATCH_TOKENS`], or whole sequences where nothing is cached.
    pub batch_tokens: Option<u64>,
    /// What the driver and one CUDA context take from each process (`Settings::context_overhead`).
    pub context_overhead: Mib,
}

/// What the model takes of each GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// GPUs that share each layer.
    pub tensor_parallel: u64,
    /// Sequences at once.
    pub concurrency: u64,
    /// Tokens of a sequence; `None` where the shape is not known and nobody said.
    pub context: Option<Known<u64>>,
    /// Type of keys and values.
    pub kv_data_type: Option<Known<DataType>>,
    /// Bytes that one more token adds while no window is full; `None` = not known.
    pub kv_bytes_per_token: Option<u64>,
    /// Bytes of one sequence of the full context; `None` = not known.
    pub kv_bytes_per_sequence: Option<u64>,
    /// Weights.
    pub weights: Part,
    /// Keys and values, and states, of all sequences.
    pub kv_cache: Part,
    /// What is in flight while computing.
    pub activations: Part,
    /// What the driver and the CUDA context take.
    pub context_overhead: Part,
}

impl Estimate {
    /// The four parts, in their order.
    #[must_use]
    pub fn parts(&self) -> [&Part; 4] {
        [&self.weights, &self.kv_cache, &self.activations, &self.context_overhead]
    }

    /// Bytes of the parts that are known; `None` beyond 64 bits.
    #[must_use]
    pub fn known_bytes(&self) -> Option<u64> {
        self.parts().iter().filter_map(|part| part.bytes).try_fold(0u64, u64::checked_add)
    }

    /// Whether all parts are known; else [`Estimate::known_bytes`] is a lower bound.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.parts().iter().all(|part| part.bytes.is_some())
    }

    /// What a Demand calls `gpuMemory`: all but the context's overhead, which the planner adds itself. `None` where a
    /// part is not known.
    #[must_use]
    pub fn gpu_memory(&self) -> Option<Mib> {
        let parts = [&self.weights, &self.kv_cache, &self.activations];
        let bytes = parts.iter().try_fold(0u64, |sum, part| sum.checked_add(part.bytes?))?;
        Some(Mib(bytes.div_ceil(1 << 20)))
    }
}

/// Why nothing can be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EstimateError {
    /// More than 64 bits hold.
    #[error("context × concurrency of this model make more bytes than 64 bits count")]
    TooLarge,
    /// A number that must be at least 1.
    #[error("{0} must be at least 1")]
    Zero(&'static str),
}

/// Computes what a model takes.
///
/// # Errors
/// [`EstimateError`] when a number is 0 or a product does not fit 64 bits.
pub fn estimate(question: &Question<'_>) -> Result<Estimate, EstimateError> {
    let gpus = question.tensor_parallel.unwrap_or(1);
    let given = [
        ("the context", question.context),
        ("the concurrency", Some(question.concurrency)),
        ("tensor parallelism", Some(gpus)),
        ("the batch", question.batch_tokens),
    ];
    if let Some((what, _)) = given.into_iter().find(|(_, number)| *number == Some(0)) {
        return Err(EstimateError::Zero(what));
    }
    let shape = question.network.shape.as_ref();
    let context = context(question, shape);
    let kv_data_type = shape.filter(|s| s.decodes).map(|shape| match question.kv_data_type {
        Some(kind) => Known::given(kind),
        None => Known { value: shape.compute, origin: shape.compute_origin },
    });
    let kept = match (shape, context, kv_data_type) {
        (Some(shape), Some(context), Some(kind)) => {
            Some(part::kept(shape, context.value, kind.value, gpus).ok_or(EstimateError::TooLarge)?)
        }
        _ => None,
    };
    let per_sequence = match (shape, &kept) {
        (Some(shape), _) if !shape.decodes => Some(0),
        (_, kept) => kept.as_ref().map(|kept| kept.sequence),
    };
    Ok(Estimate {
        tensor_parallel: gpus,
        concurrency: question.concurrency,
        context,
        kv_data_type,
        kv_bytes_per_token: match shape {
            Some(shape) if !shape.decodes => Some(0),
            _ => kept.as_ref().map(|kept| kept.token),
        },
        kv_bytes_per_sequence: per_sequence,
        weights: part::weights(question.network, gpus).ok_or(EstimateError::TooLarge)?,
        kv_cache: part::kv_cache(question, shape, kept.as_ref(), kv_data_type)
            .ok_or(EstimateError::TooLarge)?,
        activations: part::activations(question, shape, context.map(|c| c.value), gpus)
            .ok_or(EstimateError::TooLarge)?,
        context_overhead: part::overhead(question.context_overhead).ok_or(EstimateError::TooLarge)?,
    })
}

fn context(question: &Question<'_>, shape: Option<&Shape>) -> Option<Known<u64>> {
    match (question.context, shape) {
        (Some(context), _) => Some(Known::given(context)),
        (None, Some(shape)) => Some(match shape.max_context {
            Some(most) => Known { value: most, origin: Origin::Measured },
            None => Known::assumed(ASSUMED_CONTEXT),
        }),
        (None, None) => None,
    }
}

/// Tokens computed in one pass.
fn batch(question: &Question<'_>, shape: &Shape, context: u64) -> Option<u64> {
    let all = context.checked_mul(question.concurrency)?;
    Some(match question.batch_tokens {
        Some(most) => all.min(most),
        // What an encoder reads it reads at once.
        None if !shape.decodes => all,
        None => all.min(BATCH_TOKENS),
    })
}
