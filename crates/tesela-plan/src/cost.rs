//! What a plan costs, and what one way of sharing for all would.
//!
//! Integers only. A product without a price has none: nothing is made up, and a sum beyond 64 bits is a reason,
//! never a wrong figure.

mod alternatives;
mod stock;

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::fleet::Fleet;
use tesela_model::plan::{Cost, Headroom, PlannedNode};
use tesela_model::price::PriceBook;
use tesela_model::quantity::Micros;

pub use self::alternatives::alternatives;
use crate::input::PlanInput;

/// Why there is no cost without prices.
const NO_PRICES: &str = "no prices were given: add --price PRODUCT=AMOUNT/h or a PriceBook";

/// The keys `cost` and `cost_reason` of a plan: exactly one of them is there.
///
/// `hourly_micros` is the price of every GPU of the nodes that stay ([`kept`]).
#[must_use]
pub fn cost(
    input: &PlanInput<'_>,
    nodes: &[PlannedNode],
    headroom: &[Headroom],
    unseen: &BTreeSet<&str>,
) -> (Option<Cost>, Option<String>) {
    let Some(prices) = input.prices else {
        return (None, Some(NO_PRICES.to_owned()));
    };
    let products = kept(input.fleet, nodes, headroom, unseen)
        .into_iter()
        .flat_map(|node| &node.gpus)
        .map(|gpu| gpu.product.as_str());
    match hourly(prices, products) {
        Err(reason) => (None, Some(reason)),
        Ok(hourly_micros) => {
            let cost = Cost {
                currency: prices.currency.clone(),
                hourly_micros,
                source: prices.source.clone(),
                as_of: prices.as_of.clone(),
                gpu_hour: unit_prices(prices, nodes),
                alternatives: alternatives(input),
            };
            (Some(cost), None)
        }
    }
}

fn unit_prices(prices: &PriceBook, nodes: &[PlannedNode]) -> BTreeMap<String, Micros> {
    let products = nodes.iter().flat_map(|n| &n.gpus).map(|g| &g.product).collect::<BTreeSet<_>>();
    let price = |product: &String| Some((product.clone(), *prices.gpu_hour.get(product)?));
    products.into_iter().filter_map(price).collect()
}

/// The planned nodes that hold work or headroom, and those that cannot be planned with (MIG INVALID, vGPU): nobody
/// knows whether their work could go elsewhere, so they stay and are paid for. So do those in `unseen`, where pods
/// go on that hold something which no planned GPU shows. The others can be given back.
#[must_use]
pub fn kept<'a>(
    fleet: &Fleet,
    nodes: &'a [PlannedNode],
    headroom: &[Headroom],
    unseen: &BTreeSet<&str>,
) -> Vec<&'a PlannedNode> {
    let mut stay = headroom.iter().flat_map(|h| h.nodes.iter().map(String::as_str)).collect::<BTreeSet<_>>();
    stay.extend(unseen);
    stay.extend(fleet.nodes.iter().filter(|n| n.unusable.is_some()).map(|n| n.name.as_str()));
    let works = |node: &PlannedNode| {
        node.gpus.iter().any(|gpu| {
            let users = gpu.used_by.iter().chain(gpu.instances.iter().flat_map(|i| &i.used_by));
            users.map(|user| user.pods).sum::<u64>() > 0
        })
    };
    let stays = |node: &PlannedNode| node.name.as_deref().is_some_and(|name| stay.contains(name));
    nodes.iter().filter(|node| works(node) || stays(node)).collect()
}

/// The price of one hour of GPUs given by product.
///
/// # Errors
/// A sentence that names the products without a price, or says that the sum is beyond 64 bits.
pub fn hourly<'a>(prices: &PriceBook, products: impl IntoIterator<Item = &'a str>) -> Result<Micros, String> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for product in products {
        *counts.entry(product).or_insert(0) += 1;
    }
    let missing = counts.keys().filter(|p| !prices.gpu_hour.contains_key(**p)).copied().collect::<Vec<_>>();
    if let Some(first) = missing.first() {
        return Err(format!(
            "{} has no price for {}: add --price {first}=AMOUNT/h or an entry in the PriceBook",
            prices.source,
            missing.join(", "),
        ));
    }
    let priced = |(product, count): (&&str, &u64)| prices.gpu_hour.get(*product)?.times(*count);
    let sum = counts.iter().try_fold(Micros(0), |sum, entry| sum.plus(priced(entry)?));
    sum.ok_or_else(|| "the cost per hour is beyond 64 bits of millionths: check the prices".to_owned())
}
