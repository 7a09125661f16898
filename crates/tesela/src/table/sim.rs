//! An emulated node for people: GPUs, the devices on them, what runs.

use tesela_model::machine::Health;

use super::columns::{Columns, Kind};
use super::text::{Line, Page, Style};
use super::words::{count, many};
use crate::verbs::sim::show::{Shown, ShownGpu};

/// The whole node.
pub(crate) fn put(page: &mut Page, shown: &Shown) {
    let number = u64::try_from(shown.gpus.len()).unwrap_or(u64::MAX);
    page.line(Line::styled(
        Style::Strong,
        format!("{} emulated, driver {}", many(number, "GPU"), shown.driver),
    ));
    page.gap();
    put_gpus(page, shown);
    put_devices(page, shown);
    put_processes(page, shown);
    if !shown.faults.is_empty() {
        page.heading("Refusals");
        for fault in &shown.faults {
            page.item("", fault, Style::Warn);
        }
    }
}

fn put_gpus(page: &mut Page, shown: &Shown) {
    let mut columns = Columns::new(&[
        ("GPU", Kind::Number),
        ("name", Kind::Name),
        ("UUID", Kind::Fixed),
        ("MIG", Kind::Fixed),
        ("memory MiB", Kind::Number),
        ("busy", Kind::Number),
        ("power", Kind::Number),
        ("health", Kind::Fixed),
    ]);
    for gpu in &shown.gpus {
        let health = match gpu.health {
            Health::Healthy => Line::default(),
            Health::Lost => Line::styled(Style::Bad, "lost"),
            Health::ResetRequired => Line::styled(Style::Warn, "needs a reset"),
        };
        columns.row(vec![
            Line::plain(gpu.index.to_string()),
            Line::plain(&gpu.name),
            Line::plain(gpu.uuid.as_str()),
            mode(gpu),
            Line::plain(format!("{} / {}", count(gpu.memory_used_mib), count(gpu.memory_mib))),
            Line::plain(gpu.busy_percent.map(|busy| format!("{busy} %")).unwrap_or_default()),
            Line::plain(gpu.power_watts.map(|watts| format!("{watts} W")).unwrap_or_default()),
            health,
        ]);
    }
    columns.put(page);
}

fn mode(gpu: &ShownGpu) -> Line {
    let word = |on| if on { "on" } else { "off" };
    if gpu.mig == gpu.mig_pending {
        return Line::plain(word(gpu.mig));
    }
    Line::styled(Style::Warn, format!("{}, {} after a reset", word(gpu.mig), word(gpu.mig_pending)))
}

fn put_devices(page: &mut Page, shown: &Shown) {
    if shown.gpus.iter().all(|gpu| gpu.instances.is_empty()) {
        return;
    }
    page.heading("Instances");
    let mut columns = Columns::new(&[
        ("GPU", Kind::Number),
        ("instance", Kind::Fixed),
        ("profile", Kind::Fixed),
        ("units", Kind::Fixed),
        ("MIG device", Kind::Fixed),
    ]);
    for gpu in &shown.gpus {
        for one in &gpu.instances {
            let row = |id: String, profile: &str, device: Line| {
                let units = format!("{}:{}", one.start, one.size);
                let index = Line::plain(gpu.index.to_string());
                vec![index, Line::plain(id), Line::plain(profile), Line::plain(units), device]
            };
            if one.devices.is_empty() {
                let none = Line::styled(Style::Warn, "none: it has no compute instance");
                columns.row(row(one.gpu_instance.to_string(), &one.profile, none));
            }
            for device in &one.devices {
                let id = format!("{}/{}", one.gpu_instance, device.compute_instance);
                columns.row(row(id, &device.profile, Line::plain(device.uuid.as_str())));
            }
        }
    }
    columns.put(page);
}

fn put_processes(page: &mut Page, shown: &Shown) {
    if shown.gpus.iter().all(|gpu| gpu.processes.is_empty()) {
        return;
    }
    page.heading("Processes");
    let mut columns = Columns::new(&[
        ("GPU", Kind::Number),
        ("instance", Kind::Fixed),
        ("pid", Kind::Number),
        ("name", Kind::Name),
        ("memory MiB", Kind::Number),
        ("busy alone", Kind::Number),
    ]);
    for gpu in &shown.gpus {
        for process in &gpu.processes {
            let on = process.gpu_instance.zip(process.compute_instance);
            columns.row(vec![
                Line::plain(gpu.index.to_string()),
                Line::plain(on.map(|(gi, ci)| format!("{gi}/{ci}")).unwrap_or_default()),
                Line::plain(process.pid.to_string()),
                Line::plain(process.name.as_deref().unwrap_or_default()),
                Line::plain(count(process.memory_mib)),
                Line::plain(format!("{} %", process.busy_percent)),
            ]);
        }
    }
    columns.put(page);
}
