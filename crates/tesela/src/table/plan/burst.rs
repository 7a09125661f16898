//! Where pods without a place could run for money.

use tesela_model::plan::{Burst, BurstWorkload, Plan};

use crate::table::text::{Line, Page, Style};
use crate::table::words::{count, list, many, money};

/// Workloads named for one kind of instance before it says how many more there are.
const NAMED: usize = 4;

/// Nothing where nothing was asked for or found.
pub(super) fn put(page: &mut Page, plan: &Plan) {
    let Some(first) = plan.burst.first() else { return };
    page.heading("What does not fit, in the cloud");
    for burst in &plan.burst {
        let text = format!(
            "{} ({} × {} each), {} per hour: {}",
            many(burst.nodes, "instance"),
            burst.gpus_per_node,
            burst.product,
            money(burst.hourly_micros, &burst.currency),
            who(burst),
        );
        page.item(&format!("{} in {}", burst.instance_type, burst.region), &text, Style::Plain);
    }
    let served: u64 = plan.burst.iter().flat_map(|b| &b.workloads).map(|w| w.count).sum();
    let unmet: u64 = plan.unmet.iter().map(|u| u.count).sum();
    let left = match unmet.saturating_sub(served) {
        0 => String::new(),
        left => format!(" {} would fit no instance of the list.", many(left, "pod")),
    };
    let text = format!(
        "List prices of {}, {}, as of {}; CPU and main memory of the instances are not looked at.{left}",
        first.provider, first.source, first.as_of
    );
    page.paragraph(&Line::default(), &text, Style::Faint);
}

fn who(burst: &Burst) -> String {
    let one = |w: &BurstWorkload| {
        let way = w.profile.as_ref().map_or_else(|| w.mode.to_string(), ToString::to_string);
        format!("{} of {}/{} ({way})", many(w.count, "pod"), w.namespace, w.workload)
    };
    let mut named = burst.workloads.iter().take(NAMED).map(one).collect::<Vec<_>>();
    match burst.workloads.len().saturating_sub(NAMED) {
        0 => {}
        more => named.push(format!("{} more workloads", count(more as u64))),
    }
    list(&named)
}
