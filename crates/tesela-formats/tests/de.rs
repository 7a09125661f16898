//! Trees into types: places, suggestions, several errors at once.

#![expect(clippy::unwrap_used, reason = "a test may fail by panic")]

use std::collections::BTreeMap;

use serde::Deserialize;
use tesela_formats::de::{Options, Place, Unknown, from_tree};
use tesela_formats::diagnostic::Diagnostics;
use tesela_formats::source::{Located, Span};
use tesela_formats::tree::read_documents;

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Pool {
    name: Located<String>,
    mode: Mode,
    #[serde(default)]
    replicas: Option<Located<u32>>,
    #[serde(default)]
    labels: BTreeMap<Located<String>, Located<String>>,
    #[serde(default)]
    share: f64,
    #[serde(default)]
    movable: bool,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
enum Mode {
    Exclusive,
    Mig { profile: String },
    TimeSliced(u8),
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Fleet {
    pools: Vec<Pool>,
    #[serde(default)]
    size: Option<Even>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(try_from = "i64")]
struct Even(i64);

impl TryFrom<i64> for Even {
    type Error = String;
    fn try_from(value: i64) -> Result<Self, String> {
        if value % 2 == 0 { Ok(Self(value)) } else { Err(format!("{value} is odd\nuse an even number")) }
    }
}

fn read(text: &str) -> Result<Fleet, Diagnostics> {
    let trees = read_documents("f.yaml", text.as_bytes()).unwrap();
    from_tree(&trees[0], Options::default())
}

#[test]
fn values_know_their_place() {
    let fleet = read(
        "pools:\n- name: a\n  mode: exclusive\n  replicas: 4\n  labels: {k: v}\n  share: 1\n- {name: b, mode: {mig: {profile: 1g}}}\n- name: c\n  mode: {timeSliced: 3}\nsize: 4\n",
    )
    .unwrap();
    let first = &fleet.pools[0];
    assert_eq!((first.name.at, first.replicas.unwrap().at), (Span::new(2, 9), Span::new(4, 13)));
    let (key, value) = first.labels.iter().next().unwrap();
    assert_eq!((key.at, value.at), (Span::new(5, 12), Span::new(5, 15)));
    assert_eq!(fleet.pools[1].mode, Mode::Mig { profile: "1g".into() });
    assert_eq!(fleet.pools[2].mode, Mode::TimeSliced(3));
}

#[test]
fn each_mistake_says_place_value_rule_and_fix() {
    let cases = [
        (
            "poolz: []\n",
            "f.yaml:1:1: unknown field `poolz` [unknown-field]\n    did you mean `pools`? allowed: `pools`, `size`",
        ),
        ("pools: []\nsize: 3\n", "f.yaml:2:7: `size`: 3 is odd [invalid-value]\n    use an even number"),
        ("size: 2\n", "f.yaml:1:1: the document: `pools` is missing [missing-field]\n    add `pools:`"),
        ("pools: 5\n", "f.yaml:1:8: `pools` must be a list, found the number 5 [wrong-type]"),
        (
            "- a\n",
            "f.yaml:1:1: the document must be a mapping, found a list [wrong-type]\n    fields: pools, size",
        ),
        (
            "pools:\n- name: 7\n  mode: exclusive\n",
            "f.yaml:2:9: `pools[0].name` must be text, found the number 7 [wrong-type]\n    put quotes around it: \"7\"",
        ),
        (
            "pools:\n- name: a\n  mode: exclusiv\n",
            "f.yaml:3:9: `exclusiv` is no value of `mode` [unknown-value]\n    did you mean `exclusive`? allowed: `exclusive`, `mig`, `timeSliced`",
        ),
        (
            "pools:\n- name: a\n  mode: exclusive\n  replicas: 5000000000\n",
            "f.yaml:4:13: `pools[0].replicas` must be a whole number from 0 to 4294967295, found 5000000000 [number-range]",
        ),
        (
            "pools:\n- name: a\n  mode: exclusive\n  replicas: -1\n",
            "f.yaml:4:13: `pools[0].replicas` must be a whole number from 0 to 4294967295, found -1 [number-range]",
        ),
        (
            "pools:\n- name: a\n  mode: exclusive\n  replicas: \"4\"\n",
            "f.yaml:4:13: `pools[0].replicas` must be a whole number, found the text \"4\" [wrong-type]\n    remove the quotes: 4",
        ),
        (
            "pools:\n- name: a\n  mode: exclusive\n  movable: yes\n",
            "f.yaml:4:12: `pools[0].movable` must be true or false, found the text \"yes\" [wrong-type]\n    write `true`, without quotes",
        ),
        (
            "pools:\n- name: a\n  mode: exclusive\n  share: .inf\n",
            "f.yaml:4:10: `pools[0].share` must be a finite number, found the number .inf [wrong-type]",
        ),
        (
            "pools:\n- name: a\n  mode: mig\n",
            "f.yaml:3:9: `pools[0].mode` needs more than the word `mig` [wrong-type]\n    write it as a mapping: `mig: …`",
        ),
        (
            "pools:\n- name: a\n  mode: {mig: {profil: 1g}}\n",
            "f.yaml:3:16: unknown field `profil` in `pools[0].mode.mig` [unknown-field]\n    did you mean `profile`? allowed: `profile`",
        ),
        ("pools:\n- name: a\n", "f.yaml:2:3: `pools[0]`: `mode` is missing [missing-field]\n    add `mode:`"),
    ];
    for (text, wanted) in cases {
        assert_eq!(read(text).unwrap_err().to_string(), wanted, "{text}");
    }
}

#[test]
fn all_unknown_fields_and_one_error_per_list_are_told_together() {
    let found = read("pools:\n- name: a\n  mod: exclusive\n  colour: red\n- name: 3\n  mode: exclusive\nsize: x\nmore: 1\n")
        .unwrap_err();
    let rules: Vec<_> = found.iter().map(|d| (d.at.unwrap().line, d.rule)).collect();
    assert_eq!(
        rules,
        [(3, "unknown-field"), (4, "unknown-field"), (7, "wrong-type"), (8, "unknown-field")],
        "{found}"
    );
}

#[test]
fn misplaced_fields_say_where_they_belong() {
    let trees = read_documents("f.yaml", b"pools: []\nreplicas: 4\n").unwrap();
    let places = [Place { field: "replicas", belongs: "pools[]" }];
    let options = Options { places: &places, ..Options::default() };
    let found = from_tree::<Fleet>(&trees[0], options).unwrap_err();
    assert_eq!(
        found.to_string(),
        "f.yaml:2:1: `replicas` does not belong here [misplaced-field]\n    move it under `pools[]`"
    );
}

#[test]
fn foreign_data_keeps_unknown_fields_ignored() {
    let trees = read_documents("f.yaml", b"pools: []\nmore: 4\n").unwrap();
    let options = Options { unknown: Unknown::Ignore, ..Options::default() };
    assert!(from_tree::<Fleet>(&trees[0], options).is_ok());
}

#[test]
fn located_works_through_another_deserializer() {
    let value: Located<u32> = serde_json::from_str("5").unwrap();
    assert_eq!((value.value, value.at.is_known()), (5, false));
}
