//! `flags`: shared ones, the plugin's, and feature discovery's.

use super::fields::{FLAGS, GFD, Level, PLUGIN, check};
use super::{
    AllocationPolicy, DiscoveryStrategy, Flags, GfdFlags, GoDuration, IdStrategy, ListStrategy, MigStrategy,
    PluginFlags,
};
use crate::reading::{Effect, Note, Walk, did_you_mean, field, is_text};
use crate::source::{Located, Span};
use crate::tree::{Mapping, Node, Resolved, Schema};

/// One mapping of flags on the way into the model.
struct Fields<'w, 'n> {
    walk: &'w mut Walk,
    mapping: &'n Mapping,
    level: &'static Level,
}

impl<'n> Fields<'_, 'n> {
    fn node(&self, name: &str) -> Option<&'n Node> {
        field(self.mapping, name, self.level.case).map(|entry| &entry.value)
    }

    fn path(&self, name: &str) -> String {
        format!("`{}.{name}`", self.level.path)
    }

    fn boolean(&mut self, name: &str) -> Option<Located<bool>> {
        let node = self.node(name)?;
        let what = self.path(name);
        self.walk.boolean(node, &what)
    }

    fn text(&mut self, name: &str) -> Option<Located<String>> {
        let node = self.node(name)?;
        let what = self.path(name);
        self.walk.loose_text(node, &what)
    }

    /// One of some words. An unknown one loads, and ends the program at its start.
    fn word<T: Copy>(
        &mut self,
        name: &str,
        rule: &'static str,
        words: &[&str],
        from: impl Fn(&str) -> Option<T>,
    ) -> Option<Located<T>> {
        let text = self.text(name)?;
        let value = from(&text.value);
        if value.is_none() {
            let what = self.path(name);
            self.walk.note(unknown_word(text.at, rule, &what, &text.value, words));
        }
        value.map(|value| Located::new(value, text.at))
    }
}

fn unknown_word(at: Span, rule: &'static str, what: &str, text: &str, words: &[&str]) -> Note {
    let message =
        format!("{what} is `{text}`, which is unknown: the program ends with an error at its start");
    Note::new(at, rule, Effect::FailsAtStart, message, did_you_mean(text, words)).value(text)
}

/// Reads `flags`.
pub(super) fn flags(walk: &mut Walk, node: &Node) -> Flags {
    if node.is_null() {
        return Flags::default();
    }
    let Some(mapping) = walk.mapping(node, "`flags`") else {
        return Flags::default();
    };
    check(walk, mapping, &FLAGS);
    let mut it = Fields { walk, mapping, level: &FLAGS };
    let flags = Flags {
        mig_strategy: it.word(
            "migStrategy",
            "mig-strategy-unknown",
            MigStrategy::WORDS,
            MigStrategy::from_word,
        ),
        fail_on_init_error: it.boolean("failOnInitError"),
        mps_root: it.text("mpsRoot"),
        nvidia_driver_root: it.text("nvidiaDriverRoot"),
        nvidia_dev_root: it.text("nvidiaDevRoot"),
        gdrcopy_enabled: it.boolean("gdrcopyEnabled"),
        gds_enabled: it.boolean("gdsEnabled"),
        mofed_enabled: it.boolean("mofedEnabled"),
        use_node_feature_api: it.boolean("useNodeFeatureAPI"),
        device_discovery_strategy: it.word(
            "deviceDiscoveryStrategy",
            "discovery-strategy-unknown",
            DiscoveryStrategy::WORDS,
            DiscoveryStrategy::from_word,
        ),
        plugin: it.node("plugin").and_then(|node| plugin(it.walk, node)),
        gfd: it.node("gfd").and_then(|node| gfd(it.walk, node)),
    };
    contradictions(walk, &flags);
    flags
}

fn plugin(walk: &mut Walk, node: &Node) -> Option<PluginFlags> {
    if node.is_null() {
        return None;
    }
    let mapping = walk.mapping(node, "`flags.plugin`")?;
    check(walk, mapping, &PLUGIN);
    let mut it = Fields { walk, mapping, level: &PLUGIN };
    Some(PluginFlags {
        pass_device_specs: it.boolean("passDeviceSpecs"),
        device_list_strategy: it.node("deviceListStrategy").and_then(|node| list_strategy(it.walk, node)),
        device_id_strategy: it.word(
            "deviceIDStrategy",
            "device-id-strategy-unknown",
            IdStrategy::WORDS,
            IdStrategy::from_word,
        ),
        cdi_annotation_prefix: it.text("cdiAnnotationPrefix"),
        nvidia_ctk_path: it.text("nvidiaCTKPath"),
        container_driver_root: it.text("containerDriverRoot"),
        shared_devices_allocation_policy: it.word(
            "sharedDevicesAllocationPolicy",
            "allocation-policy-unknown",
            AllocationPolicy::WORDS,
            AllocationPolicy::from_word,
        ),
    })
}

/// One word or a list of words.
fn list_strategy(walk: &mut Walk, node: &Node) -> Option<Located<Vec<ListStrategy>>> {
    const WHAT: &str = "`flags.plugin.deviceListStrategy`";
    if node.is_null() {
        return None;
    }
    let mut words: Vec<(Span, &str)> = Vec::new();
    if let Some(text) = is_text(node) {
        words.push((node.at, text));
    } else {
        let items = node.as_sequence();
        if items.is_none() {
            walk.wrong(node, WHAT, "a word or a list of words");
        }
        for item in items? {
            match is_text(item) {
                Some(text) => words.push((item.at, text)),
                None => {
                    walk.wrong(item, WHAT, "a word or a list of words");
                    return None;
                }
            }
        }
    }
    let mut known = Vec::new();
    for (at, text) in words {
        match ListStrategy::from_word(text) {
            Some(word) => known.push(word),
            None => {
                let rule = "device-list-strategy-unknown";
                walk.note(unknown_word(at, rule, WHAT, text, ListStrategy::WORDS));
            }
        }
    }
    Some(Located::new(known, node.at))
}

fn gfd(walk: &mut Walk, node: &Node) -> Option<GfdFlags> {
    if node.is_null() {
        return None;
    }
    let mapping = walk.mapping(node, "`flags.gfd`")?;
    check(walk, mapping, &GFD);
    let mut it = Fields { walk, mapping, level: &GFD };
    Some(GfdFlags {
        oneshot: it.boolean("oneshot"),
        no_timestamp: it.boolean("noTimestamp"),
        sleep_interval: it.node("sleepInterval").and_then(|node| sleep_interval(it.walk, node)),
        output_file: it.text("outputFile"),
        machine_type_file: it.text("machineTypeFile"),
    })
}

/// A duration in words, a bare number of nanoseconds, or `infinite`.
fn sleep_interval(walk: &mut Walk, node: &Node) -> Option<Located<GoDuration>> {
    const WHAT: &str = "`flags.gfd.sleepInterval`";
    let resolved = node.as_scalar().map(|scalar| scalar.resolve(Schema::Yaml11));
    let nanoseconds = match resolved {
        Some(Resolved::Null) => return None,
        Some(Resolved::Int(value)) => i64::try_from(value).ok(),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "Go's conversion of a float to nanoseconds truncates"
        )]
        Some(Resolved::Float(value)) => Some(value as i64),
        _ => None,
    };
    if let Some(value) = nanoseconds {
        if value != 0 {
            let as_text = GoDuration(value);
            walk.note(
                Note::new(
                    node.at,
                    "sleep-interval-nanoseconds",
                    Effect::Inert,
                    format!("a bare number is nanoseconds: {WHAT} is {as_text}"),
                    format!("write the unit, such as `{value}s`"),
                )
                .value(node.as_text().unwrap_or_default()),
            );
        }
        return Some(Located::new(GoDuration(value), node.at));
    }
    let text = is_text(node);
    if let Some(value) = text.and_then(GoDuration::parse) {
        return Some(Located::new(value, node.at));
    }
    let Some(text) = text else {
        walk.wrong(node, WHAT, "a duration");
        return None;
    };
    let note = Note::new(
        node.at,
        "sleep-interval-invalid",
        Effect::Refused,
        format!("{WHAT} is `{text}`, which is no duration"),
        "write a number with a unit (`60s`, `5m`, `1h30m`) or `infinite`",
    );
    walk.note(note.value(text));
    None
}

/// Flags that overwrite or exclude one another.
fn contradictions(walk: &mut Walk, flags: &Flags) {
    let discovery = flags.device_discovery_strategy;
    if let Some(vfio) = discovery.filter(|d| d.value == DiscoveryStrategy::Vfio) {
        walk.note(
            Note::new(
                vfio.at,
                "discovery-strategy-vfio",
                Effect::FailsAtStart,
                "only GPU feature discovery knows `vfio`: the device plugin ends with an error at its start",
                "keep `vfio` out of a file the device plugin reads; set it for feature discovery by DEVICE_DISCOVERY_STRATEGY",
            )
            .value("vfio"),
        );
    }
    let Some(lists) = flags.plugin.as_ref().and_then(|plugin| plugin.device_list_strategy.as_ref()) else {
        return;
    };
    let has = |one: ListStrategy| lists.value.contains(&one);
    if has(ListStrategy::Envvar) && has(ListStrategy::VolumeMounts) {
        walk.note(Note::new(
            lists.at,
            "list-strategy-overwritten",
            Effect::Inert,
            "both write NVIDIA_VISIBLE_DEVICES, and `volume-mounts` overwrites what `envvar` wrote",
            "keep one of `envvar` and `volume-mounts`",
        ));
    }
    let cdi = has(ListStrategy::CdiAnnotations) || has(ListStrategy::CdiCri);
    if cdi && discovery.is_some_and(|d| d.value == DiscoveryStrategy::Tegra) {
        walk.note(Note::new(
            lists.at,
            "cdi-without-nvml",
            Effect::FailsAtStart,
            "CDI needs NVML, and `deviceDiscoveryStrategy: tegra` does without it",
            "use `envvar`, or another discovery strategy",
        ));
    }
}
