//! Text, numbers, booleans and null.

use std::sync::Arc;

use crate::diagnostic::shown;

/// How a scalar was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Bare: `5`, `yes`, `some words`.
    Plain,
    /// In single or double quotes.
    Quoted,
    /// After `|`: the lines as they are.
    Literal,
    /// After `>`: lines joined.
    Folded,
}

/// Which rules say what a bare word means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schema {
    /// The core schema of YAML 1.2.2, section 10.3: `true` and `false` alone are booleans.
    Core,
    /// What Go's parser (sigs.k8s.io/yaml) adds from YAML 1.1, and so what NVIDIA's programs read:
    /// `yes`, `no`, `on`, `off`, `y`, `n` are booleans, `0640` is octal, `0b1` binary, `1_000` a number.
    Yaml11,
}

/// A scalar: its text after quotes and escapes, how it was written, and whether a tag makes it text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scalar {
    /// The text.
    pub text: Arc<str>,
    /// How it was written.
    pub style: Style,
    /// Tagged `!!str`: text, even when bare.
    pub tagged_text: bool,
}

/// What a scalar means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Resolved {
    /// Nothing.
    Null,
    /// A boolean.
    Bool(bool),
    /// A whole number; beyond the range of `i128` it saturates.
    Int(i128),
    /// A number with a fraction or an exponent.
    Float(f64),
    /// Text.
    Text,
}

impl Scalar {
    /// What the scalar means by a schema. What was not written bare is text.
    #[must_use]
    pub fn resolve(&self, schema: Schema) -> Resolved {
        if self.style != Style::Plain || self.tagged_text {
            return Resolved::Text;
        }
        match &*self.text {
            "" | "~" | "null" | "Null" | "NULL" => return Resolved::Null,
            "true" | "True" | "TRUE" => return Resolved::Bool(true),
            "false" | "False" | "FALSE" => return Resolved::Bool(false),
            _ => {}
        }
        if schema == Schema::Yaml11 {
            if let Some(value) = bool_of_yaml11(&self.text) {
                return Resolved::Bool(value);
            }
            if let Some(value) = int_of_yaml11(&self.text) {
                return Resolved::Int(value);
            }
        }
        number_of(&self.text).unwrap_or(Resolved::Text)
    }

    /// In the words of a message: `the number 5`, `the text "x"`, `nothing`.
    #[must_use]
    pub fn describe(&self) -> String {
        let text = shown(&self.text);
        match self.resolve(Schema::Core) {
            Resolved::Null if self.text.is_empty() => "nothing".to_owned(),
            Resolved::Null => format!("nothing ({text})"),
            Resolved::Bool(value) => format!("the boolean {value}"),
            Resolved::Int(_) | Resolved::Float(_) => format!("the number {text}"),
            Resolved::Text => format!("the text \"{text}\""),
        }
    }
}

fn bool_of_yaml11(text: &str) -> Option<bool> {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Some(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

/// `0640`, `0b101`, `1_000`: what only YAML 1.1 calls a whole number.
fn int_of_yaml11(text: &str) -> Option<i128> {
    if text.starts_with('_') {
        return None;
    }
    let plain: String = text.chars().filter(|c| *c != '_').collect();
    let (negative, digits) = match plain.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, plain.strip_prefix('+').unwrap_or(&plain)),
    };
    let value = if let Some(binary) = digits.strip_prefix("0b") {
        radix(binary, 2)
    } else if digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit()) {
        // Go's parser takes a leading zero for octal, and for decimal where that fails.
        radix(digits, 8).or_else(|| radix(digits, 10))
    } else {
        radix(digits, 10)
    }?;
    Some(if negative { -value } else { value })
}

fn number_of(text: &str) -> Option<Resolved> {
    let (negative, body) = match text.strip_prefix('-') {
        Some(body) => (true, body),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let signed = |value: i128| Resolved::Int(if negative { -value } else { value });
    if let Some(value) = radix(body, 10) {
        return Some(signed(value));
    }
    if let Some(value) = text.strip_prefix("0o").and_then(|digits| radix(digits, 8)) {
        return Some(Resolved::Int(value));
    }
    if let Some(value) = text.strip_prefix("0x").and_then(|digits| radix(digits, 16)) {
        return Some(Resolved::Int(value));
    }
    match body {
        ".inf" | ".Inf" | ".INF" => {
            return Some(Resolved::Float(if negative { f64::NEG_INFINITY } else { f64::INFINITY }));
        }
        ".nan" | ".NaN" | ".NAN" if body.len() == text.len() => return Some(Resolved::Float(f64::NAN)),
        _ => {}
    }
    // Rust reads more than the core schema does ("inf", "infinity", "nan"): only these characters.
    let mut digits = 0_usize;
    for c in body.chars() {
        match c {
            '0'..='9' => digits += 1,
            '.' | 'e' | 'E' | '+' | '-' => {}
            _ => return None,
        }
    }
    if digits == 0 {
        return None;
    }
    text.parse().ok().map(Resolved::Float)
}

/// Digits of a radix as a number that saturates; nothing when there is another character, or none.
fn radix(digits: &str, radix: u32) -> Option<i128> {
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    Some(i128::from_str_radix(digits, radix).unwrap_or(i128::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Scalar {
        Scalar { text: text.into(), style: Style::Plain, tagged_text: false }
    }

    #[test]
    fn bare_words_by_both_schemas() {
        use Resolved::{Bool, Float, Int, Null, Text};
        let cases = [
            ("", Null, Null),
            ("~", Null, Null),
            ("null", Null, Null),
            ("true", Bool(true), Bool(true)),
            ("FALSE", Bool(false), Bool(false)),
            ("yes", Text, Bool(true)),
            ("off", Text, Bool(false)),
            ("y", Text, Bool(true)),
            ("0", Int(0), Int(0)),
            ("-12", Int(-12), Int(-12)),
            ("+7", Int(7), Int(7)),
            ("0640", Int(640), Int(0o640)),
            ("089", Int(89), Int(89)),
            ("0o17", Int(15), Int(15)),
            ("0x1F", Int(31), Int(31)),
            ("0b11", Text, Int(3)),
            ("1_000", Text, Int(1000)),
            ("1.5", Float(1.5), Float(1.5)),
            ("2.0", Float(2.0), Float(2.0)),
            ("1e3", Float(1000.0), Float(1000.0)),
            (".5", Float(0.5), Float(0.5)),
            (".inf", Float(f64::INFINITY), Float(f64::INFINITY)),
            ("inf", Text, Text),
            ("nan", Text, Text),
            ("e", Text, Text),
            ("1g.10gb", Text, Text),
            ("0x233010DE", Int(0x2330_10DE), Int(0x2330_10DE)),
            ("_", Text, Text),
        ];
        for (text, core, yaml11) in cases {
            assert_eq!(plain(text).resolve(Schema::Core), core, "{text} by the core schema");
            assert_eq!(plain(text).resolve(Schema::Yaml11), yaml11, "{text} by YAML 1.1");
        }
    }

    #[test]
    fn quotes_and_tags_make_text() {
        let mut quoted = plain("5");
        quoted.style = Style::Quoted;
        assert_eq!(quoted.resolve(Schema::Core), Resolved::Text);
        let mut tagged = plain("5");
        tagged.tagged_text = true;
        assert_eq!(tagged.resolve(Schema::Yaml11), Resolved::Text);
    }

    #[test]
    fn a_number_beyond_all_types_saturates() {
        let text = "9".repeat(80);
        assert_eq!(plain(&text).resolve(Schema::Core), Resolved::Int(i128::MAX));
    }
}
