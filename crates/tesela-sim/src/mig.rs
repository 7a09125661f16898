//! GPU instances and MIG devices.

use tesela_model::driver::{
    Answer, Code, DeviceEvent, EventKind, GpuInstance, GpuInstanceProfile, GpuUuid, MigDevice,
};
use tesela_model::product::Placement;

use crate::board::{Board, BoardProfile};
use crate::call::Call;
use crate::fault::Defect;
use crate::place::{self, Space};
use crate::simulator::{Entry, Simulator};
use crate::state;

impl Simulator {
    /// The GPU-instance profiles of a GPU, by id.
    ///
    /// # Errors
    /// `NotSupported` with MIG off under an old driver; as every call.
    pub fn gpu_instance_profiles(&mut self, gpu: &GpuUuid) -> Answer<Vec<GpuInstanceProfile>> {
        let entry = self.enter(Call::GpuInstanceProfiles, gpu, None)?;
        if self.hides_profiles(entry.index) {
            return entry.refuse(gpu, Code::NotSupported);
        }
        entry.done(gpu, entry.board.profiles().iter().map(BoardProfile::answer).collect())
    }

    /// Where instances of a profile may sit, taken or not; with MIG off too.
    ///
    /// # Errors
    /// `NotSupported` for a profile that the GPU lacks (nvml.h), and with MIG off under an old driver; as every call.
    pub fn placements(&mut self, gpu: &GpuUuid, profile: u32) -> Answer<Vec<Placement>> {
        let entry = self.enter(Call::Placements, gpu, None)?;
        let hidden = self.hides_profiles(entry.index);
        match self.profile(&entry, profile).filter(|_| !hidden) {
            Some(profile) => entry.done(gpu, profile.placements.clone()),
            None => entry.refuse(gpu, Code::NotSupported),
        }
    }

    /// How many more of a profile fit now.
    ///
    /// # Errors
    /// `NotSupported` with MIG off, and for a profile that the GPU lacks (nvml.h); as every call.
    pub fn remaining_capacity(&mut self, gpu: &GpuUuid, profile: u32) -> Answer<u32> {
        let entry = self.enter(Call::RemainingCapacity, gpu, None)?;
        let on = self.state.gpus[entry.index].mode.current;
        match self.profile(&entry, profile).filter(|_| on) {
            Some(profile) => entry.done(gpu, self.space(&entry).remaining(profile)),
            None => entry.refuse(gpu, Code::NotSupported),
        }
    }

    /// The GPU instances of a GPU, by id, half-made ones too. None with MIG off.
    ///
    /// # Errors
    /// As every call.
    pub fn gpu_instances(&mut self, gpu: &GpuUuid) -> Answer<Vec<GpuInstance>> {
        let entry = self.enter(Call::GpuInstances, gpu, None)?;
        let hidden = self.defect == Some(Defect::HalfMadeHidden);
        let all = self.state.gpus[entry.index].instances.iter();
        let shown = all.filter(|i| !(hidden && i.compute.is_empty()));
        let answers = shown.map(|i| answer(entry.board, i)).collect();
        entry.done(gpu, answers)
    }

    /// Makes a GPU instance, at a placement or where the driver likes.
    ///
    /// # Errors
    /// `NotSupported` with MIG off, `InvalidArgument` for a profile or placement that the GPU lacks,
    /// `InsufficientResources` where it does not fit; as every call.
    pub fn create_gpu_instance(
        &mut self,
        gpu: &GpuUuid,
        profile: u32,
        placement: Option<Placement>,
    ) -> Answer<GpuInstance> {
        let entry = self.enter(Call::CreateGpuInstance, gpu, None)?;
        let profile = self.profile_with_mig(&entry, gpu, profile)?;
        let space = self.space(&entry);
        let at = match placement {
            Some(at) if !profile.placements.contains(&at) => {
                return entry.refuse(gpu, Code::InvalidArgument);
            }
            Some(at) => space.fits(profile, at).then_some(at),
            None => space.choose(profile),
        };
        let Some(at) = at else { return entry.refuse(gpu, Code::InsufficientResources) };
        self.changed();
        let id = self.put(entry.index, profile, at);
        self.config_changed(entry.index, None);
        entry.done(gpu, GpuInstance { id, profile: profile.id, placement: at })
    }

    /// Removes a GPU instance.
    ///
    /// # Errors
    /// `NotSupported` with MIG off; `NotFound`; `InUse` while a compute instance is in it, and for a moment after where the machine says so; as
    /// every call.
    pub fn destroy_gpu_instance(&mut self, gpu: &GpuUuid, gpu_instance: u32) -> Answer<()> {
        let entry = self.enter(Call::DestroyGpuInstance, gpu, Some(gpu_instance))?;
        if !self.state.gpus[entry.index].mode.current {
            return entry.refuse(gpu, Code::NotSupported);
        }
        let now = self.state.now;
        let instances = &mut self.state.gpus[entry.index].instances;
        let Some(position) = instances.iter().position(|i| i.id == gpu_instance) else {
            return entry.refuse(gpu, Code::NotFound);
        };
        if self.defect != Some(Defect::InUseNeverAnswered) {
            let one = &mut instances[position];
            if !one.compute.is_empty() || now < one.refused_until {
                return entry.refuse(gpu, Code::InUse);
            }
            if one.refusals > 0 {
                one.refusals -= 1;
                self.changed();
                return entry.refuse(gpu, Code::InUse);
            }
        }
        instances.remove(position);
        let on = |p: &state::Process| p.on.is_some_and(|(gi, _)| gi == gpu_instance);
        self.state.gpus[entry.index].processes.retain(|p| !on(p));
        self.changed();
        self.config_changed(entry.index, None);
        entry.done(gpu, ())
    }

    /// The MIG devices of a GPU: every compute instance, by GPU instance and compute instance.
    ///
    /// # Errors
    /// As every call.
    pub fn mig_devices(&mut self, gpu: &GpuUuid) -> Answer<Vec<MigDevice>> {
        let entry = self.enter(Call::MigDevices, gpu, None)?;
        let one = &self.state.gpus[entry.index];
        let mut devices = Vec::new();
        for (instance, compute) in one.instances.iter().flat_map(|i| i.compute.iter().map(move |c| (i, c))) {
            let Some(profile) = entry.board.profile(instance.profile) else { continue };
            let name = profile.compute_profile(compute.profile).map_or(&profile.name, |c| &c.name);
            devices.push(MigDevice {
                index: u32::try_from(devices.len()).unwrap_or(u32::MAX),
                uuid: compute.uuid.clone(),
                gpu_instance: instance.id,
                compute_instance: compute.id,
                name: format!("{} MIG {name}", one.name),
                memory_mib: profile.memory_mib,
            });
        }
        entry.done(gpu, devices)
    }

    /// Drivers up to 535 tell of profiles only with MIG on (NVIDIA/mig-parted:cmd/nvidia-mig-manager/main.go).
    fn hides_profiles(&self, index: usize) -> bool {
        let major = self.state.driver.split('.').next().and_then(|major| major.parse::<u32>().ok());
        !self.state.gpus[index].mode.current && major.is_some_and(|major| major <= 535)
    }

    pub(crate) fn space(&self, entry: &Entry) -> Space<'static> {
        Space::new(entry.board, &self.state.gpus[entry.index], self.defect)
    }

    fn profile(&self, entry: &Entry, id: u32) -> Option<&'static BoardProfile> {
        if self.defect == Some(Defect::EnumTakenForId) {
            return entry.board.profiles().iter().find(|p| p.profile_enum == id);
        }
        entry.board.profile(id)
    }

    fn profile_with_mig(&self, entry: &Entry, gpu: &GpuUuid, id: u32) -> Answer<&'static BoardProfile> {
        if !self.state.gpus[entry.index].mode.current {
            return entry.refuse(gpu, Code::NotSupported);
        }
        match self.profile(entry, id) {
            Some(profile) => Ok(profile),
            None => entry.refuse(gpu, Code::InvalidArgument),
        }
    }

    /// Puts a GPU instance where it fits, and gives its id.
    pub(crate) fn put(&mut self, index: usize, profile: &BoardProfile, at: Placement) -> u32 {
        let board = self.board(index);
        let one = &mut self.state.gpus[index];
        one.created += 1;
        let mut id = board.map_or(0, |board| place::gpu_instance_id(board, at));
        if self.defect == Some(Defect::IdsNotReused) {
            id = 100 + u32::try_from(one.created).unwrap_or(u32::MAX / 2);
        }
        one.instances.push(state::GpuInstance {
            id,
            profile: profile.id,
            start: at.start,
            compute: Vec::new(),
            refusals: 0,
            refused_until: 0,
        });
        one.instances.sort_by_key(|i| i.id);
        id
    }

    pub(crate) fn config_changed(&mut self, index: usize, instance: Option<(u32, u32)>) {
        let gpu = self.state.gpus[index].uuid.clone();
        self.log(DeviceEvent { gpu, instance, kind: EventKind::MigConfigChange });
    }
}

fn answer(board: &Board, instance: &state::GpuInstance) -> GpuInstance {
    let size = board.profile(instance.profile).map_or(0, |p| p.units);
    GpuInstance {
        id: instance.id,
        profile: instance.profile,
        placement: Placement { start: instance.start, size },
    }
}
