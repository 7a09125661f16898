//! What a file says that NVIDIA's programs refuse, drop, or can never carry out.
//!
//! [`lint`] reads a device-plugin or mig-parted config, plain or inside a ConfigMap or a list of
//! ConfigMaps, and answers findings with file, line, column, rule, message and fix. Lines are those of
//! the file as given, also for text in a block scalar. What NVIDIA's own parser refuses is an error;
//! what it drops in silence, or what contradicts itself or the hardware, a warning; the rest is info.

mod container;
mod geometry;
mod origin;
mod parted;
mod plugin;
mod rules;

use serde::Serialize;
use tesela_model::product::ProductTable;

pub use rules::{RULES, Rule};

use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::reading::Note;
use crate::sniff::refusal;
use crate::source::Span;
use crate::tree::{Duplicates, Node, ReadOptions, Tree, read_documents_with};
use crate::{device_plugin, documents, mig_parted};

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileKind {
    /// A config of the device plugin.
    DevicePlugin,
    /// A config of mig-parted or the MIG Manager.
    MigParted,
    /// A ConfigMap, or a list of them.
    #[serde(rename = "configmap")]
    ConfigMap,
    /// A document of ours.
    Tesela,
    /// Something else.
    Unknown,
}

/// The findings of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileFindings {
    /// The file as it was named.
    pub file: String,
    /// What it is.
    pub kind: FileKind,
    /// By line, column and rule.
    pub findings: Vec<Finding>,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Line from 1.
    pub line: u32,
    /// Column in characters from 1.
    pub column: u32,
    /// How bad it is.
    pub severity: Severity,
    /// The rule: one of [`RULES`], or for documents of ours one of [`crate::documents`].
    pub rule: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub fix: String,
}

impl FileFindings {
    /// The worst severity, if there is any finding.
    #[must_use]
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }
}

impl From<Note> for Finding {
    fn from(note: Note) -> Self {
        Self {
            line: note.at.line,
            column: note.at.column,
            severity: note.effect.severity(),
            rule: note.rule,
            message: note.message,
            fix: note.fix,
        }
    }
}

/// Looks at one file. `table` says which profiles exist and what fits together.
///
/// # Errors
/// When the bytes are no YAML at all (rules of [`crate::tree::read_documents`]), or what kubectl prints
/// for people (`kubectl-table`, `kubectl-message`).
pub fn lint(file: &str, bytes: &[u8], table: &ProductTable) -> Result<FileFindings, Diagnostics> {
    if let Some(found) = refusal(file, bytes) {
        return Err(found.into());
    }
    let options = ReadOptions { duplicates: Duplicates::Keep, ..ReadOptions::default() };
    let trees = read_documents_with(file, bytes, options)?;
    let mut notes = Vec::new();
    let mut kind = None;
    for (index, tree) in trees.iter().enumerate() {
        let this = kind_of(&tree.root);
        if index > 0 && matches!(kind, Some(FileKind::DevicePlugin | FileKind::MigParted)) {
            notes.push(device_plugin::ignored_document(tree.root.at));
            break;
        }
        match this {
            FileKind::DevicePlugin | FileKind::MigParted => notes.extend(config(tree, this, table)),
            FileKind::ConfigMap => container::config_maps(&mut notes, tree, table),
            FileKind::Tesela | FileKind::Unknown => {}
        }
        if kind.is_none_or(|kind| kind == FileKind::Unknown) {
            kind = Some(this);
        }
    }
    let kind = kind.unwrap_or(FileKind::Unknown);
    let mut findings: Vec<Finding> = notes.into_iter().map(Finding::from).collect();
    if kind == FileKind::Tesela && trees.iter().all(|tree| kind_of(&tree.root) == kind) {
        findings.extend(ours(file, bytes, table));
    }
    findings.sort_by(|a, b| (a.line, a.column, a.rule).cmp(&(b.line, b.column, b.rule)));
    Ok(FileFindings { file: file.to_owned(), kind, findings })
}

/// What our own reader says about documents of ours, by its own rules.
fn ours(file: &str, bytes: &[u8], table: &ProductTable) -> Vec<Finding> {
    let Err(found) = documents::read_document(file, bytes, table) else { return Vec::new() };
    let finding = |one: Diagnostic| {
        let at = one.at.unwrap_or(Span::new(1, 1));
        Finding {
            line: at.line,
            column: at.column,
            severity: one.severity,
            rule: one.rule,
            message: one.message,
            fix: one.fix.unwrap_or_else(|| "correct the value".to_owned()),
        }
    };
    found.into_iter().map(finding).collect()
}

/// The notes on one of NVIDIA's configs.
fn config(tree: &Tree, kind: FileKind, table: &ProductTable) -> Vec<Note> {
    if kind == FileKind::MigParted {
        let reading = mig_parted::read_node(tree);
        let mut notes = reading.notes;
        if let Some(config) = &reading.config {
            parted::check(&mut notes, config, table);
        }
        return notes;
    }
    let reading = device_plugin::read_node(tree);
    let mut notes = reading.notes;
    if let Some(config) = &reading.config {
        plugin::check(&mut notes, config, table);
    }
    notes
}

/// What a document is, by its top-level keys.
fn kind_of(root: &Node) -> FileKind {
    let Some(mapping) = root.as_mapping() else {
        return FileKind::Unknown;
    };
    let text = |key: &str| mapping.get(key).and_then(Node::as_text);
    if text("apiVersion").is_some_and(|version| version.starts_with("tesela.dev/")) {
        return FileKind::Tesela;
    }
    if let Some(kind) = text("kind") {
        let list = kind.ends_with("List") && mapping.get("items").is_some();
        return if kind == "ConfigMap" || (list && container::holds_config_map(mapping)) {
            FileKind::ConfigMap
        } else {
            FileKind::Unknown
        };
    }
    let keys = || mapping.entries.iter().map(|entry| &*entry.key.text);
    if keys().any(|key| crate::diagnostic::nearest(key, ["mig-configs"]).is_some()) {
        return FileKind::MigParted;
    }
    if keys().any(device_plugin::is_telling) || text("version") == Some("v1") {
        return FileKind::DevicePlugin;
    }
    FileKind::Unknown
}
