//! The first lines: what is true today, what the plan gives, what it costs, what is not known.

use std::collections::BTreeMap;

use tesela_model::fleet::{Mode, Node};
use tesela_model::plan::{Cost, Figures, Plan, PlanStatus};
use tesela_model::quantity::Micros;

use super::Sheet;
use crate::table::text::{Line, Page, Style};
use crate::table::words::{count, is, list, many, money};

/// Columns of the words at the left.
const LEFT: usize = 9;

/// Names shown where many follow each other.
const NAMED: usize = 3;

pub(super) fn put(page: &mut Page, sheet: &Sheet<'_>) {
    let plan = sheet.plan;
    if plan.today.is_some() {
        say(page, "Today", Style::Strong, &today(sheet));
    }
    let style = if plan.status == PlanStatus::Partial { Style::Warn } else { Style::Strong };
    say(page, "Plan", style, &planned(sheet));
    say(page, "Cost", Style::Strong, &cost(sheet));
    if plan.summary.unknown_pods > 0 {
        say(page, "Unknown", Style::Warn, &unknown(plan));
    }
}

fn say(page: &mut Page, word: &str, style: Style, text: &str) {
    let mut first = Line::styled(style, word);
    first.pad_to(LEFT);
    page.paragraph(&first, text, Style::Plain);
}

fn today(sheet: &Sheet<'_>) -> String {
    let plan = sheet.plan;
    let Figures { gpus, gpus_held, nodes, pods_served, pods_waiting, .. } = sheet.today();
    let modes = plan.today.iter().flat_map(|t| &t.gpus_by_mode);
    let modes = modes.map(|(mode, n)| format!("{} {}", count(*n), offered(*mode))).collect::<Vec<_>>();
    let mut text = format!("{} on {}", many(gpus, "GPU"), many(nodes, "node"));
    if !modes.is_empty() {
        text.push_str(&format!(": {}", list(&modes)));
    }
    let idle = gpus.saturating_sub(gpus_held);
    text.push_str(&match (gpus_held, idle) {
        (0, 0) => "; no node offers a GPU to pods".to_owned(),
        (0, _) => ". No pod holds any of them".to_owned(),
        (_, 0) => format!(". All are held, by {}", many(pods_served, "pod")),
        (held, idle) => format!(
            ". {} {} held by {}, {} {} held by nobody",
            count(held),
            is(held),
            many(pods_served, "pod"),
            count(idle),
            is(idle),
        ),
    });
    if pods_waiting > 0 {
        let verb = if pods_waiting == 1 { "waits" } else { "wait" };
        text.push_str(&format!("; {} {verb}", many(pods_waiting, "pod")));
    }
    text.push('.');
    text.push_str(&left_aside(&sheet.left_aside()));
    text
}

/// Nodes that cannot be planned with, by reason: ` 1 more node (a100-6) cannot be planned with: MIG is INVALID.`
fn left_aside(nodes: &[&Node]) -> String {
    let mut reasons = BTreeMap::<&str, Vec<&str>>::new();
    for node in nodes {
        reasons.entry(node.unusable.as_deref().unwrap_or_default()).or_default().push(&node.name);
    }
    let told = reasons.iter().map(|(reason, names)| {
        let number = names.len() as u64;
        let more = names.len().saturating_sub(NAMED);
        let mut names = names.iter().take(NAMED).map(|n| (*n).to_owned()).collect::<Vec<_>>();
        if more > 0 {
            names.push(format!("{} more", count(more as u64)));
        }
        let reason = reason.trim_end_matches('.');
        format!(" {} ({}) cannot be planned with: {reason}.", many(number, "more node"), list(&names))
    });
    told.collect()
}

fn offered(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "whole",
        Mode::Mig => "in MIG",
        Mode::TimeSliced => "time-sliced",
        Mode::Mps => "shared by MPS",
    }
}

fn planned(sheet: &Sheet<'_>) -> String {
    let plan = sheet.plan;
    let summary = &plan.summary;
    let Figures { gpus_held, nodes_held, pods_served, .. } = summary.plan;
    let mut text = format!(
        "{} on {} of {}",
        many(pods_served, "pod"),
        many(gpus_held, "GPU"),
        many(nodes_held, "node"),
    );
    let aside = sheet.left_aside();
    let spare = summary.plan.nodes.saturating_sub(nodes_held + aside.len() as u64);
    if spare > 0 {
        text.push_str(&format!(", {} kept as headroom", many(spare, "more node")));
    }
    let free = summary.nodes_free.iter().filter(|name| aside.iter().all(|n| n.name != **name)).count();
    if free > 0 {
        let free = free as u64;
        let verb = if free == 1 { "comes" } else { "come" };
        text.push_str(&format!("; {} {verb} free", many(free, "node")));
    }
    text.push('.');
    let unmet = plan.unmet.iter().map(|u| u.count).sum::<u64>();
    if unmet > 0 {
        let verb = if unmet == 1 { "fits" } else { "fit" };
        text.push_str(&format!(" {} {verb} nowhere.", many(unmet, "pod")));
    }
    if plan.changes.is_empty() && summary.requests_to_change == 0 && plan.today.is_some() {
        text.push_str(" No GPU has to change.");
    } else if plan.today.is_some() {
        text.push_str(&on_the_way(restarts(plan), summary.requests_to_change));
    }
    text
}

/// Pods that restart, also those that keep their device and that their controller replaces for another template.
fn restarts(plan: &Plan) -> u64 {
    plan.summary.restarts.max(plan.restarting.len() as u64)
}

fn on_the_way(restarts: u64, requests: u64) -> String {
    let restart = match restarts {
        0 => "no pod restarts".to_owned(),
        1 => "1 pod restarts".to_owned(),
        n => format!("{} restart", many(n, "pod")),
    };
    match requests {
        0 => format!(" On the way {restart}."),
        n => format!(" On the way {restart}, and {} must request something else.", count(n)),
    }
}

fn cost(sheet: &Sheet<'_>) -> String {
    let plan = sheet.plan;
    let Some(cost) = &plan.cost else {
        let reason = plan.cost_reason.as_deref().unwrap_or("no prices were given");
        let products = plan.gpus.iter().map(|g| g.product.clone()).collect::<Vec<_>>();
        let named = products.iter().any(|p| reason.contains(p.as_str()));
        let products = if named { String::new() } else { format!(" Products here: {}.", list(&products)) };
        return format!("not known: {}.{products}", reason.trim_end_matches('.'));
    };
    let currency = &cost.currency;
    let text = match plan.today.as_ref().and_then(|t| t.hourly_micros) {
        None => format!("{} an hour under the plan.", money(cost.hourly_micros, currency)),
        Some(today) => beside_today(today, cost),
    };
    format!("{text}{}{}", headroom(plan), all_whole(cost))
}

/// What the plan costs beside what is paid today.
fn beside_today(today: Micros, cost: &Cost) -> String {
    let saved = today.0.saturating_sub(cost.hourly_micros.0);
    let now = money(cost.hourly_micros, &cost.currency);
    if saved == 0 {
        return format!("{now} an hour, the same as today.");
    }
    let percent = match percent(saved.unsigned_abs(), today.0.unsigned_abs()) {
        0 => "less than 1".to_owned(),
        percent => percent.to_string(),
    };
    let less = if saved >= 0 { "less" } else { "more" };
    // 730 hours are a twelfth of a year, as the clouds count a month.
    let month = Micros(saved.saturating_abs().saturating_mul(730));
    format!(
        "{} an hour today, {now} an hour under the plan: {percent} % {less}, {} a month of 730 hours.",
        money(today, &cost.currency),
        money(month, &cost.currency),
    )
}

fn headroom(plan: &Plan) -> String {
    let figures = &plan.summary.plan;
    match figures.nodes.saturating_sub(figures.nodes_held) {
        0 => String::new(),
        1 => " The node kept as headroom is paid too.".to_owned(),
        n => format!(" The {} kept as headroom are paid too.", many(n, "node")),
    }
}

/// What whole GPUs for everybody would cost, the way of sharing that needs no decision.
fn all_whole(cost: &Cost) -> String {
    let whole = cost.alternatives.all_exclusive.and_then(|a| Some((a.gpus, a.hourly_micros?)));
    whole.map_or_else(String::new, |(gpus, hourly)| {
        let price = money(hourly, &cost.currency);
        format!(" Whole GPUs for everything would be {}, at {price} an hour.", many(gpus, "GPU"))
    })
}

/// A share in whole percent, rounded to the nearest.
fn percent(part: u64, whole: u64) -> u64 {
    let (part, whole) = (u128::from(part), u128::from(whole.max(1)));
    u64::try_from((part * 200 / whole).div_ceil(2)).unwrap_or(u64::MAX)
}

fn unknown(plan: &Plan) -> String {
    let summary = &plan.summary;
    let (ask, need, keep) = match summary.unknown_pods {
        1 => ("asks for one nvidia.com/gpu", "it needs", "it keeps what it has"),
        _ => ("ask for one nvidia.com/gpu each", "they need", "they keep what they have"),
    };
    let whole = match (summary.unknown_pods, summary.unknown_gpus) {
        (_, 0) => String::new(),
        (1, _) => ": a whole GPU".to_owned(),
        (all, whole) if all == whole => ": a whole GPU each".to_owned(),
        (_, 1) => "; 1 of them has a whole GPU".to_owned(),
        (_, whole) => format!("; {} of them have a whole GPU", count(whole)),
    };
    format!(
        "{} {ask} and nobody says what {need}, so {keep}{whole}. Write down what {need} to see what can be saved: the \
         way is below, under `What this rests on`.",
        many(summary.unknown_pods, "pod"),
    )
}
