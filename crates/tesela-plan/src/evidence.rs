//! What pods were measured to use → what their workloads need, with origin `measured`.
//!
//! | part | module |
//! | --- | --- |
//! | series → this cluster's or not | `collect`, `node_name` |
//! | how pods hold their devices | `hold` |
//! | samples → the use of each pod and device | `heap` |
//! | use of pods → need and duty of workloads | `need` |
//! | who worked when | `together` |
//! | what is said of it: findings, assumptions | `words`, `doubt` |
//! | servers that reserve memory | `reserve` |
//!
//! The rules:
//!
//! - **Memory**: the peak over all pods of a workload and over all time, and a reserve of [`RESERVE_PERCENT`] (at
//!   least [`RESERVE_LEAST`]) on top, but no more than the device has on which that peak was seen. The measured
//!   figure holds the CUDA context already, and the plan adds it for each pod, so it is taken off.
//! - **Duty**: of each pod the mean share of the time with work, by `DCGM_FI_PROF_GR_ENGINE_ACTIVE`, else
//!   `DCGM_FI_DEV_GPU_UTIL`; where there is neither, the share of samples in which another activity is above
//!   [`ACTIVE_PPM`]. The busiest pod speaks for its workload; rounded up to a whole percent. With fewer than
//!   [`FEW_SAMPLES`] samples it is not taken below the duty that is assumed where nothing is known.
//! - **Compute**: the share of the time at work, of the part of a GPU that the measured device is, and a reserve on top,
//!   so that an instance is at work for at most [`COMPUTE_PERCENT`] of the time. Work is taken to slow down as slices go,
//!   which is the worst case: small batches slow down less (`data/traces/parvagpu-a100`).
//! - **Shared devices**: the exporter reports the device, not the container. So what it says of a device that several
//!   pods share is an upper bound of their sum, and nobody's need.
//! - **Reserving servers**: what vLLM and its like use is what they were told to take, and never read as need. Neither
//!   is what looks like that: memory of [`RESERVED_SHARE_PERCENT`] of the device or more that stays near its peak.
//! - **Absence of work**: where less memory than a CUDA context was ever in use, or every pod fails, nothing shows what
//!   the work needs when it works. It keeps what it holds.
//! - **Other pods, other clusters**: samples from before a pod started, from another node than its own, or from what is
//!   no node of the input, are left out.
//! - What a Demand says goes before all of this.

mod collect;
mod doubt;
mod heap;
mod hold;
mod need;
mod node_name;
mod reserve;
mod together;
mod words;

use std::collections::BTreeMap;

use tesela_model::activity::Activity;
use tesela_model::demand::{Demand, Duty, WorkloadKey};
use tesela_model::finding::Finding;
use tesela_model::origin::Known;
use tesela_model::plan::Assumption;
use tesela_model::quantity::Mib;
use tesela_model::usage::Metric;

pub use self::collect::{Collector, Scene};
pub use self::reserve::estimate_command;

/// Reserve on top of a measured peak, in percent of it.
pub const RESERVE_PERCENT: u64 = 10;
/// Reserve on top of a measured peak, at least.
pub const RESERVE_LEAST: Mib = Mib(256);
/// An instance shall be busy for at most so many percent of the time with the work that was measured on a larger device.
pub const COMPUTE_PERCENT: u64 = 80;
/// Above this share of the time, in millionths, a sample counts as work: idle GPUs show traces of use.
pub const ACTIVE_PPM: u64 = 10_000;
/// Fewer samples than these do not show how often a pod works.
pub const FEW_SAMPLES: u64 = 12;
/// Fewer windows than these, in which every series has a sample, say nothing of who works when.
pub const FEW_WINDOWS: usize = 12;
/// A peak of at least this share of the device, in percent, may be a reservation.
pub const RESERVED_SHARE_PERCENT: u64 = 80;
/// It looks like one where the mean is at least this share of the peak, in percent.
pub const RESERVED_FLAT_PERCENT: u64 = 95;
/// Evidence over less time, in milliseconds, is said to be short: a day.
pub const SHORT_MS: i64 = 86_400_000;

/// Why neither need nor (but for a reservation) duty is read from what was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// Every pod that was measured cannot start, or dies again and again.
    Failing,
    /// Less memory than a CUDA context was ever in use.
    NothingLoaded,
    /// Memory stays near its peak and nearly fills the device.
    LooksReserved,
}

/// What was measured of one workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Pods (or devices) with samples.
    pub pods: u64,
    /// Most memory that one of its pods used, the context included; `None` = not measured, or shared.
    pub peak: Option<Mib>,
    /// GPU memory that one pod needs beside its context; `None` also where a server reserves it.
    pub need: Option<Mib>,
    /// Why it is not read as a need, where it could have been.
    pub unread: Option<Unread>,
    /// Share of the time its busiest pod works.
    pub duty: Option<Duty>,
    /// Least part of a whole GPU's compute that it needs so as not to be slower for it; `None` also where no series
    /// tells the time at work.
    pub compute: Option<Duty>,
    /// What the duty was read from.
    pub by: Option<Metric>,
    /// From the first sample to the last, in milliseconds.
    pub span_ms: i64,
    /// Samples of the longest series.
    pub samples: u64,
}

/// All that was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// By workload.
    pub measured: BTreeMap<WorkloadKey, Measured>,
    /// What is worth knowing about the evidence.
    pub findings: Vec<Finding>,
    /// What the plan then rests on.
    pub assumptions: Vec<Assumption>,
    /// Who worked when, where the series tell.
    pub activity: Option<Activity>,
    /// What is worth knowing where who works when is used.
    pub activity_findings: Vec<Finding>,
}

impl Evidence {
    /// Writes what was measured into the demand, where nothing is known yet. Answers how many workloads it changed.
    pub fn apply(&self, demand: &mut Demand) -> u64 {
        let mut changed = 0;
        for workload in &mut demand.workloads {
            let Some(measured) = self.measured.get(&workload.key) else { continue };
            let before = (workload.gpu_memory, workload.duty, workload.compute);
            workload.compute = workload.compute.or(measured.compute.map(Known::measured));
            workload.gpu_memory = workload.gpu_memory.or(measured.need.map(Known::measured));
            workload.duty = workload.duty.or(measured.duty.map(Known::measured));
            changed += u64::from(before != (workload.gpu_memory, workload.duty, workload.compute));
        }
        changed
    }
}
