//! `cargo xtask edges`: the arrows between crates point downwards, pure crates reach nothing outside, and nothing is
//! called by a name that says nothing.
//!
//! The table below is the house of ARCHITECTURE.md. A crate that is not in it is a fault: give it a row first.

mod drawn;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

/// A crate and what it may import.
struct Room {
    name: &'static str,
    /// Crates of ours that it may name in its manifest, for its tests and build too.
    may: &'static [&'static str],
    /// Crates of ours that its tests and benchmarks may name besides.
    tests: &'static [&'static str],
    /// A pure crate reaches no clock, file, network, async runtime or unseeded randomness.
    pure: bool,
}

const HOUSE: [Room; 11] = [
    Room { name: "tesela-model", may: &[], tests: &[], pure: true },
    Room { name: "tesela-formats", may: &["tesela-model"], tests: &[], pure: true },
    // Its experiments are made of traces and measurements, which formats reads.
    Room { name: "tesela-plan", may: &["tesela-model"], tests: &["tesela-formats"], pure: true },
    // Its tests read machine files, and compare what can be reached with the layouts that the planner counts.
    Room {
        name: "tesela-sim",
        may: &["tesela-model"],
        tests: &["tesela-plan", "tesela-formats"],
        pure: true,
    },
    Room {
        name: "tesela-objects",
        may: &["tesela-model", "tesela-formats", "tesela-plan"],
        tests: &[],
        pure: true,
    },
    // Keeps its journal on disk; its tests work on simulated GPUs, described in machine files.
    Room {
        name: "tesela-executor",
        may: &["tesela-model", "tesela-plan"],
        tests: &["tesela-sim", "tesela-formats"],
        pure: false,
    },
    // Its tests record the simulated GPUs.
    Room {
        name: "tesela-nvml",
        may: &["tesela-model"],
        tests: &["tesela-sim", "tesela-formats"],
        pure: false,
    },
    Room {
        name: "nvml-sim",
        may: &["tesela-model", "tesela-formats", "tesela-sim"],
        tests: &["tesela-nvml"],
        pure: false,
    },
    Room {
        name: "tesela",
        may: &[
            "tesela-model",
            "tesela-formats",
            "tesela-plan",
            "tesela-objects",
            "tesela-executor",
            "tesela-nvml",
            "tesela-sim",
            "nvml-sim",
        ],
        tests: &[],
        pure: false,
    },
    // A real Kubernetes for tests; no crate that is shipped may name it but in its tests.
    Room { name: "tesela-testbed", may: &[], tests: &[], pure: false },
    Room {
        name: "xtask",
        may: &["tesela-model", "tesela-formats", "tesela-testbed"],
        tests: &[],
        pure: false,
    },
];

/// Packages that no pure crate may reach through its normal dependencies, however far down, and why.
const OUTSIDE: [(&str, &str); 25] = [
    ("async-std", "an async runtime"),
    ("smol", "an async runtime"),
    ("tokio", "an async runtime"),
    ("h2", "the network"),
    ("hyper", "the network"),
    ("kube", "the network"),
    ("mio", "the network"),
    ("reqwest", "the network"),
    ("socket2", "the network"),
    ("tonic", "the network"),
    ("ureq", "the network"),
    ("fastrand", "unseeded randomness"),
    ("getrandom", "unseeded randomness"),
    ("rand", "unseeded randomness"),
    ("chrono", "a clock"),
    ("instant", "a clock"),
    ("quanta", "a clock"),
    ("time", "a clock"),
    ("web-time", "a clock"),
    ("fs-err", "files"),
    ("tempfile", "files"),
    ("walkdir", "files"),
    ("libc", "system calls"),
    ("nix", "system calls"),
    ("rustix", "system calls"),
];

/// What we read of `cargo metadata`.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    manifest_path: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// Absent for a normal dependency, else `dev` or `build`.
    #[serde(default)]
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    /// Absent for a normal dependency, else `dev` or `build`.
    kind: Option<String>,
}

/// Checks the repository at `root`. All faults are told at once.
pub(crate) fn run(root: &Path) -> Result<()> {
    let metadata = read(root)?;
    let mut faults = faults(&metadata);
    faults.extend(lints(root, &metadata)?);
    faults.extend(names::faults(root)?);
    let file = root.join("ARCHITECTURE.md");
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    faults.extend(drawn::faults(&text, &outside(&metadata)));
    if faults.is_empty() {
        return Ok(());
    }
    bail!("the house does not stand (ARCHITECTURE.md draws it):\n  {}", faults.join("\n  "))
}

fn read(root: &Path) -> Result<Metadata> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let words = ["metadata", "--format-version", "1", "--locked"];
    let out = Command::new(cargo).args(words).current_dir(root).output().context("cannot start cargo")?;
    ensure!(out.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).context("cargo metadata printed something else than we know")
}

/// Forbidden edges between our crates, and from pure crates to the outside.
fn faults(metadata: &Metadata) -> Vec<String> {
    let mut faults = Vec::new();
    let members = metadata.packages.iter().filter(|p| metadata.workspace_members.contains(&p.id));
    let members = members.collect::<Vec<_>>();
    let ours = members.iter().map(|p| p.name.as_str()).collect::<BTreeSet<_>>();
    for package in &members {
        let name = package.name.as_str();
        let Some(room) = HOUSE.iter().find(|room| room.name == name) else {
            faults.push(format!(
                "{name} has no row in the table of xtask/src/edges.rs: say what it may import"
            ));
            continue;
        };
        let tests_may =
            |d: &Dependency| d.kind.as_deref() == Some("dev") && room.tests.contains(&d.name.as_str());
        let used = package.dependencies.iter().filter(|d| !tests_may(d)).map(|d| d.name.as_str());
        let used = used.collect::<BTreeSet<_>>();
        let forbidden = used.into_iter().filter(|used| ours.contains(used) && !room.may.contains(used));
        faults
            .extend(forbidden.map(|used| format!("{name} imports {used}: the table allows {:?}", room.may)));
        if room.pure {
            faults.extend(reaches_outside(metadata, package));
        }
    }
    faults
}

/// Ways from a pure crate to a package of [`OUTSIDE`], the shortest for each.
fn reaches_outside(metadata: &Metadata, package: &Package) -> Vec<String> {
    let names =
        metadata.packages.iter().map(|p| (p.id.as_str(), p.name.as_str())).collect::<BTreeMap<_, _>>();
    let nodes = metadata.resolve.nodes.iter().map(|n| (n.id.as_str(), n)).collect::<BTreeMap<_, _>>();
    let mut faults = Vec::new();
    let mut seen = BTreeSet::from([package.id.as_str()]);
    let mut waiting = std::collections::VecDeque::from([(package.id.as_str(), package.name.clone())]);
    while let Some((id, way)) = waiting.pop_front() {
        let Some(node) = nodes.get(id) else { continue };
        // Tests may draw numbers and write files; what is shipped may not.
        let normal = node.deps.iter().filter(|edge| edge.dep_kinds.iter().any(|kind| kind.kind.is_none()));
        for edge in normal {
            if !seen.insert(&edge.pkg) {
                continue;
            }
            let name = names.get(edge.pkg.as_str()).copied().unwrap_or_default();
            let way = format!("{way} → {name}");
            if let Some((_, what)) = OUTSIDE.iter().find(|(banned, _)| *banned == name) {
                faults.push(format!("{} is pure but reaches {what}: {way}", package.name));
            }
            waiting.push_back((&edge.pkg, way));
        }
    }
    faults
}

/// Packages of others that our manifests name.
fn outside(metadata: &Metadata) -> BTreeSet<&str> {
    let (ours, _): (Vec<_>, Vec<_>) =
        metadata.packages.iter().partition(|p| metadata.workspace_members.contains(&p.id));
    let names = ours.iter().map(|p| p.name.as_str()).collect::<BTreeSet<_>>();
    let used = ours.iter().flat_map(|p| p.dependencies.iter().map(|d| d.name.as_str()));
    used.filter(|name| !names.contains(name)).collect()
}

/// Crates that may have `unsafe`: NVML is C. Each names the workspace's lints itself, all but the ban.
const UNSAFE: [&str; 2] = ["tesela-nvml", "nvml-sim"];

/// Lints that a crate with `unsafe` adds: each block says why it is sound, and holds one operation.
const OF_UNSAFE: [&str; 3] = [
    "unsafe_op_in_unsafe_fn = \"deny\"",
    "undocumented_unsafe_blocks = \"deny\"",
    "multiple_unsafe_ops_per_block = \"deny\"",
];

/// Crates that do not take the lints of the workspace, the ban on `unsafe` among them.
fn lints(root: &Path, metadata: &Metadata) -> Result<Vec<String>> {
    let read = |path: &Path| {
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    };
    let workspace = read(&root.join("Cargo.toml"))?;
    let mut faults = Vec::new();
    for package in metadata.packages.iter().filter(|p| metadata.workspace_members.contains(&p.id)) {
        let text = read(Path::new(&package.manifest_path))?;
        let lacking = lacking(&package.name, &text, &workspace);
        faults.extend(lacking.into_iter().map(|line| format!("{} lacks `{line}`", package.name)));
    }
    Ok(faults)
}

/// What the manifest of a crate lacks of the lints it is to have.
fn lacking(name: &str, manifest: &str, workspace: &str) -> Vec<String> {
    if !UNSAFE.contains(&name) {
        let inherits = manifest.replace(' ', "").contains("[lints]\nworkspace=true");
        return if inherits { Vec::new() } else { vec!["[lints] workspace = true".to_owned()] };
    }
    let tables = workspace.split("\n[").filter(|table| table.starts_with("workspace.lints."));
    let lines = tables.flat_map(|table| table.lines().skip(1)).filter(|line| line.contains(" = "));
    let wanted = lines.filter(|line| !line.starts_with("unsafe_code")).chain(OF_UNSAFE);
    wanted.filter(|line| !manifest.lines().any(|own| own == *line)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Packages with what they import; `dev ` before a name makes it a dependency of tests.
    fn metadata(packages: &[(&str, &[&str])]) -> Metadata {
        let kind = |word: &str| word.strip_prefix("dev ").map(|_| "dev");
        let plain = |word: &str| word.trim_start_matches("dev ").to_owned();
        let of = |name: &str, words: &[&str]| {
            let listed = words.iter().map(|w| json!({"name": plain(w), "kind": kind(w)})).collect::<Vec<_>>();
            json!({"id": name, "name": name, "manifest_path": "", "dependencies": listed})
        };
        let node = |name: &str, words: &[&str]| {
            let deps = words.iter().map(|w| json!({"pkg": plain(w), "dep_kinds": [{"kind": kind(w)}]}));
            json!({"id": name, "deps": deps.collect::<Vec<_>>()})
        };
        let members = packages.iter().filter(|(name, _)| name.starts_with("tesela") || *name == "xtask");
        let value = json!({
            "packages": packages.iter().map(|(n, w)| of(n, w)).collect::<Vec<_>>(),
            "workspace_members": members.map(|(n, _)| *n).collect::<Vec<_>>(),
            "resolve": {"nodes": packages.iter().map(|(n, w)| node(n, w)).collect::<Vec<_>>()},
        });
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn the_house_stands() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        run(&root).unwrap();
    }

    #[test]
    fn arrows_downwards_pass() {
        let sound = metadata(&[
            ("tesela-model", &["serde", "dev rand"]),
            ("tesela-plan", &["tesela-model"]),
            ("tesela", &["tesela-plan", "rand"]),
            ("serde", &[]),
            ("rand", &[]),
        ]);
        assert_eq!(faults(&sound), Vec::<String>::new());
    }

    #[test]
    fn what_only_tests_may_name_is_told_elsewhere() {
        let of = |word| faults(&metadata(&[("tesela-plan", &[word]), ("tesela-formats", &[])]));
        assert_eq!(of("dev tesela-formats"), Vec::<String>::new());
        let told = of("tesela-formats");
        assert!(told[0].starts_with("tesela-plan imports tesela-formats"), "{told:?}");
    }

    #[test]
    fn an_arrow_upwards_is_told() {
        for word in ["tesela-plan", "dev tesela-plan"] {
            let upwards = metadata(&[("tesela-model", &[word]), ("tesela-plan", &[])]);
            let told = faults(&upwards);
            assert!(
                matches!(&told[..], [one] if one.starts_with("tesela-model imports tesela-plan")),
                "{told:?}"
            );
        }
    }

    #[test]
    fn a_pure_crate_that_reaches_outside_is_told_with_the_way() {
        let leaky = metadata(&[("tesela-plan", &["nice"]), ("nice", &["tokio"]), ("tokio", &[])]);
        assert_eq!(
            faults(&leaky),
            ["tesela-plan is pure but reaches an async runtime: tesela-plan → nice → tokio"]
        );
    }

    #[test]
    fn a_crate_with_unsafe_names_every_other_lint_itself() {
        let workspace = "[workspace]\n\n[workspace.lints.rust]\nunsafe_code = \"forbid\"\nmissing_docs = \"warn\"\n\n\
                         [workspace.lints.clippy]\ntodo = \"warn\"\n\n[profile.dev]\ndebug = 1\n";
        let own = ["missing_docs = \"warn\"", "todo = \"warn\""];
        let whole = own.into_iter().chain(OF_UNSAFE).collect::<Vec<_>>();
        assert_eq!(lacking("nvml-sim", &whole.join("\n"), workspace), Vec::<String>::new());
        for missing in &whole {
            let rest = whole.iter().filter(|line| *line != missing).copied().collect::<Vec<_>>();
            assert_eq!(lacking("nvml-sim", &rest.join("\n"), workspace), [*missing]);
        }
        assert_eq!(lacking("tesela-plan", &whole.join("\n"), workspace), ["[lints] workspace = true"]);
        assert_eq!(lacking("tesela-plan", "[lints]\nworkspace = true\n", workspace), Vec::<String>::new());
    }

    #[test]
    fn a_crate_without_a_row_is_told() {
        let told = faults(&metadata(&[("tesela-new", &[])]));
        assert!(told[0].starts_with("tesela-new has no row"), "{told:?}");
    }
}
