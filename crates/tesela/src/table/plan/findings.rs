//! What is wrong today: the gravest first, findings of one kind together, each with its fix.

use tesela_model::finding::{Finding, Severity};

use super::{Sheet, left_out};
use crate::table::text::{Line, Page, Style};
use crate::table::words::{count, many};

/// Subjects named where findings of one kind are told together.
const NAMED: usize = 4;

pub(super) fn put(page: &mut Page, sheet: &Sheet<'_>) {
    let findings = &sheet.plan.findings;
    if findings.is_empty() {
        return;
    }
    page.heading(&format!("Findings ({})", count(findings.len() as u64)));
    let kinds = if sheet.findings == usize::MAX {
        findings.iter().map(|f| vec![f]).collect()
    } else {
        by_kind(findings)
    };
    let shown = kinds.iter().take(sheet.findings).map(|kind| put_kind(page, kind)).sum();
    left_out(page, findings.len(), shown, "--findings");
}

/// Findings of one rule and severity together, in the order of the first of each.
fn by_kind(findings: &[Finding]) -> Vec<Vec<&Finding>> {
    let mut kinds: Vec<Vec<&Finding>> = Vec::new();
    for finding in findings {
        let same = |kind: &&mut Vec<&Finding>| {
            kind.first().is_some_and(|f| f.rule == finding.rule && f.severity == finding.severity)
        };
        match kinds.iter_mut().find(same) {
            Some(kind) => kind.push(finding),
            None => kinds.push(vec![finding]),
        }
    }
    kinds
}

/// Tells one kind; returns for how many findings that speaks.
fn put_kind(page: &mut Page, kind: &[&Finding]) -> usize {
    let Some(first) = kind.first() else { return 0 };
    let (word, style) = match first.severity {
        Severity::Error => ("error", Style::Bad),
        Severity::Warning => ("warning", Style::Warn),
        Severity::Info => ("info", Style::Plain),
    };
    let mut head = Line::styled(style, word);
    head.pad_to(9);
    let mut text = Line::default();
    text.append(&head);
    text.push(Style::Strong, format!("{}  ", first.subject));
    text.push(Style::Faint, format!("[{}]", first.rule));
    page.line(text);
    let indent = Line::plain(" ".repeat(9));
    page.paragraph(&indent, &first.message, Style::Plain);
    if kind.len() > 1 {
        let others =
            kind.iter().skip(1).take(NAMED).map(|f| f.subject.as_str()).collect::<Vec<_>>().join(", ");
        let rest = (kind.len() - 1).saturating_sub(NAMED);
        let rest = if rest > 0 { format!(" and {} more", count(rest as u64)) } else { String::new() };
        let text = format!("Likewise {}: {others}{rest}.", many((kind.len() - 1) as u64, "other"));
        page.paragraph(&indent, &text, Style::Faint);
    }
    let mut fix = indent;
    fix.push(Style::Good, "fix: ");
    page.paragraph(&fix, &first.fix, Style::Plain);
    kind.len()
}
