//! A config as text.

use super::{Config, Devices, Entry};
use crate::emit::Out;

impl Config {
    /// The config as YAML that mig-parted's parser reads.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        let labels = self.labels.iter().map(|label| {
            let entries = label.entries.iter().map(Entry::out).collect();
            (label.name.value.clone(), Out::List(entries))
        });
        let mut out = vec![("version".to_owned(), Out::text("v1"))];
        // Without the key the parser takes no labels; an empty map it refuses.
        if !self.labels.is_empty() {
            out.push(("mig-configs".to_owned(), Out::Map(labels.collect())));
        }
        Out::Map(out).to_yaml()
    }
}

impl Entry {
    fn out(&self) -> Out {
        let mut out = Vec::new();
        match self.filter.as_slice() {
            [] => {}
            [one] => out.push(("device-filter".to_owned(), Out::text(&one.value))),
            several => {
                let items = several.iter().map(|filter| Out::text(&filter.value)).collect();
                out.push(("device-filter".to_owned(), Out::Flow(items)));
            }
        }
        let devices = match &self.devices.value {
            Devices::All => Out::text("all"),
            Devices::Indexes(indexes) => Out::Flow(indexes.iter().map(|i| Out::Int((*i).into())).collect()),
        };
        out.push(("devices".to_owned(), devices));
        out.push(("mig-enabled".to_owned(), Out::Bool(self.mig_enabled.value)));
        if let Some(counts) = &self.mig_devices {
            let counts = counts
                .iter()
                .map(|count| (count.profile.value.to_string(), Out::Int(count.count.value.into())));
            out.push(("mig-devices".to_owned(), Out::Map(counts.collect())));
        }
        Out::Map(out)
    }
}
