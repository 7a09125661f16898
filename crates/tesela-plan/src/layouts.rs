//! Every layout of a product, counted and listed, and the best place for a multiset of instances.
//!
//! A *state* is a set of placed instances that obeys the product's rules. States are walked exactly, with bit
//! masks: a product has a few dozen (profile, start) pairs, so there are hundreds or thousands of states.

mod choose;
mod space;

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::layout::{Geometry, Layout, LayoutError};
use tesela_model::product::{Product, ProductId, Profile, ProfileName, UnknownProfile};

pub use self::choose::{Kind, Seats, Worth, choose, largest_part};
pub(crate) use self::space::{Room, Space, maximal};

/// Why layouts cannot be listed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutsError {
    /// A profile that the product does not have.
    #[error(transparent)]
    UnknownProfile(#[from] UnknownProfile),
    /// A layout that breaks a rule of its product.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A profile named twice.
    #[error("{profile} is named twice")]
    NamedTwice {
        /// The profile.
        profile: ProfileName,
    },
    /// No profile, or none with placements.
    #[error(
        "the profile table does not know where the MIG instances of {product} ({title}) may sit, so its layouts cannot be listed; a user's table can give placements"
    )]
    NoPlacements {
        /// The product.
        product: ProductId,
        /// Its title.
        title: String,
    },
    /// More states than this program walks.
    #[error("{product} has more than {limit} states with these profiles; name fewer profiles")]
    TooManyStates {
        /// The product.
        product: ProductId,
        /// States walked before it gave up.
        limit: usize,
    },
}

/// All layouts of a product over a set of profiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layouts {
    /// The product.
    pub product: ProductId,
    /// Sets of (profile, start) that obey the rules, the empty one included.
    pub states: usize,
    /// States to which nothing of the profiles can be added.
    pub maximal_states: usize,
    /// Distinct multisets of the states, the empty one included.
    pub geometries: usize,
    /// Geometries contained in no other.
    pub maximal_geometries: usize,
    /// The maximal states, ordered as lists of (start, profile name).
    pub layouts: Vec<Layout>,
}

/// The profiles used when nobody names any: those without `+` or `-` suffix whose placements are known.
pub fn default_profiles(product: &Product) -> Vec<ProfileName> {
    named(product, Profile::is_plain)
}

/// Every profile whose placements are known.
pub fn all_profiles(product: &Product) -> Vec<ProfileName> {
    named(product, |_| true)
}

fn named(product: &Product, wanted: impl Fn(&Profile) -> bool) -> Vec<ProfileName> {
    let known = product.profiles.iter().filter(|p| !p.placements.is_empty() && wanted(p));
    known.map(|p| p.name.clone()).collect()
}

/// Counts and lists the layouts of `product` over `profiles` (names or aliases).
///
/// # Errors
/// When a profile is unknown or named twice, when no placements are known, or when there are too many states.
pub fn layouts(product: &Product, profiles: &[ProfileName]) -> Result<Layouts, LayoutsError> {
    let space = named_space(product, profiles)?;
    let mut states = 0;
    let mut geometries = BTreeSet::new();
    let mut found = Vec::new();
    space.walk(&mut space.empty_room(), &mut |placed, counts, room| {
        states += 1;
        geometries.insert(counts.clone());
        if !space.has_place(room) {
            found.push(placed.to_vec());
        }
    })?;
    let mut layouts = Vec::new();
    for placed in found {
        layouts.push(space.layout(product, &placed, &[])?);
    }
    layouts.sort_by(|a, b| order(a).cmp(order(b)));
    Ok(Layouts {
        product: product.id.clone(),
        states,
        maximal_states: layouts.len(),
        maximal_geometries: maximal(&geometries).len(),
        geometries: geometries.len(),
        layouts,
    })
}

fn order(layout: &Layout) -> impl Iterator<Item = (u32, &ProfileName)> {
    layout.instances().iter().map(|i| (i.start, &i.profile))
}

/// What can still be added to a layout: the multisets over `profiles` that fit its free room and are contained in
/// no other, in the order of their counts. `[empty]` when nothing fits.
///
/// # Errors
/// As [`layouts`], and when `state` is no layout of `product`.
pub fn completions(
    product: &Product,
    state: &Layout,
    profiles: &[ProfileName],
) -> Result<Vec<Geometry>, LayoutsError> {
    let space = named_space(product, profiles)?;
    let mut room = space.room(product, state)?;
    let geometries = space.geometries(&mut room)?;
    Ok(maximal(&geometries).iter().map(|counts| space.geometry(counts)).collect())
}

/// How many (profile, start) pairs of the product's default profiles could still be added to a layout, each alone:
/// the measure by which one arrangement keeps more of the future than another.
///
/// # Errors
/// When `layout` is no layout of `product`.
pub fn future_placements(product: &Product, layout: &Layout) -> Result<usize, LayoutsError> {
    let space = Space::new(product, &default_profiles(product))?;
    Ok(space.places(&space.room(product, layout)?))
}

/// Adds instances to a layout without moving what is there, where they keep the most future placements; among equal
/// ones the first as a list of (start, profile name). `None` when they do not fit.
///
/// # Errors
/// When a profile is unknown or has no placements, or `state` is no layout of `product`.
pub fn arrange(
    product: &Product,
    state: &Layout,
    add: &[ProfileName],
) -> Result<Option<Layout>, LayoutsError> {
    let mut names = Vec::new();
    let mut counts = Vec::new();
    for name in add {
        let name = product.profile(name.as_str())?.name.clone();
        match names.iter().position(|n| *n == name) {
            Some(index) => counts[index] += 1,
            None => {
                names.push(name);
                counts.push(1);
            }
        }
    }
    let mut arranger = Arranger::new(product, &names)?;
    arranger.arrange(product, state, &counts)
}

fn named_space(product: &Product, profiles: &[ProfileName]) -> Result<Space, LayoutsError> {
    let mut names = Vec::new();
    for name in profiles {
        let name = product.profile(name.as_str())?.name.clone();
        if names.contains(&name) {
            return Err(LayoutsError::NamedTwice { profile: name });
        }
        names.push(name);
    }
    if names.is_empty() {
        return Err(LayoutsError::NoPlacements { product: product.id.clone(), title: product.title.clone() });
    }
    Space::new(product, &names)
}

/// Finds best arrangements of many multisets over the same profiles.
pub(crate) struct Arranger {
    space: Space,
    /// The default profiles, by which the future is measured.
    future: Space,
    /// Slots found before; they depend on the room alone, and many states leave the same room.
    known: BTreeMap<(Room, Room, Vec<u8>), Option<Vec<usize>>>,
}

impl Arranger {
    pub(crate) fn new(product: &Product, names: &[ProfileName]) -> Result<Self, LayoutsError> {
        Ok(Self {
            space: Space::new(product, names)?,
            future: Space::new(product, &default_profiles(product))?,
            known: BTreeMap::new(),
        })
    }

    /// As the function [`arrange`]; `counts` holds one number for each name.
    pub(crate) fn arrange(
        &mut self,
        product: &Product,
        state: &Layout,
        counts: &[u8],
    ) -> Result<Option<Layout>, LayoutsError> {
        let room = self.space.room(product, state)?;
        let after = self.future.room(product, state)?;
        let key = (room, after, counts.to_vec());
        let placed = match self.known.get(&key) {
            Some(placed) => placed,
            None => {
                let placed = self.best(&key)?;
                self.known.entry(key).or_insert(placed)
            }
        };
        match placed {
            Some(placed) => Ok(Some(self.space.layout(product, placed, state.instances())?)),
            None => Ok(None),
        }
    }

    fn best(&self, (room, base, counts): &(Room, Room, Vec<u8>)) -> Result<Option<Vec<usize>>, LayoutsError> {
        let mut best: Option<(usize, Vec<usize>)> = None;
        self.space.walk_exactly(&mut room.clone(), counts, &mut |placed| {
            let mut after = base.clone();
            for &slot in placed {
                self.future.occupy(&mut after, &self.space, slot);
            }
            let places = self.future.places(&after);
            if best.as_ref().is_none_or(|(most, _)| places > *most) {
                best = Some((places, placed.to_vec()));
            }
        })?;
        Ok(best.map(|(_, placed)| placed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tesela_model::product::ProductTable;

    fn product(id: &str) -> &'static Product {
        ProductTable::builtin().find(id).unwrap()
    }

    fn names(texts: &[&str]) -> Vec<ProfileName> {
        texts.iter().map(|t| ProfileName::parse(t).unwrap()).collect()
    }

    fn counted(id: &str, profiles: &[ProfileName]) -> (usize, usize, usize, usize) {
        let l = layouts(product(id), profiles).unwrap();
        (l.states, l.maximal_states, l.geometries, l.maximal_geometries)
    }

    #[test]
    fn the_counts_are_those_of_the_design() {
        let without = names(&["1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"]);
        assert_eq!(counted("a100-40gb", &without), (298, 19, 38, 12));
        assert_eq!(counted("a100-40gb", &default_profiles(product("a100-40gb"))), (723, 78, 78, 28));
        assert_eq!(counted("h100-sxm-80gb", &default_profiles(product("h100-sxm-80gb"))), (723, 78, 78, 28));
        assert_eq!(counted("a30-24gb", &default_profiles(product("a30-24gb"))), (26, 5, 10, 4));
    }

    #[test]
    fn layouts_come_in_order_and_each_once() {
        for p in ProductTable::builtin().products().iter().filter(|p| p.has_placements()) {
            let listed = layouts(p, &all_profiles(p)).unwrap();
            let keys = listed.layouts.iter().map(|l| order(l).collect::<Vec<_>>()).collect::<Vec<_>>();
            assert!(keys.windows(2).all(|w| w[0] < w[1]), "{}", p.id);
        }
    }

    #[test]
    fn the_order_of_names_does_not_matter() {
        let p = product("a100-40gb");
        let mut all = all_profiles(p);
        let first = layouts(p, &all).unwrap();
        all.reverse();
        assert_eq!(layouts(p, &all).unwrap(), first);
    }

    #[test]
    fn instances_go_where_they_keep_the_most_future() {
        let p = product("a100-40gb");
        let start = |state: &Layout, name: &str| {
            let after = arrange(p, state, &names(&[name])).unwrap().unwrap();
            after.instances().iter().find(|i| !state.instances().contains(i)).unwrap().start
        };
        let empty = Layout::empty(p);
        assert_eq!(start(&empty, "1g.5gb"), 6);
        assert_eq!(start(&empty, "2g.10gb"), 4);
        assert_eq!(start(&empty, "3g.20gb"), 4);
        let one = arrange(p, &empty, &names(&["1g.5gb"])).unwrap().unwrap();
        assert_eq!(start(&one, "1g.5gb"), 4);
        let four = arrange(p, &empty, &names(&["3g.20gb", "1g.5gb", "1g.5gb", "1g.5gb", "1g.5gb"])).unwrap();
        assert_eq!(four.unwrap().geometry().len(), 5);
        assert_eq!(arrange(p, &empty, &names(&["7g.40gb", "1g.5gb"])).unwrap(), None);
    }

    #[test]
    fn completions_respect_what_is_there() {
        let p = product("a100-40gb");
        let state = Layout::new(p, [(ProfileName::parse("3g.20gb").unwrap(), 0)]).unwrap();
        let found = completions(p, &state, &names(&["1g.5gb", "3g.20gb"])).unwrap();
        let texts = found.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(texts, ["1x 3g.20gb", "3x 1g.5gb"]);
        let media = Layout::new(p, [(ProfileName::parse("1g.5gb+me").unwrap(), 0)]).unwrap();
        let found = completions(p, &media, &names(&["1g.5gb+me", "7g.40gb"])).unwrap();
        assert!(found[0].is_empty() && found.len() == 1);
    }

    #[test]
    fn a_product_without_placements_says_so() {
        let p = product("rtx-pro-5000-48gb");
        assert!(matches!(layouts(p, &default_profiles(p)), Err(LayoutsError::NoPlacements { .. })));
        let named = layouts(p, &names(&["1g.24gb"])).unwrap_err();
        assert!(named.to_string().contains("1g.24gb"), "{named}");
        let twice = layouts(product("a30-24gb"), &names(&["1g.6gb", "1g.6gb"])).unwrap_err();
        assert_eq!(twice.to_string(), "1g.6gb is named twice");
    }
}
