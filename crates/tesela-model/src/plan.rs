//! The decision, as printed and as read back by `render`. Key names are the contract of DESIGN 9.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::demand::PodRef;
use crate::finding::Finding;
use crate::fleet::{MigStrategy, Mode};
use crate::origin::Origin;
use crate::product::ProfileName;
use crate::quantity::Micros;
use crate::resource::GpuResource;

/// `apiVersion` of every document of ours.
pub const API_VERSION: &str = "tesela.dev/v1alpha1";

/// A plan. All keys are always present.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// `tesela.dev/v1alpha1`.
    #[serde(rename = "apiVersion")]
    pub api_version: String,
    /// `Plan`.
    pub kind: String,
    /// `partial` exactly when `unmet` is not empty.
    pub status: PlanStatus,
    /// Per product: GPUs in use, and the proof that fewer would not do.
    pub gpus: Vec<ProductUse>,
    /// Groups of nodes with one way of sharing each.
    pub pools: Vec<PlannedPool>,
    /// One entry per workload, node, mode, resource and profile, also for pods that run today.
    pub assignments: Vec<Assignment>,
    /// Pods that do not fit, by workload and reason.
    pub unmet: Vec<Unmet>,
    /// What is true about today, the gravest first.
    pub findings: Vec<Finding>,
    /// A closed set: each namespace × each GPU resource name that exists or is planned.
    pub quotas: Vec<Quota>,
    /// The fleet as it is now; `null` when the input has no nodes.
    pub today: Option<Today>,
    /// GPUs that must change; unchanged ones are not listed.
    pub changes: Vec<Change>,
    /// What the plan rests on.
    pub assumptions: Vec<Assumption>,
    /// The plan if an assumption is wrong, the one that changes most first; of five assumptions at most. Empty where
    /// nothing can be wrong, and where planning again would take too long.
    #[serde(default)]
    pub sensitivity: Vec<WhatIf>,
    /// `null` without prices.
    pub cost: Option<Cost>,
    /// Why `cost` is `null`.
    pub cost_reason: Option<String>,
    /// What every GPU of every node becomes, node by node.
    pub nodes: Vec<PlannedNode>,
    /// Today, plan and difference in figures.
    pub summary: Summary,
    /// Room kept free, by pool.
    pub headroom: Vec<Headroom>,
    /// Where pods without a place could run for money, where that was asked for.
    #[serde(default)]
    pub burst: Vec<Burst>,
    /// Every GPU as it is now, node by node; nodes without GPUs are left out.
    #[serde(default)]
    pub nodes_today: Vec<NodeToday>,
    /// Every running pod that must restart on the way, by node and name.
    #[serde(default)]
    pub restarting: Vec<Restart>,
    /// Where the GPU Operator's pods run; `null` when the input does not show any.
    #[serde(default)]
    pub operator_namespace: Option<String>,
}

/// Whether everything fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PlanStatus {
    /// Everything fits.
    Complete,
    /// Something does not.
    Partial,
}

/// GPUs of one product that the plan uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProductUse {
    /// Table id, else the name as found.
    pub product: String,
    /// GPUs of this product that exist in the fleet (bought ones left out).
    pub exist: u64,
    /// GPUs that hold work under the plan.
    pub used: u64,
    /// No arrangement of the same work on this product uses fewer.
    pub lower_bound: u64,
    /// `used` = `lower_bound`.
    pub proven_optimal: bool,
    /// GPUs used whole, each counted once per GPU of each pod.
    pub exclusive: u64,
    /// GPUs used in turns (time slices or MPS).
    pub shared: u64,
    /// GPUs used in instances.
    pub mig: u64,
    /// Instances that the plan's work needs, by profile.
    pub mig_demand: BTreeMap<ProfileName, u64>,
    /// The proof for the MIG part; `null` where nothing goes to MIG.
    pub certificate: Option<Certificate>,
}

/// A proof anyone can re-check: no layout of the product costs more than `scale`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Certificate {
    /// At least 1.
    pub scale: u64,
    /// Price of one instance, by profile.
    pub prices: BTreeMap<ProfileName, u64>,
}

/// Nodes that share GPUs in one way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedPool {
    /// Such as `mig-h100-sxm-80gb`.
    pub name: String,
    /// Table id, else the name as found.
    pub product: String,
    /// How its GPUs are shared.
    pub mode: Mode,
    /// Shares per device; `null` where one pod has the device.
    pub replicas: Option<u32>,
    /// The only tenant that may use it, where isolation asks for that.
    pub tenant: Option<String>,
    /// Its nodes by name; hardware that is not there yet has none.
    pub nodes: Vec<String>,
    /// Its GPUs.
    pub gpus: u64,
}

/// Pods of one workload on one node in one way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Assignment {
    /// The controlling owner's name, else the pod's.
    pub workload: String,
    /// The owner's kind.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Whose it is.
    pub tenant: String,
    /// How its GPUs are shared.
    pub mode: Mode,
    /// Shares per device; `null` or at least 2.
    pub replicas: Option<u32>,
    /// What the pod requests.
    pub resource: GpuResource,
    /// Pods, at least 1.
    pub count: u64,
    /// GPUs or devices per pod, at least 1.
    pub gpus: u32,
    /// `null` only for hardware that is not there yet.
    pub node: Option<String>,
    /// UUID; `null` when unknown or several.
    pub gpu: Option<String>,
    /// Table id, else the name as found.
    pub product: String,
    /// The table's name when `mode` is `mig`, else `null`.
    pub profile: Option<ProfileName>,
    /// In memory units; `null` when not MIG, unknown, or different among the pods.
    pub start: Option<u32>,
    /// Pods of `count` that run there today and stay as they are.
    pub staying: u64,
    /// What the pods request today, where it is another resource; the request must be changed.
    pub request_today: Option<GpuResource>,
    /// One sentence a person can check.
    pub reason: String,
}

/// Pods that do not fit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Unmet {
    /// The workload's name.
    pub workload: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Pods, at least 1.
    pub count: u64,
    /// What is short, and where it was looked for.
    pub reason: String,
}

/// One line of a ResourceQuota.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Quota {
    /// The namespace.
    pub namespace: String,
    /// The key as in `spec.hard`, such as `requests.nvidia.com/gpu`.
    pub resource: String,
    /// 0 = none.
    pub hard: u64,
}

/// The fleet as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Today {
    /// Physical GPUs by how their node offers them; a mode without GPUs is absent.
    pub gpus_by_mode: BTreeMap<Mode, u64>,
    /// Nodes with GPUs.
    pub nodes: u64,
    /// `null` without prices.
    pub hourly_micros: Option<Micros>,
}

/// What happens to one GPU.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// The node.
    pub node: String,
    /// UUID, `null` when unknown.
    pub gpu: Option<String>,
    /// What kind of change it is.
    pub change: ChangeKind,
    /// What it is to become, in words: `mig 2g.20gb+1g.10gb×3`, `timeSliced ×4`, `exclusive`.
    pub to: String,
    /// Pods that must be restarted for it.
    pub disturbed_pods: Vec<PodRef>,
}

/// What a change needs (DESIGN 2, change kind).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ChangeKind {
    /// Inside a GPU that has MIG on; only the instances that go must be idle.
    Geometry,
    /// MIG on or off, Hopper and later; that GPU idle.
    MigMode,
    /// MIG on or off, Ampere; that GPU idle, and a reset.
    MigModeReset,
    /// Mode or replicas without MIG.
    Sharing,
}

/// Cloud instances of one kind for pods that find no place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Burst {
    /// `aws` or `azure`.
    pub provider: String,
    /// As the provider writes it, such as `us-east-1`.
    pub region: String,
    /// As the provider writes it, such as `p5.48xlarge`.
    pub instance_type: String,
    /// Table id, else the name as the node's label shows it.
    pub product: String,
    /// GPUs of one instance.
    pub gpus_per_node: u32,
    /// Instances.
    pub nodes: u64,
    /// List price of them all for one hour.
    pub hourly_micros: Micros,
    /// Currency of the price.
    pub currency: String,
    /// Who says the price.
    pub source: String,
    /// The day the price is of.
    pub as_of: String,
    /// Who would run there.
    pub workloads: Vec<BurstWorkload>,
}

/// Pods of a workload that could run on cloud instances.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct BurstWorkload {
    /// The workload's namespace.
    pub namespace: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub workload: String,
    /// Pods, at least 1.
    pub count: u64,
    /// How they would share GPUs there.
    pub mode: Mode,
    /// The table's name when `mode` is `mig`, else `null`.
    pub profile: Option<ProfileName>,
}

/// Something the plan rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Assumption {
    /// What it is about.
    pub subject: String,
    /// What is taken for true.
    pub value: String,
    /// Where it comes from.
    pub origin: Origin,
    /// What the plan would be otherwise.
    pub if_wrong: String,
}

/// The plan if one assumption is wrong, found by planning again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WhatIf {
    /// Which assumption.
    pub subject: Doubt,
    /// What is true instead, in words: `20 % more`, `twice as much`, `1 node more`.
    pub change: String,
    /// GPUs of the nodes that then stay.
    pub gpus: u64,
    /// GPUs that then hold work.
    pub gpus_held: u64,
    /// Nodes that then hold work.
    pub nodes_held: u64,
    /// Nodes that then stay, headroom included.
    pub nodes: u64,
    /// Pods that then find no place.
    pub pods_waiting: u64,
    /// Pods that are then restarted on the way.
    pub restarts: u64,
    /// `null` without prices.
    pub hourly_micros: Option<Micros>,
}

/// What may be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Doubt {
    /// What work needs that states only a request.
    UnknownNeed,
    /// GPU memory that workloads are said to need.
    GpuMemory,
    /// Share of the time that work is busy.
    Duty,
    /// GPU memory of a CUDA context.
    ContextOverhead,
    /// Nodes kept free.
    Headroom,
    /// What a GPU hour costs.
    Price,
}

/// What it costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Such as `EUR`.
    pub currency: String,
    /// GPUs of the nodes that hold work or headroom under the plan, per hour.
    pub hourly_micros: Micros,
    /// Who says the prices.
    pub source: String,
    /// The day the prices are of.
    pub as_of: Option<String>,
    /// Price of one GPU for one hour, by product of the plan.
    #[serde(default)]
    pub gpu_hour: BTreeMap<String, Micros>,
    /// The same demand with one way of sharing for all.
    pub alternatives: Alternatives,
}

/// The same demand with one way of sharing for all, each where feasible.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Alternatives {
    /// A whole GPU for each pod's GPU.
    pub all_exclusive: Option<Alternative>,
    /// An instance for each pod.
    pub all_mig: Option<Alternative>,
    /// A share for each pod.
    pub all_time_sliced: Option<Alternative>,
    /// Why an alternative is `null`, by its name.
    pub reasons: BTreeMap<String, String>,
}

/// GPUs, nodes and cost of an alternative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Alternative {
    /// GPUs it would use.
    pub gpus: u64,
    /// Nodes it would use.
    pub nodes: u64,
    /// `null` without prices.
    pub hourly_micros: Option<Micros>,
}

/// What every GPU of a node becomes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedNode {
    /// `null` for hardware that is not there yet.
    pub name: Option<String>,
    /// How MIG devices are named on it under the plan.
    pub mig_strategy: MigStrategy,
    /// How its MIG devices are named today; `null` for new hardware.
    pub mig_strategy_today: Option<MigStrategy>,
    /// Whether the GPU Operator keeps it.
    pub operator: bool,
    /// Value of the label `nvidia.com/device-plugin.config` today.
    pub plugin_config_today: Option<String>,
    /// Value of the label `nvidia.com/mig.config` today.
    pub mig_config_today: Option<String>,
    /// Its GPUs.
    pub gpus: Vec<PlannedGpu>,
}

/// What one GPU becomes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedGpu {
    /// UUID, `null` when unknown.
    pub uuid: Option<String>,
    /// Table id, else the name as found.
    pub product: String,
    /// How it is shared under the plan.
    pub mode: Mode,
    /// Shares of the whole GPU; `null` or at least 2.
    pub replicas: Option<u32>,
    /// Its instances, by start.
    pub instances: Vec<PlannedInstance>,
    /// Whether the instances' starts are known or only a layout that agrees with the counts.
    pub starts: Origin,
    /// Who uses the GPU outside of instances.
    pub used_by: Vec<Use>,
    /// How it is shared today; `null` for new hardware.
    pub mode_today: Option<Mode>,
}

/// One instance of a planned GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedInstance {
    /// The table's name.
    pub profile: ProfileName,
    /// In memory units.
    pub start: u32,
    /// In memory units.
    pub size: u32,
    /// Shares of the instance; `null` or at least 2.
    pub replicas: Option<u32>,
    /// Who uses it; empty = free.
    pub used_by: Vec<Use>,
}

/// A node and its GPUs as they are now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeToday {
    /// The node's name.
    pub name: String,
    /// Why its GPUs cannot be planned with; `null` = they can.
    pub unusable: Option<String>,
    /// Its GPUs, in the order of `nodes`.
    pub gpus: Vec<GpuToday>,
}

/// What one GPU is now. Where nobody says which GPU of its node a pod holds, the first that offers such a device is
/// taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GpuToday {
    /// UUID, `null` when unknown.
    pub uuid: Option<String>,
    /// Table id, else the name as found.
    pub product: String,
    /// How it is shared.
    pub mode: Mode,
    /// Shares of the whole GPU; `null` or at least 2.
    pub replicas: Option<u32>,
    /// Its instances, by start.
    pub instances: Vec<PlannedInstance>,
    /// Whether the instances' starts are known or only a layout that agrees with the counts.
    pub starts: Origin,
    /// Who holds the GPU outside of instances.
    pub used_by: Vec<Use>,
}

/// A running pod that must restart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Restart {
    /// Where it runs.
    pub node: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod.
    pub name: String,
    /// Its workload's kind.
    pub kind: String,
    /// Its workload.
    pub workload: String,
    /// Why.
    pub cause: RestartCause,
}

/// Why a pod must restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RestartCause {
    /// It gets another device. `summary.restarts` counts these.
    Moves,
    /// It may keep its device, but its workload's pod template must change (another request, or the selector and
    /// toleration of a tenant's own pool), and the controller then replaces its pods.
    Template,
}

/// Pods of a workload that use a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Use {
    /// The workload's namespace; empty for pods that are no demand.
    pub namespace: String,
    /// The workload's kind; empty for pods that are no demand.
    pub kind: String,
    /// The workload's name.
    pub workload: String,
    /// Pods (1 unless the device is shared).
    pub pods: u64,
}

/// Today, plan and difference in figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// As it is.
    pub today: Figures,
    /// As planned.
    pub plan: Figures,
    /// Pods that must be restarted on the way.
    pub restarts: u64,
    /// Pods whose request must be changed.
    pub requests_to_change: u64,
    /// Pods of which only the request for `nvidia.com/gpu` is known.
    pub unknown_pods: u64,
    /// GPUs that those pods hold.
    pub unknown_gpus: u64,
    /// Nodes that hold no GPU work under the plan and can be given back or used otherwise.
    pub nodes_free: Vec<String>,
}

/// Figures of one state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// GPUs there (plan: GPUs in nodes that hold work or headroom).
    pub gpus: u64,
    /// GPUs of which something is held.
    pub gpus_held: u64,
    /// Nodes with GPUs (plan: nodes that hold work or headroom).
    pub nodes: u64,
    /// Nodes of which something is held.
    pub nodes_held: u64,
    /// Pods that have their devices.
    pub pods_served: u64,
    /// Pods that wait.
    pub pods_waiting: u64,
    /// `null` without prices.
    pub hourly_micros: Option<Micros>,
}

/// Room kept free in a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Headroom {
    /// The pool.
    pub pool: String,
    /// Nodes that shall stay free for it.
    pub wanted_nodes: u32,
    /// Free nodes that could take over.
    pub nodes: Vec<String>,
    /// Whether the pool can lose any one of its nodes and still place its pods.
    pub survives_node_loss: bool,
    /// One sentence.
    pub message: String,
}
