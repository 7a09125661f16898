//! Reset and reboot: what survives.

use tesela_model::driver::{Answer, Code, GpuUuid, MigMode};
use tesela_model::machine::Health;

use crate::board::Board;
use crate::call::Call;
use crate::simulator::Simulator;
use crate::state::Counters;

impl Simulator {
    /// Resets one GPU: a waiting MIG mode takes effect, instances go, a GPU that needed it works again.
    ///
    /// # Errors
    /// `NotSupported` inside a virtual machine, `InUse` while a process or client holds it, `GpuIsLost`, or a fault.
    pub fn reset(&mut self, gpu: &GpuUuid) -> Answer<()> {
        let entry = self.enter(Call::Reset, gpu, None)?;
        let one = &self.state.gpus[entry.index];
        if one.passthrough {
            return entry.refuse(gpu, Code::NotSupported);
        }
        if !one.processes.is_empty() || !one.clients.is_empty() {
            return entry.refuse(gpu, Code::InUse);
        }
        self.changed();
        self.reload(entry.index);
        entry.done(gpu, ())
    }

    /// Restarts the node: processes and clients are gone, every GPU is reset, lost ones are back; MIG mode stays where
    /// the product keeps it, else it is off. Faults stay laid.
    pub fn reboot(&mut self) {
        self.changed();
        self.state.loaded = self.state.now;
        for index in 0..self.state.gpus.len() {
            let keeps = self.board(index).is_some_and(Board::mode_survives_reboot);
            let one = &mut self.state.gpus[index];
            one.processes.clear();
            one.clients.clear();
            if !keeps {
                one.mode = MigMode { current: false, pending: false };
                one.instances.clear();
            }
            self.reload(index);
        }
    }

    /// What a reset does to a GPU nobody holds.
    pub(crate) fn reload(&mut self, index: usize) {
        self.activate(index);
        let one = &mut self.state.gpus[index];
        one.instances.clear();
        one.health = Health::Healthy;
        let kept = one.counters;
        one.counters = Counters {
            ecc_ever: kept.ecc_ever,
            remapped_rows: kept.remapped_rows,
            remap_failed: kept.remap_failed,
            ..Counters::default()
        };
    }
}
