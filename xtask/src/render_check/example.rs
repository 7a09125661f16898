//! An example's `cluster.json` as objects that a real API server takes, with the objects that own its pods.
//!
//! kubectl's output holds pods and not what made them, so Deployments, StatefulSets, DaemonSets and Jobs are made here from
//! the pods. The pods come first, under their own names and on their own nodes; each controller then finds pods that its
//! selector matches and takes them for its own, as it does after a restart.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Map, Value, json};
use tesela_testbed::Hollow;

/// The label by which controllers find their pods.
const OWNER: &str = "testbed.tesela.dev/owner";
/// What a pod's template does not say: who the pod is, and who made it.
const OF_ONE_POD: [&str; 7] = [
    "pod-template-hash",
    "controller-revision-hash",
    "apps.kubernetes.io/pod-index",
    "statefulset.kubernetes.io/pod-name",
    "batch.kubernetes.io/job-completion-index",
    "batch.kubernetes.io/controller-uid",
    "controller-uid",
];

/// A pod to create.
pub(super) struct Pod {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) object: Value,
    /// What its kubelet said; `None` = a new kubelet will.
    pub(super) status: Option<Value>,
    /// Deleted, and its kubelet has not ended it.
    pub(super) ending: bool,
}

/// Something that owns pods.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) kind: &'static str,
    pub(super) namespace: String,
    pub(super) name: String,
    /// The path of its collection.
    pub(super) path: String,
    pub(super) object: Value,
}

/// All of an example.
pub(super) struct Example {
    pub(super) nodes: Vec<Value>,
    pub(super) namespaces: BTreeSet<String>,
    /// Service accounts beside `default`: namespace and name.
    pub(super) accounts: BTreeSet<(String, String)>,
    pub(super) priorities: BTreeMap<String, i64>,
    pub(super) pods: Vec<Pod>,
    /// In the order in which they are created.
    pub(super) owners: Vec<Owner>,
}

impl Example {
    /// Reads what kubectl printed.
    pub(super) fn read(list: &Value) -> Result<Self> {
        let items = list["items"].as_array().context("no list of kubectl")?;
        let of = |kind: &'static str| items.iter().filter(move |item| item["kind"] == kind);
        let mut example = Self {
            nodes: of("Node").map(node).collect(),
            namespaces: of("Pod").map(|pod| text(&pod["metadata"]["namespace"])).collect(),
            accounts: BTreeSet::new(),
            priorities: BTreeMap::new(),
            pods: Vec::new(),
            owners: Vec::new(),
        };
        let mut groups: BTreeMap<(String, String, String), Vec<&Value>> = BTreeMap::new();
        for pod in of("Pod") {
            example.note(pod);
            example.pods.push(self::pod(pod)?);
            if let Some(owner) = controller(pod) {
                let key = (text(&pod["metadata"]["namespace"]), text(&owner["kind"]), text(&owner["name"]));
                groups.entry(key).or_default().push(pod);
            }
        }
        // Those that wait for a node come last: what they wait for must be taken.
        example.pods.sort_by_key(|pod| pod.object["spec"]["nodeName"].is_null());
        for ((namespace, kind, name), pods) in groups {
            example.owners.extend(owners(&namespace, &kind, &name, &pods)?);
        }
        Ok(example)
    }

    /// What must be there before the pod.
    fn note(&mut self, pod: &Value) {
        if let Some(account) = pod["spec"]["serviceAccountName"].as_str()
            && account != "default"
        {
            self.accounts.insert((text(&pod["metadata"]["namespace"]), account.to_owned()));
        }
        if let (Some(class), value) = (class(pod), priority(pod)) {
            self.priorities.insert(class, value);
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The owner that controls a pod.
fn controller(pod: &Value) -> Option<&Value> {
    pod["metadata"]["ownerReferences"].as_array()?.iter().find(|owner| owner["controller"] == true)
}

fn priority(pod: &Value) -> i64 {
    pod["spec"]["priority"].as_i64().unwrap_or(0)
}

/// The pod's priority class; one of ours where only its number is known.
fn class(pod: &Value) -> Option<String> {
    if let Some(class) = pod["spec"]["priorityClassName"].as_str() {
        return Some(class.to_owned());
    }
    (priority(pod) != 0).then(|| format!("priority-{}", priority(pod)))
}

/// A node, with the CPU, memory and pods that some examples leave out.
fn node(item: &Value) -> Value {
    let mut status = item["status"].clone();
    for amounts in ["allocatable", "capacity"] {
        let mut all = status[amounts].as_object().cloned().unwrap_or_default();
        for (name, amount) in [("cpu", "64"), ("memory", "512Gi"), ("pods", "110")] {
            all.entry(name).or_insert_with(|| json!(amount));
        }
        // As on a real node: capacity and allocatable know the same names.
        for (name, amount) in item["status"]["allocatable"].as_object().into_iter().flatten() {
            all.entry(name).or_insert_with(|| amount.clone());
        }
        status[amounts] = all.into();
    }
    if status["conditions"].is_null() {
        status["conditions"] = json!([{"type": "Ready", "status": "True", "reason": "KubeletReady"}]);
    }
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": item["metadata"]["name"], "labels": item["metadata"]["labels"],
            "annotations": item["metadata"]["annotations"],
        },
        "spec": item["spec"], "status": status,
    })
}

fn pod(item: &Value) -> Result<Pod> {
    let (namespace, name) = (text(&item["metadata"]["namespace"]), text(&item["metadata"]["name"]));
    let ending = !item["metadata"]["deletionTimestamp"].is_null();
    let mut labels = item["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    let mut finalizers = Vec::new();
    if let Some(owner) = controller(item) {
        labels.insert(OWNER.to_owned(), json!(mark(&text(&owner["kind"]), &text(&owner["name"]), &labels)));
        if owner["kind"] == "Job" {
            finalizers.push("batch.kubernetes.io/job-tracking");
        }
    }
    // A pod whose status says no more than that it runs gets the whole status of one that does. One that waits for a node
    // is the scheduler's, and then a kubelet's.
    let bound = !item["spec"]["nodeName"].is_null();
    let told = bound && (!item["status"]["conditions"].is_null() || item["status"]["phase"] != "Running");
    let mut annotations = item["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    for (mark, holds) in [(Hollow::SPOKEN_FOR, told), (Hollow::AWAY, ending)] {
        if holds {
            annotations.insert(mark.to_owned(), json!("yes"));
        }
    }
    let mut spec = spec(item)?;
    spec["nodeName"] = item["spec"]["nodeName"].clone();
    let object = json!({
        "apiVersion": "v1", "kind": "Pod", "spec": spec,
        "metadata": {
            "namespace": namespace, "name": name, "labels": labels, "finalizers": finalizers,
            "annotations": annotations,
        },
    });
    let mut status = item["status"].clone();
    if let Some(status) = status.as_object_mut() {
        // The API server's own, of the pod's requests.
        status.remove("qosClass");
    }
    Ok(Pod { namespace, name, object, status: told.then_some(status), ending })
}

/// The specification that pod and template share.
fn spec(item: &Value) -> Result<Value> {
    let mut spec = item["spec"].clone();
    let all = spec.as_object_mut().context("a pod without a spec")?;
    for key in ["nodeName", "priority", "preemptionPolicy"] {
        all.remove(key);
    }
    if let Some(class) = class(item) {
        all.insert("priorityClassName".to_owned(), json!(class));
    }
    for list in ["containers", "initContainers"] {
        for (index, container) in
            all.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten().enumerate()
        {
            let container = container.as_object_mut().context("a container that is no object")?;
            container.entry("name").or_insert_with(|| json!(format!("{}-{index}", list.to_lowercase())));
            container.entry("image").or_insert_with(|| json!("registry.example.com/any:1"));
        }
    }
    Ok(spec)
}

/// The name of a Deployment, from its ReplicaSet's.
fn deployment<'a>(replica_set: &'a str, labels: &Map<String, Value>) -> Option<(&'a str, String)> {
    let hash = labels.get("pod-template-hash")?.as_str()?;
    Some((replica_set.strip_suffix(hash)?.strip_suffix('-')?, hash.to_owned()))
}

/// The value of [`OWNER`].
fn mark(kind: &str, name: &str, labels: &Map<String, Value>) -> String {
    let name = deployment(name, labels).map_or(name, |(name, _)| name);
    let mut mark = format!("{kind}-{name}");
    mark.truncate(63);
    mark.trim_end_matches(['-', '.', '_']).to_owned()
}

/// A pod's labels without those of this one pod, under the mark of its owner.
fn template_labels(pod: &Value, mark: &str) -> Map<String, Value> {
    let mut labels = pod["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    labels.retain(|key, _| !OF_ONE_POD.contains(&key.as_str()));
    labels.insert(OWNER.to_owned(), json!(mark));
    labels
}

/// What owns the pods of one controlling owner, with what owns that.
fn owners(namespace: &str, kind: &str, name: &str, pods: &[&Value]) -> Result<Vec<Owner>> {
    let first = *pods.first().context("an owner without pods")?;
    for pod in pods {
        ensure!(
            spec(pod)? == spec(first)?,
            "{namespace}/{name}: its pods differ, so no one template makes them"
        );
    }
    let labels = first["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    let mark = mark(kind, name, &labels);
    let make = Make { namespace, template: template(first, &mark)?, mark, pods };
    Ok(match kind {
        "ReplicaSet" => match deployment(name, &labels) {
            Some((deployment, hash)) => {
                vec![make.replica_set(name, Some(&hash)), make.deployment(deployment)]
            }
            None => vec![make.replica_set(name, None)],
        },
        "StatefulSet" => vec![make.stateful_set(name)?],
        "DaemonSet" => vec![make.daemon_set(name)],
        "Job" => vec![make.job(name)],
        _ => bail!("{namespace}/{name}: no way to make a {kind}"),
    })
}

fn template(pod: &Value, mark: &str) -> Result<Value> {
    Ok(json!({"metadata": {"labels": template_labels(pod, mark)}, "spec": spec(pod)?}))
}

/// What all owners of one group of pods have in common.
struct Make<'a> {
    namespace: &'a str,
    mark: String,
    template: Value,
    pods: &'a [&'a Value],
}

impl Make<'_> {
    fn owner(&self, kind: &'static str, group: &str, collection: &str, name: &str, mut spec: Value) -> Owner {
        let namespace = self.namespace.to_owned();
        if spec["selector"].is_null() {
            spec["selector"] = json!({"matchLabels": {OWNER: self.mark}});
        }
        let object = json!({
            "apiVersion": group, "kind": kind,
            "metadata": {"namespace": namespace, "name": name, "labels": {OWNER: self.mark}},
            "spec": spec,
        });
        let path = format!("/apis/{group}/namespaces/{namespace}/{collection}");
        Owner { kind, namespace, name: name.to_owned(), path, object }
    }

    fn replica_set(&self, name: &str, hash: Option<&str>) -> Owner {
        let mut template = self.template.clone();
        let mut labels = json!({OWNER: self.mark});
        if let Some(hash) = hash {
            labels["pod-template-hash"] = json!(hash);
            template["metadata"]["labels"]["pod-template-hash"] = json!(hash);
        }
        let spec = json!({
            "replicas": self.pods.len(), "template": template, "selector": {"matchLabels": labels},
        });
        let mut owner = self.owner("ReplicaSet", "apps/v1", "replicasets", name, spec);
        // By its own labels a Deployment finds it.
        owner.object["metadata"]["labels"] = labels;
        owner
    }

    fn deployment(&self, name: &str) -> Owner {
        // Until it has found its ReplicaSet it would make another.
        let spec = json!({"replicas": self.pods.len(), "template": self.template, "paused": true});
        self.owner("Deployment", "apps/v1", "deployments", name, spec)
    }

    fn stateful_set(&self, name: &str) -> Result<Owner> {
        let mut replicas = 0;
        for pod in self.pods {
            let pod = text(&pod["metadata"]["name"]);
            let ordinal = pod.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
            let ordinal = ordinal.and_then(|digits| digits.parse::<u64>().ok());
            replicas = replicas.max(ordinal.with_context(|| format!("{pod} is no pod of {name}"))? + 1);
        }
        // Until its pods carry its revision, it would take them for old ones.
        let spec = json!({
            "replicas": replicas, "serviceName": name, "template": self.template,
            "updateStrategy": {"type": "OnDelete"},
        });
        Ok(self.owner("StatefulSet", "apps/v1", "statefulsets", name, spec))
    }

    fn daemon_set(&self, name: &str) -> Owner {
        let nodes = self.pods.iter().map(|pod| text(&pod["spec"]["nodeName"])).collect::<BTreeSet<_>>();
        let term = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": nodes});
        let mut template = self.template.clone();
        template["spec"]["affinity"] = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [term]}],
            },
        }});
        let spec = json!({"template": template, "updateStrategy": {"type": "OnDelete"}});
        self.owner("DaemonSet", "apps/v1", "daemonsets", name, spec)
    }

    fn job(&self, name: &str) -> Owner {
        let count = |phases: &[&str]| {
            let phase = |pod: &Value| text(&pod["status"]["phase"]);
            self.pods.iter().filter(|pod| phases.contains(&phase(pod).as_str())).count()
        };
        let active = count(&["Running", "Pending"]);
        let mut template = self.template.clone();
        if !matches!(template["spec"]["restartPolicy"].as_str(), Some("Never" | "OnFailure")) {
            template["spec"]["restartPolicy"] = json!("OnFailure");
        }
        // As many at once as there are, so that nothing is made in the place of one that failed.
        let spec = json!({
            "parallelism": active, "completions": (active + count(&["Succeeded"])).max(1),
            "backoffLimit": 100, "manualSelector": true, "template": template,
        });
        self.owner("Job", "batch/v1", "jobs", name, spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pods: &Value) -> Example {
        let mut items = pods.as_array().unwrap().clone();
        for pod in &mut items {
            pod["kind"] = json!("Pod");
            pod["metadata"]["namespace"] = json!("a");
        }
        Example::read(&json!({"items": items})).unwrap()
    }

    fn pod(name: &str, kind: &str, owner: &str, hash: Option<&str>) -> Value {
        json!({
            "metadata": {"name": name, "labels": {"app": "x", "pod-template-hash": hash},
                "ownerReferences": [{"kind": kind, "name": owner, "controller": true}]},
            "spec": {"nodeName": "n", "priority": 7, "containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
            "status": {"phase": "Running"},
        })
    }

    #[test]
    fn a_replica_set_with_a_hash_belongs_to_a_deployment_that_finds_it() {
        let example = read(&json!([
            pod("web-6f-a", "ReplicaSet", "web-6f", Some("6f")),
            pod("web-6f-b", "ReplicaSet", "web-6f", Some("6f")),
        ]));
        let [set, deployment] = &example.owners[..] else { panic!("{:?}", example.owners) };
        assert_eq!((set.name.as_str(), deployment.name.as_str()), ("web-6f", "web"));
        assert_eq!(deployment.object["spec"]["replicas"], 2);
        let mut template = set.object["spec"]["template"].clone();
        template["metadata"]["labels"].as_object_mut().unwrap().remove("pod-template-hash");
        assert_eq!(template, deployment.object["spec"]["template"], "else it rolls out anew");
        let matches = |selector: &Value, labels: &Value| {
            selector["matchLabels"].as_object().unwrap().iter().all(|(key, value)| labels[key] == *value)
        };
        let labels = &example.pods[0].object["metadata"]["labels"];
        assert!(matches(&set.object["spec"]["selector"], labels));
        assert!(matches(&deployment.object["spec"]["selector"], labels));
        assert!(matches(&deployment.object["spec"]["selector"], &set.object["metadata"]["labels"]));
    }

    #[test]
    fn a_priority_without_a_class_gets_one_and_a_container_without_an_image_too() {
        let example = read(&json!([pod("nb-0", "StatefulSet", "nb", None)]));
        assert_eq!(example.priorities["priority-7"], 7);
        let spec = &example.pods[0].object["spec"];
        assert!(spec["priority"].is_null() && spec["priorityClassName"] == "priority-7");
        assert!(spec["containers"][0]["image"].is_string() && spec["nodeName"] == "n");
        assert_eq!(example.owners[0].object["spec"]["replicas"], 1);
        assert!(example.owners[0].object["spec"]["template"]["spec"]["nodeName"].is_null());
    }

    #[test]
    fn pods_that_differ_have_no_template() {
        let mut other = pod("web-6f-b", "ReplicaSet", "web-6f", Some("6f"));
        other["spec"]["containers"][0]["image"] = json!("other");
        let items = [pod("web-6f-a", "ReplicaSet", "web-6f", Some("6f")), other].map(|mut pod| {
            pod["kind"] = json!("Pod");
            pod
        });
        assert!(Example::read(&json!({"items": items})).is_err());
    }
}
