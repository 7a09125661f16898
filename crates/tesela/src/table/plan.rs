//! A plan for people, in the order in which it teaches: what is so, what to do about it, the GPUs, the workloads,
//! what does not fit, quotas, changes, what it rests on, and the account at the end.

mod account;
mod burst;
mod doubts;
mod findings;
mod gpus;
mod headline;
mod rest;
#[cfg(test)]
mod tests;
mod today;
mod workloads;

use tesela_model::demand::Demand;
use tesela_model::fleet::{Fleet, Node};
use tesela_model::plan::{Figures, Plan};
use tesela_model::product::ProductTable;

use super::text::Page;

/// A plan and what it was made from.
pub(crate) struct Sheet<'a> {
    /// The plan.
    pub(crate) plan: &'a Plan,
    /// The fleet it is for, to draw today's GPUs.
    pub(crate) fleet: &'a Fleet,
    /// The demand it is for, to know who holds what today.
    pub(crate) demand: &'a Demand,
    /// Products, for the size of tiles.
    pub(crate) products: &'a ProductTable,
    /// Findings to show at most.
    pub(crate) findings: usize,
    /// Rows to show at most in each other part.
    pub(crate) rows: usize,
    /// The demand was written to this file; it can be edited and fed back.
    pub(crate) demand_file: Option<String>,
    /// The input as it was named, for commands that can be copied.
    pub(crate) inputs: Vec<String>,
    /// The options that change the answer, for the same commands.
    pub(crate) options: Vec<String>,
}

impl Sheet<'_> {
    /// Nodes that cannot be planned with (MIG INVALID, vGPU …) and hold no work under the plan. They stay as they are.
    fn left_aside(&self) -> Vec<&Node> {
        let works = |name: &str| {
            let nodes = self.plan.nodes.iter().filter(|n| n.name.as_deref() == Some(name));
            let mut gpus = nodes.flat_map(|n| &n.gpus);
            gpus.any(|g| !g.used_by.is_empty() || g.instances.iter().any(|i| !i.used_by.is_empty()))
        };
        let unusable = self.fleet.nodes.iter().filter(|n| n.unusable.is_some());
        unusable.filter(|n| !works(&n.name)).collect()
    }

    /// Today's figures without the nodes that are left aside, for the sentence that speaks of them on their own.
    fn today(&self) -> Figures {
        let aside = self.left_aside();
        let today = &self.plan.summary.today;
        let gpus = aside.iter().map(|n| n.gpus.len() as u64).sum();
        Figures {
            nodes: today.nodes.saturating_sub(aside.len() as u64),
            gpus: today.gpus.saturating_sub(gpus),
            ..today.clone()
        }
    }
}

/// Puts the whole plan on a page.
pub(crate) fn put(page: &mut Page, sheet: &Sheet<'_>) {
    headline::put(page, sheet);
    findings::put(page, sheet);
    gpus::put(page, sheet);
    workloads::put(page, sheet);
    rest::put_unmet(page, sheet);
    burst::put(page, sheet.plan);
    rest::put_quotas(page, sheet);
    rest::put_changes(page, sheet);
    rest::put_assumptions(page, sheet);
    account::put(page, sheet);
}

/// Says how many rows were left out, and how to see them.
fn left_out(page: &mut Page, all: usize, shown: usize, option: &str) {
    if all > shown {
        let text = format!("+ {} more: {option} all", super::words::count((all - shown) as u64));
        page.line(super::text::Line::styled(super::text::Style::Faint, text));
    }
}
