//! The first lines: what is true today, what the plan gives, what it costs, what is not known.

use tesela_model::fleet::Mode;
use tesela_model::plan::{Figures, Plan, PlanStatus};

use super::Sheet;
use crate::table::text::{Line, Page, Style};
use crate::table::words::{count, is, list, many, money};

/// Columns of the words at the left.
const LEFT: usize = 9;

pub(super) fn put(page: &mut Page, sheet: &Sheet<'_>) {
    let plan = sheet.plan;
    if plan.today.is_some() {
        say(page, "Today", Style::Strong, &today(plan));
    }
    let style = if plan.status == PlanStatus::Partial { Style::Warn } else { Style::Strong };
    say(page, "Plan", style, &planned(plan));
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

fn today(plan: &Plan) -> String {
    let Figures { gpus, gpus_held, pods_served, pods_waiting, .. } = plan.summary.today;
    let nodes = plan.today.as_ref().map_or(0, |t| t.nodes);
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
    text
}

fn offered(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "whole",
        Mode::Mig => "in MIG",
        Mode::TimeSliced => "time-sliced",
        Mode::Mps => "shared by MPS",
    }
}

fn planned(plan: &Plan) -> String {
    let summary = &plan.summary;
    let Figures { gpus_held, nodes_held, pods_served, .. } = summary.plan;
    let mut text = format!(
        "{} on {} of {}",
        many(pods_served, "pod"),
        many(gpus_held, "GPU"),
        many(nodes_held, "node"),
    );
    let spare = summary.plan.nodes.saturating_sub(nodes_held);
    if spare > 0 {
        text.push_str(&format!(", {} kept as headroom", many(spare, "more node")));
    }
    if !summary.nodes_free.is_empty() {
        let free = summary.nodes_free.len() as u64;
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
        text.push_str(&on_the_way(summary.restarts, summary.requests_to_change));
    }
    text
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
    let now = format!("{} an hour under the plan", money(cost.hourly_micros, currency));
    let Some(today) = plan.today.as_ref().and_then(|t| t.hourly_micros) else {
        return format!("{now}.");
    };
    let saved = today.0.saturating_sub(cost.hourly_micros.0);
    if saved == 0 {
        let also = if plan.summary.plan.nodes > plan.summary.plan.nodes_held {
            "; headroom is paid too"
        } else {
            ""
        };
        return format!("{} an hour, today and under the plan{also}.", money(today, currency));
    }
    let percent = percent(saved.unsigned_abs(), today.0.unsigned_abs());
    let less = if saved >= 0 { "less" } else { "more" };
    // 730 hours are a twelfth of a year, as the clouds count a month.
    let month = tesela_model::quantity::Micros(saved.saturating_abs().saturating_mul(730));
    format!(
        "{} an hour today, {now}: {percent} % {less}, {} a month of 730 hours.",
        money(today, currency),
        money(month, currency),
    )
}

/// A share in whole percent, rounded to the nearest.
fn percent(part: u64, whole: u64) -> u64 {
    let (part, whole) = (u128::from(part), u128::from(whole.max(1)));
    u64::try_from((part * 200 / whole).div_ceil(2)).unwrap_or(u64::MAX)
}

fn unknown(plan: &Plan) -> String {
    let summary = &plan.summary;
    let (say, request, need, keep, have) = match summary.unknown_pods {
        1 => ("says", "it requests", "it needs", "keeps", "it has"),
        _ => ("say", "they request", "they need", "keep", "they have"),
    };
    format!(
        "{} on {} {say} only what {request}, not what {need}, and so {keep} what {have}. Write down what {need} to see \
         what can be saved: the way is below, under `What this rests on`.",
        many(summary.unknown_pods, "pod"),
        many(summary.unknown_gpus, "GPU"),
    )
}
