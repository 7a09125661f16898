//! Events: sets of them, and waiting.

use std::ffi::c_uint;
use std::time::Duration;

use nvml_wrapper_sys::bindings as nvml;
use tesela_model::driver::{Answer, Code, DriverError};

use super::{Api, DeviceHandle, EventSetHandle, done, found};

/// Events that bear on a device's health or layout.
const WANTED: u64 = nvml::nvmlEventTypeSingleBitEccError as u64
    | nvml::nvmlEventTypeDoubleBitEccError as u64
    | nvml::nvmlEventTypeXidCriticalError as u64
    | nvml::nvmlEventMigConfigChange as u64;

/// An event as NVML tells it.
pub(crate) struct Happened {
    pub(crate) device: DeviceHandle,
    /// One of NVML's event types.
    pub(crate) kind: u64,
    /// The number of an XID.
    pub(crate) data: u64,
    /// GPU and compute instance, where the event is of one.
    pub(crate) instance: Option<(u32, u32)>,
}

// Errors of all of these: what NVML answers.
impl Api {
    /// A new, empty set.
    pub(crate) fn event_set(&self) -> Answer<EventSetHandle> {
        let call = "nvmlEventSetCreate";
        let function = found(call, &self.lib.nvmlEventSetCreate)?;
        let mut set = std::ptr::null_mut();
        // SAFETY: writes one handle.
        done(call, unsafe { function(&raw mut set) })?;
        Ok(EventSetHandle(set))
    }

    /// Puts the events of a device that we want and it can tell into a set; `false` when it can tell none.
    pub(crate) fn watch(&self, device: DeviceHandle, set: EventSetHandle) -> Answer<bool> {
        let call = "nvmlDeviceGetSupportedEventTypes";
        let function = found(call, &self.lib.nvmlDeviceGetSupportedEventTypes)?;
        let mut supported = 0;
        // SAFETY: writes one 64-bit number.
        done(call, unsafe { function(device.0, &raw mut supported) })?;
        let wanted = supported & WANTED;
        if wanted == 0 {
            return Ok(false);
        }
        let call = "nvmlDeviceRegisterEvents";
        let function = found(call, &self.lib.nvmlDeviceRegisterEvents)?;
        // SAFETY: takes handles that this library gave.
        done(call, unsafe { function(device.0, wanted, set.0) })?;
        Ok(true)
    }

    /// Waits for the next event of a set; `None` when the time is over.
    pub(crate) fn wait(&self, set: EventSetHandle, timeout: Duration) -> Answer<Option<Happened>> {
        let call = "nvmlEventSetWait_v2";
        let function = found(call, &self.lib.nvmlEventSetWait_v2)?;
        let mut data = nvml::nvmlEventData_t {
            device: std::ptr::null_mut(),
            eventType: 0,
            eventData: 0,
            gpuInstanceId: 0,
            computeInstanceId: 0,
        };
        let milliseconds = c_uint::try_from(timeout.as_millis()).unwrap_or(c_uint::MAX);
        // SAFETY: takes a handle that this library gave and writes one struct of this type.
        match Code::of(unsafe { function(set.0, &raw mut data, milliseconds) }) {
            None => {}
            Some(Code::Timeout) => return Ok(None),
            Some(code) => return Err(DriverError::new(call, code)),
        }
        let known = data.gpuInstanceId != u32::MAX && data.computeInstanceId != u32::MAX;
        Ok(Some(Happened {
            device: DeviceHandle(data.device),
            kind: data.eventType,
            data: data.eventData,
            instance: known.then_some((data.gpuInstanceId, data.computeInstanceId)),
        }))
    }

    /// Gives a set back. A failure leaves nothing to be done.
    pub(crate) fn free_event_set(&self, set: EventSetHandle) {
        if let Ok(function) = &self.lib.nvmlEventSetFree {
            // SAFETY: takes a handle that this library gave; it is not used again.
            let _ = unsafe { function(set.0) };
        }
    }
}
