//! `tesela pack`: packings and certificates derived again, and what is refused.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::harness::run;
use crate::mig_rules::{bound, fault, placed, product};

fn pack(id: &str, profiles: &str) -> Value {
    run(&["pack", "--product", id, "--profiles", profiles, "--format", "json"]).json()
}

/// Checks every claim of an answer against the profile table.
fn check(id: &str, profiles: &str) {
    let answer = pack(id, profiles);
    let what = format!("{id} {profiles}: {answer}");
    let demand = profiles.split(',').map(|p| p.split_once('=').unwrap());
    let demand =
        demand.map(|(name, n)| (name.to_owned(), n.parse().unwrap())).collect::<BTreeMap<String, u64>>();
    let gpus = answer["gpus"].as_u64().unwrap();
    let layouts = answer["layouts"].as_array().unwrap();
    let product = product(id);
    let mut have = BTreeMap::<String, u64>::new();
    let mut used = 0;
    for layout in layouts {
        let instances = placed(layout);
        assert_eq!(fault(product, &instances), None, "{what}");
        let count = layout["count"].as_u64().unwrap();
        used += count;
        for (name, _) in instances {
            *have.entry(name).or_default() += count;
        }
    }
    assert_eq!(used, gpus, "{what}");
    let wanted = demand.clone().into_iter().filter(|(_, n)| *n > 0).collect::<BTreeMap<_, _>>();
    assert_eq!(have, wanted, "{what}");
    let lower = bound(product, &demand, &answer["certificate"]).unwrap_or_else(|why| panic!("{why}: {what}"));
    assert_eq!(u128::from(answer["lower_bound"].as_u64().unwrap()), lower, "{what}");
    assert_eq!(answer["proven_optimal"].as_bool().unwrap(), lower == u128::from(gpus), "{what}");
    assert!(lower == u128::from(gpus), "no gap on one product: {what}");
    let of = |name: &String| product.profile(name).unwrap();
    let slices: u64 = demand.iter().map(|(name, n)| u64::from(of(name).compute_slices) * n).sum();
    let units: u64 = demand.iter().map(|(name, n)| u64::from(of(name).units()) * n).sum();
    assert_eq!(answer["wasted_compute_slices"], gpus * u64::from(product.compute_slices) - slices, "{what}");
    assert_eq!(answer["wasted_memory_units"], gpus * u64::from(product.units()) - units, "{what}");
}

#[test]
fn packings_and_certificates_hold() {
    for (id, profiles) in [
        ("h100-sxm-80gb", "1g.10gb=1"),
        ("h100-sxm-80gb", "1g.10gb=0,7g.80gb=3"),
        ("h100-sxm-80gb", "1g.10gb=100,2g.20gb=50"),
        ("h100-sxm-80gb", "1g.10gb=13,1g.20gb=11,2g.20gb=7,3g.40gb=5,4g.40gb=3,7g.80gb=1"),
        ("a100-40gb", "2g.10gb=30,3g.20gb=30"),
        ("a100-40gb", "1g.5gb+me=9,1g.5gb=40,2g.10gb=3"),
        ("a100-40gb", "1g.5gb=100000,2g.10gb=300001,3g.20gb=300007,4g.20gb=200000,7g.40gb=99992"),
        ("a30-24gb", "1g.6gb=7,2g.12gb=4,4g.24gb=1"),
        ("h200-141gb", "1g.18gb=5,3g.71gb=4"),
    ] {
        check(id, profiles);
    }
}

#[test]
fn one_more_instance_never_takes_fewer_gpus() {
    let gpus = |n: u64| pack("a100-40gb", &format!("2g.10gb={n},3g.20gb=5"))["gpus"].as_u64().unwrap();
    let counts = (0..12).map(gpus).collect::<Vec<_>>();
    assert!(counts.windows(2).all(|w| w[0] <= w[1] && w[1] <= w[0] + 1), "{counts:?}");
}

#[test]
fn the_order_of_the_words_does_not_matter() {
    let one = run(&["pack", "--product", "a30-24gb", "--profiles", "1g.6gb=7,2g.12gb=3", "--format", "json"]);
    let two =
        run(&["pack", "--product", "NVIDIA A30", "--profiles", "2g.12gb=3, 1g.6gb=7", "--format", "json"]);
    assert_eq!(one.stdout, two.stdout);
}

#[test]
fn a_packing_for_people() {
    let profiles = "1g.10gb=100,2g.20gb=50,3g.40gb=7";
    insta::assert_snapshot!(run(&["pack", "--product", "h100-sxm-80gb", "--profiles", profiles]));
    let profiles = "1g.5gb=10000,2g.10gb=505,3g.20gb=799,4g.20gb=30,7g.40gb=2";
    insta::assert_snapshot!(run(&[
        "pack",
        "--product",
        "a100-40gb",
        "--profiles",
        profiles,
        "--width",
        "80"
    ]));
    insta::assert_snapshot!(run(&["pack", "--product", "a30-24gb", "--profiles", "1g.6gb=0"]));
    insta::assert_snapshot!(run(&[
        "pack",
        "--product",
        "a30-24gb",
        "--profiles",
        "1g.6gb=5",
        "--format",
        "json"
    ]));
}

#[test]
fn what_cannot_be_packed_is_refused() {
    for (product, profiles, mentions) in [
        ("h100-sxm-80gb", "1g.10bg=3", &["`1g.10bg`", "did you mean 1g.10gb"][..]),
        ("h100-sxm-80gb", "1g.5gb=3", &["`1g.5gb`", "h100-sxm-80gb"]),
        ("h100-sxm-80gb", "1g.10gb=-1", &["1g.10gb", "`-1`", "negative"]),
        ("h100-sxm-80gb", "1g.10gb=99999999999999999999999", &["99999999999999999999999", "64 bits"]),
        ("h100-sxm-80gb", "1g.10gb=many", &["`many`", "whole number"]),
        ("h100-sxm-80gb", "1g.10gb=1.5", &["`1.5`"]),
        ("h100-sxm-80gb", "1g.10gb=", &["1g.10gb", "whole number"]),
        ("h100-sxm-80gb", "1g.10gb", &["`1g.10gb`", "PROFILE=COUNT"]),
        ("h100-sxm-80gb", "", &["empty", "1g.10gb=10"]),
        ("h100-sxm-80gb", "1g.10gb=1,,2g.20gb=1", &["PROFILE=COUNT"]),
        ("h100-sxm-80gb", "1g.10gb=1,1g.10gb=2", &["1g.10gb", "twice"]),
        ("gb200-186gb", "7g.186gb=1,7g.189gb=2", &["7g.186gb", "twice"]),
        ("h100-80gb-sxm9", "1g.10gb=1", &["h100-80gb-sxm9", "h100-sxm-80gb"]),
        ("rtx-pro-5000-48gb", "1g.24gb=1", &["1g.24gb", "rtx-pro-5000-48gb"]),
    ] {
        run(&["pack", "--product", product, "--profiles", profiles]).refused(mentions);
    }
}

#[test]
fn counts_at_the_end_of_64_bits_do_not_wrap() {
    let answer = run(&[
        "pack",
        "--product",
        "a30-24gb",
        "--profiles",
        "1g.6gb=18446744073709551615",
        "--format",
        "json",
    ]);
    match answer.code {
        Some(0) => assert_eq!(answer.json()["gpus"], 4_611_686_018_427_387_904_u64),
        _ => answer.refused(&["too large"]),
    }
    let two = "1g.6gb=18446744073709551615,4g.24gb=18446744073709551615";
    run(&["pack", "--product", "a30-24gb", "--profiles", two]).refused(&["too large"]);
}
