//! The only place that starts programs, or becomes one.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Becomes another program, with these variables set. Returns only when that fails, with why.
#[expect(clippy::disallowed_methods, reason = "this is the module that starts programs")]
pub(crate) fn become_program(words: &[OsString], variables: &[(&str, OsString)]) -> io::Error {
    let Some((program, rest)) = words.split_first() else {
        return io::Error::new(io::ErrorKind::InvalidInput, "no program is named");
    };
    Command::new(program).args(rest).envs(variables.iter().map(|(name, value)| (name, value))).exec()
}
