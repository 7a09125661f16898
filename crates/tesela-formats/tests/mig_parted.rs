//! mig-parted's config: the cases of its own tests, restated, and what they leave out.

#![expect(clippy::unwrap_used, reason = "a test may fail by panic")]

use tesela_formats::mig_parted::{Config, DeviceFilter, Devices, read};
use tesela_formats::reading::{Effect, Reading, Verdict};
use tesela_formats::source::Span;

fn reading(text: &str) -> Reading<Config> {
    read("config.yaml", text.as_bytes()).unwrap()
}

fn taken(text: &str) -> Config {
    let reading = reading(text);
    assert_ne!(reading.verdict(), Verdict::Refused, "{text}: {:?}", reading.notes);
    reading.config.unwrap()
}

/// The rules of the notes that refuse the file at load.
fn refused(text: &str) -> Vec<&'static str> {
    let reading = reading(text);
    assert_eq!(reading.config, None, "{text} is taken");
    reading.notes.iter().filter(|note| note.effect == Effect::Refused).map(|note| note.rule).collect()
}

/// A file with one entry under the label `one`.
fn with_entry(entry: &str) -> String {
    format!("version: v1\nmig-configs:\n  one:\n  - {entry}\n")
}

#[test]
fn the_top_level() {
    let cases: [(&str, &[&str]); 11] = [
        ("mig-configs: {one: [{devices: all, mig-enabled: false}]}\n", &["version-missing"]),
        ("version: v2\nmig-configs: {one: [{devices: all, mig-enabled: false}]}\n", &["version-unknown"]),
        ("version: 1\nmig-configs: {one: [{devices: all, mig-enabled: false}]}\n", &["wrong-type"]),
        (
            "version: v1\nmig-configs: {one: [{devices: all, mig-enabled: false}]}\nmore: 1\n",
            &["unknown-field"],
        ),
        ("version: v1\nmig-configs: {}\n", &["configs-empty"]),
        ("version: v1\nmig-configs:\n", &["configs-empty"]),
        ("version: v1\nmig-configs: {one: []}\n", &["label-empty"]),
        ("version: v1\nmig-configs: {one: }\n", &["label-empty"]),
        ("version: v1\nmig-configs: {one: {devices: all, mig-enabled: false}}\n", &["wrong-type"]),
        ("version: v1\nmig-configs: []\n", &["wrong-type"]),
        ("{}\n", &["version-missing"]),
    ];
    for (text, wanted) in cases {
        assert_eq!(refused(text), wanted, "{text}");
    }
    assert!(read("config.yaml", b"").is_err());
    let without = reading("version: v1\n");
    assert_eq!(without.notes[0].rule, "configs-missing");
    assert_eq!(without.config, Some(Config::default()), "the original loads it");
}

#[test]
fn entries_that_are_refused() {
    let cases: [(&str, &[&str]); 22] = [
        ("{mig-enabled: false}", &["devices-missing"]),
        ("{devices: all}", &["mig-enabled-missing"]),
        ("{devices: all, mig-enabled: true}", &["mig-devices-missing"]),
        ("{devices: all, mig-enabled: true, mig-devices: }", &["mig-devices-missing"]),
        ("{devices: all, mig-enabled: false, mig-devices: {1g.5gb: 1}}", &["mig-devices-while-disabled"]),
        ("{devices: some, mig-enabled: false}", &["devices-invalid"]),
        ("{devices: {a: 1}, mig-enabled: false}", &["devices-invalid"]),
        ("{devices: 0, mig-enabled: false}", &["devices-invalid"]),
        ("{devices: , mig-enabled: false}", &["devices-invalid"]),
        ("{devices: [\"0\"], mig-enabled: false}", &["devices-invalid"]),
        ("{devices: all, mig-enabled: maybe}", &["wrong-type"]),
        ("{devices: all, mig-enabled: \"true\"}", &["wrong-type"]),
        (
            "{devices: all, mig-enabled: true, mig-devices: {1g.5gb: -1}}",
            &["counts-all-zero", "count-negative"],
        ),
        ("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 0}}", &["counts-all-zero"]),
        ("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: two}}", &["counts-all-zero", "wrong-type"]),
        ("{devices: all, mig-enabled: true, mig-devices: {2g.10gb: 1, 1g.5gb: 1.5}}", &["wrong-type"]),
        ("{devices: all, mig-enabled: true, mig-devices: {5gb: 1}}", &["profile-invalid"]),
        ("{devices: all, mig-enabled: true, mig-devices: [1g.5gb]}", &["wrong-type"]),
        ("{devices: all, mig-enabled: false, device-filter: 0x233010DE}", &["filter-invalid"]),
        ("{devices: all, mig-enabled: false, device-filter: {a: 1}}", &["filter-invalid"]),
        ("{devices: all, mig-enabled: false, device_filter: x}", &["unknown-field"]),
        ("{devices: all, mig-enabled: false, version: v1}", &["misplaced-field"]),
    ];
    for (entry, wanted) in cases {
        assert_eq!(refused(&with_entry(entry)), wanted, "{entry}");
    }
}

#[test]
fn entries_that_are_taken() {
    for entry in [
        "{devices: all, mig-enabled: false}",
        "{devices: all, mig-enabled: false, mig-devices: {}}",
        "{devices: all, mig-enabled: false, mig-devices: }",
        "{devices: all, mig-enabled: true, mig-devices: {}}",
        "{devices: all, mig-enabled: yes, mig-devices: {1g.5gb: 7}}",
        "{devices: [0, 1], mig-enabled: true, mig-devices: {1g.5gb+me: 1, 2g.10gb: 2}}",
        "{devices: all, mig-enabled: true, mig-devices: {1c.2g.10gb: 2, 1g.24gb-me: 1, 1g.24gb+me.all: 1, 1g.24gb+gfx: 1}}",
        "{devices: all, device-filter: \"0x20B010DE\", mig-enabled: false}",
        "{devices: all, device-filter: [\"0x20B010DE\", \"0x20B210DE:0x14F710DE\"], mig-enabled: false}",
    ] {
        taken(&with_entry(entry));
    }
    let empty = taken(&with_entry("{devices: all, mig-enabled: true, mig-devices: {}}"));
    assert_eq!(empty.labels[0].entries[0].mig_devices, Some(Vec::new()), "MIG on, no instance");
}

#[test]
fn profile_grammar() {
    let with = |name: &str| {
        with_entry(&format!("{{devices: all, mig-enabled: true, mig-devices: {{\"{name}\": 1}}}}"))
    };
    for good in
        ["1g.5gb", "1c.3g.20gb", "1g.10gb+me", "1g.24gb+me.all", "1g.24gb+gfx", "1g.24gb-me", "7g.79gb"]
    {
        taken(&with(good));
    }
    for bad in [
        "",
        "1g",
        "1g.5",
        "g.5gb",
        "1g.5gb ",
        "1g.5gb+",
        "1g.5gb+x y",
        "1g.5gb+me-me",
        "1.5gb",
        "-1g.5gb",
        "1g.5gb.me",
    ] {
        assert_eq!(refused(&with(bad)), ["profile-invalid"], "{bad}");
    }
}

#[test]
fn filters_match_device_and_subsystem() {
    let plain = DeviceFilter::parse("0x233010DE").unwrap();
    assert_eq!((plain.device, plain.vendor(), plain.subsystem), (0x2330_10DE, 0x10DE, None));
    assert!(plain.matches(0x2330_10DE, Some(0x1234_10DE)));
    assert!(!plain.matches(0x2331_10DE, None));
    let narrow = DeviceFilter::parse("0x233010de:0x16C110DE").unwrap();
    assert!(narrow.matches(0x2330_10DE, Some(0x16C1_10DE)));
    assert!(!narrow.matches(0x2330_10DE, Some(0x16C2_10DE)));
    assert!(!narrow.matches(0x2330_10DE, None));
    assert_eq!(narrow.to_string(), "0x233010DE:0x16C110DE");
    for bad in ["", "H100", "0x", "0x1233010DE0", "0x233010DE:", "0x233010DE:0x1:0x2", "-1"] {
        assert_eq!(DeviceFilter::parse(bad), None, "{bad}");
    }
}

#[test]
fn the_later_entry_wins_and_unmatched_gpus_have_none() {
    let config = taken(
        "version: v1\nmig-configs:\n  mixed:\n  - {devices: all, device-filter: \"0x20B010DE\", mig-enabled: false}\n  - {devices: [1], mig-enabled: true, mig-devices: {}}\n",
    );
    let label = config.only_label().unwrap();
    let enabled = |index, device| label.entry_for(index, device, None).map(|entry| entry.mig_enabled.value);
    assert_eq!(enabled(0, 0x20B0_10DE), Some(false));
    assert_eq!(enabled(1, 0x20B0_10DE), Some(true));
    assert_eq!(enabled(0, 0x2330_10DE), None);
}

#[test]
fn values_know_their_place() {
    let config = taken(
        "version: v1\nmig-configs:\n  all-1g:\n  - devices: [0]\n    mig-enabled: true\n    mig-devices:\n      1g.5gb: 7\n",
    );
    let label = &config.labels[0];
    let entry = &label.entries[0];
    let count = &entry.mig_devices.as_ref().unwrap()[0];
    assert_eq!((label.name.at, entry.devices.at), (Span::new(3, 3), Span::new(4, 14)));
    assert_eq!((count.profile.at, count.count.at), (Span::new(7, 7), Span::new(7, 15)));
    assert_eq!(entry.devices.value, Devices::Indexes(vec![0]));
}

#[test]
fn a_written_config_reads_as_text_people_know() {
    let text = "version: v1\nmig-configs:\n  all-disabled:\n    - devices: all\n      mig-enabled: false\n  custom:\n    - device-filter: [\"0x20B010DE\", \"0x20B210DE\"]\n      devices: [0, 1]\n      mig-enabled: true\n      mig-devices:\n        1g.5gb: 2\n        3g.20gb: 1\n    - device-filter: \"0x233010DE\"\n      devices: all\n      mig-enabled: true\n      mig-devices: {}\n";
    assert_eq!(taken(text).to_yaml(), text);
}

#[test]
fn of_a_key_that_stands_twice_the_last_counts() {
    let text = "version: v1\nmig-configs:\n  a: [{devices: all, mig-enabled: false}]\n  a: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 9, 1g.5gb: 3}}]\n";
    let reading = reading(text);
    let dropped: Vec<_> = reading.notes.iter().map(|note| (note.rule, note.at.line)).collect();
    assert_eq!(dropped, [("duplicate-key", 4), ("duplicate-key", 4)]);
    let config = reading.config.unwrap();
    let counts = config.only_label().unwrap().entries[0].mig_devices.clone().unwrap();
    assert_eq!((counts.len(), counts[0].count.value), (1, 3));
}

/// Found by the fuzz target: the parser takes a file without `mig-configs`, and refuses an empty one.
#[test]
fn a_config_without_labels_is_written_as_one_that_is_taken() {
    let text = "version: v1\n";
    assert_eq!(taken(text).to_yaml(), text);
}
