//! Reconfiguration beside brute force on few GPUs, and its properties.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod reconfigure_checker;

use std::collections::BTreeMap;

use proptest::prelude::*;
use reconfigure_checker::{check, cost, counts, needs_no_stop, profiles, states, wanted};
use tesela_model::layout::Geometry;
use tesela_model::product::{Product, ProductTable, ProfileName};
use tesela_plan::layouts::default_profiles;
use tesela_plan::reconfigure::{
    Answer, Executor, Gpu, Held, Proof, Reconfiguration, ReconfigureError, Request, Seat, Step, Target,
    Usage, reconfigure,
};

fn product(id: &str) -> &'static Product {
    ProductTable::builtin().find(id).unwrap()
}

fn name(text: &str) -> ProfileName {
    ProfileName::parse(text).unwrap()
}

fn gpu(label: &str, instances: &[(&str, u32, Usage)]) -> Gpu {
    let held = |&(profile, start, usage): &(&str, u32, Usage)| Held { profile: name(profile), start, usage };
    Gpu {
        name: label.to_owned(),
        instances: instances.iter().map(held).collect(),
        executor: Executor::Native,
    }
}

fn busy(weight: u64) -> Usage {
    Usage::Busy { weight, pinned: false }
}

const PINNED: Usage = Usage::Busy { weight: 1, pinned: true };

fn target(counts: &[(&str, u64)]) -> Target {
    Target::Counts(counts.iter().map(|(profile, n)| (name(profile), *n)).collect())
}

fn changed(product: &Product, gpus: &[Gpu], target: &Target, spares: u64) -> Reconfiguration {
    let request = Request { product, gpus, target, spares };
    match reconfigure(&request).unwrap() {
        Answer::Change(way) => {
            check(&request, &way).unwrap();
            *way
        }
        Answer::Blocked(why) => panic!("{why:?}"),
    }
}

/// A small cluster and a target.
#[derive(Clone, Debug)]
struct Case {
    product: &'static str,
    gpus: Vec<Gpu>,
    target: Target,
    spares: u64,
}

/// Numbers that choose; what they mean depends on the product.
fn case() -> impl Strategy<Value = Case> {
    let usage = (0..10u8, 1..4u64);
    let gpu = (any::<u32>(), prop::collection::vec(usage, 8), 0..6u8, any::<u32>(), any::<u16>());
    let id = prop::sample::select(vec!["a100-40gb", "a30-24gb", "h100-sxm-80gb"]);
    (id, prop::collection::vec(gpu, 1..=4), 0..4u8, 0..3u64).prop_map(|(id, drawn, kind, spares)| {
        let product = product(id);
        let names = default_profiles(product).iter().map(ToString::to_string).collect::<Vec<_>>();
        let all = states(product, &names);
        let pick = |n: u32| &all[n as usize % all.len()];
        let mut gpus = Vec::new();
        let mut wants: BTreeMap<ProfileName, u64> = BTreeMap::new();
        let mut taken: BTreeMap<ProfileName, u64> = BTreeMap::new();
        for (index, (now, uses, executor, then, drop)) in drawn.iter().enumerate() {
            let held = pick(*now).iter().zip(uses).enumerate().filter(|(at, _)| drop >> at & 3 != 3);
            let held = held.map(|(_, (i, &(kind, weight)))| Held {
                profile: i.profile.clone(),
                start: i.start,
                usage: match kind {
                    0..=4 => Usage::Idle,
                    5 => Usage::Busy { weight, pinned: true },
                    _ => Usage::Busy { weight, pinned: false },
                },
            });
            let held = held.collect::<Vec<_>>();
            let executor = if *executor == 0 { Executor::GpuOperator } else { Executor::Native };
            for h in held.iter().filter(|h| h.usage != Usage::Idle) {
                *taken.entry(h.profile.clone()).or_insert(0) += 1;
            }
            // Either what other layouts hold, or a part of what is there.
            let from = if kind == 0 {
                held.iter().map(|h| h.profile.clone()).collect()
            } else {
                pick(*then).iter().map(|i| i.profile.clone()).collect::<Vec<_>>()
            };
            from.into_iter().for_each(|profile| *wants.entry(profile).or_insert(0) += 1);
            gpus.push(Gpu { name: format!("node-{index}"), instances: held, executor });
        }
        if kind != 3 {
            // Everybody gets a home, as far as counts go.
            for (profile, n) in taken {
                let want = wants.entry(profile).or_insert(0);
                *want = (*want).max(n);
            }
        }
        Case { product: id, gpus, target: Target::Counts(wants), spares }
    })
}

/// The least (weight, operations) over every choice of final layouts; `None` when none has the counts.
fn brute_force(request: &Request<'_>) -> Option<(u64, u64)> {
    let wanted = wanted(request.target);
    let names = wanted.keys().cloned().collect::<Vec<_>>();
    let all = states(request.product, &profiles(request.target));
    let mut sums: BTreeMap<Vec<u64>, (u64, u64)> = BTreeMap::from([(vec![0; names.len()], (0, 0))]);
    for gpu in request.gpus {
        let mut options: BTreeMap<Vec<u64>, (u64, u64)> = BTreeMap::new();
        for state in &all {
            let Some(cost) = cost(request.product, gpu, state) else { continue };
            let held = counts(state);
            let key = names.iter().map(|n| held.get(n).copied().unwrap_or(0)).collect();
            let known = options.entry(key).or_insert(cost);
            *known = (*known).min(cost);
        }
        let mut next: BTreeMap<Vec<u64>, (u64, u64)> = BTreeMap::new();
        for (sum, (weight, operations)) in &sums {
            for (held, (w, o)) in &options {
                let key = sum.iter().zip(held).map(|(a, b)| a + b).collect::<Vec<_>>();
                if key.iter().zip(&names).any(|(n, name)| *n > wanted[name]) {
                    continue;
                }
                let cost = (weight + w, operations + o);
                let known = next.entry(key).or_insert(cost);
                *known = (*known).min(cost);
            }
        }
        sums = next;
    }
    sums.get(&names.iter().map(|n| wanted[n]).collect::<Vec<_>>()).copied()
}

/// Whether some profile has more busy instances than the target has instances.
fn is_homeless(request: &Request<'_>) -> bool {
    let wanted = wanted(request.target);
    let mut busy: BTreeMap<String, u64> = BTreeMap::new();
    for held in request.gpus.iter().flat_map(|g| &g.instances).filter(|h| h.usage != Usage::Idle) {
        *busy.entry(held.profile.to_string()).or_insert(0) += 1;
    }
    busy.iter().any(|(name, n)| wanted.get(name).copied().unwrap_or(0) < *n)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn few_gpus_are_as_brute_force_finds_them(case in case()) {
        let request = Request {
            product: product(case.product),
            gpus: &case.gpus,
            target: &case.target,
            spares: case.spares,
        };
        let best = if is_homeless(&request) { None } else { brute_force(&request) };
        match (reconfigure(&request).unwrap(), best) {
            (Answer::Change(way), Some(best)) => {
                prop_assert_eq!((way.disturbed_weight, way.operations), best);
                prop_assert_eq!(way.operations_bound, way.operations);
                prop_assert_eq!(check(&request, &way), Ok(()));
            }
            (Answer::Blocked(why), None) => {
                prop_assert!(!why.is_empty() && why.iter().all(|b| !b.reason.is_empty()));
            }
            (answer, best) => prop_assert!(false, "{answer:?} beside {best:?}"),
        }
    }
}

/// The answer as text, GPUs by name, so that the order of the request does not show.
fn by_name(request: &Request<'_>) -> String {
    let label = |gpu: usize| request.gpus[gpu].name.clone();
    let seat = |seat: &Seat| match seat {
        Seat::Gpu(gpu, i) => format!("{} {i}", label(*gpu)),
        Seat::Spare(spare, i) => format!("spare {spare} {i}"),
    };
    match reconfigure(request).unwrap() {
        Answer::Blocked(why) => format!("{why:?}"),
        Answer::Change(way) => {
            let gpus = way.gpus.iter().map(|c| {
                format!("{}: {:?} {:?} {:?} {:?}", label(c.gpu), c.keep, c.destroy, c.create, c.disturbed)
            });
            let steps = way.steps.iter().map(|step| match step {
                Step::Create(at) => format!("create {}", seat(at)),
                Step::Destroy(at) => format!("destroy {}", seat(at)),
                Step::Move { from, to } => format!("move {} to {}", seat(from), seat(to)),
                Step::Stop(at) => format!("stop {}", seat(at)),
                Step::Start { from, to } => format!("start {} at {}", seat(from), seat(to)),
            });
            let all = gpus.chain(steps).collect::<Vec<_>>().join("\n");
            let figures =
                (way.disturbed_weight, way.lower_bound, way.operations, way.stopped, way.spares_wanted);
            format!("{all}\n{figures:?} {:?} {:?}", way.certificate, way.proof)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_gpus_does_not_matter(case in case(), turn in 0..4usize) {
        let request = Request { product: product(case.product), gpus: &case.gpus, target: &case.target, spares: case.spares };
        let first = by_name(&request);
        prop_assert_eq!(by_name(&request), first.clone(), "the same twice");
        let mut gpus = case.gpus.clone();
        let turn = turn % gpus.len();
        gpus.rotate_left(turn);
        gpus.iter_mut().for_each(|gpu| gpu.instances.reverse());
        prop_assert_eq!(by_name(&Request { gpus: &gpus, ..request }), first);
    }

    #[test]
    fn what_is_there_already_takes_no_step(case in case()) {
        let mut counts: BTreeMap<ProfileName, u64> = BTreeMap::new();
        for held in case.gpus.iter().flat_map(|g| &g.instances) {
            *counts.entry(held.profile.clone()).or_insert(0) += 1;
        }
        let way = changed(product(case.product), &case.gpus, &Target::Counts(counts), 0);
        prop_assert!(way.is_empty() && way.gpus.iter().all(|gpu| !gpu.changes()));
        prop_assert_eq!((way.disturbed_weight, way.lower_bound, way.operations), (0, 0, 0));
    }

    #[test]
    fn nobody_stops_where_an_order_without_stops_exists(case in case()) {
        let request = Request { product: product(case.product), gpus: &case.gpus, target: &case.target, spares: 0 };
        if let Answer::Change(way) = reconfigure(&request).unwrap() {
            prop_assert_eq!(way.stopped == 0, needs_no_stop(&request, &way));
            prop_assert_eq!(way.stopped == 0, way.spares_wanted == 0);
        }
    }

    #[test]
    fn geometries_for_each_gpu_are_as_brute_force_finds_them(case in case(), turn in 0..4usize) {
        // Every GPU's geometry goes to another GPU, so each profile has as many instances as before.
        let product = product(case.product);
        let mut geometries: BTreeMap<Geometry, u64> = BTreeMap::new();
        for gpu in &case.gpus {
            *geometries.entry(gpu.instances.iter().map(|h| h.profile.clone()).collect()).or_insert(0) += 1;
        }
        let mut gpus = case.gpus.clone();
        let turn = turn % gpus.len();
        let mut names = gpus.iter().map(|g| g.name.clone()).collect::<Vec<_>>();
        names.rotate_left(turn);
        gpus.iter_mut().zip(names).for_each(|(gpu, name)| gpu.name = name);
        let target = Target::Geometries(geometries);
        let way = changed(product, &gpus, &target, case.spares);
        prop_assert_eq!(way.disturbed_weight, 0, "each may stay as it is");
        prop_assert!(way.is_empty());
    }
}

#[test]
fn room_is_made_by_moving_the_lightest() {
    let p = product("a100-40gb");
    let gpus = [
        gpu("a", &[("1g.5gb", 0, busy(5)), ("1g.5gb", 4, busy(1))]),
        gpu("b", &[("3g.20gb", 4, PINNED)]),
        gpu("c", &[("1g.5gb", 6, busy(2)), ("2g.10gb", 0, Usage::Idle)]),
    ];
    let way = changed(p, &gpus, &target(&[("7g.40gb", 1), ("3g.20gb", 1), ("1g.5gb", 3)]), 0);
    assert_eq!((way.disturbed_weight, way.lower_bound, way.proof), (2, 2, Proof::Certificate));
    assert_eq!((way.spares_wanted, way.stopped), (0, 0));
    assert_eq!(
        way.destroy_all_weight,
        2 + way.gpus[..2].iter().filter(|c| c.changes()).map(|c| [6, 1][c.gpu]).sum::<u64>()
    );
    let first = way.steps.iter().position(|s| matches!(s, Step::Move { .. })).unwrap();
    assert!(way.steps[..first].iter().any(|s| matches!(s, Step::Create(_))), "the next instance comes first");
}

#[test]
fn a_circle_needs_a_spare_gpu_or_a_stop() {
    // Each GPU is full, and each needs what the other holds: a 4g can only sit at 0.
    let p = product("a100-40gb");
    let gpus = [
        gpu("a", &[("3g.20gb", 0, busy(1)), ("3g.20gb", 4, busy(1))]),
        gpu("b", &[("4g.20gb", 0, busy(1)), ("2g.10gb", 4, busy(1)), ("1g.5gb", 6, busy(9))]),
    ];
    let goal = Target::Geometries(BTreeMap::from([
        (["4g.20gb", "3g.20gb"].map(name).into_iter().collect(), 1),
        (["3g.20gb", "2g.10gb", "1g.5gb"].map(name).into_iter().collect(), 1),
    ]));
    let way = changed(p, &gpus, &goal, 0);
    assert_eq!((way.stopped, way.spares, way.spares_wanted), (1, 0, 1));
    assert!(way.steps.iter().any(|s| matches!(s, Step::Stop(_))));
    let with_spare = changed(p, &gpus, &goal, 1);
    assert_eq!((with_spare.stopped, with_spare.spares), (0, 1));
    assert_eq!(with_spare.disturbed_weight, way.disturbed_weight);
}

#[test]
fn mig_manager_takes_the_whole_gpu() {
    let p = product("a100-40gb");
    let mut gpus = [gpu("a", &[("1g.5gb", 0, busy(1)), ("1g.5gb", 6, Usage::Idle)]), gpu("b", &[])];
    let goal = target(&[("1g.5gb", 1), ("3g.20gb", 3)]);
    let native = changed(p, &gpus, &goal, 0);
    assert_eq!((native.disturbed_weight, native.gpu_operator.weight), (0, 1));
    gpus.iter_mut().for_each(|gpu| gpu.executor = Executor::GpuOperator);
    let whole = changed(p, &gpus, &goal, 0);
    assert_eq!((whole.disturbed_weight, whole.gpu_operator.weight), (1, 1));
    gpus[0].instances[0].usage = PINNED;
    let request = Request { product: p, gpus: &gpus, target: &goal, spares: 0 };
    let Answer::Blocked(why) = reconfigure(&request).unwrap() else { panic!("a pinned pod was hit") };
    assert!(why[0].reason.contains("MIG Manager") && why[0].gpus == ["a"], "{why:?}");
}

#[test]
fn what_blocks_is_said() {
    let p = product("a100-40gb");
    let blocked = |gpus: &[Gpu], goal: &Target| {
        let request = Request { product: p, gpus, target: goal, spares: 0 };
        match reconfigure(&request).unwrap() {
            Answer::Blocked(why) => why,
            Answer::Change(way) => panic!("{way:?}"),
        }
    };
    let pinned = [gpu("a", &[("1g.5gb", 2, PINNED)]), gpu("b", &[])];
    let why = blocked(&pinned, &target(&[("7g.40gb", 2), ("1g.5gb", 1)]));
    assert!(why.iter().any(|b| b.missing == 1 && b.reason.contains("needs at least 3 GPUs")), "{why:?}");
    let why = blocked(&pinned, &target(&[("4g.20gb", 2), ("1g.5gb", 1)]));
    assert_eq!(why[0].profile, Some(name("4g.20gb")));
    assert!(why[0].missing == 1 && why[0].gpus == ["a"], "{why:?}");
    let busy = [gpu("a", &[("1g.5gb", 0, busy(1)), ("1g.5gb", 1, busy(1))])];
    let why = blocked(&busy, &target(&[("1g.5gb", 1)]));
    assert!(
        why[0].missing == 1 && why[0].reason.contains("2 of 1g.5gb are busy and the target has 1"),
        "{why:?}"
    );
    let why = blocked(&[], &target(&[("1g.5gb", 1)]));
    assert_eq!(why[0].missing, 1);
}

#[test]
fn requests_without_sense_are_refused() {
    let p = product("a100-40gb");
    let refuse = |gpus: &[Gpu], goal: &Target| {
        reconfigure(&Request { product: p, gpus, target: goal, spares: 0 }).unwrap_err()
    };
    let one = gpu("a", &[("1g.5gb", 0, Usage::Idle)]);
    let goal = target(&[("1g.5gb", 1)]);
    assert!(matches!(refuse(&[one.clone(), one.clone()], &goal), ReconfigureError::NamedTwice { .. }));
    let overlap = gpu("a", &[("1g.5gb", 0, Usage::Idle), ("2g.10gb", 0, Usage::Idle)]);
    assert!(matches!(refuse(&[overlap], &goal), ReconfigureError::State { .. }));
    let unknown = refuse(std::slice::from_ref(&one), &target(&[("1g.9gb", 1)])).to_string();
    assert!(unknown.contains("1g.9gb"), "{unknown}");
    let two = Target::Geometries(BTreeMap::from([([name("1g.5gb")].into_iter().collect(), 2)]));
    assert!(matches!(refuse(std::slice::from_ref(&one), &two), ReconfigureError::Sum { wanted: 2, gpus: 1 }));
    let none =
        Target::Geometries(BTreeMap::from([(["7g.40gb", "1g.5gb"].map(name).into_iter().collect(), 1)]));
    assert!(matches!(refuse(&[one], &none), ReconfigureError::NoLayout { .. }));
}
