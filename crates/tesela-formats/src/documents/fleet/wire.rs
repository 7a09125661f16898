//! A Fleet document as written.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use tesela_model::fleet::{MigStrategy, Mode};

use crate::documents::scalar::{Cpu, Memory, Positive, Replicas, Whole};
use crate::source::Located;

/// Nodes and GPUs as they are, what may be bought, and the room to keep free.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FleetSpec {
    /// The nodes with GPUs that are there. Beside kubectl's JSON a node of the same name is refined.
    #[serde(default)]
    pub(super) nodes: Vec<Located<NodeEntry>>,
    /// Nodes that may be bought or rented when the work does not fit.
    #[serde(default)]
    pub(super) buy: Vec<Located<Offer>>,
    /// Room to keep free in each pool. Default: one node.
    #[serde(default)]
    pub(super) headroom: Option<Headroom>,
    /// Whether each pool must be able to lose any one of its nodes and still place its pods. Default: false.
    #[serde(default)]
    pub(super) survive_node_loss: Option<bool>,
    /// Namespaces that exist, so that each gets its quotas. Those of the demand need not be listed.
    #[serde(default)]
    pub(super) namespaces: Vec<Located<String>>,
}

/// Room to keep free.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Headroom {
    /// Whole nodes of each pool that shall stay free to take over work. Default: 1.
    pub(super) nodes: Located<Whole>,
}

/// One node, or a group of equal nodes (`namePrefix` and `count`).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NodeEntry {
    /// The node's name. Exactly one of `name` and `namePrefix` is needed.
    #[serde(default)]
    pub(super) name: Option<Located<String>>,
    /// Begin of the names of a group: `gpu-` and `count: 12` make gpu-01 to gpu-12.
    #[serde(default)]
    pub(super) name_prefix: Option<Located<String>>,
    /// Nodes in the group, 1 to 100,000. Only with `namePrefix`.
    #[serde(default)]
    pub(super) count: Option<Located<Positive>>,
    /// The node's labels, for selectors and affinities. Default: none.
    #[serde(default)]
    pub(super) labels: BTreeMap<Located<String>, Located<String>>,
    /// The node's taints. Default: none.
    #[serde(default)]
    pub(super) taints: Vec<Located<TaintEntry>>,
    /// CPU for pods, in cores: `64` or `63500m`. Default: not known, and then no constraint.
    #[serde(default)]
    pub(super) cpu: Option<Located<Cpu>>,
    /// Main memory for pods, with its unit: `512Gi`. Default: not known, and then no constraint.
    #[serde(default)]
    pub(super) memory: Option<Located<Memory>>,
    /// The node's GPUs, in index order.
    #[serde(default)]
    pub(super) gpus: Vec<Located<GpuEntry>>,
    /// Whether new pods may come (Ready and not cordoned). Default: true.
    #[serde(default)]
    pub(super) schedulable: Option<bool>,
    /// Whether NVIDIA's GPU Operator keeps this node. Default: false.
    #[serde(default)]
    pub(super) operator: Option<bool>,
    /// How MIG devices are named: `mixed` names each profile, `single` names all `nvidia.com/gpu`. Default: `mixed`
    /// when a GPU has MIG on, else `none`.
    #[serde(default)]
    pub(super) mig_strategy: Option<Located<MigStrategy>>,
    /// Whether shares carry `.shared` in their resource name (`renameByDefault` of the device plugin). Default: false.
    #[serde(default)]
    pub(super) shares_renamed: Option<bool>,
}

/// A taint, as Kubernetes writes it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TaintEntry {
    /// Such as `nvidia.com/gpu`.
    pub(super) key: Located<String>,
    /// Default: empty.
    #[serde(default)]
    pub(super) value: Option<Located<String>>,
    /// What it does to pods that do not tolerate it.
    pub(super) effect: Located<Effect>,
}

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub(crate) enum Effect {
    /// New pods stay away.
    NoSchedule,
    /// New pods stay away where they can.
    PreferNoSchedule,
    /// Running pods go, too.
    NoExecute,
}

impl Effect {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}

/// One GPU (`uuid`), or equal GPUs of one node (`count`).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct GpuEntry {
    /// Table id (`h100-sxm-80gb`) or exact NVML name (`NVIDIA H100 80GB HBM3`).
    pub(super) product: Located<String>,
    /// Equal GPUs, 1 to 1,024. Default: 1. Not with `uuid`.
    #[serde(default)]
    pub(super) count: Option<Located<Positive>>,
    /// The UUID of one GPU, as `nvidia-smi -L` prints it.
    #[serde(default)]
    pub(super) uuid: Option<Located<String>>,
    /// How it is offered now. Default: `mig` when `mig` lists instances, else `exclusive`.
    #[serde(default)]
    pub(super) mode: Option<Located<Mode>>,
    /// Shares of the GPU (`timeSliced`, `mps`) or of each instance (`mig`), at least 2.
    #[serde(default)]
    pub(super) replicas: Option<Located<Replicas>>,
    /// The instances that are cut now; an empty list means MIG is on and nothing is cut.
    #[serde(default)]
    pub(super) mig: Option<Located<Vec<Located<InstanceEntry>>>>,
    /// Memory of one GPU, with its unit. Only for products that the table lacks, and then needed.
    #[serde(default)]
    pub(super) gpu_memory: Option<Located<Memory>>,
}

/// One MIG instance and where it sits.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct InstanceEntry {
    /// Profile of the product, such as `1g.10gb`.
    pub(super) profile: Located<String>,
    /// First memory unit, from 0, as `nvidia-smi mig -lgi` prints it.
    pub(super) start: Located<Whole>,
}

/// A kind of node that may be bought or rented.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Offer {
    /// Table id (`h100-sxm-80gb`) or exact NVML name (`NVIDIA H100 80GB HBM3`).
    pub(super) product: Located<String>,
    /// GPUs in one such node, 1 to 1,024.
    pub(super) gpus_per_node: Located<Positive>,
    /// At most so many nodes. Default: no limit.
    #[serde(default)]
    pub(super) max_nodes: Option<Located<Positive>>,
    /// CPU of one node, in cores. Default: not a constraint.
    #[serde(default)]
    pub(super) cpu: Option<Located<Cpu>>,
    /// Main memory of one node, with its unit. Default: not a constraint.
    #[serde(default)]
    pub(super) memory: Option<Located<Memory>>,
    /// Labels that its nodes will carry. Default: none.
    #[serde(default)]
    pub(super) labels: BTreeMap<Located<String>, Located<String>>,
    /// Memory of one GPU, with its unit. Only for products that the table lacks, and then needed.
    #[serde(default)]
    pub(super) gpu_memory: Option<Located<Memory>>,
}
