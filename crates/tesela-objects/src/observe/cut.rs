//! Which instances each MIG GPU of a node has, where kubectl shows only how many of each profile the node has.
//!
//! The answer is one set of layouts that agrees with the counts, found by exact search; it is an estimate, since
//! several sets may agree.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::layout::{Instance, Layout};
use tesela_model::product::{Product, ProfileName};

/// Steps of the search after which a node's counts count as not settled. Real nodes take a few dozen.
const STEPS: usize = 50_000;
/// Instances of one profile that a node is believed to have at most; more is a fault of the input.
const INSTANCES: u64 = 4096;

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

/// Instances of each GPU of a node, or why there is no answer.
type Cut = Result<Vec<Vec<Instance>>, CutFault>;

/// Cuts the GPUs of nodes, and remembers, since most nodes of a fleet are alike.
#[derive(Default)]
pub(super) struct Cutter {
    cuts: BTreeMap<(String, Vec<(ProfileName, u64)>, u32), Cut>,
}

impl Cutter {
    /// Spreads the instances over `gpus` GPUs, as evenly as the rules allow.
    pub(super) fn spread(
        &mut self,
        product: &Product,
        counts: &BTreeMap<ProfileName, u64>,
        gpus: u32,
    ) -> Cut {
        let wanted = counts
            .iter()
            .filter(|(_, n)| **n > 0)
            .map(|(p, n)| (p.clone(), *n))
            .collect::<Vec<_>>();
        let key = (product.id.to_string(), wanted, gpus);
        if let Some(known) = self.cuts.get(&key) {
            return known.clone();
        }
        let cut = spread(product, &key.1, gpus);
        self.cuts.insert(key, cut.clone());
        cut
    }

    /// The fewest GPUs that can hold the instances, where the node does not say how many have MIG on.
    pub(super) fn fewest(&mut self, product: &Product, counts: &BTreeMap<ProfileName, u64>) -> Option<u32> {
        let total = counts.values().sum::<u64>();
        let most = u32::try_from(total.min(INSTANCES)).ok()?;
        (0..=most).find(|gpus| self.spread(product, counts, *gpus).is_ok())
    }
}

fn spread(product: &Product, wanted: &[(ProfileName, u64)], gpus: u32) -> Cut {
    let mut left = Counts::new();
    for (name, count) in wanted {
        let known = product
            .profile(name.as_str())
            .is_ok_and(|p| !p.placements.is_empty());
        if !known {
            return Err(CutFault::NoPlacements);
        }
        let count = u32::try_from(*count).ok().filter(|n| u64::from(*n) <= INSTANCES);
        left.push(count.ok_or(CutFault::Impossible)?);
    }
    let names = wanted.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let shapes = shapes(product, &names);
    let mut search = Search {
        shapes: &shapes,
        failed: BTreeSet::new(),
        steps: 0,
    };
    let mut chosen = Vec::new();
    if !search.place(&left, gpus, &mut chosen) {
        return Err(if search.steps < STEPS {
            CutFault::Impossible
        } else {
            CutFault::TooHard
        });
    }
    Ok(chosen.into_iter().map(|shape| shapes[&shape].clone()).collect())
}

/// Every multiset of these profiles that one GPU can hold, with the layout of it that keeps the most future
/// placements. Grown one instance at a time: what a GPU cannot hold it cannot hold with more either.
fn shapes(product: &Product, names: &[ProfileName]) -> BTreeMap<Counts, Vec<Instance>> {
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
        if best
            .as_ref()
            .is_none_or(|(most, first)| (room, &first[..]) > (*most, &instances[..]))
        {
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
    let from = placed
        .last()
        .filter(|(last, _)| last == *name)
        .map(|(_, start)| *start);
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
    let used = layout
        .instances()
        .iter()
        .map(|i| (i.start, i.size))
        .collect::<Vec<_>>();
    let free = |start: u32, size: u32| used.iter().all(|(s, n)| start + size <= *s || s + n <= start);
    let slices = layout.free_slices(product);
    let plain = product
        .profiles
        .iter()
        .filter(|p| p.is_plain() && p.compute_slices <= slices);
    plain
        .flat_map(|p| &p.placements)
        .filter(|p| free(p.start, p.size))
        .count()
}

struct Search<'a> {
    shapes: &'a BTreeMap<Counts, Vec<Instance>>,
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
            parts
                .map(|(take, all)| (u64::from(*take) * u64::from(gpus)).abs_diff(u64::from(*all)))
                .sum()
        };
        let fits = |shape: &&Counts| shape.iter().zip(left).all(|(take, all)| take <= all);
        let mut options = self
            .shapes
            .keys()
            .filter(fits)
            .map(|s| (unevenness(s), s))
            .collect::<Vec<_>>();
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
