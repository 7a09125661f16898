//! Series, one after the other, → what each pod and each device used: of this cluster, and of nobody knows which.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::demand::{Demand, PodRef, WorkloadKey};
use tesela_model::fleet::{Fleet, Node};
use tesela_model::product::ProductTable;
use tesela_model::resource::GpuResource;
use tesela_model::server::Server;
use tesela_model::usage::{Metric, PodLife, UsageSeries};

use super::heap::Heap;
use super::hold::{Hold, Owner, hold, whole_nodes};
use super::node_name::{NodeNames, Whence};
use super::{Evidence, Unread};
use crate::input::Settings;

/// What the evidence is about.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// Workloads with what their pods hold.
    pub demand: &'a Demand,
    /// Nodes, and how their GPUs are offered.
    pub fleet: &'a Fleet,
    /// Memory of devices.
    pub products: &'a ProductTable,
    /// Workloads that run a server which reserves memory.
    pub servers: &'a BTreeMap<WorkloadKey, Server>,
    /// When pods started and which fail; a pod that is not here may have run always.
    pub lives: &'a BTreeMap<PodRef, PodLife>,
}

/// A pod with the device that it holds, or held.
#[derive(Clone, Debug)]
pub(super) struct Holder<'a> {
    pub(super) workload: &'a WorkloadKey,
    pub(super) hold: Hold,
    /// Nodes it was seen on, today's first.
    pub(super) nodes: Vec<&'a str>,
    /// Since when the name is known to be this workload's; `None` = not known, so always.
    pub(super) since: Option<i64>,
    /// Whether it cannot start or dies again and again.
    pub(super) failing: bool,
    /// Whether it is there today.
    pub(super) today: bool,
}

/// What is known of the cluster before any series.
#[derive(Debug)]
pub(super) struct Ground<'a> {
    pub(super) names: NodeNames<'a>,
    pub(super) holders: BTreeMap<PodRef, Holder<'a>>,
    /// Nodes that one workload holds whole.
    pub(super) owners: BTreeMap<&'a str, Owner<'a>>,
}

/// Series whose label names no node of the input.
#[derive(Debug)]
pub(super) struct Elsewhere {
    pub(super) series: u64,
    pub(super) names: Vec<String>,
    /// Whether they were taken, since no series names a node of the input.
    pub(super) taken: bool,
}

/// Takes series one by one.
#[derive(Debug)]
pub struct Collector<'a> {
    pub(super) scene: Scene<'a>,
    nodes: BTreeMap<&'a str, &'a Node>,
    pub(super) ground: Ground<'a>,
    /// Series of nodes of the input, and those that name none.
    pub(super) own: Heap,
    /// Series that name something else as their node.
    other: Heap,
    /// Whether any series names a node of the input.
    placed: bool,
    pub(super) elsewhere: Option<Elsewhere>,
}

impl<'a> Collector<'a> {
    /// Knows the pods that run.
    #[must_use]
    pub fn new(scene: Scene<'a>) -> Self {
        let nodes = scene.fleet.nodes.iter().map(|n| (n.name.as_str(), n)).collect::<BTreeMap<_, _>>();
        let mut holders = BTreeMap::new();
        for workload in &scene.demand.workloads {
            for held in &workload.running {
                let hold = hold(&scene, nodes.get(held.node.as_str()).copied(), &held.resource);
                for pod in &held.pods {
                    let life = scene.lives.get(pod).copied().unwrap_or_default();
                    let holder = Holder {
                        workload: &workload.key,
                        hold,
                        nodes: vec![&held.node],
                        since: life.started_ms,
                        failing: life.failing,
                        today: true,
                    };
                    holders.insert(pod.clone(), holder);
                }
            }
        }
        let held_on = scene.demand.workloads.iter().flat_map(|w| &w.running).map(|h| h.node.as_str());
        let names = NodeNames::new(&scene.fleet.nodes, held_on);
        let ground = Ground { names, holders, owners: whole_nodes(&scene) };
        let (own, other) = Default::default();
        Self { scene, nodes, ground, own, other, placed: false, elsewhere: None }
    }

    /// Knows a pod that ran before and may be gone; `node` and `resource` are what it held. Where a pod of that name
    /// runs today as the same workload, its evidence begins with the earlier one.
    pub fn earlier(
        &mut self,
        pod: &PodRef,
        workload: &'a WorkloadKey,
        node: &'a str,
        resource: &GpuResource,
        started_ms: Option<i64>,
    ) {
        let hold = hold(&self.scene, self.nodes.get(node).copied(), resource);
        self.ground.names.know(node);
        let Some(known) = self.ground.holders.get_mut(pod) else {
            let nodes = vec![node];
            let holder = Holder { workload, hold, nodes, since: started_ms, failing: false, today: false };
            self.ground.holders.insert(pod.clone(), holder);
            return;
        };
        let joined = known.hold.joined(hold).filter(|_| known.workload == workload);
        if let Some(hold) = joined {
            known.hold = hold;
            known.since = known.since.zip(started_ms).map_or(known.since, |(a, b)| Some(a.min(b)));
            if !known.nodes.contains(&node) {
                known.nodes.push(node);
            }
        }
    }

    /// Takes a series.
    pub fn take(&mut self, series: &UsageSeries) {
        match self.ground.names.whence(series.subject.node.as_deref()) {
            Whence::Here(node) => {
                self.placed = true;
                self.own.take(&self.ground, series, Some(node));
            }
            Whence::Unsaid => self.own.take(&self.ground, series, None),
            Whence::Elsewhere => self.other.take(&self.ground, series, None),
        }
    }

    /// Puts together what was measured. `util_may_be_ratio` = `DCGM_FI_DEV_GPU_UTIL` cannot be trusted.
    #[must_use]
    pub fn finish(mut self, settings: &Settings, util_may_be_ratio: bool) -> Evidence {
        self.settle_elsewhere();
        if util_may_be_ratio {
            self.own.forget(Metric::GpuUtil);
        }
        self.give_whole_nodes();
        let measured = super::need::measured(&self, settings);
        let (findings, assumptions) = super::words::told(&self, &measured, settings);
        let idle = |unread: Option<Unread>| matches!(unread, Some(Unread::Failing | Unread::NothingLoaded));
        for (key, _) in measured.iter().filter(|(_, one)| idle(one.unread)) {
            self.own.together.leave_out(key);
        }
        let joint = self.own.together.joint(self.scene.demand);
        let activity_findings = super::doubt::joint(&joint);
        Evidence { measured, findings, assumptions, activity: joint.activity, activity_findings }
    }

    /// Series that name something which is no node of the input are of another cluster or of a node that is gone.
    /// Where no series at all names a node, exporters write something else there (their own pod's name), unless one
    /// such name stands for pods on several nodes.
    fn settle_elsewhere(&mut self) {
        let other = std::mem::take(&mut self.other);
        if other.series == 0 {
            return;
        }
        let taken = !self.placed && !other.contradicts();
        let names = other.names.keys().cloned().collect();
        self.elsewhere = Some(Elsewhere { series: other.series, names, taken });
        if taken {
            self.own.absorb(other);
        }
    }

    /// Devices without a pod's name, on a node whose GPUs are all held whole by pods of one workload, are that
    /// workload's: each stands for one of its pods.
    fn give_whole_nodes(&mut self) {
        let named = |(pod, holder): (&PodRef, &Holder<'a>)| {
            self.own.pods.contains_key(pod).then_some(holder.workload)
        };
        let measured = self.ground.holders.iter().filter_map(named).collect::<BTreeSet<_>>();
        let devices = std::mem::take(&mut self.own.devices);
        for (device, used) in devices {
            let (node, gpu, instance) = &device;
            let owner = self.ground.owners.get(node.as_str()).filter(|_| instance.is_empty());
            let Some(&owner) = owner.filter(|owner| !measured.contains(owner.workload)) else {
                self.own.devices.insert(device, used);
                continue;
            };
            // A name that no pod can have, so that it meets none.
            let pod = PodRef { namespace: owner.workload.namespace.clone(), name: format!("{node}/{gpu}") };
            let holder = Holder {
                workload: owner.workload,
                hold: Hold::Own(owner.gpu),
                nodes: Vec::new(),
                since: owner.since,
                failing: owner.failing,
                today: true,
            };
            self.ground.holders.insert(pod.clone(), holder);
            self.own.pods.insert(pod, used);
        }
    }
}
