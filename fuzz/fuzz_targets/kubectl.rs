//! Any bytes as kubectl's JSON: what is read has a place for its faults, and an answer that does not depend on chunks.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tesela_model::product::ProductTable;
use tesela_objects::observe::{Observation, ObserveError, Observer, Options};

/// A reader that gives a few bytes at a time.
struct Drops<'a>(&'a [u8]);

impl std::io::Read for Drops<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let some = self.0.len().min(buffer.len()).min(7);
        buffer[..some].copy_from_slice(&self.0[..some]);
        self.0 = &self.0[some..];
        Ok(some)
    }
}

fn observe(reader: impl std::io::Read) -> Result<Observation, ObserveError> {
    let options = Options { nodes_elsewhere: true, ..Options::default() };
    let mut observer = Observer::new(ProductTable::builtin(), options);
    observer.read("f", reader)?;
    observer.finish()
}

fuzz_target!(|bytes: &[u8]| {
    let found = observe(bytes);
    assert_eq!(found, observe(Drops(bytes)));
    match found {
        Ok(found) => {
            for finding in &found.findings {
                assert!(finding.subject.contains('/') && !finding.message.is_empty(), "{finding:?}");
                assert!(!finding.fix.is_empty(), "{finding:?}");
            }
        }
        Err(error) => assert!(error.to_string().starts_with('f'), "{error}"),
    }
});
