//! Any bytes as a checkpoint of MIG layouts: what is read is written and read again as the same; what is refused says
//! why.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tesela_executor::checkpoint::Checkpoint;

fuzz_target!(|bytes: &[u8]| match Checkpoint::read(bytes) {
    Ok(saved) => {
        let text = serde_json::to_vec(&saved).expect("it has no map with strange keys");
        assert_eq!(Checkpoint::read(&text).expect("it was written here"), saved);
        for gpu in &saved.gpus {
            assert!(gpu.mig || gpu.goal().instances.is_empty());
        }
    }
    Err(error) => assert!(!error.to_string().is_empty()),
});
