//! The plan if an assumption is wrong, one row each.

use tesela_model::plan::{Doubt, Plan};

use crate::table::columns::{Columns, Kind};
use crate::table::text::{Line, Page, Style};
use crate::table::words::{count, difference, money, money_difference};

/// Nothing where nothing was tried.
pub(super) fn put(page: &mut Page, plan: &Plan) {
    if plan.sensitivity.is_empty() {
        return;
    }
    page.gap();
    page.say("The plan if one of these is wrong, planned again; the first changes most:");
    let mut heads = vec![
        ("if", Kind::Text),
        ("GPUs held", Kind::Number),
        ("nodes held", Kind::Number),
        ("headroom", Kind::Number),
        ("pods waiting", Kind::Number),
    ];
    if plan.cost.is_some() {
        heads.push(("per hour", Kind::Number));
    }
    let mut columns = Columns::new(&heads);
    let now = &plan.summary.plan;
    let figure = |now: u64, then: u64| {
        Line::plain(if now == then {
            count(then)
        } else {
            format!("{} ({})", count(then), difference(now, then))
        })
    };
    for then in &plan.sensitivity {
        let mut row = vec![
            Line::plain(format!("{}: {}", doubt(then.subject), then.change)),
            figure(now.gpus_held, then.gpus_held),
            figure(now.nodes_held, then.nodes_held),
            figure(now.nodes.saturating_sub(now.nodes_held), then.nodes.saturating_sub(then.nodes_held)),
            figure(now.pods_waiting, then.pods_waiting),
        ];
        if let Some(cost) = &plan.cost {
            let text = then.hourly_micros.map(|m| match money_difference(cost.hourly_micros, m) {
                _ if m == cost.hourly_micros => money(m, ""),
                change => format!("{} ({change})", money(m, "")),
            });
            row.push(Line::styled(Style::Plain, text.unwrap_or_default()));
        }
        columns.row(row);
    }
    columns.put(page);
}

fn doubt(doubt: Doubt) -> &'static str {
    match doubt {
        Doubt::UnknownNeed => "need that nobody said",
        Doubt::GpuMemory => "GPU memory needed",
        Doubt::Duty => "time that shared work is busy",
        Doubt::ContextOverhead => "memory of a CUDA context",
        Doubt::Headroom => "headroom",
        Doubt::Price => "prices",
    }
}
