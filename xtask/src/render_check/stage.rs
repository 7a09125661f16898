//! One example in one cluster, and the steps that are taken there.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tesela_testbed::{Api, Binaries, Cluster, Hollow, until};

use super::example::Example;
use super::gpu_stack::GpuStack;
use super::seed::{is, items, make_namespace, name, path_name, same_plan, seed};
use super::{Case, call, steps};

/// The scripts wait in steps of 5 and 10 seconds for machines; here nothing takes that long.
const SLEEP: &str = "#!/bin/sh\nexec /bin/sleep 0.3\n";
/// Seconds that a script waits for the cluster, and for an eviction.
const WAITS: [(&str, &str); 2] = [("WAIT_SECONDS", "60"), ("EVICT_SECONDS", "60")];

/// An example's cluster with the folder of its steps.
pub(super) struct Stage {
    pub(super) cluster: Cluster,
    pub(super) plan: Value,
    /// How long the control plane took to start.
    pub(super) started: Duration,
    kubelets: Hollow,
    stack: GpuStack,
    folder: PathBuf,
}

impl Stage {
    /// Starts a cluster, makes the example in it, plans and renders.
    pub(super) fn open(
        root: &Path,
        program: &str,
        binaries: &Binaries,
        case: &Case,
        target: &str,
    ) -> Result<Self> {
        let cluster = Cluster::start(binaries)?;
        let folder = cluster.folder().join("render");
        std::fs::create_dir_all(folder.join("bin"))?;
        std::os::unix::fs::symlink(binaries.program("kubectl"), folder.join("bin/kubectl"))?;
        let sleep = folder.join("bin/sleep");
        std::fs::write(&sleep, SLEEP)?;
        std::fs::set_permissions(&sleep, std::fs::Permissions::from_mode(0o755))?;

        let examples = root.join("examples").join(case.name);
        let file = examples.join("cluster.json");
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let kubelets = seed(&cluster.api(), &Example::read(&super::json(&text)?)?)?;

        let planner = Planner { program, examples: &examples, folder: &folder, case };
        let plan = planner.plan(&cluster)?;
        let namespace = planner.stack_namespace(&plan, target);
        make_namespace(&cluster.api(), &namespace)?;
        let maps = planner.config_maps(&cluster, &namespace)?;
        if target == "gpu-operator" {
            cluster_policy(&cluster, case)?;
        }
        planner.render(target, &maps)?;
        let gpus = plan["nodes"].as_array().into_iter().flatten().filter_map(|node| {
            let count = node["gpus"].as_array()?.len();
            Some((node["name"].as_str()?.to_owned(), u32::try_from(count).ok()?))
        });
        let gpus = gpus.collect::<BTreeMap<_, _>>();
        let stack = GpuStack::start(cluster.api(), &namespace, target == "gpu-operator", &gpus)?;
        let started = cluster.took();
        Ok(Self { cluster, plan, started, kubelets, stack, folder })
    }

    /// The folder of the steps.
    pub(super) fn out(&self) -> PathBuf {
        self.folder.join("steps")
    }

    pub(super) fn api(&self) -> Api {
        self.cluster.api()
    }

    /// What the README asks for before the first step.
    pub(super) fn prepare(&mut self) -> Result<()> {
        let readme = std::fs::read_to_string(self.out().join("00-README.md"))?;
        for (namespace, workload) in steps::to_scale_down(&readme) {
            let kubectl = self.cluster.kubectl();
            let words =
                ["delete", "deployment,statefulset,pod", &workload, "-n", &namespace, "--ignore-not-found"];
            kubectl.call(&words)?;
            until(&format!("the end of {namespace}/{workload}"), Duration::from_secs(60), |_| {
                let pods = self.api().get(&format!("/api/v1/namespaces/{namespace}/pods"))?;
                let left = items(&pods).any(|pod| name(pod).starts_with(&workload));
                Ok((!left).then_some(()))
            })?;
        }
        Ok(())
    }

    /// Takes a step and verifies it.
    pub(super) fn take(&mut self, step: &str) -> Result<()> {
        self.script(step, "change.sh")?;
        self.script(step, "verify.sh")?;
        self.sound(step)
    }

    /// Takes a step back.
    pub(super) fn undo(&mut self, step: &str) -> Result<()> {
        self.script(step, "undo.sh")?;
        self.sound(step)
    }

    /// Nothing is left behind but what a person is told to look at.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.sound("the end")
    }

    fn script(&self, step: &str, script: &str) -> Result<()> {
        let mut path = self.folder.join("bin").into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut command = Command::new("bash");
        command.arg(self.out().join(step).join(script)).stdin(Stdio::null());
        command.env("PATH", path).env("KUBECONFIG", self.cluster.config()).envs(WAITS);
        let told = call(command, &[0]).map_err(|error| {
            let waiting = self.waiting().unwrap_or_else(|error| format!("{error:#}"));
            error.context(format!("{step}/{script} failed; pods that are not ready:{waiting}"))
        });
        told.map(|_| ())
    }

    /// Each pod that is not ready, where it is and what it waits for.
    fn waiting(&self) -> Result<String> {
        let mut told = String::new();
        for pod in items(&self.api().get("/api/v1/pods")?).filter(|pod| !is(pod, "Ready")) {
            let labels = &pod["metadata"]["labels"];
            let conditions = pod["status"]["conditions"].as_array();
            let messages = conditions.into_iter().flatten().filter_map(|found| found["message"].as_str());
            told.push_str(&format!(
                "\n    {} on {}, {}, deleted {}, revision {}, limits {}: {}",
                path_name(pod),
                pod["spec"]["nodeName"],
                pod["status"]["phase"],
                pod["metadata"]["deletionTimestamp"],
                labels["controller-revision-hash"],
                pod["spec"]["containers"][0]["resources"]["limits"],
                messages.collect::<Vec<_>>().join("; ")
            ));
        }
        Ok(told)
    }

    /// Neither the cluster nor the stand-ins have a fault.
    fn sound(&mut self, step: &str) -> Result<()> {
        self.cluster.check()?;
        let faults = [self.kubelets.faults(), self.stack.faults()].concat();
        ensure!(faults.is_empty(), "{step}: {}", faults.join("; "));
        Ok(())
    }
}

/// Calls of `tesela` on one example.
struct Planner<'a> {
    program: &'a str,
    examples: &'a Path,
    folder: &'a Path,
    case: &'a Case,
}

impl Planner<'_> {
    fn tesela(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(self.program);
        command.args(words).current_dir(self.examples).stdin(Stdio::null());
        // 3: done in part, some pods do not fit.
        call(command, &[0, 3])
    }

    fn file(&self, name: &str) -> Result<String> {
        Ok(self.folder.join(name).to_str().context("a path that is no text")?.to_owned())
    }

    /// The plan of the cluster as it is, which is the plan of the example's file.
    fn plan(&self, cluster: &Cluster) -> Result<Value> {
        let live = cluster.kubectl().call(&["get", "nodes,pods", "-A", "-o", "json"])?;
        std::fs::write(self.folder.join("live.json"), live)?;
        let plan = |input: &str| {
            let words = [&["plan", "--format", "json", input], self.case.inputs].concat();
            self.tesela(&words)
        };
        let text = plan(&self.file("live.json")?)?;
        std::fs::write(self.folder.join("plan.json"), &text)?;
        let live = super::json(&text)?;
        same_plan(&super::json(&plan("cluster.json")?)?, &live)?;
        Ok(live)
    }

    /// Where the GPU stack of the cluster is.
    fn stack_namespace(&self, plan: &Value, target: &str) -> String {
        let found = plan["operator_namespace"].as_str().unwrap_or("gpu-operator");
        if target == "native" && self.case.config_maps.is_none() {
            "tesela-system".to_owned()
        } else {
            found.to_owned()
        }
    }

    /// The ConfigMaps that the cluster had before: files as kubectl prints them.
    fn config_maps(&self, cluster: &Cluster, namespace: &str) -> Result<Vec<String>> {
        let Some(text) = self.case.config_maps else { return Ok(Vec::new()) };
        let kubectl = cluster.kubectl();
        kubectl.give(&["create", "-n", namespace, "-f", "-"], text)?;
        let mut files = Vec::new();
        for map in items(&super::json(text)?) {
            let map = name(map);
            let text = kubectl.call(&["get", "configmap", &map, "-n", namespace, "-o", "yaml"])?;
            let file = self.file(&format!("{map}.yaml"))?;
            std::fs::write(&file, text)?;
            files.push(file);
        }
        Ok(files)
    }

    fn render(&self, target: &str, config_maps: &[String]) -> Result<()> {
        let (plan, out) = (self.file("plan.json")?, self.file("steps")?);
        let mut words = vec!["render", &plan, "--for", target, "--out", &out];
        for file in config_maps {
            words.extend(["--existing", file]);
        }
        self.tesela(&words).map(|_| ())
    }
}

/// NVIDIA's own CRD, and a policy as their chart writes it.
fn cluster_policy(cluster: &Cluster, case: &Case) -> Result<()> {
    let file = tesela_testbed::cluster_policy_crd()?;
    let kubectl = cluster.kubectl();
    let file = file.to_str().context("a path that is no text")?;
    // Server-side, because the CRD is larger than the annotation of the other way.
    kubectl.call(&["apply", "--server-side", "-f", file])?;
    let crd = "crd/clusterpolicies.nvidia.com";
    kubectl.call(&["wait", "--for=condition=Established", "--timeout=60s", crd])?;
    let named = |map: &'static str| if case.config_maps.is_some() { map } else { "" };
    let policy = json!({
        "apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"},
        "spec": {
            "operator": {}, "driver": {}, "toolkit": {}, "dcgm": {}, "dcgmExporter": {}, "gfd": {},
            "nodeStatusExporter": {}, "mig": {"strategy": "mixed"}, "daemonsets": {},
            "devicePlugin": {"config": {"name": named("plugin-configs"), "default": ""}},
            "migManager": {"config": {
                "name": if case.config_maps.is_some() { "mig-configs" } else { "default-mig-parted-config" },
                "default": "all-disabled",
            }},
        },
    });
    kubectl.give(&["create", "-f", "-"], &policy.to_string())?;
    Ok(())
}
