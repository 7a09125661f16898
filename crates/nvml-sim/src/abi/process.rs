//! Processes, in each version of each list.

use std::ffi::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings as nvml;
use tesela_model::driver::{Code, Device, Process, ProcessKind};
use tesela_sim::call::Call;

use super::handle::Handle;
use super::pointer::{InOut, Items, Versioned};
use crate::live::Live;

/// What NVML writes where it cannot tell a number of 64 bits, and where there is no instance.
const NOT_AVAILABLE: u64 = u64::MAX;
const NO_INSTANCE: u32 = u32::MAX;

macro_rules! lists {
    ($($(#[$doc:meta])* $name:ident of $kind:ident as $info:ident;)*) => {
        functions! {$(
            $(#[$doc])*
            fn $name(device: Handle, count: InOut<c_uint>, infos: Items<nvml::$info>) = |live| {
                let all = processes(live, device, ProcessKind::$kind)?;
                infos.list(&count, &all.iter().map(<nvml::$info as Info>::of).collect::<Vec<_>>())
            };
        )*}
    };
}

lists! {
    /// Processes that compute, without instances.
    nvmlDeviceGetComputeRunningProcesses of Compute as nvmlProcessInfo_v1_t;
    /// The same with instances.
    nvmlDeviceGetComputeRunningProcesses_v2 of Compute as nvmlProcessInfo_v2_t;
    /// The same.
    nvmlDeviceGetComputeRunningProcesses_v3 of Compute as nvmlProcessInfo_t;
    /// Processes that draw, without instances.
    nvmlDeviceGetGraphicsRunningProcesses of Graphics as nvmlProcessInfo_v1_t;
    /// The same with instances.
    nvmlDeviceGetGraphicsRunningProcesses_v2 of Graphics as nvmlProcessInfo_v2_t;
    /// The same.
    nvmlDeviceGetGraphicsRunningProcesses_v3 of Graphics as nvmlProcessInfo_t;
    /// Clients of the MPS server, without instances.
    nvmlDeviceGetMPSComputeRunningProcesses of Mps as nvmlProcessInfo_v1_t;
    /// The same with instances.
    nvmlDeviceGetMPSComputeRunningProcesses_v2 of Mps as nvmlProcessInfo_v2_t;
    /// The same.
    nvmlDeviceGetMPSComputeRunningProcesses_v3 of Mps as nvmlProcessInfo_t;
}

functions! {
    /// Processes of one kind in a versioned struct.
    fn nvmlDeviceGetRunningProcessDetailList(device: Handle, list: Versioned) = |live| {
        let asked = list.get::<nvml::nvmlProcessDetailList_v1_t>(1)?;
        let kind = match asked.mode {
            0 => ProcessKind::Compute,
            1 => ProcessKind::Graphics,
            2 => ProcessKind::Mps,
            _ => return Err(Code::InvalidArgument),
        };
        let all = processes(live, device, kind)?;
        let details = all.iter().map(|process| nvml::nvmlProcessDetail_v1_t {
            pid: process.pid,
            usedGpuMemory: process.memory_bytes.unwrap_or(NOT_AVAILABLE),
            gpuInstanceId: process.gpu_instance.unwrap_or(NO_INSTANCE),
            computeInstanceId: process.compute_instance.unwrap_or(NO_INSTANCE),
            usedGpuCcProtectedMemory: NOT_AVAILABLE,
        });
        let details = details.collect::<Vec<_>>();
        let numProcArrayEntries = length_of(&details)?;
        list.put(1, nvml::nvmlProcessDetailList_v1_t { numProcArrayEntries, ..asked })?;
        let array = Items::of(asked.procArray);
        if numProcArrayEntries > asked.numProcArrayEntries || array.is_null() && numProcArrayEntries > 0 {
            return Err(Code::InsufficientSize);
        }
        array.put_all(&details)
    };

    /// What each process kept busy since a time; not with MIG on.
    fn nvmlDeviceGetProcessUtilization(device: Handle, samples: Items<nvml::nvmlProcessUtilizationSample_t>, count: InOut<c_uint>, since: c_ulonglong) = |live| {
        let all = samples_of(live, device, since)?;
        let all = all.iter().map(|sample| nvml::nvmlProcessUtilizationSample_t {
            pid: sample.pid,
            timeStamp: sample.time,
            smUtil: sample.percent,
            memUtil: sample.memory_percent,
            encUtil: 0,
            decUtil: 0,
        });
        samples.list(&count, &all.collect::<Vec<_>>())
    };

    /// The same in a versioned struct.
    fn nvmlDeviceGetProcessesUtilizationInfo(device: Handle, info: Versioned) = |live| {
        let asked = info.get::<nvml::nvmlProcessesUtilizationInfo_v1_t>(1)?;
        let all = samples_of(live, device, asked.lastSeenTimeStamp)?;
        let all = all.iter().map(|sample| nvml::nvmlProcessUtilizationInfo_v1_t {
            timeStamp: sample.time,
            pid: sample.pid,
            smUtil: sample.percent,
            memUtil: sample.memory_percent,
            encUtil: 0,
            decUtil: 0,
            jpgUtil: 0,
            ofaUtil: 0,
        });
        let all = all.collect::<Vec<_>>();
        let processSamplesCount = length_of(&all)?;
        info.put(1, nvml::nvmlProcessesUtilizationInfo_v1_t { processSamplesCount, ..asked })?;
        let array = Items::of(asked.procUtilArray);
        if processSamplesCount > asked.processSamplesCount || array.is_null() && processSamplesCount > 0 {
            return Err(Code::InsufficientSize);
        }
        array.put_all(&all)
    };
}

/// The processes of a kind on a GPU, or on a MIG device.
fn processes(live: &mut Live, device: Handle, kind: ProcessKind) -> Result<Vec<Process>, Code> {
    let device = live.device(device)?;
    let on = match &device {
        Device::Gpu(_) => None,
        Device::Mig { gpu, mig } => {
            let found = live.mig_device(gpu, mig)?;
            Some((found.gpu_instance, found.compute_instance))
        }
    };
    let all = live.ask(Call::Processes, |sim| sim.processes(device.gpu()))?;
    let here = |p: &Process| {
        let of = p.gpu_instance.zip(p.compute_instance);
        p.kind == kind && on.is_none_or(|on| of == Some(on))
    };
    Ok(all.into_iter().filter(here).collect())
}

/// A process as a version of NVML's struct has it.
trait Info {
    fn of(process: &Process) -> Self;
}

impl Info for nvml::nvmlProcessInfo_v1_t {
    fn of(process: &Process) -> Self {
        Self { pid: process.pid, usedGpuMemory: process.memory_bytes.unwrap_or(NOT_AVAILABLE) }
    }
}

/// Also `nvmlProcessInfo_t`, of the third version.
impl Info for nvml::nvmlProcessInfo_v2_t {
    fn of(process: &Process) -> Self {
        Self {
            pid: process.pid,
            usedGpuMemory: process.memory_bytes.unwrap_or(NOT_AVAILABLE),
            gpuInstanceId: process.gpu_instance.unwrap_or(NO_INSTANCE),
            computeInstanceId: process.compute_instance.unwrap_or(NO_INSTANCE),
        }
    }
}

/// What a process kept busy.
struct Sample {
    pid: u32,
    time: u64,
    percent: u32,
    memory_percent: u32,
}

/// One sample for each process that computes. None since a time that is not over yet, and that is "not found", as NVML
/// has it.
fn samples_of(live: &mut Live, device: Handle, since: u64) -> Result<Vec<Sample>, Code> {
    let gpu = live.without_mig(device)?;
    let now = live.unix_micros();
    let busy = live.busy(&gpu.uuid)?;
    if since >= now || busy.is_empty() {
        return Err(Code::NotFound);
    }
    let sample = |(pid, percent): (u32, u32)| Sample { pid, time: now, percent, memory_percent: percent / 2 };
    Ok(busy.into_iter().map(sample).collect())
}

fn length_of<T>(items: &[T]) -> Result<c_uint, Code> {
    c_uint::try_from(items.len()).map_err(|_| Code::Unknown)
}
