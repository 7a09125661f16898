//! The plan if an assumption is wrong: the same planner with the other value.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use tesela_model::demand::{Demand, Duty};
use tesela_model::fleet::Fleet;
use tesela_model::origin::Known;
use tesela_model::plan::{Doubt, Figures, Summary, WhatIf};
use tesela_model::price::PriceBook;
use tesela_model::quantity::{Mib, Micros};

use super::{headroom, nodes, pools, summary};
use crate::decide::{Decision, Shape, decide_all};
use crate::input::{PlanInput, Settings};
use crate::planner::{search, work};

/// Beyond this much work for one placement, planning again for each assumption takes too long.
const REPLAN_WORK: u64 = 200_000;
/// Assumptions that are told; a plan may rest on more, but on none that changes it more.
const TOLD: usize = 5;
/// What work of unknown need is taken to need, to see what knowing it could be worth.
const SMALL_NEED: Mib = Mib(8 << 10);

/// What may be wrong about this plan, the doubt that changes most first.
pub(super) fn sensitivity(input: &PlanInput<'_>, decisions: &[Decision], plan: &Summary) -> Vec<WhatIf> {
    let pods: u64 = input.demand.workloads.iter().map(|w| w.count).sum();
    if !input.settings.what_if || pods == 0 || work(input) > REPLAN_WORK {
        return Vec::new();
    }
    let mut doubts = Vec::new();
    doubts.extend(unknown_need(input, decisions));
    doubts.extend(gpu_memory(input, decisions));
    doubts.extend(duty(input, decisions));
    doubts.extend(context_overhead(input, decisions));
    doubts.extend(headroom_otherwise(input));
    doubts.extend(prices(input));
    most_first(&doubts, plan)
}

/// By the most that any change of the same assumption does; ties in the order of [`Doubt`].
fn most_first(doubts: &[WhatIf], plan: &Summary) -> Vec<WhatIf> {
    let most = |doubt: Doubt| doubts.iter().filter(|d| d.subject == doubt).map(|d| effect(d, plan)).max();
    let mut order: Vec<_> = doubts.iter().map(|d| d.subject).collect::<BTreeSet<_>>().into_iter().collect();
    order.sort_by_key(|&doubt| (Reverse(most(doubt)), doubt));
    order.truncate(TOLD);
    let of = |doubt| doubts.iter().filter(move |d| d.subject == doubt).cloned();
    order.into_iter().flat_map(of).collect()
}

/// How much a change does: pods that wait, money, nodes, GPUs, restarts.
fn effect(then: &WhatIf, now: &Summary) -> [u64; 5] {
    let money = |m: Option<Micros>| m.unwrap_or_default().0;
    let Figures { pods_waiting, nodes, gpus_held, hourly_micros, .. } = now.plan;
    // That other prices give another sum goes without saying; what counts is whether they give another plan.
    let sum = if then.subject == Doubt::Price { hourly_micros } else { then.hourly_micros };
    [
        then.pods_waiting.abs_diff(pods_waiting),
        money(sum).abs_diff(money(hourly_micros)),
        then.nodes.abs_diff(nodes),
        then.gpus_held.abs_diff(gpus_held),
        then.restarts.abs_diff(now.restarts),
    ]
}

/// Plans again.
fn with(input: &PlanInput<'_>, subject: Doubt, change: &str) -> WhatIf {
    let decisions = decide_all(input.demand, &input.settings);
    let outcome = search(input, &decisions);
    let (nodes, _) = nodes::nodes(input, &outcome.world);
    let headroom = headroom::headroom(input, &outcome, &nodes, &pools(input, &nodes, &outcome.world));
    let summary = summary(input, &outcome, &nodes, &headroom);
    let Figures { gpus, gpus_held, nodes, nodes_held, pods_waiting, hourly_micros, .. } = summary.plan;
    WhatIf {
        subject,
        change: change.to_owned(),
        gpus,
        gpus_held,
        nodes_held,
        nodes,
        pods_waiting,
        restarts: summary.restarts,
        hourly_micros,
    }
}

/// What knowing the need of work that states only a request could be worth.
fn unknown_need(input: &PlanInput<'_>, decisions: &[Decision]) -> Option<WhatIf> {
    let mut demand = input.demand.clone();
    let asks = |d: &Decision| !d.known && d.shapes.first() == Some(&Shape::AsRequested);
    let unknown = demand.workloads.iter_mut().zip(decisions).filter(|(w, d)| w.gpus == 1 && asks(d));
    let mut found = false;
    for (workload, _) in unknown {
        workload.gpu_memory = Some(Known::assumed(SMALL_NEED));
        found = true;
    }
    let change = format!("each pod needs {SMALL_NEED} and not what it asks for");
    found.then(|| with_demand(input, &demand, Doubt::UnknownNeed, &change))
}

fn gpu_memory(input: &PlanInput<'_>, decisions: &[Decision]) -> Option<WhatIf> {
    let mut demand = input.demand.clone();
    let fitted = |d: &Decision| d.shapes.iter().any(|s| !matches!(s, Shape::Whole | Shape::AsRequested));
    let mut found = false;
    for (workload, _) in demand.workloads.iter_mut().zip(decisions).filter(|(_, d)| fitted(d)) {
        if let Some(need) = &mut workload.gpu_memory {
            need.value = Mib(need.value.0.saturating_add(need.value.0.div_ceil(5)));
            found = true;
        }
    }
    found.then(|| with_demand(input, &demand, Doubt::GpuMemory, "20 % more"))
}

fn duty(input: &PlanInput<'_>, decisions: &[Decision]) -> Option<WhatIf> {
    let shared = |d: &Decision| matches!(d.shapes.first(), Some(Shape::Share(_)));
    if !decisions.iter().any(shared) {
        return None;
    }
    let twice = |permille: u16| permille.saturating_mul(2).min(1000);
    let mut demand = input.demand.clone();
    for workload in &mut demand.workloads {
        if let Some(duty) = &mut workload.duty
            && let Some(doubled) = Duty::permille(twice(duty.value.as_permille()))
        {
            duty.value = doubled;
        }
    }
    let assumed = twice(input.settings.assumed_duty_permille);
    let settings = Settings { assumed_duty_permille: assumed, ..input.settings };
    Some(with_demand(&PlanInput { settings, ..*input }, &demand, Doubt::Duty, "twice as much"))
}

fn context_overhead(input: &PlanInput<'_>, decisions: &[Decision]) -> Option<WhatIf> {
    let fitted = |d: &Decision| matches!(d.shapes.first(), Some(Shape::Instance(_) | Shape::Share(_)));
    let needs = input.demand.workloads.iter().zip(decisions);
    needs.filter(|(w, _)| w.gpu_memory.is_some()).find(|(_, d)| fitted(d))?;
    let context_overhead = Mib(input.settings.context_overhead.0.saturating_mul(2));
    let settings = Settings { context_overhead, ..input.settings };
    let change = format!("{context_overhead} for each pod");
    Some(with(&PlanInput { settings, ..*input }, Doubt::ContextOverhead, &change))
}

/// One node more for each pool, and none: what headroom costs is a choice that somebody should see.
fn headroom_otherwise(input: &PlanInput<'_>) -> Vec<WhatIf> {
    if input.fleet.nodes.is_empty() {
        return Vec::new();
    }
    let nodes = input.fleet.headroom_nodes;
    let mut others = vec![(nodes.saturating_add(1), "1 node more for each pool")];
    others.extend((nodes > 0).then_some((0, "no node kept free")));
    let planned = |(headroom_nodes, change): (u32, &str)| {
        let fleet = Fleet { headroom_nodes, ..input.fleet.clone() };
        with(&PlanInput { fleet: &fleet, ..*input }, Doubt::Headroom, change)
    };
    others.into_iter().map(planned).collect()
}

fn prices(input: &PlanInput<'_>) -> Vec<WhatIf> {
    let Some(book) = input.prices else { return Vec::new() };
    let scaled = |fifths: i64| {
        let price = |m: &Micros| Micros((m.0.saturating_mul(fifths) / 5).max(1));
        let gpu_hour = book.gpu_hour.iter().map(|(product, m)| (product.clone(), price(m))).collect();
        PriceBook { gpu_hour, ..book.clone() }
    };
    let (dear, cheap) = (scaled(6), scaled(4));
    [(dear, "20 % higher"), (cheap, "20 % lower")]
        .iter()
        .map(|(book, change)| with(&PlanInput { prices: Some(book), ..*input }, Doubt::Price, change))
        .collect()
}

fn with_demand(input: &PlanInput<'_>, demand: &Demand, subject: Doubt, change: &str) -> WhatIf {
    with(&PlanInput { demand, ..*input }, subject, change)
}
