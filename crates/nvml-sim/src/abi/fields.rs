//! Field values: readings by number, several in one call.

use std::ffi::c_int;

use nvml_wrapper_sys::bindings as nvml;
use nvml_wrapper_sys::bindings::field_id as fi;
use tesela_model::driver::{Code, Readings};
use tesela_sim::state::Gpu;

use super::handle::Handle;
use super::pointer::{Done, Items};
use crate::live::Live;

functions! {
    /// Reads fields; each says for itself whether it is supported.
    fn nvmlDeviceGetFieldValues(device: Handle, count: c_int, values: Items<nvml::nvmlFieldValue_t>) = |live| {
        let count = number_of(count)?;
        let gpu = live.gpu(device)?;
        let readings = live.readings(device)?;
        let now = i64::try_from(live.unix_micros()).unwrap_or(i64::MAX);
        for index in 0..count {
            let mut field = values.get(index)?;
            field.timestamp = now;
            field.latencyUsec = 0;
            match value(field.fieldId, &gpu, &readings) {
                Some(found) => found.write(&mut field),
                None => field.nvmlReturn = Code::NotSupported.number(),
            }
            values.put(index, field)?;
        }
        Ok(())
    };

    /// Sets counters back that fields read: none can be.
    fn nvmlDeviceClearFieldValues(device: Handle, count: c_int, values: Items<nvml::nvmlFieldValue_t>) = |live| {
        let count = number_of(count)?;
        live.gpu(device)?;
        refuse_all(live, count, &values)
    };
}

fn refuse_all(_live: &mut Live, count: usize, values: &Items<nvml::nvmlFieldValue_t>) -> Done {
    for index in 0..count {
        let mut field = values.get(index)?;
        field.nvmlReturn = Code::NotSupported.number();
        values.put(index, field)?;
    }
    Ok(())
}

/// More than there are fields is a mistake of the caller.
fn number_of(count: c_int) -> Result<usize, Code> {
    usize::try_from(count).ok().filter(|count| (1..=1024).contains(count)).ok_or(Code::InvalidArgument)
}

/// A value in one of the types of NVML's union.
enum Value {
    Unsigned(u32),
    Long(u64),
}

impl Value {
    fn write(self, field: &mut nvml::nvmlFieldValue_t) {
        field.nvmlReturn = nvml::nvmlReturn_enum_NVML_SUCCESS;
        // All 64 bits are written in either case, so that nothing of the caller's shines through.
        match self {
            Self::Unsigned(number) => {
                field.valueType = nvml::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT;
                field.value = nvml::nvmlValue_t { ullVal: u64::from(number) };
            }
            Self::Long(number) => {
                field.valueType = nvml::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
                field.value = nvml::nvmlValue_t { ullVal: number };
            }
        }
    }
}

/// The value of a field, as nvml.h lists them; `None` for what the emulation does not have.
fn value(id: u32, gpu: &Gpu, readings: &Readings) -> Option<Value> {
    let counters = &gpu.counters;
    let ecc = u32::from(readings.ecc.is_some());
    Some(match id {
        fi::NVML_FI_DEV_ECC_CURRENT | fi::NVML_FI_DEV_ECC_PENDING => Value::Unsigned(ecc),
        fi::NVML_FI_DEV_ECC_SBE_VOL_TOTAL | fi::NVML_FI_DEV_ECC_SBE_VOL_DEV => Value::Long(counters.ecc.0),
        fi::NVML_FI_DEV_ECC_DBE_VOL_TOTAL | fi::NVML_FI_DEV_ECC_DBE_VOL_DEV => Value::Long(counters.ecc.1),
        fi::NVML_FI_DEV_ECC_SBE_AGG_TOTAL | fi::NVML_FI_DEV_ECC_SBE_AGG_DEV => {
            Value::Long(counters.ecc_ever.0)
        }
        fi::NVML_FI_DEV_ECC_DBE_AGG_TOTAL | fi::NVML_FI_DEV_ECC_DBE_AGG_DEV => {
            Value::Long(counters.ecc_ever.1)
        }
        fi::NVML_FI_DEV_NVLINK_LINK_COUNT => Value::Unsigned(0),
        fi::NVML_FI_DEV_MEMORY_TEMP => Value::Unsigned(readings.memory_temperature_celsius?),
        fi::NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION => Value::Long(readings.energy_millijoules?),
        fi::NVML_FI_DEV_PCIE_REPLAY_COUNTER => Value::Unsigned(counters.pcie_replays),
        fi::NVML_FI_DEV_REMAPPED_COR => Value::Unsigned(counters.remapped_rows.0),
        fi::NVML_FI_DEV_REMAPPED_UNC => Value::Unsigned(counters.remapped_rows.1),
        fi::NVML_FI_DEV_REMAPPED_PENDING => Value::Unsigned(0),
        fi::NVML_FI_DEV_REMAPPED_FAILURE => Value::Unsigned(u32::from(counters.remap_failed)),
        fi::NVML_FI_DEV_POWER_AVERAGE | fi::NVML_FI_DEV_POWER_INSTANT => {
            Value::Unsigned(readings.power_milliwatts?)
        }
        fi::NVML_FI_DEV_POWER_CURRENT_LIMIT
        | fi::NVML_FI_DEV_POWER_DEFAULT_LIMIT
        | fi::NVML_FI_DEV_POWER_REQUESTED_LIMIT => Value::Unsigned(readings.power_limit_milliwatts?),
        fi::NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED => {
            let board = tesela_sim::board::Board::of(&gpu.product)?;
            Value::Unsigned(u32::from(!board.mode_needs_reset()))
        }
        fi::NVML_FI_DEV_IS_MIG_MODE_INDEPENDENT_MIG_QUERY_CAPABLE => Value::Unsigned(1),
        _ => return None,
    })
}
