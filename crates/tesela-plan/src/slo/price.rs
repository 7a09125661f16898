//! Prices of profiles and what they prove.

use super::Problem;
use super::cover::cheapest;

/// Prices at which no layout costs more than `scale`, and each service's cheapest cover at them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) scale: u64,
    pub(super) prices: Vec<u64>,
    pub(super) covers: Vec<u64>,
    /// Σ covers.
    pub(super) total: u128,
}

impl Row {
    /// Evaluates prices, with the covers they suggest; `None` when a layout costs more than the scale.
    pub(super) fn new(
        problem: &Problem<'_>,
        scale: u64,
        prices: Vec<u64>,
    ) -> Option<(Self, Vec<Option<Vec<u64>>>)> {
        let cost = |layout: &Vec<u64>| -> u128 {
            layout.iter().zip(&prices).map(|(n, p)| u128::from(*n) * u128::from(*p)).sum()
        };
        if scale == 0 || problem.layouts.iter().any(|l| cost(l) > u128::from(scale)) {
            return None;
        }
        let mut covers = Vec::new();
        let mut suggested = Vec::new();
        for (&rate, serves) in problem.rates.iter().zip(&problem.serves) {
            let cover = cheapest(rate, serves, &prices);
            covers.push(cover.cost);
            suggested.push(cover.counts);
        }
        let total = covers.iter().map(|c| u128::from(*c)).sum();
        Some((Self { scale, prices, covers, total }, suggested))
    }

    /// GPUs that these prices prove to be needed.
    pub(super) fn bound(&self) -> u64 {
        u64::try_from(self.total.div_ceil(u128::from(self.scale))).unwrap_or(u64::MAX)
    }

    /// What is left over at these prices when so many GPUs are used; `None` = too few.
    pub(super) fn slack(&self, gpus: u64) -> Option<u128> {
        (u128::from(gpus) * u128::from(self.scale)).checked_sub(self.total)
    }

    pub(super) fn cost(&self, counts: &[u64]) -> u128 {
        counts.iter().zip(&self.prices).map(|(n, p)| u128::from(*n) * u128::from(*p)).sum()
    }
}

/// The row that proves most; of equal ones that with the smallest scale.
pub(super) fn best(rows: &[Row]) -> Option<&Row> {
    rows.iter().max_by_key(|r| (r.bound(), std::cmp::Reverse((r.scale, &r.prices))))
}
