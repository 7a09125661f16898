//! What only shows when two fields are looked at together.

use std::collections::BTreeMap;

use super::{Config, Imex, LIMITS, MigStrategy, Replicated, Sharing, Strategy};
use crate::reading::{Effect, Note, Walk};
use crate::source::{Located, Span};

/// Notes contradictions between the parts of a config. `mps_at` is where `sharing.mps` stands.
pub(super) fn check(walk: &mut Walk, config: &Config, mps_at: Span) {
    let Sharing { time_slicing, mps } = &config.sharing;
    for replicated in [time_slicing, mps].into_iter().flatten() {
        repeated_resources(walk, replicated);
        shared_names(walk, replicated);
    }
    let strategy = config.flags.mig_strategy;
    if let (Some(active), Some(strategy)) = (config.sharing.active(), strategy) {
        unreachable_entries(walk, active, strategy);
    }
    if let (Strategy::Mps, Some(mps)) = (config.sharing.strategy(), mps) {
        mps_needs(walk, config, mps, mps_at);
    }
    imex(walk, &config.imex);
}

fn repeated_resources(walk: &mut Walk, replicated: &Replicated) {
    let mut seen: BTreeMap<&str, (Span, u32)> = BTreeMap::new();
    for resource in &replicated.resources {
        let name = resource.name.value.as_str();
        let Some((first, replicas)) = seen.insert(name, (resource.name.at, resource.replicas.value)) else {
            continue;
        };
        // The ids of both are joined, and the node label is taken from the first.
        let again = resource.replicas.value;
        let counts = if again <= replicas {
            "the second entry adds nothing".to_owned()
        } else {
            format!("{again} replicas are advertised while the node label says {replicas}")
        };
        walk.note(
            Note::new(
                resource.name.at,
                "resource-twice",
                Effect::Inert,
                format!("`{name}` stands on line {} and again here: {counts}", first.line),
                "keep one of the two",
            )
            .value(name),
        );
    }
}

fn shared_names(walk: &mut Walk, replicated: &Replicated) {
    if !replicated.rename_by_default.is_some_and(|rename| rename.value) {
        return;
    }
    for resource in &replicated.resources {
        let name = &resource.name.value;
        if name.is_too_long_when_shared() {
            let shared = name.shared();
            let message = format!(
                "`renameByDefault` makes it `{shared}`, {} characters; the plugin's own limit of 63 is not checked again",
                shared.len()
            );
            let note = Note::new(
                resource.name.at,
                "shared-name-too-long",
                Effect::Inert,
                message,
                "shorten the name",
            );
            walk.note(note.value(name.as_str()));
        }
    }
}

/// Entries for MIG resources where the strategy advertises none.
fn unreachable_entries(walk: &mut Walk, active: &Replicated, strategy: Located<MigStrategy>) {
    if strategy.value == MigStrategy::Mixed {
        return;
    }
    for resource in &active.resources {
        let name = resource.name.value.as_str();
        if resource.name.value.short().starts_with("mig-") {
            let word = strategy.value.word();
            walk.note(
                Note::new(
                    resource.name.at,
                    "sharing-resource-strategy",
                    Effect::Inert,
                    format!(
                        "with `migStrategy: {word}` (line {}) no device is `{name}`: the entry does nothing",
                        strategy.at.line
                    ),
                    "set `migStrategy: mixed`, or share `nvidia.com/gpu`",
                )
                .value(name),
            );
        }
    }
}

fn mps_needs(walk: &mut Walk, config: &Config, mps: &Replicated, at: Span) {
    match config.flags.mig_strategy {
        Some(strategy) if strategy.value == MigStrategy::Mixed => walk.note(Note::new(
            strategy.at,
            "mps-with-mig-mixed",
            Effect::FailsAtStart,
            "MPS does not go with `migStrategy: mixed`: the plugin ends with an error at its start",
            "use time-slicing, or `migStrategy: none` on nodes without MIG",
        )),
        Some(strategy) if strategy.value == MigStrategy::Single => walk.note(Note::new(
            strategy.at,
            "mps-with-mig-single",
            Effect::Inert,
            "MPS does not go with MIG devices: on a node that has some the plugin ends with an error",
            "use time-slicing on MIG nodes; give MPS nodes a config of their own",
        )),
        _ => {}
    }
    if config.flags.mps_root.as_ref().is_none_or(|root| root.value.is_empty()) {
        walk.note(Note::new(
            at,
            "mps-without-root",
            Effect::Inert,
            "MPS needs `flags.mpsRoot`: unless `--mps-root` or MPS_ROOT gives it, the plugin ends with an error at its start",
            "set `flags.mpsRoot: /run/nvidia/mps`",
        ));
    }
    let (most, most_before) = LIMITS;
    for resource in &mps.resources {
        let replicas = resource.replicas;
        let note = if replicas.value > most {
            Note::new(
                replicas.at,
                "mps-replicas-too-many",
                Effect::FailsAtStart,
                format!(
                    "MPS serves at most {most} clients per GPU; {} replicas make its daemon fail",
                    replicas.value
                ),
                format!("write at most {most}"),
            )
        } else if replicas.value > most_before {
            Note::new(
                replicas.at,
                "mps-replicas-old-gpu",
                Effect::Note,
                format!(
                    "GPUs before compute capability 7.5 (V100 among them) take {most_before} MPS replicas at most"
                ),
                format!("write at most {most_before} where such GPUs read this file"),
            )
        } else {
            continue;
        };
        walk.note(note.value(replicas.value.to_string()));
    }
}

fn imex(walk: &mut Walk, imex: &Imex) {
    if let Some(required) = imex.required.filter(|required| required.value && imex.channel_ids.is_empty()) {
        walk.note(Note::new(
            required.at,
            "imex-required-alone",
            Effect::Inert,
            "`required` asks for no channel, because `channelIDs` is empty",
            "write `channelIDs: [0]`, or remove `required`",
        ));
    }
}
