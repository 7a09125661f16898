//! JSON Schemas of our documents and of machine files, one file per kind in `schemas/`, for editors.

use std::path::Path;

use anyhow::{Context, Result, bail};
use tesela_formats::documents::DocumentKind;
use tesela_formats::schema::{MACHINE_FILE, file_name, machine_schema, schema};

const FOLDER: &str = "schemas";

/// Writes the schemas, or with `check` says which are stale.
#[expect(clippy::disallowed_methods, reason = "xtask reads and writes what is generated")]
pub(crate) fn generate(root: &Path, check: bool) -> Result<()> {
    let folder = root.join(FOLDER);
    let mut stale = Vec::new();
    let mut all = DocumentKind::ALL.map(|kind| (file_name(kind), schema(kind))).to_vec();
    all.push((MACHINE_FILE.to_owned(), machine_schema()));
    for (name, schema) in all {
        let path = folder.join(&name);
        let wanted = serde_json::to_string_pretty(&schema)? + "\n";
        if std::fs::read_to_string(&path).unwrap_or_default() == wanted {
            continue;
        }
        if check {
            stale.push(format!("{FOLDER}/{name}"));
            continue;
        }
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        std::fs::write(&path, wanted).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if !stale.is_empty() {
        bail!("{} is stale: run `cargo xtask generate` and commit the result", stale.join(", "));
    }
    Ok(())
}
