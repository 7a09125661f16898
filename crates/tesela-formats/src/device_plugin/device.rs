//! Which devices of a resource are replicated.

use std::fmt;

/// `devices` of a sharing entry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Devices {
    /// `all`.
    #[default]
    All,
    /// That many, at least 1.
    Count(i64),
    /// These.
    List(Vec<DeviceRef>),
}

/// One device of a list: a GPU index `0`, a MIG index `0:1`, `GPU-<uuid>`, `MIG-<uuid>` or
/// `MIG-GPU-<uuid>/<gpu instance>/<compute instance>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceRef(String);

impl DeviceRef {
    /// Takes a text that has one of the five forms.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let it = Self(text.to_owned());
        (it.is_gpu_index() || it.is_mig_index() || it.is_uuid()).then_some(it)
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True for `0`.
    #[must_use]
    pub fn is_gpu_index(&self) -> bool {
        is_index(&self.0)
    }

    /// True for `0:1`.
    #[must_use]
    pub fn is_mig_index(&self) -> bool {
        self.0.split_once(':').is_some_and(|(gpu, mig)| is_index(gpu) && is_index(mig))
    }

    /// True for the three forms with a UUID.
    #[must_use]
    pub fn is_uuid(&self) -> bool {
        if let Some(uuid) = self.0.strip_prefix("GPU-") {
            return is_uuid(uuid);
        }
        let Some(rest) = self.0.strip_prefix("MIG-") else {
            return false;
        };
        if is_uuid(rest) {
            return true;
        }
        let mut parts = rest.splitn(3, '/');
        let gpu = parts.next().and_then(|gpu| gpu.strip_prefix("GPU-"));
        let (gi, ci) = (parts.next(), parts.next());
        gpu.is_some_and(is_uuid) && gi.is_some_and(is_index) && ci.is_some_and(is_index)
    }
}

impl fmt::Display for DeviceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Digits that fit 64 bits.
fn is_index(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) && text.parse::<u64>().is_ok()
}

/// A UUID in the forms the original's library takes: with dashes, without, in braces, as a URN.
fn is_uuid(text: &str) -> bool {
    let braced = || text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let bare = text.strip_prefix("urn:uuid:").or_else(braced).unwrap_or(text);
    let hex = |part: &str| part.bytes().all(|b| b.is_ascii_hexdigit());
    if bare.len() == 32 {
        return bare == text && hex(bare);
    }
    let groups: Vec<&str> = bare.split('-').collect();
    groups.len() == 5
        && groups.iter().zip([8, 4, 4, 4, 12]).all(|(group, length)| group.len() == length && hex(group))
}
