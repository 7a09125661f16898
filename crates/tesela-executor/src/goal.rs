//! The exact state of one GPU that a change leads to, or that it came from.

use serde::{Deserialize, Serialize};
use tesela_model::product::Placement;

use crate::observe::{Live, LiveInstance};

/// MIG mode and every instance, by start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Goal {
    /// Whether MIG is on.
    pub mig: bool,
    /// The GPU instances; none with MIG off.
    pub instances: Vec<GoalInstance>,
}

/// A GPU instance of a goal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoalInstance {
    /// Profile id.
    pub profile: u32,
    /// Where it sits.
    pub placement: Placement,
    /// Its compute instances. None: a GPU instance that nobody can use, as it may have been found.
    pub compute: Vec<GoalCompute>,
}

/// A compute instance of a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoalCompute {
    /// Compute slices it takes.
    pub slices: u32,
    /// First compute slice in its GPU instance; `None` lets the driver choose.
    pub start: Option<u32>,
    /// Profile id; `None` takes the driver's profile of so many slices.
    pub profile: Option<u32>,
}

impl Goal {
    /// MIG off.
    #[must_use]
    pub fn off() -> Self {
        Self { mig: false, instances: Vec::new() }
    }

    /// What is there, as a goal to come back to.
    #[must_use]
    pub fn of(live: &Live) -> Self {
        let instances = live.instances.iter().map(GoalInstance::of).collect();
        Self { mig: live.mode.current, instances }
    }

    /// The instance of this profile at this place.
    #[must_use]
    pub fn at(&self, profile: u32, placement: Placement) -> Option<&GoalInstance> {
        self.instances.iter().find(|i| i.profile == profile && i.placement == placement)
    }
}

impl GoalInstance {
    fn of(live: &LiveInstance) -> Self {
        let compute = live.compute.iter().map(|c| GoalCompute {
            slices: c.placement.size,
            start: Some(c.placement.start),
            profile: Some(c.profile),
        });
        Self { profile: live.profile, placement: live.placement, compute: compute.collect() }
    }

    /// For each wanted compute instance the live one that serves it, by index. Exact places first; among the others
    /// those that `prefer` says, then the first.
    #[must_use]
    pub fn matched(&self, live: &LiveInstance, prefer: &dyn Fn(usize) -> bool) -> Vec<Option<usize>> {
        let mut taken = vec![false; live.compute.len()];
        let mut found = vec![None; self.compute.len()];
        let serves = |want: &GoalCompute, index: usize| {
            let have = &live.compute[index];
            have.placement.size == want.slices && want.profile.is_none_or(|p| p == have.profile)
        };
        for (want, place) in self.compute.iter().zip(&mut found) {
            let exact = (0..live.compute.len()).find(|&i| {
                !taken[i] && serves(want, i) && want.start == Some(live.compute[i].placement.start)
            });
            if let Some(index) = exact {
                taken[index] = true;
                *place = Some(index);
            }
        }
        let open = self.compute.iter().zip(&mut found);
        for (want, place) in open.filter(|(want, place)| want.start.is_none() && place.is_none()) {
            let free = (0..live.compute.len()).filter(|&i| !taken[i] && serves(want, i));
            if let Some(index) = free.min_by_key(|&i| (!prefer(i), i)) {
                taken[index] = true;
                *place = Some(index);
            }
        }
        found
    }
}
