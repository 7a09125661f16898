//! The optimum of many groups from that of a few: prices from a sample of the groups, then again and again the simplex
//! over the groups for which those prices leave a choice, while the others keep theirs.

use super::exchange::{self, Choice, Losses};
use super::prove::{self, Bound};
use super::relax::{self, Part, Vertex};
use super::table::Table;
use crate::pack::TooLarge;
use crate::pack::simplex::{mul, sub};

/// Groups that the simplex takes at once.
const CORE: usize = 500;
/// Groups in the sample that the first prices come from.
const SAMPLE: usize = 400;
/// Rounds at most.
const ROUNDS: usize = 8;

/// Rows that cannot be met, with what is missing or too much.
pub(super) type Off = Vec<(usize, i128)>;

/// What is known of the optimum.
pub(super) struct Sifted {
    pub(super) factor: i128,
    /// The best whole choice met, if any meets the rows.
    pub(super) choice: Option<Choice>,
    /// The best bound on the weight disturbed.
    pub(super) weight: Bound,
    /// The best bound on weight and operations together.
    pub(super) together: Bound,
    /// Whether the rows can be met by parts of GPUs; what is off where they cannot.
    pub(super) off: Option<Off>,
}

impl Sifted {
    /// Its cost as one number.
    pub(super) fn cost(&self, table: &Table) -> Result<Option<i128>, TooLarge> {
        self.choice.as_ref().map(|choice| exchange::cost(table, choice, self.factor)).transpose()
    }

    /// Takes what is better in the prices of a vertex.
    fn learn(&mut self, table: &Table, vertex: &Vertex) -> Result<(), TooLarge> {
        let whole = vertex.den.checked_mul(self.factor);
        let mut bounds = vec![prove::weight(table, vertex.den, &vertex.weight_prices)];
        bounds.extend(whole.map(|scale| prove::weight(table, scale, &vertex.prices)));
        for bound in bounds.into_iter().flatten() {
            if bound.rounded() > self.weight.rounded() {
                self.weight = bound;
            }
        }
        let together = prove::together(table, vertex.den, &vertex.prices, self.factor)?;
        if above(&together, &self.together)? {
            self.together = together;
        }
        Ok(())
    }

    /// Takes a choice when it is whole and costs less.
    fn try_choice(&mut self, table: &Table, choice: Option<Choice>) -> Result<(), TooLarge> {
        let Some(choice) = choice else { return Ok(()) };
        let cost = exchange::cost(table, &choice, self.factor)?;
        if self.cost(table)?.is_none_or(|known| cost < known) {
            self.choice = Some(choice);
        }
        Ok(())
    }

    fn is_proven(&self, table: &Table) -> Result<bool, TooLarge> {
        Ok(self.cost(table)? == Some(self.together.rounded()))
    }
}

fn above(a: &Bound, b: &Bound) -> Result<bool, TooLarge> {
    Ok(mul(a.value, b.scale)? > mul(b.value, a.scale)?)
}

/// Looks for the optimum. `start` holds a shape for each group, one of those that cost it least.
pub(super) fn sift(table: &Table, start: &[usize]) -> Result<Sifted, TooLarge> {
    let none = || Bound { value: 0, scale: 1, prices: vec![0; table.rows.len()] };
    let factor = relax::factor(table)?;
    let mut sifted = Sifted { factor, choice: None, weight: none(), together: none(), off: None };
    if table.groups() > CORE {
        let vertex = relax::solve(table, factor, sample(table, start))?;
        sifted.learn(table, &vertex)?;
        let losses = Losses::new(table, vertex.den, &vertex.prices, factor)?;
        if let Some(losses) = reach(table, &mut sifted, losses, start)? {
            rounds(table, &mut sifted, losses)?;
            return Ok(sifted);
        }
    }
    all(table, start, &mut sifted)?;
    Ok(sifted)
}

/// Meets the rows from the prices of the sample: what changes without loss cannot reach is left to the simplex over
/// groups that can change at little loss, others each time. `None` when that fails.
fn reach(
    table: &Table,
    sifted: &mut Sifted,
    mut losses: Losses,
    start: &[usize],
) -> Result<Option<Losses>, TooLarge> {
    let mut near = exchange::approach(table, &losses, exchange::cheapest(table, &losses, start))?;
    let mut order = (0..table.groups()).collect::<Vec<_>>();
    order.sort_by_key(|&group| (other_loss(&losses, group, largest(&near[group])), group));
    let mut cores = order.chunks(CORE);
    loop {
        let whole = exchange::repair(table, &losses, near.clone())?;
        sifted.try_choice(table, whole)?;
        if sifted.choice.is_some() {
            return Ok(Some(losses));
        }
        let Some(groups) = cores.next() else { return Ok(None) };
        let vertex = relax::solve(table, sifted.factor, part(table, groups.to_vec(), &near)?)?;
        near = exchange::rounded(table, &vertex, near);
        if vertex.off().is_empty() {
            sifted.learn(table, &vertex)?;
            losses = Losses::new(table, vertex.den, &vertex.prices, sifted.factor)?;
        }
    }
}

/// What a group loses at least when it leaves a shape.
fn other_loss(losses: &Losses, group: usize, now: usize) -> i128 {
    let others = losses.of(group).iter().enumerate().filter(|(shape, _)| *shape != now);
    others.filter_map(|(_, loss)| *loss).min().unwrap_or(i128::MAX)
}

/// The simplex over all groups.
fn all(table: &Table, start: &[usize], sifted: &mut Sifted) -> Result<(), TooLarge> {
    let wants = table.rows.iter().map(|row| row.want).collect();
    let part = Part { groups: (0..table.groups()).collect(), keys: start.to_vec(), wants, penalty: None };
    let vertex = relax::solve(table, sifted.factor, part)?;
    let off = vertex.off();
    if vertex.optimal && !off.is_empty() {
        sifted.off = Some(off);
        return Ok(());
    }
    sifted.learn(table, &vertex)?;
    let losses = Losses::new(table, vertex.den, &vertex.prices, sifted.factor)?;
    let empty = vec![Vec::new(); table.groups()];
    let whole = exchange::repair(table, &losses, exchange::rounded(table, &vertex, empty))?;
    sifted.try_choice(table, whole)
}

/// Every so-many-th group, with its part of what is wanted. What is off counts little, so that a sample that cannot hold
/// its part gives prices that mean something.
fn sample(table: &Table, start: &[usize]) -> Part {
    let every = table.groups().div_ceil(SAMPLE);
    let groups = (0..table.groups()).step_by(every).collect::<Vec<_>>();
    let here = groups.iter().map(|&group| table.counts[group]).sum::<i128>();
    let all = table.counts.iter().sum::<i128>().max(1);
    let wants = table.rows.iter().map(|row| row.want * here / all).collect();
    let most = groups.iter().flat_map(|&group| table.costs(group)).flatten().map(|cost| cost.weight).max();
    let keys = groups.iter().map(|&group| start[group]).collect();
    Part { groups, keys, wants, penalty: Some(most.unwrap_or(0) + 1) }
}

fn rounds(table: &Table, sifted: &mut Sifted, mut losses: Losses) -> Result<(), TooLarge> {
    for _ in 0..ROUNDS {
        if sifted.is_proven(table)? {
            break;
        }
        let Some(choice) = sifted.choice.clone() else { break };
        let vertex = relax::solve(table, sifted.factor, core(table, &losses, &choice)?)?;
        sifted.learn(table, &vertex)?;
        losses = Losses::new(table, vertex.den, &vertex.prices, sifted.factor)?;
        let near = exchange::approach(table, &losses, exchange::rounded(table, &vertex, choice))?;
        let whole = exchange::repair(table, &losses, near)?;
        sifted.try_choice(table, whole)?;
        if sifted.is_proven(table)? {
            break;
        }
        // The prices may say that other groups should change; from there the way may be shorter.
        let start = sifted.choice.iter().flatten().map(|parts| largest(parts)).collect::<Vec<_>>();
        let near = exchange::approach(table, &losses, exchange::cheapest(table, &losses, &start))?;
        let whole = exchange::repair(table, &losses, near)?;
        sifted.try_choice(table, whole)?;
    }
    Ok(())
}

fn largest(parts: &[(usize, i128)]) -> usize {
    parts.iter().max_by_key(|part| part.1).map_or(0, |part| part.0)
}

/// The groups that lose at the prices, the most first, then those that could change at the least loss; with what the
/// others leave for them.
fn core(table: &Table, losses: &Losses, choice: &Choice) -> Result<Part, TooLarge> {
    let mut order = Vec::with_capacity(table.groups());
    for (group, parts) in choice.iter().enumerate() {
        let of = losses.of(group);
        let lost = parts.iter().map(|&(shape, n)| of[shape].unwrap_or(0) * n).sum::<i128>();
        order.push((-lost, other_loss(losses, group, largest(parts)), group));
    }
    order.sort_unstable();
    part(table, order.into_iter().take(CORE).map(|(_, _, group)| group).collect(), choice)
}

/// Some groups, with what the others leave for them.
fn part(table: &Table, mut groups: Vec<usize>, choice: &Choice) -> Result<Part, TooLarge> {
    groups.sort_unstable();
    let keys = groups.iter().map(|&group| largest(&choice[group])).collect();
    let mut wants = table.rows.iter().map(|row| row.want).collect::<Vec<_>>();
    for (group, parts) in choice.iter().enumerate() {
        if groups.binary_search(&group).is_ok() {
            continue;
        }
        for &(shape, count) in parts {
            for (want, held) in wants.iter_mut().zip(&table.holds[shape]) {
                *want = sub(*want, mul(count, *held)?)?;
            }
        }
    }
    Ok(Part { groups, keys, wants, penalty: None })
}
