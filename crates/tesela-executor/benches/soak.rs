//! Ends the executor at every point of random changes: `cargo xtask soak`, or
//! `cargo bench -p tesela-executor --bench soak -- --cases 200 --seed 7`.
//!
//! A case is a node of one to three GPUs in random states, a wish for each, and sometimes a driver that refuses. The
//! executor dies before and after every journal write, sync and driver call, with the unsynced end of the journal cut at
//! each byte, and sometimes once more while it recovers. Every GPU must then be as it was or as wanted.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a soak prints what it did and stops at the first fault"
)]
#![allow(dead_code, reason = "the tests use more of the modules that it shares with them")]

#[path = "../tests/executor/deaths.rs"]
mod deaths;
#[path = "../tests/executor/random.rs"]
mod random;
#[path = "../tests/executor/world.rs"]
mod world;

use tesela_model::driver::Code;
use tesela_sim::call::Call;
use tesela_sim::fault::Fault;

use crate::deaths::{Cuts, everywhere, settled};
use crate::random::node;
use crate::world::{Death, Dice, Fate, World};

fn main() {
    let words = std::env::args().collect::<Vec<_>>();
    let number = |flag: &str, default: u64| {
        let at = words.iter().position(|word| word == flag);
        at.and_then(|at| words.get(at + 1)?.parse().ok()).unwrap_or(default)
    };
    let quick = words.iter().any(|word| word == "--quick");
    let (cases, seed) = (number("--cases", if quick { 2 } else { 60 }), number("--seed", 1));
    let mut all = 0u64;
    for case in 0..cases {
        let seed = seed.wrapping_mul(1_000_003).wrapping_add(case);
        // The line names the case before it runs: a fault is found again with it.
        let deaths = one(seed, quick);
        all += deaths;
        println!("seed {seed}: {deaths} deaths");
    }
    println!("{cases} changes, {all} deaths, each ended as wanted or as before");
}

fn one(seed: u64, quick: bool) -> u64 {
    let mut dice = Dice(seed);
    let (mut world, plans) = node(&mut dice);
    world.reset = dice.below(2) == 0;
    if dice.below(3) == 0 {
        lay(&world, &mut dice);
    }
    let cuts = if quick { Cuts::Few } else { Cuts::All };
    let mut deaths = u64::from(everywhere(&world, &plans, cuts));
    let fate = Fate::default();
    world.copy().apply_until(&plans, &fate).unwrap().unwrap();
    for _ in 0..20 {
        let event = u32::try_from(dice.below(fate.events() as usize)).unwrap();
        let dead = world.copy();
        assert!(dead.apply_until(&plans, &Fate::at(Death { event, after: dice.below(2) == 0 })).is_none());
        dead.crash(dice.below(400));
        let again = Fate::default();
        let Ok(recovered) = dead.copy().recover_until(&again).unwrap() else { continue };
        if recovered.is_empty() || again.events() == 0 {
            continue;
        }
        let event = u32::try_from(dice.below(again.events() as usize)).unwrap();
        assert!(dead.recover_until(&Fate::at(Death { event, after: dice.below(2) == 0 })).is_none());
        dead.crash(dice.below(400));
        dead.recover();
        settled(&world, &plans, &dead, &format!("seed {seed}, dead twice"));
        deaths += 2;
    }
    deaths
}

/// A driver that refuses one kind of call a few times. Never so often that the way back gives up.
fn lay(world: &World, dice: &mut Dice) {
    let calls = [
        Call::CreateGpuInstance,
        Call::CreateComputeInstance,
        Call::DestroyGpuInstance,
        Call::DestroyComputeInstance,
        Call::SetMigMode,
    ];
    let codes = [Code::InsufficientResources, Code::InUse, Code::Unknown, Code::Timeout];
    let call = calls[dice.below(calls.len())];
    let code = codes[dice.below(codes.len())];
    let n = u32::try_from(dice.below(4)).unwrap() + 1;
    let times = u32::try_from(dice.below(8)).unwrap() + 1;
    world.driver.with(|s| s.lay(Fault { times: Some(times), ..Fault::nth(call, n, code) }));
}
