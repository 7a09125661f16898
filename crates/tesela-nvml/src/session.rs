//! The port `GpuDriver` over a loaded library.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nvml_wrapper_sys::bindings as nvml;
use tesela_model::driver::{
    Activation, Answer, Code, ComputeInstance, ComputeInstanceProfile, Device, DeviceEvent, DriverError,
    EventKind, GpuDriver, GpuIdentity, GpuInstance, GpuInstanceProfile, GpuUuid, MigDevice, MigMode, MigUuid,
    Process, ProcessKind, Readings, Versions,
};
use tesela_model::product::Placement;

use crate::load::{OpenError, Search};
use crate::raw::{Api, DeviceHandle, EventSetHandle, GpuInstanceHandle, Happened, ProfileEnumOf};

/// Enum values of profiles that are asked about. NVML knows 18 of GPU instances and 9 of compute instances today; the
/// rest is room for newer drivers. Unknown ones are refused with a code.
const PROFILE_ENUMS: std::ops::Range<u32> = 0..32;

/// An open session with NVML. Closing it (by dropping) lets go of the driver.
pub struct Session {
    api: Api,
    /// Handles by UUID: looking one up may take seconds on a busy node.
    devices: Mutex<BTreeMap<GpuUuid, DeviceHandle>>,
    /// Made at the first wait.
    events: Mutex<Option<EventSetHandle>>,
}

impl Session {
    /// Loads the library and starts it.
    ///
    /// # Errors
    /// Why not, and what to do about it.
    pub fn open(search: &Search) -> Result<Self, OpenError> {
        let mut tried = Vec::new();
        for file in search.candidates() {
            match Api::load(&file) {
                Ok(api) => {
                    api.check(&file)?;
                    api.init().map_err(|code| OpenError::Start { code })?;
                    return Ok(Self { api, devices: Mutex::default(), events: Mutex::default() });
                }
                Err(error) => tried.push(error.to_string()),
            }
        }
        Err(OpenError::Library { tried })
    }

    /// The handle of a GPU.
    fn device(&self, gpu: &GpuUuid) -> Answer<DeviceHandle> {
        if let Some(device) = locked(&self.devices).get(gpu) {
            return Ok(*device);
        }
        let device = self.api.device_of(gpu.as_str())?;
        locked(&self.devices).insert(gpu.clone(), device);
        Ok(device)
    }

    /// Asks about a GPU. A refusal says which GPU, and after one that may mean a stale handle, it is looked up anew.
    fn ask<T>(&self, gpu: &GpuUuid, question: impl FnOnce(&Api, DeviceHandle) -> Answer<T>) -> Answer<T> {
        let answer = self.device(gpu).and_then(|device| question(&self.api, device));
        answer.map_err(|error| {
            if matches!(error.code, Code::InvalidArgument | Code::GpuIsLost | Code::Uninitialized) {
                locked(&self.devices).remove(gpu);
            }
            error.on(gpu)
        })
    }

    /// Asks about a GPU instance.
    fn ask_instance<T>(
        &self,
        gpu: &GpuUuid,
        id: u32,
        question: impl FnOnce(&Api, GpuInstanceHandle) -> Answer<T>,
    ) -> Answer<T> {
        self.ask(gpu, |api, device| question(api, api.gpu_instance_of(device, id)?))
    }

    fn identity(&self, index: u32) -> Answer<GpuIdentity> {
        let api = &self.api;
        let device = api.device_at(index)?;
        let uuid = GpuUuid::new(api.uuid(device)?);
        let whole = || {
            let pci = api.pci(device)?;
            Ok(GpuIdentity {
                index,
                uuid: uuid.clone(),
                name: api.name(device)?,
                pci_bus_id: pci.bus_id,
                pci_device_id: pci.device_id,
                pci_subsystem_id: pci.subsystem_id,
                minor: optional(api.minor(device))?,
                memory_bytes: api.memory(device)?.total,
                compute_capability: optional(api.compute_capability(device))?,
            })
        };
        let identity = whole().map_err(|error: DriverError| error.on(&uuid))?;
        locked(&self.devices).insert(uuid, device);
        Ok(identity)
    }

    fn mig_device(&self, gpu: DeviceHandle, index: u32) -> Answer<MigDevice> {
        let api = &self.api;
        let mig = api.mig_device_at(gpu, index)?;
        Ok(MigDevice {
            index,
            uuid: MigUuid::new(api.uuid(mig)?),
            gpu_instance: api.gpu_instance_id(mig)?,
            compute_instance: api.compute_instance_id(mig)?,
            name: api.name(mig)?,
            memory_mib: api.mig_memory_mib(mig)?,
        })
    }

    /// The set of events of all GPUs. A GPU whose events cannot be had is left out of it.
    fn watched(&self) -> Answer<EventSetHandle> {
        let set = self.api.event_set()?;
        let count = self.api.count().inspect_err(|_| self.api.free_event_set(set))?;
        let mut watched = false;
        for index in 0..count {
            let told = self.api.device_at(index).and_then(|device| self.api.watch(device, set));
            watched |= told.unwrap_or(false);
        }
        if !watched {
            self.api.free_event_set(set);
            return Err(DriverError::new("nvmlDeviceRegisterEvents", Code::NotSupported));
        }
        Ok(set)
    }

    fn told(&self, happened: &Happened) -> Answer<Option<DeviceEvent>> {
        const XID: u64 = nvml::nvmlEventTypeXidCriticalError as u64;
        const SINGLE: u64 = nvml::nvmlEventTypeSingleBitEccError as u64;
        const DOUBLE: u64 = nvml::nvmlEventTypeDoubleBitEccError as u64;
        const CONFIG: u64 = nvml::nvmlEventMigConfigChange as u64;
        let kind = match happened.kind {
            XID => EventKind::Xid(happened.data),
            SINGLE => EventKind::SingleBitEcc,
            DOUBLE => EventKind::DoubleBitEcc,
            CONFIG => EventKind::MigConfigChange,
            _ => return Ok(None),
        };
        let gpu = GpuUuid::new(self.api.uuid(happened.device)?);
        Ok(Some(DeviceEvent { gpu, instance: happened.instance, kind }))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(set) = locked(&self.events).take() {
            self.api.free_event_set(set);
        }
        self.api.shutdown();
    }
}

impl GpuDriver for Session {
    fn versions(&self) -> Answer<Versions> {
        Ok(Versions {
            driver: self.api.driver_version()?,
            nvml: self.api.nvml_version()?,
            cuda: optional(self.api.cuda_version())?,
        })
    }

    fn gpus(&self) -> Answer<Vec<Answer<GpuIdentity>>> {
        let count = self.api.count()?;
        Ok((0..count).map(|index| self.identity(index)).collect())
    }

    fn mig_mode(&self, gpu: &GpuUuid) -> Answer<Option<MigMode>> {
        self.ask(gpu, |api, device| optional(api.mig_mode(device)))
    }

    fn set_mig_mode(&self, gpu: &GpuUuid, enabled: bool) -> Answer<Activation> {
        self.ask(gpu, |api, device| api.set_mig_mode(device, enabled))
    }

    fn gpu_instance_profiles(&self, gpu: &GpuUuid) -> Answer<Vec<GpuInstanceProfile>> {
        self.ask(gpu, |api, device| {
            offered(|profile| api.gpu_instance_profile(device, profile), |profile| profile.id)
        })
    }

    fn placements(&self, gpu: &GpuUuid, profile: u32) -> Answer<Vec<Placement>> {
        self.ask(gpu, |api, device| api.placements(device, profile))
    }

    fn remaining_capacity(&self, gpu: &GpuUuid, profile: u32) -> Answer<u32> {
        self.ask(gpu, |api, device| api.remaining_capacity(device, profile))
    }

    fn gpu_instances(&self, gpu: &GpuUuid) -> Answer<Vec<GpuInstance>> {
        if !self.mig_mode(gpu)?.is_some_and(|mode| mode.current) {
            return Ok(Vec::new());
        }
        let profiles = self.gpu_instance_profiles(gpu)?;
        self.ask(gpu, |api, device| {
            let mut instances = Vec::new();
            for profile in &profiles {
                for handle in api.gpu_instances(device, profile.id)? {
                    instances.push(api.gpu_instance(handle)?);
                }
            }
            instances.sort_unstable_by_key(|instance| instance.id);
            Ok(instances)
        })
    }

    fn create_gpu_instance(
        &self,
        gpu: &GpuUuid,
        profile: u32,
        placement: Option<Placement>,
    ) -> Answer<GpuInstance> {
        self.ask(gpu, |api, device| api.gpu_instance(api.create_gpu_instance(device, profile, placement)?))
    }

    fn destroy_gpu_instance(&self, gpu: &GpuUuid, gpu_instance: u32) -> Answer<()> {
        self.ask_instance(gpu, gpu_instance, Api::destroy_gpu_instance)
    }

    fn compute_instance_profiles(
        &self,
        gpu: &GpuUuid,
        gpu_instance: u32,
    ) -> Answer<Vec<ComputeInstanceProfile>> {
        self.ask_instance(gpu, gpu_instance, |api, instance| {
            offered(|profile| api.compute_instance_profile(instance, profile), |profile| profile.id)
        })
    }

    fn compute_instances(&self, gpu: &GpuUuid, gpu_instance: u32) -> Answer<Vec<ComputeInstance>> {
        let profiles = self.compute_instance_profiles(gpu, gpu_instance)?;
        self.ask_instance(gpu, gpu_instance, |api, instance| {
            let mut instances = Vec::new();
            for profile in &profiles {
                for handle in api.compute_instances(instance, profile.id)? {
                    instances.push(api.compute_instance(handle, gpu_instance)?);
                }
            }
            instances.sort_unstable_by_key(|instance| instance.id);
            Ok(instances)
        })
    }

    fn create_compute_instance(
        &self,
        gpu: &GpuUuid,
        gpu_instance: u32,
        profile: u32,
        placement: Option<Placement>,
    ) -> Answer<ComputeInstance> {
        self.ask_instance(gpu, gpu_instance, |api, instance| {
            let made = api.create_compute_instance(instance, profile, placement)?;
            api.compute_instance(made, gpu_instance)
        })
    }

    fn destroy_compute_instance(
        &self,
        gpu: &GpuUuid,
        gpu_instance: u32,
        compute_instance: u32,
    ) -> Answer<()> {
        self.ask_instance(gpu, gpu_instance, |api, instance| {
            api.destroy_compute_instance(api.compute_instance_of(instance, compute_instance)?)
        })
    }

    fn mig_devices(&self, gpu: &GpuUuid) -> Answer<Vec<MigDevice>> {
        self.ask(gpu, |api, device| {
            let most = optional(api.max_mig_devices(device))?.unwrap_or(0);
            let mut devices = Vec::new();
            for index in 0..most {
                match self.mig_device(device, index) {
                    Ok(mig) => devices.push(mig),
                    Err(error) if matches!(error.code, Code::NotFound | Code::NotSupported) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(devices)
        })
    }

    fn processes(&self, gpu: &GpuUuid) -> Answer<Vec<Process>> {
        self.ask(gpu, |api, device| {
            let mut processes = api.processes(device, ProcessKind::Compute)?;
            for kind in [ProcessKind::Graphics, ProcessKind::Mps] {
                processes.extend(optional(api.processes(device, kind))?.unwrap_or_default());
            }
            for process in &mut processes {
                // Of a process in another PID namespace, or one that just ended, there is no name.
                process.name = api.process_name(process.pid).ok().filter(|name| !name.is_empty());
            }
            processes.sort();
            Ok(processes)
        })
    }

    fn readings(&self, device: &Device) -> Answer<Readings> {
        let of = |api: &Api, handle: DeviceHandle| readings(api, handle);
        match device {
            Device::Gpu(gpu) => self.ask(gpu, of),
            Device::Mig { gpu, mig } => self.ask(gpu, |api, _| of(api, api.device_of(mig.as_str())?)),
        }
    }

    fn wait_event(&self, timeout: Duration) -> Answer<Option<DeviceEvent>> {
        let mut events = locked(&self.events);
        let set = match *events {
            Some(set) => set,
            None => *events.insert(self.watched()?),
        };
        match self.api.wait(set, timeout)? {
            Some(happened) => self.told(&happened),
            None => Ok(None),
        }
    }
}

/// Everything that can be read of a device.
fn readings(api: &Api, device: DeviceHandle) -> Answer<Readings> {
    let rows = optional(api.remapped_rows(device))?;
    let readings = Readings {
        memory: optional(api.memory(device))?,
        utilisation: optional(api.utilisation(device))?,
        encoder_percent: optional(api.encoder(device))?,
        decoder_percent: optional(api.decoder(device))?,
        power_milliwatts: optional(api.power(device))?,
        power_limit_milliwatts: optional(api.power_limit(device))?,
        energy_millijoules: optional(api.energy(device))?,
        temperature_celsius: optional(api.temperature(device))?,
        memory_temperature_celsius: optional(api.memory_temperature(device))?,
        clocks: optional(api.clocks(device))?,
        ecc: optional(api.ecc(device))?,
        pcie_replays: optional(api.pcie_replays(device))?,
        remapped_rows: rows.as_ref().map(|rows| (rows.correctable, rows.uncorrectable)),
        row_remap_failed: rows.map(|rows| rows.failed),
    };
    Ok(readings)
}

/// What NVML does not have on this device, in this version, in this mode or for this user is absent; a GPU that is
/// lost, and the like, is an error.
fn optional<T>(answer: Answer<T>) -> Answer<Option<T>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error)
            if matches!(
                error.code,
                Code::NotSupported
                    | Code::FunctionNotFound
                    | Code::NoPermission
                    | Code::NoData
                    | Code::NotFound
                    | Code::InvalidArgument
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The profiles that a driver offers, of all it could, by id.
fn offered<T>(profile_of: impl Fn(ProfileEnumOf) -> Answer<T>, id_of: impl Fn(&T) -> u32) -> Answer<Vec<T>> {
    let mut profiles = Vec::new();
    for number in PROFILE_ENUMS {
        match profile_of(ProfileEnumOf(number)) {
            Ok(profile) => profiles.push(profile),
            Err(error) if matches!(error.code, Code::NotSupported | Code::InvalidArgument) => {}
            Err(error) => return Err(error),
        }
    }
    profiles.sort_by_key(id_of);
    Ok(profiles)
}

/// What is behind a lock, also after a panic elsewhere: maps of handles are never half changed.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
