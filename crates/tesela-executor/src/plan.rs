//! Decides what a change does to one GPU: pure, the same for preview and for the executor.
//!
//! Of all layouts that fulfil the wish the one is taken that keeps the most busy MIG devices, then the most GPU instances
//! that are there, then the most compute instances, then the most future placements. What is kept is not touched at all,
//! so a change never costs more driver calls than destroying and making everything.

mod place;
mod reason;

use serde::Serialize;
use tesela_model::driver::{GpuIdentity, MigMode, Process};
use tesela_model::layout::Layout;
use tesela_model::product::{Product, ProductTable, ProfileName};

pub(crate) use self::reason::told;
pub use self::reason::{Blocked, Holder};
use crate::catalogue::Catalogue;
use crate::goal::{Goal, GoalInstance};
use crate::observe::{GpuState, Live, LiveInstance, is_on};
use crate::steps::{Names, Step, steps};
use crate::wish::{Wish, wanted};

/// What kind of change a GPU goes through (DESIGN 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// Nothing.
    None,
    /// Instances inside a GPU with MIG on; only those that go must be idle.
    Geometry,
    /// MIG on or off; the GPU must be idle.
    MigMode,
    /// The same with a reset (Ampere).
    MigModeReset,
}

/// An instance for people and programs, in memory units.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Piece {
    /// Profile by the table's name; `1c.3g.20gb` for a compute instance that does not fill its GPU instance.
    pub profile: String,
    /// First memory unit of the GPU instance.
    pub start: u32,
    /// Memory units of the GPU instance.
    pub size: u32,
}

/// What becomes of one GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuPlan {
    /// Who it is.
    pub identity: GpuIdentity,
    /// What it is called in output: table id, else the driver's name.
    pub product: String,
    /// Memory units of the GPU, 0 where nobody tells.
    pub units: u32,
    /// The kind of change.
    pub change: Change,
    /// GPU instances that stay, by start.
    pub keep: Vec<Piece>,
    /// What goes, by start.
    pub destroy: Vec<Piece>,
    /// What comes, by start.
    pub create: Vec<Piece>,
    /// Processes that would have to end first.
    pub disturbed: Vec<Process>,
    /// Why the change is not carried out, or not as long as somebody is in the way.
    pub blocked: Option<Blocked>,
    /// What is there now; `None` where it cannot be read.
    pub original: Option<Goal>,
    /// What is to be there; `None` where no layout fulfils the wish.
    pub goal: Option<Goal>,
    /// Whether a change of mode needs a reset.
    pub needs_reset: bool,
    /// Names of profiles.
    pub names: Names,
    /// Driver calls that change something, by this plan.
    pub calls: usize,
    /// The same for destroying and making everything, as NVIDIA's tool does; 0 where nothing changes.
    pub calls_of_destroy_all: usize,
}

/// Plans one GPU.
#[must_use]
pub fn plan(state: &GpuState, table: &ProductTable, wish: &Wish) -> GpuPlan {
    let mut plan = untouched(state);
    let Some(mode) = state.mode else {
        if *wish != Wish::Off {
            plan.blocked = Some(Blocked::NotCapable);
        }
        return plan;
    };
    let catalogue = match Catalogue::of(state, table) {
        Ok(catalogue) => catalogue,
        // Turning MIG off where it is off needs no profiles.
        Err(_) if *wish == Wish::Off && mode == OFF => return plan,
        Err(error) => {
            plan.blocked = Some(Blocked::Catalogue(error));
            return plan;
        }
    };
    plan.product.clone_from(&catalogue.shown);
    plan.units = catalogue.product.units();
    plan.needs_reset = catalogue.needs_reset;
    plan.names = catalogue.names();
    let live = match &state.live {
        Ok(live) => live,
        Err(error) => {
            plan.blocked = Some(Blocked::Hidden(error.clone()));
            return plan;
        }
    };
    plan.original = Some(Goal::of(live));
    plan.keep = pieces_of(&catalogue, live);
    let product = rules(&catalogue, live);
    match goal(&catalogue, &product, live, &state.processes, wish) {
        Ok(goal) => fill(&mut plan, &catalogue, &product, state, live, goal),
        Err(blocked) => plan.blocked = Some(blocked),
    }
    plan
}

const OFF: MigMode = MigMode { current: false, pending: false };

fn untouched(state: &GpuState) -> GpuPlan {
    GpuPlan {
        identity: state.identity.clone(),
        product: state.identity.name.clone(),
        units: 0,
        change: Change::None,
        keep: Vec::new(),
        destroy: Vec::new(),
        create: Vec::new(),
        disturbed: Vec::new(),
        blocked: None,
        original: None,
        goal: None,
        needs_reset: false,
        names: Names::new(),
        calls: 0,
        calls_of_destroy_all: 0,
    }
}

/// The product's rules, without counters where what is there already breaks them: then a source is wrong about them.
fn rules(catalogue: &Catalogue, live: &Live) -> Product {
    let name = |i: &LiveInstance| catalogue.by_id(i.profile).map(|p| (p.name.clone(), i.placement.start));
    let there = live.instances.iter().filter_map(name).collect::<Vec<(ProfileName, u32)>>();
    match Layout::new(&catalogue.product, there) {
        Ok(_) => catalogue.product.clone(),
        Err(_) => catalogue.without_counters(),
    }
}

fn goal(
    catalogue: &Catalogue,
    product: &Product,
    live: &Live,
    processes: &[Process],
    wish: &Wish,
) -> Result<Goal, Blocked> {
    match wish {
        Wish::Off => Ok(Goal::off()),
        Wish::Exactly(goal) => place::checked(catalogue, product, goal),
        Wish::Counts(counts) => {
            let kinds = wanted(catalogue, counts).map_err(Blocked::Wish)?;
            place::best(product, live, processes, &kinds)
        }
    }
}

fn fill(
    plan: &mut GpuPlan,
    catalogue: &Catalogue,
    product: &Product,
    state: &GpuState,
    live: &Live,
    goal: Goal,
) {
    let steps = steps(live, &goal);
    plan.calls = steps.len();
    plan.change = kind(live.mode, &goal, &steps, catalogue.needs_reset);
    if plan.change != Change::None {
        plan.calls_of_destroy_all = everything(live, &goal);
    }
    plan.keep.clear();
    for instance in &live.instances {
        let kept = goal.mig.then(|| goal.at(instance.profile, instance.placement)).flatten();
        sort_out(plan, catalogue, instance, kept);
    }
    for instance in &goal.instances {
        let here =
            live.mode.current.then(|| live.instances.iter().find(|l| l.seat() == instance.seat())).flatten();
        come(plan, catalogue, instance, here);
    }
    let mode_changes = live.mode.current != goal.mig;
    let in_the_way = |p: &&Process| mode_changes || disturbs(live, &steps, p);
    plan.disturbed = state.processes.iter().filter(in_the_way).cloned().collect();
    if !plan.disturbed.is_empty() {
        plan.blocked = Some(if mode_changes {
            Blocked::GpuBusy { on: goal.mig, holders: Holder::of(&plan.disturbed) }
        } else {
            let nearest = place::nearest_with_busy(product, catalogue, live, &state.processes, &goal);
            Blocked::Busy { instances: busy(plan, live, &steps, &state.processes), nearest }
        });
    }
    plan.goal = Some(goal);
}

fn kind(mode: MigMode, goal: &Goal, steps: &[Step], needs_reset: bool) -> Change {
    if mode.current != goal.mig {
        return if needs_reset { Change::MigModeReset } else { Change::MigMode };
    }
    match steps {
        [] => Change::None,
        // Only a mode that waits for a reset is called back.
        _ if steps.iter().all(|s| matches!(s, Step::SetMode { .. })) => Change::MigMode,
        _ => Change::Geometry,
    }
}

/// Calls that take everything away and make the goal anew.
fn everything(live: &Live, goal: &Goal) -> usize {
    let there = live.instances.iter().map(|i| 1 + i.compute.len()).sum::<usize>();
    let to_come = goal.instances.iter().map(|i| 1 + i.compute.len()).sum::<usize>();
    there + to_come + usize::from(live.mode.current != goal.mig || live.mode.pending != goal.mig)
}

/// Whether a process sits on something that a step takes away.
fn disturbs(live: &Live, steps: &[Step], process: &Process) -> bool {
    steps.iter().any(|step| match step {
        Step::DestroyCompute { seat, compute } => {
            let instance = live.instances.iter().find(|i| i.seat() == *seat);
            instance.is_some_and(|i| {
                let gone = i.compute.iter().find(|c| c.placement == *compute);
                gone.is_some_and(|c| is_on(process, i.id, Some(c.id)))
            })
        }
        Step::DestroyInstance { seat } => {
            let instance = live.instances.iter().find(|i| i.seat() == *seat);
            instance.is_some_and(|i| is_on(process, i.id, None))
        }
        _ => false,
    })
}

/// What would go although somebody is on it, with those.
fn busy(plan: &GpuPlan, live: &Live, steps: &[Step], processes: &[Process]) -> Vec<(String, Vec<Holder>)> {
    let mut found = Vec::new();
    for instance in &live.instances {
        let of_it = |s: &&Step| match s {
            Step::DestroyCompute { seat, .. } | Step::DestroyInstance { seat } => *seat == instance.seat(),
            _ => false,
        };
        let of_it = steps.iter().filter(of_it).cloned().collect::<Vec<_>>();
        let on = processes.iter().filter(|p| disturbs(live, &of_it, p)).cloned().collect::<Vec<_>>();
        if !on.is_empty() {
            found.push((crate::steps::seat_name(&plan.names, instance.seat()), Holder::of(&on)));
        }
    }
    found
}

fn sort_out(plan: &mut GpuPlan, catalogue: &Catalogue, live: &LiveInstance, kept: Option<&GoalInstance>) {
    let Some(goal) = kept else {
        plan.destroy.extend(whole_or_parts(catalogue, live));
        return;
    };
    plan.keep.push(piece(catalogue, live.profile, live.placement, None));
    let stays = goal.matched(live, &|_| false);
    for (index, compute) in live.compute.iter().enumerate() {
        if !stays.contains(&Some(index)) {
            plan.destroy.push(piece(catalogue, live.profile, live.placement, Some(compute.placement.size)));
        }
    }
}

fn come(plan: &mut GpuPlan, catalogue: &Catalogue, goal: &GoalInstance, live: Option<&LiveInstance>) {
    let there = live.map_or_else(|| vec![None; goal.compute.len()], |l| goal.matched(l, &|_| false));
    let new = goal.compute.iter().zip(there).filter(|(_, found)| found.is_none());
    let new = new.map(|(c, _)| piece(catalogue, goal.profile, goal.placement, Some(c.slices)));
    let new = new.collect::<Vec<_>>();
    if live.is_none() && goal.compute.is_empty() {
        plan.create.push(piece(catalogue, goal.profile, goal.placement, None));
    }
    plan.create.extend(new);
}

fn pieces_of(catalogue: &Catalogue, live: &Live) -> Vec<Piece> {
    live.instances.iter().map(|i| piece(catalogue, i.profile, i.placement, None)).collect()
}

/// The MIG devices of an instance, or the instance where it has none.
fn whole_or_parts(catalogue: &Catalogue, live: &LiveInstance) -> Vec<Piece> {
    if live.compute.is_empty() {
        return vec![piece(catalogue, live.profile, live.placement, None)];
    }
    let part = |c: &crate::observe::LiveCompute| {
        piece(catalogue, live.profile, live.placement, Some(c.placement.size))
    };
    live.compute.iter().map(part).collect()
}

/// An instance by name. A compute instance that fills its GPU instance has the GPU instance's name.
pub(crate) fn piece(
    catalogue: &Catalogue,
    profile: u32,
    placement: tesela_model::product::Placement,
    compute: Option<u32>,
) -> Piece {
    let name = match catalogue.by_id(profile) {
        Some(p) => match compute {
            Some(slices) if slices != p.compute_slices => format!("{slices}c.{}", p.name),
            _ => p.name.to_string(),
        },
        None => format!("profile {profile}"),
    };
    Piece { profile: name, start: placement.start, size: placement.size }
}
