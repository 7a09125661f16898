//! Layouts: the instances of one GPU with their starts, and the multiset they leave when starts are forgotten.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::product::{Engines, Placement, Product, ProductId, ProfileName, UnknownProfile, list};

/// One GPU instance and where it sits. `start` and `size` are in memory units of its product.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Instance {
    /// Profile, by the table's name.
    pub profile: ProfileName,
    /// First memory unit.
    pub start: u32,
    /// Memory units taken.
    pub size: u32,
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.profile, self.start)
    }
}

/// Instances that can exist together on one GPU of a product, by start and then profile name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Layout {
    #[serde(skip)]
    product: ProductId,
    instances: Vec<Instance>,
}

/// Why instances cannot exist together on one GPU.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The product does not have the profile.
    #[error(transparent)]
    UnknownProfile(#[from] UnknownProfile),
    /// The table has no placements of the profile, so nothing can be planned with it.
    #[error(
        "where {profile} may sit on {product} is not known to the profile table; a user's table can give its placements"
    )]
    NoPlacements {
        /// The product.
        product: ProductId,
        /// The profile.
        profile: ProfileName,
    },
    /// The profile may not begin there.
    #[error("{profile} cannot start at unit {start} of {product}; it may start at {}", list(.allowed))]
    Start {
        /// The product.
        product: ProductId,
        /// The profile.
        profile: ProfileName,
        /// The start asked for.
        start: u32,
        /// The starts it may have.
        allowed: Vec<u32>,
    },
    /// Two instances share a memory unit.
    #[error("{first} and {second} overlap in unit {unit}")]
    Overlap {
        /// The one that begins first.
        first: Instance,
        /// The other.
        second: Instance,
        /// The first unit both take.
        unit: u32,
    },
    /// More compute slices than the GPU has.
    #[error("the instances take {taken} compute slices, {product} has {available}")]
    ComputeSlices {
        /// The product.
        product: ProductId,
        /// Slices taken together.
        taken: u32,
        /// Slices of the GPU.
        available: u32,
    },
    /// More engines of a kind than the GPU has.
    #[error("the instances take {taken} {engine} engines, {product} has {available}")]
    Engine {
        /// The product.
        product: ProductId,
        /// Which engine.
        engine: &'static str,
        /// Engines taken together.
        taken: u32,
        /// Engines of the GPU.
        available: u32,
    },
    /// More instances of a profile than the driver allows.
    #[error("{count} instances of {profile}, {product} allows {max}")]
    MaxInstances {
        /// The product.
        product: ProductId,
        /// The profile.
        profile: ProfileName,
        /// Instances of it.
        count: u32,
        /// Instances allowed.
        max: u32,
    },
}

impl Layout {
    /// Checks instances given as profile name (or alias) and start against every rule of the product: allowed
    /// starts, no overlap of memory units, compute slices, engines where known, instances per profile.
    ///
    /// # Errors
    /// The first rule broken.
    pub fn new(
        product: &Product,
        instances: impl IntoIterator<Item = (ProfileName, u32)>,
    ) -> Result<Self, LayoutError> {
        let mut placed = Vec::new();
        for (name, start) in instances {
            let profile = product.profile(name.as_str())?;
            let placement = placement(product, &profile.name, &profile.placements, start)?;
            placed.push((Instance { profile: profile.name.clone(), start, size: placement.size }, profile));
        }
        placed.sort_by(|(a, _), (b, _)| (a.start, &a.profile).cmp(&(b.start, &b.profile)));
        for (index, (second, _)) in placed.iter().enumerate() {
            let clash = placed[..index].iter().find(|(first, _)| first.start + first.size > second.start);
            if let Some((first, _)) = clash {
                let (first, second, unit) = (first.clone(), second.clone(), second.start);
                return Err(LayoutError::Overlap { first, second, unit });
            }
        }
        let taken = placed.iter().map(|(_, p)| p.compute_slices).sum();
        if taken > product.compute_slices {
            let (product, available) = (product.id.clone(), product.compute_slices);
            return Err(LayoutError::ComputeSlices { product, taken, available });
        }
        let caps = product.engine_caps().values();
        for (index, engine) in Engines::NAMES.into_iter().enumerate() {
            let taken = placed.iter().filter_map(|(_, p)| p.engines.values()[index]).sum();
            if let Some(available) = caps[index].filter(|cap| taken > *cap) {
                return Err(LayoutError::Engine { product: product.id.clone(), engine, taken, available });
            }
        }
        let layout =
            Self { product: product.id.clone(), instances: placed.iter().map(|(i, _)| i.clone()).collect() };
        for (name, count) in layout.geometry().counts() {
            let max = placed.iter().find(|(i, _)| i.profile == *name).and_then(|(_, p)| p.max_instances);
            if let Some(max) = max.filter(|max| count > *max) {
                let (product, profile) = (product.id.clone(), name.clone());
                return Err(LayoutError::MaxInstances { product, profile, count, max });
            }
        }
        Ok(layout)
    }

    /// The layout without instances.
    pub fn empty(product: &Product) -> Self {
        Self { product: product.id.clone(), instances: Vec::new() }
    }

    /// The product it was checked against.
    pub fn product(&self) -> &ProductId {
        &self.product
    }

    /// The instances, by start and then profile name.
    pub fn instances(&self) -> &[Instance] {
        &self.instances
    }

    /// Whether it has no instance.
    pub fn is_empty(&self) -> bool {
        self.instances.is_empty()
    }

    /// How many instances of each profile.
    pub fn geometry(&self) -> Geometry {
        self.instances.iter().map(|i| i.profile.clone()).collect()
    }

    /// Memory units that no instance takes. `product` is the one it was checked against.
    pub fn free_units(&self, product: &Product) -> u32 {
        product.units().saturating_sub(self.instances.iter().map(|i| i.size).sum())
    }

    /// Compute slices that no instance takes. `product` is the one it was checked against.
    pub fn free_slices(&self, product: &Product) -> u32 {
        let slices = |i: &Instance| product.profile(i.profile.as_str()).map_or(0, |p| p.compute_slices);
        product.compute_slices.saturating_sub(self.instances.iter().map(slices).sum())
    }
}

fn placement(
    product: &Product,
    name: &ProfileName,
    placements: &[Placement],
    start: u32,
) -> Result<Placement, LayoutError> {
    if placements.is_empty() {
        return Err(LayoutError::NoPlacements { product: product.id.clone(), profile: name.clone() });
    }
    placements.iter().copied().find(|p| p.start == start).ok_or_else(|| LayoutError::Start {
        product: product.id.clone(),
        profile: name.clone(),
        start,
        allowed: placements.iter().map(|p| p.start).collect(),
    })
}

impl fmt::Display for Layout {
    /// `1g.10gb@0 + 2g.20gb@2`, or `empty`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.instances.is_empty() {
            return f.write_str("empty");
        }
        for (index, instance) in self.instances.iter().enumerate() {
            if index > 0 {
                f.write_str(" + ")?;
            }
            write!(f, "{instance}")?;
        }
        Ok(())
    }
}

/// How many instances of each profile, starts forgotten. Never holds a zero.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Geometry {
    counts: BTreeMap<ProfileName, u32>,
}

impl Geometry {
    /// Profiles and how many of each, by name.
    pub fn counts(&self) -> impl Iterator<Item = (&ProfileName, u32)> {
        self.counts.iter().map(|(name, count)| (name, *count))
    }

    /// How many of one profile.
    pub fn count(&self, name: &ProfileName) -> u32 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// How many instances in all.
    pub fn len(&self) -> u32 {
        self.counts.values().sum()
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Whether the other holds at least as many of each profile.
    pub fn is_within(&self, other: &Self) -> bool {
        self.counts.iter().all(|(name, count)| other.count(name) >= *count)
    }
}

impl FromIterator<ProfileName> for Geometry {
    fn from_iter<I: IntoIterator<Item = ProfileName>>(names: I) -> Self {
        let mut counts = BTreeMap::new();
        for name in names {
            *counts.entry(name).or_insert(0) += 1;
        }
        Self { counts }
    }
}

impl fmt::Display for Geometry {
    /// `2x 1g.10gb + 1x 3g.40gb`, or `empty`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.counts.is_empty() {
            return f.write_str("empty");
        }
        for (index, (name, count)) in self.counts.iter().enumerate() {
            if index > 0 {
                f.write_str(" + ")?;
            }
            write!(f, "{count}x {name}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::ProductTable;

    fn check(product: &str, instances: &[(&str, u32)]) -> Result<Layout, LayoutError> {
        let product = ProductTable::builtin().find(product).unwrap();
        let named = |(name, start): &(&str, u32)| (ProfileName::parse(name).unwrap(), *start);
        Layout::new(product, instances.iter().map(named))
    }

    #[test]
    fn a_layout_is_sorted_and_knows_what_is_free() {
        let layout = check("a100-40gb", &[("3g.20gb", 4), ("1g.5gb", 2), ("1g.5gb", 0)]).unwrap();
        assert_eq!(layout.to_string(), "1g.5gb@0 + 1g.5gb@2 + 3g.20gb@4");
        assert_eq!(layout.geometry().to_string(), "2x 1g.5gb + 1x 3g.20gb");
        let product = ProductTable::builtin().find("a100-40gb").unwrap();
        assert_eq!((layout.free_units(product), layout.free_slices(product)), (2, 2));
        assert_eq!(
            serde_json::to_string(&check("a30-24gb", &[("1g.6gb", 3)]).unwrap()).unwrap(),
            r#"{"instances":[{"profile":"1g.6gb","start":3,"size":1}]}"#
        );
    }

    #[test]
    fn each_rule_names_its_fault() {
        let fault = |product, instances: &[(&str, u32)]| check(product, instances).unwrap_err().to_string();
        assert!(fault("a100-40gb", &[("1g.10gb", 1)]).contains("may start at 0, 2, 4, 6"));
        let overlap = fault("a100-40gb", &[("3g.20gb", 0), ("1g.5gb", 3)]);
        assert_eq!(overlap, "3g.20gb@0 and 1g.5gb@3 overlap in unit 3");
        let slices = fault("a100-40gb", &[("3g.20gb", 4), ("4g.20gb", 0), ("1g.5gb", 7)]);
        assert!(slices.contains("cannot start at unit 7"), "{slices}");
        let media = fault("a100-40gb", &[("1g.5gb+me", 0), ("1g.5gb+me", 1)]);
        assert!(media.contains("2 jpeg engines"), "{media}");
        let many = fault("rtx-pro-6000-96gb", &[("1g.24gb+me.all", 0), ("1g.24gb+me", 3)]);
        assert!(many.contains("5 decoder engines"), "{many}");
        assert!(fault("rtx-pro-5000-48gb", &[("1g.24gb", 0)]).contains("not known"));
        assert!(fault("a100-40gb", &[("1g.10gb+me", 0)]).contains("not a MIG profile"));
    }

    #[test]
    fn slices_are_counted_beside_units() {
        // Four double-memory 1g leave three slices and no unit; seven slices and eight units bind apart.
        let seven = (0..7).map(|start| ("1g.5gb", start)).collect::<Vec<_>>();
        assert!(check("a100-40gb", &seven).is_ok());
        let wide = check("a100-40gb", &[("4g.20gb", 0), ("2g.10gb", 4), ("1g.10gb", 6)]);
        assert!(wide.is_ok());
        let mut facts = ProductTable::builtin().find("a100-40gb").unwrap().clone().into_facts();
        facts.compute_slices = 7;
        for profile in &mut facts.profiles {
            profile.max_instances = profile.max_instances.map(|_| 1);
        }
        let product = Product::new(facts).unwrap();
        let name = ProfileName::parse("1g.5gb").unwrap();
        let error = Layout::new(&product, [(name.clone(), 0), (name, 1)]).unwrap_err();
        assert!(matches!(error, LayoutError::MaxInstances { count: 2, max: 1, .. }));
    }
}
