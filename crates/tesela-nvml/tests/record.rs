//! What a driver answered is answered again, from a document.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use tesela_formats::machine::read_machine;
use tesela_model::driver::{Code, Device, GpuDriver, GpuUuid};
use tesela_nvml::{Fixture, FixtureError, Recorder, Replay};
use tesela_sim::{SimDriver, Simulator};

const MACHINE: &str = "
gpus:
  - {product: h100-sxm-80gb}
  - product: a100-40gb
    mig: [{profile: 1g.5gb, start: 0}, {profile: 2g.10gb, start: 2}]
    processes: [{pid: 4321, name: python, memory_mib: 2000, instance: 0, busy: 40%}]
  - {product: h100-sxm-80gb, health: lost}
";

fn emulated() -> SimDriver {
    let machine = read_machine("node.yaml", MACHINE.as_bytes()).unwrap();
    SimDriver::new(Simulator::new(&machine).unwrap())
}

/// A session that asks everything and changes some of it, as the text of its answers.
fn walk(driver: &impl GpuDriver) -> Vec<String> {
    let mut told = vec![format!("{:?}", driver.versions())];
    let gpus = driver.gpus().unwrap();
    told.push(format!("{gpus:?}"));
    for gpu in gpus.iter().flatten() {
        let uuid = &gpu.uuid;
        told.push(format!("{:?}", driver.mig_mode(uuid)));
        for profile in driver.gpu_instance_profiles(uuid).unwrap_or_default() {
            told.push(format!("{profile:?} {:?}", driver.placements(uuid, profile.id)));
            told.push(format!("{:?}", driver.remaining_capacity(uuid, profile.id)));
        }
        told.push(format!("{:?} {:?}", driver.processes(uuid), driver.readings(&Device::Gpu(uuid.clone()))));
        for mig in driver.mig_devices(uuid).unwrap_or_default() {
            let device = Device::Mig { gpu: uuid.clone(), mig: mig.uuid.clone() };
            told.push(format!("{mig:?} {:?}", driver.readings(&device)));
        }
        for instance in driver.gpu_instances(uuid).unwrap_or_default() {
            told.push(format!("{:?}", driver.compute_instance_profiles(uuid, instance.id)));
            told.push(format!("{:?}", driver.compute_instances(uuid, instance.id)));
            told.push(format!("{:?}", driver.destroy_compute_instance(uuid, instance.id, 0)));
            told.push(format!("{:?}", driver.destroy_gpu_instance(uuid, instance.id)));
            told.push(format!("{:?}", driver.gpu_instances(uuid)));
        }
        told.push(format!("{:?}", driver.set_mig_mode(uuid, true)));
        told.push(format!("{:?}", driver.mig_mode(uuid)));
        if let Ok(made) = driver.create_gpu_instance(uuid, 19, None) {
            told.push(format!("{made:?} {:?}", driver.create_compute_instance(uuid, made.id, 0, None)));
        }
    }
    told.push(format!("{:?}", driver.wait_event(Duration::from_millis(1))));
    told.push(format!("{:?}", driver.mig_mode(&GpuUuid::new("GPU-none"))));
    told
}

#[test]
fn a_recorded_session_is_replayed_word_for_word() {
    let recorder = Recorder::new(emulated());
    let first = walk(&recorder);
    assert_eq!(first, walk(&emulated()), "the recorder changes nothing");
    let text = recorder.fixture().to_json().unwrap();
    let replay = Replay::new(Fixture::from_json(&text).unwrap());
    assert_eq!(walk(&replay), first);
    let changed = |line: &&String| line.contains("InUse");
    assert!(first.iter().any(|line| changed(&line)), "the session has a refusal: {first:#?}");
}

#[test]
fn what_was_never_asked_has_no_answer() {
    let recorder = Recorder::new(emulated());
    recorder.versions().unwrap();
    let replay = Replay::new(recorder.fixture());
    assert!(replay.versions().is_ok());
    let refusal = replay.mig_mode(&GpuUuid::new("GPU-1")).unwrap_err();
    assert_eq!((refusal.code, refusal.gpu), (Code::NoData, Some(GpuUuid::new("GPU-1"))));
    assert!(refusal.call.contains("MigMode"), "{}", refusal.call);
}

#[test]
fn a_foreign_or_damaged_record_is_refused() {
    let text = Recorder::new(emulated()).fixture().to_json().unwrap();
    assert!(Fixture::from_json(&text).is_ok());
    let other = text.replace("\"version\": 1", "\"version\": 2");
    assert!(matches!(Fixture::from_json(&other), Err(FixtureError::Version(2))));
    let kind = text.replace("tesela-nvml-session", "something");
    assert!(matches!(Fixture::from_json(&kind), Err(FixtureError::Kind(_))));
    for end in 0..text.trim_end().len() {
        assert!(Fixture::from_json(&text[..end]).is_err(), "cut at {end}");
    }
}
