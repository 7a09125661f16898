//! `kind: Demand`: tenants and what they run. A document refines the observed demand by key.

mod contradiction;
mod joined;
mod merge;
mod read;
mod tenant;
pub(crate) mod wire;
mod write;

use std::collections::BTreeMap;

use tesela_model::demand::{Duty, Isolation, LabelRule, Slo, TenantClass, Toleration};
use tesela_model::fleet::Mode;
use tesela_model::origin::Known;
use tesela_model::product::ProfileName;
use tesela_model::quantity::{Bytes, Mib, MilliCpu};
use tesela_model::resource::GpuResource;

pub use joined::{JoinedContradiction, check_joined, unlike_observed};
pub use merge::{merge, merge_all};
pub(super) use read::read;
pub use write::write_demand;

/// The kind of a new workload of which no kind is written.
pub const DEFAULT_KIND: &str = "Deployment";

/// What a Demand document says. `None` = not written, and so not changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DemandDocument {
    /// Tenants, each name once, in the order of the document.
    pub tenants: Vec<TenantEdit>,
    /// Workloads, each key once, in the order of the document.
    pub workloads: Vec<WorkloadEdit>,
}

/// What is said of a tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantEdit {
    /// Its name.
    pub name: String,
    /// Its namespaces.
    pub namespaces: Option<Vec<String>>,
    /// What it is promised.
    pub class: Option<TenantClass>,
    /// At most so many devices of each resource.
    pub quota: Option<BTreeMap<GpuResource, u64>>,
}

/// What is said of a workload. Units as in [`tesela_model::demand::Workload`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadEdit {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The owner's kind.
    pub kind: Option<String>,
    /// Whose it is.
    pub tenant: Option<String>,
    /// Pods; 0 = the workload goes away.
    pub count: Option<u64>,
    /// GPUs or devices of each pod.
    pub gpus: Option<u32>,
    /// Whether all pods must be on one node.
    pub same_node: Option<bool>,
    /// CPU of one pod.
    pub cpu: Option<MilliCpu>,
    /// Main memory of one pod.
    pub memory: Option<Bytes>,
    /// Labels that must be equal.
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Required node affinity.
    pub affinity: Option<Vec<Vec<LabelRule>>>,
    /// Taints it tolerates.
    pub tolerations: Option<Vec<Toleration>>,
    /// At most so many pods on one node.
    pub max_per_node: Option<u32>,
    /// What the pods ask for now.
    pub request: Option<GpuResource>,
    /// GPU memory that one pod needs on each of its GPUs.
    pub gpu_memory: Option<Known<Mib>>,
    /// What it must not share.
    pub isolation: Option<Known<Isolation>>,
    /// Latency promise.
    pub slo: Option<Slo>,
    /// Share of the time it works.
    pub duty: Option<Known<Duty>>,
    /// Least part of a GPU's compute.
    pub compute: Option<Known<Duty>>,
    /// A mode that a person chose.
    pub mode: Option<Mode>,
    /// A MIG profile that a person chose.
    pub profile: Option<ProfileName>,
    /// Products that will do; empty = any.
    pub products: Option<Vec<String>>,
    /// Higher goes first.
    pub priority: Option<i32>,
    /// Whether running pods may be restarted elsewhere.
    pub movable: Option<bool>,
    /// Whether a person works with it directly.
    pub interactive: Option<Known<bool>>,
}
