//! What a change touches, and what it leaves alone.

use proptest::prelude::*;
use tesela_executor::apply::Outcome;
use tesela_executor::plan::{Blocked, Change};
use tesela_model::product::ProductTable;

use crate::deaths::done;
use crate::random;
use crate::world::{Dice, World, counts, gpu, shown};

fn seven_busy() -> String {
    let seven = (0..7).map(|start| ("1g.5gb", start, Some(100 + start))).collect::<Vec<_>>();
    gpu("a100-40gb", &seven)
}

#[test]
fn of_seven_one_goes() {
    let mut seven = (0..7).map(|start| ("1g.5gb", start, Some(100 + start))).collect::<Vec<_>>();
    seven[3].2 = None;
    let world = World::new(&format!("gpus:\n{}", gpu("a100-40gb", &seven)));
    let busy = world.busy(0);
    let plan = world.plan(0, &counts("1g.5gb=6"));
    assert_eq!(plan.change, Change::Geometry);
    assert_eq!((plan.keep.len(), plan.create.len(), plan.blocked.clone()), (6, 0, None));
    assert_eq!(plan.destroy.iter().map(|p| p.start).collect::<Vec<_>>(), [3]);
    assert_eq!((plan.calls, plan.calls_of_destroy_all), (2, 26));
    assert!(done(&world.apply(&[plan])));
    assert_eq!(world.busy(0), busy);
    assert_eq!(shown(&world, 0), "1g.5gb@0 1g.5gb@1 1g.5gb@2 1g.5gb@4 1g.5gb@5 1g.5gb@6");
    let again = world.plan(0, &counts("1g.5gb=6"));
    assert_eq!((again.change, again.calls), (Change::None, 0));
}

#[test]
fn of_seven_busy_ones_none_goes_without_being_told() {
    let world = World::new(&format!("gpus:\n{}", seven_busy()));
    let plan = world.plan(0, &counts("1g.5gb=6"));
    assert_eq!(plan.destroy.len(), 1);
    assert_eq!(plan.disturbed.len(), 1);
    let text = plan.blocked.as_ref().unwrap().to_string();
    assert!(text.contains("is in use by process 10") && text.contains("(work)"), "{text}");
    assert!(text.contains("7x 1g.5gb can be had"), "{text}");
    let before = world.driver.with(|s| s.state().revision);
    assert_eq!(world.apply(&[plan]), [Outcome::Blocked]);
    assert_eq!(world.driver.with(|s| s.state().revision), before);
}

#[test]
fn a_busy_gpu_beside_one_to_be_set_up_is_not_touched() {
    let machine = format!("gpus:\n  - product: a100-40gb\n{}", seven_busy());
    let world = World::new(&machine);
    let busy = world.busy(1);
    let plans = [world.plan(0, &counts("3g.20gb=2")), world.plan(1, &counts("1g.5gb=7"))];
    assert_eq!((plans[0].change, plans[1].change), (Change::MigModeReset, Change::None));
    assert_eq!(world.apply(&plans), [Outcome::Done, Outcome::Unchanged]);
    assert_eq!(world.busy(1), busy);
    assert_eq!(shown(&world, 0), "3g.20gb@0 3g.20gb@4");
}

#[test]
fn a_process_without_an_instance_may_be_on_any() {
    let world =
        World::new(&format!("gpus:\n{}", gpu("a100-40gb", &[("1g.5gb", 0, None), ("1g.5gb", 1, Some(7))])));
    let mut state = world.state(0);
    state.processes[0].gpu_instance = None;
    state.processes[0].compute_instance = None;
    let plan = tesela_executor::plan::plan(&state, ProductTable::builtin(), &counts("1g.5gb=1"));
    assert!(
        matches!(&plan.blocked, Some(Blocked::Busy { instances, .. }) if instances.len() == 1),
        "{:?}",
        plan.blocked
    );
}

#[test]
fn half_made_instances_are_seen_and_used_or_removed() {
    let machine = "gpus:\n  - product: a100-40gb\n    mig: [{profile: 1g.5gb, start: 0, compute: []}, {profile: 2g.10gb, start: 2, compute: []}]\n";
    let world = World::new(machine);
    assert_eq!(shown(&world, 0), "1g.5gb@0! 2g.10gb@2!");
    let plan = world.plan(0, &counts("2g.10gb=1"));
    assert_eq!(plan.calls, 2, "one is removed, the other gets what it lacks");
    assert!(done(&world.apply(&[plan])));
    assert_eq!(shown(&world, 0), "2g.10gb@2");
    // MIG on and nothing else: what leaks capacity goes.
    let world = World::new(machine);
    assert!(done(&world.apply(&[world.plan(0, &counts(""))])));
    assert_eq!(shown(&world, 0), "");
}

#[test]
fn compute_instances_inside_a_kept_instance_change_alone() {
    let machine = "gpus:\n  - product: a100-40gb\n    mig: [{profile: 3g.20gb, start: 4, compute: [1c.3g.20gb, 1c.3g.20gb, 1c.3g.20gb]}]\n    processes: [{pid: 9, instance: 0, compute: 2, memory_mib: 50}]\n";
    let world = World::new(machine);
    let busy = world.busy(0);
    let plan = world.plan(0, &counts("1c.3g.20gb=1,1g.5gb=1"));
    assert_eq!(plan.blocked, None);
    assert_eq!(plan.keep.len(), 1);
    let gone = plan.destroy.iter().map(|p| p.profile.as_str()).collect::<Vec<_>>();
    assert_eq!(gone, ["1c.3g.20gb", "1c.3g.20gb"]);
    assert!(done(&world.apply(&[plan])));
    assert_eq!(world.busy(0), busy);
    assert_eq!(world.live(0).instances.iter().map(|i| i.compute.len()).collect::<Vec<_>>(), [1, 1]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn only_what_the_plan_says_is_touched(seed in any::<u64>()) {
        let mut dice = Dice(seed);
        let product = random::product(&mut dice);
        let (machine, there) = random::state(product, &mut dice);
        let (_, wanted) = random::state(product, &mut dice);
        let world = World::new(&format!("gpus:\n{machine}"));
        let busy = world.busy(0);
        let wish = random::wish(&wanted);
        let plan = world.plan(0, &wish);
        prop_assert!(plan.goal.is_some(), "{:?}: what can stand can be had", plan.blocked);
        prop_assert!(plan.calls <= plan.calls_of_destroy_all);
        prop_assert_eq!(plan.keep.len() + plan.destroy.len(), there.len());
        prop_assert_eq!(plan.keep.len() + plan.create.len(), wanted.len());
        // More than one way would have kept more instances: the plan knows none.
        let mut left = wanted.iter().map(|(n, _)| n.clone()).collect::<Vec<_>>();
        let alike = there.iter().filter(|(n, _)| left.iter().position(|l| l == n).map(|at| left.remove(at)).is_some());
        prop_assert!(plan.keep.len() <= alike.count());
        let blocked = plan.blocked.is_some();
        let before = world.goal(0);
        let (destroyed, goal) = (plan.destroy.clone(), plan.goal.clone().unwrap());
        let outcome = world.apply(&[plan]).remove(0);
        prop_assert_eq!(world.busy(0), busy);
        if blocked {
            prop_assert_eq!(outcome, Outcome::Blocked);
            prop_assert_eq!(world.goal(0), before);
        } else {
            prop_assert!(done(&[outcome]));
            prop_assert!(crate::deaths::reached(&world, 0, &goal));
            prop_assert!(destroyed.iter().all(|p| p.profile.ends_with("gb") || p.profile.contains(['+', '-'])));
            let again = world.plan(0, &wish);
            prop_assert_eq!(again.calls, 0);
        }
    }
}

#[test]
fn what_is_in_use_in_passing_is_waited_for() {
    let one = gpu("h100-sxm-80gb", &[("1g.10gb", 0, None)]);
    let world = World::new(&format!("in_use_after_destroy: {{answers: 3}}\ngpus:\n{one}"));
    assert!(done(&world.apply(&[world.plan(0, &counts("7g.80gb=1"))])));
    assert_eq!(shown(&world, 0), "7g.80gb@0");
    let waits = world.told.borrow().iter().filter(|t| t.starts_with("Waiting")).count();
    assert_eq!(waits, 3);
}
