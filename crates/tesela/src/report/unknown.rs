//! Risks, what does not fit, what is not known, and what the plan would be if it were otherwise.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use tesela_model::finding::Severity;
use tesela_model::origin::Origin;
use tesela_model::plan::{ChangeKind, Doubt, RestartCause, WhatIf};

use super::Sheet;
use super::text::{Text, fill};

/// Names shown where many follow each other.
const NAMED: usize = 8;
/// Rows shown of a table that the input can make long.
const ROWS: usize = 200;

pub(super) fn risks(sheet: &Sheet<'_>) -> Markup {
    let list = list_risks(sheet);
    html! {
        section id="risks" {
            h2 { (sheet.text.risks) }
            @if list.is_empty() { p { (sheet.text.risks_none) } }
            @else { ul { @for risk in list { li { (risk) } } } }
        }
    }
}

fn list_risks(sheet: &Sheet<'_>) -> Vec<String> {
    let (plan, text) = (sheet.plan, sheet.text);
    let mut list = Vec::new();
    let names = |names: &BTreeSet<&str>| text.some(&names.iter().copied().collect::<Vec<_>>(), NAMED);
    let unmet: u64 = plan.unmet.iter().map(|u| u.count).sum();
    if unmet > 0 {
        list.push(text.many(unmet, &text.risk_unmet));
    }
    let stopped = stopped(sheet);
    if !stopped.is_empty() {
        let shown = text.some(&stopped.iter().map(String::as_str).collect::<Vec<_>>(), NAMED);
        list.push(text.many_with(stopped.len() as u64, &text.risk_stop, &[("names", &shown)]));
    }
    let away = away(sheet);
    if !away.is_empty() {
        let shown = text.some(&away.iter().map(String::as_str).collect::<Vec<_>>(), NAMED);
        list.push(text.many_with(away.len() as u64, &text.risk_alone, &[("names", &shown)]));
    }
    let template = plan.restarting.iter().filter(|r| r.cause == RestartCause::Template).count() as u64;
    if template > 0 {
        list.push(text.many(template, &text.risk_template));
    }
    let kept: BTreeSet<&str> =
        plan.nodes.iter().filter(|n| n.operator).filter_map(|n| n.name.as_deref()).collect();
    let of = |wanted: &dyn Fn(ChangeKind) -> bool| -> BTreeSet<&str> {
        plan.changes.iter().filter(|c| wanted(c.change)).map(|c| c.node.as_str()).collect()
    };
    let by_manager: BTreeSet<&str> = of(&|c| c != ChangeKind::Sharing).intersection(&kept).copied().collect();
    if !by_manager.is_empty() {
        list.push(fill(text.risk_operator, &[("names", &names(&by_manager))]));
    }
    let reset = of(&|c| c == ChangeKind::MigModeReset);
    if !reset.is_empty() {
        list.push(fill(text.risk_reset, &[("names", &names(&reset))]));
    }
    let fragile: BTreeSet<&str> =
        plan.headroom.iter().filter(|h| !h.survives_node_loss).map(|h| h.pool.as_str()).collect();
    if !fragile.is_empty() {
        list.push(fill(text.risk_loss, &[("names", &names(&fragile))]));
    }
    let errors: Vec<&str> = {
        let errors = plan.findings.iter().filter(|f| f.severity == Severity::Error);
        errors.map(|f| f.subject.as_str()).collect()
    };
    if !errors.is_empty() {
        let subjects: BTreeSet<&str> = errors.iter().copied().collect();
        list.push(text.many_with(errors.len() as u64, &text.risk_errors, &[("names", &names(&subjects))]));
    }
    list
}

/// Workloads of which running pods leave their device and pods find no place.
fn stopped(sheet: &Sheet<'_>) -> Vec<String> {
    let moves = sheet.plan.restarting.iter().filter(|r| r.cause == RestartCause::Moves);
    let leaving: BTreeSet<(&str, &str, &str)> =
        moves.map(|r| (r.namespace.as_str(), r.kind.as_str(), r.workload.as_str())).collect();
    let unmet = sheet.plan.unmet.iter();
    let both = unmet.filter(|u| leaving.contains(&(&u.namespace, &u.kind, &u.workload)));
    let names: BTreeSet<String> = both.map(|u| format!("{}/{}", u.namespace, u.workload)).collect();
    names.into_iter().collect()
}

/// Workloads all of whose running pods restart.
fn away(sheet: &Sheet<'_>) -> Vec<String> {
    let mut restarting: BTreeMap<(&str, &str, &str), u64> = BTreeMap::new();
    for r in &sheet.plan.restarting {
        *restarting.entry((&r.namespace, &r.kind, &r.workload)).or_default() += 1;
    }
    // Pods that stay and are not replaced keep a workload going.
    for a in &sheet.plan.assignments {
        let replaced = sheet.plan.restarting.iter().any(|r| {
            r.cause == RestartCause::Template
                && (&r.namespace, &r.kind, &r.workload) == (&a.namespace, &a.kind, &a.workload)
        });
        if a.staying > 0 && !replaced {
            restarting.remove(&(a.namespace.as_str(), a.kind.as_str(), a.workload.as_str()));
        }
    }
    restarting.into_keys().map(|(namespace, _, workload)| format!("{namespace}/{workload}")).collect()
}

pub(super) fn unmet(sheet: &Sheet<'_>) -> Markup {
    let (plan, text) = (sheet.plan, sheet.text);
    if plan.unmet.is_empty() {
        return html! {};
    }
    html! {
        section id="unmet" {
            h2 { (text.unmet) }
            div.scroll role="region" tabindex="0" aria-label=(text.unmet_caption) {
                table {
                    caption.vh { (text.unmet_caption) }
                    thead { tr {
                        th scope="col" { (text.workload) }
                        th.n scope="col" { (text.pods_word) }
                        th scope="col" { (text.why) }
                    } }
                    tbody {
                        @for one in plan.unmet.iter().take(ROWS) {
                            tr {
                                th scope="row" { (one.namespace) "/" (one.workload) }
                                td.n { (text.count(one.count)) }
                                td { (sheet.told(&one.reason)) }
                            }
                        }
                    }
                }
            }
            (left_out(sheet, plan.unmet.len(), ROWS))
        }
    }
}

/// What of a long table is not on the page.
pub(super) fn left_out(sheet: &Sheet<'_>, all: usize, shown: usize) -> Markup {
    let rest = all.saturating_sub(shown) as u64;
    html! { @if rest > 0 { p.note { (sheet.text.many(rest, &sheet.text.rows_left_out)) } } }
}

pub(super) fn section(sheet: &Sheet<'_>) -> Markup {
    let (plan, text) = (sheet.plan, sheet.text);
    let summary = &plan.summary;
    let guessed = plan.nodes_today.iter().flat_map(|n| &n.gpus).any(|g| g.uuid.is_none());
    let (before, after) = text.unknown_way.split_once("{write}").unwrap_or((text.unknown_way, ""));
    html! {
        section id="unknown" {
            h2 { (text.unknown) }
            @if summary.unknown_pods > 0 {
                p {
                    (text.many(summary.unknown_pods, &text.unknown_pods))
                    @if summary.unknown_gpus > 0 { " " (text.many(summary.unknown_gpus, &text.unknown_gpus)) }
                    @if guessed { " " (text.unknown_seats) }
                }
                p.note { (before) code { "--write-demand observed.yaml" } (after) }
            } @else if guessed { p { (text.unknown_seats) } }
            @if plan.assumptions.is_empty() { p { (text.nothing_assumed) } }
            @else { (assumptions(sheet)) }
            @if !plan.sensitivity.is_empty() { (sensitivity(sheet)) }
        }
    }
}

fn assumptions(sheet: &Sheet<'_>) -> Markup {
    let text = sheet.text;
    html! {
        div.scroll role="region" tabindex="0" aria-label=(text.assumptions_caption) {
            table {
                caption.vh { (text.assumptions_caption) }
                thead { tr {
                    th scope="col" { (text.assumption) }
                    th scope="col" { (text.taken) }
                    th scope="col" { (text.if_wrong) }
                } }
                tbody {
                    @for a in sheet.plan.assumptions.iter().take(ROWS) {
                        tr {
                            th scope="row" { (sheet.told(&a.subject)) }
                            td { (sheet.told(&a.value)) " (" (origin(text, a.origin)) ")" }
                            td { (sheet.told(&a.if_wrong)) }
                        }
                    }
                }
            }
        }
    }
}

fn origin(text: &Text, origin: Origin) -> &'static str {
    match origin {
        Origin::Given => text.given,
        Origin::Measured => text.measured,
        Origin::Estimated => text.estimated,
        Origin::Assumed => text.assumed,
    }
}

/// The plan if each of the weightiest assumptions is wrong.
fn sensitivity(sheet: &Sheet<'_>) -> Markup {
    let (plan, text) = (sheet.plan, sheet.text);
    let now = &plan.summary.plan;
    let priced = plan.sensitivity.iter().any(|w| w.hourly_micros.is_some());
    let currency = plan.cost.as_ref().map_or("", |c| c.currency.as_str());
    let spare = |kept: u64, held: u64| kept.saturating_sub(held);
    let number = |then: u64, now: u64| {
        let change = if then == now { String::new() } else { format!(" ({})", text.difference(now, then)) };
        format!("{}{change}", text.count(then))
    };
    html! {
        h3 { (text.sensitivity) }
        div.scroll role="region" tabindex="0" aria-label=(text.sensitivity_caption) {
            table.numbers {
                caption.vh { (text.sensitivity_caption) }
                thead { tr {
                    th scope="col" { (text.if_true) }
                    th.n scope="col" { (text.gpus_held) }
                    th.n scope="col" { (text.nodes_held) }
                    th.n scope="col" { (text.headroom) }
                    th.n scope="col" { (text.pods_waiting) }
                    th.n scope="col" { (text.restarts) }
                    @if priced { th.n scope="col" { (fill(text.per_hour, &[("currency", currency)])) } }
                } }
                tbody {
                    @for what in &plan.sensitivity {
                        tr {
                            th scope="row" { (doubt(text, what.subject)) ": " (change(sheet, what)) }
                            td.n { (number(what.gpus_held, now.gpus_held)) }
                            td.n { (number(what.nodes_held, now.nodes_held)) }
                            td.n { (number(spare(what.nodes, what.nodes_held), spare(now.nodes, now.nodes_held))) }
                            td.n { (number(what.pods_waiting, now.pods_waiting)) }
                            td.n { (number(what.restarts, plan.summary.restarts)) }
                            @if priced { td.n { @if let Some(hourly) = what.hourly_micros { (text.amount(hourly)) } } }
                        }
                    }
                }
            }
        }
    }
}

fn change(sheet: &Sheet<'_>, what: &WhatIf) -> Markup {
    sheet.told(&what.change)
}

fn doubt(text: &Text, doubt: Doubt) -> &'static str {
    match doubt {
        Doubt::UnknownNeed => text.doubt_unknown_need,
        Doubt::GpuMemory => text.doubt_gpu_memory,
        Doubt::Duty => text.doubt_duty,
        Doubt::ContextOverhead => text.doubt_context,
        Doubt::Headroom => text.doubt_headroom,
        Doubt::Price => text.doubt_price,
    }
}
