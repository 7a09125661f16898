//! A node with simulated GPUs, a journal in memory, and a way to end the executor at any point.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use tesela_executor::apply::{ApplyError, Clock, Ladder, Options, Outcome, Ports, apply};
use tesela_executor::disk::Disk;
use tesela_executor::goal::Goal;
use tesela_executor::journal::{Journal, read};
use tesela_executor::observe::{GpuState, Live, Seen, live, observe};
use tesela_executor::plan::{GpuPlan, plan};
use tesela_executor::recover::{Recovered, recover};
use tesela_executor::wish::Wish;
use tesela_formats::machine::read_machine;
use tesela_model::driver::{
    Activation, Answer, ComputeInstance, ComputeInstanceProfile, Device, DeviceEvent, GpuDriver, GpuIdentity,
    GpuInstance, GpuInstanceProfile, GpuReset, GpuUuid, MigDevice, MigMode, MigUuid, Process, Readings,
    Versions,
};
use tesela_model::product::{Placement, ProductTable, ProfileName};
use tesela_sim::{SimDriver, Simulator};

/// Where the executor ends: before or after an event, counted from 0. An event is a call of the driver or of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Death {
    pub(crate) event: u32,
    pub(crate) after: bool,
}

/// Counts the events and ends the executor when it is time.
#[derive(Debug, Default)]
pub(crate) struct Fate {
    events: Cell<u32>,
    death: Cell<Option<Death>>,
    /// Calls of the driver that change something.
    pub(crate) changes: Cell<u32>,
    /// Calls that only read.
    pub(crate) reads: Cell<u32>,
}

struct Died;

impl Fate {
    pub(crate) fn events(&self) -> u32 {
        self.events.get()
    }

    fn count(&self, name: &str) {
        let changes = ["set", "create", "destroy"].iter().any(|word| name.starts_with(word));
        let counter = if changes { &self.changes } else { &self.reads };
        counter.set(counter.get() + 1);
    }

    fn pass<T>(&self, act: impl FnOnce() -> T) -> T {
        let event = self.events.get();
        self.events.set(event + 1);
        if self.death.get() == Some(Death { event, after: false }) {
            resume_unwind(Box::new(Died));
        }
        let done = act();
        if self.death.get() == Some(Death { event, after: true }) {
            resume_unwind(Box::new(Died));
        }
        done
    }
}

/// A journal in memory. What was not synced may be lost.
#[derive(Debug, Default, Clone)]
pub(crate) struct Platter {
    pub(crate) durable: Option<Vec<u8>>,
    pub(crate) unsynced: Vec<u8>,
    /// Bytes until the disk is full; of the write that fills it a part is written.
    pub(crate) room: Option<usize>,
}

struct FatedDisk<'a> {
    platter: &'a RefCell<Platter>,
    fate: &'a Fate,
}

impl Disk for FatedDisk<'_> {
    fn read(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let platter = self.platter.borrow();
        Ok(platter.durable.clone().map(|mut bytes| {
            bytes.extend(&platter.unsynced);
            bytes
        }))
    }

    fn replace(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.fate.pass(|| {
            let mut platter = self.platter.borrow_mut();
            (platter.durable, platter.unsynced) = (Some(bytes.to_vec()), Vec::new());
        });
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.fate.pass(|| {
            let mut platter = self.platter.borrow_mut();
            let fits = platter.room.map_or(bytes.len(), |room| room.min(bytes.len()));
            platter.unsynced.extend(&bytes[..fits]);
            if let Some(room) = &mut platter.room {
                *room -= fits;
            }
            if fits < bytes.len() { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        })
    }

    fn sync(&mut self) -> std::io::Result<()> {
        self.fate.pass(|| {
            let mut platter = self.platter.borrow_mut();
            let bytes = std::mem::take(&mut platter.unsynced);
            platter.durable.get_or_insert_default().extend(bytes);
        });
        Ok(())
    }

    fn cut(&mut self, length: u64) -> std::io::Result<()> {
        self.fate.pass(|| {
            let mut platter = self.platter.borrow_mut();
            let whole = std::mem::take(&mut platter.unsynced);
            let durable = platter.durable.get_or_insert_default();
            durable.extend(whole);
            durable.truncate(usize::try_from(length).unwrap());
        });
        Ok(())
    }
}

struct FatedDriver<'a> {
    driver: &'a SimDriver,
    fate: &'a Fate,
}

macro_rules! fated {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $answer:ty;)*) => {
        impl GpuDriver for FatedDriver<'_> {
            $(fn $name(&self, $($arg: $kind),*) -> Answer<$answer> {
                self.fate.count(stringify!($name));
                self.fate.pass(|| self.driver.$name($($arg),*))
            })*
        }
    };
}

fated! {
    versions() -> Versions;
    gpus() -> Vec<Answer<GpuIdentity>>;
    mig_mode(gpu: &GpuUuid) -> Option<MigMode>;
    set_mig_mode(gpu: &GpuUuid, enabled: bool) -> Activation;
    gpu_instance_profiles(gpu: &GpuUuid) -> Vec<GpuInstanceProfile>;
    placements(gpu: &GpuUuid, profile: u32) -> Vec<Placement>;
    remaining_capacity(gpu: &GpuUuid, profile: u32) -> u32;
    gpu_instances(gpu: &GpuUuid) -> Vec<GpuInstance>;
    create_gpu_instance(gpu: &GpuUuid, profile: u32, placement: Option<Placement>) -> GpuInstance;
    destroy_gpu_instance(gpu: &GpuUuid, gpu_instance: u32) -> ();
    compute_instance_profiles(gpu: &GpuUuid, gpu_instance: u32) -> Vec<ComputeInstanceProfile>;
    compute_instances(gpu: &GpuUuid, gpu_instance: u32) -> Vec<ComputeInstance>;
    create_compute_instance(gpu: &GpuUuid, gpu_instance: u32, profile: u32, placement: Option<Placement>) -> ComputeInstance;
    destroy_compute_instance(gpu: &GpuUuid, gpu_instance: u32, compute_instance: u32) -> ();
    mig_devices(gpu: &GpuUuid) -> Vec<MigDevice>;
    processes(gpu: &GpuUuid) -> Vec<Process>;
    readings(device: &Device) -> Readings;
    wait_event(timeout: Duration) -> Option<DeviceEvent>;
}

impl GpuReset for FatedDriver<'_> {
    fn reset(&self, gpu: &GpuUuid) -> Answer<()> {
        self.fate.pass(|| self.driver.reset(gpu))
    }
}

/// The simulation's own clock.
pub(crate) struct SimClock<'a>(pub(crate) &'a SimDriver);

impl Clock for SimClock<'_> {
    fn now(&self) -> Duration {
        Duration::from_micros(self.0.with(|s| s.state().now))
    }

    fn sleep(&self, time: Duration) {
        self.0.with(|s| s.advance(time));
    }
}

/// Two clients that can be paused. While the last of them runs, the faults that are laid hold.
struct Clients<'a> {
    world: &'a World,
}

const CLIENTS: [&str; 2] = ["dcgm-exporter", "node-monitor"];

impl Ladder for Clients<'_> {
    fn next(&self, _: &GpuUuid, paused: &[String]) -> Option<String> {
        let all = CLIENTS.iter().take(if self.world.clients { CLIENTS.len() } else { 0 });
        all.map(|c| (*c).to_owned()).find(|client| !paused.contains(client))
    }

    fn pause(&mut self, client: &str) {
        self.world.told.borrow_mut().push(format!("pause {client}"));
        if client == CLIENTS[1] {
            self.world.driver.with(Simulator::clear_faults);
        }
    }

    fn resume(&mut self, client: &str) {
        self.world.told.borrow_mut().push(format!("resume {client}"));
    }
}

/// A node.
pub(crate) struct World {
    pub(crate) driver: SimDriver,
    pub(crate) platter: RefCell<Platter>,
    pub(crate) reset: bool,
    pub(crate) options: Options,
    /// Whether there are clients that can be paused.
    pub(crate) clients: bool,
    /// What was told while it worked.
    pub(crate) told: RefCell<Vec<String>>,
}

impl World {
    /// A node of a machine file.
    pub(crate) fn new(machine: &str) -> Self {
        let machine = read_machine("machine.yaml", machine.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
        Self::of(Simulator::new(&machine).unwrap())
    }

    pub(crate) fn of(simulator: Simulator) -> Self {
        Self {
            driver: SimDriver::new(simulator),
            platter: RefCell::default(),
            reset: false,
            options: Options::default(),
            clients: false,
            told: RefCell::default(),
        }
    }

    /// The same node in the same state, with a journal of its own.
    pub(crate) fn copy(&self) -> Self {
        let simulator = self.driver.with(|s| s.clone());
        let platter = RefCell::new(self.platter.borrow().clone());
        Self {
            platter,
            reset: self.reset,
            options: self.options,
            clients: self.clients,
            ..Self::of(simulator)
        }
    }

    pub(crate) fn uuid(&self, gpu: usize) -> GpuUuid {
        self.driver.with(|s| s.state().gpus[gpu].uuid.clone())
    }

    pub(crate) fn states(&self) -> Vec<GpuState> {
        self.states_until(&Fate::default())
    }

    pub(crate) fn states_until(&self, fate: &Fate) -> Vec<GpuState> {
        let state = |seen| match seen {
            Seen::Gpu(state) => Some(*state),
            Seen::Unreadable { .. } => None,
        };
        self.with_driver(fate, |driver| observe(driver).unwrap().into_iter().filter_map(state).collect())
    }

    pub(crate) fn state(&self, gpu: usize) -> GpuState {
        let uuid = self.uuid(gpu);
        self.states().into_iter().find(|s| s.identity.uuid == uuid).unwrap()
    }

    pub(crate) fn live(&self, gpu: usize) -> Live {
        live(&self.driver, &self.uuid(gpu)).unwrap()
    }

    pub(crate) fn goal(&self, gpu: usize) -> Goal {
        Goal::of(&self.live(gpu))
    }

    /// MIG UUIDs of the instances that have processes, with their pids.
    pub(crate) fn busy(&self, gpu: usize) -> Vec<(MigUuid, u32)> {
        let on = |gi: u32, ci: u32| move |p: &&tesela_sim::state::Process| p.on == Some((gi, ci));
        self.driver.with(|s| {
            let gpu = &s.state().gpus[gpu];
            let all = gpu.instances.iter().flat_map(|i| i.compute.iter().map(move |c| (i.id, c)));
            let busy = all.flat_map(|(gi, c)| {
                gpu.processes.iter().filter(on(gi, c.id)).map(move |p| (c.uuid.clone(), p.pid))
            });
            let mut busy = busy.collect::<Vec<_>>();
            busy.sort();
            busy
        })
    }

    pub(crate) fn plan(&self, gpu: usize, wish: &Wish) -> GpuPlan {
        plan(&self.state(gpu), ProductTable::builtin(), wish)
    }

    /// Applies plans; `None` when it died on the way.
    pub(crate) fn apply_until(
        &self,
        plans: &[GpuPlan],
        fate: &Fate,
    ) -> Option<Result<Vec<Outcome>, ApplyError>> {
        self.work(fate, |ports, options| apply(plans, ports, options))
    }

    pub(crate) fn apply(&self, plans: &[GpuPlan]) -> Vec<Outcome> {
        self.apply_until(plans, &Fate::default()).unwrap().unwrap()
    }

    pub(crate) fn recover(&self) -> Recovered {
        self.recover_until(&Fate::default()).unwrap().unwrap()
    }

    pub(crate) fn recover_until(&self, fate: &Fate) -> Option<Result<Recovered, ApplyError>> {
        self.work(fate, recover)
    }

    /// Does something with the driver alone, counted.
    pub(crate) fn with_driver<T>(&self, fate: &Fate, act: impl FnOnce(&dyn GpuDriver) -> T) -> T {
        act(&FatedDriver { driver: &self.driver, fate })
    }

    fn work<T>(&self, fate: &Fate, act: impl FnOnce(&mut Ports<'_>, &Options) -> T) -> Option<T> {
        let driver = FatedDriver { driver: &self.driver, fate };
        let mut disk = FatedDisk { platter: &self.platter, fate };
        let clock = SimClock(&self.driver);
        let mut progress = |event: &tesela_executor::apply::Event<'_>| {
            self.told.borrow_mut().push(format!("{event:?}"));
        };
        let mut ladder = Clients { world: self };
        let mut ports = Ports {
            driver: &driver,
            reset: self.reset.then_some(&driver as &dyn GpuReset),
            disk: &mut disk,
            clock: &clock,
            ladder: &mut ladder,
            progress: &mut progress,
        };
        let options = self.options;
        match catch_unwind(AssertUnwindSafe(|| act(&mut ports, &options))) {
            Ok(done) => Some(done),
            Err(why) if why.is::<Died>() => None,
            Err(why) => resume_unwind(why),
        }
    }

    /// The machine comes back after a crash: of what was not synced so many bytes were written.
    pub(crate) fn crash(&self, written: usize) {
        let mut platter = self.platter.borrow_mut();
        let mut rest = std::mem::take(&mut platter.unsynced);
        rest.truncate(written);
        platter.durable.get_or_insert_default().extend(rest);
        if platter.durable.as_ref().is_some_and(Vec::is_empty) {
            platter.durable = None;
        }
    }

    pub(crate) fn journal(&self) -> Journal {
        let platter = self.platter.borrow();
        read(platter.durable.as_deref().unwrap_or_default()).unwrap()
    }
}

impl Fate {
    /// Ends at this point.
    pub(crate) fn at(death: Death) -> Self {
        Self { death: Cell::new(Some(death)), ..Self::default() }
    }
}

/// `1g.5gb=7,3g.20gb=1` as a wish; the empty text is MIG without instances.
pub(crate) fn counts(text: &str) -> Wish {
    let one = |word: &str| {
        let (name, count) = word.split_once('=').unwrap();
        (ProfileName::parse(name).unwrap(), count.parse().unwrap())
    };
    Wish::Counts(text.split(',').filter(|w| !w.is_empty()).map(one).collect())
}

/// `1g.5gb@0 3g.20gb@4`, for what is there.
pub(crate) fn shown(world: &World, gpu: usize) -> String {
    let names = tesela_executor::catalogue::Catalogue::of(&world.state(gpu), ProductTable::builtin())
        .unwrap()
        .names();
    let live = world.live(gpu);
    let one = |i: &tesela_executor::observe::LiveInstance| {
        let half = if i.compute.is_empty() { "!" } else { "" };
        format!("{}{half}", tesela_executor::steps::seat_name(&names, i.seat()))
    };
    live.instances.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// A GPU in a machine file, cut and used: `(profile, start, pid of its process)`.
pub(crate) fn gpu(product: &str, instances: &[(&str, u32, Option<u32>)]) -> String {
    let mig = instances.iter().map(|(p, start, _)| format!("{{profile: {p}, start: {start}}}"));
    let mig = mig.collect::<Vec<_>>().join(", ");
    let busy = instances.iter().enumerate().filter_map(|(at, (.., pid))| Some((at, (*pid)?)));
    let busy = busy.map(|(at, pid)| format!("{{pid: {pid}, name: work, memory_mib: 100, instance: {at}}}"));
    let busy = busy.collect::<Vec<_>>().join(", ");
    format!("  - {{product: {product}, mig: [{mig}], processes: [{busy}]}}\n")
}

/// Tells SplitMix64 numbers: the same on every machine.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n.max(1) as u64).unwrap()
    }
}
