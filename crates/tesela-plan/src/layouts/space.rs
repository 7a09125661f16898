//! The placement rules of one product over some of its profiles, compiled to bit masks.

use std::collections::BTreeSet;

use tesela_model::layout::{Geometry, Instance, Layout, LayoutError};
use tesela_model::product::{Placement, Product, ProductId, ProfileName};

use super::LayoutsError;

/// How many instances of each item, in the order of the items.
pub(crate) type Counts = Vec<u8>;

/// States walked before giving up; every product of the built-in table stays far below.
const MOST_STATES: usize = 2_000_000;

/// One thing to place. Items may share a profile: two classes of a demand may take the same one.
struct Item {
    rule: usize,
}

struct Rule {
    name: ProfileName,
    slices: u32,
    engines: [u32; 5],
    max: u32,
}

struct Slot {
    item: usize,
    placement: Placement,
    mask: u64,
}

pub(crate) struct Space {
    product: ProductId,
    items: Vec<Item>,
    rules: Vec<Rule>,
    /// By start, then by name of the profile, then by item.
    slots: Vec<Slot>,
    whole: Room,
}

/// What is still free on a GPU.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Room {
    units: u64,
    slices: u32,
    /// `u32::MAX` where the product's number is not known: not a constraint.
    engines: [u32; 5],
    /// Instances that each rule still allows.
    left: Vec<u32>,
}

impl Space {
    /// One item for each name; a name may come more than once. Names must be the table's.
    pub(crate) fn new(product: &Product, names: &[ProfileName]) -> Result<Self, LayoutsError> {
        let mut rules: Vec<Rule> = Vec::new();
        let mut items = Vec::new();
        let mut slots = Vec::new();
        for (item, name) in names.iter().enumerate() {
            let profile = product.profile(name.as_str())?;
            if profile.placements.is_empty() {
                let (product, profile) = (product.id.clone(), profile.name.clone());
                return Err(LayoutError::NoPlacements { product, profile }.into());
            }
            let known = rules.iter().position(|r| r.name == profile.name);
            let rule = known.unwrap_or(rules.len());
            if known.is_none() {
                rules.push(Rule {
                    name: profile.name.clone(),
                    slices: profile.compute_slices,
                    engines: profile.engines.values().map(|e| e.unwrap_or(0)),
                    max: profile.max_instances.unwrap_or(u32::MAX),
                });
            }
            items.push(Item { rule });
            let slot = |&placement: &Placement| Slot { item, placement, mask: placement.mask() };
            slots.extend(profile.placements.iter().map(slot));
        }
        slots.sort_by_key(|s: &Slot| (s.placement.start, rules[items[s.item].rule].name.clone(), s.item));
        let whole = Room {
            units: Placement { start: 0, size: product.units() }.mask(),
            slices: product.compute_slices,
            engines: product.engine_caps().values().map(|cap| cap.unwrap_or(u32::MAX)),
            left: rules.iter().map(|r| r.max).collect(),
        };
        Ok(Self { product: product.id.clone(), items, rules, slots, whole })
    }

    pub(crate) fn empty_room(&self) -> Room {
        self.whole.clone()
    }

    /// Profile and placement of each slot, by index.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (&ProfileName, Placement)> {
        self.slots.iter().map(|slot| (&self.rules[self.items[slot.item].rule].name, slot.placement))
    }

    /// Item and first unit of a slot.
    pub(crate) fn seat(&self, slot: usize) -> (usize, u32) {
        let slot = &self.slots[slot];
        (slot.item, slot.placement.start)
    }

    /// What a layout leaves free; its instances need not be of this space's profiles.
    pub(crate) fn room(&self, product: &Product, layout: &Layout) -> Result<Room, LayoutsError> {
        let mut room = self.whole.clone();
        for instance in layout.instances() {
            let profile = product.profile(instance.profile.as_str())?;
            let placement = Placement { start: instance.start, size: instance.size };
            let engines = profile.engines.values().map(|e| e.unwrap_or(0));
            let rule = self.rules.iter().position(|r| r.name == profile.name);
            room.occupy(placement.mask(), profile.compute_slices, &engines, rule);
        }
        Ok(room)
    }

    /// Takes the place of another space's slot out of a room of this one.
    pub(crate) fn occupy(&self, room: &mut Room, other: &Self, slot: usize) {
        let slot = &other.slots[slot];
        let rule = &other.rules[other.items[slot.item].rule];
        let own = self.rules.iter().position(|r| r.name == rule.name);
        room.occupy(slot.mask, rule.slices, &rule.engines, own);
    }

    fn fits(&self, room: &Room, slot: &Slot) -> bool {
        let rule_index = self.items[slot.item].rule;
        let rule = &self.rules[rule_index];
        slot.mask & !room.units == 0
            && rule.slices <= room.slices
            && room.left[rule_index] > 0
            && rule.engines.iter().zip(&room.engines).all(|(taken, free)| taken <= free)
    }

    fn take(&self, room: &mut Room, slot: &Slot) {
        let index = self.items[slot.item].rule;
        let rule = &self.rules[index];
        room.units &= !slot.mask;
        room.slices -= rule.slices;
        room.left[index] -= 1;
        for (free, taken) in room.engines.iter_mut().zip(&rule.engines) {
            if *free != u32::MAX {
                *free -= taken;
            }
        }
    }

    fn give(&self, room: &mut Room, slot: &Slot) {
        let index = self.items[slot.item].rule;
        let rule = &self.rules[index];
        room.units |= slot.mask;
        room.slices += rule.slices;
        room.left[index] += 1;
        for (free, taken) in room.engines.iter_mut().zip(&rule.engines) {
            if *free != u32::MAX {
                *free += taken;
            }
        }
    }

    /// Whether anything can still be added.
    pub(crate) fn has_place(&self, room: &Room) -> bool {
        self.slots.iter().any(|slot| self.fits(room, slot))
    }

    /// How many slots could each be added alone.
    pub(crate) fn places(&self, room: &Room) -> usize {
        self.slots.iter().filter(|slot| self.fits(room, slot)).count()
    }

    /// Visits each state that extends `room`, the empty extension first, each once: slot indexes in growing order,
    /// counts per item, what is left free.
    pub(crate) fn walk(
        &self,
        room: &mut Room,
        visit: &mut dyn FnMut(&[usize], &Counts, &Room),
    ) -> Result<(), LayoutsError> {
        let mut walk = Walk { placed: Vec::new(), counts: vec![0; self.items.len()], steps: 0 };
        self.step(room, &mut walk, 0, visit)
    }

    fn step(
        &self,
        room: &mut Room,
        walk: &mut Walk,
        from: usize,
        visit: &mut dyn FnMut(&[usize], &Counts, &Room),
    ) -> Result<(), LayoutsError> {
        walk.steps += 1;
        if walk.steps > MOST_STATES {
            return Err(LayoutsError::TooManyStates { product: self.product.clone(), limit: MOST_STATES });
        }
        visit(&walk.placed, &walk.counts, room);
        for (index, slot) in self.slots.iter().enumerate().skip(from) {
            if self.fits(room, slot) {
                self.take(room, slot);
                walk.placed.push(index);
                walk.counts[slot.item] += 1;
                self.step(room, walk, index + 1, visit)?;
                walk.counts[slot.item] -= 1;
                walk.placed.pop();
                self.give(room, slot);
            }
        }
        Ok(())
    }

    /// Visits each way to place exactly `counts` in `room`, in the order of the slots.
    pub(crate) fn walk_exactly(
        &self,
        room: &mut Room,
        counts: &[u8],
        visit: &mut dyn FnMut(&[usize]),
    ) -> Result<(), LayoutsError> {
        let mut walk = Walk { placed: Vec::new(), counts: counts.to_vec(), steps: 0 };
        self.step_exactly(room, &mut walk, 0, visit)
    }

    fn step_exactly(
        &self,
        room: &mut Room,
        walk: &mut Walk,
        from: usize,
        visit: &mut dyn FnMut(&[usize]),
    ) -> Result<(), LayoutsError> {
        walk.steps += 1;
        if walk.steps > MOST_STATES {
            return Err(LayoutsError::TooManyStates { product: self.product.clone(), limit: MOST_STATES });
        }
        if walk.counts.iter().all(|c| *c == 0) {
            visit(&walk.placed);
            return Ok(());
        }
        for (index, slot) in self.slots.iter().enumerate().skip(from) {
            if walk.counts[slot.item] > 0 && self.fits(room, slot) {
                self.take(room, slot);
                walk.placed.push(index);
                walk.counts[slot.item] -= 1;
                self.step_exactly(room, walk, index + 1, visit)?;
                walk.counts[slot.item] += 1;
                walk.placed.pop();
                self.give(room, slot);
            }
        }
        Ok(())
    }

    /// The distinct counts of the states that extend `room`; contains each count's parts too.
    pub(crate) fn geometries(&self, room: &mut Room) -> Result<BTreeSet<Counts>, LayoutsError> {
        let mut found = BTreeSet::new();
        self.walk(room, &mut |_, counts, _| {
            if !found.contains(counts) {
                found.insert(counts.clone());
            }
        })?;
        Ok(found)
    }

    /// The counts as a multiset of profiles.
    pub(crate) fn geometry(&self, counts: &Counts) -> Geometry {
        let each = self.items.iter().zip(counts);
        each.flat_map(|(item, &n)| (0..n).map(|_| self.rules[item.rule].name.clone())).collect()
    }

    /// The checked layout of `base` and the slots placed.
    pub(crate) fn layout(
        &self,
        product: &Product,
        placed: &[usize],
        base: &[Instance],
    ) -> Result<Layout, LayoutsError> {
        let before = base.iter().map(|i| (i.profile.clone(), i.start));
        let added = placed.iter().map(|&index| {
            let slot = &self.slots[index];
            (self.rules[self.items[slot.item].rule].name.clone(), slot.placement.start)
        });
        Ok(Layout::new(product, before.chain(added))?)
    }
}

impl Room {
    /// Takes units, slices and engines out; what an impossible state would take twice is taken once.
    fn occupy(&mut self, mask: u64, slices: u32, engines: &[u32; 5], rule: Option<usize>) {
        self.units &= !mask;
        self.slices = self.slices.saturating_sub(slices);
        for (free, taken) in self.engines.iter_mut().zip(engines) {
            if *free != u32::MAX {
                *free = free.saturating_sub(*taken);
            }
        }
        if let Some(left) = rule.and_then(|r| self.left.get_mut(r)) {
            *left = left.saturating_sub(1);
        }
    }
}

struct Walk {
    placed: Vec<usize>,
    counts: Counts,
    steps: usize,
}

/// The members contained in no other, of a set that contains every part of its members.
pub(crate) fn maximal(geometries: &BTreeSet<Counts>) -> Vec<Counts> {
    let grows = |counts: &Counts| {
        let mut larger = counts.clone();
        (0..larger.len()).any(|item| {
            larger[item] += 1;
            let found = geometries.contains(&larger);
            larger[item] -= 1;
            found
        })
    };
    geometries.iter().filter(|counts| !grows(counts)).cloned().collect()
}
