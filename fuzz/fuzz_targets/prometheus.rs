//! Any bytes as an answer of Prometheus: what is refused has a rule, what is read is counted, chunks do not matter.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tesela_formats::diagnostic::Diagnostics;
use tesela_formats::prometheus::{Reading, read};
use tesela_model::usage::UsageSeries;

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

fn all(input: impl std::io::Read) -> Result<(Reading, Vec<UsageSeries>), Diagnostics> {
    let mut found = Vec::new();
    let reading = read("f", input, &mut |series| found.push(series))?;
    Ok((reading, found))
}

fuzz_target!(|bytes: &[u8]| {
    let read = all(bytes);
    assert_eq!(read, all(Drops(bytes)));
    match read {
        Ok((reading, found)) => {
            assert_eq!(reading.series, found.len() as u64);
            assert_eq!(reading.samples, found.iter().map(|s| s.samples.len() as u64).sum::<u64>());
            for series in &found {
                assert!(series.subject.pod.is_some() || series.subject.gpu.is_some(), "{series:?}");
                assert!(series.metric.is_memory() || series.samples.iter().all(|s| s.value <= 1_000_000));
            }
            for finding in reading.findings("f") {
                assert!(!finding.message.is_empty() && !finding.fix.is_empty(), "{finding:?}");
            }
        }
        Err(error) => assert!(error.to_string().starts_with('f'), "{error}"),
    }
});
