//! The state of a node in its file: shared, never half written, refused when it is damaged.

#![allow(clippy::disallowed_methods, reason = "tests write machine files and states")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};

use nvml_sim::store::{Store, StoreError};
use nvml_sim::tree;
use tesela_model::driver::{Code, GpuUuid};
use tesela_sim::Simulator;

const MACHINE: &str = "gpus:\n  - {product: a100-40gb, mig: []}\n  - {product: h100-sxm-80gb}\n";

fn node(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("store-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("node.yaml");
    std::fs::write(&file, MACHINE).unwrap();
    file
}

fn state_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".state");
    name.into()
}

fn first(simulator: &Simulator) -> GpuUuid {
    simulator.state().gpus[0].uuid.clone()
}

fn instances(store: &mut Store) -> usize {
    store.look().unwrap().state().gpus[0].instances.len()
}

#[test]
fn a_change_lasts_and_another_process_sees_it() {
    let file = node("lasts");
    let (mut one, mut other) = (Store::open(&file).unwrap(), Store::open(&file).unwrap());
    let gpu = first(one.seen());
    one.change(|sim| sim.create_gpu_instance(&gpu, 19, None)).unwrap().unwrap();
    assert_eq!(instances(&mut other), 1);
    assert_eq!(instances(&mut Store::open(&file).unwrap()), 1);
    let before = std::fs::read(state_of(&file)).unwrap();
    let refused = other.change(|sim| sim.destroy_gpu_instance(&gpu, 99)).unwrap();
    assert!(refused.is_err());
    assert_eq!(std::fs::read(state_of(&file)).unwrap(), before, "what changes nothing writes nothing");
}

#[test]
fn changes_at_the_same_time_are_all_there() {
    let file = node("together");
    let gpu = first(Store::open(&file).unwrap().seen());
    std::thread::scope(|scope| {
        for start in 0..7 {
            let (file, gpu) = (&file, &gpu);
            scope.spawn(move || {
                let at = tesela_model::product::Placement { start, size: 1 };
                let mut store = Store::open(file).unwrap();
                store.change(|sim| sim.create_gpu_instance(gpu, 19, Some(at))).unwrap().unwrap();
            });
        }
    });
    assert_eq!(instances(&mut Store::open(&file).unwrap()), 7);
}

#[test]
fn another_machine_begins_afresh_and_comments_do_not_make_one() {
    let file = node("machine");
    let mut store = Store::open(&file).unwrap();
    let gpu = first(store.seen());
    store.change(|sim| sim.create_gpu_instance(&gpu, 19, None)).unwrap().unwrap();
    std::fs::write(&file, format!("# a comment\n{MACHINE}")).unwrap();
    assert_eq!(instances(&mut Store::open(&file).unwrap()), 1);
    std::fs::write(&file, MACHINE.replace("h100-sxm-80gb", "a30-24gb")).unwrap();
    assert_eq!(instances(&mut Store::open(&file).unwrap()), 0);
    assert_eq!(instances(&mut store), 0, "a running program sees the other machine");
}

#[test]
fn a_state_that_is_cut_anywhere_is_refused_and_left_alone() {
    let file = node("cut");
    Store::open(&file).unwrap();
    let whole = std::fs::read(state_of(&file)).unwrap();
    for end in 0..whole.len() {
        std::fs::write(state_of(&file), &whole[..end]).unwrap();
        let refusal = Store::open(&file).unwrap_err();
        assert!(matches!(refusal, StoreError::State { .. }), "cut at {end}: {refusal}");
        assert_eq!(refusal.code(), Code::Unknown);
        assert!(refusal.to_string().contains("remove it to begin anew"), "{refusal}");
        assert_eq!(std::fs::read(state_of(&file)).unwrap(), whole[..end]);
    }
    std::fs::remove_file(state_of(&file)).unwrap();
    assert!(Store::open(&file).is_ok());
}

#[test]
fn a_state_of_another_version_is_refused() {
    let file = node("version");
    Store::open(&file).unwrap();
    let text = std::fs::read_to_string(state_of(&file)).unwrap();
    std::fs::write(state_of(&file), text.replacen("\"version\":1", "\"version\":0", 1)).unwrap();
    let refusal = Store::open(&file).unwrap_err();
    assert_eq!(refusal.code(), Code::LibRmVersionMismatch);
    assert!(refusal.to_string().contains("version 0"), "{refusal}");
}

#[test]
fn a_wrong_machine_file_is_told_with_its_line() {
    let file = node("wrong");
    std::fs::write(&file, "gpus:\n  - {product: h100-sxm-80gbx}\n").unwrap();
    let refusal = Store::open(&file).unwrap_err();
    assert_eq!(refusal.code(), Code::DriverNotLoaded);
    let text = refusal.to_string();
    assert!(text.contains("node.yaml:2:") && text.contains("h100-sxm-80gb"), "{text}");
    let missing = Store::open(Path::new("/no/such/node.yaml")).unwrap_err();
    assert_eq!(missing.code(), Code::DriverNotLoaded);
}

#[test]
fn the_files_that_programs_look_for_follow_the_instances() {
    let file = node("tree");
    let mut store = Store::open(&file).unwrap();
    let gpu = first(store.seen());
    let root = store.render_tree().unwrap();
    let read = |path: &str| std::fs::read_to_string(root.join(path));
    assert!(read("proc/driver/nvidia/version").unwrap().contains("580.95.05"));
    assert!(read("proc/modules").unwrap().lines().any(|line| line.starts_with("nvidia ")));
    let minors = read("proc/driver/nvidia-caps/mig-minors").unwrap();
    assert!(minors.contains("\ngpu0/gi9/access 84\n") && minors.contains("gpu1/gi14/ci7/access 272\n"));
    let access = "proc/driver/nvidia/capabilities/gpu0/mig/gi11/access";
    assert!(read(access).is_err());
    let at = tesela_model::product::Placement { start: 4, size: 1 };
    let made = store.change(|sim| sim.create_gpu_instance(&gpu, 19, Some(at))).unwrap().unwrap();
    assert_eq!(made.id, 11);
    assert!(read(access).unwrap().starts_with("DeviceFileMinor: 102\n"));
    store.change(|sim| sim.destroy_gpu_instance(&gpu, 11)).unwrap().unwrap();
    assert!(read(access).is_err(), "what is gone has no file");
    let pci = root.join("sys/bus/pci/devices/0000:07:00.0");
    assert_eq!(std::fs::read_to_string(pci.join("vendor")).unwrap(), "0x10de\n");
    assert_eq!(std::fs::canonicalize(pci.join("driver")).unwrap().file_name().unwrap(), "nvidia");
    let own = std::fs::read_to_string(root.join("proc/driver/nvidia/gpus/0000:0a:00.0/information")).unwrap();
    assert!(own.contains("NVIDIA H100 80GB HBM3"), "{own}");
    assert_eq!(tree::entries(store.seen().state()).len(), 7 + 2 * 12);
}
