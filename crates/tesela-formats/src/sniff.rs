//! What a text is, by its first bytes, so that a wrong kind of input gets a useful answer.

use crate::diagnostic::{Diagnostic, shown};
use crate::source::Span;

/// What a text looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing but white space.
    Empty,
    /// Begins as a JSON object or list.
    Json,
    /// Some other text; most likely YAML.
    Yaml,
    /// The table that `kubectl get` prints without `-o json`.
    KubectlTable,
    /// What `kubectl get` says when it found nothing, or why it failed.
    KubectlMessage,
    /// UTF-16 text, as some shells write it.
    Utf16,
    /// Not text.
    Binary,
}

/// How many bytes are looked at for signs of binary data.
const HEAD: usize = 4096;

/// Says what a text looks like. Never fails; looks at the first lines only.
#[must_use]
pub fn sniff(bytes: &[u8]) -> Kind {
    if bytes.starts_with(&[0xFF, 0xFE]) || bytes.starts_with(&[0xFE, 0xFF]) {
        return Kind::Utf16;
    }
    let bytes = bytes.strip_prefix(&[0xEF, 0xBB, 0xBF]).unwrap_or(bytes);
    let head = bytes.get(..HEAD).unwrap_or(bytes);
    if head.contains(&0) || head.starts_with(&[0x1F, 0x8B]) {
        return Kind::Binary;
    }
    let Some(start) = bytes.iter().position(|b| !b.is_ascii_whitespace()) else {
        return Kind::Empty;
    };
    let rest = &bytes[start..];
    if matches!(rest[0], b'{' | b'[') {
        return Kind::Json;
    }
    let line = rest.split(|b| matches!(b, b'\n' | b'\r')).next().unwrap_or_default();
    if is_table_header(line) {
        return Kind::KubectlTable;
    }
    const MESSAGES: [&[u8]; 4] = [
        b"No resources found",
        b"The connection to the server",
        b"Error from server",
        b"Unable to connect to the server",
    ];
    if MESSAGES.iter().any(|message| line.starts_with(message)) {
        return Kind::KubectlMessage;
    }
    Kind::Yaml
}

/// What to say to a text that is nothing a reader takes: a kubectl table or message.
#[must_use]
pub fn refusal(file: &str, bytes: &[u8]) -> Option<Diagnostic> {
    let line = || {
        let text = String::from_utf8_lossy(bytes.get(..HEAD).unwrap_or(bytes)).into_owned();
        text.trim_start().lines().next().unwrap_or_default().to_owned()
    };
    match sniff(bytes) {
        Kind::KubectlTable => Some(
            Diagnostic::error(file, "kubectl-table", "this is the table that kubectl prints for people")
                .at(Span::new(1, 1))
                .value(shown(&line()))
                .fix("add `-o json` to the kubectl command"),
        ),
        Kind::KubectlMessage => Some(
            Diagnostic::error(file, "kubectl-message", format!("kubectl answered: {}", shown(&line())))
                .at(Span::new(1, 1))
                .fix("make the kubectl command work first; the output needs `-o json`"),
        ),
        _ => None,
    }
}

/// A header is `NAME` or `NAMESPACE` and more words, all in capitals: `NAME  STATUS  ROLES  AGE`.
fn is_table_header(line: &[u8]) -> bool {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    if !matches!(words.next(), Some(b"NAME" | b"NAMESPACE")) {
        return false;
    }
    let mut more = 0;
    for word in words {
        let header = |b: &u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b"()-/_%".contains(b);
        if !word.iter().all(header) {
            return false;
        }
        more += 1;
    }
    more > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_told_apart() {
        let cases: [(&[u8], Kind); 14] = [
            (b"", Kind::Empty),
            (b" \n\t\n", Kind::Empty),
            (b"\xEF\xBB\xBF\n", Kind::Empty),
            (b"\n{\"kind\": \"List\"}", Kind::Json),
            (b"[]", Kind::Json),
            (b"kind: Fleet\n", Kind::Yaml),
            (b"NAME: x\n", Kind::Yaml),
            (
                b"NAME     STATUS   ROLES    AGE   VERSION\nn1  Ready  <none>  3d  v1.34.1\n",
                Kind::KubectlTable,
            ),
            (b"NAMESPACE  NAME  READY  STATUS  RESTARTS  AGE\n", Kind::KubectlTable),
            (b"NAMESPACE  NAME  STATUS  INTERNAL-IP  KERNEL-VERSION\n", Kind::KubectlTable),
            (b"No resources found in default namespace.\n", Kind::KubectlMessage),
            (b"\xFF\xFEk\0i\0", Kind::Utf16),
            (b"\x1F\x8B\x08\0", Kind::Binary),
            (b"PNG\0\0", Kind::Binary),
        ];
        for (bytes, kind) in cases {
            assert_eq!(sniff(bytes), kind, "{}", String::from_utf8_lossy(bytes));
        }
    }
}
