//! The fleet as the planner sees it while it decides: nodes with room, GPUs with users.
//!
//! kubectl shows how many devices a node offers and how many are held, not which pod sits on which GPU. So the
//! GPUs of a node are slots; holders are laid onto slots in a fixed order. What may only be done when the real
//! seat is known (cutting beside holders) is not done on slots that are guessed ([`GpuState::exact`]).

mod build;
pub(crate) mod mig;

use std::collections::BTreeMap;

use tesela_model::demand::PodRef;
use tesela_model::fleet::{MigStrategy, Mode, Node, Offer};
use tesela_model::product::{Product, ProfileName};
use tesela_model::quantity::Mib;
use tesela_model::resource::GpuResource;

use self::mig::MigRules;

/// Who uses a device: a workload by its index, or pods that are no demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    Workload(usize),
    Others,
}

/// Pods on a device, or a pod's part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) owner: Owner,
    /// Devices that each of its pods has in all, on this node.
    pub(crate) devices: u32,
    /// Devices or shares taken here.
    pub(crate) units: u64,
    /// Of these, how many are held today and stay.
    pub(crate) staying: u64,
}

/// A GPU model that occurs in the fleet.
#[derive(Clone, Debug)]
pub(crate) struct Kind<'a> {
    /// Table id, else the name as found.
    pub(crate) name: String,
    pub(crate) product: Option<&'a Product>,
    /// Whether MIG mode changes only with a reset.
    pub(crate) needs_reset: bool,
    pub(crate) memory: Option<Mib>,
    /// `None` where MIG cannot be planned.
    pub(crate) rules: Option<MigRules<'a>>,
    /// What one GPU hour costs, or a stand-in that only orders products: its memory.
    pub(crate) weight: u64,
}

/// How the GPUs of a node that are not cut are offered, once something uses one. The device plugin shares all
/// GPUs of a node alike (NVIDIA k8s-device-plugin: `devices` other than `all` is not honoured).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    Whole,
    Shared(Sharing),
}

/// One way of sharing whole GPUs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sharing {
    pub(crate) mode: Mode,
    pub(crate) replicas: u32,
    /// The only tenant that may be here.
    pub(crate) tenant: Option<String>,
}

/// A cut instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Index into [`MigRules::profiles`].
    pub(crate) profile: usize,
    pub(crate) start: u32,
    pub(crate) size: u32,
    /// At least 2 where shared.
    pub(crate) replicas: Option<u32>,
    pub(crate) users: Vec<User>,
}

/// What a GPU is under the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Not cut; how it is offered is the node's [`NodeState::full`].
    Full(Vec<User>),
    /// MIG is on.
    Mig(Vec<Cut>),
}

/// One slot.
#[derive(Clone, Debug)]
pub(crate) struct GpuState<'a> {
    pub(crate) kind: usize,
    pub(crate) uuid: Option<&'a str>,
    pub(crate) today: Option<&'a Offer>,
    pub(crate) content: Content,
    /// Whether the starts of its instances are real, so that it may be cut beside them.
    pub(crate) exact: bool,
    /// Pods that hold something here today and do not stay, one entry per device.
    pub(crate) leaving: Vec<(PodRef, GpuResource)>,
}

impl GpuState<'_> {
    /// Whether the plan uses it.
    pub(crate) fn used(&self) -> bool {
        match &self.content {
            Content::Full(users) => !users.is_empty(),
            Content::Mig(cuts) => cuts.iter().any(|c| !c.users.is_empty()),
        }
    }
}

impl GpuState<'_> {
    /// Whether something that runs here today stays.
    pub(crate) fn keeps(&self) -> bool {
        let stays = |users: &[User]| users.iter().any(|u| u.staying > 0);
        match &self.content {
            Content::Full(users) => stays(users),
            Content::Mig(cuts) => cuts.iter().any(|c| stays(&c.users)),
        }
    }
}

/// Adds one device of a pod to the users of a GPU or instance.
pub(crate) fn join(users: &mut Vec<User>, owner: Owner, devices: u32, staying: u64) {
    match users.iter_mut().find(|u| u.owner == owner && u.devices == devices) {
        Some(user) => {
            user.units += 1;
            user.staying += staying;
        }
        None => users.push(User { owner, devices, units: 1, staying }),
    }
}

/// Where a node comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source<'a> {
    Exists(&'a Node),
    Bought,
}

/// One node while the planner decides.
#[derive(Clone, Debug)]
pub(crate) struct NodeState<'a> {
    pub(crate) source: Source<'a>,
    pub(crate) labels: &'a BTreeMap<String, String>,
    /// Thousandths of a core left; `None` = not a constraint.
    pub(crate) cpu_left: Option<u64>,
    /// Bytes left; `None` = not a constraint.
    pub(crate) memory_left: Option<u64>,
    pub(crate) gpus: Vec<GpuState<'a>>,
    pub(crate) full: Option<Full>,
    pub(crate) strategy: MigStrategy,
    /// The profile that the node is bound to while something stays under strategy single.
    pub(crate) single: Option<ProfileName>,
    pub(crate) renamed: bool,
    /// Pods of each workload, for spread.
    pub(crate) pods: BTreeMap<usize, u64>,
    /// Whether new pods may come.
    pub(crate) open: bool,
}

impl NodeState<'_> {
    pub(crate) fn name(&self) -> Option<&str> {
        match self.source {
            Source::Exists(node) => Some(&node.name),
            Source::Bought => None,
        }
    }

    pub(crate) fn used(&self) -> bool {
        self.gpus.iter().any(GpuState::used)
    }

    /// Whether what its GPUs are is known well enough to plan with them.
    pub(crate) fn may_be_planned(&self) -> bool {
        !matches!(self.source, Source::Exists(node) if node.unusable.is_some())
    }

    /// Whether the GPU Operator's MIG manager, where it keeps the node, would restart a pod that stays if MIG were
    /// switched on one GPU: it destroys the instances of every GPU first, and where the product needs a reset it
    /// resets all GPUs of the node (NVIDIA/mig-parted, mode step of apply). Tesela's agent touches that GPU only.
    pub(crate) fn mode_change_disturbs(&self, needs_reset: bool) -> bool {
        self.operator()
            && self.gpus.iter().any(|g| g.keeps() && (needs_reset || matches!(g.content, Content::Mig(_))))
    }

    /// The same for another layout of one GPU: the MIG manager destroys all its instances.
    pub(crate) fn geometry_disturbs(&self, gpu: &GpuState<'_>) -> bool {
        self.operator() && gpu.keeps()
    }

    fn operator(&self) -> bool {
        matches!(self.source, Source::Exists(node) if node.operator)
    }

    /// Whether every MIG GPU here may be cut anew: nothing that stays sits at a guessed place.
    pub(crate) fn may_recut(&self, gpu: &GpuState<'_>) -> bool {
        gpu.exact || !self.gpus.iter().any(|g| matches!(&g.content, Content::Mig(_)) && g.used() && !g.exact)
    }

    pub(crate) fn take(&mut self, workload: usize, pods: u64, cpu: u64, memory: u64) {
        let less = |left: &mut Option<u64>, each: u64| {
            if let Some(left) = left {
                *left = left.saturating_sub(each.saturating_mul(pods));
            }
        };
        less(&mut self.cpu_left, cpu);
        less(&mut self.memory_left, memory);
        *self.pods.entry(workload).or_insert(0) += pods;
    }
}

/// The fleet while the planner decides.
#[derive(Clone, Debug)]
pub(crate) struct World<'a> {
    pub(crate) kinds: Vec<Kind<'a>>,
    pub(crate) nodes: Vec<NodeState<'a>>,
    /// Running pods whose device could not be found on their node.
    pub(crate) lost: Vec<Lost>,
    /// How many nodes of each offer of `fleet.buy` were added.
    pub(crate) bought: Vec<u32>,
}

/// Running pods for which the node offers no device any more, as far as can be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) workload: usize,
    pub(crate) node: String,
    pub(crate) resource: GpuResource,
    pub(crate) devices: u32,
    pub(crate) pods: u64,
    pub(crate) reason: String,
}
