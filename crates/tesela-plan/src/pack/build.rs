//! From amounts of columns to layouts, and from dual prices to a certificate.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use tesela_model::layout::Layout;
use tesela_model::product::{Product, ProfileName};

use super::program::{self, Program, Row, SupplyKind};
use super::simplex::{Vertex, add, dot, mul, sub};
use super::{
    Added, Certificate, Filled, LimitValue, Offset, PackError, Packing, Problem, Proof, Source, TooLarge,
    Unplaced,
};
use crate::layouts::{Arranger, LayoutsError};

/// What the dual prices prove, in cost units.
pub(super) struct Prices {
    /// Σ price × demand − Σ count × value, over the vertex's denominator: the fractional optimum.
    pub(super) objective: i128,
    /// The same as a whole cost, rounded up.
    pub(super) bound: i128,
    scale: i128,
    prices: Vec<i128>,
    values: Vec<i128>,
}

/// Reads the bound off the dual prices. The values are taken anew from the columns, not from the basis.
pub(super) fn prove(program: &Program, vertex: &Vertex) -> Result<Prices, TooLarge> {
    let mut values = vec![0; program.supplies.len()];
    for column in &program.columns {
        let worth = sub(dot(&vertex.prices, &column.holds)?, mul(vertex.den, column.cost)?)?;
        if let Some(supply) = column.supply {
            values[supply] = values[supply].max(worth);
        } else if worth > 0 {
            // An optimal vertex prices no column above its cost; this stands for "cannot happen".
            return Err(TooLarge);
        }
    }
    let mut objective = dot(&vertex.prices, &program.demand)?;
    for (supply, value) in program.supplies.iter().zip(&values) {
        objective = sub(objective, mul(supply.count, *value)?)?;
    }
    let bound = objective / vertex.den + i128::from(objective % vertex.den > 0);
    let common = vertex.prices.iter().chain(&values).fold(vertex.den, |g, v| program::gcd(g, *v));
    Ok(Prices {
        objective,
        bound,
        scale: vertex.den / common,
        prices: vertex.prices.iter().map(|p| p / common).collect(),
        values: values.iter().map(|v| v / common).collect(),
    })
}

impl Prices {
    /// In the caller's costs: prices times the cost unit, over the same scale.
    fn certificate(
        &self,
        problem: &Problem<'_>,
        rows: &[Row],
        program: &Program,
    ) -> Result<Certificate, TooLarge> {
        let common = program::gcd(self.scale, program.unit);
        let (scale, factor) = (self.scale / common, program.unit / common);
        let large = |value: i128| u128::try_from(mul(value, factor)?).map_err(|_| TooLarge);
        let mut prices = BTreeMap::new();
        for (row, &price) in rows.iter().zip(&self.prices) {
            for &class in &row.members {
                prices.insert(problem.classes[class].name.clone(), large(price)?);
            }
        }
        let mut offsets = Vec::new();
        let mut limits = Vec::new();
        for (supply, &value) in program.supplies.iter().zip(&self.values) {
            if value == 0 {
                continue;
            }
            match &supply.kind {
                SupplyKind::Offer(offer) => {
                    let limit = problem.offers[*offer].limit.unwrap_or(u64::MAX);
                    limits.push(LimitValue { offer: *offer, limit, value: large(value)? });
                }
                SupplyKind::Partial(members) => {
                    for &member in members {
                        let partial = &problem.partial[member];
                        offsets.push(Offset {
                            product: partial.product.id.clone(),
                            state: partial.layout.instances().to_vec(),
                            count: partial.count,
                            value: large(value)?,
                        });
                    }
                }
            }
        }
        offsets.sort_by(|a, b| (&a.product, &a.state, a.count).cmp(&(&b.product, &b.state, b.count)));
        let unplaced_cost = match program.penalty {
            0 => None,
            penalty => Some(u128::try_from(mul(penalty, program.unit)?).map_err(|_| TooLarge)?),
        };
        Ok(Certificate {
            scale: u128::try_from(scale).map_err(|_| TooLarge)?,
            prices,
            offsets,
            limits,
            cost_unit: u64::try_from(program.unit).map_err(|_| TooLarge)?,
            unplaced_cost,
        })
    }
}

/// So many GPUs of one kind that hold the same.
#[derive(Debug, Clone)]
struct Use {
    source: program::Source,
    holds: Vec<i128>,
    count: i128,
}

/// Turns amounts of columns into layouts of GPUs.
pub(super) fn packing(
    problem: &Problem<'_>,
    rows: &[Row],
    program: &Program,
    prices: &Prices,
    uses: &BTreeMap<usize, i128>,
    search_bound: i128,
) -> Result<Packing, PackError> {
    let mut entries = Vec::new();
    for (&column, &count) in uses {
        let column = &program.columns[column];
        if count > 0 && column.source != program::Source::Slack {
            entries.push(Use { source: column.source, holds: column.holds.clone(), count });
        }
    }
    let entries = without_surplus(program, entries)?;
    let mut left = rows.iter().map(|row| pools(problem, row)).collect::<Vec<_>>();
    let mut unplaced: BTreeMap<usize, i128> = BTreeMap::new();
    let mut supplies = program.supplies.iter().map(|s| members(problem, &s.kind)).collect::<Vec<_>>();
    let mut shapes: BTreeMap<(Source, Vec<(usize, u8)>), i128> = BTreeMap::new();
    for entry in entries {
        for (classes, count) in by_class(&entry, &mut left)? {
            match entry.source {
                program::Source::Unplaced => {
                    for (class, amount) in classes {
                        *unplaced.entry(class).or_insert(0) += count * i128::from(amount);
                    }
                }
                program::Source::Offer(offer) => {
                    *shapes.entry((Source::Offer(offer), classes)).or_insert(0) += count;
                }
                program::Source::Group(supply) => {
                    for (partial, count) in draw(&mut supplies[supply], count) {
                        *shapes.entry((Source::Partial(partial), classes.clone())).or_insert(0) += count;
                    }
                }
                program::Source::Slack => {}
            }
        }
    }
    let filled = place(problem, shapes)?;
    finish(problem, rows, program, prices, search_bound, filled, &unplaced)
}

/// Takes what is placed beyond the demand away again, from as few GPUs as can be.
fn without_surplus(program: &Program, mut entries: Vec<Use>) -> Result<Vec<Use>, TooLarge> {
    let mut surplus = program.demand.iter().map(|d| -d).collect::<Vec<_>>();
    for entry in &entries {
        for (sum, held) in surplus.iter_mut().zip(&entry.holds) {
            *sum = add(*sum, mul(entry.count, *held)?)?;
        }
    }
    while surplus.iter().any(|s| *s > 0) {
        let removable = |e: &Use| {
            e.holds.iter().zip(&surplus).map(|(held, over)| (*held).min(*over).max(0)).collect::<Vec<_>>()
        };
        let rank = |e: &Use| {
            let removed = removable(e);
            let empties = removed == e.holds;
            (e.source == program::Source::Unplaced && empties, empties, removed.iter().sum::<i128>())
        };
        // The last of equal ones; there is one, since what is over was placed by some entry.
        let Some(at) = (0..entries.len()).max_by_key(|&at| rank(&entries[at])) else {
            return Err(TooLarge);
        };
        let removed = removable(&entries[at]);
        let most = removed.iter().zip(&surplus).filter(|(r, _)| **r > 0).map(|(r, s)| s / r).min();
        let Some(count) = most.map(|m| m.min(entries[at].count)) else {
            return Err(TooLarge);
        };
        for (over, taken) in surplus.iter_mut().zip(&removed) {
            *over -= taken * count;
        }
        let holds = entries[at].holds.iter().zip(&removed).map(|(h, r)| h - r).collect::<Vec<_>>();
        let source = entries[at].source;
        entries[at].count -= count;
        if entries[at].count == 0 {
            entries.remove(at);
        }
        if holds.iter().any(|h| *h > 0) {
            entries.push(Use { source, holds, count });
        }
    }
    Ok(entries)
}

/// Classes of a row with what each still wants.
fn pools(problem: &Problem<'_>, row: &Row) -> Vec<(usize, i128)> {
    row.members.iter().map(|&class| (class, i128::from(problem.classes[class].count))).collect()
}

fn members(problem: &Problem<'_>, kind: &SupplyKind) -> Vec<(usize, i128)> {
    match kind {
        SupplyKind::Offer(_) => Vec::new(),
        SupplyKind::Partial(members) => {
            members.iter().map(|&p| (p, i128::from(problem.partial[p].count))).collect()
        }
    }
}

/// Draws `count` from the front of a list of (index, how many).
fn draw(from: &mut Vec<(usize, i128)>, count: i128) -> Vec<(usize, i128)> {
    let mut drawn = Vec::new();
    let mut wanted = count;
    while wanted > 0 && !from.is_empty() {
        let taken = from[0].1.min(wanted);
        drawn.push((from[0].0, taken));
        wanted -= taken;
        from[0].1 -= taken;
        if from[0].1 == 0 {
            from.remove(0);
        }
    }
    drawn
}

type ByClass = (Vec<(usize, u8)>, i128);

/// Splits an entry so that each GPU's instances are given to classes, in the order of the rows' members.
fn by_class(entry: &Use, left: &mut [Vec<(usize, i128)>]) -> Result<Vec<ByClass>, TooLarge> {
    let mut parts = Vec::new();
    let mut rest = entry.count;
    while rest > 0 {
        // As many GPUs as the class at the front of every row can fill alone; else one GPU of several classes.
        let mut count = rest;
        for (pool, &held) in left.iter().zip(&entry.holds).filter(|(_, held)| **held > 0) {
            count = count.min(pool.first().map_or(0, |front| front.1 / held)).max(1);
        }
        let mut classes = Vec::new();
        for (pool, &held) in left.iter_mut().zip(&entry.holds).filter(|(_, held)| **held > 0) {
            for (class, amount) in draw(pool, held * count) {
                let each = if count == 1 { amount } else { held };
                classes.push((class, u8::try_from(each).map_err(|_| TooLarge)?));
            }
        }
        classes.sort_unstable();
        parts.push((classes, count));
        rest -= count;
    }
    Ok(parts)
}

/// Finds starts for every shape, and merges GPUs that come out the same.
fn place(
    problem: &Problem<'_>,
    shapes: BTreeMap<(Source, Vec<(usize, u8)>), i128>,
) -> Result<Vec<Filled>, PackError> {
    let mut known = BTreeMap::new();
    let mut filled = Vec::new();
    for ((source, classes), count) in shapes {
        let (product, state) = match source {
            Source::Offer(offer) => {
                (problem.offers[offer].product, Layout::empty(problem.offers[offer].product))
            }
            Source::Partial(partial) => {
                (problem.partial[partial].product, problem.partial[partial].layout.clone())
            }
        };
        let (names, arranger) = match known.entry(product.id.as_str()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(free) => {
                let names = profile_names(problem, product)?;
                let arranger = Arranger::new(product, &names)?;
                free.insert((names, arranger))
            }
        };
        let wanted = classes.iter().map(|&(class, amount)| {
            let name = problem.classes[class].profiles.get(&product.id);
            let name = name.and_then(|n| product.profile(n.as_str()).ok()).map(|p| &p.name);
            (class, names.iter().position(|n| Some(n) == name).unwrap_or(0), amount)
        });
        let wanted = wanted.collect::<Vec<_>>();
        let mut counts = vec![0u8; names.len()];
        for &(_, index, amount) in &wanted {
            counts[index] += amount;
        }
        let layout = arranger.arrange(product, &state, &counts)?.ok_or(TooLarge)?;
        let mut added = Vec::new();
        let mut free =
            layout.instances().iter().filter(|i| !state.instances().contains(i)).collect::<Vec<_>>();
        for (class, index, amount) in wanted {
            for _ in 0..amount {
                if let Some(at) = free.iter().position(|i| i.profile == names[index]) {
                    added.push(Added { class, instance: free.remove(at).clone() });
                }
            }
        }
        added.sort_by_key(|a| (a.instance.start, a.class));
        let count = u64::try_from(count).map_err(|_| TooLarge)?;
        filled.push(Filled { source, layout, added, count });
    }
    filled.sort_by(|a, b| (a.source, &a.layout, &a.added).cmp(&(b.source, &b.layout, &b.added)));
    Ok(filled)
}

/// The profiles that classes take on a product, each once, in order.
fn profile_names(problem: &Problem<'_>, product: &Product) -> Result<Vec<ProfileName>, PackError> {
    let mut names = Vec::new();
    for name in problem.classes.iter().filter_map(|c| c.profiles.get(&product.id)) {
        names.push(product.profile(name.as_str()).map_err(LayoutsError::from)?.name.clone());
    }
    names.sort();
    names.dedup();
    Ok(names)
}

fn finish(
    problem: &Problem<'_>,
    rows: &[Row],
    program: &Program,
    prices: &Prices,
    search_bound: i128,
    filled: Vec<Filled>,
    unplaced: &BTreeMap<usize, i128>,
) -> Result<Packing, PackError> {
    let small = |value: i128| u64::try_from(value).map_err(|_| TooLarge);
    let (mut gpus, mut cost, mut slices, mut units) = (0i128, 0i128, 0i128, 0i128);
    for entry in &filled {
        let count = i128::from(entry.count);
        let product = match entry.source {
            Source::Partial(partial) => problem.partial[partial].product,
            Source::Offer(offer) => {
                gpus = add(gpus, count)?;
                cost = add(cost, mul(count, i128::from(problem.offers[offer].cost))?)?;
                problem.offers[offer].product
            }
        };
        slices = add(slices, mul(count, i128::from(entry.layout.free_slices(product)))?)?;
        units = add(units, mul(count, i128::from(entry.layout.free_units(product)))?)?;
    }
    let missing = unplaced.values().try_fold(0, |sum, n| add(sum, *n))?;
    // The bound counts unplaced instances at the penalty; what is left of it bounds the cost.
    let penalty = mul(missing, program.penalty)?;
    let lower = mul((prices.bound - penalty).max(0), program.unit)?;
    let searched = mul((search_bound - penalty).max(0), program.unit)?;
    let whole = add(mul(penalty, program.unit)?, cost)?;
    let proof = if whole == mul(prices.bound, program.unit)? {
        Proof::Certificate
    } else if whole == mul(search_bound, program.unit)? {
        Proof::Search
    } else {
        Proof::None
    };
    Ok(Packing {
        gpus: small(gpus)?,
        cost: small(cost)?,
        lower_bound: small(lower)?,
        search_bound: small(searched.max(lower).min(cost))?,
        proven_optimal: proof == Proof::Certificate,
        proof,
        certificate: prices.certificate(problem, rows, program)?,
        filled,
        unplaced: unplaced
            .iter()
            .map(|(&class, &count)| Ok(Unplaced { class, count: small(count)? }))
            .collect::<Result<_, TooLarge>>()?,
        wasted_compute_slices: small(slices)?,
        wasted_memory_units: small(units)?,
    })
}
