//! Who may take turns on one device: from the joint activity of those who would share it.
//!
//! A device is shared well when at most `together` of its pods are at work at the same time, except for a share of
//! the windows of at most `risk`. That share is counted on the series themselves, window by window, so tenants that
//! work at the same hours are seen to; averages multiplied with each other would not see it
//! ([`product_of_averages`] is there for comparison only). What was counted is a sample, so the upper end of a
//! one-sided 95 % confidence interval must keep the limit, not the count ([`Risk`]).
//!
//! Beside that the memories of all must fit together, and their mean load must stay below the whole device.

mod assign;
mod average;
mod pool;
mod sample;

use tesela_model::activity::Window;
use tesela_model::quantity::Mib;

pub use self::assign::{Assigned, Bound, assign};
pub use self::average::{fits_by_averages, product_of_averages};
pub use self::pool::{Together, share};
pub use self::sample::{Risk, Sampling};

/// How well a shared device must serve those who share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Pods that may be at work at the same time without breaking the limit, at least 1.
    pub together: u32,
    /// Share of the windows, in millionths, in which more may be at work.
    pub risk_ppm: u32,
    /// Mean load of all sharers in thousandths must be below this: 1000 = the whole device.
    pub load_below_permille: u32,
    /// How the confidence limit is found.
    pub sampling: Sampling,
}

impl Default for Rule {
    /// At most one at work at a time, except in 5 % of the windows; load below the whole device.
    fn default() -> Self {
        Self { together: 1, risk_ppm: 50_000, load_below_permille: 1000, sampling: Sampling::default() }
    }
}

/// A device to be shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Its memory; `None` = not known, then memory is no limit.
    pub memory: Option<Mib>,
    /// What each pod takes beside its need (its context).
    pub overhead: Mib,
}

impl Device {
    /// Whether pods that need so much together, contexts included, fit.
    fn holds(&self, needed: u128) -> bool {
        self.memory.is_none_or(|memory| needed <= u128::from(memory.0))
    }
}

/// A workload that would share a device.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// What it did in each window; all members over the same windows.
    pub windows: &'a [Window],
    /// Its pods. Which of them works when only some do is not known, so of `n` pods on a device as many as possible
    /// are taken to be at work.
    pub pods: u64,
    /// Memory of one pod without its context; `None` = not known, then it is no limit.
    pub memory: Option<Mib>,
}

impl Member<'_> {
    /// Thousandths of a device that one of its pods keeps at work in the mean, rounded up.
    #[must_use]
    pub fn load_permille(&self) -> u64 {
        let pods = self.pods.max(1);
        let busy = |w: &Window| u64::from(w.active).min(pods) * u64::from(w.busy_permille);
        let sum: u64 = self.windows.iter().map(busy).sum();
        sum.div_ceil(pods * (self.windows.len() as u64).max(1))
    }

    fn needed(&self, device: &Device) -> u128 {
        u128::from(self.memory.map_or(0, |m| m.0)) + u128::from(device.overhead.0)
    }
}

/// Pods at work at the same time in each window, when a device holds so many pods of each member.
///
/// `pods` goes with `members`; as many windows come back as the shortest member has.
#[must_use]
pub fn at_work(members: &[Member<'_>], pods: &[u64]) -> Vec<u32> {
    let windows = members.iter().map(|m| m.windows.len()).min().unwrap_or(0);
    let mut counts = vec![0u32; windows];
    for (member, &here) in members.iter().zip(pods) {
        let most = u32::try_from(here).unwrap_or(u32::MAX);
        for (count, window) in counts.iter_mut().zip(member.windows) {
            *count = count.saturating_add(u32::from(window.active).min(most));
        }
    }
    counts
}

/// What keeps one more from sharing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Nothing: everybody fits.
    Nobody,
    /// Memory of the device.
    Memory,
    /// Mean load.
    Load,
    /// Too many would be at work at the same time.
    Limit,
}

/// How many may share a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replicas {
    /// The first so many of the members' pods.
    pub count: u64,
    /// How often more than the rule allows are at work among them.
    pub risk: Risk,
    /// Their mean load together, in thousandths.
    pub load_permille: u64,
    /// Why not one more.
    pub stopped_by: Stop,
}

/// The largest number of pods that may share one device, taken in the order given: all pods of the first member, then
/// those of the second, and so on. Adding a pod never lowers a risk or a load, so the first that does not fit ends it.
#[must_use]
pub fn replicas(members: &[Member<'_>], window_ms: u32, device: &Device, rule: &Rule) -> Replicas {
    let mut here = Filling::new(members, window_ms, device, rule);
    let mut found = Replicas { count: 0, risk: here.risk(), load_permille: 0, stopped_by: Stop::Nobody };
    for (member, one) in members.iter().enumerate() {
        for _ in 0..one.pods {
            if let Err(stop) = here.try_add(member) {
                return Replicas { stopped_by: stop, ..found };
            }
            found.count += 1;
            found.risk = here.risk();
            found.load_permille = here.load;
        }
    }
    found
}

/// A device while pods are put on it.
#[derive(Clone)]
struct Filling<'a> {
    members: &'a [Member<'a>],
    window_ms: u32,
    device: &'a Device,
    rule: &'a Rule,
    pods: Vec<u64>,
    counts: Vec<u32>,
    needed: u128,
    load: u64,
}

impl<'a> Filling<'a> {
    fn new(members: &'a [Member<'a>], window_ms: u32, device: &'a Device, rule: &'a Rule) -> Self {
        let pods = vec![0; members.len()];
        let counts = at_work(members, &pods);
        Self { members, window_ms, device, rule, pods, counts, needed: 0, load: 0 }
    }

    fn risk(&self) -> Risk {
        Risk::of(&self.counts, self.rule.together, self.window_ms, &self.rule.sampling)
    }

    fn try_add(&mut self, member: usize) -> Result<(), Stop> {
        let one = self.members[member];
        if !self.device.holds(self.needed + one.needed(self.device)) {
            return Err(Stop::Memory);
        }
        if self.load + one.load_permille() >= u64::from(self.rule.load_below_permille) {
            return Err(Stop::Load);
        }
        self.shift(member, true);
        let few = self.pods.iter().sum::<u64>() <= u64::from(self.rule.together);
        if few || self.risk().within(self.rule.risk_ppm) {
            return Ok(());
        }
        self.shift(member, false);
        Err(Stop::Limit)
    }

    fn remove(&mut self, member: usize) {
        self.shift(member, false);
    }

    /// Puts one pod of a member on, or takes one off. The n-th pod works where at least n do.
    fn shift(&mut self, member: usize, on: bool) {
        let one = self.members[member];
        let (needed, load) = (one.needed(self.device), one.load_permille());
        if on {
            self.pods[member] += 1;
        }
        let nth = self.pods[member];
        for (count, window) in self.counts.iter_mut().zip(one.windows) {
            if u64::from(window.active) >= nth {
                *count = if on { *count + 1 } else { *count - 1 };
            }
        }
        if on {
            self.needed += needed;
            self.load += load;
        } else {
            self.pods[member] -= 1;
            self.needed -= needed;
            self.load -= load;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(active: &[u16]) -> Vec<Window> {
        active.iter().map(|&a| Window { active: a, busy_permille: if a > 0 { 100 } else { 0 } }).collect()
    }

    fn member(windows: &[Window]) -> Member<'_> {
        Member { windows, pods: 1, memory: Some(Mib(1000)) }
    }

    /// Duty 20 %, in turn or all at once.
    fn tenants(together: bool) -> Vec<Vec<Window>> {
        let works = |tenant: usize, window: usize| window % 5 == if together { 0 } else { tenant };
        let series = |k| (0..2000).map(|w| u16::from(works(k, w))).collect::<Vec<_>>();
        (0..5).map(|k| windows(&series(k))).collect()
    }

    #[test]
    fn who_never_meets_shares_and_who_always_meets_does_not() {
        for (at_once, expected, stop) in [(false, 5, Stop::Nobody), (true, 1, Stop::Limit)] {
            let series = tenants(at_once);
            let members: Vec<Member<'_>> = series.iter().map(|s| member(s)).collect();
            let found = replicas(&members, 1000, &Device::default(), &Rule::default());
            assert_eq!((found.count, found.stopped_by), (expected, stop));
            // The averages are the same in both cases, so their product cannot tell them apart.
            let duties: Vec<(u64, u64)> = members.iter().map(|_| (400, 2000)).collect();
            assert_eq!(fits_by_averages(&duties, 1, 50_000), 2);
        }
    }

    #[test]
    fn memory_and_load_are_limits_too() {
        let series = tenants(false);
        let members: Vec<Member<'_>> = series.iter().map(|s| member(s)).collect();
        let device = Device { memory: Some(Mib(4700)), overhead: Mib(500) };
        let found = replicas(&members, 1000, &device, &Rule::default());
        assert_eq!((found.count, found.stopped_by), (3, Stop::Memory));
        let rule = Rule { load_below_permille: 61, ..Rule::default() };
        let found = replicas(&members, 1000, &Device::default(), &rule);
        assert_eq!((found.count, found.load_permille, found.stopped_by), (3, 60, Stop::Load));
    }

    #[test]
    fn pods_of_one_workload_work_as_far_as_its_requests_reach() {
        let series = windows(&[0, 1, 2, 3]);
        let three = Member { windows: &series, pods: 3, memory: None };
        assert_eq!(at_work(&[three], &[2]), [0, 1, 2, 2]);
        assert_eq!(at_work(&[three, three], &[1, 3]), [0, 2, 3, 4]);
        // (0 + 1 + 2 + 3) × 100 over 3 pods and 4 windows.
        assert_eq!(three.load_permille(), 50);
    }
}
