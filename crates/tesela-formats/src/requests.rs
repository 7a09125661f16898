//! Request logs as CSV: when requests came, whose they were, how much work they brought.
//!
//! Two forms are read, told apart by their header line:
//!
//! | columns | from |
//! | --- | --- |
//! | `TIMESTAMP,ContextTokens,GeneratedTokens` | the Azure LLM inference traces of 2023; the workload is named by the caller |
//! | `time,namespace,workload,input_tokens,output_tokens` or `time,namespace,workload,seconds`, in any order, `kind` if wanted | logs of one's own |
//!
//! Strict: an unknown column, a number that is none, a time before the one above it are errors with line and column.
//! Read as a stream: one line of at most [`MOST_LINE`] bytes is held at a time.

mod activity;
mod header;
mod line;
mod number;

use std::io::{BufRead, BufReader, Read};

use crate::diagnostic::{Diagnostic, shown};
use crate::source::Span;

pub use self::activity::{LONGEST_WINDOW_MS, Recorder, SHORTEST_WINDOW_MS, ServiceTime};
use self::header::Header;

/// Longest line in bytes, its end included.
pub const MOST_LINE: usize = 4096;

/// A date and time in UTC, such as `2026-11-30T07:58:31Z`, in microseconds since 1970; `None` = it is none.
#[must_use]
pub fn utc_us(text: &str) -> Option<u64> {
    number::date_us(text)
}

/// What a request brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Tokens read and tokens written; how long that takes is a [`ServiceTime`]'s to say.
    Tokens {
        /// Tokens of the prompt.
        input: u32,
        /// Tokens of the answer.
        output: u32,
    },
    /// How long it was at work, in microseconds.
    Micros(u64),
}

/// One line of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// When it came, in microseconds since 1970-01-01T00:00:00Z, or since whenever the log counts from.
    pub at_us: u64,
    /// Namespace, kind (where there is such a column) and workload; `None` where the log has no such columns.
    pub owner: Option<(&'a str, Option<&'a str>, &'a str)>,
    /// What it brought.
    pub work: Work,
    /// Where its time stands.
    pub at: Span,
}

/// Reads a log, one request at a time, in the order of the file. Returns how many there were.
///
/// # Errors
/// The first thing that is wrong, with line and column: a header that is not one of the two forms, a line with too
/// few or too many values, a value that is not what its column holds, a time before the one of the line above; or
/// what `each` finds wrong; or that the input cannot be read.
pub fn read<R: Read>(
    file: &str,
    reader: R,
    mut each: impl FnMut(Request<'_>) -> Result<(), Diagnostic>,
) -> Result<u64, Diagnostic> {
    let mut lines = Lines { file, reader: BufReader::new(reader), number: 0, text: Vec::new() };
    let Some(first) = lines.next()? else {
        return Err(Diagnostic::error(file, "no-header", "the file is empty").fix(header::FORMS));
    };
    let header = Header::read(file, first)?;
    let (mut count, mut last) = (0u64, None);
    while let Some((number, text)) = lines.next_numbered()? {
        let request = line::read(file, number, text, &header)?;
        if let Some(before) = last.filter(|before| *before > request.at_us) {
            return Err(out_of_order(file, &request, before, text, &header));
        }
        last = Some(request.at_us);
        count += 1;
        each(request)?;
    }
    if count == 0 {
        let message = "the file holds a header and no request";
        return Err(Diagnostic::error(file, "no-requests", message).fix("write one request per line"));
    }
    Ok(count)
}

fn out_of_order(file: &str, request: &Request<'_>, before: u64, text: &str, header: &Header) -> Diagnostic {
    let value = line::value(text, header.time);
    let late = (before - request.at_us) / 1000;
    let message = format!("`{}` is {late} ms before the time of the line above", shown(value));
    Diagnostic::error(file, "wrong-order", message)
        .at(request.at)
        .value(shown(value))
        .fix("sort the lines by time, the header first")
}

/// Lines of bounded length.
struct Lines<'f, R> {
    file: &'f str,
    reader: BufReader<R>,
    number: u32,
    text: Vec<u8>,
}

impl<R: Read> Lines<'_, R> {
    fn next(&mut self) -> Result<Option<&str>, Diagnostic> {
        Ok(self.next_numbered()?.map(|(_, text)| text))
    }

    /// The next line without its end; `None` after the last.
    fn next_numbered(&mut self) -> Result<Option<(u32, &str)>, Diagnostic> {
        self.text.clear();
        self.number = self.number.saturating_add(1);
        let (file, at) = (self.file, Span::new(self.number, 1));
        let mut bounded = self.reader.by_ref().take(MOST_LINE as u64 + 1);
        bounded.read_until(b'\n', &mut self.text).map_err(|error| {
            Diagnostic::error(file, "unreadable", format!("cannot be read: {error}")).at(at)
        })?;
        if self.text.is_empty() {
            return Ok(None);
        }
        if self.text.len() > MOST_LINE {
            let message = format!("the line is longer than {MOST_LINE} bytes, which no request needs");
            return Err(Diagnostic::error(file, "line-too-long", message)
                .at(at)
                .fix("is this a CSV file with one request per line?"));
        }
        let text = std::str::from_utf8(&self.text).map_err(|error| {
            let column = 1 + String::from_utf8_lossy(&self.text[..error.valid_up_to()]).chars().count();
            let at = Span::new(self.number, u32::try_from(column).unwrap_or(u32::MAX));
            Diagnostic::error(file, "not-utf8", "the line is not UTF-8").at(at).fix("save the file as UTF-8")
        })?;
        let text = text.strip_suffix('\n').unwrap_or(text);
        Ok(Some((self.number, text.strip_suffix('\r').unwrap_or(text))))
    }
}
