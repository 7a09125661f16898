//! Shares of GPUs that take turns.
//!
//! Who lands beside whom on the GPUs of a shared node is the scheduler's choice. So a replica count must hold for
//! any pods of the pool that may meet: their memories must fit together, and their mean load must be at most the
//! whole GPU. Loads are added, never multiplied, so nothing is assumed about when pods work.

use std::collections::BTreeMap;

use tesela_model::fleet::{Mode, Node, Offer};
use tesela_model::quantity::Mib;
use tesela_model::resource::{GpuDevice, GpuResource};

use super::Placer;
use crate::decide::{Decision, Shape, ShareNeed, need_with_context};
use crate::input::{PlanInput, Settings};
use crate::world::{Content, Full, GpuState, NodeState, Owner, Sharing, Source, User, World, join};

/// Replicas taken where nobody knows what the sharers need.
const UNKNOWN_REPLICAS: u32 = 4;

/// Replicas of each shared pool, by (mode, tenant) and kind of GPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pools {
    replicas: BTreeMap<(Mode, Option<String>, usize), u32>,
}

impl Pools {
    /// For each pool and kind the count with which its members take the fewest GPUs.
    pub(crate) fn plan(input: &PlanInput<'_>, decisions: &[Decision], world: &World<'_>) -> Self {
        let mut members: BTreeMap<_, Vec<(&ShareNeed, u64)>> = BTreeMap::new();
        for (workload, decision) in input.demand.workloads.iter().zip(decisions) {
            if let Some(Shape::Share(need)) = decision.shapes.first() {
                members.entry((need.mode, need.tenant.clone())).or_default().push((need, workload.count));
            }
        }
        let mut replicas = BTreeMap::new();
        for ((mode, tenant), members) in members {
            for (k, kind) in world.kinds.iter().enumerate() {
                let each: Vec<(u32, u64)> = members
                    .iter()
                    .map(|(n, pods)| (most_replicas(kind.memory, n, &input.settings), *pods))
                    .collect();
                if let Some(best) = fewest_gpus(&each) {
                    replicas.insert((mode, tenant.clone(), k), best);
                }
            }
        }
        Self { replicas }
    }

    fn of(&self, need: &ShareNeed, kind: usize) -> Option<u32> {
        let known = self.replicas.get(&(need.mode, need.tenant.clone(), kind)).copied();
        known.or_else(|| need.memory.is_none().then_some(UNKNOWN_REPLICAS))
    }
}

/// The most replicas among which a workload may be one, on a GPU of this memory; below 2 = it cannot share.
pub(crate) fn most_replicas(memory: Option<Mib>, need: &ShareNeed, settings: &Settings) -> u32 {
    let by_memory = match (need.memory, memory) {
        (Some(need), Some(memory)) => memory.0 / need.0.max(1),
        _ => u64::from(UNKNOWN_REPLICAS),
    };
    let by_load = 1000 / u64::from(need.duty.max(1));
    u32::try_from(by_memory.min(by_load)).unwrap_or(u32::MAX).min(settings.max_replicas)
}

/// The count that takes the fewest GPUs when members that cannot share among so many take one each.
fn fewest_gpus(members: &[(u32, u64)]) -> Option<u32> {
    let mut counts: Vec<u32> = members.iter().map(|m| m.0).filter(|r| *r >= 2).collect();
    counts.sort_unstable();
    counts.dedup();
    counts.into_iter().max_by_key(|&r| {
        let sharing: u64 = members.iter().filter(|m| m.0 >= r).map(|m| m.1).sum();
        let alone: u64 = members.iter().filter(|m| m.0 < r).map(|m| m.1).sum();
        (std::cmp::Reverse(sharing.div_ceil(u64::from(r)) + alone), r)
    })
}

impl<'a> Placer<'_, 'a> {
    /// Shares for up to `count` pods. More than one share gives a pod nothing that one does not: the device plugin
    /// hands out any of them, also two of one GPU.
    pub(super) fn place_share(&mut self, w: usize, need: &ShareNeed, count: u64, only: Option<usize>) -> u64 {
        if count == 0 || self.workload(w).gpus > 1 {
            return 0;
        }
        let mut keyed = Vec::new();
        for &node in self.candidates(w, only).iter() {
            if let Some(sharing) = self.sharing_of(w, need, node) {
                keyed.push((self.share_rank(node, &sharing), node, sharing));
            }
        }
        keyed.sort();
        let mut placed = 0;
        for (_, node, sharing) in keyed {
            placed += self.fill_shares(w, node, &sharing, count - placed);
            if placed == count {
                return placed;
            }
        }
        if only.is_none() {
            placed += self.shares_bought(w, need, count - placed);
        }
        placed
    }

    fn shares_bought(&mut self, w: usize, need: &ShareNeed, count: u64) -> u64 {
        let mut placed = 0;
        for offer in self.offers() {
            while placed < count {
                let Some(node) = self.buy(w, offer) else { break };
                let more = match self.sharing_of(w, need, node) {
                    Some(sharing) => self.fill_shares(w, node, &sharing, count - placed),
                    None => 0,
                };
                if more == 0 {
                    self.return_last(offer);
                    break;
                }
                placed += more;
            }
        }
        placed
    }

    fn fill_shares(&mut self, w: usize, node: usize, sharing: &Sharing, count: u64) -> u64 {
        let products = &self.workload(w).products;
        let mut placed = 0;
        while placed < count && self.room(w, node) > 0 {
            let names = |kind: usize| products.is_empty() || products.contains(&self.world.kinds[kind].name);
            if !self.world.nodes[node].take_share(w, sharing, &names) {
                break;
            }
            self.took(w, node, 1);
            placed += 1;
        }
        placed
    }

    /// Whether nobody on the node's shared GPUs needs more than a share's part of the memory: who comes may meet them.
    fn leaves_shares(&self, node: usize, replicas: u32) -> bool {
        let modest = |kind: usize, user: &User| {
            let Owner::Workload(w) = user.owner else { return true };
            let need = need_with_context(self.workload(w), &self.input.settings);
            let memory = self.world.kinds[kind].memory;
            need.zip(memory).is_none_or(|(need, has)| need.0.saturating_mul(u64::from(replicas)) <= has.0)
        };
        self.world.nodes[node].gpus.iter().all(|g| match &g.content {
            Content::Full(users) => users.iter().all(|u| modest(g.kind, u)),
            Content::Mig(_) => true,
        })
    }

    /// How a node would share with this workload; `None` when it cannot.
    fn sharing_of(&self, w: usize, need: &ShareNeed, node: usize) -> Option<Sharing> {
        let sharing = self.sharing_wanted(w, need, node)?;
        let state = &self.world.nodes[node];
        let unchanged = state.gpus.iter().any(|g| offered(g, sharing.mode) == Some(sharing.replicas));
        if need
            .renamed
            .is_some_and(|renamed| renamed != (state.renamed || state.full.is_none() && !unchanged))
        {
            return None;
        }
        if let Some(tenant) = &sharing.tenant
            && !self.only_of(node, tenant)
        {
            return None;
        }
        let full = Full::Shared(sharing.clone());
        (!self.world.nodes[node].sharing_disturbs(&full)).then_some(sharing)
    }

    /// Whether everybody on the node's GPUs that are not cut is of this tenant.
    fn only_of(&self, node: usize, tenant: &str) -> bool {
        let state = &self.world.nodes[node];
        let mine = |user: &User| match user.owner {
            Owner::Workload(w) => self.workload(w).tenant == tenant,
            Owner::Others => false,
        };
        state.gpus.iter().all(|g| match &g.content {
            Content::Full(users) => users.iter().all(mine),
            Content::Mig(_) => true,
        })
    }

    fn sharing_wanted(&self, w: usize, need: &ShareNeed, node: usize) -> Option<Sharing> {
        let state = &self.world.nodes[node];
        let most =
            |gpu: &GpuState<'_>| most_replicas(self.world.kinds[gpu.kind].memory, need, &self.input.settings);
        let full = || state.gpus.iter().filter(|g| matches!(g.content, Content::Full(_)));
        if need.mode == Mode::Mps && full().count() < state.gpus.len() {
            return None;
        }
        let least = full().filter(|g| self.product_allowed(w, g.kind)).map(most).min()?;
        match &state.full {
            Some(Full::Whole) => None,
            Some(Full::Shared(s)) => {
                let same = s.mode == need.mode && s.tenant == need.tenant && s.replicas <= least;
                (same && self.leaves_shares(node, s.replicas)).then(|| s.clone())
            }
            None => {
                let offered = full().find_map(|g| offered(g, need.mode)).filter(|r| *r <= least);
                let offered = offered.filter(|r| self.leaves_shares(node, *r));
                let planned = || {
                    let kinds = full().filter(|g| self.product_allowed(w, g.kind));
                    kinds
                        .filter_map(|g| self.setup.pools.of(need, g.kind))
                        .min()
                        .filter(|r| *r <= least && *r >= 2)
                };
                let replicas = offered.or_else(planned)?;
                (state.single.is_none()).then(|| Sharing {
                    mode: need.mode,
                    replicas,
                    tenant: need.tenant.clone(),
                })
            }
        }
    }

    /// Nodes that share so already, then those offered so, then the ones with the fewest GPUs: all GPUs of a node
    /// are shared alike.
    fn share_rank(&self, node: usize, sharing: &Sharing) -> (u64, bool, bool, u64, usize) {
        let state = &self.world.nodes[node];
        let open = state.full.is_some();
        let same = state.gpus.iter().any(|g| offered(g, sharing.mode) == Some(sharing.replicas));
        let full: Vec<_> = state.gpus.iter().filter(|g| matches!(g.content, Content::Full(_))).collect();
        let weight = full.iter().map(|g| self.world.kinds[g.kind].weight).sum::<u64>();
        (self.distaste(node), !open, !same, weight, full.len())
    }
}

fn offered(gpu: &GpuState<'_>, mode: Mode) -> Option<u32> {
    match (gpu.today, mode) {
        (Some(Offer::TimeSliced { replicas }), Mode::TimeSliced)
        | (Some(Offer::Mps { replicas }), Mode::Mps) => Some(*replicas),
        _ => None,
    }
}

impl NodeState<'_> {
    fn take_share(&mut self, w: usize, sharing: &Sharing, allowed: &dyn Fn(usize) -> bool) -> bool {
        let room = |g: &GpuState<'_>| match &g.content {
            Content::Full(users) => {
                !g.unwell && users.iter().map(|u| u.units).sum::<u64>() < u64::from(sharing.replicas)
            }
            Content::Mig(_) => false,
        };
        let slot = (0..self.gpus.len())
            .filter(|&g| room(&self.gpus[g]) && allowed(self.gpus[g].kind))
            .min_by_key(|&g| {
                let gpu = &self.gpus[g];
                (!gpu.used(), gpu.leaving.len(), g)
            });
        let Some(slot) = slot else { return false };
        if let Content::Full(users) = &mut self.gpus[slot].content {
            join(users, Owner::Workload(w), 1, 0);
        }
        if self.full.is_none() {
            // Shares of a node that changes are renamed, so that nobody who wants a whole GPU gets a share.
            let unchanged = self.gpus.iter().any(|g| offered(g, sharing.mode) == Some(sharing.replicas));
            self.renamed = self.renamed || !unchanged;
        }
        self.full = Some(Full::Shared(sharing.clone()));
        true
    }

    /// Takes `devices` free devices that the node offers today under exactly this name.
    pub(super) fn take_free_device(&mut self, request: &GpuResource, devices: u32, w: usize) -> bool {
        let Source::Exists(node) = self.source else { return false };
        let named = node.gpus.iter().any(|g| named_so(&g.offer, request, self.renamed));
        named && self.still_as_offered(node, request) && self.seat_new(request, devices, w)
    }

    /// Whether whole GPUs and their shares are under the plan what they are today.
    fn still_as_offered(&self, node: &Node, request: &GpuResource) -> bool {
        match &self.full {
            None => true,
            _ if request.device != GpuDevice::Gpu => true,
            Some(Full::Whole) => false,
            Some(Full::Shared(s)) => {
                s.tenant.is_none()
                    && node.gpus.iter().all(|g| match g.offer {
                        Offer::TimeSliced { replicas } => {
                            (s.mode, s.replicas) == (Mode::TimeSliced, replicas)
                        }
                        Offer::Mps { replicas } => (s.mode, s.replicas) == (Mode::Mps, replicas),
                        Offer::Exclusive => false,
                        Offer::Mig { .. } => true,
                    })
            }
        }
    }
}

fn named_so(offer: &Offer, request: &GpuResource, renamed: bool) -> bool {
    match offer {
        Offer::Exclusive => !request.shared,
        Offer::TimeSliced { .. } | Offer::Mps { .. } => request.shared == renamed,
        Offer::Mig { replicas, .. } => request.shared == (renamed && !replicas.is_empty()),
    }
}
