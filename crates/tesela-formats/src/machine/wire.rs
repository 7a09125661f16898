//! A machine file as written.

use schemars::JsonSchema;
use serde::Deserialize;
use tesela_model::driver::ProcessKind;
use tesela_model::machine::Health;

use crate::documents::scalar::{DutyText, Positive, Whole};
use crate::source::Located;

/// An emulated node: the GPUs that are plugged in, how they are cut, what runs on them.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MachineSpec {
    /// Version of the driver. Default: `580.95.05`.
    #[serde(default)]
    pub(super) driver: Option<Located<String>>,
    /// Where made-up values (UUIDs, serial numbers, noise) come from. Default: 0.
    #[serde(default)]
    pub(super) seed: Option<Located<Whole>>,
    /// Whether calls take the time they take on hardware. Default: false.
    #[serde(default)]
    pub(super) latency: Option<bool>,
    /// Refusals that pass: how a driver answers when a GPU instance is destroyed right after its compute instance.
    #[serde(default)]
    pub(super) in_use_after_destroy: Option<Passing>,
    /// GPUs in the order of their index, at most 64.
    pub(super) gpus: Vec<Located<GpuSpec>>,
}

/// How long a destroy is refused as in use though nobody uses it. Either number alone will do.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Passing {
    /// How many times. Default: 0.
    #[serde(default)]
    pub(super) answers: Option<Located<Whole>>,
    /// For how many milliseconds. Default: 0.
    #[serde(default)]
    pub(super) milliseconds: Option<Located<Whole>>,
}

/// One GPU, or several alike (`count`).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GpuSpec {
    /// Table id (`h100-sxm-80gb`) or exact NVML name (`NVIDIA H100 80GB HBM3`).
    pub(super) product: Located<String>,
    /// GPUs alike. Default: 1. Not with `uuid`, `serial`, `pci` or `processes`.
    #[serde(default)]
    pub(super) count: Option<Located<Positive>>,
    /// UUID of the GPU, such as `GPU-5f2c0a3e-7d1b-4c6e-9a58-0b6f1e2d3c4a`. Default: made from the seed.
    #[serde(default)]
    pub(super) uuid: Option<Located<String>>,
    /// Serial number, up to 13 digits. Default: made from the seed.
    #[serde(default)]
    pub(super) serial: Option<Located<String>>,
    /// PCI address, such as `00000000:3B:00.0`. Default: by index.
    #[serde(default)]
    pub(super) pci: Option<Located<String>>,
    /// GPU instances in the order they are made; an empty list means MIG is on and nothing is cut. Default: MIG is off.
    #[serde(default)]
    pub(super) mig: Option<Located<Vec<Located<InstanceSpec>>>>,
    /// What runs on it. Default: nothing.
    #[serde(default)]
    pub(super) processes: Vec<Located<ProcessSpec>>,
    /// `healthy`, `lost` (fell off the bus) or `reset_required`. Default: `healthy`.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub(super) health: Option<Located<Health>>,
    /// Programs that hold the GPU open without running anything on it, such as a monitor: they keep it from being reset.
    /// Default: none.
    #[serde(default)]
    pub(super) clients: Vec<Located<String>>,
    /// Whether it is passed through to a virtual machine and cannot be reset from inside. Default: false.
    #[serde(default)]
    pub(super) passthrough: Option<bool>,
}

/// A GPU instance and where it sits.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct InstanceSpec {
    /// Profile of the product, such as `1g.10gb`.
    pub(super) profile: Located<String>,
    /// First memory unit, from 0, as `nvidia-smi mig -lgi` prints it.
    pub(super) start: Located<Whole>,
    /// Compute instances, such as `[1c.3g.40gb, 2c.3g.40gb]`; an empty list leaves the instance half made. Default: one
    /// that fills it.
    #[serde(default)]
    pub(super) compute: Option<Vec<Located<String>>>,
}

/// A process on a GPU.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProcessSpec {
    /// Its id, from 1.
    pub(super) pid: Located<Positive>,
    /// Its name. Default: none.
    #[serde(default)]
    pub(super) name: Option<String>,
    /// `compute`, `graphics` or `mps`. Default: `compute`.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub(super) kind: Option<Located<ProcessKind>>,
    /// GPU memory in MiB. Default: 500, what a context takes.
    #[serde(default)]
    pub(super) memory_mib: Option<Located<Positive>>,
    /// Index into `mig`. Default: the whole GPU, with MIG off.
    #[serde(default)]
    pub(super) instance: Option<Located<Whole>>,
    /// Index into `compute` of that instance. Default: 0.
    #[serde(default)]
    pub(super) compute: Option<Located<Whole>>,
    /// How much of the time it would keep the device busy if it were alone, such as `40%`. Default: 0.
    #[serde(default)]
    pub(super) busy: Option<Located<DutyText>>,
}
