//! Cases that mig-parted and nos test, restated (mig.md 5.1 and 5.3). Same outcome, or the difference said.

use tesela_executor::wish::Wish;

use crate::deaths::done;
use crate::world::{World, counts, gpu, shown};

fn a100(instances: &[(&str, u32, Option<u32>)]) -> World {
    World::new(&format!("gpus:\n{}", gpu("a100-40gb", instances)))
}

#[test]
fn known_configs_of_mig_parted() {
    let empty = a100(&[]);
    for (wanted, valid) in [
        ("", true),
        ("1g.5gb=7", true),
        ("1g.5gb=6", true),
        ("1g.5gb=8", false),
        ("1g.5gb=3,2g.10gb=2", true),
        ("1g.5gb=2,2g.10gb=2", true),
        ("1g.5gb=2,2g.10gb=1", true),
        ("1g.5gb=4,2g.10gb=2", false),
        ("9g.99gb=1", false),
    ] {
        assert_eq!(empty.plan(0, &counts(wanted)).blocked.is_none(), valid, "{wanted}");
    }
    // Differences: a count of zero asks for nothing, here and on its own. In a file `1g.5gb: 0` alone is refused by the
    // reader, as mig-parted does; an unknown name with a zero is not looked at.
    assert_eq!(empty.plan(0, &counts("1g.5gb=0")).blocked, None);
    assert_eq!(empty.plan(0, &counts("9g.99gb=0")).blocked, None);
}

#[test]
fn each_layout_set_on_eight_gpus_is_there() {
    // config_test.go: set, then get; clearing gives empty.
    let world = World::new("gpus:\n  - {product: a100-40gb, count: 8, mig: []}\n");
    for wanted in [
        "1g.5gb=7",
        "2g.10gb=3,1g.5gb=1",
        "3g.20gb=2",
        "4g.20gb=1,3g.20gb=1",
        "7g.40gb=1",
        "1c.3g.20gb=6",
        "",
    ] {
        let plans = (0..8).map(|gpu| world.plan(gpu, &counts(wanted))).collect::<Vec<_>>();
        assert!(done(&world.apply(&plans)), "{wanted}");
        for gpu in 0..8 {
            assert_eq!(world.plan(gpu, &counts(wanted)).calls, 0, "{wanted}");
        }
    }
}

#[test]
fn modes_of_mig_parted() {
    // mode/nvml_test.go: idle, both move; here also with instances made at once.
    let world = World::new("gpus:\n  - product: h100-sxm-80gb\n");
    assert!(done(&world.apply(&[world.plan(0, &counts(""))])));
    let mode = world.live(0).mode;
    assert!(mode.current && mode.pending);
    assert!(done(&world.apply(&[world.plan(0, &Wish::Off)])));
    // Busy: mig-parted leaves the mode pending; ours does not ask at all (change.rs, refusals.rs).
}

#[test]
fn used_devices_that_would_be_lost_block() {
    let world = a100(&[("4g.20gb", 0, Some(1)), ("3g.20gb", 4, None)]);
    assert!(world.plan(0, &counts("7g.40gb=1")).blocked.is_some());
    let free = a100(&[("4g.20gb", 0, None), ("3g.20gb", 4, None)]);
    assert!(free.plan(0, &counts("7g.40gb=1")).blocked.is_none());
}

#[test]
fn only_free_devices_move() {
    // nos: of several geometries only free devices are re-made. Ours keeps free ones too where they fit.
    let world =
        a100(&[("1g.5gb", 0, Some(1)), ("1g.5gb", 1, None), ("1g.5gb", 2, None), ("3g.20gb", 4, None)]);
    let busy = world.busy(0);
    let plan = world.plan(0, &counts("1g.5gb=2,2g.10gb=1,3g.20gb=1"));
    assert_eq!((plan.keep.len(), plan.destroy.len(), plan.create.len()), (3, 1, 1));
    assert!(done(&world.apply(&[plan])));
    assert_eq!(world.busy(0), busy);
    assert_eq!(shown(&world, 0), "1g.5gb@0 1g.5gb@1 2g.10gb@2 3g.20gb@4");
}

#[test]
fn wanted_profiles_that_are_there_change_nothing() {
    let world = a100(&[("1g.5gb", 5, None), ("2g.10gb", 0, None)]);
    assert_eq!(world.plan(0, &counts("2g.10gb=1,1g.5gb=1")).calls, 0);
}

#[test]
fn a_large_free_one_is_split_and_small_free_ones_are_joined() {
    let split = a100(&[("7g.40gb", 0, None)]);
    assert!(done(&split.apply(&[split.plan(0, &counts("3g.20gb=2"))])));
    let seven = (0..7).map(|start| ("1g.5gb", start, None)).collect::<Vec<_>>();
    let join = a100(&seven);
    let plan = join.plan(0, &counts("3g.20gb=1,1g.5gb=3"));
    assert_eq!(plan.keep.len(), 3);
    assert!(done(&join.apply(&[plan])));
    assert_eq!(shown(&join, 0), "1g.5gb@0 1g.5gb@1 1g.5gb@2 3g.20gb@4");
}

#[test]
fn a_free_device_is_not_made_anew_with_another() {
    // nos re-creates every free device when one is created; ours does not touch them.
    let world = a100(&[("1g.5gb", 0, None), ("1g.5gb", 1, None)]);
    let plan = world.plan(0, &counts("1g.5gb=3"));
    assert_eq!((plan.destroy.len(), plan.create.len()), (0, 1));
}
