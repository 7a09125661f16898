//! The relaxation over whole covers: the highest total of cheapest covers over all prices (Dantzig and Wolfe; solved
//! by Kelley's cutting planes).
//!
//! Floating point only proposes prices. They are rounded down to whole numbers, checked against every layout, and
//! evaluated exactly, so nothing rests on rounding.

use super::Problem;
use super::price::{Row, best};

/// Rounds of cutting planes at most.
const ROUNDS: usize = 80;
/// Scale of proposed prices.
const FINE: u64 = 1_000_000;
/// Scales tried for the certificate, the first that proves as much as the finest is kept.
const SCALES: [u64; 14] = [7, 12, 14, 21, 28, 42, 84, 120, 210, 420, 840, 2_520, 10_080, 50_400];
const TINY: f64 = 1e-9;
/// Pivots in a row without gain before Bland's rule.
const PATIENCE: usize = 20;
/// Pivots of one program at most.
const MOST_PIVOTS: usize = 5_000;

/// What the relaxation found.
pub(super) struct Relaxed {
    /// Every price vector worth keeping.
    pub(super) rows: Vec<Row>,
    /// Instances of each service in the mean of the fractional optimum.
    pub(super) mean: Vec<Vec<f64>>,
}

struct Cut {
    service: usize,
    counts: Vec<u64>,
}

pub(super) fn relax(problem: &Problem<'_>) -> Relaxed {
    let profiles = problem.profiles.len();
    let mut cuts = Vec::new();
    for (service, (rate, serves)) in problem.rates.iter().zip(&problem.serves).enumerate() {
        for (profile, &one) in serves.iter().enumerate().filter(|(_, s)| **s > 0) {
            let mut counts = vec![0; profiles];
            counts[profile] = rate.div_ceil(one);
            cuts.push(Cut { service, counts });
        }
    }
    let mut rows = Vec::new();
    let mut mean = vec![vec![0.0; profiles]; problem.rates.len()];
    for _ in 0..ROUNDS {
        let program = Dictionary::new(problem, &cuts);
        let Some(solved) = program.solve() else { break };
        mean = means(problem, &cuts, &solved.duals);
        let prices: Vec<u64> = solved.values[..profiles].iter().map(|v| rounded(*v, FINE)).collect();
        let Some((row, suggested)) = Row::new(problem, FINE, prices) else { break };
        let (total, promised) = (to_float(row.total) / to_float(u128::from(FINE)), solved.objective);
        rows.push(row);
        let before = cuts.len();
        for (service, counts) in suggested.into_iter().enumerate() {
            let Some(counts) = counts else { continue };
            if !cuts.iter().any(|c| c.service == service && c.counts == counts) {
                cuts.push(Cut { service, counts });
            }
        }
        if cuts.len() == before || promised - total < 1e-4 {
            break;
        }
    }
    coarser(problem, &mut rows);
    Relaxed { rows, mean }
}

/// Adds the best prices rounded to the smallest scale at which they prove as much.
fn coarser(problem: &Problem<'_>, rows: &mut Vec<Row>) {
    let Some(fine) = best(rows).cloned() else { return };
    let slices = problem.profiles.iter().map(|p| u64::from(p.slices())).collect();
    rows.extend(Row::new(problem, u64::from(problem.product.compute_slices), slices).map(|r| r.0));
    for scale in SCALES {
        let prices = fine.prices.iter().map(|p| p * scale / fine.scale).collect();
        if let Some((row, _)) = Row::new(problem, scale, prices) {
            let enough = row.bound() >= fine.bound();
            rows.push(row);
            if enough {
                return;
            }
        }
    }
}

/// A price in whole parts of the scale, never above what was proposed.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a price is between 0 and 1, and the scale is a million"
)]
fn rounded(price: f64, scale: u64) -> u64 {
    // A hair below, so that sums over a layout do not pass the scale.
    ((price - TINY).clamp(0.0, 1.0) * scale as f64).floor() as u64
}

#[expect(clippy::cast_precision_loss, reason = "only compared with a proposal")]
fn to_float(value: u128) -> f64 {
    value as f64
}

/// The mean of each service's covers, weighted by the multipliers of their cuts.
fn means(problem: &Problem<'_>, cuts: &[Cut], duals: &[f64]) -> Vec<Vec<f64>> {
    let mut mean = vec![vec![0.0; problem.profiles.len()]; problem.rates.len()];
    for (cut, weight) in cuts.iter().zip(&duals[problem.layouts.len()..]) {
        for (sum, count) in mean[cut.service].iter_mut().zip(&cut.counts) {
            *sum += weight * to_float(u128::from(*count));
        }
    }
    mean
}

struct Solved {
    objective: f64,
    /// Prices, then what each service must at least pay.
    values: Vec<f64>,
    /// Multipliers of the layouts, then of the cuts.
    duals: Vec<f64>,
}

/// Maximise the sum of what services pay; no layout is priced above 1, no service pays more than any of its covers.
/// Zero is feasible, so the simplex starts there. Kept as a dictionary: many rows, few columns.
struct Dictionary {
    /// Row by row: right side, then the coefficients of the non-basic variables.
    rows: Vec<Vec<f64>>,
    objective: Vec<f64>,
    basic: Vec<usize>,
    free: Vec<usize>,
}

impl Dictionary {
    fn new(problem: &Problem<'_>, cuts: &[Cut]) -> Self {
        let (profiles, services) = (problem.profiles.len(), problem.rates.len());
        let columns = profiles + services;
        let mut rows = Vec::with_capacity(problem.layouts.len() + cuts.len());
        for layout in &problem.layouts {
            let mut row = vec![0.0; columns + 1];
            row[0] = 1.0;
            for (value, count) in row[1..].iter_mut().zip(layout) {
                *value = -to_float(u128::from(*count));
            }
            rows.push(row);
        }
        for cut in cuts {
            let mut row = vec![0.0; columns + 1];
            for (value, count) in row[1..].iter_mut().zip(&cut.counts) {
                *value = to_float(u128::from(*count));
            }
            row[1 + profiles + cut.service] = -1.0;
            rows.push(row);
        }
        let mut objective = vec![0.0; columns + 1];
        objective[1 + profiles..].fill(1.0);
        let basic = (columns..columns + rows.len()).collect();
        Self { rows, objective, basic, free: (0..columns).collect() }
    }

    fn solve(mut self) -> Option<Solved> {
        let columns = self.free.len();
        let mut stalled = 0;
        for _ in 0..MOST_PIVOTS {
            let Some(column) = self.entering(stalled > PATIENCE) else {
                return Some(self.read(columns));
            };
            let row = self.leaving(column)?;
            let before = self.objective[0];
            self.pivot(row, column);
            stalled = if self.objective[0] > before + TINY { 0 } else { stalled + 1 };
        }
        None
    }

    fn entering(&self, bland: bool) -> Option<usize> {
        let gains = (0..self.free.len()).filter(|&c| self.objective[c + 1] > TINY);
        if bland {
            return gains.min_by_key(|&c| self.free[c]);
        }
        gains.max_by(|&a, &b| {
            self.objective[a + 1].total_cmp(&self.objective[b + 1]).then(self.free[b].cmp(&self.free[a]))
        })
    }

    fn leaving(&self, column: usize) -> Option<usize> {
        let ratio = |row: usize| self.rows[row][0].max(0.0) / -self.rows[row][column + 1];
        let rows = (0..self.rows.len()).filter(|&r| self.rows[r][column + 1] < -TINY);
        rows.min_by(|&a, &b| ratio(a).total_cmp(&ratio(b)).then(self.basic[a].cmp(&self.basic[b])))
    }

    fn pivot(&mut self, row: usize, column: usize) {
        let by = self.rows[row][column + 1];
        let mut pivot = self.rows[row].clone();
        pivot[column + 1] = -1.0;
        for value in &mut pivot {
            *value /= -by;
        }
        let put = |target: &mut Vec<f64>| {
            let factor = target[column + 1];
            if factor != 0.0 {
                target[column + 1] = 0.0;
                for (value, part) in target.iter_mut().zip(&pivot) {
                    *value += factor * part;
                }
            }
        };
        for (r, target) in self.rows.iter_mut().enumerate() {
            if r != row {
                put(target);
            }
        }
        put(&mut self.objective);
        self.rows[row] = pivot;
        std::mem::swap(&mut self.basic[row], &mut self.free[column]);
    }

    fn read(&self, columns: usize) -> Solved {
        let mut values = vec![0.0; columns];
        for (row, &variable) in self.rows.iter().zip(&self.basic) {
            if variable < columns {
                values[variable] = row[0];
            }
        }
        let mut duals = vec![0.0; self.rows.len()];
        for (c, &variable) in self.free.iter().enumerate() {
            if variable >= columns {
                duals[variable - columns] = -self.objective[c + 1];
            }
        }
        Solved { objective: self.objective[0], values, duals }
    }
}
