//! Where pods without a place could run for money: cloud instances at dated list prices.

use maud::{Markup, html};
use tesela_model::plan::{Burst, BurstWorkload};

use super::Sheet;
use super::text::fill;

pub(super) fn section(sheet: &Sheet<'_>) -> Markup {
    let (plan, text) = (sheet.plan, sheet.text);
    if plan.burst.is_empty() {
        return html! {};
    }
    html! {
        section id="burst" {
            h2 { (text.burst) }
            div.scroll role="region" tabindex="0" aria-label=(text.burst_caption) {
                table {
                    caption.vh { (text.burst_caption) }
                    thead { tr {
                        th scope="col" { (text.burst_instances) }
                        th scope="col" { (text.burst_for) }
                        th.n scope="col" { (text.burst_price) }
                    } }
                    tbody { @for one in &plan.burst { (row(sheet, one)) } }
                }
            }
            p.note { (source(sheet)) }
        }
    }
}

fn row(sheet: &Sheet<'_>, one: &Burst) -> Markup {
    let text = sheet.text;
    let pods = |w: &BurstWorkload| format!("{}/{} ×{}", w.namespace, w.workload, text.count(w.count));
    let workloads = one.workloads.iter().map(pods).collect::<Vec<_>>().join(", ");
    html! {
        tr {
            th scope="row" {
                (text.count(one.nodes)) " × " (one.instance_type) " (" (one.provider) " " (one.region) ", "
                (text.many(u64::from(one.gpus_per_node), &text.gpus)) " " (one.product) ")"
            }
            td { (workloads) }
            td.n { (text.money(one.hourly_micros, &one.currency)) }
        }
    }
}

/// Each source once, with the day its prices are of.
fn source(sheet: &Sheet<'_>) -> String {
    let text = sheet.text;
    let mut said: Vec<String> = Vec::new();
    for one in &sheet.plan.burst {
        let prices = fill(text.prices_from, &[("source", &sheet.source(&one.source))]);
        let told = fill(text.prices_as_of, &[("prices", &prices), ("date", &text.day(&one.as_of))]);
        if !said.contains(&told) {
            said.push(told);
        }
    }
    said.join(" ")
}
