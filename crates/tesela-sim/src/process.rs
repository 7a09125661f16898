//! Processes: they come, hold memory, and go. The simulation starts and ends none of its own will.

use tesela_model::driver::{Answer, GpuUuid, Process as Told};

use crate::call::Call;
use crate::simulator::Simulator;
use crate::state::Process;

/// Why a process cannot be where it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProcessError {
    /// No such GPU.
    #[error("there is no GPU {0}")]
    Gpu(GpuUuid),
    /// The GPU is lost or needs a reset.
    #[error("GPU {0} does not work")]
    Broken(GpuUuid),
    /// The pid is on that GPU already.
    #[error("process {0} is on that GPU already")]
    There(u32),
    /// No such process.
    #[error("process {0} is not on that GPU")]
    Gone(u32),
    /// With MIG on a process is on an instance.
    #[error("MIG is on: process {0} needs an instance")]
    NeedsInstance(u32),
    /// No such compute instance.
    #[error("there is no compute instance {1} in GPU instance {0}")]
    Instance(u32, u32),
    /// The memory is not there.
    #[error("process {pid} wants {wanted} bytes, {free} are free")]
    Memory {
        /// The process.
        pid: u32,
        /// Bytes it wants.
        wanted: u64,
        /// Bytes that are free.
        free: u64,
    },
}

impl Simulator {
    /// A process comes to a GPU, or to one of its instances.
    ///
    /// # Errors
    /// When it cannot be there: [`ProcessError`].
    pub fn start_process(&mut self, gpu: &GpuUuid, process: Process) -> Result<(), ProcessError> {
        let index = self.index_of(gpu).ok_or_else(|| ProcessError::Gpu(gpu.clone()))?;
        if self.state.gpus[index].health != tesela_model::machine::Health::Healthy {
            return Err(ProcessError::Broken(gpu.clone()));
        }
        let since = self.state.now;
        self.start_at(index, Process { since, ..process })?;
        self.changed();
        Ok(())
    }

    pub(crate) fn start_at(&mut self, index: usize, process: Process) -> Result<(), ProcessError> {
        let (pid, wanted) = (process.pid, process.memory);
        let one = &self.state.gpus[index];
        if one.processes.iter().any(|p| p.pid == pid) {
            return Err(ProcessError::There(pid));
        }
        if let Some((gi, ci)) = process.on {
            let there = |i: &&crate::state::GpuInstance| i.id == gi && i.compute.iter().any(|c| c.id == ci);
            one.instances.iter().find(there).ok_or(ProcessError::Instance(gi, ci))?;
        } else if one.mode.current {
            return Err(ProcessError::NeedsInstance(pid));
        }
        let free = self.memory(index, process.on.map(|(gi, _)| gi)).map_or(0, |memory| memory.free);
        if wanted > free {
            return Err(ProcessError::Memory { pid, wanted, free });
        }
        let processes = &mut self.state.gpus[index].processes;
        processes.push(process);
        processes.sort_by_key(|p| p.pid);
        Ok(())
    }

    /// A process ends. Its memory is free at once.
    ///
    /// # Errors
    /// When it is not there.
    pub fn end_process(&mut self, gpu: &GpuUuid, pid: u32) -> Result<(), ProcessError> {
        let index = self.index_of(gpu).ok_or_else(|| ProcessError::Gpu(gpu.clone()))?;
        let processes = &mut self.state.gpus[index].processes;
        let position = processes.iter().position(|p| p.pid == pid).ok_or(ProcessError::Gone(pid))?;
        processes.remove(position);
        self.changed();
        Ok(())
    }

    /// Programs that hold a GPU open without running anything on it.
    ///
    /// # Errors
    /// When there is no such GPU.
    pub fn set_clients(&mut self, gpu: &GpuUuid, clients: Vec<String>) -> Result<(), ProcessError> {
        let index = self.index_of(gpu).ok_or_else(|| ProcessError::Gpu(gpu.clone()))?;
        self.state.gpus[index].clients = clients;
        self.changed();
        Ok(())
    }

    /// The processes of a GPU, those of its instances too, by pid.
    ///
    /// # Errors
    /// As every call.
    pub fn processes(&mut self, gpu: &GpuUuid) -> Answer<Vec<Told>> {
        let entry = self.enter(Call::Processes, gpu, None)?;
        let told = |p: &Process| Told {
            pid: p.pid,
            kind: p.kind,
            memory_bytes: Some(p.memory),
            gpu_instance: p.on.map(|(gi, _)| gi),
            compute_instance: p.on.map(|(_, ci)| ci),
            name: p.name.clone(),
        };
        entry.done(gpu, self.state.gpus[entry.index].processes.iter().map(told).collect())
    }
}
