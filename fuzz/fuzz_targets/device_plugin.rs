//! Any bytes as a config: what is read without a refusal is written and read again as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tesela_formats::device_plugin::read;

fuzz_target!(|bytes: &[u8]| {
    let Ok(reading) = read("f", bytes) else { return };
    let Some(config) = reading.config else { return };
    let text = config.to_yaml();
    let again = read("f", text.as_bytes()).expect("what is written is YAML");
    assert_eq!(again.config.as_ref(), Some(&config), "{text}");
});
