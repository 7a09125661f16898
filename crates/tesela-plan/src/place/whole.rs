//! Whole GPUs.

use tesela_model::fleet::{MigStrategy, Offer};

use super::Placer;
use crate::decide::need_with_context;
use crate::world::{Content, Full, GpuState, NodeState, Owner, User};

impl<'a> Placer<'_, 'a> {
    /// Whole GPUs for up to `count` pods, all GPUs of a pod on one node.
    pub(super) fn place_whole(&mut self, w: usize, count: u64, only: Option<usize>) -> u64 {
        let mut placed = self.place_whole_where(w, count, only, false);
        if only.is_some() {
            return placed;
        }
        for offer in self.offers() {
            while placed < count {
                let Some(node) = self.buy(w, offer) else { break };
                let more = self.place_whole_where(w, count - placed, Some(node), false);
                if more == 0 {
                    self.return_last(offer);
                    break;
                }
                placed += more;
            }
        }
        placed
    }

    /// The same on GPUs only that are offered whole today.
    pub(super) fn place_whole_as_offered(&mut self, w: usize, count: u64, only: Option<usize>) -> u64 {
        self.place_whole_where(w, count, only, true)
    }

    fn place_whole_where(&mut self, w: usize, count: u64, only: Option<usize>, as_offered: bool) -> u64 {
        let gpus = self.workload(w).gpus as usize;
        let mut keyed = Vec::new();
        for &node in self.candidates(w, only).iter() {
            // Most nodes of a busy fleet have nothing idle, and looking closer at each of them adds up.
            let idle = self.world.nodes[node].gpus.iter().filter(|g| !g.used()).count();
            let free = if idle < gpus { Vec::new() } else { self.free_whole(w, node, as_offered) };
            if free.len() >= gpus {
                keyed.push((self.whole_rank(node, &free, gpus), node));
            }
        }
        keyed.sort_unstable();
        let mut placed = 0;
        for (_, node) in keyed {
            let mut free = self.free_whole(w, node, as_offered);
            while placed < count && free.len() >= gpus && self.room(w, node) > 0 {
                self.world.nodes[node].use_whole(w, free.drain(..gpus).collect());
                self.took(w, node, 1);
                placed += 1;
            }
            if placed == count {
                break;
            }
        }
        placed
    }

    /// Cheap GPUs first; nodes in use before empty ones, so that empty ones stay free; the tightest fit before
    /// the loose; changes last.
    fn whole_rank(&self, node: usize, free: &[usize], gpus: usize) -> impl Ord + use<'a> {
        let state = &self.world.nodes[node];
        let first = &state.gpus[free[0]];
        let changes = free[..gpus].iter().filter(|&&g| !is_offered_whole(&state.gpus[g])).count();
        let weight = self.world.kinds[first.kind].weight;
        (self.distaste(node), !state.used(), changes > 0, weight, free.len(), changes)
    }

    /// Slots that can be used whole, the ones that need no change and disturb nobody first.
    fn free_whole(&self, w: usize, node: usize, as_offered: bool) -> Vec<usize> {
        let state = &self.world.nodes[node];
        if !state.may_be_whole() || state.sharing_disturbs(&Full::Whole) {
            return Vec::new();
        }
        let need = need_with_context(self.workload(w), &self.input.settings);
        let mut slots: Vec<usize> = (0..state.gpus.len())
            .filter(|&g| {
                let gpu = &state.gpus[g];
                let fits = match &gpu.content {
                    Content::Full(users) => users.is_empty() && !gpu.unwell,
                    Content::Mig(_) => {
                        let needs_reset = self.world.kinds[gpu.kind].needs_reset;
                        !gpu.used() && state.may_recut(gpu) && !state.mode_change_disturbs(needs_reset)
                    }
                };
                let enough = match (need, self.world.kinds[gpu.kind].memory) {
                    (Some(need), Some(memory)) => memory >= need,
                    _ => true,
                };
                fits && enough && self.product_allowed(w, gpu.kind) && (!as_offered || is_offered_whole(gpu))
            })
            .collect();
        // The GPUs of a pod are of one product.
        let mut counts: std::collections::BTreeMap<usize, usize> = std::collections::BTreeMap::new();
        for &g in &slots {
            *counts.entry(state.gpus[g].kind).or_insert(0) += 1;
        }
        let gpus = self.workload(w).gpus as usize;
        let kind = slots.iter().map(|&g| state.gpus[g].kind).find(|kind| counts[kind] >= gpus);
        if gpus > 1 {
            slots.retain(|&g| kind == Some(state.gpus[g].kind));
        }
        slots.sort_by_key(|&g| {
            let gpu = &state.gpus[g];
            (!is_offered_whole(gpu), gpu.leaving.len(), self.world.kinds[gpu.kind].weight, g)
        });
        slots
    }
}

fn is_offered_whole(gpu: &GpuState<'_>) -> bool {
    matches!(gpu.content, Content::Full(_)) && matches!(gpu.today, None | Some(Offer::Exclusive))
}

impl NodeState<'_> {
    fn may_be_whole(&self) -> bool {
        // Under strategy single `nvidia.com/gpu` means an instance; that holds while anything stays.
        self.single.is_none() && matches!(self.full, None | Some(Full::Whole))
    }

    fn use_whole(&mut self, w: usize, slots: Vec<usize>) {
        let devices = u32::try_from(slots.len()).unwrap_or(u32::MAX);
        for slot in slots {
            self.gpus[slot].content =
                Content::Full(vec![User { owner: Owner::Workload(w), devices, units: 1, staying: 0 }]);
        }
        self.full = Some(Full::Whole);
        if self.strategy == MigStrategy::Single {
            self.strategy = MigStrategy::Mixed;
        }
    }
}
