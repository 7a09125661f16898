//! Numbers and lists as people write them.

use tesela_model::quantity::Micros;

/// A count with thousands separators: `1,000,000`.
pub(crate) fn count(number: impl Into<u128>) -> String {
    let digits = number.into().to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A difference with its sign: `+3`, `−12`, `0`.
pub(crate) fn difference(from: u64, to: u64) -> String {
    match to.cmp(&from) {
        std::cmp::Ordering::Less => format!("−{}", count(from - to)),
        std::cmp::Ordering::Equal => "0".to_owned(),
        std::cmp::Ordering::Greater => format!("+{}", count(to - from)),
    }
}

/// A count with its noun: `1 GPU`, `1,200 GPUs`.
pub(crate) fn many(number: impl Into<u128>, noun: &str) -> String {
    let number = number.into();
    let end = if number == 1 { "" } else { "s" };
    format!("{} {noun}{end}", count(number))
}

/// An amount with thousands separators and two decimals: `1,234.50 EUR`; without a currency the number alone.
pub(crate) fn money(amount: Micros, currency: &str) -> String {
    let text = amount.to_string();
    let (sign, text) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("−", rest));
    let (whole, cents) = text.split_once('.').unwrap_or((text, "00"));
    let whole = whole.parse::<u64>().map_or_else(|_| whole.to_owned(), count);
    let end = if currency.is_empty() { String::new() } else { format!(" {currency}") };
    format!("{sign}{whole}.{cents}{end}")
}

/// A difference in money with its sign.
pub(crate) fn money_difference(from: Micros, to: Micros) -> String {
    let change = Micros(to.0.saturating_sub(from.0));
    let sign = if change.0 > 0 { "+" } else { "" };
    format!("{sign}{}", money(change, ""))
}

/// `is` or `are`.
pub(crate) fn is(number: u64) -> &'static str {
    if number == 1 { "is" } else { "are" }
}

/// A word as a shell takes it: in quotes where it holds more than plain characters.
pub(crate) fn shell(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,@+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Words as a list: `a`, `a and b`, `a, b and c`.
pub(crate) fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [front @ .., last] => format!("{} and {last}", front.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(count(0u64), "0");
        assert_eq!(count(999u64), "999");
        assert_eq!(count(1_000u64), "1,000");
        assert_eq!(count(1_234_567u64), "1,234,567");
        assert_eq!(difference(10, 3), "−7");
        assert_eq!(difference(3, 1_003), "+1,000");
        assert_eq!(difference(3, 3), "0");
        assert_eq!(many(1u64, "GPU"), "1 GPU");
        assert_eq!(many(2u64, "GPU"), "2 GPUs");
        assert_eq!(money(Micros(1_234_567_500_000), "EUR"), "1,234,567.50 EUR");
        assert_eq!(money_difference(Micros(3_000_000), Micros(1_500_000)), "−1.50");
        assert_eq!(money_difference(Micros(0), Micros(1_500_000)), "+1.50");
        assert_eq!(shell("a/b-1.json"), "a/b-1.json");
        assert_eq!(shell("it's"), r"'it'\''s'");
        assert_eq!(shell(""), "''");
        assert_eq!(list(&["a".into(), "b".into(), "c".into()]), "a, b and c");
    }
}
