//! `tesela mig export`: the layouts in force as a mig-parted config.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tesela_executor::catalogue::Catalogue;
use tesela_executor::observe::{GpuState, Live};
use tesela_formats::mig_parted::{Config, Devices, Entry, GpuInForce, in_force};
use tesela_model::product::{ProductTable, ProfileName};

use super::{seen, states};
use crate::cli::Format;
use crate::cli::mig::MigExport;
use crate::driver;
use crate::failure::{Failure, Outcome};
use crate::printer::Printer;

/// Prints the config.
///
/// # Errors
/// When the instances of a GPU cannot be listed, or have no name in such a file.
pub(super) fn run(words: &MigExport, products: &ProductTable, printer: &Printer) -> Result<Outcome, Failure> {
    let session = driver::open(&words.node.driver)?;
    let seen = seen(&session)?;
    let states = states(&seen);
    if states.len() < seen.len() {
        printer.note("note: a GPU that does not answer is left out");
    }
    let mut gpus = Vec::new();
    for state in states.into_iter().filter(|state| state.mode.is_some()) {
        gpus.push(force(state, products, printer)?);
    }
    if gpus.is_empty() {
        return Err(Failure::program("no GPU of this node can do MIG"));
    }
    let config = in_force(&words.config, &gpus);
    if printer.format() == Format::Json {
        printer.result(&json(&config), |_| {})?;
    } else {
        printer.text(config.to_yaml().as_bytes())?;
    }
    Ok(Outcome::Done)
}

fn force(state: &GpuState, products: &ProductTable, printer: &Printer) -> Result<GpuInForce, Failure> {
    let index = state.identity.index;
    let live = state.live.as_ref().map_err(|error| {
        Failure::program(format!("GPU {index}: its instances cannot be listed: {error}"))
            .hint("run as root, or with read access to the driver's capability file mig/monitor")
    })?;
    let counts = if live.mode.current { Some(counts(state, live, products, printer)?) } else { None };
    Ok(GpuInForce { index, device: state.identity.pci_device_id, counts })
}

fn counts(
    state: &GpuState,
    live: &Live,
    products: &ProductTable,
    printer: &Printer,
) -> Result<BTreeMap<ProfileName, u32>, Failure> {
    let index = state.identity.index;
    let fail = |what: String| Failure::program(format!("GPU {index}: {what}"));
    let catalogue = Catalogue::of(state, products).map_err(|error| fail(error.to_string()))?;
    let mut counts = BTreeMap::new();
    for instance in &live.instances {
        let id = instance.profile;
        let profile = catalogue.by_id(id).ok_or_else(|| fail(format!("profile {id} has no name")))?;
        if instance.compute.is_empty() {
            printer.note(&format!(
                "note: GPU {index}: {}@{} has no compute instance, and such a file cannot say so; it is left out",
                profile.name, instance.placement.start
            ));
        }
        for compute in &instance.compute {
            let slices = compute.placement.size;
            let name = match slices == profile.compute_slices {
                true => profile.name.clone(),
                false => ProfileName::parse(&format!("{slices}c.{}", profile.name))
                    .map_err(|error| fail(error.to_string()))?,
            };
            *counts.entry(name).or_default() += 1;
        }
    }
    Ok(counts)
}

/// The same in JSON, which mig-parted reads as well.
fn json(config: &Config) -> Value {
    let entry = |entry: &Entry| {
        let mut map = Map::new();
        if let Some(filter) = entry.filter.first() {
            map.insert("device-filter".to_owned(), json!(filter.value));
        }
        let devices = match &entry.devices.value {
            Devices::All => json!("all"),
            Devices::Indexes(list) => json!(list),
        };
        map.insert("devices".to_owned(), devices);
        map.insert("mig-enabled".to_owned(), json!(entry.mig_enabled.value));
        if let Some(counts) = &entry.mig_devices {
            let counts = counts.iter().map(|c| (c.profile.value.to_string(), json!(c.count.value)));
            map.insert("mig-devices".to_owned(), Value::Object(counts.collect()));
        }
        Value::Object(map)
    };
    let labels = config.labels.iter().map(|label| {
        let entries = label.entries.iter().map(entry).collect::<Vec<_>>();
        (label.name.value.clone(), Value::Array(entries))
    });
    json!({"version": "v1", "mig-configs": labels.collect::<Map<_, _>>()})
}
