//! Samples of performance counters (GPM): of Hopper and later, of GPUs and of GPU instances.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings as nvml;
use tesela_model::driver::Code;

use super::handle::{Handle, Thing};
use super::pointer::{Done, Out, Versioned};
use crate::facts;
use crate::live::{Live, Sample};

/// Versions of these structs are plain numbers (nvml.h), since callers end them where they like.
const FIRST: c_uint = 1;
/// More metrics than any version of NVML has.
const MOST_METRICS: u32 = 1024;

functions! {
    /// Whether a GPU has such counters.
    fn nvmlGpmQueryDeviceSupport(device: Handle, support: Versioned) = |live| {
        let has = facts::has_gpm(live.board(device)?);
        if support.version()? != FIRST {
            return Err(Code::ArgumentVersionMismatch);
        }
        let place = support.as_numbered::<nvml::nvmlGpmSupport_t>();
        place.put(nvml::nvmlGpmSupport_t { version: FIRST, isSupportedDevice: c_uint::from(has) })
    };

    /// Room for a sample.
    fn nvmlGpmSampleAlloc(sample: Out<Handle>) = |live| {
        sample.check()?;
        let made = live.new_sample();
        sample.put(live.handle(Thing::Sample(made)))
    };

    /// Gives a sample back.
    fn nvmlGpmSampleFree(sample: Handle) = |live| {
        let number = sample_of(live, sample)?;
        live.free_sample(number)
    };

    /// Takes a sample of a GPU.
    fn nvmlGpmSampleGet(device: Handle, sample: Handle) = |live| take(live, device, None, sample);

    /// Takes a sample of a GPU instance.
    fn nvmlGpmMigSampleGet(device: Handle, gpu_instance: c_uint, sample: Handle) = |live| {
        take(live, device, Some(gpu_instance), sample)
    };

    /// What happened between two samples.
    fn nvmlGpmMetricsGet(metrics: Versioned) = |live| {
        if metrics.version()? != FIRST {
            return Err(Code::ArgumentVersionMismatch);
        }
        let head = metrics.as_numbered::<Head>().get()?;
        let (first, second) = (sample_of(live, head.first)?, sample_of(live, head.second)?);
        let (first, second) = (live.sample(first)?, live.sample(second)?);
        if head.count > MOST_METRICS {
            return Err(Code::InvalidArgument);
        }
        let items = metrics.behind::<Head, nvml::nvmlGpmMetric_t>();
        for index in 0..usize::try_from(head.count).unwrap_or(0) {
            let mut metric = items.get(index)?;
            match between(metric.metricId, &first, &second) {
                Ok(value) => {
                    metric.value = value;
                    metric.nvmlReturn = nvml::nvmlReturn_enum_NVML_SUCCESS;
                }
                Err(code) => metric.nvmlReturn = code.number(),
            }
            items.put(index, metric)?;
        }
        Ok(())
    };
}

/// The beginning of `nvmlGpmMetricsGet_t`, before its metrics.
#[repr(C)]
#[derive(Clone, Copy)]
struct Head {
    version: c_uint,
    count: c_uint,
    first: Handle,
    second: Handle,
}

const _: () = assert!(size_of::<Head>() == std::mem::offset_of!(nvml::nvmlGpmMetricsGet_t, metrics));

fn sample_of(live: &mut Live, handle: Handle) -> Result<u32, Code> {
    match live.thing(handle)? {
        Thing::Sample(number) => Ok(number),
        _ => Err(Code::InvalidArgument),
    }
}

fn take(live: &mut Live, device: Handle, gpu_instance: Option<u32>, sample: Handle) -> Done {
    let gpu = live.gpu(device)?;
    if !facts::has_gpm(live.board(device)?) {
        return Err(Code::NotSupported);
    }
    let number = sample_of(live, sample)?;
    let taken = live.take_sample(&gpu.uuid, gpu_instance)?;
    live.keep_sample(number, taken)
}

/// A metric between two samples, in percent.
fn between(metric: c_uint, first: &Sample, second: &Sample) -> Result<f64, Code> {
    if first.of != second.of || second.time <= first.time {
        return Err(Code::InvalidArgument);
    }
    let busy = f64::midpoint(first.busy, second.busy) * 100.0;
    match metric {
        nvml::nvmlGpmMetricId_t_NVML_GPM_METRIC_GRAPHICS_UTIL
        | nvml::nvmlGpmMetricId_t_NVML_GPM_METRIC_SM_UTIL => Ok(busy),
        nvml::nvmlGpmMetricId_t_NVML_GPM_METRIC_DRAM_BW_UTIL => Ok(busy * facts::MEMORY_PER_BUSY),
        _ => Err(Code::NotSupported),
    }
}
