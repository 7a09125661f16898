//! A real node: a kubelet and a containerd in namespaces of their own, with real containers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::api::{Api, Rejection};
use crate::binaries::{Binaries, NodeBinaries};
use crate::cgroups;
use crate::keeper::Keeper;
use crate::network::{address, pod_network};
use crate::program::Program;
use crate::run::Run;
use crate::wait::until;

const LIMIT: Duration = Duration::from_secs(120);

/// A node that runs.
pub struct Node {
    name: String,
    folder: PathBuf,
    /// How often a kubelet was asked for.
    kubelets: u32,
    program: Program,
}

/// What a node is made of.
pub(crate) struct Site<'a> {
    pub(crate) run: &'a Run,
    pub(crate) keeper: &'a Keeper,
    pub(crate) network: &'a Path,
    pub(crate) binaries: &'a Binaries,
    pub(crate) machines: &'a NodeBinaries,
}

impl Site<'_> {
    /// Starts a node. `config` is the kubeconfig of its kubelet.
    pub(crate) fn start(&self, index: usize, config: &Path) -> Result<Node> {
        let name = node_name(index);
        let folder = self.run.folder().join(&name);
        for part in ["kubelet", "cni", "cni-state", "cdi", "pods", "volume-plugins", "opt"] {
            std::fs::create_dir_all(folder.join(part))
                .with_context(|| format!("cannot make the node's {part}"))?;
        }
        let cgroup = cgroups::make(self.run, &name)?;
        let write = |file: &str, text: String| std::fs::write(folder.join(file), text);
        write("kubelet.yaml", kubelet_config(&folder, &cgroup, &address(index)))?;
        write("containerd.toml", containerd_config(&folder, self.machines))?;
        write("cni/10-testbed.conflist", cni_config(&folder, index))?;
        write("kubelet.want", "1".to_owned())?;
        write("settings", self.settings(&name, index, config))?;
        std::fs::write(folder.join("node.sh"), include_str!("node.sh"))?;
        let mut words = self.run.command_in(Some(self.network), Path::new("unshare"));
        words.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--", "sh"]);
        words.arg(folder.join("node.sh")).arg(&folder);
        let program = Program::start(self.keeper, self.run.folder(), &name, words)?;
        Ok(Node { name, folder, kubelets: 1, program })
    }

    fn settings(&self, name: &str, index: usize, config: &Path) -> String {
        let all = [
            ("NAME", name.to_owned()),
            ("BIN", self.machines.folder().display().to_string()),
            ("IMAGE", self.machines.image().display().to_string()),
            ("KUBELET", self.binaries.multi().display().to_string()),
            ("ADDRESS", address(index)),
            ("CONFIG", config.display().to_string()),
        ];
        all.map(|(key, value)| format!("{key}='{}'\n", value.replace('\'', "'\\''"))).concat()
    }
}

impl Node {
    /// Its name in the cluster.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its kubelet's folder, `/var/lib/kubelet` on the node: sockets lie in `device-plugins` and `pod-resources`.
    pub fn kubelet_folder(&self) -> PathBuf {
        self.folder.join("kubelet")
    }

    /// Where its containerd looks for CDI specifications.
    pub fn cdi_folder(&self) -> PathBuf {
        self.folder.join("cdi")
    }

    /// Where its kubelet keeps the logs of containers, as `/var/log/pods`.
    pub fn logs_folder(&self) -> PathBuf {
        self.folder.join("pods")
    }

    /// # Errors
    /// When the node has ended, with the end of its logs.
    pub fn check(&mut self) -> Result<()> {
        self.program.check()
    }

    /// Ends the kubelet, as `systemctl stop` would; containers stay. [`Self::start_kubelet`] starts another.
    ///
    /// # Errors
    /// When it does not end.
    pub fn stop_kubelet(&mut self) -> Result<()> {
        let ended = self.folder.join("kubelet.ended");
        std::fs::write(self.folder.join("kubelet.want"), "off")?;
        let last = self.kubelets.to_string();
        until(&format!("the end of {}'s kubelet", self.name), LIMIT, |_| {
            self.program.check()?;
            let told = std::fs::read_to_string(&ended).unwrap_or_default();
            Ok((told.trim() == last).then_some(()))
        })
    }

    /// Starts a kubelet where [`Self::stop_kubelet`] ended one.
    ///
    /// # Errors
    /// When the node's folder cannot be written.
    pub fn start_kubelet(&mut self) -> Result<()> {
        self.kubelets += 1;
        // Whole or not at all: the node reads it meanwhile.
        let half = self.folder.join("kubelet.half");
        std::fs::write(&half, self.kubelets.to_string())?;
        std::fs::rename(&half, self.folder.join("kubelet.want"))?;
        Ok(())
    }

    /// Waits until it is Ready.
    ///
    /// # Errors
    /// When it ends or is not Ready in time.
    pub(crate) fn wait(&mut self, api: &Api) -> Result<()> {
        until(&format!("node {} Ready", self.name), LIMIT, |seen| {
            self.program.check()?;
            let node = match api.get(&format!("/api/v1/nodes/{}", self.name)) {
                Ok(node) => node,
                Err(error) if error.downcast_ref::<Rejection>().is_some_and(|told| told.status == 404) => {
                    "not registered".clone_into(seen);
                    return Ok(None);
                }
                Err(error) => return Err(error),
            };
            let conditions = node["status"]["conditions"].as_array();
            let ready = conditions.into_iter().flatten().find(|found| found["type"] == "Ready");
            *seen = ready.map(ToString::to_string).unwrap_or_default();
            let taints = node["spec"]["taints"].as_array();
            let new =
                taints.into_iter().flatten().any(|taint| taint["key"] == "node.kubernetes.io/not-ready");
            Ok((!new && ready.is_some_and(|ready| ready["status"] == "True")).then_some(()))
        })
    }

    pub(crate) fn kill(&mut self) {
        self.program.kill();
    }
}

/// The name of a node: `n1`, `n2`, …
pub(crate) fn node_name(index: usize) -> String {
    format!("n{}", index + 1)
}

/// The kubelet's configuration, as JSON, which is YAML.
fn kubelet_config(folder: &Path, cgroup: &str, address: &str) -> String {
    let config = serde_json::json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "address": address, "healthzBindAddress": address,
        "containerRuntimeEndpoint": format!("unix://{}", folder.join("containerd.sock").display()),
        "podLogsDir": folder.join("pods"), "volumePluginDir": folder.join("volume-plugins"), "resolvConf": "",
        // Anybody on this loopback may ask it anything: it is a test's.
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        // cgroup v1 is refused by default from 1.36 on.
        "failCgroupV1": false, "cgroupDriver": "cgroupfs", "cgroupRoot": cgroup, "cgroupsPerQOS": true,
        "enforceNodeAllocatable": ["pods"],
        // No process may lower its score where CAP_SYS_RESOURCE is missing.
        "oomScoreAdj": 0,
        "failSwapOn": false, "makeIPTablesUtilChains": false, "hairpinMode": "none",
        // The disk is the machine's, and others fill it too.
        "evictionHard": {
            "memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        // Devices show in the node's status after this long; ten seconds by default.
        "nodeStatusUpdateFrequency": "1s",
    });
    format!("{config:#}\n")
}

fn containerd_config(folder: &Path, machines: &NodeBinaries) -> String {
    let path = |name: &str| folder.join(name).display().to_string();
    format!(
        r#"version = 3
root = "{root}"
state = "{state}"
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs"]
[grpc]
address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
path = "{opt}"
[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{image}"
[plugins."io.containerd.cri.v1.runtime"]
cdi_spec_dirs = ["{cdi}"]
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{bin}"]
conf_dir = "{cni}"
[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "runc"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false
"#,
        root = path("containerd"),
        state = path("containerd-state"),
        socket = path("containerd.sock"),
        opt = path("opt"),
        image = NodeBinaries::IMAGE,
        cdi = path("cdi"),
        bin = machines.folder().display(),
        cni = path("cni"),
    )
}

fn cni_config(folder: &Path, index: usize) -> String {
    let bridge = serde_json::json!({
        "type": "bridge", "bridge": format!("testbed{}", index + 1), "isGateway": true,
        "ipam": {
            "type": "host-local", "dataDir": folder.join("cni-state"),
            "ranges": [[{"subnet": pod_network(index)}]], "routes": [{"dst": "0.0.0.0/0"}],
        },
    });
    format!("{:#}\n", serde_json::json!({"cniVersion": "1.0.0", "name": "testbed", "plugins": [bridge]}))
}
