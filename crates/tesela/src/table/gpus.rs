//! The GPUs of a node for people: a line for each GPU, then the MIG devices, then the processes.

use tesela_model::layout::Instance as Placed;
use tesela_model::product::ProfileName;

use super::columns::{Columns, Kind};
use super::text::{Line, Page, Style};
use super::tile::Scale;
use super::words::{count, many};
use crate::verbs::gpus::{Figures, Gpu, Holder, Inventory, MigDevice};

/// Widest tile of a GPU.
const TILE: usize = 66;

pub(crate) fn put(page: &mut Page, inventory: &Inventory) {
    let versions = &inventory.driver;
    let cuda = versions.cuda.map(|v| format!(", CUDA {}.{}", v / 1000, v % 1000 / 10)).unwrap_or_default();
    let head = format!(
        "{}; driver {}, NVML {}{cuda}",
        many(inventory.gpus.len() as u64, "GPU"),
        versions.driver,
        versions.nvml
    );
    page.paragraph(&Line::default(), &head, Style::Strong);
    page.gap();
    put_gpus(page, &inventory.gpus);
    for gpu in inventory.gpus.iter().filter(|gpu| gpu.instances.is_some()) {
        page.gap();
        put_instances(page, gpu);
    }
    put_processes(page, &inventory.gpus);
    let notes = || inventory.gpus.iter().flat_map(|gpu| gpu.notes.iter().map(move |note| (gpu.index, note)));
    if notes().next().is_some() {
        page.heading("Notes");
        for (index, note) in notes() {
            page.item(&format!("GPU {index}"), note, Style::Warn);
        }
    }
}

fn put_gpus(page: &mut Page, gpus: &[Gpu]) {
    let mut columns = Columns::new(&[
        ("GPU", Kind::Number),
        ("product", Kind::Fixed),
        ("MIG", Kind::Fixed),
        ("memory used", Kind::Number),
        ("busy", Kind::Number),
        ("°C", Kind::Number),
        ("power", Kind::Number),
        ("ECC", Kind::Number),
        ("PCI", Kind::Fixed),
        ("UUID", Kind::Text),
    ]);
    for gpu in gpus {
        let of = &gpu.readings;
        columns.row(vec![
            Line::plain(gpu.index.to_string()),
            gpu.product.as_ref().map_or_else(|| Line::styled(Style::Bad, "does not answer"), Line::plain),
            mode(gpu),
            Line::plain(memory(of.memory_used_mib, of.memory_total_mib)),
            Line::plain(of.gpu_percent.map(|p| format!("{p} %")).unwrap_or_default()),
            Line::plain(of.temperature_celsius.map(|t| t.to_string()).unwrap_or_default()),
            Line::plain(power(of)),
            ecc(of),
            Line::plain(gpu.pci_bus_id.as_deref().unwrap_or_default()),
            Line::plain(gpu.uuid.as_ref().map(ToString::to_string).unwrap_or_default()),
        ]);
    }
    columns.put(page);
}

fn mode(gpu: &Gpu) -> Line {
    let word = |on: bool| if on { "on" } else { "off" };
    match &gpu.mig {
        None if gpu.name.is_none() => Line::default(),
        None => Line::styled(Style::Faint, "none"),
        Some(mig) if mig.current == mig.pending => Line::plain(word(mig.current)),
        Some(mig) => {
            Line::styled(Style::Warn, format!("{}, waits for {}", word(mig.current), word(mig.pending)))
        }
    }
}

/// `used / total MiB`.
fn memory(used: Option<u64>, total: Option<u64>) -> String {
    match (used, total) {
        (Some(used), Some(total)) => format!("{} / {} MiB", count(used), count(total)),
        (None, Some(total)) => format!("{} MiB", count(total)),
        _ => String::new(),
    }
}

fn power(of: &Figures) -> String {
    match (of.power_watts, of.power_limit_watts) {
        (Some(now), Some(limit)) => format!("{now} / {limit} W"),
        (Some(now), None) => format!("{now} W"),
        _ => String::new(),
    }
}

/// Uncorrected errors, which a person has to act on; corrected ones are in the JSON.
fn ecc(of: &Figures) -> Line {
    match of.ecc_uncorrected {
        None => Line::default(),
        Some(0) => Line::plain("0"),
        Some(errors) => Line::styled(Style::Bad, count(errors)),
    }
}

fn put_instances(page: &mut Page, gpu: &Gpu) {
    let instances = gpu.instances.as_deref().unwrap_or_default();
    page.paragraph(&Line::default(), &format!("GPU {}: {}", gpu.index, summary(gpu)), Style::Strong);
    // A name that is no profile's, of a driver newer than this program, is drawn by its place alone.
    let placed: Vec<Placed> = instances
        .iter()
        .filter_map(|i| {
            let profile = ProfileName::parse(&i.profile).ok()?;
            Some(Placed { profile, start: i.start, size: i.size })
        })
        .collect();
    if let Some(units) = gpu.units {
        page.line(Scale::fitting(units, &placed, TILE.min(page.width())).tile(&placed));
    }
    let mut columns = Columns::new(&[
        ("start", Kind::Number),
        ("profile", Kind::Fixed),
        ("GI", Kind::Number),
        ("CI", Kind::Number),
        ("memory used", Kind::Number),
        ("processes", Kind::Number),
        ("MIG device", Kind::Fixed),
    ]);
    for instance in instances {
        let whole = instance.devices.len() == 1;
        let row = |device: Option<&MigDevice>| {
            let profile = match device {
                Some(device) if !whole => format!("{}c.{}", device.slices, instance.profile),
                _ => instance.profile.clone(),
            };
            vec![
                Line::plain(instance.start.to_string()),
                Line::plain(profile),
                Line::plain(instance.gpu_instance.to_string()),
                device.map_or_else(
                    || Line::styled(Style::Warn, "none"),
                    |d| Line::plain(d.compute_instance.to_string()),
                ),
                Line::plain(
                    device.map(|d| memory(d.memory_used_mib, d.memory_total_mib)).unwrap_or_default(),
                ),
                Line::plain(device.map(|d| d.processes.len().to_string()).unwrap_or_default()),
                Line::plain(device.and_then(|d| d.uuid.as_deref()).unwrap_or_default()),
            ]
        };
        match &instance.devices[..] {
            [] => columns.row(row(None)),
            devices => devices.iter().for_each(|device| columns.row(row(Some(device)))),
        }
    }
    columns.put(page);
}

/// `7 instances, 1 of 8 memory units free; room for 1g.10gb × 1`.
fn summary(gpu: &Gpu) -> String {
    let instances = gpu.instances.as_deref().unwrap_or_default();
    let taken: u32 = instances.iter().map(|i| i.size).sum();
    let mut told = many(instances.len() as u64, "instance");
    if let Some(units) = gpu.units {
        told.push_str(&format!(", {} of {} free", units.saturating_sub(taken), many(units, "memory unit")));
    }
    match gpu.room.as_deref() {
        Some([]) => told.push_str("; room for no more"),
        Some(room) => {
            let one: Vec<String> = room.iter().map(|r| format!("{} × {}", r.count, r.profile)).collect();
            told.push_str(&format!("; room for {}", one.join(" or ")));
        }
        None => {}
    }
    told
}

fn put_processes(page: &mut Page, gpus: &[Gpu]) {
    if gpus.iter().all(|gpu| gpu.processes.is_empty()) {
        return;
    }
    page.heading("Processes");
    let mut columns = Columns::new(&[
        ("GPU", Kind::Number),
        ("on", Kind::Fixed),
        ("pid", Kind::Number),
        ("memory", Kind::Number),
        ("name", Kind::Name),
    ]);
    for gpu in gpus {
        for process in &gpu.processes {
            columns.row(vec![
                Line::plain(gpu.index.to_string()),
                Line::plain(place(gpu, process)),
                Line::plain(process.pid.to_string()),
                Line::plain(process.memory_mib.map(|m| format!("{} MiB", count(m))).unwrap_or_default()),
                Line::plain(process.name.as_deref().unwrap_or_default()),
            ]);
        }
    }
    columns.put(page);
}

/// Profile and start of the instance a process is on.
fn place(gpu: &Gpu, process: &Holder) -> String {
    let Some(id) = process.gpu_instance else { return "the GPU".to_owned() };
    let instances = gpu.instances.as_deref().unwrap_or_default();
    let found = instances.iter().find(|i| i.gpu_instance == id);
    found.map_or_else(|| format!("GI {id}"), |i| format!("{}@{}", i.profile, i.start))
}
