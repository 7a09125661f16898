//! The words of `tesela mig`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

/// Change the MIG layouts of this node's GPUs, touching only what must change.
///
/// Reads mig-parted's files (version v1) unchanged. Instances that stay are not touched, those that processes use are
/// never taken away, and every step stands in a journal before it is taken: a change that cannot be finished goes back,
/// also after a crash. Runs on the node, against NVIDIA's driver.
#[derive(Debug, Args)]
#[command(after_help = MIG_EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Mig {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: MigVerb,
}

/// What can be done with MIG layouts. Each verb's help is that of its words.
#[derive(Debug, Subcommand)]
pub(crate) enum MigVerb {
    Plan(MigPlan),
    Apply(MigApply),
    Assert(MigPlan),
    Export(MigExport),
    Checkpoint(MigCheckpoint),
    Restore(MigRestore),
}

/// What is wanted.
#[derive(Debug, Args)]
pub(crate) struct Wanted {
    /// A mig-parted config; `-` is standard input [default: the labels that NVIDIA's generator would make for this node]
    #[arg(short, long, value_name = "FILE", help_heading = "Input")]
    pub(crate) file: Option<PathBuf>,
    /// Its label, such as all-balanced [default: the only one of the file]
    #[arg(short, long, value_name = "NAME", help_heading = "Input")]
    pub(crate) config: Option<String>,
    /// Refused: Tesela runs no commands around a change, and needs none
    #[arg(short = 'k', long, value_name = "FILE", help_heading = "Input")]
    pub(crate) hooks_file: Option<PathBuf>,
}

/// Where the driver and the node's folders are.
#[derive(Debug, Args)]
pub(crate) struct Node {
    /// Which driver.
    #[command(flatten)]
    pub(crate) driver: super::Driver,
    /// Where the node's own file system is seen, such as /host in a debug container
    #[arg(long, value_name = "DIR", default_value = "/", help_heading = "Node")]
    pub(crate) host_root: PathBuf,
    /// Folder of the journal and the lock, on the node
    #[arg(long, value_name = "DIR", default_value = "/var/lib/tesela", help_heading = "Node")]
    pub(crate) state_dir: PathBuf,
}

/// How a change is carried out.
#[derive(Debug, Args)]
pub(crate) struct Work {
    /// Wait so long for processes to end on instances that must go; without it such a GPU stays as it is
    #[arg(long, value_name = "TIME", default_value = "0s", help_heading = "Change")]
    pub(crate) wait: Span,
    /// Wait so long, on each GPU, while the driver says "in use" although no process is there; then it goes back
    #[arg(long, value_name = "TIME", default_value = "30s", help_heading = "Change")]
    pub(crate) patience: Span,
    /// Allow `nvidia-smi --gpu-reset` of a GPU whose MIG mode needs it (Ampere); without it the mode waits for a reboot
    #[arg(long, help_heading = "Change")]
    pub(crate) reset: bool,
    /// Go on although NVIDIA's MIG Manager, device plugin or DRA driver serves this node
    #[arg(long, help_heading = "Change")]
    pub(crate) allow_other_managers: bool,
}

/// Say what a change would do, and to whom.
///
/// Only reads. What the caller may not read is said: listing the instances of a GPU needs root, or the driver's
/// capability file mig/monitor.
#[derive(Debug, Args)]
#[command(after_help = MIG_PLAN_EXAMPLES)]
pub(crate) struct MigPlan {
    /// What is wanted.
    #[command(flatten)]
    pub(crate) wanted: Wanted,
    /// Where.
    #[command(flatten)]
    pub(crate) node: Node,
}

/// Carry a change out.
///
/// GPUs that the label does not name are left alone, and so are GPUs on which a process is in the way. First an earlier
/// change that was cut short is finished or undone.
#[derive(Debug, Args)]
#[command(after_help = MIG_APPLY_EXAMPLES)]
pub(crate) struct MigApply {
    /// What is wanted.
    #[command(flatten)]
    pub(crate) wanted: Wanted,
    /// How.
    #[command(flatten)]
    pub(crate) work: Work,
    /// Where.
    #[command(flatten)]
    pub(crate) node: Node,
}

/// Print the layouts in force as a mig-parted config.
#[derive(Debug, Args)]
#[command(after_help = MIG_EXPORT_EXAMPLES)]
pub(crate) struct MigExport {
    /// The label it gets
    #[arg(short, long, value_name = "NAME", default_value = "current")]
    pub(crate) config: String,
    /// Where.
    #[command(flatten)]
    pub(crate) node: Node,
}

/// Write down every instance with its start, by GPU UUID, as JSON.
#[derive(Debug, Args)]
#[command(after_help = MIG_CHECKPOINT_EXAMPLES)]
pub(crate) struct MigCheckpoint {
    /// The file to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Replace a file that exists
    #[arg(long, requires = "file")]
    pub(crate) force: bool,
    /// Where.
    #[command(flatten)]
    pub(crate) node: Node,
}

/// Bring the layouts of a checkpoint back, with the same starts.
#[derive(Debug, Args)]
#[command(after_help = MIG_RESTORE_EXAMPLES)]
pub(crate) struct MigRestore {
    /// A file that `tesela mig checkpoint` wrote; `-` is standard input
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// How.
    #[command(flatten)]
    pub(crate) work: Work,
    /// Where.
    #[command(flatten)]
    pub(crate) node: Node,
}

/// A length of time: `30s`, `10m`, `1h`, `500ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

impl std::str::FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let units = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
        let read = units.iter().find_map(|(unit, millis)| {
            let digits =
                text.strip_suffix(unit).filter(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))?;
            digits.parse::<u64>().ok()?.checked_mul(*millis)
        });
        match read {
            // A day is longer than anybody means.
            Some(millis) if millis <= 86_400_000 => Ok(Self(Duration::from_millis(millis))),
            _ => Err("write a time up to 24h, such as 30s, 10m, 1h or 500ms".to_owned()),
        }
    }
}

const MIG_EXAMPLES: &str = "\
Examples:
  tesela mig plan -f config.yaml -c all-balanced
  tesela mig apply -f config.yaml -c all-balanced
  tesela mig export > now.yaml";

const MIG_PLAN_EXAMPLES: &str = "\
Examples:
  tesela mig plan -f config.yaml -c all-balanced
  tesela mig plan -c all-1g.10gb --format json
  tesela mig assert -f config.yaml -c all-balanced

plan: exit code 3 means that some GPU cannot be changed as wanted; the plan says which and why.
assert: exit code 1 means that some GPU is not as wanted.";

const MIG_APPLY_EXAMPLES: &str = "\
Examples:
  tesela mig apply -f config.yaml -c all-balanced
  tesela mig apply -f config.yaml -c seven --wait 10m

  On an A100 or A30 whose MIG mode changes:
    tesela mig apply -c all-1g.5gb --reset

Exit codes: 0 done; 1 some GPU went back to what it was, or was lost; 2 invalid input; 3 some GPU stays as it is, since
something is in the way or its mode waits for a reboot.";

const MIG_EXPORT_EXAMPLES: &str = "\
Examples:
  tesela mig export > now.yaml
  tesela mig export -c before-the-upgrade --format json";

const MIG_CHECKPOINT_EXAMPLES: &str = "\
Examples:
  tesela mig checkpoint -f layouts.json
  tesela mig checkpoint > layouts.json";

const MIG_RESTORE_EXAMPLES: &str = "\
Examples:
  tesela mig restore -f layouts.json
  tesela mig restore -f layouts.json --reset --wait 5m";
