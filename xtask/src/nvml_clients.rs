//! `cargo xtask nvml-clients`: programs of others that use NVML, on an emulated node.
//!
//! `gpustat`, `nvitop`, NVIDIA's Python client and its Go clients, as their registries have them. What they say is
//! compared with the scenario: names, UUIDs, memory, MIG devices, processes with real ids.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use crate::nvml_coverage::{self, TABLE};

/// Python packages, in the versions that the table of functions was made with.
const PACKAGES: [&str; 3] = ["gpustat==1.1.1", "nvitop==1.7.2", "nvidia-ml-py==13.615.71"];
const SCRIPT: &str = "xtask/clients/walk.py";
const GO_MODULE: &str = "xtask/clients/go";
/// The environment of Python packages, beside that of the suite's own tools.
const FOLDER: &str = ".venv";

/// UUIDs that the scenario gives its GPUs.
const UUIDS: [&str; 4] = [
    "GPU-5f2c0a3e-7d1b-4c6e-9a58-0b6f1e2d3c4a",
    "GPU-6a3d1b4f-8e2c-4d7f-8b69-1c7a2f3e4d5b",
    "GPU-7b4e2c50-9f3d-4e80-9c7a-2d8b304f5e6c",
    "GPU-8c5f3d61-a04e-4f91-8d8b-3e9c41506f7d",
];

/// Builds what is needed, starts an emulated node and asks every client.
pub(crate) fn run(root: &Path) -> Result<()> {
    let python = python(root)?;
    let walker = go(root)?;
    let node = Node::new(root)?;
    names(root, &node, &python)?;
    let told = python_walk(&node, &python)?;
    go_walk(&node, &walker, &told)?;
    gpustat(&node, &python)?;
    nvitop(&node, &python)?;
    change(&node, &python)?;
    event(&node, &python)?;
    files(&node)?;
    println!("gpustat, nvitop, nvidia-ml-py, go-nvml and go-nvlib agree with the scenario");
    Ok(())
}

/// Python with the packages.
fn python(root: &Path) -> Result<PathBuf> {
    let python = root.join(FOLDER).join("bin/python");
    if !python.exists() {
        call(Command::new("python3").args(["-m", "venv", FOLDER]).current_dir(root))
            .context("python3 with its venv module is needed (on Debian: apt-get install python3-venv)")?;
    }
    let frozen = output(Command::new(&python).args(["-m", "pip", "freeze"]).current_dir(root))?;
    if PACKAGES.iter().any(|wanted| !frozen.lines().any(|line| line == *wanted)) {
        println!("Installing into {FOLDER}: {}", PACKAGES.join(", "));
        let words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        call(Command::new(&python).args(words).args(PACKAGES).current_dir(root))?;
    }
    Ok(python)
}

/// The Go client, built.
fn go(root: &Path) -> Result<PathBuf> {
    let file = target(root).join("nvml-clients-go");
    // NVIDIA's header marks functions as deprecated that its own client still calls.
    let mut command = Command::new("go");
    command.args(["build", "-mod=readonly", "-o"]).arg(&file).arg(".").current_dir(root.join(GO_MODULE));
    command.env("CGO_CFLAGS", "-O2 -g -Wno-deprecated-declarations");
    call(&mut command).context("Go is needed, in the version that xtask/clients/go/go.mod names or newer")?;
    Ok(file)
}

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder))
}

/// An emulated node with a real process on one of its MIG devices.
struct Node {
    tesela: PathBuf,
    folder: PathBuf,
    machine: PathBuf,
    settings: Vec<(String, OsString)>,
    process: Child,
}

impl Node {
    fn new(root: &Path) -> Result<Self> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let words = ["build", "--quiet", "--locked", "-p", "tesela", "-p", "nvml-sim"];
        call(Command::new(cargo).args(words).current_dir(root))?;
        let tesela = target(root).join("debug/tesela");
        let folder = target(root).join("nvml-clients");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder)?;
        let process = Command::new("sleep").arg("600").spawn().context("cannot start `sleep`")?;
        let machine = folder.join("node.yaml");
        let mut node = Self { tesela, folder, machine, settings: Vec::new(), process };
        std::fs::write(&node.machine, node.scenario())?;
        let lines = output(Command::new(&node.tesela).args(["sim", "env"]).arg(&node.machine))?;
        // As a shell reads it: these paths hold nothing that it would read otherwise.
        let shell = format!("{lines}\nprintf '%s\\n%s' \"$TESELA_SIM\" \"$LD_LIBRARY_PATH\"");
        let told = output(Command::new("sh").arg("-c").arg(shell).env_remove("LD_LIBRARY_PATH"))?;
        let (machine, libraries) = told.split_once('\n').context("`sim env` sets two variables")?;
        node.settings =
            vec![("TESELA_SIM".into(), machine.into()), ("LD_LIBRARY_PATH".into(), libraries.into())];
        Ok(node)
    }

    /// Four GPUs: two as they are, one cut, one with a process on the whole of it.
    fn scenario(&self) -> String {
        let pid = self.process.id();
        let [first, second, third, fourth] = UUIDS;
        format!(
            "gpus:\n\
             - {{product: h100-sxm-80gb, uuid: {first}}}\n\
             - {{product: h100-sxm-80gb, uuid: {second}}}\n\
             - product: a100-40gb\n  uuid: {third}\n\
             \x20 mig: [{{profile: 1g.5gb, start: 0}}, {{profile: 2g.10gb, start: 2}}, {{profile: 3g.20gb, start: 4, \
             compute: [1c.3g.20gb, 2c.3g.20gb]}}]\n\
             \x20 processes: [{{pid: {pid}, name: python, memory_mib: 2000, instance: 0, busy: 40%}}]\n\
             - product: a30-24gb\n  uuid: {fourth}\n  processes: [{{pid: {own}, memory_mib: 300, busy: 25%}}]\n",
            own = std::process::id(),
        )
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.envs(self.settings.iter().map(|(name, value)| (name, value))).current_dir(&self.folder);
        command
    }

    fn script(&self, python: &Path, words: &[&str]) -> Result<String> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(SCRIPT);
        output(self.command(python).arg(script).args(words))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It is ours and sleeps; that it ended already would change nothing.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The table names every function of the Python client, and the library has every function of the table.
fn names(root: &Path, node: &Node, python: &Path) -> Result<()> {
    let told = node.script(python, &["names"])?;
    let bound = told.lines().collect::<Vec<_>>();
    let table = nvml_coverage::functions(root)?;
    let listed = table.iter().filter(|f| f.named_by[0]).map(|f| f.name.as_str()).collect::<Vec<_>>();
    if bound != listed {
        let missing = bound.iter().filter(|name| !listed.contains(name)).collect::<Vec<_>>();
        let gone = listed.iter().filter(|name| !bound.contains(name)).collect::<Vec<_>>();
        bail!("{TABLE}: the Python client also binds {missing:?}, and does not bind {gone:?}");
    }
    let table = root.join(TABLE);
    let lacks = node.script(python, &["symbols", &table.to_string_lossy()])?;
    ensure!(lacks.trim().is_empty(), "the library lacks {lacks}");
    Ok(())
}

/// NVIDIA's Python client sees the scenario.
fn python_walk(node: &Node, python: &Path) -> Result<Value> {
    let told: Value = serde_json::from_str(&node.script(python, &["walk"])?)?;
    let pid = node.process.id();
    let of = |field: &str| {
        told["gpus"]
            .as_array()
            .map_or_else(Vec::new, |all| all.iter().map(|gpu| gpu[field].clone()).collect())
    };
    let names = ["NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB", "NVIDIA A30"];
    same("driver", &told["driver"], &json!("580.95.05"))?;
    same("names", &json!(of("name")), &json!(names))?;
    same("UUIDs", &json!(of("uuid")), &json!(UUIDS))?;
    same("memory", &json!(of("memory_mib")), &json!([81559, 81559, 40960, 24576]))?;
    same("minor numbers", &json!(of("minor")), &json!([0, 1, 2, 3]))?;
    same("MIG modes", &json!(of("mig")), &json!([false, false, true, false]))?;
    let devices = told["gpus"][2]["devices"].as_array().cloned().unwrap_or_default();
    let mut names = devices.iter().filter_map(|device| device["name"].as_str()).collect::<Vec<_>>();
    names.sort_unstable();
    let cut = ["1c.3g.20gb", "1g.5gb", "2c.3g.20gb", "2g.10gb"]
        .map(|name| format!("NVIDIA A100-SXM4-40GB MIG {name}"));
    same("MIG devices", &json!(names), &json!(cut))?;
    let on = devices.iter().filter(|device| device["processes"] != json!([])).collect::<Vec<_>>();
    let [on] = on[..] else { bail!("the process is on one MIG device: {devices:?}") };
    same("the device with the process", &on["name"], &json!("NVIDIA A100-SXM4-40GB MIG 1g.5gb"))?;
    let process = json!({
        "pid": pid, "kind": "compute", "memory_mib": 2000,
        "gpu_instance": on["gpu_instance"], "compute_instance": on["compute_instance"],
    });
    same("processes of the MIG device", &on["processes"], &json!([process]))?;
    same("processes of its GPU", &told["gpus"][2]["processes"], &json!([process]))?;
    let whole = json!([{
        "pid": std::process::id(), "kind": "compute", "memory_mib": 300,
        "gpu_instance": null, "compute_instance": null,
    }]);
    same("processes of the whole GPU", &told["gpus"][3]["processes"], &whole)?;
    let profiles = json!([
        {"id": 0, "name": "4g.24gb", "most": 1}, {"id": 5, "name": "2g.12gb", "most": 2},
        {"id": 6, "name": "2g.12gb+me", "most": 1}, {"id": 14, "name": "1g.6gb", "most": 4},
        {"id": 21, "name": "1g.6gb+me", "most": 1},
    ]);
    same("profiles of the A30", &told["gpus"][3]["profiles"], &profiles)?;
    Ok(told)
}

/// NVIDIA's Go clients see what the Python client sees.
fn go_walk(node: &Node, walker: &Path, told: &Value) -> Result<()> {
    let seen: Value = serde_json::from_str(&output(&mut node.command(walker))?)?;
    same("driver", &seen["driver"], &told["driver"])?;
    for (index, gpu) in told["gpus"].as_array().into_iter().flatten().enumerate() {
        let own = &seen["gpus"][index];
        for field in ["index", "uuid", "name", "minor", "memory_mib", "mig"] {
            same(&format!("{field} of GPU {index} (Go)"), &own[field], &gpu[field])?;
        }
        let name = |device: &Value, field: &str| {
            device[field].as_str().map(|text| text.rsplit(' ').next().unwrap_or(text).to_owned())
        };
        let rows = |all: &Value, field: &str| {
            let all = all.as_array().cloned().unwrap_or_default();
            let row = |d: &Value| {
                json!([
                    d["index"],
                    d["uuid"],
                    name(d, field),
                    d["memory_mib"],
                    d["gpu_instance"],
                    d["compute_instance"]
                ])
            };
            Value::Array(all.iter().map(row).collect())
        };
        let devices = (rows(&own["devices"], "profile"), rows(&gpu["devices"], "name"));
        same(&format!("MIG devices of GPU {index} (Go)"), &devices.0, &devices.1)?;
        let pids = gpu["processes"].as_array().into_iter().flatten().map(|process| process["pid"].clone());
        same(&format!("processes of GPU {index} (Go)"), &own["processes"], &json!(pids.collect::<Vec<_>>()))?;
        // go-nvlib makes names of profiles itself, from slices and memory: each of the driver's is among them.
        let made = own["profiles"].as_array().cloned().unwrap_or_default();
        let listed = gpu["profiles"].as_array().into_iter().flatten().map(|profile| &profile["name"]);
        let lacking = listed.filter(|name| !made.contains(name)).collect::<Vec<_>>();
        ensure!(lacking.is_empty(), "profiles of GPU {index} that go-nvlib does not see: {lacking:?}");
    }
    same("architectures", &seen["gpus"][0]["architecture"], &json!("Hopper"))?;
    same("compute capability", &seen["gpus"][2]["capability"], &json!("8.0"))
}

fn gpustat(node: &Node, python: &Path) -> Result<()> {
    let told = output(node.command(beside(python, "gpustat")).arg("--json"))?;
    let told: Value = serde_json::from_str(&told)?;
    let gpus = told["gpus"].as_array().cloned().unwrap_or_default();
    let row = |gpu: &Value| {
        let processes = gpu["processes"].as_array().into_iter().flatten();
        let processes = processes.map(|p| json!([p["pid"], p["command"], p["gpu_memory_usage"]]));
        json!([gpu["uuid"], gpu["memory.used"], gpu["memory.total"], processes.collect::<Vec<_>>()])
    };
    let own = std::env::current_exe()?;
    let own = own.file_name().context("this program has a name")?.to_string_lossy();
    let expected = json!([
        [UUIDS[0], 0, 81559, []],
        [UUIDS[1], 0, 81559, []],
        [UUIDS[2], 2000, 40960, [[node.process.id(), "sleep", 2000]]],
        [UUIDS[3], 300, 24576, [[std::process::id(), own, 300]]],
    ]);
    same("gpustat", &Value::Array(gpus.iter().map(row).collect()), &expected)?;
    same("utilisation of the A30 (gpustat)", &gpus[3]["utilization.gpu"], &json!(25))?;
    ensure!(gpus[2]["utilization.gpu"].is_null(), "with MIG on there is no utilisation");
    ensure!(gpus[3]["power.draw"].as_u64().is_some_and(|watts| watts > 0), "the A30 draws power");
    Ok(())
}

/// Its page for people, once: GPUs, MIG devices, the process beside its device.
fn nvitop(node: &Node, python: &Path) -> Result<()> {
    let mut command = node.command(beside(python, "nvitop"));
    command.args(["-1", "--ascii"]).env("COLUMNS", "120").env("LINES", "60");
    let page = output(&mut command)?;
    let lines = page.lines().collect::<Vec<_>>();
    let has = |words: &[&str]| lines.iter().any(|line| words.iter().all(|word| line.contains(word)));
    let pid = node.process.id().to_string();
    let expected: [&[&str]; 8] = [
        &["Driver Version: 580.95.05", "CUDA Driver Version: 13.0"],
        &["0", "H100 80GB HBM3", "00000000:07:00.0"],
        &["2", "A100-SXM4-40GB", "Enabled"],
        &["2:0", "GI/CI:"],
        &["1g.5gb", "2000MiB /  4864MiB"],
        &["2c.3g.20gb"],
        &[&pid, "2000MiB", "sleep 600"],
        &["A30", "Disabled"],
    ];
    for words in expected {
        ensure!(has(words), "nvitop shows no line with {words:?}:\n{page}");
    }
    let on = lines
        .iter()
        .find(|line| line.contains("1g.5gb"))
        .and_then(|line| line.split_whitespace().find(|word| word.starts_with("2:")).map(str::to_owned));
    let on = on.context("nvitop numbers MIG devices")?;
    let process = lines.iter().find(|line| line.contains(&pid)).context("the process is shown")?;
    ensure!(process.contains(&on), "the process is on {on}: {process}");
    Ok(())
}

/// A MIG device is made and removed through NVIDIA's client, and busy ones are refused.
fn change(node: &Node, python: &Path) -> Result<()> {
    let told: Value = serde_json::from_str(&node.script(python, &["change", "1"])?)?;
    let expected = json!({
        "profile": "1g.10gb", "taken": 1, "made": ["NVIDIA H100 80GB HBM3 MIG 1g.10gb"],
        "destroy_with_part": "In use by another client", "left": 0, "mig": false,
    });
    same("a MIG device's life", &told, &expected)
}

/// An XID that is injected reaches a program that waits.
fn event(node: &Node, python: &Path) -> Result<()> {
    let tesela = node.tesela.to_string_lossy();
    let told = node.script(python, &["event", &tesela, "sim", "fault", "xid:48", "--gpu", "3"])?;
    same("an XID", &serde_json::from_str(told.trim())?, &json!({"xid": 48, "index": 3}))
}

/// A program that is run among the driver's files finds them, where this system lets it have a namespace.
fn files(node: &Node) -> Result<()> {
    let probe = Command::new("unshare").args(["--mount", "--", "true"]).stderr(Stdio::null()).status();
    if !probe.is_ok_and(|status| status.success()) {
        println!("This system gives no mount namespace: `tesela sim run` is not tried");
        return Ok(());
    }
    let mut command = Command::new(&node.tesela);
    command.args(["sim", "run"]).arg(&node.machine).args(["--", "sh", "-c"]);
    command
        .arg("cat /proc/driver/nvidia/version /proc/driver/nvidia-caps/mig-minors; ls /sys/bus/pci/devices");
    let told = output(&mut command)?;
    for wanted in ["580.95.05", "gpu2/gi7/access 336", "0000:07:00.0"] {
        ensure!(
            told.lines().any(|line| line.contains(wanted)),
            "`tesela sim run` shows no {wanted}:\n{told}"
        );
    }
    Ok(())
}

fn beside(python: &Path, program: &str) -> PathBuf {
    python.with_file_name(program)
}

fn same(what: &str, found: &Value, expected: &Value) -> Result<()> {
    ensure!(found == expected, "{what}: {found}\nexpected: {expected}");
    Ok(())
}

fn call(command: &mut Command) -> Result<()> {
    let status =
        command.stdin(Stdio::null()).status().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

fn output(command: &mut Command) -> Result<String> {
    let out = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let out = out.with_context(|| format!("cannot start {command:?}"))?;
    ensure!(out.status.success(), "{command:?} ended with {}", out.status);
    Ok(String::from_utf8(out.stdout)?)
}
