//! Which pods share which device: vector packing with a capacity that is a probability.

use super::{Device, Filling, Member, Rule};

/// Rounds of the local search at most.
const ROUNDS: usize = 8;

/// Pods on devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// For each device the members with how many of their pods are on it, by member; fullest device first.
    pub devices: Vec<Vec<(usize, u64)>>,
    /// Members' pods that fit no device even alone, by member.
    pub unplaced: Vec<(usize, u64)>,
    /// What no assignment of the placed pods can get around.
    pub lower_bound: Bound,
}

/// Devices that any assignment needs, by what asks for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// Memory together over that of a device.
    pub memory: u64,
    /// Mean load together over what a device may carry.
    pub load: u64,
    /// Windows in which more are at work than so many devices serve: each such window breaks the limit on one of them.
    pub together: u64,
}

impl Bound {
    /// The largest of the three.
    #[must_use]
    pub fn devices(&self) -> u64 {
        self.memory.max(self.load).max(self.together)
    }
}

/// Puts every pod on a device so that each keeps the rule, on few devices.
///
/// First-fit decreasing by load, where among the devices that would still keep the rule the one is taken whose busy
/// windows the pod meets least (compared with what chance would give); then the emptiest devices are emptied where
/// their pods find room, directly or in exchange for a smaller pod.
#[must_use]
pub fn assign(members: &[Member<'_>], window_ms: u32, device: &Device, rule: &Rule) -> Assigned {
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|&m| (std::cmp::Reverse((members[m].load_permille(), at_work(&members[m]))), m));
    let empty = Filling::new(members, window_ms, device, rule);
    let mut devices: Vec<Filling<'_>> = Vec::new();
    let mut unplaced = Vec::new();
    for &m in &order {
        for done in 0..members[m].pods {
            if place(&mut devices, m) {
                continue;
            }
            let mut fresh = empty.clone();
            if fresh.try_add(m).is_err() {
                unplaced.push((m, members[m].pods - done));
                break;
            }
            devices.push(fresh);
        }
    }
    for _ in 0..ROUNDS {
        if !emptied(&mut devices) {
            break;
        }
    }
    unplaced.sort_unstable();
    let lower_bound = bound(members, &unplaced, device, rule);
    let mut devices: Vec<Vec<(usize, u64)>> = devices.iter().map(contents).collect();
    devices.sort_by_key(|d| (std::cmp::Reverse(d.iter().map(|p| p.1).sum::<u64>()), d.clone()));
    Assigned { devices, unplaced, lower_bound }
}

fn at_work(member: &Member<'_>) -> usize {
    member.windows.iter().filter(|w| w.active > 0).count()
}

fn contents(device: &Filling<'_>) -> Vec<(usize, u64)> {
    device.pods.iter().enumerate().filter(|(_, pods)| **pods > 0).map(|(m, pods)| (m, *pods)).collect()
}

/// Puts one pod on the device that it meets least; false when none would keep the rule.
fn place(devices: &mut [Filling<'_>], member: usize) -> bool {
    let mut ranked: Vec<(i128, std::cmp::Reverse<u64>, usize)> = devices
        .iter()
        .enumerate()
        .map(|(d, device)| (meets(device, member), std::cmp::Reverse(device.load), d))
        .collect();
    ranked.sort_unstable();
    ranked.iter().any(|&(_, _, d)| devices[d].try_add(member).is_ok())
}

/// Windows in which the pod would come on top of a full set, less what chance would give; times the windows.
fn meets(device: &Filling<'_>, member: usize) -> i128 {
    let windows = device.members[member].windows;
    let nth = device.pods[member] + 1;
    let (mut both, mut own, mut full) = (0i128, 0i128, 0i128);
    for (window, count) in windows.iter().zip(&device.counts) {
        let works = i128::from(u64::from(window.active) >= nth);
        let taken = i128::from(*count >= device.rule.together);
        both += works * taken;
        own += works;
        full += taken;
    }
    both * windows.len() as i128 - own * full
}

/// Empties one device, the one with the least load first; false when none can be.
fn emptied(devices: &mut Vec<Filling<'_>>) -> bool {
    let mut order: Vec<usize> = (0..devices.len()).collect();
    order.sort_by_key(|&d| (devices[d].load, d));
    for victim in order {
        let mut others = devices.clone();
        let gone = others.remove(victim);
        let all = contents(&gone).into_iter().flat_map(|(m, pods)| std::iter::repeat_n(m, pods_of(pods)));
        if all.into_iter().all(|m| place(&mut others, m) || exchange(&mut others, m)) {
            *devices = others;
            return true;
        }
    }
    false
}

fn pods_of(pods: u64) -> usize {
    usize::try_from(pods).unwrap_or(usize::MAX)
}

/// Makes room for a pod on one device by moving a pod of another member to a second one.
fn exchange(devices: &mut [Filling<'_>], member: usize) -> bool {
    for d in 0..devices.len() {
        for (other, _) in contents(&devices[d]) {
            if other == member {
                continue;
            }
            devices[d].remove(other);
            if devices[d].try_add(member).is_ok() {
                let elsewhere = (0..devices.len()).filter(|&e| e != d);
                if elsewhere.into_iter().any(|e| devices[e].try_add(other).is_ok()) {
                    return true;
                }
                devices[d].remove(member);
            }
            devices[d].shift(other, true);
        }
    }
    false
}

fn bound(members: &[Member<'_>], unplaced: &[(usize, u64)], device: &Device, rule: &Rule) -> Bound {
    let mut pods: Vec<u64> = members.iter().map(|m| m.pods).collect();
    for &(m, left) in unplaced {
        pods[m] -= left;
    }
    let all: u64 = pods.iter().sum();
    if all == 0 {
        return Bound::default();
    }
    let sum = |of: &dyn Fn(&Member<'_>) -> u128| -> u128 {
        members.iter().zip(&pods).map(|(m, &n)| of(m) * u128::from(n)).sum()
    };
    let small = |n: u128| u64::try_from(n).unwrap_or(u64::MAX);
    let memory = device
        .memory
        .map_or(1, |m| small(sum(&|one| one.needed(device)).div_ceil(u128::from(m.0.max(1)))).max(1));
    // Loads are whole thousandths and must stay below the limit.
    let room = u128::from(rule.load_below_permille.saturating_sub(1).max(1));
    let load = small(sum(&|one| u128::from(one.load_permille())).div_ceil(room)).max(1);
    let counts = super::at_work(members, &pods);
    let enough = |devices: u64| {
        let served = devices.saturating_mul(u64::from(rule.together));
        let beyond = counts.iter().filter(|count| u64::from(**count) > served).count() as u128;
        beyond * 1_000_000 <= u128::from(devices) * u128::from(rule.risk_ppm) * counts.len() as u128
    };
    let together = (1..=all).find(|&devices| enough(devices)).unwrap_or(all);
    Bound { memory, load, together }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tesela_model::activity::Window;
    use tesela_model::quantity::Mib;

    /// Tenant k works in the windows whose number leaves k when divided by its group's size.
    fn series(residue: usize, of: usize) -> Vec<Window> {
        let window = |w: usize| w % of == residue;
        (0..2400)
            .map(|w| if window(w) { Window { active: 1, busy_permille: 900 } } else { Window::default() })
            .collect()
    }

    #[test]
    fn those_who_alternate_share_and_the_bound_says_it_is_optimal() {
        // Two that work on even windows, two on odd ones: each even one goes with an odd one.
        let all = [series(0, 2), series(0, 2), series(1, 2), series(1, 2)];
        let members: Vec<Member<'_>> =
            all.iter().map(|s| Member { windows: s, pods: 1, memory: None }).collect();
        let found = assign(&members, 1000, &Device::default(), &Rule::default());
        assert_eq!(found.devices, [[(0, 1), (2, 1)], [(1, 1), (3, 1)]]);
        assert_eq!(found.lower_bound, Bound { memory: 1, load: 2, together: 2 });
    }

    #[test]
    fn each_device_keeps_the_rule_and_nobody_is_lost() {
        let all: Vec<Vec<Window>> = (0..12).map(|k| series(k % 7, 7)).collect();
        let members: Vec<Member<'_>> = all
            .iter()
            .enumerate()
            .map(|(k, s)| Member { windows: s, pods: 1 + (k % 2) as u64, memory: Some(Mib(2000)) })
            .collect();
        let device = Device { memory: Some(Mib(16_000)), overhead: Mib(500) };
        let rule = Rule::default();
        let found = assign(&members, 1000, &device, &rule);
        let mut pods = vec![0; members.len()];
        for one in &found.devices {
            let mut here = Filling::new(&members, 1000, &device, &rule);
            for &(m, n) in one {
                pods[m] += n;
                for _ in 0..n {
                    here.try_add(m).expect("the rule is kept");
                }
            }
        }
        assert_eq!(pods, members.iter().map(|m| m.pods).collect::<Vec<_>>());
        assert!(found.devices.len() as u64 >= found.lower_bound.devices());
        assert_eq!(found.unplaced, []);
    }

    #[test]
    fn a_pod_too_large_for_any_device_is_told() {
        let one = series(0, 2);
        let members = [Member { windows: &one, pods: 3, memory: Some(Mib(90_000)) }];
        let device = Device { memory: Some(Mib(80_000)), overhead: Mib(500) };
        let found = assign(&members, 1000, &device, &Rule::default());
        assert_eq!((found.devices.len(), found.unplaced), (0, vec![(0, 3)]));
        assert_eq!(found.lower_bound.devices(), 0);
    }
}
