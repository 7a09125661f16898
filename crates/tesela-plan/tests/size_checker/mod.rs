//! Checks a sizing and its certificate from the profile table and the options alone. Shares no code with the solver.

#![expect(clippy::expect_used, reason = "helpers of tests and of a benchmark")]

use std::collections::BTreeMap;

use tesela_model::product::{Product, Profile};
use tesela_plan::slo::{Service, Sizing};

/// What is wrong; empty = the sizing is valid and its bound is proven.
pub fn faults(product: &Product, services: &[Service], found: &Sizing) -> Vec<String> {
    let mut faults = served(services, found);
    faults.extend(packed(product, found));
    faults.extend(proven(product, services, found));
    faults
}

/// Every service gets what it asks for, from its own options.
fn served(services: &[Service], found: &Sizing) -> Vec<String> {
    let mut faults = Vec::new();
    for service in services {
        let own = found.instances.iter().filter(|c| c.service == service.name);
        let mut rate = 0u128;
        for chosen in own {
            if !service.options.contains(&chosen.option) {
                faults.push(format!("{} gets an instance that is none of its options", service.name));
            }
            rate += u128::from(chosen.option.rate_milli) * u128::from(chosen.count);
        }
        if rate < u128::from(service.rate_milli) {
            faults.push(format!("{} is served {rate} of {}", service.name, service.rate_milli));
        }
    }
    faults
}

/// The layouts hold exactly the instances, and each obeys the placement rules.
fn packed(product: &Product, found: &Sizing) -> Vec<String> {
    let mut faults = Vec::new();
    let mut wanted: BTreeMap<&str, i128> = BTreeMap::new();
    for chosen in &found.instances {
        *wanted.entry(chosen.option.profile.as_str()).or_default() += i128::from(chosen.count);
    }
    let mut gpus = 0;
    for filled in &found.filled {
        gpus += filled.count;
        let mut units = [false; 64];
        let mut slices = 0;
        for instance in filled.layout.instances() {
            *wanted.entry(instance.profile.as_str()).or_default() -= i128::from(filled.count);
            let profile = product.profiles.iter().find(|p| p.name == instance.profile).expect("it is known");
            slices += profile.compute_slices;
            let allowed =
                profile.placements.iter().any(|p| (p.start, p.size) == (instance.start, instance.size));
            let unit = |k: u32| usize::try_from(k).expect("small");
            let place = unit(instance.start)..unit(instance.start + instance.size);
            if !allowed || units[place.clone()].iter().any(|taken| *taken) {
                faults.push(format!("{} sits at {} or on another", instance.profile, instance.start));
            }
            units[place].fill(true);
        }
        if slices > product.compute_slices {
            faults.push(format!("{slices} compute slices on one GPU"));
        }
    }
    if gpus != found.gpus || wanted.values().any(|left| *left != 0) {
        faults.push(format!("the layouts hold other instances: {wanted:?} on {gpus} GPUs"));
    }
    faults
}

fn proven(product: &Product, services: &[Service], found: &Sizing) -> Vec<String> {
    let certificate = &found.certificate;
    let mut faults = Vec::new();
    let priced: Vec<(&Profile, u128)> = certificate
        .prices
        .iter()
        .map(|(name, price)| (product.profile(name.as_str()).expect("it is known"), u128::from(*price)))
        .collect();
    let dearest = dearest(&priced, 0, 0, product.compute_slices);
    if dearest > u128::from(certificate.scale) {
        faults.push(format!("a layout costs {dearest} of {}", certificate.scale));
    }
    let mut total = 0;
    for service in services.iter().filter(|s| s.rate_milli > 0) {
        let said = certificate.covers.get(&service.name).copied().unwrap_or(0);
        let price =
            |name: &tesela_model::product::ProfileName| certificate.prices.get(name).copied().unwrap_or(0);
        let items: Vec<(u128, u128)> = service
            .options
            .iter()
            .map(|o| (u128::from(price(&o.profile)), u128::from(o.rate_milli)))
            .collect();
        if cheaper(&items, u128::from(service.rate_milli), u128::from(said)) {
            faults.push(format!("{} can be covered for less than {said}", service.name));
        }
        total += u128::from(said);
    }
    let bound = total.div_ceil(u128::from(certificate.scale.max(1)));
    if bound < u128::from(found.lower_bound) || found.lower_bound > found.gpus {
        faults.push(format!("the bound {} is not proven: {bound}", found.lower_bound));
    }
    if found.proven_optimal != (found.lower_bound == found.gpus) {
        faults.push("proven_optimal does not say whether the bound is reached".to_owned());
    }
    faults
}

/// The dearest layout from a unit on: at each start one of the profiles begins, or none.
fn dearest(priced: &[(&Profile, u128)], from: u32, taken: u64, slices: u32) -> u128 {
    let mut best = 0;
    for (profile, price) in priced {
        for place in profile.placements.iter().filter(|p| p.start >= from && p.mask() & taken == 0) {
            if profile.compute_slices <= slices {
                let after =
                    dearest(priced, place.start, taken | place.mask(), slices - profile.compute_slices);
                best = best.max(price + after);
            }
        }
    }
    best
}

/// Whether whole instances (price, rate) serve `rate` for less than `cost`: what can be served with the money left,
/// tried item by item, the dearest first.
fn cheaper(items: &[(u128, u128)], rate: u128, cost: u128) -> bool {
    let Some(budget) = cost.checked_sub(1) else { return false };
    // Free instances serve anything.
    if items.iter().any(|i| i.0 == 0 && i.1 > 0) {
        return true;
    }
    let mut items = items.to_vec();
    items.sort_unstable_by(|a, b| (a.1 * b.0).cmp(&(b.1 * a.0)).reverse());
    most_is_enough(&items, rate, budget)
}

/// Whether the items reach the rate within the budget. An item that serves less for its money than the best one is
/// taken fewer than `price of the best` times: of so many, some have together a price that so many of the best have.
fn most_is_enough(items: &[(u128, u128)], rate: u128, budget: u128) -> bool {
    let Some((&(price, serves), rest)) = items.split_first() else { return rate == 0 };
    let here = budget / price;
    if here * serves >= rate {
        return true;
    }
    // Even the whole budget at this best ratio does not reach.
    if budget * serves < rate * price {
        return false;
    }
    (0..=here).rev().any(|count| {
        let (left, money) = (rate - (count * serves).min(rate), budget - count * price);
        // What is left must be reachable at the next ratio; with fewer of this item it only gets harder.
        rest.first().is_some_and(|next| money * next.1 >= left * next.0) && most_is_enough(rest, left, money)
    })
}
