//! The field tables of `docs/documents.md` and `docs/machine.md`, from the schemas, so that the reference cannot drift from the reader.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tesela_formats::documents::DocumentKind;
use tesela_formats::schema::{machine_schema, schema};

const FILE: &str = "docs/documents.md";
const MACHINES: &str = "docs/machine.md";
const TOP: &str = "the top";
const END: &str = "<!-- end -->";

/// Writes the tables between their marks, or with `check` says that they are stale.
pub(crate) fn generate(root: &Path, check: bool) -> Result<()> {
    let documents = DocumentKind::ALL.map(|kind| {
        let schema = schema(kind);
        (kind.as_str(), tables(&schema, "spec", &schema["properties"]["spec"]))
    });
    write(root, FILE, &documents, check)?;
    let schema = machine_schema();
    write(root, MACHINES, &[("machine", tables(&schema, TOP, &schema))], check)
}

#[expect(clippy::disallowed_methods, reason = "xtask reads and writes what is generated")]
fn write(root: &Path, file: &str, parts: &[(&str, String)], check: bool) -> Result<()> {
    let path = root.join(file);
    let found = std::fs::read_to_string(&path).with_context(|| format!("cannot read {file}"))?;
    let mut wanted = found.clone();
    for (name, tables) in parts {
        let mark = format!("<!-- generated: {name} -->");
        let Some((before, rest)) = wanted.split_once(&mark) else { continue };
        let (_, after) = rest.split_once(END).with_context(|| format!("{file}: `{mark}` without `{END}`"))?;
        wanted = format!("{before}{mark}\n{tables}{END}{after}");
    }
    if wanted == found {
        return Ok(());
    }
    if check {
        bail!("{file} is stale: run `cargo xtask generate` and commit the result");
    }
    std::fs::write(&path, wanted).with_context(|| format!("cannot write {file}"))
}

/// One table for each mapping, the outer ones first.
fn tables(root: &Value, begin: &str, node: &Value) -> String {
    let mut out = String::new();
    let mut waiting = vec![(begin.to_owned(), node.clone())];
    while !waiting.is_empty() {
        let (path, node) = waiting.remove(0);
        let node = resolve(root, &node);
        let Some(properties) = node["properties"].as_object() else { continue };
        let _ = writeln!(out, "\n### `{path}`\n\n| field | form | meaning |\n| --- | --- | --- |");
        let needed: Vec<&str> =
            node["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        // What must be written comes first.
        let (first, rest): (Vec<_>, Vec<_>) =
            properties.iter().partition(|(name, _)| needed.contains(&name.as_str()));
        for (name, property) in first.into_iter().chain(rest) {
            let told =
                property["description"].as_str().unwrap_or_default().replace('\n', " ").replace('|', "\\|");
            let mark = if needed.contains(&name.as_str()) { " (needed)" } else { "" };
            let (form, inner) = form(root, property);
            let _ = writeln!(out, "| `{name}`{mark} | {form} | {told} |");
            if let Some((suffix, node)) = inner {
                // What stands at the top has no name before it.
                let path = if path == TOP { String::new() } else { format!("{path}.") };
                waiting.push((format!("{path}{name}{suffix}"), node));
            }
        }
    }
    out.push('\n');
    out
}

fn resolve(root: &Value, node: &Value) -> Value {
    match node["$ref"].as_str() {
        Some(reference) => root.pointer(reference.trim_start_matches('#')).cloned().unwrap_or_default(),
        None => node.clone(),
    }
}

/// A form in words, and the mapping inside that needs a table of its own.
fn form(root: &Value, property: &Value) -> (String, Option<(&'static str, Value)>) {
    let node = resolve(root, property);
    if let Some(variants) = words(&node) {
        return (variants, None);
    }
    if let Some(options) = node["anyOf"].as_array() {
        // `null` is what every field that may be left out allows; `{value, origin}` is told in the text.
        let marked = |o: &Value| o["properties"]["origin"].is_object();
        let uncertain = options.iter().any(marked);
        let real = options.iter().filter(|o| o["type"] != "null" && !marked(o)).collect::<Vec<_>>();
        if node["examples"].is_array() {
            return (examples(&node), None);
        }
        let Some(first) = real.first() else { return (String::new(), None) };
        let (text, inner) = form(root, first);
        return (if uncertain { format!("{text}, or with its origin") } else { text }, inner);
    }
    if node["examples"].is_array() {
        return (examples(&node), None);
    }
    let kind = match &node["type"] {
        Value::Array(kinds) => kinds.iter().find_map(|k| k.as_str().filter(|k| *k != "null")),
        kind => kind.as_str(),
    };
    match kind {
        Some("integer") => match node["minimum"].as_i64() {
            Some(least) => (format!("whole number from {least}"), None),
            None => ("whole number".to_owned(), None),
        },
        Some("boolean") => ("`true` or `false`".to_owned(), None),
        Some("array") => {
            let (inner, table) = form(root, &node["items"]);
            let text =
                if table.is_some() { "list of mappings".to_owned() } else { format!("list of {inner}") };
            (text, table.map(|(_, node)| ("[]", node)))
        }
        Some("object") if node["properties"].is_object() => ("mapping".to_owned(), Some(("", node))),
        Some("object") => {
            let (inner, _) = form(root, &node["additionalProperties"]);
            (format!("mapping of text to {inner}"), None)
        }
        _ => ("text".to_owned(), None),
    }
}

fn examples(node: &Value) -> String {
    let shown = node["examples"].as_array().into_iter().flatten().map(|one| match one {
        Value::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// The words of an enum.
fn words(node: &Value) -> Option<String> {
    let listed = match (&node["enum"], &node["oneOf"]) {
        (Value::Array(list), _) => list.iter().filter_map(Value::as_str).collect::<Vec<_>>(),
        (_, Value::Array(list)) => list.iter().filter_map(|one| one["const"].as_str()).collect(),
        _ => return None,
    };
    Some(listed.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "))
}
