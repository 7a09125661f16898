//! What holds for every packing: the same answer twice, whatever the order; more demand never takes fewer GPUs; and
//! the counts of layouts agree with plain recursion.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod pack_checker;

use std::collections::{BTreeMap, BTreeSet};

use pack_checker::{Placed, fault};
use proptest::prelude::*;
use tesela_model::product::{Product, ProductTable, ProfileName};
use tesela_plan::layouts::{all_profiles, default_profiles, layouts};
use tesela_plan::pack::{Class, Offer, Packing, Problem, pack};

fn placed_products() -> Vec<&'static Product> {
    ProductTable::builtin().products().iter().filter(|p| p.has_placements()).collect()
}

fn demand() -> impl Strategy<Value = (&'static Product, Vec<(ProfileName, u64)>)> {
    let products = placed_products();
    (0..products.len(), proptest::collection::vec(0u64..40, 12), any::<bool>()).prop_map(
        move |(index, counts, all)| {
            let product = products[index];
            let names = if all { all_profiles(product) } else { default_profiles(product) };
            (product, names.into_iter().zip(counts).collect())
        },
    )
}

fn solve(product: &Product, demand: &[(ProfileName, u64)]) -> Packing {
    let classes = demand.iter().map(|(name, count)| Class {
        name: name.to_string(),
        count: *count,
        profiles: BTreeMap::from([(product.id.clone(), name.clone())]),
    });
    let classes = classes.collect::<Vec<_>>();
    let offers = [Offer { product, cost: 1, limit: None }];
    let problem = Problem { classes: &classes, offers: &offers, partial: &[] };
    let packing = pack(&problem).unwrap();
    if let Err(lie) = pack_checker::check(&problem, &packing) {
        panic!("{lie}: {packing:?}");
    }
    packing
}

/// Layouts and counts, without what depends on the order of the classes.
fn shape(packing: &Packing) -> (u64, Vec<(String, u64)>, String) {
    let layouts = packing.filled.iter().map(|f| (f.layout.to_string(), f.count)).collect();
    (packing.gpus, layouts, serde_json::to_string(&packing.certificate).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_twice_and_in_any_order((product, demand) in demand(), turn in 0usize..12) {
        let packing = solve(product, &demand);
        prop_assert_eq!(&packing, &solve(product, &demand));
        let mut turned = demand;
        let by = turn % turned.len();
        turned.rotate_left(by);
        prop_assert_eq!(shape(&packing), shape(&solve(product, &turned)));
    }

    #[test]
    fn more_never_needs_fewer((product, demand) in demand(), at in 0usize..12, more in 1u64..30) {
        let before = solve(product, &demand).gpus;
        let mut larger = demand;
        let at = at % larger.len();
        larger[at].1 += more;
        let after = solve(product, &larger).gpus;
        prop_assert!(before <= after && after <= before + more, "{} to {}", before, after);
    }
}

#[test]
fn layouts_agree_with_plain_recursion() {
    fn grow<'a>(
        product: &Product,
        slots: &[Placed<'a>],
        now: &mut Vec<Placed<'a>>,
        from: usize,
        found: &mut Vec<Vec<(u32, String)>>,
    ) {
        let mut key = now.iter().map(|(p, start, _)| (*start, p.name.to_string())).collect::<Vec<_>>();
        key.sort();
        found.push(key);
        for index in from..slots.len() {
            now.push(slots[index]);
            if fault(product, now).is_none() {
                grow(product, slots, now, index + 1, found);
            }
            now.pop();
        }
    }
    for product in placed_products() {
        let names = all_profiles(product);
        let profiles = names.iter().map(|name| product.profile(name.as_str()).unwrap());
        let slots = profiles.flat_map(|p| p.placements.iter().map(move |at| (p, at.start, at.size)));
        let mut states = Vec::new();
        grow(product, &slots.collect::<Vec<_>>(), &mut Vec::new(), 0, &mut states);
        let parts = states.iter().flat_map(|state| {
            (0..state.len()).map(|without| {
                let mut part = state.clone();
                part.remove(without);
                part
            })
        });
        let contained = parts.collect::<BTreeSet<_>>();
        let mut maximal = states.iter().filter(|s| !contained.contains(*s)).cloned().collect::<Vec<_>>();
        maximal.sort();
        let multiset = |state: &Vec<(u32, String)>| {
            let mut names = state.iter().map(|(_, name)| name.clone()).collect::<Vec<_>>();
            names.sort();
            names
        };
        let geometries = states.iter().map(multiset).collect::<BTreeSet<_>>();
        let within = |a: &Vec<String>, b: &Vec<String>| {
            let count = |of: &Vec<String>, name: &String| of.iter().filter(|n| *n == name).count();
            a != b && a.iter().all(|name| count(a, name) <= count(b, name))
        };
        let largest = geometries.iter().filter(|g| !geometries.iter().any(|other| within(g, other))).count();
        let listed = layouts(product, &names).unwrap();
        let found = (listed.states, listed.maximal_states, listed.geometries, listed.maximal_geometries);
        assert_eq!(found, (states.len(), maximal.len(), geometries.len(), largest), "{}", product.id);
        let as_keys = listed
            .layouts
            .iter()
            .map(|l| l.instances().iter().map(|i| (i.start, i.profile.to_string())).collect::<Vec<_>>());
        assert_eq!(as_keys.collect::<Vec<_>>(), maximal, "{}", product.id);
    }
}
