//! The releases of Kubernetes that the testbed has, each a Go module of its own.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// A release of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Release {
    /// The newest that is supported: `testbed/go.mod`.
    Newest,
    /// The oldest that is supported: `testbed/k8s-1.34/go.mod`.
    Floor,
}

impl Release {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Newest, Self::Floor];

    /// The release of a name, `newest` or `floor`, or of a minor version such as `1.34`.
    ///
    /// # Errors
    /// When neither is called so.
    pub fn named(name: &str) -> Result<Self> {
        let mut known = Vec::new();
        for release in Self::ALL {
            let minor = release.minor()?;
            if name == release.name() || name == minor {
                return Ok(release);
            }
            known.push(format!("{} ({minor})", release.name()));
        }
        bail!("no release is called `{name}`; there are: {}", known.join(", "))
    }

    /// `newest` or `floor`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Newest => "newest",
            Self::Floor => "floor",
        }
    }

    /// The folder of its Go module.
    pub(crate) fn folder(self) -> PathBuf {
        let testbed = testbed();
        match self {
            Self::Newest => testbed,
            Self::Floor => testbed.join("k8s-1.34"),
        }
    }

    /// `1.37.2`, as its go.mod requires.
    ///
    /// # Errors
    /// When the go.mod cannot be read or requires no `k8s.io/kubernetes`.
    pub fn version(self) -> Result<String> {
        required(&self.folder().join("go.mod"), "k8s.io/kubernetes")
    }

    /// `1.37`.
    ///
    /// # Errors
    /// As [`Self::version`].
    pub fn minor(self) -> Result<String> {
        let version = self.version()?;
        let (minor, _) = version.rsplit_once('.').context("a version without dots")?;
        Ok(minor.to_owned())
    }
}

/// The repository's folder `testbed`.
pub(crate) fn testbed() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testbed");
    // Without the dots, for people; where it is not there the next call says so.
    folder.canonicalize().unwrap_or(folder)
}

/// The version, without its `v`, at which a go.mod requires a module.
pub(crate) fn required(file: &Path, module: &str) -> Result<String> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let version = text.lines().find_map(|line| {
        let rest = line.trim().trim_start_matches("require ").strip_prefix(module)?;
        rest.split_whitespace().next()?.strip_prefix('v')
    });
    Ok(version.with_context(|| format!("{} does not require {module}", file.display()))?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_release_is_known_by_its_name_and_its_minor_version() {
        for release in Release::ALL {
            assert_eq!(Release::named(release.name()).unwrap(), release);
            assert_eq!(Release::named(&release.minor().unwrap()).unwrap(), release);
        }
        let told = Release::named("1.2").unwrap_err().to_string();
        assert!(told.contains("floor (1.34)"), "{told}");
    }

    /// The floor is a promise of the documents.
    #[test]
    fn the_floor_is_1_34() {
        assert_eq!(Release::Floor.minor().unwrap(), "1.34");
    }
}
