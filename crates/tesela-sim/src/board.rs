//! What the driver of a product offers: profiles by id, with everything that NVML answers of them.
//!
//! Values come from the built-in table; what it lacks is filled in by rule (see [`crate::assumptions`]) in what is
//! answered, never in what binds: an engine that the table does not know limits nothing.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use tesela_model::driver::{ComputeInstanceProfile, GpuInstanceProfile};
use tesela_model::product::{Engines, Placement, Product, ProductId, ProductTable, Profile, ProfileName};

/// Multiprocessors of a compute slice when nothing of a product is known: that of the H100.
const SMS_PER_SLICE: u32 = 16;

/// A product as its driver sees it.
#[derive(Debug)]
pub struct Board {
    product: &'static Product,
    memory_mib: u64,
    units: u32,
    profiles: Vec<BoardProfile>,
}

/// A GPU-instance profile as the driver sees it.
#[derive(Debug)]
pub struct BoardProfile {
    /// Name in the table.
    pub name: ProfileName,
    /// Profile id, by which it is created and listed.
    pub id: u32,
    /// Enum value, by which it is asked for.
    pub profile_enum: u32,
    /// Compute slices.
    pub slices: u32,
    /// Memory units.
    pub units: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Most instances on an empty GPU.
    pub max: u32,
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Engines as answered: every one is known.
    pub engines: Engines,
    /// Engines as they bind: unknown ones do not.
    pub(crate) binding: Engines,
    /// Where instances may sit.
    pub placements: Vec<Placement>,
    /// Compute instances it can hold, by profile id.
    pub compute: Vec<ComputeProfile>,
    /// Whether it has graphics.
    pub graphics: bool,
    /// Whether peer-to-peer copies work.
    pub p2p: bool,
}

/// A compute-instance profile inside a GPU-instance profile.
#[derive(Debug)]
pub struct ComputeProfile {
    /// Name of the MIG device it makes.
    pub name: ProfileName,
    /// Profile id: the same number as the enum value, as captures of `nvidia-smi mig -lcip` show.
    pub id: u32,
    /// Compute slices.
    pub slices: u32,
    /// Most of it in an empty GPU instance.
    pub max: u32,
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Where it may sit, in compute slices of the GPU instance.
    pub placements: Vec<Placement>,
}

impl Board {
    /// The board of a product of the built-in table; `None` when the table lacks it or its placements.
    #[must_use]
    pub fn of(product: &ProductId) -> Option<&'static Self> {
        static BOARDS: LazyLock<BTreeMap<ProductId, Board>> = LazyLock::new(|| {
            let all = ProductTable::builtin().products().iter();
            all.filter(|p| p.has_placements()).map(|p| (p.id.clone(), Board::new(p))).collect()
        });
        BOARDS.get(product)
    }

    fn new(product: &'static Product) -> Self {
        let memory_mib = product.memory.map_or_else(
            || u64::from(product.naming_total_gb.unwrap_or(product.units())) * 1024,
            |memory| memory.0,
        );
        let units = product.units();
        let planned = product.profiles.iter().filter(|p| !p.placements.is_empty());
        let mut profiles =
            planned.filter_map(|p| BoardProfile::new(product, p, memory_mib, units)).collect::<Vec<_>>();
        profiles.sort_by_key(|p| p.id);
        Self { product, memory_mib, units, profiles }
    }

    /// The product.
    #[must_use]
    pub fn product(&self) -> &'static Product {
        self.product
    }

    /// Memory of the whole GPU in MiB.
    #[must_use]
    pub fn memory_mib(&self) -> u64 {
        self.memory_mib
    }

    /// Memory units of the whole GPU.
    #[must_use]
    pub fn units(&self) -> u32 {
        self.units
    }

    /// Compute slices of the whole GPU.
    #[must_use]
    pub fn slices(&self) -> u32 {
        self.product.compute_slices
    }

    /// Whether switching MIG takes a reset.
    #[must_use]
    pub fn mode_needs_reset(&self) -> bool {
        self.product.mode_change_needs_reset.unwrap_or(false)
    }

    /// Whether MIG mode outlives a reboot.
    #[must_use]
    pub fn mode_survives_reboot(&self) -> bool {
        self.product.mode_survives_reboot.unwrap_or(false)
    }

    /// Its profiles, by id.
    #[must_use]
    pub fn profiles(&self) -> &[BoardProfile] {
        &self.profiles
    }

    /// The profile of an id.
    #[must_use]
    pub fn profile(&self, id: u32) -> Option<&BoardProfile> {
        self.profiles.iter().find(|p| p.id == id)
    }

    /// The profile of a name of the table.
    #[must_use]
    pub fn profile_named(&self, name: &ProfileName) -> Option<&BoardProfile> {
        self.profiles.iter().find(|p| p.name == *name)
    }

    /// CUDA compute capability.
    #[must_use]
    pub fn compute_capability(&self) -> Option<(u32, u32)> {
        let (major, minor) = self.product.compute_capability.as_deref()?.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    }

    /// PCI device and vendor id: the first one of the product.
    #[must_use]
    pub fn pci_device_id(&self) -> u32 {
        let hex = self.product.pci_ids.first().and_then(|id| id.strip_prefix("0x"));
        hex.and_then(|hex| u32::from_str_radix(hex, 16).ok()).unwrap_or(0x10de)
    }
}

impl BoardProfile {
    fn new(product: &Product, profile: &Profile, memory_mib: u64, units: u32) -> Option<Self> {
        let slices = profile.compute_slices;
        let sms = profile.sms.unwrap_or_else(|| sms(product, slices));
        let compute = profile.compute_instances.iter().map(|one| ComputeProfile {
            name: one.name.clone(),
            id: one.ci_profile_enum,
            slices: one.slices,
            max: one.max_instances,
            sms: one.sms.unwrap_or(if one.slices == slices { sms } else { sms * one.slices / slices.max(1) }),
            placements: compute_placements(one.slices, slices),
        });
        let mut compute = compute.collect::<Vec<_>>();
        compute.sort_by_key(|c| c.id);
        Some(Self {
            name: profile.name.clone(),
            id: profile.profile_id?,
            profile_enum: profile.gi_profile_enum?,
            slices,
            units: profile.units(),
            memory_mib: profile.memory.map_or_else(|| memory(memory_mib, profile.units(), units), |m| m.0),
            max: profile.max_instances.unwrap_or(u32::try_from(profile.placements.len()).unwrap_or(1)),
            sms,
            engines: engines(product, profile),
            binding: profile.engines,
            placements: profile.placements.clone(),
            compute,
            graphics: profile.graphics.unwrap_or(false),
            p2p: profile.p2p.unwrap_or(false),
        })
    }

    /// The compute-instance profile of an id.
    #[must_use]
    pub fn compute_profile(&self, id: u32) -> Option<&ComputeProfile> {
        self.compute.iter().find(|c| c.id == id)
    }

    /// As the port tells it.
    #[must_use]
    pub fn answer(&self) -> GpuInstanceProfile {
        GpuInstanceProfile {
            profile_enum: self.profile_enum,
            id: self.id,
            name: Some(self.name.to_string()),
            compute_slices: self.slices,
            memory_mib: self.memory_mib,
            max_instances: self.max,
            sms: self.sms,
            engines: self.engines,
        }
    }
}

impl ComputeProfile {
    /// As the port tells it.
    #[must_use]
    pub fn answer(&self) -> ComputeInstanceProfile {
        ComputeInstanceProfile {
            profile_enum: self.id,
            id: self.id,
            slices: self.slices,
            max_instances: self.max,
            sms: self.sms,
        }
    }
}

fn sms(product: &Product, slices: u32) -> u32 {
    match product.sms {
        Some(all) if slices == product.compute_slices => all,
        Some(all) => all / product.compute_slices * slices,
        None => SMS_PER_SLICE * slices,
    }
}

/// Two in a hundred less than its share of the GPU, in steps of 128 MiB: within 1.5 % of every capture of the table.
fn memory(total: u64, taken: u32, units: u32) -> u64 {
    total * u64::from(taken) * 98 / (u64::from(units.max(1)) * 100) / 128 * 128
}

/// Unknown engines: as many as compute slices, and none where the instance is one of several that share few.
fn engines(product: &Product, profile: &Profile) -> Engines {
    let slices = profile.compute_slices;
    let whole = slices == product.compute_slices;
    let Engines { copy, decoder, encoder, jpeg, ofa } = profile.engines;
    let per_slice = Some(slices);
    Engines {
        copy: copy.or(per_slice),
        decoder: decoder.or(per_slice),
        encoder: encoder.or(Some(0)),
        jpeg: jpeg.or(per_slice),
        ofa: ofa.or(Some(u32::from(whole))),
    }
}

/// Starts are multiples of the size, rounded up to a power of two.
fn compute_placements(size: u32, slices: u32) -> Vec<Placement> {
    let step = size.next_power_of_two().max(1);
    let starts = (0..slices).step_by(usize::try_from(step).unwrap_or(1));
    starts.filter(|start| start + size <= slices).map(|start| Placement { start, size }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_product_with_placements_is_a_board() {
        let mut boards = 0;
        for product in ProductTable::builtin().products() {
            let board = Board::of(&product.id);
            assert_eq!(board.is_some(), product.has_placements(), "{}", product.id);
            let Some(board) = board else { continue };
            boards += 1;
            assert_eq!(board.profiles().len(), product.profiles.len(), "{}", product.id);
            for profile in board.profiles() {
                assert!(profile.engines.values().iter().all(Option::is_some));
                assert!(profile.sms > 0 && profile.memory_mib > 0 && !profile.compute.is_empty());
                let ids = board.profiles().iter().filter(|p| p.id == profile.id);
                assert_eq!(ids.count(), 1, "{} {}", product.id, profile.name);
            }
        }
        assert_eq!(boards, 15);
    }

    #[test]
    fn compute_instances_have_as_many_placements_as_the_table_says_fit() {
        for product in ProductTable::builtin().products() {
            let Some(board) = Board::of(&product.id) else { continue };
            for profile in board.profiles() {
                for compute in &profile.compute {
                    let most = u32::try_from(compute.placements.len()).unwrap();
                    assert_eq!(most, compute.max, "{} {} {}", product.id, profile.name, compute.name);
                }
            }
        }
    }

    #[test]
    fn the_rule_for_unknown_memory_is_near_what_is_known() {
        for product in ProductTable::builtin().products() {
            let (Some(board), Some(total)) = (Board::of(&product.id), product.memory) else { continue };
            for profile in product.profiles.iter().filter(|p| !p.is_plain() || p.compute_slices < 7) {
                let Some(known) = profile.memory else { continue };
                let ruled = memory(total.0, profile.units(), board.units());
                let off = ruled.abs_diff(known.0) * 1000 / known.0;
                assert!(off <= 95, "{} {}: {} MiB by rule, {} known", product.id, profile.name, ruled, known);
            }
        }
    }
}
