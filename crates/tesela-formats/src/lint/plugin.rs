//! What the profile table says about a device-plugin config.

use tesela_model::product::{Product, ProductTable};

use crate::device_plugin::{Config, ReplicatedResource, Strategy};
use crate::diagnostic::nearest;
use crate::reading::{Effect, Note};

/// A share of memory below this is less than a CUDA context and anything in it.
const LEAST_SHARE_MIB: u64 = 1024;

pub(super) fn check(notes: &mut Vec<Note>, config: &Config, table: &ProductTable) {
    let Some(active) = config.sharing.active() else {
        return;
    };
    for resource in &active.resources {
        let short = resource.name.value.short();
        let devices = match short.strip_prefix("mig-") {
            _ if short == "gpu" => Some(table.products().iter().filter_map(whole).collect()),
            Some(label) => slices(table, label),
            None => None,
        };
        let Some(devices) = devices else {
            unknown(notes, resource, table);
            continue;
        };
        if config.sharing.strategy() == Strategy::TimeSlicing {
            small_shares(notes, resource, &devices);
        }
    }
}

/// A kind of device that a resource name stands for, with its memory in MiB.
struct Device<'a> {
    title: &'a str,
    mib: u64,
}

fn whole(product: &Product) -> Option<Device<'_>> {
    let mib = product.memory?.0;
    Some(Device { title: &product.title, mib })
}

/// The instances of every product that a label form stands for; nothing when no product has it.
fn slices<'a>(table: &'a ProductTable, label: &str) -> Option<Vec<Device<'a>>> {
    let mut known = false;
    let mut devices = Vec::new();
    for product in table.products() {
        if let Ok(profile) = product.profile_by_label(label) {
            known = true;
            devices.extend(profile.memory.map(|mib| Device { title: &product.title, mib: mib.0 }));
        }
    }
    known.then_some(devices)
}

fn unknown(notes: &mut Vec<Note>, resource: &ReplicatedResource, table: &ProductTable) {
    let name = resource.name.value.as_str();
    let forms: Vec<String> = table
        .products()
        .iter()
        .flat_map(|product| &product.profiles)
        .map(|profile| format!("mig-{}", profile.name.label_form()))
        .chain(["gpu".to_owned()])
        .collect();
    let short = resource.name.value.short();
    let unshared = short.strip_suffix(".shared");
    let fix = if let Some(unshared) = unshared {
        format!("write the name before sharing: `nvidia.com/{unshared}`")
    } else {
        match nearest(short, forms.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `nvidia.com/{near}`?"),
            None => {
                "write `nvidia.com/gpu`, or `nvidia.com/mig-<profile>` with `migStrategy: mixed`".to_owned()
            }
        }
    };
    let message =
        format!("no device of any known product is `{name}`: the entry does nothing, without a message");
    notes.push(
        Note::new(resource.name.at, "sharing-resource-unknown", Effect::Inert, message, fix).value(name),
    );
}

/// The plugin has no upper limit; memory has.
fn small_shares(notes: &mut Vec<Note>, resource: &ReplicatedResource, devices: &[Device<'_>]) {
    let Some(largest) = devices.iter().max_by_key(|device| device.mib) else {
        return;
    };
    let replicas = resource.replicas;
    let share = largest.mib / u64::from(replicas.value.max(1));
    if share >= LEAST_SHARE_MIB {
        return;
    }
    let sensible = (largest.mib / LEAST_SHARE_MIB).max(2);
    notes.push(
        Note::new(
            replicas.at,
            "replicas-beyond-memory",
            Effect::Inert,
            format!(
                "{} replicas leave {share} MiB each on the largest such device ({}), less than one CUDA context needs; the plugin has no limit",
                replicas.value, largest.title
            ),
            format!("write at most {sensible}; the memories of all that share a device must fit it together"),
        )
        .value(replicas.value.to_string()),
    );
}
