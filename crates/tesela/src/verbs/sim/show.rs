//! `tesela sim show`: the emulated node as it is.

use serde::Serialize;
use tesela_model::driver::{Device, GpuUuid, MigUuid, ProcessKind, Readings};
use tesela_model::machine::Health;
use tesela_sim::Simulator;
use tesela_sim::board::Board;
use tesela_sim::state::{Gpu, GpuInstance};

use crate::cli::sim::SimShow;
use crate::failure::{Failure, Outcome};
use crate::printer::Printer;
use crate::table;

/// The node.
#[derive(Serialize)]
pub(crate) struct Shown {
    /// Version of the driver.
    pub(crate) driver: String,
    /// GPUs by index.
    pub(crate) gpus: Vec<ShownGpu>,
    /// Refusals that are laid.
    pub(crate) faults: Vec<String>,
}

/// A GPU.
#[derive(Serialize)]
pub(crate) struct ShownGpu {
    /// Index.
    pub(crate) index: usize,
    /// UUID.
    pub(crate) uuid: GpuUuid,
    /// Name the driver gives.
    pub(crate) name: String,
    /// Table id of the product.
    pub(crate) product: String,
    /// PCI address.
    pub(crate) pci: String,
    /// Whether it works.
    pub(crate) health: Health,
    /// Whether MIG is on.
    pub(crate) mig: bool,
    /// Whether it will be after a reset.
    pub(crate) mig_pending: bool,
    /// GPU instances, by id.
    pub(crate) instances: Vec<ShownInstance>,
    /// Processes, by pid.
    pub(crate) processes: Vec<ShownProcess>,
    /// Programs that hold it open.
    pub(crate) clients: Vec<String>,
    /// Memory that processes hold, in MiB.
    pub(crate) memory_used_mib: u64,
    /// All memory, in MiB.
    pub(crate) memory_mib: u64,
    /// Utilisation in percent; absent with MIG on.
    pub(crate) busy_percent: Option<u32>,
    /// Power in W.
    pub(crate) power_watts: Option<u32>,
}

/// A GPU instance with what is in it.
#[derive(Serialize)]
pub(crate) struct ShownInstance {
    /// Id.
    pub(crate) gpu_instance: u32,
    /// Profile.
    pub(crate) profile: String,
    /// First memory unit.
    pub(crate) start: u32,
    /// Memory units.
    pub(crate) size: u32,
    /// MIG devices in it.
    pub(crate) devices: Vec<ShownDevice>,
}

/// A MIG device.
#[derive(Serialize)]
pub(crate) struct ShownDevice {
    /// Id of the compute instance.
    pub(crate) compute_instance: u32,
    /// Profile.
    pub(crate) profile: String,
    /// UUID.
    pub(crate) uuid: MigUuid,
}

/// A process.
#[derive(Serialize)]
pub(crate) struct ShownProcess {
    /// Id.
    pub(crate) pid: u32,
    /// Name.
    pub(crate) name: Option<String>,
    /// How it uses the GPU.
    pub(crate) kind: ProcessKind,
    /// Memory it holds, in MiB.
    pub(crate) memory_mib: u64,
    /// GPU instance it is on.
    pub(crate) gpu_instance: Option<u32>,
    /// Compute instance it is on.
    pub(crate) compute_instance: Option<u32>,
    /// How much it would keep the GPU busy if it were alone, in percent.
    pub(crate) busy_percent: u16,
}

/// Prints the node.
///
/// # Errors
/// A wrong machine file, a state that cannot be used.
pub(super) fn run(words: &SimShow, printer: &Printer) -> Result<Outcome, Failure> {
    let mut store = super::node(&words.machine.machine)?;
    // A copy, so that looking meets no fault that waits for a program.
    let simulator = store.look().map_err(super::refused)?.clone();
    let shown = shown(simulator);
    printer.result(&shown, |page| table::sim::put(page, &shown))?;
    Ok(Outcome::Done)
}

fn shown(mut simulator: Simulator) -> Shown {
    let state = simulator.state().clone();
    let faults = state.faults.iter().map(|fault| {
        let call = fault.call.map_or("any call", tesela_sim::call::Call::name);
        let gpu = fault.gpu.as_ref().map_or_else(|| "any GPU".to_owned(), ToString::to_string);
        let instance = fault.gpu_instance.map(|id| format!(" GPU instance {id}")).unwrap_or_default();
        let times = fault.times.map_or_else(|| "for ever".to_owned(), |times| format!("{times} times more"));
        format!("{call} on {gpu}{instance}: {:?}, {times}", fault.effect)
    });
    let faults = faults.collect();
    simulator.clear_faults();
    let gpus = state.gpus.iter().enumerate().map(|(index, gpu)| {
        let readings = simulator.readings(&Device::Gpu(gpu.uuid.clone())).unwrap_or_default();
        shown_gpu(index, gpu, &readings)
    });
    Shown { driver: state.driver.clone(), gpus: gpus.collect(), faults }
}

fn shown_gpu(index: usize, gpu: &Gpu, readings: &Readings) -> ShownGpu {
    let board = Board::of(&gpu.product);
    let instances = gpu.instances.iter().filter_map(|one| shown_instance(board?, one));
    let processes = gpu.processes.iter().map(|process| ShownProcess {
        pid: process.pid,
        name: process.name.clone(),
        kind: process.kind,
        memory_mib: process.memory >> 20,
        gpu_instance: process.on.map(|(gi, _)| gi),
        compute_instance: process.on.map(|(_, ci)| ci),
        busy_percent: process.demand.busy / 10,
    });
    ShownGpu {
        index,
        uuid: gpu.uuid.clone(),
        name: gpu.name.clone(),
        product: gpu.product.to_string(),
        pci: gpu.pci.clone(),
        health: gpu.health,
        mig: gpu.mode.current,
        mig_pending: gpu.mode.pending,
        instances: instances.collect(),
        processes: processes.collect(),
        clients: gpu.clients.clone(),
        memory_used_mib: gpu.processes.iter().map(|process| process.memory >> 20).sum(),
        memory_mib: board.map_or(0, Board::memory_mib),
        busy_percent: readings.utilisation.map(|busy| busy.gpu),
        power_watts: readings.power_milliwatts.map(|power| power / 1000),
    }
}

fn shown_instance(board: &Board, one: &GpuInstance) -> Option<ShownInstance> {
    let profile = board.profile(one.profile)?;
    let devices = one.compute.iter().filter_map(|part| {
        Some(ShownDevice {
            compute_instance: part.id,
            profile: profile.compute_profile(part.profile)?.name.to_string(),
            uuid: part.uuid.clone(),
        })
    });
    Some(ShownInstance {
        gpu_instance: one.id,
        profile: profile.name.to_string(),
        start: one.start,
        size: profile.units,
        devices: devices.collect(),
    })
}
