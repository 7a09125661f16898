//! The whole file.

use super::fields::{IMEX, RESOURCE, RESOURCES, ROOT, check};
use super::{Config, Imex, cross, flags, sharing};
use crate::diagnostic::Diagnostics;
use crate::reading::{Effect, Note, Reading, Walk, field};
use crate::source::{Located, Span};
use crate::tree::{Duplicates, Entry, Node, ReadOptions, Tree, read_documents_with};

/// Limits of the MPS control daemon on replicas: (compute capability 7.5 and later, before).
pub const LIMITS: (u32, u32) = (48, 16);

/// Reads a config file as NVIDIA's parser does. An empty file is an empty config; of several YAML
/// documents the first one counts.
///
/// # Errors
/// When the bytes are no YAML at all.
pub fn read(name: &str, bytes: &[u8]) -> Result<Reading<Config>, Diagnostics> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(Reading::new(Config::default(), Walk::default()));
    }
    let options = ReadOptions { duplicates: Duplicates::Keep, ..ReadOptions::default() };
    let trees = match read_documents_with(name, bytes, options) {
        Ok(trees) => trees,
        Err(found) if found.iter().all(|d| d.rule == "empty-input") => {
            return Ok(Reading::new(Config::default(), Walk::default()));
        }
        Err(found) => return Err(found),
    };
    let mut reading = match trees.first() {
        Some(tree) => read_node(tree),
        None => Reading::new(Config::default(), Walk::default()),
    };
    reading.notes.extend(trees.get(1).map(|second| ignored_document(second.root.at)));
    Ok(reading)
}

/// The note for a second YAML document.
pub(crate) fn ignored_document(at: Span) -> Note {
    Note::new(
        at,
        "second-document",
        Effect::Dropped,
        "only the first YAML document of the file is read; this one is dropped",
        "put it into a file of its own",
    )
}

/// Reads a config that was parsed already, with [`Duplicates::Keep`].
#[must_use]
pub fn read_node(tree: &Tree) -> Reading<Config> {
    let mut walk = Walk::default();
    walk.duplicates(tree);
    let config = config(&mut walk, &tree.root);
    Reading::new(config, walk)
}

fn config(walk: &mut Walk, root: &Node) -> Config {
    let mut config = Config::default();
    if root.is_null() {
        return config;
    }
    let Some(mapping) = walk.mapping(root, "the file") else {
        return config;
    };
    check(walk, mapping, &ROOT);
    let entry = |name: &str| field(mapping, name, ROOT.case);
    let get = |name: &str| entry(name).map(|entry| &entry.value);
    version(walk, root.at, get("version"));
    if let Some(node) = get("flags") {
        config.flags = flags::flags(walk, node);
    }
    if let Some(entry) = entry("resources") {
        resources(walk, entry);
    }
    if let Some(node) = get("sharing") {
        config.sharing = sharing::sharing(walk, node);
    }
    if let Some(node) = get("imex") {
        config.imex = imex(walk, node);
    }
    let sharing = get("sharing").and_then(Node::as_mapping);
    let mps = sharing.and_then(|sharing| field(sharing, "mps", ROOT.case));
    cross::check(walk, &config, mps.map_or(root.at, |entry| entry.key.at));
    config
}

fn version(walk: &mut Walk, root: Span, node: Option<&Node>) {
    let text = node.and_then(|node| walk.loose_text(node, "`version`"));
    match text {
        Some(text) if text.value == "v1" => {}
        Some(text) if !text.value.is_empty() => {
            let message = format!("the only version is `v1`, found `{}`", text.value);
            walk.note(
                Note::new(text.at, "version-unknown", Effect::Refused, message, "write `version: v1`")
                    .value(&text.value),
            );
        }
        _ if node.is_some_and(|node| !node.is_null() && node.as_scalar().is_none()) => {}
        _ => walk.note(Note::new(
            node.map_or(root, |node| node.at),
            "version-missing",
            Effect::Note,
            "no `version`: NVIDIA's parser takes v1",
            "write `version: v1`",
        )),
    }
}

/// `resources` is checked as it is loaded, and dropped.
fn resources(walk: &mut Walk, whole: &Entry) {
    let node = &whole.value;
    if node.is_null() {
        return;
    }
    let Some(mapping) = walk.mapping(node, "`resources`") else {
        return;
    };
    check(walk, mapping, &RESOURCES);
    let mut dropped = false;
    for name in RESOURCES.fields {
        let Some(list) = field(mapping, name, RESOURCES.case).map(|entry| &entry.value) else {
            continue;
        };
        let Some(items) = walk.list(list, &format!("`resources.{name}`")) else {
            continue;
        };
        for item in items {
            dropped = true;
            let Some(entry) = walk.mapping(item, &format!("`resources.{name}[]`")) else {
                continue;
            };
            check(walk, entry, &RESOURCE);
            for wanted in RESOURCE.fields {
                if entry.get(wanted).is_none() {
                    walk.refuse(
                        item.at,
                        "resource-pattern-incomplete",
                        format!("`resources.{name}[]` needs `pattern` and `name`; `{wanted}` is missing"),
                        "remove `resources` altogether: the plugin does not use it",
                    );
                }
            }
            if let Some(node) = entry.get("pattern") {
                walk.strict_text(node, &format!("`resources.{name}[].pattern`"));
            }
            if let Some(node) = entry.get("name") {
                sharing::resource_name(walk, node, &format!("`resources.{name}[].name`"));
            }
        }
    }
    if dropped {
        walk.note(Note::new(
            whole.key.at,
            "resources-dropped",
            Effect::Dropped,
            "`resources` is dropped: the plugin names its resources itself",
            "remove it",
        ));
    }
}

fn imex(walk: &mut Walk, node: &Node) -> Imex {
    let mut imex = Imex::default();
    if node.is_null() {
        return imex;
    }
    let Some(mapping) = walk.mapping(node, "`imex`") else {
        return imex;
    };
    check(walk, mapping, &IMEX);
    let get = |name: &str| field(mapping, name, IMEX.case).map(|entry| &entry.value);
    imex.required = get("required").and_then(|node| walk.boolean(node, "`imex.required`"));
    let Some(list) = get("channelIDs") else {
        return imex;
    };
    for item in walk.list(list, "`imex.channelIDs`").unwrap_or_default() {
        // A null in a list of numbers is 0 in Go.
        let id = if item.is_null() {
            Some(Located::new(0, item.at))
        } else {
            walk.integer(item, "`imex.channelIDs[]`")
        };
        imex.channel_ids.extend(id);
    }
    let only_zero = matches!(imex.channel_ids.as_slice(), [] | [Located { value: 0, .. }]);
    if !only_zero {
        let ids: Vec<String> = imex.channel_ids.iter().map(ToString::to_string).collect();
        let message = format!("`imex.channelIDs` is [{}]; only [] and [0] are allowed", ids.join(", "));
        walk.note(Note::new(
            list.at,
            "imex-channel-ids",
            Effect::FailsAtStart,
            message,
            "write `channelIDs: [0]`",
        ));
    }
    imex
}
