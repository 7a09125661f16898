//! Fewest GPUs, or least cost over a mixed fleet, for a demand of MIG profiles; with a proof anyone can check.
//!
//! One GPU can hold one of a few dozen multisets, so the problem is a covering program with a column for each multiset
//! and a row for each class of demand, however many instances there are (Gilmore and Gomory's cutting stock). The
//! fractional optimum is found exactly; its dual prices are the certificate. Whole numbers come from the corner
//! relaxation and from a bounded search; where they cost what the certificate proves, the answer is the optimum.

mod build;
mod corner;
pub(crate) mod program;
mod search;
pub(crate) mod simplex;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use tesela_model::layout::{Instance, Layout};
use tesela_model::product::{Product, ProductId, ProfileName};

use crate::layouts::LayoutsError;

/// Instances that are alike: so many of the profile each product gives them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// Name, used in the certificate. Each class has its own.
    pub name: String,
    /// Instances wanted.
    pub count: u64,
    /// The profile to take on each product; a product that is absent cannot take the class.
    pub profiles: BTreeMap<ProductId, ProfileName>,
}

/// GPUs that can be used for a cost.
#[derive(Debug, Clone, Copy)]
pub struct Offer<'a> {
    /// The product.
    pub product: &'a Product,
    /// Cost of one GPU, in whole units of the caller's choice (1, or micro-units of money an hour).
    pub cost: u64,
    /// How many there are; `None`: as many as needed.
    pub limit: Option<u64>,
}

/// Equal GPUs that hold instances already and cost nothing more.
#[derive(Debug, Clone)]
pub struct Partial<'a> {
    /// The product.
    pub product: &'a Product,
    /// What they hold, which stays where it is.
    pub layout: Layout,
    /// How many.
    pub count: u64,
}

/// What to pack, and on what.
#[derive(Debug, Clone, Copy)]
pub struct Problem<'a> {
    /// The demand.
    pub classes: &'a [Class],
    /// GPUs to be had.
    pub offers: &'a [Offer<'a>],
    /// GPUs in use with room left.
    pub partial: &'a [Partial<'a>],
}

/// The numbers left 128 bits, or an answer 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the counts or costs are too large to compute with; use smaller counts or coarser cost units")]
pub struct TooLarge;

/// Why nothing could be packed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// A profile or layout that the product does not allow.
    #[error(transparent)]
    Layouts(#[from] LayoutsError),
    /// Two classes of one name.
    #[error("{name} is named twice in the demand")]
    NamedTwice {
        /// The name.
        name: String,
    },
    /// Too many ways to share one GPU among classes.
    #[error(
        "one GPU can be shared among these classes in more than {limit} ways; merge classes that are alike"
    )]
    TooManyClasses {
        /// Ways looked at before it gave up.
        limit: usize,
    },
    /// Counts or costs beyond the arithmetic.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
}

/// GPUs of one kind that all get the same layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Filled {
    /// Which offer or partly filled GPU they come from.
    pub source: Source,
    /// The layout, with what was there before.
    pub layout: Layout,
    /// What was added, each instance with the class it serves; by start.
    pub added: Vec<Added>,
    /// How many such GPUs.
    pub count: u64,
}

/// Index into the problem's lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// Index into [`Problem::partial`].
    Partial(usize),
    /// Index into [`Problem::offers`].
    Offer(usize),
}

/// An instance added, and what for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Added {
    /// Index into [`Problem::classes`].
    pub class: usize,
    /// Where it sits.
    #[serde(flatten)]
    pub instance: Instance,
}

/// What no cheaper packing can get around.
///
/// No layout of an unlimited offer's product is priced above `scale` × its cost; none of a limited offer's above
/// `scale` × its cost plus its `value` in `limits`; no completion of a partly filled GPU above its `value` in
/// `offsets`; and where `unplaced_cost` is given, no instance above `scale` × that. So no packing costs less than
/// (Σ price × demand − Σ count × value − Σ limit × value) / `scale`, rounded up to a multiple of `cost_unit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Certificate {
    /// What a price is divided by, at least 1.
    pub scale: u128,
    /// Price of one instance of each class with demand, by class name.
    pub prices: BTreeMap<String, u128>,
    /// For partly filled GPUs that are worth something.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub offsets: Vec<Offset>,
    /// For limited offers that are worth more than they cost.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitValue>,
    /// Greatest common divisor of the offers' costs, at least 1.
    pub cost_unit: u64,
    /// What an unplaced instance counts, more than any packing costs; absent when nothing can stay unplaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unplaced_cost: Option<u128>,
}

/// What the free room of partly filled GPUs is worth at most, at the certificate's prices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Offset {
    /// The product.
    pub product: ProductId,
    /// What such a GPU holds already.
    pub state: Vec<Instance>,
    /// How many such GPUs there are.
    pub count: u64,
    /// Worth of one, in the certificate's scale.
    pub value: u128,
}

/// What one GPU of a limited offer is worth beyond its cost, at the certificate's prices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LimitValue {
    /// Index into [`Problem::offers`].
    pub offer: usize,
    /// How many there are.
    pub limit: u64,
    /// Worth of one beyond its cost, in the certificate's scale.
    pub value: u128,
}

/// What proves that nothing is cheaper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Proof {
    /// The certificate: anyone can check it against the profile table.
    Certificate,
    /// The exhaustive search of this program; the certificate proves less. Common with several prices, where the
    /// fractional optimum is not a sum of whole GPUs.
    Search,
    /// Nothing: a cheaper packing down to `search_bound` is not ruled out.
    None,
}

/// Instances of a class that no GPU is left for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unplaced {
    /// Index into [`Problem::classes`].
    pub class: usize,
    /// How many.
    pub count: u64,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Packing {
    /// GPUs taken from offers.
    pub gpus: u64,
    /// Σ cost of those GPUs; with every cost 1 the same as `gpus`.
    pub cost: u64,
    /// What the certificate proves: every packing that leaves as few instances unplaced costs at least this.
    pub lower_bound: u64,
    /// What an exhaustive search proves beside it; never below `lower_bound`.
    pub search_bound: u64,
    /// Whether `cost` is `lower_bound` and no packing leaves fewer instances unplaced: anyone can re-check it.
    pub proven_optimal: bool,
    /// What proves the answer.
    pub proof: Proof,
    /// The proof of `lower_bound`.
    pub certificate: Certificate,
    /// GPUs and their layouts: partly filled ones first, then by offer and layout.
    pub filled: Vec<Filled>,
    /// What does not fit the limits; empty when any offer without limit takes every class.
    pub unplaced: Vec<Unplaced>,
    /// Compute slices of the GPUs in `filled` that no instance takes.
    pub wasted_compute_slices: u64,
    /// Memory units of the GPUs in `filled` that no instance takes.
    pub wasted_memory_units: u64,
}

/// Packs profiles onto GPUs of one product, as few as possible.
///
/// # Errors
/// When a profile is unknown, named twice or without placements, or the counts are too large.
pub fn pack_product(product: &Product, demand: &[(ProfileName, u64)]) -> Result<Packing, PackError> {
    let mut classes = Vec::new();
    for (name, count) in demand {
        let name = product.profile(name.as_str()).map_err(LayoutsError::from)?.name.clone();
        let profiles = BTreeMap::from([(product.id.clone(), name.clone())]);
        classes.push(Class { name: name.as_str().to_owned(), count: *count, profiles });
    }
    let offers = [Offer { product, cost: 1, limit: None }];
    pack(&Problem { classes: &classes, offers: &offers, partial: &[] })
}

/// Packs a demand at least cost: exactly the instances asked for, each on a GPU that takes its class.
///
/// The answer does not depend on the order of classes; of equal offers the first in order of cost and product id is
/// used. Only profiles of the classes are created. When limits leave too few GPUs, as few instances as possible stay
/// unplaced, and the cost is the least among such packings.
///
/// # Errors
/// When a profile or layout does not suit its product, a class is named twice, or the numbers are too large.
pub fn pack(problem: &Problem<'_>) -> Result<Packing, PackError> {
    let mut names = BTreeSet::new();
    for class in problem.classes {
        if !names.insert(&class.name) {
            return Err(PackError::NamedTwice { name: class.name.clone() });
        }
    }
    let rows = program::rows(problem);
    let offered = problem.offers.iter().map(|o| o.product);
    let mut fits = BTreeMap::new();
    for product in offered.chain(problem.partial.iter().map(|p| p.product)) {
        if !fits.contains_key(product.id.as_str()) {
            fits.insert(product.id.as_str(), program::fit(problem, &rows, product)?);
        }
    }
    let program = program::build(problem, &rows, &fits)?;
    let vertex = simplex::solve(&program)?;
    let proof = build::prove(&program, &vertex)?;
    let corner = corner::corner(&program, &vertex, proof.objective)?;
    let search_bound = corner.as_ref().map_or(proof.bound, |c| c.bound.max(proof.bound));
    let reached = corner.and_then(|c| c.uses.map(|uses| (c.bound, uses)));
    let (uses, search_bound) = match reached {
        Some((_, uses)) => (uses, search_bound),
        None => {
            let found = search::search(&program, &vertex, proof.objective, search_bound)?;
            let bound = if found.exhausted { found.cost } else { search_bound };
            (found.uses, bound)
        }
    };
    build::packing(problem, &rows, &program, &proof, &uses, search_bound)
}
