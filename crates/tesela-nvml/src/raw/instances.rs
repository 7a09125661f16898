//! GPU and compute instances: profiles, places, making and removing.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings as nvml;
use tesela_model::driver::{
    Answer, Code, ComputeInstance, ComputeInstanceProfile, GpuInstance, GpuInstanceProfile,
};
use tesela_model::product::{Engines, Placement};

use super::{
    Api, ComputeInstanceHandle, DeviceHandle, GpuInstanceHandle, done, found, list_of, text, version_of,
};

/// The enum value by which a profile is asked for; never to be confused with its id.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProfileEnumOf(pub(crate) u32);

/// More instances than a GPU has places; NVML's lists of instances take no length of the buffer.
///
/// NVML asks for as many as the profile's `instanceCount`, which is wrong on A30 (NVIDIA/mig-parted,
/// pkg/mig/discovery/discovery.go), so the buffer holds more than any GPU has memory units or compute slices.
const MOST_INSTANCES: usize = 64;

// Errors of all of these: what NVML answers.
impl Api {
    /// What the driver says of a GPU-instance profile: with its name where the library can tell it.
    pub(crate) fn gpu_instance_profile(
        &self,
        device: DeviceHandle,
        profile: ProfileEnumOf,
    ) -> Answer<GpuInstanceProfile> {
        match self.named_gpu_instance_profile(device, profile) {
            Err(error) if matches!(error.code, Code::FunctionNotFound | Code::ArgumentVersionMismatch) => {
                self.plain_gpu_instance_profile(device, profile)
            }
            answer => answer,
        }
    }

    fn named_gpu_instance_profile(
        &self,
        device: DeviceHandle,
        profile: ProfileEnumOf,
    ) -> Answer<GpuInstanceProfile> {
        let call = "nvmlDeviceGetGpuInstanceProfileInfoV";
        let function = found(call, &self.lib.nvmlDeviceGetGpuInstanceProfileInfoV)?;
        let mut info = nvml::nvmlGpuInstanceProfileInfo_v2_t {
            version: version_of::<nvml::nvmlGpuInstanceProfileInfo_v2_t>(2),
            id: 0,
            isP2pSupported: 0,
            sliceCount: 0,
            instanceCount: 0,
            multiprocessorCount: 0,
            copyEngineCount: 0,
            decoderCount: 0,
            encoderCount: 0,
            jpegCount: 0,
            ofaCount: 0,
            memorySizeMB: 0,
            name: [0; 96],
        };
        // SAFETY: writes one struct of this type, whose version field says its size.
        done(call, unsafe { function(device.0, profile.0, &raw mut info) })?;
        Ok(GpuInstanceProfile {
            profile_enum: profile.0,
            id: info.id,
            name: profile_name(&text(&info.name)),
            compute_slices: info.sliceCount,
            memory_mib: info.memorySizeMB,
            max_instances: info.instanceCount,
            sms: info.multiprocessorCount,
            engines: Engines {
                copy: Some(info.copyEngineCount),
                decoder: Some(info.decoderCount),
                encoder: Some(info.encoderCount),
                jpeg: Some(info.jpegCount),
                ofa: Some(info.ofaCount),
            },
        })
    }

    /// The same from a library that does not tell names.
    fn plain_gpu_instance_profile(
        &self,
        device: DeviceHandle,
        profile: ProfileEnumOf,
    ) -> Answer<GpuInstanceProfile> {
        let call = "nvmlDeviceGetGpuInstanceProfileInfo";
        let function = found(call, &self.lib.nvmlDeviceGetGpuInstanceProfileInfo)?;
        let mut info = nvml::nvmlGpuInstanceProfileInfo_t {
            id: 0,
            isP2pSupported: 0,
            sliceCount: 0,
            instanceCount: 0,
            multiprocessorCount: 0,
            copyEngineCount: 0,
            decoderCount: 0,
            encoderCount: 0,
            jpegCount: 0,
            ofaCount: 0,
            memorySizeMB: 0,
        };
        // SAFETY: writes one struct of this type.
        done(call, unsafe { function(device.0, profile.0, &raw mut info) })?;
        Ok(GpuInstanceProfile {
            profile_enum: profile.0,
            id: info.id,
            name: None,
            compute_slices: info.sliceCount,
            memory_mib: info.memorySizeMB,
            max_instances: info.instanceCount,
            sms: info.multiprocessorCount,
            engines: Engines {
                copy: Some(info.copyEngineCount),
                decoder: Some(info.decoderCount),
                encoder: Some(info.encoderCount),
                jpeg: Some(info.jpegCount),
                ofa: Some(info.ofaCount),
            },
        })
    }

    /// Where instances of a profile may sit.
    pub(crate) fn placements(&self, device: DeviceHandle, profile: u32) -> Answer<Vec<Placement>> {
        let call = "nvmlDeviceGetGpuInstancePossiblePlacements_v2";
        let function = found(call, &self.lib.nvmlDeviceGetGpuInstancePossiblePlacements_v2)?;
        let placements = list_of::<Place>(call, |buffer, count| {
            // SAFETY: `Place` has the layout of NVML's placement, and the buffer holds `count` of them; null asks for
            // the number.
            unsafe { function(device.0, profile, buffer.cast(), count) }
        })?;
        Ok(placements.into_iter().map(|p| Placement { start: p.start, size: p.size }).collect())
    }

    /// How many more instances of a profile fit.
    pub(crate) fn remaining_capacity(&self, device: DeviceHandle, profile: u32) -> Answer<u32> {
        let call = "nvmlDeviceGetGpuInstanceRemainingCapacity";
        let function = found(call, &self.lib.nvmlDeviceGetGpuInstanceRemainingCapacity)?;
        let mut count = 0;
        // SAFETY: writes one number.
        done(call, unsafe { function(device.0, profile, &raw mut count) })?;
        Ok(count)
    }

    /// Makes a GPU instance.
    pub(crate) fn create_gpu_instance(
        &self,
        device: DeviceHandle,
        profile: u32,
        placement: Option<Placement>,
    ) -> Answer<GpuInstanceHandle> {
        let mut instance = std::ptr::null_mut();
        if let Some(Placement { start, size }) = placement {
            let call = "nvmlDeviceCreateGpuInstanceWithPlacement";
            let function = found(call, &self.lib.nvmlDeviceCreateGpuInstanceWithPlacement)?;
            let place = nvml::nvmlGpuInstancePlacement_t { start, size };
            // SAFETY: reads one placement and writes one handle.
            done(call, unsafe { function(device.0, profile, &raw const place, &raw mut instance) })?;
        } else {
            let call = "nvmlDeviceCreateGpuInstance";
            let function = found(call, &self.lib.nvmlDeviceCreateGpuInstance)?;
            // SAFETY: writes one handle.
            done(call, unsafe { function(device.0, profile, &raw mut instance) })?;
        }
        Ok(GpuInstanceHandle(instance))
    }

    /// Removes a GPU instance.
    pub(crate) fn destroy_gpu_instance(&self, instance: GpuInstanceHandle) -> Answer<()> {
        let call = "nvmlGpuInstanceDestroy";
        let function = found(call, &self.lib.nvmlGpuInstanceDestroy)?;
        // SAFETY: takes a handle that this library gave.
        done(call, unsafe { function(instance.0) })
    }

    /// The GPU instances of a profile.
    pub(crate) fn gpu_instances(&self, device: DeviceHandle, profile: u32) -> Answer<Vec<GpuInstanceHandle>> {
        let call = "nvmlDeviceGetGpuInstances";
        let function = found(call, &self.lib.nvmlDeviceGetGpuInstances)?;
        let mut handles = [std::ptr::null_mut(); MOST_INSTANCES];
        let mut count = room();
        // SAFETY: writes at most as many handles as there are instances of one profile, fewer than the buffer holds.
        done(call, unsafe { function(device.0, profile, handles.as_mut_ptr(), &raw mut count) })?;
        Ok(handles.iter().take(count as usize).map(|handle| GpuInstanceHandle(*handle)).collect())
    }

    /// The GPU instance of an id.
    pub(crate) fn gpu_instance_of(&self, device: DeviceHandle, id: u32) -> Answer<GpuInstanceHandle> {
        let call = "nvmlDeviceGetGpuInstanceById";
        let function = found(call, &self.lib.nvmlDeviceGetGpuInstanceById)?;
        let mut instance = std::ptr::null_mut();
        // SAFETY: writes one handle.
        done(call, unsafe { function(device.0, id, &raw mut instance) })?;
        Ok(GpuInstanceHandle(instance))
    }

    /// What a GPU instance is.
    pub(crate) fn gpu_instance(&self, instance: GpuInstanceHandle) -> Answer<GpuInstance> {
        let call = "nvmlGpuInstanceGetInfo";
        let function = found(call, &self.lib.nvmlGpuInstanceGetInfo)?;
        let mut info = nvml::nvmlGpuInstanceInfo_t {
            device: std::ptr::null_mut(),
            id: 0,
            profileId: 0,
            placement: nvml::nvmlGpuInstancePlacement_t { start: 0, size: 0 },
        };
        // SAFETY: writes one struct of this type.
        done(call, unsafe { function(instance.0, &raw mut info) })?;
        let placement = Placement { start: info.placement.start, size: info.placement.size };
        Ok(GpuInstance { id: info.id, profile: info.profileId, placement })
    }

    /// What the driver says of a compute-instance profile, engines shared.
    pub(crate) fn compute_instance_profile(
        &self,
        instance: GpuInstanceHandle,
        profile: ProfileEnumOf,
    ) -> Answer<ComputeInstanceProfile> {
        let call = "nvmlGpuInstanceGetComputeInstanceProfileInfo";
        let function = found(call, &self.lib.nvmlGpuInstanceGetComputeInstanceProfileInfo)?;
        let mut info = nvml::nvmlComputeInstanceProfileInfo_t {
            id: 0,
            sliceCount: 0,
            instanceCount: 0,
            multiprocessorCount: 0,
            sharedCopyEngineCount: 0,
            sharedDecoderCount: 0,
            sharedEncoderCount: 0,
            sharedJpegCount: 0,
            sharedOfaCount: 0,
        };
        let engines = nvml::NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED;
        // SAFETY: writes one struct of this type.
        done(call, unsafe { function(instance.0, profile.0, engines, &raw mut info) })?;
        Ok(ComputeInstanceProfile {
            profile_enum: profile.0,
            id: info.id,
            slices: info.sliceCount,
            max_instances: info.instanceCount,
            sms: info.multiprocessorCount,
        })
    }

    /// Makes a compute instance.
    pub(crate) fn create_compute_instance(
        &self,
        instance: GpuInstanceHandle,
        profile: u32,
        placement: Option<Placement>,
    ) -> Answer<ComputeInstanceHandle> {
        let mut made = std::ptr::null_mut();
        if let Some(Placement { start, size }) = placement {
            let call = "nvmlGpuInstanceCreateComputeInstanceWithPlacement";
            let function = found(call, &self.lib.nvmlGpuInstanceCreateComputeInstanceWithPlacement)?;
            let place = nvml::nvmlComputeInstancePlacement_t { start, size };
            // SAFETY: reads one placement and writes one handle.
            done(call, unsafe { function(instance.0, profile, &raw const place, &raw mut made) })?;
        } else {
            let call = "nvmlGpuInstanceCreateComputeInstance";
            let function = found(call, &self.lib.nvmlGpuInstanceCreateComputeInstance)?;
            // SAFETY: writes one handle.
            done(call, unsafe { function(instance.0, profile, &raw mut made) })?;
        }
        Ok(ComputeInstanceHandle(made))
    }

    /// Removes a compute instance.
    pub(crate) fn destroy_compute_instance(&self, instance: ComputeInstanceHandle) -> Answer<()> {
        let call = "nvmlComputeInstanceDestroy";
        let function = found(call, &self.lib.nvmlComputeInstanceDestroy)?;
        // SAFETY: takes a handle that this library gave.
        done(call, unsafe { function(instance.0) })
    }

    /// The compute instances of a profile in a GPU instance.
    pub(crate) fn compute_instances(
        &self,
        instance: GpuInstanceHandle,
        profile: u32,
    ) -> Answer<Vec<ComputeInstanceHandle>> {
        let call = "nvmlGpuInstanceGetComputeInstances";
        let function = found(call, &self.lib.nvmlGpuInstanceGetComputeInstances)?;
        let mut handles = [std::ptr::null_mut(); MOST_INSTANCES];
        let mut count = room();
        // SAFETY: writes at most as many handles as there are instances of one profile, fewer than the buffer holds.
        done(call, unsafe { function(instance.0, profile, handles.as_mut_ptr(), &raw mut count) })?;
        Ok(handles.iter().take(count as usize).map(|handle| ComputeInstanceHandle(*handle)).collect())
    }

    /// The compute instance of an id.
    pub(crate) fn compute_instance_of(
        &self,
        instance: GpuInstanceHandle,
        id: u32,
    ) -> Answer<ComputeInstanceHandle> {
        let call = "nvmlGpuInstanceGetComputeInstanceById";
        let function = found(call, &self.lib.nvmlGpuInstanceGetComputeInstanceById)?;
        let mut made = std::ptr::null_mut();
        // SAFETY: writes one handle.
        done(call, unsafe { function(instance.0, id, &raw mut made) })?;
        Ok(ComputeInstanceHandle(made))
    }

    /// What a compute instance is.
    pub(crate) fn compute_instance(
        &self,
        instance: ComputeInstanceHandle,
        gpu_instance: u32,
    ) -> Answer<ComputeInstance> {
        let call = "nvmlComputeInstanceGetInfo_v2";
        let function = found(call, &self.lib.nvmlComputeInstanceGetInfo_v2)?;
        let mut info = nvml::nvmlComputeInstanceInfo_t {
            device: std::ptr::null_mut(),
            gpuInstance: std::ptr::null_mut(),
            id: 0,
            profileId: 0,
            placement: nvml::nvmlComputeInstancePlacement_t { start: 0, size: 0 },
        };
        // SAFETY: writes one struct of this type.
        done(call, unsafe { function(instance.0, &raw mut info) })?;
        let placement = Placement { start: info.placement.start, size: info.placement.size };
        Ok(ComputeInstance { id: info.id, gpu_instance, profile: info.profileId, placement })
    }
}

/// The layout of NVML's placement, with a default for buffers.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Place {
    start: c_uint,
    size: c_uint,
}

const _: () = assert!(size_of::<Place>() == size_of::<nvml::nvmlGpuInstancePlacement_t>());

fn room() -> c_uint {
    c_uint::try_from(MOST_INSTANCES).unwrap_or(0)
}

/// A profile's name without the `MIG ` that drivers put before it; `None` when there is none.
fn profile_name(text: &str) -> Option<String> {
    let name = text.strip_prefix("MIG ").unwrap_or(text).trim();
    (!name.is_empty()).then(|| name.to_owned())
}
