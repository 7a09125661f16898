//! JSON Schemas of our documents, one file per kind in `schemas/`, for editors.

use std::path::Path;

use anyhow::{Context, Result, bail};
use tesela_formats::documents::DocumentKind;
use tesela_formats::schema::{file_name, schema};

const FOLDER: &str = "schemas";

/// Writes the schemas, or with `check` says which are stale.
#[expect(clippy::disallowed_methods, reason = "xtask reads and writes what is generated")]
pub(crate) fn generate(root: &Path, check: bool) -> Result<()> {
    let folder = root.join(FOLDER);
    let mut stale = Vec::new();
    for kind in DocumentKind::ALL {
        let name = file_name(kind);
        let path = folder.join(&name);
        let wanted = serde_json::to_string_pretty(&schema(kind))? + "\n";
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
