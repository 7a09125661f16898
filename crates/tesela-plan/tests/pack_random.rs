//! Random demands: every claim of a packing is re-derived, and small ones are compared with brute force.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod pack_checker;

use std::collections::{BTreeMap, BTreeSet};

use pack_checker::{Placed, check, fault};
use tesela_model::layout::Layout;
use tesela_model::product::{Product, ProductTable, ProfileName};
use tesela_plan::layouts::{all_profiles, default_profiles};
use tesela_plan::pack::{Class, Offer, Packing, Partial, Problem, Proof, pack};

/// SplitMix64: the same numbers on every machine.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let at = usize::try_from(self.below(from.len() as u64)).unwrap();
        &from[at]
    }
}

fn placed_products() -> Vec<&'static Product> {
    ProductTable::builtin().products().iter().filter(|p| p.has_placements()).collect()
}

/// Splits about `n` instances over profiles at random.
fn classes(dice: &mut Dice, product: &Product, names: &[ProfileName], n: u64) -> Vec<Class> {
    let weights = names.iter().map(|_| dice.below(8)).collect::<Vec<_>>();
    let sum = weights.iter().sum::<u64>().max(1);
    let each = names.iter().zip(weights);
    let class = |(name, weight): (&ProfileName, u64)| Class {
        name: name.to_string(),
        count: n * weight / sum,
        profiles: BTreeMap::from([(product.id.clone(), name.clone())]),
    };
    each.map(class).collect()
}

fn random_layout(dice: &mut Dice, product: &Product, steps: u64) -> Layout {
    let names = all_profiles(product);
    let mut layout = Layout::empty(product);
    for _ in 0..steps {
        let name = dice.pick(&names);
        let start = dice.pick(&product.profile(name.as_str()).unwrap().placements).start;
        let grown = layout.instances().iter().map(|i| (i.profile.clone(), i.start));
        if let Ok(larger) = Layout::new(product, grown.chain([(name.clone(), start)])) {
            layout = larger;
        }
    }
    layout
}

fn solved(problem: &Problem<'_>) -> Packing {
    let packing = pack(problem).unwrap();
    if let Err(lie) = check(problem, &packing) {
        panic!("{lie}\n{:?}\n{packing:?}", problem.classes);
    }
    packing
}

#[test]
fn every_product_is_packed_with_proof_at_every_size() {
    let mut dice = Dice(1);
    for product in placed_products() {
        for (n, tries) in [(30, 4), (300, 2), (10_000, 2), (1_000_000, 1)] {
            for names in [default_profiles(product), all_profiles(product)] {
                for _ in 0..tries {
                    let classes = classes(&mut dice, product, &names, n);
                    let offers = [Offer { product, cost: 1, limit: None }];
                    let packing = solved(&Problem { classes: &classes, offers: &offers, partial: &[] });
                    let said = (&product.id, n, packing.gpus, packing.lower_bound, &classes);
                    assert!(packing.proven_optimal, "not proven: {said:?}");
                }
            }
        }
    }
}

/// Demand classes by size, each with the profile it takes on each of three products.
fn mixed_classes(dice: &mut Dice, n: u64) -> Vec<Class> {
    let table = [
        ("small", ["1g.10gb", "1g.5gb", "1g.6gb"]),
        ("wide", ["1g.20gb", "1g.10gb", "2g.12gb"]),
        ("medium", ["2g.20gb", "2g.10gb", "2g.12gb"]),
        ("large", ["3g.40gb", "3g.20gb", "4g.24gb"]),
        ("larger", ["4g.40gb", "4g.20gb", ""]),
        ("whole", ["7g.80gb", "7g.40gb", ""]),
    ];
    let ids = ["h100-sxm-80gb", "a100-40gb", "a30-24gb"];
    let mut classes = Vec::new();
    for (name, profiles) in table {
        let mut taken = BTreeMap::new();
        for (id, profile) in ids.iter().zip(profiles).filter(|(_, profile)| !profile.is_empty()) {
            taken.insert(id.parse().unwrap(), profile.parse().unwrap());
        }
        classes.push(Class { name: name.to_owned(), count: dice.below(n), profiles: taken });
    }
    classes
}

fn find(id: &str) -> &'static Product {
    ProductTable::builtin().find(id).unwrap()
}

#[test]
fn mixed_fleets_are_packed_by_cost() {
    let mut dice = Dice(2);
    let (mut gaps, mut searched, mut tries) = (0, 0, 0);
    for n in [5, 30, 300, 10_000, 300_000] {
        for _ in 0..6 {
            let classes = mixed_classes(&mut dice, n);
            let offers = [
                Offer {
                    product: find("h100-sxm-80gb"),
                    cost: 2_990_000 + dice.below(9) * 10_000,
                    limit: None,
                },
                Offer { product: find("a100-40gb"), cost: 1_290_000 + dice.below(9) * 10_000, limit: None },
                Offer { product: find("a30-24gb"), cost: 600_000 + dice.below(9) * 10_000, limit: None },
            ];
            let packing = solved(&Problem { classes: &classes, offers: &offers, partial: &[] });
            tries += 1;
            gaps += u32::from(packing.cost > packing.lower_bound);
            searched += u32::from(packing.cost > packing.search_bound);
            assert!(packing.unplaced.is_empty());
            assert!(packing.cost - packing.lower_bound < 3_100_000, "{packing:?}");
        }
    }
    println!("{tries} mixed fleets: {gaps} above the certificate, {searched} above the search too");
}

#[test]
fn partly_filled_gpus_are_filled_first() {
    let mut dice = Dice(3);
    for (n, gpus) in [(20, 5), (200, 60), (3_000, 400)] {
        for product in placed_products() {
            let names = default_profiles(product);
            let classes = classes(&mut dice, product, &names, n);
            let partial = (0..gpus).map(|_| {
                let steps = dice.below(4);
                Partial {
                    product,
                    layout: random_layout(&mut dice, product, steps),
                    count: 1 + dice.below(3),
                }
            });
            let partial = partial.collect::<Vec<_>>();
            let offers = [Offer { product, cost: 1, limit: None }];
            let packing = solved(&Problem { classes: &classes, offers: &offers, partial: &partial });
            let said = (&product.id, n, packing.gpus, packing.lower_bound);
            assert!(packing.proven_optimal, "not proven: {said:?}");
            let alone = solved(&Problem { classes: &classes, offers: &offers, partial: &[] });
            assert!(packing.gpus <= alone.gpus);
        }
    }
}

/// Every multiset of the named profiles that fits beside `before`, by plain recursion.
fn fitting(product: &Product, before: &Layout, names: &[ProfileName]) -> BTreeSet<Vec<usize>> {
    fn grow<'a>(
        product: &Product,
        now: &mut Vec<Placed<'a>>,
        slots: &[(usize, Placed<'a>)],
        counts: &mut Vec<usize>,
        found: &mut BTreeSet<Vec<usize>>,
    ) {
        found.insert(counts.clone());
        for (index, (item, slot)) in slots.iter().enumerate() {
            now.push(*slot);
            counts[*item] += 1;
            if fault(product, now).is_none() {
                grow(product, now, &slots[index + 1..], counts, found);
            }
            counts[*item] -= 1;
            now.pop();
        }
    }
    let mut slots = Vec::new();
    for (item, name) in names.iter().enumerate() {
        let profile = product.profile(name.as_str()).unwrap();
        slots.extend(profile.placements.iter().map(|p| (item, (profile, p.start, p.size))));
    }
    let before =
        before.instances().iter().map(|i| (product.profile(i.profile.as_str()).unwrap(), i.start, i.size));
    let mut found = BTreeSet::new();
    grow(product, &mut before.collect(), &slots, &mut vec![0; names.len()], &mut found);
    found
}

/// Fewest unplaced, then least cost, by trying everything GPU by GPU.
fn brute_force(problem: &Problem<'_>) -> (u64, u64) {
    let goal = problem.classes.iter().map(|c| usize::try_from(c.count).unwrap()).collect::<Vec<_>>();
    let options = |product: &Product, before: &Layout| {
        let mut taken = Vec::new();
        let mut names = Vec::new();
        for (index, class) in problem.classes.iter().enumerate() {
            if let Some(name) = class.profiles.get(&product.id) {
                taken.push(index);
                names.push(name.clone());
            }
        }
        let spread = |counts: Vec<usize>| {
            let mut wide = vec![0; goal.len()];
            for (index, count) in taken.iter().zip(counts) {
                wide[*index] = count;
            }
            wide
        };
        fitting(product, before, &names).into_iter().map(spread).collect::<BTreeSet<_>>()
    };
    // What can be covered so far, and at which least cost.
    let mut reached = BTreeMap::from([(vec![0; goal.len()], 0u64)]);
    let one_more = |reached: &BTreeMap<Vec<usize>, u64>, options: &BTreeSet<Vec<usize>>, cost: u64| {
        let mut next = reached.clone();
        for (state, before) in reached {
            for option in options {
                let sum = state.iter().zip(option).map(|(a, b)| a + b).collect::<Vec<_>>();
                if sum.iter().zip(&goal).all(|(a, b)| a <= b) {
                    let known = next.entry(sum).or_insert(u64::MAX);
                    *known = (*known).min(before + cost);
                }
            }
        }
        next
    };
    for partial in problem.partial {
        let options = options(partial.product, &partial.layout);
        for _ in 0..partial.count {
            reached = one_more(&reached, &options, 0);
        }
    }
    for offer in problem.offers {
        let options = options(offer.product, &Layout::empty(offer.product));
        for _ in 0..offer.limit.unwrap_or(goal.iter().sum::<usize>() as u64) {
            let next = one_more(&reached, &options, offer.cost);
            if next == reached {
                break;
            }
            reached = next;
        }
    }
    let missing = |state: &Vec<usize>| goal.iter().zip(state).map(|(a, b)| (a - b) as u64).sum::<u64>();
    reached.iter().map(|(state, cost)| (missing(state), *cost)).min().unwrap()
}

#[test]
fn brute_force_agrees_on_small_ones() {
    let mut dice = Dice(4);
    let products = ["a100-40gb", "a30-24gb", "rtx-pro-6000-96gb", "h100-sxm-80gb"].map(find);
    for round in 0..60 {
        let product = *dice.pick(&products);
        let mut names = all_profiles(product);
        while names.len() > 4 {
            let at = usize::try_from(dice.below(names.len() as u64)).unwrap();
            names.remove(at);
        }
        let classes = names
            .iter()
            .map(|name| Class {
                name: name.to_string(),
                count: dice.below(4),
                profiles: BTreeMap::from([(product.id.clone(), name.clone())]),
            })
            .collect::<Vec<_>>();
        let partial = (0..dice.below(3)).map(|_| Partial {
            product,
            layout: random_layout(&mut dice, product, 2),
            count: 1,
        });
        let partial = partial.collect::<Vec<_>>();
        let limit = if round % 3 == 0 { Some(dice.below(3)) } else { None };
        let offers = [Offer { product, cost: 1, limit }];
        let problem = Problem { classes: &classes, offers: &offers, partial: &partial };
        let packing = solved(&problem);
        let unplaced = packing.unplaced.iter().map(|u| u.count).sum::<u64>();
        assert_eq!((unplaced, packing.cost), brute_force(&problem), "{classes:?} {partial:?} {packing:?}");
    }
}

#[test]
fn brute_force_agrees_on_small_mixed_fleets() {
    let mut dice = Dice(5);
    for round in 0..25 {
        let classes = mixed_classes(&mut dice, 3);
        let limit = |dice: &mut Dice| if round % 2 == 0 { Some(dice.below(3)) } else { None };
        let offers = [
            Offer { product: find("h100-sxm-80gb"), cost: 25 + dice.below(9), limit: limit(&mut dice) },
            Offer { product: find("a100-40gb"), cost: 12 + dice.below(5), limit: limit(&mut dice) },
            Offer { product: find("a30-24gb"), cost: 5 + dice.below(3), limit: limit(&mut dice) },
        ];
        let problem = Problem { classes: &classes, offers: &offers, partial: &[] };
        let packing = solved(&problem);
        let unplaced = packing.unplaced.iter().map(|u| u.count).sum::<u64>();
        assert_eq!((unplaced, packing.cost), brute_force(&problem), "{classes:?} {offers:?} {packing:?}");
    }
}

#[test]
fn the_search_bound_is_no_more_than_the_optimum() {
    // Two classes, so that brute force reaches demands for which only the corner relaxation finds the answer.
    let mut dice = Dice(6);
    let mut by_search = 0;
    for _ in 0..6 {
        let all = mixed_classes(&mut dice, 20);
        let classes = [all[2].clone(), all[3].clone()];
        let offers = [
            Offer { product: find("h100-sxm-80gb"), cost: 25 + dice.below(9), limit: None },
            Offer { product: find("a100-40gb"), cost: 12 + dice.below(5), limit: None },
            Offer { product: find("a30-24gb"), cost: 5 + dice.below(3), limit: None },
        ];
        let problem = Problem { classes: &classes, offers: &offers, partial: &[] };
        let packing = solved(&problem);
        assert_eq!((0, packing.cost), brute_force(&problem), "{classes:?} {offers:?} {packing:?}");
        by_search += u32::from(packing.proof == Proof::Search);
    }
    assert!(by_search > 0, "no case needed the search");
}

#[test]
fn classes_that_share_a_profile_on_one_product_only_are_kept_apart() {
    let mut dice = Dice(8);
    for _ in 0..12 {
        let mut classes = mixed_classes(&mut dice, 3);
        // "wide" and "medium" both take 2g.12gb on an A30; this one takes what "small" does, on one product only.
        classes.push(Class {
            name: "small on A30".to_owned(),
            count: dice.below(3),
            profiles: BTreeMap::from([("a30-24gb".parse().unwrap(), "1g.6gb".parse().unwrap())]),
        });
        // And these two are alike everywhere: one row, two names.
        classes.push(Class { name: "medium too".to_owned(), count: dice.below(3), ..classes[2].clone() });
        let offers = [
            Offer { product: find("a100-40gb"), cost: 13, limit: Some(2) },
            Offer { product: find("a30-24gb"), cost: 5, limit: None },
        ];
        let partial = [Partial {
            product: find("h100-sxm-80gb"),
            layout: random_layout(&mut dice, find("h100-sxm-80gb"), 2),
            count: 1,
        }];
        let problem = Problem { classes: &classes, offers: &offers, partial: &partial };
        let packing = solved(&problem);
        let unplaced = packing.unplaced.iter().map(|u| u.count).sum::<u64>();
        assert_eq!((unplaced, packing.cost), brute_force(&problem), "{classes:?} {packing:?}");
    }
}

#[test]
fn the_checker_finds_lies() {
    let mut dice = Dice(9);
    let product = find("a100-40gb");
    let classes = classes(&mut dice, product, &default_profiles(product), 200);
    let partial =
        (0..20).map(|_| Partial { product, layout: random_layout(&mut dice, product, 2), count: 1 });
    let partial = partial.collect::<Vec<_>>();
    let offers = [Offer { product, cost: 1, limit: None }];
    let problem = Problem { classes: &classes, offers: &offers, partial: &partial };
    let packing = solved(&problem);
    assert!(packing.proven_optimal && !packing.certificate.offsets.is_empty());
    let lies: [fn(&mut Packing); 9] = [
        |p| p.filled[0].count += 1,
        |p| p.gpus -= 1,
        |p| p.lower_bound += 1,
        |p| p.wasted_memory_units += 1,
        |p| p.certificate.offsets[0].value -= 1,
        |p| *p.certificate.prices.values_mut().next_back().unwrap() += 1,
        |p| p.certificate.scale -= 1,
        |p| p.proven_optimal = false,
        |p| p.filled.last_mut().unwrap().added[0].instance.start += 1,
    ];
    for (index, lie) in lies.into_iter().enumerate() {
        let mut told = packing.clone();
        lie(&mut told);
        assert!(check(&problem, &told).is_err(), "lie {index} went unnoticed");
    }
}
