//! The same demand with one way of sharing for all, where that is feasible.
//!
//! Each alternative uses the nodes that are there before it buys any, looks at GPUs, their memory and the
//! products a workload allows, and leaves CPU, main memory, selectors, taints and spreading aside: it is what
//! that way of sharing would take at least in practice, not a placement. GPUs of one product are packed well;
//! which product takes what is tried in a few orders, the cheapest answer is kept.

use std::collections::BTreeMap;

use tesela_model::demand::{Demand, Isolation, TenantClass, Workload};
use tesela_model::plan::{Alternative, Alternatives};
use tesela_model::product::{Product, ProfileName};
use tesela_model::quantity::Mib;
use tesela_model::resource::GpuDevice;

use super::stock::{Batch, Stock, allows, need};
use crate::input::PlanInput;
use crate::pack::{Class, Offer, Problem, Source, pack};

/// All three alternatives, each with its figures or the reason why there are none.
#[must_use]
pub fn alternatives(input: &PlanInput<'_>) -> Alternatives {
    let stock = Stock::of(input);
    let mut result = Alternatives::default();
    let mut keep = |name: &str, answer: Result<Alternative, String>| match answer {
        Ok(alternative) => Some(alternative),
        Err(reason) => {
            result.reasons.insert(name.to_owned(), reason);
            None
        }
    };
    let checked = |answer: Result<Alternative, String>| answer.and_then(|found| spread(input, found));
    let all_exclusive = keep("all_exclusive", checked(all_exclusive(input, &stock)));
    let all_mig = keep("all_mig", checked(all_mig(input, &stock)));
    let all_time_sliced = keep("all_time_sliced", checked(all_time_sliced(input, &stock)));
    Alternatives { all_exclusive, all_mig, all_time_sliced, ..result }
}

/// An alternative that has the nodes over which pods must be spread; these are counted and not placed.
fn spread(input: &PlanInput<'_>, found: Alternative) -> Result<Alternative, String> {
    let nodes = |w: &&Workload| w.count.div_ceil(u64::from(w.max_per_node.unwrap_or(u32::MAX).max(1)));
    match wanted(input).max_by_key(|w| (nodes(w), std::cmp::Reverse(&w.key))) {
        Some(most) if nodes(&most) > found.nodes => Err(format!(
            "{} must be spread over {} nodes, more than its GPUs take; with such a limit it is not computed",
            most.key,
            nodes(&most)
        )),
        _ => Ok(found),
    }
}

/// Workloads with at least one pod.
fn wanted<'a>(input: &PlanInput<'a>) -> impl Iterator<Item = &'a Workload> {
    input.demand.workloads.iter().filter(|w| w.count > 0)
}

// ---- exclusive ----

/// A whole GPU for each GPU of each pod; a pod's GPUs are on one node.
fn all_exclusive(input: &PlanInput<'_>, stock: &Stock) -> Result<Alternative, String> {
    let mut workloads = wanted(input).collect::<Vec<_>>();
    workloads.sort_by_key(|w| (std::cmp::Reverse(w.gpus), w.products.is_empty(), &w.key));
    let largest = stock.batches.iter().map(|b| b.gpus).max().unwrap_or(0);
    let together = |w: &&&Workload| w.same_node && w.count.saturating_mul(u64::from(w.gpus.max(1))) > largest;
    if let Some(workload) = workloads.iter().find(together) {
        let pods = workload.count;
        return Err(format!(
            "{pods} pods of {} must be on one node, and none has so many GPUs",
            workload.key
        ));
    }
    let large_first = (0..stock.batches.len()).collect::<Vec<_>>();
    let small_first = large_first.iter().rev().copied().collect::<Vec<_>>();
    let answers = [large_first, small_first].map(|order| place_whole(input, stock, &workloads, &order));
    cheapest(answers)
}

fn cheapest(answers: impl IntoIterator<Item = Result<Alternative, String>>) -> Result<Alternative, String> {
    let mut best: Option<Alternative> = None;
    let mut reason = String::new();
    let key = |a: &Alternative| (a.hourly_micros.is_none(), a.hourly_micros, a.gpus, a.nodes);
    for answer in answers {
        match answer {
            Ok(found) if best.as_ref().is_none_or(|b| key(&found) < key(b)) => best = Some(found),
            Ok(_) => {}
            Err(why) if reason.is_empty() => reason = why,
            Err(_) => {}
        }
    }
    best.ok_or(reason)
}

fn place_whole(
    input: &PlanInput<'_>,
    stock: &Stock,
    workloads: &[&Workload],
    order: &[usize],
) -> Result<Alternative, String> {
    let mut order = order.to_vec();
    let price = |batch: &Batch| {
        let price = stock.price.get(&batch.product);
        (batch.bought, price.is_none(), price)
    };
    order.sort_by(|a, b| price(&stock.batches[*a]).cmp(&price(&stock.batches[*b])));
    let mut total = Alternative { gpus: 0, nodes: 0, hourly_micros: Some(Default::default()) };
    let mut fresh = stock.batches.iter().map(|b| b.nodes).collect::<Vec<_>>();
    // Opened nodes: product and free GPUs → nodes.
    let mut open: BTreeMap<(u64, String), u64> = BTreeMap::new();
    for workload in workloads {
        let gpus = u64::from(workload.gpus.max(1));
        let enough = |memory: &Mib| need(input, workload).is_none_or(|n| n <= *memory);
        let fits = |product: &str| allows(workload, product) && stock.memory.get(product).is_none_or(enough);
        let mut left = workload.count;
        let usable = open.keys().filter(|(free, p)| *free >= gpus && fits(p)).cloned().collect::<Vec<_>>();
        for key in usable {
            left -= fill_nodes(&mut open, &key, gpus, left);
        }
        for index in &order {
            let batch = &stock.batches[*index];
            if left == 0 || batch.gpus < gpus || !fits(&batch.product) {
                continue;
            }
            let nodes = left.div_ceil(batch.gpus / gpus).min(fresh[*index].unwrap_or(u64::MAX));
            fresh[*index] = fresh[*index].map(|n| n - nodes);
            stock.add(&mut total, &batch.product, nodes, batch.gpus);
            let key = (batch.gpus, batch.product.clone());
            *open.entry(key.clone()).or_insert(0) += nodes;
            left -= fill_nodes(&mut open, &key, gpus, left);
        }
        if left > 0 {
            let there = stock.products().into_iter().map(|p| stock.gpus(p).unwrap_or(u64::MAX));
            let there = there.fold(0u64, u64::saturating_add);
            if there == u64::MAX {
                return Err(format!(
                    "no GPU that is there or may be bought will do for pods of {}",
                    workload.key
                ));
            }
            return Err(format!(
                "{left} pods of {} with {gpus} whole GPUs each find no room on the {there} GPUs that are there or \
                 may be bought",
                workload.key
            ));
        }
        total.gpus = total.gpus.saturating_add(workload.count.saturating_mul(gpus));
    }
    Ok(total)
}

/// Puts up to `pods` pods of `gpus` GPUs on the opened nodes of one kind; says how many went there.
fn fill_nodes(open: &mut BTreeMap<(u64, String), u64>, key: &(u64, String), gpus: u64, pods: u64) -> u64 {
    let Some(nodes) = open.remove(key) else { return 0 };
    let (free, product) = key;
    let each = free / gpus;
    let full = nodes.min(pods / each);
    let rest = if full < nodes { pods - full * each } else { 0 };
    let mut back = |left: u64, nodes: u64| {
        if nodes > 0 {
            *open.entry((left, product.clone())).or_insert(0) += nodes;
        }
    };
    back(free - each * gpus, full);
    back(free - rest * gpus, u64::from(rest > 0));
    back(*free, nodes - full - u64::from(rest > 0));
    full * each + rest
}

// ---- one sharing product after the other ----

/// Pods that are alike: what one of them takes of a GPU, by product that fits.
struct Alike {
    takes: BTreeMap<String, Share>,
    need: Mib,
    pods: u64,
}

/// GPUs of a product that a multiset of things takes; `None` when it cannot be known.
type GpusFor<'f> = &'f dyn Fn(&str, &BTreeMap<Share, u64>) -> Option<u64>;

/// Tries each product as the first to be filled, the others by price behind it.
fn over_products(
    stock: &Stock,
    mut classes: Vec<Alike>,
    gpus_for: GpusFor<'_>,
) -> Result<Alternative, String> {
    classes.sort_by(|a, b| (b.need, &a.takes.len()).cmp(&(a.need, &b.takes.len())));
    let products = stock.products();
    let orders = products.iter().map(|first| {
        let mut order = vec![*first];
        order.extend(products.iter().filter(|p| *p != first));
        order
    });
    if products.is_empty() && !classes.is_empty() {
        return Err("no GPUs are there and none may be bought".to_owned());
    }
    let orders = if products.is_empty() { vec![Vec::new()] } else { orders.collect() };
    cheapest(orders.into_iter().map(|order| {
        let wanted = fill_products(stock, &order, &classes, gpus_for)?;
        stock.nodes_for(&wanted)
    }))
}

fn fill_products(
    stock: &Stock,
    order: &[&str],
    classes: &[Alike],
    gpus_for: GpusFor<'_>,
) -> Result<BTreeMap<String, u64>, String> {
    let mut left = classes.iter().map(|c| c.pods).collect::<Vec<_>>();
    let mut wanted = BTreeMap::new();
    for product in order {
        let limit = stock.gpus(product).unwrap_or(u64::MAX);
        let mut load: BTreeMap<Share, u64> = BTreeMap::new();
        for (class, left) in classes.iter().zip(&mut left) {
            let Some(kind) = class.takes.get(*product).filter(|_| *left > 0) else {
                continue;
            };
            let fits = |pods: u64| {
                let mut more = load.clone();
                let sum = more.entry(kind.clone()).or_insert(0);
                let Some(grown) = sum.checked_add(pods) else {
                    return false;
                };
                *sum = grown;
                gpus_for(product, &more).is_some_and(|gpus| gpus <= limit)
            };
            let pods = largest(*left, fits);
            if pods > 0 {
                *load.entry(kind.clone()).or_insert(0) += pods;
                *left -= pods;
            }
        }
        load.retain(|_, pods| *pods > 0);
        if let Some(gpus) = gpus_for(product, &load).filter(|gpus| *gpus > 0) {
            wanted.insert((*product).to_owned(), gpus);
        }
    }
    match left.iter().sum::<u64>() {
        0 => Ok(wanted),
        pods => Err(format!("{pods} pods find no room on the GPUs that are there or may be bought")),
    }
}

/// The largest number up to `most` for which a condition holds that holds for all smaller ones.
fn largest(most: u64, holds: impl Fn(u64) -> bool) -> u64 {
    if holds(most) {
        return most;
    }
    let (mut good, mut bad) = (0, most);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if holds(middle) {
            good = middle;
        } else {
            bad = middle;
        }
    }
    good
}

/// Groups workloads that take the same on every product.
fn alike(pods: Vec<(BTreeMap<String, Share>, Mib, u64)>) -> Result<Vec<Alike>, String> {
    let mut grouped: BTreeMap<(BTreeMap<String, Share>, Mib), u64> = BTreeMap::new();
    for (takes, need, count) in pods {
        let sum = grouped.entry((takes, need)).or_insert(0);
        *sum = sum.checked_add(count).ok_or("the demand has more pods than 64 bits count")?;
    }
    Ok(grouped.into_iter().map(|((takes, need), pods)| Alike { takes, need, pods }).collect())
}

// ---- MIG ----

/// An instance for each pod.
fn all_mig(input: &PlanInput<'_>, stock: &Stock) -> Result<Alternative, String> {
    let find = |id: &str| input.products.look_up(id).filter(|p| p.has_placements());
    let products = stock.products().into_iter().filter_map(|id| Some((id, find(id)?))).collect::<Vec<_>>();
    let mut pods = Vec::new();
    for workload in wanted(input) {
        let key = &workload.key;
        if workload.gpus > 1 {
            return Err(format!(
                "{key} needs {} GPUs in each pod; work over several GPUs never goes to MIG",
                workload.gpus
            ));
        }
        if isolation(input.demand, workload) == Isolation::Device {
            return Err(format!("{key} needs the whole device to itself"));
        }
        let named = named_profile(workload);
        if named.is_none() && workload.gpu_memory.is_none() {
            return Err(format!("how much GPU memory {key} needs is not known"));
        }
        if products.is_empty() {
            return Err(format!("no product with MIG is there or may be bought; {key} is the first without"));
        }
        let allowed = products.iter().filter(|(id, _)| allows(workload, id));
        let takes = allowed.filter_map(|(id, product)| {
            Some(((*id).to_owned(), smallest_profile(product, named, need(input, workload))?))
        });
        let takes = takes.collect::<BTreeMap<_, _>>();
        if takes.is_empty() {
            return Err(match (named, need(input, workload)) {
                (Some(profile), _) => {
                    format!("{key} asks for the profile {profile}, which no product it may use has")
                }
                (None, Some(need)) => {
                    format!("{key} needs {need} with its context, more than any profile that it may use")
                }
                (None, None) => format!("{key} fits no profile"),
            });
        }
        pods.push((takes, workload.count));
    }
    pack_mig(stock, &products, pods)
}

/// Instances by product that fits (its profile), and how many.
type Wanted = (BTreeMap<String, ProfileName>, u64);

/// The cheapest packing over all products: those with a price alone if they will do.
fn pack_mig(stock: &Stock, products: &[(&str, &Product)], pods: Vec<Wanted>) -> Result<Alternative, String> {
    let mut grouped: BTreeMap<BTreeMap<String, ProfileName>, u64> = BTreeMap::new();
    for (takes, count) in pods {
        let sum = grouped.entry(takes).or_insert(0);
        *sum = sum.checked_add(count).ok_or("the demand has more pods than 64 bits count")?;
    }
    let id_of = |name: &str| products.iter().find(|(n, _)| *n == name).map(|(_, p)| p.id.clone());
    let classes = grouped.into_iter().enumerate().map(|(i, (takes, count))| Class {
        name: i.to_string(),
        count,
        profiles: takes
            .into_iter()
            .filter_map(|(product, profile)| Some((id_of(&product)?, profile)))
            .collect(),
    });
    let classes = classes.collect::<Vec<_>>();
    let cost = |name: &str| stock.price.get(name).and_then(|price| u64::try_from(price.0).ok());
    let priced = products.iter().filter(|(name, _)| cost(name).is_some()).copied().collect::<Vec<_>>();
    let choices = [priced, products.to_vec()];
    cheapest(choices.iter().filter(|choice| !choice.is_empty() || classes.is_empty()).map(|choice| {
        let all_priced = choice.iter().all(|(name, _)| cost(name).is_some());
        let offers = choice.iter().map(|(name, product)| Offer {
            product,
            cost: if all_priced { cost(name).unwrap_or(1) } else { 1 },
            limit: stock.gpus(name),
        });
        let offers = offers.collect::<Vec<_>>();
        let problem = Problem { classes: &classes, offers: &offers, partial: &[] };
        let packing = pack(&problem).map_err(|error| error.to_string())?;
        let left = packing.unplaced.iter().map(|u| u.count).fold(0u64, u64::saturating_add);
        if left > 0 {
            return Err(format!("{left} pods find no instance on the GPUs that are there or may be bought"));
        }
        let mut wanted = BTreeMap::new();
        for filled in &packing.filled {
            if let Source::Offer(index) = filled.source
                && let Some((name, _)) = choice.get(index)
            {
                *wanted.entry((*name).to_owned()).or_insert(0) += filled.count;
            }
        }
        stock.nodes_for(&wanted)
    }))
}

/// The profile that a person chose or that the pods ask for now.
fn named_profile(workload: &Workload) -> Option<&ProfileName> {
    let requested = workload.request.as_ref().and_then(|request| match &request.device {
        GpuDevice::Mig(profile) if workload.gpu_memory.is_none() => Some(profile),
        _ => None,
    });
    workload.profile.as_ref().or(requested)
}

/// The profile of the fewest slices, then units, that has the memory; plain names before others.
fn smallest_profile(
    product: &Product,
    named: Option<&ProfileName>,
    need: Option<Mib>,
) -> Option<ProfileName> {
    if let Some(named) = named {
        return product
            .profile(named.as_str())
            .ok()
            .filter(|p| !p.placements.is_empty())
            .map(|p| p.name.clone());
    }
    let fitting = product
        .profiles
        .iter()
        .filter(|p| !p.placements.is_empty() && p.memory >= need && p.memory.is_some());
    let best = fitting.min_by_key(|p| (p.compute_slices, p.units(), !p.is_plain(), &p.name));
    best.map(|p| p.name.clone())
}

// ---- time slices ----

/// What a pod takes of a GPU that is used in turns: memory, and whom it may share with.
type Share = (Mib, Option<String>);

/// A share for each pod: memory side by side, at most so many pods on a GPU.
fn all_time_sliced(input: &PlanInput<'_>, stock: &Stock) -> Result<Alternative, String> {
    let mut pods = Vec::new();
    for workload in wanted(input) {
        let key = &workload.key;
        let isolation = isolation(input.demand, workload);
        if isolation >= Isolation::Instance {
            return Err(format!("{key} needs isolation of class {isolation}; time slices have none"));
        }
        if let Some(slo) = &workload.slo {
            return Err(format!(
                "{key} promises {} ms; work with a promise never takes turns",
                slo.latency_ms
            ));
        }
        if workload.gpus > 1 {
            return Err(format!(
                "{key} needs {} GPUs in each pod; more than one share gives nothing more",
                workload.gpus
            ));
        }
        let Some(need) = need(input, workload) else {
            return Err(format!("how much GPU memory {key} needs is not known"));
        };
        let fits = |product: &&str| {
            allows(workload, product) && stock.memory.get(*product).is_some_and(|m| need <= *m)
        };
        let pool = (isolation == Isolation::Tenant).then(|| workload.tenant.clone());
        // Turns are shared out by load as memory is: who works half of the time takes half of a GPU's turns.
        let busy = workload.duty.map_or(0, |duty| u64::from(duty.value.as_permille()));
        let part = |product: &str| {
            let memory = stock.memory.get(product).map_or(0, |memory| memory.0);
            Mib(need.0.max((memory * busy).div_ceil(1000)))
        };
        let takes =
            stock.products().into_iter().filter(fits).map(|p| (p.to_owned(), (part(p), pool.clone())));
        let takes = takes.collect::<BTreeMap<String, Share>>();
        if takes.is_empty() {
            return Err(format!("{key} needs {need} with its context, more than any GPU that it may use"));
        }
        pods.push((takes, need, workload.count));
    }
    let most = u64::from(input.settings.max_replicas.max(1));
    let gpus_for = |id: &str, load: &BTreeMap<Share, u64>| shared_gpus(*stock.memory.get(id)?, most, load);
    over_products(stock, alike(pods)?, &gpus_for)
}

/// First-fit decreasing by memory, one pool after the other. `None` beyond 64 bits.
fn shared_gpus(memory: Mib, most: u64, load: &BTreeMap<Share, u64>) -> Option<u64> {
    let mut pools: BTreeMap<&Option<String>, Vec<(u64, u64)>> = BTreeMap::new();
    // Ascending by memory within a map ordered by (memory, pool); taken from the end below.
    for ((need, pool), pods) in load {
        pools.entry(pool).or_default().push((need.0, *pods));
    }
    let mut gpus = 0u64;
    for sizes in pools.values() {
        // Free memory and free places → GPUs.
        let mut open: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for (size, pods) in sizes.iter().rev() {
            let mut left = *pods;
            let usable =
                open.keys().filter(|(free, places)| free >= size && *places > 0).copied().collect::<Vec<_>>();
            for key in usable {
                left -= share_out(&mut open, key, *size, left);
            }
            if left > 0 {
                let fresh = (memory.0, most);
                let each = places_for(fresh, *size);
                let opened = left.div_ceil(each);
                gpus = gpus.checked_add(opened)?;
                *open.entry(fresh).or_insert(0) += opened;
                share_out(&mut open, fresh, *size, left);
            }
        }
    }
    Some(gpus)
}

/// Pods of one size that fit a GPU, at least 1: the caller checked the memory of one.
fn places_for((free, places): (u64, u64), size: u64) -> u64 {
    free.checked_div(size).unwrap_or(u64::MAX).min(places).max(1)
}

/// Puts up to `pods` pods on opened GPUs of one kind; says how many went there.
fn share_out(open: &mut BTreeMap<(u64, u64), u64>, key: (u64, u64), size: u64, pods: u64) -> u64 {
    let Some(gpus) = open.remove(&key) else { return 0 };
    let each = places_for(key, size);
    let full = gpus.min(pods / each);
    let rest = if full < gpus { pods - full * each } else { 0 };
    let mut back = |pods: u64, gpus: u64| {
        if gpus > 0 {
            *open.entry((key.0 - pods * size, key.1 - pods)).or_insert(0) += gpus;
        }
    };
    back(each, full);
    back(rest, u64::from(rest > 0));
    back(0, gpus - full - u64::from(rest > 0));
    full * each + rest
}

/// What a workload must not share, its tenant's class included.
fn isolation(demand: &Demand, workload: &Workload) -> Isolation {
    let tenant = demand.tenants.iter().find(|t| t.name == workload.tenant);
    let regulated = tenant.is_some_and(|t| t.class == TenantClass::Regulated);
    let own = workload.isolation.map_or(Isolation::None, |known| known.value);
    if regulated { own.max(Isolation::Instance) } else { own }
}
