//! From the fleet and what runs today to the world the planner works on.

use std::collections::BTreeMap;

use tesela_model::demand::{Holding, PodRef};
use tesela_model::fleet::{Gpu, MigStrategy, Mode, Node, NodeOffer, Offer};
use tesela_model::origin::Origin;
use tesela_model::product::ProfileName;
use tesela_model::quantity::Mib;
use tesela_model::resource::GpuResource;

use super::mig::MigRules;
use super::{Content, Cut, Full, GpuState, Kind, Lost, NodeState, Owner, Sharing, Source, User, World, join};
use crate::decide::need_with_context;
use crate::input::PlanInput;

/// Memory that orders a product whose memory nobody knows: between the small and the large ones.
const UNKNOWN_MEMORY: u64 = 40_960;

impl<'a> World<'a> {
    /// The fleet with everything seated that runs today and for which `stays(workload, holding)` holds.
    ///
    /// `stays` gets the index of a workload and of one of its `running`.
    pub(crate) fn build(input: &PlanInput<'a>, stays: &dyn Fn(usize, usize) -> bool) -> Self {
        let mut world = World {
            kinds: Vec::new(),
            nodes: Vec::new(),
            lost: Vec::new(),
            bought: vec![0; input.fleet.buy.len()],
            offered: Vec::new(),
        };
        for node in &input.fleet.nodes {
            let state = world.node(input, node);
            world.nodes.push(state);
        }
        // Kinds of hardware to buy belong to the fleet from the start: how much a GPU is shared is decided by kind.
        for offer in &input.fleet.buy {
            let memory = offer.gpu_memory.or_else(|| world.least_memory(input, &offer.product));
            let kind = world.kind(input, &offer.product, memory);
            world.offered.push(kind);
        }
        world.seat_running(input, stays);
        for (state, node) in world.nodes.iter_mut().zip(&input.fleet.nodes) {
            state.close_unwell(node);
            state.guessed = state.guessed && state.gpus.iter().any(GpuState::is_idle_uncut);
        }
        world
    }

    /// Memory of a product of which only its name is known.
    fn least_memory(&self, input: &PlanInput<'a>, name: &str) -> Option<Mib> {
        let known = || self.kinds.iter().filter(|k| k.name == name).filter_map(|k| k.memory).min();
        input.products.look_up(name).and_then(|p| p.memory).or_else(known)
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
        let gpu = GpuState {
            kind: self.offered[offer],
            uuid: None,
            today: None,
            content: Content::Full(Vec::new()),
            exact: true,
            unwell: false,
            placed: false,
            leaving: Vec::new(),
        };
        self.nodes.push(NodeState {
            source: Source::Bought,
            labels: &wanted.labels,
            cpu_left: wanted.cpu.map(|c| c.0),
            memory_left: wanted.memory.map(|m| m.0),
            pods_left: None,
            gpus: vec![gpu; wanted.gpus_per_node as usize],
            full: None,
            strategy: MigStrategy::None,
            single: None,
            renamed: true,
            pods: BTreeMap::new(),
            open: true,
            unseen: 0,
            guessed: false,
            guessed_leavers: Vec::new(),
            ailing: false,
        });
        Some(self.nodes.len() - 1)
    }

    /// GPUs of one name and one memory are one kind.
    fn kind(&mut self, input: &PlanInput<'a>, name: &str, memory: Option<Mib>) -> usize {
        let product = input.products.look_up(name);
        let memory = memory.or_else(|| product.and_then(|p| p.memory));
        if let Some(known) = self.kinds.iter().position(|k| k.name == name && k.memory == memory) {
            return known;
        }
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
            pods_left: node.pods.map(|pods| pods.saturating_sub(node.pods_taken)),
            gpus,
            full: None,
            strategy: node.mig_strategy,
            single: None,
            renamed: node.shares_renamed,
            pods: BTreeMap::new(),
            open: node.schedulable && node.unusable.is_none(),
            unseen: 0,
            guessed: false,
            guessed_leavers: Vec::new(),
            ailing: false,
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
            unwell: false,
            placed: false,
            leaving: Vec::new(),
        }
    }

    fn seat_running(&mut self, input: &PlanInput<'a>, stays: &dyn Fn(usize, usize) -> bool) {
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
                for (h, held) in workload.running.iter().enumerate() {
                    let keep = stays(w, h);
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
                            (Some(node), true) => self.keep(input, node, w, held),
                            (Some(node), false) => self.nodes[node].lay_leaver(held, pod),
                            (None, true) => {
                                let reason = format!("runs on node {}, which is not in the input", held.node);
                                self.lost.push(lost(w, held, false, reason));
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
                    // What others hold beyond what the node offers has no seat; it is there all the same.
                    if self.nodes[i].seat(held, Owner::Others, &|_| true).is_err() {
                        self.nodes[i].unseen += 1;
                    }
                }
            }
        }
    }

    fn keep(&mut self, input: &PlanInput<'a>, node: usize, w: usize, held: &Holding) {
        let need = |w: usize| need_with_context(&input.demand.workloads[w], &input.settings);
        let taken = |user: &User| match user.owner {
            Owner::Workload(w) => need(w).map_or(0, |need| need.0.saturating_mul(user.units)),
            Owner::Others => 0,
        };
        let kinds = &self.kinds;
        // Where seats are guessed, pods that share are guessed to sit where their memory fits.
        let holds = |gpu: &GpuState<'_>| match (&gpu.content, need(w), kinds[gpu.kind].memory) {
            (Content::Full(users), Some(need), Some(memory)) => {
                users.iter().map(taken).fold(need.0, u64::saturating_add) <= memory.0
            }
            _ => true,
        };
        let workload = &input.demand.workloads[w];
        let state = &mut self.nodes[node];
        // Whatever it holds, it uses the node's CPU and memory.
        state.take(w, 1, workload.cpu.0, workload.memory.0);
        if let Err(reason) = state.seat(held, Owner::Workload(w), &holds) {
            state.unseen += 1;
            self.lost.push(lost(w, held, true, reason));
        }
    }
}

/// The device that is known to be held, by UUID and start, and which GPUs will do.
type Wanted<'f> = (Option<(&'f str, Option<u32>)>, &'f dyn Fn(&GpuState<'_>) -> bool);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    StaysAtKnownPlace,
    LeavesKnownPlace,
    Stays,
    Leaves,
}

impl NodeState<'_> {
    /// Seats one pod that runs here.
    fn seat(
        &mut self,
        held: &Holding,
        owner: Owner,
        holds: &dyn Fn(&GpuState<'_>) -> bool,
    ) -> Result<(), String> {
        let wanted = held.place.as_ref().map(|p| (p.gpu.as_str(), p.start));
        let uncut = self.uncut_units();
        let any = |_: &GpuState<'_>| true;
        if wanted.is_some() && self.seat_devices(&held.resource, held.devices, (wanted, &any), owner, 1) {
            match self.gpus.iter_mut().find(|g| wanted.is_some_and(|(uuid, _)| g.uuid == Some(uuid))) {
                Some(gpu) => gpu.placed = true,
                None => self.guessed = self.guessed || self.uncut_units() > uncut,
            }
            return Ok(());
        }
        if self.seat_devices(&held.resource, held.devices, (None, holds), owner, 1)
            || self.seat_devices(&held.resource, held.devices, (None, &any), owner, 1)
        {
            self.guessed = self.guessed || self.uncut_units() > uncut;
            return Ok(());
        }
        Err(format!(
            "holds {} × {} on node {}, which does not offer that many now",
            held.devices, held.resource, held.node
        ))
    }

    /// Devices and shares taken of GPUs that are not cut.
    fn uncut_units(&self) -> u64 {
        let units = |g: &GpuState<'_>| match &g.content {
            Content::Full(users) => users.iter().map(|u| u.units).sum::<u64>(),
            Content::Mig(_) => 0,
        };
        self.gpus.iter().map(units).sum()
    }

    /// Takes free devices that the node offers today for a new pod.
    pub(crate) fn seat_new(&mut self, resource: &GpuResource, devices: u32, workload: usize) -> bool {
        self.seat_devices(resource, devices, (None, &|_| true), Owner::Workload(workload), 0)
    }

    /// All devices of one pod, or none.
    fn seat_devices(
        &mut self,
        resource: &GpuResource,
        devices: u32,
        wanted: Wanted<'_>,
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
        (wanted, holds): Wanted<'_>,
        (owner, devices, staying): (Owner, u32, u64),
        beside_leavers: bool,
    ) -> bool {
        let names = self.names();
        let here = |gpu: &GpuState<'_>| wanted.is_none_or(|(uuid, _)| gpu.uuid.is_none_or(|u| u == uuid));
        let left =
            |gpu: &GpuState<'_>| !beside_leavers || gpu.leaving.is_empty() || gpu.has_left(resource, names);
        for gpu in self.gpus.iter_mut().filter(|g| !g.unwell && here(g) && left(g) && holds(g)) {
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
                    if *resource == names.share()
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
                        seat_on_cut(cuts, offer, (resource, names, start), (owner, devices, staying))
                    {
                        if names.single {
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
        let names = self.names();
        let place = held.place.as_ref().map(|p| p.gpu.as_str());
        for _ in 0..held.devices {
            let known = self.gpus.iter().position(|g| place.is_some() && g.uuid == place);
            let first = || self.gpus.iter().position(|g| g.has_left(&held.resource, names));
            let Some(slot) = known.or_else(first) else { continue };
            let gpu = &mut self.gpus[slot];
            gpu.leaving.push((pod.clone(), held.resource.clone()));
            gpu.placed = gpu.placed || known.is_some();
            if known.is_none() && matches!(gpu.content, Content::Full(_)) {
                self.guessed_leavers.push(pod.clone());
            }
        }
    }

    fn names(&self) -> Names {
        Names {
            single: self.strategy == MigStrategy::Single,
            renamed: matches!(self.source, Source::Exists(node) if node.shares_renamed),
        }
    }

    /// Closes as many devices as kubelet does not give out: idle ones, since those in use work as far as is known.
    fn close_unwell(&mut self, node: &Node) {
        let names = self.names();
        for (resource, given_out) in &node.allocatable {
            let units = |g: &GpuState<'_>| g.units(resource, names);
            let offered: u64 = self.gpus.iter().map(units).sum();
            let Some(mut missing) = offered.checked_sub(*given_out).filter(|n| *n > 0) else { continue };
            self.ailing = true;
            let mut slots: Vec<usize> = (0..self.gpus.len()).filter(|&g| units(&self.gpus[g]) > 0).collect();
            slots.sort_by_key(|&g| (self.gpus[g].used(), self.gpus[g].leaving.len(), std::cmp::Reverse(g)));
            for slot in slots {
                missing = missing.saturating_sub(self.gpus[slot].close(resource, names, missing));
            }
        }
    }
}

/// How a node names its devices today.
#[derive(Clone, Copy, Debug)]
struct Names {
    /// MIG strategy single: instances are offered as `nvidia.com/gpu`.
    single: bool,
    /// Shared devices carry `.shared`.
    renamed: bool,
}

impl Names {
    fn of(self, device: GpuResource, shared: bool) -> GpuResource {
        if shared && self.renamed { device.renamed() } else { device }
    }

    /// A share of a GPU that is not cut.
    fn share(self) -> GpuResource {
        self.of(GpuResource::gpu(), true)
    }

    fn instance(self, profile: &ProfileName, shared: bool) -> GpuResource {
        let device = if self.single { GpuResource::gpu() } else { GpuResource::mig(profile.clone()) };
        self.of(device, shared)
    }
}

impl GpuState<'_> {
    fn is_idle_uncut(&self) -> bool {
        matches!(&self.content, Content::Full(users) if users.is_empty())
    }

    /// Devices and shares of this name that it offers today.
    fn units(&self, resource: &GpuResource, names: Names) -> u64 {
        match (&self.content, self.today) {
            (Content::Full(_), Some(Offer::Exclusive)) => u64::from(*resource == GpuResource::gpu()),
            (Content::Full(_), Some(Offer::TimeSliced { replicas } | Offer::Mps { replicas }))
                if *resource == names.share() =>
            {
                u64::from(*replicas)
            }
            (Content::Mig(cuts), Some(Offer::Mig { instances, .. })) => {
                let mine = cuts.iter().zip(instances);
                let mine =
                    mine.filter(|(c, i)| names.instance(&i.profile, c.replicas.is_some()) == *resource);
                mine.map(|(c, _)| u64::from(c.replicas.unwrap_or(1))).sum()
            }
            _ => 0,
        }
    }

    /// Closes whole devices of this name to new pods until so many free units are closed; how many that are.
    fn close(&mut self, resource: &GpuResource, names: Names, missing: u64) -> u64 {
        let here = self.units(resource, names);
        match (&mut self.content, self.today) {
            (Content::Full(users), _) => {
                let free = here.saturating_sub(users.iter().map(|u| u.units).sum());
                self.unwell = self.unwell || missing > 0 && free > 0;
                if missing > 0 { free } else { 0 }
            }
            (Content::Mig(cuts), Some(Offer::Mig { instances, .. })) => {
                let mut closed = 0;
                for (cut, i) in cuts.iter_mut().zip(instances) {
                    let named = names.instance(&i.profile, cut.replicas.is_some()) == *resource;
                    if named && closed < missing && free_units(cut) > 0 {
                        cut.unwell = true;
                        closed += free_units(cut);
                    }
                }
                closed
            }
            (Content::Mig(_), _) => 0,
        }
    }

    /// Whether a device of this name is left beside who stays and who was laid here before.
    fn has_left(&self, resource: &GpuResource, names: Names) -> bool {
        let gone = self.leaving.iter().filter(|(_, r)| r == resource).count() as u64;
        let taken = |users: &[super::User]| users.iter().map(|u| u.units).sum::<u64>() + gone;
        match (&self.content, self.today) {
            (Content::Full(users), Some(Offer::Exclusive)) => {
                *resource == GpuResource::gpu() && taken(users) == 0
            }
            (Content::Full(users), Some(Offer::TimeSliced { replicas } | Offer::Mps { replicas })) => {
                *resource == names.share() && taken(users) < u64::from(*replicas)
            }
            (Content::Mig(cuts), Some(Offer::Mig { instances, .. })) => {
                let mine = cuts.iter().zip(instances);
                let mine =
                    mine.filter(|(c, i)| names.instance(&i.profile, c.replicas.is_some()) == *resource);
                mine.map(|(cut, _)| free_units(cut)).sum::<u64>() > gone
            }
            _ => false,
        }
    }
}

fn free_units(cut: &Cut) -> u64 {
    u64::from(cut.replicas.unwrap_or(1)).saturating_sub(cut.users.iter().map(|u| u.units).sum())
}

/// The profile of the instance on which the device was seated.
fn seat_on_cut(
    cuts: &mut [Cut],
    offer: &Offer,
    (resource, names, start): (&GpuResource, Names, Option<u32>),
    (owner, devices, staying): (Owner, u32, u64),
) -> Option<ProfileName> {
    let Offer::Mig { instances, .. } = offer else { return None };
    let found = cuts.iter_mut().zip(instances).find(|(cut, i)| {
        names.instance(&i.profile, cut.replicas.is_some()) == *resource
            && start.is_none_or(|s| s == cut.start)
            && !cut.unwell
            && free_units(cut) > 0
    })?;
    join(&mut found.0.users, owner, devices, staying);
    Some(found.1.profile.clone())
}

fn lost(workload: usize, held: &Holding, on_node: bool, reason: String) -> Lost {
    let (node, resource) = (held.node.clone(), held.resource.clone());
    Lost { workload, node, resource, devices: held.devices, pods: 1, on_node, reason }
}
