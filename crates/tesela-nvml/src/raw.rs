//! NVML's functions as safe ones: the only place of this crate with `unsafe`.
//!
//! Each wrapper calls one function of the library through the type that the bindings to its header give it. What makes
//! all of them sound:
//!
//! - The function pointers live in [`Api`] beside the library they come from; wrappers borrow it, so that a function
//!   is never called after the library is gone.
//! - Pointers that are passed point to variables or buffers of the wrapper itself, of the type and length that the
//!   header asks for, for the time of the call; NVML keeps none of them.
//! - Handles are private to this module, were given by the same library, and are only handed back to it; a handle
//!   that is out of date is refused by NVML with a code. Nothing here reads what they point to.
//! - NVML may be called from several threads at once (its documentation promises it), so handles may change threads.

mod device;
mod events;
mod instances;
mod readings;
mod system;

use std::ffi::{c_char, c_uint};
use std::fmt::Display;
use std::path::Path;

use nvml_wrapper_sys::bindings as nvml;
use tesela_model::driver::{Answer, Code, DriverError};

pub(crate) use self::events::Happened;
pub(crate) use self::instances::ProfileEnumOf;
use crate::load::OpenError;

/// What a function of the bindings is: found, or why not.
type Found<F> = Result<F, libloading::Error>;

/// A function that writes one unsigned number about a device.
type NumberOf = unsafe extern "C" fn(nvml::nvmlDevice_t, *mut c_uint) -> nvml::nvmlReturn_t;

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident of $type:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct $name(nvml::$type);

        // SAFETY: needed to keep handles in a session that several threads use. A handle is a name given by NVML; it
        // is handed back to NVML and never read through, and NVML takes it from any thread.
        unsafe impl Send for $name {}
    )*};
}

handles! {
    /// A GPU or a MIG device.
    DeviceHandle of nvmlDevice_t;
    /// A GPU instance.
    GpuInstanceHandle of nvmlGpuInstance_t;
    /// A compute instance.
    ComputeInstanceHandle of nvmlComputeInstance_t;
    /// A set of events that are waited for.
    EventSetHandle of nvmlEventSet_t;
}

/// The library, and its functions as far as it has them.
pub(crate) struct Api {
    lib: nvml::NvmlLib,
}

impl Api {
    /// Loads a library. It is not started yet.
    ///
    /// # Errors
    /// What the loader says.
    pub(crate) fn load(file: &Path) -> Result<Self, libloading::Error> {
        // SAFETY: loading runs the library's initialisers, which is what loading NVML is for. The file is what the
        // user or the system's loader names as NVML; as with any driver library, it has to be trusted.
        let library = unsafe { libloading::Library::new(file) }?;
        // SAFETY: the bindings look up NVML's functions by name and give them the types of NVML's header; NVML keeps
        // a function's type for ever and gives changed ones a new name (`_v2`).
        let lib = unsafe { nvml::NvmlLib::from_library(library) }?;
        Ok(Self { lib })
    }

    /// Whether this is NVML at all: what every driver with MIG exports.
    ///
    /// # Errors
    /// The first function it lacks.
    pub(crate) fn check(&self, file: &Path) -> Result<(), OpenError> {
        let needed = [
            ("nvmlInit_v2", self.lib.nvmlInit_v2.is_ok()),
            ("nvmlShutdown", self.lib.nvmlShutdown.is_ok()),
            ("nvmlDeviceGetHandleByUUID", self.lib.nvmlDeviceGetHandleByUUID.is_ok()),
        ];
        let lacks = needed.into_iter().find(|(_, found)| !found);
        lacks.map_or(Ok(()), |(function, _)| {
            Err(OpenError::NotNvml { file: file.display().to_string(), function })
        })
    }

    /// One unsigned number about a device.
    fn number(&self, call: &'static str, function: &Found<NumberOf>, device: DeviceHandle) -> Answer<u32> {
        let function = found(call, function)?;
        let mut value = 0;
        // SAFETY: a function of this type writes one number and keeps no pointer; see the head of this module.
        done(call, unsafe { function(device.0, &raw mut value) })?;
        Ok(value)
    }

    /// A text about a device.
    fn text(
        &self,
        call: &'static str,
        function: &Found<unsafe extern "C" fn(nvml::nvmlDevice_t, *mut c_char, c_uint) -> nvml::nvmlReturn_t>,
        device: DeviceHandle,
    ) -> Answer<String> {
        let function = found(call, function)?;
        text_of(call, |buffer, length| {
            // SAFETY: a function of this type writes at most `length` bytes; see the head of this module.
            unsafe { function(device.0, buffer, length) }
        })
    }
}

/// Buffers for texts: NVML's own limits are 96 and less, process names are paths.
const TEXT: usize = 256;
const LONGEST_TEXT: usize = 1 << 16;

/// Calls a function that writes a text, with a larger buffer as long as it asks for one.
fn text_of(
    call: &'static str,
    mut function: impl FnMut(*mut c_char, c_uint) -> nvml::nvmlReturn_t,
) -> Answer<String> {
    let mut length = TEXT;
    loop {
        let mut buffer = vec![0; length];
        let size = c_uint::try_from(length).unwrap_or(c_uint::MAX);
        let code = function(buffer.as_mut_ptr(), size);
        if Code::of(code) == Some(Code::InsufficientSize) && length < LONGEST_TEXT {
            length *= 4;
            continue;
        }
        done(call, code)?;
        return Ok(text(&buffer));
    }
}

/// How often a list is asked for again when it grew between asking for its length and reading it.
const ATTEMPTS: usize = 8;

/// Reads a list whose function takes a buffer and says through `count` how long the list is.
///
/// `function` gets a buffer of `count` items, or null with a count of 0, and returns NVML's code; after success the
/// count says how many items were written.
fn list_of<T: Copy + Default>(
    call: &'static str,
    mut function: impl FnMut(*mut T, &mut c_uint) -> nvml::nvmlReturn_t,
) -> Answer<Vec<T>> {
    let mut count: c_uint = 0;
    let mut code = Code::of(function(std::ptr::null_mut(), &mut count));
    for _ in 0..ATTEMPTS {
        match code {
            // Functions differ in what they answer to the question of the length; the count is right either way.
            None if count == 0 => return Ok(Vec::new()),
            None | Some(Code::InsufficientSize) => {}
            Some(code) => return Err(DriverError::new(call, code)),
        }
        // Room for newcomers between the two calls.
        let room = count.saturating_add(4);
        let mut items = vec![T::default(); room as usize];
        let mut written = room;
        code = Code::of(function(items.as_mut_ptr(), &mut written));
        if code.is_none() {
            items.truncate(written as usize);
            return Ok(items);
        }
        count = written.max(room);
    }
    Err(DriverError::new(call, Code::InsufficientSize))
}

/// A function, or that this version of the library does not have it.
fn found<F: Copy>(call: &str, function: &Found<F>) -> Answer<F> {
    function.as_ref().copied().map_err(|_| DriverError::new(call, Code::FunctionNotFound))
}

/// What a function's return code says.
fn done(call: impl Into<String> + Display, code: nvml::nvmlReturn_t) -> Answer<()> {
    Code::of(code).map_or(Ok(()), |code| Err(DriverError::new(call, code)))
}

/// The text in a buffer, up to its first zero; what is no UTF-8 becomes the replacement character.
fn text(buffer: &[c_char]) -> String {
    let bytes = buffer.iter().take_while(|c| **c != 0).map(|c| c.to_ne_bytes()[0]).collect::<Vec<_>>();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The version field of a versioned struct: its size, and its number in the highest byte.
#[expect(
    clippy::cast_possible_truncation,
    reason = "structs of NVML are smaller than 16 MiB, which is tested"
)]
const fn version_of<T>(number: u32) -> c_uint {
    size_of::<T>() as c_uint | number << 24
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_structs_are_those_of_the_header() {
        // Values that NVML's header states in comments, or that its Python client computes.
        assert_eq!(version_of::<nvml::nvmlMemory_v2_t>(2), 0x0200_0028);
        assert_eq!(version_of::<nvml::nvmlGpuInstanceProfileInfo_v2_t>(2), 0x0200_0098);
        assert_eq!(version_of::<nvml::nvmlComputeInstanceProfileInfo_v2_t>(2), 0x0200_0088);
    }

    #[test]
    fn a_list_that_grows_is_read_again() {
        let mut length = 2_u32;
        let items = list_of::<u32>("f", |buffer, count| {
            if buffer.is_null() {
                *count = length;
                return 0;
            }
            length += 3;
            if *count < length {
                *count = length;
                return Code::InsufficientSize.number();
            }
            *count = length;
            0
        });
        assert_eq!(items.map(|items| items.len()), Ok(5));
    }

    #[test]
    fn a_list_that_never_fits_is_an_error_and_not_a_loop() {
        let mut length = 1;
        let refusal = list_of::<u32>("f", |_, count| {
            length = *count * 2 + 1;
            *count = length;
            Code::InsufficientSize.number()
        });
        assert_eq!(refusal.map_err(|error| error.code), Err(Code::InsufficientSize));
    }

    #[test]
    fn a_text_that_asks_for_more_room_gets_it() {
        let long = text_of("f", |buffer, length| {
            if length < 1000 {
                return Code::InsufficientSize.number();
            }
            // SAFETY: the buffer has `length` bytes, more than the three that are written.
            unsafe { std::ptr::copy_nonoverlapping(c"ab".as_ptr(), buffer, 3) };
            0
        });
        assert_eq!(long, Ok("ab".to_owned()));
        assert!(text_of("f", |_, _| Code::InsufficientSize.number()).is_err());
    }
}
