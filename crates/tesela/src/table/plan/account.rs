//! The end: room kept free, today / plan / difference, the other ways, and the proof in words.

use tesela_model::plan::{Alternative, Cost, Headroom, Plan};
use tesela_model::quantity::Micros;

use super::Sheet;
use crate::table::certificate;
use crate::table::columns::{Columns, Kind};
use crate::table::text::{Line, Page, Style};
use crate::table::words::{count, difference, list, money, money_difference};

/// Stands for a pool in a sentence that several pools share; no sentence holds it.
const POOL: &str = "\u{0}";

pub(super) fn put(page: &mut Page, sheet: &Sheet<'_>) {
    let plan = sheet.plan;
    put_headroom(page, plan);
    put_figures(page, sheet);
    if let Some(cost) = &plan.cost {
        put_alternatives(page, plan, cost);
    }
    put_proof(page, plan);
}

fn put_headroom(page: &mut Page, plan: &Plan) {
    if plan.headroom.is_empty() {
        return;
    }
    page.heading("Room to live");
    for text in room_to_live(&plan.headroom) {
        page.item("", &text, Style::Plain);
    }
}

/// What is said of each pool; of several with the same words, once: `… a node of pools a, b and c`.
fn room_to_live(rooms: &[Headroom]) -> Vec<String> {
    let mut said: Vec<(String, Vec<String>)> = Vec::new();
    for room in rooms {
        let text = room.message.replacen(&format!("pool {}", room.pool), POOL, 1);
        match said.iter_mut().find(|(same, _)| *same == text) {
            Some((_, pools)) => pools.push(room.pool.clone()),
            None => said.push((text, vec![room.pool.clone()])),
        }
    }
    let sentence = |(text, pools): (String, Vec<String>)| match (text.contains(POOL), pools.len()) {
        (true, 1) => text.replacen(POOL, &format!("pool {}", pools[0]), 1),
        (true, _) => text.replacen(&format!("{POOL} is "), &format!("{POOL} are "), 1).replacen(
            POOL,
            &format!("pools {}", list(&pools)),
            1,
        ),
        (false, _) => format!("{}: {text}", list(&pools)),
    };
    said.into_iter().map(sentence).collect()
}

fn put_figures(page: &mut Page, sheet: &Sheet<'_>) {
    let plan = sheet.plan;
    let known = plan.today.is_some();
    page.heading(if known { "Today, plan, difference" } else { "The plan in figures" });
    let mut columns = Columns::new(&[
        ("", Kind::Fixed),
        ("today", Kind::Number),
        ("plan", Kind::Number),
        ("difference", Kind::Number),
    ]);
    let (today, planned) = (&plan.summary.today, &plan.summary.plan);
    let rows = [
        ("GPUs held by pods", today.gpus_held, planned.gpus_held),
        ("nodes held by pods", today.nodes_held, planned.nodes_held),
        ("nodes kept, with headroom", today.nodes, planned.nodes),
        ("GPUs of the nodes kept", today.gpus, planned.gpus),
        ("pods served", today.pods_served, planned.pods_served),
        ("pods waiting", today.pods_waiting, planned.pods_waiting),
    ];
    for (name, from, to) in rows {
        let from_text = if known { count(from) } else { String::new() };
        let change = if known { difference(from, to) } else { String::new() };
        columns.row(vec![
            Line::plain(name),
            Line::plain(from_text),
            Line::plain(count(to)),
            Line::plain(change),
        ]);
    }
    if let Some(cost) = &plan.cost {
        let from = plan.today.as_ref().and_then(|t| t.hourly_micros);
        columns.row(vec![
            Line::plain(format!("{} per hour", cost.currency)),
            Line::plain(from.map(|m| money(m, "")).unwrap_or_default()),
            Line::styled(Style::Strong, money(cost.hourly_micros, "")),
            Line::plain(from.map(|m| money_difference(m, cost.hourly_micros)).unwrap_or_default()),
        ]);
    }
    columns.put(page);
    let aside = sheet.left_aside().iter().map(|n| n.name.clone()).collect::<Vec<_>>();
    if !aside.is_empty() {
        let text =
            format!("Counted on both sides, since they cannot be planned with and stay: {}.", list(&aside));
        page.paragraph(&Line::default(), &text, Style::Faint);
    }
    match (&plan.cost, &plan.cost_reason) {
        (Some(cost), _) => {
            let date = cost.as_of.as_ref().map(|d| format!(", as of {d}")).unwrap_or_default();
            let unit = |(product, price): (&String, &Micros)| format!("{product} {}", money(*price, ""));
            let units = cost.gpu_hour.iter().map(unit).collect::<Vec<_>>();
            let units = if units.is_empty() { String::new() } else { format!(": {}", units.join(", ")) };
            let text = format!("Prices of a GPU hour from {}{date}{units}.", cost.source);
            page.paragraph(&Line::default(), &text, Style::Faint);
        }
        (None, Some(reason)) => page.paragraph(&Line::default(), &format!("Money: {reason}"), Style::Faint),
        (None, None) => {}
    }
}

fn put_alternatives(page: &mut Page, plan: &Plan, cost: &Cost) {
    page.heading("The same pods in one way only");
    let mut columns = Columns::new(&[
        ("", Kind::Fixed),
        ("GPUs", Kind::Number),
        ("nodes", Kind::Number),
        ("per hour", Kind::Number),
        ("why not", Kind::Text),
    ]);
    let hourly = |m: Option<Micros>| m.map(|m| money(m, "")).unwrap_or_default();
    let all = &cost.alternatives;
    let planned = Alternative {
        gpus: plan.summary.plan.gpus_held,
        nodes: plan.summary.plan.nodes,
        hourly_micros: Some(cost.hourly_micros),
    };
    let rows = [
        ("the plan", "", Some(planned)),
        ("all whole GPUs", "all_exclusive", all.all_exclusive),
        ("all MIG", "all_mig", all.all_mig),
        ("all time-sliced", "all_time_sliced", all.all_time_sliced),
    ];
    for (name, key, alternative) in rows {
        let reason = all.reasons.get(key).map_or("", String::as_str);
        columns.row(vec![
            Line::plain(name),
            Line::plain(alternative.map_or_else(|| "-".to_owned(), |a| count(a.gpus))),
            Line::plain(alternative.map_or_else(|| "-".to_owned(), |a| count(a.nodes))),
            Line::plain(alternative.map_or_else(|| "-".to_owned(), |a| hourly(a.hourly_micros))),
            Line::plain(reason),
        ]);
    }
    columns.put(page);
    if plan.summary.plan.nodes > plan.summary.plan.nodes_held {
        let text = "Nodes and money of the plan are with headroom, those of the other ways without.";
        page.paragraph(&Line::default(), text, Style::Faint);
    }
}

fn put_proof(page: &mut Page, plan: &Plan) {
    if plan.gpus.is_empty() {
        return;
    }
    page.heading("Proof");
    for product in &plan.gpus {
        page.item(&product.product, &certificate::of_product(product), Style::Plain);
    }
}
