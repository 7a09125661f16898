//! The document: its head, its landmarks, and the order in which it tells.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::text::fill;
use super::{
    Language, Sheet, burst, changes, findings, gpus, head, money, proof, sentence, tile, unknown, workloads,
};

/// Nothing is loaded and nothing runs; the style stands in the page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

const STYLE: &str = include_str!("style.css");

/// The whole page.
pub(super) fn page(sheet: &Sheet<'_>) -> String {
    let text = sheet.text;
    let summary = &sheet.plan.summary;
    let figures = if sheet.plan.today.is_some() { &summary.today } else { &summary.plan };
    let of = fill(
        text.of_what,
        &[("gpus", &text.many(figures.gpus, &text.gpus)), ("nodes", &text.many(figures.nodes, &text.nodes))],
    );
    let page = html! {
        (DOCTYPE)
        html lang=(text.lang) {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content="tesela";
                title { (text.title) " · " (of) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#main" { (text.skip) }
                (tile::patterns())
                header { h1 { (text.title) " " small { (of) } } }
                main id="main" {
                    (head::verdict(sheet))
                    (gpus::section(sheet))
                    div.two {
                        div { (head::figures(sheet)) (money::section(sheet)) (unknown::risks(sheet)) }
                        div { (unknown::unmet(sheet)) (burst::section(sheet)) (unknown::section(sheet)) }
                    }
                    (changes::section(sheet))
                    section.reasons id="reasons" {
                        h2 { (text.reasons) }
                        div.two {
                            div {
                                (workloads::section(sheet))
                                (proof::section(sheet))
                                (workloads::headroom(sheet))
                                (workloads::quotas(sheet))
                            }
                            div { (findings::section(sheet)) }
                        }
                    }
                }
                footer { p { (text.made_by) " " (text.foot) } }
            }
        }
    };
    page.into_string()
}

impl Sheet<'_> {
    /// A sentence of the plan in the page's language; one that the catalogue does not know is told in English and
    /// marked as such.
    pub(super) fn told(&self, sentence: &str) -> Markup {
        match self.translated(sentence) {
            Some(told) => html! { (told) },
            None if self.language == Language::English => html! { (sentence) },
            None => html! { span lang="en" { (sentence) } },
        }
    }

    /// A text of ours with one sentence of the plan in it.
    pub(super) fn inside(&self, template: &str, key: &str, sentence: &str) -> Markup {
        let (before, after) = template.split_once(&format!("{{{key}}}")).unwrap_or((template, ""));
        html! { (before) (self.told(sentence)) (after) }
    }

    /// Where prices come from, without a full stop.
    pub(super) fn source(&self, source: &str) -> String {
        let source = source.trim_end_matches('.');
        match self.language {
            Language::English => source.to_owned(),
            Language::Spanish => sentence::spanish_source(source),
        }
    }

    fn translated(&self, sentence: &str) -> Option<String> {
        match self.language {
            Language::English => None,
            Language::Spanish => sentence::spanish(sentence),
        }
    }
}
