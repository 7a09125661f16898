//! Reading text into trees: places, budgets, broken input.

#![expect(clippy::unwrap_used, reason = "a test may fail by panic")]

use tesela_formats::diagnostic::Diagnostics;
use tesela_formats::source::Span;
use tesela_formats::tree::{
    Budget, Duplicates, ReadOptions, Resolved, Schema, Tree, read_documents, read_documents_with,
};

fn one(text: &str) -> Tree {
    let mut trees = read_documents("t.yaml", text.as_bytes()).unwrap();
    assert_eq!(trees.len(), 1, "{text}");
    trees.remove(0)
}

fn refused(bytes: &[u8]) -> Diagnostics {
    read_documents("t.yaml", bytes).unwrap_err()
}

/// The only rule broken, and where.
fn rule(bytes: &[u8]) -> (&'static str, Option<(u32, u32)>, String) {
    let found = refused(bytes);
    assert_eq!(found.len(), 1, "{found}");
    let first = found.iter().next().unwrap();
    (first.rule, first.at.map(|at| (at.line, at.column)), found.to_string())
}

#[test]
fn keys_and_values_know_their_place() {
    let tree = one("# comment\na: 1\nb:\n  - x\n  - c: \"ü\"\n    d: {e: [1, 2]}\n");
    let root = tree.root.as_mapping().unwrap();
    assert_eq!(root.entry("a").unwrap().key.at, Span::new(2, 1));
    assert_eq!(root.get("a").unwrap().at, Span::new(2, 4));
    let list = root.get("b").unwrap().as_sequence().unwrap();
    assert_eq!(list[0].at, Span::new(4, 5));
    assert_eq!(list[1].get("c").unwrap().at, Span::new(5, 8));
    assert_eq!(list[1].get("d").unwrap().get("e").unwrap().as_sequence().unwrap()[1].at, Span::new(6, 16));
}

#[test]
fn json_is_read_by_the_same_rules() {
    let text = "{\n\t\"a\": [1, true, null],\n\t\"b/c\": \"x\\/y \\ud83d\\ude00\\n\",\"long\":\"\"\n}\n";
    let tree = one(text);
    let list = tree.root.get("a").unwrap().as_sequence().unwrap();
    assert_eq!(list[1].as_scalar().unwrap().resolve(Schema::Core), Resolved::Bool(true));
    assert!(list[2].is_null());
    assert_eq!(tree.root.get("b/c").unwrap().as_text(), Some("x/y \u{1F600}\n"));
    assert_eq!(tree.root.get("long").unwrap().as_text(), Some(""));
}

#[test]
fn several_documents_and_empty_ones() {
    let trees = read_documents("t", b"---\na: 1\n---\n---\nb: 2\n...\n").unwrap();
    assert_eq!(trees.len(), 2);
    assert_eq!(trees[1].root.as_mapping().unwrap().entry("b").unwrap().key.at, Span::new(5, 1));
}

#[test]
fn aliases_and_merges_are_expanded() {
    let tree = one("base: &b {x: 1, y: 2}\nuse:\n  <<: *b\n  y: 3\nlist: [*b]\n");
    let used = tree.root.get("use").unwrap();
    assert_eq!(used.get("x").unwrap().as_text(), Some("1"));
    assert_eq!(used.get("y").unwrap().as_text(), Some("3"));
    let listed = &tree.root.get("list").unwrap().as_sequence().unwrap()[0];
    assert_eq!(listed.at, Span::new(5, 8));
    assert_eq!(listed.get("y").unwrap().as_text(), Some("2"));
}

#[test]
fn a_key_that_stands_twice_names_both_lines() {
    let (rule, at, text) = rule(b"a: 1\nb: 2\na: 3\n");
    assert_eq!((rule, at), ("duplicate-key", Some((3, 1))));
    assert!(text.contains("line 1") && text.contains("line 3"), "{text}");
    let keep = ReadOptions { duplicates: Duplicates::Keep, ..ReadOptions::default() };
    let trees = read_documents_with("t", b"a: 1\nb: 2\na: 3\n", keep).unwrap();
    assert_eq!(trees[0].root.get("a").unwrap().as_text(), Some("3"));
    assert_eq!(trees[0].duplicates.len(), 1);
}

#[test]
fn broken_input_names_rule_and_place() {
    let deep = "[".repeat(65) + &"]".repeat(65);
    let deep_block: String = (0..65).map(|i| " ".repeat(i) + "a:\n").collect();
    type Case<'a> = (&'a [u8], &'a str, Option<(u32, u32)>);
    let cases: Vec<Case<'_>> = vec![
        (b"", "empty-input", None),
        (b"\n \n", "empty-input", None),
        (b"# only words\n", "empty-input", Some((1, 1))),
        (b"a: 1\nb: \xFF\n", "invalid-utf8", Some((2, 4))),
        (b"\xFF\xFEa\0", "not-text", None),
        (b"\0\x01", "not-text", None),
        (b"{\"a\": [1, 2", "truncated-json", Some((1, 12))),
        (b"{\"a\": {\n  \"b\": \"cut he", "truncated-json", Some((2, 15))),
        (b"{\"a\": 1,", "truncated-json", Some((1, 9))),
        (b"a: [1, 2\n", "truncated-yaml", Some((1, 9))),
        (b"a: b: c\n", "yaml-syntax", Some((1, 5))),
        (b"a:\n\t- b\n", "yaml-syntax", Some((2, 2))),
        (b"a: *nothing\n", "yaml-syntax", Some((1, 4))),
        (b"a: &x [*x]\n", "yaml-cycle", Some((1, 8))),
        (b"{a: 1}: 2\n", "yaml-key", Some((1, 1))),
        (b"a: !secret b\n", "yaml-tag", Some((1, 12))),
        (b"<<: 5\n", "yaml-merge", Some((1, 5))),
        (deep.as_bytes(), "yaml-depth", Some((1, 65))),
        (deep_block.as_bytes(), "yaml-depth", Some((65, 65))),
    ];
    for (bytes, wanted, place) in cases {
        let (found, at, text) = rule(bytes);
        assert_eq!((found, at), (wanted, place), "{}: {text}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn truncated_json_says_what_was_open_and_shows_the_end() {
    let (_, _, text) = rule(b"{\"items\": [\n  {\"name\": \"a\"},\n  {\"name\": \"b");
    assert!(text.contains("inside the string that begins at 3:12"), "{text}");
    let (_, _, text) = rule(b"{\"items\": [\n  {\"na[me\": \"a\"},\n  {\"name\": 5,");
    assert!(text.contains("inside the object that begins at 3:3"), "{text}");
}

#[test]
fn invalid_utf8_says_offset_and_line() {
    let (_, _, text) = rule(b"a: 1\nb: \xC3\x28\n");
    assert!(text.contains("byte 8 (0xC3) on line 2"), "{text}");
}

#[test]
fn a_bomb_is_refused_while_it_is_small() {
    let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for i in 1..30 {
        let alias = format!("*a{}", i - 1);
        text += &format!("a{i}: &a{i} [{}]\n", vec![alias; 10].join(","));
    }
    let (rule, at, _) = rule(text.as_bytes());
    assert_eq!((rule, at.map(|(line, _)| line)), ("yaml-nodes", Some(6)));
}

#[test]
fn a_chain_of_aliases_cannot_pass_the_depth() {
    let mut text = "a0: &a0 []\n".to_owned();
    for i in 1..80 {
        text += &format!("a{i}: &a{i} [*a{}]\n", i - 1);
    }
    let (rule, at, _) = rule(text.as_bytes());
    assert_eq!((rule, at.map(|(line, _)| line)), ("yaml-depth", Some(64)));
}

#[test]
fn size_and_count_are_bounded() {
    let budget = Budget { bytes: 20, ..Budget::default() };
    let options = ReadOptions { budget, ..ReadOptions::default() };
    let found = read_documents_with("t", b"a: 123456789012345678", options).unwrap_err();
    assert_eq!(found.iter().next().unwrap().rule, "input-size");
    let budget = Budget { nodes: 5, ..Budget::default() };
    let options = ReadOptions { budget, ..ReadOptions::default() };
    assert!(read_documents_with("t", b"[1,2,3,4]", options).is_ok());
    let found = read_documents_with("t", b"[1,2,3,4,5]", options).unwrap_err();
    assert_eq!(found.iter().next().unwrap().rule, "yaml-nodes");
    let over = vec![b' '; (16 << 20) + 1];
    assert_eq!(rule(&over).0, "input-size");
}
