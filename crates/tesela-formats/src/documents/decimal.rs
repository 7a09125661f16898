//! Decimal numbers as integers, without a detour through floats.

/// Why a text is no such number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecimalError {
    /// Not digits with at most one point.
    Malformed,
    /// Below zero.
    Negative,
    /// More digits behind the point than are kept.
    TooFine,
    /// More than 64 bits hold.
    TooLarge,
}

/// `text` times 10^`places` as a whole number. Digits behind the point beyond `places` must be zeros.
pub(super) fn decimal(text: &str, places: usize) -> Result<u64, DecimalError> {
    if let Some(rest) = text.strip_prefix('-') {
        return if rest.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            Err(DecimalError::Negative)
        } else {
            Err(DecimalError::Malformed)
        };
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) {
        return Err(DecimalError::Malformed);
    }
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > places {
        return Err(DecimalError::TooFine);
    }
    format!("0{whole}{fraction:0<places$}").parse().map_err(|_| DecimalError::TooLarge)
}

/// The number and what stands behind it: `16GB` → (`16`, `GB`).
pub(super) fn split_unit(text: &str) -> (&str, &str) {
    let end =
        text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+'))).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_keep_every_digit() {
        for (text, places, value) in [
            ("2.50", 6, 2_500_000),
            ("0.000001", 6, 1),
            (".5", 3, 500),
            ("7", 3, 7000),
            ("12.500", 1, 125),
            ("0", 0, 0),
            (".0", 0, 0),
            ("18446744073709551615", 0, u64::MAX),
        ] {
            assert_eq!(decimal(text, places), Ok(value), "{text}");
        }
        for (text, places, why) in [
            ("0.0000001", 6, DecimalError::TooFine),
            ("-1", 6, DecimalError::Negative),
            ("-x", 6, DecimalError::Malformed),
            ("18446744073709551616", 0, DecimalError::TooLarge),
            ("1e3", 6, DecimalError::Malformed),
            ("NaN", 6, DecimalError::Malformed),
            ("1.2.3", 6, DecimalError::Malformed),
            (".", 6, DecimalError::Malformed),
            ("", 6, DecimalError::Malformed),
            ("+1", 6, DecimalError::Malformed),
        ] {
            assert_eq!(decimal(text, places), Err(why), "{text}");
        }
    }
}
