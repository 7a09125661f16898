//! The shape of the generated table, and its way into checked products.

use super::{
    ComputeInstance, Confidence, Engines, Placement, Product, ProductFacts, ProductId, Profile, ProfileName,
};
use crate::quantity::Mib;

pub(super) struct ProductRow {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) nvml_names: &'static [&'static str],
    pub(super) pci_ids: &'static [&'static str],
    pub(super) architecture: &'static str,
    pub(super) compute_capability: Option<&'static str>,
    pub(super) compute_slices: u32,
    pub(super) memory_units: Option<u32>,
    pub(super) memory_mib: Option<u64>,
    pub(super) naming_total_gb: Option<u32>,
    pub(super) sms: Option<u32>,
    pub(super) mode_change_needs_reset: Option<bool>,
    pub(super) mode_survives_reboot: Option<bool>,
    pub(super) min_driver: Option<&'static str>,
    pub(super) confidence: Confidence,
    pub(super) profiles: &'static [ProfileRow],
}

pub(super) struct ProfileRow {
    pub(super) name: &'static str,
    pub(super) aliases: &'static [&'static str],
    pub(super) profile_id: Option<u32>,
    pub(super) gi_profile_enum: Option<u32>,
    pub(super) compute_slices: u32,
    pub(super) memory_units: Option<u32>,
    pub(super) memory_mib: Option<u64>,
    pub(super) memory_mib_also_seen: &'static [u64],
    pub(super) max_instances: Option<u32>,
    /// Start and size.
    pub(super) placements: &'static [(u32, u32)],
    pub(super) sms: Option<u32>,
    /// In the order of [`Engines::NAMES`].
    pub(super) engines: [Option<u32>; 5],
    /// Name, enum, slices, max instances, SMs.
    pub(super) compute_instances: &'static [(&'static str, u32, u32, u32, Option<u32>)],
    pub(super) graphics: Option<bool>,
    pub(super) p2p: Option<bool>,
    pub(super) confidence: Confidence,
}

/// The rows as checked products.
///
/// # Panics
/// Never for rows that the generator wrote: it reads each name with the same parser and builds each product
/// with the same check before it writes them, and a test builds the whole table.
#[expect(clippy::expect_used, reason = "the rows are constants, proven by the test builtin_table_is_sound")]
pub(super) fn products(rows: &[ProductRow]) -> Vec<Product> {
    let name = |text: &str| ProfileName::parse(text).expect("generated profile name");
    let profile = |row: &ProfileRow| {
        let [copy, decoder, encoder, jpeg, ofa] = row.engines;
        Profile {
            name: name(row.name),
            aliases: row.aliases.iter().map(|a| name(a)).collect(),
            profile_id: row.profile_id,
            gi_profile_enum: row.gi_profile_enum,
            compute_slices: row.compute_slices,
            memory_units: row.memory_units,
            memory: row.memory_mib.map(Mib),
            memory_also_seen: row.memory_mib_also_seen.iter().copied().map(Mib).collect(),
            max_instances: row.max_instances,
            placements: row.placements.iter().map(|&(start, size)| Placement { start, size }).collect(),
            sms: row.sms,
            engines: Engines { copy, decoder, encoder, jpeg, ofa },
            compute_instances: row
                .compute_instances
                .iter()
                .map(|&(text, ci_profile_enum, slices, max_instances, sms)| ComputeInstance {
                    name: name(text),
                    ci_profile_enum,
                    slices,
                    max_instances,
                    sms,
                })
                .collect(),
            graphics: row.graphics,
            p2p: row.p2p,
            confidence: row.confidence,
        }
    };
    let product = |row: &ProductRow| {
        Product::new(ProductFacts {
            id: ProductId::parse(row.id).expect("generated product id"),
            title: row.title.to_owned(),
            nvml_names: row.nvml_names.iter().map(ToString::to_string).collect(),
            pci_ids: row.pci_ids.iter().map(ToString::to_string).collect(),
            architecture: row.architecture.to_owned(),
            compute_capability: row.compute_capability.map(str::to_owned),
            compute_slices: row.compute_slices,
            memory_units: row.memory_units,
            memory: row.memory_mib.map(Mib),
            naming_total_gb: row.naming_total_gb,
            sms: row.sms,
            mode_change_needs_reset: row.mode_change_needs_reset,
            mode_survives_reboot: row.mode_survives_reboot,
            min_driver: row.min_driver.map(str::to_owned),
            confidence: row.confidence,
            profiles: row.profiles.iter().map(profile).collect(),
        })
        .expect("generated product")
    };
    rows.iter().map(product).collect()
}
