//! The words of `tesela sim`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Emulate GPUs on a machine that has none.
///
/// A machine file of a few lines says which GPUs a node has; programs that use NVIDIA's management library (NVML) then
/// see them, with MIG, processes and faults. `env` sets a shell up for it, `load`, `fault` and `reset` let things happen
/// while programs run, `show` says how things stand, `run` starts a program that also finds the driver's files.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Sim {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: SimVerb,
}

/// What `tesela sim` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum SimVerb {
    Env(SimEnv),
    Load(SimLoad),
    Fault(SimFault),
    Reset(SimReset),
    Show(SimShow),
    Run(SimRun),
}

/// Print what sets a shell up, to be evaluated.
///
/// Sets TESELA_SIM to the machine file and puts a folder beside it, in which the emulated library has its name, before
/// LD_LIBRARY_PATH.
#[derive(Debug, Args)]
#[command(after_help = ENV_EXAMPLES)]
pub(crate) struct SimEnv {
    /// The machine file (YAML or JSON)
    #[arg(value_name = "FILE")]
    pub(crate) machine: PathBuf,
    /// The emulated library [default: looked for beside this program]
    #[arg(long, value_name = "FILE")]
    pub(crate) library: Option<PathBuf>,
}

/// The machine file of verbs that a shell was set up for.
#[derive(Debug, Args)]
pub(crate) struct Machine {
    /// The machine file
    #[arg(short, long, value_name = "FILE", env = "TESELA_SIM")]
    pub(crate) machine: PathBuf,
}

/// Let a process come to a GPU, change what it does, or end.
///
/// A process that is there already keeps what is not said anew. Give the id of a real process and programs that look it
/// up, such as gpustat and nvitop, show it.
#[derive(Debug, Args)]
#[command(after_help = LOAD_EXAMPLES)]
pub(crate) struct SimLoad {
    #[command(flatten)]
    pub(crate) machine: Machine,
    /// Index or UUID of the GPU
    #[arg(short, long, value_name = "GPU")]
    pub(crate) gpu: String,
    /// Id of the process
    #[arg(short, long, value_name = "PID")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    pub(crate) pid: u32,
    /// MIG device it is on, with MIG on: GPU instance, GPU/compute instance, or UUID
    #[arg(long, value_name = "GI[/CI]|UUID")]
    pub(crate) instance: Option<String>,
    /// Name of the process
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// GPU memory it holds, in MiB [default: 500]
    #[arg(long, value_name = "MIB")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    pub(crate) memory_mib: Option<u64>,
    /// How much of the time it would keep the GPU busy if it were alone, in percent [default: 0]
    #[arg(long, value_name = "PERCENT")]
    #[arg(value_parser = clap::value_parser!(u16).range(0..=100))]
    pub(crate) busy: Option<u16>,
    /// How it uses the GPU [default: compute]
    #[arg(long, value_enum)]
    pub(crate) kind: Option<SimKind>,
    /// It ends
    #[arg(long, conflicts_with_all = ["instance", "name", "memory_mib", "busy", "kind"])]
    pub(crate) end: bool,
}

/// How a process uses a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SimKind {
    /// CUDA
    Compute,
    /// Graphics
    Graphics,
    /// CUDA through the MPS server
    Mps,
}

/// Let something go wrong.
///
/// Kinds: `xid:N` (the driver reports that error), `ecc-single`, `ecc-double` (a memory error), `lost` (the GPU falls off
/// the bus), `needs-reset`, `healed`; `in-use` (removing instances is refused for ever), `in-use:N` (for N times);
/// `clear` (refusals are over).
#[derive(Debug, Args)]
#[command(after_help = FAULT_EXAMPLES)]
pub(crate) struct SimFault {
    #[command(flatten)]
    pub(crate) machine: Machine,
    /// Index or UUID of the GPU; `clear` needs none
    #[arg(short, long, value_name = "GPU", required_unless_present = "all")]
    pub(crate) gpu: Option<String>,
    /// Every GPU
    #[arg(long, conflicts_with = "gpu")]
    pub(crate) all: bool,
    /// Only this MIG device, for errors; only this GPU instance, for refusals
    #[arg(long, value_name = "GI[/CI]|UUID")]
    pub(crate) instance: Option<String>,
    /// What goes wrong
    #[arg(value_name = "KIND")]
    pub(crate) what: What,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// An XID, by its number.
    Xid(u64),
    /// A corrected memory error.
    EccSingle,
    /// A memory error that was not corrected.
    EccDouble,
    /// The GPU falls off the bus.
    Lost,
    /// The GPU needs a reset.
    NeedsReset,
    /// The GPU works again.
    Healed,
    /// Removing instances is refused, so many times or for ever.
    InUse(Option<u32>),
    /// Refusals are over.
    Clear,
}

impl std::str::FromStr for What {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, number) = match text.split_once(':') {
            Some((kind, number)) => (kind, Some(number)),
            None => (text, None),
        };
        let times = |text: &str| text.parse().ok().filter(|n| *n > 0);
        match (kind, number) {
            ("xid", Some(number)) => {
                number.parse().map(Self::Xid).map_err(|_| format!("`{number}` is no number: write xid:79"))
            }
            ("xid", None) => Err("an XID has a number: write xid:79".to_owned()),
            ("ecc-single", None) => Ok(Self::EccSingle),
            ("ecc-double", None) => Ok(Self::EccDouble),
            ("lost", None) => Ok(Self::Lost),
            ("needs-reset", None) => Ok(Self::NeedsReset),
            ("healed", None) => Ok(Self::Healed),
            ("in-use", None) => Ok(Self::InUse(None)),
            ("in-use", Some(number)) => match times(number) {
                Some(times) => Ok(Self::InUse(Some(times))),
                None => Err(format!("`{number}` is no number of times: write in-use:3, or in-use for ever")),
            },
            ("clear", None) => Ok(Self::Clear),
            _ => Err(
                "kinds are xid:N, ecc-single, ecc-double, lost, needs-reset, healed, in-use, in-use:N, clear"
                    .to_owned(),
            ),
        }
    }
}

/// Reset a GPU, as `nvidia-smi --gpu-reset` does, or reboot the node.
#[derive(Debug, Args)]
#[command(after_help = RESET_EXAMPLES)]
pub(crate) struct SimReset {
    #[command(flatten)]
    pub(crate) machine: Machine,
    /// Index or UUID of the GPU
    #[arg(short, long, value_name = "GPU", required_unless_present = "reboot")]
    pub(crate) gpu: Option<String>,
    /// Reboot the node: processes go, instances go, MIG mode stays where the product keeps it
    #[arg(long, conflicts_with = "gpu")]
    pub(crate) reboot: bool,
}

/// Show the emulated node as it is.
#[derive(Debug, Args)]
#[command(after_help = SHOW_EXAMPLES)]
pub(crate) struct SimShow {
    #[command(flatten)]
    pub(crate) machine: Machine,
}

/// Run a program that finds the emulated driver's files where it looks for them.
///
/// Besides what `env` sets, the program sees `/proc/driver`, `/proc/modules`, `/proc/devices` and `/sys/bus/pci` of the
/// emulated node, in a mount namespace of its own; nothing else on the machine does. It needs `unshare` and `mount`
/// (util-linux), and root or user namespaces. Device files are not emulated.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct SimRun {
    /// The machine file (YAML or JSON)
    #[arg(value_name = "FILE")]
    pub(crate) machine: PathBuf,
    /// The emulated library [default: looked for beside this program]
    #[arg(long, value_name = "FILE")]
    pub(crate) library: Option<PathBuf>,
    /// The program and its words
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<std::ffi::OsString>,
}

const EXAMPLES: &str = "\
Examples:
  cat > node.yaml <<EOF
  gpus:
    - {product: h100-sxm-80gb, count: 8}
  EOF
  eval \"$(tesela sim env node.yaml)\"
  nvitop
  tesela sim load --gpu 0 --pid $$ --memory-mib 20000 --busy 80
  tesela sim show";

const ENV_EXAMPLES: &str = "\
Examples:
  eval \"$(tesela sim env node.yaml)\"
  eval \"$(tesela sim env node.yaml --library target/release/libnvml_sim.so)\"";

const LOAD_EXAMPLES: &str = "\
Examples:
  tesela sim load --gpu 0 --pid 4321 --memory-mib 20000 --busy 80
  tesela sim load --gpu 2 --pid 4322 --instance 7/0 --name trainer
  tesela sim load --gpu 0 --pid 4321 --busy 10
  tesela sim load --gpu 0 --pid 4321 --end";

const FAULT_EXAMPLES: &str = "\
Examples:
  tesela sim fault xid:79 --gpu 3
  tesela sim fault lost --gpu 3
  tesela sim fault in-use:2 --gpu 0 --instance 7
  tesela sim fault clear --all";

const RESET_EXAMPLES: &str = "\
Examples:
  tesela sim reset --gpu 2
  tesela sim reset --reboot";

const SHOW_EXAMPLES: &str = "\
Examples:
  tesela sim show --machine node.yaml
  tesela sim show --format json";

const RUN_EXAMPLES: &str = "\
Examples:
  tesela sim run node.yaml -- nvidia-device-plugin --mig-strategy mixed
  tesela sim run node.yaml -- cat /proc/driver/nvidia/version";
