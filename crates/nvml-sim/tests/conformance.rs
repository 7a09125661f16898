//! The conformance suite on the emulated library, through the safe session, and in a copy of it without rights.

#![allow(clippy::disallowed_methods, reason = "tests write machine files and set the environment")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};

use nvml_sim::store::Store;
use tesela_model::driver::{Answer, GpuDriver, GpuReset, GpuUuid, ProcessKind};
use tesela_nvml::conformance::{Access, Bench, Failure, Scene, cases, run};
use tesela_nvml::{Search, Session};
use tesela_sim::contention::Demand;
use tesela_sim::state::Process;

/// The library on one machine file: with all rights, and a copy of it, which the loader takes for another, with none.
struct Emulated {
    file: PathBuf,
    copy: PathBuf,
    sessions: Option<(Session, Session)>,
    reset: Reset,
}

/// What stands in for `nvidia-smi --gpu-reset`.
struct Reset(PathBuf);

fn library() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let folders = exe.ancestors().skip(1).take(2);
    let mut files = folders.map(|folder| folder.join("libnvml_sim.so"));
    files.find(|file| file.exists()).unwrap()
}

fn session(machine: &Path, library: &Path, rights: &str) -> Session {
    // SAFETY: the only test of this process changes the environment, and no thread of it is elsewhere.
    unsafe { std::env::set_var("TESELA_SIM", machine) };
    // SAFETY: as above.
    unsafe { std::env::set_var("TESELA_SIM_RIGHTS", rights) };
    Session::open(&Search::File(library.into())).unwrap()
}

impl Emulated {
    fn new() -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let (file, copy) = (folder.join("node.yaml"), folder.join("copy.so"));
        std::fs::copy(library(), &copy).unwrap();
        let mut new = Self { reset: Reset(file.clone()), file, copy, sessions: None };
        new.begin("gpus: [{product: a100-40gb, mig: []}]");
        new
    }

    fn begin(&mut self, machine: &str) {
        self.sessions = None;
        std::fs::write(&self.file, machine).unwrap();
        let _ = std::fs::remove_file(self.file.with_extension("yaml.state"));
        let root = session(&self.file, &library(), "root");
        self.sessions = Some((root, session(&self.file, &self.copy, "user")));
    }

    fn store(&self) -> Store {
        Store::open(&self.file).unwrap()
    }
}

impl Bench for Emulated {
    fn set(&mut self, scene: &Scene) -> Result<(), String> {
        self.begin(&scene.machine_file());
        Ok(())
    }

    fn driver(&self) -> &dyn GpuDriver {
        &self.sessions.as_ref().unwrap().0
    }

    fn unprivileged(&self) -> Option<&dyn GpuDriver> {
        self.sessions.as_ref().map(|(_, user)| user as &dyn GpuDriver)
    }

    fn reset(&self) -> Option<&dyn GpuReset> {
        Some(&self.reset)
    }

    fn start(&mut self, gpu: &GpuUuid, pid: u32, gpu_instance: Option<u32>) -> Result<(), String> {
        let process = Process {
            pid,
            name: None,
            kind: ProcessKind::Compute,
            memory: 1 << 20,
            on: gpu_instance.map(|gi| (gi, 0)),
            demand: Demand { busy: 0, fill: 1000 },
            since: 0,
        };
        self.store().change(|s| s.start_process(gpu, process)).unwrap().map_err(|e| e.to_string())
    }

    fn end(&mut self, gpu: &GpuUuid, pid: u32) -> Result<(), String> {
        self.store().change(|s| s.end_process(gpu, pid)).unwrap().map_err(|e| e.to_string())
    }
}

impl GpuReset for Reset {
    fn reset(&self, gpu: &GpuUuid) -> Answer<()> {
        Store::open(&self.0).unwrap().change(|s| s.reset(gpu)).unwrap()
    }
}

#[test]
fn the_emulated_library_answers_as_a_driver_does() {
    let report = run(&cases().unwrap(), &mut Emulated::new(), Access::Write);
    let told = report.failed.iter().map(Failure::to_string).collect::<Vec<_>>().join("\n");
    assert!(report.failed.is_empty(), "{told}");
    assert_eq!(report.skipped, []);
    assert!(report.passed.len() >= 50, "only {} cases ran", report.passed.len());
}
