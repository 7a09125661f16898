//! Any bytes as a machine file: what is refused says why; a machine that is read can be simulated.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tesela_formats::machine::read_machine;
use tesela_sim::Simulator;

fuzz_target!(|bytes: &[u8]| {
    match read_machine("f", bytes) {
        Ok(machine) => {
            let simulator = Simulator::new(&machine).expect("a machine that is read can be");
            simulator.check().expect("and is sound");
            let again = Simulator::from_json(&simulator.to_json()).expect("what is written is read");
            assert_eq!(again, simulator);
        }
        Err(found) => assert!(!found.to_string().is_empty()),
    }
});
