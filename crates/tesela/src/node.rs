//! The node this program runs on: its driver, its clock, who else manages its GPUs.

mod managers;
mod reset;

use std::time::{Duration, Instant};

use tesela_executor::apply::Clock;
use tesela_nvml::{Search, Session};

pub(crate) use self::managers::{managers, process_name};
pub(crate) use self::reset::NvidiaSmi;
use crate::cli::mig as cli;
use crate::failure::Failure;

/// Opens a session with the driver.
///
/// # Errors
/// Why there is none, and what to do.
pub(crate) fn driver(words: &cli::Node) -> Result<Session, Failure> {
    let search = match (&words.driver_library, &words.driver_root) {
        (Some(file), _) => Search::File(file.clone()),
        (None, Some(root)) => Search::DriverRoot(root.clone()),
        (None, None) => Search::Loader,
    };
    Session::open(&search).map_err(|error| {
        Failure::program(error.to_string())
            .hint("this verb runs on a node with GPUs; docs/mig.md shows how to get there")
    })
}

/// The machine's clock.
pub(crate) struct MachineClock {
    start: Instant,
}

impl MachineClock {
    #[expect(clippy::disallowed_methods, reason = "the rim that waits for other programs")]
    pub(crate) fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for MachineClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "the rim that waits for other programs")]
    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}
