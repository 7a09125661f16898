//! From the layouts in force to a target, with the least disturbance; with a proof anyone can check.
//!
//! GPUs that hold the same are one *group*. A group's GPU may end in any layout of the target's profiles that keeps
//! what is pinned; of the layouts with the same profiles only the cheapest counts. So the problem is an integer program
//! with a row for each profile and a column for each (group, multiset), whatever the number of GPUs. Its fractional
//! optimum gives integer prices; they prove a lower bound on the disturbed weight. Whole numbers come from that
//! optimum by a few exchanges, and for few GPUs from an exact search. Then the changes are put in an order in which a
//! workload's next instance exists before it leaves the old one.

mod classes;
mod exact;
mod exchange;

pub mod force;
mod group;
mod prove;
mod relax;
mod sift;
mod solve;
mod spare;
mod steps;
mod table;

use std::collections::BTreeMap;

use serde::Serialize;
use tesela_model::layout::{Geometry, Instance, LayoutError};
use tesela_model::product::{Product, ProductId, ProfileName};

use crate::layouts::LayoutsError;
use crate::pack::TooLarge;

pub use self::solve::reconfigure;
pub use self::steps::{Seat, Step};

/// What an instance is used for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Usage {
    /// Nobody holds it.
    Idle,
    /// Somebody holds it.
    Busy {
        /// What it costs to disturb the holder, in units of the caller's choice.
        weight: u64,
        /// Whether it must not be disturbed at all.
        pinned: bool,
    },
}

/// An instance in force.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Held {
    /// Profile, by the table's name or an alias.
    pub profile: ProfileName,
    /// First memory unit.
    pub start: u32,
    /// Who holds it.
    pub usage: Usage,
}

/// Who carries a change out; it decides what else a change of a GPU costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Executor {
    /// Tesela's agent: only the instances that go away must be idle.
    Native,
    /// NVIDIA's MIG Manager: it destroys every instance of a GPU that differs, then creates the new ones.
    GpuOperator,
}

/// One GPU with MIG on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// Its name. Each GPU has its own; of equal GPUs the first by name changes first.
    pub name: String,
    /// What it holds, in any order.
    pub instances: Vec<Held>,
    /// Who would change it.
    pub executor: Executor,
}

/// What the GPUs shall hold in the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Exactly so many instances of each profile over all the GPUs, and none of a profile that is not named. Busy
    /// instances that stay count towards them.
    Counts(BTreeMap<ProfileName, u64>),
    /// So many GPUs of each geometry; the numbers sum to the number of GPUs.
    Geometries(BTreeMap<Geometry, u64>),
}

/// What to change.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The product of all the GPUs.
    pub product: &'a Product,
    /// The GPUs in force, in any order.
    pub gpus: &'a [Gpu],
    /// What they shall hold.
    pub target: &'a Target,
    /// Empty GPUs of the product beside these that may be used on the way and are empty again at the end.
    pub spares: u64,
}

/// Why a request makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReconfigureError {
    /// A profile that is unknown or has no placements.
    #[error(transparent)]
    Layouts(#[from] LayoutsError),
    /// A GPU that cannot hold what it is said to hold.
    #[error("GPU {gpu}: {fault}")]
    State {
        /// Its name.
        gpu: String,
        /// The rule broken.
        fault: LayoutError,
    },
    /// Two GPUs of one name.
    #[error("GPU {gpu} is named twice")]
    NamedTwice {
        /// The name.
        gpu: String,
    },
    /// A profile named twice in the target, once by an alias.
    #[error("the target names {profile} twice")]
    ProfileTwice {
        /// The table's name.
        profile: ProfileName,
    },
    /// A multiset that no GPU of the product can hold.
    #[error("no layout of one GPU of {product} holds {geometry}")]
    NoLayout {
        /// The product.
        product: ProductId,
        /// The multiset.
        geometry: Geometry,
    },
    /// Geometries for another number of GPUs.
    #[error("the target's geometries are for {wanted} GPUs, there are {gpus}")]
    Sum {
        /// Sum of the target's numbers.
        wanted: u64,
        /// GPUs given.
        gpus: u64,
    },
    /// More places for instances than this program can keep apart.
    #[error("the target's profiles have more than 128 places on one GPU of {product}; name fewer profiles")]
    TooManyPlaces {
        /// The product.
        product: ProductId,
    },
    /// Counts or weights beyond the arithmetic.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
}

/// The way to the target, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// There is a way.
    Change(Box<Reconfiguration>),
    /// There is none.
    Blocked(Vec<Blocked>),
}

/// Why a target cannot be reached: one entry for each profile that is short, or one for the whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Blocked {
    /// The profile that is short; `None` when no single profile is to blame.
    pub profile: Option<ProfileName>,
    /// Instances short of the target, or homes short of the busy instances.
    pub missing: u64,
    /// What blocks, in a sentence.
    pub reason: String,
    /// Names of GPUs whose pinned instances are in the way, where those block.
    pub gpus: Vec<String>,
}

/// What becomes of one GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuChange {
    /// Index into [`Request::gpus`].
    pub gpu: usize,
    /// Instances that stay untouched, by start.
    pub keep: Vec<Instance>,
    /// Instances that go, by start.
    pub destroy: Vec<Instance>,
    /// Instances that come, by start.
    pub create: Vec<Instance>,
    /// Those of `destroy` that are busy.
    pub disturbed: Vec<Instance>,
}

impl GpuChange {
    /// Whether anything happens to it.
    #[must_use]
    pub fn changes(&self) -> bool {
        !self.destroy.is_empty() || !self.create.is_empty()
    }
}

/// What no other way can get around.
///
/// The weight disturbed by any way to the target is at least (Σ price × target + Σ worth of each GPU) / `scale`,
/// rounded up to a multiple of `weight_unit`. The worth of a GPU is the least of (`scale` × the weight it disturbs −
/// the price of what it holds) over the layouts it may end in. Any prices prove a bound; these prove the best one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Certificate {
    /// What a price is divided by, at least 1.
    pub scale: u128,
    /// Price of one instance of each profile of the target, or of one GPU of each geometry, by name. May be negative.
    pub prices: BTreeMap<String, i128>,
    /// Greatest common divisor of the weights, at least 1.
    pub weight_unit: u64,
}

/// What proves that no way disturbs less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Proof {
    /// The certificate: anyone can check it against the profile table.
    Certificate,
    /// The exhaustive search of this program; the certificate proves less.
    Search,
    /// Nothing: a way that disturbs less, down to the bound, is not ruled out.
    None,
}

/// What the same steps would do to running work, carried out by one executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Blast {
    /// Busy instances disturbed.
    pub instances: u64,
    /// Their weight.
    pub weight: u64,
    /// How many of them are pinned.
    pub pinned: u64,
}

/// The way to the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reconfiguration {
    /// What becomes of each GPU, in the order of their names.
    pub gpus: Vec<GpuChange>,
    /// What to do, in order; each state on the way is a valid layout.
    pub steps: Vec<Step>,
    /// Weight of the busy instances that are disturbed.
    pub disturbed_weight: u64,
    /// What the certificate proves: every way disturbs at least this weight.
    pub lower_bound: u64,
    /// Whether the two are equal.
    pub proven_optimal: bool,
    /// What proves the answer.
    pub proof: Proof,
    /// The proof of `lower_bound`.
    pub certificate: Certificate,
    /// Instances created and destroyed, spare GPUs left out.
    pub operations: u64,
    /// Every way that disturbs the same weight takes at least so many.
    pub operations_bound: u64,
    /// Spare GPUs that the steps use at the same time.
    pub spares: u64,
    /// Spare GPUs with which no workload would have to stop before its next instance exists.
    pub spares_wanted: u64,
    /// Workloads that stop before their next instance exists, since the moves form a cycle.
    pub stopped: u64,
    /// The baseline: weight on the GPUs that change, were every instance of them destroyed.
    pub destroy_all_weight: u64,
    /// The same steps by Tesela's agent.
    pub native: Blast,
    /// The same steps by NVIDIA's MIG Manager.
    pub gpu_operator: Blast,
}

impl Reconfiguration {
    /// Whether nothing has to be done.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}
