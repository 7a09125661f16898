//! Any bytes as documents of ours: what is refused says why, and a demand that is read is written and read again as
//! the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tesela_formats::documents::{Document, merge, read_document, write_demand};
use tesela_model::demand::Demand;
use tesela_model::product::ProductTable;

fuzz_target!(|bytes: &[u8]| {
    let documents = match read_document("f", bytes, ProductTable::builtin()) {
        Ok(documents) => documents,
        Err(found) => {
            assert!(!found.is_empty() && found.iter().all(|one| !one.message.is_empty()));
            return;
        }
    };
    // A profile of a product that only this text knows is not known to the text that is written.
    if documents.iter().any(|document| matches!(document, Document::ProductTable(_))) {
        return;
    }
    for document in documents {
        let Document::Demand(document) = document else { continue };
        let demand = merge(Demand::default(), &document);
        let text = write_demand(&demand);
        let again = read_document("f", text.as_bytes(), ProductTable::builtin());
        let again = again.unwrap_or_else(|found| panic!("{found}\n{text}"));
        let [Document::Demand(again)] = &again[..] else { panic!("{text}") };
        assert_eq!(merge(Demand::default(), again), demand, "{text}");
    }
});
