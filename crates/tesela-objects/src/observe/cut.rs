//! Which instances each MIG GPU of a node has, where kubectl shows only how many of each profile the node has.
//!
//! The answer is one set of layouts that agrees with the counts, found by exact search; it is an estimate, since
//! several sets may agree.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::layout::{Instance, Layout};
use tesela_model::product::{Product, ProfileName};

/// Steps of the search after which a node's counts count as not settled. Real nodes take a few dozen.
const STEPS: usize = 2_000;
/// MIG GPUs that one node has at most. More is no machine, and would make the search long.
const GPUS: u32 = 64;

/// Why counts of instances cannot be spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CutFault {
    /// The table lacks the profile's placements.
    NoPlacements,
    /// No layouts of so many GPUs hold these instances.
    Impossible,
    /// The search was given up.
    TooHard,
}

/// How many instances of each profile of a small fixed list.
type Counts = Vec<u32>;

/// What one GPU can hold, each with its layout.
type Shapes = BTreeMap<Counts, Vec<Instance>>;

/// Instances of each GPU of a node, or why there is no answer.
type Cut = Result<Vec<Vec<Instance>>, CutFault>;

/// Product, instances wanted of each profile, GPUs.
type Question = (String, Vec<(ProfileName, u64)>, u32);

/// What one GPU can hold, by product and profiles.
type Holdable = (String, Vec<ProfileName>);

/// Cuts the GPUs of nodes, and remembers, since most nodes of a fleet are alike.
#[derive(Default)]
pub(super) struct Cutter {
    cuts: BTreeMap<Question, Cut>,
    shapes: BTreeMap<Holdable, Shapes>,
}

impl Cutter {
    /// Spreads the instances over `gpus` GPUs, as evenly as the rules allow.
    pub(super) fn spread(
        &mut self,
        product: &Product,
        counts: &BTreeMap<ProfileName, u64>,
        gpus: u32,
    ) -> Cut {
        let wanted = counts.iter().filter(|(_, n)| **n > 0).map(|(p, n)| (p.clone(), *n)).collect::<Vec<_>>();
        let key = (product.id.to_string(), wanted, gpus);
        if let Some(known) = self.cuts.get(&key) {
            return known.clone();
        }
        let cut = self.search(product, &key.1, gpus);
        self.cuts.insert(key, cut.clone());
        cut
    }

    /// The fewest GPUs that can hold the instances, where the node does not say how many have MIG on.
    pub(super) fn fewest(&mut self, product: &Product, counts: &BTreeMap<ProfileName, u64>) -> Option<u32> {
        // What fits some GPUs fits more of them too, so the least number is found by halving.
        let (mut low, mut high) = (0, GPUS);
        self.spread(product, counts, high).ok()?;
        while low < high {
            let middle = u32::midpoint(low, high);
            if self.spread(product, counts, middle).is_ok() { high = middle } else { low = middle + 1 }
        }
        Some(low)
    }

    fn search(&mut self, product: &Product, wanted: &[(ProfileName, u64)], gpus: u32) -> Cut {
        let (mut slices, mut units) = (0_u64, 0_u64);
        for (name, count) in wanted {
            let known = product.profile(name.as_str()).ok().filter(|p| !p.placements.is_empty());
            let profile = known.ok_or(CutFault::NoPlacements)?;
            slices = slices.saturating_add(count.saturating_mul(u64::from(profile.compute_slices)));
            units = units.saturating_add(count.saturating_mul(u64::from(profile.units())));
        }
        if gpus > GPUS {
            return Err(CutFault::TooHard);
        }
        let room = |of_one: u32| u64::from(of_one) * u64::from(gpus);
        if slices > room(product.compute_slices) || units > room(product.units()) {
            return Err(CutFault::Impossible);
        }
        let counts = wanted.iter().map(|(_, n)| u32::try_from(*n));
        let left = counts.collect::<Result<Counts, _>>().map_err(|_| CutFault::Impossible)?;
        let names = wanted.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let key = (product.id.to_string(), names);
        if !self.shapes.contains_key(&key) {
            let shapes = shapes(product, &key.1);
            self.shapes.insert(key.clone(), shapes);
        }
        let shapes = &self.shapes[&key];
        let mut search = Search { shapes, failed: BTreeSet::new(), steps: 0 };
        let mut chosen = Vec::new();
        if !search.place(&left, gpus, &mut chosen) {
            return Err(if search.steps < STEPS { CutFault::Impossible } else { CutFault::TooHard });
        }
        Ok(chosen.into_iter().map(|shape| shapes[&shape].clone()).collect())
    }
}

/// Every multiset of these profiles that one GPU can hold, with the layout of it that keeps the most future
/// placements. Grown one instance at a time: what a GPU cannot hold it cannot hold with more either.
fn shapes(product: &Product, names: &[ProfileName]) -> Shapes {
    let mut found = BTreeMap::new();
    let mut stack = vec![vec![0; names.len()]];
    while let Some(shape) = stack.pop() {
        if found.contains_key(&shape) {
            continue;
        }
        let Some(layout) = best_layout(product, names, &shape) else {
            continue;
        };
        found.insert(shape.clone(), layout);
        for index in 0..names.len() {
            let mut grown = shape.clone();
            grown[index] += 1;
            stack.push(grown);
        }
    }
    found
}

fn best_layout(product: &Product, names: &[ProfileName], shape: &[u32]) -> Option<Vec<Instance>> {
    let mut wanted = Vec::new();
    for (name, count) in names.iter().zip(shape) {
        wanted.extend(std::iter::repeat_n(name, usize::try_from(*count).ok()?));
    }
    let mut best: Option<(usize, Vec<Instance>)> = None;
    arrange(product, &wanted, 0, &mut Vec::new(), &mut |layout| {
        let room = room_left(product, layout);
        let instances = layout.instances().to_vec();
        if best.as_ref().is_none_or(|(most, first)| (room, &first[..]) > (*most, &instances[..])) {
            best = Some((room, instances));
        }
    });
    best.map(|(_, instances)| instances)
}

/// Tries every way to place the wanted instances; instances of one profile by rising start.
fn arrange(
    product: &Product,
    wanted: &[&ProfileName],
    used: u64,
    placed: &mut Vec<(ProfileName, u32)>,
    visit: &mut impl FnMut(&Layout),
) {
    let Some((name, rest)) = wanted.split_first() else {
        if let Ok(layout) = Layout::new(product, placed.iter().cloned()) {
            visit(&layout);
        }
        return;
    };
    let Ok(profile) = product.profile(name.as_str()) else {
        return;
    };
    let from = placed.last().filter(|(last, _)| last == *name).map(|(_, start)| *start);
    for placement in &profile.placements {
        if placement.mask() & used == 0 && from.is_none_or(|from| placement.start > from) {
            placed.push(((*name).clone(), placement.start));
            arrange(product, rest, used | placement.mask(), placed, visit);
            placed.pop();
        }
    }
}

/// How many (profile, start) of the default profile set could still be added.
fn room_left(product: &Product, layout: &Layout) -> usize {
    let used = layout.instances().iter().map(|i| (i.start, i.size)).collect::<Vec<_>>();
    let free = |start: u32, size: u32| used.iter().all(|(s, n)| start + size <= *s || s + n <= start);
    let slices = layout.free_slices(product);
    let plain = product.profiles.iter().filter(|p| p.is_plain() && p.compute_slices <= slices);
    plain.flat_map(|p| &p.placements).filter(|p| free(p.start, p.size)).count()
}

struct Search<'a> {
    shapes: &'a Shapes,
    failed: BTreeSet<(Counts, u32)>,
    steps: usize,
}

impl Search<'_> {
    /// Gives each of `gpus` GPUs a shape so that nothing is left. The shapes nearest to an even share come first.
    fn place(&mut self, left: &Counts, gpus: u32, chosen: &mut Vec<Counts>) -> bool {
        if gpus == 0 {
            return left.iter().all(|n| *n == 0);
        }
        if self.steps >= STEPS || self.failed.contains(&(left.clone(), gpus)) {
            return false;
        }
        self.steps += 1;
        let unevenness = |shape: &Counts| -> u64 {
            let parts = shape.iter().zip(left);
            parts.map(|(take, all)| (u64::from(*take) * u64::from(gpus)).abs_diff(u64::from(*all))).sum()
        };
        let fits = |shape: &&Counts| shape.iter().zip(left).all(|(take, all)| take <= all);
        let mut options = self.shapes.keys().filter(fits).map(|s| (unevenness(s), s)).collect::<Vec<_>>();
        options.sort();
        for (_, shape) in options {
            let rest = left.iter().zip(shape).map(|(all, take)| all - take).collect();
            chosen.push(shape.clone());
            if self.place(&rest, gpus - 1, chosen) {
                return true;
            }
            chosen.pop();
        }
        self.failed.insert((left.clone(), gpus));
        false
    }
}
