//! What every GPU of every node becomes, and which seats that makes.

use std::collections::BTreeMap;

use tesela_model::demand::WorkloadKey;
use tesela_model::fleet::{MigStrategy, Mode, Offer};
use tesela_model::label;
use tesela_model::origin::Origin;
use tesela_model::plan::{PlannedGpu, PlannedInstance, PlannedNode, Use};
use tesela_model::resource::GpuResource;

use super::{Seat, Taken};
use crate::input::PlanInput;
use crate::world::{Content, Full, GpuState, NodeState, Owner, Source, User, World};

/// Planned nodes in the world's order, and what is taken in them.
pub(super) fn nodes(input: &PlanInput<'_>, world: &World<'_>) -> (Vec<PlannedNode>, BTreeMap<Seat, Taken>) {
    let mut seats = BTreeMap::new();
    let mut nodes = Vec::new();
    for (index, state) in world.nodes.iter().enumerate() {
        let here = Here { input, world, state, index };
        let gpus = state.gpus.iter().map(|gpu| here.gpu(gpu, &mut seats)).collect();
        let (today, operator, labels) = match state.source {
            Source::Exists(node) => (Some(node.mig_strategy), node.operator, Some(&node.labels)),
            Source::Bought => (None, false, None),
        };
        let label = |key: &str| labels.and_then(|l| l.get(key).cloned());
        nodes.push(PlannedNode {
            name: state.name().map(str::to_owned),
            mig_strategy: state.strategy,
            mig_strategy_today: today,
            operator,
            plugin_config_today: label(label::DEVICE_PLUGIN_CONFIG),
            mig_config_today: label(label::MIG_CONFIG),
            gpus,
        });
    }
    (nodes, seats)
}

/// Mode and replicas under which the GPUs of a node that are not cut are offered.
pub(super) fn full_offer(state: &NodeState<'_>, gpu: &GpuState<'_>) -> (Mode, Option<u32>) {
    // What nobody new uses stays as it is, unless the node's sharing changes: that is of all GPUs alike.
    // Hardware that is not there yet has no today.
    let as_today = gpu.today.is_some() && (gpu.keeps() || !gpu.used() && !state.changes_sharing());
    match (state.full.as_ref().filter(|_| !as_today), gpu.today) {
        (Some(Full::Whole), _) => (Mode::Exclusive, None),
        (Some(Full::Shared(s)), _) => (s.mode, Some(s.replicas)),
        (None, Some(Offer::TimeSliced { replicas })) => (Mode::TimeSliced, Some(*replicas)),
        // Beside MIG the device plugin offers no MPS, so where instances come, MPS that nobody uses goes.
        (None, Some(Offer::Mps { replicas })) if !state.has_instances() => (Mode::Mps, Some(*replicas)),
        // A GPU that was cut and of which nothing stays cut, or one that is whole, or new.
        (None, _) => (Mode::Exclusive, None),
    }
}

struct Here<'h, 'a> {
    input: &'h PlanInput<'a>,
    world: &'h World<'a>,
    state: &'h NodeState<'a>,
    index: usize,
}

impl Here<'_, '_> {
    fn gpu(&self, gpu: &GpuState<'_>, seats: &mut BTreeMap<Seat, Taken>) -> PlannedGpu {
        let kind = &self.world.kinds[gpu.kind];
        let mut planned = PlannedGpu {
            uuid: gpu.uuid.map(str::to_owned),
            product: kind.name.clone(),
            mode: Mode::Mig,
            replicas: None,
            instances: Vec::new(),
            starts: if gpu.exact { Origin::Given } else { Origin::Estimated },
            used_by: Vec::new(),
            mode_today: gpu.today.map(Offer::mode),
        };
        match &gpu.content {
            Content::Full(users) => {
                let (mode, replicas) = full_offer(self.state, gpu);
                (planned.mode, planned.replicas) = (mode, replicas);
                let name = GpuResource::gpu();
                let name = if replicas.is_some() && self.state.renamed { name.renamed() } else { name };
                planned.used_by = users.iter().map(|u| self.usage(u)).collect();
                for user in users {
                    let seat = self.seat(user, mode, replicas, name.clone(), kind.name.clone());
                    self.take(seats, seat, user, gpu, None);
                }
            }
            Content::Mig(cuts) => {
                let rules = kind.rules.as_ref();
                for cut in cuts {
                    let Some(rule) = rules.and_then(|r| r.profiles.get(cut.profile)) else { continue };
                    let name = match self.state.strategy {
                        MigStrategy::Single => GpuResource::gpu(),
                        MigStrategy::None | MigStrategy::Mixed => GpuResource::mig(rule.name.clone()),
                    };
                    let name =
                        if cut.replicas.is_some() && self.state.renamed { name.renamed() } else { name };
                    for user in &cut.users {
                        let seat = self.seat(user, Mode::Mig, cut.replicas, name.clone(), kind.name.clone());
                        let seat = seat.map(|s| Seat { profile: Some(rule.name.clone()), ..s });
                        self.take(seats, seat, user, gpu, gpu.exact.then_some(cut.start));
                    }
                    planned.instances.push(PlannedInstance {
                        profile: rule.name.clone(),
                        start: cut.start,
                        size: cut.size,
                        replicas: cut.replicas,
                        used_by: cut.users.iter().map(|u| self.usage(u)).collect(),
                    });
                }
                planned.instances.sort_by(|a, b| (a.start, &a.profile).cmp(&(b.start, &b.profile)));
            }
        }
        planned
    }

    fn usage(&self, user: &User) -> Use {
        let Owner::Workload(w) = user.owner else {
            return Use { pods: user.units, ..Use::default() };
        };
        let WorkloadKey { namespace, kind, name } = self.input.demand.workloads[w].key.clone();
        Use { namespace, kind, workload: name, pods: user.units }
    }

    fn seat(
        &self,
        user: &User,
        mode: Mode,
        replicas: Option<u32>,
        resource: GpuResource,
        product: String,
    ) -> Option<Seat> {
        let Owner::Workload(workload) = user.owner else { return None };
        Some(Seat {
            workload,
            node: self.state.name().map(str::to_owned),
            index: if self.state.name().is_some() { 0 } else { self.index },
            mode,
            replicas,
            resource,
            product,
            profile: None,
            devices: user.devices,
        })
    }

    fn take(
        &self,
        seats: &mut BTreeMap<Seat, Taken>,
        seat: Option<Seat>,
        user: &User,
        gpu: &GpuState<'_>,
        start: Option<u32>,
    ) {
        let Some(seat) = seat else { return };
        let taken = seats.entry(seat).or_default();
        taken.units += user.units;
        taken.staying += user.staying;
        taken.gpus.push(gpu.uuid.map(str::to_owned));
        taken.starts.push(start);
    }
}
