//! What the parser says, in words that help.

use granit_parser::{ErrorKind, ScanError};

use super::ReadOptions;
use super::budget::{clip, end_of};
use crate::diagnostic::{Diagnostic, shown};
use crate::sniff::{Kind, sniff};
use crate::source::Span;

/// An error of the reader itself.
pub(super) fn fault(file: &str, rule: &'static str, message: impl Into<String>, at: Span) -> Diagnostic {
    Diagnostic::error(file, rule, message).at(at)
}

/// A parser's error. `open` are the collections not yet closed, outermost first.
pub(super) fn from_scan_error(
    file: &str,
    text: &str,
    options: &ReadOptions,
    error: &ScanError,
    open: &[(Span, &str)],
) -> Diagnostic {
    let marker = error.marker();
    let at = Span::new(clip(marker.line()), clip(marker.col() + 1));
    if matches!(error.kind(), ErrorKind::RecursionLimitExceeded) {
        let message = format!("values nest deeper than {} levels", options.budget.depth);
        return fault(file, "yaml-depth", message, options.offset.lift(at));
    }
    let json = sniff(text.as_bytes()) == Kind::Json;
    if is_cut(error.kind(), at, text) {
        return cut(file, text, json, options, open);
    }
    let line = line_of(text, at);
    let what = if json { "JSON" } else { "YAML" };
    let found = fault(
        file,
        "yaml-syntax",
        format!("this is no valid {what}: {}", error.info()),
        options.offset.lift(at),
    )
    .value(shown(line.trim()));
    match hint(error.kind(), line) {
        Some(hint) => found.fix(hint),
        None => found,
    }
}

/// True when the text ends before what was begun is finished.
fn is_cut(kind: &ErrorKind, at: Span, text: &str) -> bool {
    let unfinished = matches!(
        kind,
        ErrorKind::UnexpectedEof
            | ErrorKind::UnexpectedEofFlowMapping
            | ErrorKind::UnexpectedEofFlowSequence
            | ErrorKind::UnexpectedEofImplicitFlowMapping
            | ErrorKind::UnexpectedEofBlockMapping
            | ErrorKind::UnexpectedEofBlockSequence
            | ErrorKind::UnclosedFlowCollection { .. }
            | ErrorKind::UnclosedQuotedScalar
    );
    unfinished || at >= end_of(text.trim_end())
}

fn cut(file: &str, text: &str, json: bool, options: &ReadOptions, open: &[(Span, &str)]) -> Diagnostic {
    let (rule, what) = if json { ("truncated-json", "JSON") } else { ("truncated-yaml", "YAML") };
    // The parser reads ahead, so of JSON the brackets themselves say what is open.
    let lift = |at| options.offset.lift(at);
    let open =
        if json { innermost_open(text).map(|(at, kind)| (lift(at), kind)) } else { open.last().copied() };
    let begun =
        open.map_or_else(String::new, |(at, kind)| format!(", inside the {kind} that begins at {at}"));
    let last = text.trim_end().rsplit('\n').next().unwrap_or_default();
    let skip = last.chars().count().saturating_sub(40);
    let tail: String = last.chars().skip(skip).collect();
    fault(file, rule, format!("the {what} is cut off here{begun}"), lift(end_of(text.trim_end())))
        .value(shown(&tail))
        .fix("the command or the copy that wrote it did not finish; run it again")
}

/// The innermost object, list or string that is open where a JSON text ends.
fn innermost_open(text: &str) -> Option<(Span, &'static str)> {
    let mut open: Vec<(Span, &'static str)> = Vec::new();
    let (mut line, mut column) = (1, 0);
    let mut escaped = false;
    for c in text.chars() {
        column += 1;
        let at = Span::new(line, column);
        let in_string = matches!(open.last(), Some((_, "string")));
        match c {
            '\n' => (line, column) = (line.saturating_add(1), 0),
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' if in_string => drop(open.pop()),
            _ if in_string => {}
            '"' => open.push((at, "string")),
            '{' => open.push((at, "object")),
            '[' => open.push((at, "list")),
            '}' | ']' => drop(open.pop()),
            _ => {}
        }
    }
    open.pop()
}

fn line_of(text: &str, at: Span) -> &str {
    let index = usize::try_from(at.line).unwrap_or(usize::MAX).saturating_sub(1);
    text.lines().nth(index).unwrap_or_default()
}

fn hint(kind: &ErrorKind, line: &str) -> Option<&'static str> {
    match kind {
        ErrorKind::TabInIndentation | ErrorKind::TabNotAllowed | ErrorKind::TabInBlockIndentation => {
            Some("indent with blanks, not with tabs")
        }
        ErrorKind::UnknownAnchor => Some("define the anchor (`&name`) before the alias (`*name`)"),
        _ if line.trim_start().starts_with('\t') || line.starts_with('\t') => {
            Some("indent with blanks, not with tabs")
        }
        _ if line.contains("{{") => Some("this looks like a template; render it first"),
        ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidIndentation => {
            Some("check the indentation, and put quotes around text that contains `: `")
        }
        ErrorKind::UnknownQuotedScalarEscape => Some("write a backslash twice, or use single quotes"),
        _ => None,
    }
}
