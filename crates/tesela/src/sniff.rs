//! Which of our readers an input is for, by its first bytes.

use tesela_formats::sniff::{Kind, sniff};

/// Prefix of `apiVersion` in every document of ours.
const OURS: &str = "tesela.dev/";
/// Kinds of ours; they tell a document that forgot its `apiVersion`.
const KINDS: [&str; 5] = ["Fleet", "Demand", "PriceBook", "ProductTable", "Plan"];

/// Who reads an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// The strict reader of our documents.
    Documents,
    /// The streaming reader of kubectl's JSON, which also explains what is no such JSON.
    Kubectl,
    /// Nobody: an answer of Prometheus stands behind `--usage`.
    Usage,
}

/// Tells by the beginning of an input who reads it. JSON is ours when its outermost `apiVersion` or `kind` says so;
/// YAML goes to the documents, whose reader knows a Kubernetes object when it sees one.
pub(crate) fn reader(head: &[u8]) -> Reader {
    match sniff(head) {
        Kind::Yaml => Reader::Documents,
        Kind::Json => json(head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head)),
        _ => Reader::Kubectl,
    }
}

fn json(head: &[u8]) -> Reader {
    let mut outermost = Outermost { bytes: head, at: 0 };
    let mut found = Reader::Kubectl;
    while let Some((key, value)) = outermost.next_text() {
        match key.as_slice() {
            b"apiVersion" if value.starts_with(OURS.as_bytes()) => return Reader::Documents,
            b"apiVersion" => return Reader::Kubectl,
            b"kind" if KINDS.iter().any(|k| k.as_bytes() == value) => found = Reader::Documents,
            // Prometheus' words; a Status of Kubernetes says Success or Failure.
            b"status" if matches!(value.as_slice(), b"success" | b"error") && found == Reader::Kubectl => {
                found = Reader::Usage;
            }
            _ => {}
        }
    }
    found
}

/// Walks the outermost object of a JSON text that may be cut off, without reading what lies deeper.
struct Outermost<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Outermost<'_> {
    /// The next key of the outermost object whose value is a string, with that value. Escapes stay as written.
    fn next_text(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        let mut depth = usize::from(self.at > 0);
        let mut key = None;
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'"' => {
                    let text = self.string()?;
                    if depth != 1 {
                        continue;
                    }
                    match key.take() {
                        None if self.next_is_colon() => key = Some(text),
                        None => {}
                        Some(name) => return Some((name, text)),
                    }
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        return None;
                    }
                }
                b',' if depth == 1 => key = None,
                _ => {}
            }
            self.at += 1;
        }
        None
    }

    /// The string that begins here; `None` when it is cut off.
    fn string(&mut self) -> Option<Vec<u8>> {
        let begin = self.at + 1;
        let mut end = begin;
        while *self.bytes.get(end)? != b'"' {
            end += if self.bytes[end] == b'\\' { 2 } else { 1 };
        }
        self.at = end + 1;
        self.bytes.get(begin..end).map(<[u8]>::to_vec)
    }

    fn next_is_colon(&self) -> bool {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        rest.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b':')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_is_told_from_kubectls() {
        for (text, wanted) in [
            (r#"{"apiVersion": "v1", "items": [], "kind": "List"}"#, Reader::Kubectl),
            (
                r#"{"items": [{"apiVersion": "tesela.dev/v1alpha1", "kind": "Fleet"}], "kind": "List"}"#,
                Reader::Kubectl,
            ),
            (r#"{"items": [{"metadata": {"name": "cut o"#, Reader::Kubectl),
            (r#"{"a": "b", "c": "kind", "d": ["kind", "Fleet"]}"#, Reader::Kubectl),
            (r#"{"kind":"Fleet","spec":{}}"#, Reader::Documents),
            (r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#, Reader::Usage),
            (r#"{"status":"error","errorType":"bad_data","error":"x"}"#, Reader::Usage),
            (r#"{"apiVersion":"v1","status":"error"}"#, Reader::Kubectl),
            (r#"{"kind":"Status","status":"Failure"}"#, Reader::Kubectl),
            (r#"{"spec": {"x": "}"}, "apiVersion" : "tesela.dev/v1alpha1"}"#, Reader::Documents),
            (r#"{"x": "a\"b", "kind": "Demand"}"#, Reader::Documents),
            ("\u{feff}{\"kind\":\"Plan\"}", Reader::Documents),
            ("kind: Demand\n", Reader::Documents),
            ("apiVersion: v1\nkind: List\n", Reader::Documents),
            ("NAME  STATUS\nn1  Ready\n", Reader::Kubectl),
            ("", Reader::Kubectl),
            ("[1, 2]", Reader::Kubectl),
        ] {
            assert_eq!(reader(text.as_bytes()), wanted, "{text}");
        }
    }
}
