//! From a live state to a goal: the driver's calls in their order.
//!
//! What goes, goes first, compute instances before their GPU instance; then the mode; then what comes. What stands in
//! both is not touched. On the way every state is a part of the live one or of the goal, so it obeys the placement rules
//! whenever those two do.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tesela_model::product::Placement;

use crate::goal::{Goal, GoalCompute, GoalInstance};
use crate::observe::{Live, LiveInstance};

/// A GPU instance by what names it for good: profile id and place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seat {
    /// Profile id.
    pub profile: u32,
    /// Where it sits.
    pub placement: Placement,
}

/// One driver call that changes something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Step {
    /// Removes a compute instance.
    DestroyCompute {
        /// The GPU instance it is in.
        seat: Seat,
        /// First compute slice and slices.
        compute: Placement,
    },
    /// Removes a GPU instance.
    DestroyInstance {
        /// Which.
        seat: Seat,
    },
    /// Asks for MIG mode.
    SetMode {
        /// On or off.
        on: bool,
    },
    /// Resets the GPU, so that a waiting mode takes effect.
    Reset,
    /// Makes a GPU instance.
    CreateInstance {
        /// Which.
        seat: Seat,
    },
    /// Makes a compute instance.
    CreateCompute {
        /// The GPU instance it goes into.
        seat: Seat,
        /// Which.
        compute: GoalCompute,
    },
}

/// Profile names by id.
pub type Names = BTreeMap<u32, String>;

/// `1g.10gb@3`, for people.
#[must_use]
pub fn seat_name(names: &Names, seat: Seat) -> String {
    let Seat { profile, placement } = seat;
    match names.get(&profile) {
        Some(name) => format!("{name}@{}", placement.start),
        None => format!("profile {profile}@{}", placement.start),
    }
}

impl Step {
    /// Whether it takes something away that somebody may be using.
    #[must_use]
    pub fn takes(&self) -> bool {
        matches!(self, Self::DestroyCompute { .. } | Self::DestroyInstance { .. })
    }

    /// What it does, for people: `create 1g.10gb@3`.
    #[must_use]
    pub fn told(&self, names: &Names) -> String {
        match self {
            Self::DestroyCompute { seat, compute } => {
                format!("destroy the compute instance at {compute} of {}", seat_name(names, *seat))
            }
            Self::DestroyInstance { seat } => format!("destroy {}", seat_name(names, *seat)),
            Self::SetMode { on: true } => "turn MIG on".to_owned(),
            Self::SetMode { on: false } => "turn MIG off".to_owned(),
            Self::Reset => "reset the GPU".to_owned(),
            Self::CreateInstance { seat } => format!("create {}", seat_name(names, *seat)),
            Self::CreateCompute { seat, compute } => {
                let slices = compute.slices;
                format!("create a compute instance of {slices} slices in {}", seat_name(names, *seat))
            }
        }
    }
}

impl LiveInstance {
    /// What names it for good.
    #[must_use]
    pub fn seat(&self) -> Seat {
        Seat { profile: self.profile, placement: self.placement }
    }
}

impl GoalInstance {
    /// What names it for good.
    #[must_use]
    pub fn seat(&self) -> Seat {
        Seat { profile: self.profile, placement: self.placement }
    }
}

/// The steps from `live` to `goal`; none when they are the same.
#[must_use]
pub fn steps(live: &Live, goal: &Goal) -> Vec<Step> {
    let mut steps = Vec::new();
    for instance in &live.instances {
        let kept = goal.mig.then(|| goal.at(instance.profile, instance.placement)).flatten();
        leave(&mut steps, instance, kept);
    }
    if live.mode.current != goal.mig || live.mode.pending != goal.mig {
        steps.push(Step::SetMode { on: goal.mig });
    }
    if goal.mig {
        for instance in &goal.instances {
            let here = |l: &&LiveInstance| live.mode.current && l.seat() == instance.seat();
            come(&mut steps, instance, live.instances.iter().find(here));
        }
    }
    steps
}

fn leave(steps: &mut Vec<Step>, live: &LiveInstance, kept: Option<&GoalInstance>) {
    let seat = live.seat();
    let stays = kept.map(|goal| goal.matched(live, &|_| false)).unwrap_or_default();
    for (index, compute) in live.compute.iter().enumerate() {
        if !stays.contains(&Some(index)) {
            steps.push(Step::DestroyCompute { seat, compute: compute.placement });
        }
    }
    if kept.is_none() {
        steps.push(Step::DestroyInstance { seat });
    }
}

fn come(steps: &mut Vec<Step>, goal: &GoalInstance, live: Option<&LiveInstance>) {
    let seat = goal.seat();
    let there = match live {
        Some(live) => goal.matched(live, &|_| false),
        None => {
            steps.push(Step::CreateInstance { seat });
            vec![None; goal.compute.len()]
        }
    };
    for (compute, found) in goal.compute.iter().zip(there) {
        if found.is_none() {
            steps.push(Step::CreateCompute { seat, compute: *compute });
        }
    }
}
