//! Products: GPU models with their MIG profiles, and the table of them.
//!
//! The built-in table comes from `data/mig-profiles.yaml` through `cargo xtask generate`. `None` means that no
//! source gives the value; it is then not a constraint.

mod builtin;
mod name;
mod rows;
mod table;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

pub use self::name::{ProductId, ProductIdError, ProfileAttribute, ProfileName, ProfileNameError, nearest};
pub use self::table::{LabelledProduct, ProductTable, UnknownProduct};
use crate::quantity::Mib;

/// Where an instance may sit: `size` memory units from unit `start`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Placement {
    /// First memory unit.
    pub start: u32,
    /// Memory units taken, at least 1.
    pub size: u32,
}

impl Placement {
    /// The units as a bit mask. Units beyond 63 do not occur in a checked product.
    pub fn mask(self) -> u64 {
        let ones = 1u64.checked_shl(self.size).map_or(u64::MAX, |bit| bit - 1);
        ones.checked_shl(self.start).unwrap_or(0)
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.start, self.size)
    }
}

/// Engines of an instance or a GPU. `None`: not known, and therefore not a constraint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Engines {
    /// Copy engines.
    pub copy: Option<u32>,
    /// Video decoders (NVDEC).
    pub decoder: Option<u32>,
    /// Video encoders (NVENC).
    pub encoder: Option<u32>,
    /// JPEG decoders.
    pub jpeg: Option<u32>,
    /// Optical-flow accelerators.
    pub ofa: Option<u32>,
}

impl Engines {
    /// The names of the five engines, in the order of [`Engines::values`].
    pub const NAMES: [&'static str; 5] = ["copy", "decoder", "encoder", "jpeg", "ofa"];

    /// The five counts, in the order of [`Engines::NAMES`].
    pub fn values(&self) -> [Option<u32>; 5] {
        [self.copy, self.decoder, self.encoder, self.jpeg, self.ofa]
    }
}

/// How sure the table is of a product or profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Deduced, or contradicted by a source; the data file says why.
    Low,
    /// One table of NVIDIA's, or a consistent inference within a family.
    Medium,
    /// Seen in a real capture, or in two independent tables that agree.
    High,
}

/// A compute instance that a GPU instance of a profile can hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ComputeInstance {
    /// Name of the MIG device it makes, such as `1c.3g.20gb`.
    pub name: ProfileName,
    /// NVML's `NVML_COMPUTE_INSTANCE_PROFILE_*` constant.
    pub ci_profile_enum: u32,
    /// Compute slices it takes of its GPU instance.
    pub slices: u32,
    /// How many fit one GPU instance.
    pub max_instances: u32,
    /// Streaming multiprocessors, where known.
    pub sms: Option<u32>,
}

/// A GPU instance profile of a product.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Profile {
    /// The name the table gives it; output uses this one.
    pub name: ProfileName,
    /// Names that other driver versions give the same profile.
    pub aliases: Vec<ProfileName>,
    /// What NVML returns as the profile's id and `nvidia-smi mig` prints.
    pub profile_id: Option<u32>,
    /// NVML's `NVML_GPU_INSTANCE_PROFILE_*` constant.
    pub gi_profile_enum: Option<u32>,
    /// Compute slices it takes.
    pub compute_slices: u32,
    /// Memory units it takes.
    pub memory_units: Option<u32>,
    /// Memory a process sees.
    pub memory: Option<Mib>,
    /// Other memory sizes seen with other drivers.
    pub memory_also_seen: Vec<Mib>,
    /// How many of this profile one GPU can hold.
    pub max_instances: Option<u32>,
    /// Where it may sit. Empty: not known, and then nothing can be planned with it.
    pub placements: Vec<Placement>,
    /// Streaming multiprocessors.
    pub sms: Option<u32>,
    /// Engines it takes.
    pub engines: Engines,
    /// Compute instances it can hold. Empty: not known.
    pub compute_instances: Vec<ComputeInstance>,
    /// Whether it has graphics.
    pub graphics: Option<bool>,
    /// Whether peer-to-peer copies work.
    pub p2p: Option<bool>,
    /// How sure the table is.
    pub confidence: Confidence,
}

impl Profile {
    /// Memory units of one instance: the size of its placements, else the known units, else 0.
    pub fn units(&self) -> u32 {
        self.placements.first().map(|p| p.size).or(self.memory_units).unwrap_or(0)
    }

    /// The placement that begins at `start`.
    pub fn placement_at(&self, start: u32) -> Option<Placement> {
        self.placements.iter().copied().find(|p| p.start == start)
    }

    /// The compute instance that takes all slices of an instance, where the table has it.
    pub fn whole_compute_instance(&self) -> Option<&ComputeInstance> {
        self.compute_instances.iter().find(|c| c.slices == self.compute_slices)
    }

    /// Whether it belongs to the set used when nobody names profiles: no `+` or `-` suffix.
    pub fn is_plain(&self) -> bool {
        self.name.attribute().is_none()
    }
}

/// What is known of a product. [`Product`] is the checked form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProductFacts {
    /// Id in the table.
    pub id: ProductId,
    /// Title for people.
    pub title: String,
    /// Exact names that NVML gives.
    pub nvml_names: Vec<String>,
    /// PCI ids as in mig-parted's device filter: device id then vendor id, such as `0x233010DE`.
    pub pci_ids: Vec<String>,
    /// NVIDIA's name of the generation, lower case.
    pub architecture: String,
    /// CUDA compute capability, such as `9.0`.
    pub compute_capability: Option<String>,
    /// Compute slices of the whole GPU.
    pub compute_slices: u32,
    /// Memory units of the whole GPU.
    pub memory_units: Option<u32>,
    /// Memory that NVML reports, else the nominal one.
    pub memory: Option<Mib>,
    /// Total in GB that the driver's profile names come from.
    pub naming_total_gb: Option<u32>,
    /// Streaming multiprocessors of the whole GPU.
    pub sms: Option<u32>,
    /// Whether switching MIG on or off takes a reset of the GPU (Ampere).
    pub mode_change_needs_reset: Option<bool>,
    /// Whether MIG mode outlives a reboot (Ampere).
    pub mode_survives_reboot: Option<bool>,
    /// First driver that does MIG on it.
    pub min_driver: Option<String>,
    /// How sure the table is.
    pub confidence: Confidence,
    /// Profiles in the order of the data file.
    pub profiles: Vec<Profile>,
}

/// A product whose facts agree with each other. Reads like its [`ProductFacts`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Product {
    #[serde(flatten)]
    facts: ProductFacts,
}

impl Deref for Product {
    type Target = ProductFacts;

    fn deref(&self) -> &ProductFacts {
        &self.facts
    }
}

/// Why the facts of a product contradict each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProductError {
    /// A whole GPU has no compute slice.
    #[error("product {product}: compute_slices must be at least 1")]
    NoComputeSlices {
        /// The product.
        product: ProductId,
    },
    /// More memory units than the arithmetic holds.
    #[error("product {product}: memory_units is {units}, it must be 1 to 64")]
    MemoryUnits {
        /// The product.
        product: ProductId,
        /// Units given.
        units: u32,
    },
    /// Two profiles answer to one name.
    #[error("product {product}: two profiles are called {profile}")]
    DuplicateProfile {
        /// The product.
        product: ProductId,
        /// The name given twice.
        profile: ProfileName,
    },
    /// A profile takes no slice, or more than there are.
    #[error("product {product}: profile {profile} takes {slices} compute slices, the GPU has {available}")]
    ProfileSlices {
        /// The product.
        product: ProductId,
        /// The profile.
        profile: ProfileName,
        /// Slices it takes.
        slices: u32,
        /// Slices of the GPU.
        available: u32,
    },
    /// A placement lies outside the GPU, is empty, or begins where another does.
    #[error("product {product}: placement {placement} of profile {profile} is impossible: {why}")]
    Placement {
        /// The product.
        product: ProductId,
        /// The profile.
        profile: ProfileName,
        /// The placement.
        placement: Placement,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// A name that is no profile of the product.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a MIG profile of {product} ({title}){}; it has {}", suggestion(.nearest), list(.known))]
pub struct UnknownProfile {
    /// The name as given.
    pub name: String,
    /// The product asked.
    pub product: ProductId,
    /// Title of the product.
    pub title: String,
    /// Nearest spellings, best first.
    pub nearest: Vec<ProfileName>,
    /// All its profiles.
    pub known: Vec<ProfileName>,
}

pub(crate) fn suggestion<T: fmt::Display>(nearest: &[T]) -> String {
    nearest.first().map(|name| format!(", did you mean {name}?")).unwrap_or_default()
}

pub(crate) fn list<T: fmt::Display>(names: &[T]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl Product {
    /// Checks that the facts agree: slices, units and placements inside the GPU, each name once.
    ///
    /// # Errors
    /// The first contradiction found.
    pub fn new(facts: ProductFacts) -> Result<Self, ProductError> {
        let product = || facts.id.clone();
        if facts.compute_slices == 0 {
            return Err(ProductError::NoComputeSlices { product: product() });
        }
        if let Some(units) = facts.memory_units.filter(|u| !(1..=64).contains(u)) {
            return Err(ProductError::MemoryUnits { product: product(), units });
        }
        let mut names = BTreeSet::new();
        for profile in &facts.profiles {
            for name in std::iter::once(&profile.name).chain(&profile.aliases) {
                if !names.insert(name) {
                    return Err(ProductError::DuplicateProfile { product: product(), profile: name.clone() });
                }
            }
            check_profile(&facts, profile)?;
        }
        Ok(Self { facts })
    }

    /// The facts, to be changed and checked again.
    pub fn into_facts(self) -> ProductFacts {
        self.facts
    }

    /// The profile with this name or alias.
    ///
    /// # Errors
    /// When it has none, with the nearest spellings.
    pub fn profile(&self, name: &str) -> Result<&Profile, UnknownProfile> {
        let exact = self.profiles.iter().find(|profile| profile.name.as_str() == name);
        if let Some(profile) = exact {
            return Ok(profile);
        }
        // A well-formed name is compared in its one spelling, so that `01g.5gb` is found too.
        let wanted = ProfileName::parse(name).map_err(|_| self.unknown(name))?;
        let named = |profile: &&Profile| profile.name == wanted || profile.aliases.contains(&wanted);
        self.profiles.iter().find(named).ok_or_else(|| self.unknown(name))
    }

    /// The profile whose label form is `text`, as in `nvidia.com/mig-1g.5gb.me`.
    ///
    /// # Errors
    /// When it has none, with the nearest spellings.
    pub fn profile_by_label(&self, text: &str) -> Result<&Profile, UnknownProfile> {
        let labelled = |profile: &&Profile| {
            profile.name.label_form() == text || profile.aliases.iter().any(|a| a.label_form() == text)
        };
        self.profiles.iter().find(labelled).ok_or_else(|| self.unknown(text))
    }

    fn unknown(&self, name: &str) -> UnknownProfile {
        let find =
            |text: &str| self.profiles.iter().find(|p| p.name.as_str() == text).map(|p| p.name.clone());
        let nearest = nearest(name, self.profiles.iter().map(|p| p.name.as_str()));
        UnknownProfile {
            name: name.to_owned(),
            product: self.id.clone(),
            title: self.title.clone(),
            nearest: nearest.into_iter().filter_map(find).collect(),
            known: self.profiles.iter().map(|p| p.name.clone()).collect(),
        }
    }

    /// The profile that takes the whole GPU, the plain one first.
    pub fn full_profile(&self) -> Option<&Profile> {
        let whole = |p: &&Profile| p.compute_slices == self.compute_slices;
        self.profiles.iter().filter(whole).min_by_key(|p| !p.is_plain())
    }

    /// Engines of the whole GPU: those of the full-GPU profile (capacity rule 3 of the data file).
    pub fn engine_caps(&self) -> Engines {
        self.full_profile().map(|p| p.engines).unwrap_or_default()
    }

    /// Memory units of the whole GPU: as known, else the end of the farthest placement, else 0.
    pub fn units(&self) -> u32 {
        let ends = || self.profiles.iter().flat_map(|p| &p.placements).map(|p| p.start + p.size).max();
        self.memory_units.or_else(ends).unwrap_or(0)
    }

    /// Whether placements are known, so that layouts can be planned.
    pub fn has_placements(&self) -> bool {
        self.profiles.iter().any(|p| !p.placements.is_empty())
    }
}

fn check_profile(facts: &ProductFacts, profile: &Profile) -> Result<(), ProductError> {
    if profile.compute_slices == 0 || profile.compute_slices > facts.compute_slices {
        return Err(ProductError::ProfileSlices {
            product: facts.id.clone(),
            profile: profile.name.clone(),
            slices: profile.compute_slices,
            available: facts.compute_slices,
        });
    }
    let units = facts.memory_units.unwrap_or(64);
    let mut starts = BTreeSet::new();
    for &placement in &profile.placements {
        let end = placement.start.checked_add(placement.size);
        let why = if placement.size == 0 {
            "its size is 0"
        } else if end.is_none_or(|end| end > units) {
            "it ends beyond the memory units of the GPU"
        } else if profile.memory_units.is_some_and(|units| units != placement.size) {
            "its size is not the profile's memory units"
        } else if !starts.insert(placement.start) {
            "another placement begins at the same unit"
        } else {
            continue;
        };
        return Err(ProductError::Placement {
            product: facts.id.clone(),
            profile: profile.name.clone(),
            placement,
            why,
        });
    }
    Ok(())
}
