//! The smallest profile of each product on which a model runs, and how many sequences it carries there.
//!
//! The rule is the planner's: a process needs its own memory and the context's overhead, and the smallest plain profile
//! with at least that much will do; work over several GPUs never goes to MIG.

use tesela_model::origin::{Known, Origin};
use tesela_model::product::{Product, ProductId, ProfileName};
use tesela_model::quantity::Mib;

use super::{Estimate, EstimateError, Question, estimate};
use crate::world::mig::MigRules;

/// GPUs that share each layer, where one does not hold the model and nobody said how many.
const TRIED: [u64; 3] = [2, 4, 8];
/// No server takes more sequences at once.
const MOST_SEQUENCES: u64 = 1_000_000;

/// Where a model runs on one product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    /// The product.
    pub product: ProductId,
    /// The profile; `None` = whole GPUs, or nothing.
    pub profile: Option<ProfileName>,
    /// How many of them; 0 = it does not run.
    pub gpus: u64,
    /// Memory of the instance or of one GPU.
    pub memory: Option<Known<Mib>>,
    /// Bytes needed of it for the sequences asked for.
    pub needed: Option<u64>,
    /// Sequences of the full context that it carries at once; `None` = not known.
    pub concurrency: Option<u64>,
    /// Why it is so, in one sentence.
    pub reason: String,
}

/// Finds it for each product, in their order.
///
/// # Errors
/// As [`estimate`].
pub fn fits(question: &Question<'_>, products: &[Product]) -> Result<Vec<Fit>, EstimateError> {
    products.iter().map(|product| fit(question, product)).collect()
}

fn fit(question: &Question<'_>, product: &Product) -> Result<Fit, EstimateError> {
    let asked = question.tensor_parallel;
    let first = estimate(question)?;
    if first.weights.bytes.is_none() {
        return Ok(nowhere(product, None, "its weights are not known".to_owned()));
    }
    if asked.unwrap_or(1) == 1
        && let Some(found) = on_instance(question, product, &first)?
    {
        return Ok(found);
    }
    let Some(memory) = product.memory else {
        return Ok(nowhere(product, None, "the memory of this product is not known".to_owned()));
    };
    let counts = match asked {
        Some(gpus) => vec![gpus],
        None => [1].into_iter().chain(TRIED).collect(),
    };
    let mut needed = 0;
    for gpus in counts {
        let question = Question { tensor_parallel: Some(gpus), ..*question };
        let estimate = estimate(&question)?;
        needed = estimate.known_bytes().ok_or(EstimateError::TooLarge)?;
        if needed <= bytes_of(memory) {
            return whole(&question, product, &estimate, memory);
        }
    }
    let over = needed.div_ceil(1 << 20);
    let on = match asked {
        Some(1) => "a whole GPU".to_owned(),
        Some(gpus) => format!("each of {gpus} GPUs"),
        None => "each of 8 GPUs".to_owned(),
    };
    let reason = format!("needs {over} MiB of {on}, which is more than there is");
    Ok(nowhere(product, Some(needed), reason))
}

fn bytes_of(memory: Mib) -> u64 {
    memory.0.saturating_mul(1 << 20)
}

fn nowhere(product: &Product, needed: Option<u64>, reason: String) -> Fit {
    Fit {
        product: product.id.clone(),
        profile: None,
        gpus: 0,
        memory: None,
        needed,
        concurrency: None,
        reason,
    }
}

/// The smallest instance that holds it.
fn on_instance(
    question: &Question<'_>,
    product: &Product,
    estimate: &Estimate,
) -> Result<Option<Fit>, EstimateError> {
    let needed = estimate.known_bytes().ok_or(EstimateError::TooLarge)?;
    let Some(rules) = MigRules::of(product) else { return Ok(None) };
    let Some(found) = rules.smallest(Mib(needed.div_ceil(1 << 20)), 0) else { return Ok(None) };
    let rule = &rules.profiles[found];
    // A profile without memory is never the smallest with enough.
    let Some(memory) = rule.memory else { return Ok(None) };
    let measured = product.profile(rule.name.as_str()).is_ok_and(|profile| profile.memory.is_some());
    let origin = if measured { Origin::Measured } else { Origin::Estimated };
    let concurrency = carried(question, estimate, bytes_of(memory))?;
    let what = if estimate.is_complete() { "it" } else { "the parts that are known" };
    let reason = format!("the smallest profile of {} that holds {what}", product.id);
    Ok(Some(Fit {
        product: product.id.clone(),
        profile: Some(rule.name.clone()),
        gpus: 1,
        memory: Some(Known { value: memory, origin }),
        needed: Some(needed),
        concurrency,
        reason,
    }))
}

fn whole(
    question: &Question<'_>,
    product: &Product,
    estimate: &Estimate,
    memory: Mib,
) -> Result<Fit, EstimateError> {
    let gpus = estimate.tensor_parallel;
    let reason = match (gpus, product.has_placements()) {
        (1, true) => "no profile is large enough, a whole GPU is".to_owned(),
        (1, false) => "no placements of its profiles are known, so a whole GPU".to_owned(),
        _ => format!("work over {gpus} GPUs never goes to MIG"),
    };
    Ok(Fit {
        product: product.id.clone(),
        profile: None,
        gpus,
        memory: Some(Known::measured(memory)),
        needed: estimate.known_bytes(),
        concurrency: carried(question, estimate, bytes_of(memory))?,
        reason,
    })
}

/// The most sequences of the full context that so much memory carries.
///
/// What is needed never shrinks with more sequences, so the largest number that fits is found by halving.
fn carried(question: &Question<'_>, first: &Estimate, memory: u64) -> Result<Option<u64>, EstimateError> {
    if !first.is_complete() {
        return Ok(None);
    }
    let holds = |concurrency: u64| {
        let question = Question { concurrency, ..*question };
        match estimate(&question) {
            Ok(estimate) => Ok(estimate.known_bytes().is_some_and(|needed| needed <= memory)),
            Err(EstimateError::TooLarge) => Ok(false),
            Err(other) => Err(other),
        }
    };
    let (mut least, mut beyond) = (question.concurrency, MOST_SEQUENCES + 1);
    if least >= beyond {
        return Ok(Some(least));
    }
    while beyond - least > 1 {
        let middle = least + (beyond - least) / 2;
        if holds(middle)? {
            least = middle;
        } else {
            beyond = middle;
        }
    }
    Ok(Some(least))
}
