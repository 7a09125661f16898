//! The driver of this node's GPUs, as the command line names it.

use tesela_nvml::{OpenError, Search, Session};

use crate::cli::Driver;
use crate::failure::Failure;

/// Opens the driver.
///
/// # Errors
/// Exit code 1, with what to do: the library is missing, is none, or does not start.
pub(crate) fn open(words: &Driver) -> Result<Session, Failure> {
    let search = match (&words.driver_library, &words.driver_root) {
        (Some(file), _) => Search::File(file.clone()),
        (None, Some(root)) => Search::DriverRoot(root.clone()),
        (None, None) => Search::Loader,
    };
    Session::open(&search).map_err(|error| {
        let missing = matches!(error, OpenError::Library { .. });
        let failure = Failure::program(error.to_string());
        let elsewhere =
            "in a container the driver is often under another root: --driver-root /run/nvidia/driver";
        let emulated =
            "on a machine without a GPU, an emulated driver will do: eval \"$(tesela sim env MACHINE.yaml)\"";
        if missing { failure.hint(elsewhere).hint(emulated) } else { failure }
    })
}
