//! The programs of the testbed: built by Go from the modules in `testbed/`, kept outside the tree.
//!
//! A build is kept under a digest of what goes into it (go.mod, go.sum, the sources, the flags), so a changed version is
//! built and an unchanged one never again. `CGO_ENABLED=0` and `-trimpath` make it the same bytes on every machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};

use crate::release::{Release, required, testbed};

/// Where builds are kept; else `tesela/testbed` in the user's cache folder.
const CACHE: &str = "TESELA_TESTBED_CACHE";
/// A folder with etcd, kube-apiserver and kubectl, as Kubernetes' own projects name it for their tests.
const ASSETS: &str = "KUBEBUILDER_ASSETS";
/// What may come from there.
const FROM_ASSETS: [&str; 3] = ["etcd", "kube-apiserver", "kubectl"];
/// The program of the containers.
const CONTAINER: &str = "program";
const DEVICE_PLUGIN: &str = "device-plugin";
/// The program that is all of Kubernetes, and the names it goes by.
const KUBERNETES: &str = "testbed-kubernetes";
const COMPONENTS: [&str; 6] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl"];

/// A Go module and what is built of it.
struct Module {
    /// For people, and part of the kept folder's name.
    name: String,
    folder: PathBuf,
    /// Program and package.
    programs: Vec<(&'static str, &'static str)>,
    /// Values for `-X`.
    values: Vec<String>,
    /// Other names of the program that is all of Kubernetes.
    links: &'static [&'static str],
}

/// The programs of one release of Kubernetes.
#[derive(Clone, Debug)]
pub struct Binaries {
    release: Release,
    kubernetes: PathBuf,
    assets: Option<PathBuf>,
}

impl Binaries {
    /// Those that are built already.
    ///
    /// # Errors
    /// When they are not, with the command that builds them.
    pub fn find(release: Release) -> Result<Self> {
        let module = Module::kubernetes(release)?;
        let folder = module.kept()?;
        ensure!(
            folder.is_dir(),
            "{} is not built (no {}): run `cargo xtask testbed build`",
            module.name,
            folder.display()
        );
        Self::of(release, folder)
    }

    /// Builds what is missing.
    ///
    /// # Errors
    /// When Go is missing or fails.
    pub fn build(release: Release) -> Result<Self> {
        Self::of(release, Module::kubernetes(release)?.build()?)
    }

    fn of(release: Release, kubernetes: PathBuf) -> Result<Self> {
        Ok(Self { release, kubernetes, assets: assets(release)? })
    }

    /// Which release they are of.
    pub fn release(&self) -> Release {
        self.release
    }

    /// The path of a component, such as `kube-apiserver`.
    pub fn program(&self, component: &str) -> PathBuf {
        match &self.assets {
            Some(folder) if FROM_ASSETS.contains(&component) => folder.join(component),
            _ => self.kubernetes.join(component),
        }
    }

    /// The folder with all components, for a search path.
    pub fn folder(&self) -> &Path {
        &self.kubernetes
    }

    pub(crate) fn multi(&self) -> PathBuf {
        self.kubernetes.join(KUBERNETES)
    }
}

/// What nodes are made of besides a kubelet: containerd, its shim, CNI plugins, runc, and the image of their containers.
#[derive(Clone, Debug)]
pub struct NodeBinaries {
    containerd: PathBuf,
    container: PathBuf,
    device_plugin: PathBuf,
}

impl NodeBinaries {
    /// The image that every node has: one static program (`testbed/container/main.go`).
    pub const IMAGE: &'static str = "docker.io/local/testbed:1";

    /// Those that are built already.
    ///
    /// # Errors
    /// When they are not, with the command that builds them; when runc is not installed.
    pub fn find() -> Result<Self> {
        Self::of(|module| {
            let folder = module.kept()?;
            ensure!(folder.is_dir(), "{} is not built: run `cargo xtask testbed build`", module.name);
            Ok(folder)
        })
    }

    /// Builds what is missing.
    ///
    /// # Errors
    /// When Go is missing or fails; when runc is not installed.
    pub fn build() -> Result<Self> {
        Self::of(Module::build)
    }

    fn of(folder: impl Fn(&Module) -> Result<PathBuf>) -> Result<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let runc = std::env::split_paths(&path)
            .chain(["/usr/sbin".into()])
            .any(|folder| folder.join("runc").is_file());
        ensure!(
            runc,
            "nodes need runc, which is C and comes from the system (on Debian: apt-get install runc)"
        );
        let binaries = Self {
            containerd: folder(&Module::containerd()?)?,
            container: folder(&Module::own("container", CONTAINER))?,
            device_plugin: folder(&Module::own("device-plugin", DEVICE_PLUGIN))?,
        };
        let image = binaries.image();
        if !image.is_file() {
            let half = half(&image);
            let told = Command::new(binaries.container.join(CONTAINER)).arg("image").arg(&half).output()?;
            ensure!(told.status.success(), "no image: {}", String::from_utf8_lossy(&told.stderr));
            std::fs::rename(&half, &image)?;
        }
        Ok(binaries)
    }

    /// The folder of containerd, its shim, `ctr` and the CNI plugins.
    pub(crate) fn folder(&self) -> &Path {
        &self.containerd
    }

    /// The least device plugin (`testbed/device-plugin/main.go`).
    pub fn device_plugin(&self) -> PathBuf {
        self.device_plugin.join(DEVICE_PLUGIN)
    }

    pub(crate) fn image(&self) -> PathBuf {
        self.container.join("image.tar")
    }
}

impl Module {
    fn containerd() -> Result<Self> {
        let folder = testbed().join("containerd");
        let version = required(&folder.join("go.mod"), "github.com/containerd/containerd/v2")?;
        Ok(Self {
            name: format!("containerd-{version}"),
            folder,
            programs: vec![
                ("containerd", "github.com/containerd/containerd/v2/cmd/containerd"),
                (
                    "containerd-shim-runc-v2",
                    "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
                ),
                ("ctr", "github.com/containerd/containerd/v2/cmd/ctr"),
                ("bridge", "github.com/containernetworking/plugins/plugins/main/bridge"),
                ("loopback", "github.com/containernetworking/plugins/plugins/main/loopback"),
                ("host-local", "github.com/containernetworking/plugins/plugins/ipam/host-local"),
            ],
            values: vec![format!("github.com/containerd/containerd/v2/version.Version=v{version}")],
            links: &[],
        })
    }

    /// A program of ours.
    fn own(name: &str, program: &'static str) -> Self {
        Self {
            name: name.to_owned(),
            folder: testbed().join(name),
            programs: vec![(program, ".")],
            values: Vec::new(),
            links: &[],
        }
    }

    fn kubernetes(release: Release) -> Result<Self> {
        let version = release.version()?;
        let mut parts = version.split('.');
        let value = |name: &str, value: &str| format!("k8s.io/component-base/version.{name}={value}");
        let mut values = vec![value("gitVersion", &format!("v{version}"))];
        for name in ["gitMajor", "gitMinor"] {
            values.push(value(name, parts.next().context("a version without dots")?));
        }
        Ok(Self {
            name: format!("kubernetes-{version}"),
            folder: release.folder(),
            programs: vec![(KUBERNETES, ".")],
            values,
            links: &COMPONENTS,
        })
    }

    fn flags(&self) -> String {
        let values = self.values.iter().map(|value| format!(" -X {value}")).collect::<String>();
        format!("-s -w{values}")
    }

    /// Where its build is kept.
    fn kept(&self) -> Result<PathBuf> {
        let mut digest = Digest::new();
        for name in ["go.mod", "go.sum", "main.go"] {
            let file = self.folder.join(name);
            // Modules of tools have no source of ours, and one without requirements no sums.
            if name != "go.mod" && !file.exists() {
                continue;
            }
            digest.add(&std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?);
        }
        digest.add(self.flags().as_bytes());
        for (program, package) in &self.programs {
            digest.add(format!("{program}={package}").as_bytes());
        }
        Ok(cache()?.join(format!("{}-{:016x}", self.name, digest.0)))
    }

    fn build(&self) -> Result<PathBuf> {
        let folder = self.kept()?;
        if folder.is_dir() {
            return Ok(folder);
        }
        eprintln!("Building {} of {} (minutes, once)", self.name, self.folder.display());
        let begin = Instant::now();
        let half = half(&folder);
        let _ = std::fs::remove_dir_all(&half);
        std::fs::create_dir_all(&half).with_context(|| format!("cannot make {}", half.display()))?;
        for (program, package) in &self.programs {
            self.go(&half.join(program), package)?;
        }
        for name in self.links {
            std::os::unix::fs::symlink(KUBERNETES, half.join(name))?;
        }
        // Whoever was quicker has built the same.
        if std::fs::rename(&half, &folder).is_err() {
            ensure!(folder.is_dir(), "cannot make {}", folder.display());
            std::fs::remove_dir_all(&half)?;
        }
        eprintln!("Built {} in {:.0} s: {}", self.name, begin.elapsed().as_secs_f64(), folder.display());
        Ok(folder)
    }

    fn go(&self, program: &Path, package: &str) -> Result<()> {
        let mut command = Command::new("go");
        command.args(["build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", &self.flags()]);
        command.arg("-o").arg(program).arg(package);
        command.env("CGO_ENABLED", "0").current_dir(&self.folder).stdin(Stdio::null());
        let status = match command.status() {
            Ok(status) => status,
            Err(error) => {
                let go = required_go(&self.folder)?;
                bail!("cannot start `go` ({error}): Go {go} or later is needed to build {}", self.name)
            }
        };
        ensure!(status.success(), "`{command:?}` in {} ended with {status}", self.folder.display());
        Ok(())
    }
}

/// What a module's go.mod says behind `go`.
fn required_go(folder: &Path) -> Result<String> {
    let text = std::fs::read_to_string(folder.join("go.mod"))?;
    let version = text.lines().find_map(|line| line.strip_prefix("go "));
    Ok(version.context("a go.mod without a version of Go")?.to_owned())
}

/// Where something lies until it is whole.
fn half(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".half-{}", std::process::id()));
    name.into()
}

/// Where builds are kept.
///
/// # Errors
/// When the environment names no folder of the user.
pub fn cache() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os(CACHE) {
        return Ok(folder.into());
    }
    let user = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache")));
    let user = user.with_context(|| format!("neither {CACHE} nor XDG_CACHE_HOME nor HOME is set"))?;
    Ok(user.join("tesela/testbed"))
}

/// NVIDIA's CRD of the ClusterPolicy, from the Go module of their GPU Operator that `testbed/gpu-operator` pins.
///
/// # Errors
/// When it is not kept yet and Go cannot download the module.
pub fn cluster_policy_crd() -> Result<PathBuf> {
    const MODULE: &str = "github.com/NVIDIA/gpu-operator";
    const FILE: &str = "config/crd/bases/nvidia.com_clusterpolicies.yaml";
    let folder = testbed().join("gpu-operator");
    let version = required(&folder.join("go.mod"), MODULE)?;
    let kept = cache()?.join(format!("gpu-operator-{version}.yaml"));
    if kept.is_file() {
        return Ok(kept);
    }
    let mut command = Command::new("go");
    command.args(["mod", "download", "-json", MODULE]).current_dir(&folder).stdin(Stdio::null());
    let told = command.output().with_context(|| format!("cannot start `go` to download {MODULE}"))?;
    let said = String::from_utf8_lossy(&told.stderr);
    ensure!(told.status.success(), "`go mod download` of {MODULE} ended with {}: {said}", told.status);
    let told = serde_json::from_slice::<serde_json::Value>(&told.stdout).context("Go printed no JSON")?;
    let source = Path::new(told["Dir"].as_str().context("Go told of no folder")?).join(FILE);
    let half = half(&kept);
    std::fs::create_dir_all(cache()?)?;
    let text = std::fs::read(&source).with_context(|| format!("cannot read {}", source.display()))?;
    std::fs::write(&half, text).and_then(|()| std::fs::rename(&half, &kept))?;
    Ok(kept)
}

/// The folder of `KUBEBUILDER_ASSETS`, when its API server is of this minor version.
fn assets(release: Release) -> Result<Option<PathBuf>> {
    let Some(folder) = std::env::var_os(ASSETS).map(PathBuf::from) else { return Ok(None) };
    let program = folder.join("kube-apiserver");
    let told = Command::new(&program).arg("--version").output();
    let told = told.with_context(|| format!("{ASSETS} is set, but {} does not start", program.display()))?;
    let told = String::from_utf8_lossy(&told.stdout).trim().to_owned();
    let minor = release.minor()?;
    if told.starts_with(&format!("Kubernetes v{minor}.")) {
        return Ok(Some(folder));
    }
    eprintln!("{ASSETS} has `{told}`: not taken for {minor}");
    Ok(None)
}

/// FNV-1a, 64 bits: tells a few builds apart, and is no protection against somebody who wants them to collide.
struct Digest(u64);

impl Digest {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Adds a part; parts do not run into each other.
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(&(bytes.len() as u64).to_le_bytes()) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_is_kept_under_what_goes_into_it() {
        let module = Module::kubernetes(Release::Newest).unwrap();
        let other =
            Module { values: vec!["a.b=c".to_owned()], ..Module::kubernetes(Release::Newest).unwrap() };
        let floor = Module::kubernetes(Release::Floor).unwrap();
        let kept = [&module, &other, &floor].map(|module| module.kept().unwrap());
        assert_ne!(kept[0], kept[1]);
        assert_ne!(kept[0], kept[2]);
        let name = kept[0].file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with(&format!("kubernetes-{}-", Release::Newest.version().unwrap())), "{name}");
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        let digest = |parts: &[&str]| {
            let mut digest = Digest::new();
            parts.iter().for_each(|part| digest.add(part.as_bytes()));
            digest.0
        };
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
    }

    #[test]
    fn the_version_is_told_to_the_programs() {
        let flags = Module::kubernetes(Release::Floor).unwrap().flags();
        assert!(flags.contains("gitMajor=1 ") && flags.contains("gitMinor=34"), "{flags}");
    }

    /// Kubernetes' staging modules go with it: v1.37.2 and v0.37.2. A half-made bump would mix two releases.
    #[test]
    fn every_module_of_kubernetes_is_of_one_release() {
        for release in Release::ALL {
            let version = release.version().unwrap();
            let staging = format!("v0.{}", version.strip_prefix("1.").unwrap());
            let text = std::fs::read_to_string(release.folder().join("go.mod")).unwrap();
            assert!(!text.contains("replace"), "plain requirements only");
            // Those of the staging list have a server or a client in Kubernetes' tree.
            for module in
                ["api", "apimachinery", "apiserver", "client-go", "component-base", "kubectl", "kubelet"]
            {
                let line = format!("k8s.io/{module} {staging}");
                assert!(text.contains(&line), "{}: no `{line}`", release.name());
            }
        }
        assert!(required(&testbed().join("go.mod"), "k8s.io/nothing").is_err());
    }
}
