//! Power, energy, temperature, clocks, utilisation.

use std::ffi::{c_int, c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings as nvml;
use tesela_model::driver::{Clocks, Code};

use super::handle::Handle;
use super::pointer::{InOut, Items, Out, Versioned};
use crate::facts;
use crate::live::Live;

functions! {
    /// Power drawn, in mW.
    fn nvmlDeviceGetPowerUsage(device: Handle, power: Out<c_uint>) = |live| {
        power.put(live.readings(device)?.power_milliwatts.ok_or(Code::NotSupported)?)
    };
    /// The limit in force, in mW.
    fn nvmlDeviceGetEnforcedPowerLimit(device: Handle, limit: Out<c_uint>) = |live| limit.put(power_limit(live, device)?);
    /// The limit that is set, in mW.
    fn nvmlDeviceGetPowerManagementLimit(device: Handle, limit: Out<c_uint>) = |live| limit.put(power_limit(live, device)?);
    /// The limit unless somebody sets another, in mW.
    fn nvmlDeviceGetPowerManagementDefaultLimit(device: Handle, limit: Out<c_uint>) = |live| limit.put(power_limit(live, device)?);
    /// Whether power is limited at all.
    fn nvmlDeviceGetPowerManagementMode(device: Handle, mode: Out<nvml::nvmlEnableState_t>) = |live| {
        power_limit(live, device)?;
        mode.put(nvml::nvmlEnableState_enum_NVML_FEATURE_ENABLED)
    };
    /// Energy since the driver was loaded, in mJ.
    fn nvmlDeviceGetTotalEnergyConsumption(device: Handle, energy: Out<c_ulonglong>) = |live| {
        energy.put(live.readings(device)?.energy_millijoules.ok_or(Code::NotSupported)?)
    };
    /// Performance state: data-centre GPUs stay in P0.
    fn nvmlDeviceGetPerformanceState(device: Handle, state: Out<nvml::nvmlPstates_t>) = |live| {
        live.gpu(device)?;
        state.put(nvml::nvmlPStates_enum_NVML_PSTATE_0)
    };
    /// The same.
    fn nvmlDeviceGetPowerState(device: Handle, state: Out<nvml::nvmlPstates_t>) = |live| {
        live.gpu(device)?;
        state.put(nvml::nvmlPStates_enum_NVML_PSTATE_0)
    };

    /// Temperature of the chip, in degrees Celsius.
    fn nvmlDeviceGetTemperature(device: Handle, sensor: nvml::nvmlTemperatureSensors_t, degrees: Out<c_uint>) = |live| {
        degrees.put(temperature(live, device, sensor)?)
    };
    /// The same in a versioned struct.
    fn nvmlDeviceGetTemperatureV(device: Handle, place: Versioned) = |live| {
        let asked = place.get::<nvml::nvmlTemperature_v1_t>(1)?;
        let degrees = temperature(live, device, asked.sensorType)?;
        let temperature = c_int::try_from(degrees).map_err(|_| Code::Unknown)?;
        place.put(1, nvml::nvmlTemperature_v1_t { temperature, ..asked })
    };

    /// A clock now, in MHz.
    fn nvmlDeviceGetClockInfo(device: Handle, which: nvml::nvmlClockType_t, clock: Out<c_uint>) = |live| {
        clock.put(self::clock(live, device, which)?)
    };
    /// A clock now, or one of its limits, in MHz.
    fn nvmlDeviceGetClock(device: Handle, which: nvml::nvmlClockType_t, id: nvml::nvmlClockId_t, clock: Out<c_uint>) = |live| {
        match id {
            nvml::nvmlClockId_enum_NVML_CLOCK_ID_CURRENT => clock.put(self::clock(live, device, which)?),
            nvml::nvmlClockId_enum_NVML_CLOCK_ID_CUSTOMER_BOOST_MAX => clock.put(most(live, device, which)?),
            _ => Err(Code::NotSupported),
        }
    };
    /// The highest a clock can be, in MHz.
    fn nvmlDeviceGetMaxClockInfo(device: Handle, which: nvml::nvmlClockType_t, clock: Out<c_uint>) = |live| {
        clock.put(most(live, device, which)?)
    };
    /// Why clocks are not higher: idle, or nothing.
    fn nvmlDeviceGetCurrentClocksEventReasons(device: Handle, reasons: Out<c_ulonglong>) = |live| {
        reasons.put(self::reasons(live, device)?)
    };
    /// The same by its old name.
    fn nvmlDeviceGetCurrentClocksThrottleReasons(device: Handle, reasons: Out<c_ulonglong>) = |live| {
        reasons.put(self::reasons(live, device)?)
    };
    /// Reasons that may be given.
    fn nvmlDeviceGetSupportedClocksEventReasons(device: Handle, reasons: Out<c_ulonglong>) = |live| {
        live.gpu(device)?;
        reasons.put(c_ulonglong::from(nvml::nvmlClocksEventReasonGpuIdle))
    };
    /// The same by its old name.
    fn nvmlDeviceGetSupportedClocksThrottleReasons(device: Handle, reasons: Out<c_ulonglong>) = |live| {
        live.gpu(device)?;
        reasons.put(c_ulonglong::from(nvml::nvmlClocksEventReasonGpuIdle))
    };
    /// Fans: none, the machine's cool it.
    fn nvmlDeviceGetNumFans(device: Handle, fans: Out<c_uint>) = |live| {
        live.gpu(device)?;
        fans.put(0)
    };

    /// Utilisation of multiprocessors and memory; not with MIG on.
    fn nvmlDeviceGetUtilizationRates(device: Handle, rates: Out<nvml::nvmlUtilization_t>) = |live| {
        let busy = live.readings(device)?.utilisation.ok_or(Code::NotSupported)?;
        rates.put(nvml::nvmlUtilization_t { gpu: busy.gpu, memory: busy.memory })
    };
    /// Utilisation of the encoder; not with MIG on.
    fn nvmlDeviceGetEncoderUtilization(device: Handle, percent: Out<c_uint>, period: Out<c_uint>) = |live| {
        let value = live.readings(device)?.encoder_percent;
        sampled(value, percent, period)
    };
    /// Utilisation of the decoder; not with MIG on.
    fn nvmlDeviceGetDecoderUtilization(device: Handle, percent: Out<c_uint>, period: Out<c_uint>) = |live| {
        let value = live.readings(device)?.decoder_percent;
        sampled(value, percent, period)
    };
    /// Utilisation of the JPEG decoder: none, not with MIG on.
    fn nvmlDeviceGetJpgUtilization(device: Handle, percent: Out<c_uint>, period: Out<c_uint>) = |live| {
        live.without_mig(device)?;
        sampled(Some(0), percent, period)
    };
    /// Utilisation of the optical-flow accelerator: none, not with MIG on.
    fn nvmlDeviceGetOfaUtilization(device: Handle, percent: Out<c_uint>, period: Out<c_uint>) = |live| {
        live.without_mig(device)?;
        sampled(Some(0), percent, period)
    };
    /// Streams that are encoded: none.
    fn nvmlDeviceGetEncoderStats(device: Handle, sessions: Out<c_uint>, frames: Out<c_uint>, latency: Out<c_uint>) = |live| {
        live.without_mig(device)?;
        sessions.check()?;
        frames.check()?;
        latency.put(0)?;
        frames.put(0)?;
        sessions.put(0)
    };
    /// The same one by one: none.
    fn nvmlDeviceGetEncoderSessions(device: Handle, count: InOut<c_uint>, sessions: Items<nvml::nvmlEncoderSessionInfo_t>) = |live| {
        let _ = sessions;
        live.without_mig(device)?;
        count.get()?;
        count.put(0)
    };
}

fn power_limit(live: &mut Live, device: Handle) -> Result<u32, Code> {
    live.gpu(device)?;
    live.readings(device)?.power_limit_milliwatts.ok_or(Code::NotSupported)
}

fn temperature(live: &mut Live, device: Handle, sensor: nvml::nvmlTemperatureSensors_t) -> Result<u32, Code> {
    if sensor != nvml::nvmlTemperatureSensors_enum_NVML_TEMPERATURE_GPU {
        return Err(Code::InvalidArgument);
    }
    live.readings(device)?.temperature_celsius.ok_or(Code::NotSupported)
}

fn of(clocks: Clocks, which: nvml::nvmlClockType_t) -> Result<u32, Code> {
    match which {
        nvml::nvmlClockType_enum_NVML_CLOCK_GRAPHICS
        | nvml::nvmlClockType_enum_NVML_CLOCK_SM
        | nvml::nvmlClockType_enum_NVML_CLOCK_VIDEO => Ok(clocks.sm),
        nvml::nvmlClockType_enum_NVML_CLOCK_MEM => Ok(clocks.memory),
        _ => Err(Code::InvalidArgument),
    }
}

fn clock(live: &mut Live, device: Handle, which: nvml::nvmlClockType_t) -> Result<u32, Code> {
    of(live.readings(device)?.clocks.ok_or(Code::NotSupported)?, which)
}

fn most(live: &mut Live, device: Handle, which: nvml::nvmlClockType_t) -> Result<u32, Code> {
    of(live.readings(device)?.clocks.ok_or(Code::NotSupported)?, which)
}

fn reasons(live: &mut Live, device: Handle) -> Result<c_ulonglong, Code> {
    let idle = live.gpu(device)?.processes.is_empty();
    Ok(if idle { c_ulonglong::from(nvml::nvmlClocksEventReasonGpuIdle) } else { 0 })
}

fn sampled(value: Option<u32>, percent: Out<c_uint>, period: Out<c_uint>) -> super::pointer::Done {
    let value = value.ok_or(Code::NotSupported)?;
    percent.check()?;
    period.put(facts::SAMPLING_PERIOD_US)?;
    percent.put(value)
}
