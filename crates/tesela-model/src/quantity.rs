//! Memory, CPU and money as integers with their unit in the type.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// GPU memory in MiB (2^20 bytes), the unit of NVML tools.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Mib(pub u64);

impl fmt::Display for Mib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 >= 1024 && self.0.is_multiple_of(1024) {
            write!(f, "{}Gi", self.0 / 1024)
        } else {
            write!(f, "{}Mi", self.0)
        }
    }
}

/// Main memory in bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u32); 4] = [("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];
        for (unit, shift) in UNITS {
            if self.0 >= 1 << shift && self.0.is_multiple_of(1 << shift) {
                return write!(f, "{}{unit}", self.0 >> shift);
            }
        }
        write!(f, "{}", self.0)
    }
}

/// CPU in thousandths of a core, as Kubernetes counts it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct MilliCpu(pub u64);

impl fmt::Display for MilliCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(1000) { write!(f, "{}", self.0 / 1000) } else { write!(f, "{}m", self.0) }
    }
}

/// Money in millionths of a currency unit.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Micros(pub i64);

impl Micros {
    /// This amount `n` times; `None` beyond 64 bits.
    #[must_use]
    pub fn times(self, n: u64) -> Option<Self> {
        i64::try_from(n).ok().and_then(|n| self.0.checked_mul(n)).map(Self)
    }

    /// The sum of two amounts; `None` beyond 64 bits.
    #[must_use]
    pub fn plus(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }
}

/// Two decimals, for people: `12.34`.
impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cents = (self.0.unsigned_abs() + 5_000) / 10_000;
        let sign = if self.0 < 0 && cents > 0 { "-" } else { "" };
        write!(f, "{sign}{}.{:02}", cents / 100, cents % 100)
    }
}

/// Why a text is no Kubernetes quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not of the form `number[suffix]`.
    #[error("`{0}` is no quantity: write a number with a unit, such as `500m`, `16Gi` or `2`")]
    Malformed(String),
    /// The suffix is none that Kubernetes knows.
    #[error(
        "`{text}` has the unknown unit `{unit}`: use one of n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei"
    )]
    UnknownUnit {
        /// The whole text.
        text: String,
        /// The part behind the number.
        unit: String,
    },
    /// Less than nothing.
    #[error("`{0}` is negative; it must be 0 or more")]
    Negative(String),
    /// More than 64 bits hold.
    #[error("`{0}` is too large")]
    Overflow(String),
}

/// A Kubernetes quantity in thousandths of its unit, rounded up, as the API server rounds.
///
/// # Errors
/// [`QuantityError`] when the text is malformed, negative or too large.
pub fn parse_quantity_milli(text: &str) -> Result<u64, QuantityError> {
    let trimmed = text.trim();
    if trimmed.starts_with('-') && trimmed.len() > 1 {
        return Err(QuantityError::Negative(text.to_owned()));
    }
    let body = trimmed.strip_prefix('+').unwrap_or(trimmed);
    let (digits, fraction, rest) =
        split_number(body).ok_or_else(|| QuantityError::Malformed(text.to_owned()))?;
    let (multiplier, divisor) = scale(rest).ok_or_else(|| {
        if rest.starts_with(|c: char| c.is_alphabetic() && c != 'e' && c != 'E') {
            QuantityError::UnknownUnit { text: text.to_owned(), unit: rest.to_owned() }
        } else {
            QuantityError::Malformed(text.to_owned())
        }
    })?;
    let overflow = || QuantityError::Overflow(text.to_owned());
    let fraction = fraction.trim_end_matches('0');
    if digits.len() > 30 || fraction.len() > 15 {
        return Err(overflow());
    }
    let mantissa: u128 = format!("0{digits}{fraction}").parse().map_err(|_| overflow())?;
    let numerator =
        mantissa.checked_mul(multiplier).and_then(|n| n.checked_mul(1000)).ok_or_else(overflow)?;
    let denominator = 10u128
        .checked_pow(u32::try_from(fraction.len()).map_err(|_| overflow())?)
        .and_then(|d| d.checked_mul(divisor))
        .ok_or_else(overflow)?;
    u64::try_from(numerator.div_ceil(denominator)).map_err(|_| overflow())
}

/// A Kubernetes quantity in whole units, rounded up.
///
/// # Errors
/// As [`parse_quantity_milli`].
pub fn parse_quantity(text: &str) -> Result<u64, QuantityError> {
    // Large byte counts overflow 64 bits when counted in thousandths, so whole numbers take their own way.
    let trimmed = text.trim();
    if let Ok(whole) = trimmed.parse::<u64>() {
        return Ok(whole);
    }
    let cut = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
    if cut > 0
        && let (Ok(whole), Some((multiplier, 1))) = (trimmed[..cut].parse::<u128>(), scale(&trimmed[cut..]))
    {
        return whole
            .checked_mul(multiplier)
            .and_then(|n| u64::try_from(n).ok())
            .ok_or_else(|| QuantityError::Overflow(text.to_owned()));
    }
    parse_quantity_milli(text).map(|milli| milli.div_ceil(1000))
}

fn split_number(text: &str) -> Option<(&str, &str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let (digits, fraction) = number.split_once('.').unwrap_or((number, ""));
    let number = !digits.is_empty() || !fraction.is_empty();
    (number && !fraction.contains('.')).then_some((digits, fraction, rest))
}

/// Multiplier and divisor of a quantity's suffix (Kubernetes: `resource.Quantity`).
fn scale(suffix: &str) -> Option<(u128, u128)> {
    Some(match suffix {
        "" => (1, 1),
        "n" => (1, 1_000_000_000),
        "u" => (1, 1_000_000),
        "m" => (1, 1_000),
        "k" => (1_000, 1),
        "M" => (1_000_000, 1),
        "G" => (1_000_000_000, 1),
        "T" => (1_000_000_000_000, 1),
        "P" => (1_000_000_000_000_000, 1),
        "E" => (1_000_000_000_000_000_000, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        "Ei" => (1 << 60, 1),
        exponent => {
            let power: i32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            let size = 10u128.checked_pow(power.unsigned_abs()).filter(|_| power.abs() <= 18)?;
            if power < 0 { (1, size) } else { (size, 1) }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_as_the_api_server_reads_them() {
        for (text, milli) in [
            ("0", 0),
            ("500m", 500),
            ("2", 2000),
            ("1.5", 1500),
            (".5", 500),
            ("1e3", 1_000_000),
            ("1k", 1_000_000),
            ("1Ki", 1_024_000),
            ("100n", 1),
            ("+2", 2000),
            ("12E-1", 1200),
        ] {
            assert_eq!(parse_quantity_milli(text), Ok(milli), "{text}");
        }
        assert_eq!(parse_quantity("2Ti"), Ok(2 << 40));
        assert_eq!(parse_quantity("16Ei"), Err(QuantityError::Overflow("16Ei".into())));
        assert_eq!(parse_quantity("1500m"), Ok(2));
    }

    #[test]
    fn what_is_no_quantity_says_why() {
        assert!(matches!(parse_quantity_milli("-1"), Err(QuantityError::Negative(_))));
        assert!(matches!(parse_quantity_milli("16GB"), Err(QuantityError::UnknownUnit { .. })));
        assert!(matches!(parse_quantity_milli("many"), Err(QuantityError::Malformed(_))));
        assert!(matches!(parse_quantity_milli(""), Err(QuantityError::Malformed(_))));
        assert!(matches!(parse_quantity_milli("1.2.3"), Err(QuantityError::Malformed(_))));
        assert!(matches!(
            parse_quantity_milli("1e99"),
            Err(QuantityError::Malformed(_) | QuantityError::Overflow(_))
        ));
    }

    #[test]
    fn money_rounds_to_cents_for_people() {
        assert_eq!(Micros(2_345_678).to_string(), "2.35");
        assert_eq!(Micros(-1_000_000).to_string(), "-1.00");
        assert_eq!(Micros(-1).to_string(), "0.00");
    }
}
