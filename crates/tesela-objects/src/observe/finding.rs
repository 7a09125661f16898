//! What is true about today that costs money, breaks work, or is not known.

use tesela_model::finding::{Finding, Severity};

/// Names listed in a message before it says "and N more".
const LISTED: usize = 3;

/// A finding with the GPUs it is about, by which findings of one severity are ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Draft {
    pub(super) severity: Severity,
    pub(super) rule: &'static str,
    pub(super) subject: String,
    pub(super) message: String,
    pub(super) fix: String,
    pub(super) gpus: u64,
}

/// The gravest first, then those about most GPUs, then by subject.
pub(super) fn ordered(mut drafts: Vec<Draft>) -> Vec<Finding> {
    drafts.sort_by(|a, b| {
        let key = |d: &Draft| (d.severity, u64::MAX - d.gpus);
        (key(a), &a.subject, a.rule, &a.message).cmp(&(key(b), &b.subject, b.rule, &b.message))
    });
    drafts.dedup();
    let finding = |d: Draft| Finding {
        severity: d.severity,
        rule: d.rule.to_owned(),
        subject: d.subject,
        message: d.message,
        fix: d.fix,
    };
    drafts.into_iter().map(finding).collect()
}

/// `a, b, c and 4 more`.
pub(super) fn some_of<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names = names.into_iter().collect::<Vec<_>>();
    let shown = names.iter().take(LISTED).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(LISTED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// `1 pod`, `2 pods`.
pub(super) fn counted(count: u64, one: &str) -> String {
    if count == 1 {
        format!("1 {one}")
    } else {
        format!("{count} {one}s")
    }
}
