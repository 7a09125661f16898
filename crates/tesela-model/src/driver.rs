//! The port to the driver of a node's GPUs: what it can be asked, and what it answers.
//!
//! Words and return codes are NVML's. [`GpuDriver`] is implemented by the real library, by the simulated GPUs, and by
//! recorded sessions; who carries changes out or shows what is there knows only this trait. GPUs are named by UUID,
//! instances by the ids the driver gave them; handles never leave an implementation.

mod code;
mod facts;
mod readings;

use std::fmt;
use std::time::Duration;

pub use self::code::{Code, DriverError};
pub use self::facts::{
    Activation, ComputeInstance, ComputeInstanceProfile, GpuIdentity, GpuInstance, GpuInstanceProfile,
    InstanceKey, MigDevice, MigMode, Process, ProcessKind, Versions,
};
pub use self::readings::{Clocks, DeviceEvent, EccCounts, EventKind, MemoryUse, Readings, Utilisation};
use crate::product::Placement;

/// UUID of a GPU, such as `GPU-5f2c0a3e-…`. It names the device, whatever its index.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct GpuUuid(String);

/// UUID of a MIG device, such as `MIG-9c1d…`. A new one comes with each creation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct MigUuid(String);

macro_rules! uuid {
    ($name:ident) => {
        impl $name {
            /// Takes what the driver calls it, unchanged.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// As the driver calls it.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

uuid!(GpuUuid);
uuid!(MigUuid);

/// A GPU, or one MIG device on it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Device {
    /// The physical GPU.
    Gpu(GpuUuid),
    /// A MIG device of a GPU.
    Mig {
        /// The GPU.
        gpu: GpuUuid,
        /// The MIG device.
        mig: MigUuid,
    },
}

impl Device {
    /// The GPU that it is, or is on.
    #[must_use]
    pub fn gpu(&self) -> &GpuUuid {
        match self {
            Self::Gpu(gpu) | Self::Mig { gpu, .. } => gpu,
        }
    }
}

/// What a driver answers, or why not.
pub type Answer<T> = Result<T, DriverError>;

/// The driver of the GPUs of one node.
///
/// Calls take `&self`, since NVML may be called from several threads. Reading needs no rights but where it is said;
/// `privileged` calls answer [`Code::NoPermission`] without root or the capability file `mig/config`.
pub trait GpuDriver {
    /// Versions of driver and library.
    ///
    /// # Errors
    /// What the driver answers.
    fn versions(&self) -> Answer<Versions>;

    /// Every GPU in the order of the index. One that cannot be opened, being lost for example, is its error, in its
    /// place.
    ///
    /// # Errors
    /// When the GPUs cannot even be counted.
    fn gpus(&self) -> Answer<Vec<Answer<GpuIdentity>>>;

    /// MIG mode now and after the next reset; `None` on a GPU without MIG.
    ///
    /// # Errors
    /// What the driver answers.
    fn mig_mode(&self, gpu: &GpuUuid) -> Answer<Option<MigMode>>;

    /// Asks for MIG mode on or off. Privileged.
    ///
    /// # Errors
    /// What the driver answers; a mode that only waits is no error but [`Activation::Pending`].
    fn set_mig_mode(&self, gpu: &GpuUuid, enabled: bool) -> Answer<Activation>;

    /// The GPU-instance profiles that the driver offers on this GPU, by profile id; empty on a GPU without MIG. Works
    /// with MIG off.
    ///
    /// # Errors
    /// What the driver answers.
    fn gpu_instance_profiles(&self, gpu: &GpuUuid) -> Answer<Vec<GpuInstanceProfile>>;

    /// Where instances of a profile may sit, taken or not. Privileged. `profile` is a profile id, never an enum value.
    ///
    /// # Errors
    /// What the driver answers.
    fn placements(&self, gpu: &GpuUuid, profile: u32) -> Answer<Vec<Placement>>;

    /// How many more instances of a profile fit now. Privileged; [`Code::NotSupported`] with MIG off.
    ///
    /// # Errors
    /// What the driver answers.
    fn remaining_capacity(&self, gpu: &GpuUuid, profile: u32) -> Answer<u32>;

    /// Every GPU instance, by id, those without a compute instance too. Privileged. Empty with MIG off.
    ///
    /// # Errors
    /// What the driver answers.
    fn gpu_instances(&self, gpu: &GpuUuid) -> Answer<Vec<GpuInstance>>;

    /// Makes a GPU instance, at `placement` or where the driver likes. Privileged.
    ///
    /// # Errors
    /// [`Code::InsufficientResources`] where it does not fit, also when just that instance is there already.
    fn create_gpu_instance(
        &self,
        gpu: &GpuUuid,
        profile: u32,
        placement: Option<Placement>,
    ) -> Answer<GpuInstance>;

    /// Removes a GPU instance. Privileged.
    ///
    /// # Errors
    /// [`Code::InUse`] while a compute instance or a process is on it, and for a moment after.
    fn destroy_gpu_instance(&self, gpu: &GpuUuid, gpu_instance: u32) -> Answer<()>;

    /// The compute-instance profiles of a GPU instance, by profile id.
    ///
    /// # Errors
    /// What the driver answers.
    fn compute_instance_profiles(
        &self,
        gpu: &GpuUuid,
        gpu_instance: u32,
    ) -> Answer<Vec<ComputeInstanceProfile>>;

    /// Every compute instance of a GPU instance, by id. Privileged.
    ///
    /// # Errors
    /// What the driver answers.
    fn compute_instances(&self, gpu: &GpuUuid, gpu_instance: u32) -> Answer<Vec<ComputeInstance>>;

    /// Makes a compute instance, at `placement` (in compute slices of the GPU instance) or where the driver likes.
    /// Privileged.
    ///
    /// # Errors
    /// [`Code::InsufficientResources`] where it does not fit.
    fn create_compute_instance(
        &self,
        gpu: &GpuUuid,
        gpu_instance: u32,
        profile: u32,
        placement: Option<Placement>,
    ) -> Answer<ComputeInstance>;

    /// Removes a compute instance. Privileged.
    ///
    /// # Errors
    /// [`Code::InUse`] while a process is on it.
    fn destroy_compute_instance(&self, gpu: &GpuUuid, gpu_instance: u32, compute_instance: u32)
    -> Answer<()>;

    /// The MIG devices of a GPU, by index. Only what has a compute instance is one.
    ///
    /// # Errors
    /// What the driver answers.
    fn mig_devices(&self, gpu: &GpuUuid) -> Answer<Vec<MigDevice>>;

    /// The processes on a GPU, on all its MIG devices where MIG is on, by pid.
    ///
    /// # Errors
    /// What the driver answers.
    fn processes(&self, gpu: &GpuUuid) -> Answer<Vec<Process>>;

    /// What a device is doing. What the driver does not support is absent, never zero.
    ///
    /// # Errors
    /// When nothing at all can be read, the GPU being lost for example.
    fn readings(&self, device: &Device) -> Answer<Readings>;

    /// Waits for the next event of any GPU; `None` when the time is over.
    ///
    /// # Errors
    /// What the driver answers.
    fn wait_event(&self, timeout: Duration) -> Answer<Option<DeviceEvent>>;
}

/// Resets a GPU. NVML cannot; `nvidia-smi --gpu-reset` can.
pub trait GpuReset {
    /// Resets one idle GPU: a waiting MIG mode takes effect, instances go.
    ///
    /// # Errors
    /// [`Code::InUse`] while somebody has it open, [`Code::NotSupported`] where it cannot be reset, as in a virtual
    /// machine.
    fn reset(&self, gpu: &GpuUuid) -> Answer<()>;
}
