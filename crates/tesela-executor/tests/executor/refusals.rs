//! What cannot be done: said with the reason, and nothing half done.

use std::time::Duration;

use tesela_executor::apply::{ApplyError, Outcome, Stop};
use tesela_executor::journal::JournalError;
use tesela_executor::plan::{Blocked, Change};
use tesela_executor::wish::Wish;
use tesela_model::driver::{Code, GpuDriver as _};
use tesela_model::product::ProductTable;
use tesela_sim::SimDriver;
use tesela_sim::call::{Call, Rights};
use tesela_sim::fault::{Effect, Fault};

use crate::deaths::done;
use crate::world::{Fate, World, counts, gpu, shown};

fn cut() -> World {
    let there = [("1g.5gb", 0, Some(7)), ("1g.5gb", 1, None), ("2g.10gb", 2, None), ("3g.20gb", 4, None)];
    World::new(&format!("gpus:\n{}", gpu("a100-40gb", &there)))
}

#[test]
fn a_creation_that_fails_brings_the_former_layout_back() {
    for (call, n) in [
        (Call::CreateGpuInstance, 1),
        (Call::CreateGpuInstance, 2),
        (Call::CreateComputeInstance, 2),
        (Call::DestroyGpuInstance, 2),
        (Call::ComputeInstanceProfiles, 1),
    ] {
        for code in [Code::InsufficientResources, Code::Unknown, Code::NoPermission] {
            let world = cut();
            let (before, busy) = (world.goal(0), world.busy(0));
            // As often as the way forward tries; the way back then goes through.
            world.driver.with(|s| s.lay(Fault { times: Some(5), ..Fault::nth(call, n, code) }));
            let plan = world.plan(0, &counts("1g.5gb=3,1g.10gb=1"));
            assert_eq!(plan.blocked, None);
            let outcome = world.apply(&[plan]).remove(0);
            if matches!(outcome, Outcome::Between { .. }) {
                // Refused on the way back too. The journal knows, and the next run ends it.
                assert_eq!(code, Code::NoPermission, "{call:?} {n}: {outcome:?}");
                assert!(world.journal().is_open());
                world.driver.with(tesela_sim::Simulator::clear_faults);
                assert!(matches!(world.recover()[0].1, Outcome::RolledBack(_)));
            } else {
                assert!(matches!(outcome, Outcome::RolledBack(_)), "{call:?} {n} {code:?}: {outcome:?}");
            }
            assert_eq!(world.goal(0), before, "{call:?} {n} {code:?}");
            assert_eq!(world.busy(0), busy);
        }
    }
}

#[test]
fn an_answer_that_lies_is_found_out() {
    for call in [Call::CreateGpuInstance, Call::CreateComputeInstance, Call::DestroyGpuInstance] {
        let world = cut();
        let before = world.goal(0);
        world.driver.with(|s| {
            s.lay(Fault { effect: Effect::DoAndRefuse(Code::Timeout), ..Fault::nth(call, 1, Code::Timeout) });
        });
        let outcome = world.apply(&[world.plan(0, &counts("1g.5gb=3,1g.10gb=1"))]).remove(0);
        assert!(
            matches!(&outcome, Outcome::RolledBack(Stop::Refused { error, .. }) if error.code == Code::Timeout),
            "{outcome:?}"
        );
        assert_eq!(world.goal(0), before);
    }
}

#[test]
fn in_use_for_ever_ends_at_the_deadline_and_names_the_process() {
    let world = cut();
    let before = world.goal(0);
    let uuid = world.uuid(0);
    let live = world.live(0);
    let wide = live.instances.iter().find(|i| i.placement.start == 4).unwrap();
    let plan = world.plan(0, &counts("1g.5gb=2"));
    assert_eq!(plan.blocked, None);
    // A process that comes to the last instance after everybody was looked for: here, just before it would go.
    let fault = Fault { times: None, ..Fault::always(Call::DestroyComputeInstance, Code::InUse) };
    world.driver.with(|s| s.lay(fault.on_instance(wide.id)));
    let outcome = world.apply(&[plan]).remove(0);
    let Outcome::RolledBack(Stop::InUse { step, waited, holders }) = &outcome else { panic!("{outcome:?}") };
    assert_eq!(step, "destroy the compute instance at 0:3 of 3g.20gb@4");
    assert_eq!((*waited, holders.len()), (Duration::from_secs(30), 0));
    let Outcome::RolledBack(stop) = &outcome else { return };
    assert!(stop.to_string().contains("a monitor such as DCGM"), "{stop}");
    assert_eq!(world.goal(0), before);
    assert!(world.driver.gpu_instances(&uuid).unwrap().len() == 4);
}

#[test]
fn a_process_that_came_after_the_plan_is_named_and_nothing_is_done() {
    let mut world = cut();
    let plan = world.plan(0, &counts("1g.5gb=2"));
    start(&world, 4, 4711);
    world.options.wait_for_processes = Duration::from_secs(60);
    let revision = world.driver.with(|s| s.state().revision);
    let outcome = world.apply(&[plan]).remove(0);
    let Outcome::Untouched(Stop::InUse { waited, holders, .. }) = &outcome else { panic!("{outcome:?}") };
    assert_eq!(*waited, Duration::from_secs(60));
    assert_eq!(holders[0].to_string(), "4711 (late)");
    assert_eq!(world.driver.with(|s| s.state().revision), revision);
    // With patience and a process that ends, it goes on.
    world.driver.with(|s| {
        let at = s.state().now + 5_000_000;
        let mut state = s.state().clone();
        let gpu = state.gpus[0].uuid.clone();
        let what = tesela_sim::fault::Happening::ProcessEnds(4711);
        state.schedule.push(tesela_sim::fault::Scheduled { at, gpu, what });
        *s = tesela_sim::Simulator::restore(state).unwrap();
    });
    let plan = world.plan(0, &counts("1g.5gb=2"));
    assert!(matches!(plan.blocked, Some(Blocked::Busy { .. })));
    let outcomes = world.apply(&[plan]);
    assert!(done(&outcomes), "{outcomes:?}");
}

fn start(world: &World, at: u32, pid: u32) {
    let uuid = world.uuid(0);
    let live = world.live(0);
    let instance = live.instances.iter().find(|i| i.placement.start == at).unwrap();
    let on = Some((instance.id, instance.compute[0].id));
    world.driver.with(|s| {
        let mut process = s.state().gpus[0].processes[0].clone();
        process.pid = pid;
        process.name = Some("late".to_owned());
        process.on = on;
        s.start_process(&uuid, process).unwrap();
    });
}

#[test]
fn a_gpu_that_is_lost_midway_stops_and_the_others_go_on() {
    let idle = [("1g.5gb", 0, None), ("3g.20gb", 4, None)];
    let text = gpu("a100-40gb", &idle).repeat(3);
    let world = World::new(&format!("gpus:\n{text}"));
    let plans = (0..3).map(|gpu| world.plan(gpu, &counts("7g.40gb=1"))).collect::<Vec<_>>();
    let lost = Fault { effect: Effect::Lose, ..Fault::nth(Call::DestroyGpuInstance, 2, Code::GpuIsLost) };
    world.driver.with(|s| s.lay(lost.on(&world_uuid(s, 1))));
    let outcomes = world.apply(&plans);
    assert!(matches!(outcomes[..], [Outcome::Done, Outcome::Lost(_), Outcome::Done]), "{outcomes:?}");
    assert!(!world.journal().is_open());
    assert_eq!(shown(&world, 2), "7g.40gb@0");
}

fn world_uuid(simulator: &tesela_sim::Simulator, gpu: usize) -> tesela_model::driver::GpuUuid {
    simulator.state().gpus[gpu].uuid.clone()
}

#[test]
fn what_fits_no_gpu_is_refused_with_the_nearest() {
    let world = cut();
    let before = world.driver.with(|s| s.state().revision);
    let plan = world.plan(0, &counts("1g.5gb=4,2g.10gb=2"));
    let text = plan.blocked.as_ref().unwrap().to_string();
    assert_eq!(
        text,
        "no layout has 4x 1g.5gb + 2x 2g.10gb; the largest part of it that fits is 3x 1g.5gb + 2x 2g.10gb"
    );
    assert_eq!((plan.change, plan.goal.clone(), plan.keep.len()), (Change::None, None, 4));
    assert_eq!(world.apply(&[plan]), [Outcome::Blocked]);
    assert_eq!(world.driver.with(|s| s.state().revision), before);
}

#[test]
fn names_of_other_products_are_refused_and_aliases_taken() {
    let h100 = World::new("gpus:\n  - {product: h100-sxm-80gb, mig: []}\n");
    let text = h100.plan(0, &counts("1g.5gb=7")).blocked.unwrap().to_string();
    assert!(
        text.contains("`1g.5gb` is not a MIG profile of h100-sxm-80gb") && text.contains("1g.10gb"),
        "{text}"
    );
    // The double-memory instance of an A100-40GB is the plain one of an H100.
    let plan = h100.plan(0, &counts("1g.10gb=7"));
    assert_eq!(plan.create.len(), 7);
    let a100 = World::new("gpus:\n  - {product: a100-40gb, mig: []}\n");
    assert_eq!(a100.plan(0, &counts("1g.10gb=4")).create.len(), 4);
    assert!(a100.plan(0, &counts("1g.10gb=5")).blocked.is_some());
    // Names that early drivers gave (mig.md 7.7).
    let gb200 = World::new("gpus:\n  - {product: gb200-186gb, mig: []}\n");
    let plan = gb200.plan(0, &counts("7g.189gb=1"));
    assert_eq!(plan.create[0].profile, "7g.186gb");
    let a100 = World::new("gpus:\n  - {product: a100-80gb, mig: [{profile: 7g.80gb, start: 0}]}\n");
    let plan = a100.plan(0, &counts("7g.79gb=1"));
    assert_eq!((plan.change, plan.keep[0].profile.as_str()), (Change::None, "7g.80gb"));
    let text = a100.plan(0, &counts("5c.7g.80gb=1")).blocked.unwrap().to_string();
    assert!(text.contains("holds compute instances of 1, 2, 3, 4, 7 slices"), "{text}");
}

#[test]
fn a_driver_that_renames_profiles_changes_nothing() {
    let world = World::new("gpus:\n  - {product: gb200-186gb, mig: [{profile: 7g.186gb, start: 0}]}\n");
    let mut state = world.state(0);
    for profile in &mut state.profiles {
        if profile.name.as_deref() == Some("7g.186gb") {
            profile.name = Some("7g.190gb".to_owned());
        }
    }
    let plan = |wish: &Wish| tesela_executor::plan::plan(&state, ProductTable::builtin(), wish);
    for name in ["7g.186gb", "7g.189gb", "7g.190gb"] {
        let plan = plan(&counts(&format!("{name}=1")));
        assert_eq!((plan.change, plan.blocked.clone()), (Change::None, None), "{name}");
        assert_eq!(plan.keep[0].profile, "7g.186gb");
    }
}

#[test]
fn a_mode_changes_only_on_an_idle_gpu() {
    let world = World::new(
        "gpus:\n  - {product: h100-sxm-80gb, processes: [{pid: 5, name: train, memory_mib: 9}]}\n",
    );
    let plan = world.plan(0, &counts("1g.10gb=7"));
    assert_eq!(plan.change, Change::MigMode);
    assert_eq!(
        plan.blocked.as_ref().unwrap().to_string(),
        "MIG turns on only on an idle GPU, and process 5 (train) use it"
    );
    assert_eq!(plan.disturbed.len(), 1);
    assert_eq!(world.apply(&[plan]), [Outcome::Blocked]);
    assert!(!world.live(0).mode.pending);
}

#[test]
fn an_ampere_that_cannot_be_reset_waits_for_the_reboot() {
    let world = World::new("gpus:\n  - {product: a100-40gb, passthrough: true}\n");
    let plan = world.plan(0, &counts("1g.5gb=7"));
    assert_eq!(plan.change, Change::MigModeReset);
    let outcome = world.apply(&[plan]).remove(0);
    assert!(matches!(outcome, Outcome::NeedsReboot(_)), "{outcome:?}");
    let live = world.live(0);
    assert!(!live.mode.current && live.mode.pending);
    assert!(!world.journal().is_open());
    world.driver.with(tesela_sim::Simulator::reboot);
    assert!(done(&world.apply(&[world.plan(0, &counts("1g.5gb=7"))])));
    assert_eq!(world.live(0).instances.len(), 7);
}

#[test]
fn a_monitor_keeps_an_ampere_from_its_mode() {
    let mut world = World::new("gpus:\n  - {product: a100-40gb, clients: [dcgm]}\n");
    world.reset = true;
    // The reset is refused as well: the mode is called back.
    let outcome = world.apply(&[world.plan(0, &counts("1g.5gb=7"))]).remove(0);
    assert!(matches!(outcome, Outcome::RolledBack(Stop::InUse { .. })), "{outcome:?}");
    let live = world.live(0);
    assert!(!live.mode.current && !live.mode.pending);
    let uuid = world.uuid(0);
    world.driver.with(|s| s.set_clients(&uuid, Vec::new()).unwrap());
    assert!(done(&world.apply(&[world.plan(0, &counts("1g.5gb=7"))])));
}

#[test]
fn without_rights_it_says_which_are_missing() {
    let world = cut();
    let plain = SimDriver::with_rights(world.driver.with(|s| s.clone()), Rights::User);
    let identity = plain.gpus().unwrap().remove(0).unwrap();
    let state = tesela_executor::observe::observe_gpu(&plain, identity).unwrap();
    assert!(state.placements.is_empty());
    let plan = tesela_executor::plan::plan(&state, ProductTable::builtin(), &counts("1g.5gb=1"));
    let text = plan.blocked.unwrap().to_string();
    assert!(text.contains("nvmlDeviceGetGpuInstances") && text.contains("run as root"), "{text}");
    // A GPU with MIG off has no instances to list, and the table knows the placements.
    let off = World::new("gpus:\n  - product: h100-sxm-80gb\n");
    let plain = SimDriver::with_rights(off.driver.with(|s| s.clone()), Rights::User);
    let identity = plain.gpus().unwrap().remove(0).unwrap();
    let state = tesela_executor::observe::observe_gpu(&plain, identity).unwrap();
    let plan = tesela_executor::plan::plan(&state, ProductTable::builtin(), &counts("1g.10gb=7"));
    assert_eq!((plan.create.len(), plan.blocked), (7, None));
}

#[test]
fn a_gpu_that_changed_since_the_plan_is_not_touched() {
    let world = cut();
    let plan = world.plan(0, &counts("1g.5gb=2"));
    assert!(done(&world.apply(&[world.plan(0, &counts("1g.5gb=2,2g.10gb=1"))])));
    let before = world.goal(0);
    assert_eq!(world.apply(&[plan]), [Outcome::Untouched(Stop::Changed)]);
    assert_eq!(world.goal(0), before);
}

#[test]
fn a_journal_that_is_open_foreign_or_damaged_stops_it() {
    let world = cut();
    let plan = [world.plan(0, &counts("1g.5gb=2"))];
    let before = world.driver.with(|s| s.state().revision);
    let refused = |bytes: &[u8]| {
        world.platter.borrow_mut().durable = Some(bytes.to_vec());
        let apply = world.apply_until(&plan, &Fate::default()).unwrap().unwrap_err();
        let recover = world.recover_until(&Fate::default()).unwrap();
        (apply, recover)
    };
    let (apply, recover) = refused(b"#!/bin/sh\n");
    assert!(matches!(apply, ApplyError::Journal(JournalError::Foreign)));
    assert!(matches!(recover, Err(ApplyError::Journal(JournalError::Foreign))));
    let other = cut();
    other.apply(&[other.plan(0, &counts("1g.5gb=3"))]);
    let sound = other.platter.borrow().durable.clone().unwrap();
    let mut damaged = sound.clone();
    damaged[40] ^= 1;
    let (apply, recover) = refused(&damaged);
    assert!(matches!(apply, ApplyError::Journal(JournalError::Damaged { record: 0, .. })));
    assert!(recover.is_err());
    // Of another node, and not ended.
    let elsewhere = World::new(&format!("seed: 9\ngpus:\n{}", gpu("a100-40gb", &[("1g.5gb", 0, None)])));
    let death = crate::world::Death { event: 20, after: true };
    let plans = [elsewhere.plan(0, &counts("7g.40gb=1"))];
    elsewhere.apply_until(&plans, &Fate::at(death));
    elsewhere.crash(usize::MAX);
    let open = elsewhere.platter.borrow().durable.clone().unwrap();
    let (apply, recover) = refused(&open);
    assert!(matches!(apply, ApplyError::Unfinished));
    assert!(matches!(recover, Err(ApplyError::OtherNode(_))), "{recover:?}");
    assert_eq!(world.driver.with(|s| s.state().revision), before);
}

#[test]
fn a_full_disk_stops_it_and_the_next_run_goes_on() {
    let whole = cut();
    let plan = [whole.plan(0, &counts("1g.5gb=3,1g.10gb=1"))];
    assert!(done(&whole.apply(&plan)));
    let length = whole.platter.borrow().durable.as_ref().unwrap().len();
    let first = whole.journal().records[0].clone();
    let begun = tesela_executor::journal::first(&first).unwrap().len();
    for room in (0..length - begun).step_by(7) {
        let world = cut();
        let before = world.goal(0);
        world.platter.borrow_mut().room = Some(room);
        let outcome = world.apply(&plan).remove(0);
        match &outcome {
            Outcome::Untouched(Stop::Journal(_)) => assert_eq!(world.goal(0), before, "{room}"),
            Outcome::Between { stop: Stop::Journal(why), .. } => assert!(why.contains("space"), "{why}"),
            // Everything was done, and only the end of it could not be noted.
            Outcome::Done => assert!(crate::deaths::reached(&world, 0, plan[0].goal.as_ref().unwrap())),
            other => panic!("{room}: {other:?}"),
        }
        world.platter.borrow_mut().room = None;
        world.recover();
        crate::deaths::settled(&cut(), &plan, &world, &format!("room for {room} bytes"));
    }
}

#[test]
fn monitors_are_paused_one_after_the_other_and_go_on_again() {
    let mut world = cut();
    world.clients = true;
    world.driver.with(|s| s.lay(Fault::always(Call::DestroyGpuInstance, Code::InUse)));
    let plan = [world.plan(0, &counts("1g.5gb=2"))];
    let dead = world.copy();
    assert!(done(&world.apply(&plan)));
    let order = |world: &World| {
        let told = world.told.borrow();
        told.iter().filter(|t| t.starts_with("pause") || t.starts_with("resume")).cloned().collect::<Vec<_>>()
    };
    let all = ["pause dcgm-exporter", "pause node-monitor", "resume node-monitor", "resume dcgm-exporter"];
    assert_eq!(order(&world), all);
    // After a crash those that the journal names go on.
    let fate = Fate::default();
    dead.copy().apply_until(&plan, &fate).unwrap().unwrap();
    let mut paused = 0;
    for event in 0..fate.events() {
        let again = dead.copy();
        again.apply_until(&plan, &Fate::at(crate::world::Death { event, after: true }));
        again.crash(usize::MAX);
        let stopped = order(&again).iter().filter(|t| t.starts_with("pause")).count();
        let left = again.journal().paused().len();
        assert!(
            left + order(&again).iter().filter(|t| t.starts_with("resume")).count() >= stopped,
            "{event}"
        );
        paused += usize::from(left > 0);
        again.recover();
        assert!(again.journal().paused().is_empty(), "{event}");
    }
    assert!(paused > 5, "{paused}");
}
