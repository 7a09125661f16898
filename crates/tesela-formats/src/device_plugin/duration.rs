//! Durations as Go writes and reads them.

use std::fmt;

/// A signed duration in nanoseconds, Go's `time.Duration`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration(pub i64);

impl GoDuration {
    /// `infinite`: the longest duration there is.
    pub const INFINITE: Self = Self(i64::MAX);

    /// Reads `1h30m`, `1.5s`, `-20ms`, `0`, `infinite`. Units: ns, us (µs), ms, s, m, h.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text == "infinite" {
            return Some(Self::INFINITE);
        }
        let (negative, body) = match text.strip_prefix('-') {
            Some(body) => (true, body),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        if body == "0" {
            return Some(Self(0));
        }
        if body.is_empty() {
            return None;
        }
        let mut total: i128 = 0;
        let mut rest = body;
        while !rest.is_empty() {
            let (nanoseconds, after) = part(rest)?;
            total = total.checked_add(nanoseconds)?;
            rest = after;
        }
        let signed = if negative { -total } else { total };
        i64::try_from(signed).ok().map(Self)
    }
}

/// One number with its unit, in nanoseconds, and what follows.
fn part(text: &str) -> Option<(i128, &str)> {
    let number_end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(number_end);
    let unit_end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_end);
    let scale: i128 = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || whole.len() > 20 {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // Digits beyond the fifteenth are below a nanosecond, even of hours.
    let digits = fraction.get(..15).unwrap_or(fraction);
    let mut nanoseconds = whole.checked_mul(scale)?;
    if !digits.is_empty() {
        let power = 10_i128.pow(u32::try_from(digits.len()).ok()?);
        nanoseconds = nanoseconds.checked_add(digits.parse::<i128>().ok()? * scale / power)?;
    }
    Some((nanoseconds, rest))
}

/// As Go's `String`: `1h0m0s`, `1.5s`, `5ns`; the longest is `infinite`.
impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::INFINITE {
            return f.write_str("infinite");
        }
        let total = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match total {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{total}ns"),
            1_000..1_000_000 => write!(f, "{}µs", decimal(total, 1_000)),
            1_000_000..1_000_000_000 => write!(f, "{}ms", decimal(total, 1_000_000)),
            _ => {
                let minutes = total / 60_000_000_000;
                let (hours, minutes, rest) = (minutes / 60, minutes % 60, total % 60_000_000_000);
                if hours > 0 {
                    write!(f, "{hours}h")?;
                }
                if hours > 0 || minutes > 0 {
                    write!(f, "{minutes}m")?;
                }
                write!(f, "{}s", decimal(rest, 1_000_000_000))
            }
        }
    }
}

/// A fraction without trailing zeros.
fn decimal(value: u64, scale: u64) -> String {
    let digits = scale.ilog10() as usize;
    let fraction = format!("{:0digits$}", value % scale);
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() { (value / scale).to_string() } else { format!("{}.{fraction}", value / scale) }
}
