//! A pod of the API server → the little that is kept of it.

use std::collections::{BTreeMap, BTreeSet};

use tesela_formats::requests::utc_us;
use tesela_model::demand::{LabelOperator, LabelRule, NodeConstraints, Toleration};
use tesela_model::label;
use tesela_model::quantity::{Bytes, MilliCpu};
use tesela_model::resource::GpuResource;
use tesela_model::server::Server;
use tesela_model::usage::PodLife;

use super::server;
use super::wire::{
    Affinity, Container, ContainerStatus, LabelSelector, Metadata, Operator, PodAffinityTerm, PodSpec,
    PodStatus, Requirement, ResourceList, Resources, Toleration as WireToleration,
};

/// Longest message of a scheduler or kubelet that is kept, in characters.
const MESSAGE: usize = 240;

/// What is kept of a pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PodRecord {
    /// Node it is bound to; `None` while it waits for one, and once it has ended.
    pub(super) node: Option<String>,
    /// Requests for the CPU of its node.
    pub(super) cpu: MilliCpu,
    /// Requests for the memory of its node.
    pub(super) memory: Bytes,
    /// Whether it is a part of NVIDIA's GPU Operator or device plugin.
    pub(super) operator: bool,
    /// Whether it asks for devices through resource claims (DRA), which are not counted here.
    pub(super) claims: bool,
    /// Present when it asks for GPUs and has not ended.
    pub(super) gpu: Option<Box<GpuPod>>,
    /// Present when the kubelet refused it for good and it asks for GPUs: the kubelet's message.
    pub(super) refused: Option<String>,
    /// GPU resources it names, whatever its phase.
    pub(super) names: Vec<GpuResource>,
}

/// A pod that asks for GPUs and has not ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GpuPod {
    /// Kind of the workload.
    pub(super) kind: String,
    /// Name of the workload.
    pub(super) owner: String,
    /// Value of the tenant label, where asked for and there.
    pub(super) tenant: Option<String>,
    /// The deletionTimestamp.
    pub(super) deleted: Option<String>,
    /// Devices by resource name; the pod's request.
    pub(super) asks: BTreeMap<GpuResource, u64>,
    /// The most devices of a name that one container asks for.
    pub(super) most: BTreeMap<GpuResource, u64>,
    /// Nodes that will do.
    pub(super) constraints: NodeConstraints,
    /// 1 where the pods of the workload repel each other by host.
    pub(super) max_per_node: Option<u32>,
    /// Whether the pods of the workload must be on one host.
    pub(super) same_node: bool,
    /// `spec.priority`.
    pub(super) priority: i32,
    /// What says that it is a notebook.
    pub(super) notebook: Option<String>,
    /// When it started, in milliseconds since 1970; where the status does not say, when it was made.
    pub(super) started_ms: Option<i64>,
    /// Whether a container with GPUs, or one that must run before it, cannot start or dies again and again.
    pub(super) failing: bool,
    /// What keeps it from working.
    pub(super) trouble: Option<Trouble>,
    /// Reason and message of a failed PodScheduled condition.
    pub(super) unscheduled: Option<String>,
    /// The server it runs, where that reserves memory.
    pub(super) server: Option<Server>,
    /// Scheduling rules that bind it and that no plan looks at.
    pub(super) not_looked_at: BTreeSet<&'static str>,
}

impl GpuPod {
    /// What it says of its life.
    pub(super) fn life(&self) -> PodLife {
        PodLife { started_ms: self.started_ms, failing: self.failing }
    }
}

/// What keeps a pod that holds GPUs from using them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trouble {
    /// Every container with GPUs has ended, another one keeps the pod alive.
    Ended {
        /// Since when, where the status says.
        since: Option<String>,
        /// Containers that go on.
        others: Vec<String>,
    },
    /// A container cannot start.
    Stuck {
        /// The kubelet's reason, such as `ImagePullBackOff`; `Init:` before it for an init container.
        reason: String,
    },
    /// A container starts and dies again and again.
    Crashing {
        /// Restarts so far.
        restarts: u64,
    },
}

/// Turns a pod of the API server into its record.
pub(super) fn record(
    metadata: &Metadata,
    spec: PodSpec,
    status: &PodStatus,
    tenant: Option<&str>,
) -> PodRecord {
    let ended = matches!(status.phase.as_str(), "Succeeded" | "Failed");
    let request = request(&spec);
    let asks = positive(request.gpus);
    let operator = is_operator_pod(metadata);
    let refused = (ended && !asks.is_empty() && status.reason == "UnexpectedAdmissionError")
        .then(|| shorten(&status.message));
    let mut record = PodRecord {
        node: (!ended && !spec.node_name.is_empty()).then(|| spec.node_name.clone()),
        cpu: request.cpu.unwrap_or_default(),
        memory: request.memory.unwrap_or_default(),
        operator,
        claims: !ended && !spec.resource_claims.is_empty(),
        gpu: None,
        refused,
        names: asks.keys().cloned().collect(),
    };
    if !ended && !asks.is_empty() {
        record.gpu = Some(Box::new(gpu_pod(metadata, spec, status, asks, tenant)));
    }
    record
}

fn gpu_pod(
    metadata: &Metadata,
    spec: PodSpec,
    status: &PodStatus,
    asks: BTreeMap<GpuResource, u64>,
    tenant: Option<&str>,
) -> GpuPod {
    let (kind, owner) = owner(metadata);
    let daemon = kind == "DaemonSet";
    let repelled = daemon || repels_itself(&spec.affinity.pod_anti_affinity.required, metadata);
    let unscheduled = status.conditions.iter().find(|c| c.kind == "PodScheduled" && c.status == "False");
    let same_node = repels_itself(&spec.affinity.pod_affinity.required, metadata);
    GpuPod {
        not_looked_at: not_looked_at(&spec, repelled && !daemon, same_node),
        tenant: tenant.and_then(|key| metadata.labels.get(key)).filter(|v| !v.is_empty()).cloned(),
        deleted: metadata.deletion_timestamp.clone(),
        most: most_in_one_container(&spec),
        max_per_node: repelled.then_some(1),
        same_node,
        priority: spec.priority,
        notebook: notebook(metadata, &kind, &spec),
        started_ms: started_ms(metadata, status),
        failing: failing(&spec, status),
        trouble: trouble(&spec, status),
        unscheduled: unscheduled.map(|c| shorten(&format!("{}: {}", c.reason, c.message))),
        server: spec.containers.iter().filter(|c| asks_for_gpus(c)).find_map(server::server),
        constraints: constraints(spec.node_selector, spec.affinity, spec.tolerations, daemon),
        asks,
        kind,
        owner,
    }
}

fn started_ms(metadata: &Metadata, status: &PodStatus) -> Option<i64> {
    let times = [&status.start_time, &metadata.creation_timestamp];
    let us = times.into_iter().flatten().find_map(|text| utc_us(text))?;
    i64::try_from(us / 1000).ok()
}

fn asks_for_gpus(container: &Container) -> bool {
    !positive(requests_of(&container.resources).gpus).is_empty()
}

/// The controlling owner; a ReplicaSet's name without `-<pod-template-hash>` where the pod has that label; else
/// the pod itself (DESIGN 9).
fn owner(metadata: &Metadata) -> (String, String) {
    let Some(owner) = metadata.owner_references.iter().find(|o| o.controller == Some(true)) else {
        return ("Pod".to_owned(), metadata.name.clone());
    };
    let hash = metadata.labels.get("pod-template-hash").filter(|_| owner.kind == "ReplicaSet");
    let name = hash.and_then(|hash| owner.name.strip_suffix(hash.as_str())?.strip_suffix('-'));
    (owner.kind.clone(), name.filter(|n| !n.is_empty()).unwrap_or(&owner.name).to_owned())
}

/// Labels `app` of the GPU Operator's own pods and of its validators.
const OPERATOR_APPS: [&str; 20] = [
    "gpu-operator",
    "gpu-feature-discovery",
    "nvidia-cuda-validator",
    "nvidia-device-plugin-validator",
    "nvidia-operator-validator",
    "nvidia-device-plugin-daemonset",
    "nvidia-device-plugin-mps-control-daemon",
    "nvidia-dcgm",
    "nvidia-dcgm-exporter",
    "nvidia-mig-manager",
    "nvidia-node-status-exporter",
    "nvidia-driver-daemonset",
    "nvidia-container-toolkit-daemonset",
    "nvidia-sandbox-device-plugin-daemonset",
    "nvidia-sandbox-validator",
    "nvidia-vfio-manager",
    "nvidia-vgpu-manager-daemonset",
    "nvidia-vgpu-device-manager",
    "nvidia-kata-manager",
    "nvidia-cc-manager",
];

/// Namespaces that are the GPU Operator's by custom.
pub(super) const OPERATOR_NAMESPACES: [&str; 3] =
    ["gpu-operator", "gpu-operator-resources", "nvidia-gpu-operator"];

/// Whether a pod belongs to the GPU Operator: by its namespace, its labels, or what owns it. Its validators ask
/// for a GPU for a moment; that is no team's demand.
fn is_operator_pod(metadata: &Metadata) -> bool {
    let label = |key: &str| metadata.labels.get(key).map(String::as_str);
    OPERATOR_NAMESPACES.contains(&metadata.namespace.as_str())
        || label("app").is_some_and(|app| OPERATOR_APPS.contains(&app))
        || label("app.kubernetes.io/managed-by") == Some("gpu-operator")
        || label("app.kubernetes.io/part-of").is_some_and(|p| p == "nvidia-gpu" || p == "gpu-operator")
        || label("app.kubernetes.io/name").is_some_and(|n| n == "nvidia-device-plugin" || n == "gpu-operator")
        || metadata
            .owner_references
            .iter()
            .any(|o| matches!(o.kind.as_str(), "ClusterPolicy" | "NVIDIADriver"))
}

/// The larger of the containers with the sidecars together and of each init container with the sidecars before
/// it; pod-level requests win for CPU and memory; the overhead on top (Kubernetes: pod requests).
fn request(spec: &PodSpec) -> ResourceList {
    let mut sidecars = ResourceList::default();
    let mut peak = ResourceList::default();
    for container in &spec.init_containers {
        let asked = requests_of(&container.resources);
        if container.restart_policy == "Always" {
            add(&mut sidecars, &asked);
            largest(&mut peak, &sidecars);
        } else {
            let mut together = sidecars.clone();
            add(&mut together, &asked);
            largest(&mut peak, &together);
        }
    }
    let mut together = sidecars;
    for container in &spec.containers {
        add(&mut together, &requests_of(&container.resources));
    }
    largest(&mut peak, &together);
    let pod = requests_of(&spec.resources);
    peak.cpu = pod.cpu.or(peak.cpu);
    peak.memory = pod.memory.or(peak.memory);
    add(&mut peak, &spec.overhead);
    peak
}

/// A limit without a request counts as one, as the API server fills it in.
fn requests_of(resources: &Resources) -> ResourceList {
    let mut list = resources.requests.clone();
    list.cpu = list.cpu.or(resources.limits.cpu);
    list.memory = list.memory.or(resources.limits.memory);
    for (name, amount) in &resources.limits.gpus {
        list.gpus.entry(name.clone()).or_insert(*amount);
    }
    list
}

fn add(sum: &mut ResourceList, more: &ResourceList) {
    if let Some(MilliCpu(cpu)) = more.cpu {
        sum.cpu = Some(MilliCpu(sum.cpu.unwrap_or_default().0.saturating_add(cpu)));
    }
    if let Some(Bytes(memory)) = more.memory {
        sum.memory = Some(Bytes(sum.memory.unwrap_or_default().0.saturating_add(memory)));
    }
    for (name, amount) in &more.gpus {
        let entry = sum.gpus.entry(name.clone()).or_default();
        *entry = entry.saturating_add(*amount);
    }
}

fn largest(peak: &mut ResourceList, other: &ResourceList) {
    peak.cpu = peak.cpu.max(other.cpu);
    peak.memory = peak.memory.max(other.memory);
    for (name, amount) in &other.gpus {
        let entry = peak.gpus.entry(name.clone()).or_default();
        *entry = (*entry).max(*amount);
    }
}

fn positive(mut gpus: BTreeMap<GpuResource, u64>) -> BTreeMap<GpuResource, u64> {
    gpus.retain(|_, amount| *amount > 0);
    gpus
}

fn most_in_one_container(spec: &PodSpec) -> BTreeMap<GpuResource, u64> {
    let mut most = ResourceList::default();
    for container in spec.containers.iter().chain(&spec.init_containers) {
        largest(&mut most, &requests_of(&container.resources));
    }
    positive(most.gpus)
}

fn constraints(
    node_selector: BTreeMap<String, String>,
    affinity: Affinity,
    tolerations: Vec<WireToleration>,
    daemon: bool,
) -> NodeConstraints {
    let mut terms = Vec::new();
    for term in affinity.node_affinity.required.map(|r| r.node_selector_terms).unwrap_or_default() {
        let mut rules = term.match_expressions.into_iter().map(|r| rule(r, false)).collect::<Vec<_>>();
        // The daemon controller pins each of its pods to a node; the workload as a whole is not pinned.
        if !daemon {
            rules.extend(term.match_fields.into_iter().map(|r| rule(r, true)));
        }
        rules.sort();
        if !(daemon && rules.is_empty()) {
            terms.push(rules);
        }
    }
    terms.sort();
    let mut tolerations =
        tolerations.into_iter().filter(|t| !is_automatic(t)).map(toleration).collect::<Vec<_>>();
    tolerations.sort();
    NodeConstraints { node_selector, affinity: terms, tolerations }
}

/// The API server adds these two to every pod; they say nothing about where a pod may start.
fn is_automatic(toleration: &WireToleration) -> bool {
    toleration.effect == "NoExecute"
        && matches!(
            toleration.key.as_str(),
            "node.kubernetes.io/not-ready" | "node.kubernetes.io/unreachable"
        )
}

fn toleration(wire: WireToleration) -> Toleration {
    Toleration { key: wire.key, exists: wire.operator == "Exists", value: wire.value, effect: wire.effect }
}

fn rule(requirement: Requirement, field: bool) -> LabelRule {
    let operator = match requirement.operator {
        Operator::In => LabelOperator::In,
        Operator::NotIn => LabelOperator::NotIn,
        Operator::Exists => LabelOperator::Exists,
        Operator::DoesNotExist => LabelOperator::DoesNotExist,
        Operator::Gt => LabelOperator::Gt,
        Operator::Lt => LabelOperator::Lt,
    };
    let mut values = requirement.values;
    values.sort();
    LabelRule { key: requirement.key, operator, values, field }
}

/// Required rules of the scheduler beyond those that a plan keeps: each term by host about the pod's own kind is kept.
fn not_looked_at(spec: &PodSpec, repels: bool, attracts: bool) -> BTreeSet<&'static str> {
    let more = |terms: &[PodAffinityTerm], kept: bool| terms.len() > usize::from(kept);
    let spread = spec.topology_spread_constraints.iter().any(|c| c.when_unsatisfiable != "ScheduleAnyway");
    let containers = || spec.containers.iter().chain(&spec.init_containers);
    let host_port = containers().flat_map(|c| &c.ports).any(|port| port.host_port > 0);
    let devices =
        containers().any(|c| c.resources.requests.other_devices || c.resources.limits.other_devices);
    [
        (host_port, "hostPort"),
        (devices, "devices that are no GPUs"),
        (spread, "topologySpreadConstraints"),
        (more(&spec.affinity.pod_affinity.required, attracts), "podAffinity"),
        (more(&spec.affinity.pod_anti_affinity.required, repels), "podAntiAffinity"),
    ]
    .into_iter()
    .filter_map(|(there, rule)| there.then_some(rule))
    .collect()
}

/// Whether a required pod (anti-)affinity by host speaks of the pod's own kind.
fn repels_itself(terms: &[PodAffinityTerm], metadata: &Metadata) -> bool {
    terms.iter().any(|term| {
        term.topology_key == label::HOSTNAME
            && (term.namespaces.is_empty() || term.namespaces.contains(&metadata.namespace))
            && term.label_selector.as_ref().is_some_and(|s| selects(s, &metadata.labels))
    })
}

fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    selector.match_labels.iter().all(|(k, v)| labels.get(k) == Some(v))
        && selector.match_expressions.iter().all(|r| {
            let found = labels.get(&r.key);
            let listed = found.is_some_and(|v| r.values.contains(v));
            match r.operator {
                Operator::In => listed,
                Operator::NotIn => !listed,
                Operator::Exists => found.is_some(),
                Operator::DoesNotExist => found.is_none(),
                Operator::Gt | Operator::Lt => false,
            }
        })
}

/// Parts of image names that mark a notebook or another place where a person types.
const NOTEBOOK_IMAGES: [&str; 6] =
    ["jupyter", "notebook", "rstudio", "code-server", "codeserver", "zeppelin"];
/// Labels that notebook controllers put on their pods (Kubeflow, JupyterHub).
const NOTEBOOK_LABELS: [&str; 2] = ["notebook-name", "hub.jupyter.org/username"];

/// What says that a person works in this pod, as words for a finding.
fn notebook(metadata: &Metadata, kind: &str, spec: &PodSpec) -> Option<String> {
    if kind == "Notebook" {
        return Some("its owner is a Notebook".to_owned());
    }
    if let Some(key) = NOTEBOOK_LABELS.iter().find(|key| metadata.labels.contains_key(**key)) {
        return Some(format!("it has the label {key}"));
    }
    if metadata.labels.get("component").is_some_and(|c| c == "singleuser-server") {
        return Some("it has the label component=singleuser-server".to_owned());
    }
    let of_a_person = |container: &&Container| {
        let name = image_path(&container.image).to_ascii_lowercase();
        !positive(requests_of(&container.resources).gpus).is_empty()
            && NOTEBOOK_IMAGES.iter().any(|n| name.contains(n))
    };
    spec.containers.iter().find(of_a_person).map(|c| format!("its image is {}", shorten(&c.image)))
}

/// An image without registry, tag and digest, which say nothing about what runs.
pub(super) fn image_path(image: &str) -> &str {
    let image = image.split('@').next().unwrap_or_default();
    let path = match image.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => path,
        _ => image,
    };
    path.rsplit_once(':').map_or(path, |(path, _)| path)
}

/// Reasons of a waiting container that are on the way and no trouble.
const ON_THE_WAY: [&str; 3] = ["", "ContainerCreating", "PodInitializing"];

/// Why a container waits, where that is no step on the way.
fn waits(status: &ContainerStatus) -> Option<String> {
    let reason = status.state.waiting.as_ref()?.reason.as_str();
    (!ON_THE_WAY.contains(&reason)).then(|| reason.to_owned())
}

/// Another container's trouble, such as a sidecar's, says nothing of the one that works on the GPU.
fn failing(spec: &PodSpec, status: &PodStatus) -> bool {
    let asks = |name: &str| spec.containers.iter().any(|c| c.name == name && asks_for_gpus(c));
    let with_gpus = status.container_statuses.iter().filter(|s| asks(&s.name));
    status.init_container_statuses.iter().chain(with_gpus).any(|s| waits(s).is_some())
}

fn trouble(spec: &PodSpec, status: &PodStatus) -> Option<Trouble> {
    for (statuses, prefix) in [(&status.init_container_statuses, "Init:"), (&status.container_statuses, "")] {
        for container in statuses {
            match waits(container) {
                Some(reason) if reason == "CrashLoopBackOff" => {
                    return Some(Trouble::Crashing { restarts: container.restart_count });
                }
                Some(reason) => {
                    return Some(Trouble::Stuck { reason: format!("{prefix}{reason}") });
                }
                None => {}
            }
        }
    }
    ended(spec, status)
}

/// Every container that asks for GPUs has ended, but the pod goes on: the kubelet keeps the devices until the
/// whole pod ends.
fn ended(spec: &PodSpec, status: &PodStatus) -> Option<Trouble> {
    let asking = spec.containers.iter().filter(|c| !positive(requests_of(&c.resources).gpus).is_empty());
    let asking = asking.map(|c| c.name.as_str()).collect::<Vec<_>>();
    let of = |name: &str| status.container_statuses.iter().find(|s| s.name == name);
    let over = |name: &&str| of(name).and_then(|s| s.state.terminated.as_ref());
    let restarts = matches!(spec.restart_policy.as_str(), "" | "Always");
    if status.phase != "Running" || restarts || asking.is_empty() || !asking.iter().all(|n| over(n).is_some())
    {
        return None;
    }
    let since = asking.iter().filter_map(over).filter_map(|t| t.finished_at.clone()).max();
    let going = status.container_statuses.iter().filter(|s| s.state.terminated.is_none());
    let mut others = going.map(|s| s.name.clone()).collect::<Vec<_>>();
    others.sort();
    (!others.is_empty()).then_some(Trouble::Ended { since, others })
}

fn shorten(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(MESSAGE) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}
