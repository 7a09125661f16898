//! Joint activity of those who share a device, checked on a finished plan.
//!
//! It shares no code with what chose the counts: windows are counted anew from the series. What is checked is what was
//! seen, without the confidence that the choice asks for beside it, so a plan that fails here is wrong in any case.

use std::collections::BTreeMap;

use tesela_model::activity::{Activity, Window};
use tesela_model::demand::WorkloadKey;
use tesela_model::fleet::Mode;
use tesela_model::plan::{Plan, PlannedNode};

use super::{Fault, node_name};

/// Name of the rule.
pub const JOINT_ACTIVITY: &str = "joint-activity";
/// Choices of pods looked at for one node.
const MOST_CHOICES: u32 = 20_000;

/// Pods of one workload on a node.
struct Sharer<'a> {
    windows: &'a [Window],
    pods: u64,
}

/// Whether on each time-sliced node that the plan gives new pods, any pods of `known` that may meet on one device
/// keep the rule: more than `together` of them at work in at most `risk_ppm` millionths of the windows, mean load
/// below the whole device. Pods of other workloads have no series and are not counted.
#[must_use]
pub fn validate_together(
    plan: &Plan,
    activity: &Activity,
    known: &[WorkloadKey],
    together: u32,
    risk_ppm: u32,
) -> Vec<Fault> {
    let mut faults = Vec::new();
    for node in &plan.nodes {
        let Some(replicas) = changed_replicas(plan, node) else { continue };
        let sharers = sharers(node, activity, known);
        let mut look = Look { sharers: &sharers, together, risk_ppm, choices: 0, worst: None };
        let windows = vec![0u64; activity.windows()];
        look.choose(0, u64::from(replicas), &windows, 0, 0);
        if let Some((over, load)) = look.worst {
            let message = format!(
                "of {replicas} pods that may meet on one device more than {together} work at the same time in {over} of \
                 {} windows, and their mean load is {load} thousandths",
                activity.windows()
            );
            faults.push(Fault { rule: JOINT_ACTIVITY, subject: node_name(node.name.as_deref()), message });
        }
    }
    faults.sort();
    faults
}

/// Replicas of the node's time-sliced GPUs, when the plan puts pods there that are not there today.
fn changed_replicas(plan: &Plan, node: &PlannedNode) -> Option<u32> {
    let shared = node.gpus.iter().filter(|g| g.mode == Mode::TimeSliced);
    let replicas = shared.filter_map(|g| g.replicas).max()?;
    let here = plan.assignments.iter().filter(|a| a.node == node.name && a.mode == Mode::TimeSliced);
    here.into_iter().any(|a| a.staying < a.count).then_some(replicas)
}

fn sharers<'a>(node: &PlannedNode, activity: &'a Activity, known: &[WorkloadKey]) -> Vec<Sharer<'a>> {
    let mut pods: BTreeMap<&WorkloadKey, u64> = BTreeMap::new();
    for user in node.gpus.iter().filter(|g| g.mode == Mode::TimeSliced).flat_map(|g| &g.used_by) {
        let is = |k: &&WorkloadKey| k.namespace == user.namespace && k.name == user.workload;
        if let Some(key) = known.iter().find(is) {
            *pods.entry(key).or_insert(0) += user.pods;
        }
    }
    let of = |(key, pods): (&WorkloadKey, u64)| Some(Sharer { windows: &activity.of(key)?.windows, pods });
    pods.into_iter().filter_map(of).collect()
}

struct Look<'l, 'a> {
    sharers: &'l [Sharer<'a>],
    together: u32,
    risk_ppm: u32,
    choices: u32,
    /// Windows with too many at work, and load, of the first choice that breaks the rule.
    worst: Option<(usize, u64)>,
}

impl Look<'_, '_> {
    /// Takes from the sharers from `at` on `left` more pods, beside those whose work is `sums`.
    fn choose(&mut self, at: usize, left: u64, sums: &[u64], load: u64, taken: u64) {
        if self.worst.is_some() || self.choices > MOST_CHOICES {
            return;
        }
        let Some(sharer) = self.sharers.get(at).filter(|_| left > 0) else {
            self.choices += 1;
            let over = sums.iter().filter(|n| **n > u64::from(self.together)).count();
            let often = over as u128 * 1_000_000 > u128::from(self.risk_ppm) * sums.len() as u128;
            if taken > 1 && (often || load >= 1000 * sums.len().max(1) as u64) {
                self.worst = Some((over, load / sums.len().max(1) as u64));
            }
            return;
        };
        for pods in (0..=sharer.pods.min(left)).rev() {
            let with = |(sum, w): (&u64, &Window)| sum + u64::from(w.active).min(pods);
            let sums: Vec<u64> = sums.iter().zip(sharer.windows).map(with).collect();
            // Thousandths times windows: of all its pods together, the part of those taken.
            let all: u64 = sharer
                .windows
                .iter()
                .map(|w| u64::from(w.active).min(sharer.pods) * u64::from(w.busy_permille))
                .sum();
            self.choose(at + 1, left - pods, &sums, load + all * pods / sharer.pods.max(1), taken + pods);
        }
    }
}
