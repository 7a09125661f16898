//! A few deaths of the executor; `cargo xtask soak` tries many.

use tesela_executor::apply::Outcome;
use tesela_executor::goal::Goal;
use tesela_executor::wish::Wish;
use tesela_model::driver::Code;
use tesela_sim::call::Call;
use tesela_sim::fault::Fault;

use crate::deaths::{Cuts, at, everywhere, settled};
use crate::world::{Death, Fate, World, counts, gpu};

fn two_gpus() -> World {
    let first = [("1g.5gb", 0, Some(7)), ("2g.10gb", 2, None), ("3g.20gb", 4, None)];
    let second = [("1g.5gb", 6, None), ("4g.20gb", 0, Some(8))];
    World::new(&format!("gpus:\n{}{}", gpu("a100-40gb", &first), gpu("a100-40gb", &second)))
}

fn plans(world: &World) -> Vec<tesela_executor::plan::GpuPlan> {
    let wishes = ["1g.5gb=5,2g.10gb=1", "4g.20gb=1,1g.5gb+me=1,2g.10gb=1"];
    let plans = wishes.iter().enumerate().map(|(gpu, wish)| world.plan(gpu, &counts(wish)));
    let plans = plans.collect::<Vec<_>>();
    assert!(plans.iter().all(|p| p.blocked.is_none() && p.calls > 0), "{plans:?}");
    plans
}

#[test]
fn dead_anywhere_it_ends_as_wanted_or_as_before() {
    let world = two_gpus();
    let deaths = everywhere(&world, &plans(&world), Cuts::Few);
    assert!(deaths > 200, "{deaths}");
}

#[test]
fn dead_with_the_last_record_cut_at_each_byte() {
    let world = two_gpus();
    let plans = plans(&world);
    let fate = Fate::default();
    world.copy().apply_until(&plans, &fate).unwrap().unwrap();
    // Before the sync of an intent, its bytes and those of what was noted before are all that may be cut.
    for event in [fate.events() / 3, fate.events() / 2] {
        at(&world, &plans, Death { event, after: true }, Cuts::All);
    }
}

#[test]
fn dead_while_it_goes_back() {
    let world = two_gpus();
    let plans = plans(&world);
    // The last creation of the first GPU fails, every time.
    let creations = u32::try_from(plans[0].create.len()).unwrap();
    let fault = Fault { times: Some(5), ..Fault::nth(Call::CreateComputeInstance, creations, Code::Unknown) };
    world.driver.with(|s| s.lay(fault));
    let fate = Fate::default();
    let outcomes = world.copy().apply_until(&plans, &fate).unwrap().unwrap();
    assert!(matches!(outcomes[0], Outcome::RolledBack(_)), "{outcomes:?}");
    let deaths = everywhere(&world, &plans, Cuts::Few);
    assert!(deaths > 300, "{deaths}");
}

#[test]
fn dead_between_a_mode_and_its_reset() {
    for (machine, wish) in [
        ("gpus:\n  - {product: a100-40gb, clients: [dcgm]}\n", counts("3g.20gb=2")),
        ("gpus:\n  - {product: a100-40gb, passthrough: true}\n", counts("3g.20gb=2")),
        ("gpus:\n  - {product: h100-sxm-80gb, mig: [{profile: 1g.10gb, start: 0}]}\n", Wish::Off),
        ("gpus:\n  - {product: a30-24gb, mig: [{profile: 1g.6gb, start: 0}]}\n", Wish::Off),
    ] {
        for reset in [false, true] {
            let mut world = World::new(machine);
            world.reset = reset;
            let plans = [world.plan(0, &wish)];
            assert!(everywhere(&world, &plans, Cuts::Few) > 10);
        }
    }
}

#[test]
fn dead_twice() {
    let world = two_gpus();
    let plans = plans(&world);
    let fate = Fate::default();
    world.copy().apply_until(&plans, &fate).unwrap().unwrap();
    for event in (0..fate.events()).step_by(3) {
        let dead = world.copy();
        assert!(dead.apply_until(&plans, &Fate::at(Death { event, after: true })).is_none());
        dead.crash(usize::MAX);
        let fate = Fate::default();
        dead.copy().recover_until(&fate).unwrap().unwrap();
        for second in 0..fate.events() {
            let again = dead.copy();
            assert!(
                again.recover_until(&Fate::at(Death { event: second, after: second % 2 == 0 })).is_none()
            );
            again.crash(9);
            again.recover();
            settled(&world, &plans, &again, &format!("{event}, then {second}"));
        }
    }
}

#[test]
fn a_reboot_between_ends_as_wanted() {
    let world = World::new(&format!(
        "gpus:\n{}",
        gpu("h100-sxm-80gb", &[("1g.10gb", 0, None), ("3g.40gb", 4, None)])
    ));
    let plans = [world.plan(0, &counts("1g.10gb=1,2g.20gb=2"))];
    let fate = Fate::default();
    world.copy().apply_until(&plans, &fate).unwrap().unwrap();
    for event in 0..fate.events() {
        let dead = world.copy();
        assert!(dead.apply_until(&plans, &Fate::at(Death { event, after: true })).is_none());
        dead.crash(usize::MAX);
        dead.driver.with(tesela_sim::Simulator::reboot);
        // MIG mode and instances are gone with the driver. Where work had begun it is finished.
        let begun = !dead.journal().open().is_empty();
        assert_eq!(dead.goal(0), Goal::off());
        dead.recover();
        assert!(!dead.journal().is_open());
        let wanted = crate::deaths::reached(&dead, 0, plans[0].goal.as_ref().unwrap());
        assert!(if begun { wanted } else { wanted || dead.goal(0) == Goal::off() }, "{event}");
    }
}

#[test]
fn what_somebody_else_made_meanwhile_is_not_removed() {
    let world = two_gpus();
    let plans = plans(&world);
    // Between the first destroy and the rest, a person makes an instance by hand.
    let whole = world.copy();
    let fate = Fate::default();
    whole.apply_until(&plans, &fate).unwrap().unwrap();
    let dead = (0..fate.events()).find_map(|event| {
        let dead = world.copy();
        dead.apply_until(&plans, &Fate::at(Death { event, after: true }));
        let gone = dead.live(0).instances.len() == 2;
        gone.then_some(dead)
    });
    let dead = dead.unwrap();
    dead.crash(usize::MAX);
    let uuid = dead.uuid(0);
    let there = |p: &&tesela_sim::board::BoardProfile| p.name.as_str() == "2g.10gb+me";
    let profile = tesela_sim::board::Board::of(&"a100-40gb".parse().unwrap());
    let made = profile.unwrap().profiles().iter().find(there).map(|p| p.id);
    let Some(id) = made else { return };
    use tesela_model::driver::GpuDriver as _;
    dead.driver.create_gpu_instance(&uuid, id, None).unwrap();
    let before = dead.goal(0);
    let recovered = dead.recover();
    assert!(
        matches!(&recovered[0].1, Outcome::Between { undo, .. } if undo.to_string().contains("somebody else")),
        "{recovered:?}"
    );
    assert_eq!(dead.goal(0), before);
    assert!(dead.journal().is_open());
}

#[test]
fn dead_at_some_points_of_random_changes() {
    let mut dice = crate::world::Dice(42);
    for _ in 0..25 {
        let (world, plans) = crate::random::node(&mut dice);
        let fate = Fate::default();
        world.copy().apply_until(&plans, &fate).unwrap().unwrap();
        for _ in 0..6 {
            let event = u32::try_from(dice.below(fate.events() as usize)).unwrap();
            at(&world, &plans, Death { event, after: dice.below(2) == 0 }, Cuts::Few);
        }
    }
}
