//! The fleet as the planner sees it while it decides: nodes with room, GPUs with users.
//!
//! kubectl shows how many devices a node offers and how many are held, not which pod sits on which GPU. So the
//! GPUs of a node are slots; holders are laid onto slots in a fixed order. What may only be done when the real
//! seat is known (cutting beside holders) is not done on slots that are guessed ([`GpuState::exact`]).

mod build;
pub(crate) mod mig;

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::demand::{Holding, PodRef};
use tesela_model::fleet::{MigStrategy, Mode, Node, Offer};
use tesela_model::product::{Product, ProfileName};
use tesela_model::quantity::Mib;
use tesela_model::resource::{GpuDevice, GpuResource};

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
    /// As [`GpuState::unwell`].
    pub(crate) unwell: bool,
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
    /// Whether it takes no new pods, since kubelet gives out fewer devices than there are. Which of them do not
    /// work is not known, only how many; an idle one stands in for each.
    pub(crate) unwell: bool,
    /// Whether somebody is known to hold just this GPU.
    pub(crate) placed: bool,
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
    /// Whether it or one of its instances takes no new pods.
    pub(crate) fn ails(&self) -> bool {
        self.unwell || matches!(&self.content, Content::Mig(cuts) if cuts.iter().any(|c| c.unwell))
    }

    /// Whether it is offered today under a mode or replica count other than this one.
    fn is_offered_otherwise(&self, full: &Full) -> bool {
        let (mode, replicas) = match (&self.content, self.today) {
            (Content::Full(_), Some(Offer::Exclusive)) => (Mode::Exclusive, 1),
            (Content::Full(_), Some(Offer::TimeSliced { replicas })) => (Mode::TimeSliced, *replicas),
            (Content::Full(_), Some(Offer::Mps { replicas })) => (Mode::Mps, *replicas),
            _ => return false,
        };
        match full {
            Full::Whole => mode != Mode::Exclusive,
            Full::Shared(s) => (s.mode, s.replicas) != (mode, replicas),
        }
    }

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
    /// Pods that may still come; `None` = not a constraint.
    pub(crate) pods_left: Option<u64>,
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
    /// Pods that stay and hold something that the node does not offer any more, as far as can be seen.
    pub(crate) unseen: u64,
    /// Whether pods that stay hold GPUs that are not cut, beside idle ones, and nobody knows which.
    pub(crate) guessed: bool,
    /// Pods that leave GPUs that are not cut, where nobody knows which.
    pub(crate) guessed_leavers: Vec<PodRef>,
    /// Whether kubelet gives out fewer devices than there are.
    pub(crate) ailing: bool,
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

    /// Whether nobody is on it under the plan, as far as can be seen and beyond.
    pub(crate) fn is_empty(&self) -> bool {
        !self.used() && self.unseen == 0
    }

    /// Whether what its GPUs are is known well enough to plan with them.
    pub(crate) fn may_be_planned(&self) -> bool {
        !matches!(self.source, Source::Exists(node) if node.unusable.is_some())
    }

    /// Whether a pod that stays might be restarted if MIG were switched on one GPU.
    ///
    /// The GPU Operator's MIG manager destroys the instances of every GPU first, and where the product needs a
    /// reset it resets all GPUs of the node (NVIDIA/mig-parted, mode step of apply). Its config names GPUs by
    /// index, so which GPU is idle and well must be known beforehand. Tesela's agent touches that GPU only, and
    /// knows when it starts which one is idle.
    pub(crate) fn mode_change_disturbs(&self, needs_reset: bool) -> bool {
        let kept = |g: &GpuState<'_>| g.keeps() && (needs_reset || matches!(g.content, Content::Mig(_)));
        self.unseen > 0 || self.operator() && (self.guessed || self.ailing || self.gpus.iter().any(kept))
    }

    /// The same for another layout of one GPU: the MIG manager destroys all its instances.
    pub(crate) fn geometry_disturbs(&self, gpu: &GpuState<'_>) -> bool {
        !self.may_change(gpu) || self.operator() && gpu.keeps()
    }

    /// Whether a pod that stays might be restarted, or meet others than today, if GPUs that are not cut were
    /// offered so.
    pub(crate) fn sharing_disturbs(&self, full: &Full) -> bool {
        let fenced = matches!(full, Full::Shared(s) if s.tenant.is_some());
        self.unseen > 0 && fenced
            || self
                .gpus
                .iter()
                .any(|g| g.is_offered_otherwise(full) && (self.unseen > 0 || self.guessed || g.keeps()))
    }

    /// Whether GPUs that are not cut are offered otherwise than today, for somebody who is new on one.
    pub(crate) fn changes_sharing(&self) -> bool {
        let Some(full) = &self.full else { return false };
        self.gpus.iter().any(|g| g.used() && !g.keeps() && g.is_offered_otherwise(full))
    }

    /// Whether a GPU of the node is cut.
    pub(crate) fn has_instances(&self) -> bool {
        self.gpus.iter().any(|g| matches!(&g.content, Content::Mig(cuts) if !cuts.is_empty()))
    }

    pub(crate) fn operator(&self) -> bool {
        matches!(self.source, Source::Exists(node) if node.operator)
    }

    /// Whether every MIG GPU here may be cut anew: nothing that stays sits at a guessed place.
    pub(crate) fn may_recut(&self, gpu: &GpuState<'_>) -> bool {
        let guessed = |g: &GpuState<'_>| matches!(&g.content, Content::Mig(_)) && g.used() && !g.exact;
        self.may_change(gpu) && (gpu.exact || !self.gpus.iter().any(guessed))
    }

    /// Whether what this GPU is cut into may change at all.
    fn may_change(&self, gpu: &GpuState<'_>) -> bool {
        self.unseen == 0 && !gpu.ails() && !(self.operator() && self.ailing)
    }

    /// Forgets which GPU is which among those that are not cut, where who sits on which is a guess. The agent
    /// looks for an idle one when the plan is carried out.
    pub(crate) fn forget_which(&mut self) {
        if !self.guessed && self.guessed_leavers.is_empty() {
            return;
        }
        for gpu in &mut self.gpus {
            if !gpu.placed && !matches!(gpu.today, Some(Offer::Mig { .. })) {
                gpu.uuid = None;
            }
        }
    }

    /// Whether a workload gets new devices here like the one that its pods hold here today, of the same name and on a
    /// GPU that stays what it is.
    pub(crate) fn takes_alike(&self, workload: usize, held: &Holding) -> bool {
        let new = |users: &[User]| {
            users.iter().any(|u| {
                u.owner == Owner::Workload(workload) && u.devices == held.devices && u.staying < u.units
            })
        };
        self.gpus.iter().any(|gpu| match (&gpu.content, gpu.today, &self.full, &held.resource.device) {
            (Content::Full(users), Some(Offer::Exclusive), Some(Full::Whole), GpuDevice::Gpu) => {
                !held.resource.shared && new(users)
            }
            (
                Content::Full(users),
                Some(Offer::TimeSliced { replicas }),
                Some(Full::Shared(s)),
                GpuDevice::Gpu,
            ) => (s.mode, s.replicas) == (Mode::TimeSliced, *replicas) && new(users),
            (Content::Mig(cuts), Some(Offer::Mig { instances, .. }), _, GpuDevice::Mig(profile)) => {
                cuts.iter().any(|cut| {
                    new(&cut.users) && instances.iter().any(|i| i.start == cut.start && i.profile == *profile)
                })
            }
            _ => false,
        })
    }

    /// Pods that leave this node, by the devices they hold.
    pub(crate) fn leavers(&self) -> usize {
        self.gpus.iter().map(|g| g.leaving.len()).sum()
    }

    pub(crate) fn take(&mut self, workload: usize, pods: u64, cpu: u64, memory: u64) {
        let less = |left: &mut Option<u64>, each: u64| {
            if let Some(left) = left {
                *left = left.saturating_sub(each.saturating_mul(pods));
            }
        };
        less(&mut self.cpu_left, cpu);
        less(&mut self.memory_left, memory);
        less(&mut self.pods_left, 1);
        *self.pods.entry(workload).or_insert(0) += pods;
    }
}

impl World<'_> {
    /// Nodes with pods that stay and hold something that cannot be seen.
    pub(crate) fn unseen(&self) -> BTreeSet<&str> {
        self.nodes.iter().filter(|n| n.unseen > 0).filter_map(NodeState::name).collect()
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
    /// The kind of GPU of each offer of `fleet.buy`.
    pub(crate) offered: Vec<usize>,
}

/// Running pods for which the node offers no device any more, as far as can be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) workload: usize,
    pub(crate) node: String,
    pub(crate) resource: GpuResource,
    pub(crate) devices: u32,
    pub(crate) pods: u64,
    /// Whether its node is in the fleet; then it counts among the pods there.
    pub(crate) on_node: bool,
    pub(crate) reason: String,
}
