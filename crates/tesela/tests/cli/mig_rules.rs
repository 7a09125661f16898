//! MIG's placement rules, derived again from the profile table for the checks of this folder. Knows nothing of the
//! solver: it reads JSON and the table.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tesela_model::product::{Product, ProductTable, Profile};

/// The product with this id.
pub(crate) fn product(id: &str) -> &'static Product {
    ProductTable::builtin().find(id).unwrap()
}

fn profile<'a>(product: &'a Product, name: &str) -> Option<&'a Profile> {
    product.profiles.iter().find(|p| p.name.as_str() == name && !p.placements.is_empty())
}

/// (profile, start) of each instance of a layout in JSON.
pub(crate) fn placed(layout: &Value) -> Vec<(String, u32)> {
    let instance = |i: &Value| {
        let start = u32::try_from(i["start"].as_u64().unwrap()).unwrap();
        (i["profile"].as_str().unwrap().to_owned(), start)
    };
    layout["instances"].as_array().unwrap().iter().map(instance).collect()
}

/// Why instances cannot be on one GPU together, or `None`.
pub(crate) fn fault(product: &Product, instances: &[(String, u32)]) -> Option<String> {
    let mut taken = BTreeSet::new();
    let mut slices = 0;
    let mut count = BTreeMap::<&str, u32>::new();
    for (name, start) in instances {
        let Some(p) = profile(product, name) else { return Some(format!("no profile {name}")) };
        let Some(place) = p.placements.iter().find(|place| place.start == *start) else {
            return Some(format!("{name} cannot start at {start}"));
        };
        for unit in place.start..place.start + place.size {
            if !taken.insert(unit) {
                return Some(format!("unit {unit} is taken twice"));
            }
        }
        slices += p.compute_slices;
        let number = count.entry(name).or_default();
        *number += 1;
        if p.max_instances.is_some_and(|max| *number > max) {
            return Some(format!("{number} of {name}"));
        }
    }
    (slices > product.compute_slices).then(|| format!("{slices} compute slices"))
}

/// Every multiset of these profiles that fits one GPU, as counts in the order of the names.
pub(crate) fn geometries(product: &Product, names: &[String]) -> BTreeSet<Vec<u64>> {
    let options = names.iter().flat_map(|name| {
        let places = profile(product, name).map(|p| p.placements.clone()).unwrap_or_default();
        places.into_iter().map(|place| (name.clone(), place.start))
    });
    let options = options.collect::<Vec<_>>();
    let mut found = BTreeSet::new();
    let mut stack = vec![(0, Vec::<(String, u32)>::new())];
    while let Some((next, layout)) = stack.pop() {
        let counts = names.iter().map(|n| layout.iter().filter(|(name, _)| name == n).count() as u64);
        found.insert(counts.collect());
        for (index, option) in options.iter().enumerate().skip(next) {
            let mut grown = layout.clone();
            grown.push(option.clone());
            if fault(product, &grown).is_none() {
                stack.push((index + 1, grown));
            }
        }
    }
    found
}

/// The lower bound that a certificate proves for a demand; an error where its prices prove nothing.
pub(crate) fn bound(
    product: &Product,
    demand: &BTreeMap<String, u64>,
    certificate: &Value,
) -> Result<u128, String> {
    let scale = u128::from(certificate["scale"].as_u64().ok_or("scale is no integer")?);
    let prices = certificate["prices"].as_object().ok_or("no prices")?;
    if scale == 0 || prices.keys().any(|name| !demand.contains_key(name)) {
        return Err("scale 0, or a price for a profile that nobody asked for".into());
    }
    let names = demand.keys().cloned().collect::<Vec<_>>();
    let price = |name: &String| prices.get(name).map_or(Some(0), Value::as_u64).map(u128::from);
    let price = names.iter().map(price).collect::<Option<Vec<_>>>().ok_or("a price is no integer")?;
    let sum = |counts: &mut dyn Iterator<Item = u64>| -> u128 {
        counts.zip(&price).map(|(n, p)| u128::from(n) * p).sum()
    };
    for geometry in geometries(product, &names) {
        if sum(&mut geometry.iter().copied()) > scale {
            return Err(format!("{geometry:?} of {names:?} costs more than {scale}"));
        }
    }
    Ok(sum(&mut demand.values().copied()).div_ceil(scale))
}
