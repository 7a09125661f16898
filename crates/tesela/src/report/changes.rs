//! What is touched, node by node: GPUs that change, and every pod that restarts, by name.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use tesela_model::demand::PodRef;
use tesela_model::plan::{Change, ChangeKind, Restart, RestartCause};

use super::Sheet;
use super::text::{Text, fill};

/// Nodes that are shown at once; the rest is folded away, but named.
const SHOWN: usize = 40;

/// What happens on one node.
#[derive(Default)]
struct Touched<'a> {
    changes: Vec<&'a Change>,
    restarts: Vec<&'a Restart>,
    /// Pods on GPUs that change whose workload shall have fewer: they end and come back nowhere.
    ends: BTreeSet<&'a PodRef>,
}

pub(super) fn section(sheet: &Sheet<'_>) -> Markup {
    let (plan, text) = (sheet.plan, sheet.text);
    let mut nodes: BTreeMap<&str, Touched<'_>> = BTreeMap::new();
    let restarting: BTreeSet<(&str, &str)> =
        plan.restarting.iter().map(|r| (r.namespace.as_str(), r.name.as_str())).collect();
    for change in &plan.changes {
        let touched = nodes.entry(&change.node).or_default();
        touched.changes.push(change);
        let ends = change.disturbed_pods.iter();
        touched.ends.extend(ends.filter(|p| !restarting.contains(&(p.namespace.as_str(), p.name.as_str()))));
    }
    for restart in &plan.restarting {
        nodes.entry(&restart.node).or_default().restarts.push(restart);
    }
    let mut nodes: Vec<(&str, Touched<'_>)> = nodes.into_iter().collect();
    nodes.sort_by_key(|(_, touched)| !touched.restarts.is_empty() || !touched.ends.is_empty());
    html! {
        section id="windows" {
            h2 { (text.windows) }
            @if nodes.is_empty() { p { (text.windows_none) } }
            @else {
                p { (text.windows_lead) }
                (table(sheet, &nodes[..nodes.len().min(SHOWN)]))
                @if nodes.len() > SHOWN {
                    details {
                        summary { (text.many((nodes.len() - SHOWN) as u64, &text.nodes)) }
                        (table(sheet, &nodes[SHOWN..]))
                    }
                }
                (meanings(sheet))
            }
        }
    }
}

fn table(sheet: &Sheet<'_>, nodes: &[(&str, Touched<'_>)]) -> Markup {
    let text = sheet.text;
    html! {
        div.scroll role="region" tabindex="0" aria-label=(text.windows_caption) {
            table.windows {
                caption.vh { (text.windows_caption) }
                thead { tr {
                    th scope="col" { (text.node) }
                    th scope="col" { (text.gpu_changes) }
                    th scope="col" { (text.restarts) }
                } }
                tbody {
                    @for (node, touched) in nodes {
                        tr {
                            th scope="row" { (node) }
                            td { (changes(sheet, &touched.changes)) }
                            td { (restarts(sheet, touched)) }
                        }
                    }
                }
            }
        }
    }
}

fn changes(sheet: &Sheet<'_>, changes: &[&Change]) -> Markup {
    let text = sheet.text;
    let mut alike: BTreeMap<(ChangeKind, &str), u64> = BTreeMap::new();
    for change in changes {
        *alike.entry((change.change, &change.to)).or_default() += 1;
    }
    html! {
        @if alike.is_empty() { span.faint { (text.no_gpu_changes) } }
        @else {
            ul.plain {
                @for ((change, to), gpus) in alike {
                    li { (text.many(gpus, &text.gpus)) ": " (kind(text, change)) " → " (becomes(text, to)) }
                }
            }
        }
    }
}

fn restarts(sheet: &Sheet<'_>, touched: &Touched<'_>) -> Markup {
    let text = sheet.text;
    let restarts = &touched.restarts;
    let ends: Vec<String> = touched.ends.iter().map(|p| format!("{}/{}", p.namespace, p.name)).collect();
    let of = |cause: RestartCause| {
        let pods = restarts.iter().filter(move |r| r.cause == cause);
        pods.map(|r| format!("{}/{}", r.namespace, r.name)).collect::<Vec<_>>()
    };
    let causes = [(RestartCause::Moves, text.moves), (RestartCause::Template, text.template)];
    html! {
        @if restarts.is_empty() && ends.is_empty() { span.faint { (text.restarts_none) } }
        @if !ends.is_empty() {
            p.pods { b { (text.many(ends.len() as u64, &text.pods)) } " (" (text.ends) "): " (ends.join(", ")) }
        }
        @for (cause, why) in causes {
            @let pods = of(cause);
            @if !pods.is_empty() {
                p.pods { b { (text.many(pods.len() as u64, &text.pods)) } " (" (why) "): " (pods.join(", ")) }
            }
        }
    }
}

/// `mig 1g.10gb × 4`, `timeSliced × 4`, `mps × 2`, `exclusive` as people say it.
pub(super) fn becomes(text: &Text, to: &str) -> String {
    if let Some(instances) = to.strip_prefix("mig ") {
        return format!("MIG {instances}");
    }
    let shares = |of: &str, template: &str| {
        let number = to.strip_prefix(of)?.strip_prefix(" × ")?;
        Some(fill(template, &[("n", number)]))
    };
    let known = (to == "exclusive").then(|| text.to_whole.to_owned());
    let known = known.or_else(|| shares("timeSliced", text.to_shares)).or_else(|| shares("mps", text.to_mps));
    known.unwrap_or_else(|| to.to_owned())
}

fn kind(text: &Text, kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Geometry => text.kind_geometry,
        ChangeKind::MigMode => text.kind_mig_mode,
        ChangeKind::MigModeReset => text.kind_reset,
        ChangeKind::Sharing => text.kind_sharing,
    }
}

/// What each kind of change needs; kinds that are not there are not told.
fn meanings(sheet: &Sheet<'_>) -> Markup {
    let text = sheet.text;
    let there: BTreeSet<ChangeKind> = sheet.plan.changes.iter().map(|c| c.change).collect();
    let means = |of: ChangeKind| match of {
        ChangeKind::Geometry => text.means_geometry,
        ChangeKind::MigMode => text.means_mig_mode,
        ChangeKind::MigModeReset => text.means_reset,
        ChangeKind::Sharing => text.means_sharing,
    };
    html! {
        @for of in there {
            p.note { (kind(text, of)) ": " (means(of)) "." }
        }
    }
}
