//! Any bytes as a config or an index: refused with a reason, or a network whose numbers fit together.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tesela_formats::model_files::{Choices, ModelFiles, network, read_config, read_index};

fuzz_target!(|bytes: &[u8]| {
    if let Err(refusal) = read_index("f", bytes) {
        assert!(refusal.to_string().starts_with('f'), "{refusal}");
    }
    let config = match read_config("f", bytes) {
        Ok(config) => config,
        Err(refusal) => {
            assert!(refusal.to_string().starts_with('f'), "{refusal}");
            return;
        }
    };
    let missing = !config.missing().is_empty();
    let files = ModelFiles { configs: vec![config], ..ModelFiles::default() };
    match network(&files, &Choices::default()) {
        Ok(found) => {
            assert!(!missing && found.shape.is_some());
            if let Some(weights) = found.weights {
                assert!(weights.groups.iter().all(|group| group.bytes > 0 && group.ways > 0));
            }
        }
        Err(refusal) => assert!(refusal.to_string().contains("--parameters") || !missing, "{refusal}"),
    }
});
