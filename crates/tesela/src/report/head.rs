//! What the page begins with: the verdict in a few sentences, and the figures.

use std::collections::BTreeSet;

use maud::{Markup, html};
use tesela_model::plan::{Figures, NodeToday, Plan, PlanStatus};
use tesela_model::quantity::Micros;

use super::Sheet;
use super::number::{month, percent};
use super::text::{Many, fill};

/// Names shown where many follow each other.
const NAMED: usize = 6;

/// Nodes that cannot be planned with and hold no work under the plan. They stay as they are.
pub(super) fn left_aside(plan: &Plan) -> Vec<&NodeToday> {
    let works = |name: &str| {
        let nodes = plan.nodes.iter().filter(|n| n.name.as_deref() == Some(name));
        let mut gpus = nodes.flat_map(|n| &n.gpus);
        gpus.any(|g| !g.used_by.is_empty() || g.instances.iter().any(|i| !i.used_by.is_empty()))
    };
    plan.nodes_today.iter().filter(|n| n.unusable.is_some() && !works(&n.name)).collect()
}

/// The sentences under the title.
pub(super) fn verdict(sheet: &Sheet<'_>) -> Markup {
    let (plan, text) = (sheet.plan, sheet.text);
    let unmet: u64 = plan.unmet.iter().map(|u| u.count).sum();
    let complete = plan.status == PlanStatus::Complete;
    html! {
        p.verdict {
            strong class=(if complete { "good" } else { "bad" }) {
                (if complete { text.complete.to_owned() } else { text.many(unmet, &text.partial) })
            }
            @if plan.today.is_some() { " " (line(sheet, text.today_line, &plan.summary.today)) }
            " " (line(sheet, text.plan_line, &plan.summary.plan))
            @let free = free_nodes(plan);
            @if !free.is_empty() {
                " " (text.many_with(free.len() as u64, &text.nodes_set_free, &[("names", &text.some(&free, NAMED))]))
            }
            @if plan.today.is_some() { " " (way(sheet)) }
            @if let Some(money) = money(sheet) { " " (money) }
        }
    }
}

fn line(sheet: &Sheet<'_>, template: &str, of: &Figures) -> String {
    let text = sheet.text;
    let waiting = if of.pods_waiting > 0 { text.many(of.pods_waiting, &text.waiting) } else { String::new() };
    let some = |number, phrase: &Many| text.many(number, phrase);
    fill(
        template,
        &[
            ("pods", &some(of.pods_served, &text.pods)),
            ("held", &text.count(of.gpus_held)),
            ("gpus", &some(of.gpus, &text.gpus)),
            ("nodes", &some(of.nodes, &text.nodes)),
            ("waiting", &waiting),
        ],
    )
}

fn free_nodes(plan: &Plan) -> Vec<&str> {
    let aside: BTreeSet<&str> = left_aside(plan).iter().map(|n| n.name.as_str()).collect();
    plan.summary.nodes_free.iter().map(String::as_str).filter(|n| !aside.contains(n)).collect()
}

fn way(sheet: &Sheet<'_>) -> String {
    let (plan, text) = (sheet.plan, sheet.text);
    let requests = plan.summary.requests_to_change;
    let restarts = plan.restarting.len() as u64;
    if plan.changes.is_empty() && requests == 0 && restarts == 0 {
        return text.no_change.to_owned();
    }
    let nodes: BTreeSet<&str> = plan.changes.iter().map(|c| c.node.as_str()).collect();
    let pods = match restarts {
        0 => text.no_restart.to_owned(),
        n => text.many(n, &text.pods_restart),
    };
    let template = if nodes.is_empty() { text.way_restarts_only } else { text.way_line };
    let mut said = fill(
        template,
        &[
            ("gpus", &text.many(plan.changes.len() as u64, &text.gpus_change)),
            ("nodes", &text.many(nodes.len() as u64, &text.nodes)),
            ("pods", &pods),
        ],
    );
    if requests > 0 {
        said.push(' ');
        said.push_str(&text.many(requests, &text.requests_line));
    }
    said
}

fn money(sheet: &Sheet<'_>) -> Option<String> {
    let text = sheet.text;
    let cost = sheet.plan.cost.as_ref()?;
    let money = |amount| text.money(amount, &cost.currency);
    let plan = money(cost.hourly_micros);
    let Some(today) = sheet.plan.today.as_ref().and_then(|t| t.hourly_micros) else {
        return Some(fill(text.money_new, &[("plan", &plan)]));
    };
    let saved = today.0.saturating_sub(cost.hourly_micros.0);
    let template = match saved {
        0 => text.money_same,
        1.. => text.money_less,
        _ => text.money_more,
    };
    let share = match percent(saved.unsigned_abs(), today.0.unsigned_abs()) {
        0 => text.less_than_one.to_owned(),
        share => text.count(share),
    };
    let a_month = money(month(Micros(saved.saturating_abs())));
    let said = fill(
        template,
        &[("plan", &plan), ("today", &money(today)), ("percent", &share), ("month", &a_month)],
    );
    // The way of sharing that needs no decision, where it costs more.
    let whole = cost.alternatives.all_exclusive.and_then(|a| Some((a.gpus, a.hourly_micros?)));
    let whole = whole.filter(|(_, hourly)| *hourly > cost.hourly_micros).map(|(gpus, hourly)| {
        fill(text.money_whole, &[("gpus", &text.many(gpus, &text.gpus)), ("whole", &money(hourly))])
    });
    Some([said, whole.unwrap_or_default()].join(" ").trim_end().to_owned())
}

/// Today, plan and difference in figures.
pub(super) fn figures(sheet: &Sheet<'_>) -> Markup {
    let (plan, text) = (sheet.plan, sheet.text);
    let (from, to) = (&plan.summary.today, &plan.summary.plan);
    let known = plan.today.is_some();
    let rows = [
        (text.gpus_held, from.gpus_held, to.gpus_held),
        (text.nodes_held, from.nodes_held, to.nodes_held),
        (text.nodes_kept, from.nodes, to.nodes),
        (text.gpus_kept, from.gpus, to.gpus),
        (text.pods_served, from.pods_served, to.pods_served),
        (text.pods_waiting, from.pods_waiting, to.pods_waiting),
    ];
    let aside: Vec<&str> = left_aside(plan).iter().map(|n| n.name.as_str()).collect();
    html! {
        section id="figures" {
            h2 { (text.figures) }
            div.scroll role="region" tabindex="0" aria-label=(text.figures_caption) {
                table.numbers.nw {
                    caption.vh { (text.figures_caption) }
                    thead { tr {
                        th scope="col" { (text.figure) }
                        th.n scope="col" { (text.today) }
                        th.n scope="col" { (text.plan) }
                        th.n scope="col" { (text.difference) }
                    } }
                    tbody {
                        @for (name, from, to) in rows {
                            tr {
                                th scope="row" { (name) }
                                td.n { @if known { (text.count(from)) } }
                                td.n { b { (text.count(to)) } }
                                td.n { @if known { (text.difference(from, to)) } }
                            }
                        }
                        tr {
                            th scope="row" { (text.pods_restarted) }
                            td.n {}
                            td.n { b { (text.count(plan.restarting.len() as u64)) } }
                            td.n {}
                        }
                        (paid(sheet))
                    }
                }
            }
            @if !aside.is_empty() {
                p.note { (fill(text.aside, &[("names", &text.some(&aside, NAMED))])) }
            }
        }
    }
}

fn paid(sheet: &Sheet<'_>) -> Markup {
    let text = sheet.text;
    let Some(cost) = &sheet.plan.cost else { return html! {} };
    let from = sheet.plan.today.as_ref().and_then(|t| t.hourly_micros);
    html! {
        tr {
            th scope="row" { (fill(text.per_hour, &[("currency", &cost.currency)])) }
            td.n { @if let Some(from) = from { (text.amount(from)) } }
            td.n { b { (text.amount(cost.hourly_micros)) } }
            td.n { @if let Some(from) = from { (text.money_difference(from, cost.hourly_micros)) } }
        }
    }
}
