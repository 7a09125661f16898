//! Whole numbers from the fractional optimum: its whole part stays, a branch and bound covers the small rest.
//!
//! Every column has a *loss*: what it costs beyond the prices of what it newly covers. The cost of a solution is the
//! fractional optimum plus its losses, so a branch whose losses exceed what the best known solution leaves is cut.
//! The work is bounded by a count of looks at columns, never by time, so the answer is the same on every machine.

use std::collections::BTreeMap;

use super::TooLarge;
use super::program::{Program, Source};
use super::simplex::{Vertex, add, dot, mul, sub};

/// Looks at columns in one search before it stops with what it has.
const MOST_LOOKS: usize = 1_500_000;
/// How far the whole part is taken back, one try after the other.
const BACK: [i128; 4] = [0, 1, 2, 4];

/// An integer solution.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// In cost units, unplaced instances at the penalty.
    pub(super) cost: i128,
    /// How often each column is used; slack columns left out.
    pub(super) uses: BTreeMap<usize, i128>,
    /// Whether every other solution has been ruled out.
    pub(super) exhausted: bool,
}

/// Looks for a solution that costs `bound`, which no solution undercuts; else returns the cheapest met.
pub(super) fn search(
    program: &Program,
    vertex: &Vertex,
    objective: i128,
    bound: i128,
) -> Result<Found, TooLarge> {
    let mut best: Option<Found> = None;
    for back in BACK {
        let base = whole_part(program, vertex, back);
        let everything = base.is_empty();
        let mut tree = Tree::new(program, vertex, objective, bound, &base)?;
        tree.best = best.as_ref().map(|b| b.cost);
        tree.run()?;
        let exhausted = everything && tree.looks <= MOST_LOOKS;
        if let (Some(cost), Some(chosen)) = (tree.best, tree.solution) {
            let mut uses = base;
            for column in chosen {
                *uses.entry(column).or_insert(0) += 1;
            }
            best = Some(Found { cost, uses, exhausted });
        }
        if let Some(found) = &mut best {
            found.exhausted |= exhausted;
            if found.cost <= bound || found.exhausted {
                break;
            }
        }
    }
    best.ok_or(TooLarge)
}

/// The vertex rounded down, each amount taken back by `back`; slack columns left out.
fn whole_part(program: &Program, vertex: &Vertex, back: i128) -> BTreeMap<usize, i128> {
    let work = vertex.work.iter().zip(&vertex.work_x);
    let keys = vertex.keys.iter().zip(&vertex.key_x);
    let mut uses = BTreeMap::new();
    for (&column, x) in work.chain(keys) {
        // A whole amount of a column of a supply needs no room to move: its supply holds it in place.
        let amount = x / vertex.den - back;
        if amount > 0 && program.columns[column].source != Source::Slack {
            uses.insert(column, amount);
        }
    }
    uses
}

struct Tree<'a> {
    program: &'a Program,
    vertex: &'a Vertex,
    /// Fractional optimum over the denominator.
    objective: i128,
    bound: i128,
    /// Rows in the order they are covered.
    order: Vec<usize>,
    /// What one unit of each supply is worth, over the denominator.
    worth: Vec<i128>,
    left: Vec<i128>,
    best: Option<i128>,
    solution: Option<Vec<usize>>,
    chosen: Vec<usize>,
    seen: BTreeMap<(Vec<i128>, Vec<usize>), i128>,
    looks: usize,
    rest: Vec<i128>,
    cost: i128,
}

impl<'a> Tree<'a> {
    fn new(
        program: &'a Program,
        vertex: &'a Vertex,
        objective: i128,
        bound: i128,
        base: &BTreeMap<usize, i128>,
    ) -> Result<Self, TooLarge> {
        let mut rest = program.demand.clone();
        let mut left = program.supplies.iter().map(|s| s.count).collect::<Vec<_>>();
        let mut cost = 0;
        for (&index, &amount) in base {
            let column = &program.columns[index];
            cost = add(cost, mul(column.cost, amount)?)?;
            if let Some(supply) = column.supply {
                left[supply] -= amount;
            }
            for (rest, held) in rest.iter_mut().zip(&column.holds) {
                *rest = sub(*rest, mul(amount, *held)?)?;
            }
        }
        rest.iter_mut().for_each(|r| *r = (*r).max(0));
        let mut worth = Vec::new();
        for &key in &vertex.keys {
            let column = &program.columns[key];
            worth.push(sub(dot(&vertex.prices, &column.holds)?, mul(vertex.den, column.cost)?)?);
        }
        let most = |row: usize| program.columns.iter().map(|c| c.holds[row]).max().unwrap_or(0);
        let mut order = (0..program.demand.len()).collect::<Vec<_>>();
        order.sort_by_key(|&row| (-vertex.prices[row], most(row), row));
        Ok(Self {
            program,
            vertex,
            objective,
            bound,
            order,
            worth,
            left,
            best: None,
            solution: None,
            chosen: Vec::new(),
            seen: BTreeMap::new(),
            looks: 0,
            rest,
            cost,
        })
    }

    fn run(&mut self) -> Result<(), TooLarge> {
        // The losses of the base are those of its amounts: basic columns lose nothing.
        self.step(0)
    }

    fn done(&self) -> bool {
        self.best.is_some_and(|best| best <= self.bound) || self.looks > MOST_LOOKS && self.best.is_some()
    }

    fn step(&mut self, loss: i128) -> Result<(), TooLarge> {
        let Some(row) = self.order.iter().copied().find(|&r| self.rest[r] > 0) else {
            if self.best.is_none_or(|best| self.cost < best) {
                self.best = Some(self.cost);
                self.solution = Some(self.chosen.clone());
            }
            return Ok(());
        };
        if self.is_hopeless(loss)? || self.was_here() {
            return Ok(());
        }
        for (next_loss, _, index, covers) in self.candidates(row)? {
            let column = &self.program.columns[index];
            for (rest, covered) in self.rest.iter_mut().zip(&covers) {
                *rest -= covered;
            }
            if let Some(supply) = column.supply {
                self.left[supply] -= 1;
            }
            self.cost = add(self.cost, column.cost)?;
            self.chosen.push(index);
            self.step(add(loss, next_loss)?)?;
            self.chosen.pop();
            self.cost -= column.cost;
            if let Some(supply) = column.supply {
                self.left[supply] += 1;
            }
            for (rest, covered) in self.rest.iter_mut().zip(&covers) {
                *rest += covered;
            }
            if self.done() {
                break;
            }
        }
        Ok(())
    }

    /// Whether no solution below here can be cheaper than the best known one.
    fn is_hopeless(&self, loss: i128) -> Result<bool, TooLarge> {
        let Some(best) = self.best else { return Ok(false) };
        Ok(add(self.objective, loss)? > mul(self.vertex.den, best - 1)? || self.cost >= best)
    }

    /// Whether the same rest with the same supplies was met before, as cheaply.
    fn was_here(&mut self) -> bool {
        let mut drawn =
            self.chosen.iter().filter_map(|&c| self.program.columns[c].supply).collect::<Vec<_>>();
        drawn.sort_unstable();
        let known = self.seen.entry((self.rest.clone(), drawn)).or_insert(i128::MAX);
        if *known <= self.cost {
            return true;
        }
        *known = self.cost;
        false
    }

    /// Columns that cover some of `row`: loss, minus how much they cover, index, what they cover; best first.
    fn candidates(&mut self, row: usize) -> Result<Vec<Candidate>, TooLarge> {
        let mut found: BTreeMap<(Vec<i128>, Option<usize>), (i128, usize)> = BTreeMap::new();
        for (index, column) in self.program.columns.iter().enumerate() {
            self.looks += 1;
            if column.holds[row] <= 0 || column.supply.is_some_and(|s| self.left[s] == 0) {
                continue;
            }
            let covers = column.holds.iter().zip(&self.rest).map(|(h, r)| (*h).min(*r)).collect::<Vec<_>>();
            let known = found.entry((covers, column.supply)).or_insert((column.cost, index));
            if column.cost < known.0 {
                *known = (column.cost, index);
            }
        }
        let mut candidates = Vec::new();
        for ((covers, supply), (cost, index)) in found {
            let price = dot(&self.vertex.prices, &covers)?;
            let worth = supply.map_or(0, |s| self.worth[s]);
            let loss = sub(add(mul(self.vertex.den, cost)?, worth)?, price)?;
            candidates.push((loss, -covers.iter().sum::<i128>(), index, covers));
        }
        candidates.sort_unstable();
        Ok(candidates)
    }
}

type Candidate = (i128, i128, usize, Vec<i128>);
