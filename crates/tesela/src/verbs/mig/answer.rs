//! The result of `mig plan`, `apply`, `assert` and `restore`, as DESIGN 9 fixes it.

use std::path::Path;

use serde::Serialize;
use tesela_executor::apply::Outcome;
use tesela_executor::goal::Goal;
use tesela_executor::plan::{Change, GpuPlan, Piece};
use tesela_model::driver::{GpuUuid, Process};
use tesela_model::layout::Instance;
use tesela_model::product::ProfileName;

use super::Planned;
use crate::node::process_name;

/// All of it.
#[derive(Serialize)]
pub(crate) struct Answer {
    pub(crate) gpus: Vec<Gpu>,
    pub(crate) blocked: Vec<BlockedGpu>,
}

/// One GPU that the wish is about.
#[derive(Serialize)]
pub(crate) struct Gpu {
    pub(crate) uuid: GpuUuid,
    pub(crate) index: u32,
    pub(crate) product: String,
    pub(crate) change: Change,
    pub(crate) keep: Vec<Piece>,
    pub(crate) destroy: Vec<Piece>,
    pub(crate) create: Vec<Piece>,
    /// Pods are known to the kubelet, which is not asked yet: null.
    pub(crate) disturbed_pods: Option<Vec<Pod>>,
    pub(crate) disturbed_processes: Vec<Holder>,
    /// Driver calls that change something.
    pub(crate) driver_calls: usize,
    /// The same for taking every instance away and making all anew.
    pub(crate) driver_calls_of_destroy_all: usize,
    /// What became of it; null in a plan.
    pub(crate) outcome: Option<&'static str>,
    /// Why, where it did not come about.
    pub(crate) message: Option<String>,
    /// For the tiles.
    #[serde(skip)]
    pub(crate) picture: Picture,
}

/// A pod that holds an instance that goes.
#[derive(Serialize)]
pub(crate) struct Pod {
    namespace: String,
    name: String,
    uid: String,
    start: u32,
}

/// A process that is in the way.
#[derive(Serialize, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) pid: u32,
    pub(crate) name: Option<String>,
}

/// A GPU that stays as it is.
#[derive(Serialize)]
pub(crate) struct BlockedGpu {
    pub(crate) uuid: String,
    pub(crate) reason: String,
    /// For people.
    #[serde(skip)]
    pub(crate) index: Option<u32>,
}

/// A GPU before and after.
#[derive(Default)]
pub(crate) struct Picture {
    pub(crate) units: u32,
    /// `None`: MIG is off.
    pub(crate) before: Option<Vec<Instance>>,
    pub(crate) after: Option<Vec<Instance>>,
}

impl Answer {
    /// The answer of plans, with what became of them.
    pub(crate) fn new(planned: Planned, outcomes: Option<&[Outcome]>, host_root: &Path) -> Self {
        let mut gpus = Vec::new();
        let mut blocked = Vec::new();
        for (at, plan) in planned.plans.into_iter().enumerate() {
            let outcome = outcomes.and_then(|outcomes| outcomes.get(at));
            let passed = matches!(outcome, Some(Outcome::Done | Outcome::Unchanged));
            let waits = match outcome {
                Some(Outcome::NeedsReboot(stop) | Outcome::Untouched(stop)) => Some(stop.to_string()),
                _ => None,
            };
            let reason = plan.blocked.as_ref().map(ToString::to_string).filter(|_| !passed);
            blocked.extend(waits.or(reason).map(|reason| BlockedGpu {
                uuid: plan.identity.uuid.to_string(),
                reason,
                index: Some(plan.identity.index),
            }));
            gpus.push(gpu(plan, outcome, host_root));
        }
        let silent = planned.silent.into_iter();
        blocked.extend(silent.map(|s| BlockedGpu { uuid: s.name, reason: s.reason, index: None }));
        Self { gpus, blocked }
    }
}

fn gpu(plan: GpuPlan, outcome: Option<&Outcome>, host_root: &Path) -> Gpu {
    let picture = Picture {
        units: plan.units,
        before: plan.original.as_ref().and_then(|goal| drawn(goal, &plan)),
        after: plan.goal.as_ref().and_then(|goal| drawn(goal, &plan)),
    };
    let mut holders = Vec::new();
    for process in &plan.disturbed {
        let holder = holder(process, host_root);
        if !holders.contains(&holder) {
            holders.push(holder);
        }
    }
    let (word, message) = outcome.map(told).unzip();
    Gpu {
        uuid: plan.identity.uuid,
        index: plan.identity.index,
        product: plan.product,
        change: plan.change,
        keep: plan.keep,
        destroy: plan.destroy,
        create: plan.create,
        disturbed_pods: None,
        disturbed_processes: holders,
        driver_calls: plan.calls,
        driver_calls_of_destroy_all: plan.calls_of_destroy_all,
        outcome: word,
        message: message.flatten(),
        picture,
    }
}

fn holder(process: &Process, host_root: &Path) -> Holder {
    let name = process.name.clone().or_else(|| process_name(host_root, process.pid));
    Holder { pid: process.pid, name }
}

/// The GPU instances of a goal; `None` with MIG off.
fn drawn(goal: &Goal, plan: &GpuPlan) -> Option<Vec<Instance>> {
    let one = |i: &tesela_executor::goal::GoalInstance| {
        let profile = ProfileName::parse(plan.names.get(&i.profile)?).ok()?;
        Some(Instance { profile, start: i.placement.start, size: i.placement.size })
    };
    goal.mig.then(|| goal.instances.iter().filter_map(one).collect())
}

/// The word for programs, and why.
fn told(outcome: &Outcome) -> (&'static str, Option<String>) {
    match outcome {
        Outcome::Unchanged => ("unchanged", None),
        Outcome::Done => ("done", None),
        Outcome::RolledBack(stop) => ("rolledBack", Some(stop.to_string())),
        Outcome::Blocked => ("blocked", None),
        Outcome::Untouched(stop) => ("untouched", Some(stop.to_string())),
        Outcome::NeedsReboot(stop) => ("needsReboot", Some(stop.to_string())),
        Outcome::Lost(stop) => ("lost", Some(stop.to_string())),
        Outcome::Between { stop, undo } => {
            ("between", Some(format!("{stop}; and it could not go back: {undo}. Run the same command again")))
        }
    }
}
