//! The session of a process with the emulated driver: what the C functions share.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nvml_wrapper_sys::bindings as nvml;
use tesela_model::driver::{
    Answer, Code, Device, DeviceEvent, EventKind, GpuIdentity, GpuUuid, MigDevice, MigUuid, Readings,
    Versions,
};
use tesela_model::machine::Health;
use tesela_sim::Simulator;
use tesela_sim::board::Board;
use tesela_sim::call::{Call, Rights};
use tesela_sim::state::{Gpu, State};

use crate::abi::handle::{Handle, Handles, Thing};
use crate::environment;
use crate::store::{Store, StoreError};

/// What a C function returns.
pub(crate) type Reply = nvml::nvmlReturn_t;

/// The session, and how many starts wait for their end.
struct Session {
    starts: u32,
    live: Option<Live>,
}

static SESSION: Mutex<Session> = Mutex::new(Session { starts: 0, live: None });

/// What is open between the first start and the last end.
pub(crate) struct Live {
    store: Store,
    handles: Handles,
    rights: Rights,
    sets: BTreeMap<u32, EventSet>,
    samples: BTreeMap<u32, Option<Sample>>,
    /// Number of the next set or sample.
    made: u32,
    /// How long the present call takes on hardware.
    takes: Duration,
}

/// Events that a program waits for.
struct EventSet {
    /// Number of the next event in the log that it has not seen.
    from: u64,
    /// Bits of events by GPU.
    watched: BTreeMap<GpuUuid, u64>,
}

/// A sample of performance counters.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    /// When, in µs since the epoch.
    pub(crate) time: u64,
    /// The GPU, or one of its GPU instances.
    pub(crate) of: (GpuUuid, Option<u32>),
    /// Share of the multiprocessors that was busy.
    pub(crate) busy: f64,
}

/// Starts, or counts one start more.
pub(crate) fn start() -> Reply {
    guarded(|session| {
        if session.live.is_none() {
            session.live = Some(Live::open()?);
        }
        session.starts += 1;
        Ok(())
    })
}

/// Ends one start; the last one closes the session.
pub(crate) fn stop() -> Reply {
    guarded(|session| {
        session.starts = session.starts.checked_sub(1).ok_or(Code::Uninitialized)?;
        if session.starts == 0 {
            session.live = None;
        }
        Ok(())
    })
}

/// One call of a program: with a session, and what is newest of the node.
pub(crate) fn call(name: &'static str, act: impl FnOnce(&mut Live) -> Result<(), Code>) -> Reply {
    let mut takes = Duration::ZERO;
    let reply = guarded(|session| {
        let live = session.live.as_mut().ok_or(Code::Uninitialized)?;
        live.takes = Duration::ZERO;
        let done = live.refresh(name).and_then(|()| act(live));
        takes = live.takes;
        done
    });
    if !takes.is_zero() {
        // The session is free meanwhile, as a driver answers others during a slow call.
        sleep(takes);
    }
    reply
}

/// What functions that the emulated driver does not have answer.
pub(crate) fn not_supported() -> Reply {
    guarded(|session| Err(if session.live.is_some() { Code::NotSupported } else { Code::Uninitialized }))
}

/// The reply of an end.
pub(crate) fn reply(done: Result<(), Code>) -> Reply {
    done.map_or_else(Code::number, |()| nvml::nvmlReturn_enum_NVML_SUCCESS)
}

/// Holds the session; a fault of ours that would unwind into a C program becomes an unknown error.
fn guarded(act: impl FnOnce(&mut Session) -> Result<(), Code>) -> Reply {
    let done = catch_unwind(AssertUnwindSafe(|| act(&mut locked()))).unwrap_or(Err(Code::Unknown));
    reply(done)
}

fn locked() -> MutexGuard<'static, Session> {
    // After a fault of ours the session is read again from its file by the next call.
    SESSION.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The moment until which somebody waits; `None`: for ever.
#[expect(clippy::disallowed_methods, reason = "programs wait for events in real time")]
pub(crate) fn deadline(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}

/// Rests for a moment, or until the deadline; `false` when that is over already.
#[expect(clippy::disallowed_methods, reason = "programs wait for events in real time")]
pub(crate) fn rest(moment: Duration, deadline: Option<Instant>) -> bool {
    let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
    if left.is_some_and(|left| left.is_zero()) {
        return false;
    }
    sleep(left.map_or(moment, |left| left.min(moment)));
    true
}

#[expect(clippy::disallowed_methods, reason = "calls take time where the machine file says so")]
fn sleep(time: Duration) {
    std::thread::sleep(time);
}

impl Live {
    /// Opens the machine that the environment names.
    fn open() -> Result<Self, Code> {
        let file = environment::machine_file()?;
        let store = Store::open(&file).map_err(|error| refused(&error))?;
        Ok(Self {
            store,
            handles: Handles::default(),
            rights: environment::rights()?,
            sets: BTreeMap::new(),
            samples: BTreeMap::new(),
            made: 0,
            takes: Duration::ZERO,
        })
    }

    /// Reads what other processes changed.
    fn refresh(&mut self, _call: &'static str) -> Result<(), Code> {
        self.store.look().map(|_| ()).map_err(|error| refused(&error))
    }

    /// The node as it is.
    pub(crate) fn state(&self) -> &State {
        self.store.seen().state()
    }

    /// Time, in µs since the epoch.
    pub(crate) fn unix_micros(&self) -> u64 {
        self.store.began_micros().saturating_add(self.state().now)
    }

    /// Asks the simulated driver something that changes nothing.
    pub(crate) fn ask<T>(
        &mut self,
        call: Call,
        act: impl FnOnce(&mut Simulator) -> Answer<T>,
    ) -> Result<T, Code> {
        if !self.state().faults.is_empty() {
            // A fault that is laid counts the calls it meets, so these change something after all.
            return self.change(call, act);
        }
        self.enter(call)?;
        act(self.store.seen_mut()).map_err(|error| error.code)
    }

    /// Has the simulated driver change something, for every process to see.
    pub(crate) fn change<T>(
        &mut self,
        call: Call,
        act: impl FnOnce(&mut Simulator) -> Answer<T>,
    ) -> Result<T, Code> {
        self.enter(call)?;
        let answer = self.store.change(act).map_err(|error| refused(&error))?;
        answer.map_err(|error| error.code)
    }

    fn enter(&mut self, call: Call) -> Result<(), Code> {
        if self.rights < call.needs() {
            return Err(Code::NoPermission);
        }
        if self.state().manner.latency {
            self.takes += call.latency();
        }
        Ok(())
    }

    /// Versions of driver and library.
    pub(crate) fn versions(&mut self) -> Result<Versions, Code> {
        Ok(self.store.seen().versions())
    }

    /// The handle of a thing.
    pub(crate) fn handle(&mut self, thing: Thing) -> Handle {
        self.handles.of(thing)
    }

    /// What a handle stands for.
    pub(crate) fn thing(&self, handle: Handle) -> Result<Thing, Code> {
        self.handles.thing(handle).cloned()
    }

    /// Handles of all GPUs, by index.
    pub(crate) fn gpu_handles(&mut self) -> Vec<Handle> {
        let all = self.state().gpus.iter().map(|gpu| gpu.uuid.clone()).collect::<Vec<_>>();
        all.into_iter().map(|uuid| self.handles.of(Thing::Gpu(uuid))).collect()
    }

    /// The GPU or MIG device of a handle.
    pub(crate) fn device(&self, handle: Handle) -> Result<Device, Code> {
        match self.handles.thing(handle)? {
            Thing::Gpu(gpu) => {
                self.gpu_of(gpu)?;
                Ok(Device::Gpu(gpu.clone()))
            }
            Thing::Mig(gpu, mig) => {
                let on = self.gpu_of(gpu)?;
                let there = on.instances.iter().flat_map(|i| &i.compute).any(|c| c.uuid == *mig);
                let device = Device::Mig { gpu: gpu.clone(), mig: mig.clone() };
                there.then_some(device).ok_or(Code::InvalidArgument)
            }
            _ => Err(Code::InvalidArgument),
        }
    }

    /// The GPU of a handle; what can only be asked of a GPU is not supported on a MIG device.
    pub(crate) fn gpu(&self, handle: Handle) -> Result<Gpu, Code> {
        match self.device(handle)? {
            Device::Gpu(gpu) => self.gpu_of(&gpu).cloned(),
            Device::Mig { .. } => Err(Code::NotSupported),
        }
    }

    /// The GPU of a handle, for what NVML does not have with MIG on.
    pub(crate) fn without_mig(&self, handle: Handle) -> Result<Gpu, Code> {
        let gpu = self.gpu(handle)?;
        if gpu.mode.current { Err(Code::NotSupported) } else { Ok(gpu) }
    }

    /// A GPU that works. One that another machine file took away is as lost as one off the bus.
    pub(crate) fn gpu_of(&self, uuid: &GpuUuid) -> Result<&Gpu, Code> {
        let gpu = self.state().gpus.iter().find(|gpu| gpu.uuid == *uuid).ok_or(Code::GpuIsLost)?;
        if gpu.health == Health::Lost { Err(Code::GpuIsLost) } else { Ok(gpu) }
    }

    /// Index of a GPU.
    pub(crate) fn index(&self, uuid: &GpuUuid) -> Result<u32, Code> {
        let position = self.state().gpus.iter().position(|gpu| gpu.uuid == *uuid);
        position.and_then(|position| u32::try_from(position).ok()).ok_or(Code::GpuIsLost)
    }

    /// The GPU or MIG device of a UUID.
    pub(crate) fn find(&self, uuid: &str) -> Result<Thing, Code> {
        let state = self.state();
        for gpu in &state.gpus {
            if gpu.uuid.as_str() == uuid {
                self.gpu_of(&gpu.uuid)?;
                return Ok(Thing::Gpu(gpu.uuid.clone()));
            }
            let all = gpu.instances.iter().flat_map(|i| &i.compute);
            if let Some(one) = all.into_iter().find(|c| c.uuid.as_str() == uuid) {
                self.gpu_of(&gpu.uuid)?;
                return Ok(Thing::Mig(gpu.uuid.clone(), one.uuid.clone()));
            }
        }
        let shaped = uuid.starts_with("GPU-") || uuid.starts_with("MIG-");
        Err(if shaped { Code::NotFound } else { Code::InvalidArgument })
    }

    /// Board of the GPU of a handle.
    pub(crate) fn board(&self, handle: Handle) -> Result<&'static Board, Code> {
        let gpu = self.gpu(handle)?;
        Board::of(&gpu.product).ok_or(Code::Unknown)
    }

    /// Board of the GPU that a handle is, or is on.
    pub(crate) fn board_of_device(&self, handle: Handle) -> Result<&'static Board, Code> {
        self.board_of(self.device(handle)?.gpu())
    }

    /// Board of a GPU.
    pub(crate) fn board_of(&self, uuid: &GpuUuid) -> Result<&'static Board, Code> {
        Board::of(&self.gpu_of(uuid)?.product).ok_or(Code::Unknown)
    }

    /// Who the GPU of a handle is.
    pub(crate) fn identity(&mut self, handle: Handle) -> Result<GpuIdentity, Code> {
        let uuid = self.gpu(handle)?.uuid;
        self.identity_of(&uuid)
    }

    /// Who a GPU is.
    pub(crate) fn identity_of(&mut self, uuid: &GpuUuid) -> Result<GpuIdentity, Code> {
        let index = usize::try_from(self.index(uuid)?).map_err(|_| Code::Unknown)?;
        let all = self.ask(Call::Gpus, |sim| Ok(sim.gpus()))?;
        let found = all.into_iter().nth(index).ok_or(Code::GpuIsLost)?;
        found.map_err(|error| error.code)
    }

    /// A MIG device that is there.
    pub(crate) fn mig_device(&mut self, gpu: &GpuUuid, mig: &MigUuid) -> Result<MigDevice, Code> {
        let all = self.ask(Call::MigDevices, |sim| sim.mig_devices(gpu))?;
        all.into_iter().find(|one| one.uuid == *mig).ok_or(Code::InvalidArgument)
    }

    /// What the device of a handle is doing.
    pub(crate) fn readings(&mut self, handle: Handle) -> Result<Readings, Code> {
        let device = self.device(handle)?;
        self.ask(Call::Readings, |sim| sim.readings(&device))
    }

    /// Name of a process: what the node says of it, else what runs here under that id.
    pub(crate) fn process_name(&self, pid: u32) -> Result<String, Code> {
        let all = self.state().gpus.iter().flat_map(|gpu| &gpu.processes);
        let said = all.filter(|process| process.pid == pid).find_map(|process| process.name.clone());
        said.or_else(|| environment::program_of(pid)).ok_or(Code::NotFound)
    }

    /// A new set of events.
    pub(crate) fn new_event_set(&mut self) -> u32 {
        let from = self.state().next_event;
        let number = self.number();
        self.sets.insert(number, EventSet { from, watched: BTreeMap::new() });
        number
    }

    /// Adds events of a GPU to a set; those that happened before are not told.
    pub(crate) fn watch(&mut self, set: u32, gpu: GpuUuid, kinds: u64) -> Result<(), Code> {
        let next = self.state().next_event;
        let set = self.sets.get_mut(&set).ok_or(Code::InvalidArgument)?;
        if set.watched.is_empty() {
            set.from = next;
        }
        *set.watched.entry(gpu).or_default() |= kinds;
        Ok(())
    }

    /// The next event that a set waits for; `bit` says which of NVML's bits a kind is.
    pub(crate) fn next_event(
        &mut self,
        set: u32,
        bit: impl Fn(EventKind) -> u64,
    ) -> Result<Option<DeviceEvent>, Code> {
        let simulator = self.store.seen();
        let set = self.sets.get_mut(&set).ok_or(Code::InvalidArgument)?;
        while let Some(logged) = simulator.event_from(set.from) {
            set.from = logged.number + 1;
            let event = &logged.event;
            if set.watched.get(&event.gpu).is_some_and(|kinds| kinds & bit(event.kind) != 0) {
                return Ok(Some(event.clone()));
            }
        }
        Ok(None)
    }

    /// Gives a set back.
    pub(crate) fn free_event_set(&mut self, set: u32) -> Result<(), Code> {
        self.sets.remove(&set).map(|_| ()).ok_or(Code::InvalidArgument)
    }

    /// Room for a sample.
    pub(crate) fn new_sample(&mut self) -> u32 {
        let number = self.number();
        self.samples.insert(number, None);
        number
    }

    /// Puts a sample where there is room for it.
    pub(crate) fn keep_sample(&mut self, number: u32, sample: Sample) -> Result<(), Code> {
        *self.samples.get_mut(&number).ok_or(Code::InvalidArgument)? = Some(sample);
        Ok(())
    }

    /// A sample that was taken.
    pub(crate) fn sample(&self, number: u32) -> Result<Sample, Code> {
        self.samples.get(&number).cloned().flatten().ok_or(Code::InvalidArgument)
    }

    /// Gives the room for a sample back.
    pub(crate) fn free_sample(&mut self, number: u32) -> Result<(), Code> {
        self.samples.remove(&number).map(|_| ()).ok_or(Code::InvalidArgument)
    }

    /// Takes a sample of a GPU, or of one of its GPU instances.
    pub(crate) fn take_sample(&mut self, gpu: &GpuUuid, gpu_instance: Option<u32>) -> Result<Sample, Code> {
        let on = self.gpu_of(gpu)?;
        if gpu_instance.is_some_and(|id| on.instances.iter().all(|one| one.id != id)) {
            return Err(Code::NotFound);
        }
        let busy = self.busy_share(gpu, gpu_instance)?;
        Ok(Sample { time: self.unix_micros(), of: (gpu.clone(), gpu_instance), busy })
    }

    fn number(&mut self) -> u32 {
        self.made += 1;
        self.made
    }

    /// Shuts what is told to a person once, whatever the call.
    fn busy_share(&mut self, gpu: &GpuUuid, gpu_instance: Option<u32>) -> Result<f64, Code> {
        let on = self.gpu_of(gpu)?;
        let here =
            on.processes.iter().filter(|p| gpu_instance.is_none() || p.on.map(|(gi, _)| gi) == gpu_instance);
        let busy = here.map(|p| u32::from(p.demand.busy)).sum::<u32>().min(1000);
        Ok(f64::from(busy) / 1000.0)
    }

    /// What each process of a GPU keeps busy, in percent.
    pub(crate) fn busy(&mut self, gpu: &GpuUuid) -> Result<Vec<(u32, u32)>, Code> {
        let on = self.gpu_of(gpu)?;
        Ok(on.processes.iter().map(|p| (p.pid, u32::from(p.demand.busy) / 10)).collect())
    }
}

/// Tells a person, once, why the emulated node cannot be used, and the program a code.
fn refused(error: &StoreError) -> Code {
    environment::tell_once(&error.to_string());
    error.code()
}
