//! What the emulated driver takes from the process it is loaded into, and the one line it may say there.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use tesela_model::driver::Code;
use tesela_sim::call::Rights;

/// Names the machine file.
pub const MACHINE: &str = "TESELA_SIM";
/// What the program may do: `root` (default), `mig-config`, `user`.
pub const RIGHTS: &str = "TESELA_SIM_RIGHTS";

/// The machine file.
///
/// # Errors
/// `DriverNotLoaded` when the environment names none, and a person is told.
#[expect(clippy::disallowed_methods, reason = "a library that other programs load has no command line")]
pub(crate) fn machine_file() -> Result<PathBuf, Code> {
    match std::env::var_os(MACHINE).filter(|value| !value.is_empty()) {
        Some(file) => Ok(file.into()),
        None => {
            tell_once(&format!(
                "{MACHINE} is not set: run `eval \"$(tesela sim env FILE)\"` with a machine file"
            ));
            Err(Code::DriverNotLoaded)
        }
    }
}

/// What the program may do.
///
/// # Errors
/// `DriverNotLoaded` for a word that is none of the three, and a person is told.
#[expect(clippy::disallowed_methods, reason = "a library that other programs load has no command line")]
pub(crate) fn rights() -> Result<Rights, Code> {
    let value = std::env::var_os(RIGHTS).unwrap_or_default();
    match value.to_str() {
        Some("" | "root") => Ok(Rights::Root),
        Some("mig-config") => Ok(Rights::MigConfig),
        Some("user") => Ok(Rights::User),
        _ => {
            tell_once(&format!("{RIGHTS} is {}: write root, mig-config or user", value.display()));
            Err(Code::DriverNotLoaded)
        }
    }
}

/// The program that runs here under an id.
#[expect(clippy::disallowed_methods, reason = "NVML tells the names of processes of the machine it is on")]
pub(crate) fn program_of(pid: u32) -> Option<String> {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let first = words.split(|byte| *byte == 0).next().filter(|word| !word.is_empty())?;
    Some(String::from_utf8_lossy(first).into_owned())
}

/// Says something on standard error, the first time in a process.
#[expect(clippy::print_stderr, reason = "a return code cannot tell a person which file is wrong")]
pub(crate) fn tell_once(text: &str) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if !TOLD.swap(true, Ordering::Relaxed) {
        eprintln!("emulated NVML: {text}");
    }
}
