//! Compute instances.

use tesela_model::driver::{Answer, Code, ComputeInstance, ComputeInstanceProfile, GpuUuid};
use tesela_model::product::Placement;

use crate::board::{BoardProfile, ComputeProfile};
use crate::call::Call;
use crate::fault::Defect;
use crate::simulator::{Entry, Simulator};
use crate::{identity, place, state};

impl Simulator {
    /// The compute-instance profiles of a GPU instance, by id.
    ///
    /// # Errors
    /// `NotFound` for a GPU instance that is not there; as every call.
    pub fn compute_instance_profiles(
        &mut self,
        gpu: &GpuUuid,
        gpu_instance: u32,
    ) -> Answer<Vec<ComputeInstanceProfile>> {
        let entry = self.enter(Call::ComputeInstanceProfiles, gpu, Some(gpu_instance))?;
        let (_, profile) = self.instance(&entry, gpu, gpu_instance)?;
        entry.done(gpu, profile.compute.iter().map(ComputeProfile::answer).collect())
    }

    /// Where compute instances of a profile may sit in a GPU instance, taken or not.
    ///
    /// # Errors
    /// `NotFound`, `NotSupported` for a profile that the GPU instance lacks; as every call.
    pub fn compute_placements(
        &mut self,
        gpu: &GpuUuid,
        gpu_instance: u32,
        profile: u32,
    ) -> Answer<Vec<Placement>> {
        let entry = self.enter(Call::ComputeInstanceProfiles, gpu, Some(gpu_instance))?;
        let (_, on) = self.instance(&entry, gpu, gpu_instance)?;
        match on.compute_profile(profile) {
            Some(profile) => entry.done(gpu, profile.placements.clone()),
            None => entry.refuse(gpu, Code::NotSupported),
        }
    }

    /// How many more compute instances of a profile fit a GPU instance now.
    ///
    /// # Errors
    /// `NotFound`, `NotSupported` for a profile that the GPU instance lacks (nvml.h); as every call.
    pub fn compute_remaining_capacity(
        &mut self,
        gpu: &GpuUuid,
        gpu_instance: u32,
        profile: u32,
    ) -> Answer<u32> {
        let entry = self.enter(Call::ComputeInstances, gpu, Some(gpu_instance))?;
        let (there, on) = self.instance(&entry, gpu, gpu_instance)?;
        match on.compute_profile(profile) {
            Some(new) => entry.done(gpu, place::compute_remaining(on, &there.compute, new)),
            None => entry.refuse(gpu, Code::NotSupported),
        }
    }

    /// The compute instances of a GPU instance, by id.
    ///
    /// # Errors
    /// `NotFound`; as every call.
    pub fn compute_instances(&mut self, gpu: &GpuUuid, gpu_instance: u32) -> Answer<Vec<ComputeInstance>> {
        let entry = self.enter(Call::ComputeInstances, gpu, Some(gpu_instance))?;
        let (there, on) = self.instance(&entry, gpu, gpu_instance)?;
        let answer = |c: &state::ComputeInstance| {
            let size = on.compute_profile(c.profile).map_or(0, |p| p.slices);
            ComputeInstance {
                id: c.id,
                gpu_instance,
                profile: c.profile,
                placement: Placement { start: c.start, size },
            }
        };
        entry.done(gpu, there.compute.iter().map(answer).collect())
    }

    /// Makes a compute instance, at a placement or where the driver likes.
    ///
    /// # Errors
    /// `NotFound`, `NotSupported` for a profile that the GPU instance lacks (nvml.h), `InvalidArgument` for a placement
    /// that it lacks, `InsufficientResources` where it does not fit; as every call.
    pub fn create_compute_instance(
        &mut self,
        gpu: &GpuUuid,
        gpu_instance: u32,
        profile: u32,
        placement: Option<Placement>,
    ) -> Answer<ComputeInstance> {
        let entry = self.enter(Call::CreateComputeInstance, gpu, Some(gpu_instance))?;
        let (there, on) = self.instance(&entry, gpu, gpu_instance)?;
        let Some(new) = on.compute_profile(profile) else {
            return entry.refuse(gpu, Code::NotSupported);
        };
        let at = match placement {
            Some(at) if !new.placements.contains(&at) => return entry.refuse(gpu, Code::InvalidArgument),
            Some(at) => place::compute_fits(on, &there.compute, new, at).then_some(at),
            None => place::choose_compute(on, &there.compute, new),
        };
        let Some(at) = at else { return entry.refuse(gpu, Code::InsufficientResources) };
        self.changed();
        let id = self.put_compute(entry.index, gpu_instance, new, at);
        self.config_changed(entry.index, Some((gpu_instance, id)));
        entry.done(gpu, ComputeInstance { id, gpu_instance, profile, placement: at })
    }

    /// Removes a compute instance.
    ///
    /// # Errors
    /// `NotFound`; `InUse` while a process is on it; as every call.
    pub fn destroy_compute_instance(
        &mut self,
        gpu: &GpuUuid,
        gpu_instance: u32,
        compute_instance: u32,
    ) -> Answer<()> {
        let entry = self.enter(Call::DestroyComputeInstance, gpu, Some(gpu_instance))?;
        let on = Some((gpu_instance, compute_instance));
        let state = &mut self.state;
        let one = &mut state.gpus[entry.index];
        let instance = one.instances.iter_mut().find(|i| i.id == gpu_instance);
        let found = instance.and_then(|i| {
            let position = i.compute.iter().position(|c| c.id == compute_instance)?;
            Some((i, position))
        });
        let Some((instance, position)) = found else { return entry.refuse(gpu, Code::NotFound) };
        let held = one.processes.iter().any(|p| p.on == on);
        if held && self.defect != Some(Defect::InUseNeverAnswered) {
            return entry.refuse(gpu, Code::InUse);
        }
        instance.compute.remove(position);
        instance.refusals = state.manner.in_use_answers;
        instance.refused_until = match state.manner.in_use_milliseconds {
            0 => 0,
            passing => state.now + u64::from(passing) * 1000,
        };
        one.processes.retain(|p| p.on != on);
        self.changed();
        self.config_changed(entry.index, on);
        entry.done(gpu, ())
    }

    fn instance(
        &self,
        entry: &Entry,
        gpu: &GpuUuid,
        id: u32,
    ) -> Answer<(&state::GpuInstance, &'static BoardProfile)> {
        let there = self.state.gpus[entry.index].instances.iter().find(|i| i.id == id);
        let found = there.and_then(|i| Some((i, entry.board.profile(i.profile)?)));
        match found {
            Some(found) => Ok(found),
            None => entry.refuse(gpu, Code::NotFound),
        }
    }

    /// Puts a compute instance where it fits, and gives its id: the lowest that is free.
    pub(crate) fn put_compute(
        &mut self,
        index: usize,
        gpu_instance: u32,
        new: &ComputeProfile,
        at: Placement,
    ) -> u32 {
        let seed = self.state.seed;
        let one = &mut self.state.gpus[index];
        one.created += 1;
        let created = one.created;
        let Some(instance) = one.instances.iter_mut().find(|i| i.id == gpu_instance) else { return 0 };
        let taken = |id: &u32| instance.compute.iter().any(|c| c.id == *id);
        let mut id = (0..u32::MAX).find(|id| !taken(id)).unwrap_or(u32::MAX);
        if self.defect == Some(Defect::IdsNotReused) {
            id = u32::try_from(created).unwrap_or(u32::MAX);
        }
        let path = match self.defect {
            Some(Defect::UuidKept) => u64::from(gpu_instance) << 32 | u64::from(id),
            _ => created,
        };
        let number = u64::try_from(index).unwrap_or(u64::MAX);
        let uuid = identity::mig_uuid(seed, number, path);
        instance.compute.push(state::ComputeInstance { id, profile: new.id, start: at.start, uuid });
        instance.compute.sort_by_key(|c| c.id);
        id
    }
}
