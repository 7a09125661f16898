//! What processes that share a device leave each other, as measured.
//!
//! One workload (YOLOS-small, back to back) was measured under time-slicing, MPS and MIG on one A100-80GB
//! (nebuly-ai/nos:demos/gpu-sharing-comparison). From it:
//!
//! - **time-slicing**: N saturated processes take 1.11 N times as long as one alone (3.33, 5.55, 7.77 for 3, 5, 7);
//! - **MPS**: 0.54 + 0.443 N times (1.86, 2.74, 3.64);
//! - **MIG**: 3.9 times on a seventh of the GPU, whoever sits beside. So the workload fills 1/7 × 3.9 = 0.557 of the GPU:
//!   a process slows down by what it fills beyond what its instance has, and not at all below that.
//!
//! Other workloads fill more or less. Under MPS, clients that fill w slow down as N × w / 0.557 measured ones do; that
//! meets the gains of eleven models at batch 1, 8 and 32 (ParvaGPU profiles) within a sixth. An instance has the larger
//! one of its shares of compute and memory, which meets the median throughput of those models by profile (1g 0.148, 2g
//! 0.300, 3g 0.509, 4g 0.579 of 7g) within 4 %.

use serde::{Deserialize, Serialize};

/// How much longer saturated processes take together than one after another, under time-slicing.
pub const SWITCHING: f64 = 1.11;
/// What saturated MPS clients take together: this much, and ...
pub const MPS_FIXED: f64 = 0.54;
/// ... this much for each, in times of one alone.
pub const MPS_EACH: f64 = 0.443;
/// What the measured workload fills of an A100, in thousandths.
pub const MEASURED_FILL: u16 = 557;

/// What a process would do if it had the whole GPU for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Demand {
    /// Share of the time in which it keeps the GPU busy, in thousandths.
    pub busy: u16,
    /// Share of the GPU that it fills while it runs, in thousandths.
    pub fill: u16,
}

/// A process on a device, as contention sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Client {
    /// What it would do alone.
    pub demand: Demand,
    /// Whether it is a client of the device's MPS server; otherwise it takes turns with the others.
    pub mps: bool,
}

/// What a process gets.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rate {
    /// Work done, as the share of the time that the same work would take on the whole GPU alone. At most what it demands.
    pub progress: f64,
    /// Share of the time in which the device works for it.
    pub active: f64,
}

/// How a device is shared.
#[derive(Debug, Clone, PartialEq)]
pub struct Sharing {
    /// What each client gets, in their order.
    pub rates: Vec<Rate>,
    /// Share of the time in which the device works for anybody, switching between them included.
    pub busy: f64,
}

/// How clients share one device.
///
/// `share` is the device's part of the GPU: 1 for all of it.
#[must_use]
pub fn sharing(share: f64, clients: &[Client]) -> Sharing {
    let members = |mps: bool| {
        let all = clients.iter().enumerate();
        all.filter(move |(_, c)| c.mps == mps && c.demand.busy > 0)
            .map(|(index, _)| index)
            .collect::<Vec<_>>()
    };
    let (turns, server) = (members(false), members(true));
    let together = mps(share, &server.iter().map(|i| clients[*i].demand).collect::<Vec<_>>());
    let served = union(&together);
    let mut wanted = turns.iter().map(|i| alone(share, clients[*i].demand).active).collect::<Vec<_>>();
    if !server.is_empty() {
        // Clients of the MPS server are one context to the scheduler.
        wanted.push(served);
    }
    let switching = if wanted.len() > 1 { SWITCHING } else { 1.0 };
    let granted = fill_up(1.0 / switching, &wanted);
    let mut rates = vec![Rate::default(); clients.len()];
    for (index, time) in turns.iter().zip(&granted) {
        rates[*index] = Rate { progress: time * speed(share, clients[*index].demand), active: *time };
    }
    if let Some(time) = granted.last().filter(|_| !server.is_empty()) {
        let part = if served > 0.0 { time / served } else { 0.0 };
        for (index, rate) in server.iter().zip(together) {
            rates[*index] = Rate { progress: rate.progress * part, active: rate.active * part };
        }
    }
    let busy = (granted.iter().sum::<f64>() * switching).min(1.0);
    Sharing { rates, busy }
}

/// How fast a process runs on a device, 1 being its speed on the whole GPU.
fn speed(share: f64, demand: Demand) -> f64 {
    let fill = f64::from(demand.fill.max(1)) / 1000.0;
    (share / fill).min(1.0)
}

/// What a process does on a device that is its own.
fn alone(share: f64, demand: Demand) -> Rate {
    let speed = speed(share, demand);
    let active = (f64::from(demand.busy) / 1000.0 / speed).min(1.0);
    Rate { progress: active * speed, active }
}

/// What the clients of one MPS server get while they have the device.
fn mps(share: f64, demands: &[Demand]) -> Vec<Rate> {
    let load = |demand: &Demand| {
        let filled = (f64::from(demand.fill) / 1000.0 / share).min(1.0);
        filled * alone(share, *demand).active
    };
    let measured = f64::from(MEASURED_FILL) / 1000.0;
    let clients = demands.iter().map(load).sum::<f64>() / measured;
    let most = demands.iter().fold(0.0, |n: f64, _| n + 1.0).max(1.0);
    let slowdown = (MPS_FIXED + MPS_EACH * clients).clamp(1.0, most);
    let rate = |demand: &Demand| {
        let speed = speed(share, *demand) / slowdown;
        let active = (f64::from(demand.busy) / 1000.0 / speed).min(1.0);
        Rate { progress: active * speed, active }
    };
    demands.iter().map(rate).collect()
}

/// Share of the time in which at least one of several that run side by side is active, taken as independent.
fn union(rates: &[Rate]) -> f64 {
    1.0 - rates.iter().fold(1.0, |idle, rate| idle * (1.0 - rate.active))
}

/// Gives everybody the same until it has what it wants or nothing is left.
fn fill_up(capacity: f64, wanted: &[f64]) -> Vec<f64> {
    let mut order = (0..wanted.len()).collect::<Vec<_>>();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    let mut granted = vec![0.0; wanted.len()];
    let mut left = capacity;
    let mut waiting = wanted.iter().fold(0.0, |n: f64, _| n + 1.0);
    for index in order {
        let given = wanted[index].min(left / waiting);
        granted[index] = given;
        left -= given;
        waiting -= 1.0;
    }
    granted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(share: f64, clients: &[Client]) -> Vec<Rate> {
        sharing(share, clients).rates
    }

    fn saturated(n: usize, fill: u16, mps: bool) -> Vec<Client> {
        vec![Client { demand: Demand { busy: 1000, fill }, mps }; n]
    }

    /// How many times longer each takes than alone on the whole GPU.
    fn slowdown(share: f64, clients: &[Client]) -> f64 {
        1.0 / rates(share, clients)[0].progress
    }

    fn near(found: f64, measured: f64, percent: f64) {
        let off = (found / measured - 1.0).abs() * 100.0;
        assert!(off <= percent, "{found:.3} against {measured} measured: {off:.1} % off");
    }

    #[test]
    fn one_alone_gets_what_it_wants() {
        for mps in [false, true] {
            assert_eq!(rates(1.0, &saturated(1, MEASURED_FILL, mps))[0].progress, 1.0);
        }
    }

    #[test]
    fn saturated_processes_slow_each_other_down_as_measured() {
        // nebuly-ai/nos:demos/gpu-sharing-comparison, mean seconds over those of one alone.
        for (n, turns, together) in [(3, 3.33, 1.86), (5, 5.55, 2.74), (7, 7.77, 3.64)] {
            near(slowdown(1.0, &saturated(n, MEASURED_FILL, false)), turns, 0.5);
            near(slowdown(1.0, &saturated(n, MEASURED_FILL, true)), together, 0.7);
        }
        near(slowdown(1.0 / 7.0, &saturated(1, MEASURED_FILL, false)), 3.9, 0.5);
    }

    #[test]
    fn mps_gains_what_eleven_models_gained() {
        // Total throughput over that of one process, medians of the ParvaGPU profiles on the whole GPU.
        let batches = [
            (143, [(2, 1.96), (3, 2.90), (5, 4.60)]),
            (307, [(2, 1.84), (3, 2.48), (5, 3.04)]),
            (1000, [(2, 1.12), (3, 1.13), (5, 1.18)]),
        ];
        for (fill, points) in batches {
            for (n, gain) in points {
                let clients = saturated(n, fill, true);
                let total = rates(1.0, &clients).iter().map(|r| r.progress).sum::<f64>();
                near(total, gain, 17.0);
            }
        }
    }

    #[test]
    fn instances_run_as_models_did_by_profile() {
        // Best throughput relative to 7g, medians; the share of an instance is the larger of compute and memory.
        for (share, measured) in
            [(1.0 / 7.0, 0.148), (2.0 / 7.0, 0.300), (4.0 / 8.0, 0.509), (4.0 / 7.0, 0.579)]
        {
            near(rates(share, &saturated(1, 1000, false))[0].progress, measured, 5.0);
        }
    }

    #[test]
    fn little_demand_is_met_and_the_rest_is_shared_alike() {
        let client = |busy| Client { demand: Demand { busy, fill: 500 }, mps: false };
        let given = rates(1.0, &[client(100), client(1000), client(1000), client(0)]);
        assert_eq!(given[0].progress, 0.1);
        assert!((given[1].progress - given[2].progress).abs() < 1e-12);
        assert_eq!(given[3], Rate::default());
        let total = given.iter().map(|r| r.active).sum::<f64>();
        assert!((total - 1.0 / SWITCHING).abs() < 1e-12);
    }

    #[test]
    fn an_mps_server_takes_turns_with_the_others() {
        let mut clients = saturated(3, MEASURED_FILL, true);
        clients.extend(saturated(1, MEASURED_FILL, false));
        let Sharing { rates: given, busy } = sharing(1.0, &clients);
        assert_eq!(busy, 1.0);
        assert!((given[0].active + given[3].active - 1.0 / SWITCHING).abs() < 1e-12);
        assert!(given[0].progress < given[3].progress);
        assert!(given[3].active > 0.44);
    }
}
