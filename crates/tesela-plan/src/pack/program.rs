//! The packing problem as a covering program: rows are classes of demand, columns are what one GPU may hold.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::product::{Product, ProfileName};

use super::{PackError, Problem, TooLarge};
use crate::layouts::{LayoutsError, Room, Space, maximal};

/// Columns of one GPU before giving up: only many classes that share a profile here and not elsewhere come near.
const MOST_COLUMNS: usize = 100_000;

/// Where a column's GPU comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    /// A new GPU of this offer.
    Offer(usize),
    /// A partly filled GPU of this group of equal ones.
    Group(usize),
    /// No GPU: one instance of a class that stays unplaced.
    Unplaced,
    /// Nothing: the slack of a group, or more placed than asked.
    Slack,
}

/// One way to use one GPU.
#[derive(Debug, Clone)]
pub(super) struct Column {
    /// Instances per row.
    pub(super) holds: Vec<i128>,
    /// Cost, divided by [`Program::unit`].
    pub(super) cost: i128,
    /// The limited supply it draws on.
    pub(super) supply: Option<usize>,
    pub(super) source: Source,
}

/// Cover `demand` with columns at least cost; columns of one supply are used at most that many times together.
pub(super) struct Program {
    pub(super) demand: Vec<i128>,
    pub(super) columns: Vec<Column>,
    pub(super) supplies: Vec<Supply>,
    /// The column that covers a row alone, to start from.
    pub(super) start: Vec<usize>,
    /// Greatest common divisor of all costs.
    pub(super) unit: i128,
    /// What one unplaced instance counts, in units; more than any plan costs.
    pub(super) penalty: i128,
}

/// A limited number of equal GPUs.
pub(super) struct Supply {
    pub(super) count: i128,
    /// Its slack column.
    pub(super) slack: usize,
    pub(super) kind: SupplyKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SupplyKind {
    /// An offer with a limit.
    Offer(usize),
    /// Partly filled GPUs that can take the same things: indexes into [`Problem::partial`].
    Partial(Vec<usize>),
}

/// Classes that every offer and every partly filled GPU treats alike; rows of the program.
pub(super) struct Row {
    /// Indexes into [`Problem::classes`].
    pub(super) members: Vec<usize>,
    pub(super) demand: u128,
}

/// Merges classes without demand away and equal ones together, in an order that does not depend on the input's.
pub(super) fn rows(problem: &Problem<'_>) -> Vec<Row> {
    let offered = problem.offers.iter().map(|o| &o.product.id);
    let present = offered.chain(problem.partial.iter().map(|p| &p.product.id)).collect::<BTreeSet<_>>();
    let mut rows: BTreeMap<Vec<(&str, &str)>, Row> = BTreeMap::new();
    let mut order = (0..problem.classes.len()).collect::<Vec<_>>();
    order.sort_by_key(|&c| &problem.classes[c].name);
    for class in order {
        let wanted = &problem.classes[class];
        if wanted.count == 0 {
            continue;
        }
        let here = wanted.profiles.iter().filter(|(id, _)| present.contains(id));
        let key = here.map(|(id, name)| (id.as_str(), name.as_str())).collect();
        let row = rows.entry(key).or_insert_with(|| Row { members: Vec::new(), demand: 0 });
        row.members.push(class);
        row.demand += u128::from(wanted.count);
    }
    rows.into_values().collect()
}

/// The profiles a product takes for the demand, which rows take each, and the placement rules over them.
pub(super) struct Fit {
    /// Rows by profile, in the order of the space's items.
    rows: Vec<Vec<usize>>,
    space: Option<Space>,
}

pub(super) fn fit(problem: &Problem<'_>, rows: &[Row], product: &Product) -> Result<Fit, PackError> {
    let mut by_profile: BTreeMap<&ProfileName, Vec<usize>> = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        if let Some(name) = problem.classes[row.members[0]].profiles.get(&product.id) {
            let profile = product.profile(name.as_str()).map_err(LayoutsError::from)?;
            by_profile.entry(&profile.name).or_default().push(index);
        }
    }
    let names = by_profile.keys().map(|name| (*name).clone()).collect::<Vec<_>>();
    let space = if names.is_empty() { None } else { Some(Space::new(product, &names)?) };
    Ok(Fit { rows: by_profile.into_values().collect(), space })
}

/// The largest multisets that fit `room`, in rows: where several rows take one profile, every way to share it.
fn holds(fit: &Fit, space: &Space, room: &mut Room, rows: usize) -> Result<Vec<Vec<i128>>, PackError> {
    let mut found = Vec::new();
    for counts in maximal(&space.geometries(room)?) {
        share(fit, &counts, &mut vec![0; rows], &mut found)?;
    }
    found.sort_unstable();
    Ok(found)
}

fn share(fit: &Fit, counts: &[u8], now: &mut Vec<i128>, found: &mut Vec<Vec<i128>>) -> Result<(), PackError> {
    let Some((&count, later)) = counts.split_last() else {
        if found.len() >= MOST_COLUMNS {
            return Err(PackError::TooManyClasses { limit: MOST_COLUMNS });
        }
        found.push(now.clone());
        return Ok(());
    };
    share_one(fit, later, &fit.rows[later.len()], i128::from(count), now, found)
}

fn share_one(
    fit: &Fit,
    later: &[u8],
    rows: &[usize],
    count: i128,
    now: &mut Vec<i128>,
    found: &mut Vec<Vec<i128>>,
) -> Result<(), PackError> {
    let Some((&row, others)) = rows.split_first() else {
        return share(fit, later, now, found);
    };
    let least = if others.is_empty() { count } else { 0 };
    for part in least..=count {
        now[row] = part;
        share_one(fit, later, others, count - part, now, found)?;
    }
    now[row] = 0;
    Ok(())
}

/// Builds the program. `fits` holds one entry for each product, by id.
pub(super) fn build(
    problem: &Problem<'_>,
    rows: &[Row],
    fits: &BTreeMap<&str, Fit>,
) -> Result<Program, PackError> {
    let unit = problem.offers.iter().fold(0, |g, o| gcd(g, i128::from(o.cost))).max(1);
    let demand =
        rows.iter().map(|r| i128::try_from(r.demand).map_err(|_| TooLarge)).collect::<Result<_, _>>()?;
    let mut program =
        Program { demand, columns: Vec::new(), supplies: Vec::new(), start: Vec::new(), unit, penalty: 0 };
    let mut open: Vec<Option<(i128, usize)>> = vec![None; rows.len()];
    add_offers(problem, rows, fits, &mut program, &mut open)?;
    add_partial(problem, rows, fits, &mut program)?;
    program.penalty = penalty(problem, &program, &open)?;
    for (row, cheapest) in open.iter().enumerate() {
        let mut holds = vec![0; rows.len()];
        holds[row] = 1;
        let (cost, source) = match *cheapest {
            Some((cost, offer)) => (cost, Source::Offer(offer)),
            None => (program.penalty, Source::Unplaced),
        };
        program.start.push(program.columns.len());
        program.columns.push(Column { holds, cost, supply: None, source });
    }
    for row in 0..rows.len() {
        let mut holds = vec![0; rows.len()];
        holds[row] = -1;
        program.columns.push(Column { holds, cost: 0, supply: None, source: Source::Slack });
    }
    Ok(program)
}

fn add_offers(
    problem: &Problem<'_>,
    rows: &[Row],
    fits: &BTreeMap<&str, Fit>,
    program: &mut Program,
    open: &mut [Option<(i128, usize)>],
) -> Result<(), PackError> {
    let mut order = (0..problem.offers.len()).collect::<Vec<_>>();
    order.sort_by_key(|&o| (problem.offers[o].cost, &problem.offers[o].product.id, problem.offers[o].limit));
    for index in order {
        let offer = &problem.offers[index];
        let fit = &fits[offer.product.id.as_str()];
        let Some(space) = &fit.space else { continue };
        let cost = i128::from(offer.cost) / program.unit;
        let holds = holds(fit, space, &mut space.empty_room(), rows.len())?;
        match offer.limit {
            None => {
                for &row in fit.rows.iter().flatten() {
                    open[row] = open[row].or(Some((cost, index)));
                }
                program.push(holds, cost, None, Source::Offer(index));
            }
            Some(0) => {}
            Some(limit) => {
                let supply = program.supply(i128::from(limit), SupplyKind::Offer(index), rows.len());
                program.push(holds, cost, Some(supply), Source::Offer(index));
            }
        }
    }
    Ok(())
}

/// Partly filled GPUs whose free room takes the same multisets are one supply, whatever their product.
fn add_partial(
    problem: &Problem<'_>,
    rows: &[Row],
    fits: &BTreeMap<&str, Fit>,
    program: &mut Program,
) -> Result<(), PackError> {
    let mut by_room: BTreeMap<(&str, Room), Vec<usize>> = BTreeMap::new();
    for (index, partial) in problem.partial.iter().enumerate() {
        if partial.count == 0 {
            continue;
        }
        let id = partial.product.id.as_str();
        if let Some(space) = &fits[id].space {
            by_room.entry((id, space.room(partial.product, &partial.layout)?)).or_default().push(index);
        }
    }
    let mut alike: BTreeMap<Vec<Vec<i128>>, Vec<usize>> = BTreeMap::new();
    for ((id, mut room), members) in by_room {
        let fit = &fits[id];
        let Some(space) = &fit.space else { continue };
        let holds = holds(fit, space, &mut room, rows.len())?;
        if holds.iter().flatten().any(|n| *n > 0) {
            alike.entry(holds).or_default().extend(members);
        }
    }
    for (holds, mut members) in alike {
        members.sort_by_key(|&p| (&problem.partial[p].product.id, &problem.partial[p].layout));
        let count = members.iter().map(|&p| i128::from(problem.partial[p].count)).sum();
        let supply = program.supply(count, SupplyKind::Partial(members), rows.len());
        program.push(holds, 0, Some(supply), Source::Group(supply));
    }
    Ok(())
}

/// More than any plan can cost: every instance on a GPU of its own, every limited GPU used.
fn penalty(
    problem: &Problem<'_>,
    program: &Program,
    open: &[Option<(i128, usize)>],
) -> Result<i128, TooLarge> {
    if open.iter().all(Option::is_some) {
        return Ok(0);
    }
    let mut most = 1i128;
    for (row, cheapest) in open.iter().enumerate() {
        let cost = cheapest.map_or(0, |(cost, _)| cost);
        let all = program.demand[row].checked_mul(cost).ok_or(TooLarge)?;
        most = most.checked_add(all).ok_or(TooLarge)?;
    }
    for offer in problem.offers {
        // No more GPUs of a limited offer are used than there are instances to place.
        let instances =
            program.demand.iter().try_fold(0i128, |sum, d| sum.checked_add(*d)).ok_or(TooLarge)?;
        let used = instances.min(i128::from(offer.limit.unwrap_or(0)));
        let all = used.checked_mul(i128::from(offer.cost) / program.unit).ok_or(TooLarge)?;
        most = most.checked_add(all).ok_or(TooLarge)?;
    }
    Ok(most)
}

impl Program {
    fn supply(&mut self, count: i128, kind: SupplyKind, rows: usize) -> usize {
        let supply = self.supplies.len();
        self.supplies.push(Supply { count, slack: self.columns.len(), kind });
        self.columns.push(Column {
            holds: vec![0; rows],
            cost: 0,
            supply: Some(supply),
            source: Source::Slack,
        });
        supply
    }

    fn push(&mut self, holds: Vec<Vec<i128>>, cost: i128, supply: Option<usize>, source: Source) {
        let columns = holds.into_iter().map(|holds| Column { holds, cost, supply, source });
        self.columns.extend(columns);
    }
}

/// Greatest common divisor of numbers that are not negative.
pub(crate) fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
