//! The whole file.

use tesela_model::product::ProfileName;

use super::{Config, Count, Devices, Entry, Label, cross};
use crate::device_plugin;
use crate::diagnostic::{Diagnostics, nearest};
use crate::reading::{Effect, Note, Reading, Walk, did_you_mean, is_integer, is_text};
use crate::source::Located;
use crate::tree::{Duplicates, Mapping, Node, ReadOptions, Tree, read_documents_with};

const TOP: &[&str] = &["version", "mig-configs"];
const ENTRY: &[&str] = &["device-filter", "devices", "mig-enabled", "mig-devices"];

/// Reads a config file as mig-parted's parser does. Of several YAML documents the first one counts.
///
/// # Errors
/// When the bytes are empty or no YAML at all; mig-parted refuses both.
pub fn read(name: &str, bytes: &[u8]) -> Result<Reading<Config>, Diagnostics> {
    let options = ReadOptions { duplicates: Duplicates::Keep, ..ReadOptions::default() };
    let trees = read_documents_with(name, bytes, options)?;
    let mut trees = trees.iter();
    let mut reading = match trees.next() {
        Some(tree) => read_node(tree),
        // `read_documents_with` answers at least one document.
        None => Reading::new(Config::default(), Walk::default()),
    };
    reading.notes.extend(trees.next().map(|second| device_plugin::ignored_document(second.root.at)));
    Ok(reading)
}

/// Reads a config that was parsed already, with [`Duplicates::Keep`].
#[must_use]
pub fn read_node(tree: &Tree) -> Reading<Config> {
    let mut walk = Walk::default();
    walk.duplicates(tree);
    let config = config(&mut walk, &tree.root).unwrap_or_default();
    cross::check(&mut walk, &config);
    Reading::new(config, walk)
}

fn config(walk: &mut Walk, root: &Node) -> Option<Config> {
    let mapping = walk.mapping(root, "the file")?;
    unknown_keys(walk, mapping, TOP, "at the top level");
    version(walk, root, mapping);
    let Some(node) = mapping.get("mig-configs") else {
        let misspelt = |entry: &crate::tree::Entry| nearest(&entry.key.text, ["mig-configs"]).is_some();
        if !mapping.entries.iter().any(misspelt) {
            walk.note(Note::new(
                root.at,
                "configs-missing",
                Effect::Inert,
                "no `mig-configs`: the file loads, and no label can be applied",
                "add `mig-configs:` with at least one label",
            ));
        }
        return Some(Config::default());
    };
    let empty = node.is_null() || node.as_mapping().is_some_and(|labels| labels.entries.is_empty());
    if empty {
        let fix = "add at least one label, such as `all-disabled`";
        walk.refuse(node.at, "configs-empty", "`mig-configs` has no label", fix);
        return None;
    }
    let labels = walk.mapping(node, "`mig-configs`")?;
    Some(Config {
        labels: labels.last_entries().into_iter().filter_map(|entry| label(walk, entry)).collect(),
    })
}

fn version(walk: &mut Walk, root: &Node, mapping: &Mapping) {
    const FIX: &str = "write `version: v1`";
    match mapping.get("version") {
        None => walk.refuse(root.at, "version-missing", "`version` is missing", FIX),
        Some(node) => {
            if let Some(text) = walk.strict_text(node, "`version`").filter(|text| text.value != "v1") {
                let message = format!("the only version is `v1`, found `{}`", text.value);
                walk.note(
                    Note::new(node.at, "version-unknown", Effect::Refused, message, FIX).value(&text.value),
                );
            }
        }
    }
}

fn unknown_keys(walk: &mut Walk, mapping: &Mapping, known: &[&str], place: &str) {
    for entry in &mapping.entries {
        let key = &*entry.key.text;
        if known.contains(&key) {
            continue;
        }
        let elsewhere = [TOP, ENTRY].iter().any(|fields| *fields != known && fields.contains(&key));
        let (rule, fix) = if elsewhere && nearest(key, known.iter().copied()).is_none() {
            let home = if TOP.contains(&key) { "the top level" } else { "an entry of a label" };
            ("misplaced-field", format!("move it to {home}"))
        } else {
            ("unknown-field", did_you_mean(key, known))
        };
        let message = format!("unknown key `{key}` {place}: mig-parted refuses the file");
        walk.note(Note::new(entry.key.at, rule, Effect::Refused, message, fix).value(key));
    }
}

fn label(walk: &mut Walk, entry: &crate::tree::Entry) -> Option<Label> {
    let name = Located::new(entry.key.text.to_string(), entry.key.at);
    let items = walk.list(&entry.value, &format!("the label `{name}`"))?;
    if items.is_empty() {
        let fix = "add at least one entry with `devices` and `mig-enabled`, or remove the label";
        walk.refuse(entry.key.at, "label-empty", format!("the label `{name}` has no entry"), fix);
        return None;
    }
    let entries = items.iter().filter_map(|item| entry_of(walk, item, &name.value)).collect();
    Some(Label { name, entries })
}

fn entry_of(walk: &mut Walk, node: &Node, label: &str) -> Option<Entry> {
    let mapping = walk.mapping(node, &format!("an entry of `{label}`"))?;
    unknown_keys(walk, mapping, ENTRY, &format!("in an entry of `{label}`"));
    let filter = mapping.get("device-filter").map_or(Some(Vec::new()), |node| filter(walk, node));
    let devices = match mapping.get("devices") {
        Some(node) => devices(walk, node),
        None => {
            let fix = "add `devices: all`, or a list of GPU indexes";
            walk.refuse(node.at, "devices-missing", "`devices` is missing", fix);
            None
        }
    };
    let mig_enabled = match mapping.get("mig-enabled") {
        // Null is false in Go.
        Some(node) if node.is_null() => Some(Located::new(false, node.at)),
        Some(node) => walk.boolean(node, "`mig-enabled`"),
        None => {
            let fix = "add `mig-enabled: true` or `mig-enabled: false`";
            walk.refuse(node.at, "mig-enabled-missing", "`mig-enabled` is missing", fix);
            None
        }
    };
    let mig_devices = match mapping.get("mig-devices").filter(|node| !node.is_null()) {
        Some(node) => Some(counts(walk, node)?),
        None => None,
    };
    let enabled = mig_enabled?;
    if enabled.value && mig_devices.is_none() {
        let fix = "add `mig-devices: {}` for MIG without instances, or profiles with counts";
        walk.refuse(enabled.at, "mig-devices-missing", "`mig-enabled: true` needs `mig-devices`", fix);
    }
    if let Some(first) = mig_devices.as_ref().and_then(|list| list.first()).filter(|_| !enabled.value) {
        walk.refuse(
            first.profile.at,
            "mig-devices-while-disabled",
            "`mig-devices` has instances although `mig-enabled` is false",
            "remove `mig-devices`, or set `mig-enabled: true`",
        );
    }
    Some(Entry { filter: filter?, devices: devices?, mig_enabled: enabled, mig_devices })
}

/// One text or a list of texts. A bare `0x233010DE` is a number to YAML and refused.
fn filter(walk: &mut Walk, node: &Node) -> Option<Vec<Located<String>>> {
    if node.is_null() {
        return Some(Vec::new());
    }
    if let Some(text) = is_text(node) {
        return Some(vec![Located::new(text.to_owned(), node.at)]);
    }
    let items = node.as_sequence().unwrap_or(std::slice::from_ref(node));
    let mut filter = Vec::new();
    for item in items {
        if let Some(text) = is_text(item) {
            filter.push(Located::new(text.to_owned(), item.at));
            continue;
        }
        let text = item.as_text().unwrap_or_default();
        let fix = if is_integer(item).is_some() {
            format!("put quotes around it: \"{text}\"")
        } else {
            "write a text such as \"0x233010DE\", or a list of such texts".to_owned()
        };
        let message = format!("`device-filter` must be text or a list of texts, found {}", item.describe());
        walk.note(Note::new(item.at, "filter-invalid", Effect::Refused, message, fix).value(text));
        return None;
    }
    Some(filter)
}

fn devices(walk: &mut Walk, node: &Node) -> Option<Located<Devices>> {
    const FIX: &str = "write `devices: all`, or a list of GPU indexes such as [0, 1]";
    let mut refuse = |node: &Node, message: String| {
        let note = Note::new(node.at, "devices-invalid", Effect::Refused, message, FIX);
        walk.note(note.value(node.as_text().unwrap_or_default()));
        None
    };
    if let Some(text) = is_text(node) {
        return match text {
            "all" => Some(Located::new(Devices::All, node.at)),
            word => refuse(node, format!("the only word for `devices` is `all`, found `{word}`")),
        };
    }
    let Some(items) = node.as_sequence() else {
        return refuse(
            node,
            format!("`devices` must be `all` or a list of indexes, found {}", node.describe()),
        );
    };
    let mut indexes = Vec::new();
    for item in items {
        match is_integer(item) {
            Some(index) => indexes.push(index),
            None => {
                return refuse(
                    item,
                    format!("a GPU index must be a whole number, found {}", item.describe()),
                );
            }
        }
    }
    Some(Located::new(Devices::Indexes(indexes), node.at))
}

fn counts(walk: &mut Walk, node: &Node) -> Option<Vec<Count>> {
    let mapping = walk.mapping(node, "`mig-devices`")?;
    let mut counts = Vec::new();
    let mut positive = false;
    for entry in mapping.last_entries() {
        let name = &*entry.key.text;
        let profile = ProfileName::parse(name);
        if let Err(error) = &profile {
            let fix = "write a name as nvidia-smi mig -lgip prints it, such as 1g.10gb or 1g.10gb+me";
            walk.note(
                Note::new(entry.key.at, "profile-invalid", Effect::Refused, error.to_string(), fix)
                    .value(name),
            );
        }
        // Null is 0 in Go.
        let count = if entry.value.is_null() {
            Some(Located::new(0, entry.value.at))
        } else {
            walk.integer(&entry.value, &format!("the count of `{name}`"))
        };
        let Some(count) = count else { continue };
        positive |= count.value > 0;
        if count.value < 0 {
            let message = format!("the count of `{name}` is {}", count.value);
            let note =
                Note::new(count.at, "count-negative", Effect::Refused, message, "write how many instances");
            walk.note(note.value(count.value.to_string()));
            continue;
        }
        let Ok(profile) = profile else { continue };
        counts.push(Count {
            profile: Located::new(profile, entry.key.at),
            // More than 32 bits hold can never fit a GPU; the count is kept at the limit.
            count: count.map(|count| u32::try_from(count).unwrap_or(u32::MAX)),
        });
    }
    if !positive && !mapping.entries.is_empty() {
        let fix = "write `mig-devices: {}` for MIG without instances, or a count above 0";
        walk.refuse(node.at, "counts-all-zero", "every count in `mig-devices` is 0", fix);
    }
    Some(counts)
}
