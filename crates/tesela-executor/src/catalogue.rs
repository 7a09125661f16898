//! What the profiles of one GPU mean: as the driver describes them, else as the profile table does.
//!
//! Names are the table's wherever it knows the profile, so that a driver that renames profiles changes nothing; the
//! driver's own name becomes an alias.

use tesela_model::driver::{GpuIdentity, GpuInstanceProfile};
use tesela_model::product::{
    Confidence, Engines, Product, ProductError, ProductFacts, ProductId, ProductTable, Profile, ProfileName,
};
use tesela_model::quantity::Mib;

use crate::observe::GpuState;
use crate::steps::Names;

/// The rules and names of one GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalogue {
    /// Rules: profiles with placements, slices and engines. Every profile that can be made has its id.
    pub product: Product,
    /// What the GPU is called in output: the table's id, else the name the driver gives.
    pub shown: String,
    /// Whether a change of MIG mode needs a reset of the GPU (Ampere).
    pub needs_reset: bool,
    /// Whether placements are those of the table, since the driver did not tell.
    pub from_table: bool,
}

/// Why nothing can be planned on a GPU.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueError {
    /// Neither driver nor table tells the profiles.
    #[error(
        "the driver lists no MIG profiles of `{name}` while MIG is off, and the profile table does not know the GPU; turn \
         MIG on first, or give a table of yours with --products"
    )]
    NoProfiles {
        /// Name of the GPU.
        name: String,
    },
    /// What the driver tells contradicts itself.
    #[error("what the driver tells of the profiles of `{name}` contradicts itself: {error}")]
    Contradiction {
        /// Name of the GPU.
        name: String,
        /// The contradiction.
        error: ProductError,
    },
}

impl Catalogue {
    /// Reads the rules of a GPU.
    ///
    /// # Errors
    /// When nobody tells its profiles, or they contradict themselves.
    pub fn of(state: &GpuState, table: &ProductTable) -> Result<Self, CatalogueError> {
        let identity = &state.identity;
        let known = known(identity, table);
        let shown = known.map_or_else(|| identity.name.clone(), |p| p.id.to_string());
        // Compute capability 8.x is Ampere; from 9.0 on the mode changes at once.
        let by_capability = || identity.compute_capability.map(|(major, _)| major < 9);
        let needs_reset =
            known.and_then(|p| p.mode_change_needs_reset).or_else(by_capability).unwrap_or(false);
        if state.profiles.is_empty() {
            let Some(product) = known.filter(|p| p.has_placements()) else {
                return Err(CatalogueError::NoProfiles { name: identity.name.clone() });
            };
            return Ok(Self { product: product.clone(), shown, needs_reset, from_table: true });
        }
        let mut profiles: Vec<Profile> = Vec::new();
        for told in &state.profiles {
            let profile = described(told, state, known);
            if profiles.iter().all(|p| p.name != profile.name && !p.aliases.contains(&profile.name)) {
                profiles.push(profile);
            }
        }
        one_name_each(&mut profiles);
        drop_contradicted_engines(&mut profiles);
        let facts = facts(identity, known, profiles);
        let product = Product::new(facts)
            .map_err(|error| CatalogueError::Contradiction { name: identity.name.clone(), error })?;
        let from_table = state.profiles.iter().any(|p| !state.placements.contains_key(&p.id));
        Ok(Self { product, shown, needs_reset, from_table })
    }

    /// Profile names by id.
    #[must_use]
    pub fn names(&self) -> Names {
        let named = |p: &Profile| p.profile_id.map(|id| (id, p.name.to_string()));
        self.product.profiles.iter().filter_map(named).collect()
    }

    /// The profile of an id.
    #[must_use]
    pub fn by_id(&self, id: u32) -> Option<&Profile> {
        self.product.profiles.iter().find(|p| p.profile_id == Some(id))
    }

    /// The same rules without what the table or driver may get wrong about the whole GPU: engines and counts. For a GPU
    /// whose live layout breaks them.
    #[must_use]
    pub fn without_counters(&self) -> Product {
        let mut facts = self.product.clone().into_facts();
        for profile in &mut facts.profiles {
            profile.engines = Engines::default();
            profile.max_instances = None;
        }
        Product::new(facts).unwrap_or_else(|_| self.product.clone())
    }
}

/// The table's entry of a GPU: by its exact name, else by its PCI ids where those name one product only.
fn known<'a>(identity: &GpuIdentity, table: &'a ProductTable) -> Option<&'a Product> {
    let pci = format!("0x{:08X}", identity.pci_device_id);
    let mut by_pci =
        table.products().iter().filter(|p| p.pci_ids.iter().any(|id| id.eq_ignore_ascii_case(&pci)));
    let one = by_pci.next().filter(|_| by_pci.next().is_none());
    table.look_up(&identity.name).or(one)
}

fn described(told: &GpuInstanceProfile, state: &GpuState, known: Option<&Product>) -> Profile {
    let same = |p: &&Profile| {
        p.gi_profile_enum == Some(told.profile_enum) && p.compute_slices == told.compute_slices
    };
    let in_table = known.and_then(|product| product.profiles.iter().find(same));
    let by_driver = told.name.as_deref().and_then(|name| ProfileName::parse(name).ok());
    let by_rule = || by_rule(told, state.identity.memory_bytes);
    let name = in_table.map(|p| p.name.clone()).or_else(|| by_driver.clone()).unwrap_or_else(by_rule);
    let mut aliases = in_table.map(|p| p.aliases.clone()).unwrap_or_default();
    aliases.extend(by_driver.filter(|other| *other != name && !aliases.contains(other)));
    let from_table = || in_table.map(|p| p.placements.clone()).unwrap_or_default();
    let placements = state.placements.get(&told.id).cloned().unwrap_or_else(from_table);
    Profile {
        name,
        aliases,
        profile_id: Some(told.id),
        gi_profile_enum: Some(told.profile_enum),
        compute_slices: told.compute_slices,
        memory_units: placements.first().map(|p| p.size).or_else(|| in_table?.memory_units),
        memory: Some(Mib(told.memory_mib)),
        memory_also_seen: Vec::new(),
        // A30 reports wrong counts (mig.md 1.1); where the table knows better it is asked.
        max_instances: in_table.and_then(|p| p.max_instances).or(Some(told.max_instances)),
        placements,
        sms: Some(told.sms),
        engines: told.engines,
        compute_instances: in_table.map(|p| p.compute_instances.clone()).unwrap_or_default(),
        graphics: in_table.and_then(|p| p.graphics),
        p2p: in_table.and_then(|p| p.p2p),
        confidence: Confidence::High,
    }
}

/// An alias that another profile bears as its name, or that two share, is nobody's.
fn one_name_each(profiles: &mut [Profile]) {
    let names = profiles.iter().map(|p| p.name.clone()).collect::<Vec<_>>();
    let mut given: Vec<ProfileName> = Vec::new();
    for profile in profiles {
        profile.aliases.retain(|alias| !names.contains(alias) && !given.contains(alias));
        given.extend(profile.aliases.iter().cloned());
    }
}

/// An engine of which the whole GPU is said to have fewer than instances that are said to fit together limits nothing:
/// one of the two numbers is wrong, and the placements bind anyway.
fn drop_contradicted_engines(profiles: &mut [Profile]) {
    let slices = profiles.iter().map(|p| p.compute_slices).max();
    let whole = profiles.iter().filter(|p| Some(p.compute_slices) == slices).min_by_key(|p| !p.is_plain());
    let Some(caps) = whole.map(|p| p.engines.values()) else { return };
    let beyond = |p: &Profile, engine: usize| {
        let together = p.engines.values()[engine].unwrap_or(0).saturating_mul(p.max_instances.unwrap_or(1));
        caps[engine].is_some_and(|cap| together > cap)
    };
    let wrong = std::array::from_fn::<bool, 5, _>(|engine| profiles.iter().any(|p| beyond(p, engine)));
    for profile in profiles {
        let Engines { copy, decoder, encoder, jpeg, ofa } = &mut profile.engines;
        for (value, _) in
            [copy, decoder, encoder, jpeg, ofa].into_iter().zip(wrong).filter(|(_, wrong)| *wrong)
        {
            *value = None;
        }
    }
}

/// The naming rule of the profile table's data file, for a driver without names and a GPU without an entry.
fn by_rule(told: &GpuInstanceProfile, memory_bytes: u64) -> ProfileName {
    let gigabytes = |bytes: u64| bytes.div_ceil(1 << 30);
    let total = memory_bytes.max(1);
    let eighths = (u128::from(told.memory_mib) * (8 << 20)).div_ceil(u128::from(total)).min(8);
    let size = (u64::try_from(eighths).unwrap_or(8) * gigabytes(total) + 4) / 8;
    let suffix = match told.profile_enum {
        7 | 8 => "+me",
        10..=12 | 17 => "+gfx",
        13 | 14 => "-me",
        15 | 16 => "+me.all",
        _ => "",
    };
    let text = format!("{}g.{size}gb{suffix}", told.compute_slices.max(1));
    // By the grammar; the fallback is never reached.
    ProfileName::parse(&text).unwrap_or_else(|_| one())
}

fn one() -> ProfileName {
    #[expect(clippy::unwrap_used, reason = "the text follows the grammar, and a test reads it")]
    ProfileName::parse("1g.1gb").unwrap()
}

fn facts(identity: &GpuIdentity, known: Option<&Product>, profiles: Vec<Profile>) -> ProductFacts {
    let ends = profiles.iter().flat_map(|p| &p.placements).map(|p| p.start + p.size).max();
    let most = profiles.iter().map(|p| p.compute_slices).max().unwrap_or(1).max(1);
    match known {
        Some(product) => {
            let mut facts = product.clone().into_facts();
            facts.compute_slices = facts.compute_slices.max(most);
            facts.memory_units = facts.memory_units.max(ends);
            facts.profiles = profiles;
            facts
        }
        None => ProductFacts {
            id: slug(&identity.name),
            title: identity.name.clone(),
            nvml_names: vec![identity.name.clone()],
            pci_ids: Vec::new(),
            architecture: String::new(),
            compute_capability: identity.compute_capability.map(|(major, minor)| format!("{major}.{minor}")),
            compute_slices: most,
            memory_units: ends,
            memory: Some(Mib(identity.memory_bytes >> 20)),
            naming_total_gb: None,
            sms: None,
            mode_change_needs_reset: None,
            mode_survives_reboot: None,
            min_driver: None,
            confidence: Confidence::High,
            profiles,
        },
    }
}

/// A name as an id: what is no letter or digit becomes `-`.
fn slug(name: &str) -> ProductId {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let text = name.chars().map(plain).collect::<String>();
    let text = text.trim_matches('-');
    ProductId::parse(text).unwrap_or_else(|_| unnamed())
}

fn unnamed() -> ProductId {
    #[expect(clippy::unwrap_used, reason = "the text follows the rule, and a test reads it")]
    ProductId::parse("gpu").unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fallbacks_are_well_formed() {
        assert_eq!(one().as_str(), "1g.1gb");
        assert_eq!(unnamed().as_str(), "gpu");
        assert_eq!(slug("NVIDIA Z9 (x)").as_str(), "nvidia-z9--x");
        assert_eq!(slug("ß"), unnamed());
    }

    #[test]
    fn names_by_rule_are_those_of_the_table() {
        for product in ProductTable::builtin().products() {
            let (Some(Mib(total)), Some(_)) = (product.memory, product.naming_total_gb) else { continue };
            for profile in &product.profiles {
                let (Some(Mib(memory)), Some(profile_enum)) = (profile.memory, profile.gi_profile_enum)
                else {
                    continue;
                };
                let told = GpuInstanceProfile {
                    profile_enum,
                    id: 0,
                    name: None,
                    compute_slices: profile.compute_slices,
                    memory_mib: memory,
                    max_instances: 1,
                    sms: 1,
                    engines: Engines::default(),
                };
                let name = by_rule(&told, total << 20);
                let close = name.gigabytes().abs_diff(profile.name.gigabytes()) <= 2;
                assert!(name.slices() == profile.name.slices() && close, "{}: {name}", profile.name);
                assert_eq!(name.attribute(), profile.name.attribute(), "{}: {name}", profile.name);
            }
        }
    }
}
