//! Any bytes as YAML or JSON: an answer with places inside the text, or an error with a rule.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tesela_formats::tree::{Node, Value, read_documents};

fuzz_target!(|bytes: &[u8]| {
    let lines = u32::try_from(bytes.iter().filter(|b| **b == b'\n').count() + 1).unwrap_or(u32::MAX);
    // A carriage return alone ends a line too.
    let lines = lines + u32::try_from(bytes.iter().filter(|b| **b == b'\r').count()).unwrap_or(0);
    match read_documents("f", bytes) {
        Ok(trees) => {
            for tree in &trees {
                check(&tree.root, lines);
            }
        }
        Err(found) => {
            assert!(!found.is_empty());
            for one in &found {
                assert!(one.at.is_none_or(|at| at.line <= lines && at.column >= 1), "{one}");
            }
            drop(found.to_string());
        }
    }
});

fn check(node: &Node, lines: u32) {
    assert!(node.at.line >= 1 && node.at.line <= lines && node.at.column >= 1, "{:?}", node.at);
    match &node.value {
        Value::Scalar(_) => drop(node.describe()),
        Value::Sequence(items) => items.iter().for_each(|item| check(item, lines)),
        Value::Mapping(mapping) => mapping.entries.iter().for_each(|entry| check(&entry.value, lines)),
    }
}
