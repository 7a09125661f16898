//! The node this program runs on: its clock, who else manages its GPUs.

mod managers;
mod reset;

use std::time::{Duration, Instant};

use tesela_executor::apply::Clock;

pub(crate) use self::managers::{managers, process_name};
pub(crate) use self::reset::NvidiaSmi;

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
