//! Any bytes as a journal of MIG changes: what is read is written again as the same bytes, what is refused says why, and
//! a beginning of a sound journal is one too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tesela_executor::journal::{MAGIC, encode, read};

fuzz_target!(|bytes: &[u8]| {
    let journal = match read(bytes) {
        Ok(journal) => journal,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    assert!(journal.length <= bytes.len());
    // Everything that a person or the executor asks of it.
    let open = journal.open();
    assert!(open.iter().all(|one| one.gpu < journal.subjects().len()));
    let _ = (journal.is_open(), journal.paused());
    let mut again = MAGIC.to_vec();
    for (number, record) in journal.records.iter().enumerate() {
        again.extend(encode(number, record).expect("it was read"));
    }
    if journal.length > 0 {
        let same = read(&again).expect("it was written here");
        assert_eq!(same.records, journal.records);
    }
    let half = read(&bytes[..journal.length / 2]).expect("a beginning of a sound journal");
    assert!(half.records.len() <= journal.records.len());
    assert_eq!(half.records[..], journal.records[..half.records.len()]);
});
