//! Layouts of a node as a JSON file, by GPU UUID, with every start; and back.

use serde::{Deserialize, Serialize};
use tesela_model::driver::GpuUuid;
use tesela_model::product::ProductTable;

use crate::catalogue::Catalogue;
use crate::goal::{Goal, GoalCompute, GoalInstance};
use crate::observe::{GpuState, Seen};

/// What the file says that it is.
pub const FORMAT: &str = "tesela-mig-checkpoint";
/// Version of the file.
pub const VERSION: u32 = 1;

/// A whole checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// The GPUs that can do MIG, in the driver's order.
    pub gpus: Vec<SavedGpu>,
}

/// One GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedGpu {
    /// Which.
    pub uuid: GpuUuid,
    /// Table id or the driver's name, for people.
    pub product: String,
    /// Whether MIG is on.
    pub mig: bool,
    /// Its GPU instances, by start.
    pub instances: Vec<SavedInstance>,
}

/// One GPU instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedInstance {
    /// Its profile by name; what counts is the id.
    pub profile: String,
    /// Its profile id.
    pub profile_id: u32,
    /// First memory unit.
    pub start: u32,
    /// Memory units.
    pub size: u32,
    /// Its compute instances.
    pub compute_instances: Vec<SavedCompute>,
}

/// One compute instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedCompute {
    /// Its profile id.
    pub profile_id: u32,
    /// First compute slice in its GPU instance.
    pub start: u32,
    /// Compute slices.
    pub slices: u32,
}

/// Why a checkpoint cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// A GPU whose instances cannot be listed.
    #[error("GPU {index}: its instances cannot be listed, so it cannot be saved: {error}")]
    Unreadable {
        /// Its place in the driver's list.
        index: u32,
        /// Why.
        error: tesela_model::driver::DriverError,
    },
    /// No JSON of this form.
    #[error("it is not a checkpoint of MIG layouts: {0}")]
    Form(serde_json::Error),
    /// Another program's file.
    #[error("it is not a checkpoint of Tesela: `format` is `{found}`, wanted `{FORMAT}`")]
    Foreign {
        /// What it says that it is.
        found: String,
    },
    /// Of another version.
    #[error("it is of version {found}, this program reads version {VERSION}")]
    Version {
        /// Its version.
        found: u32,
    },
    /// A GPU that stands twice.
    #[error("GPU {uuid} stands twice")]
    Twice {
        /// Which.
        uuid: GpuUuid,
    },
}

impl Checkpoint {
    /// The layouts in force.
    ///
    /// # Errors
    /// When those of a GPU cannot be read.
    pub fn of(seen: &[Seen], table: &ProductTable) -> Result<Self, CheckpointError> {
        let mut gpus = Vec::new();
        for one in seen {
            match one {
                Seen::Gpu(state) if state.mode.is_some() => gpus.push(saved(state, table)?),
                Seen::Gpu(_) => {}
                Seen::Unreadable { index, error, .. } => {
                    return Err(CheckpointError::Unreadable { index: *index, error: error.clone() });
                }
            }
        }
        Ok(Self { format: FORMAT.to_owned(), version: VERSION, gpus })
    }

    /// Reads the file.
    ///
    /// # Errors
    /// When it is something else, or contradicts itself.
    pub fn read(bytes: &[u8]) -> Result<Self, CheckpointError> {
        #[derive(Deserialize)]
        struct Head {
            #[serde(default)]
            format: String,
            #[serde(default)]
            version: u32,
        }
        let head: Head = serde_json::from_slice(bytes).map_err(CheckpointError::Form)?;
        if head.format != FORMAT {
            return Err(CheckpointError::Foreign { found: head.format });
        }
        if head.version != VERSION {
            return Err(CheckpointError::Version { found: head.version });
        }
        let read: Self = serde_json::from_slice(bytes).map_err(CheckpointError::Form)?;
        for (index, gpu) in read.gpus.iter().enumerate() {
            if read.gpus[..index].iter().any(|other| other.uuid == gpu.uuid) {
                return Err(CheckpointError::Twice { uuid: gpu.uuid.clone() });
            }
        }
        Ok(read)
    }
}

fn saved(state: &GpuState, table: &ProductTable) -> Result<SavedGpu, CheckpointError> {
    let live = state
        .live
        .as_ref()
        .map_err(|error| CheckpointError::Unreadable { index: state.identity.index, error: error.clone() })?;
    let catalogue = Catalogue::of(state, table).ok();
    let names = catalogue.as_ref().map(Catalogue::names).unwrap_or_default();
    let instances = live.instances.iter().map(|i| SavedInstance {
        profile: names.get(&i.profile).cloned().unwrap_or_else(|| format!("profile {}", i.profile)),
        profile_id: i.profile,
        start: i.placement.start,
        size: i.placement.size,
        compute_instances: i.compute.iter().map(saved_compute).collect(),
    });
    Ok(SavedGpu {
        uuid: state.identity.uuid.clone(),
        product: catalogue.map_or_else(|| state.identity.name.clone(), |c| c.shown),
        mig: live.mode.current,
        instances: instances.collect(),
    })
}

fn saved_compute(live: &crate::observe::LiveCompute) -> SavedCompute {
    SavedCompute { profile_id: live.profile, start: live.placement.start, slices: live.placement.size }
}

impl SavedGpu {
    /// What the GPU is to be brought back to.
    #[must_use]
    pub fn goal(&self) -> Goal {
        if !self.mig {
            return Goal::off();
        }
        let compute = |c: &SavedCompute| GoalCompute {
            slices: c.slices,
            start: Some(c.start),
            profile: Some(c.profile_id),
        };
        let instance = |i: &SavedInstance| GoalInstance {
            profile: i.profile_id,
            placement: tesela_model::product::Placement { start: i.start, size: i.size },
            compute: i.compute_instances.iter().map(compute).collect(),
        };
        Goal { mig: true, instances: self.instances.iter().map(instance).collect() }
    }
}
