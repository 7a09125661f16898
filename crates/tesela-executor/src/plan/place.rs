//! Which layout fulfils a wish best on one GPU, and how near one comes where none does.

use tesela_model::driver::Process;
use tesela_model::layout::{Geometry, Layout};
use tesela_model::product::{Product, ProfileName};
use tesela_plan::layouts::{Kind, Worth, choose, largest_part};

use super::reason::Blocked;
use crate::catalogue::Catalogue;
use crate::goal::{Goal, GoalCompute, GoalInstance};
use crate::observe::{Live, LiveInstance, is_on};
use crate::wish::Wanted;

/// The best layout for these instances.
pub(super) fn best(
    product: &Product,
    live: &Live,
    processes: &[Process],
    wanted: &[Wanted],
) -> Result<Goal, Blocked> {
    let kinds = wanted.iter().map(|w| w.kind.clone()).collect::<Vec<_>>();
    if kinds.is_empty() {
        return Ok(Goal { mig: true, instances: Vec::new() });
    }
    let at = |kind: usize, start: u32| {
        let same = |i: &&LiveInstance| i.profile == wanted[kind].profile && i.placement.start == start;
        live.instances.iter().find(same)
    };
    let worth =
        |kind: usize, start: u32| at(kind, start).map_or([0; 3], |i| kept(i, &wanted[kind], processes));
    let seats = choose(product, &kinds, &worth).map_err(Blocked::Layouts)?;
    let Some(seats) = seats else {
        let nearest = part(product, &Layout::empty(product), &kinds)?;
        return Err(Blocked::Infeasible { wanted: geometry(&kinds, None), nearest });
    };
    let mut instances = Vec::new();
    for (kind, start) in seats {
        let wanted = &wanted[kind];
        let profile = product.profile(wanted.kind.profile.as_str()).map_err(|e| Blocked::Wish(e.into()))?;
        // `choose` takes only placements of the product.
        let Some(placement) = profile.placement_at(start) else { continue };
        let compute = compute(at(kind, start), wanted, processes);
        instances.push(GoalInstance { profile: wanted.profile, placement, compute });
    }
    instances.sort_by_key(|i| i.placement.start);
    Ok(Goal { mig: true, instances })
}

fn shape(wanted: &Wanted) -> GoalInstance {
    let open = |&slices: &u32| GoalCompute { slices, start: None, profile: None };
    let compute = wanted.compute.iter().map(open).collect();
    // Only its compute instances are looked at.
    let placement = tesela_model::product::Placement { start: 0, size: 0 };
    GoalInstance { profile: wanted.profile, placement, compute }
}

fn is_busy(live: &LiveInstance, index: usize, processes: &[Process]) -> bool {
    processes.iter().any(|p| is_on(p, live.id, Some(live.compute[index].id)))
}

/// Busy MIG devices kept, the GPU instance kept, MIG devices kept.
fn kept(live: &LiveInstance, wanted: &Wanted, processes: &[Process]) -> Worth {
    let stays = shape(wanted).matched(live, &|i| is_busy(live, i, processes));
    let stays = stays.into_iter().flatten().collect::<Vec<_>>();
    let busy = stays.iter().filter(|i| is_busy(live, **i, processes)).count();
    [busy as u64, 1, stays.len() as u64]
}

/// The compute instances of a wanted instance, those that are there with their places.
fn compute(live: Option<&LiveInstance>, wanted: &Wanted, processes: &[Process]) -> Vec<GoalCompute> {
    let shape = shape(wanted);
    let Some(live) = live else { return shape.compute };
    let stays = shape.matched(live, &|i| is_busy(live, i, processes));
    let both = shape.compute.into_iter().zip(stays);
    both.map(|(open, found)| match found.map(|i| &live.compute[i]) {
        Some(there) => GoalCompute {
            slices: open.slices,
            start: Some(there.placement.start),
            profile: Some(there.profile),
        },
        None => open,
    })
    .collect()
}

/// A goal given with its starts, checked against the rules of the GPU.
pub(super) fn checked(catalogue: &Catalogue, product: &Product, goal: &Goal) -> Result<Goal, Blocked> {
    let mut named = Vec::new();
    for instance in &goal.instances {
        let profile = catalogue.by_id(instance.profile).ok_or(Blocked::UnknownId(instance.profile))?;
        named.push((profile.name.clone(), instance.placement.start));
    }
    Layout::new(product, named).map_err(|error| Blocked::Layout(error.to_string()))?;
    let mut goal = goal.clone();
    goal.instances.sort_by_key(|i| i.placement.start);
    Ok(goal)
}

/// The largest part of the kinds that fits beside a layout, as a geometry.
fn part(product: &Product, beside: &Layout, kinds: &[Kind]) -> Result<Geometry, Blocked> {
    let counts = largest_part(product, beside, kinds).map_err(Blocked::Layouts)?;
    Ok(geometry(kinds, Some(&counts)))
}

/// Kinds as a multiset; of a number that no GPU holds only so many that it still reads as too much.
fn geometry(kinds: &[Kind], counts: Option<&[u32]>) -> Geometry {
    let count = |index: usize| counts.map_or(kinds[index].count, |counts| counts[index]).min(64);
    let each = (0..kinds.len()).flat_map(|i| (0..count(i)).map(move |_| i));
    each.map(|i| kinds[i].profile.clone()).collect()
}

/// The most of a goal that can stand while every busy instance stays: those and what fits beside them.
pub(super) fn nearest_with_busy(
    product: &Product,
    catalogue: &Catalogue,
    live: &Live,
    processes: &[Process],
    goal: &Goal,
) -> Option<Geometry> {
    let named = |i: &LiveInstance| catalogue.by_id(i.profile).map(|p| (p.name.clone(), i.placement.start));
    let busy = live.instances.iter().filter(|i| i.processes(processes).next().is_some());
    let busy = busy.filter_map(named).collect::<Vec<(ProfileName, u32)>>();
    let beside = Layout::new(product, busy.clone()).ok()?;
    let mut kinds = Vec::<Kind>::new();
    for instance in &goal.instances {
        let name = catalogue.by_id(instance.profile)?.name.clone();
        match kinds.iter_mut().find(|k| k.profile == name) {
            Some(kind) => kind.count += 1,
            None => kinds.push(Kind { profile: name, count: 1 }),
        }
    }
    for (name, _) in &busy {
        if let Some(kind) = kinds.iter_mut().find(|k| k.profile == *name) {
            kind.count = kind.count.saturating_sub(1);
        }
    }
    kinds.retain(|k| k.count > 0);
    let more = if kinds.is_empty() { Geometry::default() } else { part(product, &beside, &kinds).ok()? };
    let more = more.counts().flat_map(|(name, n)| (0..n).map(move |_| name.clone()));
    Some(busy.into_iter().map(|(name, _)| name).chain(more).collect())
}
