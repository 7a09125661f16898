//! What a label means on a node, what a node's layouts are as a label, and the labels that NVIDIA's generator gives a
//! node (mig-parted 0.15).

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::product::{Product, Profile, ProfileName};

use super::{Config, Count, DeviceFilter, Devices, Entry, Label};
use crate::source::{Located, Span};

/// A GPU as far as a label looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeGpu {
    /// Index in the driver's list.
    pub index: u32,
    /// Device id, then vendor id.
    pub device: u32,
    /// The same of the subsystem.
    pub subsystem: Option<u32>,
    /// Whether it can do MIG.
    pub mig_capable: bool,
}

/// An entry that names a GPU without MIG by its index, and wants MIG on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it wants MIG on GPU {index}, which has no MIG")]
pub struct NotCapable {
    /// The GPU.
    pub index: u32,
    /// Where the entry names it.
    pub at: Span,
}

impl Label {
    /// The entry in force for each GPU; `None` where the label says nothing, or the GPU has no MIG and nothing is to be
    /// done to it.
    ///
    /// # Errors
    /// When an entry wants MIG on a GPU without, and names it.
    pub fn on_node(&self, gpus: &[NodeGpu]) -> Result<Vec<Option<&Entry>>, NotCapable> {
        for entry in self.entries.iter().filter(|entry| entry.mig_enabled.value) {
            let named = |gpu: &&NodeGpu| {
                let by_index = matches!(&entry.devices.value, Devices::Indexes(_));
                by_index && !gpu.mig_capable && entry.matches(gpu.index, gpu.device, gpu.subsystem)
            };
            if let Some(gpu) = gpus.iter().find(named) {
                return Err(NotCapable { index: gpu.index, at: entry.devices.at });
            }
        }
        let entry = |gpu: &NodeGpu| {
            let entry = self.entry_for(gpu.index, gpu.device, gpu.subsystem);
            entry.filter(|_| gpu.mig_capable)
        };
        Ok(gpus.iter().map(entry).collect())
    }
}

impl Entry {
    /// What the entry wants of a GPU: MIG off, or MIG on with these counts.
    #[must_use]
    pub fn wanted(&self) -> Option<Vec<(ProfileName, u32)>> {
        let counts = self.mig_devices.as_deref().unwrap_or_default();
        let each = counts.iter().map(|count| (count.profile.value.clone(), count.count.value));
        self.mig_enabled.value.then(|| each.collect())
    }
}

/// The layout of a GPU as `export` tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuInForce {
    /// Index in the driver's list.
    pub index: u32,
    /// Device id, then vendor id.
    pub device: u32,
    /// MIG devices by profile; `None` with MIG off.
    pub counts: Option<BTreeMap<ProfileName, u32>>,
}

/// The layouts in force as a config with one label. GPUs of one kind with equal layouts share an entry; filters stand
/// only where there is more than one kind.
#[must_use]
pub fn in_force(label: &str, gpus: &[GpuInForce]) -> Config {
    let kinds = gpus.iter().map(|gpu| gpu.device).collect::<BTreeSet<_>>();
    let mut entries = Vec::new();
    for kind in &kinds {
        let of_kind = gpus.iter().filter(|gpu| gpu.device == *kind).collect::<Vec<_>>();
        let mut groups = Vec::<(Option<&BTreeMap<ProfileName, u32>>, Vec<i64>)>::new();
        for gpu in &of_kind {
            match groups.iter_mut().find(|(counts, _)| *counts == gpu.counts.as_ref()) {
                Some((_, indexes)) => indexes.push(i64::from(gpu.index)),
                None => groups.push((gpu.counts.as_ref(), vec![i64::from(gpu.index)])),
            }
        }
        let alone = groups.len() == 1;
        for (counts, indexes) in groups {
            let devices = if alone { Devices::All } else { Devices::Indexes(indexes) };
            let filter = (kinds.len() > 1).then_some(*kind);
            entries.push(entry(
                filter,
                devices,
                counts.map(|c| c.iter().map(|(n, c)| (n.clone(), *c)).collect()),
            ));
        }
    }
    let labels = if entries.is_empty() { Vec::new() } else { vec![named(label.to_owned(), entries)] };
    Config { labels }
}

/// The labels that NVIDIA's generator makes for a node with these products (device id and vendor id with each):
/// `all-disabled`, `all-enabled`, one for each profile with as many as fit, and `all-balanced`.
#[must_use]
pub fn generated(products: &[(u32, &Product)]) -> Config {
    let mut kinds = BTreeMap::new();
    for (device, product) in products {
        kinds.entry(*device).or_insert(*product);
    }
    let filter = |device: &u32| (kinds.len() > 1).then_some(*device);
    let everywhere = |counts| vec![entry(None, Devices::All, counts)];
    let mut labels = vec![
        named("all-disabled".to_owned(), everywhere(None)),
        named("all-enabled".to_owned(), everywhere(Some(Vec::new()))),
    ];
    let mut names = BTreeMap::<String, Vec<Entry>>::new();
    let mut balanced = Vec::new();
    for (device, product) in &kinds {
        for profile in &product.profiles {
            let counts = vec![(profile.name.clone(), most(profile))];
            let label = format!("all-{}", profile.name.label_form());
            names.entry(label).or_default().push(entry(filter(device), Devices::All, Some(counts)));
        }
        let counts = balance(product);
        balanced.extend(counts.map(|counts| entry(filter(device), Devices::All, Some(counts))));
    }
    labels.extend(names.into_iter().map(|(name, entries)| named(name, entries)));
    if !balanced.is_empty() {
        labels.push(named("all-balanced".to_owned(), balanced));
    }
    Config { labels }
}

/// How many of a profile an empty GPU holds.
fn most(profile: &Profile) -> u32 {
    let places = u32::try_from(profile.placements.len()).unwrap_or(u32::MAX);
    profile.max_instances.unwrap_or(places)
}

/// Two of one slice and one of two, and one of three where there are seven slices; none on other GPUs.
fn balance(product: &Product) -> Option<Vec<(ProfileName, u32)>> {
    let wanted: &[(u32, u32)] = match product.compute_slices {
        7 => &[(1, 2), (2, 1), (3, 1)],
        4 => &[(1, 2), (2, 1)],
        _ => return None,
    };
    let plain = |slices: u32| {
        let all = product.profiles.iter().filter(|p| p.is_plain() && p.name.slices() == slices);
        // The first of those of which most fit.
        all.rev().max_by_key(|p| most(p))
    };
    wanted.iter().map(|&(slices, count)| Some((plain(slices)?.name.clone(), count))).collect()
}

fn named(name: String, entries: Vec<Entry>) -> Label {
    Label { name: name.into(), entries }
}

fn entry(filter: Option<u32>, devices: Devices, counts: Option<Vec<(ProfileName, u32)>>) -> Entry {
    let filter = filter.map(|device| DeviceFilter { device, subsystem: None }.to_string());
    let count = |(profile, count): (ProfileName, u32)| Count { profile: profile.into(), count: count.into() };
    Entry {
        filter: filter.map(Located::from).into_iter().collect(),
        devices: devices.into(),
        mig_enabled: counts.is_some().into(),
        mig_devices: counts.map(|counts| counts.into_iter().map(count).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mig_parted::read;
    use tesela_model::product::ProductTable;

    const A100: u32 = 0x20B0_10DE;
    const H100: u32 = 0x2330_10DE;

    fn product(id: &str) -> &'static Product {
        ProductTable::builtin().find(id).unwrap()
    }

    fn gpu(index: u32, device: u32, mig_capable: bool) -> NodeGpu {
        NodeGpu { index, device, subsystem: None, mig_capable }
    }

    fn label(text: &str) -> Label {
        let text = format!("version: v1\nmig-configs:\n  x:\n{text}");
        read("f", text.as_bytes()).unwrap().config.unwrap().labels.remove(0)
    }

    #[test]
    fn a_label_names_some_gpus_and_the_later_entry_wins() {
        let x = label(
            "  - {devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}\n  - {devices: [1], mig-enabled: false}\n",
        );
        let gpus = [gpu(0, A100, true), gpu(1, A100, true), gpu(2, H100, false)];
        let entries = x.on_node(&gpus).unwrap();
        assert_eq!(entries[0].unwrap().wanted().unwrap()[0].1, 7);
        assert_eq!(entries[1].unwrap().wanted(), None);
        assert_eq!(entries[2], None);
        let x =
            label("  - {devices: [0], device-filter: '0x233010DE', mig-enabled: true, mig-devices: {}}\n");
        assert_eq!(x.on_node(&gpus).unwrap(), [None, None, None]);
    }

    #[test]
    fn mig_on_a_gpu_without_it_is_refused_when_named() {
        let gpus = [gpu(0, A100, true), gpu(1, H100, false)];
        let named = label("  - {devices: [1], mig-enabled: true, mig-devices: {}}\n");
        let refused = named.on_node(&gpus).unwrap_err();
        assert_eq!((refused.index, refused.at.line), (1, 4));
        let off = label("  - {devices: [1], mig-enabled: false}\n");
        assert_eq!(off.on_node(&gpus).unwrap(), [None, None]);
        // A later entry does not take it back.
        let both = label(
            "  - {devices: [1], mig-enabled: true, mig-devices: {}}\n  - {devices: [1], mig-enabled: false}\n",
        );
        assert!(both.on_node(&gpus).is_err());
    }

    #[test]
    fn equal_layouts_of_one_kind_share_an_entry() {
        let counts = |n: u32| Some(BTreeMap::from([(ProfileName::parse("1g.5gb").unwrap(), n)]));
        let force = |index, device, counts| GpuInForce { index, device, counts };
        let text = |gpus: &[GpuInForce]| in_force("current", gpus).to_yaml();
        let head = "version: v1\nmig-configs:\n  current:\n";
        let one = text(&[force(0, A100, counts(7)), force(1, A100, counts(7))]);
        assert_eq!(
            one,
            format!(
                "{head}    - devices: all\n      mig-enabled: true\n      mig-devices:\n        1g.5gb: 7\n"
            )
        );
        let apart = text(&[force(0, A100, counts(7)), force(1, A100, None), force(2, A100, counts(7))]);
        assert!(apart.contains("devices: [0, 2]") && apart.contains("devices: [1]"), "{apart}");
        assert!(!apart.contains("device-filter"));
        let kinds = text(&[force(0, A100, counts(7)), force(1, H100, counts(7))]);
        assert_eq!(kinds.matches("device-filter").count(), 2, "{kinds}");
        assert_eq!(kinds.matches("devices: all").count(), 2);
        for text in [one, apart, kinds] {
            assert!(read("f", text.as_bytes()).unwrap().config.is_some());
        }
        assert_eq!(in_force("current", &[]), Config::default());
    }

    #[test]
    fn generated_labels_are_those_of_the_builder() {
        let a100 = generated(&[(A100, product("a100-40gb")), (A100, product("a100-40gb"))]);
        let counts = |config: &Config, name: &str| {
            let label = config.label(name).unwrap();
            let one = |e: &Entry| {
                e.wanted()
                    .unwrap_or_default()
                    .iter()
                    .map(|(n, c)| format!("{n}={c}"))
                    .collect::<Vec<_>>()
                    .join(",")
            };
            label.entries.iter().map(one).collect::<Vec<_>>()
        };
        assert_eq!(counts(&a100, "all-balanced"), ["1g.5gb=2,2g.10gb=1,3g.20gb=1"]);
        assert_eq!(counts(&a100, "all-1g.5gb"), ["1g.5gb=7"]);
        assert_eq!(counts(&a100, "all-1g.5gb.me"), ["1g.5gb+me=1"]);
        assert_eq!(counts(&a100, "all-enabled"), [""]);
        assert!(!a100.label("all-disabled").unwrap().entries[0].mig_enabled.value);
        assert!(a100.labels.iter().all(|l| l.entries.iter().all(|e| e.filter.is_empty())));
        let a30 = generated(&[(0x20B7_10DE, product("a30-24gb"))]);
        assert_eq!(counts(&a30, "all-balanced"), ["1g.6gb=2,2g.12gb=1"]);
        // Two kinds: filters, and the same profile with another maximum on each.
        let two = generated(&[(A100, product("a100-40gb")), (H100, product("h100-sxm-80gb"))]);
        assert_eq!(counts(&two, "all-1g.10gb"), ["1g.10gb=4", "1g.10gb=7"]);
        assert_eq!(two.label("all-1g.10gb").unwrap().entries[0].filter[0].value, "0x20B010DE");
        assert!(two.label("all-disabled").unwrap().entries[0].filter.is_empty());
        let small = generated(&[(1, product("rtx-pro-5000-48gb"))]);
        assert!(small.label("all-balanced").is_none());
        assert!(read("f", two.to_yaml().as_bytes()).unwrap().config.is_some());
    }
}
