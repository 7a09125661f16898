//! The session and the system: start, end, versions, error texts.

use std::ffi::{c_char, c_int, c_uint};

use nvml_wrapper_sys::bindings as nvml;
use tesela_model::driver::Code;

use super::handle::Handle;
use super::pointer::{Chars, InOut, Items, Out, Versioned, chars};
use crate::live::{self, Reply};

/// Starts a session.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvmlInit_v2() -> Reply {
    live::start()
}

/// The same, of the first version.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvmlInit() -> Reply {
    live::start()
}

/// The same with flags: that having no GPUs is fine, and that they are not to be attached to. Both hold here anyway.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvmlInitWithFlags(flags: c_uint) -> Reply {
    const KNOWN: c_uint = nvml::NVML_INIT_FLAG_NO_GPUS | nvml::NVML_INIT_FLAG_NO_ATTACH;
    if flags & !KNOWN != 0 {
        return Code::InvalidArgument.number();
    }
    live::start()
}

/// Ends a session; the last one lets go of everything.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvmlShutdown() -> Reply {
    live::stop()
}

/// What a code means; works without a session.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvmlErrorString(result: Reply) -> *const c_char {
    super::strings::meaning(result).as_ptr()
}

functions! {
    /// Version of the kernel driver.
    fn nvmlSystemGetDriverVersion(version: Chars, length: c_uint) = |live| {
        version.put(length, &live.state().driver)
    };

    /// Version of the library.
    fn nvmlSystemGetNVMLVersion(version: Chars, length: c_uint) = |live| {
        version.put(length, &live.versions()?.nvml)
    };

    /// Newest CUDA version the driver can run.
    fn nvmlSystemGetCudaDriverVersion(version: Out<c_int>) = |live| cuda(live, version);
    /// The same.
    fn nvmlSystemGetCudaDriverVersion_v2(version: Out<c_int>) = |live| cuda(live, version);

    /// Name of a process: what runs under that id on this machine, else what the emulated node says of it.
    fn nvmlSystemGetProcessName(pid: c_uint, name: Chars, length: c_uint) = |live| {
        name.put(length, &live.process_name(pid)?)
    };

    /// Branch of the driver.
    fn nvmlSystemGetDriverBranch(info: Versioned, length: c_uint) = |live| {
        let major = live.state().driver.split('.').next().unwrap_or_default().to_owned();
        let branch = format!("r{major}_00");
        if usize::try_from(length).is_ok_and(|length| length <= branch.len()) {
            return Err(Code::InsufficientSize);
        }
        let version = info.version()?;
        info.put(1, nvml::nvmlSystemDriverBranchInfo_v1_t { version, branch: chars(&branch) })
    };

    /// Host interface cards of S-class systems: none.
    fn nvmlSystemGetHicVersion(count: InOut<c_uint>, entries: Items<nvml::nvmlHwbcEntry_t>) = |_live| {
        let _ = entries;
        count.get()?;
        count.put(0)
    };

    /// The GPUs near a CPU: all of them, the emulated node has one socket.
    fn nvmlSystemGetTopologyGpuSet(cpu: c_uint, count: InOut<c_uint>, devices: Items<Handle>) = |live| {
        let _ = cpu;
        let all = live.gpu_handles();
        devices.list_or_length(&count, &all)
    };

    /// S-class units: none.
    fn nvmlUnitGetCount(count: Out<c_uint>) = |_live| count.put(0);

    /// GPUs that the administrator keeps from NVML: none.
    fn nvmlGetExcludedDeviceCount(count: Out<c_uint>) = |_live| count.put(0);
}

fn cuda(live: &mut live::Live, version: Out<c_int>) -> super::pointer::Done {
    let cuda = live.versions()?.cuda.ok_or(Code::NotSupported)?;
    version.put(c_int::try_from(cuda).map_err(|_| Code::Unknown)?)
}
