//! Sets of events.

use std::ffi::{c_uint, c_ulonglong};
use std::time::Duration;

use nvml_wrapper_sys::bindings as nvml;
use tesela_model::driver::{Code, EventKind};

use super::handle::{Handle, Thing};
use super::pointer::Out;
use crate::live::{self, Live, Reply};

const SINGLE: u64 = nvml::nvmlEventTypeSingleBitEccError as u64;
const DOUBLE: u64 = nvml::nvmlEventTypeDoubleBitEccError as u64;
const XID: u64 = nvml::nvmlEventTypeXidCriticalError as u64;
const CONFIG: u64 = nvml::nvmlEventMigConfigChange as u64;

/// What the emulated driver tells of.
const TOLD: u64 = SINGLE | DOUBLE | XID | CONFIG;

functions! {
    /// A new, empty set.
    fn nvmlEventSetCreate(set: Out<Handle>) = |live| {
        set.check()?;
        let made = live.new_event_set();
        set.put(live.handle(Thing::EventSet(made)))
    };

    /// Kinds of events of a GPU.
    fn nvmlDeviceGetSupportedEventTypes(device: Handle, kinds: Out<c_ulonglong>) = |live| {
        live.gpu(device)?;
        kinds.put(TOLD)
    };

    /// Adds events of a GPU to a set; those from now on.
    fn nvmlDeviceRegisterEvents(device: Handle, kinds: c_ulonglong, set: Handle) = |live| {
        let gpu = live.gpu(device)?.uuid;
        if kinds & !TOLD != 0 {
            return Err(Code::NotSupported);
        }
        let Thing::EventSet(number) = live.thing(set)? else { return Err(Code::InvalidArgument) };
        live.watch(number, gpu, kinds)
    };

    /// Gives a set back.
    fn nvmlEventSetFree(set: Handle) = |live| {
        let Thing::EventSet(number) = live.thing(set)? else { return Err(Code::InvalidArgument) };
        live.free_event_set(number)
    };
}

/// Waits for the next event of a set.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvmlEventSetWait_v2(
    set: Handle,
    data: Out<nvml::nvmlEventData_t>,
    timeout: c_uint,
) -> Reply {
    wait(set, data, timeout)
}

/// The same, of the first version.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvmlEventSetWait(
    set: Handle,
    data: Out<nvml::nvmlEventData_t>,
    timeout: c_uint,
) -> Reply {
    wait(set, data, timeout)
}

/// How often the log of events is looked at. An event is seen this late at most.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Looks at the log again and again, and holds nothing meanwhile.
fn wait(set: Handle, data: Out<nvml::nvmlEventData_t>, timeout: c_uint) -> Reply {
    let deadline = live::deadline(Duration::from_millis(u64::from(timeout)));
    let mut seen = None;
    loop {
        let reply = live::call("nvmlEventSetWait_v2", |live| {
            data.check()?;
            let Thing::EventSet(number) = live.thing(set)? else { return Err(Code::InvalidArgument) };
            seen = next(live, number)?;
            Ok(())
        });
        if reply != nvml::nvmlReturn_enum_NVML_SUCCESS {
            return reply;
        }
        if let Some(event) = seen {
            return live::reply(data.put(event));
        }
        if !live::rest(LOOK_EVERY, deadline) {
            return nvml::nvmlReturn_enum_NVML_ERROR_TIMEOUT;
        }
    }
}

/// The next event of a set, as NVML's struct has it.
fn next(live: &mut Live, set: u32) -> Result<Option<nvml::nvmlEventData_t>, Code> {
    let Some(event) = live.next_event(set, type_of)? else { return Ok(None) };
    let (gpu_instance, compute_instance) = event.instance.unwrap_or((u32::MAX, u32::MAX));
    let data = match event.kind {
        EventKind::Xid(number) => number,
        EventKind::SingleBitEcc | EventKind::DoubleBitEcc | EventKind::MigConfigChange => 0,
    };
    Ok(Some(nvml::nvmlEventData_t {
        device: live.handle(Thing::Gpu(event.gpu)).pointer(),
        eventType: type_of(event.kind),
        eventData: data,
        gpuInstanceId: gpu_instance,
        computeInstanceId: compute_instance,
    }))
}

/// The bit of a kind of event.
fn type_of(kind: EventKind) -> u64 {
    match kind {
        EventKind::Xid(_) => XID,
        EventKind::SingleBitEcc => SINGLE,
        EventKind::DoubleBitEcc => DOUBLE,
        EventKind::MigConfigChange => CONFIG,
    }
}
