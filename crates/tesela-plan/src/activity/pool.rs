//! From joint activity to what a demand says of its workloads: how many pods may share a device.
//!
//! Who lands beside whom on a shared node is the scheduler's choice. So a count of replicas must hold for any pods of
//! the pool that may meet: every choice of so many of its pods is looked at, and the worst must keep the rule.

use std::collections::BTreeMap;

use tesela_model::activity::Activity;
use tesela_model::demand::{Demand, Duty, Isolation, TenantClass, Workload, WorkloadKey};
use tesela_model::origin::{Known, Origin};

use super::{Device, Filling, Member, Risk, Rule};
use crate::input::Settings;

/// Steps for one count of replicas, over all choices of pods, before this and every larger count is left alone.
const MOST_STEPS: u64 = 1_000_000_000;

/// What joint activity says of one workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Together {
    /// The workload.
    pub key: WorkloadKey,
    /// Mean share of the time one of its pods works, in thousandths.
    pub load_permille: u64,
    /// The most pods of its pool, its own among them, that may share one device; 1 = it shares with nobody.
    pub replicas: u32,
    /// The worst that any so many pods of its pool, one of its own among them, did.
    pub worst: Risk,
}

/// Finds how many pods may share a device with each workload that has a series, and writes it into the demand as a
/// duty (one part of so many, origin `estimated`), which is what the count of replicas is made of. What a person said
/// of the duty, mode or profile stays, and so does work with a latency promise or stricter isolation.
///
/// Workloads without a series are not counted here; their mean loads are added as without any activity. So it is for
/// a pool with so many pods that not even all pairs can be looked at (hundreds, over a day).
pub fn share(demand: &mut Demand, activity: &Activity, rule: &Rule, settings: &Settings) -> Vec<Together> {
    let regulated = |w: &Workload| {
        let class =
            demand.tenants.iter().find(|t| t.name == w.tenant).map_or(TenantClass::Standard, |t| t.class);
        class == TenantClass::Regulated
    };
    let mut pools: BTreeMap<Option<String>, Vec<usize>> = BTreeMap::new();
    for (w, workload) in demand.workloads.iter().enumerate() {
        let isolation = workload.isolation.map_or(Isolation::None, |k| k.value);
        let given = workload.duty.is_some_and(|d| d.origin == Origin::Given);
        let apart = isolation > Isolation::Tenant || regulated(workload) || workload.slo.is_some();
        let settled = workload.mode.is_some() || workload.profile.is_some() || workload.gpus > 1;
        if !given && !apart && !settled && workload.count > 0 && activity.of(&workload.key).is_some() {
            let pool = (isolation == Isolation::Tenant).then(|| workload.tenant.clone());
            pools.entry(pool).or_default().push(w);
        }
    }
    let mut told = Vec::new();
    for workloads in pools.into_values() {
        let members: Vec<Member<'_>> = workloads
            .iter()
            .map(|&w| {
                let windows = activity.of(&demand.workloads[w].key).map_or(&[][..], |s| &s.windows);
                Member { windows, pods: demand.workloads[w].count, memory: None }
            })
            .collect();
        let most = settings.max_replicas.max(1);
        let Some(caps) = caps(&members, activity.window_ms(), rule, most) else { continue };
        for (k, (replicas, worst)) in caps.into_iter().enumerate() {
            let key = demand.workloads[workloads[k]].key.clone();
            told.push(Together { key, load_permille: members[k].load_permille(), replicas, worst });
        }
    }
    for one in &told {
        let part = u16::try_from(1000 / one.replicas.max(1)).unwrap_or(1000);
        for workload in demand.workloads.iter_mut().filter(|w| w.key == one.key) {
            workload.duty = Duty::permille(part).map(Known::estimated).or(workload.duty);
        }
    }
    told.sort_by(|a, b| a.key.cmp(&b.key));
    told
}

/// For each member the most replicas, and the worst choice of so many with one of its pods.
///
/// Those who can be among r stay for r + 1. Where some choice of r pods breaks the rule, the member that is in most
/// such choices leaves, until none breaks it. `None` when even the pairs are too many to look at.
fn caps(members: &[Member<'_>], window_ms: u32, rule: &Rule, most: u32) -> Option<Vec<(u32, Risk)>> {
    let device = Device::default();
    let alone = |m: usize| {
        let mut one = Filling::new(members, window_ms, &device, rule);
        one.shift(m, true);
        (1, one.risk())
    };
    let mut found: Vec<(u32, Risk)> = (0..members.len()).map(alone).collect();
    let mut staying: Vec<usize> = (0..members.len()).collect();
    for replicas in 2..=most {
        if staying.iter().map(|&m| members[m].pods).sum::<u64>() < u64::from(replicas) {
            break;
        }
        let Some(worst) = settled(members, window_ms, rule, replicas, &mut staying) else {
            if replicas == 2 {
                return None;
            }
            break;
        };
        for &m in &staying {
            found[m] = (replicas, worst.get(&m).copied().unwrap_or(found[m].1));
        }
    }
    Some(found)
}

/// Sends members away until any `replicas` pods of those who stay keep the rule; the worst choice of each who stays.
/// `None` when there are too many choices to look at.
fn settled(
    members: &[Member<'_>],
    window_ms: u32,
    rule: &Rule,
    replicas: u32,
    staying: &mut Vec<usize>,
) -> Option<BTreeMap<usize, Risk>> {
    let device = Device::default();
    loop {
        let mut choices = Choices {
            staying,
            here: Filling::new(members, window_ms, &device, rule),
            steps: 0,
            breaking: BTreeMap::new(),
            worst: BTreeMap::new(),
        };
        choices.walk(0, replicas);
        if choices.steps > MOST_STEPS {
            return None;
        }
        let (breaking, worst) = (choices.breaking, choices.worst);
        let load = |m: &usize| members[*m].load_permille();
        let most = breaking.iter().max_by_key(|(m, times)| (**times, load(m), std::cmp::Reverse(**m)));
        let Some((&leaves, _)) = most else { return Some(worst) };
        staying.retain(|m| *m != leaves);
    }
}

/// Every choice of so many pods.
struct Choices<'c, 'a> {
    staying: &'c [usize],
    here: Filling<'a>,
    steps: u64,
    /// In how many choices that break the rule a member is.
    breaking: BTreeMap<usize, u64>,
    worst: BTreeMap<usize, Risk>,
}

impl Choices<'_, '_> {
    /// Chooses `left` more pods among the members from `at` on.
    fn walk(&mut self, at: usize, left: u32) {
        if self.steps > MOST_STEPS {
            return;
        }
        let Some(&member) = self.staying.get(at).filter(|_| left > 0) else {
            self.look();
            return;
        };
        let most = u32::try_from(self.here.members[member].pods).unwrap_or(u32::MAX).min(left);
        for _ in 0..most {
            self.here.shift(member, true);
        }
        for pods in (0..=most).rev() {
            // Fewer pods in all are a choice only where there are no more.
            if at + 1 < self.staying.len() || pods == most {
                self.walk(at + 1, left - pods);
            }
            if pods > 0 {
                self.here.shift(member, false);
            }
        }
    }

    fn look(&mut self) {
        let (rule, windows) = (self.here.rule, self.here.counts.len() as u64);
        self.steps += windows;
        let over = self.here.counts.iter().filter(|n| **n > rule.together).count() as u64;
        let pods = self.here.pods.iter().sum::<u64>();
        let load = pods >= 2 && self.here.load >= u64::from(rule.load_below_permille);
        // What is too often as counted is so with confidence all the more.
        let often = u128::from(over) * 1_000_000 > u128::from(rule.risk_ppm) * u128::from(windows);
        let mut keeps = !load && !often;
        if keeps {
            let risk = self.here.risk();
            let draws = super::sample::MOST_BLOCKS as u64 * u64::from(rule.sampling.resamples);
            self.steps += if over == 0 { 0 } else { draws };
            keeps = pods <= u64::from(rule.together) || risk.within(rule.risk_ppm);
            for &m in self.staying.iter().filter(|&&m| self.here.pods[m] > 0) {
                let worst = self.worst.entry(m).or_insert(risk);
                if risk.upper_ppm > worst.upper_ppm {
                    *worst = risk;
                }
            }
        }
        for &m in self.staying.iter().filter(|&&m| !keeps && self.here.pods[m] > 0) {
            *self.breaking.entry(m).or_insert(0) += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tesela_model::activity::{Series, SeriesName, Window};

    /// Works in the windows whose number leaves `k` when divided by `of`.
    fn windows(k: usize, of: usize) -> Vec<Window> {
        let works = Window { active: 1, busy_permille: 500 };
        (0..2400).map(|w| if w % of == k { works } else { Window::default() }).collect()
    }

    fn workload(name: &str, isolation: Option<Isolation>) -> Workload {
        Workload {
            key: WorkloadKey { namespace: "a".into(), kind: "Deployment".into(), name: name.into() },
            tenant: "t".into(),
            count: 1,
            gpus: 1,
            same_node: false,
            cpu: tesela_model::quantity::MilliCpu(0),
            memory: tesela_model::quantity::Bytes(0),
            constraints: tesela_model::demand::NodeConstraints::default(),
            max_per_node: None,
            request: None,
            gpu_memory: None,
            isolation: isolation.map(Known::given),
            slo: None,
            duty: None,
            compute: None,
            mode: None,
            profile: None,
            products: Vec::new(),
            priority: 0,
            movable: true,
            interactive: None,
            running: Vec::new(),
        }
    }

    fn shared(
        series: &[(&str, usize, usize)],
        change: impl Fn(&mut Workload),
    ) -> Vec<(String, u32, Option<u16>)> {
        let name = |n: &str| SeriesName { namespace: "a".into(), kind: None, workload: n.into() };
        let all =
            series.iter().map(|(n, k, of)| Series { name: name(n), windows: windows(*k, *of) }).collect();
        let activity = Activity::new(1000, all).expect("they go together");
        let mut workloads: Vec<Workload> = series.iter().map(|(n, ..)| workload(n, None)).collect();
        workloads.iter_mut().for_each(change);
        let mut demand = Demand { tenants: Vec::new(), workloads };
        let told = share(&mut demand, &activity, &Rule::default(), &Settings::default());
        let duty = |key: &WorkloadKey| {
            let workload = demand.workloads.iter().find(|w| w.key == *key);
            workload.and_then(|w| w.duty).map(|d| d.value.as_permille())
        };
        told.into_iter().map(|t| (t.key.name.clone(), t.replicas, duty(&t.key))).collect()
    }

    #[test]
    fn any_that_may_meet_keep_the_rule() {
        // Four take turns; the fifth works with the first, so one of these two shares with nobody.
        let found = shared(&[("p", 0, 8), ("q", 1, 8), ("r", 2, 8), ("s", 3, 8), ("t", 0, 8)], |_| {});
        let counts: Vec<(&str, u32, Option<u16>)> =
            found.iter().map(|(n, r, d)| (n.as_str(), *r, *d)).collect();
        let four = |name| (name, 4, Some(250));
        assert_eq!(counts, [("p", 1, Some(1000)), four("q"), four("r"), four("s"), four("t")]);
    }

    #[test]
    fn what_a_person_said_stays() {
        let given = |w: &mut Workload| w.duty = Duty::permille(300).map(Known::given);
        assert_eq!(shared(&[("p", 0, 8), ("q", 1, 8)], given), []);
        let apart = |w: &mut Workload| w.isolation = Some(Known::given(Isolation::Instance));
        assert_eq!(shared(&[("p", 0, 8), ("q", 1, 8)], apart), []);
    }
}
