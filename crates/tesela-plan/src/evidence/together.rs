//! Who worked when: samples of a workload's pods, by time, → series over windows of one length.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::activity::{Activity, LONGEST_WINDOW_MS, Series, SeriesName, Window};
use tesela_model::demand::{Demand, WorkloadKey};
use tesela_model::usage::{Metric, Sample};

use super::ACTIVE_PPM;

/// Points in time kept, over all workloads; beyond, nothing is said of who works when.
const CELLS: usize = 8_000_000;
/// Windows of each series at most.
const WINDOWS: i64 = 200_000;

/// What a workload did at one point in time.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    /// Pods at work.
    active: u16,
    /// Millionths of the time that the busiest of them worked.
    busiest: u32,
}

/// A workload's points in time.
type Points = BTreeMap<i64, Cell>;

#[derive(Debug, Default)]
pub(super) struct Together {
    workloads: BTreeMap<WorkloadKey, BTreeMap<Metric, Points>>,
    cells: usize,
    /// Longest step between the samples of a series.
    step_ms: i64,
    /// Whether there was more than is kept.
    full: bool,
}

impl Together {
    /// Takes a series of one pod.
    pub(super) fn take(&mut self, workload: &WorkloadKey, metric: Metric, samples: &[Sample]) {
        if metric.is_memory() || samples.len() < 2 || self.full {
            return;
        }
        let mut times = samples.iter().map(|s| s.at_ms).collect::<Vec<_>>();
        times.sort_unstable();
        let step = times.windows(2).map(|w| w[1] - w[0]).filter(|step| *step > 0).min();
        self.step_ms = self.step_ms.max(step.unwrap_or(0));
        let points = self.workloads.entry(workload.clone()).or_default().entry(metric).or_default();
        let before = points.len();
        for sample in samples {
            let cell = points.entry(sample.at_ms).or_default();
            if sample.value > ACTIVE_PPM {
                cell.active = cell.active.saturating_add(1);
                cell.busiest = cell.busiest.max(u32::try_from(sample.value).unwrap_or(u32::MAX));
            }
        }
        self.cells += points.len() - before;
        if self.cells > CELLS {
            self.full = true;
            self.workloads.clear();
        }
    }

    pub(super) fn forget(&mut self, metric: Metric) {
        self.workloads.values_mut().for_each(|points| drop(points.remove(&metric)));
        self.workloads.retain(|_, points| !points.is_empty());
    }

    /// The series, aligned; `None` where samples are single, too far apart, or too many. Windows of which no series
    /// has a sample (the monitoring was down) are left out of all. No more pods are at work than the workload has.
    pub(super) fn activity(&self, demand: &Demand) -> Option<Activity> {
        let step = self.step_ms;
        let window_ms = u32::try_from(step).ok().filter(|ms| (1..=LONGEST_WINDOW_MS).contains(ms))?;
        let best =
            |points: &'_ BTreeMap<Metric, Points>| points.first_key_value().map(|(m, p)| (*m, p.clone()));
        let chosen =
            self.workloads.iter().filter_map(|(key, points)| Some((key, best(points)?))).collect::<Vec<_>>();
        let times = || chosen.iter().flat_map(|(_, (_, points))| points.keys().copied());
        let (first, last) = (times().min()?, times().max()?);
        if (last - first) / step >= WINDOWS {
            return None;
        }
        let seen = times().map(|at| (at - first) / step).collect::<BTreeSet<_>>();
        let place = seen.iter().enumerate().map(|(k, window)| (*window, k)).collect::<BTreeMap<_, _>>();
        let mut series = Vec::new();
        for (key, (metric, points)) in chosen {
            let pods = demand.workloads.iter().find(|w| w.key == *key).map_or(0, |w| w.count);
            let most = u16::try_from(pods).unwrap_or(u16::MAX);
            let mut windows = vec![Window::default(); place.len()];
            for (at, cell) in points {
                let Some(window) = place.get(&((at - first) / step)).and_then(|k| windows.get_mut(*k)) else {
                    continue;
                };
                window.active = window.active.max(cell.active.min(most));
                let busy = if metric.is_time() { cell.busiest.div_ceil(1000).min(1000) } else { 1000 };
                let busy = if window.active == 0 { 0 } else { busy };
                window.busy_permille = window.busy_permille.max(u16::try_from(busy).unwrap_or(1000));
            }
            // A point without work in a window that has some leaves the busy share; a window without work has none.
            windows.iter_mut().filter(|w| w.busy_permille == 0).for_each(|w| w.active = 0);
            let name = SeriesName {
                namespace: key.namespace.clone(),
                kind: Some(key.kind.clone()),
                workload: key.name.clone(),
            };
            series.push(Series { name, windows });
        }
        Activity::new(window_ms, series).ok()
    }
}
