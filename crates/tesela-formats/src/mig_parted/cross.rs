//! What only shows when the entries of a label are looked at together.

use std::collections::BTreeSet;

use super::{Config, Count, DeviceFilter, Devices, Entry, Label};
use crate::reading::{Effect, Note, Walk};
use crate::source::Located;

/// NVIDIA's PCI vendor id.
const NVIDIA: u32 = 0x10DE;

/// Notes contradictions inside each label.
pub(super) fn check(walk: &mut Walk, config: &Config) {
    for label in &config.labels {
        label_value(walk, label);
        for entry in &label.entries {
            filters(walk, entry);
            indexes(walk, entry);
            zero_counts(walk, entry.mig_devices.as_deref().unwrap_or_default());
        }
        overlaps(walk, label);
        coverage(walk, label);
    }
}

/// A label is chosen by the value of a node label, so it must be able to be one.
fn label_value(walk: &mut Walk, label: &Label) {
    let name = &label.name.value;
    let inner = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let ends = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    if bytes.len() <= 63 && bytes.iter().copied().all(inner) && ends(bytes.first()) && ends(bytes.last()) {
        return;
    }
    walk.note(
        Note::new(
            label.name.at,
            "label-not-selectable",
            Effect::Inert,
            format!("`{name}` cannot be the value of the node label nvidia.com/mig.config, so no node can choose it"),
            "use at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends; for `+` write `.`",
        )
        .value(name),
    );
}

fn filters(walk: &mut Walk, entry: &Entry) {
    for filter in entry.filter.iter().filter(|filter| !filter.value.is_empty()) {
        let (rule, message) = match DeviceFilter::parse(&filter.value) {
            None => (
                "filter-unreadable",
                format!(
                    "`{}` is no PCI id; mig-parted does not say so, and the filter matches no GPU",
                    filter.value
                ),
            ),
            Some(id) if id.vendor() != NVIDIA => (
                "filter-vendor",
                format!("`{}` does not end in NVIDIA's vendor id 10DE, so it matches no GPU", filter.value),
            ),
            Some(_) => continue,
        };
        let fix = "write device id and vendor id as one number, such as \"0x233010DE\"";
        walk.note(Note::new(filter.at, rule, Effect::Inert, message, fix).value(&filter.value));
    }
}

fn indexes(walk: &mut Walk, entry: &Entry) {
    let Devices::Indexes(list) = &entry.devices.value else {
        return;
    };
    let at = entry.devices.at;
    if list.is_empty() {
        let message = "`devices: []` names no GPU, so the entry does nothing";
        walk.note(Note::new(at, "devices-none", Effect::Inert, message, "write `all`, or indexes"));
    }
    let mut seen = BTreeSet::new();
    for index in list {
        if *index < 0 {
            let message = format!("no GPU has the index {index}; mig-parted does not say so");
            let note = Note::new(at, "devices-negative", Effect::Inert, message, "indexes begin at 0");
            walk.note(note.value(index.to_string()));
        } else if !seen.insert(*index) {
            let message = format!("the index {index} stands twice");
            let note = Note::new(at, "devices-twice", Effect::Note, message, "keep one of the two");
            walk.note(note.value(index.to_string()));
        }
    }
}

/// A zero beside other counts loads. It is then compared, entry by entry, with what the GPU has, where
/// no profile stands with 0.
fn zero_counts(walk: &mut Walk, counts: &[Count]) {
    if counts.iter().all(|count| count.count.value == 0) {
        return;
    }
    for zero in counts.iter().filter(|count| count.count.value == 0) {
        let profile = &zero.profile.value;
        walk.note(
            Note::new(
                zero.profile.at,
                "count-zero",
                Effect::Inert,
                format!(
                    "`{profile}: 0` makes no instance, and mig-parted never counts such an entry as applied"
                ),
                "remove the line",
            )
            .value("0"),
        );
    }
}

/// More entries than a node has GPUs are not compared with one another.
const MOST_COMPARED: usize = 1024;

/// Which GPUs an entry can match.
struct Reach {
    /// Every kind, or those of the filters.
    kinds: Option<Vec<DeviceFilter>>,
    /// Every index, or these.
    indexes: Option<BTreeSet<i64>>,
}

impl Reach {
    fn of(entry: &Entry) -> Self {
        let open = entry.filter.iter().all(|filter| filter.value.is_empty());
        let kinds = || entry.filter.iter().filter_map(|filter| DeviceFilter::parse(&filter.value)).collect();
        let indexes = match &entry.devices.value {
            Devices::All => None,
            Devices::Indexes(list) => Some(list.iter().copied().filter(|index| *index >= 0).collect()),
        };
        Self { kinds: (!open).then(kinds), indexes }
    }

    /// Whether some GPU can match both.
    fn meets(&self, other: &Self) -> bool {
        let kinds = match (&self.kinds, &other.kinds) {
            (Some(a), Some(b)) => a.iter().any(|x| b.iter().any(|y| alike(*x, *y))),
            (Some(some), None) | (None, Some(some)) => !some.is_empty(),
            (None, None) => true,
        };
        kinds
            && match (&self.indexes, &other.indexes) {
                (Some(a), Some(b)) => !a.is_disjoint(b),
                (Some(some), None) | (None, Some(some)) => !some.is_empty(),
                (None, None) => true,
            }
    }
}

/// Whether some GPU is of both kinds.
fn alike(x: DeviceFilter, y: DeviceFilter) -> bool {
    let apart = matches!((x.subsystem, y.subsystem), (Some(x), Some(y)) if x != y);
    x.device == y.device && !apart
}

fn overlaps(walk: &mut Walk, label: &Label) {
    let mut earlier: Vec<(Reach, u32)> = Vec::new();
    for entry in label.entries.iter().take(MOST_COMPARED) {
        let reach = Reach::of(entry);
        if let Some((_, line)) = earlier.iter().find(|(other, _)| other.meets(&reach)) {
            let name = &label.name;
            walk.note(Note::new(
                entry.devices.at,
                "entries-overlap",
                Effect::Inert,
                format!("in `{name}` this entry and the one on line {line} match the same GPU; the later one wins without a message"),
                "give each GPU to one entry of the label",
            ));
        }
        earlier.push((reach, entry.devices.at.line));
    }
}

/// A label counts as applied only when every GPU of the node is matched.
fn coverage(walk: &mut Walk, label: &Label) {
    if label.entries.iter().any(|entry| entry.devices.value == Devices::All) {
        return;
    }
    let named: BTreeSet<i64> = label
        .entries
        .iter()
        .filter_map(|entry| match &entry.devices.value {
            Devices::Indexes(list) => Some(list),
            Devices::All => None,
        })
        .flatten()
        .copied()
        .filter(|index| *index >= 0)
        .collect();
    let Some(last) = named.last().copied() else { return };
    let name = &label.name.value;
    let gap = (0..).zip(&named).find(|(wanted, index)| wanted != *index).map(|(wanted, _): (i64, _)| wanted);
    let Located { at, .. } = label.name;
    let note = match gap {
        Some(missing) => Note::new(
            at,
            "gpus-not-covered",
            Effect::Inert,
            format!(
                "`{name}` says nothing about GPU {missing}, so `assert` never succeeds and the label never counts as applied"
            ),
            format!("add an entry for GPU {missing}, or `mig-enabled: false` for the GPUs that stay whole"),
        ),
        None => Note::new(
            at,
            "gpus-covered-in-part",
            Effect::Note,
            format!("`{name}` covers GPU 0 to {last}; on a node with more GPUs it never counts as applied"),
            "on such nodes add an entry for the others",
        ),
    };
    walk.note(note.value(name));
}
