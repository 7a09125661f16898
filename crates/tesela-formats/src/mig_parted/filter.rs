//! Device filters: PCI ids of a kind of GPU.

use std::fmt;

/// PCI ids as mig-parted writes them: device id and vendor id in one number (`0x233010DE`), optionally
/// with the subsystem's behind a colon (`0x233010DE:0x16C110DE`, since 0.15).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceFilter {
    /// Device id, then vendor id.
    pub device: u32,
    /// The same of the subsystem.
    pub subsystem: Option<u32>,
}

impl DeviceFilter {
    /// Reads a filter: Go's notation of a number (`0x`, `0o`, `0b`, a leading 0 for octal, or decimal)
    /// that fits 32 bits. What does not follow it matches no GPU, without a message.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (device, subsystem) = match text.split_once(':') {
            Some((device, subsystem)) => (device, Some(number(subsystem)?)),
            None => (text, None),
        };
        Some(Self { device: number(device)?, subsystem })
    }

    /// The vendor id; NVIDIA's is 0x10DE.
    #[must_use]
    pub const fn vendor(self) -> u32 {
        self.device & 0xFFFF
    }

    /// Whether a GPU with these ids is of the kind. A filter with a subsystem needs it to be equal.
    #[must_use]
    pub fn matches(self, device: u32, subsystem: Option<u32>) -> bool {
        self.device == device && (self.subsystem.is_none() || self.subsystem == subsystem)
    }
}

impl fmt::Display for DeviceFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:08X}", self.device)?;
        match self.subsystem {
            Some(subsystem) => write!(f, ":0x{subsystem:08X}"),
            None => Ok(()),
        }
    }
}

fn number(text: &str) -> Option<u32> {
    let lower = text.to_ascii_lowercase();
    let (digits, radix) = match lower.get(..2) {
        Some("0x") => (&lower[2..], 16),
        Some("0o") => (&lower[2..], 8),
        Some("0b") => (&lower[2..], 2),
        _ if lower.len() > 1 && lower.starts_with('0') => (&lower[1..], 8),
        _ => (&*lower, 10),
    };
    let plain = digits.replace('_', "");
    if plain.is_empty() || !plain.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    u32::from_str_radix(&plain, radix).ok()
}
