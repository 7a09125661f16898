//! GPUs in use per product, with the proof that fewer would not do.

use std::collections::BTreeMap;

use tesela_model::fleet::Mode;
use tesela_model::plan::{Certificate, PlannedGpu, PlannedNode, ProductUse};
use tesela_model::product::ProfileName;

use crate::input::PlanInput;
use crate::pack::pack_product;

/// Units of shares by device and replicas: they fill devices at best.
#[derive(Default)]
struct Shares<'n> {
    gpus: BTreeMap<(&'n str, Mode, u32), u64>,
    instances: BTreeMap<(&'n str, &'n ProfileName, u32), u64>,
}

/// One entry per product, by name.
pub(super) fn uses(input: &PlanInput<'_>, nodes: &[PlannedNode]) -> Vec<ProductUse> {
    let mut uses: BTreeMap<&str, ProductUse> = BTreeMap::new();
    let mut shares = Shares::default();
    for node in nodes {
        for gpu in &node.gpus {
            let entry = uses.entry(&gpu.product).or_insert_with(|| empty(&gpu.product));
            entry.exist += u64::from(node.name.is_some());
            count(entry, &mut shares, gpu);
        }
    }
    for ((product, profile, replicas), units) in &shares.instances {
        if let Some(entry) = uses.get_mut(product) {
            let instances = units.div_ceil(u64::from((*replicas).max(1)));
            *entry.mig_demand.entry((*profile).clone()).or_insert(0) += instances;
        }
    }
    let mut uses: Vec<ProductUse> = uses.into_values().collect();
    for entry in &mut uses {
        prove(input, entry, &shares);
    }
    uses
}

fn empty(product: &str) -> ProductUse {
    ProductUse {
        product: product.to_owned(),
        exist: 0,
        used: 0,
        lower_bound: 0,
        proven_optimal: false,
        exclusive: 0,
        shared: 0,
        mig: 0,
        mig_demand: BTreeMap::new(),
        certificate: None,
    }
}

fn count<'n>(entry: &mut ProductUse, shares: &mut Shares<'n>, gpu: &'n PlannedGpu) {
    let units: u64 = gpu.used_by.iter().map(|u| u.pods).sum();
    match (gpu.mode, gpu.replicas) {
        (Mode::Mig, _) => {
            let used = gpu.instances.iter().filter(|i| !i.used_by.is_empty());
            entry.mig += u64::from(used.clone().next().is_some());
            for instance in used {
                let units: u64 = instance.used_by.iter().map(|u| u.pods).sum();
                let (profile, shares) = (&instance.profile, &mut shares.instances);
                match instance.replicas {
                    None => *entry.mig_demand.entry(profile.clone()).or_insert(0) += 1,
                    Some(n) => *shares.entry((&gpu.product, profile, n)).or_insert(0) += units,
                }
            }
        }
        (mode, Some(replicas)) if units > 0 => {
            entry.shared += 1;
            *shares.gpus.entry((&gpu.product, mode, replicas)).or_insert(0) += units;
        }
        _ => entry.exclusive += u64::from(units > 0),
    }
}

fn prove(input: &PlanInput<'_>, entry: &mut ProductUse, shares: &Shares<'_>) {
    entry.used = entry.exclusive + entry.shared + entry.mig;
    let shared: u64 = (shares.gpus)
        .iter()
        .filter(|((product, ..), _)| *product == entry.product)
        .map(|((_, _, replicas), units)| units.div_ceil(u64::from((*replicas).max(1))))
        .sum();
    let mut mig = 0;
    let demand: Vec<(ProfileName, u64)> = entry.mig_demand.iter().map(|(p, n)| (p.clone(), *n)).collect();
    if let Some(product) = input.products.look_up(&entry.product)
        && !demand.is_empty()
        && let Ok(packing) = pack_product(product, &demand)
    {
        mig = packing.lower_bound;
        entry.certificate = certificate(&packing.certificate);
    }
    entry.lower_bound = entry.exclusive + shared + mig;
    entry.proven_optimal = entry.used == entry.lower_bound;
}

/// The certificate with the profiles' names, where its figures fit 64 bits.
fn certificate(found: &crate::pack::Certificate) -> Option<Certificate> {
    let mut prices = BTreeMap::new();
    for (name, price) in &found.prices {
        prices.insert(name.parse().ok()?, u64::try_from(*price).ok()?);
    }
    Some(Certificate { scale: u64::try_from(found.scale).ok()?, prices })
}
