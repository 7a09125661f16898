//! Devices: handles and who they are, MIG mode, MIG devices.

use std::ffi::CString;

use nvml_wrapper_sys::bindings as nvml;
use tesela_model::driver::{Activation, Answer, Code, DriverError, MigMode};

use super::{Api, DeviceHandle, done, found, text};

/// Address and ids of a device on the PCI bus.
pub(crate) struct Pci {
    pub(crate) bus_id: String,
    pub(crate) device_id: u32,
    pub(crate) subsystem_id: u32,
}

// Errors of all of these: what NVML answers.
impl Api {
    /// How many GPUs there are, lost ones too.
    pub(crate) fn count(&self) -> Answer<u32> {
        let call = "nvmlDeviceGetCount_v2";
        let function = found(call, &self.lib.nvmlDeviceGetCount_v2)?;
        let mut count = 0;
        // SAFETY: writes one number.
        done(call, unsafe { function(&raw mut count) })?;
        Ok(count)
    }

    /// The GPU at an index.
    pub(crate) fn device_at(&self, index: u32) -> Answer<DeviceHandle> {
        let call = "nvmlDeviceGetHandleByIndex_v2";
        let function = found(call, &self.lib.nvmlDeviceGetHandleByIndex_v2)?;
        let mut device = std::ptr::null_mut();
        // SAFETY: writes one handle.
        done(call, unsafe { function(index, &raw mut device) })?;
        Ok(DeviceHandle(device))
    }

    /// The GPU or MIG device of a UUID.
    pub(crate) fn device_of(&self, uuid: &str) -> Answer<DeviceHandle> {
        let call = "nvmlDeviceGetHandleByUUID";
        let function = found(call, &self.lib.nvmlDeviceGetHandleByUUID)?;
        let uuid = CString::new(uuid).map_err(|_| DriverError::new(call, Code::InvalidArgument))?;
        let mut device = std::ptr::null_mut();
        // SAFETY: reads the text up to its zero, which CString has, and writes one handle.
        done(call, unsafe { function(uuid.as_ptr(), &raw mut device) })?;
        Ok(DeviceHandle(device))
    }

    /// Its UUID.
    pub(crate) fn uuid(&self, device: DeviceHandle) -> Answer<String> {
        self.text("nvmlDeviceGetUUID", &self.lib.nvmlDeviceGetUUID, device)
    }

    /// Its name for people.
    pub(crate) fn name(&self, device: DeviceHandle) -> Answer<String> {
        self.text("nvmlDeviceGetName", &self.lib.nvmlDeviceGetName, device)
    }

    /// Number of its device file.
    pub(crate) fn minor(&self, device: DeviceHandle) -> Answer<u32> {
        self.number("nvmlDeviceGetMinorNumber", &self.lib.nvmlDeviceGetMinorNumber, device)
    }

    /// Where it is on the PCI bus.
    pub(crate) fn pci(&self, device: DeviceHandle) -> Answer<Pci> {
        let call = "nvmlDeviceGetPciInfo_v3";
        let function = found(call, &self.lib.nvmlDeviceGetPciInfo_v3)?;
        let mut info = nvml::nvmlPciInfo_t {
            busIdLegacy: [0; 16],
            domain: 0,
            bus: 0,
            device: 0,
            pciDeviceId: 0,
            pciSubSystemId: 0,
            busId: [0; 32],
        };
        // SAFETY: writes one struct of this type.
        done(call, unsafe { function(device.0, &raw mut info) })?;
        Ok(Pci { bus_id: text(&info.busId), device_id: info.pciDeviceId, subsystem_id: info.pciSubSystemId })
    }

    /// CUDA compute capability, major and minor.
    pub(crate) fn compute_capability(&self, device: DeviceHandle) -> Answer<(u32, u32)> {
        let call = "nvmlDeviceGetCudaComputeCapability";
        let function = found(call, &self.lib.nvmlDeviceGetCudaComputeCapability)?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: writes two numbers.
        done(call, unsafe { function(device.0, &raw mut major, &raw mut minor) })?;
        Ok((u32::try_from(major).unwrap_or(0), u32::try_from(minor).unwrap_or(0)))
    }

    /// MIG mode now and later.
    pub(crate) fn mig_mode(&self, device: DeviceHandle) -> Answer<MigMode> {
        let call = "nvmlDeviceGetMigMode";
        let function = found(call, &self.lib.nvmlDeviceGetMigMode)?;
        let (mut current, mut pending) = (0, 0);
        // SAFETY: writes two numbers.
        done(call, unsafe { function(device.0, &raw mut current, &raw mut pending) })?;
        let on = |mode| mode == nvml::NVML_DEVICE_MIG_ENABLE;
        Ok(MigMode { current: on(current), pending: on(pending) })
    }

    /// Asks for another MIG mode.
    pub(crate) fn set_mig_mode(&self, device: DeviceHandle, enabled: bool) -> Answer<Activation> {
        let call = "nvmlDeviceSetMigMode";
        let function = found(call, &self.lib.nvmlDeviceSetMigMode)?;
        let mode = if enabled { nvml::NVML_DEVICE_MIG_ENABLE } else { nvml::NVML_DEVICE_MIG_DISABLE };
        let mut status = 0;
        // SAFETY: writes one code.
        done(call, unsafe { function(device.0, mode, &raw mut status) })?;
        Ok(Code::of(status).map_or(Activation::Done, Activation::Pending))
    }

    /// How many MIG devices there may be: the bound of their indexes.
    pub(crate) fn max_mig_devices(&self, device: DeviceHandle) -> Answer<u32> {
        self.number("nvmlDeviceGetMaxMigDeviceCount", &self.lib.nvmlDeviceGetMaxMigDeviceCount, device)
    }

    /// The MIG device at an index of its GPU.
    pub(crate) fn mig_device_at(&self, device: DeviceHandle, index: u32) -> Answer<DeviceHandle> {
        let call = "nvmlDeviceGetMigDeviceHandleByIndex";
        let function = found(call, &self.lib.nvmlDeviceGetMigDeviceHandleByIndex)?;
        let mut mig = std::ptr::null_mut();
        // SAFETY: writes one handle.
        done(call, unsafe { function(device.0, index, &raw mut mig) })?;
        Ok(DeviceHandle(mig))
    }

    /// GPU instance of a MIG device.
    pub(crate) fn gpu_instance_id(&self, mig: DeviceHandle) -> Answer<u32> {
        self.number("nvmlDeviceGetGpuInstanceId", &self.lib.nvmlDeviceGetGpuInstanceId, mig)
    }

    /// Compute instance of a MIG device.
    pub(crate) fn compute_instance_id(&self, mig: DeviceHandle) -> Answer<u32> {
        self.number("nvmlDeviceGetComputeInstanceId", &self.lib.nvmlDeviceGetComputeInstanceId, mig)
    }

    /// Memory of a MIG device in MiB, as its attributes say.
    pub(crate) fn mig_memory_mib(&self, mig: DeviceHandle) -> Answer<u64> {
        let call = "nvmlDeviceGetAttributes_v2";
        let function = found(call, &self.lib.nvmlDeviceGetAttributes_v2)?;
        let mut attributes = nvml::nvmlDeviceAttributes_t {
            multiprocessorCount: 0,
            sharedCopyEngineCount: 0,
            sharedDecoderCount: 0,
            sharedEncoderCount: 0,
            sharedJpegCount: 0,
            sharedOfaCount: 0,
            gpuInstanceSliceCount: 0,
            computeInstanceSliceCount: 0,
            memorySizeMB: 0,
        };
        // SAFETY: writes one struct of this type.
        done(call, unsafe { function(mig.0, &raw mut attributes) })?;
        Ok(attributes.memorySizeMB)
    }
}
