//! What devices do: memory, utilisation, power, temperature, clocks, errors, processes.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings as nvml;
use tesela_model::driver::{Answer, Clocks, Code, EccCounts, MemoryUse, Process, ProcessKind, Utilisation};

use super::{Api, DeviceHandle, Found, done, found, list_of, version_of};

/// What NVML writes where it cannot tell a 64-bit number, and an id.
const NOT_AVAILABLE: u64 = u64::MAX;
const NO_ID: u32 = u32::MAX;

/// Functions that list processes.
type ProcessesOf =
    unsafe extern "C" fn(nvml::nvmlDevice_t, *mut c_uint, *mut nvml::nvmlProcessInfo_t) -> nvml::nvmlReturn_t;

/// Functions of the second version, which write the same struct.
type ProcessesOfSecond = unsafe extern "C" fn(
    nvml::nvmlDevice_t,
    *mut c_uint,
    *mut nvml::nvmlProcessInfo_v2_t,
) -> nvml::nvmlReturn_t;

/// Rows of memory that were remapped.
pub(crate) struct RemappedRows {
    pub(crate) correctable: u32,
    pub(crate) uncorrectable: u32,
    pub(crate) failed: bool,
}

// Errors of all of these: what NVML answers.
impl Api {
    /// Memory, with the driver's own part where the library tells it apart.
    pub(crate) fn memory(&self, device: DeviceHandle) -> Answer<MemoryUse> {
        match self.memory_with_reserved(device) {
            Err(error) if matches!(error.code, Code::FunctionNotFound | Code::ArgumentVersionMismatch) => {
                self.memory_of_old(device)
            }
            answer => answer,
        }
    }

    fn memory_with_reserved(&self, device: DeviceHandle) -> Answer<MemoryUse> {
        let call = "nvmlDeviceGetMemoryInfo_v2";
        let function = found(call, &self.lib.nvmlDeviceGetMemoryInfo_v2)?;
        let version = version_of::<nvml::nvmlMemory_v2_t>(2);
        let mut memory = nvml::nvmlMemory_v2_t { version, total: 0, reserved: 0, free: 0, used: 0 };
        // SAFETY: writes one struct of this type, whose version field says its size.
        done(call, unsafe { function(device.0, &raw mut memory) })?;
        Ok(MemoryUse { total: memory.total, reserved: memory.reserved, used: memory.used, free: memory.free })
    }

    /// The first version counts what the driver reserves as used.
    fn memory_of_old(&self, device: DeviceHandle) -> Answer<MemoryUse> {
        let call = "nvmlDeviceGetMemoryInfo";
        let function = found(call, &self.lib.nvmlDeviceGetMemoryInfo)?;
        let mut memory = nvml::nvmlMemory_t { total: 0, free: 0, used: 0 };
        // SAFETY: writes one struct of this type.
        done(call, unsafe { function(device.0, &raw mut memory) })?;
        Ok(MemoryUse { total: memory.total, reserved: 0, used: memory.used, free: memory.free })
    }

    /// Utilisation of multiprocessors and memory.
    pub(crate) fn utilisation(&self, device: DeviceHandle) -> Answer<Utilisation> {
        let call = "nvmlDeviceGetUtilizationRates";
        let function = found(call, &self.lib.nvmlDeviceGetUtilizationRates)?;
        let mut rates = nvml::nvmlUtilization_t { gpu: 0, memory: 0 };
        // SAFETY: writes one struct of this type.
        done(call, unsafe { function(device.0, &raw mut rates) })?;
        Ok(Utilisation { gpu: rates.gpu, memory: rates.memory })
    }

    /// Utilisation of the encoder, in percent.
    pub(crate) fn encoder(&self, device: DeviceHandle) -> Answer<u32> {
        self.sampled("nvmlDeviceGetEncoderUtilization", &self.lib.nvmlDeviceGetEncoderUtilization, device)
    }

    /// Utilisation of the decoder, in percent.
    pub(crate) fn decoder(&self, device: DeviceHandle) -> Answer<u32> {
        self.sampled("nvmlDeviceGetDecoderUtilization", &self.lib.nvmlDeviceGetDecoderUtilization, device)
    }

    /// A value with the period it was sampled over.
    fn sampled(
        &self,
        call: &'static str,
        function: &Found<
            unsafe extern "C" fn(nvml::nvmlDevice_t, *mut c_uint, *mut c_uint) -> nvml::nvmlReturn_t,
        >,
        device: DeviceHandle,
    ) -> Answer<u32> {
        let function = found(call, function)?;
        let (mut value, mut period) = (0, 0);
        // SAFETY: functions of this type write two numbers.
        done(call, unsafe { function(device.0, &raw mut value, &raw mut period) })?;
        Ok(value)
    }

    /// Power drawn, in mW.
    pub(crate) fn power(&self, device: DeviceHandle) -> Answer<u32> {
        self.number("nvmlDeviceGetPowerUsage", &self.lib.nvmlDeviceGetPowerUsage, device)
    }

    /// The power limit in force, in mW.
    pub(crate) fn power_limit(&self, device: DeviceHandle) -> Answer<u32> {
        self.number("nvmlDeviceGetEnforcedPowerLimit", &self.lib.nvmlDeviceGetEnforcedPowerLimit, device)
    }

    /// Energy since the driver was loaded, in mJ.
    pub(crate) fn energy(&self, device: DeviceHandle) -> Answer<u64> {
        let call = "nvmlDeviceGetTotalEnergyConsumption";
        let function = found(call, &self.lib.nvmlDeviceGetTotalEnergyConsumption)?;
        let mut energy = 0;
        // SAFETY: writes one 64-bit number.
        done(call, unsafe { function(device.0, &raw mut energy) })?;
        Ok(energy)
    }

    /// Temperature of the chip, in degrees Celsius.
    pub(crate) fn temperature(&self, device: DeviceHandle) -> Answer<u32> {
        let call = "nvmlDeviceGetTemperature";
        let function = found(call, &self.lib.nvmlDeviceGetTemperature)?;
        let sensor = nvml::nvmlTemperatureSensors_enum_NVML_TEMPERATURE_GPU;
        let mut degrees = 0;
        // SAFETY: writes one number.
        done(call, unsafe { function(device.0, sensor, &raw mut degrees) })?;
        Ok(degrees)
    }

    /// Temperature of the memory, in degrees Celsius.
    pub(crate) fn memory_temperature(&self, device: DeviceHandle) -> Answer<u32> {
        let call = "nvmlDeviceGetFieldValues";
        let function = found(call, &self.lib.nvmlDeviceGetFieldValues)?;
        let mut field = nvml::nvmlFieldValue_t {
            fieldId: nvml::field_id::NVML_FI_DEV_MEMORY_TEMP,
            scopeId: 0,
            timestamp: 0,
            latencyUsec: 0,
            valueType: 0,
            nvmlReturn: 0,
            value: nvml::nvmlValue_t { ullVal: 0 },
        };
        // SAFETY: reads and writes one struct of this type, which is the count given.
        done(call, unsafe { function(device.0, 1, &raw mut field) })?;
        done(call, field.nvmlReturn)?;
        // SAFETY: NVML documents the field's type as an unsigned int, and all 64 bits were set before.
        Ok(unsafe { field.value.uiVal })
    }

    /// Clocks in force.
    pub(crate) fn clocks(&self, device: DeviceHandle) -> Answer<Clocks> {
        let sm = self.clock(device, nvml::nvmlClockType_enum_NVML_CLOCK_SM)?;
        let memory = self.clock(device, nvml::nvmlClockType_enum_NVML_CLOCK_MEM)?;
        Ok(Clocks { sm, memory })
    }

    fn clock(&self, device: DeviceHandle, which: nvml::nvmlClockType_t) -> Answer<u32> {
        let call = "nvmlDeviceGetClockInfo";
        let function = found(call, &self.lib.nvmlDeviceGetClockInfo)?;
        let mut clock = 0;
        // SAFETY: writes one number.
        done(call, unsafe { function(device.0, which, &raw mut clock) })?;
        Ok(clock)
    }

    /// ECC errors since the driver was loaded.
    pub(crate) fn ecc(&self, device: DeviceHandle) -> Answer<EccCounts> {
        let corrected =
            self.ecc_of(device, nvml::nvmlMemoryErrorType_enum_NVML_MEMORY_ERROR_TYPE_CORRECTED)?;
        let uncorrected =
            self.ecc_of(device, nvml::nvmlMemoryErrorType_enum_NVML_MEMORY_ERROR_TYPE_UNCORRECTED)?;
        Ok(EccCounts { corrected, uncorrected })
    }

    fn ecc_of(&self, device: DeviceHandle, which: nvml::nvmlMemoryErrorType_t) -> Answer<u64> {
        let call = "nvmlDeviceGetTotalEccErrors";
        let function = found(call, &self.lib.nvmlDeviceGetTotalEccErrors)?;
        let since = nvml::nvmlEccCounterType_enum_NVML_VOLATILE_ECC;
        let mut count = 0;
        // SAFETY: writes one 64-bit number.
        done(call, unsafe { function(device.0, which, since, &raw mut count) })?;
        Ok(count)
    }

    /// Replays on the PCI link.
    pub(crate) fn pcie_replays(&self, device: DeviceHandle) -> Answer<u32> {
        self.number("nvmlDeviceGetPcieReplayCounter", &self.lib.nvmlDeviceGetPcieReplayCounter, device)
    }

    /// Rows of memory that were remapped.
    pub(crate) fn remapped_rows(&self, device: DeviceHandle) -> Answer<RemappedRows> {
        let call = "nvmlDeviceGetRemappedRows";
        let function = found(call, &self.lib.nvmlDeviceGetRemappedRows)?;
        let (mut correctable, mut uncorrectable, mut pending, mut failed) = (0, 0, 0, 0);
        // SAFETY: writes four numbers.
        let code = unsafe {
            function(
                device.0,
                &raw mut correctable,
                &raw mut uncorrectable,
                &raw mut pending,
                &raw mut failed,
            )
        };
        done(call, code)?;
        Ok(RemappedRows { correctable, uncorrectable, failed: failed != 0 })
    }

    /// The processes of one kind, without names.
    pub(crate) fn processes(&self, device: DeviceHandle, kind: ProcessKind) -> Answer<Vec<Process>> {
        let lib = &self.lib;
        let (call, newest, before) = match kind {
            ProcessKind::Compute => (
                "nvmlDeviceGetComputeRunningProcesses_v3",
                &lib.nvmlDeviceGetComputeRunningProcesses_v3,
                &lib.nvmlDeviceGetComputeRunningProcesses_v2,
            ),
            ProcessKind::Graphics => (
                "nvmlDeviceGetGraphicsRunningProcesses_v3",
                &lib.nvmlDeviceGetGraphicsRunningProcesses_v3,
                &lib.nvmlDeviceGetGraphicsRunningProcesses_v2,
            ),
            ProcessKind::Mps => (
                "nvmlDeviceGetMPSComputeRunningProcesses_v3",
                &lib.nvmlDeviceGetMPSComputeRunningProcesses_v3,
                &lib.nvmlDeviceGetMPSComputeRunningProcesses_v2,
            ),
        };
        let listed = match list_processes(call, newest, device) {
            Err(error) if error.code == Code::FunctionNotFound => {
                list_processes_second(call, before, device)?
            }
            answer => answer?,
        };
        Ok(listed.into_iter().map(|info| info.process(kind)).collect())
    }
}

fn list_processes(
    call: &'static str,
    function: &Found<ProcessesOf>,
    device: DeviceHandle,
) -> Answer<Vec<Info>> {
    let function = found(call, function)?;
    list_of::<Info>(call, |buffer, count| {
        // SAFETY: `Info` has the layout of NVML's struct, and the buffer holds `count` of them; null asks for the number.
        unsafe { function(device.0, count, buffer.cast()) }
    })
}

fn list_processes_second(
    call: &'static str,
    function: &Found<ProcessesOfSecond>,
    device: DeviceHandle,
) -> Answer<Vec<Info>> {
    let function = found(call, function)?;
    list_of::<Info>(call, |buffer, count| {
        // SAFETY: as above; the second version writes the same struct.
        unsafe { function(device.0, count, buffer.cast()) }
    })
}

/// The layout of NVML's process, with a default for buffers.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Info {
    pid: u32,
    memory: u64,
    gpu_instance: u32,
    compute_instance: u32,
}

const _: () = assert!(size_of::<Info>() == size_of::<nvml::nvmlProcessInfo_t>());
const _: () = assert!(size_of::<Info>() == size_of::<nvml::nvmlProcessInfo_v2_t>());

impl Info {
    fn process(self, kind: ProcessKind) -> Process {
        let id = |id: u32| (id != NO_ID).then_some(id);
        Process {
            pid: self.pid,
            kind,
            memory_bytes: (self.memory != NOT_AVAILABLE).then_some(self.memory),
            gpu_instance: id(self.gpu_instance),
            compute_instance: id(self.compute_instance),
            name: None,
        }
    }
}
