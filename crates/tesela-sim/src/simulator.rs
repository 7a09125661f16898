//! The simulator: its making, its time, and what every call begins with.

use tesela_model::driver::{Answer, Code, DriverError, GpuIdentity, GpuUuid, MigMode, Versions};
use tesela_model::layout::{Layout, LayoutError};
use tesela_model::machine::{Health, Machine, MachineGpu, MachineInstance};
use tesela_model::product::ProductId;

use crate::board::Board;
use crate::call::{Call, Rights};
use crate::contention::{Demand, MEASURED_FILL};
use crate::fault::{Defect, Effect, Fault};
use crate::identity;
use crate::place;
use crate::state::{Counters, Gpu, Process, State, VERSION};

/// Subsystem ids of every GPU: NVIDIA's vendor id, and no board of its own.
const SUBSYSTEM: u32 = 0x0000_10de;

/// The GPUs of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Simulator {
    pub(crate) state: State,
    pub(crate) defect: Option<Defect>,
}

/// Why a machine cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// No such product, or no placements of it.
    #[error("GPU {index}: {product} is not in the profile table, or its placements are not")]
    Product {
        /// Index of the GPU.
        index: usize,
        /// The product.
        product: ProductId,
    },
    /// The instances cannot exist together.
    #[error("GPU {index}: {fault}")]
    Layout {
        /// Index of the GPU.
        index: usize,
        /// The rule they break.
        fault: LayoutError,
    },
    /// A compute instance or process that cannot be there.
    #[error("GPU {index}: {what}")]
    Impossible {
        /// Index of the GPU.
        index: usize,
        /// What it is.
        what: String,
    },
}

/// Why a written state cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Cut, or no JSON at all.
    #[error("the state is no JSON of a simulation, or is cut off: {0}; remove it to begin anew")]
    Unreadable(#[from] serde_json::Error),
    /// Of another version of the format.
    #[error("the state is of version {found}, this program reads version {VERSION}; remove it to begin anew")]
    Version {
        /// Its version.
        found: u64,
    },
    /// Its parts contradict each other.
    #[error("the state contradicts itself: {0}; remove it to begin anew")]
    Contradiction(String),
}

impl Simulator {
    /// The machine just after boot, with the instances and processes that it says.
    ///
    /// # Errors
    /// When it asks for what no GPU can hold. A machine that `tesela_formats::machine` has read never does.
    pub fn new(machine: &Machine) -> Result<Self, MachineError> {
        let state = State {
            version: VERSION,
            seed: machine.seed,
            revision: 0,
            now: 0,
            loaded: 0,
            driver: machine.driver.clone(),
            manner: machine.manner,
            gpus: Vec::new(),
            faults: Vec::new(),
            schedule: Vec::new(),
            events: Vec::new(),
            next_event: 0,
        };
        let mut simulator = Self { state, defect: None };
        for (index, gpu) in machine.gpus.iter().enumerate() {
            simulator.plug(index, gpu)?;
        }
        Ok(simulator)
    }

    /// The same with one rule broken. For tests of tests.
    ///
    /// # Errors
    /// As [`Simulator::new`].
    pub fn broken(machine: &Machine, defect: Defect) -> Result<Self, MachineError> {
        Ok(Self { defect: Some(defect), ..Self::new(machine)? })
    }

    fn plug(&mut self, index: usize, gpu: &MachineGpu) -> Result<(), MachineError> {
        let known = Board::of(&gpu.product);
        let board = known.ok_or_else(|| MachineError::Product { index, product: gpu.product.clone() })?;
        let mig = gpu.mig.as_deref().unwrap_or_default();
        let named = mig.iter().map(|i| (i.profile.clone(), i.start));
        Layout::new(board.product(), named).map_err(|fault| MachineError::Layout { index, fault })?;
        let number = u64::try_from(index).unwrap_or(u64::MAX);
        let seed = self.state.seed;
        let on = gpu.mig.is_some();
        self.state.gpus.push(Gpu {
            uuid: gpu.uuid.as_deref().map_or_else(|| identity::gpu_uuid(seed, number), GpuUuid::new),
            product: gpu.product.clone(),
            name: gpu.name.clone(),
            serial: gpu.serial.clone().unwrap_or_else(|| identity::serial(seed, number)),
            pci: gpu.pci.clone().unwrap_or_else(|| identity::pci(number)),
            mode: MigMode { current: on, pending: on },
            instances: Vec::new(),
            created: 0,
            processes: Vec::new(),
            clients: gpu.clients.clone(),
            passthrough: gpu.passthrough,
            health: Health::Healthy,
            counters: Counters::default(),
        });
        let impossible = |what: String| MachineError::Impossible { index, what };
        let mut made = Vec::new();
        for instance in mig {
            made.push(self.plug_instance(index, board, instance).map_err(impossible)?);
        }
        for one in &gpu.processes {
            let on = match one.instance {
                Some(instance) => Some(
                    made.get(instance)
                        .and_then(|(gi, ci)| Some((*gi, *ci.get(one.compute)?)))
                        .ok_or_else(|| impossible(format!("process {} is on no instance", one.pid)))?,
                ),
                None => None,
            };
            let process = Process {
                pid: one.pid,
                name: one.name.clone(),
                kind: one.kind,
                memory: one.memory.0 << 20,
                on,
                demand: Demand { busy: one.busy, fill: MEASURED_FILL },
                since: 0,
            };
            self.start_at(index, process).map_err(|e| impossible(e.to_string()))?;
        }
        self.state.gpus[index].health = gpu.health;
        Ok(())
    }

    fn plug_instance(
        &mut self,
        index: usize,
        board: &'static Board,
        instance: &MachineInstance,
    ) -> Result<(u32, Vec<u32>), String> {
        let (name, start) = (&instance.profile, instance.start);
        let profile = board.profile_named(name).ok_or_else(|| format!("{name} is no profile"))?;
        let at = profile.placements.iter().copied().find(|p| p.start == start);
        let at = at.ok_or_else(|| format!("{name} cannot start at {start}"))?;
        let id = self.put(index, profile, at);
        let mut compute = Vec::new();
        for name in &instance.compute {
            let new = profile.compute.iter().find(|c| c.name == *name);
            let new = new.ok_or_else(|| format!("{name} is no compute instance of {}", profile.name))?;
            let there = self.state.gpus[index].instances.iter().find(|i| i.id == id);
            let there = there.map(|i| i.compute.clone()).unwrap_or_default();
            let at = place::choose_compute(profile, &there, new);
            let at = at.ok_or_else(|| format!("{name} does not fit beside the others"))?;
            compute.push(self.put_compute(index, id, new, at));
        }
        Ok((id, compute))
    }

    /// A state as it was written.
    ///
    /// # Errors
    /// When it is cut, of another version, or contradicts itself.
    pub fn from_json(bytes: &[u8]) -> Result<Self, StateError> {
        #[derive(serde::Deserialize)]
        struct Head {
            version: u64,
        }
        let Head { version } = serde_json::from_slice(bytes)?;
        if version != u64::from(VERSION) {
            return Err(StateError::Version { found: version });
        }
        Self::restore(serde_json::from_slice(bytes)?)
    }

    /// The state as JSON.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        // A state holds numbers, texts and lists only: nothing that JSON lacks.
        serde_json::to_vec(&self.state).unwrap_or_default()
    }

    /// A simulation that goes on from a state.
    ///
    /// # Errors
    /// When its parts contradict each other.
    pub fn restore(state: State) -> Result<Self, StateError> {
        let simulator = Self { state, defect: None };
        simulator.check().map_err(StateError::Contradiction)?;
        Ok(simulator)
    }

    /// All of it.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The board of the GPU at an index. Every GPU has one: it was checked when it was plugged in or read.
    #[must_use]
    pub fn board(&self, index: usize) -> Option<&'static Board> {
        Board::of(&self.state.gpus.get(index)?.product)
    }

    /// Versions in force.
    #[must_use]
    pub fn versions(&self) -> Versions {
        let major = self.state.driver.split('.').next().and_then(|major| major.parse::<u32>().ok());
        // NVML's own version is the driver's behind the major version of the newest CUDA it runs.
        let cuda = match major.unwrap_or(0) {
            580.. => 13,
            525..580 => 12,
            _ => 11,
        };
        let nvml = format!("{cuda}.{}", self.state.driver);
        Versions { driver: self.state.driver.clone(), nvml, cuda: Some(cuda * 1000) }
    }

    /// Every GPU by index; a lost one is its error.
    pub fn gpus(&mut self) -> Vec<Answer<GpuIdentity>> {
        let uuids = self.state.gpus.iter().map(|gpu| gpu.uuid.clone()).collect::<Vec<_>>();
        uuids.iter().map(|uuid| self.identity(uuid)).collect()
    }

    fn identity(&mut self, gpu: &GpuUuid) -> Answer<GpuIdentity> {
        let entry = self.enter(Call::Gpus, gpu, None)?;
        let one = &self.state.gpus[entry.index];
        let index = u32::try_from(entry.index).unwrap_or(u32::MAX);
        let identity = GpuIdentity {
            index,
            uuid: one.uuid.clone(),
            name: one.name.clone(),
            pci_bus_id: one.pci.clone(),
            pci_device_id: entry.board.pci_device_id(),
            pci_subsystem_id: SUBSYSTEM,
            minor: Some(index),
            memory_bytes: entry.board.memory_mib() << 20,
            compute_capability: entry.board.compute_capability(),
        };
        entry.done(gpu, identity)
    }

    /// Lays a fault.
    pub fn lay(&mut self, fault: Fault) {
        self.changed();
        self.state.faults.push(fault);
    }

    /// Takes all faults back that were laid. What they did stays done.
    pub fn clear_faults(&mut self) {
        self.changed();
        self.state.faults.clear();
    }

    pub(crate) fn changed(&mut self) {
        self.state.revision += 1;
    }

    pub(crate) fn index_of(&self, gpu: &GpuUuid) -> Option<usize> {
        self.state.gpus.iter().position(|g| g.uuid == *gpu)
    }

    /// What every call on a GPU begins with: it is there, no fault meets the call, it works.
    pub(crate) fn enter(&mut self, call: Call, gpu: &GpuUuid, gpu_instance: Option<u32>) -> Answer<Entry> {
        let refuse = |code| DriverError::new(call.name(), code).on(gpu);
        let index = self.index_of(gpu).ok_or_else(|| refuse(Code::NotFound))?;
        let mut after = None;
        match self.meet(call, gpu, gpu_instance) {
            Some(Effect::Refuse(code)) => return Err(refuse(code)),
            Some(Effect::Lose) => self.state.gpus[index].health = Health::Lost,
            Some(Effect::DoAndRefuse(code)) => after = Some(code),
            None => {}
        }
        let changes = call.needs() > Rights::User && call != Call::Reset;
        match self.state.gpus[index].health {
            Health::Lost => return Err(refuse(Code::GpuIsLost)),
            Health::ResetRequired if changes => return Err(refuse(Code::ResetRequired)),
            Health::Healthy | Health::ResetRequired => {}
        }
        let board = self.board(index).ok_or_else(|| refuse(Code::Unknown))?;
        Ok(Entry { call, index, board, after })
    }

    /// The first fault that meets a call. Faults count calls that they are laid for; other calls change nothing.
    fn meet(&mut self, call: Call, gpu: &GpuUuid, gpu_instance: Option<u32>) -> Option<Effect> {
        let mut effect = None;
        let mut counted = false;
        for fault in &mut self.state.faults {
            let laid = fault.call.is_none_or(|c| c == call)
                && fault.gpu.as_ref().is_none_or(|g| g == gpu)
                && fault.gpu_instance.is_none_or(|id| gpu_instance == Some(id))
                && fault.times != Some(0);
            if !laid || effect.is_some() {
                continue;
            }
            if fault.skip > 0 {
                fault.skip -= 1;
                counted = true;
                continue;
            }
            if let Some(times) = &mut fault.times {
                *times -= 1;
                counted = true;
            }
            counted |= fault.effect == Effect::Lose;
            effect = Some(fault.effect);
        }
        if counted {
            self.changed();
        }
        effect
    }
}

/// A call that may go on.
pub(crate) struct Entry {
    call: Call,
    /// Index of its GPU.
    pub(crate) index: usize,
    /// The GPU's board.
    pub(crate) board: &'static Board,
    after: Option<Code>,
}

impl Entry {
    /// A refusal.
    pub(crate) fn refuse<T>(&self, gpu: &GpuUuid, code: Code) -> Answer<T> {
        Err(DriverError::new(self.call.name(), code).on(gpu))
    }

    /// The answer when the work is done; a fault may make it a refusal all the same.
    pub(crate) fn done<T>(&self, gpu: &GpuUuid, value: T) -> Answer<T> {
        match self.after {
            Some(code) => self.refuse(gpu, code),
            None => Ok(value),
        }
    }
}
