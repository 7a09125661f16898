//! Demands whose optimum is known from elsewhere: the optimum is met, proven, and the proof holds.

mod pack_checker;

use std::collections::BTreeMap;

use tesela_model::product::{ProductTable, ProfileName};
use tesela_plan::pack::{Class, Offer, Problem, pack, pack_product};

#[test]
fn known_optima_are_met_and_proven() {
    let mut cases = 0;
    for line in include_str!("data/pack-cases.txt").lines().filter(|l| !l.starts_with('#')) {
        let mut words = line.split_whitespace();
        let product = ProductTable::builtin().find(words.next().unwrap()).unwrap();
        let best = words.next().unwrap().parse::<u64>().unwrap();
        let mut classes = Vec::new();
        for word in words {
            let (name, count) = word.split_once('=').unwrap();
            let profile = ProfileName::parse(name).unwrap();
            classes.push(Class {
                name: name.to_owned(),
                count: count.parse().unwrap(),
                profiles: BTreeMap::from([(product.id.clone(), profile)]),
            });
        }
        let offers = [Offer { product, cost: 1, limit: None }];
        let problem = Problem { classes: &classes, offers: &offers, partial: &[] };
        let packing = pack(&problem).unwrap();
        assert_eq!((packing.gpus, packing.lower_bound, packing.proven_optimal), (best, best, true), "{line}");
        pack_checker::check(&problem, &packing).unwrap_or_else(|lie| panic!("{line}: {lie}"));
        cases += 1;
    }
    assert_eq!(cases, 36);
}

#[test]
fn nothing_asked_takes_nothing() {
    let product = ProductTable::builtin().find("a30-24gb").unwrap();
    let packing = pack_product(product, &[(ProfileName::parse("1g.6gb").unwrap(), 0)]).unwrap();
    assert_eq!((packing.gpus, packing.lower_bound, packing.proven_optimal), (0, 0, true));
    assert!(packing.filled.is_empty() && packing.certificate.prices.is_empty());
}

#[test]
fn counts_at_the_edge_of_64_bits_are_an_answer_or_an_error() {
    let product = ProductTable::builtin().find("a30-24gb").unwrap();
    let name = |text| ProfileName::parse(text).unwrap();
    let one = pack_product(product, &[(name("1g.6gb"), u64::MAX)]).unwrap();
    assert_eq!(one.gpus, u64::MAX / 4 + 1);
    let many = [(name("1g.6gb"), u64::MAX), (name("4g.24gb"), u64::MAX)];
    let error = pack_product(product, &many).unwrap_err();
    assert!(error.to_string().contains("too large"), "{error}");
}
