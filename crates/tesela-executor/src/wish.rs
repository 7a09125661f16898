//! What is wanted of one GPU, and what that means on it.

use std::collections::BTreeMap;

use tesela_model::product::{ProfileName, UnknownProfile};
use tesela_plan::layouts::Kind;

use crate::catalogue::Catalogue;
use crate::goal::Goal;

/// What is wanted of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// MIG off.
    Off,
    /// MIG on, with so many MIG devices of each profile, anywhere. Names as in mig-parted's files: `1c.3g.20gb` is a
    /// compute instance of one slice in a GPU instance of three; compute instances of the same GPU-instance profile
    /// share GPU instances as far as they fit.
    Counts(Vec<(ProfileName, u32)>),
    /// Exactly this, at these starts.
    Exactly(Goal),
}

/// GPU instances of one kind that are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Profile and number.
    pub kind: Kind,
    /// Profile id.
    pub profile: u32,
    /// Compute slices of the compute instances in each, most first.
    pub compute: Vec<u32>,
}

/// Why a wish means nothing on a GPU.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WishError {
    /// A name that is no profile of the GPU.
    #[error(transparent)]
    Unknown(#[from] UnknownProfile),
    /// A compute instance that its GPU instance cannot hold.
    #[error("`{name}`: a GPU instance {instance} holds compute instances of {} slices", .holds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Compute {
        /// The name.
        name: ProfileName,
        /// The GPU instance by name.
        instance: ProfileName,
        /// Slices that it can hold.
        holds: Vec<u32>,
    },
    /// The profile is known, but not by which id the driver makes it.
    #[error("the driver does not tell the id of {name} while MIG is off; turn MIG on first")]
    NoId {
        /// The profile.
        name: ProfileName,
    },
}

/// Reads counts of MIG devices as GPU instances with what is in them.
///
/// # Errors
/// When a name means nothing on the GPU.
pub fn wanted(catalogue: &Catalogue, counts: &[(ProfileName, u32)]) -> Result<Vec<Wanted>, WishError> {
    let mut sizes = BTreeMap::<ProfileName, BTreeMap<u32, u32>>::new();
    for (name, count) in counts.iter().filter(|(_, count)| *count > 0) {
        let (instance, slices) = taken_apart(catalogue, name)?;
        let number = sizes.entry(instance).or_default().entry(slices).or_default();
        *number = number.saturating_add(*count);
    }
    let mut found = Vec::new();
    for (name, slices) in sizes {
        let profile = catalogue.product.profile(name.as_str())?;
        let id = profile.profile_id.ok_or_else(|| WishError::NoId { name: name.clone() })?;
        // No GPU holds more than its units; what is beyond only has to stay too much.
        let most = catalogue.product.units() + 1;
        let mut filled = BTreeMap::<Vec<u32>, u32>::new();
        for compute in fill(profile.compute_slices, &slices, most) {
            *filled.entry(compute).or_default() += 1;
        }
        for (compute, count) in filled {
            found.push(Wanted { kind: Kind { profile: name.clone(), count }, profile: id, compute });
        }
    }
    Ok(found)
}

/// The GPU instance's name by the table, and the slices of the compute instance.
fn taken_apart(catalogue: &Catalogue, name: &ProfileName) -> Result<(ProfileName, u32), WishError> {
    let whole = name.as_str().split_once("c.").map_or(name.as_str(), |(_, rest)| rest);
    let profile = catalogue.product.profile(whole)?;
    let slices = name.compute().unwrap_or(profile.compute_slices);
    let mut holds = profile.compute_instances.iter().map(|c| c.slices).collect::<Vec<_>>();
    holds.push(profile.compute_slices);
    if holds.len() == 1 {
        holds = (1..=profile.compute_slices).collect();
    }
    holds.sort_unstable();
    holds.dedup();
    if !holds.contains(&slices) {
        return Err(WishError::Compute { name: name.clone(), instance: profile.name.clone(), holds });
    }
    Ok((profile.name.clone(), slices))
}

/// Compute instances into GPU instances of `room` slices, the large ones first, each into the first that has room. For
/// the sizes there are (1, 2, 3, 4 and 7 in at most 7) no other way needs fewer.
fn fill(room: u32, slices: &BTreeMap<u32, u32>, most: u32) -> Vec<Vec<u32>> {
    let mut bins: Vec<Vec<u32>> = Vec::new();
    let limit = most as usize;
    for (&size, &count) in slices.iter().rev() {
        for _ in 0..count {
            match bins.iter().position(|bin| bin.iter().sum::<u32>() + size <= room) {
                Some(bin) => bins[bin].push(size),
                None if bins.len() >= limit => break,
                None => bins.push(vec![size]),
            }
        }
    }
    bins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compute_instances_share_gpu_instances() {
        let slices = |list: &[(u32, u32)]| list.iter().copied().collect::<BTreeMap<_, _>>();
        assert_eq!(fill(3, &slices(&[(1, 4)]), 9), [vec![1, 1, 1], vec![1]]);
        assert_eq!(fill(3, &slices(&[(1, 2), (2, 2)]), 9), [vec![2, 1], vec![2, 1]]);
        assert_eq!(fill(4, &slices(&[(4, 1), (2, 3)]), 9), [vec![4], vec![2, 2], vec![2]]);
        assert_eq!(fill(1, &slices(&[(1, u32::MAX)]), 9).len(), 9);
    }
}
