//! Time: counters go on, and what was scheduled happens.

use std::time::Duration;

use tesela_model::driver::{DeviceEvent, EventKind, GpuUuid};
use tesela_model::machine::Health;

use crate::fault::{Happening, Scheduled};
use crate::simulator::Simulator;

impl Simulator {
    /// Moves the clock. Counters go on as things stand; what was scheduled happens on the way, in the order of time. It
    /// makes no difference in how many steps the clock is moved. It never goes back.
    pub fn advance_to(&mut self, now: Duration) {
        let now = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
        while let Some(next) = self.state.schedule.first().filter(|next| next.at <= now).cloned() {
            self.state.schedule.remove(0);
            self.run_to(next.at);
            self.happen(&next.gpu, next.what);
        }
        self.run_to(now);
    }

    /// The same by a length of time.
    pub fn advance(&mut self, by: Duration) {
        self.advance_to(self.now().saturating_add(by));
    }

    /// Time since the simulation began.
    #[must_use]
    pub fn now(&self) -> Duration {
        Duration::from_micros(self.state.now)
    }

    /// Lets something happen to a GPU at a time to come; at once when that time is over. It is passed over when the GPU is
    /// not there.
    pub fn schedule(&mut self, at: Duration, gpu: &GpuUuid, what: Happening) {
        let at = u64::try_from(at.as_micros()).unwrap_or(u64::MAX);
        if at <= self.state.now {
            self.happen(gpu, what);
            return;
        }
        self.changed();
        let behind = self.state.schedule.partition_point(|s| s.at <= at);
        self.state.schedule.insert(behind, Scheduled { at, gpu: gpu.clone(), what });
    }

    /// Something happens to a GPU now.
    pub fn happen(&mut self, gpu: &GpuUuid, what: Happening) {
        let Some(index) = self.index_of(gpu) else { return };
        self.changed();
        let one = &mut self.state.gpus[index];
        match what {
            Happening::Lost => {
                one.health = Health::Lost;
                // XID 79: the GPU has fallen off the bus (NVIDIA, "XID Errors").
                self.tell(index, EventKind::Xid(79), None);
            }
            Happening::NeedsReset => one.health = Health::ResetRequired,
            Happening::Healed => one.health = Health::Healthy,
            Happening::Event(kind, instance) => self.tell(index, kind, instance),
            Happening::RowsRemapped(corrected, uncorrected) => {
                let rows = &mut one.counters.remapped_rows;
                rows.0 = rows.0.saturating_add(corrected);
                rows.1 = rows.1.saturating_add(uncorrected);
            }
            Happening::RemapFailed => one.counters.remap_failed = true,
            Happening::PcieReplays(count) => {
                one.counters.pcie_replays = one.counters.pcie_replays.saturating_add(count);
            }
            Happening::ProcessEnds(pid) => one.processes.retain(|p| p.pid != pid),
            Happening::Demand(pid, demand) => {
                for process in one.processes.iter_mut().filter(|p| p.pid == pid) {
                    process.demand = demand;
                }
            }
        }
    }

    fn tell(&mut self, index: usize, kind: EventKind, instance: Option<(u32, u32)>) {
        let counters = &mut self.state.gpus[index].counters;
        match kind {
            EventKind::SingleBitEcc => {
                counters.ecc.0 += 1;
                counters.ecc_ever.0 += 1;
            }
            EventKind::DoubleBitEcc => {
                counters.ecc.1 += 1;
                counters.ecc_ever.1 += 1;
            }
            EventKind::Xid(_) | EventKind::MigConfigChange => {}
        }
        let gpu = self.state.gpus[index].uuid.clone();
        self.log(DeviceEvent { gpu, instance, kind });
    }

    /// Counters over a time in which nothing changes.
    fn run_to(&mut self, now: u64) {
        let passed = now.saturating_sub(self.state.now);
        if passed == 0 {
            return;
        }
        for index in 0..self.state.gpus.len() {
            // mW over µs are nJ.
            let energy = u128::from(self.power_milliwatts(index)) * u128::from(passed);
            let counters = &mut self.state.gpus[index].counters;
            let nanojoules = u128::from(counters.energy_nj) + energy;
            let whole = u64::try_from(nanojoules / 1_000_000).unwrap_or(u64::MAX);
            counters.energy_mj = counters.energy_mj.saturating_add(whole);
            counters.energy_nj = u64::try_from(nanojoules % 1_000_000).unwrap_or(0);
        }
        self.state.now = now;
    }
}
