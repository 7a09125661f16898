//! No reader panics on any bytes, and what is written reads back as the same.

#![expect(clippy::expect_used, reason = "a test may fail by panic")]

use proptest::prelude::*;
use tesela_formats::device_plugin::{
    self, AllocationPolicy, DeviceRef, Devices, DiscoveryStrategy, Flags, GfdFlags, GoDuration, IdStrategy,
    Imex, ListStrategy, MigStrategy, PluginFlags, Replicated, ReplicatedResource, ResourceName, Sharing,
};
use tesela_formats::lint::lint;
use tesela_formats::mig_parted::{self, Count, Entry, Label};
use tesela_formats::reading::Effect;
use tesela_formats::source::Located;
use tesela_formats::tree::read_documents;
use tesela_model::product::{ProductTable, ProfileName};

/// Pieces that YAML and the two formats are made of, so that random texts get past the first line.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "version: v1\n",
            "mig-configs:\n",
            "sharing:\n",
            "flags:\n",
            "imex:\n",
            "resources:\n",
            "  timeSlicing:\n",
            "  mps:\n",
            "    resources:\n",
            "    - name: nvidia.com/gpu\n",
            "      replicas: 4\n",
            "      devices: [0]\n",
            "  a:\n",
            "  - devices: all\n",
            "    mig-enabled: true\n",
            "    mig-devices:\n",
            "      1g.5gb: 2\n",
            "    device-filter: \"0x20B010DE\"\n",
            "kind: ConfigMap\n",
            "kind: List\n",
            "items:\n",
            "data:\n",
            "  x: |\n",
            "- ",
            "  ",
            "    ",
            "---\n",
            "&a ",
            "*a ",
            "<<: *a\n",
            "{",
            "}",
            "[",
            "]",
            ", ",
            ": ",
            "\"",
            "'",
            "|\n",
            ">-\n",
            "#",
            "!!str ",
            "\t",
            "\r\n",
            "null",
            "-1",
            "99999999999999999999999",
            "\u{FEFF}",
            "é",
        ])
        .prop_map(str::to_owned),
        "[ -~]{0,6}",
    ]
}

fn read_everything(bytes: &[u8]) {
    drop(read_documents("f", bytes));
    drop(device_plugin::read("f", bytes));
    drop(mig_parted::read("f", bytes));
    drop(lint("f", bytes, ProductTable::builtin()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_reader_panics_on_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_everything(&bytes);
    }

    #[test]
    fn no_reader_panics_on_almost_yaml(pieces in prop::collection::vec(piece(), 0..40)) {
        read_everything(pieces.concat().as_bytes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_device_plugin_config_survives_writing(config in plugin_config()) {
        let text = config.to_yaml();
        let reading = device_plugin::read("f", text.as_bytes()).expect(&text);
        let refused: Vec<_> = reading.notes.iter().filter(|note| note.effect == Effect::Refused).collect();
        prop_assert!(refused.is_empty(), "{text}\n{refused:?}");
        prop_assert_eq!(reading.config, Some(config), "{}", text);
    }

    #[test]
    fn a_mig_parted_config_survives_writing(config in parted_config()) {
        let text = config.to_yaml();
        let reading = mig_parted::read("f", text.as_bytes()).expect(&text);
        prop_assert_eq!(reading.config, Some(config), "{}\n{:?}", text, reading.notes);
    }
}

fn located<T: std::fmt::Debug>(inner: impl Strategy<Value = T>) -> impl Strategy<Value = Located<T>> {
    inner.prop_map(Located::from)
}

fn maybe<T: std::fmt::Debug>(inner: impl Strategy<Value = T>) -> impl Strategy<Value = Option<Located<T>>> {
    prop::option::of(located(inner))
}

fn word<T: Clone + std::fmt::Debug>(
    words: &'static [&'static str],
    from: fn(&str) -> Option<T>,
) -> impl Strategy<Value = Option<Located<T>>> {
    maybe(prop::sample::select(words).prop_map(move |word| from(word).expect("its own word")))
}

/// Paths and prefixes: any text, the hard ones among them. Numbers and booleans are quoted.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        prop::sample::select(vec![
            "",
            "yes",
            "0x1F",
            "~",
            "5",
            "a: b",
            "/run/nvidia",
            "- x",
            "#",
            "1_0",
            "\u{2028}",
            "<<"
        ])
        .prop_map(str::to_owned),
    ]
}

fn flags() -> impl Strategy<Value = Flags> {
    let booleans = prop::collection::vec(maybe(any::<bool>()), 5);
    let paths = prop::collection::vec(maybe(text()), 3);
    (
        word(MigStrategy::WORDS, MigStrategy::from_word),
        word(DiscoveryStrategy::WORDS, DiscoveryStrategy::from_word),
        booleans,
        paths,
        prop::option::of(plugin_flags()),
        prop::option::of(gfd_flags()),
    )
        .prop_map(|(mig_strategy, device_discovery_strategy, b, p, plugin, gfd)| Flags {
            mig_strategy,
            device_discovery_strategy,
            fail_on_init_error: b[0],
            gdrcopy_enabled: b[1],
            gds_enabled: b[2],
            mofed_enabled: b[3],
            use_node_feature_api: b[4],
            mps_root: p[0].clone(),
            nvidia_driver_root: p[1].clone(),
            nvidia_dev_root: p[2].clone(),
            plugin,
            gfd,
        })
}

fn plugin_flags() -> impl Strategy<Value = PluginFlags> {
    let strategy =
        prop::sample::select(ListStrategy::WORDS).prop_map(|w| ListStrategy::from_word(w).expect("a word"));
    (
        maybe(any::<bool>()),
        maybe(prop::collection::vec(strategy, 0..4)),
        word(IdStrategy::WORDS, IdStrategy::from_word),
        prop::collection::vec(maybe(text()), 3),
        word(AllocationPolicy::WORDS, AllocationPolicy::from_word),
    )
        .prop_map(|(pass, list, id, texts, policy)| PluginFlags {
            pass_device_specs: pass,
            device_list_strategy: list,
            device_id_strategy: id,
            cdi_annotation_prefix: texts[0].clone(),
            nvidia_ctk_path: texts[1].clone(),
            container_driver_root: texts[2].clone(),
            shared_devices_allocation_policy: policy,
        })
}

fn gfd_flags() -> impl Strategy<Value = GfdFlags> {
    let nanoseconds = prop_oneof![any::<i64>(), Just(i64::MAX), -5_000_000_000..5_000_000_000_i64];
    (
        maybe(any::<bool>()),
        maybe(any::<bool>()),
        maybe(nanoseconds.prop_map(GoDuration)),
        maybe(text()),
        maybe(text()),
    )
        .prop_map(|(oneshot, no_timestamp, sleep_interval, output_file, machine_type_file)| GfdFlags {
            oneshot,
            no_timestamp,
            sleep_interval,
            output_file,
            machine_type_file,
        })
}

fn resource_name() -> impl Strategy<Value = ResourceName> {
    "[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?(\\.[a-z0-9]{1,8})?"
        .prop_map(|name| ResourceName::parse(&name).expect("a DNS subdomain"))
}

fn devices() -> impl Strategy<Value = Devices> {
    let one = prop_oneof![
        (0..16_u32).prop_map(|index| index.to_string()),
        (0..16_u32, 0..8_u32).prop_map(|(gpu, mig)| format!("{gpu}:{mig}")),
        Just("GPU-b1028956-cfa2-0990-bf4a-5da9abb51763".to_owned()),
    ];
    prop_oneof![
        Just(Devices::All),
        (1..100_i64).prop_map(Devices::Count),
        prop::collection::vec(one.prop_map(|text| DeviceRef::parse(&text).expect("a device")), 0..4)
            .prop_map(Devices::List),
    ]
}

fn replicated() -> impl Strategy<Value = Replicated> {
    let resource =
        (located(resource_name()), maybe(resource_name()), located(devices()), located(2..=u32::MAX))
            .prop_map(|(name, rename, devices, replicas)| ReplicatedResource {
                name,
                rename,
                devices,
                replicas,
            });
    (maybe(any::<bool>()), maybe(any::<bool>()), prop::collection::vec(resource, 1..4)).prop_map(
        |(rename_by_default, fail_requests_greater_than_one, resources)| Replicated {
            rename_by_default,
            fail_requests_greater_than_one,
            resources,
        },
    )
}

fn plugin_config() -> impl Strategy<Value = device_plugin::Config> {
    let imex = (prop::collection::vec(located(any::<i64>()), 0..3), maybe(any::<bool>()))
        .prop_map(|(channel_ids, required)| Imex { channel_ids, required });
    let sharing = (prop::option::of(replicated()), prop::option::of(replicated()))
        .prop_map(|(time_slicing, mps)| Sharing { time_slicing, mps });
    (flags(), sharing, imex).prop_map(|(flags, sharing, imex)| device_plugin::Config { flags, sharing, imex })
}

fn parted_config() -> impl Strategy<Value = mig_parted::Config> {
    let profile = "([1-7]c\\.)?[1-7]g\\.[0-9]{1,3}gb(\\+me|\\+me\\.all|\\+gfx|-me)?"
        .prop_map(|name| ProfileName::parse(&name).expect("a profile name"));
    // A map: each profile once; a count of at least 1 keeps the entry from being refused.
    let counts = prop::collection::btree_map(profile, 1..=u32::MAX, 0..4).prop_map(|map| {
        map.into_iter()
            .map(|(profile, count)| Count { profile: profile.into(), count: count.into() })
            .collect()
    });
    let counts = counts.prop_map(|counts: Vec<Count>| (true, Some(counts)));
    let state = prop_oneof![counts, Just((false, None)), Just((false, Some(Vec::new())))];
    let devices = prop_oneof![
        Just(mig_parted::Devices::All),
        prop::collection::vec(any::<i64>(), 0..4).prop_map(mig_parted::Devices::Indexes),
    ];
    let filter = prop::collection::vec(located(text()), 0..3);
    let entry = (filter, located(devices), state).prop_map(|(filter, devices, (enabled, mig_devices))| {
        Entry { filter, devices, mig_enabled: enabled.into(), mig_devices }
    });
    let label = prop::collection::vec(entry, 1..3);
    prop::collection::btree_map(text(), label, 1..4).prop_map(|labels| {
        let labels = labels.into_iter().map(|(name, entries)| Label { name: name.into(), entries }).collect();
        mig_parted::Config { labels }
    })
}
