//! Every rule of the linter.

use super::FileKind;
use super::FileKind::{ConfigMap, DevicePlugin, MigParted};

/// A rule: its id, the kinds of file it is for, and what it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The id in findings.
    pub id: &'static str,
    /// The kinds of file it is for.
    pub kinds: &'static [FileKind],
    /// What it finds, in a few words.
    pub finds: &'static str,
}

const fn rule(id: &'static str, kinds: &'static [FileKind], finds: &'static str) -> Rule {
    Rule { id, kinds, finds }
}

/// All rules by id. Text inside a ConfigMap that cannot be read has the rules of
/// [`crate::tree::read_documents`] too.
pub const RULES: &[Rule] = &[
    rule("allocation-policy-unknown", &[DevicePlugin], "`sharedDevicesAllocationPolicy` is no known word"),
    rule("cdi-without-nvml", &[DevicePlugin], "a CDI list strategy with the Tegra discovery strategy"),
    rule("configmap-key", &[ConfigMap], "a mig-parted config under a key that the MIG Manager does not read"),
    rule("configmap-value", &[ConfigMap], "a config that is not text inside a ConfigMap"),
    rule("configs-empty", &[MigParted], "`mig-configs` without a label"),
    rule("count-negative", &[MigParted], "a negative count"),
    rule("count-zero", &[MigParted], "a count of 0 beside others"),
    rule("counts-all-zero", &[MigParted], "every count of an entry is 0"),
    rule("counts-infeasible", &[MigParted], "instances that do not fit one GPU together"),
    rule("device-id-strategy-unknown", &[DevicePlugin], "`deviceIDStrategy` is no known word"),
    rule("device-list-strategy-unknown", &[DevicePlugin], "`deviceListStrategy` is no known word"),
    rule("devices-ignored", &[DevicePlugin], "`devices` other than all, which the plugin overwrites"),
    rule(
        "devices-invalid",
        &[DevicePlugin, MigParted],
        "`devices` is no word, count, index or UUID that is allowed",
    ),
    rule("devices-missing", &[MigParted], "an entry without `devices`"),
    rule("devices-negative", &[MigParted], "a negative GPU index"),
    rule("devices-none", &[MigParted], "an empty list of GPU indexes"),
    rule("devices-twice", &[MigParted], "a GPU index twice in one list"),
    rule("discovery-strategy-unknown", &[DevicePlugin], "`deviceDiscoveryStrategy` is no known word"),
    rule("discovery-strategy-vfio", &[DevicePlugin], "`vfio`, which the device plugin does not know"),
    rule("duplicate-key", &[DevicePlugin, MigParted], "a key twice in one mapping; the first is dropped"),
    rule("entries-overlap", &[MigParted], "two entries of a label match the same GPU"),
    rule("field-case", &[DevicePlugin], "a field in another case than its own"),
    rule("filter-invalid", &[MigParted], "`device-filter` is no text, such as a bare hexadecimal number"),
    rule("filter-unknown", &[MigParted], "a PCI id that no known product has"),
    rule("filter-unreadable", &[MigParted], "a filter that is no PCI id and so matches nothing"),
    rule("filter-vendor", &[MigParted], "a filter for another vendor than NVIDIA"),
    rule("foreign-prefix", &[DevicePlugin], "a resource of another vendor's prefix"),
    rule("gpus-covered-in-part", &[MigParted], "a label that covers the first GPUs only"),
    rule(
        "gpus-not-covered",
        &[MigParted],
        "a label that leaves a GPU out, so that it never counts as applied",
    ),
    rule("imex-channel-ids", &[DevicePlugin], "IMEX channels other than none or 0"),
    rule("imex-required-alone", &[DevicePlugin], "`imex.required` without a channel"),
    rule("label-empty", &[MigParted], "a label without an entry"),
    rule("label-not-selectable", &[MigParted], "a label that cannot be the value of a node label"),
    rule("list-strategy-overwritten", &[DevicePlugin], "`envvar` and `volume-mounts` together"),
    rule("mig-devices-missing", &[MigParted], "MIG on without `mig-devices`"),
    rule("mig-devices-while-disabled", &[MigParted], "instances although MIG is off"),
    rule("mig-enabled-missing", &[MigParted], "an entry without `mig-enabled`"),
    rule("mig-strategy-unknown", &[DevicePlugin], "`migStrategy` is no known word"),
    rule("misplaced-field", &[DevicePlugin, MigParted], "a field that belongs elsewhere"),
    rule(
        "mps-replicas-old-gpu",
        &[DevicePlugin],
        "more MPS replicas than GPUs before compute capability 7.5 take",
    ),
    rule("mps-replicas-too-many", &[DevicePlugin], "more MPS replicas than any GPU takes"),
    rule("mps-with-mig-mixed", &[DevicePlugin], "MPS with the MIG strategy mixed"),
    rule("mps-with-mig-single", &[DevicePlugin], "MPS with the MIG strategy single"),
    rule("mps-without-root", &[DevicePlugin], "MPS without `mpsRoot`"),
    rule("profile-alias", &[MigParted], "a profile by the name of an older driver"),
    rule("profile-invalid", &[MigParted], "a word that is no profile name"),
    rule("profile-unknown", &[MigParted], "a profile that no product in question has"),
    rule(
        "profiles-of-different-products",
        &[MigParted],
        "profiles in one entry that no product has together",
    ),
    rule("rename-ignored", &[DevicePlugin], "`rename`, which the plugin overwrites"),
    rule("replicas-beyond-memory", &[DevicePlugin], "so many replicas that none has memory to work with"),
    rule("replicas-too-few", &[DevicePlugin], "`replicas` below 2"),
    rule("resource-name-invalid", &[DevicePlugin], "a resource name with characters that are not allowed"),
    rule("resource-name-too-long", &[DevicePlugin], "a resource name of more than 63 characters"),
    rule(
        "resource-pattern-incomplete",
        &[DevicePlugin],
        "an entry of `resources` without `pattern` or `name`",
    ),
    rule("resource-twice", &[DevicePlugin], "a resource twice under one kind of sharing"),
    rule("resource-without-name", &[DevicePlugin], "a sharing entry without `name`"),
    rule("resource-without-replicas", &[DevicePlugin], "a sharing entry without `replicas`"),
    rule("resources-dropped", &[DevicePlugin], "`resources`, which the plugin drops"),
    rule(
        "second-document",
        &[DevicePlugin, MigParted],
        "more than one YAML document; the first alone is read",
    ),
    rule("shared-name-too-long", &[DevicePlugin], "a name that `.shared` makes too long"),
    rule("sharing-both", &[DevicePlugin], "`timeSlicing` and `mps` together; MPS wins"),
    rule(
        "sharing-resource-strategy",
        &[DevicePlugin],
        "a MIG resource although the MIG strategy is not mixed",
    ),
    rule("sharing-resource-unknown", &[DevicePlugin], "a resource that no known device has"),
    rule("sharing-without-resources", &[DevicePlugin], "a kind of sharing without `resources`"),
    rule("sleep-interval-invalid", &[DevicePlugin], "`sleepInterval` is no duration"),
    rule(
        "sleep-interval-nanoseconds",
        &[DevicePlugin],
        "`sleepInterval` is a bare number, which is nanoseconds",
    ),
    rule("unknown-field", &[DevicePlugin, MigParted], "a field that does not exist"),
    rule("version-missing", &[DevicePlugin, MigParted], "no `version`"),
    rule("version-unknown", &[DevicePlugin, MigParted], "a version other than v1"),
    rule("wrong-type", &[DevicePlugin, MigParted], "a value of the wrong type"),
    rule("yaml-syntax", &[ConfigMap], "text inside a ConfigMap that is no YAML"),
    rule(
        "yaml11-boolean",
        &[DevicePlugin, MigParted],
        "a boolean such as `yes`, which YAML 1.2 reads as text",
    ),
];
