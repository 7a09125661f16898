//! Evidence of use: what a monitoring system measured of GPUs, series by series.
//!
//! Units are integers, so that sums do not depend on the order of the input: memory in KiB, activity in millionths of
//! the time.

use std::fmt;

use crate::demand::PodRef;

/// What is measured. Named by DCGM's field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// GPU memory in use, contexts included (`DCGM_FI_DEV_FB_USED`).
    MemoryUsed,
    /// GPU memory that nobody uses (`DCGM_FI_DEV_FB_FREE`).
    MemoryFree,
    /// GPU memory in all (`DCGM_FI_DEV_FB_TOTAL`).
    MemoryTotal,
    /// Share of the time the compute engine had work (`DCGM_FI_PROF_GR_ENGINE_ACTIVE`).
    EngineActive,
    /// Share of the time a kernel ran (`DCGM_FI_DEV_GPU_UTIL`).
    GpuUtil,
    /// Share of time and multiprocessors with work (`DCGM_FI_PROF_SM_ACTIVE`).
    SmActive,
    /// Share of the time the memory interface moved data (`DCGM_FI_PROF_DRAM_ACTIVE`).
    DramActive,
    /// The same, as NVML samples it (`DCGM_FI_DEV_MEM_COPY_UTIL`).
    MemCopyUtil,
}

impl Metric {
    /// Every metric; of those that tell activity, the one that tells it best comes first.
    pub const ALL: [Self; 8] = [
        Self::MemoryUsed,
        Self::MemoryFree,
        Self::MemoryTotal,
        Self::EngineActive,
        Self::GpuUtil,
        Self::SmActive,
        Self::DramActive,
        Self::MemCopyUtil,
    ];

    /// The usual name of its series (dcgm-exporter up to 4.8).
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::MemoryUsed => "DCGM_FI_DEV_FB_USED",
            Self::MemoryFree => "DCGM_FI_DEV_FB_FREE",
            Self::MemoryTotal => "DCGM_FI_DEV_FB_TOTAL",
            Self::EngineActive => "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
            Self::GpuUtil => "DCGM_FI_DEV_GPU_UTIL",
            Self::SmActive => "DCGM_FI_PROF_SM_ACTIVE",
            Self::DramActive => "DCGM_FI_PROF_DRAM_ACTIVE",
            Self::MemCopyUtil => "DCGM_FI_DEV_MEM_COPY_UTIL",
        }
    }

    /// Whether values are memory in KiB; else activity in millionths.
    #[must_use]
    pub fn is_memory(self) -> bool {
        matches!(self, Self::MemoryUsed | Self::MemoryFree | Self::MemoryTotal)
    }

    /// Whether a value is a share of the time with work. The other activities weigh how much of the GPU works too,
    /// so they are at most that.
    #[must_use]
    pub fn is_time(self) -> bool {
        matches!(self, Self::EngineActive | Self::GpuUtil)
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a series is about, as far as its labels say.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// The pod that the exporter names.
    pub pod: Option<PodRef>,
    /// The node.
    pub node: Option<String>,
    /// The GPU: its UUID, else its index on the node.
    pub gpu: Option<String>,
    /// Id of the GPU instance, where MIG is on.
    pub instance: Option<String>,
    /// The cluster, where a server that watches several says so.
    pub cluster: Option<String>,
}

/// What the cluster says of a pod's life, beside what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodLife {
    /// When it started, in milliseconds since 1970 (UTC). What was measured before is of another pod of its name.
    pub started_ms: Option<i64>,
    /// Whether a container of it cannot start or dies again and again, so that its use shows no need.
    pub failing: bool,
}

/// A value at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sample {
    /// Milliseconds since 1970 (UTC).
    pub at_ms: i64,
    /// KiB or millionths, see [`Metric::is_memory`].
    pub value: u64,
}

/// One series. Samples in the order of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageSeries {
    /// What is measured.
    pub metric: Metric,
    /// Of what.
    pub subject: Subject,
    /// When and how much.
    pub samples: Vec<Sample>,
}
