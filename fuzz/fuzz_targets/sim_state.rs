//! Any bytes as the state of a simulation: refused, or sound and able to go on.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use tesela_sim::Simulator;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut simulator) = Simulator::from_json(bytes) else { return };
    simulator.check().expect("what is read is sound");
    let gpus = simulator.state().gpus.iter().map(|g| g.uuid.clone()).collect::<Vec<_>>();
    for gpu in &gpus {
        let _ = simulator.create_gpu_instance(gpu, 19, None);
        let _ = simulator.processes(gpu);
        let _ = simulator.set_mig_mode(gpu, true);
        let _ = simulator.reset(gpu);
    }
    simulator.advance(Duration::from_secs(3600));
    simulator.check().expect("and stays so");
});
