//! Sizing of small random services against trying everything.

#![expect(
    clippy::expect_used,
    unreachable_pub,
    reason = "helpers of tests; the module is also part of another test"
)]

mod size_checker;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tesela_model::product::{Product, ProductTable, ProfileName};
use tesela_plan::layouts::{default_profiles, layouts};
use tesela_plan::slo::{Service, ServiceOption, SizeError, SizeProof, size};

/// The largest multisets of one GPU, by profile.
fn geometries(product: &Product, profiles: &[ProfileName]) -> BTreeSet<Vec<u64>> {
    let all = layouts(product, profiles).expect("the table has placements");
    let count = |l: &tesela_model::layout::Layout| {
        profiles.iter().map(|p| l.instances().iter().filter(|i| i.profile == *p).count() as u64).collect()
    };
    all.layouts.iter().map(count).collect()
}

/// Fewest GPUs for so many instances of each profile.
fn packed(wanted: &[u64], geometries: &BTreeSet<Vec<u64>>, known: &mut BTreeMap<Vec<u64>, u64>) -> u64 {
    if wanted.iter().all(|n| *n == 0) {
        return 0;
    }
    if let Some(&gpus) = known.get(wanted) {
        return gpus;
    }
    let mut best = u64::MAX;
    for geometry in geometries {
        let rest: Vec<u64> = wanted.iter().zip(geometry).map(|(w, g)| w.saturating_sub(*g)).collect();
        if rest != wanted {
            best = best.min(1 + packed(&rest, geometries, known));
        }
    }
    known.insert(wanted.to_vec(), best);
    best
}

/// Every cover of a rate that has no instance too many.
fn covers(rate: u64, serves: &[u64]) -> Vec<Vec<u64>> {
    let Some((&one, rest)) = serves.split_first() else {
        return if rate == 0 { vec![vec![]] } else { vec![] };
    };
    let most = if one == 0 { 0 } else { rate.div_ceil(one) };
    let mut found = Vec::new();
    for count in 0..=most {
        for mut cover in covers(rate.saturating_sub(count * one), rest) {
            cover.insert(0, count);
            found.push(cover);
        }
    }
    found
}

fn fewest(
    services: &[Vec<Vec<u64>>],
    sums: &[u64],
    known: &mut BTreeMap<Vec<u64>, u64>,
    g: &BTreeSet<Vec<u64>>,
) -> u64 {
    let Some((first, rest)) = services.split_first() else { return packed(sums, g, known) };
    let added = |cover: &Vec<u64>| sums.iter().zip(cover).map(|(a, b)| a + b).collect::<Vec<_>>();
    first.iter().map(|cover| fewest(rest, &added(cover), known, g)).min().unwrap_or(u64::MAX)
}

fn product(a30: bool) -> &'static Product {
    ProductTable::builtin()
        .find(if a30 { "a30-24gb" } else { "a100-80gb" })
        .expect("the built-in table has it")
}

/// One instance of each profile for one process: no double-memory variants.
fn profiles(product: &Product) -> Vec<ProfileName> {
    let mut by_slices = BTreeMap::new();
    for name in default_profiles(product) {
        by_slices.entry(name.slices()).or_insert(name);
    }
    by_slices.into_values().collect()
}

type Wanted = (u64, Vec<Option<u64>>);

fn services(names: &[ProfileName], wanted: &[Wanted]) -> Vec<Service> {
    let one = |(k, (rate, serves)): (usize, &Wanted)| {
        let options = names.iter().zip(serves).filter_map(|(profile, serves)| {
            let rate_milli = (*serves)?;
            Some(ServiceOption { profile: profile.clone(), rate_milli, batch: 1, processes: 1 })
        });
        Service { name: format!("s{k}"), rate_milli: *rate, options: options.collect() }
    };
    wanted.iter().enumerate().map(one).collect()
}

fn demand() -> impl Strategy<Value = Vec<Wanted>> {
    let serves = prop::collection::vec(prop::option::weighted(0.8, 1u64..60), 5);
    let served = serves.prop_filter("something serves it", |s| s[..4].iter().any(Option::is_some));
    let wanted = (0u64..90, served).prop_map(|(rate, serves)| {
        // At most seven instances of the smallest option, so that trying everything ends.
        let least = serves.iter().flatten().min().copied().unwrap_or(1);
        (rate.min(7 * least), serves)
    });
    prop::collection::vec(wanted, 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn as_few_as_trying_everything_finds(a30: bool, wanted in demand()) {
        let product = product(a30);
        let names = profiles(product);
        let services = services(&names, &wanted);
        prop_assume!(services.iter().all(|s| !s.options.is_empty()));
        let found = size(product, &services).expect("it can be served");
        let serves = |s: &[Option<u64>]| s.iter().take(names.len()).map(|s| s.unwrap_or(0)).collect::<Vec<_>>();
        let all: Vec<_> = wanted.iter().map(|(rate, s)| covers(*rate, &serves(s))).collect();
        let geometries = geometries(product, &names);
        let fewest = fewest(&all, &vec![0; names.len()], &mut BTreeMap::new(), &geometries);
        prop_assert_eq!(found.gpus, fewest);
        prop_assert!(found.proof != SizeProof::None, "{:?}", found.proof);
        prop_assert_eq!(size_checker::faults(product, &services, &found), Vec::<String>::new());
    }
}

#[test]
fn what_cannot_be_sized_is_told() {
    let product = product(true);
    let none = Service { name: "a".into(), rate_milli: 1, options: vec![] };
    let told = size(product, std::slice::from_ref(&none)).unwrap_err().to_string();
    assert_eq!(
        told,
        "no instance of a30-24gb serves a within its latency; allow more latency or smaller batches"
    );
    let name: ProfileName = "1g.6gb".parse().expect("a name");
    let option = |rate_milli| ServiceOption { profile: name.clone(), rate_milli, batch: 1, processes: 1 };
    let twice = Service { options: vec![option(1), option(2)], ..none.clone() };
    assert!(matches!(size(product, &[twice]), Err(SizeError::Twice { .. })));
    let huge = Service { rate_milli: u64::MAX, options: vec![option(1)], ..none.clone() };
    assert!(matches!(size(product, &[huge]), Err(SizeError::TooLarge { .. })));
    let idle = Service { rate_milli: 0, ..none };
    assert_eq!(size(product, &[idle]).map(|s| (s.gpus, s.proven_optimal)), Ok((0, true)));
}
