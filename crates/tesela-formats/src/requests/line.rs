//! One line: its values, each checked.

use super::header::{Header, WorkColumns};
use super::number::{self, Wrong};
use super::{Request, Work};
use crate::diagnostic::{Diagnostic, shown};
use crate::source::Span;

/// No request has more tokens.
const MOST_TOKENS: u64 = 100_000_000;
/// No request is at work for longer, in microseconds: a week.
const MOST_WORK_US: u64 = 7 * 24 * 3_600 * 1_000_000;
/// Kubernetes names are at most this long.
const MOST_NAME: usize = 253;

/// A line's value by its column, from 0.
pub(super) fn value(line: &str, column: usize) -> &str {
    line.split(',').nth(column).unwrap_or("")
}

struct Cells<'a> {
    file: &'a str,
    number: u32,
    line: &'a str,
}

impl<'a> Cells<'a> {
    fn at(&self, column: usize) -> Span {
        let before: usize = self.line.split(',').take(column).map(|v| v.chars().count() + 1).sum();
        Span::new(self.number, u32::try_from(before + 1).unwrap_or(u32::MAX))
    }

    fn wrong(&self, column: usize, rule: &'static str, message: String, fix: &str) -> Diagnostic {
        Diagnostic::error(self.file, rule, message)
            .at(self.at(column))
            .value(shown(value(self.line, column)))
            .fix(fix)
    }

    fn of<T>(
        &self,
        column: usize,
        what: &str,
        read: impl FnOnce(&'a str) -> Result<T, Wrong>,
    ) -> Result<T, Diagnostic> {
        let text = value(self.line, column);
        read(text).map_err(|Wrong { rule, must, fix }| {
            self.wrong(column, rule, format!("{what} `{}` {must}", shown(text)), fix)
        })
    }
}

pub(super) fn read<'a>(
    file: &'a str,
    number: u32,
    line: &'a str,
    header: &Header,
) -> Result<Request<'a>, Diagnostic> {
    let cells = Cells { file, number, line };
    let values = line.split(',').count();
    if line.contains('"') {
        let column = line.split(',').position(|v| v.contains('"')).unwrap_or(0);
        let fix = "write the value without quotes; none of these values needs them";
        return Err(cells.wrong(column, "quoted-value", "the value is quoted".to_owned(), fix));
    }
    if values != header.columns {
        let message = format!("the line has {values} values, the header {} columns", header.columns);
        let column = values.min(header.columns) - usize::from(values < header.columns);
        return Err(cells.wrong(column, "wrong-columns", message, "write one value per column"));
    }
    let at_us = cells.of(header.time, "the time", number::time_us)?;
    let owner = match header.owner {
        None => None,
        Some((namespace, kind, workload)) => Some((
            cells.of(namespace, "the namespace", name)?,
            kind.map(|kind| cells.of(kind, "the kind", kind_name)).transpose()?,
            cells.of(workload, "the workload", name)?,
        )),
    };
    let tokens = |text: &str| {
        let count = number::whole(text, MOST_TOKENS)?;
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    };
    let work = match header.work {
        WorkColumns::Tokens { input, output } => Work::Tokens {
            input: cells.of(input, "the count of input tokens", tokens)?,
            output: cells.of(output, "the count of output tokens", tokens)?,
        },
        WorkColumns::Seconds(column) => {
            Work::Micros(cells.of(column, "the duration", |text| number::seconds_us(text, MOST_WORK_US))?)
        }
    };
    Ok(Request { at_us, owner, work, at: cells.at(header.time) })
}

/// A name as Kubernetes allows it (RFC 1123 subdomain).
fn name(text: &str) -> Result<&str, Wrong> {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let sound = text.len() <= MOST_NAME
        && text.chars().all(inner)
        && edge(text.chars().next())
        && edge(text.chars().last());
    if sound { Ok(text) } else { Err(Wrong::new("invalid-name", "is no name in Kubernetes", NAMES)) }
}

const NAMES: &str = "write small letters, digits, `-` and `.`, a letter or digit at both ends";

/// A kind such as `Deployment`.
fn kind_name(text: &str) -> Result<&str, Wrong> {
    let sound = text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.len() <= MOST_NAME
        && text.chars().all(|c| c.is_ascii_alphanumeric());
    if sound {
        Ok(text)
    } else {
        Err(Wrong::new("invalid-name", "is no kind in Kubernetes", "write it as in `kind: Deployment`"))
    }
}
