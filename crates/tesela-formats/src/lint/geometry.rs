//! Whether instances fit one GPU: exact search over placements, by the model's own layout rules.

use tesela_model::layout::Layout;
use tesela_model::product::{Product, Profile, ProfileName};

/// What a name means on a product.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Named<'a> {
    /// A GPU-instance profile by its name in the table.
    Profile(&'a Profile),
    /// The same by an older name.
    Alias(&'a Profile),
    /// A compute instance that does not fill its GPU instance; so many of them share one.
    Compute(&'a Profile, u32),
}

impl<'a> Named<'a> {
    /// The profile of the GPU instance.
    pub(super) fn profile(self) -> &'a Profile {
        match self {
            Self::Profile(profile) | Self::Alias(profile) | Self::Compute(profile, _) => profile,
        }
    }

    /// GPU instances needed for `count` of it.
    fn instances(self, count: u32) -> u32 {
        match self {
            Self::Compute(_, per_instance) => count.div_ceil(per_instance.max(1)),
            _ => count,
        }
    }
}

/// What a name means on a product, if the product has it.
pub(super) fn named<'a>(product: &'a Product, name: &ProfileName) -> Option<Named<'a>> {
    if let Ok(profile) = product.profile(name.as_str()) {
        return Some(if profile.name == *name { Named::Profile(profile) } else { Named::Alias(profile) });
    }
    product.profiles.iter().find_map(|profile| {
        let compute = profile.compute_instances.iter().find(|compute| compute.name == *name)?;
        Some(Named::Compute(profile, compute.max_instances))
    })
}

/// Whether one empty GPU of the product can hold these. What the table does not know is no constraint.
pub(super) fn fits(product: &Product, wanted: &[(Named<'_>, u32)]) -> bool {
    let mut instances: Vec<&Profile> = Vec::new();
    for (named, count) in wanted {
        let count = named.instances(*count);
        // No product has more than 64 memory units, and each instance takes one.
        if count > 64 {
            return false;
        }
        instances.extend((0..count).map(|_| named.profile()));
    }
    if !counts_fit(product, &instances) {
        return false;
    }
    if instances.iter().any(|profile| profile.placements.is_empty()) {
        return true;
    }
    // Large ones first; equal ones side by side, so that their starts can be kept in order.
    instances.sort_by(|a, b| (b.units(), &b.name).cmp(&(a.units(), &a.name)));
    let mut starts = Vec::with_capacity(instances.len());
    place(product, &instances, &mut starts, 0)
}

/// The rules that do not depend on starts, so that the search below only has to avoid overlaps.
fn counts_fit(product: &Product, instances: &[&Profile]) -> bool {
    let sum =
        |amount: &dyn Fn(&Profile) -> u32| -> u32 { instances.iter().map(|profile| amount(profile)).sum() };
    let units = product.units();
    if instances.len() > 64
        || sum(&|profile| profile.compute_slices) > product.compute_slices
        || (units > 0 && sum(&|profile| profile.units()) > units)
    {
        return false;
    }
    let engines = product.engine_caps().values().into_iter().enumerate().all(|(engine, cap)| {
        let taken = sum(&|profile| profile.engines.values()[engine].unwrap_or(0));
        cap.is_none_or(|cap| taken <= cap)
    });
    engines
        && instances.iter().all(|profile| {
            let count = instances.iter().filter(|other| other.name == profile.name).count();
            profile.max_instances.is_none_or(|most| count <= usize::try_from(most).unwrap_or(usize::MAX))
        })
}

fn place(product: &Product, instances: &[&Profile], starts: &mut Vec<u32>, taken: u64) -> bool {
    let index = starts.len();
    let Some(profile) = instances.get(index) else {
        let placed =
            instances.iter().zip(starts.iter()).map(|(profile, start)| (profile.name.clone(), *start));
        return Layout::new(product, placed).is_ok();
    };
    let before =
        index.checked_sub(1).filter(|last| instances[*last].name == profile.name).map(|last| starts[last]);
    for placement in &profile.placements {
        if before.is_some_and(|before| placement.start <= before) || taken & placement.mask() != 0 {
            continue;
        }
        starts.push(placement.start);
        if place(product, instances, starts, taken | placement.mask()) {
            return true;
        }
        starts.pop();
    }
    false
}

/// The largest count of one profile that fits an empty GPU.
pub(super) fn most(product: &Product, named: Named<'_>) -> u32 {
    (1..=64).take_while(|count| fits(product, &[(named, *count)])).last().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tesela_model::product::ProductTable;

    /// Every choice of starts, tried against the model's layout rules.
    fn fits_by_brute_force(
        product: &Product,
        chosen: &[&Profile],
        placed: &mut Vec<(ProfileName, u32)>,
    ) -> bool {
        let Some(profile) = chosen.get(placed.len()) else {
            return Layout::new(product, placed.iter().cloned()).is_ok();
        };
        profile.placements.iter().any(|placement| {
            placed.push((profile.name.clone(), placement.start));
            let fits = fits_by_brute_force(product, chosen, placed);
            placed.pop();
            fits
        })
    }

    #[test]
    fn the_search_agrees_with_brute_force() {
        for id in ["a100-40gb", "a30-24gb", "rtx-pro-6000-96gb"] {
            let product = ProductTable::builtin().find(id).unwrap();
            let profiles = &product.profiles;
            for (i, first) in profiles.iter().enumerate() {
                for (j, second) in profiles.iter().enumerate().skip(i) {
                    for third in profiles.iter().skip(j) {
                        let chosen = [first, second, third];
                        let wanted: Vec<_> =
                            chosen.iter().map(|profile| (Named::Profile(profile), 1)).collect();
                        let expected = fits_by_brute_force(product, &chosen, &mut Vec::new());
                        let names: Vec<&str> = chosen.iter().map(|profile| profile.name.as_str()).collect();
                        assert_eq!(fits(product, &wanted), expected, "{names:?} on {id}");
                    }
                }
            }
        }
    }

    #[test]
    fn compute_instances_share_a_gpu_instance() {
        let product = ProductTable::builtin().find("a100-40gb").unwrap();
        let name = ProfileName::parse("1c.3g.20gb").unwrap();
        let compute = named(product, &name).unwrap();
        assert_eq!(compute.profile().name.as_str(), "3g.20gb");
        assert_eq!(most(product, compute), 6, "two instances of three slices");
    }
}
