//! `tesela gpus`: what is on this node, from the driver itself. Reads, and changes nothing.

use serde::Serialize;
use tesela_executor::catalogue::Catalogue;
use tesela_executor::observe::{GpuState, LiveInstance, Seen, is_on, observe};
use tesela_model::driver::{
    Clocks, Device, DriverError, EccCounts, GpuDriver, GpuUuid, MemoryUse, Process, ProcessKind, Readings,
    Versions,
};
use tesela_model::product::ProductTable;

use crate::cli::Gpus;
use crate::driver;
use crate::failure::{Failure, Outcome};
use crate::printer::Printer;
use crate::table;

/// What is on the node.
#[derive(Debug, Serialize)]
pub(crate) struct Inventory {
    /// Versions of driver, library and CUDA.
    pub(crate) driver: Versions,
    /// GPUs by index.
    pub(crate) gpus: Vec<Gpu>,
}

/// One GPU. What the driver does not tell is null.
#[derive(Debug, Serialize)]
pub(crate) struct Gpu {
    pub(crate) index: u32,
    pub(crate) uuid: Option<GpuUuid>,
    /// The driver's name of it.
    pub(crate) name: Option<String>,
    /// Table id, else the name.
    pub(crate) product: Option<String>,
    pub(crate) pci_bus_id: Option<String>,
    pub(crate) minor: Option<u32>,
    /// Whether MIG is on and will be on after a reset; null on a GPU without MIG.
    pub(crate) mig: Option<Mig>,
    /// Compute slices and memory units of the whole GPU, where it has MIG.
    pub(crate) slices: Option<u32>,
    pub(crate) units: Option<u32>,
    /// GPU instances by start; null where the caller may not list them.
    pub(crate) instances: Option<Vec<Instance>>,
    /// How many more instances of each profile fit now, those that fit; null with MIG off or without the right.
    pub(crate) room: Option<Vec<Room>>,
    /// Processes by pid, those on instances too.
    pub(crate) processes: Vec<Holder>,
    pub(crate) readings: Figures,
    /// What cannot be read, and why.
    pub(crate) notes: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Mig {
    pub(crate) current: bool,
    pub(crate) pending: bool,
}

/// A GPU instance with its compute instances.
#[derive(Debug, Serialize)]
pub(crate) struct Instance {
    pub(crate) profile: String,
    /// In memory units.
    pub(crate) start: u32,
    pub(crate) size: u32,
    pub(crate) gpu_instance: u32,
    /// Empty: half made, and of no use to anybody.
    pub(crate) devices: Vec<MigDevice>,
}

/// A MIG device.
#[derive(Debug, Serialize)]
pub(crate) struct MigDevice {
    pub(crate) compute_instance: u32,
    /// In compute slices of the GPU instance.
    pub(crate) slice: u32,
    pub(crate) slices: u32,
    pub(crate) uuid: Option<String>,
    pub(crate) memory_used_mib: Option<u64>,
    pub(crate) memory_total_mib: Option<u64>,
    pub(crate) processes: Vec<u32>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Room {
    pub(crate) profile: String,
    pub(crate) count: u32,
}

/// A process on a GPU.
#[derive(Debug, Serialize)]
pub(crate) struct Holder {
    pub(crate) pid: u32,
    pub(crate) name: Option<String>,
    pub(crate) kind: ProcessKind,
    pub(crate) memory_mib: Option<u64>,
    pub(crate) gpu_instance: Option<u32>,
    pub(crate) compute_instance: Option<u32>,
}

/// What the GPU is doing; null where the driver does not tell in this mode.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Figures {
    pub(crate) memory_used_mib: Option<u64>,
    pub(crate) memory_total_mib: Option<u64>,
    pub(crate) gpu_percent: Option<u32>,
    pub(crate) memory_percent: Option<u32>,
    pub(crate) temperature_celsius: Option<u32>,
    pub(crate) power_watts: Option<u32>,
    pub(crate) power_limit_watts: Option<u32>,
    pub(crate) sm_mhz: Option<u32>,
    pub(crate) memory_mhz: Option<u32>,
    pub(crate) ecc_corrected: Option<u64>,
    pub(crate) ecc_uncorrected: Option<u64>,
}

/// Reads the node's GPUs and prints them.
///
/// # Errors
/// No driver, or one that cannot even count its GPUs. A GPU that does not answer is told in its place, and the exit code
/// is 3.
pub(crate) fn run(words: &Gpus, products: &ProductTable, printer: &Printer) -> Result<Outcome, Failure> {
    let session = driver::open(&words.driver)?;
    let inventory = inventory(&session, products).map_err(|error| Failure::program(error.to_string()))?;
    printer.result(&inventory, |page| table::gpus::put(page, &inventory))?;
    let lost = inventory.gpus.iter().any(|gpu| gpu.name.is_none());
    Ok(if lost { Outcome::Partly } else { Outcome::Done })
}

/// Everything that the driver tells.
///
/// # Errors
/// When it cannot even count its GPUs.
pub(crate) fn inventory(driver: &dyn GpuDriver, products: &ProductTable) -> Result<Inventory, DriverError> {
    let gpus = observe(driver)?.iter().map(|seen| gpu(driver, products, seen)).collect();
    Ok(Inventory { driver: driver.versions()?, gpus })
}

fn gpu(driver: &dyn GpuDriver, products: &ProductTable, seen: &Seen) -> Gpu {
    let state = match seen {
        Seen::Gpu(state) => state,
        Seen::Unreadable { index, uuid, error } => return unreadable(*index, uuid.clone(), error),
    };
    let identity = &state.identity;
    let mut notes = Vec::new();
    let catalogue = state.mode.and_then(|_| Catalogue::of(state, products).ok());
    let known = products.find(&identity.name).ok().map(|product| product.id.to_string());
    let on = state.mode.is_some_and(|mode| mode.current);
    let live = match (&state.live, on) {
        (Ok(live), true) => Some(&live.instances[..]),
        (Ok(_), false) => None,
        (Err(error), _) => {
            notes.push(format!("its instances cannot be listed: {error}"));
            None
        }
    };
    let readings = driver.readings(&Device::Gpu(identity.uuid.clone())).unwrap_or_else(|error| {
        notes.push(format!("its counters cannot be read: {error}"));
        Readings::default()
    });
    let instances: Option<Vec<Instance>> = live.map(|live| {
        live.iter().map(|one| instance(driver, state, catalogue.as_ref(), one, &mut notes)).collect()
    });
    if state.mode.is_some_and(|mode| mode.current != mode.pending) {
        notes.push(
            "another MIG mode waits: reset the GPU while it is idle (nvidia-smi --gpu-reset), or reboot"
                .into(),
        );
    }
    Gpu {
        index: identity.index,
        uuid: Some(identity.uuid.clone()),
        name: Some(identity.name.clone()),
        product: Some(known.unwrap_or_else(|| identity.name.clone())),
        pci_bus_id: Some(identity.pci_bus_id.clone()),
        minor: identity.minor,
        mig: state.mode.map(|mode| Mig { current: mode.current, pending: mode.pending }),
        slices: catalogue.as_ref().map(|c| c.product.compute_slices),
        units: catalogue.as_ref().map(|c| c.product.units()),
        room: live.and(room(driver, state, catalogue.as_ref())),
        instances,
        processes: state.processes.iter().map(holder).collect(),
        readings: figures(&readings),
        notes,
    }
}

fn unreadable(index: u32, uuid: Option<GpuUuid>, error: &DriverError) -> Gpu {
    Gpu {
        index,
        uuid,
        name: None,
        product: None,
        pci_bus_id: None,
        minor: None,
        mig: None,
        slices: None,
        units: None,
        instances: None,
        room: None,
        processes: Vec::new(),
        readings: Figures::default(),
        notes: vec![format!("it cannot be read: {error}; {}", tesela_nvml::advice(error.code))],
    }
}

fn instance(
    driver: &dyn GpuDriver,
    state: &GpuState,
    catalogue: Option<&Catalogue>,
    live: &LiveInstance,
    notes: &mut Vec<String>,
) -> Instance {
    let name = catalogue.and_then(|c| c.by_id(live.profile)).map(|p| p.name.to_string());
    let profile = name.unwrap_or_else(|| format!("profile {}", live.profile));
    if live.compute.is_empty() {
        notes.push(format!(
            "the GPU instance {profile} at {} has no compute instance: nobody can use it, and it takes room; `tesela mig \
             apply` or nvidia-smi mig -dgi -gi {} removes it",
            live.placement.start, live.id
        ));
    }
    let devices = live.compute.iter().map(|compute| {
        let gpu = state.identity.uuid.clone();
        let memory =
            compute.mig.clone().and_then(|mig| driver.readings(&Device::Mig { gpu, mig }).ok()?.memory);
        MigDevice {
            compute_instance: compute.id,
            slice: compute.placement.start,
            slices: compute.placement.size,
            uuid: compute.mig.as_ref().map(ToString::to_string),
            memory_used_mib: memory.map(|m| mib(m.used)),
            memory_total_mib: memory.map(|m| mib(m.total)),
            processes: on(state, live.id, compute.id),
        }
    });
    Instance {
        profile,
        start: live.placement.start,
        size: live.placement.size,
        gpu_instance: live.id,
        devices: devices.collect(),
    }
}

/// Pids of the processes on a MIG device.
fn on(state: &GpuState, instance: u32, compute: u32) -> Vec<u32> {
    state.processes.iter().filter(|p| is_on(p, instance, Some(compute))).map(|p| p.pid).collect()
}

fn room(driver: &dyn GpuDriver, state: &GpuState, catalogue: Option<&Catalogue>) -> Option<Vec<Room>> {
    let mut room = Vec::new();
    for profile in &catalogue?.product.profiles {
        let Some(id) = profile.profile_id else { continue };
        let count = driver.remaining_capacity(&state.identity.uuid, id).ok()?;
        if count > 0 {
            room.push(Room { profile: profile.name.to_string(), count });
        }
    }
    Some(room)
}

fn holder(process: &Process) -> Holder {
    Holder {
        pid: process.pid,
        name: process.name.clone(),
        kind: process.kind,
        memory_mib: process.memory_bytes.map(mib),
        gpu_instance: process.gpu_instance,
        compute_instance: process.compute_instance,
    }
}

fn figures(readings: &Readings) -> Figures {
    let memory: Option<MemoryUse> = readings.memory;
    let clocks: Option<Clocks> = readings.clocks;
    let ecc: Option<EccCounts> = readings.ecc;
    Figures {
        memory_used_mib: memory.map(|m| mib(m.used)),
        memory_total_mib: memory.map(|m| mib(m.total)),
        gpu_percent: readings.utilisation.map(|u| u.gpu),
        memory_percent: readings.utilisation.map(|u| u.memory),
        temperature_celsius: readings.temperature_celsius,
        power_watts: readings.power_milliwatts.map(watts),
        power_limit_watts: readings.power_limit_milliwatts.map(watts),
        sm_mhz: clocks.map(|c| c.sm),
        memory_mhz: clocks.map(|c| c.memory),
        ecc_corrected: ecc.map(|e| e.corrected),
        ecc_uncorrected: ecc.map(|e| e.uncorrected),
    }
}

fn mib(bytes: u64) -> u64 {
    bytes >> 20
}

/// Rounded to the nearest.
fn watts(milliwatts: u32) -> u32 {
    milliwatts.saturating_add(500) / 1000
}

#[cfg(test)]
mod tests {
    use tesela_formats::machine::read_machine;
    use tesela_sim::call::Rights;
    use tesela_sim::{SimDriver, Simulator};

    use super::*;
    use crate::table::text::Page;

    const MACHINE: &str = r"
gpus:
  - product: h100-sxm-80gb
    uuid: GPU-00000000-0000-0000-0000-000000000001
    processes: [{pid: 77, name: train.py, memory_mib: 40000}]
  - product: a100-40gb
    uuid: GPU-00000000-0000-0000-0000-000000000002
    mig: [{profile: 1g.5gb, start: 0}, {profile: 2g.10gb, start: 2}, {profile: 3g.20gb, start: 4, compute: []}]
    processes: [{pid: 4321, name: python, memory_mib: 2000, instance: 1}]
  - {product: h100-sxm-80gb, uuid: GPU-00000000-0000-0000-0000-000000000003, health: lost}
";

    fn driver(rights: Rights) -> SimDriver {
        let machine = read_machine("machine.yaml", MACHINE.as_bytes()).unwrap();
        SimDriver::with_rights(Simulator::new(&machine).unwrap(), rights)
    }

    fn shown(rights: Rights) -> (Inventory, String) {
        let found = inventory(&driver(rights), ProductTable::builtin()).unwrap();
        let mut page = Page::new(150);
        table::gpus::put(&mut page, &found);
        let text = page.text();
        (found, text)
    }

    #[test]
    fn everything_on_the_node_is_shown() {
        let (found, text) = shown(Rights::Root);
        insta::assert_snapshot!("node", text);
        insta::assert_snapshot!("node as JSON", serde_json::to_string_pretty(&found).unwrap());
    }

    #[test]
    fn without_rights_what_is_hidden_is_told_and_not_guessed() {
        let (found, text) = shown(Rights::User);
        assert!(found.gpus[1].instances.is_none() && found.gpus[1].room.is_none());
        assert!(text.contains("its instances cannot be listed") && text.contains("NoPermission"), "{text}");
    }
}
