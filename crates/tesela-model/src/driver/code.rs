//! Return codes of NVML, with their numbers and meanings.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::GpuUuid;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// A return code of NVML other than success. Numbers: `nvmlReturn_t` of nvml.h.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Code {
            $($(#[$doc])* $name,)*
            /// A number that this program does not know.
            Other(u32),
        }

        impl Code {
            /// Every code that this program knows, by number.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The number in `nvmlReturn_t`.
            #[must_use]
            pub fn number(self) -> u32 {
                match self {
                    $(Self::$name => $number,)*
                    Self::Other(number) => number,
                }
            }

            /// The code of a number; `None` for 0, which is success.
            #[must_use]
            pub fn of(number: u32) -> Option<Self> {
                match number {
                    0 => None,
                    $($number => Some(Self::$name),)*
                    other => Some(Self::Other(other)),
                }
            }

            /// What it means, for a person.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                    Self::Other(_) => "a return code that this version does not know",
                }
            }
        }
    };
}

codes! {
    /// Not initialised.
    Uninitialized = 1, "NVML was not initialised";
    /// An argument the driver does not take.
    InvalidArgument = 2, "the driver does not take that argument";
    /// Not on this GPU, or not in its present mode.
    NotSupported = 3, "this GPU does not support it, or not in its present mode";
    /// Needs root, or a capability file.
    NoPermission = 4, "it needs root or the MIG capability files";
    /// Obsolete; initialising twice is fine now.
    AlreadyInitialized = 5, "NVML was initialised already";
    /// No such thing.
    NotFound = 6, "there is no such thing";
    /// The caller's buffer is too small.
    InsufficientSize = 7, "the buffer is too small";
    /// External power is missing.
    InsufficientPower = 8, "a power cable is not attached";
    /// No driver.
    DriverNotLoaded = 9, "the NVIDIA driver is not loaded";
    /// Took too long.
    Timeout = 10, "it took too long";
    /// Interrupt trouble.
    IrqIssue = 11, "the kernel found an interrupt fault of the GPU";
    /// The library cannot be loaded.
    LibraryNotFound = 12, "libnvidia-ml.so.1 cannot be loaded";
    /// The library is older than what is called.
    FunctionNotFound = 13, "this version of the library does not have the function";
    /// The InfoROM is corrupt.
    CorruptedInforom = 14, "the GPU's InfoROM is corrupt";
    /// Fell off the bus.
    GpuIsLost = 15, "the GPU fell off the bus or cannot be reached";
    /// Needs a reset.
    ResetRequired = 16, "the GPU needs a reset";
    /// The operating system forbids it.
    OperatingSystem = 17, "the operating system or cgroups block the GPU";
    /// Driver and library differ.
    LibRmVersionMismatch = 18, "driver and library have different versions";
    /// Somebody uses it.
    InUse = 19, "it is in use";
    /// Out of host memory.
    Memory = 20, "the host has too little memory";
    /// No data.
    NoData = 21, "there is no data";
    /// Not with ECC on.
    VgpuEccNotSupported = 22, "virtual GPUs need ECC off here";
    /// Does not fit.
    InsufficientResources = 23, "the GPU has not enough free resources";
    /// A frequency that cannot be.
    FreqNotSupported = 24, "that frequency is not supported";
    /// A structure of another version.
    ArgumentVersionMismatch = 25, "the library does not know that version of the structure";
    /// Deprecated.
    Deprecated = 26, "the function is deprecated";
    /// Not ready.
    NotReady = 27, "the system is not ready for it";
    /// No such GPU.
    GpuNotFound = 28, "no GPU was found";
    /// Not in this state.
    InvalidState = 29, "the resource is not in the right state";
    /// Not this reset.
    ResetTypeNotSupported = 30, "that kind of reset is not supported";
    /// Anything else.
    Unknown = 999, "the driver met an unknown fault";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(number) => write!(f, "NVML code {number}"),
            known => write!(f, "{known:?} ({})", known.number()),
        }
    }
}

/// A call that the driver refused: which, on what, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{call}{}: {}, {code}", on(.gpu.as_ref()), .code.meaning())]
pub struct DriverError {
    /// The NVML function, such as `nvmlGpuInstanceDestroy`.
    pub call: String,
    /// The GPU it was called on, where it was on one.
    pub gpu: Option<GpuUuid>,
    /// What it answered.
    pub code: Code,
}

impl DriverError {
    /// The refusal of a call on no GPU in particular.
    pub fn new(call: impl Into<String>, code: Code) -> Self {
        Self { call: call.into(), gpu: None, code }
    }

    /// The same on a GPU.
    #[must_use]
    pub fn on(mut self, gpu: &GpuUuid) -> Self {
        self.gpu = Some(gpu.clone());
        self
    }
}

fn on(gpu: Option<&GpuUuid>) -> String {
    gpu.map(|gpu| format!(" on {gpu}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_numbers_are_one_to_one() {
        assert_eq!(Code::of(0), None);
        for code in Code::ALL {
            assert_eq!(Code::of(code.number()), Some(*code));
        }
        assert_eq!(Code::of(4711), Some(Code::Other(4711)));
        assert_eq!(Code::Other(4711).number(), 4711);
    }

    #[test]
    fn a_refusal_names_the_call_the_gpu_and_the_code() {
        let error = DriverError::new("nvmlGpuInstanceDestroy", Code::InUse).on(&GpuUuid::new("GPU-1"));
        assert_eq!(error.to_string(), "nvmlGpuInstanceDestroy on GPU-1: it is in use, InUse (19)");
    }
}
