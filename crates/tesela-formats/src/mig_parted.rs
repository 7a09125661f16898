//! The config file of NVIDIA's mig-parted and MIG Manager, `version: v1`, as its own parser (0.15)
//! reads it.
//!
//! A map from label to a list of entries; each entry says for some GPUs whether MIG is on and how many
//! instances of which profile they have. The parser is strict about keys and words, and says nothing
//! about contradictions: those are for [`crate::lint`].

mod cross;
mod filter;
mod node;
mod read;
mod write;

pub use filter::DeviceFilter;
pub use node::{GpuInForce, NodeGpu, NotCapable, generated, in_force};
pub use read::{read, read_node};

use tesela_model::product::ProfileName;

use crate::source::Located;

/// A whole config: labels in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    /// `mig-configs`.
    pub labels: Vec<Label>,
}

/// One label with its entries, which are walked in order: of two that match a GPU the later one wins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The label, the value of `nvidia.com/mig.config`.
    pub name: Located<String>,
    /// At least one entry.
    pub entries: Vec<Entry>,
}

/// One entry of a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// `device-filter`: which kinds of GPU; empty is every kind.
    pub filter: Vec<Located<String>>,
    /// `devices`.
    pub devices: Located<Devices>,
    /// `mig-enabled`.
    pub mig_enabled: Located<bool>,
    /// `mig-devices`: profiles and how many, in the order of the file; `None` when absent.
    pub mig_devices: Option<Vec<Count>>,
}

/// Which GPUs of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Devices {
    /// Every GPU that can do MIG.
    All,
    /// These indexes. A negative one loads and matches no GPU.
    Indexes(Vec<i64>),
}

/// One profile with its count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// The profile.
    pub profile: Located<ProfileName>,
    /// How many instances of it.
    pub count: Located<u32>,
}

impl Config {
    /// The label of a name; of one that stands twice the last.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&Label> {
        self.labels.iter().rev().find(|label| label.name.value == name)
    }

    /// The label that mig-parted selects when none is named: the only one of the file.
    #[must_use]
    pub fn only_label(&self) -> Option<&Label> {
        match self.labels.as_slice() {
            [label] => Some(label),
            _ => None,
        }
    }
}

impl Entry {
    /// Whether the entry matches a GPU by its index on the node and its PCI ids.
    ///
    /// `device` and `subsystem` are device id and vendor id, 16 bits each: `0x2330_10DE`.
    #[must_use]
    pub fn matches(&self, index: u32, device: u32, subsystem: Option<u32>) -> bool {
        let filtered = self.filter.iter().any(|text| !text.value.is_empty());
        let kind = !filtered
            || self.filter.iter().any(|text| {
                DeviceFilter::parse(&text.value).is_some_and(|filter| filter.matches(device, subsystem))
            });
        kind && match &self.devices.value {
            Devices::All => true,
            Devices::Indexes(indexes) => indexes.contains(&i64::from(index)),
        }
    }
}

impl Label {
    /// The entry in force for a GPU: the last that matches.
    #[must_use]
    pub fn entry_for(&self, index: u32, device: u32, subsystem: Option<u32>) -> Option<&Entry> {
        self.entries.iter().rev().find(|entry| entry.matches(index, device, subsystem))
    }
}
