//! The table of rules in `docs/lint.md`, from the linter itself.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use tesela_formats::lint::RULES;

const FILE: &str = "docs/lint.md";
const MARK: &str = "<!-- generated: rules -->";
const END: &str = "<!-- end -->";

/// Writes the table between its marks, or with `check` says that it is stale.
pub(crate) fn generate(root: &Path, check: bool) -> Result<()> {
    let path = root.join(FILE);
    let found = std::fs::read_to_string(&path).with_context(|| format!("cannot read {FILE}"))?;
    let (before, rest) = found.split_once(MARK).with_context(|| format!("{FILE} lacks `{MARK}`"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("{FILE}: `{MARK}` without `{END}`"))?;
    let wanted = format!("{before}{MARK}\n{}{END}{after}", table()?);
    if wanted == found {
        return Ok(());
    }
    if check {
        bail!("{FILE} is stale: run `cargo xtask generate` and commit the result");
    }
    std::fs::write(&path, wanted).with_context(|| format!("cannot write {FILE}"))
}

fn table() -> Result<String> {
    let mut out = "\n| rule | in | finds |\n| --- | --- | --- |\n".to_owned();
    for rule in RULES {
        let mut kinds = Vec::new();
        for kind in rule.kinds {
            kinds.push(serde_json::to_value(kind)?.as_str().unwrap_or_default().to_owned());
        }
        let _ = writeln!(out, "| `{}` | {} | {} |", rule.id, kinds.join(", "), rule.finds);
    }
    out.push('\n');
    Ok(out)
}
