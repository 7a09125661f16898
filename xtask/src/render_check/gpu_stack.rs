//! A stand-in for what carries node steps out: NVIDIA's MIG Manager and device plugin, or the Tesela agent.
//!
//! It does what they do as far as the API server sees it: reads the ConfigMaps of the cluster, those that the ClusterPolicy
//! names, finds the entries that a node's labels name, and writes what the node then offers and the state of the change. It
//! knows nothing of the plan but how many GPUs a node has.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tesela_formats::{device_plugin, mig_parted};
use tesela_model::product::ProfileName;
use tesela_model::resource::GpuResource;
use tesela_testbed::{Api, Patch};

use super::seed::{items, name};

const MIG: &str = "nvidia.com/mig.config";
const STATE: &str = "nvidia.com/mig.config.state";
const PLUGIN: &str = "nvidia.com/device-plugin.config";
const STRATEGY: &str = "nvidia.com/mig.strategy";

/// Devices before they are shared: units by resource name.
type Devices = BTreeMap<String, u64>;

/// What the stand-in knows of a node.
#[derive(Clone, Debug)]
struct Known {
    gpus: u32,
    /// Labels at the start, and what the node offered then.
    mig: String,
    plugin: String,
    offered: Devices,
}

/// The stand-in, at work in the background until the cluster ends.
#[derive(Clone)]
pub(super) struct GpuStack {
    api: Api,
    namespace: String,
    /// Whether the ClusterPolicy says which ConfigMaps are read; else all of the namespace are.
    policy: bool,
    known: BTreeMap<String, Known>,
    faults: Arc<Mutex<Vec<String>>>,
}

impl GpuStack {
    /// `gpus`: how many GPUs each node has.
    pub(super) fn start(
        api: Api,
        namespace: &str,
        policy: bool,
        gpus: &BTreeMap<String, u32>,
    ) -> Result<Self> {
        let mut known = BTreeMap::new();
        for node in items(&api.get("/api/v1/nodes")?) {
            let Some(gpus) = gpus.get(&name(node)) else { continue };
            let now = Known {
                gpus: *gpus,
                mig: label(node, MIG),
                plugin: label(node, PLUGIN),
                offered: offered(node),
            };
            known.insert(name(node), now);
        }
        let stack = Self { api, namespace: namespace.to_owned(), policy, known, faults: Arc::default() };
        let works = stack.clone();
        std::thread::spawn(move || {
            let mut done = BTreeMap::new();
            while works.api.watch("/api/v1/nodes", |event| works.see(&mut done, &event["object"])).is_ok() {}
        });
        Ok(stack)
    }

    /// What went wrong.
    pub(super) fn faults(&self) -> Vec<String> {
        self.faults.lock().map(|faults| faults.clone()).unwrap_or_default()
    }

    /// Looks at a node; acts when its labels ask for something else than was done last.
    fn see(&self, done: &mut BTreeMap<String, (String, String)>, node: &Value) -> bool {
        let Some(known) = self.known.get(&name(node)) else { return true };
        let wanted = (label(node, MIG), label(node, PLUGIN));
        let last = done.entry(name(node)).or_insert_with(|| (known.mig.clone(), known.plugin.clone()));
        if *last == wanted {
            return true;
        }
        let mig_changes = last.0 != wanted.0;
        *last = wanted.clone();
        if let Err(error) = self.act(node, known, &wanted, mig_changes)
            && let Ok(mut faults) = self.faults.lock()
        {
            faults.push(format!("node {}: {error:#}", name(node)));
        }
        true
    }

    fn act(&self, node: &Value, known: &Known, wanted: &(String, String), mig_changes: bool) -> Result<()> {
        let path = format!("/api/v1/nodes/{}", name(node));
        let state = |value: &str| {
            self.api.patch(&path, Patch::Merge, &json!({"metadata": {"labels": {STATE: value}}})).map(|_| ())
        };
        if mig_changes && !wanted.0.is_empty() {
            state("pending")?;
        }
        let offers = self.offers(node, known, wanted)?;
        self.check_holders(node, &offers)?;
        // A name that is no longer offered stays with 0, as the kubelet leaves it.
        let mut amounts = offered(node).into_keys().map(|name| (name, 0)).collect::<Devices>();
        amounts.extend(offers);
        let amounts = amounts.into_iter().map(|(name, amount)| (name, json!(amount.to_string())));
        let amounts = Value::Object(amounts.collect());
        let status = json!({"status": {"capacity": amounts, "allocatable": amounts}});
        self.api.patch(&format!("{path}/status"), Patch::Merge, &status)?;
        if mig_changes && !wanted.0.is_empty() {
            state("success")?;
        }
        Ok(())
    }

    /// What a node offers under two labels.
    fn offers(&self, node: &Value, known: &Known, (mig, plugin): &(String, String)) -> Result<Devices> {
        if (mig, plugin) == (&known.mig, &known.plugin) {
            return Ok(known.offered.clone());
        }
        let strategy = |config: Option<&device_plugin::Config>| {
            let own = config.and_then(|config| config.flags.mig_strategy.as_ref());
            own.map_or_else(|| label(node, STRATEGY), |strategy| strategy.value.word().to_owned())
        };
        let config = self.plugin_config(plugin)?;
        let devices = if *mig == known.mig {
            let before = self.plugin_config(&known.plugin)?;
            unshared(&known.offered, before.as_ref())
        } else if mig.is_empty() {
            bail!("{MIG} is gone: nobody can tell what the node has then")
        } else {
            cut(&self.mig_label(mig)?, known.gpus, &strategy(config.as_ref()))?
        };
        Ok(shared(devices, config.as_ref()))
    }

    /// No device may go while a pod that is not ending holds it.
    fn check_holders(&self, node: &Value, offers: &Devices) -> Result<()> {
        let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{}", name(node));
        let mut held = Devices::new();
        let mut who = Vec::new();
        for pod in items(&self.api.get(&path)?) {
            if matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
                continue;
            }
            for container in pod["spec"]["containers"].as_array().into_iter().flatten() {
                for (resource, amount) in gpus(&container["resources"]["limits"]) {
                    *held.entry(resource).or_insert(0) += amount;
                    who.push(name(pod));
                }
            }
        }
        for (resource, amount) in held {
            let left = offers.get(&resource).copied().unwrap_or(0);
            if amount > left {
                bail!("pods hold {amount} {resource}, and {left} are left: {}", who.join(" "));
            }
        }
        Ok(())
    }

    /// The entry of the device plugin's ConfigMap under a name; without one the plugin has no file.
    fn plugin_config(&self, entry: &str) -> Result<Option<device_plugin::Config>> {
        if entry.is_empty() {
            return Ok(None);
        }
        let text = self.entry("devicePlugin", |data| data.get(entry).cloned());
        let text = text?.with_context(|| format!("no ConfigMap has the device plugin's entry `{entry}`"))?;
        let read = device_plugin::read(entry, text.as_bytes()).map_err(|told| anyhow::anyhow!("{told:?}"))?;
        Ok(Some(read.config.with_context(|| format!("the device plugin refuses `{entry}`"))?))
    }

    fn mig_label(&self, name: &str) -> Result<mig_parted::Label> {
        let mut found = None;
        self.entry("migManager", |data| {
            let text = data.get("config.yaml")?;
            let read = mig_parted::read("config.yaml", text.as_bytes()).ok()?;
            found = Some(read.config?.label(name)?.clone());
            Some(text.clone())
        })?;
        found.with_context(|| format!("no ConfigMap has the MIG label `{name}`"))
    }

    /// What `take` finds first in the ConfigMaps that the part of the GPU stack reads.
    fn entry(
        &self,
        part: &str,
        mut take: impl FnMut(&BTreeMap<String, String>) -> Option<String>,
    ) -> Result<Option<String>> {
        let maps = self.api.get(&format!("/api/v1/namespaces/{}/configmaps", self.namespace))?;
        let named = if self.policy {
            let policies = self.api.get("/apis/nvidia.com/v1/clusterpolicies")?;
            let policy = items(&policies).next().context("no ClusterPolicy")?;
            Some(policy["spec"][part]["config"]["name"].as_str().unwrap_or_default().to_owned())
        } else {
            None
        };
        for map in items(&maps).filter(|map| named.as_ref().is_none_or(|named| name(map) == *named)) {
            let data = serde_json::from_value(map["data"].clone()).unwrap_or_default();
            if let Some(found) = take(&data) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

/// The devices of a node whose GPUs are cut as a label says.
fn cut(label: &mig_parted::Label, gpus: u32, strategy: &str) -> Result<Devices> {
    let mut devices = Devices::new();
    let mut add = |resource: GpuResource, count: u32| {
        *devices.entry(resource.to_string()).or_insert(0) += u64::from(count);
    };
    for index in 0..gpus {
        let entry = label.entry_for(index, 0, None);
        let entry = entry.with_context(|| format!("GPU {index}: no entry of {}", label.name.value))?;
        if !entry.mig_enabled.value {
            add(GpuResource::gpu(), 1);
            continue;
        }
        for count in entry.mig_devices.iter().flatten() {
            add(resource(&count.profile.value, strategy)?, count.count.value);
        }
    }
    Ok(devices)
}

fn resource(profile: &ProfileName, strategy: &str) -> Result<GpuResource> {
    match strategy {
        "single" => Ok(GpuResource::gpu()),
        "mixed" => Ok(GpuResource::mig(profile.clone())),
        _ => bail!("MIG devices under the strategy `{strategy}`"),
    }
}

/// How one resource is advertised: its name and how many replicas.
fn advertised(resource: &str, config: Option<&device_plugin::Config>) -> (String, u64) {
    let active = config.and_then(|config| config.sharing.active());
    let found = active.and_then(|all| {
        let found = all.resources.iter().find(|found| found.name.value.as_str() == resource)?;
        let renamed = all.rename_by_default.as_ref().is_some_and(|rename| rename.value);
        let name = if renamed { found.name.value.shared() } else { resource.to_owned() };
        Some((name, u64::from(found.replicas.value)))
    });
    found.unwrap_or_else(|| (resource.to_owned(), 1))
}

fn shared(devices: Devices, config: Option<&device_plugin::Config>) -> Devices {
    let mut offers = Devices::new();
    for (resource, count) in devices {
        let (name, replicas) = advertised(&resource, config);
        *offers.entry(name).or_insert(0) += count * replicas;
    }
    offers
}

/// The devices behind what is offered under a config.
fn unshared(offers: &Devices, config: Option<&device_plugin::Config>) -> Devices {
    let mut devices = Devices::new();
    for (offer, count) in offers.iter().filter(|(_, count)| **count > 0) {
        let base = offer.strip_suffix(".shared").unwrap_or(offer);
        let (name, replicas) = advertised(base, config);
        let replicas = if name == *offer { replicas } else { 1 };
        *devices.entry(base.to_owned()).or_insert(0) += count / replicas;
    }
    devices
}

fn label(node: &Value, key: &str) -> String {
    node["metadata"]["labels"][key].as_str().unwrap_or_default().to_owned()
}

fn offered(node: &Value) -> Devices {
    gpus(&node["status"]["allocatable"]).collect()
}

/// The GPU resources among amounts.
pub(super) fn gpus(amounts: &Value) -> impl Iterator<Item = (String, u64)> {
    amounts.as_object().into_iter().flatten().filter_map(|(name, amount)| {
        let ours = name == "nvidia.com/gpu"
            || name.starts_with("nvidia.com/gpu.")
            || name.starts_with("nvidia.com/mig-");
        Some((name.clone(), amount.as_str()?.parse().ok()?)).filter(|_| ours)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices(pairs: &[(&str, u64)]) -> Devices {
        pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    fn plugin(text: &str) -> device_plugin::Config {
        device_plugin::read("test", text.as_bytes()).unwrap().config.unwrap()
    }

    #[test]
    fn a_label_is_cut_into_devices() {
        let text = "version: v1\nmig-configs:\n  a:\n  - {devices: [0, 1], mig-enabled: true, mig-devices: {1g.10gb: 2, 1g.10gb+me: 1}}\n  - {devices: [2], mig-enabled: false}\n";
        let config = mig_parted::read("test", text.as_bytes()).unwrap().config.unwrap();
        let label = config.label("a").unwrap();
        let mixed = devices(&[
            ("nvidia.com/gpu", 1),
            ("nvidia.com/mig-1g.10gb", 4),
            ("nvidia.com/mig-1g.10gb.me", 2),
        ]);
        assert_eq!(cut(label, 3, "mixed").unwrap(), mixed);
        assert!(cut(label, 4, "mixed").is_err(), "GPU 3 has no entry");
        assert!(cut(label, 3, "none").is_err());
    }

    #[test]
    fn sharing_and_back() {
        let text = "version: v1\nsharing:\n  timeSlicing:\n    renameByDefault: true\n    resources: [{name: nvidia.com/gpu, replicas: 4}]\n";
        let config = plugin(text);
        let whole = devices(&[("nvidia.com/gpu", 3), ("nvidia.com/mig-1g.10gb", 2)]);
        let offers = shared(whole.clone(), Some(&config));
        assert_eq!(offers, devices(&[("nvidia.com/gpu.shared", 12), ("nvidia.com/mig-1g.10gb", 2)]));
        assert_eq!(unshared(&offers, Some(&config)), whole);
        let same_name = plugin(&text.replace("    renameByDefault: true\n", ""));
        assert_eq!(
            unshared(&devices(&[("nvidia.com/gpu", 12)]), Some(&same_name)),
            devices(&[("nvidia.com/gpu", 3)])
        );
    }
}
