//! `tesela pack`: profiles onto the fewest GPUs of one product, with a certificate.

use std::collections::BTreeMap;

use serde::Serialize;
use tesela_model::layout::Instance;
use tesela_model::product::{Product, ProductId, ProductTable, ProfileName};
use tesela_plan::pack::{Packing, pack_product};

use super::layouts::find;
use crate::cli::Pack;
use crate::failure::{Failure, Outcome};
use crate::printer::Printer;
use crate::table;

/// The result as DESIGN 9 fixes it.
#[derive(Serialize)]
struct Answer<'a> {
    product: &'a ProductId,
    gpus: u64,
    lower_bound: u64,
    proven_optimal: bool,
    certificate: Prices<'a>,
    layouts: Vec<Counted<'a>>,
    wasted_compute_slices: u64,
    wasted_memory_units: u64,
}

#[derive(Serialize)]
struct Prices<'a> {
    scale: u128,
    prices: &'a BTreeMap<String, u128>,
}

#[derive(Serialize)]
struct Counted<'a> {
    instances: &'a [Instance],
    count: u64,
}

/// Packs, and prints the packing with its proof.
///
/// # Errors
/// Product, profile or count not usable, numbers beyond the arithmetic, output not writable.
pub(crate) fn run(words: &Pack, products: &ProductTable, printer: &Printer) -> Result<Outcome, Failure> {
    let product = find(products, &words.product)?;
    let demand = counts(product, "--profiles", &words.profiles)?;
    let packing = pack_product(product, &demand).map_err(|error| Failure::input(error.to_string()))?;
    let answer = answer(product, &packing);
    printer.result(&answer, |page| table::pack::put(page, product, &demand, &packing))?;
    Ok(Outcome::Done)
}

fn answer<'a>(product: &'a Product, packing: &'a Packing) -> Answer<'a> {
    let counted =
        |f: &'a tesela_plan::pack::Filled| Counted { instances: f.layout.instances(), count: f.count };
    Answer {
        product: &product.id,
        gpus: packing.gpus,
        lower_bound: packing.lower_bound,
        proven_optimal: packing.proven_optimal,
        certificate: Prices { scale: packing.certificate.scale, prices: &packing.certificate.prices },
        layouts: packing.filled.iter().map(counted).collect(),
        wasted_compute_slices: packing.wasted_compute_slices,
        wasted_memory_units: packing.wasted_memory_units,
    }
}

/// Reads `1g.10gb=100,2g.20gb=50`, given with an option. A count of zero asks for nothing and is left out.
///
/// # Errors
/// A word of another form, an unknown profile, one named twice, or a count that is none.
pub(super) fn counts(product: &Product, flag: &str, text: &str) -> Result<Vec<(ProfileName, u64)>, Failure> {
    let example = || {
        let name = product.profiles.first().map_or("1g.10gb", |p| p.name.as_str());
        format!("write {flag} PROFILE=COUNT,PROFILE=COUNT, such as {flag} {name}=10")
    };
    if text.trim().is_empty() {
        return Err(Failure::input(format!("{flag} is empty: there is nothing to pack")).hint(example()));
    }
    let mut demand: Vec<(ProfileName, u64)> = Vec::new();
    for word in text.split(',').map(str::trim) {
        let Some((name, number)) = word.split_once('=') else {
            let message = format!("{flag}: `{word}` is not of the form PROFILE=COUNT");
            return Err(Failure::input(message).hint(example()));
        };
        let profile = product.profile(name.trim()).map_err(|error| Failure::input(error.to_string()))?;
        let number = count(flag, name.trim(), number.trim())?;
        if demand.iter().any(|(known, _)| *known == profile.name) {
            let message = format!("{flag}: {} is named twice; add the counts together", profile.name);
            return Err(Failure::input(message));
        }
        demand.push((profile.name.clone(), number));
    }
    demand.retain(|(_, number)| *number > 0);
    Ok(demand)
}

fn count(flag: &str, name: &str, text: &str) -> Result<u64, Failure> {
    let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    let refuse = |why: &str| {
        Failure::input(format!("{flag}: the count of {name} is `{text}`, {why}"))
            .hint("a count is a whole number, 0 or more")
    };
    match text.parse() {
        Ok(number) if digits(text) => Ok(number),
        _ if digits(text) => Err(refuse("which is more than 64 bits hold")),
        _ if text.strip_prefix('-').is_some_and(digits) => Err(refuse("which is negative")),
        _ => Err(refuse("which is no whole number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_digits_alone() {
        assert_eq!(count("--profiles", "1g.10gb", "18446744073709551615"), Ok(u64::MAX));
        for bad in ["", "+1", "-1", "1.5", "1e3", "0x10", "１", "18446744073709551616"] {
            assert!(count("--profiles", "1g.10gb", bad).is_err(), "{bad}");
        }
    }
}
