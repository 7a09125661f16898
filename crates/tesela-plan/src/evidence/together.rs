//! Who worked when: samples of a workload's pods, by time, → series over windows of one length.
//!
//! A window without a sample is not known, and not idle: the monitoring may have been down, or the pods that worked
//! then may be gone. Only of a job a pod that does not exist is known not to work, since nothing comes back under its
//! name. What is compared are the windows of which every series that is kept knows something.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::activity::{Activity, LONGEST_WINDOW_MS, Series, SeriesName, Window};
use tesela_model::demand::{Demand, WorkloadKey};
use tesela_model::usage::{Metric, Sample};

use super::collect::Holder;
use super::{ACTIVE_PPM, FEW_WINDOWS};

/// Points in time kept, over all workloads; beyond, nothing is said of who works when.
const CELLS: usize = 8_000_000;
/// Windows of each series at most.
const WINDOWS: i64 = 200_000;

/// What a workload did at one point in time.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    at_ms: i64,
    /// Pods at work.
    active: u16,
    /// Millionths of the time that the busiest of them worked.
    busiest: u32,
}

impl Cell {
    fn join(&mut self, other: Self) {
        self.active = self.active.saturating_add(other.active);
        self.busiest = self.busiest.max(other.busiest);
    }
}

/// What is known of one workload.
#[derive(Debug, Default)]
struct Points {
    /// By metric, in the order of time.
    cells: BTreeMap<Metric, Vec<Cell>>,
    /// From when to when its pods were there.
    lives: BTreeSet<(i64, i64)>,
}

#[derive(Debug, Default)]
pub(super) struct Together {
    workloads: BTreeMap<WorkloadKey, Points>,
    cells: usize,
    /// Longest step between the samples of a series.
    step_ms: i64,
    /// Whether there was more than is kept.
    full: bool,
}

/// Joint activity, and what is not in it.
#[derive(Debug, Default)]
pub(super) struct Joint {
    /// The series, aligned; `None` where nothing can be said.
    pub(super) activity: Option<Activity>,
    /// Windows in which anything was measured.
    pub(super) windows: usize,
    /// Windows of which every series that is kept knows something.
    pub(super) common: usize,
    /// Workloads of which fewer than half of the windows are known.
    pub(super) left_out: Vec<WorkloadKey>,
}

impl Together {
    /// Takes a series of one pod.
    pub(super) fn take(&mut self, holder: &Holder<'_>, metric: Metric, samples: &[Sample]) {
        if metric.is_memory() || samples.len() < 2 || self.full {
            return;
        }
        let mut cells = samples.iter().map(cell).collect::<Vec<_>>();
        if !cells.is_sorted_by_key(|c| c.at_ms) {
            cells.sort_by_key(|c| c.at_ms);
        }
        let steps = cells.windows(2).map(|w| w[1].at_ms - w[0].at_ms).filter(|step| *step > 0);
        // Samples further apart than a window can be long tell nothing of who works at the same time.
        let Some(step) = steps.min().filter(|step| *step <= i64::from(LONGEST_WINDOW_MS)) else { return };
        self.step_ms = self.step_ms.max(step);
        let (first, last) = (cells[0].at_ms, cells[cells.len() - 1].at_ms);
        if !self.workloads.contains_key(holder.workload) {
            self.workloads.insert(holder.workload.clone(), Points::default());
        }
        let Some(points) = self.workloads.get_mut(holder.workload) else { return };
        let from = holder.since.map_or(first, |since| since.min(first));
        points.lives.insert((from, if holder.today { i64::MAX } else { last }));
        let known = points.cells.entry(metric).or_default();
        let before = known.len();
        *known = merged(std::mem::take(known), cells);
        self.cells += known.len() - before;
        self.mind_the_limit();
    }

    fn mind_the_limit(&mut self) {
        if self.cells > CELLS {
            self.full = true;
            self.workloads.clear();
        }
    }

    /// Adds what other series say.
    pub(super) fn absorb(&mut self, other: Self) {
        self.step_ms = self.step_ms.max(other.step_ms);
        self.cells += other.cells;
        for (key, points) in other.workloads {
            let mine = self.workloads.entry(key).or_default();
            mine.lives.extend(points.lives);
            for (metric, cells) in points.cells {
                let known = mine.cells.entry(metric).or_default();
                *known = merged(std::mem::take(known), cells);
            }
        }
        if other.full {
            self.full = true;
            self.workloads.clear();
        }
        self.mind_the_limit();
    }

    pub(super) fn forget(&mut self, metric: Metric) {
        self.workloads.values_mut().for_each(|points| drop(points.cells.remove(&metric)));
        self.workloads.retain(|_, points| !points.cells.is_empty());
    }

    /// A workload of which nothing is said.
    pub(super) fn leave_out(&mut self, key: &WorkloadKey) {
        self.workloads.remove(key);
    }

    /// The series over the windows that all of them know; none where samples are single, too far apart, or too many,
    /// or where too few windows are left. No more pods are at work than the workload has.
    pub(super) fn joint(&self, demand: &Demand) -> Joint {
        let mut joint = Joint::default();
        let Some(window_ms) = u32::try_from(self.step_ms).ok().filter(|ms| *ms > 0) else { return joint };
        let counts = demand.workloads.iter().map(|w| (&w.key, w.count)).collect::<BTreeMap<_, _>>();
        let Some(grid) = self.grid() else { return joint };
        joint.windows = grid.seen.len();
        let mut kept = Vec::new();
        for (key, points) in &self.workloads {
            let Some((metric, cells)) = points.cells.first_key_value() else { continue };
            let most = u16::try_from(counts.get(key).copied().unwrap_or(0)).unwrap_or(u16::MAX);
            let windows = grid.windows(*metric, cells, most, is_job(key).then_some(&points.lives));
            let known = windows.iter().flatten().count();
            if known * 2 < grid.seen.len() {
                joint.left_out.push(key.clone());
            } else {
                kept.push((key, windows));
            }
        }
        let common = (0..grid.seen.len()).filter(|at| kept.iter().all(|(_, w)| w[*at].is_some()));
        let common = common.collect::<Vec<_>>();
        joint.common = if kept.is_empty() { 0 } else { common.len() };
        if joint.common >= FEW_WINDOWS {
            let series = kept.into_iter().map(|(key, windows)| Series {
                name: name(key),
                windows: common.iter().filter_map(|at| windows[*at]).collect(),
            });
            joint.activity = Activity::new(window_ms, series.collect()).ok();
        }
        joint
    }

    fn grid(&self) -> Option<Grid> {
        let chosen = || self.workloads.values().filter_map(|points| Some(points.cells.first_key_value()?.1));
        let first = chosen().filter_map(|cells| cells.first()).map(|c| c.at_ms).min()?;
        let last = chosen().filter_map(|cells| cells.last()).map(|c| c.at_ms).max()?;
        let count = (last - first) / self.step_ms + 1;
        if count > WINDOWS {
            return None;
        }
        let mut place = vec![None; usize::try_from(count).ok()?];
        let window = |cell: &Cell| usize::try_from((cell.at_ms - first) / self.step_ms).ok();
        for slot in chosen().flatten().filter_map(window) {
            place[slot] = Some(0);
        }
        let mut seen = Vec::new();
        for (slot, place) in place.iter_mut().enumerate().filter(|(_, place)| place.is_some()) {
            *place = Some(seen.len());
            seen.push(first + self.step_ms * i64::try_from(slot).ok()?);
        }
        Some(Grid { first, step: self.step_ms, seen, place })
    }
}

/// The windows in which anything was measured. Where the monitoring was down, nothing is known of anybody.
struct Grid {
    first: i64,
    step: i64,
    /// When each begins.
    seen: Vec<i64>,
    /// Of every window from the first to the last, its place among those seen.
    place: Vec<Option<usize>>,
}

impl Grid {
    /// What a workload did in each window seen; `None` = not known. `lives` where it is known not to work while none
    /// of its pods is there.
    fn windows(
        &self,
        metric: Metric,
        cells: &[Cell],
        most: u16,
        lives: Option<&BTreeSet<(i64, i64)>>,
    ) -> Vec<Option<Window>> {
        let mut windows: Vec<Option<Window>> = vec![None; self.seen.len()];
        for cell in cells {
            let slot = usize::try_from((cell.at_ms - self.first) / self.step).ok();
            let place = slot.and_then(|slot| self.place.get(slot).copied().flatten());
            let Some(window) = place.and_then(|place| windows.get_mut(place)) else { continue };
            let window = window.get_or_insert_default();
            window.active = window.active.max(cell.active.min(most));
            let busy = if metric.is_time() { cell.busiest.div_ceil(1000).min(1000) } else { 1000 };
            let busy = if window.active == 0 { 0 } else { busy };
            window.busy_permille = window.busy_permille.max(u16::try_from(busy).unwrap_or(1000));
        }
        // A point without work in a window that has some leaves the busy share; a window without work has none.
        windows.iter_mut().flatten().filter(|w| w.busy_permille == 0).for_each(|w| w.active = 0);
        if let Some(lives) = lives {
            for (window, begin) in windows.iter_mut().zip(&self.seen) {
                let there = |life: &(i64, i64)| life.0 < begin + self.step && *begin <= life.1;
                if window.is_none() && !lives.iter().any(there) {
                    *window = Some(Window::default());
                }
            }
        }
        windows
    }
}

/// Work that ends and does not come back under its name.
fn is_job(key: &WorkloadKey) -> bool {
    key.kind.ends_with("Job") || key.kind == "Workflow"
}

fn name(key: &WorkloadKey) -> SeriesName {
    let WorkloadKey { namespace, kind, name } = key.clone();
    SeriesName { namespace, kind: Some(kind), workload: name }
}

fn cell(sample: &Sample) -> Cell {
    let works = sample.value > ACTIVE_PPM;
    let busiest = if works { u32::try_from(sample.value).unwrap_or(u32::MAX) } else { 0 };
    Cell { at_ms: sample.at_ms, active: u16::from(works), busiest }
}

/// Two lists in the order of time as one, each time once.
fn merged(known: Vec<Cell>, more: Vec<Cell>) -> Vec<Cell> {
    let mut all: Vec<Cell> = Vec::with_capacity(known.len().max(more.len()));
    let mut put = |cell: Cell| match all.last_mut().filter(|last| last.at_ms == cell.at_ms) {
        Some(last) => last.join(cell),
        None => all.push(cell),
    };
    let (mut known, mut more) = (known.into_iter().peekable(), more.into_iter().peekable());
    loop {
        let first = match (known.peek(), more.peek()) {
            (Some(a), Some(b)) if a.at_ms <= b.at_ms => known.next(),
            (Some(_), None) => known.next(),
            (_, Some(_)) => more.next(),
            (None, None) => return all,
        };
        if let Some(cell) = first {
            put(cell);
        }
    }
}
