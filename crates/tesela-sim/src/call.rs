//! The calls of NVML that the simulation knows: their names, who may make them, how long they take.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Rights {
    /// Read what anybody may.
    User,
    /// Besides, make and remove instances: who may open the capability file `mig/config`.
    MigConfig,
    /// Everything.
    Root,
}

macro_rules! calls {
    ($($name:ident = $text:literal, $rights:ident, $micros:literal;)*) => {
        /// A call, by what it does; the name is that of the C function.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[allow(missing_docs, reason = "each is named as the function it stands for")]
        pub enum Call {
            $($name,)*
        }

        impl Call {
            /// Every call.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The C function, or the command where NVML has none.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// What it needs (nvml.h, where a function answers `NVML_ERROR_NO_PERMISSION`).
            #[must_use]
            pub fn needs(self) -> Rights {
                match self {
                    $(Self::$name => Rights::$rights,)*
                }
            }

            /// How long it takes on hardware: [`crate::assumptions`].
            #[must_use]
            pub fn latency(self) -> Duration {
                Duration::from_micros(match self {
                    $(Self::$name => $micros,)*
                })
            }
        }
    };
}

calls! {
    Versions = "nvmlSystemGetDriverVersion", User, 20;
    Gpus = "nvmlDeviceGetHandleByIndex_v2", User, 20;
    MigMode = "nvmlDeviceGetMigMode", User, 20;
    SetMigMode = "nvmlDeviceSetMigMode", Root, 2_000_000;
    GpuInstanceProfiles = "nvmlDeviceGetGpuInstanceProfileInfoV", User, 20;
    Placements = "nvmlDeviceGetGpuInstancePossiblePlacements_v2", MigConfig, 20;
    RemainingCapacity = "nvmlDeviceGetGpuInstanceRemainingCapacity", MigConfig, 20;
    GpuInstances = "nvmlDeviceGetGpuInstances", MigConfig, 20;
    CreateGpuInstance = "nvmlDeviceCreateGpuInstanceWithPlacement", MigConfig, 130_000;
    DestroyGpuInstance = "nvmlGpuInstanceDestroy", MigConfig, 90_000;
    ComputeInstanceProfiles = "nvmlGpuInstanceGetComputeInstanceProfileInfoV", User, 20;
    ComputeInstances = "nvmlGpuInstanceGetComputeInstances", MigConfig, 20;
    CreateComputeInstance = "nvmlGpuInstanceCreateComputeInstanceWithPlacement", MigConfig, 30_000;
    DestroyComputeInstance = "nvmlComputeInstanceDestroy", MigConfig, 20_000;
    MigDevices = "nvmlDeviceGetMigDeviceHandleByIndex", User, 20;
    Processes = "nvmlDeviceGetComputeRunningProcesses_v3", User, 20;
    Readings = "nvmlDeviceGetMemoryInfo_v2", User, 20;
    WaitEvent = "nvmlEventSetWait_v2", User, 0;
    Reset = "nvidia-smi --gpu-reset", Root, 4_000_000;
}
