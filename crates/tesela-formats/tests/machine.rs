//! Machine files: what is read, and what is refused where.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its input has failed")]

use tesela_formats::machine::read_machine;
use tesela_model::driver::ProcessKind;
use tesela_model::machine::{CONTEXT_MIB, DRIVER_VERSION, Health};

fn refused(text: &str) -> String {
    read_machine("m.yaml", text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn the_least_file_says_how_many_of_what() {
    let machine = read_machine("m.yaml", b"gpus: [{product: h100-sxm-80gb, count: 8}]").unwrap();
    assert_eq!(machine.gpus.len(), 8);
    assert_eq!((machine.driver.as_str(), machine.seed), (DRIVER_VERSION, 0));
    let gpu = &machine.gpus[7];
    assert_eq!(gpu.name, "NVIDIA H100 80GB HBM3");
    assert_eq!((gpu.mig.as_ref(), gpu.health, gpu.processes.len()), (None, Health::Healthy, 0));
}

#[test]
fn instances_and_processes_are_read_in_order() {
    let text = "\
gpus:
  - {product: NVIDIA A100-PCIE-40GB}
  - product: a100-40gb
    mig: [{profile: 2g.10gb, start: 2}, {profile: 1g.5gb, start: 0}, {profile: 3g.20gb, start: 4, compute: [1c.3g.20gb, 2c.3g.20gb]}]
    processes: [{pid: 4321, name: python, memory_mib: 2000, instance: 0, busy: 40%}, {pid: 7, instance: 2, compute: 1, kind: mps}]
";
    let machine = read_machine("m.yaml", text.as_bytes()).unwrap();
    assert_eq!(machine.gpus[0].name, "NVIDIA A100-PCIE-40GB");
    let gpu = &machine.gpus[1];
    assert_eq!(gpu.name, "NVIDIA A100-SXM4-40GB");
    let mig = gpu.mig.as_ref().unwrap();
    let shape = mig.iter().map(|i| (i.profile.as_str(), i.start, i.compute.len())).collect::<Vec<_>>();
    assert_eq!(shape, [("2g.10gb", 2, 1), ("1g.5gb", 0, 1), ("3g.20gb", 4, 2)]);
    assert_eq!(mig[0].compute[0].as_str(), "2g.10gb");
    let first = &gpu.processes[0];
    assert_eq!((first.pid, first.memory.0, first.instance, first.busy), (4321, 2000, Some(0), 400));
    let second = &gpu.processes[1];
    assert_eq!((second.kind, second.memory, second.compute), (ProcessKind::Mps, CONTEXT_MIB, 1));
}

#[test]
fn json_is_read_too() {
    let text = r#"{"seed": 7, "in_use_after_destroy": {"answers": 2}, "gpus": [{"product": "a30-24gb", "mig": []}]}"#;
    let machine = read_machine("-", text.as_bytes()).unwrap();
    assert_eq!((machine.seed, machine.manner.in_use_answers), (7, 2));
    assert_eq!(machine.gpus[0].mig.as_deref(), Some(&[][..]));
}

#[test]
fn impossible_instances_are_refused_with_the_rule_and_the_place() {
    let at = |mig: &str| refused(&format!("gpus:\n  - product: a100-40gb\n    mig: [{mig}]\n"));
    let overlap = at("{profile: 3g.20gb, start: 0}, {profile: 1g.5gb, start: 3}");
    assert!(overlap.starts_with("m.yaml:3:51: 3g.20gb@0 and 1g.5gb@3 overlap in unit 3"), "{overlap}");
    let start = at("{profile: 2g.10gb, start: 1}");
    assert!(start.starts_with("m.yaml:3:37: ") && start.contains("may start at 0, 2, 4"), "{start}");
    let media = at("{profile: 1g.5gb+me, start: 0}, {profile: 1g.5gb+me, start: 1}");
    assert!(media.contains("jpeg engines"), "{media}");
    let name = at("{profile: 1g.5bg, start: 0}");
    assert!(name.contains("did you mean `1g.5gb`?"), "{name}");
    let compute = at("{profile: 2g.10gb, start: 0, compute: [1c.2g.10gb, 2g.10gb]}");
    assert!(compute.contains("take 3 slices, 2g.10gb has 2"), "{compute}");
    let compute = at("{profile: 2g.10gb, start: 0, compute: [1c.2g.20gb]}");
    assert!(compute.contains("did you mean `1c.2g.10gb`?"), "{compute}");
}

#[test]
fn products_that_cannot_be_emulated_are_refused() {
    let of = |product: &str| refused(&format!("gpus: [{{product: {product}}}]"));
    let near = of("h100-sxm-80g");
    assert!(near.starts_with("m.yaml:1:18: unknown product `h100-sxm-80g`"), "{near}");
    assert!(near.contains("did you mean `h100-sxm-80gb`?"), "{near}");
    assert!(of("NVIDIA L4").contains("not in the profile table"));
    let none = of("rtx-pro-5000-48gb");
    assert!(none.contains("[no-placements]") && none.contains("a100-40gb"), "{none}");
}

#[test]
fn processes_are_where_they_can_be() {
    let of = |rest: &str| refused(&format!("gpus:\n  - product: a100-40gb\n    {rest}\n"));
    let on = |process: &str| of(&format!("mig: [{{profile: 1g.5gb, start: 0}}]\n    processes: [{process}]"));
    let beyond = on("{pid: 1, instance: 1}");
    assert!(beyond.starts_with("m.yaml:4:36: `instance: 1` is beyond the list"), "{beyond}");
    assert!(on("{pid: 1}").contains("is on one of its instances"));
    assert!(on("{pid: 1, instance: 0, memory_mib: 4865}").contains("hold 4865 MiB, 1g.5gb has 4864 MiB"));
    assert!(on("{pid: 0, instance: 0}").contains("`pid` must be a whole number from 1"));
    assert!(on("{pid: 1, instance: 0}, {pid: 1, instance: 0}").contains("stands twice"));
    assert!(of("processes: [{pid: 1, instance: 0}]").contains("needs `mig`"));
    let half = of("mig: [{profile: 1g.5gb, start: 0, compute: []}]\n    processes: [{pid: 1, instance: 0}]");
    assert!(half.contains("no compute instance"), "{half}");
}

#[test]
fn counts_names_and_shapes_are_sane() {
    assert!(refused("gpus: [{product: a100-40gb, count: 65}]").contains("from 1 to 64"));
    let many = refused("gpus: [{product: a100-40gb, count: 64}, {product: a30-24gb}]");
    assert!(many.contains("more than 64"), "{many}");
    let misspelt = refused("gpus: [{product: a100-40gb, cuont: 2}]");
    assert!(misspelt.contains("did you mean `count`?"), "{misspelt}");
    let of = |rest: &str| refused(&format!("gpus: [{{product: a100-40gb, {rest}}}]"));
    assert!(of("uuid: GPU-1").contains("is no UUID of a GPU"));
    assert!(of("pci: '0000:3b:00.0'").contains("is no PCI address"));
    assert!(of("serial: abc").contains("is no serial number"));
    assert!(of("health: broken").contains("health"));
    let uuid = "uuid: GPU-5f2c0a3e-7d1b-4c6e-9a58-0b6f1e2d3c4a";
    assert!(of(&format!("{uuid}, count: 2")).contains("belongs to one GPU"));
    let twice = refused(&format!("gpus: [{{product: a100-40gb, {uuid}}}, {{product: a100-40gb, {uuid}}}]"));
    assert!(twice.contains("stands twice"), "{twice}");
    assert!(refused("driver: latest\ngpus: [{product: a100-40gb}]").contains("no version of a driver"));
    assert!(refused("").contains("m.yaml"));
    assert!(refused("gpus: []\n---\ngpus: []").contains("holds 2"));
}
