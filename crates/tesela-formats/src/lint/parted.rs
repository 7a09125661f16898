//! What the profile table says about a mig-parted config.

use std::collections::BTreeSet;

use tesela_model::product::{Product, ProductTable, ProfileName};

use super::geometry::{Named, fits, most, named};
use crate::mig_parted::{Config, Count, DeviceFilter, Entry};
use crate::reading::{Effect, Note};

pub(super) fn check(notes: &mut Vec<Note>, config: &Config, table: &ProductTable) {
    for label in &config.labels {
        for entry in &label.entries {
            let kinds = kinds(notes, entry, table);
            let counts: Vec<&Count> =
                entry.mig_devices.iter().flatten().filter(|count| count.count.value > 0).collect();
            match kinds {
                Kinds::Any(products) => one_product_can(notes, &counts, &products),
                // Every kind that the filter names must be able to.
                Kinds::Filtered(products) => {
                    for product in products {
                        one_product_can(notes, &counts, &[product]);
                    }
                }
                Kinds::NotKnown => {}
            }
        }
    }
}

/// Which products an entry is for.
enum Kinds<'a> {
    Any(Vec<&'a Product>),
    Filtered(Vec<&'a Product>),
    NotKnown,
}

fn kinds<'a>(notes: &mut Vec<Note>, entry: &Entry, table: &'a ProductTable) -> Kinds<'a> {
    let filters: Vec<_> = entry.filter.iter().filter(|filter| !filter.value.is_empty()).collect();
    if filters.is_empty() {
        return Kinds::Any(table.products().iter().collect());
    }
    let mut products: Vec<&Product> = Vec::new();
    for filter in filters {
        let Some(id) = DeviceFilter::parse(&filter.value) else {
            continue;
        };
        let has = |product: &&Product| {
            product
                .pci_ids
                .iter()
                .filter_map(|text| DeviceFilter::parse(text))
                .any(|known| known.device == id.device)
        };
        let found: Vec<&Product> = table.products().iter().filter(has).collect();
        if found.is_empty() && id.vendor() == 0x10DE {
            let message = format!(
                "no product with the PCI id `{}` is known here, so the entry is not checked",
                filter.value
            );
            let fix = "compare it with `nvidia-smi --query-gpu=pci.device_id --format=csv`";
            notes.push(
                Note::new(filter.at, "filter-unknown", Effect::Note, message, fix).value(&filter.value),
            );
        }
        for product in found {
            if !products.iter().any(|known| known.id == product.id) {
                products.push(product);
            }
        }
    }
    if products.is_empty() { Kinds::NotKnown } else { Kinds::Filtered(products) }
}

/// Notes why none of the products can have these instances on one GPU; nothing when one can.
fn one_product_can(notes: &mut Vec<Note>, counts: &[&Count], products: &[&Product]) {
    let Some(first) = counts.first() else { return };
    let mut unknown = false;
    for count in counts {
        let name = &count.profile.value;
        let found: Vec<Named<'_>> = products.iter().filter_map(|product| named(product, name)).collect();
        if found.is_empty() {
            notes.push(unknown_profile(count, products));
            unknown = true;
        } else if found.iter().all(|named| matches!(named, Named::Alias(_))) {
            notes.push(alias(count, &found));
        }
    }
    if unknown {
        return;
    }
    let able: Vec<(&Product, Vec<(Named<'_>, u32)>)> = products
        .iter()
        .filter_map(|product| {
            let all = counts.iter().map(|c| Some((named(product, &c.profile.value)?, c.count.value)));
            Some((*product, all.collect::<Option<Vec<_>>>()?))
        })
        .collect();
    let at = first.profile.at;
    if able.is_empty() {
        let names: Vec<String> = counts.iter().map(|c| format!("`{}`", c.profile.value)).collect();
        let message = format!("no product has all of {}", names.join(", "));
        let fix = "give each kind of GPU an entry of its own with `device-filter`";
        notes.push(Note::new(at, "profiles-of-different-products", Effect::Inert, message, fix));
        return;
    }
    if able.iter().any(|(product, wanted)| fits(product, wanted)) {
        return;
    }
    notes.push(infeasible(counts, &able));
}

fn unknown_profile(count: &Count, products: &[&Product]) -> Note {
    let name = &count.profile.value;
    let known: BTreeSet<&ProfileName> =
        products.iter().flat_map(|product| &product.profiles).map(|profile| &profile.name).collect();
    let who = match products {
        [product] => product.title.clone(),
        _ => "any known product".to_owned(),
    };
    // The same slices with another memory, or the same memory with other slices, is what was meant.
    let like = |same: &dyn Fn(&ProfileName) -> bool| -> Vec<&str> {
        let kind = |one: &ProfileName| one.attribute() == name.attribute() && name.compute().is_none();
        known.iter().filter(|one| same(one) && kind(one)).map(|one| one.as_str()).collect()
    };
    let mut meant = like(&|one| one.slices() == name.slices());
    if meant.is_empty() {
        meant = like(&|one| one.gigabytes() == name.gigabytes());
    }
    let fix = match products {
        [_] if !meant.is_empty() => format!("write `{}`", meant.join("` or `")),
        _ if !meant.is_empty() => format!("profiles like it: {}", meant.join(", ")),
        _ => "`tesela layouts PRODUCT` lists what a product has".to_owned(),
    };
    let message = format!("`{name}` is no profile of {who}, so the label can never be applied");
    Note::new(count.profile.at, "profile-unknown", Effect::Inert, message, fix).value(name.as_str())
}

fn alias(count: &Count, found: &[Named<'_>]) -> Note {
    let name = &count.profile.value;
    let names: BTreeSet<&str> = found.iter().map(|named| named.profile().name.as_str()).collect();
    let now = names.into_iter().collect::<Vec<_>>().join("` or `");
    Note::new(
        count.profile.at,
        "profile-alias",
        Effect::Inert,
        format!("`{name}` is what older drivers called `{now}`: the name follows the memory that the driver reports"),
        format!("write `{now}`, or check with `nvidia-smi mig -lgip` on the node"),
    )
    .value(name.as_str())
}

fn infeasible(counts: &[&Count], able: &[(&Product, Vec<(Named<'_>, u32)>)]) -> Note {
    let list: Vec<String> =
        counts.iter().map(|count| format!("{}×{}", count.count.value, count.profile.value)).collect();
    let titles: Vec<&str> = able.iter().take(3).map(|(product, _)| product.title.as_str()).collect();
    let more = able.len().saturating_sub(titles.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let most_of = |index: usize| able.iter().map(|(product, wanted)| most(product, wanted[index].0)).max();
    let alone: Vec<String> = counts
        .iter()
        .enumerate()
        .map(|(index, count)| format!("{} of {}", most_of(index).unwrap_or(0), count.profile.value))
        .collect();
    let alone = alone.join(" or ");
    let fix = format!("alone at most {alone} fit; `tesela layouts PRODUCT` lists what fits together");
    // The profile whose count alone is already too much, else the first.
    let too_much = |(index, count): (usize, &&Count)| most_of(index) < Some(count.count.value);
    let culprit = (0..counts.len()).find(|index| too_much((*index, &counts[*index]))).unwrap_or(0);
    let at = counts[culprit].count.at;
    let message = format!("{} do not fit one GPU ({}{more})", list.join(" + "), titles.join(", "));
    Note::new(at, "counts-infeasible", Effect::Inert, message, fix)
        .value(counts[culprit].count.value.to_string())
}
