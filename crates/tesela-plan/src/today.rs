//! The fleet as it is now, in figures: what each GPU is offered as, what is held, what it costs.

mod devices;

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::demand::{Demand, Holding};
use tesela_model::fleet::{Fleet, Gpu, MigStrategy, Node, Offer};
use tesela_model::plan::{Figures, Today};
use tesela_model::price::PriceBook;
use tesela_model::quantity::Micros;
use tesela_model::resource::GpuResource;

pub use devices::nodes;

/// Choices that the search for the fewest held GPUs of one node may try before it settles for a cover that may
/// be too large. A node of 16 GPUs, all cut differently, stays below.
const SEARCH_STEPS: u32 = 200_000;

/// The key `today` of a plan; `None` when the input had no nodes at all.
///
/// `gpus_by_mode` counts physical GPUs by how their node offers them, held or not. A node that must not be
/// planned with (MIG INVALID, vGPU) offers nothing that can be known: it counts as a node and not by mode.
/// `hourly_micros` is `None` without prices, when a product has none, or beyond 64 bits.
#[must_use]
pub fn today(fleet: &Fleet, prices: Option<&PriceBook>) -> Option<Today> {
    if !fleet.has_nodes {
        return None;
    }
    let mut gpus_by_mode = BTreeMap::new();
    for gpu in fleet.nodes.iter().filter(|node| node.unusable.is_none()).flat_map(|node| &node.gpus) {
        *gpus_by_mode.entry(gpu.offer.mode()).or_insert(0) += 1;
    }
    let nodes = fleet.nodes.iter().filter(|node| has_gpus(node)).count();
    Some(Today { gpus_by_mode, nodes: nodes as u64, hourly_micros: hourly(fleet, prices) })
}

/// The figures of today for the summary: GPUs and nodes there and held, pods that have their devices and pods
/// that wait.
///
/// A MIG GPU is held as soon as one of its instances is. Where nobody says which GPU a pod holds, the least
/// number of GPUs that could hold all pods of the node is taken: what is really held may be more.
#[must_use]
pub fn figures(fleet: &Fleet, demand: &Demand, prices: Option<&PriceBook>) -> Figures {
    let mut holdings: BTreeMap<&str, Vec<&Holding>> = BTreeMap::new();
    let mut served = 0u64;
    let mut waiting = 0u64;
    for workload in &demand.workloads {
        let running = workload.running.iter().map(|h| h.pods.len() as u64).sum::<u64>();
        served = served.saturating_add(running);
        waiting = waiting.saturating_add(workload.count.saturating_sub(running));
        for holding in &workload.running {
            holdings.entry(&holding.node).or_default().push(holding);
        }
    }
    let mut figures = Figures {
        pods_served: served,
        pods_waiting: waiting,
        hourly_micros: hourly(fleet, prices),
        ..Figures::default()
    };
    for node in fleet.nodes.iter().filter(|node| has_gpus(node)) {
        let mut held = holdings.remove(node.name.as_str()).unwrap_or_default();
        held.extend(&node.held_by_others);
        let gpus_held = gpus_held(node, &held);
        figures.gpus += node.gpus.len() as u64;
        figures.gpus_held += gpus_held;
        figures.nodes += 1;
        figures.nodes_held += u64::from(held.iter().any(|h| !h.pods.is_empty()));
    }
    figures
}

/// The resource names under which a node offers one of its GPUs, and how many units of each.
///
/// Rule of the names: NVIDIA k8s-device-plugin. Under MIG strategy none the plugin offers no MIG device.
#[must_use]
pub fn offered(node: &Node, gpu: &Gpu) -> BTreeMap<GpuResource, u64> {
    let shared = |name: GpuResource, replicas: Option<u32>| match replicas {
        Some(_) if node.shares_renamed => name.renamed(),
        _ => name,
    };
    let mut units = BTreeMap::new();
    match &gpu.offer {
        Offer::Exclusive => {
            units.insert(GpuResource::gpu(), 1);
        }
        Offer::TimeSliced { replicas } | Offer::Mps { replicas } => {
            units.insert(shared(GpuResource::gpu(), Some(*replicas)), u64::from(*replicas));
        }
        Offer::Mig { instances, replicas, .. } => {
            for instance in instances {
                let name = match node.mig_strategy {
                    MigStrategy::None => continue,
                    MigStrategy::Single => GpuResource::gpu(),
                    MigStrategy::Mixed => GpuResource::mig(instance.profile.clone()),
                };
                let replicas = replicas.get(&instance.profile).copied();
                *units.entry(shared(name, replicas)).or_insert(0) += u64::from(replicas.unwrap_or(1));
            }
        }
    }
    units
}

fn has_gpus(node: &Node) -> bool {
    !node.gpus.is_empty() || node.unusable.is_some()
}

fn hourly(fleet: &Fleet, prices: Option<&PriceBook>) -> Option<Micros> {
    let prices = prices?;
    let price = |gpu: &Gpu| prices.gpu_hour.get(&gpu.product).copied();
    fleet.nodes.iter().flat_map(|n| &n.gpus).try_fold(Micros(0), |sum, gpu| sum.plus(price(gpu)?))
}

/// The least number of the node's GPUs that can hold all of these devices.
fn gpus_held(node: &Node, holdings: &[&Holding]) -> u64 {
    let capacities = node.gpus.iter().map(|gpu| offered(node, gpu)).collect::<Vec<_>>();
    let index_of = |uuid: &str| node.gpus.iter().position(|gpu| gpu.uuid.as_deref() == Some(uuid));
    let mut known = BTreeSet::new();
    let mut left = capacities.clone();
    let mut unknown: BTreeMap<GpuResource, u64> = BTreeMap::new();
    for holding in holdings {
        let mut units = (holding.pods.len() as u64).saturating_mul(u64::from(holding.devices));
        if units == 0 {
            continue;
        }
        if let Some(index) = holding.place.as_ref().and_then(|place| index_of(&place.gpu)) {
            known.insert(index);
            units -= take(&mut left[index], &holding.resource, units);
        }
        *unknown.entry(holding.resource.clone()).or_insert(0) += units;
    }
    // What has no known place goes first where something is held anyway.
    for index in &known {
        for (resource, units) in &mut unknown {
            *units -= take(&mut left[*index], resource, *units);
        }
    }
    unknown.retain(|_, units| *units > 0);
    let free = (0..capacities.len()).filter(|index| !known.contains(index));
    let mut groups: BTreeMap<Vec<(GpuResource, u64)>, u64> = BTreeMap::new();
    for index in free {
        *groups.entry(capacities[index].clone().into_iter().collect()).or_insert(0) += 1;
    }
    let groups =
        groups.into_iter().map(|(units, count)| (units.into_iter().collect(), count)).collect::<Vec<_>>();
    known.len() as u64 + fewest(&groups, &unknown)
}

/// Takes up to `wanted` units of a resource; says how many it got.
fn take(free: &mut BTreeMap<GpuResource, u64>, resource: &GpuResource, wanted: u64) -> u64 {
    let Some(units) = free.get_mut(resource) else {
        return 0;
    };
    let taken = wanted.min(*units);
    *units -= taken;
    taken
}

/// The least number of GPUs, out of groups of equal ones, whose units cover what is held; all of the GPUs that
/// offer any of it when they cannot (a GPU that fell out of the offer is still held).
fn fewest(groups: &[(BTreeMap<GpuResource, u64>, u64)], held: &BTreeMap<GpuResource, u64>) -> u64 {
    if held.is_empty() {
        return 0;
    }
    let mut coverable = BTreeMap::new();
    for (resource, units) in held {
        let all = groups
            .iter()
            .map(|(offer, count)| offer.get(resource).copied().unwrap_or(0) * count)
            .sum::<u64>();
        coverable.insert(resource.clone(), *units.min(&all));
    }
    coverable.retain(|_, units| *units > 0);
    let useful = groups.iter().filter(|(offer, _)| coverable.keys().any(|r| offer.contains_key(r)));
    let useful = useful.cloned().collect::<Vec<_>>();
    let all = useful.iter().map(|(_, count)| *count).sum::<u64>();
    // A single resource needs the GPUs with the most units of it; several share GPUs, so the largest such
    // number is only where the search begins.
    let least = coverable.iter().map(|(resource, units)| largest_first(&useful, resource, *units)).max();
    let mut steps = SEARCH_STEPS;
    for size in least.unwrap_or(0)..all {
        match covers(&useful, size, &coverable, &mut steps) {
            Some(true) => return size,
            Some(false) => {}
            None => break,
        }
    }
    all
}

fn largest_first(groups: &[(BTreeMap<GpuResource, u64>, u64)], resource: &GpuResource, units: u64) -> u64 {
    let mut sizes =
        groups.iter().map(|(o, count)| (o.get(resource).copied().unwrap_or(0), *count)).collect::<Vec<_>>();
    sizes.sort_by(|a, b| b.cmp(a));
    let mut left = units;
    let mut gpus = 0;
    for (size, count) in sizes {
        if left == 0 || size == 0 {
            break;
        }
        let used = left.div_ceil(size).min(count);
        gpus += used;
        left = left.saturating_sub(used * size);
    }
    gpus
}

/// Whether `size` GPUs of the groups can cover what is held; `None` when the steps ran out.
fn covers(
    groups: &[(BTreeMap<GpuResource, u64>, u64)],
    size: u64,
    held: &BTreeMap<GpuResource, u64>,
    steps: &mut u32,
) -> Option<bool> {
    *steps = steps.checked_sub(1)?;
    if held.is_empty() {
        return Some(true);
    }
    let Some(((offer, count), rest)) = groups.split_first() else {
        return Some(false);
    };
    let short = held.iter().any(|(resource, units)| largest_first(groups, resource, *units) > size);
    if short || size == 0 {
        return Some(false);
    }
    for taken in (0..=size.min(*count)).rev() {
        let mut left = held.clone();
        for (resource, units) in &mut left {
            *units = units.saturating_sub(offer.get(resource).copied().unwrap_or(0) * taken);
        }
        left.retain(|_, units| *units > 0);
        if covers(rest, size - taken, &left, steps)? {
            return Some(true);
        }
    }
    Some(false)
}
