//! `tesela sim`: an emulated node set up, loaded, broken and shown.

use std::path::{Path, PathBuf};

use crate::harness::{Run, folder, run};

const MACHINE: &str = "\
gpus:
  - {product: h100-sxm-80gb, uuid: GPU-5f2c0a3e-7d1b-4c6e-9a58-0b6f1e2d3c4a}
  - product: a100-40gb
    uuid: GPU-6a3d1b4f-8e2c-4d7f-8b69-1c7a2f3e4d5b
    mig: [{profile: 1g.5gb, start: 0}, {profile: 2g.10gb, start: 2, compute: []}]
    processes: [{pid: 4321, name: python, memory_mib: 2000, instance: 0, busy: 40%}]
";

fn node(test: &str) -> PathBuf {
    let file = folder(&format!("sim_{test}")).join("node.yaml");
    std::fs::write(&file, MACHINE).unwrap();
    file
}

/// A verb of `sim` on a node.
fn sim(machine: &Path, words: &[&str]) -> Run {
    let machine = machine.to_str().unwrap();
    run(&[&["sim"], words, &["--machine", machine]].concat())
}

fn shown(machine: &Path) -> serde_json::Value {
    sim(machine, &["show", "--format", "json"]).json()
}

#[test]
fn a_shell_is_set_up() {
    let file = node("env");
    let library = file.with_file_name("libnvml_sim.so");
    std::fs::write(&library, "").unwrap();
    let told = run(&["sim", "env", file.to_str().unwrap(), "--library", library.to_str().unwrap()]);
    assert_eq!((told.code, told.stderr.as_str()), (Some(0), ""), "{told}");
    let folder = format!("{}.lib", file.display());
    let expected = format!(
        "export TESELA_SIM={}\nexport LD_LIBRARY_PATH={folder}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}\n",
        file.display()
    );
    assert_eq!(told.stdout, expected);
    let link = Path::new(&folder).join("libnvidia-ml.so.1");
    assert_eq!(std::fs::read_link(link).unwrap(), library);
}

#[test]
fn a_library_or_machine_that_is_not_there_is_told() {
    let file = node("env_missing");
    let name = file.to_str().unwrap();
    run(&["sim", "env", name, "--library", "/no/such.so"]).refused(&["/no/such.so", "no such file"]);
    run(&["sim", "env", "/no/such.yaml"]).refused(&["/no/such.yaml"]);
    std::fs::write(&file, "gpus:\n  - {product: l4}\n").unwrap();
    run(&["sim", "env", name]).refused(&["node.yaml:2:", "l4"]);
    std::fs::write(&file, "gpus:\n  - {product: a100-40gb, mig: [{profile: 3g.20gb, start: 3}]}\n").unwrap();
    run(&["sim", "env", name]).refused(&["node.yaml:2:", "3g.20gb", "start"]);
}

#[test]
fn the_node_is_shown() {
    let file = node("show");
    let page = sim(&file, &["show", "--width", "120"]);
    assert_eq!(page.code, Some(0), "{page}");
    // UUIDs of MIG devices are made from the seed, so the page is always the same.
    insta::assert_snapshot!(page.stdout);
    let data = shown(&file);
    assert_eq!(data["gpus"][1]["instances"][0]["devices"].as_array().map(Vec::len), Some(0), "half made");
    assert_eq!(data["gpus"][1]["instances"][1]["profile"], "1g.5gb");
}

#[test]
fn processes_come_change_and_end() {
    let file = node("load");
    let load = |words: &[&str]| sim(&file, &[&["load"], words].concat());
    let told = load(&["--gpu", "0", "--pid", "99", "--memory-mib", "1000", "--busy", "80"]);
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), ""), "{told}");
    let process = || shown(&file)["gpus"][0]["processes"][0].clone();
    assert_eq!(
        (process()["memory_mib"].as_u64(), process()["busy_percent"].as_u64()),
        (Some(1000), Some(80))
    );
    assert_eq!(shown(&file)["gpus"][0]["busy_percent"], 80);
    load(&["--gpu", "GPU-5f2c0a3e-7d1b-4c6e-9a58-0b6f1e2d3c4a", "--pid", "99", "--busy", "10"]);
    assert_eq!(
        (process()["memory_mib"].as_u64(), process()["busy_percent"].as_u64()),
        (Some(1000), Some(10))
    );
    load(&["--gpu", "0", "--pid", "99", "--memory-mib", "999999"]).refused(&["free"]);
    assert_eq!(process()["memory_mib"], 1000, "a change that cannot be leaves what was");
    assert_eq!(load(&["--gpu", "0", "--pid", "99", "--end"]).code, Some(0));
    assert_eq!(shown(&file)["gpus"][0]["processes"].as_array().map(Vec::len), Some(0));
    load(&["--gpu", "0", "--pid", "99", "--end"]).refused(&["99"]);
}

#[test]
fn with_mig_on_a_process_is_on_a_device() {
    let file = node("load_mig");
    let load = |words: &[&str]| sim(&file, &[&["load", "--gpu", "1", "--pid", "7"], words].concat());
    load(&[]).refused(&["MIG is on", "--instance"]);
    let gi = shown(&file)["gpus"][1]["instances"][1]["gpu_instance"].to_string();
    let half = shown(&file)["gpus"][1]["instances"][0]["gpu_instance"].to_string();
    load(&["--instance", &half]).refused(&["no compute instance"]);
    load(&["--instance", "99"]).refused(&["99", &format!("{gi}/0")]);
    load(&["--instance", &format!("{gi}/3")]).refused(&["no such instance"]);
    assert_eq!(load(&["--instance", &gi]).code, Some(0));
    let uuid = shown(&file)["gpus"][1]["instances"][1]["devices"][0]["uuid"].as_str().unwrap().to_owned();
    assert_eq!(load(&["--instance", &uuid, "--busy", "5"]).code, Some(0));
    sim(&file, &["load", "--gpu", "5", "--pid", "7"]).refused(&["--gpu 5", "1 (GPU-6a3d1b4f"]);
}

#[test]
fn faults_are_laid_shown_and_lifted() {
    let file = node("fault");
    let fault = |words: &[&str]| sim(&file, &[&["fault"], words].concat());
    assert_eq!(fault(&["lost", "--gpu", "0"]).code, Some(0));
    assert_eq!(shown(&file)["gpus"][0]["health"], "lost");
    assert_eq!(fault(&["healed", "--gpu", "0"]).code, Some(0));
    assert_eq!(shown(&file)["gpus"][0]["health"], "healthy");
    assert_eq!(fault(&["in-use:2", "--gpu", "1", "--instance", "7"]).code, Some(0));
    let laid = shown(&file)["faults"].clone();
    assert!(laid[1].as_str().unwrap().contains("nvmlGpuInstanceDestroy"), "{laid}");
    assert_eq!(fault(&["clear", "--all"]).code, Some(0));
    assert_eq!(shown(&file)["faults"].as_array().map(Vec::len), Some(0));
    let said = fault(&["xid:48", "--gpu", "1", "--instance", "7/0"]);
    assert!(said.stderr.contains("reports XID 48"), "{said}");
    fault(&["xid", "--gpu", "0"]).refused(&["xid:79"]);
    fault(&["explode", "--gpu", "0"]).refused(&["needs-reset", "in-use:N"]);
    fault(&["in-use:0", "--gpu", "0"]).refused(&["in-use:3"]);
    run(&["sim", "fault", "lost"]).refused(&["--gpu"]);
}

#[test]
fn a_gpu_in_use_is_not_reset_and_a_reboot_ends_all() {
    let file = node("reset");
    let busy = sim(&file, &["reset", "--gpu", "1"]);
    assert_eq!((busy.code, busy.stdout.as_str()), (Some(1), ""), "{busy}");
    assert!(busy.stderr.contains("in use"), "{busy}");
    assert_eq!(sim(&file, &["reset", "--reboot"]).code, Some(0));
    let node = shown(&file);
    assert_eq!(node["gpus"][1]["processes"].as_array().map(Vec::len), Some(0));
    assert_eq!(node["gpus"][1]["instances"].as_array().map(Vec::len), Some(0));
    assert_eq!(node["gpus"][1]["mig"], true, "an A100 keeps its mode");
}

#[test]
fn a_damaged_state_is_told_and_left_alone() {
    let file = node("damaged");
    shown(&file);
    let state = PathBuf::from(format!("{}.state", file.display()));
    std::fs::write(&state, "{").unwrap();
    let told = sim(&file, &["show"]);
    assert_eq!((told.code, told.stdout.as_str()), (Some(1), ""), "{told}");
    assert!(told.stderr.contains("node.yaml.state") && told.stderr.contains("remove it"), "{told}");
    assert_eq!(std::fs::read(&state).unwrap(), b"{");
}
