//! YAML out: small, in a fixed order, safe for parsers of YAML 1.1 and 1.2 alike.

use crate::tree::{Resolved, Scalar, Schema, Style};

/// A value to write. Mappings keep their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Out {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// Text; quoted where some parser could take it for something else.
    Text(String),
    /// A list, one element per line.
    List(Vec<Out>),
    /// A list of scalars on one line.
    Flow(Vec<Out>),
    /// A mapping.
    Map(Vec<(String, Out)>),
}

impl Out {
    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// The value as a YAML document, ending in a line break.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        let mut out = String::new();
        match self {
            Self::Map(entries) if !entries.is_empty() => map(&mut out, entries, 0),
            Self::List(items) if !items.is_empty() => list(&mut out, items, 0),
            scalar => {
                inline(&mut out, scalar);
                out.push('\n');
            }
        }
        out
    }
}

fn indent(out: &mut String, depth: usize) {
    for _ in 0..depth {
        out.push_str("  ");
    }
}

fn map(out: &mut String, entries: &[(String, Out)], depth: usize) {
    for (index, (key, value)) in entries.iter().enumerate() {
        // The first entry of a mapping in a list stands behind its dash.
        if index > 0 || !out.ends_with("- ") {
            indent(out, depth);
        }
        out.push_str(&quoted(key));
        out.push(':');
        match value {
            Out::Map(inner) if !inner.is_empty() => {
                out.push('\n');
                map(out, inner, depth + 1);
            }
            Out::List(items) if !items.is_empty() => {
                out.push('\n');
                list(out, items, depth + 1);
            }
            scalar => {
                out.push(' ');
                inline(out, scalar);
                out.push('\n');
            }
        }
    }
}

fn list(out: &mut String, items: &[Out], depth: usize) {
    for item in items {
        indent(out, depth);
        match item {
            Out::Map(entries) if !entries.is_empty() => {
                out.push_str("- ");
                map(out, entries, depth + 1);
            }
            Out::List(inner) if !inner.is_empty() => {
                out.push_str("-\n");
                list(out, inner, depth + 1);
            }
            scalar => {
                out.push_str("- ");
                inline(out, scalar);
                out.push('\n');
            }
        }
    }
}

fn inline(out: &mut String, value: &Out) {
    match value {
        Out::Null => out.push_str("null"),
        Out::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Out::Int(value) => out.push_str(&value.to_string()),
        Out::Text(text) => out.push_str(&quoted(text)),
        Out::Map(_) => out.push_str("{}"),
        Out::List(items) | Out::Flow(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                inline(out, item);
            }
            out.push(']');
        }
    }
}

/// Text as a scalar: bare where every parser takes it for text, else in double quotes.
fn quoted(text: &str) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            // Control characters, and what YAML takes for a line break or a byte order mark.
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{FEFF}') => {
                out.push_str(&format!("\\u{:04X}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn is_plain(text: &str) -> bool {
    let first = |c: char| c.is_ascii_alphanumeric() || c == '/';
    let rest = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '/' | '+' | '-');
    if !text.starts_with(first) || !text.chars().all(rest) {
        return false;
    }
    // YAML 1.1 reads `2026-11-30` as a date.
    if text.chars().all(|c| c.is_ascii_digit() || c == '-') {
        return false;
    }
    let scalar = Scalar { text: text.into(), style: Style::Plain, tagged_text: false };
    scalar.resolve(Schema::Core) == Resolved::Text && scalar.resolve(Schema::Yaml11) == Resolved::Text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::read_documents;
    use proptest::prelude::*;

    #[test]
    fn what_another_parser_could_take_for_something_else_is_quoted() {
        let cases = [
            ("all", "all"),
            ("1g.10gb+me", "1g.10gb+me"),
            ("nvidia.com/gpu", "nvidia.com/gpu"),
            ("0x233010DE", "\"0x233010DE\""),
            ("yes", "\"yes\""),
            ("n", "\"n\""),
            ("null", "\"null\""),
            ("0:1", "\"0:1\""),
            ("1e3", "\"1e3\""),
            ("1_000", "\"1_000\""),
            ("2026-11-30", "\"2026-11-30\""),
            ("", "\"\""),
            ("a b", "\"a b\""),
            ("-", "\"-\""),
            ("\u{1}\n\"", "\"\\u0001\\n\\\"\""),
        ];
        for (text, wanted) in cases {
            assert_eq!(quoted(text), wanted);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn any_text_comes_back_as_text(text in any::<String>()) {
            let out = Out::Map(vec![("key".into(), Out::List(vec![Out::text(text.clone())]))]).to_yaml();
            let trees = read_documents("out", out.as_bytes()).unwrap();
            let item = &trees[0].root.get("key").unwrap().as_sequence().unwrap()[0];
            let scalar = item.as_scalar().unwrap();
            prop_assert_eq!(&*scalar.text, &text);
            prop_assert_eq!(scalar.resolve(Schema::Yaml11), Resolved::Text);
        }
    }
}
