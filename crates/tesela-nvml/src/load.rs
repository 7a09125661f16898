//! Where the library is, and what to do when it cannot be used.

use std::path::PathBuf;

use tesela_model::driver::Code;

/// The name programs load the library by.
pub(crate) const SONAME: &str = "libnvidia-ml.so.1";

/// Folders of a driver root that hold the library, by distribution; the first that has it is taken.
const FOLDERS: [&str; 6] = [
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
];

/// Where to look for the library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Search {
    /// Where the system's loader looks: `LD_LIBRARY_PATH`, its cache, its default folders.
    Loader,
    /// Exactly this file.
    File(PathBuf),
    /// The usual folders under the root of a driver installation, such as `/run/nvidia/driver` in a container.
    DriverRoot(PathBuf),
}

impl Search {
    /// What to hand to the loader, in order.
    pub(crate) fn candidates(&self) -> Vec<PathBuf> {
        match self {
            Self::Loader => vec![PathBuf::from(SONAME)],
            Self::File(file) => vec![file.clone()],
            Self::DriverRoot(root) => FOLDERS.iter().map(|folder| root.join(folder).join(SONAME)).collect(),
        }
    }
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No candidate could be loaded.
    #[error("{SONAME} cannot be loaded: {}; {}", .tried.join("; "), advice(Code::LibraryNotFound))]
    Library {
        /// What the loader said of each candidate.
        tried: Vec<String>,
    },
    /// A library that lacks what every version since 2012 has.
    #[error("{file} has no function {function}: it is no NVML, or one older than any driver with MIG")]
    NotNvml {
        /// The file.
        file: String,
        /// What it lacks.
        function: &'static str,
    },
    /// The library is there, and does not start.
    #[error("NVML does not start: {}, {code}; {}", .code.meaning(), advice(*.code))]
    Start {
        /// What it answered.
        code: Code,
    },
}

/// What a person can do about a return code.
#[must_use]
pub fn advice(code: Code) -> &'static str {
    match code {
        Code::LibraryNotFound => {
            "install NVIDIA's driver, or name the root of the installation if it is not this system's own"
        }
        Code::FunctionNotFound => "the driver is too old for this call: update it",
        Code::DriverNotLoaded => {
            "load the kernel module (`modprobe nvidia`), and see `dmesg` if it does not stay loaded"
        }
        Code::LibRmVersionMismatch => {
            "the driver was updated under running programs: reload the kernel module or reboot"
        }
        Code::NoPermission => {
            "run as root, or give access to the device files of the driver (for MIG: its capability file mig/config)"
        }
        Code::OperatingSystem => "the device cgroup or the container does not let the device files through",
        Code::GpuIsLost => {
            "the GPU fell off the bus: drain the node and reboot it; replace the GPU if it happens again"
        }
        Code::ResetRequired => "drain the GPU and reset it (`nvidia-smi --gpu-reset`), or reboot",
        Code::InUse => "end the work on it, and programs that watch it, and try again",
        Code::InsufficientResources => "list the instances that are there: the place or an engine is taken",
        Code::Uninitialized => "the session was closed: open another",
        Code::Memory => "free memory on the host",
        _ => "the driver's log (`dmesg | grep NVRM`) may say more",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_root_is_searched_in_the_folders_of_the_distributions() {
        let all = Search::DriverRoot("/run/nvidia/driver".into()).candidates();
        assert_eq!(all[0], PathBuf::from("/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1"));
        assert_eq!(all.len(), FOLDERS.len());
        assert_eq!(Search::Loader.candidates(), [PathBuf::from("libnvidia-ml.so.1")]);
    }

    #[test]
    fn each_refusal_says_what_to_do_next() {
        for code in [Code::LibraryNotFound, Code::DriverNotLoaded, Code::NoPermission, Code::GpuIsLost] {
            let told = OpenError::Start { code }.to_string();
            assert!(told.contains(code.meaning()) && told.contains(advice(code)), "{told}");
        }
    }
}
