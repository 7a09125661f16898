//! Counters: what devices do, in time.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its input has failed")]

use std::time::Duration;

use proptest::prelude::*;
use tesela_formats::machine::read_machine;
use tesela_model::driver::{Device, EventKind, GpuUuid, Readings};
use tesela_sim::Simulator;
use tesela_sim::contention::Demand;
use tesela_sim::fault::Happening;

fn simulator(text: &str) -> (Simulator, GpuUuid) {
    let simulator = Simulator::new(&read_machine("m.yaml", text.as_bytes()).unwrap()).unwrap();
    let gpu = simulator.state().gpus[0].uuid.clone();
    (simulator, gpu)
}

fn read(simulator: &mut Simulator, gpu: &GpuUuid) -> Readings {
    simulator.readings(&Device::Gpu(gpu.clone())).unwrap()
}

#[test]
fn an_idle_gpu_draws_its_idle_power() {
    let (mut simulator, gpu) = simulator("gpus: [{product: h100-sxm-80gb}]");
    simulator.advance(Duration::from_secs(10));
    let idle = read(&mut simulator, &gpu);
    assert_eq!((idle.power_milliwatts, idle.energy_millijoules), (Some(95_000), Some(950_000)));
    assert_eq!(idle.utilisation.unwrap().gpu, 0);
    assert_eq!(idle.clocks.unwrap().sm, 345);
    let memory = idle.memory.unwrap();
    assert_eq!(memory.total, memory.reserved + memory.used + memory.free);
}

#[test]
fn work_shows_in_every_counter() {
    let (mut simulator, gpu) =
        simulator("gpus: [{product: a100-80gb, processes: [{pid: 1, busy: 100%}, {pid: 2, busy: 100%}]}]");
    let busy = read(&mut simulator, &gpu);
    assert_eq!(busy.utilisation.unwrap().gpu, 100);
    assert!(busy.power_milliwatts > Some(200_000) && busy.power_milliwatts < busy.power_limit_milliwatts);
    assert!(busy.temperature_celsius > Some(45));
    assert_eq!(busy.clocks.unwrap().sm, 1410);
    let each = simulator.process_activity(&gpu);
    assert!((1.0 / each[0].rate.progress - 2.22).abs() < 1e-9, "{each:?}");
    simulator.end_process(&gpu, 2).unwrap();
    assert_eq!(simulator.process_activity(&gpu)[0].rate.progress, 1.0);
}

#[test]
fn with_mig_on_utilisation_is_not_told_but_is_there() {
    let (mut simulator, gpu) = simulator(
        "gpus: [{product: a100-40gb, mig: [{profile: 1g.5gb, start: 0}, {profile: 3g.20gb, start: 4}], \
         processes: [{pid: 1, busy: 100%, instance: 0}]}]",
    );
    let whole = read(&mut simulator, &gpu);
    assert_eq!((whole.utilisation, whole.encoder_percent), (None, None));
    assert!(whole.power_milliwatts > Some(72_000));
    let devices = simulator.mig_devices(&gpu).unwrap();
    let idle = Device::Mig { gpu: gpu.clone(), mig: devices[0].uuid.clone() };
    let busy = Device::Mig { gpu: gpu.clone(), mig: devices[1].uuid.clone() };
    assert_eq!(simulator.activity(&idle).unwrap().busy, 0.0);
    assert_eq!(simulator.activity(&busy).unwrap().sm, 1.0);
    let told = simulator.readings(&busy).unwrap();
    assert!(told.memory.is_some());
    assert_eq!(Readings { memory: None, ..told }, Readings::default());
    let rate = simulator.process_activity(&gpu)[0].rate;
    assert!((1.0 / rate.progress - 3.9).abs() < 0.02, "{rate:?}");
}

#[test]
fn happenings_happen_when_their_time_comes() {
    let (mut simulator, gpu) = simulator("gpus: [{product: a100-40gb, processes: [{pid: 1}]}]");
    let at = Duration::from_secs;
    simulator.schedule(at(5), &gpu, Happening::Lost);
    simulator.schedule(at(1), &gpu, Happening::Event(EventKind::DoubleBitEcc, None));
    simulator.schedule(at(2), &gpu, Happening::Event(EventKind::Xid(48), None));
    simulator.schedule(at(2), &gpu, Happening::Demand(1, Demand { busy: 500, fill: 1000 }));
    simulator.schedule(at(3), &gpu, Happening::RowsRemapped(0, 1));
    simulator.advance_to(at(1));
    let told = read(&mut simulator, &gpu);
    assert_eq!(told.ecc.unwrap().uncorrected, 1);
    assert_eq!(told.utilisation.unwrap().gpu, 0);
    simulator.advance_to(at(4));
    let told = read(&mut simulator, &gpu);
    assert_eq!((told.utilisation.unwrap().gpu, told.remapped_rows), (50, Some((0, 1))));
    simulator.advance_to(at(6));
    assert!(simulator.readings(&Device::Gpu(gpu.clone())).is_err());
    let kinds = simulator.state().events.iter().map(|e| (e.at, e.event.kind)).collect::<Vec<_>>();
    assert_eq!(
        kinds,
        [
            (1_000_000, EventKind::DoubleBitEcc),
            (2_000_000, EventKind::Xid(48)),
            (5_000_000, EventKind::Xid(79))
        ]
    );
    simulator.reboot();
    let told = read(&mut simulator, &gpu);
    assert_eq!((told.ecc.unwrap().uncorrected, told.remapped_rows), (0, Some((0, 1))));
}

proptest! {
    /// A reader that moves its own copy of the clock sees what a writer sees that moved it before.
    #[test]
    fn it_makes_no_difference_in_how_many_steps_the_clock_is_moved(
        steps in prop::collection::vec(0u64..3_000_000, 1..12),
        events in prop::collection::vec((0u64..20_000_000, 0u16..=1000), 0..6),
    ) {
        let (mut once, gpu) = simulator("gpus: [{product: h200-141gb, processes: [{pid: 1, busy: 30%}]}, {product: a30-24gb}]");
        for (at, busy) in events {
            once.schedule(Duration::from_micros(at), &gpu, Happening::Demand(1, Demand { busy, fill: 700 }));
        }
        let mut often = once.clone();
        once.advance(Duration::from_micros(steps.iter().sum()));
        for step in &steps {
            often.advance(Duration::from_micros(*step));
        }
        prop_assert_eq!(once.to_json(), often.to_json());
        once.check().unwrap();
    }
}
