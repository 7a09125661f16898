//! What a driver tells of GPUs, profiles, instances and processes.

use serde::{Deserialize, Serialize};

use super::{GpuUuid, MigUuid};
use crate::product::{Engines, Placement};

/// Versions in force on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// Of the kernel driver, such as `580.95.05`.
    pub driver: String,
    /// Of the library, such as `13.580.95.05`.
    pub nvml: String,
    /// Newest CUDA version the driver can run, as thousands of the major and tens of the minor: `13000`.
    pub cuda: Option<u32>,
}

/// Who a GPU is; nothing here changes while the driver is loaded, but for the minor number after a reset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuIdentity {
    /// Position in the driver's list, from 0.
    pub index: u32,
    /// Its name for good.
    pub uuid: GpuUuid,
    /// Product name, such as `NVIDIA H100 80GB HBM3`.
    pub name: String,
    /// PCI address, such as `00000000:3B:00.0`.
    pub pci_bus_id: String,
    /// Device id in the upper 16 bits, vendor id in the lower: `0x233010DE`.
    pub pci_device_id: u32,
    /// The same of the subsystem.
    pub pci_subsystem_id: u32,
    /// Number of the device file: `/dev/nvidia3`.
    pub minor: Option<u32>,
    /// Memory in bytes, as the driver counts it.
    pub memory_bytes: u64,
    /// CUDA compute capability, major and minor.
    pub compute_capability: Option<(u32, u32)>,
}

/// MIG mode of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigMode {
    /// Whether it is on.
    pub current: bool,
    /// Whether it will be on after the next reset.
    pub pending: bool,
}

/// What became of a wish for another MIG mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Activation {
    /// It is in force.
    Done,
    /// It waits. The code says for what: `InUse` for the GPU to be idle, `ResetRequired` for a reset or reboot.
    Pending(super::Code),
}

/// A GPU-instance profile as the driver describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuInstanceProfile {
    /// The enum value that asks for it (`NVML_GPU_INSTANCE_PROFILE_…`).
    pub profile_enum: u32,
    /// The profile id, by which it is created and listed. Another number than the enum value.
    pub id: u32,
    /// Its name where the driver gives one, such as `MIG 1g.10gb`, without the leading `MIG `.
    pub name: Option<String>,
    /// Compute slices.
    pub compute_slices: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Most instances of it on an empty GPU.
    pub max_instances: u32,
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Engines; every one is known.
    pub engines: Engines,
}

/// A GPU instance that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GpuInstance {
    /// Small number, used again after it is gone.
    pub id: u32,
    /// Its profile id.
    pub profile: u32,
    /// Where it sits, in memory units.
    pub placement: Placement,
}

/// A compute-instance profile as the driver describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComputeInstanceProfile {
    /// The enum value that asks for it (`NVML_COMPUTE_INSTANCE_PROFILE_…`).
    pub profile_enum: u32,
    /// The profile id.
    pub id: u32,
    /// Compute slices.
    pub slices: u32,
    /// Most instances of it in an empty GPU instance.
    pub max_instances: u32,
    /// Streaming multiprocessors.
    pub sms: u32,
}

/// A compute instance that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ComputeInstance {
    /// Small number, used again after it is gone.
    pub id: u32,
    /// The GPU instance it is in.
    pub gpu_instance: u32,
    /// Its profile id.
    pub profile: u32,
    /// Where it sits, in compute slices of its GPU instance.
    pub placement: Placement,
}

/// A MIG device: a compute instance with the GPU instance it is in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigDevice {
    /// Position in the driver's list, from 0. There may be gaps.
    pub index: u32,
    /// Its name as long as it lives.
    pub uuid: MigUuid,
    /// Id of its GPU instance.
    pub gpu_instance: u32,
    /// Id of its compute instance.
    pub compute_instance: u32,
    /// Name for people, such as `NVIDIA H100 80GB HBM3 MIG 1g.10gb`.
    pub name: String,
    /// Memory in MiB.
    pub memory_mib: u64,
}

/// What names a MIG device across re-creation, reset and reboot, where ids and UUIDs do not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InstanceKey {
    /// The GPU.
    pub gpu: GpuUuid,
    /// GPU-instance profile id.
    pub profile: u32,
    /// First memory unit.
    pub start: u32,
    /// Compute-instance profile id.
    pub compute_profile: u32,
    /// First compute slice in the GPU instance.
    pub compute_start: u32,
}

/// How a process uses a GPU.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum ProcessKind {
    /// CUDA.
    Compute,
    /// Graphics.
    Graphics,
    /// CUDA through the MPS server.
    Mps,
}

/// A process that has a context on a GPU.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Process {
    /// Its id in the driver's own namespace, which is the host's.
    pub pid: u32,
    /// How it uses the GPU.
    pub kind: ProcessKind,
    /// Bytes of GPU memory; absent where the driver does not tell.
    pub memory_bytes: Option<u64>,
    /// GPU instance it is on, where MIG is on and the caller may know.
    pub gpu_instance: Option<u32>,
    /// Compute instance it is on, as above.
    pub compute_instance: Option<u32>,
    /// Name, where the driver gives one.
    pub name: Option<String>,
}
