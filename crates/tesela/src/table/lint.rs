//! Lint findings for people, the way compilers tell them.

use tesela_formats::diagnostic::Severity;
use tesela_formats::lint::{FileFindings, FileKind, Finding};

use super::text::{Line, Page, Style, width};
use super::words::{count, list};
use crate::verbs::lint::Linted;

/// Every finding with its line of the file, then the account.
pub(crate) fn put(page: &mut Page, linted: &[Linted]) {
    for one in linted {
        // Once for each file: searching the line again for each finding would be quadratic.
        let lines = one.text.lines().collect::<Vec<_>>();
        for finding in &one.found.findings {
            page.gap();
            put_finding(page, &one.found.file, &lines, finding);
        }
    }
    page.gap();
    for one in linted {
        page.paragraph(&Line::plain(format!("{}: ", one.found.file)), &account(&one.found), Style::Plain);
    }
}

fn put_finding(page: &mut Page, file: &str, lines: &[&str], finding: &Finding) {
    let style = match finding.severity {
        Severity::Error => Style::Bad,
        Severity::Warning => Style::Warn,
        Severity::Info => Style::Plain,
    };
    let place =
        if finding.line > 0 { format!(":{}:{}", finding.line, finding.column) } else { String::new() };
    let mut head = Line::styled(Style::Strong, format!("{file}{place}: "));
    head.push(style, finding.severity.to_string());
    head.push(Style::Faint, format!(" [{}]", finding.rule));
    page.line(head);
    put_excerpt(page, lines, finding, style);
    let indent = Line::plain("    ");
    page.paragraph(&indent, &finding.message, Style::Plain);
    if !finding.fix.is_empty() {
        let mut fix = indent;
        fix.push(Style::Good, "fix: ");
        page.paragraph(&fix, &finding.fix, Style::Plain);
    }
}

/// The line of the file with a mark below the place. Long lines are shown around the place.
fn put_excerpt(page: &mut Page, lines: &[&str], finding: &Finding, style: Style) {
    let at = usize::try_from(finding.line).unwrap_or(0);
    let Some(line) = at.checked_sub(1).and_then(|n| lines.get(n)) else {
        return;
    };
    let margin = format!("    {at} | ");
    let room = page.width().saturating_sub(width(&margin));
    let column = usize::try_from(finding.column).unwrap_or(1).saturating_sub(1);
    let skip = if column + 10 > room { column.saturating_sub(room / 2) } else { 0 };
    let shown = line.replace('\t', " ").chars().skip(skip).take(room).collect::<String>();
    if shown.trim().is_empty() {
        return;
    }
    let before = width(&shown.chars().take(column - skip).collect::<String>());
    let mut text = Line::styled(Style::Faint, &margin);
    text.push(Style::Plain, shown);
    page.line(text);
    let mut mark = Line::styled(Style::Faint, format!("{}| ", " ".repeat(width(&margin) - 2)));
    mark.push(style, format!("{}^", " ".repeat(before)));
    page.line(mark);
}

fn account(found: &FileFindings) -> String {
    let kind = match found.kind {
        FileKind::DevicePlugin => "a device-plugin config",
        FileKind::MigParted => "a mig-parted config",
        FileKind::ConfigMap => "a ConfigMap",
        FileKind::Tesela => "a document of ours",
        FileKind::Unknown => {
            return "neither a device-plugin nor a mig-parted config, no ConfigMap with one, and no document of ours; \
                    nothing was checked"
                .to_owned();
        }
    };
    let number = |severity| found.findings.iter().filter(|f| f.severity == severity).count() as u64;
    let told = |severity, one: &str, several: &str| match number(severity) {
        0 => None,
        1 => Some(format!("1 {one}")),
        n => Some(format!("{} {several}", count(n))),
    };
    let counts = [
        told(Severity::Error, "error", "errors"),
        told(Severity::Warning, "warning", "warnings"),
        told(Severity::Info, "info", "info"),
    ];
    let counts = counts.into_iter().flatten().collect::<Vec<_>>();
    if counts.is_empty() { format!("{kind}; nothing found") } else { format!("{kind}; {}", list(&counts)) }
}
