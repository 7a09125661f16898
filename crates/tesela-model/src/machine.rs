//! A node with emulated GPUs, as a person describes it: what is plugged in, how it is cut, what runs on it.
//!
//! It is where a simulation begins, not its state. `tesela_formats::machine` reads it from a file, `tesela-sim` makes
//! GPUs of it.

use crate::driver::ProcessKind;
use crate::product::{ProductId, ProfileName};
use crate::quantity::Mib;

/// Most GPUs of one machine. NVML's own clients are written for far fewer.
pub const MOST_GPUS: usize = 64;

/// The driver that is emulated when nobody names one.
pub const DRIVER_VERSION: &str = "580.95.05";

/// Memory of a process that does not say: what its context takes. Reports give 300 to 500 MB (pytorch/pytorch#20532,
/// pytorch/serve#2128).
pub const CONTEXT_MIB: Mib = Mib(500);

/// An emulated node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Version of the driver, such as `580.95.05`.
    pub driver: String,
    /// Where every made-up value (UUIDs, serial numbers, noise) comes from.
    pub seed: u64,
    /// How the driver behaves where drivers differ.
    pub manner: Manner,
    /// GPUs in the order of the index, groups written out.
    pub gpus: Vec<MachineGpu>,
}

/// How the driver behaves where drivers, or moments, differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Manner {
    /// Whether calls take the time they take on hardware; else none.
    pub latency: bool,
    /// How often destroying a GPU instance is refused as in use after one of its compute instances went, though
    /// nobody uses it.
    pub in_use_answers: u32,
    /// For how many milliseconds it is refused so.
    pub in_use_milliseconds: u32,
}

/// One emulated GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineGpu {
    /// Its product, one of the built-in table with placements.
    pub product: ProductId,
    /// The name that the driver gives, one of the product's.
    pub name: String,
    /// Its UUID; `None`: made from the seed.
    pub uuid: Option<String>,
    /// Its serial number; `None`: made from the seed.
    pub serial: Option<String>,
    /// Its PCI address, such as `00000000:3B:00.0`; `None`: by index.
    pub pci: Option<String>,
    /// Its GPU instances, in the order they are made; `None`: MIG is off.
    pub mig: Option<Vec<MachineInstance>>,
    /// What runs on it.
    pub processes: Vec<MachineProcess>,
    /// Whether it works.
    pub health: Health,
    /// Programs that hold it open without running anything, such as a monitor. They show in no list of processes,
    /// and keep it from being reset.
    pub clients: Vec<String>,
    /// Whether it is passed through to a virtual machine, and can therefore not be reset from inside.
    pub passthrough: bool,
}

/// Whether a GPU works.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// It does.
    #[default]
    Healthy,
    /// It fell off the bus: every call answers so.
    Lost,
    /// It needs a reset before it does anything again.
    ResetRequired,
}

/// A GPU instance of an emulated GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineInstance {
    /// Its profile.
    pub profile: ProfileName,
    /// First memory unit.
    pub start: u32,
    /// The compute instances in it, by the names that the table gives them, in the order they are made. None: it is
    /// half made, which is how a failed creation leaves it.
    pub compute: Vec<ProfileName>,
}

/// A process on an emulated GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineProcess {
    /// Its id, above 0.
    pub pid: u32,
    /// Its name.
    pub name: Option<String>,
    /// How it uses the GPU.
    pub kind: ProcessKind,
    /// GPU memory it holds.
    pub memory: Mib,
    /// Position of its GPU instance in [`MachineGpu::mig`]; `None`: the whole GPU, with MIG off.
    pub instance: Option<usize>,
    /// Position of its compute instance in [`MachineInstance::compute`].
    pub compute: usize,
    /// How much of the time it would keep the device busy if it were alone, in thousandths.
    pub busy: u16,
}
