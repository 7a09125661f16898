//! From measured profiles to the options of a service.

use std::collections::BTreeMap;

use tesela_model::product::{Product, ProfileName};

use super::ServiceOption;

/// One measurement of a model on an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measured {
    /// Compute slices of the instance.
    pub slices: u32,
    /// Requests in one batch.
    pub batch: u32,
    /// Processes in the instance, each with batches of its own.
    pub processes: u32,
    /// Served by one process, in thousandths of a request a second; 0 = did not fit or was not run.
    pub rate_milli: u64,
    /// Latency of a batch in microseconds; 0 = did not fit or was not run.
    pub latency_us: u64,
}

/// What a service is promised, and how many processes may share an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MostWanted {
    /// The latency promised, in microseconds.
    pub latency_us: u64,
    /// Processes in one instance at most.
    pub processes: u32,
}

impl MostWanted {
    /// Whether a measurement keeps the promise: `latency_ms < floor(SLO_ms) / 2 × 0.9`, the rule of the ParvaGPU
    /// authors (half for waiting while a batch fills, a tenth in reserve), in whole numbers.
    fn keeps(&self, measured: &Measured) -> bool {
        let whole_ms = self.latency_us / 1000;
        measured.rate_milli > 0
            && measured.latency_us > 0
            && measured.processes <= self.processes
            && measured.latency_us < whole_ms.saturating_mul(450)
    }
}

/// The best option on each profile: the highest rate of one instance (of one process, times processes) among the
/// measurements that keep the promise; of equal rates the fewest processes, then the smallest batch. A size stands for
/// the product's plain profile of that many compute slices with the least memory.
#[must_use]
pub fn best_options(product: &Product, measured: &[Measured], wanted: MostWanted) -> Vec<ServiceOption> {
    let mut best: BTreeMap<u32, &Measured> = BTreeMap::new();
    let total = |m: &Measured| m.rate_milli.saturating_mul(u64::from(m.processes));
    let rank = |m: &Measured| (total(m), std::cmp::Reverse((m.processes, m.batch)));
    for one in measured.iter().filter(|m| wanted.keeps(m)) {
        let held = best.entry(one.slices).or_insert(one);
        if rank(one) > rank(held) {
            *held = one;
        }
    }
    let option = |(slices, one): (u32, &Measured)| {
        let profile = profile_of(product, slices)?;
        Some(ServiceOption { profile, rate_milli: total(one), batch: one.batch, processes: one.processes })
    };
    best.into_iter().filter_map(option).collect()
}

fn profile_of(product: &Product, slices: u32) -> Option<ProfileName> {
    let sized = product.profiles.iter().filter(|p| p.is_plain() && p.compute_slices == slices);
    sized.filter(|p| !p.placements.is_empty()).min_by_key(|p| (p.units(), &p.name)).map(|p| p.name.clone())
}
