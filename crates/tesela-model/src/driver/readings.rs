//! What a device is doing: counters and events.

use serde::{Deserialize, Serialize};

use super::GpuUuid;

/// Memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryUse {
    /// All of it.
    pub total: u64,
    /// Kept by the driver for itself.
    pub reserved: u64,
    /// Held by processes.
    pub used: u64,
    /// Free.
    pub free: u64,
}

/// Share of the last sampling period in which something ran, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Utilisation {
    /// Kernels on the multiprocessors.
    pub gpu: u32,
    /// Reads and writes of memory.
    pub memory: u32,
}

/// Clocks in MHz.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clocks {
    /// Of the multiprocessors.
    pub sm: u32,
    /// Of the memory.
    pub memory: u32,
}

/// ECC errors since the driver was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EccCounts {
    /// Corrected.
    pub corrected: u64,
    /// Not corrected.
    pub uncorrected: u64,
}

/// What can be read of a device. Absent: the driver does not support it on this device, in this mode.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Readings {
    /// Memory.
    pub memory: Option<MemoryUse>,
    /// Utilisation; not with MIG on.
    pub utilisation: Option<Utilisation>,
    /// Utilisation of the encoder, in percent.
    pub encoder_percent: Option<u32>,
    /// Utilisation of the decoder, in percent.
    pub decoder_percent: Option<u32>,
    /// Power drawn, in mW.
    pub power_milliwatts: Option<u32>,
    /// The limit in force, in mW.
    pub power_limit_milliwatts: Option<u32>,
    /// Energy since the driver was loaded, in mJ.
    pub energy_millijoules: Option<u64>,
    /// Temperature of the chip, in degrees Celsius.
    pub temperature_celsius: Option<u32>,
    /// Temperature of the memory, in degrees Celsius.
    pub memory_temperature_celsius: Option<u32>,
    /// Clocks.
    pub clocks: Option<Clocks>,
    /// ECC errors; absent with ECC off.
    pub ecc: Option<EccCounts>,
    /// Replays on the PCI link since the driver was loaded.
    pub pcie_replays: Option<u32>,
    /// Rows of memory remapped after correctable and uncorrectable errors.
    pub remapped_rows: Option<(u32, u32)>,
    /// Whether remapping a row failed: the GPU is to be replaced.
    pub row_remap_failed: Option<bool>,
}

/// What happened to a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceEvent {
    /// The GPU.
    pub gpu: GpuUuid,
    /// GPU and compute instance, where the event is of one.
    pub instance: Option<(u32, u32)>,
    /// What.
    pub kind: EventKind,
}

/// Kinds of events that bear on a device's health.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EventKind {
    /// An XID error, by its number.
    Xid(u64),
    /// A single-bit ECC error, corrected.
    SingleBitEcc,
    /// A double-bit ECC error.
    DoubleBitEcc,
    /// MIG mode or instances changed.
    MigConfigChange,
}
