//! The state of a simulation: everything that is not a rule. It can be written down and read again.

use serde::{Deserialize, Serialize};
use tesela_model::driver::{DeviceEvent, EccCounts, GpuUuid, MigMode, MigUuid, ProcessKind};
use tesela_model::machine::{Health, Manner};
use tesela_model::product::ProductId;

use crate::fault::{Fault, Scheduled};

/// Version of the format. It goes up whenever an older program could misread a state.
pub const VERSION: u32 = 1;

/// All of a simulation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Version of the format.
    pub version: u32,
    /// Where made-up values come from.
    pub seed: u64,
    /// Goes up with every change; reading never changes it.
    pub revision: u64,
    /// Microseconds since the simulation began.
    pub now: u64,
    /// When the driver was loaded: counters count from there.
    pub loaded: u64,
    /// Version of the driver.
    pub driver: String,
    /// How the driver behaves where drivers differ.
    pub manner: Manner,
    /// GPUs by index.
    pub gpus: Vec<Gpu>,
    /// Faults to come, in the order in which they were laid.
    pub faults: Vec<Fault>,
    /// What happens at a time, by time.
    pub schedule: Vec<Scheduled>,
    /// The last events, oldest first.
    pub events: Vec<LoggedEvent>,
    /// Number of the next event.
    pub next_event: u64,
}

/// One GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// UUID.
    pub uuid: GpuUuid,
    /// Product of the built-in table.
    pub product: ProductId,
    /// Name the driver gives.
    pub name: String,
    /// Serial number.
    pub serial: String,
    /// PCI address.
    pub pci: String,
    /// MIG mode.
    pub mode: MigMode,
    /// GPU instances, by id.
    pub instances: Vec<GpuInstance>,
    /// MIG devices made so far: each gets a UUID of its own.
    pub created: u64,
    /// Processes, by pid.
    pub processes: Vec<Process>,
    /// Programs that hold it open.
    pub clients: Vec<String>,
    /// Whether it is passed through to a virtual machine.
    pub passthrough: bool,
    /// Whether it works.
    pub health: Health,
    /// Counters.
    pub counters: Counters,
}

/// Counters of a GPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counters {
    /// Energy since the driver was loaded, whole mJ.
    pub energy_mj: u64,
    /// The rest of it in nJ, below a million.
    pub energy_nj: u64,
    /// ECC errors since the driver was loaded; corrected, then uncorrected.
    pub ecc: (u64, u64),
    /// ECC errors of its life.
    pub ecc_ever: (u64, u64),
    /// Rows remapped, after corrected and uncorrected errors.
    pub remapped_rows: (u32, u32),
    /// Whether remapping failed.
    pub remap_failed: bool,
    /// Replays on the PCI link since the driver was loaded.
    pub pcie_replays: u32,
}

impl Counters {
    /// ECC errors since the driver was loaded.
    #[must_use]
    pub fn ecc_counts(&self) -> EccCounts {
        EccCounts { corrected: self.ecc.0, uncorrected: self.ecc.1 }
    }
}

/// A GPU instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuInstance {
    /// Id.
    pub id: u32,
    /// Profile id.
    pub profile: u32,
    /// First memory unit.
    pub start: u32,
    /// Compute instances, by id.
    pub compute: Vec<ComputeInstance>,
    /// How often a destroy is still refused as in use, though nobody uses it.
    pub refusals: u32,
    /// Until when it is refused so.
    pub refused_until: u64,
}

/// A compute instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComputeInstance {
    /// Id.
    pub id: u32,
    /// Profile id.
    pub profile: u32,
    /// First compute slice in the GPU instance.
    pub start: u32,
    /// UUID of the MIG device it makes.
    pub uuid: MigUuid,
}

/// A process on a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its name.
    pub name: Option<String>,
    /// How it uses the GPU.
    pub kind: ProcessKind,
    /// GPU memory in bytes.
    pub memory: u64,
    /// GPU and compute instance it is on; `None`: the whole GPU.
    pub on: Option<(u32, u32)>,
    /// What it would do if it were alone.
    pub demand: crate::contention::Demand,
    /// When it came.
    pub since: u64,
}

/// An event, with its number and time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoggedEvent {
    /// Numbers go up by one and are never used again.
    pub number: u64,
    /// When, in microseconds.
    pub at: u64,
    /// What happened to which device.
    pub event: DeviceEvent,
}
