//! How much is read, and whether the bytes are text at all.

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::sniff::{Kind, sniff};
use crate::source::Span;

/// How much of a text is read at most. What is beyond is an error, never cut off in silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Bytes of the text.
    pub bytes: usize,
    /// Collections inside collections.
    pub depth: usize,
    /// Keys and values, aliases expanded.
    pub nodes: usize,
}

impl Default for Budget {
    /// 16 MiB, 64 levels, 1,000,000 nodes.
    fn default() -> Self {
        Self { bytes: 16 << 20, depth: 64, nodes: 1_000_000 }
    }
}

/// The bytes as text.
pub(super) fn text_of<'b>(name: &str, bytes: &'b [u8], budget: Budget) -> Result<&'b str, Diagnostics> {
    if bytes.len() > budget.bytes {
        let message =
            format!("the text has {} bytes; at most {} are read", bytes.len(), shown_bytes(budget.bytes));
        return Err(Diagnostic::error(name, "input-size", message)
            .fix("split it into several files; kubectl's JSON has no such limit")
            .into());
    }
    match sniff(bytes) {
        Kind::Empty => {
            return Err(Diagnostic::error(name, "empty-input", "there is nothing in it")
                .fix("check the command or the path that should have produced it")
                .into());
        }
        Kind::Utf16 => {
            return Err(Diagnostic::error(name, "not-text", "the text is in UTF-16")
                .fix("save it as UTF-8 (PowerShell: `| Out-File -Encoding utf8`)")
                .into());
        }
        Kind::Binary => {
            return Err(Diagnostic::error(name, "not-text", "this is binary data, neither YAML nor JSON")
                .fix("if it is compressed, unpack it first")
                .into());
        }
        _ => {}
    }
    std::str::from_utf8(bytes).map_err(|error| not_utf8(name, bytes, error.valid_up_to()).into())
}

fn not_utf8(name: &str, bytes: &[u8], offset: usize) -> Diagnostic {
    // What stands before the offset is valid, so it can be counted in characters.
    let before = std::str::from_utf8(&bytes[..offset]).unwrap_or_default();
    let at = end_of(before);
    let byte = bytes.get(offset).copied().unwrap_or_default();
    let message = format!("byte {offset} (0x{byte:02X}) on line {} is not valid UTF-8", at.line);
    Diagnostic::error(name, "invalid-utf8", message)
        .at(at)
        .value(format!("0x{byte:02X}"))
        .fix("save the text as UTF-8")
}

/// The place just behind a text.
pub(super) fn end_of(text: &str) -> Span {
    let line = text.bytes().filter(|b| *b == b'\n').count() + 1;
    let last = text.rsplit('\n').next().unwrap_or_default();
    Span::new(clip(line), clip(last.chars().count() + 1))
}

/// Lines and columns of a text of 16 MiB fit; a larger budget saturates.
pub(super) fn clip(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn shown_bytes(bytes: usize) -> String {
    if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) {
        format!("{} MiB", bytes >> 20)
    } else {
        bytes.to_string()
    }
}
