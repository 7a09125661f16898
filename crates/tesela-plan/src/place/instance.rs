//! MIG instances.

use tesela_model::fleet::{MigStrategy, Mode, Offer};

use super::{Placer, wanted_profile};
use crate::decide::{InstanceNeed, need_with_context};
use crate::world::mig::MigRules;
use crate::world::{Content, Cut, Full, GpuState, Kind, NodeState, Owner, User};

/// How an instance is come by, the least change first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Means {
    /// It exists, on a GPU in use.
    FreeOnUsed,
    /// Cut beside others on a GPU in use.
    CutOnUsed,
    /// It exists, on a GPU that nobody uses.
    FreeOnIdle,
    /// Cut on a MIG GPU that nobody uses.
    CutOnIdle,
    /// Cut on a GPU that is not in MIG mode.
    NewMig,
}

impl<'a> Placer<'_, 'a> {
    /// Instances for up to `count` pods.
    pub(super) fn place_instance(
        &mut self,
        w: usize,
        need: &InstanceNeed,
        count: u64,
        only: Option<usize>,
    ) -> u64 {
        if self.workload(w).gpus > 1 && self.workload(w).request.is_none() {
            return 0;
        }
        let mut placed = 0;
        for means in [Means::FreeOnUsed, Means::CutOnUsed] {
            placed += self.instances_by(w, need, count - placed, only, &[means]);
        }
        placed += self.instances_by(
            w,
            need,
            count - placed,
            only,
            &[Means::FreeOnUsed, Means::CutOnUsed, Means::FreeOnIdle, Means::CutOnIdle, Means::NewMig],
        );
        if only.is_none() {
            placed += self.instances_bought(w, need, count - placed);
        }
        placed
    }

    fn instances_bought(&mut self, w: usize, need: &InstanceNeed, count: u64) -> u64 {
        let mut placed = 0;
        for offer in self.offers() {
            while placed < count {
                let Some(node) = self.buy(w, offer) else { break };
                let more = self.instances_by(
                    w,
                    need,
                    count - placed,
                    Some(node),
                    &[Means::CutOnUsed, Means::NewMig],
                );
                if more == 0 {
                    self.return_last(offer);
                    break;
                }
                placed += more;
            }
        }
        placed
    }

    /// Node after node, each by the first of these means that gives one. The cheapest piece of a GPU first,
    /// then nodes in use, then those that need the least change.
    fn instances_by(
        &mut self,
        w: usize,
        need: &InstanceNeed,
        count: u64,
        only: Option<usize>,
        means: &[Means],
    ) -> u64 {
        if count == 0 {
            return 0;
        }
        let mut keyed = Vec::new();
        for &node in self.candidates(w, only).iter() {
            if let Some((means, kind)) = self.first_means(w, need, node, means) {
                let weight = self.piece_weight(kind, need);
                let state = &self.world.nodes[node];
                let disturbed = if means == Means::NewMig { state.leavers() } else { 0 };
                keyed.push((self.distaste(node), weight, !state.used(), means, disturbed, node));
            }
        }
        keyed.sort_unstable();
        let mut placed = 0;
        for (.., node) in keyed {
            while placed < count && self.room(w, node) > 0 && self.take_instance(w, need, node, means) {
                self.took(w, node, 1);
                placed += 1;
            }
            if placed == count {
                break;
            }
        }
        placed
    }

    /// What the piece of a GPU costs that one instance takes, in millionths of the products' weights.
    fn piece_weight(&self, kind: usize, need: &InstanceNeed) -> u128 {
        let kind = &self.world.kinds[kind];
        let Some((rules, profile)) = rule_for(kind, need) else { return u128::MAX };
        let rule = &rules.profiles[profile];
        let part = |n: u32, of: u32| u128::from(n) * 1_000_000 / u128::from(of.max(1));
        let share = part(rule.slices, rules.product.compute_slices).max(part(rule.units, rules.units));
        share * u128::from(kind.weight)
    }

    fn first_means(
        &self,
        w: usize,
        need: &InstanceNeed,
        node: usize,
        means: &[Means],
    ) -> Option<(Means, usize)> {
        let state = &self.world.nodes[node];
        means.iter().find_map(|&m| {
            let slot = self.slot_for(w, need, state, m)?;
            Some((m, state.gpus[slot].kind))
        })
    }

    /// The slot of a node on which an instance can be had by these means: the fullest first.
    fn slot_for(&self, w: usize, need: &InstanceNeed, state: &NodeState<'_>, means: Means) -> Option<usize> {
        let devices = self.workload(w).gpus as usize;
        (0..state.gpus.len())
            .filter(|&slot| {
                let gpu = &state.gpus[slot];
                self.product_allowed(w, gpu.kind)
                    && self.holds(w, &self.world.kinds[gpu.kind], need)
                    && can(&self.world.kinds, state, gpu, need, means, devices)
            })
            .min_by_key(|&slot| {
                let gpu = &state.gpus[slot];
                (gpu.leaving.len(), std::cmp::Reverse(taken_units(gpu)), slot)
            })
    }

    /// Whether the profile has the memory and compute that the pod needs, where they are known: a profile named by hand or
    /// by a request has less on one product than on another.
    fn holds(&self, w: usize, kind: &Kind<'_>, need: &InstanceNeed) -> bool {
        let Some((rules, profile)) = rule_for(kind, need) else { return false };
        let workload = self.workload(w);
        let busy =
            workload.compute.filter(|_| workload.profile.is_none()).map_or(0, |c| c.value.as_permille());
        let has = u64::from(rules.profiles[profile].slices) * 1000;
        if has < u64::from(busy) * u64::from(rules.product.compute_slices) {
            return false;
        }
        match (need_with_context(self.workload(w), &self.input.settings), rules.profiles[profile].memory) {
            (Some(need), Some(memory)) => memory >= need,
            _ => true,
        }
    }

    fn take_instance(&mut self, w: usize, need: &InstanceNeed, node: usize, means: &[Means]) -> bool {
        let found = means.iter().find_map(|&m| {
            let slot = self.slot_for(w, need, &self.world.nodes[node], m)?;
            Some((m, slot))
        });
        let Some((means, slot)) = found else { return false };
        let devices = self.workload(w).gpus;
        let state = &mut self.world.nodes[node];
        let Some((rules, profile)) = rule_for(&self.world.kinds[state.gpus[slot].kind], need) else {
            return false;
        };
        let user = User { owner: Owner::Workload(w), devices, units: 1, staying: 0 };
        for _ in 0..devices {
            let gpu = &mut state.gpus[slot];
            match (&mut gpu.content, means) {
                (Content::Mig(cuts), Means::FreeOnUsed | Means::FreeOnIdle) => {
                    let free = cuts.iter_mut().find(|c| is_free(c, profile));
                    if let Some(cut) = free {
                        cut.users.push(user.clone());
                    }
                }
                (content, _) => cut_new(content, rules, profile, user.clone()),
            }
        }
        if means == Means::NewMig {
            state.forget_which();
        }
        state.became_mig(matches!(means, Means::FreeOnUsed | Means::FreeOnIdle));
        true
    }
}

impl NodeState<'_> {
    fn became_mig(&mut self, existed: bool) {
        match self.strategy {
            MigStrategy::Single if existed => {
                // Using what is there keeps the strategy; pods ask for nvidia.com/gpu.
                self.single = self.gpus.iter().find_map(|g| match (&g.content, g.today) {
                    (Content::Mig(_), Some(tesela_model::fleet::Offer::Mig { instances, .. })) => {
                        instances.first().map(|i| i.profile.clone())
                    }
                    _ => None,
                });
            }
            MigStrategy::Mixed => {}
            MigStrategy::Single | MigStrategy::None => self.strategy = MigStrategy::Mixed,
        }
    }
}

fn rule_for<'k, 'a>(kind: &'k Kind<'a>, need: &InstanceNeed) -> Option<(&'k MigRules<'a>, usize)> {
    let rules = kind.rules.as_ref()?;
    Some((rules, wanted_profile(rules, need)?))
}

fn is_free(cut: &Cut, profile: usize) -> bool {
    cut.profile == profile && cut.replicas.is_none() && cut.users.is_empty() && !cut.unwell
}

fn taken_units(gpu: &GpuState<'_>) -> u32 {
    match &gpu.content {
        Content::Full(_) => 0,
        Content::Mig(cuts) => cuts.iter().filter(|c| !c.users.is_empty()).map(|c| c.size).sum(),
    }
}

/// Whether `devices` instances can be had on a GPU by these means.
fn can(
    kinds: &[Kind<'_>],
    state: &NodeState<'_>,
    gpu: &GpuState<'_>,
    need: &InstanceNeed,
    means: Means,
    devices: usize,
) -> bool {
    let Some((rules, profile)) = rule_for(&kinds[gpu.kind], need) else { return false };
    if state.shares_profile(gpu.kind, profile) {
        return false;
    }
    let used = gpu.used();
    match (&gpu.content, means) {
        (Content::Mig(cuts), Means::FreeOnUsed) => {
            used && cuts.iter().filter(|c| is_free(c, profile)).count() >= devices
        }
        (Content::Mig(cuts), Means::FreeOnIdle) => {
            !used && cuts.iter().filter(|c| is_free(c, profile)).count() >= devices
        }
        (Content::Mig(cuts), Means::CutOnUsed) => {
            used && gpu.exact
                && !state.geometry_disturbs(gpu)
                && state.may_cut(cuts)
                && fits(rules, cuts, profile, devices)
        }
        (Content::Mig(cuts), Means::CutOnIdle) => {
            !used && state.may_recut(gpu) && state.may_cut(cuts) && fits(rules, cuts, profile, devices)
        }
        (Content::Full(users), Means::NewMig) => {
            users.is_empty()
                && !gpu.unwell
                && state.single.is_none()
                && !state.offers_mps()
                && !state.mode_change_disturbs(kinds[gpu.kind].needs_reset)
                && fits(rules, &[], profile, devices)
        }
        _ => false,
    }
}

impl NodeState<'_> {
    /// Whether pods share GPUs of the node by MPS: NVIDIA's device plugin refuses to start with MPS and MIG on one node.
    fn offers_mps(&self) -> bool {
        let planned = matches!(&self.full, Some(Full::Shared(s)) if s.mode == Mode::Mps);
        let by_mps = |g: &GpuState<'_>| g.keeps() && matches!(g.today, Some(Offer::Mps { .. }));
        planned || self.gpus.iter().any(by_mps)
    }

    /// Under strategy single all instances of the node must be alike while anything stays; an instance that is
    /// shared stays as it is.
    fn may_cut(&self, cuts: &[Cut]) -> bool {
        self.single.is_none() && !cuts.iter().any(|c| c.replicas.is_some())
    }

    /// Whether the node shares the instances of this profile: then a new one would be shared too.
    fn shares_profile(&self, kind: usize, profile: usize) -> bool {
        self.gpus.iter().filter(|g| g.kind == kind).any(|g| match &g.content {
            Content::Mig(cuts) => cuts.iter().any(|c| c.profile == profile && c.replicas.is_some()),
            Content::Full(_) => false,
        })
    }
}

fn fits(rules: &MigRules<'_>, cuts: &[Cut], profile: usize, devices: usize) -> bool {
    if devices == 1 && cuts.iter().all(|c| !c.users.is_empty()) {
        return rules.fitting(cuts, profile).next().is_some();
    }
    let mut used: Vec<Cut> = cuts.iter().filter(|c| !c.users.is_empty()).cloned().collect();
    for _ in 0..devices {
        let Some(start) = rules.best_start(&used, profile) else { return false };
        used.push(rules.cut(profile, start));
    }
    true
}

/// Cuts one instance beside those in use; unused ones in its way go.
fn cut_new(content: &mut Content, rules: &MigRules<'_>, profile: usize, user: User) {
    let before = match content {
        Content::Mig(cuts) => std::mem::take(cuts),
        Content::Full(_) => Vec::new(),
    };
    let mut cuts: Vec<Cut> = before.iter().filter(|c| !c.users.is_empty()).cloned().collect();
    if let Some(start) = rules.best_start(&cuts, profile) {
        let mut cut = rules.cut(profile, start);
        cut.users.push(user);
        cuts.push(cut);
    }
    rules.keep_unused(&before, &mut cuts);
    *content = Content::Mig(cuts);
}
