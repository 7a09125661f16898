//! `tesela layouts`: every way in which MIG can cut one GPU of a product.

use serde::Serialize;
use tesela_model::layout::Layout;
use tesela_model::product::{Product, ProductId, ProductTable, ProfileName};
use tesela_plan::layouts::{Layouts as Found, all_profiles, default_profiles, layouts};

use crate::cli::Layouts;
use crate::failure::{Failure, Outcome};
use crate::printer::Printer;
use crate::table;

/// The result as DESIGN 9 fixes it.
#[derive(Serialize)]
struct Answer<'a> {
    product: &'a ProductId,
    states: usize,
    maximal_states: usize,
    geometries: usize,
    maximal_geometries: usize,
    layouts: &'a [Layout],
}

/// Counts and lists the layouts, and prints them.
///
/// # Errors
/// Product or profile unknown, no placements known, output not writable.
pub(crate) fn run(words: &Layouts, products: &ProductTable, printer: &Printer) -> Result<Outcome, Failure> {
    let product = find(products, &words.product)?;
    let profiles = match &words.profiles {
        Some(text) => named(product, text)?,
        None if words.all => all_profiles(product),
        None => default_profiles(product),
    };
    let found = layouts(product, &profiles).map_err(|error| Failure::input(error.to_string()))?;
    let Found { states, maximal_states, geometries, maximal_geometries, .. } = found;
    let answer = Answer {
        product: &found.product,
        states,
        maximal_states,
        geometries,
        maximal_geometries,
        layouts: &found.layouts,
    };
    printer.result(&answer, |page| table::layouts::put(page, product, &profiles, &found))?;
    Ok(Outcome::Done)
}

/// The product that an argument names.
///
/// # Errors
/// When the table has no such product, with the nearest ones.
pub(crate) fn find<'a>(products: &'a ProductTable, text: &str) -> Result<&'a Product, Failure> {
    products.find(text).map_err(|error| {
        Failure::input(error.to_string())
            .hint("a product that the table lacks can be added with --products FILE")
    })
}

fn named(product: &Product, text: &str) -> Result<Vec<ProfileName>, Failure> {
    let mut names = Vec::new();
    for word in text.split(',').map(str::trim) {
        if word.is_empty() {
            return Err(Failure::input(format!(
                "--profiles `{text}`: there is no profile between two commas"
            ))
            .hint(format!("name profiles of {}, such as {}", product.id, example(product))));
        }
        let profile = product.profile(word).map_err(|error| Failure::input(error.to_string()))?;
        names.push(profile.name.clone());
    }
    Ok(names)
}

/// Two profiles of a product, as they may be written behind `--profiles`.
fn example(product: &Product) -> String {
    let names = default_profiles(product);
    names.iter().take(2).map(ProfileName::as_str).collect::<Vec<_>>().join(",")
}
