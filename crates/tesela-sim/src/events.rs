//! The log of events, from which every waiting client reads on its own.

use tesela_model::driver::DeviceEvent;

use crate::simulator::Simulator;
use crate::state::LoggedEvent;

/// Events that are kept for clients that have not asked yet.
const MOST_EVENTS: usize = 256;

impl Simulator {
    pub(crate) fn log(&mut self, event: DeviceEvent) {
        let state = &mut self.state;
        let logged = LoggedEvent { number: state.next_event, at: state.now, event };
        state.next_event += 1;
        state.events.push(logged);
        let over = state.events.len().saturating_sub(MOST_EVENTS);
        state.events.drain(..over);
    }

    /// The first event with this number or a later one. A client begins at [`Simulator::next_event`] and goes on behind
    /// what it was given; what was dropped meanwhile is passed over.
    #[must_use]
    pub fn event_from(&self, number: u64) -> Option<&LoggedEvent> {
        self.state.events.iter().find(|e| e.number >= number)
    }

    /// The number that the next event will have.
    #[must_use]
    pub fn next_event(&self) -> u64 {
        self.state.next_event
    }
}
