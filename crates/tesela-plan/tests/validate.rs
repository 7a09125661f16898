//! The validator finds nothing in a good plan and names each fault of a broken one by its rule.

#[path = "validate/broken.rs"]
mod broken;
mod builders;
#[path = "validate/example.rs"]
mod example;

use std::collections::BTreeSet;

use example::{Example, example};
use tesela_plan::validate::{Rule, validate};

fn rules(example: &Example) -> BTreeSet<&'static str> {
    validate(&example.input(), &example.plan).iter().map(|f| f.rule).collect()
}

#[test]
fn a_plan_made_by_hand_for_twenty_nodes_is_valid() {
    let example = example();
    assert_eq!(example.fleet.nodes.len(), 20);
    let faults = validate(&example.input(), &example.plan);
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn the_planners_own_plan_of_it_is_valid() {
    let example = example();
    let faults = validate(&example.input(), &tesela_plan::plan(&example.input()));
    assert!(faults.is_empty(), "{faults:#?}");
}

fn each_is_named(kind: &[broken::Broken]) {
    let good = example();
    let mut wrong = String::new();
    for (what, expected, break_it) in kind {
        let mut plan = good.clone();
        break_it(&mut plan);
        let expected = expected.iter().copied().collect::<BTreeSet<_>>();
        if rules(&plan) != expected {
            let faults = validate(&plan.input(), &plan.plan);
            let faults = faults.iter().map(|f| format!("    {f}\n")).collect::<String>();
            wrong += &format!("{what}: expected {expected:?}, found\n{faults}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn faults_of_assignments_are_named() {
    each_is_named(broken::DEMAND);
}

#[test]
fn faults_of_nodes_are_named() {
    each_is_named(broken::NODES);
}

#[test]
fn faults_of_devices_are_named() {
    each_is_named(broken::DEVICES);
}

#[test]
fn faults_of_placement_and_isolation_are_named() {
    each_is_named(broken::PLACEMENT);
}

#[test]
fn faults_of_the_proof_are_named() {
    each_is_named(broken::PROOF);
}

#[test]
fn faults_of_changes_are_named() {
    each_is_named(broken::CHANGES);
}

#[test]
fn faults_of_figures_are_named() {
    each_is_named(broken::FIGURES);
}

/// A rule that no broken plan breaks could be gone without anybody seeing.
#[test]
fn every_rule_is_broken_once() {
    let kinds = [
        broken::DEMAND,
        broken::NODES,
        broken::DEVICES,
        broken::PLACEMENT,
        broken::PROOF,
        broken::CHANGES,
        broken::FIGURES,
    ];
    let seen = kinds.iter().flat_map(|kind| kind.iter()).flat_map(|(_, rules, _)| rules.iter().copied());
    let seen = seen.collect::<BTreeSet<_>>();
    let all = Rule::ALL.iter().map(|rule| rule.id()).collect::<BTreeSet<_>>();
    assert_eq!(Rule::ALL.len(), all.len(), "two rules have one name");
    assert_eq!(seen, all);
}
