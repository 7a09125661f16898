//! The conformance suite on simulated GPUs, and on simulated GPUs with one rule broken.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its input has failed")]

use tesela_formats::machine::read_machine;
use tesela_model::driver::{GpuDriver, GpuReset, GpuUuid, ProcessKind};
use tesela_nvml::conformance::{Access, Bench, Failure, Report, Scene, Step, cases, run};
use tesela_sim::call::Rights;
use tesela_sim::contention::Demand;
use tesela_sim::fault::Defect;
use tesela_sim::state::Process;
use tesela_sim::{SimDriver, Simulator};

/// Simulated GPUs, sound or with a defect.
struct Simulated {
    defect: Option<Defect>,
    driver: SimDriver,
    user: SimDriver,
}

impl Simulated {
    fn new(defect: Option<Defect>) -> Self {
        let machine = read_machine("m", b"gpus: [{product: a100-40gb, mig: []}]").unwrap();
        let simulator = Simulator::new(&machine).unwrap();
        let user = SimDriver::with_rights(simulator.clone(), Rights::User);
        Self { defect, driver: SimDriver::new(simulator), user }
    }
}

impl Bench for Simulated {
    fn set(&mut self, scene: &Scene) -> Result<(), String> {
        let machine =
            read_machine("scene", scene.machine_file().as_bytes()).map_err(|e| e.to_string()).unwrap();
        let made = match self.defect {
            Some(defect) => Simulator::broken(&machine, defect),
            None => Simulator::new(&machine),
        };
        let simulator = made.unwrap();
        self.user = SimDriver::with_rights(simulator.clone(), Rights::User);
        self.driver = SimDriver::new(simulator);
        Ok(())
    }

    fn driver(&self) -> &dyn GpuDriver {
        &self.driver
    }

    fn unprivileged(&self) -> Option<&dyn GpuDriver> {
        Some(&self.user)
    }

    fn reset(&self) -> Option<&dyn GpuReset> {
        Some(&self.driver)
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
        self.driver.with(|s| s.start_process(gpu, process)).map_err(|e| e.to_string())
    }

    fn end(&mut self, gpu: &GpuUuid, pid: u32) -> Result<(), String> {
        self.driver.with(|s| s.end_process(gpu, pid)).map_err(|e| e.to_string())
    }
}

fn of(defect: Option<Defect>) -> Report {
    run(&cases().unwrap(), &mut Simulated::new(defect), Access::Write)
}

#[test]
fn simulated_gpus_answer_as_a_driver_does() {
    let report = of(None);
    let told = report.failed.iter().map(Failure::to_string).collect::<Vec<_>>().join("\n");
    assert!(report.failed.is_empty(), "{told}");
    assert_eq!(report.skipped, []);
    assert!(report.passed.len() >= 50, "only {} cases ran", report.passed.len());
}

#[test]
fn every_defect_is_noticed() {
    for defect in Defect::ALL {
        let report = of(Some(defect));
        assert!(!report.failed.is_empty(), "{defect:?} passes the suite");
        println!("{defect:?}: {} cases fail, the first: {}", report.failed.len(), report.failed[0]);
    }
}

#[test]
fn reading_alone_changes_nothing() {
    let mut bench = Simulated::new(None);
    let before = bench.driver.with(|s| s.to_json());
    let report = run(&cases().unwrap(), &mut bench, Access::Read);
    assert_eq!(report.failed, []);
    assert!(!report.passed.is_empty() && !report.skipped.is_empty());
    assert_eq!(bench.driver.with(|s| s.to_json()), before);
}

#[test]
fn every_case_has_a_source_and_a_name_of_its_own() {
    let cases = cases().unwrap();
    let names = cases.iter().map(|c| c.name.as_str()).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(names.len(), cases.len());
    for case in &cases {
        assert!(case.source.len() > 8, "{} has no source", case.name);
        assert!(!case.steps.is_empty());
        let reads = case.steps.iter().all(|step| matches!(step, Step::Laws));
        assert!(case.scene.is_some() || reads, "{} may change a GPU that it did not set up", case.name);
    }
}

/// A driver that may be read by anybody alone: cases that need rights are skipped, none fails.
struct Reader(SimDriver);

impl Bench for Reader {
    fn driver(&self) -> &dyn GpuDriver {
        &self.0
    }
}

#[test]
fn a_real_driver_is_read_with_the_rights_there_are() {
    let text = "driver: 535.161.07\ngpus: [{product: h100-sxm-80gb}, {product: a100-40gb, mig: [{profile: 1g.5gb, start: 0}], health: lost}]";
    let simulator = Simulator::new(&read_machine("m", text.as_bytes()).unwrap()).unwrap();
    for rights in [Rights::User, Rights::Root] {
        let mut bench = Reader(SimDriver::with_rights(simulator.clone(), rights));
        let report = run(&cases().unwrap(), &mut bench, Access::Read);
        assert_eq!(report.failed, []);
        let laws = report.passed.iter().any(|name| name == "laws of every GPU");
        assert_eq!(laws, rights == Rights::Root);
    }
    let mut bench = Reader(SimDriver::new(simulator));
    let report = run(&cases().unwrap(), &mut bench, Access::Write);
    assert_eq!(report.failed, []);
    assert!(report.skipped.iter().all(|(_, why)| why.contains("sets no scenes")));
}
