//! `kind: PriceBook`: what a GPU hour costs, by product. Nothing is made up: a product without a price has none.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use tesela_model::price::PriceBook;
use tesela_model::product::ProductTable;
use tesela_model::quantity::Micros;

use super::check::Check;
use super::decimal::{DecimalError, decimal};
use super::owned::Owned;
use super::scalar::{Amount, Raw};
use crate::diagnostic::{Diagnostic, Diagnostics, shown};
use crate::source::{Located, Span};

/// A GPU hour costs at most this, in millionths.
const MOST_PRICE: u64 = 1_000_000_000_000;

/// What `source` of prices from `--price` says.
pub const COMMAND_LINE: &str = "command line";

/// Prices of GPU hours, all in one currency.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PriceBookSpec {
    /// The currency by its three letters (ISO 4217), such as `EUR`.
    currency: Located<String>,
    /// The day the prices are of, `YYYY-MM-DD`. Default: not said.
    #[serde(default)]
    as_of: Option<Located<String>>,
    /// One price per product.
    prices: Vec<Located<PriceEntry>>,
}

/// The price of one product.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PriceEntry {
    /// Table id (`h100-sxm-80gb`) or exact NVML name (`NVIDIA H100 80GB HBM3`).
    product: Located<String>,
    /// Price of one GPU for one hour, above 0, with at most six decimals: `2.50`. This or `owned`.
    #[serde(default)]
    gpu_hour: Option<Located<Amount>>,
    /// What owned hardware costs, from which the price of an hour is computed. This or `gpuHour`.
    #[serde(default)]
    owned: Option<Located<Owned>>,
}

/// Reads the content of a PriceBook document.
pub(super) fn read(file: &str, spec: &PriceBookSpec, table: &ProductTable) -> Result<PriceBook, Diagnostics> {
    let mut check = Check::new(file);
    currency(&mut check, &spec.currency);
    if let Some(day) = spec.as_of.as_ref().filter(|day| !is_day(&day.value)) {
        let message = format!("`asOf: {}` is no day", shown(&day.value));
        check.error(
            day.at,
            "invalid-value",
            &day.value,
            message,
            "write it as YYYY-MM-DD, such as 2026-11-30",
        );
    }
    let mut found: BTreeMap<String, (Micros, Span)> = BTreeMap::new();
    for entry in &spec.prices {
        let PriceEntry { product, .. } = &entry.value;
        let hardware = check.product(table, product);
        let price = entry_price(&mut check, &entry.value);
        let Some(hardware) = hardware else { continue };
        match found.get(&hardware.name()) {
            Some((_, first)) => check.duplicate("the price of", &hardware.name(), *first, product.at),
            None => {
                found.insert(hardware.name(), (price.unwrap_or_default(), product.at));
            }
        }
    }
    check.finish(PriceBook {
        currency: spec.currency.value.clone(),
        source: file.to_owned(),
        as_of: spec.as_of.as_ref().map(|day| day.value.clone()),
        gpu_hour: found.into_iter().map(|(product, (price, _))| (product, price)).collect(),
    })
}

fn entry_price(check: &mut Check<'_>, entry: &PriceEntry) -> Option<Micros> {
    let PriceEntry { product, gpu_hour, owned } = entry;
    match (gpu_hour, owned) {
        (Some(gpu_hour), None) => check.price(gpu_hour),
        (None, Some(owned)) => check.owned(&owned.value),
        (Some(gpu_hour), Some(owned)) => {
            let why = "a product has one price";
            check.contradiction((owned.at, "owned"), (gpu_hour.at, "gpuHour"), why, "remove one of the two");
            None
        }
        (None, None) => {
            let message = format!("`{}` has no price", shown(&product.value));
            let fix = "add `gpuHour: 2.50`, or `owned: {purchase: 28000, years: 4}`";
            check.error(product.at, "missing-field", &product.value, message, fix);
            None
        }
    }
}

/// Reads a `--price` flag: `h100-sxm-80gb=2.50/h`.
///
/// # Errors
/// When it is not of that form, the currency is no three letters, the product is unknown or the price is not above 0.
pub fn parse_price_flag(
    flag: &str,
    currency_text: &str,
    table: &ProductTable,
) -> Result<PriceBook, Diagnostics> {
    const FILE: &str = "--price";
    let form = |message: String| {
        Diagnostic::error(FILE, "invalid-value", message)
            .value(shown(flag))
            .fix("write PRODUCT=AMOUNT/h, such as `h100-sxm-80gb=2.50/h`")
    };
    let Some((product, amount)) = flag.rsplit_once('=') else {
        return Err(form(format!("`{}` has no `=`", shown(flag))).into());
    };
    let Some(amount) = amount.trim().strip_suffix("/h") else {
        return Err(form(format!("`{}` does not say per what: it must end in `/h`", shown(flag))).into());
    };
    let mut check = Check::new(FILE);
    currency(&mut check, &Located::from(currency_text.to_owned()));
    let hardware = check.product(table, &Located::from(product.trim().to_owned()));
    let price = check.price(&Located::from(Amount(Raw::Text(amount.trim().to_owned()))));
    let gpu_hour = hardware.map(|h| h.name()).zip(price).into_iter().collect();
    let source = COMMAND_LINE.to_owned();
    check.finish(PriceBook { currency: currency_text.to_owned(), source, as_of: None, gpu_hour })
}

/// Several price books as one; a later price of a product replaces an earlier one. `None` when there is no book.
///
/// `asOf` stays only when all that have a day have the same.
///
/// # Errors
/// When the currencies differ.
pub fn join_price_books(books: impl IntoIterator<Item = PriceBook>) -> Result<Option<PriceBook>, Diagnostic> {
    let mut books = books.into_iter();
    let Some(mut joined) = books.next() else { return Ok(None) };
    for book in books {
        if book.currency != joined.currency {
            let message = format!(
                "the prices are in `{}`, those of {} in `{}`",
                shown(&book.currency),
                joined.source,
                joined.currency
            );
            return Err(Diagnostic::error(book.source, "contradiction", message)
                .value(shown(&book.currency))
                .fix("give all prices in one currency"));
        }
        if !joined.source.split(", ").any(|source| source == book.source) {
            joined.source = format!("{}, {}", joined.source, book.source);
        }
        joined.as_of = match (joined.as_of, book.as_of) {
            (Some(a), Some(b)) if a != b => None,
            (a, b) => a.or(b),
        };
        joined.gpu_hour.extend(book.gpu_hour);
    }
    Ok(Some(joined))
}

fn currency(check: &mut Check<'_>, written: &Located<String>) {
    let text = &written.value;
    if text.len() == 3 && text.bytes().all(|b| b.is_ascii_uppercase()) {
        return;
    }
    let letters: String = text.trim().to_ascii_uppercase();
    let near = match letters.as_str() {
        "€" | "EURO" | "EUROS" => "did you mean `EUR`? ".to_owned(),
        "$" | "US$" | "DOLLAR" | "DOLLARS" => "did you mean `USD`? ".to_owned(),
        "£" | "POUND" | "POUNDS" => "did you mean `GBP`? ".to_owned(),
        code if code.len() == 3 && code.bytes().all(|b| b.is_ascii_uppercase()) => {
            format!("did you mean `{code}`? ")
        }
        _ => String::new(),
    };
    let message = format!("`{}` is no currency", shown(text));
    check.error(
        written.at,
        "invalid-value",
        text,
        message,
        format!("{near}write its three letters (ISO 4217), such as EUR"),
    );
}

/// `YYYY-MM-DD`, a day that exists.
fn is_day(text: &str) -> bool {
    let digits = |part: &str, length: usize| {
        (part.len() == length && part.bytes().all(|b| b.is_ascii_digit()))
            .then(|| part.parse::<u32>().ok())
            .flatten()
    };
    let mut parts = text.split('-');
    let (Some(year), Some(month), Some(day), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let (Some(year), Some(month), Some(day)) = (digits(year, 4), digits(month, 2), digits(day, 2)) else {
        return false;
    };
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return false,
    };
    (1..=days).contains(&day)
}

impl Check<'_> {
    /// The price of a GPU hour, above 0.
    fn price(&mut self, written: &Located<Amount>) -> Option<Micros> {
        let text = written.value.0.text();
        let (rule, why, fix) = match decimal(text.trim(), 6) {
            Ok(0) => {
                ("number-range", "is zero; a price is above 0", "leave the product out where it has no price")
            }
            Ok(price) if price <= MOST_PRICE => return i64::try_from(price).ok().map(Micros),
            Ok(_) | Err(DecimalError::TooLarge) => (
                "number-range",
                "is more than a million for one hour",
                "give the price of one GPU for one hour",
            ),
            Err(DecimalError::Negative) => {
                ("number-range", "is negative; a price is above 0", "write it without the sign")
            }
            Err(DecimalError::TooFine) => {
                ("invalid-value", "has more than six decimals", "round it to six decimals")
            }
            Err(DecimalError::Malformed) => {
                ("invalid-value", "is no amount", "write digits with a point, without currency: 2.50")
            }
        };
        self.error(written.at, rule, &text, format!("the price `{}` {why}", shown(&text)), fix);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_that_exist() {
        for day in ["2026-11-30", "2024-02-29", "2000-02-29", "1999-12-31"] {
            assert!(is_day(day), "{day}");
        }
        for day in [
            "2026-02-29",
            "1900-02-29",
            "2026-11-31",
            "2026-13-01",
            "2026-1-1",
            "30.11.2026",
            "2026-11-30T",
            "",
        ] {
            assert!(!is_day(day), "{day}");
        }
    }
}
