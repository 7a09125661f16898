//! GPUs in use per product, and the proof that fewer would not do, derived from the profile table alone.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::fleet::Mode;
use tesela_model::plan::{Certificate, PlannedGpu, ProductUse};
use tesela_model::product::{Engines, Product, Profile, ProfileName};

use super::{Facts, Faults, Rule};

/// What the planned nodes say of one product.
#[derive(Default)]
struct Count {
    exist: u64,
    exclusive: u64,
    shared: u64,
    mig: u64,
    /// Instances that one pod has each, by profile.
    instances: BTreeMap<ProfileName, u64>,
    /// Pods on shared instances, by profile and shares.
    instance_shares: BTreeMap<(ProfileName, u32), u64>,
    /// Pods on shared GPUs, by mode and shares.
    shares: BTreeMap<(Mode, u32), u64>,
}

impl Count {
    /// Instances that the work needs at least: shares fill instances at best.
    fn mig_demand(&self) -> BTreeMap<ProfileName, u64> {
        let mut demand = self.instances.clone();
        for ((profile, shares), pods) in &self.instance_shares {
            *demand.entry(profile.clone()).or_insert(0) += pods.div_ceil(u64::from(*shares));
        }
        demand
    }
}

pub(super) fn check(facts: &Facts<'_>, faults: &mut Faults) {
    let counts = count(facts);
    let mut listed = BTreeSet::new();
    for entry in &facts.plan.gpus {
        let subject = format!("Product/{}", entry.product);
        if !listed.insert(entry.product.as_str()) {
            faults.add(Rule::GpuCount, &subject, "is listed twice".into());
        }
        let none = Count::default();
        let count = counts.get(entry.product.as_str()).unwrap_or(&none);
        counts_agree(entry, count, &subject, faults);
        let product = facts.product(&entry.product);
        if let Some(certificate) = &entry.certificate {
            self::certificate(product, certificate, &count.mig_demand(), &subject, faults);
        }
        bound(product, entry, count, &subject, faults);
    }
    for (product, count) in &counts {
        if count.exclusive + count.shared + count.mig > 0 && !listed.contains(product) {
            faults.add(Rule::GpuCount, format!("Product/{product}"), "is used and not listed".into());
        }
    }
}

fn count<'a>(facts: &Facts<'a>) -> BTreeMap<&'a str, Count> {
    let mut counts: BTreeMap<&str, Count> = BTreeMap::new();
    for gpu in facts.nodes.values().flat_map(|n| &n.gpus) {
        counts.entry(&gpu.product).or_default().exist += 1;
    }
    for gpu in facts.plan.nodes.iter().flat_map(|n| &n.gpus) {
        add(counts.entry(&gpu.product).or_default(), gpu);
    }
    counts
}

fn add(count: &mut Count, gpu: &PlannedGpu) {
    let pods = gpu.used_by.iter().map(|u| u.pods).sum::<u64>();
    match gpu.mode {
        Mode::Mig => {
            let used =
                gpu.instances.iter().filter(|i| i.used_by.iter().any(|u| u.pods > 0)).collect::<Vec<_>>();
            count.mig += u64::from(!used.is_empty());
            for instance in used {
                let pods = instance.used_by.iter().map(|u| u.pods).sum::<u64>();
                match instance.replicas.filter(|shares| *shares > 0) {
                    None => *count.instances.entry(instance.profile.clone()).or_insert(0) += 1,
                    Some(shares) => {
                        let key = (instance.profile.clone(), shares);
                        *count.instance_shares.entry(key).or_insert(0) += pods;
                    }
                }
            }
        }
        _ if pods == 0 => {}
        Mode::Exclusive => count.exclusive += 1,
        Mode::TimeSliced | Mode::Mps => {
            count.shared += 1;
            *count.shares.entry((gpu.mode, gpu.replicas.unwrap_or(1).max(1))).or_insert(0) += pods;
        }
    }
}

fn counts_agree(entry: &ProductUse, count: &Count, subject: &str, faults: &mut Faults) {
    let used = count.exclusive + count.shared + count.mig;
    let said = (entry.exist, entry.used, entry.exclusive, entry.shared, entry.mig);
    let is = (count.exist, used, count.exclusive, count.shared, count.mig);
    if said != is {
        let message =
            format!("(exist, used, exclusive, shared, mig) is said to be {said:?}, the nodes show {is:?}");
        faults.add(Rule::GpuCount, subject, message);
    }
    let mig_demand = count.mig_demand();
    if entry.mig_demand != mig_demand {
        let message =
            format!("mig_demand is said to be {:?}, the nodes show {mig_demand:?}", entry.mig_demand);
        faults.add(Rule::GpuCount, subject, message);
    }
}

fn certificate(
    product: Option<&Product>,
    certificate: &Certificate,
    demand: &BTreeMap<ProfileName, u64>,
    subject: &str,
    faults: &mut Faults,
) {
    let mut wrong = |message: String| faults.add(Rule::Certificate, subject, message);
    let Some(product) = product else {
        return wrong("is about a product that the table lacks".into());
    };
    if certificate.scale == 0 {
        wrong("scale is 0".into());
    }
    if let Some(extra) = certificate.prices.keys().find(|p| !demand.contains_key(*p)) {
        wrong(format!("prices {extra}, of which nothing is used"));
    }
    let priced = priced(product, certificate);
    let dearest =
        Dearest { product, priced: &priced, caps: product.engine_caps() }.price(0, &Taken::default());
    if dearest > u128::from(certificate.scale) {
        wrong(format!("a layout costs {dearest}, more than the scale {}", certificate.scale));
    }
}

fn priced<'a>(product: &'a Product, certificate: &Certificate) -> Vec<(&'a Profile, u128)> {
    let price = |p: &'a Profile| certificate.prices.get(&p.name).map(|price| (p, u128::from(*price)));
    product.profiles.iter().filter_map(price).filter(|(_, price)| *price > 0).collect()
}

/// What instances placed so far take.
#[derive(Clone, Default)]
struct Taken {
    slices: u32,
    engines: [u32; 5],
    instances: Vec<usize>,
}

/// Walks every layout of the priced profiles, unit by unit: at each unit one of them begins, or none.
struct Dearest<'a> {
    product: &'a Product,
    priced: &'a [(&'a Profile, u128)],
    caps: Engines,
}

impl Dearest<'_> {
    /// The most that instances from unit `from` on can cost beside what is taken.
    fn price(&self, from: u32, taken: &Taken) -> u128 {
        let starts = self.priced.iter().flat_map(|(p, _)| &p.placements).map(|p| p.start);
        let Some(unit) = starts.filter(|start| *start >= from).min() else { return 0 };
        let mut best = self.price(unit + 1, taken);
        for (index, (profile, price)) in self.priced.iter().enumerate() {
            let Some(placement) = profile.placement_at(unit) else { continue };
            if let Some(after) = self.with(taken, index, profile) {
                best = best.max(price.saturating_add(self.price(unit + placement.size, &after)));
            }
        }
        best
    }

    fn with(&self, taken: &Taken, index: usize, profile: &Profile) -> Option<Taken> {
        let mut after = taken.clone();
        after.slices += profile.compute_slices;
        after.instances.push(index);
        let alike = after.instances.iter().filter(|i| **i == index).count();
        let many = profile.max_instances.is_some_and(|max| alike > max as usize);
        for (sum, engine) in after.engines.iter_mut().zip(profile.engines.values()) {
            *sum += engine.unwrap_or(0);
        }
        let short =
            after.engines.iter().zip(self.caps.values()).any(|(sum, cap)| cap.is_some_and(|cap| *sum > cap));
        (after.slices <= self.product.compute_slices && !many && !short).then_some(after)
    }
}

/// The bound may not be above what is used, nor above what anybody can derive: whole GPUs are counted, shares
/// fill GPUs at best, and instances cost GPUs by the certificate, by slices and by units.
fn bound(product: Option<&Product>, entry: &ProductUse, count: &Count, subject: &str, faults: &mut Faults) {
    let used = count.exclusive + count.shared + count.mig;
    let shared =
        count.shares.iter().map(|((_, shares), pods)| pods.div_ceil(u64::from(*shares))).sum::<u64>();
    let mig =
        product.map_or(0, |product| mig_bound(product, entry.certificate.as_ref(), &count.mig_demand()));
    let derived = u128::from(count.exclusive + shared) + mig;
    if entry.lower_bound > used {
        let message = format!("lower_bound is {}, only {used} are used", entry.lower_bound);
        faults.add(Rule::LowerBound, subject, message);
    } else if u128::from(entry.lower_bound) > derived {
        let message = format!("lower_bound is {}, only {derived} can be derived", entry.lower_bound);
        faults.add(Rule::LowerBound, subject, message);
    }
    if entry.proven_optimal != (entry.lower_bound == entry.used) {
        let message = format!(
            "proven_optimal is {} with bound {} and {} used",
            entry.proven_optimal, entry.lower_bound, entry.used
        );
        faults.add(Rule::ProvenOptimal, subject, message);
    }
}

fn mig_bound(
    product: &Product,
    certificate: Option<&Certificate>,
    demand: &BTreeMap<ProfileName, u64>,
) -> u128 {
    let sum = |of: &dyn Fn(&ProfileName) -> u128| {
        demand
            .iter()
            .map(|(name, count)| of(name).saturating_mul(u128::from(*count)))
            .fold(0, u128::saturating_add)
    };
    let profile = |name: &ProfileName| product.profile(name.as_str()).ok();
    let slices = sum(&|name| profile(name).map_or(0, |p| u128::from(p.compute_slices)));
    let units = sum(&|name| profile(name).map_or(0, |p| u128::from(p.units())));
    let priced = certificate.filter(|c| c.scale > 0).map_or(0, |c| {
        sum(&|name| c.prices.get(name).copied().map_or(0, u128::from)).div_ceil(u128::from(c.scale))
    });
    let by_units = if product.units() == 0 { 0 } else { units.div_ceil(u128::from(product.units())) };
    priced.max(slices.div_ceil(u128::from(product.compute_slices))).max(by_units)
}
