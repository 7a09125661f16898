//! Where instances of one GPU sit best, when it matters what sits there already.

use tesela_model::layout::Layout;
use tesela_model::product::{Product, ProfileName};

use super::space::Space;
use super::{LayoutsError, default_profiles};

/// Instances of one kind to place. Two kinds may have the same profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// Their profile.
    pub profile: ProfileName,
    /// How many.
    pub count: u32,
}

/// What a place is worth: compared entry by entry, summed over the instances.
pub type Worth = [u64; 3];

/// Where the instances of a layout sit: index of the kind and first memory unit, by unit.
pub type Seats = Vec<(usize, u32)>;

/// Places exactly these instances on an empty GPU so that the sum of `worth(kind, start)` is largest; among equal ones
/// the placement that keeps the most future placements, and among those the first as a list of (start, profile name).
/// `None` when they do not fit together.
///
/// # Errors
/// When a profile is unknown or has no placements, or there are too many states to walk.
pub fn choose(
    product: &Product,
    kinds: &[Kind],
    worth: &dyn Fn(usize, u32) -> Worth,
) -> Result<Option<Seats>, LayoutsError> {
    let mut names = Vec::new();
    for kind in kinds {
        names.push(product.profile(kind.profile.as_str())?.name.clone());
    }
    // More than a GPU has units never fits; the walk then finds nothing without growing.
    if kinds.iter().any(|kind| kind.count > product.units()) {
        return Ok(None);
    }
    let counts = kinds.iter().map(|kind| u8::try_from(kind.count).unwrap_or(u8::MAX)).collect::<Vec<_>>();
    let space = Space::new(product, &names)?;
    let future = Space::new(product, &default_profiles(product))?;
    let seats = |placed: &[usize]| placed.iter().map(|&slot| space.seat(slot)).collect::<Seats>();
    let mut best: Option<(Worth, usize, Seats)> = None;
    space.walk_exactly(&mut space.empty_room(), &counts, &mut |placed| {
        let mut sum = [0u64; 3];
        for &slot in placed {
            let (kind, start) = space.seat(slot);
            for (total, one) in sum.iter_mut().zip(worth(kind, start)) {
                *total = total.saturating_add(one);
            }
        }
        if best.as_ref().is_some_and(|(most, ..)| sum < *most) {
            return;
        }
        let mut after = future.empty_room();
        for &slot in placed {
            future.occupy(&mut after, &space, slot);
        }
        let places = future.places(&after);
        if best.as_ref().is_none_or(|(most, left, _)| (sum, places) > (*most, *left)) {
            best = Some((sum, places, seats(placed)));
        }
    })?;
    Ok(best.map(|(.., seats)| seats))
}

/// The largest part of a multiset that fits beside a layout: most compute slices, then most memory units, then most
/// instances, then the first in the order of `kinds`. Counts in that order.
///
/// # Errors
/// As [`choose`], and when `beside` is no layout of `product`.
pub fn largest_part(product: &Product, beside: &Layout, kinds: &[Kind]) -> Result<Vec<u32>, LayoutsError> {
    let mut names = Vec::new();
    let mut weights = Vec::new();
    for kind in kinds {
        let profile = product.profile(kind.profile.as_str())?;
        names.push(profile.name.clone());
        weights.push((profile.compute_slices, profile.units()));
    }
    let space = Space::new(product, &names)?;
    let mut best = (0, 0, 0, vec![0; kinds.len()]);
    for counts in space.geometries(&mut space.room(product, beside)?)? {
        let part = counts.iter().zip(kinds).map(|(&fits, kind)| u32::from(fits).min(kind.count));
        let part = part.collect::<Vec<_>>();
        let sum = |weight: &dyn Fn(&(u32, u32)) -> u32| -> u32 {
            part.iter().zip(&weights).map(|(n, w)| n * weight(w)).sum()
        };
        let found = (sum(&|w| w.0), sum(&|w| w.1), part.iter().sum::<u32>(), part.clone());
        if found > best {
            best = found;
        }
    }
    Ok(best.3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tesela_model::product::ProductTable;

    fn product() -> &'static Product {
        ProductTable::builtin().find("a100-40gb").unwrap()
    }

    fn kinds(list: &[(&str, u32)]) -> Vec<Kind> {
        let kind =
            |(name, count): &(&str, u32)| Kind { profile: ProfileName::parse(name).unwrap(), count: *count };
        list.iter().map(kind).collect()
    }

    #[test]
    fn worth_goes_before_the_future() {
        let three = kinds(&[("3g.20gb", 1)]);
        assert_eq!(choose(product(), &three, &|_, _| [0; 3]).unwrap(), Some(vec![(0, 4)]));
        let first = |_, start| [u64::from(start == 0), 0, 0];
        assert_eq!(choose(product(), &three, &first).unwrap(), Some(vec![(0, 0)]));
        let later = |_, start| [0, 0, u64::from(start == 0)];
        assert_eq!(choose(product(), &three, &later).unwrap(), Some(vec![(0, 0)]));
    }

    #[test]
    fn kinds_of_one_profile_are_told_apart() {
        let two = kinds(&[("2g.10gb", 1), ("2g.10gb", 1)]);
        let worth = |kind, start| [u64::from(kind == 1 && start == 0), 0, 0];
        let seats = choose(product(), &two, &worth).unwrap().unwrap();
        assert_eq!(seats[0], (1, 0));
        assert_eq!(seats[1].0, 0);
    }

    #[test]
    fn what_does_not_fit_is_none_and_its_largest_part_is_told() {
        for (wanted, part) in [
            (&[("1g.5gb", 8)][..], vec![7]),
            (&[("1g.5gb", u32::MAX)], vec![7]),
            (&[("1g.5gb", 4), ("2g.10gb", 2)], vec![3, 2]),
            (&[("3g.20gb", 3), ("1g.5gb", 1)], vec![2, 0]),
            (&[("7g.40gb", 1), ("1g.5gb", 7)], vec![1, 0]),
        ] {
            let wanted = kinds(wanted);
            assert_eq!(choose(product(), &wanted, &|_, _| [0; 3]).unwrap(), None, "{wanted:?}");
            assert_eq!(largest_part(product(), &Layout::empty(product()), &wanted).unwrap(), part);
        }
        let beside = Layout::new(product(), [(ProfileName::parse("4g.20gb").unwrap(), 0)]).unwrap();
        let wanted = kinds(&[("3g.20gb", 2), ("1g.5gb", 2)]);
        assert_eq!(largest_part(product(), &beside, &wanted).unwrap(), [1, 0]);
    }
}
