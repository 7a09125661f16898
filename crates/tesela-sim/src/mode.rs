//! MIG mode: on, off, or waiting.

use tesela_model::driver::{Activation, Answer, Code, DeviceEvent, EventKind, GpuUuid, MigMode};

use crate::call::Call;
use crate::fault::Defect;
use crate::simulator::Simulator;

impl Simulator {
    /// MIG mode now and after a reset.
    ///
    /// # Errors
    /// As every call: `NotFound`, `GpuIsLost`, or a fault.
    pub fn mig_mode(&mut self, gpu: &GpuUuid) -> Answer<MigMode> {
        let entry = self.enter(Call::MigMode, gpu, None)?;
        entry.done(gpu, self.state.gpus[entry.index].mode)
    }

    /// Asks for MIG mode on or off.
    ///
    /// An idle GPU takes it at once, an Ampere by a reset inside the call. Otherwise it waits, with what for: `InUse`
    /// while something runs, holds the GPU open or is cut; `ResetRequired` where a reset is needed and cannot be done
    /// from inside a virtual machine (nvml.h, nvmlDeviceSetMigMode).
    ///
    /// # Errors
    /// As every call.
    pub fn set_mig_mode(&mut self, gpu: &GpuUuid, enabled: bool) -> Answer<Activation> {
        let entry = self.enter(Call::SetMigMode, gpu, None)?;
        self.changed();
        let one = &mut self.state.gpus[entry.index];
        one.mode.pending = enabled;
        if one.mode.current == enabled {
            return entry.done(gpu, Activation::Done);
        }
        let reset = entry.board.mode_needs_reset();
        let held =
            !one.processes.is_empty() || !one.instances.is_empty() || (reset && !one.clients.is_empty());
        if held && self.defect != Some(Defect::ModeIgnoresUse) {
            return entry.done(gpu, Activation::Pending(Code::InUse));
        }
        if reset && one.passthrough {
            return entry.done(gpu, Activation::Pending(Code::ResetRequired));
        }
        if reset {
            self.reload(entry.index);
        } else {
            self.activate(entry.index);
        }
        entry.done(gpu, Activation::Done)
    }

    /// The waiting mode takes effect.
    pub(crate) fn activate(&mut self, index: usize) {
        let one = &mut self.state.gpus[index];
        if one.mode.current == one.mode.pending {
            return;
        }
        one.mode.current = one.mode.pending;
        one.instances.clear();
        let gpu = one.uuid.clone();
        self.log(DeviceEvent { gpu, instance: None, kind: EventKind::MigConfigChange });
    }
}
