//! What it costs, what the same pods would cost in other ways, and who says the prices. Without prices there are no
//! figures, and the page says how to give them.

use std::collections::BTreeSet;

use maud::{Markup, html};
use tesela_model::plan::{Alternative, Cost};
use tesela_model::quantity::Micros;

use super::Sheet;
use super::number::month;
use super::text::fill;

/// Products named in the example of the flag.
const NAMED: usize = 4;

pub(super) fn section(sheet: &Sheet<'_>) -> Markup {
    let text = sheet.text;
    html! {
        section id="money" {
            h2 { (text.money) }
            @match &sheet.plan.cost {
                Some(cost) => (known(sheet, cost)),
                None => (unknown(sheet)),
            }
        }
    }
}

fn unknown(sheet: &Sheet<'_>) -> Markup {
    let text = sheet.text;
    let why = sheet.plan.cost_reason.as_deref().unwrap_or_default();
    let products: BTreeSet<&str> = sheet.plan.gpus.iter().map(|g| g.product.as_str()).collect();
    let flag = |product: &&str| format!("--price {product}=…/h");
    let flags = products.iter().take(NAMED).map(flag).collect::<Vec<_>>().join(" ");
    let (before, after) = text.give_prices.split_once("{flags}").unwrap_or((text.give_prices, ""));
    html! {
        p { (sheet.inside(text.no_money, "why", why.trim_end_matches('.'))) }
        p.note { (before) code { (flags) @if products.len() > NAMED { " …" } } (after) }
    }
}

fn known(sheet: &Sheet<'_>, cost: &Cost) -> Markup {
    let (plan, text) = (sheet.plan, sheet.text);
    let today = plan.today.as_ref().and_then(|t| t.hourly_micros);
    let now = today.map(|hourly| Alternative {
        gpus: plan.summary.today.gpus_held,
        nodes: plan.summary.today.nodes,
        hourly_micros: Some(hourly),
    });
    let planned = Alternative {
        gpus: plan.summary.plan.gpus_held,
        nodes: plan.summary.plan.nodes,
        hourly_micros: Some(cost.hourly_micros),
    };
    let all = &cost.alternatives;
    let others = [
        (text.all_exclusive, "all_exclusive", all.all_exclusive),
        (text.all_mig, "all_mig", all.all_mig),
        (text.all_time_sliced, "all_time_sliced", all.all_time_sliced),
    ];
    let money = |amount: Micros| text.money(amount, &cost.currency);
    html! {
        div.scroll role="region" tabindex="0" aria-label=(text.money_caption) {
            table.numbers.nw {
                caption.vh { (text.money_caption) }
                thead { tr {
                    th scope="col" { (text.way) }
                    th.n scope="col" { (text.gpus_word) }
                    th.n scope="col" { (text.nodes_word) }
                    th.n scope="col" { (fill(text.per_hour, &[("currency", &cost.currency)])) }
                } }
                tbody {
                    @if let Some(now) = now { (row(sheet, text.today_paid, now, false)) }
                    (row(sheet, text.the_plan, planned, true))
                    @for (name, key, alternative) in others {
                        @if let Some(alternative) = alternative { (row(sheet, name, alternative, false)) }
                        @else {
                            @let why = all.reasons.get(key).map_or("", String::as_str);
                            tr { th scope="row" { (name) } td colspan="3" { (sheet.inside(text.not_possible, "why", why)) } }
                        }
                    }
                }
            }
        }
        @if let Some(today) = today {
            p { (fill(text.month, &[("today", &money(month(today))), ("plan", &money(month(cost.hourly_micros)))])) }
        }
        p.note {
            (source(sheet, cost))
            @if plan.summary.plan.nodes > plan.summary.plan.nodes_held { " " (text.headroom_paid) }
        }
    }
}

fn row(sheet: &Sheet<'_>, name: &str, of: Alternative, strong: bool) -> Markup {
    let text = sheet.text;
    html! {
        tr class=[strong.then_some("strong")] {
            th scope="row" { (name) }
            td.n { (text.count(of.gpus)) }
            td.n { (text.count(of.nodes)) }
            td.n { @if let Some(hourly) = of.hourly_micros { (text.amount(hourly)) } }
        }
    }
}

fn source(sheet: &Sheet<'_>, cost: &Cost) -> String {
    let text = sheet.text;
    let prices = fill(text.prices_from, &[("source", &sheet.source(&cost.source))]);
    match &cost.as_of {
        Some(day) => fill(text.prices_as_of, &[("prices", &prices), ("date", &text.day(day))]),
        None => fill(text.prices_undated, &[("prices", &prices)]),
    }
}
