//! What each group may become, and what that disturbs: a dense table of (group, geometry).

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::layout::{Geometry, Instance, Layout};
use tesela_model::product::{Product, ProfileName};

use super::group::{Group, busy, is_busy, is_pinned, weight};
use super::{Executor, ReconfigureError, Target};
use crate::layouts::Space;
use crate::pack::TooLarge;
use crate::pack::program::gcd;

/// A set of slots of the space.
type Mask = u128;

/// What a GPU may hold in the end.
struct Shape {
    /// Contribution to each row.
    holds: Vec<i128>,
    /// Instances.
    size: u32,
    /// The states with this geometry, as sets of slots, in the order of the walk.
    states: Vec<Mask>,
}

/// What it costs a GPU of a group to become a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cost {
    /// Disturbed weight, divided by [`Table::unit`].
    pub(super) weight: i128,
    /// Instances created and destroyed.
    pub(super) operations: i128,
}

/// One row of the program.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) want: i128,
}

/// The program: choose for each GPU of each group a shape so that the shapes sum to the rows.
pub(super) struct Table {
    pub(super) rows: Vec<Row>,
    pub(super) counts: Vec<i128>,
    /// What each shape adds to the rows.
    pub(super) holds: Vec<Vec<i128>>,
    /// By group, then shape; `None` where something pinned would go.
    costs: Vec<Option<Cost>>,
    /// Greatest common divisor of the weights.
    pub(super) unit: u64,
    shapes: Vec<Shape>,
    slots: Vec<Instance>,
}

/// Names of the profiles that may be there in the end, and instances wanted of each.
pub(super) fn wanted(
    product: &Product,
    target: &Target,
    gpus: usize,
) -> Result<BTreeMap<ProfileName, u64>, ReconfigureError> {
    let mut wanted: BTreeMap<ProfileName, u64> = BTreeMap::new();
    match target {
        Target::Counts(counts) => {
            let mut seen = BTreeSet::new();
            for (name, &count) in counts {
                let name =
                    product.profile(name.as_str()).map_err(crate::layouts::LayoutsError::from)?.name.clone();
                if !seen.insert(name.clone()) {
                    return Err(ReconfigureError::ProfileTwice { profile: name });
                }
                if count > 0 {
                    wanted.insert(name, count);
                }
            }
        }
        Target::Geometries(geometries) => {
            let sum = geometries.values().try_fold(0u64, |sum, n| sum.checked_add(*n)).ok_or(TooLarge)?;
            if sum != gpus as u64 {
                return Err(ReconfigureError::Sum { wanted: sum, gpus: gpus as u64 });
            }
            for (geometry, &count) in geometries {
                for (name, each) in geometry.counts() {
                    let name = product
                        .profile(name.as_str())
                        .map_err(crate::layouts::LayoutsError::from)?
                        .name
                        .clone();
                    let known = wanted.entry(name).or_insert(0);
                    let more = u64::from(each).checked_mul(count).ok_or(TooLarge)?;
                    *known = known.checked_add(more).ok_or(TooLarge)?;
                }
            }
            wanted.retain(|_, n| *n > 0);
        }
    }
    Ok(wanted)
}

impl Table {
    pub(super) fn new(
        product: &Product,
        groups: &[Group],
        target: &Target,
        wanted: &BTreeMap<ProfileName, u64>,
    ) -> Result<Self, ReconfigureError> {
        let names = wanted.keys().cloned().collect::<Vec<_>>();
        let space = Space::new(product, &names)?;
        let slot = |(name, at): (&ProfileName, tesela_model::product::Placement)| Instance {
            profile: name.clone(),
            start: at.start,
            size: at.size,
        };
        let slots = space.slots().map(slot).collect::<Vec<_>>();
        if slots.len() > Mask::BITS as usize {
            return Err(ReconfigureError::TooManyPlaces { product: product.id.clone() });
        }
        let mut states: BTreeMap<Vec<u8>, Vec<Mask>> = BTreeMap::new();
        space.walk(&mut space.empty_room(), &mut |placed, counts, _| {
            let mask = placed.iter().fold(0, |mask, &slot| mask | 1 << slot);
            states.entry(counts.clone()).or_default().push(mask);
        })?;
        let (rows, shapes) = match target {
            Target::Counts(_) => by_profile(wanted, states),
            Target::Geometries(geometries) => by_geometry(product, geometries, &space, states)?,
        };
        let weights = groups.iter().flat_map(|g| &g.instances).map(|(_, usage)| i128::from(weight(*usage)));
        let unit = u64::try_from(weights.fold(0, gcd)).map_err(|_| TooLarge)?.max(1);
        let mut table = Self {
            rows,
            counts: groups.iter().map(Group::count).collect(),
            holds: shapes.iter().map(|s| s.holds.clone()).collect(),
            costs: Vec::with_capacity(groups.len() * shapes.len()),
            unit,
            shapes,
            slots,
        };
        table.fill(groups);
        Ok(table)
    }

    fn fill(&mut self, groups: &[Group]) {
        let mut known: BTreeMap<Mask, Vec<Vec<Mask>>> = BTreeMap::new();
        for group in groups {
            let at = self.at(group);
            let now = mask(&at);
            let kept = known.entry(now).or_insert_with(|| self.shapes.iter().map(|s| kept(now, s)).collect());
            for (shape, kept) in self.shapes.iter().zip(kept.iter()) {
                let best = best_kept(group, &at, shape, kept);
                self.costs.push(best.map(|(_, cost)| Cost {
                    weight: cost.weight / i128::from(self.unit),
                    operations: cost.operations,
                }));
            }
        }
    }

    /// The slot of each of a group's instances; one of another profile is in no final layout.
    fn at(&self, group: &Group) -> Vec<Option<usize>> {
        group.instances.iter().map(|(i, _)| self.slots.iter().position(|s| s == i)).collect()
    }

    pub(super) fn groups(&self) -> usize {
        self.counts.len()
    }

    pub(super) fn shapes(&self) -> usize {
        self.holds.len()
    }

    /// The costs of a group, by shape.
    pub(super) fn costs(&self, group: usize) -> &[Option<Cost>] {
        &self.costs[group * self.shapes.len()..(group + 1) * self.shapes.len()]
    }

    /// The final layout of a GPU of this group: of those that keep the most the one whose new instances lie least
    /// where somebody has to leave first.
    pub(super) fn layout(&self, group: &Group, shape: usize) -> Vec<Instance> {
        let at = self.at(group);
        let now = mask(&at);
        let shape = &self.shapes[shape];
        let Some((keep, _)) = best_kept(group, &at, shape, &kept(now, shape)) else {
            return group.instances.iter().map(|(i, _)| i.clone()).collect();
        };
        let instances = |mask: Mask| {
            let here = self.slots.iter().enumerate().filter(move |(slot, _)| mask >> slot & 1 == 1);
            here.map(|(_, instance)| instance)
        };
        let units = |i: &Instance| tesela_model::product::Placement { start: i.start, size: i.size }.mask();
        let leaving =
            group.instances.iter().filter(|(i, usage)| is_busy(*usage) && !instances(keep).any(|k| k == i));
        let leaving = leaving.fold(0, |mask, (i, _)| mask | units(i));
        let whole = group.executor == Executor::GpuOperator && keep != now;
        let rank = |state: Mask| {
            if whole {
                // Everything goes at once; what comes back in its place is at least the same to look at.
                return (now & !state).count_ones() as usize;
            }
            instances(state & !now).filter(|i| units(i) & leaving != 0).count()
        };
        let keeps = |state: &&Mask| whole || *state & now == keep;
        let state = shape.states.iter().filter(keeps).min_by_key(|&&state| rank(state)).copied();
        instances(state.unwrap_or(keep)).cloned().collect()
    }

    /// Whether a GPU that becomes this shape keeps every instance in place.
    pub(super) fn is_free(&self, group: usize, shape: usize) -> bool {
        self.costs(group)[shape].is_some_and(|cost| cost.operations == 0 && cost.weight == 0)
    }
}

fn by_profile(
    wanted: &BTreeMap<ProfileName, u64>,
    states: BTreeMap<Vec<u8>, Vec<Mask>>,
) -> (Vec<Row>, Vec<Shape>) {
    let row = |(name, count): (&ProfileName, &u64)| Row { name: name.to_string(), want: i128::from(*count) };
    let shape = |(counts, states): (Vec<u8>, Vec<Mask>)| Shape {
        size: counts.iter().map(|n| u32::from(*n)).sum(),
        holds: counts.into_iter().map(i128::from).collect(),
        states,
    };
    (wanted.iter().map(row).collect(), states.into_iter().map(shape).collect())
}

fn by_geometry(
    product: &Product,
    geometries: &BTreeMap<Geometry, u64>,
    space: &Space,
    mut states: BTreeMap<Vec<u8>, Vec<Mask>>,
) -> Result<(Vec<Row>, Vec<Shape>), ReconfigureError> {
    let names =
        states.keys().map(|counts| (space.geometry(counts), counts.clone())).collect::<BTreeMap<_, _>>();
    let mut rows: BTreeMap<Geometry, i128> = BTreeMap::new();
    for (geometry, &count) in geometries.iter().filter(|(_, n)| **n > 0) {
        let mut own = Vec::new();
        for (name, n) in geometry.counts() {
            let name =
                product.profile(name.as_str()).map_err(crate::layouts::LayoutsError::from)?.name.clone();
            own.extend(std::iter::repeat_n(name, n as usize));
        }
        *rows.entry(own.into_iter().collect()).or_insert(0) += i128::from(count);
    }
    let mut shapes = Vec::new();
    for (index, geometry) in rows.keys().enumerate() {
        let found = names.get(geometry).and_then(|counts| states.remove(counts));
        let states = found.ok_or_else(|| ReconfigureError::NoLayout {
            product: product.id.clone(),
            geometry: geometry.clone(),
        })?;
        let holds = (0..rows.len()).map(|row| i128::from(row == index)).collect();
        shapes.push(Shape { holds, size: geometry.len(), states });
    }
    let row = |(geometry, want): (&Geometry, &i128)| Row { name: geometry.to_string(), want: *want };
    Ok((rows.iter().map(row).collect(), shapes))
}

fn mask(at: &[Option<usize>]) -> Mask {
    at.iter().flatten().fold(0, |mask, &slot| mask | 1 << slot)
}

/// The largest sets of present slots that a state of the shape keeps, each once.
fn kept(now: Mask, shape: &Shape) -> Vec<Mask> {
    let mut found = shape.states.iter().map(|state| state & now).collect::<Vec<_>>();
    found.sort_unstable_by_key(|mask| (std::cmp::Reverse(mask.count_ones()), *mask));
    found.dedup();
    let mut largest: Vec<Mask> = Vec::new();
    for mask in found {
        if largest.iter().all(|larger| mask & !larger != 0) {
            largest.push(mask);
        }
    }
    largest
}

/// What is kept when a GPU of the group becomes the shape at least cost, and that cost; `None` when something pinned
/// would go.
fn best_kept(group: &Group, at: &[Option<usize>], shape: &Shape, kept: &[Mask]) -> Option<(Mask, Cost)> {
    let now = mask(at);
    let held = group.instances.len();
    let stays = now.count_ones() as usize == held && kept.contains(&now) && shape.size as usize == held;
    if group.executor == Executor::GpuOperator && !stays {
        let pinned = group.instances.iter().any(|(_, usage)| is_pinned(*usage));
        let cost = Cost {
            weight: i128::from(group.busy_weight()),
            operations: held as i128 + i128::from(shape.size),
        };
        return (!pinned).then_some((0, cost));
    }
    let mut best: Option<(Cost, Mask)> = None;
    for &mask in kept {
        let gone =
            group.instances.iter().zip(at).filter(|(_, at)| at.is_none_or(|slot| mask >> slot & 1 == 0));
        let (mut lost, mut pinned) = (0u64, false);
        for ((_, usage), _) in gone {
            lost = lost.saturating_add(weight(*usage));
            pinned |= is_pinned(*usage);
        }
        let stays = i128::from(mask.count_ones());
        let operations = held as i128 + i128::from(shape.size) - 2 * stays;
        let cost = Cost { weight: i128::from(lost), operations };
        if !pinned && best.is_none_or(|known| (cost, mask) < known) {
            best = Some((cost, mask));
        }
    }
    best.map(|(cost, mask)| (mask, cost))
}

/// Profiles with fewer instances wanted than are busy, and how many fewer.
pub(super) fn homeless(
    groups: &[Group],
    wanted: &BTreeMap<ProfileName, u64>,
) -> Vec<(ProfileName, u64, u64)> {
    let names = groups.iter().flat_map(|g| &g.instances).map(|(i, _)| &i.profile).collect::<BTreeSet<_>>();
    let mut short = Vec::new();
    for name in names {
        let (busy, want) = (busy(groups, name), wanted.get(name).copied().unwrap_or(0));
        if busy > want {
            short.push((name.clone(), busy, want));
        }
    }
    short
}

/// Checks a layout; used where steps are put in order.
pub(super) fn fits(product: &Product, instances: &[Instance], more: &Instance) -> bool {
    // Most of what does not fit overlaps; the other rules take longer to look at.
    let apart = |i: &Instance| i.start + i.size <= more.start || more.start + more.size <= i.start;
    if !instances.iter().all(apart) {
        return false;
    }
    let all = instances.iter().chain([more]).map(|i| (i.profile.clone(), i.start));
    Layout::new(product, all).is_ok()
}
