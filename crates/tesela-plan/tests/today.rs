//! Today's figures: GPUs by mode, and how many are held.

mod builders;

use std::collections::BTreeMap;

use builders::*;
use tesela_model::fleet::{Fleet, Mode, Offer};
use tesela_model::quantity::Micros;
use tesela_plan::today::{figures, today};

#[test]
fn gpus_are_counted_by_offer_and_what_cannot_be_known_is_not() {
    let nodes = vec![
        node("a", H100, 8, &Offer::Exclusive),
        node("b", A100, 4, &mig_offer(A100, &[])),
        node("c", T4, 2, &Offer::TimeSliced { replicas: 4 }),
        node("d", A30, 4, &Offer::Exclusive).with(|n| n.unusable = Some("MIG-INVALID".into())),
    ];
    let found = today(&fleet(nodes), None).unwrap();
    assert_eq!(
        found.gpus_by_mode,
        BTreeMap::from([(Mode::Exclusive, 8), (Mode::Mig, 4), (Mode::TimeSliced, 2)])
    );
    assert_eq!((found.nodes, found.hourly_micros), (4, None));
    assert_eq!(today(&Fleet::default(), None), None);
}

#[test]
fn money_of_today_needs_every_price() {
    let fleet = fleet(vec![node("a", H100, 2, &Offer::Exclusive), node("b", T4, 1, &Offer::Exclusive)]);
    let hourly = |book| today(&fleet, Some(&book)).unwrap().hourly_micros;
    assert_eq!(hourly(prices(&[(H100, 200), (T4, 50)])), Some(Micros(4_500_000)));
    assert_eq!(hourly(prices(&[(H100, 200)])), None);
}

#[test]
fn the_least_number_of_gpus_that_can_hold_the_pods_is_held() {
    // Two GPUs cut alike: four 1g fit one of them, the 3g and a fifth 1g need room on another.
    let cut = mig_offer(A100, &[("1g.5gb", 0), ("1g.5gb", 1), ("1g.5gb", 2), ("1g.5gb", 3), ("3g.20gb", 4)]);
    let fleet = fleet(vec![node("a", A100, 3, &cut)]);
    let small = |n| running(workload("x", "small", n as u64), "a", "nvidia.com/mig-1g.5gb", n);
    let large = |n| running(workload("x", "large", n as u64), "a", "nvidia.com/mig-3g.20gb", n);
    let held = |workloads| figures(&fleet, &demand(workloads), None).gpus_held;
    assert_eq!(held(vec![small(4)]), 1);
    assert_eq!(held(vec![small(4), large(1)]), 1);
    assert_eq!(held(vec![small(5), large(1)]), 2);
    assert_eq!(held(vec![small(1), large(3)]), 3);
    assert_eq!(held(vec![]), 0);
}

#[test]
fn different_cuts_share_what_they_hold() {
    // Each resource alone would fit one GPU; together they fit one GPU too only if one GPU has both.
    let mut apart = node("a", A100, 0, &mig_offer(A100, &[]));
    apart.gpus = vec![
        gpu(A100, mig_offer(A100, &[("7g.40gb", 0)])),
        gpu(A100, mig_offer(A100, &[("2g.10gb", 0), ("1g.5gb", 2)])),
        gpu(A100, mig_offer(A100, &[("1g.5gb", 0), ("1g.5gb", 1), ("1g.5gb", 2)])),
    ];
    let fleet = fleet(vec![apart]);
    let some =
        |name: &str, resource: &str, n: usize| running(workload("x", name, n as u64), "a", resource, n);
    let held = |workloads| figures(&fleet, &demand(workloads), None).gpus_held;
    let two = some("two", "nvidia.com/mig-2g.10gb", 1);
    assert_eq!(held(vec![two.clone(), some("one", "nvidia.com/mig-1g.5gb", 1)]), 1);
    assert_eq!(held(vec![two.clone(), some("one", "nvidia.com/mig-1g.5gb", 4)]), 2);
    assert_eq!(
        held(vec![two, some("whole", "nvidia.com/mig-7g.40gb", 1), some("one", "nvidia.com/mig-1g.5gb", 2)]),
        3
    );
}

#[test]
fn a_known_gpu_counts_and_pods_of_others_hold_too() {
    let named = |i: usize| Some(format!("GPU-{i}"));
    let shared = node("a", T4, 3, &Offer::TimeSliced { replicas: 4 })
        .with(|n| n.gpus.iter_mut().enumerate().for_each(|(i, g)| g.uuid = named(i)))
        .with(|n| n.held_by_others = vec![holding(&workload("old", "gone", 1), "a", "nvidia.com/gpu", 1)]);
    let fleet = fleet(vec![shared, node("b", T4, 1, &Offer::Exclusive)]);
    let mut spread = running(workload("x", "w", 5), "a", "nvidia.com/gpu", 1);
    spread = running(spread, "a", "nvidia.com/gpu", 1);
    spread.running[0].place = place("GPU-0", None);
    spread.running[1].place = place("GPU-2", None);
    let found = figures(&fleet, &demand(vec![spread]), None);
    // The pod of nobody's demand may sit on GPU-0 or GPU-2.
    assert_eq!((found.gpus, found.gpus_held, found.nodes, found.nodes_held), (4, 2, 2, 1));
    assert_eq!((found.pods_served, found.pods_waiting), (2, 3));
}
