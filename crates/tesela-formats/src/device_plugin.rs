//! The config file of NVIDIA's k8s-device-plugin, `version: v1`, as its own parser (v0.20) reads it.
//!
//! The same file is read by the device plugin, GPU feature discovery and the MPS control daemon. The
//! parser is lenient: it drops unknown fields in silence, switches `devices`, `rename` and `resources`
//! off, and ends the program on a wrong value. [`read`] answers what it makes of a file, with a
//! [`Note`](crate::reading::Note) for each thing that does not come out as written.

mod cross;
mod device;
mod duration;
mod fields;
mod flags;
mod name;
mod read;
mod sharing;
mod write;

pub use device::{DeviceRef, Devices};
pub use duration::GoDuration;
pub(crate) use fields::is_telling;
pub use name::{ResourceName, ResourceNameError, pattern_matches};
pub(crate) use read::ignored_document;
pub use read::{LIMITS, read, read_node};

use crate::source::Located;

/// A whole config. Fields that are not set stay `None`: a flag, an environment variable or the
/// built-in default decides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    /// `flags`.
    pub flags: Flags,
    /// `sharing`.
    pub sharing: Sharing,
    /// `imex`.
    pub imex: Imex,
}

/// `flags`: what plugin and feature discovery share.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Flags {
    /// `migStrategy`, default none.
    pub mig_strategy: Option<Located<MigStrategy>>,
    /// `failOnInitError`, default true.
    pub fail_on_init_error: Option<Located<bool>>,
    /// `mpsRoot`: a path on the host.
    pub mps_root: Option<Located<String>>,
    /// `nvidiaDriverRoot`: a path on the host, default `/`.
    pub nvidia_driver_root: Option<Located<String>>,
    /// `nvidiaDevRoot`: a path on the host, default the driver root.
    pub nvidia_dev_root: Option<Located<String>>,
    /// `gdrcopyEnabled`, default false.
    pub gdrcopy_enabled: Option<Located<bool>>,
    /// `gdsEnabled`, default false.
    pub gds_enabled: Option<Located<bool>>,
    /// `mofedEnabled`, default false.
    pub mofed_enabled: Option<Located<bool>>,
    /// `useNodeFeatureAPI` (feature discovery only), default true.
    pub use_node_feature_api: Option<Located<bool>>,
    /// `deviceDiscoveryStrategy`, default auto.
    pub device_discovery_strategy: Option<Located<DiscoveryStrategy>>,
    /// `plugin`.
    pub plugin: Option<PluginFlags>,
    /// `gfd`.
    pub gfd: Option<GfdFlags>,
}

/// `flags.plugin`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PluginFlags {
    /// `passDeviceSpecs`, default false.
    pub pass_device_specs: Option<Located<bool>>,
    /// `deviceListStrategy`: one word or a list, default envvar.
    pub device_list_strategy: Option<Located<Vec<ListStrategy>>>,
    /// `deviceIDStrategy`, default uuid.
    pub device_id_strategy: Option<Located<IdStrategy>>,
    /// `cdiAnnotationPrefix`, default `cdi.k8s.io/`.
    pub cdi_annotation_prefix: Option<Located<String>>,
    /// `nvidiaCTKPath`: a path on the host.
    pub nvidia_ctk_path: Option<Located<String>>,
    /// `containerDriverRoot`, default `/driver-root`.
    pub container_driver_root: Option<Located<String>>,
    /// `sharedDevicesAllocationPolicy`, default distributed.
    pub shared_devices_allocation_policy: Option<Located<AllocationPolicy>>,
}

/// `flags.gfd`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GfdFlags {
    /// `oneshot`, default false.
    pub oneshot: Option<Located<bool>>,
    /// `noTimestamp`, default false.
    pub no_timestamp: Option<Located<bool>>,
    /// `sleepInterval`, default 60s.
    pub sleep_interval: Option<Located<GoDuration>>,
    /// `outputFile`: a path; empty is standard output.
    pub output_file: Option<Located<String>>,
    /// `machineTypeFile`: a path.
    pub machine_type_file: Option<Located<String>>,
}

/// `sharing`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sharing {
    /// `timeSlicing`.
    pub time_slicing: Option<Replicated>,
    /// `mps`. When present it wins over `timeSlicing`.
    pub mps: Option<Replicated>,
}

/// `sharing.timeSlicing` or `sharing.mps`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Replicated {
    /// `renameByDefault`: advertise `<name>.shared`; default false.
    pub rename_by_default: Option<Located<bool>>,
    /// `failRequestsGreaterThanOne`: refuse a container that asks for more than one replica; default
    /// false for time-slicing, true for MPS.
    pub fail_requests_greater_than_one: Option<Located<bool>>,
    /// `resources`, at least one.
    pub resources: Vec<ReplicatedResource>,
}

/// One resource that is replicated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicatedResource {
    /// `name`, as advertised before sharing.
    pub name: Located<ResourceName>,
    /// `rename`; not honoured (overwritten by the default).
    pub rename: Option<Located<ResourceName>>,
    /// `devices`; not honoured (overwritten by all).
    pub devices: Located<Devices>,
    /// `replicas` per device, at least 2.
    pub replicas: Located<u32>,
}

/// `imex`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Imex {
    /// `channelIDs`: nothing or channel 0.
    pub channel_ids: Vec<Located<i64>>,
    /// `required`, default false.
    pub required: Option<Located<bool>>,
}

/// How a node shares its devices once a config is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Not at all.
    None,
    /// By time-slicing.
    TimeSlicing,
    /// By MPS.
    Mps,
}

impl Sharing {
    /// The strategy that is active: MPS when present, else time-slicing when present.
    #[must_use]
    pub fn strategy(&self) -> Strategy {
        match (&self.mps, &self.time_slicing) {
            (Some(_), _) => Strategy::Mps,
            (None, Some(_)) => Strategy::TimeSlicing,
            (None, None) => Strategy::None,
        }
    }

    /// The resources of the active strategy.
    #[must_use]
    pub fn active(&self) -> Option<&Replicated> {
        self.mps.as_ref().or(self.time_slicing.as_ref())
    }
}

impl Replicated {
    /// Whether a container that asks for more than one replica is refused, defaults applied.
    #[must_use]
    pub fn refuses_more_than_one(&self, strategy: Strategy) -> bool {
        self.fail_requests_greater_than_one.map_or(strategy == Strategy::Mps, |fail| fail.value)
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$variant_doc])* $variant),*
        }

        impl $name {
            /// The words, in the order of the variants.
            pub const WORDS: &'static [&'static str] = &[$($word),*];

            /// The word in the file.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),*
                }
            }

            /// The value of a word, exactly as written.
            #[must_use]
            pub fn from_word(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

words! {
    /// `flags.migStrategy`.
    MigStrategy {
        /// MIG is not looked at.
        None = "none",
        /// Every MIG device is `nvidia.com/gpu`; all must be alike.
        Single = "single",
        /// Each profile has its own resource.
        Mixed = "mixed",
    }
}

words! {
    /// `flags.deviceDiscoveryStrategy`.
    DiscoveryStrategy {
        /// Whatever is there.
        Auto = "auto",
        /// Through NVML.
        Nvml = "nvml",
        /// Tegra.
        Tegra = "tegra",
        /// GPUs handed to virtual machines; feature discovery only.
        Vfio = "vfio",
    }
}

words! {
    /// `flags.plugin.deviceListStrategy`.
    ListStrategy {
        /// By environment variable.
        Envvar = "envvar",
        /// By mounts.
        VolumeMounts = "volume-mounts",
        /// By CDI annotations.
        CdiAnnotations = "cdi-annotations",
        /// By the CDI field of the kubelet's API.
        CdiCri = "cdi-cri",
    }
}

words! {
    /// `flags.plugin.deviceIDStrategy`.
    IdStrategy {
        /// UUIDs.
        Uuid = "uuid",
        /// Indexes.
        Index = "index",
    }
}

words! {
    /// `flags.plugin.sharedDevicesAllocationPolicy`.
    AllocationPolicy {
        /// Spread over devices.
        Distributed = "distributed",
        /// Fill one device first.
        Packed = "packed",
    }
}
