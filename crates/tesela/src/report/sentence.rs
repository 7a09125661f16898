//! Sentences of a plan in Spanish.
//!
//! A plan's reasons, findings and assumptions are English sentences, which is part of its contract. The catalogue holds
//! each form of them beside its Spanish form, with holes for what differs from plan to plan. A test takes every string
//! of the sources that make them and fails where the catalogue lacks one, and another makes many plans and fails where
//! one of their sentences finds no form.
//!
//! Forms are rules of a small grammar. `{name:kind}` is a hole; its kind says what fills it:
//!
//! | kind | fills it | in Spanish |
//! | --- | --- | --- |
//! | none | any text | as it is |
//! | `word` | text without blanks | as it is |
//! | `n` | digits | with the language's thousands |
//! | `decimal` | digits with one point at most | with the language's decimals |
//! | `names` | a list that may end in `and 3 more` | its end translated |
//! | another | what a rule of that kind takes | that rule's Spanish form |
//!
//! `[a|b]` takes either word.

mod evidence;
mod findings;
mod reasons;

use std::sync::LazyLock;

use super::spanish::SPANISH;

/// A form in English and in Spanish, under its kind.
type Form = (&'static str, &'static str, &'static str);

/// Kind of the rules that take a whole sentence.
const WHOLE: &str = "";
/// Tries after which a sentence counts as unknown, so that no sentence takes long.
const TRIES: u32 = 20_000;

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| forms().map(Rule::new).collect());

fn forms() -> impl Iterator<Item = Form> {
    reasons::FORMS.iter().chain(findings::FORMS).chain(evidence::FORMS).copied()
}

/// The sentence in Spanish; `None` when no form takes it.
pub(super) fn spanish(sentence: &str) -> Option<String> {
    if sentence.is_empty() {
        return Some(String::new());
    }
    Reader { tries: TRIES }.kind(WHOLE, sentence)
}

/// Where prices come from, in Spanish; a file's name stays as it is.
pub(super) fn spanish_source(source: &str) -> String {
    Reader { tries: TRIES }.kind("source", source).unwrap_or_else(|| source.to_owned())
}

/// The English forms with each choice written out, for the test that holds them against the sources.
#[cfg(test)]
pub(super) fn english_forms() -> Vec<String> {
    let mut all = Vec::new();
    for rule in RULES.iter() {
        let mut forms = vec![String::new()];
        for part in &rule.english {
            let texts: Vec<&str> = match part {
                Part::Text(text) => vec![text],
                Part::Either(words) => words.clone(),
                // Stands between the fixed parts, so that none reaches over a hole.
                Part::Hole { .. } => vec!["\u{0}"],
            };
            forms =
                forms.iter().flat_map(|form| texts.iter().map(move |text| format!("{form}{text}"))).collect();
        }
        all.extend(forms);
    }
    all
}

struct Rule {
    kind: &'static str,
    english: Vec<Part>,
    spanish: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(&'static str),
    Either(Vec<&'static str>),
    Hole { name: &'static str, kind: &'static str },
}

impl Rule {
    fn new((kind, english, spanish): Form) -> Self {
        Self { kind, english: parts(english, true), spanish: parts(spanish, false) }
    }
}

/// Brackets mean a choice in the English form only.
fn parts(form: &'static str, choices: bool) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = form;
    while let Some(at) = rest.find(|c| c == '{' || choices && c == '[') {
        let close = if rest[at..].starts_with('{') { '}' } else { ']' };
        let Some(end) = rest[at..].find(close).map(|end| at + end) else { break };
        if at > 0 {
            parts.push(Part::Text(&rest[..at]));
        }
        let inside = &rest[at + 1..end];
        parts.push(if close == ']' {
            Part::Either(inside.split('|').collect())
        } else {
            let (name, kind) = inside.split_once(':').unwrap_or((inside, "text"));
            Part::Hole { name, kind }
        });
        rest = &rest[end + 1..];
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest));
    }
    parts
}

struct Reader {
    tries: u32,
}

/// What fills the holes, in Spanish.
type Filled = Vec<(&'static str, String)>;

impl Reader {
    /// A text as a rule of a kind takes it, the first that does.
    fn kind(&mut self, kind: &str, text: &str) -> Option<String> {
        for rule in RULES.iter().filter(|r| r.kind == kind) {
            let mut filled = Filled::new();
            if self.take(&rule.english, text, &mut filled) {
                return Some(put(&rule.spanish, &filled));
            }
        }
        None
    }

    /// Whether the parts take the whole text; what fills the holes is then in `filled`.
    fn take(&mut self, parts: &'static [Part], text: &str, filled: &mut Filled) -> bool {
        let Some((first, rest)) = parts.split_first() else { return text.is_empty() };
        if self.tries == 0 {
            return false;
        }
        self.tries -= 1;
        match first {
            Part::Text(word) => text.strip_prefix(word).is_some_and(|after| self.take(rest, after, filled)),
            Part::Either(words) => words
                .iter()
                .any(|word| text.strip_prefix(word).is_some_and(|after| self.take(rest, after, filled))),
            Part::Hole { name, kind } => {
                let depth = filled.len();
                for end in ends(rest, text) {
                    let Some(value) = self.fill(kind, &text[..end]) else { continue };
                    filled.push((name, value));
                    if self.take(rest, &text[end..], filled) {
                        return true;
                    }
                    filled.truncate(depth);
                }
                false
            }
        }
    }

    fn fill(&mut self, kind: &str, text: &str) -> Option<String> {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        match kind {
            "text" => Some(text.to_owned()),
            "word" => (!text.contains(char::is_whitespace)).then(|| text.to_owned()),
            "n" => digits(text)
                .then(|| text.parse::<u128>().map_or_else(|_| text.to_owned(), |n| SPANISH.count(n))),
            "decimal" => {
                let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
                (digits(whole) && digits(part)).then(|| text.replace('.', &SPANISH.decimal.to_string()))
            }
            "names" => Some(names(text)),
            other => self.kind(other, text),
        }
    }
}

/// `a, b and 3 more` with its end in Spanish; any other text as it is.
fn names(text: &str) -> String {
    let more = text.rsplit_once(" and ").and_then(|(names, more)| {
        let number = more.strip_suffix(" more")?.parse::<u64>().ok()?;
        Some(SPANISH.list(&[names.to_owned(), format!("{} más", SPANISH.count(number))]))
    });
    more.unwrap_or_else(|| text.to_owned())
}

/// Where a hole may end: before each place where the text behind it stands, or at the end.
fn ends(rest: &[Part], text: &str) -> Vec<usize> {
    match rest.first() {
        None => vec![text.len()],
        Some(Part::Text(word)) => text.match_indices(word).map(|(at, _)| at).filter(|at| *at > 0).collect(),
        Some(_) => text.char_indices().map(|(at, _)| at).skip(1).chain([text.len()]).collect(),
    }
}

fn put(parts: &[Part], filled: &Filled) -> String {
    let mut out = String::new();
    for part in parts {
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Either(_) => {}
            Part::Hole { name, .. } => {
                out.push_str(filled.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn holes(parts: &[Part]) -> BTreeSet<&str> {
        let name = |p: &Part| if let Part::Hole { name, .. } = p { Some(*name) } else { None };
        parts.iter().filter_map(name).collect()
    }

    #[test]
    fn both_forms_have_the_same_holes() {
        for (form, rule) in forms().zip(RULES.iter()) {
            assert_eq!(holes(&rule.english), holes(&rule.spanish), "{form:?}");
        }
    }

    #[test]
    fn every_kind_that_a_hole_names_has_rules() {
        let built_in = ["text", "word", "n", "decimal", "names"];
        let kinds: BTreeSet<&str> = RULES.iter().map(|r| r.kind).collect();
        for part in RULES.iter().flat_map(|r| &r.english) {
            if let Part::Hole { kind, .. } = part {
                assert!(built_in.contains(kind) || kinds.contains(kind), "{kind}");
            }
        }
    }

    #[test]
    fn no_form_stands_there_twice() {
        let mut seen = BTreeSet::new();
        for (kind, english, _) in forms() {
            assert!(seen.insert((kind, english)), "{english}");
        }
    }

    #[test]
    fn a_sentence_is_put_together_from_its_parts() {
        let english = "needs 3Gi of GPU memory and promises p99.9 within 1200 ms, so it takes no turns; it stays where it \
                       runs, since it must not be moved";
        let spanish = "necesita 3Gi de memoria de GPU y promete el p99,9 en 1.200 ms, así que no trabaja por turnos; sigue \
                       donde está, porque no debe moverse";
        assert_eq!(super::spanish(english).as_deref(), Some(spanish));
        assert_eq!(super::spanish("something nobody ever said"), None);
        assert_eq!(super::spanish(""), Some(String::new()));
    }

    #[test]
    fn a_long_sentence_does_not_take_long() {
        let text = "a, b and it stays; needs of GPU memory: is so ".repeat(2_000);
        assert_eq!(super::spanish(&text), None);
    }
}
