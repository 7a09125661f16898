//! Streaming reader of the answers: of each series only the labels that are read and its samples are built.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use tesela_model::usage::{Metric, Sample, UsageSeries};

use super::label::{Labels, Unit, metric, metric_in, scaled};
use super::{MOST_SAMPLES, NAMES, State, WARNINGS};
use crate::diagnostic::shown;

/// Wrappers around an answer, at most.
const DEPTH: u8 = 4;
/// Longest name of a Kubernetes object.
const NAME: usize = 253;
/// The year 2100 in seconds; what is beyond counts milliseconds or is damaged.
const LATEST: f64 = 4_102_444_800.0;

/// One answer; or a wrapper that says which query it is of; or a list of these.
pub(super) struct AnswerSeed<'a, 't> {
    pub(super) state: &'a mut State<'t>,
    /// The metric that a wrapper's query names.
    pub(super) hint: Option<String>,
    pub(super) depth: u8,
}

impl<'de> DeserializeSeed<'de> for AnswerSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.depth > DEPTH {
            return Err(D::Error::custom("answers are wrapped too deep"));
        }
        deserializer.deserialize_any(self)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Key {
    Status,
    ErrorType,
    Error,
    Warnings,
    #[serde(alias = "expr")]
    Query,
    #[serde(alias = "answer", alias = "response")]
    Data,
    ResultType,
    Result,
    #[serde(other)]
    Other,
}

impl<'de> Visitor<'de> for AnswerSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "an answer of Prometheus: {\"status\": …, \"data\": {\"resultType\": …, \"result\": […]}}",
        )
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        loop {
            let (hint, depth) = (self.hint.clone(), self.depth + 1);
            if seq.next_element_seed(AnswerSeed { state: &mut *self.state, hint, depth })?.is_none() {
                return Ok(());
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let (mut failed, mut kind, mut message) = (false, None, None);
        let mut known = false;
        while let Some(key) = map.next_key::<Key>()? {
            known = known || !matches!(key, Key::Other);
            match key {
                Key::Status => failed = map.next_value::<Text>()?.0 == "error",
                Key::ErrorType => kind = Some(map.next_value::<Text>()?.0),
                Key::Error => message = Some(map.next_value::<Text>()?.0),
                Key::Warnings => self.warnings(&map.next_value::<Option<Vec<String>>>()?.unwrap_or_default()),
                Key::Query => {
                    let named = metric_in(&map.next_value::<Text>()?.0);
                    self.hint = named.or(self.hint);
                }
                Key::Data => {
                    let (hint, depth) = (self.hint.clone(), self.depth + 1);
                    map.next_value_seed(AnswerSeed { state: &mut *self.state, hint, depth })?;
                }
                Key::Result => {
                    let before = self.state.seen;
                    let hint = self.hint.as_deref();
                    map.next_value_seed(ResultSeed { state: &mut *self.state, hint })?;
                    self.state.reading.answers += 1;
                    self.state.reading.empty += u64::from(self.state.seen == before);
                }
                Key::ResultType | Key::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if failed {
            let (kind, message) =
                (kind.unwrap_or_default(), message.unwrap_or_else(|| "no message".to_owned()));
            self.state.refused = Some(format!("{}: {}", shown(&kind), long(&message)));
            return Err(A::Error::custom("refused"));
        }
        if !known {
            return Err(A::Error::custom(
                "this object is no answer of Prometheus: `status`, `data` and `result` are not there; kubectl's JSON and documents stand without --usage",
            ));
        }
        Ok(())
    }
}

impl AnswerSeed<'_, '_> {
    fn warnings(&mut self, warnings: &[String]) {
        let kept = &mut self.state.reading.warnings;
        let room = WARNINGS.saturating_sub(kept.len());
        kept.extend(warnings.iter().take(room).map(|w| long(w)));
    }
}

/// A server's sentence on one line.
fn long(text: &str) -> String {
    let mut words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.retain(|c| !c.is_control());
    match words.char_indices().nth(240) {
        Some((cut, _)) => format!("{}…", &words[..cut]),
        None => words,
    }
}

/// A text; anything else is taken as none.
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Option::<String>::deserialize(deserializer)?.unwrap_or_default()))
    }
}

/// `result`: a list of series.
struct ResultSeed<'a, 't> {
    state: &'a mut State<'t>,
    hint: Option<&'a str>,
}

impl<'de> DeserializeSeed<'de> for ResultSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ResultSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of series under `result`")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(SeriesSeed { state: &mut *self.state, hint: self.hint })?.is_some() {}
        Ok(())
    }
}

/// One series.
struct SeriesSeed<'a, 't> {
    state: &'a mut State<'t>,
    hint: Option<&'a str>,
}

impl<'de> DeserializeSeed<'de> for SeriesSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Part {
    Metric,
    Value,
    Values,
    #[serde(alias = "histogram")]
    Histograms,
    #[serde(other)]
    Other,
}

impl<'de> Visitor<'de> for SeriesSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a series {\"metric\": {…}, \"value\": […]}; a scalar or a string has no labels, so nobody knows whose it is")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut labels = Labels::default();
        let mut samples = Vec::new();
        while let Some(part) = map.next_key::<Part>()? {
            match part {
                Part::Metric => {
                    map.next_value_seed(LabelsSeed { labels: &mut labels, state: &mut *self.state })?;
                }
                Part::Value => samples.push(map.next_value::<Pair>()?),
                Part::Values => map.next_value_seed(PairsSeed(&mut samples))?,
                Part::Histograms => {
                    self.state.reading.histograms += 1;
                    map.next_value::<IgnoredAny>()?;
                }
                Part::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        self.state.seen += 1;
        self.finish(labels, &samples);
        Ok(())
    }
}

impl SeriesSeed<'_, '_> {
    fn finish(self, mut labels: Labels, pairs: &[Pair]) {
        let reading = &mut self.state.reading;
        let Some(name) = labels.metric().or_else(|| self.hint.map(str::to_owned)) else {
            reading.unnamed += 1;
            return;
        };
        let Some((metric, unit)) = metric(&name) else {
            self.state.unknown(&name);
            return;
        };
        let subject = labels.subject();
        if subject.pod.is_none() && subject.gpu.is_none() {
            reading.unlabelled += 1;
            return;
        }
        let samples = convert(self.state, metric, unit, pairs);
        let reading = &mut self.state.reading;
        reading.disordered += u64::from(samples.windows(2).any(|w| w[1].at_ms < w[0].at_ms));
        if !samples.is_empty() {
            reading.series += 1;
            reading.samples = reading.samples.saturating_add(samples.len() as u64);
            (self.state.take)(UsageSeries { metric, subject, samples });
        }
    }
}

fn convert(state: &mut State<'_>, metric: Metric, unit: Unit, pairs: &[Pair]) -> Vec<Sample> {
    let mut samples = Vec::with_capacity(pairs.len());
    for pair in pairs {
        if !pair.value.is_finite() {
            state.reading.not_numbers += 1;
            continue;
        }
        let Some(value) = scaled(pair.value, unit) else {
            state.reading.out_of_range += 1;
            continue;
        };
        if metric == Metric::GpuUtil && unit == Unit::Percent {
            state.util.0 = state.util.0.max(pair.value);
            state.util.1 |= pair.value > 0.0 && pair.value < 1.0;
        }
        samples.push(Sample { at_ms: pair.at_ms, value });
    }
    samples
}

/// The labels of a series.
struct LabelsSeed<'a, 't> {
    labels: &'a mut Labels,
    state: &'a mut State<'t>,
}

impl<'de> DeserializeSeed<'de> for LabelsSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for LabelsSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("labels under `metric`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(label) = map.next_key::<Cow<'de, str>>()? {
            if self.state.labels.len() < NAMES {
                self.state.labels.insert(shown(&label));
            }
            match self.labels.slot(&label) {
                Some(slot) => *slot = Some(map.next_value::<Text>()?.0).filter(|text| is_name(text)),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// Whether a label's value can be the name of a pod, node, GPU or metric. Anything else is no name of ours, and could
/// write on a terminal.
fn is_name(text: &str) -> bool {
    text.len() <= NAME && text.bytes().all(|b| b.is_ascii_graphic())
}

/// `values`: a list of samples.
struct PairsSeed<'a>(&'a mut Vec<Pair>);

impl<'de> DeserializeSeed<'de> for PairsSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for PairsSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of samples under `values`")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(pair) = seq.next_element()? {
            if self.0.len() >= MOST_SAMPLES {
                return Err(A::Error::custom(format!(
                    "a series of more than {MOST_SAMPLES} samples; ask with a longer step"
                )));
            }
            self.0.push(pair);
        }
        Ok(())
    }
}

/// `[1700000000.123, "0.5"]`.
struct Pair {
    at_ms: i64,
    value: f64,
}

impl<'de> Deserialize<'de> for Pair {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (time, Number(value)) = <(f64, Number)>::deserialize(deserializer)?;
        if !(0.0..LATEST).contains(&time) {
            return Err(D::Error::custom(format!(
                "the time {time} is not between 1970 and 2100; Prometheus writes seconds"
            )));
        }
        #[expect(clippy::cast_possible_truncation, reason = "the range is checked above")]
        let at_ms = (time * 1000.0).round() as i64;
        Ok(Self { at_ms, value })
    }
}

/// A value, which Prometheus writes as a text.
struct Number(f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number written as a text, such as \"0.5\"")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Number, E> {
                text.parse().map(Number).map_err(|_| E::custom(format!("`{}` is no number", shown(text))))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Number, E> {
                Ok(Number(number))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Number, E> {
                Ok(Number(number as f64))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Number, E> {
                Ok(Number(number as f64))
            }
        }
        deserializer.deserialize_any(Either)
    }
}
