//! What is true today: the gravest first, findings of one rule together, each with its fix.

use maud::{Markup, html};
use tesela_model::finding::{Finding, Severity};

use super::Sheet;
use super::text::Text;

/// Subjects named where findings of one rule are told together.
const NAMED: usize = 4;
/// Findings told one by one, folded away.
const FOLDED: usize = 500;

pub(super) fn section(sheet: &Sheet<'_>) -> Markup {
    let text = sheet.text;
    let findings = &sheet.plan.findings;
    let kinds = by_rule(findings);
    html! {
        section id="findings" {
            h3 { (text.findings) }
            @if findings.is_empty() { p { (text.findings_none) } }
            ul.findings { @for kind in &kinds { (one(sheet, kind[0], kind)) } }
            @if findings.len() > kinds.len() {
                details {
                    summary { (text.all_findings) }
                    ul.findings { @for finding in findings.iter().take(FOLDED) { (one(sheet, finding, &[])) } }
                    (super::unknown::left_out(sheet, findings.len(), FOLDED))
                }
            }
        }
    }
}

fn one(sheet: &Sheet<'_>, first: &Finding, kind: &[&Finding]) -> Markup {
    let text = sheet.text;
    let others: Vec<&str> = kind.iter().skip(1).map(|f| f.subject.as_str()).collect();
    let (word, class) = severity(text, first.severity);
    html! {
        li {
            span class=(class) { (word) } " " b { (first.subject) } " " code.rule { (first.rule) }
            p { (message(sheet, &first.message)) }
            @if !others.is_empty() {
                p.note { (text.many_with(others.len() as u64, &text.likewise, &[("names", &text.some(&others, NAMED))])) }
            }
            p class=(if first.severity == Severity::Info { "fix screen" } else { "fix" }) { b { (text.fix) ": " } (sheet.told(&first.fix)) }
        }
    }
}

/// The message; what the scheduler or the kubelet said stays in their own words.
fn message(sheet: &Sheet<'_>, message: &str) -> Markup {
    let text = sheet.text;
    let foreign = [("; the scheduler says: ", text.scheduler_says), ("; it says: ", text.kubelet_says)];
    let found = foreign.into_iter().find_map(|(mark, says)| {
        let (ours, theirs) = message.split_once(mark)?;
        Some((ours, says, theirs))
    });
    let Some((ours, says, theirs)) = found else { return sheet.told(message) };
    html! {
        (sheet.told(ours))
        span.screen { "; " (says) ": " q lang="en" { (theirs) } }
    }
}

fn severity(text: &Text, severity: Severity) -> (&'static str, &'static str) {
    match severity {
        Severity::Error => (text.error, "tag err"),
        Severity::Warning => (text.warning, "tag warn"),
        Severity::Info => (text.info, "tag"),
    }
}

/// Findings of one rule and severity together, in the order of the first of each.
fn by_rule(findings: &[Finding]) -> Vec<Vec<&Finding>> {
    let mut kinds: Vec<Vec<&Finding>> = Vec::new();
    for finding in findings {
        match kinds.iter_mut().find(|k| k[0].rule == finding.rule && k[0].severity == finding.severity) {
            Some(kind) => kind.push(finding),
            None => kinds.push(vec![finding]),
        }
    }
    kinds
}
