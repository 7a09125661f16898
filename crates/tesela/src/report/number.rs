//! Numbers, money, dates and lists the way a language writes them.

use tesela_model::quantity::Micros;

use super::text::{Many, Text, fill};

/// 730 hours are a twelfth of a year, as the clouds count a month.
const HOURS_OF_A_MONTH: i64 = 730;

impl Text {
    /// `1,234` or `1.234`.
    pub(super) fn count(&self, number: impl Into<u128>) -> String {
        self.group(&number.into().to_string())
    }

    fn group(&self, digits: &str) -> String {
        let mut out = String::new();
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                out.push(self.thousands);
            }
            out.push(digit);
        }
        out
    }

    /// The phrase for a number: `1 GPU`, `1,200 GPUs`.
    pub(super) fn many(&self, number: u64, phrase: &Many) -> String {
        self.many_with(number, phrase, &[])
    }

    /// The phrase for a number, with more to fill in.
    pub(super) fn many_with(&self, number: u64, phrase: &Many, more: &[(&str, &str)]) -> String {
        let n = self.count(number);
        let mut values = vec![("n", n.as_str())];
        values.extend_from_slice(more);
        fill(phrase[usize::from(number != 1)], &values)
    }

    /// `+3`, `−12`, `0`.
    pub(super) fn difference(&self, from: u64, to: u64) -> String {
        let sign = match to.cmp(&from) {
            std::cmp::Ordering::Less => "−",
            std::cmp::Ordering::Equal => "",
            std::cmp::Ordering::Greater => "+",
        };
        format!("{sign}{}", self.count(from.abs_diff(to)))
    }

    /// `1,234.50` or `1.234,50`.
    pub(super) fn amount(&self, amount: Micros) -> String {
        let plain = amount.to_string();
        let (sign, plain) = plain.strip_prefix('-').map_or(("", plain.as_str()), |rest| ("−", rest));
        let (whole, cents) = plain.split_once('.').unwrap_or((plain, "00"));
        format!("{sign}{}{}{cents}", self.group(whole), self.decimal)
    }

    /// The amount with its currency behind it, not parted from it at the end of a line.
    pub(super) fn money(&self, amount: Micros, currency: &str) -> String {
        format!("{}\u{a0}{currency}", self.amount(amount))
    }

    /// A difference in money with its sign.
    pub(super) fn money_difference(&self, from: Micros, to: Micros) -> String {
        let change = Micros(to.0.saturating_sub(from.0));
        format!("{}{}", if change.0 > 0 { "+" } else { "" }, self.amount(change))
    }

    /// `2026-11-30` as people write it; anything else as it is.
    pub(super) fn day(&self, iso: &str) -> String {
        let parts: Vec<&str> = iso.split('-').collect();
        let [year, month, day] = parts[..] else { return iso.to_owned() };
        let month = month.parse::<usize>().ok().and_then(|m| self.months.get(m.checked_sub(1)?));
        let plain = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
        match month {
            Some(month) if plain(year) && plain(day) => {
                fill(self.date, &[("d", day.trim_start_matches('0')), ("m", month), ("y", year)])
            }
            _ => iso.to_owned(),
        }
    }

    /// `a`, `a and b`, `a, b and c`.
    pub(super) fn list(&self, words: &[String]) -> String {
        match words {
            [] => String::new(),
            [one] => one.clone(),
            [front @ .., last] => format!("{}{}{last}", front.join(", "), self.and),
        }
    }

    /// The first of the names and how many more there are: `a, b and 3 more`.
    pub(super) fn some(&self, names: &[&str], shown: usize) -> String {
        let mut words: Vec<String> = names.iter().take(shown).map(|n| (*n).to_owned()).collect();
        let more = names.len().saturating_sub(shown);
        if more > 0 {
            words.push(fill(self.more_names, &[("n", &self.count(more as u64))]));
        }
        self.list(&words)
    }
}

/// What an hour's amount is in a month.
pub(super) fn month(hourly: Micros) -> Micros {
    Micros(hourly.0.saturating_mul(HOURS_OF_A_MONTH))
}

/// A share in whole percent, rounded to the nearest.
pub(super) fn percent(part: u64, whole: u64) -> u64 {
    let (part, whole) = (u128::from(part), u128::from(whole.max(1)));
    u64::try_from((part * 200 / whole).div_ceil(2)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::english::ENGLISH;
    use super::super::spanish::SPANISH;
    use super::*;

    #[test]
    fn each_language_writes_numbers_its_way() {
        assert_eq!(ENGLISH.count(1_234_567u64), "1,234,567");
        assert_eq!(SPANISH.count(1_234_567u64), "1.234.567");
        let amount = Micros(1_234_567_500_000);
        assert_eq!(ENGLISH.money(amount, "EUR"), "1,234,567.50\u{a0}EUR");
        assert_eq!(SPANISH.money(amount, "EUR"), "1.234.567,50\u{a0}EUR");
        assert_eq!(SPANISH.money_difference(Micros(3_000_000), Micros(1_500_000)), "−1,50");
        assert_eq!(ENGLISH.money_difference(Micros(0), Micros(1_500_000)), "+1.50");
        assert_eq!(ENGLISH.difference(3, 1_003), "+1,000");
        assert_eq!(SPANISH.difference(10, 3), "−7");
    }

    #[test]
    fn each_language_writes_dates_its_way() {
        assert_eq!(ENGLISH.day("2026-11-05"), "5 November 2026");
        assert_eq!(SPANISH.day("2026-11-05"), "5 de noviembre de 2026");
        for other in ["last week", "2026-13-01", "2026-11", "", "2026-11-"] {
            assert_eq!(SPANISH.day(other), other);
        }
    }

    #[test]
    fn lists_end_with_the_languages_and() {
        let names = ["a", "b", "c"];
        assert_eq!(ENGLISH.some(&names, 3), "a, b and c");
        assert_eq!(SPANISH.some(&names, 1), "a y 2 más");
        assert_eq!(SPANISH.many(1, &SPANISH.nodes), "1 nodo");
        assert_eq!(ENGLISH.many(1_200, &ENGLISH.gpus), "1,200 GPUs");
    }

    #[test]
    fn a_share_is_rounded_to_the_nearest() {
        assert_eq!((percent(1, 3), percent(2, 3), percent(1, 1000), percent(0, 0)), (33, 67, 0, 0));
    }
}
