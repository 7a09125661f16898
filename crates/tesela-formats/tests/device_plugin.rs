//! The device plugin's config: the cases of NVIDIA's own tests, restated, and what they leave out.
//!
//! Case numbers (C, F, D, R) are those of the study of NVIDIA's test files, v0.20.

#![expect(clippy::unwrap_used, reason = "a test may fail by panic")]

use tesela_formats::device_plugin::{
    Config, DeviceRef, Devices, Flags, GfdFlags, GoDuration, ListStrategy, MigStrategy, ResourceName,
    Strategy, pattern_matches, read,
};
use tesela_formats::emit::Out;
use tesela_formats::reading::{Effect, Reading, Verdict};
use tesela_formats::source::{Located, Span};

fn reading(text: &str) -> Reading<Config> {
    read("config.yaml", text.as_bytes()).unwrap()
}

/// The config, taken without any error.
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

fn rules(text: &str) -> Vec<(&'static str, Effect, u32, u32)> {
    reading(text).notes.iter().map(|note| (note.rule, note.effect, note.at.line, note.at.column)).collect()
}

#[test]
fn c1_c2_mps_refuses_more_than_one_unless_told_otherwise() {
    let mps = |more: &str| {
        let text = format!(
            "version: v1\nflags: {{mpsRoot: /run/nvidia/mps}}\nsharing:\n  mps:\n{more}    resources:\n    - name: nvidia.com/gpu\n      replicas: 2\n"
        );
        taken(&text).sharing.mps.unwrap()
    };
    assert!(mps("").refuses_more_than_one(Strategy::Mps), "C1");
    assert!(!mps("    failRequestsGreaterThanOne: false\n").refuses_more_than_one(Strategy::Mps), "C2");
    assert!(!mps("").refuses_more_than_one(Strategy::TimeSlicing));
}

fn flags(json: &str) -> Flags {
    taken(&format!("{{\"version\": \"v1\", \"flags\": {json}}}")).flags
}

#[test]
fn f1_f2_f3_empty_flags() {
    assert!(read("config.yaml", b"{\"flags\": }x").is_err(), "F1: no text at all is no JSON");
    assert_eq!(flags("{}"), Flags::default(), "F2");
    assert_eq!(flags("{\"gfd\": {}}").gfd, Some(GfdFlags::default()), "F3");
}

#[test]
fn f4_to_f8_sleep_interval() {
    let cases = [
        ("F4", "0", 0),
        ("F5", "\"0s\"", 0),
        ("F6", "5", 5),
        ("F7", "\"5s\"", 5_000_000_000),
        ("F8", "\"infinite\"", i64::MAX),
        ("a fraction of a nanosecond is cut", "1.9", 1),
        ("minutes", "\"1h30m\"", 5_400_000_000_000),
    ];
    for (case, json, nanoseconds) in cases {
        let gfd = flags(&format!("{{\"gfd\": {{\"sleepInterval\": {json}}}}}")).gfd.unwrap();
        assert_eq!(gfd.sleep_interval.unwrap().value, GoDuration(nanoseconds), "{case}");
    }
    assert_eq!(refused("version: v1\nflags: {gfd: {sleepInterval: soon}}\n"), ["sleep-interval-invalid"]);
    assert_eq!(refused("version: v1\nflags: {gfd: {sleepInterval: [5s]}}\n"), ["wrong-type"]);
}

#[test]
fn f9_f10_device_list_strategy() {
    let strategies = |json: &str| {
        let plugin = flags(&format!("{{\"plugin\": {{\"deviceListStrategy\": {json}}}}}")).plugin.unwrap();
        plugin.device_list_strategy.unwrap().value
    };
    assert_eq!(strategies("\"envvar\""), [ListStrategy::Envvar], "F9");
    let both = [ListStrategy::Envvar, ListStrategy::CdiAnnotations];
    assert_eq!(strategies("[\"envvar\", \"cdi-annotations\"]"), both, "F10");
    assert_eq!(refused("version: v1\nflags: {plugin: {deviceListStrategy: 5}}\n"), ["wrong-type"]);
}

#[test]
fn f11_to_f14_written_flags() {
    let seven = [
        "migStrategy",
        "failOnInitError",
        "gdrcopyEnabled",
        "gdsEnabled",
        "mofedEnabled",
        "useNodeFeatureAPI",
        "deviceDiscoveryStrategy",
    ];
    let out = Flags::default().out();
    let keys: Vec<&str> = out.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, seven, "F11");
    assert!(out.iter().all(|(_, value)| *value == Out::Null), "F11");
    for (case, nanoseconds, text) in [("F12", 0, "0s"), ("F13", 5, "5ns"), ("F14", i64::MAX, "infinite")] {
        let gfd = GfdFlags { sleep_interval: Some(GoDuration(nanoseconds).into()), ..GfdFlags::default() };
        let out = Flags { gfd: Some(gfd), ..Flags::default() }.out();
        let Some((_, Out::Map(gfd))) = out.last() else { panic!("{case}: no gfd") };
        let wanted = [
            ("oneshot", Out::Null),
            ("noTimestamp", Out::Null),
            ("sleepInterval", Out::text(text)),
            ("outputFile", Out::Null),
            ("machineTypeFile", Out::Null),
        ];
        assert_eq!(*gfd, wanted.map(|(key, value)| (key.to_owned(), value)), "{case}");
        assert_eq!(out.len(), 8, "{case}");
    }
}

#[test]
fn durations_as_go_writes_them() {
    let cases = [
        (1_500_000_000, "1.5s"),
        (90_000_000_000, "1m30s"),
        (3_600_000_000_000, "1h0m0s"),
        (20_000_000, "20ms"),
        (-2_500, "-2.5µs"),
    ];
    for (nanoseconds, text) in cases {
        assert_eq!(GoDuration(nanoseconds).to_string(), text);
        assert_eq!(GoDuration::parse(text), Some(GoDuration(nanoseconds)), "{text}");
    }
    for text in ["", "-", "5", "s", "5 s", "1.2.3s", ".s", "5d", "9999999h"] {
        assert_eq!(GoDuration::parse(text), None, "{text}");
    }
    assert_eq!(GoDuration::parse(".5m"), Some(GoDuration(30_000_000_000)));
}

#[test]
fn kinds_of_device_references() {
    let uuid = "b1028956-cfa2-0990-bf4a-5da9abb51763";
    let kinds = |text: &str| {
        let it = DeviceRef::parse(text).unwrap();
        (it.is_gpu_index(), it.is_mig_index(), it.is_uuid())
    };
    assert_eq!(kinds("0"), (true, false, false));
    assert_eq!(kinds("0:0"), (false, true, false));
    for text in [format!("GPU-{uuid}"), format!("MIG-{uuid}"), format!("MIG-GPU-{uuid}/10/0")] {
        assert_eq!(kinds(&text), (false, false, true), "{text}");
    }
}

/// One sharing entry with some text for `devices`.
fn with_devices(devices: &str) -> String {
    format!(
        "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - {{name: nvidia.com/gpu, replicas: 2, devices: {devices}}}\n"
    )
}

#[test]
fn d1_to_d10_devices_that_are_refused() {
    let uuid = "b1028956-cfa2-0990-bf4a-5da9abb51763";
    let partial = format!("[MIG-GPU-{uuid}]");
    let cases = [
        ("D1", ""),
        ("D2", "not-all"),
        ("D3", "-2"),
        ("D4", "2.0"),
        ("D5", "[-1]"),
        ("D6", "[\"-1\"]"),
        ("D7", "[invalid-UUID]"),
        ("D8", "[GPU-UUID]"),
        ("D9", "[MIG-UUID]"),
        ("D10", &partial),
        ("zero", "0"),
        ("a mapping", "{a: 1}"),
        ("a list in the list", "[[0]]"),
    ];
    for (case, devices) in cases {
        assert_eq!(refused(&with_devices(devices)), ["devices-invalid"], "{case}");
    }
}

#[test]
fn d11_to_d20_devices_that_are_taken() {
    let uuid = "b1028956-cfa2-0990-bf4a-5da9abb51763";
    let (gpu, mig, old) = (format!("GPU-{uuid}"), format!("MIG-{uuid}"), format!("MIG-GPU-{uuid}/0/0"));
    let list =
        |items: &[&str]| Devices::List(items.iter().map(|item| DeviceRef::parse(item).unwrap()).collect());
    let cases = [
        ("D11", "all".to_owned(), Devices::All),
        ("D12", "2".to_owned(), Devices::Count(2)),
        ("D13", "[0]".to_owned(), list(&["0"])),
        ("D14", "[\"0\"]".to_owned(), list(&["0"])),
        ("D15", "[\"0:0\"]".to_owned(), list(&["0:0"])),
        ("D16", format!("[{gpu}]"), list(&[&gpu])),
        ("D17", format!("[{mig}]"), list(&[&mig])),
        ("D18", format!("[{old}]"), list(&[&old])),
        ("D19", format!("[0, \"0:0\", {gpu}]"), list(&["0", "0:0", &gpu])),
        ("D20", format!("[\"0\", \"0:0\", {gpu}]"), list(&["0", "0:0", &gpu])),
    ];
    for (case, text, wanted) in cases {
        let reading = reading(&with_devices(&text));
        let dropped = reading.notes.iter().any(|note| note.rule == "devices-ignored");
        assert_eq!(dropped, wanted != Devices::All, "{case}: anything but all is not honoured");
        let sharing = reading.config.unwrap().sharing;
        assert_eq!(sharing.time_slicing.unwrap().resources[0].devices.value, wanted, "{case}");
    }
}

/// A config with one sharing entry.
fn with_entry(entry: &str) -> String {
    format!("version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - {entry}\n")
}

#[test]
fn r1_to_r13_sharing_entries() {
    let cases: [(&str, &str, &[&str]); 11] = [
        ("R1", "", &["wrong-type"]),
        ("R2", "{}", &["resource-without-name", "resource-without-replicas"]),
        ("R3", "{name: gpu}", &["resource-without-replicas"]),
        ("R4", "{name: gpu, devices: all}", &["resource-without-replicas"]),
        ("R5", "{name: gpu, devices: all, rename: shared}", &["resource-without-replicas"]),
        ("R8", "{name: gpu, devices: all, replicas: -1}", &["replicas-too-few"]),
        ("R9", "{name: gpu, devices: all, replicas: 0}", &["replicas-too-few"]),
        ("replicas 1, which the original does not test", "{name: gpu, replicas: 1}", &["replicas-too-few"]),
        ("R12", "{name: $gpu, replicas: 2}", &["resource-name-invalid"]),
        ("R13", "{name: gpu, replicas: 2, rename: $gpu}", &["resource-name-invalid"]),
        ("replicas as text", "{name: gpu, replicas: \"2\"}", &["wrong-type"]),
    ];
    for (case, entry, wanted) in cases {
        assert_eq!(refused(&with_entry(entry)), wanted, "{case}");
    }
    for (case, entry, rename) in [
        ("R6", "{name: gpu, devices: all, replicas: 2}", None),
        (
            "R7",
            "{name: gpu, devices: all, replicas: 2, rename: valid-shared}",
            Some("nvidia.com/valid-shared"),
        ),
        ("R10", "{name: gpu, replicas: 2}", None),
        ("R11", "{name: gpu, replicas: 2, rename: valid-shared}", Some("nvidia.com/valid-shared")),
    ] {
        let entry = &taken(&with_entry(entry)).sharing.time_slicing.unwrap().resources[0];
        assert_eq!(entry.name.value.as_str(), "nvidia.com/gpu", "{case}: the prefix is added");
        assert_eq!((&entry.devices.value, entry.replicas.value), (&Devices::All, 2), "{case}");
        assert_eq!(entry.rename.as_ref().map(|name| name.value.as_str()), rename, "{case}");
    }
}

#[test]
fn the_list_of_resources() {
    for list in ["", " {}", " {resources: }", " {resources: []}"] {
        let text = format!("version: v1\nsharing:\n  timeSlicing:{list}\n");
        assert_eq!(refused(&text), ["sharing-without-resources"], "{text}");
    }
    // A null `mps` is an absent one, since it is optional in the original.
    assert_eq!(taken("version: v1\nsharing:\n  mps:\n").sharing.strategy(), Strategy::None);
    let two = with_entry("{name: gpu, replicas: 2}\n    - {name: mig-1g.5gb, replicas: 3}");
    assert_eq!(taken(&two).sharing.time_slicing.unwrap().resources.len(), 2);
    let bad = with_entry("{name: gpu, replicas: 2}\n    - {name: A, replicas: 3}");
    assert_eq!(refused(&bad), ["resource-name-invalid"]);
}

#[test]
fn patterns() {
    let cases = [
        ("1g.24gb", "1g.24gb", true),
        ("1g.24gb", "2g.48gb", false),
        ("1g.24gb", "1g.24gb-me", false),
        ("1g.24gb", "1g.24gb+me.all", false),
        ("1g.24gb", "x1g.24gb", false),
        ("1g.24gb-me", "1g.24gb-me", true),
        ("1g.24gb+me.all", "1g.24gb+me.all", true),
        ("*", "1g.24gb-me", true),
        ("1g.*", "1g.24gb", true),
        ("1g.*", "2g.48gb", false),
        ("1g.24gb+gfx", "1g.24gb+gfx", true),
        ("1g.24gb", "1g.24gb+gfx", false),
        ("1g.24gb+gfx", "1g.24gb", false),
        ("1g.24gb+gfx", "1g.24gb-me", false),
        ("2g.48gb+gfx", "2g.48gb+gfx", true),
        ("2g.48gb", "2g.48gb+gfx", false),
        ("*gb", "1g.24gb", true),
        ("*gb", "1g.24gb-me", false),
        ("", "", true),
        ("", "a", false),
        ("a*b*c", "axxbxxc", true),
        ("a*b*c", "axxc", false),
        ("ab*ba", "aba", false),
        ("**", "", true),
    ];
    for (pattern, text, wanted) in cases {
        assert_eq!(pattern_matches(pattern, text), wanted, "{pattern} on {text}");
    }
}

#[test]
fn imex() {
    let ids = |text: &str| -> Vec<i64> {
        reading(&format!("version: v1\nimex: {text}\n"))
            .config
            .unwrap()
            .imex
            .channel_ids
            .iter()
            .map(|id| id.value)
            .collect()
    };
    assert_eq!(ids("{}"), Vec::<i64>::new());
    assert_eq!(ids("null"), Vec::<i64>::new());
    assert_eq!(ids("{channelIDs: []}"), Vec::<i64>::new());
    assert_eq!(ids("{channelIDs: [0]}"), vec![0]);
    assert_eq!(ids("{channelIDs: [2]}"), vec![2]);
    let wanted = [("imex-channel-ids", Effect::FailsAtStart, 2, 20)];
    for bad in ["[2]", "[0, 0]", "[0, 1]"] {
        assert_eq!(rules(&format!("version: v1\nimex: {{channelIDs: {bad}}}\n")), wanted, "{bad}");
    }
    assert_eq!(refused("version: v1\nimex: {channelIDs: 0}\n"), ["wrong-type"]);
}

#[test]
fn versions_and_empty_files() {
    assert_eq!(taken(""), Config::default());
    assert_eq!(taken("# nothing but words\n"), Config::default());
    assert_eq!(reading("flags: {}\n").verdict(), Verdict::Accepted, "a missing version is v1");
    for text in ["version: v2\n", "version: 1\n", "version: v1beta1\n"] {
        assert_eq!(refused(text), ["version-unknown"], "{text}");
    }
    assert_eq!(refused("version: [v1]\n"), ["wrong-type"]);
    assert_eq!(refused("[]\n"), ["wrong-type"]);
}

#[test]
fn what_is_dropped_in_silence_is_said() {
    let text = "version: v1\nflags:\n  migStrategy: none\n  renameByDefault: true\n  gdsEnable: true\n";
    assert_eq!(
        rules(text),
        [("misplaced-field", Effect::Dropped, 4, 3), ("unknown-field", Effect::Dropped, 5, 3)]
    );
    let fixes: Vec<String> = reading(text).notes.into_iter().map(|note| note.fix).collect();
    assert_eq!(fixes[0], "move it to `sharing.timeSlicing` or `sharing.mps`");
    assert!(fixes[1].starts_with("write `gdsEnabled`"), "{}", fixes[1]);
    assert_eq!(reading(text).verdict(), Verdict::AcceptedButDropped);
}

#[test]
fn go_minds_the_case_of_some_fields_only() {
    let flags = taken("version: v1\nFlags: {MIGSTRATEGY: mixed}\n").flags;
    assert_eq!(flags.mig_strategy.unwrap().value, MigStrategy::Mixed);
    let exact = "version: v1\nsharing: {timeSlicing: {Resources: [{name: gpu, replicas: 2}]}}\n";
    assert_eq!(refused(exact), ["sharing-without-resources"]);
}

#[test]
fn go_reads_yaml_1_1() {
    let flags = taken("version: v1\nflags: {failOnInitError: off, mpsRoot: 5}\n").flags;
    assert_eq!(flags.fail_on_init_error, Some(Located::new(false, Span::default())));
    assert_eq!(flags.mps_root.unwrap().value, "5", "where Go wants text, a number becomes text");
    let off = rules("version: v1\nflags: {migStrategy: off}\n");
    assert_eq!(off, [("mig-strategy-unknown", Effect::FailsAtStart, 2, 22)], "to Go it is the word false");
}

#[test]
fn resource_names() {
    let exactly = format!("nvidia.com/{}", "a".repeat(52));
    assert_eq!(exactly.len(), 63);
    assert!(ResourceName::parse(&exactly).unwrap().is_too_long_when_shared());
    assert!(!ResourceName::parse("gpu").unwrap().is_too_long_when_shared());
    assert!(ResourceName::parse(&"a".repeat(53)).is_err());
    for bad in
        ["", "example.com/gpu", "GPU", "-gpu", "gpu-", "a..b", "mig-1g.5gb+me", "nvidia.com/nvidia.com/gpu"]
    {
        assert!(ResourceName::parse(bad).is_err(), "{bad}");
    }
    assert_eq!(ResourceName::parse("nvidia.com/mig-1g.5gb.me").unwrap().short(), "mig-1g.5gb.me");
}

#[test]
fn values_know_their_place() {
    let config = taken(&with_entry("{name: nvidia.com/gpu, replicas: 4}"));
    let entry = &config.sharing.time_slicing.unwrap().resources[0];
    assert_eq!((entry.name.at, entry.replicas.at), (Span::new(5, 14), Span::new(5, 40)));
}

#[test]
fn a_written_config_reads_as_text_people_know() {
    let text = "version: v1\nflags:\n  migStrategy: mixed\n  plugin:\n    deviceListStrategy: [envvar, cdi-cri]\n  gfd:\n    sleepInterval: 1m0s\nsharing:\n  timeSlicing:\n    renameByDefault: true\n    resources:\n      - name: nvidia.com/gpu\n        replicas: 4\n      - name: nvidia.com/mig-1g.10gb\n        devices: [\"0:1\"]\n        replicas: 2\nimex:\n  channelIDs: [0]\n  required: true\n";
    assert_eq!(taken(text).to_yaml(), text);
}
