//! What a GPU hour of owned hardware costs: the purchase spread over its years, and the energy.

use schemars::JsonSchema;
use serde::Deserialize;
use tesela_model::quantity::Micros;

use super::check::Check;
use super::decimal::{DecimalError, decimal};
use super::scalar::Amount;
use crate::diagnostic::shown;
use crate::source::Located;

/// Hours of a year of 365 days.
const HOURS_PER_YEAR: u128 = 8_760;

/// Owned hardware. The price of a GPU hour is `purchase / (years × 8760) + watts / 1000 × pue × kilowattHour`, both rounded
/// up to a millionth: hardware is paid for whether it works or not, and its power is taken as drawn all the time.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Owned {
    /// What one GPU costs with its part of the machine, network and rack: `28000`.
    purchase: Located<Amount>,
    /// Years over which it is written off, 0.25 to 30, with at most two decimals: `4`.
    years: Located<Amount>,
    /// Watts that one GPU draws with its part of the machine: `900`. Default 0: energy is paid otherwise.
    #[serde(default)]
    watts: Option<Located<Amount>>,
    /// Power usage effectiveness of the data centre, 1 to 10, with at most three decimals. Default 1.
    #[serde(default)]
    pue: Option<Located<Amount>>,
    /// Price of a kilowatt hour: `0.18`. Default 0.
    #[serde(default)]
    kilowatt_hour: Option<Located<Amount>>,
}

/// What a field may be, in its smallest unit.
struct Range {
    field: &'static str,
    places: usize,
    least: u64,
    most: u64,
    fix: &'static str,
}

const PURCHASE: Range = Range {
    field: "purchase",
    places: 6,
    least: 1,
    most: 100_000_000_000_000,
    fix: "give what one GPU costs, above 0 and at most a hundred million, without currency: 28000",
};
const YEARS: Range = Range {
    field: "years",
    places: 2,
    least: 25,
    most: 3_000,
    fix: "give the years of use, from 0.25 to 30: 4",
};
const WATTS: Range = Range {
    field: "watts",
    places: 0,
    least: 0,
    most: 100_000,
    fix: "give whole watts, at most 100000: 900",
};
const PUE: Range =
    Range { field: "pue", places: 3, least: 1_000, most: 10_000, fix: "give a number from 1 to 10: 1.35" };
const KILOWATT_HOUR: Range = Range {
    field: "kilowattHour",
    places: 6,
    least: 0,
    most: 1_000_000_000,
    fix: "give the price of one kilowatt hour, at most 1000, without currency: 0.18",
};

impl Check<'_> {
    /// The price of a GPU hour of owned hardware.
    pub(super) fn owned(&mut self, written: &Owned) -> Option<Micros> {
        let Owned { purchase, years, watts, pue, kilowatt_hour } = written;
        let purchase = self.within(purchase, &PURCHASE);
        let years = self.within(years, &YEARS);
        let mut or = |written: &Option<Located<Amount>>, range, default| match written {
            Some(written) => self.within(written, range),
            None => Some(default),
        };
        let (watts, pue) = (or(watts, &WATTS, 0), or(pue, &PUE, 1_000));
        let kilowatt_hour = or(kilowatt_hour, &KILOWATT_HOUR, 0);
        // Years are in hundredths and the PUE in thousandths; a watt is a thousandth of a kilowatt.
        let hardware = (purchase? * 100).div_ceil(years? * HOURS_PER_YEAR);
        let energy = (watts? * pue? * kilowatt_hour?).div_ceil(1_000_000);
        i64::try_from(hardware + energy).ok().map(Micros)
    }

    fn within(&mut self, written: &Located<Amount>, range: &Range) -> Option<u128> {
        let text = written.value.0.text();
        let why = match decimal(text.trim(), range.places) {
            Ok(value) if (range.least..=range.most).contains(&value) => return Some(u128::from(value)),
            Ok(_) | Err(DecimalError::TooLarge) => "is out of range",
            Err(DecimalError::Negative) => "is negative",
            Err(DecimalError::TooFine) => "has too many decimals",
            Err(DecimalError::Malformed) => "is no number",
        };
        let message = format!("`{}: {}` {why}", range.field, shown(&text));
        self.error(written.at, "number-range", &text, message, range.fix);
        None
    }
}
