//! MIG mode, and MIG devices.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings as nvml;
use tesela_model::driver::{Activation, Code, Device, GpuUuid, MigMode, MigUuid};
use tesela_sim::call::Call;

use super::handle::{Handle, Thing};
use super::pointer::Out;
use crate::live::{Live, Reply};

functions! {
    /// MIG mode now and after a reset.
    fn nvmlDeviceGetMigMode(device: Handle, current: Out<c_uint>, pending: Out<c_uint>) = |live| {
        let gpu = live.gpu(device)?;
        let MigMode { current: now, pending: later } =
            live.ask(Call::MigMode, |sim| sim.mig_mode(&gpu.uuid))?;
        current.check()?;
        pending.put(c_uint::from(later))?;
        current.put(c_uint::from(now))
    };

    /// Asks for another mode. The status says what it waits for.
    fn nvmlDeviceSetMigMode(device: Handle, mode: c_uint, status: Out<Reply>) = |live| {
        let gpu = live.gpu(device)?;
        status.check()?;
        let wanted = match mode {
            nvml::NVML_DEVICE_MIG_DISABLE => false,
            nvml::NVML_DEVICE_MIG_ENABLE => true,
            _ => return Err(Code::InvalidArgument),
        };
        let activation = live.change(Call::SetMigMode, |sim| sim.set_mig_mode(&gpu.uuid, wanted))?;
        status.put(match activation {
            Activation::Done => nvml::nvmlReturn_enum_NVML_SUCCESS,
            Activation::Pending(code) => code.number(),
        })
    };

    /// The bound of the indexes of MIG devices; 0 with MIG off.
    fn nvmlDeviceGetMaxMigDeviceCount(device: Handle, count: Out<c_uint>) = |live| {
        let on = live.gpu(device)?.mode.current;
        count.put(if on { live.board(device)?.slices() } else { 0 })
    };

    /// The MIG device at an index.
    fn nvmlDeviceGetMigDeviceHandleByIndex(device: Handle, index: c_uint, mig: Out<Handle>) = |live| {
        let gpu = live.gpu(device)?;
        mig.check()?;
        if !gpu.mode.current {
            return Err(Code::NotFound);
        }
        if index >= live.board(device)?.slices() {
            return Err(Code::InvalidArgument);
        }
        let all = live.ask(Call::MigDevices, |sim| sim.mig_devices(&gpu.uuid))?;
        let found = all.into_iter().find(|one| one.index == index).ok_or(Code::NotFound)?;
        mig.put(live.handle(Thing::Mig(gpu.uuid, found.uuid)))
    };

    /// The GPU of a MIG device.
    fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig: Handle, device: Out<Handle>) = |live| {
        let (gpu, _) = mig_of(live, mig)?;
        device.put(live.handle(Thing::Gpu(gpu)))
    };

    /// Whether a handle is that of a MIG device.
    fn nvmlDeviceIsMigDeviceHandle(device: Handle, is: Out<c_uint>) = |live| {
        is.put(c_uint::from(matches!(live.device(device)?, Device::Mig { .. })))
    };

    /// GPU instance of a MIG device.
    fn nvmlDeviceGetGpuInstanceId(mig: Handle, id: Out<c_uint>) = |live| {
        let (gpu, mig) = mig_of(live, mig)?;
        id.put(live.mig_device(&gpu, &mig)?.gpu_instance)
    };

    /// Compute instance of a MIG device.
    fn nvmlDeviceGetComputeInstanceId(mig: Handle, id: Out<c_uint>) = |live| {
        let (gpu, mig) = mig_of(live, mig)?;
        id.put(live.mig_device(&gpu, &mig)?.compute_instance)
    };
}

/// A MIG device; a GPU is not supported.
fn mig_of(live: &mut Live, mig: Handle) -> Result<(GpuUuid, MigUuid), Code> {
    match live.device(mig)? {
        Device::Mig { gpu, mig } => Ok((gpu, mig)),
        // nvml.h: INVALID_ARGUMENT when the handle is no MIG device's.
        Device::Gpu(_) => Err(Code::InvalidArgument),
    }
}
