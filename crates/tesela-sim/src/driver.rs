//! The port over a simulator, for programs in the same process.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tesela_model::driver::{
    Activation, Answer, Code, ComputeInstance, ComputeInstanceProfile, Device, DeviceEvent, DriverError,
    GpuDriver, GpuIdentity, GpuInstance, GpuInstanceProfile, GpuReset, GpuUuid, MigDevice, MigMode, Process,
    Readings, Versions,
};
use tesela_model::product::Placement;

use crate::call::{Call, Rights};
use crate::simulator::Simulator;

/// A simulator as the driver of a node. Its clock is the simulated one: calls take simulated time where the machine
/// says so, and waiting for an event moves the clock.
#[derive(Debug)]
pub struct SimDriver {
    inner: Mutex<Inner>,
    rights: Rights,
}

#[derive(Debug)]
struct Inner {
    simulator: Simulator,
    /// Number of the next event that this client has not seen.
    event: u64,
}

impl SimDriver {
    /// A client with all rights.
    #[must_use]
    pub fn new(simulator: Simulator) -> Self {
        Self::with_rights(simulator, Rights::Root)
    }

    /// A client with these rights.
    #[must_use]
    pub fn with_rights(simulator: Simulator, rights: Rights) -> Self {
        let event = simulator.next_event();
        Self { inner: Mutex::new(Inner { simulator, event }), rights }
    }

    /// Does something to the simulator behind the driver's back: a process comes, a GPU is lost, time goes by.
    pub fn with<T>(&self, act: impl FnOnce(&mut Simulator) -> T) -> T {
        act(&mut self.lock().simulator)
    }

    /// The simulator as it is now.
    #[must_use]
    pub fn into_simulator(self) -> Simulator {
        self.inner.into_inner().unwrap_or_else(PoisonError::into_inner).simulator
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic while the lock was held leaves a state between two calls: each changes it in one piece at its end.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One call: rights first, then its time, then what it does.
    fn call<T>(
        &self,
        call: Call,
        gpu: Option<&GpuUuid>,
        act: impl FnOnce(&mut Simulator) -> Answer<T>,
    ) -> Answer<T> {
        if self.rights < call.needs() {
            let error = DriverError::new(call.name(), Code::NoPermission);
            return Err(gpu.map_or_else(|| error.clone(), |gpu| error.clone().on(gpu)));
        }
        let mut inner = self.lock();
        if inner.simulator.state().manner.latency {
            inner.simulator.advance(call.latency());
        }
        act(&mut inner.simulator)
    }
}

impl GpuDriver for SimDriver {
    fn versions(&self) -> Answer<Versions> {
        self.call(Call::Versions, None, |s| Ok(s.versions()))
    }

    fn gpus(&self) -> Answer<Vec<Answer<GpuIdentity>>> {
        self.call(Call::Gpus, None, |s| Ok(s.gpus()))
    }

    fn mig_mode(&self, gpu: &GpuUuid) -> Answer<Option<MigMode>> {
        self.call(Call::MigMode, Some(gpu), |s| s.mig_mode(gpu).map(Some))
    }

    fn set_mig_mode(&self, gpu: &GpuUuid, enabled: bool) -> Answer<Activation> {
        self.call(Call::SetMigMode, Some(gpu), |s| s.set_mig_mode(gpu, enabled))
    }

    fn gpu_instance_profiles(&self, gpu: &GpuUuid) -> Answer<Vec<GpuInstanceProfile>> {
        self.call(Call::GpuInstanceProfiles, Some(gpu), |s| s.gpu_instance_profiles(gpu))
    }

    fn placements(&self, gpu: &GpuUuid, profile: u32) -> Answer<Vec<Placement>> {
        self.call(Call::Placements, Some(gpu), |s| s.placements(gpu, profile))
    }

    fn remaining_capacity(&self, gpu: &GpuUuid, profile: u32) -> Answer<u32> {
        self.call(Call::RemainingCapacity, Some(gpu), |s| s.remaining_capacity(gpu, profile))
    }

    fn gpu_instances(&self, gpu: &GpuUuid) -> Answer<Vec<GpuInstance>> {
        self.call(Call::GpuInstances, Some(gpu), |s| s.gpu_instances(gpu))
    }

    fn create_gpu_instance(
        &self,
        gpu: &GpuUuid,
        profile: u32,
        placement: Option<Placement>,
    ) -> Answer<GpuInstance> {
        self.call(Call::CreateGpuInstance, Some(gpu), |s| s.create_gpu_instance(gpu, profile, placement))
    }

    fn destroy_gpu_instance(&self, gpu: &GpuUuid, gpu_instance: u32) -> Answer<()> {
        self.call(Call::DestroyGpuInstance, Some(gpu), |s| s.destroy_gpu_instance(gpu, gpu_instance))
    }

    fn compute_instance_profiles(
        &self,
        gpu: &GpuUuid,
        gpu_instance: u32,
    ) -> Answer<Vec<ComputeInstanceProfile>> {
        self.call(Call::ComputeInstanceProfiles, Some(gpu), |s| {
            s.compute_instance_profiles(gpu, gpu_instance)
        })
    }

    fn compute_instances(&self, gpu: &GpuUuid, gpu_instance: u32) -> Answer<Vec<ComputeInstance>> {
        self.call(Call::ComputeInstances, Some(gpu), |s| s.compute_instances(gpu, gpu_instance))
    }

    fn create_compute_instance(
        &self,
        gpu: &GpuUuid,
        gpu_instance: u32,
        profile: u32,
        placement: Option<Placement>,
    ) -> Answer<ComputeInstance> {
        self.call(Call::CreateComputeInstance, Some(gpu), |s| {
            s.create_compute_instance(gpu, gpu_instance, profile, placement)
        })
    }

    fn destroy_compute_instance(
        &self,
        gpu: &GpuUuid,
        gpu_instance: u32,
        compute_instance: u32,
    ) -> Answer<()> {
        self.call(Call::DestroyComputeInstance, Some(gpu), |s| {
            s.destroy_compute_instance(gpu, gpu_instance, compute_instance)
        })
    }

    fn mig_devices(&self, gpu: &GpuUuid) -> Answer<Vec<MigDevice>> {
        self.call(Call::MigDevices, Some(gpu), |s| s.mig_devices(gpu))
    }

    fn processes(&self, gpu: &GpuUuid) -> Answer<Vec<Process>> {
        self.call(Call::Processes, Some(gpu), |s| s.processes(gpu))
    }

    fn readings(&self, device: &Device) -> Answer<Readings> {
        self.call(Call::Readings, Some(device.gpu()), |s| s.readings(device))
    }

    /// Gives what happened since the last call, else moves the simulated clock by `timeout` and looks again.
    fn wait_event(&self, timeout: Duration) -> Answer<Option<DeviceEvent>> {
        let mut inner = self.lock();
        let mut next = inner.simulator.event_from(inner.event).cloned();
        if next.is_none() {
            inner.simulator.advance(timeout);
            next = inner.simulator.event_from(inner.event).cloned();
        }
        Ok(next.map(|logged| {
            inner.event = logged.number + 1;
            logged.event
        }))
    }
}

impl GpuReset for SimDriver {
    fn reset(&self, gpu: &GpuUuid) -> Answer<()> {
        self.call(Call::Reset, Some(gpu), |s| s.reset(gpu))
    }
}
