//! Which texts may go into a manifest or a script.
//!
//! A plan is a file that a person hands over, so each name in it is checked against the rule of Kubernetes
//! before it is written anywhere. What passes holds letters, digits and `.-_/` only; it needs no quoting in
//! any shell, and is quoted all the same.

use super::error::RenderError;

/// What a name is of; each has its own rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameRule {
    /// RFC 1123 label, at most 63: namespaces.
    Label,
    /// RFC 1123 subdomain, at most 253: nodes, workloads, pods, ConfigMaps.
    Subdomain,
    /// Value of a label, at most 63.
    LabelValue,
    /// A qualified name, `prefix/name`: resources of a quota.
    Qualified,
    /// The kind of an object: letters and digits, at most 63.
    Kind,
}

impl NameRule {
    fn says(self) -> &'static str {
        match self {
            Self::Label => {
                "at most 63 lower-case letters, digits and `-`, a letter or digit at both ends (RFC 1123 label)"
            }
            Self::Subdomain => {
                "at most 253 lower-case letters, digits, `-` and `.`, a letter or digit at both ends of each part (RFC 1123 subdomain)"
            }
            Self::LabelValue => {
                "1 to 63 letters, digits, `-`, `_` and `.`, a letter or digit at both ends (label value)"
            }
            Self::Qualified => {
                "an optional DNS name and `/`, then 1 to 63 letters, digits, `-`, `_` and `.` (qualified name)"
            }
            Self::Kind => "1 to 63 letters and digits, a letter first",
        }
    }

    fn holds(self, text: &str) -> bool {
        match self {
            Self::Label => text.len() <= 63 && is_label(text),
            Self::Subdomain => is_subdomain(text),
            Self::LabelValue => is_value(text),
            Self::Qualified => match text.split_once('/') {
                Some((prefix, name)) => is_subdomain(prefix) && is_value(name),
                None => is_value(text),
            },
            Self::Kind => {
                text.len() <= 63
                    && text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
                    && text.bytes().all(|b| b.is_ascii_alphanumeric())
            }
        }
    }

    /// Refuses a text that breaks the rule. `key` says where in the plan it stands.
    pub(super) fn check(self, key: &'static str, text: &str) -> Result<(), RenderError> {
        if self.holds(text) {
            return Ok(());
        }
        Err(RenderError::Name { key, value: shown(text), rule: self.says() })
    }
}

fn is_label(text: &str) -> bool {
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = text.as_bytes();
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

fn is_value(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    text.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// A refused text as it may stand in a message: short, control characters escaped.
fn shown(text: &str) -> String {
    tesela_formats::diagnostic::shown(text)
}

/// Quotes a text for a POSIX shell.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A text of the plan as it may stand in Markdown: one line, and nothing that starts markup.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// 32 bits of FNV-1a as eight hexadecimal digits: a name for a content. Not for secrets; a collision shows
/// as a clash of names and stops the rendering.
pub(super) fn digest(text: &str) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff))
}

/// `stem-<digest of content>`, the stem cut so that the whole is a label value of at most 63 characters.
pub(super) fn named_by_content(stem: &str, content: &str) -> String {
    let mut stem: String = stem
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '.' || c == '-' { c.to_ascii_lowercase() } else { '-' })
        .collect();
    stem.truncate(63 - 9);
    let stem = stem.trim_end_matches(['.', '-']);
    format!("{stem}-{}", digest(content))
}

/// A file name of at most 200 characters from a checked name.
pub(super) fn file_stem(name: &str) -> String {
    if name.len() <= 200 { name.to_owned() } else { format!("{}-{}", &name[..190], digest(name)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_refused() {
        for bad in ["", "a b", "$(reboot)", "a;b", "a'b", "-a", "a-", "A", "a\nb", "../x", "a/b", "é"] {
            assert!(NameRule::Subdomain.check("node", bad).is_err(), "{bad}");
            assert!(NameRule::Label.check("namespace", bad).is_err(), "{bad}");
        }
        assert!(NameRule::Subdomain.check("node", "ip-10-0-0-1.eu-west-1.compute.internal").is_ok());
        assert!(NameRule::Subdomain.check("node", &"a".repeat(254)).is_err());
        assert!(NameRule::Label.check("namespace", "a.b").is_err());
        assert!(NameRule::LabelValue.check("label", "all-1g.10gb.me").is_ok());
        for bad in ["", ".a", "a'", &"a".repeat(64)] {
            assert!(NameRule::LabelValue.check("label", bad).is_err(), "{bad}");
        }
        for good in ["requests.nvidia.com/mig-1g.10gb", "gpu.deviceclass.resource.k8s.io/devices"] {
            assert!(NameRule::Qualified.check("quota", good).is_ok(), "{good}");
        }
        assert!(NameRule::Qualified.check("quota", "a/b/c").is_err());
        assert!(NameRule::Kind.check("kind", "Deploy ment").is_err());
    }

    #[test]
    fn a_single_quote_cannot_leave_its_quotes() {
        assert_eq!(quoted("a'b"), r"'a'\''b'");
    }

    #[test]
    fn names_by_content_fit_a_label() {
        let name = named_by_content(&"tesela-NVIDIA H100 80GB HBM3 ".repeat(4), "x");
        assert!(name.len() <= 63);
        assert!(NameRule::LabelValue.check("label", &name).is_ok(), "{name}");
        assert_ne!(named_by_content("a", "x"), named_by_content("a", "y"));
    }

    #[test]
    fn markdown_keeps_its_lines() {
        assert_eq!(plain("a\n# b`c`"), r"a \# b\`c\`");
    }
}
