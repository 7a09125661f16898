//! Numbers and lists as people write them.

/// A count with thousands separators: `1,000,000`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
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
pub(crate) fn many(number: u64, noun: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{} {noun}{end}", count(number))
}

/// `is` or `are`.
pub(crate) fn is(number: u64) -> &'static str {
    if number == 1 { "is" } else { "are" }
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
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(difference(10, 3), "−7");
        assert_eq!(difference(3, 1_003), "+1,000");
        assert_eq!(difference(3, 3), "0");
        assert_eq!(many(1, "GPU"), "1 GPU");
        assert_eq!(many(2, "GPU"), "2 GPUs");
        assert_eq!(list(&["a".into(), "b".into(), "c".into()]), "a, b and c");
    }
}
