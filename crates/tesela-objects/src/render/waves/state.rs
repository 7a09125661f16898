//! Who is where while the steps are put in order.

use std::collections::{BTreeMap, BTreeSet};

use super::{At, Cost, Move, NodeChange, Outage, Problem, Roll};

/// The cluster between two steps.
pub(super) struct State<'a> {
    problem: &'a Problem,
    /// Pods that are still where they are today.
    here: Vec<bool>,
    /// Those, by node and by work.
    by_node: Vec<BTreeSet<usize>>,
    by_work: Vec<BTreeSet<usize>>,
    /// Works whose request has changed.
    rolled: Vec<bool>,
    /// Nodes that have changed.
    changed: Vec<bool>,
    /// Nodes that are as planned and take pods.
    ready: Vec<bool>,
    /// Units in use, by node and resource.
    used: Vec<BTreeMap<&'a str, u64>>,
    /// Pods that have found their place by themselves, by work and node.
    placed: BTreeMap<(usize, Option<usize>), u64>,
    /// Pods without a patch that wait for a place.
    waiting: Vec<u64>,
    /// Since when a work has no pod, and who could take it.
    dark: Vec<Option<(At, Vec<usize>)>>,
    /// Works that have pods today.
    ran: Vec<bool>,
    outages: Vec<Outage>,
    /// Works that wait for a place without a patch.
    unplaced: BTreeSet<usize>,
}

impl<'a> State<'a> {
    pub(super) fn new(problem: &'a Problem) -> Self {
        let (nodes, works) = (problem.nodes.len(), problem.works.len());
        let mut state = Self {
            problem,
            here: vec![true; problem.pods.len()],
            by_node: vec![BTreeSet::new(); nodes],
            by_work: vec![BTreeSet::new(); works],
            rolled: vec![false; works],
            changed: problem.nodes.iter().map(|n| !n.changes).collect(),
            ready: vec![false; nodes],
            used: vec![BTreeMap::new(); nodes],
            placed: BTreeMap::new(),
            waiting: problem.works.iter().map(|w| if w.patched { 0 } else { w.waiting }).collect(),
            dark: vec![None; works],
            ran: vec![false; works],
            outages: Vec::new(),
            unplaced: BTreeSet::new(),
        };
        for (index, pod) in problem.pods.iter().enumerate() {
            state.by_work[pod.work].insert(index);
            state.by_node[pod.node].insert(index);
            if pod.moves {
                state.add(pod.node, &problem.works[pod.work].today, problem.works[pod.work].units);
            }
        }
        for (w, work) in problem.works.iter().enumerate() {
            for (node, pods) in &work.stays {
                state.add(*node, &work.today, pods * work.units);
            }
            if state.waiting[w] > 0 {
                state.unplaced.insert(w);
            }
        }
        for w in 0..works {
            state.ran[w] = state.running(w) > 0;
        }
        let held: BTreeSet<usize> = state.held().into_iter().collect();
        for n in 0..nodes {
            state.ready[n] = !held.contains(&n);
        }
        state.settle(None);
        state
    }

    fn add(&mut self, node: usize, resource: &'a str, units: u64) {
        *self.used[node].entry(resource).or_insert(0) += units;
    }

    fn take(&mut self, node: usize, resource: &'a str, units: u64) {
        if let Some(used) = self.used[node].get_mut(resource) {
            *used = used.saturating_sub(units);
        }
    }

    fn free(&self, node: usize, resource: &str) -> u64 {
        let Some(room) = &self.problem.nodes[node].room else { return u64::MAX };
        let used = self.used[node].get(resource).copied().unwrap_or(0);
        room.get(resource).copied().unwrap_or(0).saturating_sub(used)
    }

    /// Nodes that must take no new pods: those that change, and those that pods leave. One that stays as it is and
    /// gets pods of a workload that is patched stays open: its pods come and go at once.
    pub(super) fn held(&self) -> Vec<usize> {
        let mut gets = vec![false; self.problem.nodes.len()];
        for work in self.problem.works.iter().filter(|w| w.patched) {
            for node in work.places.iter().filter_map(|p| p.node) {
                gets[node] = true;
            }
        }
        let leaves = |n: usize| self.by_node[n].iter().any(|p| self.problem.pods[*p].moves);
        let nodes = self.problem.nodes.iter().enumerate();
        nodes.filter(|(n, node)| node.changes || leaves(*n) && !gets[*n]).map(|(n, _)| n).collect()
    }

    pub(super) fn name(&self, node: usize) -> &'a str {
        &self.problem.nodes[node].name
    }

    pub(super) fn by_pool(&self, nodes: &mut [usize]) {
        nodes.sort_by_key(|n| {
            let node = &self.problem.nodes[*n];
            (&node.pool, node.gpus, &node.name)
        });
    }

    /// Nodes that still have to change.
    pub(super) fn to_change(&self) -> impl Iterator<Item = usize> {
        let nodes: Vec<usize> = (0..self.changed.len()).filter(|n| !self.changed[*n]).collect();
        nodes.into_iter()
    }

    /// Pods on a node that leave it.
    pub(super) fn leaving(&self, node: usize) -> Vec<usize> {
        self.by_node[node].iter().copied().filter(|p| self.problem.pods[*p].moves).collect()
    }

    /// Pods that the change of a node would restart now.
    pub(super) fn hits(&self, node: usize) -> u64 {
        let task = &self.problem.nodes[node];
        self.leaving(node).len() as u64 + task.strangers + task.also.iter().map(|(_, pods)| pods).sum::<u64>()
    }

    /// Whether a spare device exists, by resource and devices of a pod.
    pub(super) fn spares(&self) -> BTreeMap<(&'a str, u64), bool> {
        let mut spares = BTreeMap::new();
        for (w, work) in self.problem.works.iter().enumerate() {
            spares.entry((work.today.as_str(), work.units)).or_insert_with(|| !self.spare(w).is_empty());
        }
        spares
    }

    pub(super) fn cost(&self, node: usize, spares: &BTreeMap<(&'a str, u64), bool>) -> Cost {
        let mut gone: BTreeMap<usize, u64> = BTreeMap::new();
        for pod in self.leaving(node) {
            *gone.entry(self.problem.pods[pod].work).or_insert(0) += 1;
        }
        for (work, pods) in &self.problem.nodes[node].also {
            *gone.entry(*work).or_insert(0) += pods;
        }
        let out = gone.iter().filter(|(w, pods)| self.running(**w) <= **pods);
        let (mut dark, mut spared) = (0, 0);
        for (work, _) in out {
            let work = &self.problem.works[*work];
            let spare = spares.get(&(work.today.as_str(), work.units)).copied().unwrap_or(false);
            if spare { spared += 1 } else { dark += 1 }
        }
        (dark, spared, self.hits(node), self.problem.nodes[node].gpus)
    }

    /// Nodes with free devices of the kind that a work requests today: those that take pods, and those that are held
    /// only until others have left.
    fn spare(&self, work: usize) -> Vec<usize> {
        let task = &self.problem.works[work];
        let fits = |n: &usize| {
            (self.ready[*n] || self.lendable(*n))
                && self.problem.nodes[*n].room.is_some()
                && self.free(*n, &task.today) >= task.units.max(1)
        };
        (0..self.ready.len()).filter(fits).collect()
    }

    /// Whether a held node may open early: it stays as it is, and nobody is evicted from it by name.
    fn lendable(&self, node: usize) -> bool {
        let task = &self.problem.nodes[node];
        !task.changes && !task.comes_free && !self.ready[node] && self.unpatched(node).is_empty()
    }

    /// Opens held nodes for works that lose their last pod when a node changes and that no open node can take.
    pub(super) fn lend(&mut self, node: usize, stage: usize) -> Vec<usize> {
        let mut lent = BTreeSet::new();
        for work in self.works_on(node) {
            let gone = self.leaving(node).iter().filter(|p| self.problem.pods[**p].work == work).count();
            let spare = self.spare(work);
            if self.running(work) <= gone as u64 && !spare.iter().any(|n| self.ready[*n]) {
                lent.extend(spare.first().copied());
            }
        }
        for node in &lent {
            self.ready[*node] = true;
        }
        if !lent.is_empty() {
            self.settle(Some(At::Open(stage)));
        }
        lent.into_iter().collect()
    }

    /// Running pods of a work.
    pub(super) fn running(&self, work: usize) -> u64 {
        let task = &self.problem.works[work];
        if self.rolled[work] {
            return task.places.iter().map(|p| p.pods).sum();
        }
        let here = self.by_work[work].iter().filter(|p| self.problem.pods[**p].moves).count() as u64;
        let placed: u64 = self.placed.range((work, None)..=(work, Some(usize::MAX))).map(|(_, n)| n).sum();
        here + placed + task.stays.iter().map(|(_, pods)| pods).sum::<u64>()
    }

    /// Nodes that a patched work's places wait for: not ready, or too full.
    pub(super) fn waits(&self, work: usize) -> Vec<usize> {
        let task = &self.problem.works[work];
        let mut waits = BTreeSet::new();
        for place in &task.places {
            let Some(node) = place.node else { continue };
            let stay = |s: &&(usize, u64)| s.0 == node && place.resource == task.today;
            let there: u64 = task.stays.iter().filter(stay).map(|(_, pods)| pods).sum();
            let new = place.pods.saturating_sub(there + self.placed_at(work, node));
            if !self.ready[node] || self.free(node, &place.resource) < new.saturating_mul(task.units) {
                waits.insert(node);
            }
        }
        waits.into_iter().collect()
    }

    fn placed_at(&self, work: usize, node: usize) -> u64 {
        self.placed.get(&(work, Some(node))).copied().unwrap_or(0)
    }

    pub(super) fn may_roll(&self, work: usize) -> bool {
        self.problem.works[work].patched && !self.rolled[work] && self.waits(work).is_empty()
    }

    /// Works with pods on a node that leave it.
    pub(super) fn works_on(&self, node: usize) -> Vec<usize> {
        let works: BTreeSet<usize> =
            self.leaving(node).into_iter().map(|p| self.problem.pods[p].work).collect();
        works.into_iter().collect()
    }

    /// Works whose request may change now.
    pub(super) fn to_roll(&self) -> Vec<usize> {
        (0..self.rolled.len()).filter(|w| self.may_roll(*w)).collect()
    }

    /// A work whose request has to change, whether its place is ready or not.
    pub(super) fn unrolled(&self) -> Option<usize> {
        let open = (0..self.rolled.len()).filter(|w| self.problem.works[*w].patched && !self.rolled[*w]);
        open.min_by_key(|w| self.waits(*w).len())
    }

    /// Changes the requests of works, as far as their places are free at the same time; a single one whatever its
    /// places are. What they leave is free only afterwards: the steps of a wave may be taken in any order.
    pub(super) fn roll_all(&mut self, works: &[usize]) -> Vec<Roll> {
        let mut rolls = Vec::new();
        let mut gone: Vec<(usize, &'a str, u64)> = Vec::new();
        for &work in works {
            let waits = self.waits(work);
            if works.len() > 1 && !waits.is_empty() {
                continue;
            }
            let restarts: Vec<usize> = self.by_work[work].iter().copied().collect();
            let task = &self.problem.works[work];
            for pod in &restarts {
                self.leave(*pod);
                if self.problem.pods[*pod].moves {
                    gone.push((self.problem.pods[*pod].node, &task.today, task.units));
                }
            }
            gone.extend(
                task.stays.iter().map(|(node, pods)| (*node, task.today.as_str(), pods * task.units)),
            );
            for place in &task.places {
                if let Some(node) = place.node {
                    self.add(node, &place.resource, place.pods * task.units);
                }
            }
            self.rolled[work] = true;
            self.light(work, At::Roll(work));
            rolls.push(Roll { work, restarts, waits });
        }
        for (node, resource, units) in gone {
            self.take(node, resource, units);
        }
        rolls
    }

    fn leave(&mut self, pod: usize) {
        let Some(here) = self.here.get_mut(pod) else { return };
        *here = false;
        self.by_node[self.problem.pods[pod].node].remove(&pod);
        self.by_work[self.problem.pods[pod].work].remove(&pod);
    }

    /// Takes a pod off its node; it waits for its patch or for a place.
    fn evict(&mut self, pod: usize) {
        let task = &self.problem.pods[pod];
        let work = &self.problem.works[task.work];
        self.leave(pod);
        self.take(task.node, &work.today, work.units);
        if !work.patched {
            self.waiting[task.work] += 1;
            self.unplaced.insert(task.work);
        }
    }

    /// Changes a node.
    pub(super) fn change(&mut self, node: usize) -> NodeChange {
        let evicts = self.leaving(node);
        let waits = self.waiting_for(&evicts);
        let also: Vec<usize> = self.problem.nodes[node].also.iter().map(|(w, _)| *w).collect();
        let keeps = self.keeps(node);
        for pod in &evicts {
            self.evict(*pod);
        }
        let works: BTreeSet<usize> = evicts.iter().map(|p| self.problem.pods[*p].work).collect();
        for work in works {
            self.darken(work, At::Node(node));
        }
        // Pods that stay and are hit come back to the same node at the end of the step.
        for work in also {
            let hit: u64 =
                self.problem.nodes[node].also.iter().filter(|(w, _)| *w == work).map(|(_, n)| n).sum();
            if self.dark[work].is_none() && self.running(work) <= hit {
                let at = At::Node(node);
                self.outages.push(Outage { work, from: at, to: Some(at), spare: Vec::new() });
            }
        }
        self.changed[node] = true;
        self.ready[node] = true;
        self.settle(Some(At::Node(node)));
        NodeChange { node, evicts, keeps, waits }
    }

    /// Pods that are on a node today and stay while it changes.
    fn keeps(&self, node: usize) -> Vec<(usize, u64)> {
        let works = self.problem.works.iter().enumerate();
        let stays = works.flat_map(|(w, work)| {
            work.stays.iter().filter(|(n, pods)| *n == node && *pods > 0).map(move |(_, pods)| (w, *pods))
        });
        stays.collect()
    }

    /// For each work of these pods: the nodes it waits for.
    fn waiting_for(&self, pods: &[usize]) -> Vec<(usize, Vec<usize>)> {
        let works: BTreeSet<usize> = pods.iter().map(|p| self.problem.pods[*p].work).collect();
        let nodes = |work: usize| {
            if self.problem.works[work].patched {
                return self.waits(work);
            }
            let places = self.problem.works[work].places.iter().filter_map(|p| p.node);
            places.filter(|n| self.extra(work, Some(*n)) > 0).collect()
        };
        works.into_iter().map(|w| (w, nodes(w))).collect()
    }

    fn darken(&mut self, work: usize, at: At) {
        if self.ran[work] && self.dark[work].is_none() && self.running(work) == 0 {
            let mut spare = self.spare(work);
            spare.retain(|n| !matches!(at, At::Move(node) if node == *n));
            self.dark[work] = Some((at, spare));
        }
    }

    fn light(&mut self, work: usize, at: At) {
        if self.running(work) == 0 {
            return;
        }
        if let Some((from, spare)) = self.dark[work].take() {
            self.outages.push(Outage { work, from, to: Some(at), spare });
        }
    }

    /// Pods of a work that a place still lacks, beside those that stay.
    fn extra(&self, work: usize, node: Option<usize>) -> u64 {
        let task = &self.problem.works[work];
        let wanted: u64 = task.places.iter().filter(|p| p.node == node).map(|p| p.pods).sum();
        let stays: u64 = task.stays.iter().filter(|(n, _)| Some(*n) == node).map(|(_, pods)| pods).sum();
        let placed = self.placed.get(&(work, node)).copied().unwrap_or(0);
        wanted.saturating_sub(stays + placed)
    }

    /// Lays up to `wanted` pods of a work without a patch onto its ready places; says where.
    fn lay(&mut self, work: usize, wanted: u64, not: Option<usize>) -> Vec<(Option<usize>, u64)> {
        let task = &self.problem.works[work];
        let mut left = wanted;
        let mut laid = Vec::new();
        for place in &task.places {
            let node = place.node;
            let room = match node {
                Some(n) if !self.ready[n] || node == not => 0,
                Some(n) => self.free(n, &task.today) / task.units.max(1),
                None => u64::MAX,
            };
            let pods = left.min(self.extra(work, node)).min(room);
            if pods == 0 {
                continue;
            }
            if let Some(n) = node {
                self.add(n, &task.today, pods * task.units);
            }
            *self.placed.entry((work, node)).or_insert(0) += pods;
            laid.push((node, pods));
            left -= pods;
        }
        laid
    }

    /// Pods that wait take the places that are ready.
    fn settle(&mut self, at: Option<At>) {
        let works: Vec<usize> = self.unplaced.iter().copied().collect();
        for work in works {
            let laid: u64 = self.lay(work, self.waiting[work], None).iter().map(|(_, pods)| pods).sum();
            self.waiting[work] -= laid;
            if self.waiting[work] == 0 {
                self.unplaced.remove(&work);
            }
            if let Some(at) = at.filter(|_| laid > 0) {
                self.light(work, at);
            }
        }
    }

    /// Nodes that pods leave with the request they have.
    pub(super) fn nodes_to_leave(&self) -> Vec<usize> {
        (0..self.by_node.len()).filter(|n| !self.unpatched(*n).is_empty()).collect()
    }

    fn unpatched(&self, node: usize) -> Vec<usize> {
        let patched = |p: &usize| self.problem.works[self.problem.pods[*p].work].patched;
        self.leaving(node).into_iter().filter(|p| !patched(p)).collect()
    }

    /// Moves the pods of a node that need no patch, where all of them find a place.
    pub(super) fn try_move(&mut self, node: usize) -> Option<Move> {
        let pods = self.unpatched(node);
        if pods.is_empty() {
            return None;
        }
        let mut wanted: BTreeMap<usize, u64> = BTreeMap::new();
        for pod in &pods {
            *wanted.entry(self.problem.pods[*pod].work).or_insert(0) += 1;
        }
        let mut done = Vec::new();
        let mut all = true;
        for (work, count) in &wanted {
            let laid = self.lay(*work, *count, Some(node));
            all &= laid.iter().map(|(_, pods)| pods).sum::<u64>() == *count;
            done.push((*work, laid));
        }
        if !all {
            for (work, laid) in done {
                self.unlay(work, &laid);
            }
            return None;
        }
        let works: Vec<usize> = wanted.into_keys().collect();
        for pod in &pods {
            let work = &self.problem.works[self.problem.pods[*pod].work];
            self.leave(*pod);
            self.take(node, &work.today, work.units);
        }
        for work in works {
            self.light(work, At::Move(node));
        }
        Some(Move { node, pods, waits: Vec::new() })
    }

    fn unlay(&mut self, work: usize, laid: &[(Option<usize>, u64)]) {
        let task = &self.problem.works[work];
        for (node, pods) in laid {
            if let Some(n) = node {
                self.take(*n, &task.today, pods * task.units);
            }
            if let Some(placed) = self.placed.get_mut(&(work, *node)) {
                *placed -= pods;
            }
        }
    }

    /// Moves them although not all find a place at once.
    pub(super) fn force_move(&mut self, node: usize) -> Move {
        let pods = self.unpatched(node);
        let waits = self.waiting_for(&pods);
        for pod in &pods {
            self.evict(*pod);
        }
        for (work, _) in &waits {
            self.darken(*work, At::Move(node));
        }
        self.settle(Some(At::Move(node)));
        Move { node, pods, waits }
    }

    /// Opens held nodes that need no change and that nobody leaves any more; those that come free stay held.
    pub(super) fn open(&mut self, stage: usize) -> Vec<usize> {
        let empty = |n: &usize| {
            let node = &self.problem.nodes[*n];
            !node.changes && !node.comes_free && !self.ready[*n] && self.leaving(*n).is_empty()
        };
        let nodes: Vec<usize> = (0..self.ready.len()).filter(empty).collect();
        for node in &nodes {
            self.ready[*node] = true;
        }
        if !nodes.is_empty() {
            self.settle(Some(At::Open(stage)));
        }
        nodes
    }

    /// All outages, those without an end last.
    pub(super) fn outages(self) -> Vec<Outage> {
        let mut outages = self.outages;
        for (work, dark) in self.dark.into_iter().enumerate() {
            if let Some((from, spare)) = dark {
                outages.push(Outage { work, from, to: None, spare });
            }
        }
        outages
    }
}
