//! The library as programs see it: loaded at run time, through the safe session, beside the simulator itself.

#![allow(clippy::disallowed_methods, reason = "tests write machine files and set the environment")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nvml_sim::store::Store;
use tesela_formats::machine::read_machine;
use tesela_model::driver::{Activation, Code, Device, EventKind, GpuDriver, GpuUuid, ProcessKind, Readings};
use tesela_model::product::Placement;
use tesela_nvml::{Search, Session};
use tesela_sim::fault::Happening;
use tesela_sim::{SimDriver, Simulator};

const MACHINE: &str = "
gpus:
  - {product: h100-sxm-80gb, count: 2}
  - product: a100-40gb
    mig: [{profile: 1g.5gb, start: 0}, {profile: 2g.10gb, start: 2}]
    processes:
      - {pid: 4321, name: python, memory_mib: 2000, instance: 0, busy: 40%}
      - {pid: 4322, name: server, kind: mps, instance: 1}
  - product: a30-24gb
    processes: [{pid: 4323, memory_mib: 100, kind: graphics}]
";

/// The library that cargo builds with these tests.
fn library() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let folders = exe.ancestors().skip(1).take(2);
    let mut files = folders.map(|folder| folder.join("libnvml_sim.so"));
    files.find(|file| file.exists()).unwrap()
}

/// An emulated node. One at a time: the library has one session, and its environment is the process's.
struct Node {
    file: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Node {
    fn new(name: &str, machine: &str) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("node.yaml");
        std::fs::write(&file, machine).unwrap();
        // SAFETY: the environment is changed and read by whoever holds the lock, and nobody else in these tests.
        unsafe { std::env::set_var("TESELA_SIM", &file) };
        // SAFETY: as above.
        unsafe { std::env::remove_var("TESELA_SIM_RIGHTS") };
        Self { file, _alone: alone }
    }

    fn session(&self) -> Session {
        Session::open(&Search::File(library())).unwrap()
    }

    /// What happens behind the back of programs that run.
    fn with<T>(&self, act: impl FnOnce(&mut Simulator) -> T) -> T {
        Store::open(&self.file).unwrap().change(act).unwrap()
    }
}

fn uuids(driver: &impl GpuDriver) -> Vec<GpuUuid> {
    driver.gpus().unwrap().into_iter().map(|gpu| gpu.unwrap().uuid).collect()
}

/// Counters that go on with time are left out, the rest must agree.
fn still(mut readings: Readings) -> Readings {
    readings.energy_millijoules = None;
    readings
}

#[test]
fn the_library_answers_as_the_simulator_does() {
    let node = Node::new("agrees", MACHINE);
    let session = node.session();
    let machine = read_machine("node.yaml", MACHINE.as_bytes()).unwrap();
    let sim = SimDriver::new(Simulator::new(&machine).unwrap());
    assert_eq!(session.versions(), sim.versions());
    assert_eq!(session.gpus(), sim.gpus());
    for gpu in uuids(&sim) {
        assert_eq!(session.mig_mode(&gpu), sim.mig_mode(&gpu));
        assert_eq!(session.gpu_instance_profiles(&gpu), sim.gpu_instance_profiles(&gpu));
        for profile in sim.gpu_instance_profiles(&gpu).unwrap() {
            assert_eq!(session.placements(&gpu, profile.id), sim.placements(&gpu, profile.id));
            let code = |answer: Result<u32, tesela_model::driver::DriverError>| answer.map_err(|e| e.code);
            let (ours, theirs) =
                (session.remaining_capacity(&gpu, profile.id), sim.remaining_capacity(&gpu, profile.id));
            assert_eq!(code(ours), code(theirs));
        }
        assert_eq!(session.gpu_instances(&gpu), sim.gpu_instances(&gpu));
        for instance in sim.gpu_instances(&gpu).unwrap() {
            let id = instance.id;
            assert_eq!(session.compute_instance_profiles(&gpu, id), sim.compute_instance_profiles(&gpu, id));
            assert_eq!(session.compute_instances(&gpu, id), sim.compute_instances(&gpu, id));
        }
        assert_eq!(session.mig_devices(&gpu), sim.mig_devices(&gpu));
        let device = Device::Gpu(gpu.clone());
        assert_eq!(session.readings(&device).map(still), sim.readings(&device).map(still));
        for mig in sim.mig_devices(&gpu).unwrap() {
            let device = Device::Mig { gpu: gpu.clone(), mig: mig.uuid };
            let memory = |readings: Readings| readings.memory;
            assert_eq!(session.readings(&device).map(memory), sim.readings(&device).map(memory));
        }
        let names = session.processes(&gpu).unwrap();
        let mut expected = sim.processes(&gpu).unwrap();
        for process in &mut expected {
            // Where the node does not say, NVML looks for the process on this machine.
            let found = names.iter().find(|p| p.pid == process.pid && process.name.is_none());
            process.name = found.and_then(|p| p.name.clone()).or(process.name.take());
        }
        expected.sort();
        assert_eq!(names, expected);
    }
    let kinds = uuids(&sim).into_iter().flat_map(|gpu| session.processes(&gpu).unwrap()).map(|p| p.kind);
    assert_eq!(kinds.collect::<Vec<_>>(), [ProcessKind::Compute, ProcessKind::Mps, ProcessKind::Graphics]);
}

#[test]
fn instances_are_made_and_removed_and_ids_come_again() {
    let node = Node::new("instances", MACHINE);
    let session = node.session();
    let gpu = &uuids(&session)[0];
    assert_eq!(session.create_gpu_instance(gpu, 19, None).unwrap_err().code, Code::NotSupported);
    assert_eq!(session.set_mig_mode(gpu, true), Ok(Activation::Done));
    let at = Placement { start: 4, size: 1 };
    let first = session.create_gpu_instance(gpu, 19, Some(at)).unwrap();
    assert_eq!((first.profile, first.placement), (19, at));
    assert_eq!(session.mig_devices(gpu), Ok(vec![]), "half made, it is no device");
    assert_eq!(session.gpu_instances(gpu), Ok(vec![first]));
    let code =
        |answer: Result<_, tesela_model::driver::DriverError>| answer.map(|_: _| ()).map_err(|e| e.code);
    let again = session.create_gpu_instance(gpu, 19, Some(at));
    assert_eq!(code(again), Err(Code::InsufficientResources));
    let part = session.create_compute_instance(gpu, first.id, 0, None).unwrap();
    let device = session.mig_devices(gpu).unwrap().remove(0);
    assert_eq!((device.gpu_instance, device.compute_instance), (first.id, part.id));
    assert_eq!(session.destroy_gpu_instance(gpu, first.id).unwrap_err().code, Code::InUse);
    session.destroy_compute_instance(gpu, first.id, part.id).unwrap();
    session.destroy_gpu_instance(gpu, first.id).unwrap();
    assert_eq!(session.gpu_instances(gpu), Ok(vec![]));
    let second = session.create_gpu_instance(gpu, 19, Some(at)).unwrap();
    assert_eq!(second.id, first.id);
    session.create_compute_instance(gpu, second.id, 0, None).unwrap();
    let other = session.mig_devices(gpu).unwrap().remove(0);
    assert_ne!(other.uuid, device.uuid, "a new device has a new name");
    let gone = Device::Mig { gpu: gpu.clone(), mig: device.uuid };
    assert!(session.readings(&gone).is_err());
}

#[test]
fn what_another_process_does_is_seen_at_once() {
    let node = Node::new("shared", MACHINE);
    let session = node.session();
    let gpu = &uuids(&session)[0];
    node.with(|sim| sim.set_mig_mode(gpu, true)).unwrap();
    assert!(session.mig_mode(gpu).unwrap().unwrap().current);
    session.create_gpu_instance(gpu, 9, None).unwrap();
    assert_eq!(node.with(|sim| sim.gpu_instances(gpu)).unwrap().len(), 1);
}

#[test]
fn events_are_told_while_a_program_waits() {
    let node = Node::new("events", MACHINE);
    let session = node.session();
    let gpu = &uuids(&session)[1];
    assert_eq!(session.wait_event(Duration::ZERO), Ok(None));
    std::thread::scope(|scope| {
        scope.spawn(|| node.with(|sim| sim.happen(gpu, Happening::Event(EventKind::Xid(48), None))));
        let event = session.wait_event(Duration::from_secs(20)).unwrap().expect("the event");
        assert_eq!((&event.gpu, event.kind), (gpu, EventKind::Xid(48)));
    });
    assert_eq!(session.wait_event(Duration::ZERO), Ok(None), "once each");
}

#[test]
fn a_lost_gpu_answers_so_and_the_others_go_on() {
    let node = Node::new("lost", MACHINE);
    let session = node.session();
    let all = uuids(&session);
    node.with(|sim| sim.happen(&all[0], Happening::Lost));
    let refusal = session.readings(&Device::Gpu(all[0].clone())).unwrap_err();
    assert_eq!((refusal.code, refusal.gpu.as_ref()), (Code::GpuIsLost, Some(&all[0])));
    let told = session.gpus().unwrap();
    assert_eq!(told.len(), 4);
    assert_eq!(told[0].as_ref().unwrap_err().code, Code::GpuIsLost);
    assert!(told[1..].iter().all(Result::is_ok));
}

#[test]
fn without_rights_instances_are_neither_listed_nor_made() {
    let node = Node::new("rights", MACHINE);
    // SAFETY: the lock of the node is held.
    unsafe { std::env::set_var("TESELA_SIM_RIGHTS", "user") };
    let session = node.session();
    let all = uuids(&session);
    let code =
        |answer: Result<_, tesela_model::driver::DriverError>| answer.map(|_: _| ()).map_err(|e| e.code);
    assert_eq!(code(session.set_mig_mode(&all[0], true).map(|_| ())), Err(Code::NoPermission));
    assert_eq!(code(session.placements(&all[2], 19).map(|_| ())), Err(Code::NoPermission));
    assert_eq!(code(session.gpu_instances(&all[2]).map(|_| ())), Err(Code::NoPermission));
    assert_eq!(code(session.destroy_gpu_instance(&all[2], 7)), Err(Code::NoPermission));
    assert_eq!(session.mig_devices(&all[2]).map(|d| d.len()), Ok(2), "MIG devices are everybody's to see");
}
