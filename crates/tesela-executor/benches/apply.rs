//! A change on 8 GPUs with 7 instances each, beside taking everything away and making it anew, in the same run:
//! `cargo bench -p tesela-executor --bench apply`.
//!
//! `changes` are the driver's calls that change something, `reads` all others, those of planning included; `driver s` is
//! the simulated time of all of them, each as long as on hardware (`tesela_sim::assumptions`); `ms` the real time, the
//! simulated driver included. Destroy-all is what NVIDIA's mig-parted does with a GPU that differs: every compute and GPU
//! instance goes, then the wanted ones are made, large ones first, where the driver likes; without a journal, and it ends
//! at the first instance that is in use.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark prints its table, looks at the clock, and may stop at a fault"
)]
#![allow(dead_code, reason = "the tests use more of the module that it shares with them")]

#[path = "../tests/executor/world.rs"]
mod world;

use std::time::Instant;

use tesela_executor::apply::Outcome;
use tesela_executor::goal::Goal;
use tesela_executor::plan::GpuPlan;
use tesela_model::driver::{Answer, GpuDriver, GpuUuid};

use crate::world::{Fate, World, counts, gpu};

const GPUS: usize = 8;

fn main() {
    println!("{GPUS} H100, each cut into 7 x 1g.10gb");
    println!(
        "{:<38} {:<12} {:>7} {:>6} {:>8} {:>7}  became",
        "change", "way", "changes", "reads", "driver s", "ms"
    );
    for (what, wanted, busy) in [
        ("one instance less on each", "1g.10gb=6", false),
        ("the same, the six that stay busy", "1g.10gb=6", true),
        ("four joined to one 3g.40gb on each", "1g.10gb=3,3g.40gb=1", false),
        ("one 7g.80gb on each", "7g.80gb=1", false),
        ("as it is", "1g.10gb=7", false),
    ] {
        let world = node(busy);
        let plans = minimal(what, &world.copy(), wanted);
        destroy_all(&world, &plans);
    }
}

fn node(busy: bool) -> World {
    let pid = |start: u32| (busy && start != 3).then_some(100 + start);
    let seven = (0..7).map(|start| ("1g.10gb", start, pid(start))).collect::<Vec<_>>();
    World::new(&format!("latency: true\ngpus:\n{}", gpu("h100-sxm-80gb", &seven).repeat(GPUS)))
}

fn now(world: &World) -> f64 {
    world.driver.with(|s| s.now()).as_secs_f64()
}

fn minimal(what: &str, world: &World, wanted: &str) -> Vec<GpuPlan> {
    let (fate, started, before) = (Fate::default(), Instant::now(), now(world));
    let states = world.states_until(&fate);
    let table = tesela_model::product::ProductTable::builtin();
    let plan = |state| tesela_executor::plan::plan(state, table, &counts(wanted));
    let plans = states.iter().map(plan).collect::<Vec<_>>();
    let outcomes = world.apply_until(&plans, &fate).unwrap().unwrap();
    let done = outcomes.iter().all(|o| matches!(o, Outcome::Done | Outcome::Unchanged));
    row(
        what,
        "minimal",
        &fate,
        now(world) - before,
        started,
        if done { "as wanted" } else { "not as wanted" },
    );
    plans
}

fn destroy_all(world: &World, plans: &[GpuPlan]) {
    let (fate, started, before) = (Fate::default(), Instant::now(), now(world));
    let (mut refused, mut between) = (0, 0);
    world.with_driver(&fate, |driver| {
        for (at, plan) in plans.iter().enumerate() {
            let goal = plan.goal.as_ref().unwrap();
            // It reads what is there before, as the other does.
            let gpu = world.uuid(at);
            let there = Goal::of(&tesela_executor::observe::live(driver, &gpu).unwrap());
            if there != *goal && anew(driver, &gpu, goal).is_err() {
                let same = world.goal(at) == there;
                *(if same { &mut refused } else { &mut between }) += 1;
            }
        }
    });
    let became = match (refused, between) {
        (0, 0) => "as wanted".to_owned(),
        _ => format!("{refused} GPUs refused and as before, {between} between"),
    };
    row("", "destroy all", &fate, now(world) - before, started, &became);
}

fn anew(driver: &dyn GpuDriver, gpu: &GpuUuid, goal: &Goal) -> Answer<()> {
    for instance in driver.gpu_instances(gpu)? {
        for compute in driver.compute_instances(gpu, instance.id)? {
            driver.destroy_compute_instance(gpu, instance.id, compute.id)?;
        }
        driver.destroy_gpu_instance(gpu, instance.id)?;
    }
    let mut wanted = goal.instances.clone();
    wanted.sort_by_key(|i| std::cmp::Reverse(i.placement.size));
    for instance in wanted {
        let made = driver.create_gpu_instance(gpu, instance.profile, None)?;
        for compute in &instance.compute {
            let offered = driver.compute_instance_profiles(gpu, made.id)?;
            let profile = offered.iter().find(|p| p.slices == compute.slices).unwrap().id;
            driver.create_compute_instance(gpu, made.id, profile, None)?;
        }
    }
    Ok(())
}

fn row(what: &str, way: &str, fate: &Fate, driver: f64, started: Instant, became: &str) {
    let ms = started.elapsed().as_secs_f64() * 1000.0;
    let (changes, reads) = (fate.changes.get(), fate.reads.get());
    println!("{what:<38} {way:<12} {changes:>7} {reads:>6} {driver:>8.2} {ms:>7.1}  {became}");
}
