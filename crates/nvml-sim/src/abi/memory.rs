//! Memory, its errors, and the PCI link.

use std::ffi::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings as nvml;
use tesela_model::driver::{Code, EccCounts, MemoryUse};

use super::handle::Handle;
use super::pointer::{Out, Versioned};
use crate::facts;
use crate::live::Live;

functions! {
    /// Memory; what the driver reserves counts as used, as the first version has it.
    fn nvmlDeviceGetMemoryInfo(device: Handle, memory: Out<nvml::nvmlMemory_t>) = |live| {
        let MemoryUse { total, reserved, used, free } = memory_of(live, device)?;
        memory.put(nvml::nvmlMemory_t { total, free, used: used + reserved })
    };

    /// Memory; what the driver reserves is told apart.
    fn nvmlDeviceGetMemoryInfo_v2(device: Handle, memory: Versioned) = |live| {
        let MemoryUse { total, reserved, used, free } = memory_of(live, device)?;
        let version = memory.version()?;
        memory.put(2, nvml::nvmlMemory_v2_t { version, total, reserved, free, used })
    };

    /// The window into memory on the PCI bus.
    fn nvmlDeviceGetBAR1MemoryInfo(device: Handle, memory: Out<nvml::nvmlBAR1Memory_t>) = |live| {
        let total = facts::bar1_bytes(live.board_of_device(device)?);
        let used = facts::BAR1_USED;
        memory.put(nvml::nvmlBAR1Memory_t { bar1Total: total, bar1Free: total - used, bar1Used: used })
    };

    /// Whether errors are corrected, now and after a reset.
    fn nvmlDeviceGetEccMode(device: Handle, current: Out<nvml::nvmlEnableState_t>, pending: Out<nvml::nvmlEnableState_t>) = |live| {
        let mode = ecc_mode(live, device)?;
        current.check()?;
        pending.put(mode)?;
        current.put(mode)
    };

    /// Whether errors are corrected unless somebody says otherwise.
    fn nvmlDeviceGetDefaultEccMode(device: Handle, mode: Out<nvml::nvmlEnableState_t>) = |live| {
        live.gpu(device)?;
        mode.put(nvml::nvmlEnableState_enum_NVML_FEATURE_ENABLED)
    };

    /// Errors, since the driver was loaded or in the GPU's life.
    fn nvmlDeviceGetTotalEccErrors(device: Handle, kind: nvml::nvmlMemoryErrorType_t, counter: nvml::nvmlEccCounterType_t, count: Out<c_ulonglong>) = |live| {
        count.put(ecc(live, device, kind, counter)?)
    };

    /// The same by place: the emulation has them all in device memory.
    fn nvmlDeviceGetMemoryErrorCounter(device: Handle, kind: nvml::nvmlMemoryErrorType_t, counter: nvml::nvmlEccCounterType_t, place: nvml::nvmlMemoryLocation_t, count: Out<c_ulonglong>) = |live| {
        let all = ecc(live, device, kind, counter)?;
        if place >= nvml::nvmlMemoryLocation_enum_NVML_MEMORY_LOCATION_COUNT {
            return Err(Code::InvalidArgument);
        }
        // NVML_MEMORY_LOCATION_DEVICE_MEMORY and its synonym DRAM are 2.
        count.put(if place == nvml::nvmlMemoryLocation_enum_NVML_MEMORY_LOCATION_DEVICE_MEMORY { all } else { 0 })
    };

    /// Rows of memory that were remapped.
    fn nvmlDeviceGetRemappedRows(device: Handle, correctable: Out<c_uint>, uncorrectable: Out<c_uint>, pending: Out<c_uint>, failed: Out<c_uint>) = |live| {
        let counters = live.gpu(device)?.counters;
        for place in [&correctable, &uncorrectable, &pending, &failed] {
            place.check()?;
        }
        correctable.put(counters.remapped_rows.0)?;
        uncorrectable.put(counters.remapped_rows.1)?;
        pending.put(0)?;
        failed.put(c_uint::from(counters.remap_failed))
    };

    /// How many banks have how many spare rows left.
    fn nvmlDeviceGetRowRemapperHistogram(device: Handle, values: Out<nvml::nvmlRowRemapperHistogramValues_t>) = |live| {
        let counters = live.gpu(device)?.counters;
        let spent = counters.remapped_rows.0 + counters.remapped_rows.1;
        let touched = spent.min(facts::MEMORY_BANKS);
        values.put(nvml::nvmlRowRemapperHistogramValues_t {
            max: facts::MEMORY_BANKS - touched,
            high: touched - c_uint::from(counters.remap_failed && touched > 0),
            partial: 0,
            low: 0,
            none: c_uint::from(counters.remap_failed && touched > 0),
        })
    };

    /// Replays on the PCI link.
    fn nvmlDeviceGetPcieReplayCounter(device: Handle, count: Out<c_uint>) = |live| {
        count.put(live.gpu(device)?.counters.pcie_replays)
    };

    /// Generation of the PCI link now.
    fn nvmlDeviceGetCurrPcieLinkGeneration(device: Handle, generation: Out<c_uint>) = |live| {
        generation.put(facts::pcie_generation(live.board(device)?))
    };
    /// Generation that GPU and system together can do.
    fn nvmlDeviceGetMaxPcieLinkGeneration(device: Handle, generation: Out<c_uint>) = |live| {
        generation.put(facts::pcie_generation(live.board(device)?))
    };
    /// Generation that the GPU can do.
    fn nvmlDeviceGetGpuMaxPcieLinkGeneration(device: Handle, generation: Out<c_uint>) = |live| {
        generation.put(facts::pcie_generation(live.board(device)?))
    };
    /// Lanes now.
    fn nvmlDeviceGetCurrPcieLinkWidth(device: Handle, lanes: Out<c_uint>) = |live| {
        live.gpu(device)?;
        lanes.put(facts::PCIE_LANES)
    };
    /// Most lanes.
    fn nvmlDeviceGetMaxPcieLinkWidth(device: Handle, lanes: Out<c_uint>) = |live| {
        live.gpu(device)?;
        lanes.put(facts::PCIE_LANES)
    };
    /// Speed of a lane now, in Mbit/s.
    fn nvmlDeviceGetPcieSpeed(device: Handle, speed: Out<c_uint>) = |live| {
        speed.put(facts::pcie_lane_mbps(live.board(device)?))
    };
    /// Fastest a lane can be, as one of NVML's steps.
    fn nvmlDeviceGetPcieLinkMaxSpeed(device: Handle, speed: Out<c_uint>) = |live| {
        // NVML_PCIE_LINK_MAX_SPEED_2500MBPS is 1, and each generation is the next.
        speed.put(facts::pcie_generation(live.board(device)?))
    };

    /// Traffic on the PCI link, in KB/s: an estimate from how busy the GPU is.
    fn nvmlDeviceGetPcieThroughput(device: Handle, counter: nvml::nvmlPcieUtilCounter_t, value: Out<c_uint>) = |live| {
        live.without_mig(device)?;
        if counter >= nvml::nvmlPcieUtilCounter_enum_NVML_PCIE_UTIL_COUNT {
            return Err(Code::InvalidArgument);
        }
        let busy = live.readings(device)?.utilisation.ok_or(Code::NotSupported)?;
        value.put(busy.memory * facts::PCIE_KBPS_PER_PERCENT)
    };
}

fn memory_of(live: &mut Live, device: Handle) -> Result<MemoryUse, Code> {
    live.readings(device)?.memory.ok_or(Code::NotSupported)
}

fn ecc_mode(live: &mut Live, device: Handle) -> Result<nvml::nvmlEnableState_t, Code> {
    live.gpu(device)?;
    Ok(match live.readings(device)?.ecc {
        Some(_) => nvml::nvmlEnableState_enum_NVML_FEATURE_ENABLED,
        None => nvml::nvmlEnableState_enum_NVML_FEATURE_DISABLED,
    })
}

fn ecc(
    live: &mut Live,
    device: Handle,
    kind: nvml::nvmlMemoryErrorType_t,
    counter: nvml::nvmlEccCounterType_t,
) -> Result<u64, Code> {
    let gpu = live.gpu(device)?;
    let EccCounts { corrected, uncorrected } = match counter {
        nvml::nvmlEccCounterType_enum_NVML_VOLATILE_ECC => gpu.counters.ecc_counts(),
        nvml::nvmlEccCounterType_enum_NVML_AGGREGATE_ECC => {
            EccCounts { corrected: gpu.counters.ecc_ever.0, uncorrected: gpu.counters.ecc_ever.1 }
        }
        _ => return Err(Code::InvalidArgument),
    };
    match kind {
        nvml::nvmlMemoryErrorType_enum_NVML_MEMORY_ERROR_TYPE_CORRECTED => Ok(corrected),
        nvml::nvmlMemoryErrorType_enum_NVML_MEMORY_ERROR_TYPE_UNCORRECTED => Ok(uncorrected),
        _ => Err(Code::InvalidArgument),
    }
}
