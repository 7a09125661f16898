//! What the reference and the examples show is read.

use std::path::Path;

use tesela_formats::documents::{Document, DocumentKind, read_document};
use tesela_model::product::ProductTable;

const REFERENCE: &str = include_str!("../../../../docs/documents.md");

#[test]
fn every_document_of_the_reference_is_read() {
    let mut kinds = Vec::new();
    for block in REFERENCE.split("```yaml\n").skip(1) {
        let text = block.split("```").next().unwrap();
        let documents = read_document("docs/documents.md", text.as_bytes(), ProductTable::builtin())
            .unwrap_or_else(|found| panic!("{found}\n{text}"));
        kinds.extend(documents.iter().map(Document::kind));
    }
    let shown =
        [DocumentKind::Demand, DocumentKind::Fleet, DocumentKind::PriceBook, DocumentKind::ProductTable];
    assert_eq!(kinds, shown);
}

#[test]
fn every_document_of_the_examples_is_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if matches!(path.extension().and_then(|e| e.to_str()), Some("yaml" | "json")) {
                is_read(&path);
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a test reads the repository's own examples")]
fn is_read(path: &Path) {
    let bytes = std::fs::read(path).unwrap();
    if String::from_utf8_lossy(&bytes).starts_with("apiVersion: tesela.dev/") {
        let read = read_document(&path.display().to_string(), &bytes, ProductTable::builtin());
        read.unwrap_or_else(|found| panic!("{found}"));
    }
}
