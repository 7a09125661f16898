//! GPU and compute instances.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings as nvml;
use tesela_model::driver::{Code, ComputeInstance, GpuInstance, GpuUuid};
use tesela_model::product::{Engines, Placement};
use tesela_sim::board::{BoardProfile, ComputeProfile};
use tesela_sim::call::Call;

use super::handle::{Handle, Thing};
use super::pointer::{Done, In, InOut, Items, Out, Versioned, chars, version_of};
use crate::live::Live;

/// Capabilities of a GPU-instance profile (nvml.h).
const P2P: c_uint = 1;
const GFX: c_uint = 2;

functions! {
    /// A GPU-instance profile by its enum value.
    fn nvmlDeviceGetGpuInstanceProfileInfo(device: Handle, profile: c_uint, info: Out<nvml::nvmlGpuInstanceProfileInfo_t>) = |live| {
        let found = by_enum(live, device, profile)?;
        let Counts { copy, decoder, encoder, jpeg, ofa } = counts(found);
        info.put(nvml::nvmlGpuInstanceProfileInfo_t {
            id: found.id,
            isP2pSupported: c_uint::from(found.p2p),
            sliceCount: found.slices,
            instanceCount: found.max,
            multiprocessorCount: found.sms,
            copyEngineCount: copy,
            decoderCount: decoder,
            encoderCount: encoder,
            jpegCount: jpeg,
            ofaCount: ofa,
            memorySizeMB: found.memory_mib,
        })
    };

    /// The same in a versioned struct, with its name.
    fn nvmlDeviceGetGpuInstanceProfileInfoV(device: Handle, profile: c_uint, info: Versioned) = |live| {
        put_profile(by_enum(live, device, profile)?, &info)
    };

    /// The same by profile id.
    fn nvmlDeviceGetGpuInstanceProfileInfoByIdV(device: Handle, profile: c_uint, info: Versioned) = |live| {
        let uuid = live.gpu(device)?.uuid;
        live.ask(Call::GpuInstanceProfiles, |sim| sim.gpu_instance_profiles(&uuid))?;
        put_profile(live.board(device)?.profile(profile).ok_or(Code::NotSupported)?, &info)
    };

    /// Where instances of a profile may sit, taken or not.
    fn nvmlDeviceGetGpuInstancePossiblePlacements(device: Handle, profile: c_uint, places: Items<Place>, count: InOut<c_uint>) = |live| {
        places.list_or_length(&count, &places_of(live, device, profile)?)
    };
    /// The same.
    fn nvmlDeviceGetGpuInstancePossiblePlacements_v2(device: Handle, profile: c_uint, places: Items<Place>, count: InOut<c_uint>) = |live| {
        places.list_or_length(&count, &places_of(live, device, profile)?)
    };

    /// How many more of a profile fit now.
    fn nvmlDeviceGetGpuInstanceRemainingCapacity(device: Handle, profile: c_uint, count: Out<c_uint>) = |live| {
        let uuid = live.gpu(device)?.uuid;
        count.put(live.ask(Call::RemainingCapacity, |sim| sim.remaining_capacity(&uuid, profile))?)
    };

    /// Makes a GPU instance where the driver likes.
    fn nvmlDeviceCreateGpuInstance(device: Handle, profile: c_uint, instance: Out<Handle>) = |live| {
        create(live, device, profile, None, instance)
    };

    /// Makes a GPU instance at a place.
    fn nvmlDeviceCreateGpuInstanceWithPlacement(device: Handle, profile: c_uint, place: In<Place>, instance: Out<Handle>) = |live| {
        let at = place.get()?.placement();
        create(live, device, profile, Some(at), instance)
    };

    /// Removes a GPU instance.
    fn nvmlGpuInstanceDestroy(instance: Handle) = |live| {
        let (gpu, id) = gpu_instance(live, instance)?;
        live.change(Call::DestroyGpuInstance, |sim| sim.destroy_gpu_instance(&gpu, id))
    };

    /// The GPU instances of a profile. The caller has room for as many as the profile's most.
    fn nvmlDeviceGetGpuInstances(device: Handle, profile: c_uint, instances: Items<Handle>, count: Out<c_uint>) = |live| {
        let uuid = live.gpu(device)?.uuid;
        count.check()?;
        with_mig(live, &uuid)?;
        if live.board(device)?.profile(profile).is_none() {
            return Err(Code::NotSupported);
        }
        let all = live.ask(Call::GpuInstances, |sim| sim.gpu_instances(&uuid))?;
        let mut handles = Vec::new();
        for one in all.iter().filter(|one| one.profile == profile) {
            handles.push(live.handle(Thing::GpuInstance(uuid.clone(), one.id)));
        }
        put_handles(&handles, &instances, count)
    };

    /// The GPU instance of an id.
    fn nvmlDeviceGetGpuInstanceById(device: Handle, id: c_uint, instance: Out<Handle>) = |live| {
        let uuid = live.gpu(device)?.uuid;
        instance.check()?;
        with_mig(live, &uuid)?;
        found(live, &uuid, id)?;
        instance.put(live.handle(Thing::GpuInstance(uuid, id)))
    };

    /// What a GPU instance is.
    fn nvmlGpuInstanceGetInfo(instance: Handle, info: Out<nvml::nvmlGpuInstanceInfo_t>) = |live| {
        let (gpu, id) = gpu_instance(live, instance)?;
        let GpuInstance { profile, placement, .. } = found(live, &gpu, id)?;
        let device = live.handle(Thing::Gpu(gpu)).pointer();
        let placement = nvml::nvmlGpuInstancePlacement_t { start: placement.start, size: placement.size };
        info.put(nvml::nvmlGpuInstanceInfo_t { device, id, profileId: profile, placement })
    };

    /// A compute-instance profile of a GPU instance by its enum value.
    fn nvmlGpuInstanceGetComputeInstanceProfileInfo(instance: Handle, profile: c_uint, engines: c_uint, info: Out<nvml::nvmlComputeInstanceProfileInfo_t>) = |live| {
        let (on, part) = compute_profile(live, instance, profile, engines)?;
        let Counts { copy, decoder, encoder, jpeg, ofa } = counts(on);
        info.put(nvml::nvmlComputeInstanceProfileInfo_t {
            id: part.id,
            sliceCount: part.slices,
            instanceCount: part.max,
            multiprocessorCount: part.sms,
            sharedCopyEngineCount: copy,
            sharedDecoderCount: decoder,
            sharedEncoderCount: encoder,
            sharedJpegCount: jpeg,
            sharedOfaCount: ofa,
        })
    };

    /// The same in a versioned struct, with its name.
    fn nvmlGpuInstanceGetComputeInstanceProfileInfoV(instance: Handle, profile: c_uint, engines: c_uint, info: Versioned) = |live| {
        let (on, part) = compute_profile(live, instance, profile, engines)?;
        put_compute_profile(on, part, &info)
    };

    /// Where compute instances of a profile may sit, taken or not.
    fn nvmlGpuInstanceGetComputeInstancePossiblePlacements(instance: Handle, profile: c_uint, places: Items<Place>, count: InOut<c_uint>) = |live| {
        let (gpu, id) = gpu_instance(live, instance)?;
        let all = live.ask(Call::ComputeInstanceProfiles, |sim| sim.compute_placements(&gpu, id, profile))?;
        places.list_or_length(&count, &all.into_iter().map(Place::of).collect::<Vec<_>>())
    };

    /// How many more of a compute-instance profile fit now.
    fn nvmlGpuInstanceGetComputeInstanceRemainingCapacity(instance: Handle, profile: c_uint, count: Out<c_uint>) = |live| {
        let (gpu, id) = gpu_instance(live, instance)?;
        count.put(live.ask(Call::ComputeInstances, |sim| sim.compute_remaining_capacity(&gpu, id, profile))?)
    };

    /// Makes a compute instance where the driver likes.
    fn nvmlGpuInstanceCreateComputeInstance(instance: Handle, profile: c_uint, made: Out<Handle>) = |live| {
        create_compute(live, instance, profile, None, made)
    };

    /// Makes a compute instance at a place.
    fn nvmlGpuInstanceCreateComputeInstanceWithPlacement(instance: Handle, profile: c_uint, place: In<Place>, made: Out<Handle>) = |live| {
        let at = place.get()?.placement();
        create_compute(live, instance, profile, Some(at), made)
    };

    /// Removes a compute instance.
    fn nvmlComputeInstanceDestroy(instance: Handle) = |live| {
        let (gpu, on, id) = compute_instance(live, instance)?;
        live.change(Call::DestroyComputeInstance, |sim| sim.destroy_compute_instance(&gpu, on, id))
    };

    /// The compute instances of a profile. The caller has room for as many as the profile's most.
    fn nvmlGpuInstanceGetComputeInstances(instance: Handle, profile: c_uint, instances: Items<Handle>, count: Out<c_uint>) = |live| {
        let (gpu, id) = gpu_instance(live, instance)?;
        count.check()?;
        let all = live.ask(Call::ComputeInstances, |sim| sim.compute_instances(&gpu, id))?;
        let mut handles = Vec::new();
        for one in all.iter().filter(|one| one.profile == profile) {
            handles.push(live.handle(Thing::ComputeInstance(gpu.clone(), id, one.id)));
        }
        put_handles(&handles, &instances, count)
    };

    /// The compute instance of an id.
    fn nvmlGpuInstanceGetComputeInstanceById(instance: Handle, id: c_uint, made: Out<Handle>) = |live| {
        let (gpu, on) = gpu_instance(live, instance)?;
        made.check()?;
        found_compute(live, &gpu, on, id)?;
        made.put(live.handle(Thing::ComputeInstance(gpu, on, id)))
    };

    /// What a compute instance is.
    fn nvmlComputeInstanceGetInfo(instance: Handle, info: Out<nvml::nvmlComputeInstanceInfo_t>) = |live| {
        info.put(compute_info(live, instance)?)
    };
    /// The same.
    fn nvmlComputeInstanceGetInfo_v2(instance: Handle, info: Out<nvml::nvmlComputeInstanceInfo_t>) = |live| {
        info.put(compute_info(live, instance)?)
    };
}

/// The layout of both of NVML's placements.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    start: c_uint,
    size: c_uint,
}

const _: () = assert!(size_of::<Place>() == size_of::<nvml::nvmlGpuInstancePlacement_t>());
const _: () = assert!(size_of::<Place>() == size_of::<nvml::nvmlComputeInstancePlacement_t>());

impl Place {
    fn of(Placement { start, size }: Placement) -> Self {
        Self { start, size }
    }

    fn placement(self) -> Placement {
        Placement { start: self.start, size: self.size }
    }
}

/// Engines as NVML answers them: each is known.
struct Counts {
    copy: c_uint,
    decoder: c_uint,
    encoder: c_uint,
    jpeg: c_uint,
    ofa: c_uint,
}

fn counts(profile: &BoardProfile) -> Counts {
    let Engines { copy, decoder, encoder, jpeg, ofa } = profile.engines;
    let known = |count: Option<u32>| count.unwrap_or(0);
    Counts {
        copy: known(copy),
        decoder: known(decoder),
        encoder: known(encoder),
        jpeg: known(jpeg),
        ofa: known(ofa),
    }
}

/// A profile by the enum value, which is another number than its id.
fn by_enum(live: &mut Live, device: Handle, profile: c_uint) -> Result<&'static BoardProfile, Code> {
    let uuid = live.gpu(device)?.uuid;
    live.ask(Call::GpuInstanceProfiles, |sim| sim.gpu_instance_profiles(&uuid))?;
    let mut all = live.board(device)?.profiles().iter();
    all.find(|one| one.profile_enum == profile).ok_or(Code::NotSupported)
}

fn put_profile(found: &BoardProfile, info: &Versioned) -> Done {
    const SECOND: c_uint = version_of::<nvml::nvmlGpuInstanceProfileInfo_v2_t>(2);
    let name = chars(&format!("MIG {}", found.name));
    let Counts { copy, decoder, encoder, jpeg, ofa } = counts(found);
    let version = info.version()?;
    if version == SECOND {
        return info.put(
            2,
            nvml::nvmlGpuInstanceProfileInfo_v2_t {
                version,
                id: found.id,
                isP2pSupported: c_uint::from(found.p2p),
                sliceCount: found.slices,
                instanceCount: found.max,
                multiprocessorCount: found.sms,
                copyEngineCount: copy,
                decoderCount: decoder,
                encoderCount: encoder,
                jpegCount: jpeg,
                ofaCount: ofa,
                memorySizeMB: found.memory_mib,
                name,
            },
        );
    }
    let capabilities = if found.p2p { P2P } else { 0 } | if found.graphics { GFX } else { 0 };
    info.put(
        3,
        nvml::nvmlGpuInstanceProfileInfo_v3_t {
            version,
            id: found.id,
            sliceCount: found.slices,
            instanceCount: found.max,
            multiprocessorCount: found.sms,
            copyEngineCount: copy,
            decoderCount: decoder,
            encoderCount: encoder,
            jpegCount: jpeg,
            ofaCount: ofa,
            memorySizeMB: found.memory_mib,
            name,
            capabilities,
        },
    )
}

fn put_compute_profile(on: &BoardProfile, part: &ComputeProfile, info: &Versioned) -> Done {
    const SECOND: c_uint = version_of::<nvml::nvmlComputeInstanceProfileInfo_v2_t>(2);
    let name = chars(&format!("MIG {}", part.name));
    let Counts { copy, decoder, encoder, jpeg, ofa } = counts(on);
    let version = info.version()?;
    if version == SECOND {
        return info.put(
            2,
            nvml::nvmlComputeInstanceProfileInfo_v2_t {
                version,
                id: part.id,
                sliceCount: part.slices,
                instanceCount: part.max,
                multiprocessorCount: part.sms,
                sharedCopyEngineCount: copy,
                sharedDecoderCount: decoder,
                sharedEncoderCount: encoder,
                sharedJpegCount: jpeg,
                sharedOfaCount: ofa,
                name,
            },
        );
    }
    info.put(
        3,
        nvml::nvmlComputeInstanceProfileInfo_v3_t {
            version,
            id: part.id,
            sliceCount: part.slices,
            instanceCount: part.max,
            multiprocessorCount: part.sms,
            sharedCopyEngineCount: copy,
            sharedDecoderCount: decoder,
            sharedEncoderCount: encoder,
            sharedJpegCount: jpeg,
            sharedOfaCount: ofa,
            name,
            capabilities: 0,
        },
    )
}

fn places_of(live: &mut Live, device: Handle, profile: c_uint) -> Result<Vec<Place>, Code> {
    let uuid = live.gpu(device)?.uuid;
    let all = live.ask(Call::Placements, |sim| sim.placements(&uuid, profile))?;
    Ok(all.into_iter().map(Place::of).collect())
}

/// Lists and look-ups of instances are not supported with MIG off (nvml.h).
fn with_mig(live: &mut Live, gpu: &GpuUuid) -> Done {
    if live.gpu_of(gpu)?.mode.current { Ok(()) } else { Err(Code::NotSupported) }
}

fn create(
    live: &mut Live,
    device: Handle,
    profile: c_uint,
    at: Option<Placement>,
    instance: Out<Handle>,
) -> Done {
    let uuid = live.gpu(device)?.uuid;
    instance.check()?;
    let made = live.change(Call::CreateGpuInstance, |sim| sim.create_gpu_instance(&uuid, profile, at))?;
    instance.put(live.handle(Thing::GpuInstance(uuid, made.id)))
}

fn create_compute(
    live: &mut Live,
    instance: Handle,
    profile: c_uint,
    at: Option<Placement>,
    made: Out<Handle>,
) -> Done {
    let (gpu, on) = gpu_instance(live, instance)?;
    made.check()?;
    let new =
        live.change(Call::CreateComputeInstance, |sim| sim.create_compute_instance(&gpu, on, profile, at))?;
    made.put(live.handle(Thing::ComputeInstance(gpu, on, new.id)))
}

fn put_handles(handles: &[Handle], places: &Items<Handle>, count: Out<c_uint>) -> Done {
    places.put_all(handles)?;
    count.put(c_uint::try_from(handles.len()).map_err(|_| Code::Unknown)?)
}

fn gpu_instance(live: &mut Live, handle: Handle) -> Result<(GpuUuid, u32), Code> {
    match live.thing(handle)? {
        Thing::GpuInstance(gpu, id) => Ok((gpu, id)),
        _ => Err(Code::InvalidArgument),
    }
}

fn compute_instance(live: &mut Live, handle: Handle) -> Result<(GpuUuid, u32, u32), Code> {
    match live.thing(handle)? {
        Thing::ComputeInstance(gpu, on, id) => Ok((gpu, on, id)),
        _ => Err(Code::InvalidArgument),
    }
}

/// A GPU instance that is there. Programs without rights may look up the instances of their MIG device, so this is no
/// list of instances.
fn found(live: &mut Live, gpu: &GpuUuid, id: u32) -> Result<GpuInstance, Code> {
    let board = live.board_of(gpu)?;
    let state = live.gpu_of(gpu)?;
    let one = state.instances.iter().find(|one| one.id == id).ok_or(Code::NotFound)?;
    let size = board.profile(one.profile).ok_or(Code::Unknown)?.units;
    let placement = Placement { start: one.start, size };
    Ok(GpuInstance { id, profile: one.profile, placement })
}

fn found_compute(live: &mut Live, gpu: &GpuUuid, on: u32, id: u32) -> Result<ComputeInstance, Code> {
    let board = live.board_of(gpu)?;
    let state = live.gpu_of(gpu)?;
    let instance = state.instances.iter().find(|one| one.id == on).ok_or(Code::NotFound)?;
    let one = instance.compute.iter().find(|one| one.id == id).ok_or(Code::NotFound)?;
    let part = board.profile(instance.profile).and_then(|profile| profile.compute_profile(one.profile));
    let placement = Placement { start: one.start, size: part.ok_or(Code::Unknown)?.slices };
    Ok(ComputeInstance { id, gpu_instance: on, profile: one.profile, placement })
}

fn compute_info(live: &mut Live, instance: Handle) -> Result<nvml::nvmlComputeInstanceInfo_t, Code> {
    let (gpu, on, id) = compute_instance(live, instance)?;
    let ComputeInstance { profile, placement, .. } = found_compute(live, &gpu, on, id)?;
    Ok(nvml::nvmlComputeInstanceInfo_t {
        device: live.handle(Thing::Gpu(gpu.clone())).pointer(),
        gpuInstance: live.handle(Thing::GpuInstance(gpu, on)).pointer(),
        id,
        profileId: profile,
        placement: nvml::nvmlComputeInstancePlacement_t { start: placement.start, size: placement.size },
    })
}

fn compute_profile(
    live: &mut Live,
    instance: Handle,
    profile: c_uint,
    engines: c_uint,
) -> Result<(&'static BoardProfile, &'static ComputeProfile), Code> {
    let (gpu, id) = gpu_instance(live, instance)?;
    if engines >= nvml::NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_COUNT {
        return Err(Code::InvalidArgument);
    }
    live.ask(Call::ComputeInstanceProfiles, |sim| sim.compute_instance_profiles(&gpu, id))?;
    let on = found(live, &gpu, id)?;
    let on = live.board_of(&gpu)?.profile(on.profile).ok_or(Code::Unknown)?;
    // Enum values and ids of compute instances are the same numbers.
    Ok((on, on.compute_profile(profile).ok_or(Code::NotSupported)?))
}
