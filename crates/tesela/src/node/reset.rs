//! Resets a GPU with nvidia-smi; NVML has no call for it.

use std::path::PathBuf;
use std::process::Command;

use tesela_model::driver::{Answer, Code, DriverError, GpuReset, GpuUuid};

/// `nvidia-smi`, of the path or of a driver root.
pub(crate) struct NvidiaSmi {
    program: PathBuf,
}

const CALL: &str = "nvidia-smi --gpu-reset";

impl NvidiaSmi {
    /// The program of the installation that the driver is of.
    pub(crate) fn new(words: &crate::cli::mig::Node) -> Self {
        let program = words.driver.driver_root.as_ref().map(|root| root.join("usr/bin/nvidia-smi"));
        Self { program: program.unwrap_or_else(|| PathBuf::from("nvidia-smi")) }
    }
}

impl GpuReset for NvidiaSmi {
    #[expect(clippy::disallowed_methods, reason = "the one program that this one starts")]
    fn reset(&self, gpu: &GpuUuid) -> Answer<()> {
        let refused = |code| DriverError::new(CALL, code).on(gpu);
        let output = Command::new(&self.program).args(["--gpu-reset", "-i", gpu.as_str()]).output();
        let output = output.map_err(|_| refused(Code::NotFound))?;
        if output.status.success() {
            return Ok(());
        }
        let said = [output.stdout, output.stderr].concat();
        Err(refused(code(&String::from_utf8_lossy(&said))))
    }
}

/// What nvidia-smi means; it has no exit code of its own for each.
fn code(said: &str) -> Code {
    let said = said.to_lowercase();
    if said.contains("in use") {
        Code::InUse
    } else if said.contains("permission") {
        Code::NoPermission
    } else if said.contains("not supported") {
        Code::NotSupported
    } else {
        Code::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nvidia_smi_says_becomes_a_code() {
        assert_eq!(code("GPU 00000000:3B:00.0 is currently in use by another process"), Code::InUse);
        assert_eq!(code("Insufficient Permissions"), Code::NoPermission);
        assert_eq!(code("Resetting GPU is not supported."), Code::NotSupported);
        assert_eq!(code(""), Code::Unknown);
    }
}
