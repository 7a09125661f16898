//! Tenants, workloads, and what their pods hold now.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fleet::{Mode, Taint};
use crate::origin::Known;
use crate::product::ProfileName;
use crate::quantity::{Bytes, Mib, MilliCpu};
use crate::resource::GpuResource;

/// What a workload or tenant must not share, the strictest last so that `max` takes the stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Isolation {
    /// May take turns with anybody.
    None,
    /// May take turns with its own tenant's work only.
    Tenant,
    /// Needs its own MIG instance or more.
    Instance,
    /// Needs the whole device.
    Device,
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Tenant => "tenant",
            Self::Instance => "instance",
            Self::Device => "device",
        })
    }
}

/// Share of the time a pod has work on the GPU, in thousandths, 0 to 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Duty(u16);

impl Duty {
    /// `None` above 1000.
    #[must_use]
    pub fn permille(value: u16) -> Option<Self> {
        (value <= 1000).then_some(Self(value))
    }

    /// Thousandths, 0 to 1000.
    #[must_use]
    pub fn as_permille(self) -> u16 {
        self.0
    }
}

/// What a class of tenant is promised.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum TenantClass {
    /// No promise beyond each workload's own.
    #[default]
    Standard,
    /// Every workload needs at least [`Isolation::Instance`].
    Regulated,
}

/// A set of namespaces with quotas and an isolation class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// Its namespaces; one belongs to one tenant at most.
    pub namespaces: Vec<String>,
    /// What it is promised.
    pub class: TenantClass,
    /// At most so many GPUs' worth of each resource in all its namespaces, where given.
    pub quota: BTreeMap<GpuResource, u64>,
}

/// What teams need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Tenants, by name. A tenant that a workload names and that is not here is standard.
    pub tenants: Vec<Tenant>,
    /// Workloads, by (namespace, kind, name).
    pub workloads: Vec<Workload>,
}

/// The name of a workload in full.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadKey {
    /// Its namespace.
    pub namespace: String,
    /// The owner's kind, such as `Deployment`, or `Pod`.
    pub kind: String,
    /// The owner's name.
    pub name: String,
}

impl fmt::Display for WorkloadKey {
    /// As findings write a subject: `kind/namespace/name`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.kind, self.namespace, self.name)
    }
}

/// Latency that a workload promises its callers. Work with a promise never takes turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slo {
    /// Percentile in thousandths: 990 = p99.
    pub percentile: u16,
    /// Milliseconds.
    pub latency_ms: u64,
}

/// What one tenant runs: pods that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Namespace, kind, name.
    pub key: WorkloadKey,
    /// Whose it is.
    pub tenant: String,
    /// Pods, running and wanted.
    pub count: u64,
    /// GPUs or devices of each pod, at least 1.
    pub gpus: u32,
    /// Whether all pods must be on one node.
    pub same_node: bool,
    /// CPU of one pod.
    pub cpu: MilliCpu,
    /// Main memory of one pod.
    pub memory: Bytes,
    /// Which nodes will do.
    pub constraints: NodeConstraints,
    /// At most so many pods on one node, where the pods must be spread.
    pub max_per_node: Option<u32>,
    /// What the pods ask for now; `None` where only the need was given.
    pub request: Option<GpuResource>,
    /// GPU memory that one pod needs on each of its GPUs; `None` = not known.
    pub gpu_memory: Option<Known<Mib>>,
    /// What it must not share; `None` = not said.
    pub isolation: Option<Known<Isolation>>,
    /// Latency promise, where there is one.
    pub slo: Option<Slo>,
    /// Share of the time it works; `None` = not known.
    pub duty: Option<Known<Duty>>,
    /// Least part of a GPU's compute that a pod needs on each of its GPUs; `None` = not known.
    pub compute: Option<Known<Duty>>,
    /// A mode that a person chose; the decision then only checks it.
    pub mode: Option<Mode>,
    /// A MIG profile that a person chose, by its name on the product where it runs.
    pub profile: Option<ProfileName>,
    /// Products that will do; empty = any.
    pub products: Vec<String>,
    /// Higher goes first.
    pub priority: i32,
    /// Whether running pods may be restarted elsewhere.
    pub movable: bool,
    /// Whether it is interactive (a notebook): a guess from images, names and labels is marked so.
    pub interactive: Option<Known<bool>>,
    /// What running pods hold, by node. Sum of `pods` ≤ `count`.
    pub running: Vec<Holding>,
}

/// Which nodes a pod may go to.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeConstraints {
    /// Labels that must be equal.
    pub node_selector: BTreeMap<String, String>,
    /// Required node affinity: any one of these terms; empty = no constraint.
    pub affinity: Vec<Vec<LabelRule>>,
    /// Taints it tolerates.
    pub tolerations: Vec<Toleration>,
}

/// One rule of a node affinity term; all of a term's rules must hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LabelRule {
    /// The label.
    pub key: String,
    /// What must hold.
    pub operator: LabelOperator,
    /// For `In` and `NotIn` a set; for `Gt` and `Lt` one integer.
    pub values: Vec<String>,
    /// Whether the rule is about a node field; only `metadata.name` exists.
    pub field: bool,
}

/// Operators of node affinity (Kubernetes `NodeSelectorRequirement`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LabelOperator {
    /// One of the values.
    In,
    /// None of the values, or absent.
    NotIn,
    /// Present.
    Exists,
    /// Absent.
    DoesNotExist,
    /// An integer above the value.
    Gt,
    /// An integer below the value.
    Lt,
}

/// A toleration of a pod (Kubernetes `Toleration`).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Toleration {
    /// Empty with `exists` = every taint.
    pub key: String,
    /// `Exists` instead of `Equal`.
    pub exists: bool,
    /// For `Equal`.
    pub value: String,
    /// Empty = every effect.
    pub effect: String,
}

impl Toleration {
    /// Whether this toleration covers a taint.
    #[must_use]
    pub fn covers(&self, taint: &Taint) -> bool {
        (self.effect.is_empty() || self.effect == taint.effect)
            && (self.key.is_empty() && self.exists
                || self.key == taint.key && (self.exists || self.value == taint.value))
    }
}

impl NodeConstraints {
    /// Whether labels and name of a node satisfy selector and affinity (taints apart).
    #[must_use]
    pub fn selects(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        self.node_selector.iter().all(|(k, v)| labels.get(k) == Some(v))
            && (self.affinity.is_empty()
                || self
                    .affinity
                    .iter()
                    .any(|term| !term.is_empty() && term.iter().all(|r| r.holds(name, labels))))
    }

    /// The first taint that keeps a new pod away and that is not tolerated.
    #[must_use]
    pub fn repelled_by<'a>(&self, taints: &'a [Taint]) -> Option<&'a Taint> {
        taints
            .iter()
            .filter(|t| t.effect != "PreferNoSchedule")
            .find(|taint| !self.tolerations.iter().any(|t| t.covers(taint)))
    }
}

impl LabelRule {
    fn holds(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        let found = if self.field {
            (self.key == "metadata.name").then_some(name)
        } else {
            labels.get(&self.key).map(String::as_str)
        };
        let listed = |v: &str| self.values.iter().any(|x| x == v);
        let compare = |f: fn(&i64, &i64) -> bool| {
            let number = |text: &str| text.parse::<i64>().ok();
            match (found.and_then(number), self.values.first().and_then(|v| number(v))) {
                (Some(a), Some(b)) => f(&a, &b),
                _ => false,
            }
        };
        match self.operator {
            LabelOperator::In => found.is_some_and(listed),
            LabelOperator::NotIn => !found.is_some_and(listed),
            LabelOperator::Exists => found.is_some(),
            LabelOperator::DoesNotExist => found.is_none(),
            LabelOperator::Gt => compare(i64::gt),
            LabelOperator::Lt => compare(i64::lt),
        }
    }
}

/// A pod by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct PodRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Pods that hold the same devices on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The node.
    pub node: String,
    /// What each pod asked for.
    pub resource: GpuResource,
    /// Devices of each pod, at least 1.
    pub devices: u32,
    /// The pods.
    pub pods: Vec<PodRef>,
    /// UUID of the GPU and start of the instance, where a Fleet or PodResources told.
    pub place: Option<DevicePlace>,
}

/// Where exactly a pod sits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePlace {
    /// UUID of the GPU.
    pub gpu: String,
    /// Start of the MIG instance, in memory units.
    pub start: Option<u32>,
}
