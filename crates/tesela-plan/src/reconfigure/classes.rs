//! The fractional optimum of many groups. At given prices of the rows a group loses so much by each shape; groups that
//! lose the same by the shapes worth looking at are one *class*, whatever they hold. There are few classes, so the
//! exact simplex takes all the GPUs at once. Its prices say which other shapes are worth looking at, until none is.

use std::collections::{BTreeMap, BTreeSet};

use super::exchange::{Choice, shift};
use super::relax::{self, Column, Part, Vertex};
use super::sift::Off;
use super::table::{Cost, Table};
use crate::pack::TooLarge;
use crate::pack::simplex::{add, dot, mul, sub};

/// How much is looked at; whatever it is, the prices prove a bound.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    /// Groups in the sample that the first prices come from.
    sample: usize,
    /// Classes up to which more shapes are looked at.
    classes: usize,
    /// Shapes that are looked at anew in one round.
    opened: usize,
    /// Rounds at most.
    rounds: usize,
}

/// For thousands of groups.
pub(super) const USUAL: Sizes = Sizes { sample: 300, classes: 400, opened: 1_000, rounds: 24 };

/// So little that a few dozen groups take every turn there is.
#[cfg(test)]
pub(super) const SMALL: Sizes = Sizes { sample: 4, classes: 5, opened: 3, rounds: 1_000 };

/// Groups and the cost of each shape, as one number.
pub(super) struct Lot<'a> {
    holds: &'a [Vec<i128>],
    wants: Vec<i128>,
    counts: Vec<i128>,
    /// By group, then shape; `None` where the shape may not be.
    costs: Vec<Option<i128>>,
}

/// Prices, and a choice that is near to the rows.
pub(super) struct Solution {
    pub(super) den: i128,
    pub(super) prices: Vec<i128>,
    pub(super) choice: Choice,
}

/// Stands for the loss by a shape that may not be.
const NEVER: i128 = i128::MAX;

/// By group, then shape.
type Flat<T> = Vec<T>;

/// Groups that lose the same by the shapes that are looked at.
struct Class {
    members: Vec<usize>,
    count: i128,
}

impl<'a> Lot<'a> {
    /// `cost` says what a shape of a group costs here; `None`: it may not be.
    pub(super) fn new(
        table: &'a Table,
        cost: impl Fn(usize, usize, Cost) -> Result<Option<i128>, TooLarge>,
    ) -> Result<Self, TooLarge> {
        let mut costs = Vec::with_capacity(table.groups() * table.shapes());
        for group in 0..table.groups() {
            for (shape, of) in table.costs(group).iter().enumerate() {
                costs.push(match of {
                    Some(of) => cost(group, shape, *of)?,
                    None => None,
                });
            }
        }
        let wants = table.rows.iter().map(|row| row.want).collect();
        Ok(Self { holds: &table.holds, wants, counts: table.counts.clone(), costs })
    }

    /// All of it, for the simplex.
    pub(super) fn part(self, keys: Vec<usize>, penalty: Option<i128>) -> Part<'a> {
        let Self { holds, wants, counts, costs } = self;
        Part { holds, counts, costs, keys, wants, penalty }
    }

    fn shapes(&self) -> usize {
        self.holds.len()
    }

    fn costs(&self, group: usize) -> &[Option<i128>] {
        &self.costs[group * self.shapes()..(group + 1) * self.shapes()]
    }

    /// Rows that parts of GPUs cannot meet, were all shapes that may be without cost.
    pub(super) fn off(&self) -> Result<Option<Off>, TooLarge> {
        let losses = self.costs.iter().map(|cost| if cost.is_some() { 0 } else { NEVER }).collect::<Vec<_>>();
        let kept = losses.iter().map(|loss| *loss == 0).collect::<Vec<_>>();
        let classes = self.classes(&losses, &kept);
        let vertex = self.over(&classes, &losses, &kept)?;
        let off = vertex.off();
        Ok((vertex.optimal && !off.is_empty()).then_some(off))
    }

    /// Finds prices and a choice.
    pub(super) fn solve(&self, sizes: Sizes) -> Result<Solution, TooLarge> {
        let sample = relax::solve(self.sample(sizes.sample))?;
        let (mut den, mut prices) = (sample.den, sample.prices);
        let mut losses = self.losses(den, &prices)?;
        let mut dual = self.dual(den, &prices)?;
        let mut kept = self.near(&losses, den, sizes.classes);
        let mut choice = Choice::new();
        for _ in 0..sizes.rounds {
            let classes = self.classes(&losses, &kept);
            let vertex = self.over(&classes, &losses, &kept)?;
            let met = vertex.off().is_empty();
            if met || choice.is_empty() {
                choice = self.spread(&classes, &vertex);
            }
            let next = self.losses(vertex.den, &vertex.prices)?;
            let mut opened = self.opened(&losses, &next, &kept);
            opened.truncate(sizes.opened);
            let this = self.dual(vertex.den, &vertex.prices)?;
            let better = mul(this, den)? > mul(dual, vertex.den)?;
            if better || opened.is_empty() {
                (den, prices, dual) = (vertex.den, vertex.prices, this);
            }
            if opened.is_empty() {
                break;
            }
            if better && met {
                kept = self.near(&next, den, sizes.classes);
                losses = next;
                for (group, parts) in choice.iter().enumerate() {
                    parts.iter().for_each(|(shape, _)| kept[group * self.shapes() + shape] = true);
                }
            } else {
                opened.into_iter().for_each(|at| kept[at] = true);
            }
        }
        Ok(Solution { den, prices, choice })
    }

    /// Every so-many-th group, with its part of what is wanted. What is off counts little, so that a sample that cannot
    /// hold its part gives prices that mean something.
    fn sample(&self, most: usize) -> Part<'a> {
        let every = self.counts.len().div_ceil(most).max(1);
        let groups = (0..self.counts.len()).step_by(every);
        let counts = groups.clone().map(|group| self.counts[group]).collect::<Vec<_>>();
        let costs = groups.clone().flat_map(|group| self.costs(group)).copied().collect::<Vec<_>>();
        let all = self.counts.iter().sum::<i128>().max(1);
        let here = counts.iter().sum::<i128>();
        let wants = self.wants.iter().map(|want| want * here / all).collect();
        let penalty = costs.iter().flatten().max().map(|most| most + 1);
        Part {
            holds: self.holds,
            counts,
            keys: groups.map(|g| cheapest(self.costs(g))).collect(),
            costs,
            wants,
            penalty,
        }
    }

    /// What each group loses by each shape, over `den`, beside the best for it.
    fn losses(&self, den: i128, prices: &[i128]) -> Result<Flat<i128>, TooLarge> {
        let worth = self.worth(prices)?;
        let mut losses = Vec::with_capacity(self.costs.len());
        for group in 0..self.counts.len() {
            let from = losses.len();
            let mut least = NEVER;
            for (cost, worth) in self.costs(group).iter().zip(&worth) {
                let loss = cost.map_or(Ok(NEVER), |cost| sub(mul(den, cost)?, *worth))?;
                least = least.min(loss);
                losses.push(loss);
            }
            losses[from..].iter_mut().filter(|loss| **loss != NEVER).for_each(|loss| *loss -= least);
        }
        Ok(losses)
    }

    fn worth(&self, prices: &[i128]) -> Result<Vec<i128>, TooLarge> {
        self.holds.iter().map(|holds| dot(prices, holds)).collect()
    }

    /// The bound that prices prove, over `den`.
    fn dual(&self, den: i128, prices: &[i128]) -> Result<i128, TooLarge> {
        let worth = self.worth(prices)?;
        let mut value = dot(prices, &self.wants)?;
        for (group, &count) in self.counts.iter().enumerate() {
            let mut least = None;
            for (cost, worth) in self.costs(group).iter().zip(&worth) {
                let Some(cost) = cost else { continue };
                let this = sub(mul(den, *cost)?, *worth)?;
                least = Some(least.map_or(this, |least: i128| least.min(this)));
            }
            value = add(value, mul(count, least.unwrap_or(0))?)?;
        }
        Ok(value)
    }

    /// Shapes with little loss: as much as leaves few classes.
    fn near(&self, losses: &[i128], den: i128, most: usize) -> Flat<bool> {
        let within = |limit: i128| losses.iter().map(|loss| *loss <= limit).collect::<Vec<_>>();
        for limit in [8 * den, 4 * den, 2 * den, den, den / 2, den / 4] {
            let kept = within(limit);
            let mut seen = BTreeSet::new();
            let few = (0..self.counts.len()).all(|group| {
                seen.insert(self.key(group, losses, &kept));
                seen.len() <= most
            });
            if few {
                return kept;
            }
        }
        within(0)
    }

    /// The shapes that are looked at, and what they lose.
    fn key(&self, group: usize, losses: &[i128], kept: &[bool]) -> Vec<(usize, i128)> {
        let from = group * self.shapes();
        let shapes = (0..self.shapes()).filter(|shape| kept[from + shape]);
        shapes.map(|shape| (shape, losses[from + shape])).collect()
    }

    fn classes(&self, losses: &[i128], kept: &[bool]) -> Vec<Class> {
        let mut classes: BTreeMap<Vec<(usize, i128)>, Class> = BTreeMap::new();
        for (group, &count) in self.counts.iter().enumerate() {
            let key = self.key(group, losses, kept);
            let class = classes.entry(key).or_insert(Class { members: Vec::new(), count: 0 });
            class.members.push(group);
            class.count += count;
        }
        classes.into_values().collect()
    }

    /// The simplex over classes. Members differ in what all their shapes cost, not in what one costs beside another, so
    /// the first stands for all.
    fn over(&self, classes: &[Class], losses: &[i128], kept: &[bool]) -> Result<Vertex, TooLarge> {
        let mut keys = Vec::with_capacity(classes.len());
        let mut costs = Vec::with_capacity(classes.len() * self.shapes());
        for class in classes {
            let from = class.members[0] * self.shapes();
            let here = from..from + self.shapes();
            keys.push(losses[here.clone()].iter().position(|loss| *loss == 0).ok_or(TooLarge)?);
            costs.extend(here.map(|at| self.costs[at].filter(|_| kept[at])));
        }
        let counts = classes.iter().map(|class| class.count).collect();
        relax::solve(Part {
            holds: self.holds,
            counts,
            costs,
            keys,
            wants: self.wants.clone(),
            penalty: None,
        })
    }

    /// Shapes not looked at that are better for their group than those that are, at the prices of `next`: those that
    /// lost least before come first.
    fn opened(&self, losses: &[i128], next: &[i128], kept: &[bool]) -> Vec<usize> {
        let mut opened = Vec::new();
        for group in 0..self.counts.len() {
            let here = group * self.shapes()..(group + 1) * self.shapes();
            if here.clone().any(|at| kept[at] && next[at] == 0) {
                continue;
            }
            opened.extend(here.filter(|&at| next[at] == 0));
        }
        opened.sort_by_key(|&at| (losses[at], at));
        opened
    }

    /// Gives the members of each class their shapes.
    fn spread(&self, classes: &[Class], vertex: &Vertex) -> Choice {
        let mut choice = vec![Vec::new(); self.counts.len()];
        let parts = whole(vertex, classes.iter().map(|class| class.count));
        for (class, parts) in classes.iter().zip(parts) {
            let mut members = class.members.iter().map(|&group| (group, self.counts[group]));
            let mut next = members.next();
            for (shape, mut count) in parts {
                while let Some((group, left)) = &mut next
                    && count > 0
                {
                    let taken = count.min(*left);
                    choice[*group].push((shape, taken));
                    count -= taken;
                    *left -= taken;
                    if *left == 0 {
                        next = members.next();
                    }
                }
            }
        }
        choice
    }
}

fn cheapest(costs: &[Option<i128>]) -> usize {
    let known = costs.iter().enumerate().filter_map(|(shape, cost)| cost.map(|cost| (cost, shape)));
    known.min().map_or(0, |(_, shape)| shape)
}

/// A vertex in whole GPUs, by group: parts of GPUs rounded down; what is left takes the key.
pub(super) fn whole(vertex: &Vertex, counts: impl Iterator<Item = i128>) -> Choice {
    let mut choice =
        vertex.keys.iter().zip(counts).map(|(&key, count)| vec![(key, count)]).collect::<Choice>();
    for (column, x) in vertex.work.iter().zip(&vertex.work_x) {
        let Column::Becomes { group, shape } = *column else { continue };
        let count = x / vertex.den;
        if count > 0 {
            shift(&mut choice[group], vertex.keys[group], shape, count);
        }
    }
    choice
}
