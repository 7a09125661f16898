//! Whatever is called in whatever order: the rules hold, the state can be written down, the same calls give the same bytes.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its input has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use tesela_formats::machine::read_machine;
use tesela_model::driver::{Code, GpuUuid, ProcessKind};
use tesela_model::layout::Layout;
use tesela_model::product::{Placement, Product, ProductTable, ProfileName};
use tesela_plan::layouts::{all_profiles, default_profiles, layouts};
use tesela_sim::Simulator;
use tesela_sim::call::Call;
use tesela_sim::contention::Demand;
use tesela_sim::fault::{Fault, Happening};
use tesela_sim::state::Process;

const MACHINE: &str = "\
seed: 11
in_use_after_destroy: {answers: 1}
gpus:
  - {product: a100-40gb, mig: []}
  - {product: h100-sxm-80gb, mig: [{profile: 3g.40gb, start: 4}, {profile: 1g.10gb, start: 0, compute: []}]}
  - {product: rtx-pro-6000-96gb}
  - {product: a30-24gb, mig: [{profile: 4g.24gb, start: 0, compute: [2c.4g.24gb]}], processes: [{pid: 5, instance: 0}]}
";

#[derive(Debug, Clone)]
enum Op {
    Create { profile: usize, place: Option<usize> },
    Destroy(usize),
    CreateCompute { instance: usize, profile: usize, place: Option<usize> },
    DestroyCompute { instance: usize, compute: usize },
    Start { pid: u32, instance: usize, mib: u64, busy: u16 },
    End(u32),
    Mode(bool),
    Reset,
    Reboot,
    Advance(u64),
    Lay(u32),
    Schedule(u64, u32),
    Heal,
}

fn op() -> impl Strategy<Value = Op> {
    let place = || prop::option::of(0usize..8);
    prop_oneof![
        8 => (0usize..12, place()).prop_map(|(profile, place)| Op::Create { profile, place }),
        5 => (0usize..8).prop_map(Op::Destroy),
        6 => (0usize..8, 0usize..6, place())
            .prop_map(|(instance, profile, place)| Op::CreateCompute { instance, profile, place }),
        5 => (0usize..8, 0usize..4).prop_map(|(instance, compute)| Op::DestroyCompute { instance, compute }),
        4 => (1u32..6, 0usize..8, 1u64..60_000, 0u16..=1000)
            .prop_map(|(pid, instance, mib, busy)| Op::Start { pid, instance, mib, busy }),
        3 => (1u32..6).prop_map(Op::End),
        2 => any::<bool>().prop_map(Op::Mode),
        1 => Just(Op::Reset),
        1 => Just(Op::Reboot),
        2 => (0u64..5_000_000).prop_map(Op::Advance),
        1 => (1u32..4).prop_map(Op::Lay),
        1 => (0u64..5_000_000, 1u32..6).prop_map(|(at, pid)| Op::Schedule(at, pid)),
        1 => Just(Op::Heal),
    ]
}

/// Carries an operation out. `Some(code)`: a call was refused with it.
fn act(simulator: &mut Simulator, gpu: usize, op: &Op) -> Option<Code> {
    let state = simulator.state();
    let one = state.gpus[gpu].clone();
    let board = simulator.board(gpu).unwrap();
    let instance = |n: usize| one.instances.get(n).map_or(99, |i| i.id);
    let uuid = &one.uuid;
    let answer = match *op {
        Op::Create { profile, place } => {
            let known = board.profiles().get(profile);
            let at = |place: usize| known.and_then(|p| p.placements.get(place)).copied();
            let at = place.map(|n| at(n).unwrap_or(Placement { start: 63, size: 1 }));
            simulator.create_gpu_instance(uuid, known.map_or(99, |p| p.id), at).err()
        }
        Op::Destroy(n) => simulator.destroy_gpu_instance(uuid, instance(n)).err(),
        Op::CreateCompute { instance: n, profile, place } => {
            let on = one.instances.get(n).and_then(|i| board.profile(i.profile));
            let known = on.and_then(|p| p.compute.get(profile));
            let at = place.and_then(|n| known.and_then(|p| p.placements.get(n)).copied());
            let id = known.map_or(99, |p| p.id);
            simulator.create_compute_instance(uuid, instance(n), id, at).err()
        }
        Op::DestroyCompute { instance: n, compute } => {
            let id = one.instances.get(n).and_then(|i| i.compute.get(compute)).map_or(99, |c| c.id);
            simulator.destroy_compute_instance(uuid, instance(n), id).err()
        }
        Op::Start { pid, instance: n, mib, busy } => {
            let on = one.instances.get(n).and_then(|i| Some((i.id, i.compute.first()?.id)));
            let demand = Demand { busy, fill: 600 };
            let kind = if pid % 2 == 0 { ProcessKind::Mps } else { ProcessKind::Compute };
            let process = Process { pid, name: None, kind, memory: mib << 20, on, demand, since: 0 };
            let _ = simulator.start_process(uuid, process);
            None
        }
        Op::End(pid) => {
            let _ = simulator.end_process(uuid, pid);
            None
        }
        Op::Mode(on) => simulator.set_mig_mode(uuid, on).err(),
        Op::Reset => simulator.reset(uuid).err(),
        Op::Reboot => {
            simulator.reboot();
            None
        }
        Op::Advance(micros) => {
            simulator.advance(Duration::from_micros(micros));
            None
        }
        Op::Lay(n) => {
            simulator.lay(Fault::nth(Call::CreateGpuInstance, n, Code::Unknown).on(uuid));
            None
        }
        Op::Schedule(after, pid) => {
            let at = simulator.now() + Duration::from_micros(after);
            let what = if pid == 1 { Happening::Lost } else { Happening::ProcessEnds(pid) };
            simulator.schedule(at, uuid, what);
            None
        }
        Op::Heal => {
            simulator.happen(uuid, Happening::Healed);
            None
        }
    };
    answer.map(|e| e.code)
}

fn begin() -> Simulator {
    Simulator::new(&read_machine("m", MACHINE.as_bytes()).unwrap()).unwrap()
}

fn product(simulator: &Simulator, gpu: usize) -> &'static Product {
    simulator.board(gpu).unwrap().product()
}

/// The instances of a GPU as the vocabulary sees them; it knows the rules by itself.
fn placed(simulator: &Simulator, gpu: usize) -> Vec<(ProfileName, u32)> {
    let board = simulator.board(gpu).unwrap();
    let instances = &simulator.state().gpus[gpu].instances;
    instances.iter().map(|i| (board.profile(i.profile).unwrap().name.clone(), i.start)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_rules_hold_whatever_is_called(ops in prop::collection::vec((0usize..4, op()), 1..60)) {
        let mut simulator = begin();
        let mut twin = begin();
        let mut uuids = BTreeSet::new();
        for (gpu, op) in &ops {
            let before = simulator.clone();
            let refused = act(&mut simulator, *gpu, op);
            act(&mut twin, *gpu, op);
            // Independent of the simulator's own rules.
            let layout = Layout::new(product(&simulator, *gpu), placed(&simulator, *gpu));
            prop_assert!(layout.is_ok(), "{op:?}: {layout:?}");
            prop_assert_eq!(simulator.check(), Ok(()));
            if matches!(op, Op::Create { place: Some(_), .. }) && refused == Some(Code::InsufficientResources) {
                let Op::Create { profile, place: Some(place) } = op else { continue };
                let known = &simulator.board(*gpu).unwrap().profiles()[*profile];
                let mut more = placed(&before, *gpu);
                more.push((known.name.clone(), known.placements[*place].start));
                prop_assert!(Layout::new(product(&before, *gpu), more).is_err(), "{op:?} was refused and fits");
            }
            if refused.is_some() && before.state().faults.is_empty() && refused != Some(Code::InUse) {
                prop_assert_eq!(&before, &simulator, "{:?} was refused and changed something", op);
            }
            // A UUID that is gone never comes back.
            let now = simulator.state().gpus.iter().flat_map(|g| &g.instances).flat_map(|i| &i.compute);
            let now = now.map(|c| c.uuid.clone()).collect::<BTreeSet<_>>();
            let was = before.state().gpus.iter().flat_map(|g| &g.instances).flat_map(|i| &i.compute);
            let was = was.map(|c| c.uuid.clone()).collect::<BTreeSet<_>>();
            prop_assert!(now.difference(&was).all(|new| !uuids.contains(new)), "a UUID came back");
            uuids.extend(was);
            let written = simulator.to_json();
            prop_assert_eq!(&written, &twin.to_json(), "the same calls gave other bytes");
            prop_assert_eq!(&Simulator::from_json(&written).unwrap(), &simulator);
        }
    }

    /// The capacity is the most that can be added, by trying.
    #[test]
    fn capacity_is_what_can_be_made(gpu in 0usize..4, ops in prop::collection::vec(op(), 0..25)) {
        let mut simulator = begin();
        for op in &ops {
            act(&mut simulator, gpu, op);
        }
        simulator.clear_faults();
        let uuid = simulator.state().gpus[gpu].uuid.clone();
        if simulator.mig_mode(&uuid).is_ok_and(|mode| mode.current) {
            for profile in simulator.board(gpu).unwrap().profiles() {
                let told = simulator.remaining_capacity(&uuid, profile.id).unwrap();
                let mut trial = simulator.clone();
                let mut made = 0;
                for at in &profile.placements {
                    made += u32::from(trial.create_gpu_instance(&uuid, profile.id, Some(*at)).is_ok());
                }
                prop_assert_eq!(told, made, "{}", profile.name);
                // And where the driver places them by itself, as many go in.
                let mut trial = simulator.clone();
                let alone = (0..16).take_while(|_| trial.create_gpu_instance(&uuid, profile.id, None).is_ok());
                prop_assert_eq!(usize::try_from(told).unwrap(), alone.count(), "{}", profile.name);
            }
        }
    }

    /// A state with anything changed at random is refused or is sound; it never makes the program fall.
    #[test]
    fn a_state_changed_by_hand_is_refused_or_sound(
        ops in prop::collection::vec((0usize..4, op()), 0..20),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        length in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut simulator = begin();
        for (gpu, op) in &ops {
            act(&mut simulator, *gpu, op);
        }
        let mut written = simulator.to_json();
        let place = at.index(written.len());
        written[place] = byte;
        if let Some(length) = length {
            written.truncate(length.index(written.len()));
        }
        if let Ok(mut read) = Simulator::from_json(&written) {
            prop_assert_eq!(read.check(), Ok(()));
            for gpu in 0..read.state().gpus.len() {
                act(&mut read, gpu, &Op::Create { profile: 0, place: None });
                act(&mut read, gpu, &Op::Reset);
            }
            read.advance(Duration::from_secs(3600));
        }
    }
}

/// A machine file, right or wrong: profiles and starts at random, compute instances, processes.
fn machine_text() -> impl Strategy<Value = String> {
    let product = prop::sample::select(vec!["a100-40gb", "a30-24gb", "b300-269gb", "rtx-pro-6000-96gb"]);
    let instance = (0usize..12, 0u32..10, prop::option::of(prop::collection::vec(0usize..6, 0..8)));
    let process = (1u32..5, prop::option::of(0usize..4), 0usize..3, prop::option::of(1u64..90_000));
    let gpu = (
        product,
        prop::option::of(prop::collection::vec(instance, 0..5)),
        prop::collection::vec(process, 0..4),
    );
    prop::collection::vec(gpu, 1..3).prop_map(|gpus| {
        let table = ProductTable::builtin();
        let mut text = "gpus:\n".to_owned();
        for (product, mig, processes) in gpus {
            text += &format!("  - product: {product}\n");
            let profiles = &table.find(product).unwrap().profiles;
            if let Some(mig) = mig {
                text += "    mig:\n";
                for (profile, start, compute) in &mig {
                    let profile = &profiles[profile % profiles.len()];
                    text += &format!("      - {{profile: {}, start: {start}", profile.name);
                    if let Some(compute) = compute {
                        let known = &profile.compute_instances;
                        let names = compute.iter().map(|n| known[n % known.len()].name.to_string());
                        text += &format!(", compute: [{}]", names.collect::<Vec<_>>().join(", "));
                    }
                    text += "}\n";
                }
                if mig.is_empty() {
                    text = text.trim_end().to_owned() + " []\n";
                }
            }
            if !processes.is_empty() {
                text += "    processes:\n";
            }
            for (pid, instance, compute, memory) in processes {
                let on = instance.map(|n| format!(", instance: {n}, compute: {compute}")).unwrap_or_default();
                let memory = memory.map(|m| format!(", memory_mib: {m}")).unwrap_or_default();
                text += &format!("      - {{pid: {pid}{on}{memory}}}\n");
            }
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_machine_that_is_read_can_be(text in machine_text()) {
        if let Ok(machine) = read_machine("m", text.as_bytes()) {
            let simulator = Simulator::new(&machine);
            prop_assert!(simulator.is_ok(), "{}\n{:?}", text, simulator);
            prop_assert_eq!(simulator.unwrap().check(), Ok(()));
        }
    }
}

#[test]
fn compute_instances_of_a_machine_find_room_in_any_order() {
    let names = ["1c.7g.40gb", "2c.7g.40gb", "3c.7g.40gb", "4c.7g.40gb"];
    let mut lists = vec![(Vec::new(), 0)];
    let mut tried = 0;
    while let Some((list, slices)) = lists.pop() {
        let text = format!(
            "gpus: [{{product: a100-40gb, mig: [{{profile: 7g.40gb, start: 0, compute: [{}]}}]}}]",
            list.join(", ")
        );
        let machine = read_machine("m", text.as_bytes()).unwrap();
        Simulator::new(&machine).unwrap();
        tried += 1;
        for (name, size) in names.iter().zip(1..) {
            if slices + size <= 7 {
                lists.push(([list.as_slice(), &[*name]].concat(), slices + size));
            }
        }
    }
    // Compositions of 0 to 7 into parts of 1 to 4: 1, 1, 2, 4, 8, 15, 29, 56.
    assert_eq!(tried, 116);
}

/// Every state that can be reached by making and removing instances at explicit places, as sets of (profile, start).
fn reached(product: &str, profiles: &[ProfileName]) -> BTreeMap<BTreeSet<(u32, u32)>, BTreeSet<u32>> {
    let text = format!("gpus: [{{product: {product}, mig: []}}]");
    let start = Simulator::new(&read_machine("m", text.as_bytes()).unwrap()).unwrap();
    let gpu: GpuUuid = start.state().gpus[0].uuid.clone();
    let key = |s: &Simulator| {
        s.state().gpus[0].instances.iter().map(|i| (i.profile, i.start)).collect::<BTreeSet<_>>()
    };
    let ids = |s: &Simulator| s.state().gpus[0].instances.iter().map(|i| i.id).collect::<BTreeSet<_>>();
    let mut seen = BTreeMap::from([(key(&start), ids(&start))]);
    let mut todo = vec![start];
    while let Some(here) = todo.pop() {
        let board = here.board(0).unwrap();
        for profile in board.profiles().iter().filter(|p| profiles.contains(&p.name)) {
            for at in &profile.placements {
                let mut next = here.clone();
                if next.create_gpu_instance(&gpu, profile.id, Some(*at)).is_err() {
                    continue;
                }
                let (key, ids) = (key(&next), ids(&next));
                match seen.get(&key) {
                    // Ids are numbers of places: the way does not matter.
                    Some(before) => assert_eq!(*before, ids),
                    None => {
                        seen.insert(key, ids);
                        todo.push(next);
                    }
                }
            }
        }
    }
    seen
}

#[test]
fn every_layout_of_the_planner_is_reached_and_no_other() {
    for id in ["a100-40gb", "a30-24gb", "h100-sxm-80gb"] {
        let product = ProductTable::builtin().find(id).unwrap();
        let profiles = default_profiles(product);
        let reached = reached(id, &profiles);
        assert_eq!(reached.len(), layouts(product, &profiles).unwrap().states, "{id}");
    }
    // What `tesela layouts a100-40gb` counts, by itself.
    let product = ProductTable::builtin().find("a100-40gb").unwrap();
    assert_eq!(reached("a100-40gb", &default_profiles(product)).len(), 723);
}

#[test]
fn every_layout_with_media_and_graphics_is_reached_and_no_other() {
    for id in ["rtx-pro-6000-96gb", "a30-24gb"] {
        let product = ProductTable::builtin().find(id).unwrap();
        let profiles = all_profiles(product);
        assert_eq!(reached(id, &profiles).len(), layouts(product, &profiles).unwrap().states, "{id}");
    }
}
