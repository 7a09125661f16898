//! Any bytes as a log of requests: what is refused has a place and a rule, what is read becomes windows that add up,
//! and chunks do not matter.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tesela_formats::diagnostic::Diagnostic;
use tesela_formats::requests::{Recorder, ServiceTime};
use tesela_model::activity::Activity;

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

fn all(input: impl std::io::Read) -> Result<Activity, Diagnostic> {
    let service = ServiceTime { base_ns: 10_000_000, input_ns: 30_000, output_ns: 4_000_000 };
    let mut recorder = Recorder::new(1000, Some(service))?;
    recorder.log("f", input, Some(("a", "x")))?;
    recorder.finish()
}

fuzz_target!(|bytes: &[u8]| {
    let found = all(bytes);
    assert_eq!(found, all(Drops(bytes)));
    match found {
        Ok(activity) => {
            for series in activity.series() {
                assert_eq!(series.windows.len(), activity.windows());
                assert!(series.load_permille() <= 1000 && series.duty_permille() <= 1000);
            }
        }
        Err(error) => assert!(!error.rule.is_empty() && !error.message.is_empty(), "{error}"),
    }
});
