//! A small cluster: nodes, controllers, a scheduler and an executor, asked through a `kubectl` that is a script.
//!
//! The script hands its arguments to this process over a socket, so the cluster sees each call while it is made,
//! and notes who restarts in which step and who has how many ready pods.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// Sends its folder and arguments, prints the answer.
pub(crate) const KUBECTL: &str = r#"#!/usr/bin/env bash
exec 3<>"/dev/tcp/127.0.0.1/$PAPER_PORT"
printf '%s\0' "$(($# + 1))" "$PWD" "$@" >&3
IFS= read -r code <&3
cat <&3
exit "$code"
"#;

#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub(crate) cordoned: bool,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    pub(crate) allocatable: BTreeMap<String, u64>,
    /// What it offers once its labels have changed.
    pub(crate) next: BTreeMap<String, u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) namespace: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    hash: String,
    replicas: usize,
    resource: String,
    units: u64,
    selector: BTreeMap<String, String>,
    generation: u32,
    /// Resource and generation that its controller has seen: of these it makes pods.
    seen: (String, u32),
    created: u32,
    /// Whether its pods never become ready.
    broken: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Pod {
    name: String,
    work: usize,
    node: Option<String>,
    resource: String,
    units: u64,
    generation: u32,
    /// Whether it ran before the first step.
    original: bool,
    /// No two pods have the same, also those of one name.
    uid: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Cluster {
    pub(crate) nodes: BTreeMap<String, Node>,
    pub(crate) works: Vec<Workload>,
    pods: Vec<Pod>,
    /// How many pods there ever were.
    uids: u32,
    /// Pods of before the first step that were stopped since `begin`, as namespace/name.
    pub(crate) restarted: BTreeSet<String>,
    /// Least number of ready pods since `begin`, by work.
    pub(crate) least: BTreeMap<usize, usize>,
    pub(crate) faults: Vec<String>,
}

const GPUS: &str = "nvidia.com/";

fn texts(value: &Value) -> BTreeMap<String, String> {
    let map = value.as_object().into_iter().flatten();
    map.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect()
}

impl Cluster {
    /// What `kubectl get nodes,pods -A -o json` printed.
    pub(crate) fn read(list: &Value) -> Self {
        let mut cluster = Self::default();
        for item in list["items"].as_array().unwrap() {
            match item["kind"].as_str().unwrap() {
                "Node" => cluster.add_node(item),
                "Pod" => cluster.add_pod(item),
                _ => {}
            }
        }
        cluster.settle();
        cluster.begin();
        cluster
    }

    fn add_node(&mut self, item: &Value) {
        let allocatable = texts(&item["status"]["allocatable"]);
        let gpus = allocatable.iter().filter(|(k, _)| k.starts_with(GPUS));
        let node = Node {
            labels: texts(&item["metadata"]["labels"]),
            allocatable: gpus.map(|(k, v)| (k.clone(), v.parse().unwrap())).collect(),
            ..Node::default()
        };
        self.nodes.insert(item["metadata"]["name"].as_str().unwrap().to_owned(), node);
    }

    fn add_pod(&mut self, item: &Value) {
        let phase = item["status"]["phase"].as_str().unwrap();
        let namespace = item["metadata"]["namespace"].as_str().unwrap();
        let containers = item["spec"]["containers"].as_array().unwrap();
        let limits = containers.iter().flat_map(|c| texts(&c["resources"]["limits"]));
        let Some((resource, units)) = limits.into_iter().find(|(k, _)| k.starts_with(GPUS)) else { return };
        if matches!(phase, "Succeeded" | "Failed") || namespace == "gpu-operator" {
            return;
        }
        let name = item["metadata"]["name"].as_str().unwrap().to_owned();
        let owner = &item["metadata"]["ownerReferences"][0];
        let kind = owner["kind"].as_str().unwrap_or("Pod").to_owned();
        let hash = item["metadata"]["labels"]["pod-template-hash"].as_str().unwrap_or_default().to_owned();
        let owner = owner["name"].as_str().unwrap_or(&name);
        let owner = owner.strip_suffix(&format!("-{hash}")).unwrap_or(owner).to_owned();
        let units: u64 = units.parse().unwrap();
        let node = item["spec"]["nodeName"].as_str().map(str::to_owned);
        let same = |w: &Workload| w.namespace == namespace && w.kind == kind && w.name == owner;
        let work = self.works.iter().position(same).unwrap_or_else(|| {
            self.works.push(Workload {
                namespace: namespace.to_owned(),
                kind: kind.clone(),
                name: owner.clone(),
                hash,
                replicas: 0,
                resource: resource.clone(),
                units,
                selector: texts(&item["spec"]["nodeSelector"]),
                generation: 0,
                seen: (resource.clone(), 0),
                created: 0,
                broken: phase == "Pending" && node.is_some(),
            });
            self.works.len() - 1
        });
        self.works[work].replicas += 1;
        let (original, uid) = (node.is_some(), self.next_uid());
        self.pods.push(Pod { name, work, node, resource, units, generation: 0, original, uid });
    }

    /// The nodes on which a workload runs.
    pub(crate) fn nodes_of(&self, name: &str) -> Vec<String> {
        let mine = self.pods.iter().filter(|p| self.works[p.work].name == name);
        mine.filter_map(|p| p.node.clone()).collect()
    }

    /// Somebody deletes a workload.
    pub(crate) fn delete(&mut self, namespace: &str, name: &str) {
        let work = self.works.iter().position(|w| w.namespace == namespace && w.name == name).unwrap();
        self.works[work].replicas = 0;
        self.pods.retain(|p| p.work != work);
        self.settle();
        self.begin();
    }

    /// A step begins.
    pub(crate) fn begin(&mut self) {
        self.restarted.clear();
        self.least = (0..self.works.len()).map(|w| (w, self.ready(w))).collect();
    }

    pub(crate) fn ready(&self, work: usize) -> usize {
        if self.works[work].broken {
            return 0;
        }
        self.pods.iter().filter(|p| p.work == work && p.node.is_some()).count()
    }

    /// Ready pods of the generation that its object has now.
    pub(crate) fn renewed(&self, work: usize) -> usize {
        let generation = self.works[work].generation;
        let new = |p: &&Pod| p.work == work && p.node.is_some() && p.generation == generation;
        self.pods.iter().filter(new).count()
    }

    fn used(&self, node: &str, resource: &str) -> u64 {
        let here = |p: &&Pod| p.node.as_deref() == Some(node) && p.resource == resource;
        self.pods.iter().filter(here).map(|p| p.units).sum()
    }

    fn name(&self, pod: &Pod) -> String {
        format!("{}/{}", self.works[pod.work].namespace, pod.name)
    }

    /// Stops a pod.
    fn stop(&mut self, index: usize) {
        let pod = self.pods.remove(index);
        if pod.original {
            self.restarted.insert(self.name(&pod));
        }
        let work = pod.work;
        self.least.insert(work, self.least[&work].min(self.ready(work)));
    }

    fn create(&mut self, work: usize, name: String) {
        let task = &self.works[work];
        let ((resource, generation), units) = (task.seen.clone(), task.units);
        let uid = self.next_uid();
        self.pods.push(Pod { name, work, node: None, resource, units, generation, original: false, uid });
        self.schedule();
    }

    fn next_uid(&mut self) -> u32 {
        self.uids += 1;
        self.uids
    }

    /// Gives each waiting pod the first node that is open, selected and has room.
    fn schedule(&mut self) {
        for index in 0..self.pods.len() {
            let pod = &self.pods[index];
            if pod.node.is_some() {
                continue;
            }
            let selector = &self.works[pod.work].selector;
            let fits = |(name, node): &(&String, &Node)| {
                let room = node.allocatable.get(&pod.resource).copied().unwrap_or(0);
                !node.cordoned
                    && selector.iter().all(|(k, v)| node.labels.get(k) == Some(v))
                    && self.used(name, &pod.resource) + pod.units <= room
            };
            let node = self.nodes.iter().find(fits).map(|(name, _)| name.clone());
            self.pods[index].node = node;
        }
    }

    /// Controllers and scheduler until nothing changes.
    fn settle(&mut self) {
        self.schedule();
        while (0..self.works.len()).any(|w| self.control(w)) {}
    }

    /// One act of a workload's controller; whether it did something.
    fn control(&mut self, work: usize) -> bool {
        let task = self.works[work].clone();
        let mine: Vec<usize> = (0..self.pods.len()).filter(|p| self.pods[*p].work == work).collect();
        let old = |p: &&usize| self.pods[**p].generation != task.seen.1;
        let waits = |p: &&usize| self.pods[**p].node.is_none();
        if task.kind == "StatefulSet" {
            for ordinal in 0..task.replicas {
                let name = format!("{}-{ordinal}", task.name);
                let Some(index) = mine.iter().find(|p| self.pods[**p].name == name) else {
                    self.create(work, name);
                    return true;
                };
                // Ordered and ready: one that waits holds up all others, its update too.
                if self.pods[*index].node.is_none() {
                    return false;
                }
            }
            let last = mine.iter().filter(old).max_by_key(|p| &self.pods[**p].name);
            return last.copied().map(|p| self.stop(p)).is_some();
        }
        if let Some(index) = mine.iter().filter(old).find(waits).copied() {
            self.stop(index);
            return true;
        }
        let olds = mine.iter().filter(old).count();
        let surge = usize::from(olds > 0 && task.kind == "ReplicaSet");
        if mine.len() < task.replicas + surge && mine.len() - olds < task.replicas {
            let name = format!("{}-{}g{}-{}", task.name, task.hash, task.generation, task.created);
            self.works[work].created += 1;
            self.create(work, name);
            return true;
        }
        let ready = mine.iter().filter(|p| self.pods[**p].node.is_some()).count();
        let spare = ready > task.replicas || task.broken && mine.len() > task.replicas;
        let victim = mine.iter().find(old).copied().filter(|_| spare);
        victim.map(|p| self.stop(p)).is_some()
    }

    fn answer(&mut self, folder: &str, words: &[&str]) -> Result<String, String> {
        let after =
            |flag: &str| words.iter().position(|w| *w == flag).and_then(|i| words.get(i + 1)).copied();
        let namespace = after("-n").unwrap_or_default();
        match words {
            ["get", "node", node, ..] => Ok(self.node_field(node, words.last().unwrap())),
            ["get", "nodes", ..] => Ok(self.nodes.keys().map(|n| format!("{n} \n")).collect()),
            ["get", "pods", ..] => Ok(self.list(words)),
            ["get", "pod", name, .., "jsonpath={.metadata.uid}"] => {
                let there = self.find(namespace, name).map(|pod| self.pods[pod].uid.to_string());
                Ok(there.unwrap_or_default())
            }
            ["get", what, ..] if what.starts_with("clusterpolic") => {
                let name = words.last() == Some(&"name");
                Ok(if name { "clusterpolicy.nvidia.com/policy".to_owned() } else { String::new() })
            }
            ["get", "resourcequota" | "namespace", ..] => Ok(String::new()),
            ["get", object, .., fields] if fields.ends_with("{.status.observedGeneration}") => {
                let work = self.work(object, namespace).ok_or("no such object")?;
                let told = format!("{} {}", self.works[work].generation + 1, self.works[work].seen.1 + 1);
                self.see(work);
                Ok(told)
            }
            ["get", object, ..] => self.object(folder, object, namespace, words),
            ["patch", object, ..] if object.contains(".apps/") => {
                self.patch(object, namespace, after("-p").unwrap())
            }
            ["rollout", "status", object, ..] => {
                let work = self.work(object, namespace).ok_or("no such object")?;
                self.see(work);
                let done = self.renewed(work) == self.works[work].replicas
                    && self.pods.iter().filter(|p| p.work == work).count() == self.works[work].replicas;
                if done { Ok(String::new()) } else { Err(format!("{object} is not rolled out")) }
            }
            ["create", "--raw", path, ..] => {
                let mut parts = path.split('/').skip(4);
                let (namespace, name) = (parts.next().unwrap(), parts.nth(1).unwrap());
                self.remove(namespace, name)
            }
            ["delete", "pod", name, ..] => self.remove(namespace, name),
            ["cordon", node] => self.cordon(node, true),
            ["uncordon", node] => self.cordon(node, false),
            ["label", "node", node, pairs @ ..] => self.label(node, pairs),
            ["annotate", "node", node, pairs @ ..] => {
                let node = self.nodes.get_mut(*node).ok_or("no such node")?;
                write(&mut node.annotations, pairs);
                Ok(String::new())
            }
            // By name: it cannot tell a pod from the next of its name.
            ["wait", "--for=delete", pod, ..] => match self.find(namespace, pod.trim_start_matches("pod/")) {
                None => Ok(String::new()),
                Some(_) => Err("timed out waiting for the condition".to_owned()),
            },
            ["wait" | "apply" | "diff" | "taint" | "annotate" | "patch", ..] => Ok(String::new()),
            _ => Err(format!("not understood: {words:?}")),
        }
    }

    fn cordon(&mut self, node: &str, cordoned: bool) -> Result<String, String> {
        self.nodes.get_mut(node).ok_or("no such node")?.cordoned = cordoned;
        self.settle();
        Ok(String::new())
    }

    fn find(&self, namespace: &str, name: &str) -> Option<usize> {
        self.pods.iter().position(|p| p.name == name && self.works[p.work].namespace == namespace)
    }

    fn remove(&mut self, namespace: &str, name: &str) -> Result<String, String> {
        let index = self.find(namespace, name).ok_or("no such pod")?;
        self.stop(index);
        self.settle();
        Ok(String::new())
    }

    /// Labels a node; NVIDIA's labels make it offer what comes next at once. Who still holds what is no longer
    /// offered then has lost its device.
    fn label(&mut self, name: &str, pairs: &[&str]) -> Result<String, String> {
        let node = self.nodes.get_mut(name).ok_or("no such node")?;
        write(&mut node.labels, pairs);
        let acts = |p: &&str| p.starts_with("nvidia.com/") && !p.starts_with("nvidia.com/gpu.");
        if pairs.iter().any(acts) {
            node.labels.insert("nvidia.com/mig.config.state".to_owned(), "success".to_owned());
            node.allocatable = node.next.clone();
            let offers = node.allocatable.clone();
            let here = self.pods.iter().filter(|p| p.node.as_deref() == Some(name));
            let lost: Vec<String> =
                here.filter(|p| !offers.contains_key(&p.resource)).map(|p| self.name(p)).collect();
            self.faults.extend(lost.into_iter().map(|p| format!("{p} loses its device on {name}")));
        }
        self.settle();
        Ok(String::new())
    }

    fn node_field(&self, node: &str, template: &str) -> String {
        let Some(node) = self.nodes.get(node) else { return String::new() };
        let key = template.split("index . \"").nth(1).and_then(|rest| rest.split('"').next());
        let value = |map: &BTreeMap<String, String>| map.get(key.unwrap()).cloned().unwrap_or_default();
        if template.contains(".metadata.labels") {
            value(&node.labels)
        } else if template.contains(".metadata.annotations") {
            value(&node.annotations)
        } else if template.contains(".spec.unschedulable") {
            if node.cordoned { "yes".to_owned() } else { String::new() }
        } else {
            node.allocatable.iter().map(|(k, v)| format!("{k}={v}\n")).collect()
        }
    }

    /// The lines that the scripts' template for pods prints.
    fn list(&self, words: &[&str]) -> String {
        let after =
            |flag: &str| words.iter().position(|w| *w == flag).and_then(|i| words.get(i + 1)).copied();
        let selector = after("--field-selector").unwrap_or_default();
        let node = selector.split(',').find_map(|s| s.strip_prefix("spec.nodeName="));
        let mut lines = String::new();
        for pod in &self.pods {
            let work = &self.works[pod.work];
            if after("-n").is_some_and(|n| n != work.namespace)
                || node.is_some() && pod.node.as_deref() != node
            {
                continue;
            }
            let state = match &pod.node {
                None => "unbound",
                Some(_) if work.broken => "Pending",
                Some(_) => "Running+",
            };
            let (owner, hash) = match work.hash.as_str() {
                "" => (work.name.clone(), "-"),
                hash => (format!("{}-{hash}", work.name), hash),
            };
            lines.push_str(&format!(
                "{} {} {state} {} {owner} {hash} c:cpu=4 c:{}={}\n",
                work.namespace, pod.name, work.kind, pod.resource, pod.units
            ));
        }
        lines
    }

    fn work(&self, object: &str, namespace: &str) -> Option<usize> {
        let (kind, name) = object.split_once('/')?;
        let kind = match kind {
            "deployments.apps" => "ReplicaSet",
            "statefulsets.apps" => "StatefulSet",
            "jobs.batch" => "Job",
            other => other,
        };
        self.works.iter().position(|w| w.namespace == namespace && w.kind == kind && w.name == name)
    }

    /// `get` of a workload: its name, or the patch that our template would print.
    fn object(&self, folder: &str, object: &str, namespace: &str, words: &[&str]) -> Result<String, String> {
        let Some(work) = self.work(object, namespace) else { return Ok(String::new()) };
        let file = words.last().and_then(|w| w.strip_prefix("go-template-file="));
        let Some(file) = file else { return Ok(object.to_owned()) };
        #[expect(clippy::disallowed_methods, reason = "a test's own files, under the target folder")]
        let template = std::fs::read_to_string(format!("{folder}/{file}")).map_err(|e| e.to_string())?;
        let quoted = |key: &str| {
            template.split(key).nth(1).and_then(|rest| rest.split('"').next()).map(|s| s.replace("~1", "/"))
        };
        let from = quoted("index $amounts \"");
        let to = template.split("\"op\":\"add\"").nth(1).and_then(|rest| {
            rest.split("{{$part}}/").nth(1).and_then(|r| r.split('"').next()).map(|s| s.replace("~1", "/"))
        });
        match (from, to) {
            (Some(from), Some(to)) if self.works[work].resource == from => Ok(to),
            _ => Ok("[]".to_owned()),
        }
    }

    fn patch(&mut self, object: &str, namespace: &str, resource: &str) -> Result<String, String> {
        let work = self.work(object, namespace).ok_or("no such object")?;
        self.works[work].resource = resource.to_owned();
        self.works[work].generation += 1;
        // A StatefulSet's controller is slower than the next command: nobody has asked yet whether it has seen this.
        if self.works[work].kind != "StatefulSet" {
            self.see(work);
        }
        Ok(String::new())
    }

    /// The controller of a workload sees it as it is now.
    fn see(&mut self, work: usize) {
        let task = &mut self.works[work];
        task.seen = (task.resource.clone(), task.generation);
        self.settle();
    }
}

fn write(map: &mut BTreeMap<String, String>, pairs: &[&str]) {
    for pair in pairs.iter().filter(|p| !p.starts_with("--")) {
        match (pair.split_once('='), pair.strip_suffix('-')) {
            (Some((key, value)), _) => {
                map.insert(key.to_owned(), value.to_owned());
            }
            (None, Some(key)) => {
                map.remove(key);
            }
            (None, None) => {}
        }
    }
}

/// Serves the cluster on a port of this machine until the process ends.
pub(crate) fn serve(cluster: &Arc<Mutex<Cluster>>) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let cluster = Arc::clone(cluster);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            one_call(&cluster, &stream.unwrap());
        }
    });
    port
}

fn one_call(cluster: &Mutex<Cluster>, mut stream: &TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut next = || {
        let mut bytes = Vec::new();
        reader.read_until(0, &mut bytes).unwrap();
        bytes.pop();
        String::from_utf8(bytes).unwrap()
    };
    let count: usize = next().parse().unwrap();
    let words: Vec<String> = (0..count).map(|_| next()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let answer = cluster.lock().unwrap().answer(words[0], &words[1..]);
    let text = match answer {
        Ok(text) => format!("0\n{text}"),
        Err(text) => format!("1\n{text}"),
    };
    // The other end may have gone already; its exit status tells.
    let _ = stream.write_all(text.as_bytes());
}
