//! Numbers and times without floating point: each digit counts, and nothing is NaN.

/// Why a value is not what its column holds.
pub(super) struct Wrong {
    pub(super) rule: &'static str,
    /// "must be …", after the value.
    pub(super) must: &'static str,
    pub(super) fix: &'static str,
}

impl Wrong {
    pub(super) fn new(rule: &'static str, must: &'static str, fix: &'static str) -> Self {
        Self { rule, must, fix }
    }
}

const MICROS: u64 = 1_000_000;
/// Seconds since 1970 of the year 2286; larger numbers are milliseconds.
const MOST_SECONDS: u64 = 10_000_000_000;

/// A whole number.
pub(super) fn whole(text: &str, most: u64) -> Result<u64, Wrong> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Wrong::new("invalid-number", "must be a whole number, 0 or more", "write digits only"));
    }
    text.parse().ok().filter(|n| *n <= most).ok_or(Wrong::new(
        "number-range",
        "is beyond anything real",
        "write the count of this one request",
    ))
}

/// Microseconds of a decimal number of seconds, rounded up.
pub(super) fn seconds_us(text: &str, most: u64) -> Result<u64, Wrong> {
    let wrong = || {
        Wrong::new(
            "invalid-number",
            "must be a decimal number of seconds, 0 or more",
            "write it like 0.85, without sign or exponent",
        )
    };
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    if !digits(seconds) || !digits(fraction) {
        return Err(wrong());
    }
    let range = || Wrong::new("number-range", "is longer than a week", "write seconds, not milliseconds");
    let seconds: u64 = seconds.parse().map_err(|_| range())?;
    let micros = seconds.checked_mul(MICROS).and_then(|s| s.checked_add(fraction_us(fraction)));
    micros.filter(|m| *m <= most).ok_or_else(range)
}

/// The first six digits, and one more where anything follows.
fn fraction_us(digits: &str) -> u64 {
    let mut value = 0;
    for place in 0..6 {
        let digit = digits.as_bytes().get(place).map_or(0, |b| u64::from(b - b'0'));
        value = value * 10 + digit;
    }
    value + u64::from(digits.bytes().skip(6).any(|b| b != b'0'))
}

/// A time in microseconds: seconds as a decimal number, or a date and time in UTC such as
/// `2023-11-16 18:17:03.9799600` or `2023-11-16T18:17:03Z`. Digits beyond microseconds are cut, so that order stays.
pub(super) fn time_us(text: &str) -> Result<u64, Wrong> {
    if text.contains(':') {
        return date_us(text).ok_or(WRONG_TIME);
    }
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    if !digits(seconds) || !digits(fraction) {
        return Err(WRONG_TIME);
    }
    let seconds = seconds.parse::<u64>().ok().filter(|s| *s < MOST_SECONDS).ok_or(Wrong::new(
        "number-range",
        "is beyond the year 2286",
        "write seconds, not milliseconds",
    ))?;
    Ok(seconds * MICROS + cut_us(fraction))
}

const WRONG_TIME: Wrong = Wrong {
    rule: "invalid-time",
    must: "must be seconds, or a date and time in UTC",
    fix: "write it like 1700158623.98, 2023-11-16 18:17:03.98 or 2023-11-16T18:17:03.98Z",
};

fn cut_us(digits: &str) -> u64 {
    (0..6)
        .fold(0, |value, place| value * 10 + digits.as_bytes().get(place).map_or(0, |b| u64::from(b - b'0')))
}

/// `YYYY-MM-DD`, a blank or `T`, `HH:MM:SS`, a fraction and `Z` where wanted.
pub(super) fn date_us(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<u64> {
        let part = bytes.get(from..to)?;
        part.iter().all(u8::is_ascii_digit).then(|| part.iter().fold(0, |n, b| n * 10 + u64::from(b - b'0')))
    };
    let sign = |place: usize, allowed: &[u8]| bytes.get(place).is_some_and(|b| allowed.contains(b));
    let signs = sign(4, b"-") && sign(7, b"-") && sign(10, b" T") && sign(13, b":") && sign(16, b":");
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let rest = bytes.get(19..)?;
    let rest = rest.strip_suffix(b"Z").unwrap_or(rest);
    let fraction = match rest.split_first() {
        None => "",
        Some((b'.', digits)) if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => {
            std::str::from_utf8(digits).ok()?
        }
        Some(_) => return None,
    };
    let real = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !(signs && real) {
        return None;
    }
    let seconds = ((days_before(year, month) + day - 1) * 24 + hour) * 3600 + minute * 60 + second;
    Some(seconds * MICROS + cut_us(fraction))
}

fn leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_in(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to the first of the month.
fn days_before(year: u64, month: u64) -> u64 {
    let leaps = |y: u64| y / 4 - y / 100 + y / 400;
    let years = (year - 1970) * 365 + leaps(year - 1) - leaps(1969);
    years + (1..month).map(|m| days_in(year, m)).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_count_from_1970() {
        let us = |text: &str| time_us(text).ok();
        assert_eq!(us("2023-11-16 18:17:03.9799600"), Some(1_700_158_623_979_960));
        assert_eq!(us("2023-11-16T18:17:03Z"), Some(1_700_158_623_000_000));
        assert_eq!(us("1970-01-01 00:00:00"), Some(0));
        assert_eq!(us("2024-02-29 00:00:00"), Some(1_709_164_800_000_000));
        assert_eq!(us("1700158623.98"), Some(1_700_158_623_980_000));
        for wrong in [
            "",
            "NaN",
            "-1",
            "1e3",
            "2023-02-29 00:00:00",
            "2023-11-16 24:00:00",
            "2023-11-16 18:17:03+01:00",
            "1700158623980",
            "2023-11-16 18:17",
            "2023-11-16 18:17:03.",
            ".5",
            "5.",
            "∞:",
        ] {
            assert_eq!(us(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn durations_are_rounded_up() {
        let us = |text: &str| seconds_us(text, 10_000_000).ok();
        assert_eq!(us("0.8500001"), Some(850_001));
        assert_eq!(us("2"), Some(2_000_000));
        for wrong in ["", "-0.1", "nan", "inf", "1e-3", "10.0000001", "99999999999999999999", "1.", "+1"] {
            assert_eq!(us(wrong), None, "{wrong}");
        }
    }
}
