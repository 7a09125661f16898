//! The header line: which column is what.

use crate::diagnostic::{Diagnostic, nearest, shown};
use crate::source::Span;

/// What the header must be, for messages.
pub(super) const FORMS: &str = "write `time,namespace,workload,input_tokens,output_tokens` or \
                                `time,namespace,workload,seconds` as the first line, or take an Azure trace as it is";

const NAMES: [&str; 7] =
    ["time", "namespace", "kind", "workload", "input_tokens", "output_tokens", "seconds"];
/// The Azure trace's names, with what they are.
const AZURE: [(&str, usize); 3] = [("TIMESTAMP", 0), ("ContextTokens", 4), ("GeneratedTokens", 5)];

/// Which column is what, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) columns: usize,
    pub(super) time: usize,
    /// Namespace, kind, workload.
    pub(super) owner: Option<(usize, Option<usize>, usize)>,
    pub(super) work: WorkColumns,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkColumns {
    Tokens { input: usize, output: usize },
    Seconds(usize),
}

impl Header {
    pub(super) fn read(file: &str, line: &str) -> Result<Self, Diagnostic> {
        let line = line.strip_prefix('\u{feff}').unwrap_or(line);
        let azure = line.split(',').any(|word| AZURE.iter().any(|(name, _)| *name == word));
        let mut found: [Option<usize>; NAMES.len()] = [None; NAMES.len()];
        let mut column = 1;
        let mut columns = 0;
        for word in line.split(',') {
            let at = Span::new(1, column);
            column = column
                .saturating_add(u32::try_from(word.chars().count()).unwrap_or(u32::MAX))
                .saturating_add(1);
            let Some(which) = position(word, azure) else {
                return Err(unknown(file, word, at, azure));
            };
            if found[which].replace(columns).is_some() {
                let message = format!("the column `{}` stands twice", shown(word));
                return Err(Diagnostic::error(file, "duplicate-column", message).at(at).value(shown(word)));
            }
            columns += 1;
        }
        let [time, namespace, kind, workload, input, output, seconds] = found;
        let missing = |name: usize| {
            let word =
                if azure { AZURE.iter().find(|a| a.1 == name).map_or("", |a| a.0) } else { NAMES[name] };
            Diagnostic::error(file, "missing-column", format!("there is no column `{word}`"))
                .at(Span::new(1, 1))
                .fix(FORMS)
        };
        let owner = match (azure, namespace, workload) {
            (true, ..) => None,
            (_, Some(namespace), Some(workload)) => Some((namespace, kind, workload)),
            (_, None, _) => return Err(missing(1)),
            (_, _, None) => return Err(missing(3)),
        };
        let work = match (input, output, seconds) {
            (None, None, Some(seconds)) => WorkColumns::Seconds(seconds),
            (Some(input), Some(output), None) => WorkColumns::Tokens { input, output },
            (_, _, Some(_)) => {
                let message =
                    "there are columns of tokens and of seconds; one of the two says how long requests take";
                return Err(Diagnostic::error(file, "two-measures", message).at(Span::new(1, 1)).fix(FORMS));
            }
            (None, ..) => return Err(missing(4)),
            (_, None, _) => return Err(missing(5)),
        };
        Ok(Self { columns, time: time.ok_or_else(|| missing(0))?, owner, work })
    }
}

fn position(word: &str, azure: bool) -> Option<usize> {
    if azure {
        return AZURE.iter().find(|(name, _)| *name == word).map(|a| a.1);
    }
    NAMES.iter().position(|name| *name == word)
}

fn unknown(file: &str, word: &str, at: Span, azure: bool) -> Diagnostic {
    let known: Vec<&str> = if azure { AZURE.iter().map(|a| a.0).collect() } else { NAMES.to_vec() };
    let fix = match nearest(word, known.iter().copied()) {
        Some(near) => format!("write `{near}`"),
        None => FORMS.to_owned(),
    };
    Diagnostic::error(file, "unknown-column", format!("`{}` is no known column", shown(word)))
        .at(at)
        .value(shown(word))
        .fix(fix)
}
