//! Ends the executor at every point of a change, lets it recover, and looks at what is there.

use tesela_executor::apply::Outcome;
use tesela_executor::goal::Goal;
use tesela_executor::plan::GpuPlan;

use crate::world::{Death, Fate, World};

/// How the unsynced end of the journal is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cuts {
    /// Lost, whole, and at a few bytes between.
    Few,
    /// At every byte.
    All,
}

/// Ends the change at every event, before and after, with the journal cut in each way, and recovers. Gives the number
/// of deaths. Panics when a GPU ends between.
pub(crate) fn everywhere(world: &World, plans: &[GpuPlan], cuts: Cuts) -> u32 {
    let whole = world.copy();
    let fate = Fate::default();
    whole.apply_until(plans, &fate).unwrap().unwrap();
    let mut deaths = 0;
    for event in 0..fate.events() {
        for after in [false, true] {
            deaths += at(world, plans, Death { event, after }, cuts);
        }
    }
    deaths
}

/// The same at one point; one death for each cut.
pub(crate) fn at(world: &World, plans: &[GpuPlan], death: Death, cuts: Cuts) -> u32 {
    let dead = world.copy();
    assert!(dead.apply_until(plans, &Fate::at(death)).is_none(), "{death:?} did not come");
    let length = dead.platter.borrow().unsynced.len();
    let written = match cuts {
        Cuts::All => (0..=length).collect::<Vec<_>>(),
        Cuts::Few => {
            let mut few =
                vec![0, 1.min(length), 17.min(length), length / 2, length.saturating_sub(1), length];
            few.dedup();
            few
        }
    };
    for &bytes in &written {
        let again = dead.copy();
        again.crash(bytes);
        again.recover();
        settled(world, plans, &again, &format!("{death:?}, {bytes} of {length} bytes"));
    }
    u32::try_from(written.len()).unwrap()
}

/// Every GPU is as it was or as wanted, busy instances are the same ones, and nothing is left to do.
pub(crate) fn settled(before: &World, plans: &[GpuPlan], after: &World, what: &str) {
    assert!(!after.journal().is_open(), "{what}: the journal is open: {:?}", after.journal().records);
    for (gpu, plan) in plans.iter().enumerate() {
        let (was, is) = (before.goal(gpu), after.goal(gpu));
        let wanted = plan.goal.as_ref().map_or(is == was, |goal| reached(after, gpu, goal));
        let waits = plan
            .goal
            .as_ref()
            .is_some_and(|goal| after.live(gpu).mode.pending == goal.mig && is.instances.is_empty());
        assert!(is == was || wanted || waits, "{what}: GPU {gpu} is between: {is:?}");
        assert_eq!(before.busy(gpu), after.busy(gpu), "{what}: GPU {gpu}");
    }
    assert!(after.recover().is_empty(), "{what}");
}

/// Whether nothing is left to do to a goal.
pub(crate) fn reached(world: &World, gpu: usize, goal: &Goal) -> bool {
    tesela_executor::steps::steps(&world.live(gpu), goal).is_empty()
}

/// What the two ends of a change may be, for the messages of tests.
pub(crate) fn done(outcomes: &[Outcome]) -> bool {
    outcomes.iter().all(|o| matches!(o, Outcome::Done | Outcome::Unchanged))
}
