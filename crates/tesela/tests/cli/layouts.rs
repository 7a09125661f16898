//! `tesela layouts` against the rules of MIG.

use std::collections::BTreeSet;

use crate::harness::run;
use crate::mig_rules::{fault, placed, product};

#[test]
fn the_layouts_for_people() {
    insta::assert_snapshot!(run(&["layouts", "a30-24gb"]));
    insta::assert_snapshot!(run(&["layouts", "NVIDIA A30", "--all", "--ascii", "--width", "80"]));
    insta::assert_snapshot!(run(&[
        "layouts",
        "h100-sxm-80gb",
        "--profiles",
        "1g.10gb,3g.40gb",
        "--width",
        "60"
    ]));
}

#[test]
fn the_counts_of_the_design_and_every_listed_layout() {
    let a100 = Some("1g.5gb,2g.10gb,3g.20gb,4g.20gb,7g.40gb");
    let cases = [
        ("a100-40gb", a100, [298, 19, 38, 12]),
        ("a100-40gb", None, [723, 78, 78, 28]),
        ("h100-sxm-80gb", None, [723, 78, 78, 28]),
        ("a30-24gb", None, [26, 5, 10, 4]),
    ];
    for (id, profiles, counts) in cases {
        let mut words = vec!["layouts", id, "--format", "json"];
        words.extend(profiles.iter().flat_map(|p| ["--profiles", p]));
        let answer = run(&words).json();
        let keys = ["states", "maximal_states", "geometries", "maximal_geometries"];
        assert_eq!(keys.map(|k| answer[k].as_u64().unwrap()), counts, "{id}");
        assert_eq!(answer["product"], id);
        let layouts = answer["layouts"].as_array().unwrap();
        assert_eq!(layouts.len() as u64, counts[1]);
        let lists = layouts.iter().map(placed).collect::<Vec<_>>();
        assert!(lists.iter().all(|l| fault(product(id), l).is_none()));
        let by_start = |l: &Vec<(String, u32)>| l.iter().map(|(n, s)| (*s, n.clone())).collect::<Vec<_>>();
        assert!(lists.windows(2).all(|w| by_start(&w[0]) < by_start(&w[1])), "in order and each once");
        assert_eq!(lists.iter().collect::<BTreeSet<_>>().len(), lists.len());
    }
}

#[test]
fn an_alias_becomes_the_name_of_the_table() {
    let answer = run(&["layouts", "gb200-186gb", "--profiles", "7g.189gb", "--format", "json"]).json();
    assert_eq!(placed(&answer["layouts"][0])[0].0, "7g.186gb");
}

#[test]
fn the_same_in_yaml() {
    insta::assert_snapshot!(run(&["layouts", "a30-24gb", "--profiles", "4g.24gb", "--format", "yaml"]));
}

#[test]
fn what_cannot_be_listed_is_refused() {
    run(&["layouts", "NVIDIA L4"]).refused(&["NVIDIA L4", "a30-24gb", "--products"]);
    run(&["layouts", "h100-sxm-80g"]).refused(&["did you mean h100-sxm-80gb"]);
    run(&["layouts", "rtx-pro-5000-48gb"]).refused(&["rtx-pro-5000-48gb"]);
    run(&["layouts", "a30-24gb", "--profiles", "1g.5gb"]).refused(&["1g.5gb", "a30-24gb", "1g.6gb"]);
    run(&["layouts", "a30-24gb", "--profiles", "1g.6gb,,2g.12gb"]).refused(&["comma"]);
    run(&["layouts", "a30-24gb", "--profiles", "1g.6gb,1g.6gb"]).refused(&["1g.6gb", "twice"]);
}

#[test]
fn a_product_of_the_users_own() {
    let words = ["layouts", "toy-2", "--products", "products.yaml", "--format", "json"];
    let answer = run(&words).json();
    assert_eq!(answer["maximal_states"], 2);
    run(&["layouts", "a30-24gb", "--products", "prices.yaml"]).refused(&[
        "prices.yaml",
        "PriceBook",
        "ProductTable",
    ]);
}
