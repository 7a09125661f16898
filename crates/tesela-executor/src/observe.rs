//! The live state of a node's GPUs, read through the driver into plain structs.

use std::collections::BTreeMap;

use tesela_model::driver::{
    Answer, Code, DriverError, GpuDriver, GpuIdentity, GpuInstanceProfile, GpuUuid, MigMode, MigUuid, Process,
};
use tesela_model::product::Placement;

/// One place of the driver's list of GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// A GPU that answers.
    Gpu(Box<GpuState>),
    /// One that does not, being lost for example.
    Unreadable {
        /// Its place in the list.
        index: u32,
        /// Its UUID, where that was still told.
        uuid: Option<GpuUuid>,
        /// What the driver said.
        error: DriverError,
    },
}

/// What is known of one GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuState {
    /// Who it is.
    pub identity: GpuIdentity,
    /// Profiles that the driver offers; empty on a GPU without MIG, and with drivers that do not list them while MIG
    /// is off.
    pub profiles: Vec<GpuInstanceProfile>,
    /// Placements by profile id; a profile is absent where the caller may not ask.
    pub placements: BTreeMap<u32, Vec<Placement>>,
    /// MIG mode and instances; the error when the caller may not list instances.
    pub live: Result<Live, DriverError>,
    /// MIG mode, also where instances are hidden; `None` on a GPU without MIG.
    pub mode: Option<MigMode>,
    /// Who has a context on it.
    pub processes: Vec<Process>,
}

/// MIG mode and instances of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Live {
    /// Mode, now and after the next reset.
    pub mode: MigMode,
    /// GPU instances, by start; those without a compute instance too.
    pub instances: Vec<LiveInstance>,
}

/// A GPU instance that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveInstance {
    /// The driver's number for it, used again after it is gone.
    pub id: u32,
    /// Profile id.
    pub profile: u32,
    /// Where it sits.
    pub placement: Placement,
    /// Its compute instances, by start. None: half-made, or of no use yet.
    pub compute: Vec<LiveCompute>,
}

/// A compute instance that is there: with its GPU instance, a MIG device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveCompute {
    /// The driver's number for it.
    pub id: u32,
    /// Compute-instance profile id.
    pub profile: u32,
    /// Where it sits, in compute slices of its GPU instance.
    pub placement: Placement,
    /// UUID of the MIG device, where it was read.
    pub mig: Option<MigUuid>,
}

/// Reads every GPU of the node.
///
/// # Errors
/// When the GPUs cannot even be counted. A GPU that does not answer is told in its place.
pub fn observe(driver: &dyn GpuDriver) -> Answer<Vec<Seen>> {
    let mut seen = Vec::new();
    for (index, gpu) in (0..).zip(driver.gpus()?) {
        seen.push(match gpu {
            Ok(identity) => {
                let uuid = identity.uuid.clone();
                match observe_gpu(driver, identity) {
                    Ok(state) => Seen::Gpu(Box::new(state)),
                    Err(error) => Seen::Unreadable { index, uuid: Some(uuid), error },
                }
            }
            Err(error) => Seen::Unreadable { index, uuid: error.gpu.clone(), error },
        });
    }
    Ok(seen)
}

/// Reads one GPU. What the caller has no right to see is left out and can be told from what is not there.
///
/// # Errors
/// What the driver answers, a missing right apart.
pub fn observe_gpu(driver: &dyn GpuDriver, identity: GpuIdentity) -> Answer<GpuState> {
    let uuid = identity.uuid.clone();
    let mode = driver.mig_mode(&uuid)?;
    let profiles = if mode.is_some() { listed(driver.gpu_instance_profiles(&uuid))? } else { Vec::new() };
    let mut placements = BTreeMap::new();
    for profile in &profiles {
        match driver.placements(&uuid, profile.id) {
            Ok(found) => {
                placements.insert(profile.id, found);
            }
            Err(error) if error.code == Code::NoPermission => break,
            Err(error) if error.code == Code::NotSupported => {}
            Err(error) => return Err(error),
        }
    }
    let live = match mode {
        Some(mode) => match look(driver, &uuid, mode) {
            Ok(mut live) => {
                name_devices(driver, &uuid, &mut live)?;
                Ok(live)
            }
            Err(error) if error.code == Code::NoPermission => Err(error),
            Err(error) => return Err(error),
        },
        None => Ok(Live { mode: MigMode { current: false, pending: false }, instances: Vec::new() }),
    };
    let processes = driver.processes(&uuid)?;
    Ok(GpuState { identity, profiles, placements, live, mode, processes })
}

/// Profiles, or none where the driver does not list them in this mode.
fn listed(answer: Answer<Vec<GpuInstanceProfile>>) -> Answer<Vec<GpuInstanceProfile>> {
    match answer {
        Err(error) if error.code == Code::NotSupported => Ok(Vec::new()),
        other => other,
    }
}

/// Mode and instances alone: what a change is checked against.
///
/// # Errors
/// What the driver answers.
pub fn live(driver: &dyn GpuDriver, uuid: &GpuUuid) -> Answer<Live> {
    let mode = driver
        .mig_mode(uuid)?
        .ok_or_else(|| DriverError::new("nvmlDeviceGetMigMode", Code::NotSupported).on(uuid))?;
    look(driver, uuid, mode)
}

fn look(driver: &dyn GpuDriver, uuid: &GpuUuid, mode: MigMode) -> Answer<Live> {
    let mut instances = Vec::new();
    // With MIG off the real driver answers NOT_SUPPORTED, and there is nothing to list.
    let found = if mode.current { driver.gpu_instances(uuid)? } else { Vec::new() };
    for instance in found {
        let mut compute = Vec::new();
        for one in driver.compute_instances(uuid, instance.id)? {
            compute.push(LiveCompute {
                id: one.id,
                profile: one.profile,
                placement: one.placement,
                mig: None,
            });
        }
        compute.sort_by_key(|c| (c.placement.start, c.id));
        let (id, profile, placement) = (instance.id, instance.profile, instance.placement);
        instances.push(LiveInstance { id, profile, placement, compute });
    }
    instances.sort_by_key(|i| (i.placement.start, i.id));
    Ok(Live { mode, instances })
}

fn name_devices(driver: &dyn GpuDriver, uuid: &GpuUuid, live: &mut Live) -> Answer<()> {
    if live.instances.iter().all(|i| i.compute.is_empty()) {
        return Ok(());
    }
    for device in driver.mig_devices(uuid)? {
        let instance = live.instances.iter_mut().find(|i| i.id == device.gpu_instance);
        let compute = instance.and_then(|i| i.compute.iter_mut().find(|c| c.id == device.compute_instance));
        if let Some(compute) = compute {
            compute.mig = Some(device.uuid);
        }
    }
    Ok(())
}

/// Whether a process is on this compute instance, as far as can be told: one that the driver attributes to no
/// instance is on all of them.
#[must_use]
pub fn is_on(process: &Process, instance: u32, compute: Option<u32>) -> bool {
    process.gpu_instance.is_none_or(|id| id == instance)
        && compute.is_none_or(|compute| process.compute_instance.is_none_or(|id| id == compute))
}

impl LiveInstance {
    /// The processes on it.
    pub fn processes<'a>(&self, all: &'a [Process]) -> impl Iterator<Item = &'a Process> + use<'a> {
        let id = self.id;
        all.iter().filter(move |process| is_on(process, id, None))
    }
}
