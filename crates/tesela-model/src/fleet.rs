//! Nodes and the GPUs they hold, as they are now.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::demand::Holding;
use crate::layout::Instance;
use crate::origin::Origin;
use crate::product::ProfileName;
use crate::quantity::{Bytes, Mib, MilliCpu};
use crate::resource::GpuResource;

/// A way of sharing a GPU (DESIGN 1). MIG with replicas is `mig` with a replica count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// The whole device belongs to one pod.
    Exclusive,
    /// The hardware is cut into instances.
    Mig,
    /// Pods take turns; memory and speed are not isolated.
    TimeSliced,
    /// Cooperative processes through NVIDIA's MPS daemon.
    Mps,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exclusive => "exclusive",
            Self::Mig => "mig",
            Self::TimeSliced => "timeSliced",
            Self::Mps => "mps",
        })
    }
}

/// How NVIDIA's device plugin names MIG devices on a node.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum MigStrategy {
    /// MIG devices are not offered.
    #[default]
    None,
    /// All MIG devices are alike and offered as `nvidia.com/gpu`.
    Single,
    /// Each profile has its own name, `nvidia.com/mig-<profile>`.
    Mixed,
}

/// Everything that has GPUs, or may be bought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    /// Nodes, by name. Nodes without GPUs are left out.
    pub nodes: Vec<Node>,
    /// Hardware that may be added; empty = only what is there.
    pub buy: Vec<NodeOffer>,
    /// How many nodes of each pool shall stay free to take over work.
    pub headroom_nodes: u32,
    /// Whether a person said so; else it is the default.
    pub headroom_given: bool,
    /// Whether each pool must be able to lose any one of its nodes.
    pub survive_node_loss: bool,
    /// Whether the input had nodes at all (also ones without GPUs).
    pub has_nodes: bool,
    /// Where the GPU Operator's pods run, where that was seen.
    pub operator_namespace: Option<String>,
    /// Namespaces that exist and may get quotas, the system's own left out.
    pub namespaces: BTreeSet<String>,
    /// What ResourceQuotas grant now, by namespace and resource, the lowest where several do.
    pub quotas_in_force: BTreeMap<(String, GpuResource), u64>,
    /// GPU resource names that a node or a quota of the cluster knows.
    pub resources: BTreeSet<GpuResource>,
}

/// A kind of node that may be bought or rented.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOffer {
    /// Table id, or a name that the table lacks.
    pub product: String,
    /// GPUs in one such node, at least 1.
    pub gpus_per_node: u32,
    /// At most so many nodes; `None` = no limit.
    pub max_nodes: Option<u32>,
    /// CPU of one node; `None` = not a constraint.
    pub cpu: Option<MilliCpu>,
    /// Main memory of one node; `None` = not a constraint.
    pub memory: Option<Bytes>,
    /// Memory of one GPU where the table lacks the product.
    pub gpu_memory: Option<Mib>,
    /// Labels that its nodes will carry.
    pub labels: BTreeMap<String, String>,
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Taint {
    /// Such as `nvidia.com/gpu`.
    pub key: String,
    /// Often empty.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// One node with its GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The node's name.
    pub name: String,
    /// All labels.
    pub labels: BTreeMap<String, String>,
    /// All taints.
    pub taints: Vec<Taint>,
    /// Whether new pods may come: Ready and not cordoned.
    pub schedulable: bool,
    /// CPU for pods; `None` = not known, not a constraint.
    pub cpu: Option<MilliCpu>,
    /// Main memory for pods; `None` = not known, not a constraint.
    pub memory: Option<Bytes>,
    /// CPU that pods outside the demand request here (daemons, pods without GPUs).
    pub cpu_taken: MilliCpu,
    /// Main memory that pods outside the demand request here.
    pub memory_taken: Bytes,
    /// Pods that kubelet takes; `None` = not known, not a constraint.
    pub pods: Option<u64>,
    /// Pods outside the demand that are here.
    pub pods_taken: u64,
    /// The GPUs, in index order where known.
    pub gpus: Vec<Gpu>,
    /// How many devices of a name kubelet gives out, where that is fewer than the GPUs offer: some do not work.
    /// Which is not known. Absent = all of them.
    pub allocatable: BTreeMap<GpuResource, u64>,
    /// How MIG devices are named here.
    pub mig_strategy: MigStrategy,
    /// Whether shared replicas carry `.shared` in their name.
    pub shares_renamed: bool,
    /// Devices held by pods that are no demand: terminating, or of the GPU Operator.
    pub held_by_others: Vec<Holding>,
    /// Whether NVIDIA's GPU Operator keeps this node (adopt), else Tesela's agent may (native).
    pub operator: bool,
    /// Why the GPUs here must not be planned with (MIG INVALID, vGPU …); empty = they may.
    pub unusable: Option<String>,
}

/// One physical GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// NVML UUID; `None` where kubectl cannot tell.
    pub uuid: Option<String>,
    /// Table id, or the name as found where the table lacks it.
    pub product: String,
    /// Memory of the whole GPU, where known.
    pub memory: Option<Mib>,
    /// How it is offered now.
    pub offer: Offer,
}

/// How a GPU is offered to pods now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Whole.
    Exclusive,
    /// In turns.
    TimeSliced {
        /// At least 2.
        replicas: u32,
    },
    /// Through the MPS daemon.
    Mps {
        /// At least 2.
        replicas: u32,
    },
    /// Cut into instances.
    Mig {
        /// What is cut; empty = MIG is on and nothing can be asked for. Starts are real only when `origin` is
        /// given or measured; kubectl shows counts, so there they are estimated.
        instances: Vec<Instance>,
        /// Replicas of the instances, by profile, where shared; each at least 2.
        replicas: BTreeMap<ProfileName, u32>,
        /// How the instances and their starts are known.
        origin: Origin,
    },
}

impl Offer {
    /// The mode that the contract counts this GPU under.
    #[must_use]
    pub fn mode(&self) -> Mode {
        match self {
            Self::Exclusive => Mode::Exclusive,
            Self::TimeSliced { .. } => Mode::TimeSliced,
            Self::Mps { .. } => Mode::Mps,
            Self::Mig { .. } => Mode::Mig,
        }
    }
}
