//! Saved answers of Prometheus' HTTP API (`/api/v1/query`, `/api/v1/query_range`) → series of GPU use.
//!
//! One input may hold several answers, one after the other, one per line, or in a list. It is read as a stream: one
//! series is held at a time, so memory grows with the longest series and not with the input. What an exporter adds
//! beyond the labels below is skipped while reading.
//!
//! | part | module |
//! | --- | --- |
//! | JSON, series by series | `answer` |
//! | metric names with their units, labels of each vintage | `label` |
//! | queries to print, for the same names and labels | `query` |
//! | what is said of an answer | `told` |
//!
//! Metric names, labels and their vintages: NVIDIA/dcgm-exporter (`etc/default-counters.csv`,
//! `internal/pkg/rendermetrics`, release notes of 4.9.0).

mod answer;
mod label;
mod query;
mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Read};

use serde::de::DeserializeSeed as _;
use tesela_model::usage::{Metric, UsageSeries};

use self::answer::AnswerSeed;
pub use self::query::{STEP, UsageQuery, Vintage, usage_queries};
use crate::diagnostic::{Diagnostic, Diagnostics, nearest, shown};
use crate::sniff::{Kind, sniff};
use crate::source::Span;

/// Bytes looked at to tell what an input is.
const HEAD: usize = 4096;
const BUFFER: usize = 1 << 16;
/// Samples of one series at most. Prometheus gives 11,000 and its relatives a few times that.
const MOST_SAMPLES: usize = 100_000;
/// Different names kept for messages; a hostile input could have many.
const NAMES: usize = 24;
/// Warnings of the server that are kept.
const WARNINGS: usize = 3;
/// Command that prints what to ask Prometheus.
const COMMAND: &str = "tesela plan --print-usage-query";

/// What an input held beside the series.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Answers read.
    pub answers: u64,
    /// Answers whose query matched nothing.
    pub empty: u64,
    /// Series handed on.
    pub series: u64,
    /// Samples handed on.
    pub samples: u64,
    /// Samples that are NaN or infinite, left out.
    pub not_numbers: u64,
    /// Samples that the metric cannot have (negative, more than all of the time, DCGM's blanks), left out.
    pub out_of_range: u64,
    /// Series whose times go back.
    pub disordered: u64,
    /// Series that name neither a pod nor a GPU, left out.
    pub unlabelled: u64,
    /// Series of no metric that is used, by name, left out.
    pub unknown: BTreeMap<String, u64>,
    /// Series without a name, left out.
    pub unnamed: u64,
    /// Native histograms, left out.
    pub histograms: u64,
    /// What the server warned of, first words.
    pub warnings: Vec<String>,
    /// Every value of `DCGM_FI_DEV_GPU_UTIL` is at most 1 and some are fractions: a ratio under the name of a percent.
    pub util_may_be_ratio: bool,
}

/// Reads every answer of an input and hands on each series whose metric is used and whose labels name a pod or GPU.
/// `name` is what messages call the input.
///
/// # Errors
/// One diagnostic, with its place where there is one: `empty-input`, `not-json`, `io`, `truncated-json`,
/// `invalid-json`, `prometheus-error` (the server answered with an error), `empty-result` (no series at all),
/// `no-metric-name`, `unknown-metric`, `no-known-label`, `no-numbers`. Series handed on before are then void.
pub fn read(
    name: &str,
    mut reader: impl Read,
    take: &mut dyn FnMut(UsageSeries),
) -> Result<Reading, Diagnostics> {
    let io = |e: &std::io::Error| Diagnostic::error(name, "io", format!("cannot be read: {e}"));
    let mut head = Vec::new();
    reader.by_ref().take(HEAD as u64).read_to_end(&mut head).map_err(|e| io(&e))?;
    look(name, &head)?;
    let skip = if head.starts_with(&[0xEF, 0xBB, 0xBF]) { 3 } else { 0 };
    let bytes = BufReader::with_capacity(BUFFER, head[skip..].chain(reader));
    let mut de = serde_json::Deserializer::from_reader(bytes);
    let mut state = State::new(take);
    loop {
        match de.end() {
            Ok(()) => break,
            Err(e) if e.is_io() => return Err(fault(name, &e, &state).into()),
            Err(_) => {}
        }
        let seed = AnswerSeed { state: &mut state, hint: None, depth: 0 };
        seed.deserialize(&mut de).map_err(|e| fault(name, &e, &state))?;
    }
    verdict(name, state)
}

/// What is kept while an input is read.
struct State<'t> {
    take: &'t mut dyn FnMut(UsageSeries),
    reading: Reading,
    /// All series, also those left out.
    seen: u64,
    /// The server's error, as `errorType: error`.
    refused: Option<String>,
    /// Labels met, for messages.
    labels: BTreeSet<String>,
    /// Largest GPU_UTIL, and whether one was a fraction below 1.
    util: (f64, bool),
}

impl<'t> State<'t> {
    fn new(take: &'t mut dyn FnMut(UsageSeries)) -> Self {
        let (reading, labels) = (Reading::default(), BTreeSet::new());
        Self { take, reading, seen: 0, refused: None, labels, util: (0.0, false) }
    }

    /// Counts a series of an unknown metric.
    fn unknown(&mut self, metric: &str) {
        let unknown = &mut self.reading.unknown;
        if unknown.len() < NAMES || unknown.contains_key(metric) {
            *unknown.entry(shown(metric)).or_default() += 1;
        }
    }
}

/// Refuses what is no JSON, by its first bytes.
fn look(file: &str, head: &[u8]) -> Result<(), Diagnostics> {
    let start = head.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(head.len());
    let html = head[start..].starts_with(b"<");
    let found = match sniff(head) {
        Kind::Json => return Ok(()),
        Kind::Empty => {
            let one = Diagnostic::error(file, "empty-input", "the input is empty, not even an answer");
            let fix = "look at what curl said when it was saved: its option -fsS shows errors";
            return Err(one.fix(fix).into());
        }
        _ if html => "an HTML page, not JSON: the answer of a login or a proxy, or of another address",
        Kind::Utf16 => "UTF-16 text, as some shells write it, not UTF-8",
        Kind::Binary if head.starts_with(&[0x1F, 0x8B]) => "compressed, not JSON",
        Kind::Binary => "not text",
        _ if head[start..].starts_with(b"#") => "the text of a /metrics page, not JSON of the HTTP API",
        _ => "not JSON",
    };
    let one = Diagnostic::error(file, "not-json", format!("this is {found}")).at(Span::new(1, 1));
    let fix =
        format!("save what /api/v1/query or /api/v1/query_range answers: `{COMMAND}` prints the commands");
    Err(one.fix(fix).into())
}

fn fault(file: &str, error: &serde_json::Error, state: &State<'_>) -> Diagnostic {
    let line = |n: usize| u32::try_from(n.max(1)).unwrap_or(u32::MAX);
    let at = Span::new(line(error.line()), line(error.column()));
    if let Some(refused) = &state.refused {
        let one = Diagnostic::error(
            file,
            "prometheus-error",
            format!("Prometheus answered with an error: {refused}"),
        );
        return one.at(at).fix("mend the query or the server, and save the answer again");
    }
    let text = error.to_string();
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
    let after = match state.seen {
        0 => "before the first whole series".to_owned(),
        1 => "after 1 whole series".to_owned(),
        n => format!("after {n} whole series"),
    };
    match error.classify() {
        serde_json::error::Category::Io => {
            Diagnostic::error(file, "io", format!("cannot be read: {message}"))
        }
        serde_json::error::Category::Eof => {
            let one = Diagnostic::error(file, "truncated-json", format!("the JSON is cut off here, {after}"));
            one.at(at).fix("save the answer again, and check that curl ended well")
        }
        _ => Diagnostic::error(file, "invalid-json", format!("{message} ({after})")).at(at),
    }
}

/// Whether anything of the input can be used.
fn verdict(file: &str, state: State<'_>) -> Result<Reading, Diagnostics> {
    let State { mut reading, seen, labels, util, .. } = state;
    reading.util_may_be_ratio = util.1 && util.0 <= 1.0;
    if reading.samples > 0 {
        return Ok(reading);
    }
    let used = || Metric::ALL.map(Metric::name).join(", ");
    let list = |names: &[&str]| names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
    let one = if seen == 0 {
        let what =
            if reading.answers == 1 { "the query matched nothing" } else { "no query matched anything" };
        let one = Diagnostic::error(file, "empty-result", format!("{what}: the answer holds no series"));
        one.fix(format!(
            "look for the metric and the time range in Prometheus; `{COMMAND}` prints the queries"
        ))
    } else if let Some(first) = reading.unknown.keys().next() {
        let names = reading.unknown.keys().map(String::as_str).collect::<Vec<_>>();
        let near = nearest(first, Metric::ALL.map(Metric::name));
        let near = near.map(|n| format!("; did you mean {n}?")).unwrap_or_default();
        let message = format!("holds no metric that tells GPU use, only {}{near}", list(&names));
        Diagnostic::error(file, "unknown-metric", message).fix(format!("ask for one of {}", used()))
    } else if reading.unnamed > 0 {
        let message = format!(
            "{} series do not say which metric they are: `__name__` is not there, as after a function such as max_over_time",
            reading.unnamed
        );
        let fix = format!(
            "put the name into a label: label_replace(…, \"metric\", \"{}\", \"\", \"\"), as `{COMMAND}` prints it",
            Metric::MemoryUsed
        );
        Diagnostic::error(file, "no-metric-name", message).fix(fix)
    } else if reading.unlabelled > 0 {
        unlabelled(file, &labels)
    } else {
        let message = format!(
            "no sample is a usable number: {} are NaN or infinite, {} are out of the metric's range, {} are histograms",
            reading.not_numbers, reading.out_of_range, reading.histograms
        );
        Diagnostic::error(file, "no-numbers", message)
            .fix("ask for another time range, or for another metric")
    };
    Err(one.into())
}

fn unlabelled(file: &str, labels: &BTreeSet<String>) -> Diagnostic {
    let looked = label::LOOKED_FOR.join(", ");
    let there = match labels.len() {
        0 => "there are no labels at all".to_owned(),
        _ => format!("there are {}", labels.iter().map(String::as_str).collect::<Vec<_>>().join(", ")),
    };
    let mut others = labels.iter().filter(|l| !label::LOOKED_FOR.contains(&l.as_str()));
    let near = others.find_map(|l| Some((l, nearest(l, label::LOOKED_FOR)?)));
    let near = near.map(|(l, n)| format!("; `{l}` is near to `{n}`")).unwrap_or_default();
    let message = format!("no series names its pod or GPU: looked for {looked}; {there}{near}");
    let fix = format!(
        "keep these labels in the query (by (namespace, pod, container)); `{COMMAND}` prints queries that do"
    );
    Diagnostic::error(file, "no-known-label", message).fix(fix)
}
