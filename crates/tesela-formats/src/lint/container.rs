//! Configs inside ConfigMaps.

use tesela_model::product::ProductTable;

use super::origin::Origin;
use super::{FileKind, config, kind_of};
use crate::reading::{Effect, Note};
use crate::tree::{Duplicates, Mapping, Node, ReadOptions, Tree, read_documents_with};

/// Whether a list has a ConfigMap among its items.
pub(super) fn holds_config_map(list: &Mapping) -> bool {
    let config_maps = list.get("kind").and_then(Node::as_text) == Some("ConfigMapList");
    config_maps || items(list).iter().any(is_config_map)
}

fn items(list: &Mapping) -> &[Node] {
    list.get("items").and_then(Node::as_sequence).unwrap_or_default()
}

fn is_config_map(node: &Node) -> bool {
    node.get("kind").and_then(Node::as_text) == Some("ConfigMap")
}

/// Looks at each data key of a ConfigMap, or of each ConfigMap of a list.
pub(super) fn config_maps(notes: &mut Vec<Note>, tree: &Tree, table: &ProductTable) {
    let Some(root) = tree.root.as_mapping() else {
        return;
    };
    if is_config_map(&tree.root) {
        config_map(notes, root, table);
        return;
    }
    // Items of a ConfigMapList have no kind of their own when they come from the API.
    let every = root.get("kind").and_then(Node::as_text) == Some("ConfigMapList");
    for item in items(root) {
        if let Some(mapping) = item.as_mapping().filter(|_| every || is_config_map(item)) {
            config_map(notes, mapping, table);
        }
    }
}

fn config_map(notes: &mut Vec<Note>, object: &Mapping, table: &ProductTable) {
    let name = object.get("metadata").and_then(|meta| meta.get("name")).and_then(Node::as_text);
    let Some(data) = object.get("data").and_then(Node::as_mapping) else {
        return;
    };
    for entry in &data.entries {
        let key = &*entry.key.text;
        let path = match name {
            Some(name) => format!("{name}/data.{key}"),
            None => format!("data.{key}"),
        };
        if let Some(scalar) = entry.value.as_scalar() {
            value(notes, &entry.value, &scalar.text, key, &path, table);
        } else if kind_of(&entry.value) != FileKind::Unknown {
            notes.push(
                Note::new(
                    entry.value.at,
                    "configmap-value",
                    Effect::Refused,
                    format!(
                        "`{path}` must be text, found {}: the API server refuses it",
                        entry.value.describe()
                    ),
                    format!("write `{key}: |` and indent the config below it"),
                )
                .value(key),
            );
        }
    }
}

fn value(notes: &mut Vec<Note>, node: &Node, text: &str, key: &str, path: &str, table: &ProductTable) {
    if text.trim().is_empty() {
        return;
    }
    let origin = Origin::of(node, path);
    let options =
        ReadOptions { duplicates: Duplicates::Keep, offset: origin.offset(), ..ReadOptions::default() };
    let trees = match read_documents_with(path, text.as_bytes(), options) {
        Ok(trees) => trees,
        Err(found) if looks_like_config(text) => {
            notes.extend(found.into_iter().map(|d| {
                let fix = d.fix.unwrap_or_else(|| "write valid YAML".to_owned());
                let at = d.at.unwrap_or(origin.start());
                origin.lift(Note::new(at, d.rule, Effect::Refused, d.message, fix))
            }));
            return;
        }
        // Scripts, certificates, and whatever else people keep in ConfigMaps.
        Err(_) => return,
    };
    let Some(tree) = trees.first() else { return };
    let kind = kind_of(&tree.root);
    if !matches!(kind, FileKind::DevicePlugin | FileKind::MigParted) {
        return;
    }
    notes.extend(config(tree, kind, table).into_iter().map(|note| origin.lift(note)));
    if let Some(second) = trees.get(1) {
        notes.push(origin.lift(crate::device_plugin::ignored_document(second.root.at)));
    }
    if kind == FileKind::MigParted && key != "config.yaml" {
        let message = format!("the GPU Operator's MIG Manager reads the key `config.yaml`, not `{key}`");
        let at = crate::source::Span::new(1, 1);
        let note = Note::new(at, "configmap-key", Effect::Note, message, "rename the key to `config.yaml`");
        notes.push(origin.lift(note.value(key)));
    }
}

/// Whether a text that is no YAML was meant to be one of the two configs.
fn looks_like_config(text: &str) -> bool {
    const WORDS: [&str; 6] =
        ["mig-configs", "mig-enabled", "sharing:", "timeSlicing", "flags:", "migStrategy"];
    WORDS.iter().any(|word| text.contains(word))
}
