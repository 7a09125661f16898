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

    /// Asks for MIG mode on or off. An idle GPU takes it at once, an Ampere by a reset inside the call.
    ///
    /// An Ampere that is used, cut or held open lets the mode wait for a reset, with `InUse`; one inside a virtual machine,
    /// which nobody there can reset, with `ResetRequired` (nvml.h, nvmlDeviceSetMigMode).
    ///
    /// # Errors
    /// `InUse` where a mode never waits, because its change takes no reset; as every call.
    pub fn set_mig_mode(&mut self, gpu: &GpuUuid, enabled: bool) -> Answer<Activation> {
        let entry = self.enter(Call::SetMigMode, gpu, None)?;
        let one = &mut self.state.gpus[entry.index];
        let reset = entry.board.mode_needs_reset();
        let held =
            !one.processes.is_empty() || !one.instances.is_empty() || (reset && !one.clients.is_empty());
        let held = held && self.defect != Some(Defect::ModeIgnoresUse);
        let same = one.mode.current == enabled;
        if held && !reset && !same {
            return entry.refuse(gpu, Code::InUse);
        }
        one.mode.pending = enabled;
        let passthrough = one.passthrough;
        self.changed();
        let activation = if same {
            Activation::Done
        } else if held {
            Activation::Pending(Code::InUse)
        } else if reset && passthrough {
            Activation::Pending(Code::ResetRequired)
        } else if reset {
            self.reload(entry.index);
            Activation::Done
        } else {
            self.activate(entry.index);
            Activation::Done
        };
        entry.done(gpu, activation)
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
