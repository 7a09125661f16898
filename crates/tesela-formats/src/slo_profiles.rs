//! Measured profiles of models on MIG instances, and sets of demanded rates and latencies, as the authors of ParvaGPU
//! publish them (CSV).
//!
//! A profile file has the header `Mig instance,Batch size,Workload Number,Throughput,Latency`: compute slices,
//! requests in a batch, processes in the instance, requests a second of one process, seconds. 0 in the last two means
//! that it did not fit or was not run. A set file has no header: a row per set, a column per model, `N/A` where the set
//! lacks the model.

use crate::diagnostic::{Diagnostic, shown};
use crate::source::Span;

/// The header of a profile file.
const HEADER: &str = "Mig instance,Batch size,Workload Number,Throughput,Latency";
/// Rows of one file at most.
const MOST_ROWS: usize = 100_000;
/// No instance has more slices, no batch more requests, no instance more processes.
const MOST_WHOLE: u32 = 1_000_000;
/// No rate or latency is above this, in thousandths or millionths.
const MOST_VALUE: u64 = 1_000_000_000_000;

/// One row of a profile file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProfileRow {
    /// Compute slices of the instance.
    pub slices: u32,
    /// Requests in a batch.
    pub batch: u32,
    /// Processes in the instance.
    pub processes: u32,
    /// Served by one process, in thousandths of a request a second.
    pub rate_milli: u64,
    /// Latency in microseconds.
    pub latency_us: u64,
}

/// A line's values with what is needed to say where one stands.
struct Line<'a> {
    file: &'a str,
    number: u32,
    text: &'a str,
}

impl<'a> Line<'a> {
    fn fault(&self, column: usize, rule: &'static str, message: String) -> Diagnostic {
        let before: usize = self.text.split(',').take(column).map(|v| v.chars().count() + 1).sum();
        let at = Span::new(self.number, u32::try_from(before + 1).unwrap_or(u32::MAX));
        Diagnostic::error(self.file, rule, message).at(at)
    }

    fn value(&self, column: usize) -> &'a str {
        self.text.split(',').nth(column).unwrap_or("")
    }

    fn whole(&self, column: usize, what: &str) -> Result<u32, Diagnostic> {
        let text = self.value(column);
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        text.parse().ok().filter(|n| digits && (1..=MOST_WHOLE).contains(n)).ok_or_else(|| {
            let message = format!("{what} `{}` must be a whole number from 1 to {MOST_WHOLE}", shown(text));
            self.fault(column, "invalid-number", message).value(shown(text))
        })
    }

    /// A decimal number, 0 or more, in parts of 10^-places; further digits must be zeros.
    fn decimal(&self, column: usize, what: &str, places: usize) -> Result<u64, Diagnostic> {
        let text = self.value(column);
        decimal(text, places).filter(|n| *n <= MOST_VALUE).ok_or_else(|| {
            let message = format!(
                "{what} `{}` must be a decimal number, 0 or more, of at most {places} places",
                shown(text)
            );
            self.fault(column, "invalid-number", message).value(shown(text))
        })
    }
}

fn decimal(text: &str, places: usize) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |t: &str| !t.is_empty() && t.len() <= 18 && t.bytes().all(|b| b.is_ascii_digit());
    let part = if part.len() > places { part.trim_end_matches('0') } else { part };
    if !digits(whole) || part.len() > places || !(part.is_empty() || digits(part)) {
        return None;
    }
    let scale = 10u64.checked_pow(u32::try_from(places).ok()?)?;
    let padded = format!("{part:0<places$}");
    whole.parse::<u64>().ok()?.checked_mul(scale)?.checked_add(padded.parse().ok()?)
}

/// Lines without their ends, from 1; a last empty line is no line.
fn lines(text: &str) -> impl Iterator<Item = (u32, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    (1u32..).zip(text.lines())
}

/// Reads a profile file.
///
/// # Errors
/// The first thing that is wrong, with line and column: another header, another number of values, a value that is no
/// number, a combination twice, no row or too many.
pub fn read_profile(file: &str, text: &str) -> Result<Vec<ProfileRow>, Diagnostic> {
    let mut rows: Vec<ProfileRow> = Vec::new();
    let mut seen = std::collections::BTreeMap::new();
    let mut all = lines(text);
    if all.next().map(|(_, line)| line) != Some(HEADER) {
        let message = "the first line is not that of a profile".to_owned();
        return Err(Diagnostic::error(file, "no-header", message)
            .at(Span::new(1, 1))
            .fix(format!("write `{HEADER}`")));
    }
    for (number, text) in all {
        let line = Line { file, number, text };
        let values = text.split(',').count();
        if values != 5 {
            let message = format!("the line has {values} values, the header 5 columns");
            return Err(line.fault(0, "wrong-columns", message));
        }
        if rows.len() == MOST_ROWS {
            return Err(line.fault(0, "too-many-rows", format!("there are more than {MOST_ROWS} rows")));
        }
        let row = ProfileRow {
            slices: line.whole(0, "the size of the instance")?,
            batch: line.whole(1, "the batch size")?,
            processes: line.whole(2, "the number of processes")?,
            rate_milli: line.decimal(3, "the throughput", 3)?,
            latency_us: line.decimal(4, "the latency", 6)?,
        };
        if let Some(first) = seen.insert((row.slices, row.batch, row.processes), number) {
            let message = format!("this size, batch and number of processes stand on line {first} too");
            return Err(line.fault(0, "duplicate-row", message));
        }
        rows.push(row);
    }
    if rows.is_empty() {
        return Err(Diagnostic::error(file, "no-rows", "the file holds a header and no measurement"));
    }
    Ok(rows)
}

/// Reads a file of sets: for each set, what each of `models` models wants, in thousandths (of a millisecond, or of a
/// request a second); `None` = `N/A`.
///
/// # Errors
/// The first thing that is wrong, with line and column: another number of values, a value that is neither a decimal
/// number above 0 nor `N/A`, no row or too many.
pub fn read_sets(file: &str, text: &str, models: usize) -> Result<Vec<Vec<Option<u64>>>, Diagnostic> {
    let mut sets = Vec::new();
    for (number, text) in lines(text) {
        let line = Line { file, number, text };
        let values = text.split(',').count();
        if values != models {
            let message = format!("the line has {values} values, there are {models} models");
            return Err(line.fault(0, "wrong-columns", message));
        }
        if sets.len() == MOST_ROWS {
            return Err(line.fault(0, "too-many-rows", format!("there are more than {MOST_ROWS} sets")));
        }
        let mut set = Vec::with_capacity(models);
        for column in 0..models {
            if line.value(column) == "N/A" {
                set.push(None);
                continue;
            }
            let value = line.decimal(column, "the demand", 3)?;
            if value == 0 {
                let message =
                    "the demand `0` must be above 0, or `N/A` where the set lacks the model".to_owned();
                return Err(line.fault(column, "invalid-number", message).value("0"));
            }
            set.push(Some(value));
        }
        sets.push(set);
    }
    if sets.is_empty() {
        return Err(Diagnostic::error(file, "no-rows", "the file holds no set"));
    }
    Ok(sets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(rows: &str) -> String {
        let text = format!("{HEADER}\n{rows}");
        read_profile("p.csv", &text).unwrap_err().to_string().lines().next().unwrap_or_default().to_owned()
    }

    #[test]
    fn rows_are_read_to_the_digit() {
        let text = format!("\u{feff}{HEADER}\r\n1,2,3,74.408,0.013\r\n7,256,5,0,0\r\n");
        let found = read_profile("p.csv", &text).unwrap();
        let first = ProfileRow { slices: 1, batch: 2, processes: 3, rate_milli: 74_408, latency_us: 13_000 };
        let second = ProfileRow { slices: 7, batch: 256, processes: 5, rate_milli: 0, latency_us: 0 };
        assert_eq!(found, [first, second]);
        let sets = read_sets("s.csv", "6434,418.5,N/A\n19,1,2", 3).unwrap();
        assert_eq!(sets, [[Some(6_434_000), Some(418_500), None], [Some(19_000), Some(1000), Some(2000)]]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let expected = [
            ("", "p.csv: the file holds a header and no measurement [no-rows]"),
            ("1,1,1,2", "p.csv:2:1: the line has 4 values, the header 5 columns [wrong-columns]"),
            (
                "0,1,1,2,3",
                "p.csv:2:1: the size of the instance `0` must be a whole number from 1 to 1000000 [invalid-number]",
            ),
            (
                "1,1,1,NaN,3",
                "p.csv:2:7: the throughput `NaN` must be a decimal number, 0 or more, of at most 3 places [invalid-number]",
            ),
            (
                "1,1,1,1.0001,3",
                "p.csv:2:7: the throughput `1.0001` must be a decimal number, 0 or more, of at most 3 places [invalid-number]",
            ),
            (
                "1,1,1,1.5000,-3",
                "p.csv:2:14: the latency `-3` must be a decimal number, 0 or more, of at most 6 places [invalid-number]",
            ),
            (
                "1,1,1,2,3\n1,1,1,2,3",
                "p.csv:3:1: this size, batch and number of processes stand on line 2 too [duplicate-row]",
            ),
        ];
        for (rows, told) in expected {
            assert_eq!(profile(rows), told);
        }
        let told = read_profile("p.csv", "size,batch\n").unwrap_err().to_string();
        assert!(told.starts_with("p.csv:1:1: the first line is not that of a profile [no-header]"), "{told}");
        for (text, told) in [
            ("", "s.csv: the file holds no set [no-rows]"),
            ("1,2", "s.csv:1:1: the line has 2 values, there are 3 models [wrong-columns]"),
            (
                "1,2,n/a",
                "s.csv:1:5: the demand `n/a` must be a decimal number, 0 or more, of at most 3 places [invalid-number]",
            ),
            (
                "1,0,2",
                "s.csv:1:3: the demand `0` must be above 0, or `N/A` where the set lacks the model [invalid-number]",
            ),
        ] {
            assert_eq!(read_sets("s.csv", text, 3).unwrap_err().to_string(), told);
        }
    }
}
