//! The checks that several kinds of documents share. Each reports and answers nothing when a value is wrong, so
//! that all wrong values of a document are told in one run.

use tesela_model::quantity::{QuantityError, parse_quantity, parse_quantity_milli};

use super::decimal::{DecimalError, decimal, split_unit};
use super::name::NameRule;
use super::scalar::{Cpu, Duration, DutyText, Memory, Percentile, Raw};
use crate::diagnostic::{Diagnostic, Diagnostics, nearest, shown};
use crate::source::{Located, Span};

/// Main memory of one node or pod: at most 1 Pi.
pub(crate) const MOST_MEMORY: u64 = 1 << 50;
/// Memory of one GPU: at most 16 Ti.
pub(crate) const MOST_GPU_MEMORY: u64 = 1 << 44;
/// CPU of one node or pod: at most a million cores, in thousandths.
const MOST_CPU: u64 = 1_000_000_000;
/// GPUs of one node, and of one pod, which never crosses a node.
pub(crate) const MOST_GPUS: u64 = 1024;

/// Collects what is wrong with one document.
pub(crate) struct Check<'a> {
    file: &'a str,
    found: Vec<Diagnostic>,
}

impl<'a> Check<'a> {
    pub(crate) fn new(file: &'a str) -> Self {
        Self { file, found: Vec::new() }
    }

    /// The value when nothing was wrong.
    pub(crate) fn finish<T>(self, value: T) -> Result<T, Diagnostics> {
        Diagnostics::new(self.found).into_result(value)
    }

    pub(crate) fn error(
        &mut self,
        at: Span,
        rule: &'static str,
        value: &str,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        let found = Diagnostic::error(self.file, rule, message).at(at).value(shown(value)).fix(fix);
        self.found.push(found);
    }

    /// Two values that exclude each other; the message names both places, the first is the place of the error.
    pub(crate) fn contradiction(
        &mut self,
        this: (Span, impl Into<String>),
        other: (Span, impl Into<String>),
        why: &str,
        fix: impl Into<String>,
    ) {
        let (at, text) = (this.0, this.1.into());
        let message = format!("`{text}` contradicts `{}` (line {}): {why}", other.1.into(), other.0);
        self.error(at, "contradiction", &text, message, fix);
    }

    /// Something that stands twice where once is allowed.
    pub(crate) fn duplicate(&mut self, what: &str, name: &str, first: Span, again: Span) {
        let message = format!("{what} `{}` stands twice: first at line {first}, again here", shown(name));
        self.error(again, "duplicate-name", name, message, "keep one of the two, or rename one");
    }

    /// A whole number in a range.
    pub(crate) fn whole<T: AsRef<Raw>>(
        &mut self,
        field: &str,
        written: &Located<T>,
        least: i128,
        most: i128,
    ) -> Option<i128> {
        let raw = written.value.as_ref();
        let wanted = format!("`{field}` must be a whole number from {least} to {most}");
        let (rule, fix) = match raw {
            Raw::Int(value) if (least..=most).contains(value) => return Some(*value),
            Raw::Int(value) if *value < least => ("number-range", format!("the least is {least}")),
            Raw::Int(_) => ("number-range", format!("the most is {most}")),
            Raw::Text(text) if text.trim().parse::<i128>().is_ok() => {
                ("wrong-type", format!("remove the quotes: {}", text.trim()))
            }
            _ => ("wrong-type", "write digits only, without a unit".to_owned()),
        };
        self.error(written.at, rule, &raw.text(), format!("{wanted}, found {}", raw.describe()), fix);
        None
    }

    /// The same as a type that holds the range; `most` is given by the rule, not by the type.
    pub(crate) fn count<T: AsRef<Raw>, N: TryFrom<i128>>(
        &mut self,
        field: &str,
        written: Option<&Located<T>>,
        least: i128,
        most: i128,
    ) -> Option<N> {
        let value = self.whole(field, written?, least, most)?;
        N::try_from(value).ok()
    }

    /// Bytes, rounded up.
    pub(crate) fn memory(&mut self, field: &str, written: &Located<Memory>, most: u64) -> Option<u64> {
        let raw = &written.value.0;
        let text = raw.text();
        match memory_of(raw, text.trim(), most) {
            Ok(bytes) => Some(bytes),
            Err((rule, message, fix)) => {
                self.error(written.at, rule, &text, format!("`{field}: {}` {message}", shown(&text)), fix);
                None
            }
        }
    }

    /// GPU memory in MiB, rounded up, at least 1.
    pub(crate) fn gpu_memory(&mut self, written: &Located<Memory>) -> Option<u64> {
        let bytes = self.memory("gpuMemory", written, MOST_GPU_MEMORY)?;
        if bytes == 0 {
            let text = written.value.0.text();
            let message = format!("`gpuMemory: {}` must be above 0", shown(&text));
            self.error(
                written.at,
                "number-range",
                &text,
                message,
                "leave the line out where it is not known",
            );
            return None;
        }
        Some(bytes.div_ceil(1 << 20))
    }

    /// Thousandths of a core, rounded up.
    pub(crate) fn cpu(&mut self, written: &Located<Cpu>) -> Option<u64> {
        let text = written.value.0.text();
        let (rule, message, fix) = match (split_unit(text.trim()).1, parse_quantity_milli(&text)) {
            ("" | "m", Ok(milli)) if milli <= MOST_CPU => return Some(milli),
            ("" | "m", Ok(_) | Err(QuantityError::Overflow(_))) => {
                ("number-range", "is more than a million cores".to_owned(), "check the number")
            }
            (_, Err(QuantityError::Negative(_))) => {
                ("number-range", "is negative; it must be 0 or more".to_owned(), "write 0 or more")
            }
            (_, Err(QuantityError::Malformed(_))) => {
                ("invalid-value", "is no number of cores".to_owned(), CPU_FIX)
            }
            _ if !text.contains(|c: char| c.is_ascii_digit()) => {
                ("invalid-value", "is no number of cores".to_owned(), CPU_FIX)
            }
            (unit, _) => {
                ("unknown-unit", format!("has the unit `{}`, which is none of CPU", shown(unit)), CPU_FIX)
            }
        };
        self.error(written.at, rule, &text, format!("`cpu: {}` {message}", shown(&text)), fix);
        None
    }

    /// Thousandths of the time, or of a GPU, 0 to 1000.
    pub(crate) fn part(&mut self, field: &str, written: &Located<DutyText>) -> Option<u16> {
        let text = written.value.0.text();
        let trimmed = text.trim();
        let value = match trimmed.strip_suffix('%') {
            Some(percent) => decimal(percent.trim_end(), 1),
            None => decimal(trimmed, 3),
        };
        if let Ok(permille @ 0..=1000) = value {
            return u16::try_from(permille).ok();
        }
        let (rule, message, fix) = match value {
            Ok(_) if !trimmed.ends_with('%') && decimal(trimmed, 3).is_ok_and(|v| v <= 100_000) => (
                "missing-unit",
                "is above 1 and has no unit",
                format!("write `{trimmed}%`, or a number from 0 to 1"),
            ),
            Ok(_) | Err(DecimalError::TooLarge) => {
                ("number-range", "is more than all of it", "write 0% to 100%, or 0 to 1".to_owned())
            }
            Err(DecimalError::Negative) => {
                ("number-range", "is negative", "write 0% to 100%, or 0 to 1".to_owned())
            }
            Err(DecimalError::TooFine) => (
                "invalid-value",
                "is finer than a thousandth",
                "round it to one decimal of a percent".to_owned(),
            ),
            Err(DecimalError::Malformed) => {
                ("invalid-value", "is no share", "write it as `10%` or 0.1".to_owned())
            }
        };
        self.error(written.at, rule, &text, format!("`{field}: {}` {message}", shown(&text)), fix);
        None
    }

    /// Thousandths: `p99` → 990.
    pub(crate) fn percentile(&mut self, written: &Located<Percentile>) -> Option<u16> {
        let text = written.value.0.text();
        let value = text.strip_prefix('p').and_then(|rest| decimal(rest, 1).ok());
        if let Some(value @ 1..=999) = value {
            return u16::try_from(value).ok();
        }
        let number = text.trim_start_matches(['p', 'P']);
        let fix = match decimal(number, 1) {
            Ok(1..=999) => format!("write `p{number}`"),
            _ => "write p50, p90, p95, p99 or p99.9".to_owned(),
        };
        let message = format!("`percentile: {}` must be p0.1 to p99.9", shown(&text));
        self.error(written.at, "invalid-value", &text, message, fix);
        None
    }

    /// Milliseconds, at least 1.
    pub(crate) fn milliseconds(&mut self, field: &str, written: &Located<Duration>) -> Option<u64> {
        let text = written.value.0.text();
        let (number, unit) = split_unit(text.trim());
        let places = match unit {
            "ms" => Some(0),
            "s" => Some(3),
            _ => None,
        };
        let value = places.map(|places| decimal(number, places));
        if let Some(Ok(value @ 1..=86_400_000)) = value {
            return Some(value);
        }
        let (rule, message, fix) = match value {
            Some(Ok(0) | Err(DecimalError::Negative)) => {
                ("number-range", "must be above 0", "write 1ms or more".to_owned())
            }
            Some(Ok(_) | Err(DecimalError::TooLarge)) => {
                ("number-range", "is longer than a day", "write at most 86400s".to_owned())
            }
            Some(Err(DecimalError::TooFine)) => {
                ("invalid-value", "is finer than a millisecond", "round it to whole milliseconds".to_owned())
            }
            Some(Err(DecimalError::Malformed)) => {
                ("invalid-value", "is no time", "write 200ms or 1.5s".to_owned())
            }
            None if unit.is_empty() => {
                ("missing-unit", "has no unit", format!("write `{}ms`", number.trim()))
            }
            None => {
                let near = nearest(unit, ["ms", "s"]).map_or_else(
                    || "the units are ms and s".to_owned(),
                    |unit| format!("did you mean `{number}{unit}`?"),
                );
                ("unknown-unit", "has an unknown unit", near)
            }
        };
        self.error(written.at, rule, &text, format!("`{field}: {}` {message}", shown(&text)), fix);
        None
    }

    /// A name by its rule.
    pub(in crate::documents) fn name(
        &mut self,
        what: &str,
        written: &Located<String>,
        rule: NameRule,
    ) -> bool {
        let text = &written.value;
        if rule.holds(text) {
            return true;
        }
        let fix = match rule.nearest(text) {
            Some(near) => format!("did you mean `{near}`? {}", rule.words()),
            None => rule.words().to_owned(),
        };
        let message = match text.as_str() {
            "" => format!("{what} is empty"),
            text => format!("`{}` is no valid {what}", shown(text)),
        };
        self.error(written.at, "invalid-name", text, message, fix);
        false
    }
}

const CPU_FIX: &str = "CPU is counted in cores (`8`, `0.5`) or thousandths of a core (`500m`)";

type Wrong = (&'static str, String, String);

fn memory_of(raw: &Raw, text: &str, most: u64) -> Result<u64, Wrong> {
    let (number, unit) = split_unit(text);
    let with = |unit: &str| format!("{number}{unit}");
    let negative =
        || ("number-range", "is negative; it must be 0 or more".to_owned(), "write 0 or more".to_owned());
    if unit.is_empty() {
        return match (raw, decimal(number, 0)) {
            (_, Ok(0)) => Ok(0),
            (_, Ok(value)) => Err(missing_unit(value)),
            (Raw::Float(_), Err(DecimalError::TooFine)) => Err(missing_unit(80)),
            (_, Err(DecimalError::Negative)) => Err(negative()),
            (_, Err(DecimalError::TooLarge)) => Err(too_large(most)),
            _ => Err((
                "invalid-value",
                "is no size".to_owned(),
                "write a number with its unit, such as 80Gi".to_owned(),
            )),
        };
    }
    if matches!(decimal(number, 15), Err(DecimalError::Negative)) {
        return Err(negative());
    }
    let whole = match unit {
        "B" => number,
        "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "k" | "M" | "G" | "T" | "P" => text,
        other => return Err(unknown_unit(other, with)),
    };
    match parse_quantity(whole) {
        Ok(bytes) if bytes <= most => Ok(bytes),
        Ok(_) | Err(QuantityError::Overflow(_)) => Err(too_large(most)),
        Err(_) => Err((
            "invalid-value",
            "is no size".to_owned(),
            "write a number with its unit, such as 80Gi".to_owned(),
        )),
    }
}

fn too_large(most: u64) -> Wrong {
    let most = tesela_model::quantity::Bytes(most);
    ("number-range", "is too large".to_owned(), format!("at most {most} are accepted here"))
}

fn missing_unit(value: u64) -> Wrong {
    // What a person most likely meant by a bare number of this size.
    let unit = match value {
        0..=4095 => "Gi",
        4096..=16_777_215 => "Mi",
        _ => "B",
    };
    let fix = format!("write `{value}{unit}` if that is meant; {UNITS}");
    ("missing-unit", "has no unit".to_owned(), fix)
}

const UNITS: &str = "units: Ki, Mi, Gi, Ti (powers of 1024), k, M, G, T (powers of 1000), B (bytes)";

fn unknown_unit(unit: &str, with: impl Fn(&str) -> String) -> Wrong {
    let message = format!("has the unknown unit `{}`", shown(unit));
    let letter = unit.chars().next().map(|c| c.to_ascii_uppercase());
    let rest = unit.get(1..).unwrap_or_default().to_ascii_lowercase();
    let fix = match (letter, rest.as_str()) {
        (Some('M'), "") => {
            return (
                "unknown-unit",
                "is in thousandths of a byte".to_owned(),
                format!("did you mean `{}` or `{}`? {UNITS}", with("Mi"), with("M")),
            );
        }
        (Some(c @ ('K' | 'M' | 'G' | 'T' | 'P')), "b" | "") => {
            let decimal = if c == 'K' { 'k' } else { c };
            let (binary, decimal) = (with(&format!("{c}i")), with(&decimal.to_string()));
            format!("did you mean `{binary}` (powers of 1024) or `{decimal}` (powers of 1000)? {UNITS}")
        }
        (Some(c @ ('K' | 'M' | 'G' | 'T' | 'P')), "i" | "ib") => {
            format!("did you mean `{}`? {UNITS}", with(&format!("{c}i")))
        }
        (Some('B'), _) => format!("did you mean `{}`? {UNITS}", with("B")),
        _ => UNITS.to_owned(),
    };
    ("unknown-unit", message, fix)
}
