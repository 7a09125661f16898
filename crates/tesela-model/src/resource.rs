//! The names Kubernetes knows GPUs by.
//!
//! Rule of the names: NVIDIA k8s-device-plugin; `nvidia.com/gpu`, `nvidia.com/mig-<profile>` with `+` written
//! as `.`, and `.shared` behind either when replicas are renamed.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::product::ProfileName;

/// The vendor's prefix of every GPU resource.
pub const PREFIX: &str = "nvidia.com/";

/// What one unit of a GPU resource is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GpuDevice {
    /// `nvidia.com/gpu`: a whole GPU; a MIG device where the node's strategy is single; a share where replicas
    /// are not renamed.
    Gpu,
    /// `nvidia.com/mig-…`: a MIG device of this profile.
    Mig(ProfileName),
}

/// The name of a GPU resource, such as `nvidia.com/mig-1g.10gb.shared`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuResource {
    /// What one unit is.
    pub device: GpuDevice,
    /// Whether the name ends in `.shared`.
    pub shared: bool,
}

/// Why a text is no GPU resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no GPU resource: expected `nvidia.com/gpu` or `nvidia.com/mig-<profile>`, with `.shared` behind it where replicas are renamed"
)]
pub struct NoGpuResource(pub String);

impl GpuResource {
    /// `nvidia.com/gpu`.
    #[must_use]
    pub fn gpu() -> Self {
        Self { device: GpuDevice::Gpu, shared: false }
    }

    /// `nvidia.com/mig-<profile>`.
    #[must_use]
    pub fn mig(profile: ProfileName) -> Self {
        Self { device: GpuDevice::Mig(profile), shared: false }
    }

    /// The same with `.shared`.
    #[must_use]
    pub fn renamed(mut self) -> Self {
        self.shared = true;
        self
    }

    /// The key in a ResourceQuota's `spec.hard`.
    #[must_use]
    pub fn quota_key(&self) -> String {
        format!("requests.{self}")
    }
}

impl fmt::Display for GpuResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.device {
            GpuDevice::Gpu => write!(f, "{PREFIX}gpu")?,
            GpuDevice::Mig(profile) => write!(f, "{PREFIX}mig-{}", profile.label_form())?,
        }
        if self.shared { f.write_str(".shared") } else { Ok(()) }
    }
}

impl FromStr for GpuResource {
    type Err = NoGpuResource;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let no = || NoGpuResource(text.to_owned());
        let name = text.strip_prefix(PREFIX).ok_or_else(no)?;
        let (name, shared) = name.strip_suffix(".shared").map_or((name, false), |n| (n, true));
        let device = match name.strip_prefix("mig-") {
            None if name == "gpu" => GpuDevice::Gpu,
            None => return Err(no()),
            Some(profile) => GpuDevice::Mig(profile_of_resource(profile).ok_or_else(no)?),
        };
        Ok(Self { device, shared })
    }
}

/// `1g.10gb.me` → `1g.10gb+me`: the last `.` before the attribute is a `+`.
fn profile_of_resource(text: &str) -> Option<ProfileName> {
    for attribute in ["me.all", "me", "gfx"] {
        if let Some(base) = text.strip_suffix(attribute).and_then(|t| t.strip_suffix('.')) {
            return format!("{base}+{attribute}").parse().ok();
        }
    }
    text.parse().ok()
}

impl Serialize for GpuResource {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GpuResource {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for GpuResource {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "GpuResource".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": r"^nvidia\.com/(gpu|mig-[a-z0-9.-]+)$",
            "description": "nvidia.com/gpu or nvidia.com/mig-<profile>, with .shared behind it where replicas are renamed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_there_and_back() {
        for (resource, profile) in [
            ("nvidia.com/gpu", None),
            ("nvidia.com/gpu.shared", None),
            ("nvidia.com/mig-1g.10gb", Some("1g.10gb")),
            ("nvidia.com/mig-1g.10gb.me", Some("1g.10gb+me")),
            ("nvidia.com/mig-1g.24gb.me.all.shared", Some("1g.24gb+me.all")),
            ("nvidia.com/mig-1g.24gb-me", Some("1g.24gb-me")),
            ("nvidia.com/mig-2g.48gb.gfx", Some("2g.48gb+gfx")),
        ] {
            let parsed: GpuResource = resource.parse().unwrap();
            assert_eq!(parsed.to_string(), resource);
            if let (GpuDevice::Mig(found), Some(profile)) = (&parsed.device, profile) {
                assert_eq!(found.to_string(), profile);
            }
        }
        for bad in ["nvidia.com/gpus", "amd.com/gpu", "nvidia.com/mig-", "gpu"] {
            assert!(bad.parse::<GpuResource>().is_err(), "{bad}");
        }
    }
}
