//! What is known of the optimum: for few groups from one simplex, for many from classes of groups.

use super::classes::{self, Lot, Sizes};
use super::exchange::{self, Choice, Losses};
use super::prove::{self, Bound};
use super::relax;
use super::table::Table;
use crate::pack::TooLarge;
use crate::pack::program::gcd;
use crate::pack::simplex::{add, mul};

/// Groups that the simplex takes at once.
const FEW: usize = 400;

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

    /// Takes the better bound on the weight.
    fn learn(&mut self, bound: Result<Bound, TooLarge>) {
        // Prices beyond the arithmetic prove nothing; others may.
        if let Ok(bound) = bound
            && bound.rounded() > self.weight.rounded()
        {
            self.weight = bound;
        }
    }

    /// Makes a choice whole, and takes it when it costs less. Beside the prices.
    fn try_choice(&mut self, table: &Table, losses: &Losses, near: Choice) -> Result<(), TooLarge> {
        let Some(choice) = exchange::repair(table, losses, near)? else { return Ok(()) };
        let cost = exchange::cost(table, &choice, self.factor)?;
        if self.cost(table)?.is_none_or(|known| cost < known) {
            self.choice = Some(choice);
        }
        Ok(())
    }
}

/// Looks for the optimum. `start` holds a shape for each group, one of those that cost it least.
pub(super) fn sift(table: &Table, start: &[usize]) -> Result<Sifted, TooLarge> {
    let mut sifted = nothing(table)?;
    if table.groups() <= FEW {
        few(table, start, &mut sifted)?;
    } else {
        many(table, classes::USUAL, &mut sifted)?;
    }
    Ok(sifted)
}

fn nothing(table: &Table) -> Result<Sifted, TooLarge> {
    let none = || Bound { value: 0, scale: 1, prices: vec![0; table.rows.len()] };
    let factor = relax::factor(table)?;
    Ok(Sifted { factor, choice: None, weight: none(), together: none(), off: None })
}

/// One simplex over all groups, weight and operations as one number.
fn few(table: &Table, start: &[usize], sifted: &mut Sifted) -> Result<(), TooLarge> {
    let factor = sifted.factor;
    let lot = Lot::new(table, |_, _, cost| relax::scalar(cost, factor).map(Some))?;
    let vertex = relax::solve(lot.part(start.to_vec(), None))?;
    let off = vertex.off();
    if vertex.optimal && !off.is_empty() {
        sifted.off = Some(off);
        return Ok(());
    }
    let weight = |group: usize, shape: usize| table.costs(group)[shape].map_or(0, |cost| cost.weight);
    let prices = vertex.other_prices(vertex.penalty / factor, weight)?;
    sifted.learn(prove::weight(table, vertex.den, &prices));
    if let Some(scale) = vertex.den.checked_mul(factor) {
        sifted.learn(prove::weight(table, scale, &vertex.prices));
    }
    sifted.together = prove::together(table, vertex.den, &vertex.prices, factor)?;
    let losses = Losses::new(table, vertex.den, &vertex.prices, factor)?;
    let counts = table.counts.iter().copied();
    sifted.try_choice(table, &losses, classes::whole(&vertex, counts))
}

/// First the weight, then the operations among the shapes that the prices of the weight leave open.
fn many(table: &Table, sizes: Sizes, sifted: &mut Sifted) -> Result<(), TooLarge> {
    let factor = sifted.factor;
    if let Some(off) = Lot::new(table, |_, _, _| Ok(Some(0)))?.off()? {
        sifted.off = Some(off);
        return Ok(());
    }
    let first = Lot::new(table, |_, _, cost| Ok(Some(cost.weight)))?.solve(sizes)?;
    sifted.learn(prove::weight(table, first.den, &first.prices));
    let open = Losses::of_weight(table, first.den, &first.prices)?;
    let tied = |group: usize, shape: usize| open.of(group)[shape] == Some(0);
    let second = Lot::new(table, |group, shape, cost| Ok(tied(group, shape).then_some(cost.operations)))?
        .solve(sizes)?;
    // Weight first: its prices times the factor, then those of the operations, over one denominator.
    let common = gcd(first.den, second.den);
    let (by_first, by_second) = (second.den / common, first.den / common);
    let mut prices = Vec::with_capacity(first.prices.len());
    for (weight, operations) in first.prices.iter().zip(&second.prices) {
        let weight = mul(mul(*weight, factor)?, by_first)?;
        prices.push(add(weight, mul(*operations, by_second)?)?);
    }
    let den = mul(first.den, by_first)?;
    sifted.together = prove::together(table, den, &prices, factor)?;
    let losses = Losses::new(table, den, &prices, factor)?;
    sifted.try_choice(table, &losses, second.choice)?;
    if sifted.choice.is_none() {
        sifted.try_choice(table, &losses, first.choice)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use tesela_model::product::{ProductTable, ProfileName};

    use super::*;
    use crate::layouts::{default_profiles, layouts};
    use crate::reconfigure::group::groups;
    use crate::reconfigure::table::wanted;
    use crate::reconfigure::{Executor, Gpu, Held, Target, Usage};

    /// What one GPU holds, what it might hold in the end, and how each instance is used.
    type Drawn = (u16, u16, [u8; 8]);

    fn table(drawn: &[Drawn], more: u64) -> Table {
        let product = ProductTable::builtin().find("a100-40gb").unwrap();
        let all = layouts(product, &default_profiles(product)).unwrap().layouts;
        let mut wants: BTreeMap<ProfileName, u64> = BTreeMap::new();
        let mut gpus = Vec::new();
        for (index, (now, then, uses)) in drawn.iter().enumerate() {
            let here = all[usize::from(*now) % all.len()].instances().iter().zip(uses);
            let held = here.filter(|(_, kind)| **kind > 1).map(|(i, kind)| Held {
                profile: i.profile.clone(),
                start: i.start,
                usage: match kind {
                    2..=4 => Usage::Idle,
                    5 => Usage::Busy { weight: 1, pinned: true },
                    kind => Usage::Busy { weight: u64::from(kind - 5), pinned: false },
                },
            });
            let name = format!("{index:03}");
            gpus.push(Gpu { name, instances: held.collect(), executor: Executor::Native });
            for instance in all[usize::from(*then) % all.len()].instances() {
                *wants.entry(instance.profile.clone()).or_insert(0) += 1;
            }
        }
        *wants.entry(product.full_profile().unwrap().name.clone()).or_insert(0) += more;
        let groups = groups(product, &gpus).unwrap();
        let target = Target::Counts(wants);
        let wanted = wanted(product, &target, gpus.len()).unwrap();
        Table::new(product, &groups, &target, &wanted).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn classes_prove_what_one_simplex_proves(
            drawn in prop::collection::vec((any::<u16>(), any::<u16>(), prop::array::uniform8(0..9u8)), 6..40),
            more in 0..2u64,
        ) {
            let table = table(&drawn, more);
            let start = (0..table.groups()).map(|group| {
                let costs = table.costs(group).iter().enumerate();
                costs.filter_map(|(shape, cost)| cost.map(|cost| (cost, shape))).min().map(|(_, shape)| shape)
            });
            let Some(start) = start.collect::<Option<Vec<_>>>() else { return Ok(()) };
            let (mut one, mut other) = (nothing(&table).unwrap(), nothing(&table).unwrap());
            few(&table, &start, &mut one).unwrap();
            many(&table, classes::SMALL, &mut other).unwrap();
            prop_assert_eq!(one.off.is_some(), other.off.is_some());
            prop_assert_eq!(one.together.rounded(), other.together.rounded());
            prop_assert!(one.weight.rounded() <= other.weight.rounded());
            if let Some(cost) = other.cost(&table).unwrap() {
                prop_assert!(cost >= one.together.rounded());
            }
        }
    }
}
