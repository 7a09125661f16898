//! Counters: what a device is doing.

use std::time::Duration;

use tesela_model::driver::{Answer, Code, Device, MemoryUse, Readings};

use crate::call::Call;
use crate::simulator::Simulator;

/// Part of the memory that the driver keeps for itself: one in so many (`assumptions`).
const RESERVED_PART: u64 = 128;

impl Simulator {
    /// Moves the clock. Counters go on as things stand; what was scheduled happens on the way. The clock never goes back.
    pub fn advance_to(&mut self, now: Duration) {
        let micros = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
        self.state.now = self.state.now.max(micros);
    }

    /// The same by a length of time.
    pub fn advance(&mut self, by: Duration) {
        self.advance_to(self.now().saturating_add(by));
    }

    /// Time since the simulation began.
    #[must_use]
    pub fn now(&self) -> Duration {
        Duration::from_micros(self.state.now)
    }

    /// What a device is doing.
    ///
    /// # Errors
    /// `NotFound` for a MIG device that is not there; as every call.
    pub fn readings(&mut self, device: &Device) -> Answer<Readings> {
        let gpu = device.gpu();
        let entry = self.enter(Call::Readings, gpu, None)?;
        let instance = match device {
            Device::Gpu(_) => None,
            Device::Mig { mig, .. } => {
                let instances = &self.state.gpus[entry.index].instances;
                let on = instances.iter().find(|i| i.compute.iter().any(|c| c.uuid == *mig));
                let Some(on) = on else { return entry.refuse(gpu, Code::NotFound) };
                Some(on.id)
            }
        };
        entry.done(gpu, Readings { memory: self.memory(entry.index, instance), ..Readings::default() })
    }

    /// Memory of a GPU, or of one of its GPU instances.
    pub(crate) fn memory(&self, index: usize, gpu_instance: Option<u32>) -> Option<MemoryUse> {
        let board = self.board(index)?;
        let one = self.state.gpus.get(index)?;
        let (mib, reserved) = match gpu_instance {
            None => (board.memory_mib(), board.memory_mib() / RESERVED_PART),
            Some(id) => (board.profile(one.instances.iter().find(|i| i.id == id)?.profile)?.memory_mib, 0),
        };
        let on =
            one.processes.iter().filter(|p| gpu_instance.is_none() || p.on.map(|(gi, _)| gi) == gpu_instance);
        let used = on.map(|p| p.memory).sum();
        let (total, reserved) = (mib << 20, reserved << 20);
        Some(MemoryUse { total, reserved, used, free: total.saturating_sub(reserved).saturating_sub(used) })
    }
}
