//! Waiting for somebody to let go: pauses that grow, and an end.

use std::time::Duration;

use super::{Clock, Options};

/// What is left of the time to wait on one GPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    whole: Duration,
    left: Duration,
    pause: Duration,
    longest: Duration,
    first: Duration,
}

impl Patience {
    pub(super) fn new(whole: Duration, options: &Options) -> Self {
        let (first, longest) = (options.first_pause.max(Duration::from_millis(1)), options.longest_pause);
        Self { whole, left: whole, pause: first, longest, first }
    }

    /// Waits a little; `false` when the time is over.
    pub(super) fn wait(&mut self, clock: &dyn Clock) -> bool {
        if self.left.is_zero() {
            return false;
        }
        let pause = self.pause.min(self.left);
        let before = clock.now();
        clock.sleep(pause);
        // A clock that stands still must not make it wait for ever.
        let gone = clock.now().saturating_sub(before).max(pause);
        self.left = self.left.saturating_sub(gone);
        self.pause = (self.pause * 2).min(self.longest.max(self.first));
        true
    }

    /// The next wait is for something else: short pauses again.
    pub(super) fn anew(&mut self) {
        self.pause = self.first;
    }

    pub(super) fn waited(&self) -> Duration {
        self.whole.saturating_sub(self.left)
    }

    /// Whether a third of the time has gone: then monitors may be what is in the way.
    pub(super) fn is_long(&self) -> bool {
        self.waited() >= self.whole / 3
    }
}
