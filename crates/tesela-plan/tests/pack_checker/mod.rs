//! Re-derives the placement rules from the profile table and checks a packing and its certificate by plain recursion.
//! Shares no code with the solver: neither `Layout` nor the plan crate's states are used here.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;

use tesela_model::layout::Instance;
use tesela_model::product::{Product, Profile};
use tesela_plan::pack::{Packing, Problem, Proof, Source};

fn profile<'a>(product: &'a Product, name: &str) -> &'a Profile {
    product.profiles.iter().find(|p| p.name.as_str() == name).unwrap()
}

/// A profile at a start, with its size.
pub(crate) type Placed<'a> = (&'a Profile, u32, u32);

fn placed<'a>(product: &'a Product, instances: &[Instance]) -> Vec<Placed<'a>> {
    instances.iter().map(|i| (profile(product, i.profile.as_str()), i.start, i.size)).collect()
}

/// Why these instances cannot be on one GPU together.
pub(crate) fn fault(product: &Product, instances: &[Placed<'_>]) -> Option<String> {
    let mut units = [false; 64];
    for (profile, start, size) in instances {
        if !profile.placements.iter().any(|p| p.start == *start && p.size == *size) {
            return Some(format!("{} may not sit at {start}:{size}", profile.name));
        }
        for unit in *start..start + size {
            if std::mem::replace(&mut units[unit as usize], true) {
                return Some(format!("unit {unit} is taken twice"));
            }
        }
    }
    if instances.iter().map(|(p, ..)| p.compute_slices).sum::<u32>() > product.compute_slices {
        return Some("too many compute slices".to_owned());
    }
    let full = product.profiles.iter().find(|p| p.compute_slices == product.compute_slices);
    for engine in 0..5 {
        let cap = full.and_then(|p| p.engines.values()[engine]);
        let taken = instances.iter().filter_map(|(p, ..)| p.engines.values()[engine]).sum::<u32>();
        if cap.is_some_and(|cap| taken > cap) {
            return Some(format!("{taken} engines of kind {engine}"));
        }
    }
    for (profile, ..) in instances {
        let count = instances.iter().filter(|(p, ..)| p.name == profile.name).count();
        if profile.max_instances.is_some_and(|max| count > max as usize) {
            return Some(format!("{count} of {}", profile.name));
        }
    }
    None
}

/// The highest price of what can be added to `before`, over every set of placed instances.
fn dearest(product: &Product, before: &[Instance], prices: &BTreeMap<String, u128>) -> u128 {
    let mut slots = Vec::new();
    for (name, &price) in prices {
        let profile = profile(product, name);
        // An instance without a price changes no sum.
        slots.extend(
            profile.placements.iter().filter(|_| price > 0).map(|p| ((profile, p.start, p.size), price)),
        );
    }
    fn grow<'a>(
        product: &Product,
        now: &mut Vec<Placed<'a>>,
        slots: &[(Placed<'a>, u128)],
        sum: u128,
    ) -> u128 {
        let mut best = sum;
        for (index, (slot, price)) in slots.iter().enumerate() {
            now.push(*slot);
            if fault(product, now).is_none() {
                best = best.max(grow(product, now, &slots[index + 1..], sum + price));
            }
            now.pop();
        }
        best
    }
    grow(product, &mut placed(product, before), &slots, 0)
}

fn per_profile(problem: &Problem<'_>, product: &Product, packing: &Packing) -> BTreeMap<String, u128> {
    let mut prices: BTreeMap<String, u128> = BTreeMap::new();
    for class in problem.classes {
        let Some(name) = class.profiles.get(&product.id) else {
            continue;
        };
        let price = packing.certificate.prices.get(&class.name).copied().unwrap_or(0);
        let name = product.profile(name.as_str()).unwrap().name.to_string();
        let known = prices.entry(name).or_insert(0);
        *known = (*known).max(price);
    }
    prices
}

/// Checks everything a packing claims. Returns the first lie.
pub(crate) fn check(problem: &Problem<'_>, packing: &Packing) -> Result<(), String> {
    check_placement(problem, packing)?;
    let bound = bound(problem, packing)?;
    let missing = packing.unplaced.iter().map(|u| u128::from(u.count)).sum::<u128>();
    let penalty = missing * packing.certificate.unplaced_cost.unwrap_or(0);
    let cost_bound = bound.saturating_sub(penalty);
    if cost_bound != u128::from(packing.lower_bound) {
        return Err(format!("prices prove {cost_bound}, the packing says {}", packing.lower_bound));
    }
    let proven = bound == penalty + u128::from(packing.cost);
    if proven != packing.proven_optimal {
        return Err(format!("proven_optimal is {}, the prices say {proven}", packing.proven_optimal));
    }
    let searched = packing.cost == packing.search_bound;
    match packing.proof {
        Proof::Certificate if !proven => return Err("no certificate proves this".to_owned()),
        Proof::Search if proven || (!searched && missing == 0) => {
            return Err("the search proves less".to_owned());
        }
        Proof::None if proven => return Err("the certificate proves more".to_owned()),
        _ => {}
    }
    if packing.search_bound < packing.lower_bound || packing.search_bound > packing.cost {
        return Err(format!("the search bound {} is outside of bound and cost", packing.search_bound));
    }
    Ok(())
}

fn check_placement(problem: &Problem<'_>, packing: &Packing) -> Result<(), String> {
    let mut have = vec![0u128; problem.classes.len()];
    let mut drawn: BTreeMap<Source, u128> = BTreeMap::new();
    let (mut gpus, mut cost, mut slices, mut units) = (0u128, 0u128, 0u128, 0u128);
    for entry in &packing.filled {
        let count = u128::from(entry.count);
        let (product, before) = match entry.source {
            Source::Offer(o) => {
                gpus += count;
                cost += count * u128::from(problem.offers[o].cost);
                (problem.offers[o].product, Vec::new())
            }
            Source::Partial(p) => {
                (problem.partial[p].product, problem.partial[p].layout.instances().to_vec())
            }
        };
        let instances = placed(product, entry.layout.instances());
        if let Some(fault) = fault(product, &instances) {
            return Err(fault);
        }
        let mut whole = before;
        for added in &entry.added {
            let name = &problem.classes[added.class].profiles[&product.id];
            if product.profile(name.as_str()).unwrap().name != added.instance.profile {
                return Err(format!("{} serves a class of {name}", added.instance));
            }
            have[added.class] += count;
            whole.push(added.instance.clone());
        }
        whole.sort();
        let mut layout = entry.layout.instances().to_vec();
        layout.sort();
        if whole != layout || entry.added.is_empty() || count == 0 {
            return Err(format!("{} is not what was there and what was added", entry.layout));
        }
        let total = product.profiles.iter().flat_map(|p| &p.placements).map(|p| p.start + p.size).max();
        let taken = instances.iter().map(|(_, _, size)| size).sum::<u32>();
        units += count * u128::from(total.unwrap() - taken);
        let taken = instances.iter().map(|(p, ..)| p.compute_slices).sum::<u32>();
        slices += count * u128::from(product.compute_slices - taken);
        *drawn.entry(entry.source).or_insert(0) += count;
    }
    for unplaced in &packing.unplaced {
        have[unplaced.class] += u128::from(unplaced.count);
    }
    for (class, have) in problem.classes.iter().zip(have) {
        if u128::from(class.count) != have {
            return Err(format!("{have} of {} for {}", class.name, class.count));
        }
    }
    for (source, count) in drawn {
        let limit = match source {
            Source::Offer(o) => problem.offers[o].limit,
            Source::Partial(p) => Some(problem.partial[p].count),
        };
        if limit.is_some_and(|limit| count > u128::from(limit)) {
            return Err(format!("{source:?} is used {count} times"));
        }
    }
    let said = (packing.gpus, packing.cost, packing.wasted_compute_slices, packing.wasted_memory_units);
    let found = (gpus, cost, slices, units);
    if (u128::from(said.0), u128::from(said.1), u128::from(said.2), u128::from(said.3)) != found {
        return Err(format!("says {said:?}, is {found:?}"));
    }
    Ok(())
}

/// What the certificate proves by itself: a lower bound of cost and unplaced instances at their cost.
fn bound(problem: &Problem<'_>, packing: &Packing) -> Result<u128, String> {
    let certificate = &packing.certificate;
    if certificate.scale == 0 {
        return Err("scale is 0".to_owned());
    }
    for (index, offer) in problem.offers.iter().enumerate() {
        let prices = per_profile(problem, offer.product, packing);
        let extra = certificate.limits.iter().find(|l| l.offer == index).map_or(0, |l| l.value);
        if extra > 0 && offer.limit.is_none() {
            return Err("a value for an offer without limit".to_owned());
        }
        let most = certificate.scale * u128::from(offer.cost) + extra;
        let dearest = dearest(offer.product, &[], &prices);
        if dearest > most && offer.limit != Some(0) {
            return Err(format!("a layout of {} is priced {dearest}, above {most}", offer.product.id));
        }
    }
    let mut known: BTreeMap<(String, Vec<Instance>), u128> = BTreeMap::new();
    for offset in &certificate.offsets {
        *known.entry((offset.product.to_string(), offset.state.clone())).or_insert(offset.value) += 0;
    }
    let mut worth = 0;
    let mut checked: BTreeMap<(String, Vec<Instance>), u128> = BTreeMap::new();
    for partial in problem.partial.iter().filter(|p| p.count > 0) {
        let key = (partial.product.id.to_string(), partial.layout.instances().to_vec());
        let value = known.get(&key).copied().unwrap_or(0);
        let dearest = *checked.entry(key).or_insert_with(|| {
            let prices = per_profile(problem, partial.product, packing);
            dearest(partial.product, partial.layout.instances(), &prices)
        });
        if dearest > value {
            return Err(format!("a completion of {} is priced {dearest}, above {value}", partial.layout));
        }
        worth += value * u128::from(partial.count);
    }
    let offsets = certificate.offsets.iter().map(|o| o.value * u128::from(o.count)).sum::<u128>();
    if offsets != worth {
        return Err(format!("offsets sum to {offsets}, should be {worth}"));
    }
    worth += certificate.limits.iter().map(|l| l.value * u128::from(l.limit)).sum::<u128>();
    let mut gross = 0;
    for class in problem.classes.iter().filter(|c| c.count > 0) {
        let price = certificate.prices.get(&class.name).copied().unwrap_or(0);
        let stays =
            !problem.offers.iter().any(|o| o.limit.is_none() && class.profiles.contains_key(&o.product.id));
        let penalty = certificate.unplaced_cost.unwrap_or(0);
        if stays && price > certificate.scale * penalty {
            return Err(format!("{} is priced above what leaving it costs", class.name));
        }
        gross += price * u128::from(class.count);
    }
    let unit = certificate.scale * u128::from(certificate.cost_unit);
    let costs = problem.offers.iter().map(|o| o.cost);
    if costs.into_iter().any(|cost| cost % certificate.cost_unit != 0) {
        return Err("the cost unit divides not every cost".to_owned());
    }
    Ok(gross.saturating_sub(worth).div_ceil(unit) * u128::from(certificate.cost_unit))
}
