//! The port over a simulator.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its input has failed")]

use std::time::Duration;

use tesela_formats::machine::read_machine;
use tesela_model::driver::{Activation, Code, Device, EventKind, GpuDriver, GpuReset, GpuUuid};
use tesela_model::product::Placement;
use tesela_sim::call::{Call, Rights};
use tesela_sim::fault::{Effect, Fault};
use tesela_sim::{SimDriver, Simulator};

fn simulator(text: &str) -> Simulator {
    Simulator::new(&read_machine("m.yaml", text.as_bytes()).unwrap()).unwrap()
}

fn driver(text: &str) -> (SimDriver, GpuUuid) {
    let driver = SimDriver::new(simulator(text));
    let gpu = driver.with(|s| s.state().gpus[0].uuid.clone());
    (driver, gpu)
}

const CUT: &str = "\
gpus:
  - product: a100-40gb
    mig: [{profile: 1g.5gb, start: 0}, {profile: 2g.10gb, start: 2}]
    processes: [{pid: 4321, name: python, memory_mib: 2000, instance: 0}]
";

#[test]
fn a_machine_is_seen_as_it_is_written() {
    let (driver, gpu) = driver(CUT);
    let identity = driver.gpus().unwrap().remove(0).unwrap();
    assert_eq!((identity.index, identity.name.as_str()), (0, "NVIDIA A100-SXM4-40GB"));
    let instances = driver.gpu_instances(&gpu).unwrap();
    let shape = instances.iter().map(|i| (i.id, i.profile, i.placement.start)).collect::<Vec<_>>();
    assert_eq!(shape, [(4, 14, 2), (7, 19, 0)]);
    let devices = driver.mig_devices(&gpu).unwrap();
    assert_eq!(devices[0].name, "NVIDIA A100-SXM4-40GB MIG 2g.10gb");
    let process = driver.processes(&gpu).unwrap().remove(0);
    assert_eq!((process.pid, process.gpu_instance, process.compute_instance), (4321, Some(7), Some(0)));
    let busy = Device::Mig { gpu: gpu.clone(), mig: devices[1].uuid.clone() };
    let memory = driver.readings(&busy).unwrap().memory.unwrap();
    assert_eq!((memory.total, memory.used), (4864 << 20, 2000 << 20));
}

#[test]
fn what_is_in_use_stays() {
    let (driver, gpu) = driver(CUT);
    let refused = |answer: Result<(), tesela_model::driver::DriverError>| answer.unwrap_err().code;
    assert_eq!(refused(driver.destroy_compute_instance(&gpu, 7, 0)), Code::InUse);
    assert_eq!(refused(driver.destroy_gpu_instance(&gpu, 4)), Code::InUse);
    driver.destroy_compute_instance(&gpu, 4, 0).unwrap();
    assert_eq!(driver.gpu_instances(&gpu).unwrap().len(), 2);
    assert_eq!(driver.mig_devices(&gpu).unwrap().len(), 1);
    driver.destroy_gpu_instance(&gpu, 4).unwrap();
    assert_eq!(refused(driver.destroy_gpu_instance(&gpu, 4)), Code::NotFound);
    driver.with(|s| s.end_process(&gpu, 4321)).unwrap();
    driver.destroy_compute_instance(&gpu, 7, 0).unwrap();
    driver.destroy_gpu_instance(&gpu, 7).unwrap();
}

#[test]
fn in_use_can_pass() {
    let (counted, gpu) = driver(&format!("in_use_after_destroy: {{answers: 2}}\n{CUT}"));
    counted.destroy_compute_instance(&gpu, 4, 0).unwrap();
    for _ in 0..2 {
        assert_eq!(counted.destroy_gpu_instance(&gpu, 4).unwrap_err().code, Code::InUse);
    }
    counted.destroy_gpu_instance(&gpu, 4).unwrap();
    let (timed, gpu) = driver(&format!("in_use_after_destroy: {{milliseconds: 300}}\n{CUT}"));
    timed.destroy_compute_instance(&gpu, 4, 0).unwrap();
    assert_eq!(timed.destroy_gpu_instance(&gpu, 4).unwrap_err().code, Code::InUse);
    timed.with(|s| s.advance(Duration::from_millis(300)));
    timed.destroy_gpu_instance(&gpu, 4).unwrap();
}

#[test]
fn mode_waits_where_the_gpu_is_used() {
    let (ampere, gpu) = driver("gpus: [{product: a100-40gb, processes: [{pid: 7}]}]");
    assert_eq!(ampere.set_mig_mode(&gpu, true).unwrap(), Activation::Pending(Code::InUse));
    let mode = ampere.mig_mode(&gpu).unwrap().unwrap();
    assert_eq!((mode.current, mode.pending), (false, true));
    assert_eq!(ampere.reset(&gpu).unwrap_err().code, Code::InUse);
    ampere.with(|s| s.end_process(&gpu, 7)).unwrap();
    ampere.reset(&gpu).unwrap();
    assert!(ampere.mig_mode(&gpu).unwrap().unwrap().current);
    let (virtual_, gpu) = driver("gpus: [{product: a100-40gb, passthrough: true}]");
    assert_eq!(virtual_.set_mig_mode(&gpu, true).unwrap(), Activation::Pending(Code::ResetRequired));
    assert_eq!(virtual_.reset(&gpu).unwrap_err().code, Code::NotSupported);
    virtual_.with(Simulator::reboot);
    assert!(virtual_.mig_mode(&gpu).unwrap().unwrap().current);
    let (hopper, gpu) = driver("gpus: [{product: h100-sxm-80gb, clients: [nv-hostengine]}]");
    assert_eq!(hopper.set_mig_mode(&gpu, true).unwrap(), Activation::Done);
    hopper.with(Simulator::reboot);
    assert!(!hopper.mig_mode(&gpu).unwrap().unwrap().current);
}

#[test]
fn rights_are_asked_for() {
    let user = SimDriver::with_rights(simulator(CUT), Rights::User);
    let gpu = user.gpus().unwrap().remove(0).unwrap().uuid;
    assert!(user.mig_devices(&gpu).is_ok());
    assert_eq!(user.gpu_instances(&gpu).unwrap_err().code, Code::NoPermission);
    assert_eq!(user.create_gpu_instance(&gpu, 19, None).unwrap_err().code, Code::NoPermission);
    let config = SimDriver::with_rights(simulator(CUT), Rights::MigConfig);
    assert!(config.create_gpu_instance(&gpu, 19, None).is_ok());
    assert_eq!(config.set_mig_mode(&gpu, false).unwrap_err().code, Code::NoPermission);
}

#[test]
fn faults_meet_the_calls_they_are_laid_for() {
    let (driver, gpu) = driver(CUT);
    driver.with(|s| s.lay(Fault::nth(Call::CreateGpuInstance, 2, Code::Unknown).on(&gpu)));
    assert!(driver.create_gpu_instance(&gpu, 19, None).is_ok());
    let refused = driver.create_gpu_instance(&gpu, 19, None).unwrap_err();
    assert_eq!((refused.code, refused.gpu.as_ref()), (Code::Unknown, Some(&gpu)));
    assert_eq!(driver.gpu_instances(&gpu).unwrap().len(), 3);
    assert!(driver.create_gpu_instance(&gpu, 19, None).is_ok());
    let done = Fault {
        effect: Effect::DoAndRefuse(Code::Timeout),
        ..Fault::nth(Call::DestroyGpuInstance, 1, Code::Unknown)
    };
    driver.with(|s| s.lay(done));
    let half_made = driver.gpu_instances(&gpu).unwrap().pop().unwrap().id;
    assert_eq!(driver.destroy_gpu_instance(&gpu, half_made).unwrap_err().code, Code::Timeout);
    assert_eq!(driver.gpu_instances(&gpu).unwrap().len(), 3);
    driver
        .with(|s| s.lay(Fault { effect: Effect::Lose, ..Fault::nth(Call::GpuInstances, 1, Code::Unknown) }));
    assert_eq!(driver.gpu_instances(&gpu).unwrap_err().code, Code::GpuIsLost);
    assert_eq!(driver.gpus().unwrap()[0].as_ref().unwrap_err().code, Code::GpuIsLost);
}

#[test]
fn an_instance_for_ever_in_use_is_a_fault_on_it() {
    let (driver, gpu) = driver(CUT);
    driver.with(|s| s.lay(Fault::always(Call::DestroyComputeInstance, Code::InUse).on_instance(4)));
    for _ in 0..5 {
        assert_eq!(driver.destroy_compute_instance(&gpu, 4, 0).unwrap_err().code, Code::InUse);
    }
    driver.with(|s| s.end_process(&gpu, 4321)).unwrap();
    driver.destroy_compute_instance(&gpu, 7, 0).unwrap();
}

#[test]
fn changes_are_told_once_to_who_waits() {
    let (driver, gpu) = driver(CUT);
    assert_eq!(driver.wait_event(Duration::from_secs(1)).unwrap(), None);
    driver.create_gpu_instance(&gpu, 9, Some(Placement { start: 4, size: 4 })).unwrap();
    let event = driver.wait_event(Duration::from_secs(1)).unwrap().unwrap();
    assert_eq!((event.gpu, event.kind), (gpu, EventKind::MigConfigChange));
    assert_eq!(driver.wait_event(Duration::from_secs(1)).unwrap(), None);
}

#[test]
fn the_state_can_be_written_down() {
    let (driver, _) = driver(CUT);
    let simulator = driver.into_simulator();
    let written = simulator.to_json();
    assert_eq!(Simulator::from_json(&written).unwrap(), simulator);
    let cut = &written[..written.len() / 2];
    assert!(Simulator::from_json(cut).unwrap_err().to_string().contains("cut off"));
    let text = String::from_utf8(written).unwrap();
    let old = text.replace("\"version\":1", "\"version\":0");
    assert!(Simulator::from_json(old.as_bytes()).unwrap_err().to_string().contains("version 0"));
    let wrong = text.replace("\"start\":2", "\"start\":3");
    assert!(Simulator::from_json(wrong.as_bytes()).unwrap_err().to_string().contains("contradicts itself"));
}
