//! The fractional optimum: an exact simplex in which each group's number of GPUs is a generalised upper bound.
//!
//! As in Dantzig and Van Slyke's method each group keeps one *key* shape, and only a working basis with one column for
//! each row is inverted. A group that goes to another shape as a whole changes its key and nothing else, so most steps
//! cost next to nothing: prices stay, and the next group is looked at. Numbers are integers over one denominator.

use super::table::{Cost, Table};
use crate::pack::TooLarge;
use crate::pack::simplex::{add, dot, invert, mul, sub};

/// Basis changes before it stops. The prices prove a bound wherever it stops.
const MOST_PIVOTS: usize = 20_000;

/// A column of the working basis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    /// So much too few (`1`) or too many (`-1`) in a row.
    Off { row: usize, sign: i128 },
    /// A GPU of the group becomes the shape.
    Becomes { group: usize, shape: usize },
}

/// Groups, what each may become at what cost, and what they together shall hold.
pub(super) struct Part<'a> {
    /// What each shape adds to the rows.
    pub(super) holds: &'a [Vec<i128>],
    /// GPUs in each group.
    pub(super) counts: Vec<i128>,
    /// By group, then shape; `None` where the shape may not be.
    pub(super) costs: Vec<Option<i128>>,
    /// A shape for each group to start from.
    pub(super) keys: Vec<usize>,
    /// What they shall sum to, by row.
    pub(super) wants: Vec<i128>,
    /// What one missing or surplus instance costs; `None`: more than any choice of shapes.
    pub(super) penalty: Option<i128>,
}

/// A vertex. Numbers are numerators over `den`, which is positive.
pub(super) struct Vertex {
    pub(super) den: i128,
    /// The shape that the rest of each group takes.
    pub(super) keys: Vec<usize>,
    pub(super) work: Vec<Column>,
    pub(super) work_x: Vec<i128>,
    /// Prices of the rows.
    pub(super) prices: Vec<i128>,
    /// What a missing or surplus instance cost.
    pub(super) penalty: i128,
    /// Inverse of the working basis.
    pub(super) inverse: Vec<Vec<i128>>,
    /// Whether no column would pay.
    pub(super) optimal: bool,
}

impl Vertex {
    /// Rows that cannot be met, each with what is missing or too much, rounded up.
    pub(super) fn off(&self) -> Vec<(usize, i128)> {
        let mut off = Vec::new();
        for (column, &x) in self.work.iter().zip(&self.work_x) {
            if let Column::Off { row, sign } = column
                && x > 0
            {
                off.push((*row, sign * ((x + self.den - 1) / self.den)));
            }
        }
        off
    }

    /// The prices that the basis gives when shapes cost otherwise; `off` is the cost of a missing or surplus instance.
    pub(super) fn other_prices(
        &self,
        off: i128,
        cost: impl Fn(usize, usize) -> i128,
    ) -> Result<Vec<i128>, TooLarge> {
        let mut prices = vec![0; self.inverse.len()];
        for (&column, row) in self.work.iter().zip(&self.inverse) {
            let cost = match column {
                Column::Off { .. } => off,
                Column::Becomes { group, shape } => cost(group, shape) - cost(group, self.keys[group]),
            };
            for (price, value) in prices.iter_mut().zip(row) {
                *price = add(*price, mul(cost, *value)?)?;
            }
        }
        Ok(prices)
    }
}

/// How many operations one weight of disturbance counts: more than all there can be, with room for the denominators of
/// prices, in which a weight may be cut.
pub(super) fn factor(table: &Table) -> Result<i128, TooLarge> {
    let mut most = 1i128;
    for group in 0..table.groups() {
        let operations = table.costs(group).iter().flatten().map(|c| c.operations).max().unwrap_or(0);
        most = add(most, mul(table.counts[group], operations)?)?;
    }
    mul(most, 1 << 16)
}

/// The cost of a shape as one number.
pub(super) fn scalar(cost: Cost, factor: i128) -> Result<i128, TooLarge> {
    add(mul(cost.weight, factor)?, cost.operations)
}

struct Simplex<'a> {
    holds: &'a [Vec<i128>],
    counts: Vec<i128>,
    /// By group, then shape.
    costs: Vec<Option<i128>>,
    penalty: i128,
    keys: Vec<usize>,
    work: Vec<Column>,
    /// The rows less what the keys hold.
    rest: Vec<i128>,
    inverse: Vec<Vec<i128>>,
    den: i128,
    x: Vec<i128>,
    prices: Vec<i128>,
    /// Price of each shape's content.
    worth: Vec<i128>,
}

/// Finds the fractional optimum.
///
/// # Errors
/// When a number leaves 128 bits.
pub(super) fn solve(part: Part<'_>) -> Result<Vertex, TooLarge> {
    let mut simplex = Simplex::new(part)?;
    let optimal = simplex.run()?;
    let Simplex { den, keys, work, x, prices, penalty, inverse, .. } = simplex;
    Ok(Vertex { den, keys, work, work_x: x, prices, penalty, inverse, optimal })
}

impl<'a> Simplex<'a> {
    fn new(part: Part<'a>) -> Result<Self, TooLarge> {
        let Part { holds, counts, costs, keys, wants: mut rest, penalty } = part;
        let mut most = 1i128;
        for (costs, &count) in costs.chunks(holds.len().max(1)).zip(&counts) {
            most = add(most, mul(count, costs.iter().flatten().copied().max().unwrap_or(0))?)?;
        }
        // A part of an instance may be off, so the penalty is larger than the choice of shapes by all denominators.
        let penalty = penalty.map_or_else(|| mul(most, 1 << 12), Ok)?;
        for (&count, &key) in counts.iter().zip(&keys) {
            for (rest, held) in rest.iter_mut().zip(&holds[key]) {
                *rest = sub(*rest, mul(count, *held)?)?;
            }
        }
        let sign = |(row, rest): (usize, &i128)| Column::Off { row, sign: if *rest < 0 { -1 } else { 1 } };
        let work = rest.iter().enumerate().map(sign).collect();
        let mut simplex = Self {
            holds,
            counts,
            costs,
            penalty,
            keys,
            work,
            rest,
            inverse: Vec::new(),
            den: 1,
            x: Vec::new(),
            prices: Vec::new(),
            worth: Vec::new(),
        };
        simplex.refactor()?;
        Ok(simplex)
    }

    fn cost(&self, group: usize, shape: usize) -> Option<i128> {
        self.costs[group * self.holds.len() + shape]
    }

    /// What a group's column adds beyond its key, in rows and cost.
    fn reduced(&self, column: Column) -> Result<(Vec<i128>, i128), TooLarge> {
        match column {
            Column::Off { row, sign } => {
                let mut holds = vec![0; self.rest.len()];
                holds[row] = sign;
                Ok((holds, self.penalty))
            }
            Column::Becomes { group, shape } => {
                let key = self.keys[group];
                let holds = self.holds[shape].iter().zip(&self.holds[key]).map(|(a, b)| a - b);
                // Only shapes with a cost come into the basis.
                let cost = |shape| self.cost(group, shape).ok_or(TooLarge);
                Ok((holds.collect(), sub(cost(shape)?, cost(key)?)?))
            }
        }
    }

    /// Inverse, amounts and prices of the working basis.
    fn refactor(&mut self) -> Result<(), TooLarge> {
        let rows = self.rest.len();
        let mut matrix = vec![vec![0; rows]; rows];
        let mut costs = Vec::with_capacity(rows);
        for (at, &column) in self.work.iter().enumerate() {
            let (holds, cost) = self.reduced(column)?;
            costs.push(cost);
            for (row, value) in holds.into_iter().enumerate() {
                matrix[row][at] = value;
            }
        }
        (self.inverse, self.den) = invert(matrix)?;
        self.x = self.inverse.iter().map(|row| dot(row, &self.rest)).collect::<Result<_, _>>()?;
        self.prices = vec![0; rows];
        for (cost, row) in costs.iter().zip(&self.inverse) {
            for (price, value) in self.prices.iter_mut().zip(row) {
                *price = add(*price, mul(*cost, *value)?)?;
            }
        }
        self.worth = self.holds.iter().map(|h| dot(&self.prices, h)).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Goes through the groups again and again until none pays. Whether it got there.
    fn run(&mut self) -> Result<bool, TooLarge> {
        let mut pivots = 0;
        let mut quiet = 0;
        let mut group = 0;
        while quiet < self.counts.len() {
            if let Some(shape) = self.paying(group)? {
                quiet = 0;
                if !self.enter(group, shape)? {
                    pivots += 1;
                    if pivots > MOST_PIVOTS {
                        return Ok(false);
                    }
                }
            } else {
                quiet += 1;
            }
            group = (group + 1) % self.counts.len();
        }
        Ok(true)
    }

    /// The shape that saves most for the rest of a group.
    fn paying(&self, group: usize) -> Result<Option<usize>, TooLarge> {
        let shapes = self.holds.len();
        let costs = &self.costs[group * shapes..(group + 1) * shapes];
        let key = self.keys[group];
        let mut least = sub(mul(self.den, costs[key].ok_or(TooLarge)?)?, self.worth[key])?;
        let mut best = None;
        for (shape, (cost, worth)) in costs.iter().zip(&self.worth).enumerate() {
            let Some(cost) = cost else { continue };
            let value = sub(mul(self.den, *cost)?, *worth)?;
            if value < least {
                least = value;
                best = Some(shape);
            }
        }
        Ok(best)
    }

    /// Brings a column in. Whether the whole rest of the group went over, so that the prices stand.
    fn enter(&mut self, group: usize, shape: usize) -> Result<bool, TooLarge> {
        let entering = Column::Becomes { group, shape };
        let (holds, _) = self.reduced(entering)?;
        let mut fall = Vec::with_capacity(self.inverse.len());
        for row in &self.inverse {
            fall.push(dot(row, &holds)?);
        }
        match self.leaving(group, &fall)? {
            Leaving::Work(row) => self.work[row] = entering,
            Leaving::Key(leaver) => {
                let beside = self.work.iter().position(|c| is_of(*c, leaver));
                let Some(row) = beside else {
                    // Nothing else of the group is in the basis: it goes over as a whole.
                    let count = self.counts[group];
                    self.rekey(group, shape)?;
                    for (x, fall) in self.x.iter_mut().zip(&fall) {
                        *x = sub(*x, mul(*fall, count)?)?;
                    }
                    return Ok(true);
                };
                if let Column::Becomes { shape, .. } = self.work[row] {
                    self.rekey(leaver, shape)?;
                }
                self.work[row] = entering;
            }
        }
        self.refactor()?;
        Ok(false)
    }

    fn rekey(&mut self, group: usize, shape: usize) -> Result<(), TooLarge> {
        let (count, old) = (self.counts[group], self.keys[group]);
        let (before, after) = (&self.holds[old], &self.holds[shape]);
        for ((rest, before), after) in self.rest.iter_mut().zip(before).zip(after) {
            *rest = sub(*rest, mul(count, after - before)?)?;
        }
        self.keys[group] = shape;
        Ok(())
    }

    /// The column that reaches zero first when the entering one grows; of equal ones the one that falls fastest.
    fn leaving(&self, group: usize, fall: &[i128]) -> Result<Leaving, TooLarge> {
        let mut best: Option<(i128, i128, Leaving)> = None;
        let mut groups = vec![group];
        for column in &self.work {
            if let Column::Becomes { group, .. } = column
                && !groups.contains(group)
            {
                groups.push(*group);
            }
        }
        let mut candidates = Vec::with_capacity(fall.len() + groups.len());
        for of in groups {
            let mut x = mul(self.counts[of], self.den)?;
            let mut y = if of == group { self.den } else { 0 };
            for ((column, part), fall) in self.work.iter().zip(&self.x).zip(fall) {
                if is_of(*column, of) {
                    x = sub(x, *part)?;
                    y = sub(y, *fall)?;
                }
            }
            candidates.push((x, y, Leaving::Key(of)));
        }
        for (row, (&x, &y)) in self.x.iter().zip(fall).enumerate() {
            candidates.push((x, y, Leaving::Work(row)));
        }
        for (x, y, leaving) in candidates {
            if y <= 0 {
                continue;
            }
            let better = match &best {
                None => true,
                Some((best_x, best_y, _)) => {
                    let (this, that) = (mul(x, *best_y)?, mul(*best_x, y)?);
                    this < that || this == that && y > *best_y
                }
            };
            if better {
                best = Some((x, y, leaving));
            }
        }
        // The group's own GPUs are finite, so something leaves.
        best.map(|(_, _, leaving)| leaving).ok_or(TooLarge)
    }
}

enum Leaving {
    Work(usize),
    Key(usize),
}

fn is_of(column: Column, of: usize) -> bool {
    matches!(column, Column::Becomes { group, .. } if group == of)
}
