//! Fewest GPUs that serve demanded rates within promised latencies, on MIG instances; with a proof anyone can check.
//!
//! Each service may use instances of several profiles; which batch size and how many processes an instance runs is
//! settled per profile beforehand ([`best_options`]), so a service's choice is how many instances of each profile it
//! takes. The instances of all services together must fit the GPUs. That is a configuration program; its relaxation
//! over whole covers gives prices of profiles, and prices give the certificate: no layout of a GPU is priced above
//! `scale`, and no service can be covered for less than its `cover`, so fewer than Σ cover / scale GPUs will not do.
//! The search then looks for covers that pack into that many; packing itself is [`crate::pack`], exact.

mod cover;
mod option;
mod price;
mod relax;
mod search;

use std::collections::BTreeMap;

use serde::Serialize;
use tesela_model::layout::Layout;
use tesela_model::product::{Product, ProfileName};

pub use self::option::{Measured, MostWanted, best_options};
use crate::layouts::{LayoutsError, completions};
use crate::pack::{Filled, PackError, pack_product};

/// One way to run a service on one instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServiceOption {
    /// The profile.
    pub profile: ProfileName,
    /// What one instance serves, in thousandths of a request a second; above 0.
    pub rate_milli: u64,
    /// Requests in one batch.
    pub batch: u32,
    /// Processes in the instance.
    pub processes: u32,
}

/// A service to be sized.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Its name, each once.
    pub name: String,
    /// What must be served, in thousandths of a request a second.
    pub rate_milli: u64,
    /// At most one option for each profile; every option keeps the service's latency.
    pub options: Vec<ServiceOption>,
}

/// Instances of one kind that a service gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Chosen {
    /// The service.
    pub service: String,
    /// What each instance is and runs.
    #[serde(flatten)]
    pub option: ServiceOption,
    /// How many instances.
    pub count: u64,
}

/// What fewer GPUs cannot get around.
///
/// No layout of the product costs more than `scale` at `prices`, and a service with demand cannot be covered by whole
/// instances for less than its entry in `covers`. So at least Σ covers / scale GPUs are needed, rounded up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SizeCertificate {
    /// What a sum of prices is divided by, at least 1.
    pub scale: u64,
    /// Price of one instance of each profile that some service may use.
    pub prices: BTreeMap<ProfileName, u64>,
    /// The least that each service's instances cost at those prices, by service.
    pub covers: BTreeMap<String, u64>,
}

/// What proves that fewer GPUs will not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SizeProof {
    /// The certificate: anyone can check it against the profile table and the options.
    Certificate,
    /// The exhaustive search of this program; the certificate proves less.
    Search,
    /// Nothing: the search gave up.
    None,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sizing {
    /// GPUs used.
    pub gpus: u64,
    /// What the certificate proves.
    pub lower_bound: u64,
    /// Whether `gpus` is `lower_bound`.
    pub proven_optimal: bool,
    /// What proves the answer.
    pub proof: SizeProof,
    /// The proof of `lower_bound`.
    pub certificate: SizeCertificate,
    /// Instances, by service and profile.
    pub instances: Vec<Chosen>,
    /// Compute slices of those instances.
    pub slices: u64,
    /// GPUs and their layouts.
    pub filled: Vec<Filled>,
}

/// Why services cannot be sized.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// No profile serves a service within its latency.
    #[error(
        "no instance of {product} serves {service} within its latency; allow more latency or smaller batches"
    )]
    NoOption {
        /// The service.
        service: String,
        /// The product.
        product: String,
    },
    /// Two services of one name, two options of one profile, or an option that serves nothing.
    #[error("{what} is there twice, or serves nothing")]
    Twice {
        /// Which.
        what: String,
    },
    /// Profiles that the product does not have, or without placements.
    #[error(transparent)]
    Layouts(#[from] LayoutsError),
    /// What packing says.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// More than can be computed with.
    #[error("the demanded rates are too large to compute with: more than {limit} instances for one service")]
    TooLarge {
        /// Instances of one service at most.
        limit: u64,
    },
}

/// Instances of one service at most.
const MOST_INSTANCES: u64 = 1_000_000;

/// The services as numbers: what one instance of each profile serves, 0 where it may not be used.
#[derive(Debug)]
pub(crate) struct Problem<'a> {
    pub(crate) product: &'a Product,
    pub(crate) profiles: Vec<ProfileName>,
    /// Rate demanded; no service without demand is here.
    pub(crate) rates: Vec<u64>,
    /// By service, by profile.
    pub(crate) serves: Vec<Vec<u64>>,
    /// Largest multisets of one GPU, by profile.
    pub(crate) layouts: Vec<Vec<u64>>,
}

/// Sizes services on GPUs of one product: as few as possible, each service served in full.
///
/// # Errors
/// A service without option, a name or profile twice, profiles the product lacks, rates beyond computing.
pub fn size(product: &Product, services: &[Service]) -> Result<Sizing, SizeError> {
    let wanted: Vec<&Service> = services.iter().filter(|s| s.rate_milli > 0).collect();
    let problem = problem(product, &wanted)?;
    let relaxed = relax::relax(&problem);
    let found = search::search(&problem, relaxed)?;
    let packing = pack_product(product, &search::demand(&problem, &found.counts))?;
    let row = &found.row;
    let lower_bound = row.bound();
    let gpus = packing.gpus;
    let proof = if lower_bound == gpus {
        SizeProof::Certificate
    } else if found.exhausted {
        SizeProof::Search
    } else {
        SizeProof::None
    };
    let names = wanted.iter().map(|s| s.name.clone());
    let mut instances = Vec::new();
    for (service, counts) in wanted.iter().zip(&found.counts) {
        for (profile, &count) in problem.profiles.iter().zip(counts) {
            let option = service.options.iter().find(|o| o.profile == *profile).filter(|_| count > 0);
            instances.extend(option.map(|o| Chosen {
                service: service.name.clone(),
                option: o.clone(),
                count,
            }));
        }
    }
    let slices =
        |c: &Chosen| u64::from(product.profile(c.option.profile.as_str()).map_or(0, |p| p.compute_slices));
    Ok(Sizing {
        gpus,
        lower_bound,
        proven_optimal: proof == SizeProof::Certificate,
        proof,
        slices: instances.iter().map(|c| slices(c) * c.count).sum(),
        certificate: SizeCertificate {
            scale: row.scale,
            prices: problem.profiles.iter().cloned().zip(row.prices.iter().copied()).collect(),
            covers: names.zip(row.covers.iter().copied()).collect(),
        },
        instances,
        filled: packing.filled,
    })
}

fn problem<'a>(product: &'a Product, services: &[&Service]) -> Result<Problem<'a>, SizeError> {
    let mut profiles: Vec<ProfileName> = Vec::new();
    let mut names = std::collections::BTreeSet::new();
    for service in services {
        if !names.insert(&service.name) {
            return Err(SizeError::Twice { what: service.name.clone() });
        }
        if service.options.is_empty() {
            let (service, product) = (service.name.clone(), product.id.to_string());
            return Err(SizeError::NoOption { service, product });
        }
        for (k, option) in service.options.iter().enumerate() {
            let name = &product.profile(option.profile.as_str()).map_err(LayoutsError::from)?.name;
            let again = service.options[..k].iter().any(|o| o.profile == option.profile);
            if again || option.rate_milli == 0 || *name != option.profile {
                return Err(SizeError::Twice { what: format!("{} on {}", service.name, option.profile) });
            }
            if service.rate_milli.div_ceil(option.rate_milli) > MOST_INSTANCES {
                return Err(SizeError::TooLarge { limit: MOST_INSTANCES });
            }
            if !profiles.contains(name) {
                profiles.push(name.clone());
            }
        }
    }
    // The largest first: what is hardest to place is settled before the rest.
    profiles.sort_by_key(|p| (std::cmp::Reverse(p.slices()), p.clone()));
    let serves = |s: &&Service| {
        let of = |p: &ProfileName| s.options.iter().find(|o| o.profile == *p).map_or(0, |o| o.rate_milli);
        profiles.iter().map(of).collect()
    };
    let mut layouts = Vec::new();
    if !profiles.is_empty() {
        for geometry in completions(product, &Layout::empty(product), &profiles)? {
            layouts.push(profiles.iter().map(|p| u64::from(geometry.count(p))).collect());
        }
    }
    Ok(Problem {
        product,
        rates: services.iter().map(|s| s.rate_milli).collect(),
        serves: services.iter().map(serves).collect(),
        layouts,
        profiles,
    })
}
