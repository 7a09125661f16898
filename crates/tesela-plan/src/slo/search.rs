//! Covers that fit together: for a number of GPUs, a choice for each service such that all instances pack.
//!
//! From the bound upwards. A choice is only looked at when at every known price vector its cost leaves the other
//! services their cheapest covers; where packing refuses a choice, its certificate becomes one more price vector.

use std::collections::BTreeMap;

use tesela_model::product::ProfileName;

use super::Problem;
use super::SizeError;
use super::price::{Row, best};
use super::relax::Relaxed;
use crate::pack::pack_product;

/// Steps of the search for one number of GPUs.
const MOST_STEPS: u32 = 400_000;
/// Choices kept of one service.
const MOST_CHOICES: usize = 3_000;
/// Below this many GPUs every choice is looked at; above, most instances are settled by the relaxation.
const SMALL: u64 = 40;
/// Instances of each profile and service left open above.
const OPEN: [u64; 3] = [2, 4, 7];

/// Covers that pack.
pub(super) struct Found {
    /// Instances by service and profile.
    pub(super) counts: Vec<Vec<u64>>,
    /// The best proof.
    pub(super) row: Row,
    /// Whether every smaller number of GPUs was ruled out.
    pub(super) exhausted: bool,
}

/// Instances of each profile together.
pub(super) fn demand(problem: &Problem<'_>, counts: &[Vec<u64>]) -> Vec<(ProfileName, u64)> {
    let mut sums = vec![0u64; problem.profiles.len()];
    for one in counts {
        for (sum, count) in sums.iter_mut().zip(one) {
            *sum += count;
        }
    }
    problem.profiles.iter().cloned().zip(sums).collect()
}

pub(super) fn search(problem: &Problem<'_>, relaxed: Relaxed) -> Result<Found, SizeError> {
    let mut rows = relaxed.rows;
    let start = vec![0; problem.profiles.len()];
    rows.extend(Row::new(problem, 1, start).map(|r| r.0));
    let mut fallback = cheapest(problem, &rows);
    let mut most = pack_product(problem.product, &demand(problem, &fallback))?.gpus;
    let mut exhausted = true;
    let mut gpus = rows.iter().map(Row::bound).max().unwrap_or(0);
    while gpus < most {
        let open: &[u64] = if gpus < SMALL { &[u64::MAX] } else { &OPEN };
        let mut ruled_out = false;
        for &open in open {
            let base = base(&relaxed.mean, open);
            match Attempt::new(problem, &mut rows, gpus, &base).run()? {
                Outcome::Fits(counts) => {
                    fallback = counts;
                    most = gpus;
                }
                Outcome::None { all } => ruled_out = all && open == u64::MAX,
            }
            if most == gpus || rows.iter().any(|r| r.bound() > gpus) {
                break;
            }
        }
        let proven = rows.iter().any(|r| r.bound() > gpus);
        exhausted &= most == gpus || ruled_out || proven;
        gpus += 1;
    }
    // Rows hold at least that of zero prices.
    let row =
        best(&rows).cloned().unwrap_or(Row { scale: 1, prices: Vec::new(), covers: Vec::new(), total: 0 });
    Ok(Found { counts: fallback, row, exhausted })
}

/// The cover of each service that costs least at the best prices, to start from.
fn cheapest(problem: &Problem<'_>, rows: &[Row]) -> Vec<Vec<u64>> {
    let proposed = best(rows).and_then(|row| Row::new(problem, row.scale, row.prices.clone()));
    let covers = proposed.map(|(_, covers)| covers).unwrap_or_default();
    let alone = |service: usize| {
        // Some profile serves it; the one that serves most needs the fewest instances.
        let serves = &problem.serves[service];
        let profile = (0..serves.len()).max_by_key(|&p| serves[p]).unwrap_or(0);
        let mut counts = vec![0; serves.len()];
        counts[profile] = problem.rates[service].div_ceil(serves[profile].max(1));
        counts
    };
    (0..problem.rates.len()).map(|s| covers.get(s).cloned().flatten().unwrap_or_else(|| alone(s))).collect()
}

/// Instances that are settled: the fractional optimum's less what stays open.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts of instances, at most a million each"
)]
fn base(mean: &[Vec<f64>], open: u64) -> Vec<Vec<u64>> {
    let settled = |m: &f64| (m.max(0.0).floor() as u64).saturating_sub(open);
    mean.iter().map(|counts| counts.iter().map(settled).collect()).collect()
}

enum Outcome {
    Fits(Vec<Vec<u64>>),
    /// Whether nothing was left out.
    None {
        all: bool,
    },
}

/// One number of GPUs.
struct Attempt<'a, 'p> {
    problem: &'a Problem<'p>,
    rows: &'a mut Vec<Row>,
    gpus: u64,
    choices: Vec<Vec<Vec<u64>>>,
    /// Services, the one with the fewest choices first.
    order: Vec<usize>,
    all: bool,
    steps: u32,
    /// Sums of instances that packing refused.
    refused: BTreeMap<Vec<u64>, ()>,
}

impl<'a, 'p> Attempt<'a, 'p> {
    fn new(problem: &'a Problem<'p>, rows: &'a mut Vec<Row>, gpus: u64, base: &[Vec<u64>]) -> Self {
        let mut all = true;
        let mut choices = Vec::new();
        for (service, settled) in base.iter().enumerate() {
            let (list, whole) = Choices::list(problem, rows, gpus, service, settled);
            all &= whole;
            choices.push(list);
        }
        let mut order: Vec<usize> = (0..choices.len()).collect();
        order.sort_by_key(|&s| (choices[s].len(), s));
        Self { problem, rows, gpus, choices, order, all, steps: 0, refused: BTreeMap::new() }
    }

    fn run(mut self) -> Result<Outcome, SizeError> {
        let mut picked = Vec::new();
        let sums = vec![0; self.problem.profiles.len()];
        if self.go(&sums, &mut picked)? {
            let mut counts = vec![Vec::new(); picked.len()];
            for (&service, choice) in self.order.iter().zip(picked) {
                counts[service] = self.choices[service][choice].clone();
            }
            return Ok(Outcome::Fits(counts));
        }
        Ok(Outcome::None { all: self.all && self.steps <= MOST_STEPS })
    }

    /// Settles the next service; true when the rest could be settled too.
    fn go(&mut self, sums: &[u64], picked: &mut Vec<usize>) -> Result<bool, SizeError> {
        self.steps += 1;
        if self.steps > MOST_STEPS {
            return Ok(false);
        }
        let Some(&service) = self.order.get(picked.len()) else {
            return self.packs(sums);
        };
        for choice in 0..self.choices[service].len() {
            let mut after = sums.to_vec();
            for (sum, count) in after.iter_mut().zip(&self.choices[service][choice]) {
                *sum += count;
            }
            if !self.leaves_room(&after, picked.len() + 1) {
                continue;
            }
            picked.push(choice);
            if self.go(&after, picked)? {
                return Ok(true);
            }
            picked.pop();
            if self.steps > MOST_STEPS || self.rows.iter().any(|r| r.slack(self.gpus).is_none()) {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// Whether at every price the services still to come find their cheapest covers.
    fn leaves_room(&self, sums: &[u64], settled: usize) -> bool {
        self.rows.iter().all(|row| {
            let rest: u128 = self.order[settled..].iter().map(|&s| u128::from(row.covers[s])).sum();
            row.cost(sums) + rest <= u128::from(self.gpus) * u128::from(row.scale)
        })
    }

    fn packs(&mut self, sums: &[u64]) -> Result<bool, SizeError> {
        if self.refused.contains_key(sums) {
            return Ok(false);
        }
        let wanted: Vec<_> = self.problem.profiles.iter().cloned().zip(sums.iter().copied()).collect();
        let packing = pack_product(self.problem.product, &wanted)?;
        if packing.gpus <= self.gpus {
            return Ok(true);
        }
        self.refused.insert(sums.to_vec(), ());
        if packing.lower_bound > self.gpus {
            let price = |p: &ProfileName| packing.certificate.prices.get(p.as_str()).copied().unwrap_or(0);
            let small = |value: u128| u64::try_from(value).ok();
            let prices = self.problem.profiles.iter().map(|p| small(price(p))).collect::<Option<Vec<u64>>>();
            let row = small(packing.certificate.scale)
                .zip(prices)
                .and_then(|(scale, prices)| Row::new(self.problem, scale, prices));
            self.rows.extend(row.map(|r| r.0));
        }
        Ok(false)
    }
}

/// The covers of one service that leave the others room.
struct Choices<'a, 'p> {
    problem: &'a Problem<'p>,
    service: usize,
    settled: &'a [u64],
    /// What a cover may cost at each price.
    most: Vec<(&'a Row, u128)>,
    list: Vec<Vec<u64>>,
    whole: bool,
}

impl<'a, 'p> Choices<'a, 'p> {
    fn list(
        problem: &'a Problem<'p>,
        rows: &'a [Row],
        gpus: u64,
        service: usize,
        settled: &'a [u64],
    ) -> (Vec<Vec<u64>>, bool) {
        let most = |row: &'a Row| Some((row, row.slack(gpus)? + u128::from(row.covers[service])));
        let Some(most) = rows.iter().map(most).collect::<Option<Vec<_>>>() else {
            return (Vec::new(), true);
        };
        let mut this = Self { problem, service, settled, most, list: Vec::new(), whole: true };
        let served = settled.iter().zip(&problem.serves[service]).map(|(n, s)| n * s).sum::<u64>();
        let mut counts = settled.to_vec();
        this.walk(0, problem.rates[service].saturating_sub(served), &mut counts);
        let Self { mut list, whole, .. } = this;
        let tight = best(rows);
        list.sort_by_key(|c| (tight.map_or(0, |row| row.cost(c)), c.clone()));
        let cut = list.len() > MOST_CHOICES;
        list.truncate(MOST_CHOICES);
        (list, whole && !cut)
    }

    /// Profiles from `at` on serve what is left; each as often as it is of use.
    fn walk(&mut self, at: usize, left: u64, counts: &mut Vec<u64>) {
        if !self.most.iter().all(|(row, most)| row.cost(counts) <= *most) {
            return;
        }
        if left == 0 {
            self.list.push(counts.clone());
            return;
        }
        if self.list.len() > 50 * MOST_CHOICES {
            self.whole = false;
            return;
        }
        let serves = &self.problem.serves[self.service];
        let Some(&one) = serves.get(at) else { return };
        // None left that serves anything: this profile must serve it all.
        let last = serves[at + 1..].iter().all(|s| *s == 0);
        let most = if one == 0 { 0 } else { left.div_ceil(one) };
        for more in (if last { most } else { 0 })..=most {
            counts[at] = self.settled[at] + more;
            self.walk(at + 1, left.saturating_sub(more * one), counts);
        }
        counts[at] = self.settled[at];
    }
}
