//! Any bytes as a GGUF header, with and without the length of the file: what is read adds up.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tesela_formats::model_files::read_gguf;

fuzz_target!(|bytes: &[u8]| {
    let length = bytes.len() as u64;
    let alone = read_gguf("f", bytes, None);
    let whole = read_gguf("f", bytes, Some(length));
    if let Ok(header) = &whole {
        // A length only ever adds refusals.
        assert_eq!(alone.as_ref().ok(), Some(header));
        assert!(header.bytes() <= length);
    }
    match alone {
        Ok(header) => {
            let sum = header.groups().iter().map(|group| u128::from(group.bytes)).sum::<u128>();
            assert_eq!(sum, u128::from(header.bytes()));
            assert!(header.shape().is_none_or(|shape| shape.hidden > 0));
        }
        Err(refusal) => assert!(refusal.to_string().starts_with('f'), "{refusal}"),
    }
});
