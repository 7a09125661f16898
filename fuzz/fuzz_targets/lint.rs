//! Any bytes to the linter: each finding stands in the file, by a known rule, with a fix.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tesela_formats::lint::lint;
use tesela_model::product::ProductTable;

fuzz_target!(|bytes: &[u8]| {
    let Ok(found) = lint("f", bytes, ProductTable::builtin()) else { return };
    let breaks = bytes.iter().filter(|b| matches!(b, b'\n' | b'\r')).count();
    for finding in &found.findings {
        let line = usize::try_from(finding.line).expect("32 bits fit");
        assert!((1..=breaks + 1).contains(&line) && finding.column >= 1, "{finding:?}");
        assert!(!finding.message.is_empty() && !finding.fix.is_empty(), "{finding:?}");
    }
});
