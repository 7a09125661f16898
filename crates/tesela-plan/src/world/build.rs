//! From the fleet and what runs today to the world the planner works on.

use std::collections::BTreeMap;

use tesela_model::demand::{Holding, PodRef, Workload};
use tesela_model::fleet::{Gpu, MigStrategy, Mode, Node, NodeOffer, Offer};
use tesela_model::origin::Origin;
use tesela_model::product::ProfileName;
use tesela_model::quantity::Mib;
use tesela_model::resource::{GpuDevice, GpuResource};

use super::mig::MigRules;
use super::{Content, Cut, Full, GpuState, Kind, Lost, NodeState, Owner, Sharing, Source, World, join};
use crate::input::PlanInput;

/// Memory that orders a product whose memory nobody knows: between the small and the large ones.
const UNKNOWN_MEMORY: u64 = 40_960;

impl<'a> World<'a> {
    /// The fleet with everything seated that runs today and for which `stays(workload, holding)` holds.
    pub(crate) fn build(input: &PlanInput<'a>, stays: &dyn Fn(usize, &Holding) -> bool) -> Self {
        let mut world = World {
            kinds: Vec::new(),
            nodes: Vec::new(),
            lost: Vec::new(),
            bought: vec![0; input.fleet.buy.len()],
        };
        for node in &input.fleet.nodes {
            let state = world.node(input, node);
            world.nodes.push(state);
        }
        world.seat_running(input, stays);
        world
    }

    /// Keeps shared nodes to one tenant where something that stays asks for that.
    pub(crate) fn claim(&mut self, tenant_only: &dyn Fn(usize) -> Option<String>) {
        for node in &mut self.nodes {
            let Some(Full::Shared(sharing)) = &mut node.full else { continue };
            let users = node.gpus.iter().flat_map(|g| match &g.content {
                Content::Full(users) => users.as_slice(),
                Content::Mig(_) => &[],
            });
            sharing.tenant = users
                .filter_map(|u| match u.owner {
                    Owner::Workload(w) => tenant_only(w),
                    Owner::Others => None,
                })
                .min();
        }
    }

    /// One more node of an offer; `None` when its limit is reached.
    pub(crate) fn buy(&mut self, input: &PlanInput<'a>, offer: usize) -> Option<usize> {
        let wanted: &'a NodeOffer = input.fleet.buy.get(offer)?;
        if wanted.max_nodes.is_some_and(|max| self.bought[offer] >= max) {
            return None;
        }
        self.bought[offer] += 1;
        let kind = self.kind(input, &wanted.product, wanted.gpu_memory);
        let gpu = GpuState {
            kind,
            uuid: None,
            today: None,
            content: Content::Full(Vec::new()),
            exact: true,
            leaving: Vec::new(),
        };
        self.nodes.push(NodeState {
            source: Source::Bought,
            labels: &wanted.labels,
            cpu_left: wanted.cpu.map(|c| c.0),
            memory_left: wanted.memory.map(|m| m.0),
            gpus: vec![gpu; wanted.gpus_per_node as usize],
            full: None,
            strategy: MigStrategy::None,
            single: None,
            renamed: true,
            pods: BTreeMap::new(),
            open: true,
        });
        Some(self.nodes.len() - 1)
    }

    pub(crate) fn kind(&mut self, input: &PlanInput<'a>, name: &str, memory: Option<Mib>) -> usize {
        if let Some(known) = self.kinds.iter().position(|k| k.name == name) {
            return known;
        }
        let product = input.products.find(name).ok();
        let memory = memory.or_else(|| product.and_then(|p| p.memory));
        let price = input.prices.and_then(|p| p.gpu_hour.get(name)).and_then(|p| u64::try_from(p.0).ok());
        self.kinds.push(Kind {
            name: name.to_owned(),
            product,
            needs_reset: product.and_then(|p| p.mode_change_needs_reset).unwrap_or(true),
            memory,
            rules: product.and_then(MigRules::of),
            weight: price.unwrap_or_else(|| memory.map_or(UNKNOWN_MEMORY, |m| m.0)).max(1),
        });
        self.kinds.len() - 1
    }

    fn node(&mut self, input: &PlanInput<'a>, node: &'a Node) -> NodeState<'a> {
        let gpus = node.gpus.iter().map(|gpu| self.gpu(input, gpu)).collect();
        NodeState {
            source: Source::Exists(node),
            labels: &node.labels,
            cpu_left: node.cpu.map(|c| c.0.saturating_sub(node.cpu_taken.0)),
            memory_left: node.memory.map(|m| m.0.saturating_sub(node.memory_taken.0)),
            gpus,
            full: None,
            strategy: node.mig_strategy,
            single: None,
            renamed: node.shares_renamed,
            pods: BTreeMap::new(),
            open: node.schedulable && node.unusable.is_none(),
        }
    }

    fn gpu(&mut self, input: &PlanInput<'a>, gpu: &'a Gpu) -> GpuState<'a> {
        let kind = self.kind(input, &gpu.product, gpu.memory);
        let rules = self.kinds[kind].rules.as_ref();
        let (content, exact) = match &gpu.offer {
            Offer::Mig { instances, replicas, origin } => {
                let cuts = instances
                    .iter()
                    .map(|i| {
                        let mut cut = rules?.cut(rules?.find(&i.profile)?, i.start);
                        cut.replicas = replicas.get(&i.profile).copied();
                        Some(cut)
                    })
                    .collect::<Option<Vec<Cut>>>();
                // An instance that the table does not know leaves the GPU as it is: nothing is cut there.
                let seen = *origin <= Origin::Measured || instances.is_empty();
                let exact = seen && cuts.is_some();
                (Content::Mig(cuts.unwrap_or_default()), exact)
            }
            Offer::Exclusive | Offer::TimeSliced { .. } | Offer::Mps { .. } => {
                (Content::Full(Vec::new()), true)
            }
        };
        GpuState {
            kind,
            uuid: gpu.uuid.as_deref(),
            today: Some(&gpu.offer),
            content,
            exact,
            leaving: Vec::new(),
        }
    }

    fn seat_running(&mut self, input: &PlanInput<'a>, stays: &dyn Fn(usize, &Holding) -> bool) {
        let index: BTreeMap<&str, usize> =
            input.fleet.nodes.iter().enumerate().map(|(i, n)| (n.name.as_str(), i)).collect();
        // Those who stay first, and of them those whose place is known: where seats are guessed, nobody must be
        // laid onto a seat that another keeps.
        for round in [Round::StaysAtKnownPlace, Round::LeavesKnownPlace, Round::Stays, Round::Leaves] {
            if round == Round::Stays {
                self.seat_others(input);
            }
            for (w, workload) in input.demand.workloads.iter().enumerate() {
                let mut room = workload.count;
                for held in &workload.running {
                    let keep = stays(w, held);
                    let node = index.get(held.node.as_str()).copied();
                    for pod in &held.pods {
                        let stay = keep && room > 0;
                        room -= u64::from(stay);
                        let due = match (stay, held.place.is_some()) {
                            (true, true) => Round::StaysAtKnownPlace,
                            (true, false) => Round::Stays,
                            (false, true) => Round::LeavesKnownPlace,
                            (false, false) => Round::Leaves,
                        };
                        match (node, stay) {
                            _ if due != round => {}
                            (None, false) => {}
                            (Some(node), true) => self.keep(node, w, workload, held),
                            (Some(node), false) => self.nodes[node].lay_leaver(held, pod),
                            (None, true) => {
                                let reason = format!("runs on node {}, which is not in the input", held.node);
                                self.lost.push(lost(w, held, reason));
                            }
                        }
                    }
                }
            }
        }
    }

    fn seat_others(&mut self, input: &PlanInput<'a>) {
        for (i, node) in input.fleet.nodes.iter().enumerate() {
            for held in &node.held_by_others {
                for _ in &held.pods {
                    // What others hold beyond what the node offers cannot be planned with; nothing to add.
                    let _ = self.nodes[i].seat(held, Owner::Others);
                }
            }
        }
    }

    fn keep(&mut self, node: usize, w: usize, workload: &Workload, held: &Holding) {
        let state = &mut self.nodes[node];
        match state.seat(held, Owner::Workload(w)) {
            Ok(()) => state.take(w, 1, workload.cpu.0, workload.memory.0),
            Err(reason) => self.lost.push(lost(w, held, reason)),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    StaysAtKnownPlace,
    LeavesKnownPlace,
    Stays,
    Leaves,
}

impl NodeState<'_> {
    /// Seats one pod that runs here.
    fn seat(&mut self, held: &Holding, owner: Owner) -> Result<(), String> {
        let wanted = held.place.as_ref().map(|p| (p.gpu.as_str(), p.start));
        let mut seat = |wanted| self.seat_devices(&held.resource, held.devices, wanted, owner, 1);
        if seat(wanted) || wanted.is_some() && seat(None) {
            return Ok(());
        }
        Err(format!(
            "holds {} × {} on node {}, which does not offer that many now",
            held.devices, held.resource, held.node
        ))
    }

    /// Takes free devices that the node offers today for a new pod.
    pub(crate) fn seat_new(&mut self, resource: &GpuResource, devices: u32, workload: usize) -> bool {
        self.seat_devices(resource, devices, None, Owner::Workload(workload), 0)
    }

    /// All devices of one pod, or none.
    fn seat_devices(
        &mut self,
        resource: &GpuResource,
        devices: u32,
        wanted: Option<(&str, Option<u32>)>,
        owner: Owner,
        staying: u64,
    ) -> bool {
        let before = (devices > 1).then(|| (self.gpus.clone(), self.full.clone()));
        for _ in 0..devices {
            // Seats that a leaver is known to hold are taken last.
            let who = (owner, devices, staying);
            if !self.seat_device(resource, wanted, who, true)
                && !self.seat_device(resource, wanted, who, false)
            {
                if let Some((gpus, full)) = before {
                    self.gpus = gpus;
                    self.full = full;
                }
                return false;
            }
        }
        true
    }

    fn seat_device(
        &mut self,
        resource: &GpuResource,
        wanted: Option<(&str, Option<u32>)>,
        (owner, devices, staying): (Owner, u32, u64),
        beside_leavers: bool,
    ) -> bool {
        let single = self.strategy == MigStrategy::Single;
        let here = |gpu: &GpuState<'_>| wanted.is_none_or(|(uuid, _)| gpu.uuid.is_none_or(|u| u == uuid));
        let left =
            |gpu: &GpuState<'_>| !beside_leavers || gpu.leaving.is_empty() || gpu.has_left(resource, single);
        for gpu in self.gpus.iter_mut().filter(|g| here(g) && left(g)) {
            let Some(offer) = gpu.today else { continue };
            match (&mut gpu.content, offer) {
                (Content::Full(users), Offer::Exclusive)
                    if *resource == GpuResource::gpu() && users.is_empty() =>
                {
                    join(users, owner, devices, staying);
                    self.full = Some(Full::Whole);
                    return true;
                }
                (Content::Full(users), Offer::TimeSliced { replicas } | Offer::Mps { replicas })
                    if resource.device == GpuDevice::Gpu
                        && users.iter().map(|u| u.units).sum::<u64>() < u64::from(*replicas) =>
                {
                    join(users, owner, devices, staying);
                    let mode = if matches!(offer, Offer::Mps { .. }) { Mode::Mps } else { Mode::TimeSliced };
                    let kept = match &self.full {
                        Some(Full::Shared(s)) => s.tenant.clone(),
                        _ => None,
                    };
                    self.full = Some(Full::Shared(Sharing { mode, replicas: *replicas, tenant: kept }));
                    return true;
                }
                (Content::Mig(cuts), _) => {
                    let start = wanted.and_then(|(_, start)| start);
                    if let Some(profile) =
                        seat_on_cut(cuts, offer, (resource, single, start), (owner, devices, staying))
                    {
                        if single {
                            self.single = Some(profile);
                        }
                        return true;
                    }
                }
                _ => {}
            }
        }
        false
    }

    /// Lays a pod that holds something here and does not stay onto a slot, so that a change of that slot names it:
    /// the slot where it is known to sit, else the first with such a device left.
    fn lay_leaver(&mut self, held: &Holding, pod: &PodRef) {
        let single = self.strategy == MigStrategy::Single;
        let place = held.place.as_ref().map(|p| p.gpu.as_str());
        for _ in 0..held.devices {
            let known = self.gpus.iter().position(|g| place.is_some() && g.uuid == place);
            let first = || self.gpus.iter().position(|g| g.has_left(&held.resource, single));
            if let Some(slot) = known.or_else(first) {
                self.gpus[slot].leaving.push((pod.clone(), held.resource.clone()));
            }
        }
    }
}

impl GpuState<'_> {
    /// Whether a device of this name is left beside who stays and who was laid here before.
    fn has_left(&self, resource: &GpuResource, single: bool) -> bool {
        let gone = self.leaving.iter().filter(|(_, r)| r == resource).count() as u64;
        let taken = |users: &[super::User]| users.iter().map(|u| u.units).sum::<u64>() + gone;
        match (&self.content, self.today) {
            (Content::Full(users), Some(Offer::Exclusive)) => {
                *resource == GpuResource::gpu() && taken(users) == 0
            }
            (Content::Full(users), Some(Offer::TimeSliced { replicas } | Offer::Mps { replicas })) => {
                resource.device == GpuDevice::Gpu && taken(users) < u64::from(*replicas)
            }
            (Content::Mig(cuts), Some(Offer::Mig { instances, .. })) => {
                let mine = cuts.iter().zip(instances).filter(|(_, i)| offers(resource, &i.profile, single));
                mine.map(|(cut, _)| free_units(cut)).sum::<u64>() > gone
            }
            _ => false,
        }
    }
}

fn offers(resource: &GpuResource, profile: &ProfileName, single: bool) -> bool {
    match &resource.device {
        GpuDevice::Gpu => single,
        GpuDevice::Mig(wanted) => wanted == profile,
    }
}

fn free_units(cut: &Cut) -> u64 {
    u64::from(cut.replicas.unwrap_or(1)).saturating_sub(cut.users.iter().map(|u| u.units).sum())
}

/// The profile of the instance on which the device was seated.
fn seat_on_cut(
    cuts: &mut [Cut],
    offer: &Offer,
    (resource, single, start): (&GpuResource, bool, Option<u32>),
    (owner, devices, staying): (Owner, u32, u64),
) -> Option<ProfileName> {
    let Offer::Mig { instances, .. } = offer else { return None };
    let found = cuts.iter_mut().zip(instances).find(|(cut, i)| {
        offers(resource, &i.profile, single) && start.is_none_or(|s| s == cut.start) && free_units(cut) > 0
    })?;
    join(&mut found.0.users, owner, devices, staying);
    Some(found.1.profile.clone())
}

fn lost(workload: usize, held: &Holding, reason: String) -> Lost {
    let (node, resource) = (held.node.clone(), held.resource.clone());
    Lost { workload, node, resource, devices: held.devices, pods: 1, reason }
}
