//! What holds of every state.

use std::collections::BTreeSet;

use tesela_model::product::Placement;

use crate::board::Board;
use crate::place::{Space, compute_fits};
use crate::simulator::Simulator;
use crate::state::{Gpu, GpuInstance};

impl Simulator {
    /// Checks what holds of every state: instances fit together, ids and UUIDs are unique, processes are where they can be
    /// and hold memory that is there, lists are in order.
    ///
    /// # Errors
    /// The first thing that does not hold, in words.
    pub fn check(&self) -> Result<(), String> {
        let mut uuids = BTreeSet::new();
        for (index, gpu) in self.state.gpus.iter().enumerate() {
            if !uuids.insert(gpu.uuid.as_str()) {
                return Err(format!("two GPUs are called {}", gpu.uuid));
            }
            let board = Board::of(&gpu.product).ok_or_else(|| format!("{}: unknown product", gpu.uuid))?;
            self.check_gpu(index, gpu, board).map_err(|what| format!("{}: {what}", gpu.uuid))?;
        }
        let migs = self.state.gpus.iter().flat_map(|g| &g.instances).flat_map(|i| &i.compute);
        let mut seen = BTreeSet::new();
        for mig in migs {
            if !seen.insert(mig.uuid.as_str()) {
                return Err(format!("two MIG devices are called {}", mig.uuid));
            }
        }
        let ordered = self.state.schedule.is_sorted_by_key(|s| s.at);
        let later = self.state.schedule.first().is_none_or(|s| s.at > self.state.now);
        if !ordered || !later {
            return Err("what is to happen is out of order".to_owned());
        }
        let numbers = self.state.events.iter().map(|e| e.number);
        if !numbers.clone().is_sorted() || numbers.max().is_some_and(|last| last >= self.state.next_event) {
            return Err("events are out of order".to_owned());
        }
        Ok(())
    }

    fn check_gpu(&self, index: usize, gpu: &Gpu, board: &'static Board) -> Result<(), String> {
        if !gpu.mode.current && !gpu.instances.is_empty() {
            return Err("instances with MIG off".to_owned());
        }
        if !gpu.instances.is_sorted_by(|a, b| a.id < b.id) {
            return Err("GPU instances out of order, or two of one id".to_owned());
        }
        let mut before = Gpu { instances: Vec::new(), ..gpu.clone() };
        for instance in &gpu.instances {
            let profile = board.profile(instance.profile);
            let profile = profile.ok_or_else(|| format!("unknown profile {}", instance.profile))?;
            let at = profile.placements.iter().copied().find(|p| p.start == instance.start);
            let at = at.ok_or_else(|| format!("an instance at {}, where none can be", instance.start))?;
            if !Space::new(board, &before, None).fits(profile, at) {
                return Err(format!("GPU instance {} does not fit beside the others", instance.id));
            }
            check_compute(board, instance)?;
            before.instances.push(instance.clone());
        }
        self.check_processes(index, gpu)
    }

    fn check_processes(&self, index: usize, gpu: &Gpu) -> Result<(), String> {
        if !gpu.processes.is_sorted_by(|a, b| a.pid < b.pid) {
            return Err("processes out of order, or two of one id".to_owned());
        }
        for process in &gpu.processes {
            let there = match process.on {
                None => !gpu.mode.current,
                Some((gi, ci)) => {
                    gpu.instances.iter().any(|i| i.id == gi && i.compute.iter().any(|c| c.id == ci))
                }
            };
            if !there {
                return Err(format!("process {} is on no device", process.pid));
            }
            let memory = self.memory(index, process.on.map(|(gi, _)| gi));
            if memory.is_none_or(|m| m.used > m.total.saturating_sub(m.reserved)) {
                return Err(format!("process {} holds memory that is not there", process.pid));
            }
        }
        Ok(())
    }
}

fn check_compute(board: &Board, instance: &GpuInstance) -> Result<(), String> {
    let Some(profile) = board.profile(instance.profile) else { return Ok(()) };
    if !instance.compute.is_sorted_by(|a, b| a.id < b.id) {
        return Err("compute instances out of order, or two of one id".to_owned());
    }
    for (n, compute) in instance.compute.iter().enumerate() {
        let known = profile.compute_profile(compute.profile);
        let known = known.ok_or_else(|| format!("unknown compute-instance profile {}", compute.profile))?;
        let at = Placement { start: compute.start, size: known.slices };
        if !known.placements.contains(&at) || !compute_fits(profile, &instance.compute[..n], known, at) {
            return Err(format!("compute instance {} does not fit beside the others", compute.id));
        }
    }
    Ok(())
}
