//! Which field belongs where.

use crate::diagnostic::nearest;
use crate::reading::{Case, Effect, Note, Walk, did_you_mean};
use crate::tree::Mapping;

/// A mapping of the config: its path, its fields, and how Go matches them.
pub(super) struct Level {
    pub(super) path: &'static str,
    pub(super) fields: &'static [&'static str],
    pub(super) case: Case,
}

pub(super) const ROOT: Level =
    Level { path: "", fields: &["version", "flags", "resources", "sharing", "imex"], case: Case::Folded };
pub(super) const FLAGS: Level = Level {
    path: "flags",
    fields: &[
        "migStrategy",
        "failOnInitError",
        "mpsRoot",
        "nvidiaDriverRoot",
        "nvidiaDevRoot",
        "gdrcopyEnabled",
        "gdsEnabled",
        "mofedEnabled",
        "useNodeFeatureAPI",
        "deviceDiscoveryStrategy",
        "plugin",
        "gfd",
    ],
    case: Case::Folded,
};
pub(super) const PLUGIN: Level = Level {
    path: "flags.plugin",
    fields: &[
        "passDeviceSpecs",
        "deviceListStrategy",
        "deviceIDStrategy",
        "cdiAnnotationPrefix",
        "nvidiaCTKPath",
        "containerDriverRoot",
        "sharedDevicesAllocationPolicy",
    ],
    case: Case::Folded,
};
pub(super) const GFD: Level = Level {
    path: "flags.gfd",
    fields: &["oneshot", "noTimestamp", "sleepInterval", "outputFile", "machineTypeFile"],
    case: Case::Folded,
};
pub(super) const RESOURCES: Level = Level { path: "resources", fields: &["gpus", "mig"], case: Case::Folded };
pub(super) const RESOURCE: Level =
    Level { path: "resources.gpus[]", fields: &["pattern", "name"], case: Case::Exact };
pub(super) const SHARING: Level =
    Level { path: "sharing", fields: &["timeSlicing", "mps"], case: Case::Folded };
const REPLICATED_FIELDS: &[&str] = &["renameByDefault", "failRequestsGreaterThanOne", "resources"];
pub(super) const TIME_SLICING: Level =
    Level { path: "sharing.timeSlicing", fields: REPLICATED_FIELDS, case: Case::Exact };
pub(super) const MPS: Level = Level { path: "sharing.mps", fields: REPLICATED_FIELDS, case: Case::Exact };
pub(super) const ENTRY: Level = Level {
    path: "sharing.timeSlicing.resources[]",
    fields: &["name", "rename", "devices", "replicas"],
    case: Case::Exact,
};
pub(super) const IMEX: Level =
    Level { path: "imex", fields: &["channelIDs", "required"], case: Case::Folded };

/// Every level, for "it belongs under". The first that has a field is its home.
const LEVELS: [&Level; 10] =
    [&ROOT, &FLAGS, &PLUGIN, &GFD, &SHARING, &TIME_SLICING, &MPS, &ENTRY, &IMEX, &RESOURCE];

/// Fields that can stand in a file of theirs but have an environment variable or flag alone, and what
/// else people write.
const NO_FIELD: &[(&str, &str)] = &[
    ("kubeletSocket", "it is set by `--kubelet-socket` or KUBELET_SOCKET alone"),
    ("cdiFeatureFlags", "it is set by `--cdi-feature-flags` or CDI_FEATURE_FLAGS alone"),
    ("nodeName", "it is set by `--node-name` or NODE_NAME alone"),
];

/// Notes each key that the level does not have, and each whose case is not the field's.
pub(super) fn check(walk: &mut Walk, mapping: &Mapping, level: &Level) {
    for entry in &mapping.entries {
        let key = &*entry.key.text;
        if level.fields.contains(&key) {
            continue;
        }
        let folded = level.fields.iter().find(|field| field.eq_ignore_ascii_case(key));
        let note = match folded {
            Some(field) if level.case == Case::Folded => Note::new(
                entry.key.at,
                "field-case",
                Effect::Note,
                format!("`{key}` is read as `{field}`: Go's decoder does not mind the case here, others do"),
                format!("write `{field}`"),
            ),
            _ => unknown(key, level, entry.key.at),
        };
        walk.note(note.value(key));
    }
}

fn unknown(key: &str, level: &Level, at: crate::source::Span) -> Note {
    let here =
        if level.path.is_empty() { "at the top level".to_owned() } else { format!("under `{}`", level.path) };
    let homes: Vec<&str> = LEVELS
        .iter()
        .filter(|other| other.path != level.path && other.fields.contains(&key))
        .map(|other| other.path)
        .collect();
    // A word close to one of this level's fields is a misspelling, not a misplacement.
    if homes.is_empty() || nearest(key, level.fields.iter().copied()).is_some() {
        let fix = match NO_FIELD.iter().find(|(field, _)| *field == key) {
            Some((_, why)) => format!("remove it: {why}"),
            None => did_you_mean(key, level.fields),
        };
        let message = format!("unknown field `{key}` {here}: NVIDIA's parser ignores it in silence");
        return Note::new(at, "unknown-field", Effect::Dropped, message, fix);
    }
    let homes: Vec<String> = homes
        .iter()
        .map(|home| if home.is_empty() { "the top level".to_owned() } else { format!("`{home}`") })
        .collect();
    Note::new(
        at,
        "misplaced-field",
        Effect::Dropped,
        format!("`{key}` does not belong {here}: NVIDIA's parser ignores it there in silence"),
        format!("move it to {}", homes.join(" or ")),
    )
}

/// Whether a top-level key tells that a file is meant for the device plugin: a field of the top level
/// (the version alone tells nothing), a near misspelling of one, or a field that only a deeper level has.
pub(crate) fn is_telling(key: &str) -> bool {
    const COMMON: [&str; 8] =
        ["version", "name", "resources", "rename", "devices", "replicas", "pattern", "required"];
    let top = ["flags", "sharing", "imex"];
    top.iter().any(|field| field.eq_ignore_ascii_case(key))
        || nearest(key, top).is_some()
        || LEVELS.iter().any(|level| level.fields.contains(&key) && !COMMON.contains(&key))
}
