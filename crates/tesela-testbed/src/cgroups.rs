//! A part of the machine's cgroups for one run, so that kubelets clean up their own pods only.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::run::Run;

const ROOT: &str = "/sys/fs/cgroup";
/// Settings that a new cpuset lacks and that processes cannot enter it without.
const CPUSET: [&str; 2] = ["cpuset.cpus", "cpuset.mems"];

/// Makes the cgroup of a node in every hierarchy and returns its path as a kubelet wants it. The run removes it.
pub(crate) fn make(run: &Run, node: &str) -> Result<String> {
    let name = run.folder().file_name().and_then(|name| name.to_str()).context("a folder without a name")?;
    let hierarchies = hierarchies()?;
    let tops = hierarchies.iter().map(|hierarchy| hierarchy.join(name)).collect::<Vec<_>>();
    let lines = tops.iter().map(|top| format!("{}\n", top.display())).collect::<String>();
    // Written before they are there: a run that is killed in between removes them too.
    run.keep("cgroups", &lines)?;
    for top in &tops {
        for folder in [top.clone(), top.join(node)] {
            std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
            inherit(&folder)?;
        }
    }
    Ok(format!("/{name}/{node}"))
}

fn inherit(folder: &Path) -> Result<()> {
    for setting in CPUSET {
        let file = folder.join(setting);
        if !file.exists() || !std::fs::read_to_string(&file)?.trim().is_empty() {
            continue;
        }
        let above = folder.parent().context("a cgroup without a parent")?.join(setting);
        let value =
            std::fs::read_to_string(&above).with_context(|| format!("cannot read {}", above.display()))?;
        std::fs::write(&file, value.trim()).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// The one hierarchy of cgroup v2, or each controller's of v1.
fn hierarchies() -> Result<BTreeSet<PathBuf>> {
    let root = Path::new(ROOT);
    if root.join("cgroup.controllers").exists() {
        return Ok(BTreeSet::from([root.to_owned()]));
    }
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(root).with_context(|| format!("cannot list {ROOT}"))? {
        // `cpu` may be a link to `cpu,cpuacct`.
        let folder = entry?.path().canonicalize()?;
        let has = |name: &str| folder.join(name).exists();
        if has("cgroup.procs") && !has("cgroup.controllers") {
            found.insert(folder);
        }
    }
    Ok(found)
}
