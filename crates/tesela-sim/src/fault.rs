//! Faults on purpose: refusals of the n-th call, what happens at a time, and simulators with one defect.

use serde::{Deserialize, Serialize};
use tesela_model::driver::{Code, EventKind, GpuUuid};

use crate::call::Call;
use crate::contention::Demand;

/// Calls that are answered otherwise than by rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Which call; `None`: any.
    pub call: Option<Call>,
    /// On which GPU; `None`: any.
    pub gpu: Option<GpuUuid>,
    /// On which GPU instance; `None`: any, and calls on no instance.
    pub gpu_instance: Option<u32>,
    /// How many such calls pass first.
    pub skip: u32,
    /// How many are then met; `None`: every one, for ever.
    pub times: Option<u32>,
    /// What meets them.
    pub effect: Effect,
}

impl Fault {
    /// Every such call is refused, for ever.
    #[must_use]
    pub fn always(call: Call, code: Code) -> Self {
        Self {
            call: Some(call),
            gpu: None,
            gpu_instance: None,
            skip: 0,
            times: None,
            effect: Effect::Refuse(code),
        }
    }

    /// The `n`-th such call from now on is refused, counted from 1; others are not.
    #[must_use]
    pub fn nth(call: Call, n: u32, code: Code) -> Self {
        Self { skip: n.saturating_sub(1), times: Some(1), ..Self::always(call, code) }
    }

    /// The same on one GPU alone.
    #[must_use]
    pub fn on(self, gpu: &GpuUuid) -> Self {
        Self { gpu: Some(gpu.clone()), ..self }
    }

    /// The same on one GPU instance alone.
    #[must_use]
    pub fn on_instance(self, gpu_instance: u32) -> Self {
        Self { gpu_instance: Some(gpu_instance), ..self }
    }
}

/// What a fault does to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It answers this code and does nothing.
    Refuse(Code),
    /// The GPU falls off the bus before it.
    Lose,
    /// It does its work, and answers this code all the same.
    DoAndRefuse(Code),
}

/// What happens to a GPU without anybody calling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Happening {
    /// It falls off the bus.
    Lost,
    /// It needs a reset from now on.
    NeedsReset,
    /// It works again, by a miracle or a technician.
    Healed,
    /// The driver reports something: an XID, an ECC error. ECC errors count.
    Event(EventKind, Option<(u32, u32)>),
    /// Memory rows were remapped: after corrected errors, after uncorrected ones.
    RowsRemapped(u32, u32),
    /// Remapping failed.
    RemapFailed,
    /// Replays on the PCI link.
    PcieReplays(u32),
    /// A process ends.
    ProcessEnds(u32),
    /// A process does more or less from now on.
    Demand(u32, Demand),
}

/// A happening at a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheduled {
    /// When, in microseconds of the simulation.
    pub at: u64,
    /// To which GPU.
    pub gpu: GpuUuid,
    /// What.
    pub what: Happening,
}

/// One rule broken on purpose, so that a test can show that it would notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Defect {
    /// Instances may overlap in memory units.
    OverlapAllowed,
    /// What is in use is destroyed all the same.
    InUseNeverAnswered,
    /// A new instance never gets the id of one that is gone.
    IdsNotReused,
    /// GPU instances without a compute instance are not listed.
    HalfMadeHidden,
    /// Engines are not counted, so that media engines are given out more than once.
    EnginesNotCounted,
    /// A new MIG device keeps the UUID of the one that was there before.
    UuidKept,
    /// Enum values are taken for profile ids.
    EnumTakenForId,
    /// Compute slices are not counted.
    SlicesNotCounted,
    /// The remaining capacity looks at the most instances of the profile alone.
    CapacityByMaximum,
    /// MIG mode changes at once, whoever uses the GPU.
    ModeIgnoresUse,
}

impl Defect {
    /// Every one.
    pub const ALL: [Self; 10] = [
        Self::OverlapAllowed,
        Self::InUseNeverAnswered,
        Self::IdsNotReused,
        Self::HalfMadeHidden,
        Self::EnginesNotCounted,
        Self::UuidKept,
        Self::EnumTakenForId,
        Self::SlicesNotCounted,
        Self::CapacityByMaximum,
        Self::ModeIgnoresUse,
    ];
}
