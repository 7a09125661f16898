//! `sharing`: time-slicing and MPS.

use super::fields::{ENTRY, Level, MPS, SHARING, TIME_SLICING, check};
use super::{DeviceRef, Devices, Replicated, ReplicatedResource, ResourceName, ResourceNameError, Sharing};
use crate::reading::{Case, Effect, Note, Walk, field, is_integer, is_text};
use crate::source::Located;
use crate::tree::Node;

/// Reads `sharing`.
pub(super) fn sharing(walk: &mut Walk, node: &Node) -> Sharing {
    if node.is_null() {
        return Sharing::default();
    }
    let Some(mapping) = walk.mapping(node, "`sharing`") else {
        return Sharing::default();
    };
    check(walk, mapping, &SHARING);
    // A null `mps` is an absent one; a null `timeSlicing` is one without resources.
    let time_slicing = field(mapping, "timeSlicing", Case::Folded);
    let mps = field(mapping, "mps", Case::Folded).filter(|entry| !entry.value.is_null());
    if let (Some(time_slicing), Some(mps)) = (time_slicing, mps) {
        walk.note(Note::new(
            time_slicing.key.at,
            "sharing-both",
            Effect::Inert,
            format!(
                "`timeSlicing` is ignored without a message, because `mps` stands on line {}",
                mps.key.at.line
            ),
            "keep one of the two",
        ));
    }
    Sharing {
        time_slicing: time_slicing.and_then(|entry| replicated(walk, &entry.value, &TIME_SLICING)),
        mps: mps.and_then(|entry| replicated(walk, &entry.value, &MPS)),
    }
}

fn replicated(walk: &mut Walk, node: &Node, level: &'static Level) -> Option<Replicated> {
    let path = level.path;
    let without = |walk: &mut Walk, node: &Node| {
        walk.refuse(
            node.at,
            "sharing-without-resources",
            format!("`{path}` has no `resources`"),
            "list at least one resource with `name` and `replicas`, or remove the block",
        );
    };
    if node.is_null() {
        without(walk, node);
        return None;
    }
    let mapping = walk.mapping(node, &format!("`{path}`"))?;
    check(walk, mapping, level);
    let get = |name: &str| field(mapping, name, level.case).map(|entry| &entry.value);
    let rename_by_default =
        get("renameByDefault").and_then(|node| walk.boolean(node, &format!("`{path}.renameByDefault`")));
    let fail_requests_greater_than_one = get("failRequestsGreaterThanOne")
        .and_then(|node| walk.boolean(node, &format!("`{path}.failRequestsGreaterThanOne`")));
    let mut resources = Vec::new();
    match get("resources") {
        None => without(walk, node),
        Some(list) => {
            let items = walk.list(list, &format!("`{path}.resources`"))?;
            if items.is_empty() {
                without(walk, list);
            }
            for item in items {
                resources.extend(entry(walk, item, &format!("{path}.resources[]")));
            }
        }
    }
    Some(Replicated { rename_by_default, fail_requests_greater_than_one, resources })
}

fn entry(walk: &mut Walk, node: &Node, path: &str) -> Option<ReplicatedResource> {
    let mapping = walk.mapping(node, &format!("`{path}`"))?;
    check(walk, mapping, &ENTRY);
    let get = |name: &str| mapping.get(name);
    let name = match get("name") {
        Some(node) => resource_name(walk, node, &format!("`{path}.name`")),
        None => {
            walk.refuse(
                node.at,
                "resource-without-name",
                format!("`{path}` has no `name`"),
                "add `name: nvidia.com/gpu`, or the MIG resource's name",
            );
            None
        }
    };
    let devices = match get("devices") {
        Some(node) => devices(walk, node, &format!("`{path}.devices`")),
        None => Some(Located::new(Devices::All, node.at)),
    };
    let replicas = match get("replicas") {
        Some(node) => replicas(walk, node, &format!("`{path}.replicas`")),
        None => {
            walk.refuse(
                node.at,
                "resource-without-replicas",
                format!("`{path}` has no `replicas`"),
                "add `replicas:` with a number of at least 2",
            );
            None
        }
    };
    let rename = get("rename").and_then(|node| {
        let name = resource_name(walk, node, &format!("`{path}.rename`"))?;
        walk.note(
            Note::new(
                node.at,
                "rename-ignored",
                Effect::Dropped,
                "`rename` is not honoured: the plugin overwrites it with the default name",
                "remove it; `renameByDefault: true` advertises `<name>.shared`",
            )
            .value(name.value.as_str()),
        );
        Some(name)
    });
    Some(ReplicatedResource { name: name?, rename, devices: devices?, replicas: replicas? })
}

/// Reads a resource name by the plugin's rules.
pub(super) fn resource_name(walk: &mut Walk, node: &Node, what: &str) -> Option<Located<ResourceName>> {
    let text = walk.strict_text(node, what)?;
    let (rule, error) = match ResourceName::parse(&text.value) {
        Ok(name) => return Some(Located::new(name, node.at)),
        Err(error @ ResourceNameError::TooLong { .. }) => ("resource-name-too-long", error),
        Err(error @ ResourceNameError::ForeignPrefix { .. }) => ("foreign-prefix", error),
        Err(error @ ResourceNameError::Characters { .. }) => ("resource-name-invalid", error),
    };
    let fix = match &error {
        ResourceNameError::TooLong { .. } => "shorten it",
        ResourceNameError::ForeignPrefix { .. } => {
            "the plugin puts `nvidia.com/` before any name; write `nvidia.com/gpu` or `nvidia.com/mig-<profile>`"
        }
        ResourceNameError::Characters { .. } => {
            "write `nvidia.com/gpu` or `nvidia.com/mig-<profile>`; in a profile `+` becomes `.`"
        }
    };
    walk.note(Note::new(node.at, rule, Effect::Refused, error.to_string(), fix).value(&text.value));
    None
}

fn replicas(walk: &mut Walk, node: &Node, what: &str) -> Option<Located<u32>> {
    let value = walk.integer(node, what)?;
    if value.value < 2 {
        let note = Note::new(
            node.at,
            "replicas-too-few",
            Effect::Refused,
            format!("{what} is {}; it must be at least 2", value.value),
            "write the number of shares per device, or remove the entry to share nothing",
        );
        walk.note(note.value(value.value.to_string()));
        return None;
    }
    // What does not fit 32 bits is far beyond any device; the count is kept at the limit.
    Some(Located::new(u32::try_from(value.value).unwrap_or(u32::MAX), node.at))
}

fn devices(walk: &mut Walk, node: &Node, what: &str) -> Option<Located<Devices>> {
    let value = match devices_of(node) {
        Ok(value) => value,
        Err(why) => {
            let note = Note::new(
                node.at,
                "devices-invalid",
                Effect::Refused,
                format!("{what}: {why}"),
                "write `all`, a count of at least 1, or a list of indexes (`0`, `0:1`) and UUIDs",
            );
            walk.note(match node.as_text() {
                Some(text) => note.value(text),
                None => note,
            });
            return None;
        }
    };
    if value != Devices::All {
        walk.note(Note::new(
            node.at,
            "devices-ignored",
            Effect::Dropped,
            "`devices` is not honoured: the plugin replicates all devices of the resource",
            "remove it; to share some nodes only, select another config by the label nvidia.com/device-plugin.config",
        ));
    }
    Some(Located::new(value, node.at))
}

fn devices_of(node: &Node) -> Result<Devices, String> {
    if let Some(text) = is_text(node) {
        return if text == "all" {
            Ok(Devices::All)
        } else {
            Err(format!("the only word is `all`, found `{text}`"))
        };
    }
    if let Some(count) = is_integer(node) {
        return if count > 0 { Ok(Devices::Count(count)) } else { Err(format!("a count of {count}")) };
    }
    let Some(items) = node.as_sequence() else {
        return Err(format!("found {}", node.describe()));
    };
    let mut list = Vec::new();
    for item in items {
        let text = match (is_integer(item), is_text(item)) {
            (Some(index), _) => index.to_string(),
            (None, Some(text)) => text.to_owned(),
            (None, None) => return Err(format!("{} is no device", item.describe())),
        };
        list.push(DeviceRef::parse(&text).ok_or_else(|| format!("`{text}` is no index and no UUID"))?);
    }
    Ok(Devices::List(list))
}
