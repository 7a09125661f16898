//! A config as text.

use super::{Config, Devices, Flags, GfdFlags, Imex, PluginFlags, Replicated, Sharing};
use crate::emit::Out;
use crate::source::Located;

impl Config {
    /// The config as YAML that NVIDIA's parser reads. Flags that are not set are left out.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        let mut out = vec![("version".to_owned(), Out::text("v1"))];
        let mut flags = self.flags.out();
        flags.retain(|(_, value)| *value != Out::Null);
        for (_, value) in &mut flags {
            if let Out::Map(inner) = value {
                inner.retain(|(_, value)| *value != Out::Null);
            }
        }
        push_map(&mut out, "flags", flags);
        push_map(&mut out, "sharing", self.sharing.out());
        push_map(&mut out, "imex", self.imex.out());
        Out::Map(out).to_yaml()
    }
}

fn push_map(out: &mut Vec<(String, Out)>, key: &str, map: Vec<(String, Out)>) {
    if !map.is_empty() {
        out.push((key.to_owned(), Out::Map(map)));
    }
}

fn key(name: &str, value: Out) -> (String, Out) {
    (name.to_owned(), value)
}

fn boolean(value: Option<Located<bool>>) -> Out {
    value.map_or(Out::Null, |value| Out::Bool(value.value))
}

fn text(value: Option<&Located<String>>) -> Out {
    value.map_or(Out::Null, |value| Out::text(&value.value))
}

fn word(value: Option<&'static str>) -> Out {
    value.map_or(Out::Null, Out::text)
}

impl Flags {
    /// The flags as NVIDIA writes them: seven fields always there, null when not set; the others only
    /// when set.
    #[must_use]
    pub fn out(&self) -> Vec<(String, Out)> {
        let mut out = vec![
            key("migStrategy", word(self.mig_strategy.map(|s| s.value.word()))),
            key("failOnInitError", boolean(self.fail_on_init_error)),
        ];
        for (name, path) in [
            ("mpsRoot", &self.mps_root),
            ("nvidiaDriverRoot", &self.nvidia_driver_root),
            ("nvidiaDevRoot", &self.nvidia_dev_root),
        ] {
            if let Some(path) = path {
                out.push(key(name, Out::text(&path.value)));
            }
        }
        out.extend([
            key("gdrcopyEnabled", boolean(self.gdrcopy_enabled)),
            key("gdsEnabled", boolean(self.gds_enabled)),
            key("mofedEnabled", boolean(self.mofed_enabled)),
            key("useNodeFeatureAPI", boolean(self.use_node_feature_api)),
            key("deviceDiscoveryStrategy", word(self.device_discovery_strategy.map(|s| s.value.word()))),
        ]);
        out.extend(self.plugin.as_ref().map(|plugin| key("plugin", Out::Map(plugin.out()))));
        out.extend(self.gfd.as_ref().map(|gfd| key("gfd", Out::Map(gfd.out()))));
        out
    }
}

impl PluginFlags {
    fn out(&self) -> Vec<(String, Out)> {
        let list = self.device_list_strategy.as_ref().map_or(Out::Null, |list| {
            Out::Flow(list.value.iter().map(|strategy| Out::text(strategy.word())).collect())
        });
        vec![
            key("passDeviceSpecs", boolean(self.pass_device_specs)),
            key("deviceListStrategy", list),
            key("deviceIDStrategy", word(self.device_id_strategy.map(|s| s.value.word()))),
            key("cdiAnnotationPrefix", text(self.cdi_annotation_prefix.as_ref())),
            key("nvidiaCTKPath", text(self.nvidia_ctk_path.as_ref())),
            key("containerDriverRoot", text(self.container_driver_root.as_ref())),
            key(
                "sharedDevicesAllocationPolicy",
                word(self.shared_devices_allocation_policy.map(|s| s.value.word())),
            ),
        ]
    }
}

impl GfdFlags {
    fn out(&self) -> Vec<(String, Out)> {
        let sleep = self.sleep_interval.map_or(Out::Null, |sleep| Out::text(sleep.value.to_string()));
        vec![
            key("oneshot", boolean(self.oneshot)),
            key("noTimestamp", boolean(self.no_timestamp)),
            key("sleepInterval", sleep),
            key("outputFile", text(self.output_file.as_ref())),
            key("machineTypeFile", text(self.machine_type_file.as_ref())),
        ]
    }
}

impl Sharing {
    fn out(&self) -> Vec<(String, Out)> {
        let both = [("timeSlicing", &self.time_slicing), ("mps", &self.mps)];
        both.into_iter()
            .filter_map(|(name, replicated)| Some(key(name, Out::Map(replicated.as_ref()?.out()))))
            .collect()
    }
}

impl Replicated {
    fn out(&self) -> Vec<(String, Out)> {
        let mut out = Vec::new();
        out.extend(self.rename_by_default.map(|value| key("renameByDefault", Out::Bool(value.value))));
        out.extend(
            self.fail_requests_greater_than_one
                .map(|value| key("failRequestsGreaterThanOne", Out::Bool(value.value))),
        );
        let resources = self.resources.iter().map(|resource| {
            let mut entry = vec![key("name", Out::text(resource.name.value.as_str()))];
            entry.extend(resource.rename.as_ref().map(|name| key("rename", Out::text(name.value.as_str()))));
            match &resource.devices.value {
                Devices::All => {}
                Devices::Count(count) => entry.push(key("devices", Out::Int((*count).into()))),
                Devices::List(list) => {
                    let items = list.iter().map(|device| Out::text(device.as_str())).collect();
                    entry.push(key("devices", Out::Flow(items)));
                }
            }
            entry.push(key("replicas", Out::Int(resource.replicas.value.into())));
            Out::Map(entry)
        });
        out.push(key("resources", Out::List(resources.collect())));
        out
    }
}

impl Imex {
    fn out(&self) -> Vec<(String, Out)> {
        let mut out = Vec::new();
        if !self.channel_ids.is_empty() {
            let ids = self.channel_ids.iter().map(|id| Out::Int(id.value.into())).collect();
            out.push(key("channelIDs", Out::Flow(ids)));
        }
        out.extend(self.required.map(|required| key("required", Out::Bool(required.value))));
        out
    }
}
