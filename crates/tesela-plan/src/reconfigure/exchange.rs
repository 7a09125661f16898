//! Whole numbers near the fractional optimum: parts of GPUs are rounded, then single GPUs change their shape until
//! every row is met, each change at the least loss.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::relax::scalar;
use super::table::{Cost, Table};
use crate::pack::TooLarge;
use crate::pack::simplex::{add, dot, mul, sub};

/// Changes looked at in one search for a path.
const MOST_LOOKS: usize = 400_000;
/// How far the rows may be off on the way, beyond what they are at the beginning.
const DETOUR: i128 = 10;
/// How far the rows may be off for a search to make sense.
const FARTHEST: i128 = 40;
/// Paths tried, since a path may want a GPU twice.
const TRIES: usize = 12;

/// How many GPUs of each group become each shape: by group, sorted by shape, no zeros.
pub(super) type Choice = Vec<Vec<(usize, i128)>>;

/// What each choice costs beyond the prices of the rows: by group and shape, over the vertex's denominator.
pub(super) struct Losses {
    loss: Vec<Option<i128>>,
    shapes: usize,
}

impl Losses {
    pub(super) fn new(table: &Table, den: i128, prices: &[i128], factor: i128) -> Result<Self, TooLarge> {
        Self::by(table, den, prices, |cost| scalar(cost, factor))
    }

    /// Those of the weight alone.
    pub(super) fn of_weight(table: &Table, den: i128, prices: &[i128]) -> Result<Self, TooLarge> {
        Self::by(table, den, prices, |cost| Ok(cost.weight))
    }

    fn by(
        table: &Table,
        den: i128,
        prices: &[i128],
        as_one: impl Fn(Cost) -> Result<i128, TooLarge>,
    ) -> Result<Self, TooLarge> {
        let worth = table.holds.iter().map(|h| dot(prices, h));
        let worth = worth.collect::<Result<Vec<_>, _>>()?;
        let shapes = table.shapes();
        let mut loss = Vec::with_capacity(table.groups() * shapes);
        for group in 0..table.groups() {
            let from = loss.len();
            for (cost, worth) in table.costs(group).iter().zip(&worth) {
                loss.push(match cost {
                    Some(cost) => {
                        let cost = as_one(*cost)?;
                        Some(sub(mul(den, cost)?, *worth)?)
                    }
                    None => None,
                });
            }
            let least = loss[from..].iter().flatten().min().copied().unwrap_or(0);
            for value in loss[from..].iter_mut().flatten() {
                *value -= least;
            }
        }
        Ok(Self { loss, shapes })
    }

    /// The losses of a group, by shape; `None` where the shape may not be.
    pub(super) fn of(&self, group: usize) -> &[Option<i128>] {
        &self.loss[group * self.shapes..(group + 1) * self.shapes]
    }
}

/// Every group at one shape.
pub(super) fn all_at(table: &Table, shapes: &[usize]) -> Choice {
    shapes.iter().zip(&table.counts).map(|(&shape, &count)| vec![(shape, count)]).collect()
}

/// What the rows lack.
pub(super) fn residual(table: &Table, choice: &Choice) -> Result<Vec<i128>, TooLarge> {
    let mut rest = table.rows.iter().map(|row| row.want).collect::<Vec<_>>();
    for &(shape, count) in choice.iter().flatten() {
        for (rest, held) in rest.iter_mut().zip(&table.holds[shape]) {
            *rest = sub(*rest, mul(count, *held)?)?;
        }
    }
    Ok(rest)
}

/// What a choice costs, weight and operations as one number.
pub(super) fn cost(table: &Table, choice: &Choice, factor: i128) -> Result<i128, TooLarge> {
    let mut sum = 0;
    for (group, parts) in choice.iter().enumerate() {
        for &(shape, count) in parts {
            let cost = table.costs(group)[shape].ok_or(TooLarge)?;
            sum = add(sum, mul(count, scalar(cost, factor)?)?)?;
        }
    }
    Ok(sum)
}

pub(super) fn shift(parts: &mut Vec<(usize, i128)>, from: usize, to: usize, count: i128) {
    for (shape, amount) in [(from, -count), (to, count)] {
        match parts.binary_search_by_key(&shape, |part| part.0) {
            Ok(at) => parts[at].1 += amount,
            Err(at) => parts.insert(at, (shape, amount)),
        }
    }
    parts.retain(|part| part.1 != 0);
}

/// One GPU of the group goes from one shape to another.
#[derive(Debug, Clone, Copy)]
struct Exchange {
    loss: i128,
    group: usize,
    from: usize,
    to: usize,
}

/// Meets the rows by exchanges. `None` when no path was found.
pub(super) fn repair(table: &Table, losses: &Losses, mut choice: Choice) -> Result<Option<Choice>, TooLarge> {
    // Each try may leave the rows off in another way; the last must meet them.
    for _ in 0..TRIES {
        let rest = residual(table, &choice)?;
        if rest.iter().all(|r| *r == 0) {
            return Ok(Some(choice));
        }
        if rest.iter().map(|r| r.abs()).sum::<i128>() > FARTHEST {
            return Ok(None);
        }
        let exchanges = exchanges(table, losses, &choice);
        let cheap = path(&exchanges, &rest, false)?;
        let found = if cheap.is_some() { cheap } else { path(&exchanges, &rest, true)? };
        let Some(found) = found else { return Ok(None) };
        for exchange in found {
            // A GPU that the path wants twice is not there the second time; the next try sees what is left to do.
            let parts = &mut choice[exchange.group];
            if parts.iter().any(|part| part.0 == exchange.from) {
                shift(parts, exchange.from, exchange.to, 1);
            }
        }
    }
    let rest = residual(table, &choice)?;
    Ok(rest.iter().all(|r| *r == 0).then_some(choice))
}

/// For each difference that one GPU can make, the exchange that makes it at the least loss.
fn exchanges(table: &Table, losses: &Losses, choice: &Choice) -> BTreeMap<Vec<i128>, Exchange> {
    let shapes = table.shapes();
    let mut by_pair: Vec<Option<(i128, usize)>> = vec![None; shapes * shapes];
    for (group, parts) in choice.iter().enumerate() {
        let of = losses.of(group);
        for &(from, _) in parts {
            let Some(now) = of[from] else { continue };
            for (to, loss) in of.iter().enumerate() {
                let Some(loss) = loss else { continue };
                let known = &mut by_pair[from * shapes + to];
                if from != to && known.is_none_or(|(least, _)| loss - now < least) {
                    *known = Some((loss - now, group));
                }
            }
        }
    }
    let mut found: BTreeMap<Vec<i128>, Exchange> = BTreeMap::new();
    for (pair, best) in by_pair.into_iter().enumerate() {
        let Some((loss, group)) = best else { continue };
        let (from, to) = (pair / shapes, pair % shapes);
        let difference =
            table.holds[to].iter().zip(&table.holds[from]).map(|(to, from)| to - from).collect::<Vec<_>>();
        let exchange = Exchange { loss, group, from, to };
        let known = found.entry(difference).or_insert(exchange);
        if loss < known.loss {
            *known = exchange;
        }
    }
    found
}

struct Node {
    rest: Vec<i128>,
    loss: i128,
    from: Option<(usize, usize)>,
    settled: bool,
}

/// Dijkstra from what the rows lack to nothing. `nearest`: the nearest to nothing first, whatever it loses.
fn path(
    exchanges: &BTreeMap<Vec<i128>, Exchange>,
    rest: &[i128],
    nearest: bool,
) -> Result<Option<Vec<Exchange>>, TooLarge> {
    let moves = exchanges.iter().collect::<Vec<_>>();
    let far = |rest: &[i128]| rest.iter().map(|r| r.abs()).sum::<i128>();
    let limit = far(rest) + DETOUR;
    let key = |loss: i128, far: i128| if nearest { (far, loss) } else { (loss, far) };
    let mut nodes = vec![Node { rest: rest.to_vec(), loss: 0, from: None, settled: false }];
    let mut known = BTreeMap::from([(rest.to_vec(), 0usize)]);
    let mut queue = BinaryHeap::from([Reverse((key(0, far(rest)), 0usize))]);
    let mut looks = 0;
    while let Some(Reverse((_, at))) = queue.pop() {
        if std::mem::replace(&mut nodes[at].settled, true) {
            continue;
        }
        if nodes[at].rest.iter().all(|r| *r == 0) {
            let mut path = Vec::new();
            let mut at = at;
            while let Some((before, index)) = nodes[at].from {
                path.push(*moves[index].1);
                at = before;
            }
            return Ok(Some(path));
        }
        for (index, (difference, exchange)) in moves.iter().enumerate() {
            looks += 1;
            if looks > MOST_LOOKS {
                return Ok(None);
            }
            let next = nodes[at].rest.iter().zip(*difference).map(|(r, d)| r - d).collect::<Vec<_>>();
            let distance = far(&next);
            if distance > limit {
                continue;
            }
            // A gain on the way would let a path turn in circles; the fractional optimum leaves none worth it.
            let loss = add(nodes[at].loss, exchange.loss.max(0))?;
            let id = *known.entry(next).or_insert_with_key(|next| {
                nodes.push(Node { rest: next.clone(), loss: i128::MAX, from: None, settled: false });
                nodes.len() - 1
            });
            if loss < nodes[id].loss && !nodes[id].settled {
                nodes[id].loss = loss;
                nodes[id].from = Some((at, index));
                queue.push(Reverse((key(loss, distance), id)));
            }
        }
    }
    Ok(None)
}
