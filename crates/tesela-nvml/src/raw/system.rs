//! Start and end, versions, names of processes.

use tesela_model::driver::{Answer, Code};

use super::{Api, done, found, text_of};

impl Api {
    /// Starts NVML. NVML counts: each start wants its [`Api::shutdown`].
    ///
    /// # Errors
    /// Why it does not start.
    pub(crate) fn init(&self) -> Result<(), Code> {
        let function = found("nvmlInit_v2", &self.lib.nvmlInit_v2).map_err(|error| error.code)?;
        // SAFETY: takes nothing, and may be called at any time.
        Code::of(unsafe { function() }).map_or(Ok(()), Err)
    }

    /// Ends what [`Api::init`] started. A failure leaves nothing to be done.
    pub(crate) fn shutdown(&self) {
        if let Ok(function) = &self.lib.nvmlShutdown {
            // SAFETY: takes nothing; without a start before, NVML answers a code.
            let _ = unsafe { function() };
        }
    }

    /// Version of the kernel driver.
    ///
    /// # Errors
    /// What NVML answers; so below.
    pub(crate) fn driver_version(&self) -> Answer<String> {
        let call = "nvmlSystemGetDriverVersion";
        let function = found(call, &self.lib.nvmlSystemGetDriverVersion)?;
        text_of(call, |buffer, length| {
            // SAFETY: writes at most `length` bytes into the buffer.
            unsafe { function(buffer, length) }
        })
    }

    /// Version of the library.
    pub(crate) fn nvml_version(&self) -> Answer<String> {
        let call = "nvmlSystemGetNVMLVersion";
        let function = found(call, &self.lib.nvmlSystemGetNVMLVersion)?;
        text_of(call, |buffer, length| {
            // SAFETY: writes at most `length` bytes into the buffer.
            unsafe { function(buffer, length) }
        })
    }

    /// Newest CUDA version the driver can run.
    pub(crate) fn cuda_version(&self) -> Answer<u32> {
        let call = "nvmlSystemGetCudaDriverVersion_v2";
        let function = found(call, &self.lib.nvmlSystemGetCudaDriverVersion_v2)?;
        let mut version = 0;
        // SAFETY: writes one number.
        done(call, unsafe { function(&raw mut version) })?;
        Ok(u32::try_from(version).unwrap_or(0))
    }

    /// Name of a process.
    pub(crate) fn process_name(&self, pid: u32) -> Answer<String> {
        let call = "nvmlSystemGetProcessName";
        let function = found(call, &self.lib.nvmlSystemGetProcessName)?;
        text_of(call, |buffer, length| {
            // SAFETY: writes at most `length` bytes into the buffer.
            unsafe { function(pid, buffer, length) }
        })
    }
}
