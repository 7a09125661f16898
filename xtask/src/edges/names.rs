//! Names that say nothing. What goes into such a module has no home, and soon everything does.

use std::path::Path;

use anyhow::{Context as _, Result};

const EMPTY: [&str; 9] =
    ["common", "helper", "helpers", "misc", "shared", "stuff", "util", "utilities", "utils"];

/// Where our source lies.
const FOLDERS: [&str; 3] = ["crates", "xtask", "fuzz/fuzz_targets"];

/// Files, folders and inline modules below the source folders that carry such a name.
pub(super) fn faults(root: &Path) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for folder in FOLDERS {
        walk(root, &root.join(folder), &mut faults)?;
    }
    Ok(faults)
}

fn walk(root: &Path, folder: &Path, faults: &mut Vec<String>) -> Result<()> {
    let listed = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut paths = listed.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let source = path.extension().is_some_and(|e| e == "rs");
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if stem == "target" {
                continue;
            }
            if is_empty(&stem) {
                faults.push(told(&shown, &stem));
            }
            walk(root, &path, faults)?;
        } else if source {
            if is_empty(&stem) {
                faults.push(told(&shown, &stem));
            }
            let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {shown}"))?;
            faults.extend(inline(&text).map(|name| told(&shown, name)));
        }
    }
    Ok(())
}

fn told(place: &str, name: &str) -> String {
    format!("{place}: nothing is called `{name}`; name it by what it does")
}

/// `tesela-utils` is as empty as `utils`.
fn is_empty(name: &str) -> bool {
    name.split(['-', '_']).any(|word| EMPTY.contains(&word))
}

/// Names of modules written inside a file.
fn inline(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let (before, after) = line.trim_start().split_once("mod ")?;
        let declared = before.is_empty() || before.trim_end() == "pub" || before.starts_with("pub(");
        let name = after.trim_end().strip_suffix('{')?.trim_end();
        (declared && is_empty(name)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_names_are_found_in_every_form() {
        for name in ["utils", "tesela-common", "test_helpers", "shared"] {
            assert!(is_empty(name), "{name}");
        }
        for name in ["sharing", "share", "uncommon", "utilisation"] {
            assert!(!is_empty(name), "{name}");
        }
        let text = "mod tests {\n    pub(crate) mod helpers {\n// mod utils {\nmod misc{";
        assert_eq!(inline(text).collect::<Vec<_>>(), ["helpers", "misc"]);
    }
}
