//! From prices to a bound: any prices prove one.

use super::relax::scalar;
use super::table::{Cost, Table};
use crate::pack::TooLarge;
use crate::pack::program::gcd;
use crate::pack::simplex::{add, dot, mul, sub};

/// A bound and the prices that prove it.
pub(super) struct Bound {
    /// Over `scale`, not rounded.
    pub(super) value: i128,
    pub(super) scale: i128,
    pub(super) prices: Vec<i128>,
}

impl Bound {
    /// Rounded up to a whole number, never negative.
    pub(super) fn rounded(&self) -> i128 {
        (self.value / self.scale + i128::from(self.value % self.scale > 0)).max(0)
    }
}

/// The bound on the weight disturbed.
pub(super) fn weight(table: &Table, scale: i128, prices: &[i128]) -> Result<Bound, TooLarge> {
    bound(table, scale, prices, &|cost| Ok(cost.weight))
}

/// The bound on weight and operations together.
pub(super) fn together(table: &Table, scale: i128, prices: &[i128], factor: i128) -> Result<Bound, TooLarge> {
    bound(table, scale, prices, &|cost| scalar(cost, factor))
}

fn bound(
    table: &Table,
    scale: i128,
    prices: &[i128],
    cost: &dyn Fn(Cost) -> Result<i128, TooLarge>,
) -> Result<Bound, TooLarge> {
    let common = prices.iter().fold(scale, |common, price| gcd(common, price.abs()));
    let scale = scale / common;
    let prices = prices.iter().map(|price| price / common).collect::<Vec<_>>();
    let worth = table.holds.iter().map(|holds| dot(&prices, holds)).collect::<Result<Vec<_>, _>>()?;
    let wants = table.rows.iter().map(|row| row.want).collect::<Vec<_>>();
    let mut value = dot(&prices, &wants)?;
    for group in 0..table.groups() {
        let mut least: Option<i128> = None;
        for (of, worth) in table.costs(group).iter().zip(&worth) {
            let Some(of) = of else { continue };
            let this = sub(mul(scale, cost(*of)?)?, *worth)?;
            least = Some(least.map_or(this, |least| least.min(this)));
        }
        value = add(value, mul(table.counts[group], least.unwrap_or(0))?)?;
    }
    Ok(Bound { value, scale, prices })
}
