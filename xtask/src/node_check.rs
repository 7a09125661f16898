//! `cargo xtask node-check [newest|floor|all]`: the testbed's nodes are real.
//!
//! Two nodes with kubelets and containers; a device plugin registers on each; a pod with a device runs and sees it, by
//! environment and by CDI; PodResources names it; containers outlive their kubelet; and nothing is left on the machine.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tesela_testbed::{Binaries, Cluster, NodeBinaries, Release, until};

use crate::testbed::Wanted;

const LIMIT: Duration = Duration::from_secs(60);
const RESOURCE: &str = "nvidia.com/gpu";
const CDI: &str = "nvidia.com/gpu";

/// Runs the task with the words behind `node-check`.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let mut releases = Vec::new();
    for word in words {
        if word == "all" {
            releases.extend(Release::ALL);
        } else {
            releases.push(Release::named(word)?);
        }
    }
    if releases.is_empty() {
        releases.push(Release::Newest);
    }
    releases.into_iter().try_for_each(check)
}

fn check(release: Release) -> Result<()> {
    let (binaries, machines) = (Binaries::build(release)?, NodeBinaries::build()?);
    let begin = Instant::now();
    let mut cluster = Cluster::with_nodes(&binaries, &machines, 2)?;
    let told = format!("Kubernetes {}", release.version()?);
    println!("    {told}: control plane and 2 nodes Ready after {:.1} s", cluster.took().as_secs_f64());
    let stage = Stage { plugin: machines.device_plugin() };
    stage.devices(&mut cluster)?;
    println!("    {told}: devices, containers, kubelet restart: {:.0} s", begin.elapsed().as_secs_f64());
    let end = Instant::now();
    let run = cluster
        .folder()
        .file_name()
        .and_then(|name| name.to_str())
        .context("a run without a name")?
        .to_owned();
    let there = traces(&run)?;
    for part in ["/sys/fs/cgroup/", "process "] {
        ensure!(there.iter().any(|trace| trace.contains(part)), "no {part} of a run that runs: {there:?}");
    }
    drop(cluster);
    println!("    {told}: ended after {:.1} s", end.elapsed().as_secs_f64());
    let left = traces(&run)?;
    ensure!(left.is_empty(), "left on the machine: {left:?}");
    killed(release)
}

/// A process that holds a cluster is killed, which no destructor sees; the cluster is gone all the same.
fn killed(release: Release) -> Result<()> {
    let state = std::env::temp_dir().join(format!("tesela-node-check-{}.json", std::process::id()));
    let told = crate::testbed::begin(&state, &Wanted { release, nodes: Some(1) })?;
    let folder = told["folder"].as_str().context("no folder")?;
    let run = folder.rsplit('/').next().context("no name")?.to_owned();
    ensure!(!traces(&run)?.is_empty(), "no trace of a run that runs");
    crate::testbed::end(&told)?;
    let left = traces(&run)?;
    ensure!(left.is_empty(), "left on the machine by a killed run: {left:?}");
    std::fs::remove_file(&state)?;
    std::fs::remove_file(state.with_extension("log"))?;
    println!("    Kubernetes {}: killed, and nothing is left", release.version()?);
    Ok(())
}

/// A device plugin beside a node, ended when dropped.
struct Plugin(Child);

impl Drop for Plugin {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Stage {
    plugin: std::path::PathBuf,
}

impl Stage {
    fn devices(&self, cluster: &mut Cluster) -> Result<()> {
        let mut plugins = Vec::new();
        for (index, node) in cluster.nodes().iter().enumerate() {
            let ids = [0, 1].map(|device| format!("GPU-{index}-{device}"));
            std::fs::write(node.cdi_folder().join("testbed.json"), specification(&ids)?)?;
            plugins.push(self.serve(&node.kubelet_folder().join("device-plugins"), &ids)?);
        }
        for name in ["n1", "n2"] {
            allocatable(cluster, name, "2")?;
            cluster.api().create("/api/v1/namespaces/default/pods", &pod(name))?;
        }
        let mut holders = Vec::new();
        for name in ["n1", "n2"] {
            running(cluster, name)?;
            holders.push(self.holds(cluster, name)?);
        }
        ensure!(holders[0].starts_with("GPU-0-") && holders[1].starts_with("GPU-1-"), "{holders:?}");
        self.kubelet_restart(cluster)?;
        // The plugins' connections end with the kubelets'.
        drop(plugins);
        allocatable(cluster, "n1", "0")?;
        cluster.check()
    }

    fn serve(&self, folder: &Path, ids: &[String]) -> Result<Plugin> {
        let mut command = Command::new(&self.plugin);
        command.arg("serve").arg(folder).arg(RESOURCE).args(ids).env("CDI", CDI);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        Ok(Plugin(child.context("cannot start the device plugin")?))
    }

    /// The device that the pod of a node holds: PodResources, the container's environment and CDI's all say the same.
    fn holds(&self, cluster: &mut Cluster, name: &str) -> Result<String> {
        let socket = cluster.nodes().iter().find(|node| node.name() == name).context("no such node")?;
        let socket = socket.kubelet_folder().join("pod-resources/kubelet.sock");
        let ask = |what: &str| -> Result<Value> {
            let told = Command::new(&self.plugin).arg(what).arg(&socket).output()?;
            ensure!(told.status.success(), "{what}: {}", String::from_utf8_lossy(&told.stderr));
            serde_json::from_slice(&told.stdout).context("PodResources: no JSON")
        };
        let listed = ask("list")?;
        let found = listed["pod_resources"].as_array().into_iter().flatten().find(|pod| pod["name"] == name);
        let device = found.and_then(|pod| pod["containers"][0]["devices"][0]["device_ids"][0].as_str());
        let device = device.with_context(|| format!("PodResources of {name} names no device: {listed}"))?;
        let known = ask("allocatable")?;
        let offered = known["devices"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|entry| entry["resource_name"] == RESOURCE);
        ensure!(offered.count() > 0, "PodResources of {name} knows no allocatable device: {known}");
        let log = cluster.kubectl().call(&["logs", name])?;
        for line in [format!("env NVIDIA_VISIBLE_DEVICES={device}"), format!("env TESTBED_CDI={device}")] {
            ensure!(log.lines().any(|told| told == line), "the container of {name} lacks `{line}`:\n{log}");
        }
        Ok(device.to_owned())
    }

    /// Containers outlive their kubelet, and the next one finds them and their devices.
    fn kubelet_restart(&self, cluster: &mut Cluster) -> Result<()> {
        let before = container(cluster, "n1")?;
        let node = cluster.nodes().first_mut().context("no node")?;
        node.stop_kubelet()?;
        node.start_kubelet()?;
        allocatable(cluster, "n1", "2")?;
        let after = container(cluster, "n1")?;
        ensure!(before == after, "the container was not left alone: {before} became {after}");
        self.holds(cluster, "n1").map(|_| ())
    }
}

/// Each device as an environment variable and nothing else: what a container got shows in its log.
fn specification(ids: &[String]) -> Result<String> {
    let device = |id: &String| json!({"name": id, "containerEdits": {"env": [format!("TESTBED_CDI={id}")]}});
    let devices = ids.iter().map(device).collect::<Vec<_>>();
    Ok(serde_json::to_string_pretty(&json!({"cdiVersion": "0.6.0", "kind": CDI, "devices": devices}))?)
}

/// A pod of one device on the node of its name.
fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": name}, "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "main", "image": NodeBinaries::IMAGE, "imagePullPolicy": "Never",
                "args": ["show"], "resources": {"limits": {RESOURCE: "1"}},
            }],
        },
    })
}

fn allocatable(cluster: &mut Cluster, node: &str, amount: &str) -> Result<()> {
    let api = cluster.api();
    until(&format!("{amount} {RESOURCE} on {node}"), LIMIT, |seen| {
        cluster.check()?;
        let now = api.get(&format!("/api/v1/nodes/{node}"))?["status"]["allocatable"][RESOURCE].clone();
        *seen = now.to_string();
        Ok((now == amount).then_some(()))
    })
}

fn running(cluster: &mut Cluster, pod: &str) -> Result<()> {
    let api = cluster.api();
    until(&format!("pod {pod} Running"), LIMIT, |seen| {
        cluster.check()?;
        let pod = api.get(&format!("/api/v1/namespaces/default/pods/{pod}"))?;
        *seen = pod["status"].to_string();
        Ok((pod["status"]["phase"] == "Running").then_some(()))
    })
}

/// Container id and restart count of a pod.
fn container(cluster: &Cluster, pod: &str) -> Result<Value> {
    let pod = cluster.api().get(&format!("/api/v1/namespaces/default/pods/{pod}"))?;
    let status = &pod["status"]["containerStatuses"][0];
    Ok(json!([status["containerID"], status["restartCount"]]))
}

/// What on the machine carries the name of a run: mounts, cgroups, its folder, and processes by what they were started with.
fn traces(run: &str) -> Result<Vec<String>> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").context("cannot read mounts")?;
    let mut all = mounts
        .lines()
        .filter(|line| line.contains(run))
        .map(|line| format!("mount {line}"))
        .collect::<Vec<_>>();
    let mut folders = vec![std::env::temp_dir()];
    for entry in std::fs::read_dir("/sys/fs/cgroup").context("no cgroups")? {
        folders.push(entry?.path());
    }
    let here = folders.into_iter().map(|folder| folder.join(run)).filter(|folder| folder.exists());
    all.extend(here.map(|folder| folder.display().to_string()));
    for entry in std::fs::read_dir("/proc").context("no /proc")? {
        // A process may end meanwhile.
        let words = std::fs::read(entry?.path().join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        if words.contains(run) {
            all.push(format!("process {words}"));
        }
    }
    Ok(all)
}
