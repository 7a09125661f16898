//! Counters: what a device is doing.

use tesela_model::driver::{Answer, Clocks, Code, Device, MemoryUse, ProcessKind, Readings, Utilisation};
use tesela_model::machine::Health;

use crate::call::Call;
use crate::contention::{self, Client, Rate, Sharing};
use crate::figures::Figures;
use crate::simulator::Simulator;
use crate::state::{Gpu, Process};

/// Part of the memory that the driver keeps for itself: one in so many ([`crate::assumptions`]).
const RESERVED_PART: u64 = 128;

/// What a device does, each as a share from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Activity {
    /// Share of the time in which anything runs.
    pub busy: f64,
    /// Share of the device's multiprocessors at work, over the time.
    pub sm: f64,
    /// Share of its memory bandwidth at work, over the time.
    pub memory: f64,
}

/// What a process gets of its device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProcessActivity {
    /// The process.
    pub pid: u32,
    /// GPU and compute instance it is on.
    pub on: Option<(u32, u32)>,
    /// What it gets.
    pub rate: Rate,
}

impl Simulator {
    /// What a device is doing. What NVML does not tell of it is absent: utilisation with MIG on; of a MIG device all but
    /// its memory (MIG User Guide, "GPU Utilization Metrics").
    ///
    /// # Errors
    /// `NotFound` for a MIG device that is not there; as every call.
    pub fn readings(&mut self, device: &Device) -> Answer<Readings> {
        let gpu = device.gpu();
        let entry = self.enter(Call::Readings, gpu, None)?;
        let index = entry.index;
        if let Device::Mig { mig, .. } = device {
            let instances = &self.state.gpus[index].instances;
            let on = instances.iter().find(|i| i.compute.iter().any(|c| c.uuid == *mig));
            let Some(on) = on.map(|i| i.id) else { return entry.refuse(gpu, Code::NotFound) };
            return entry.done(gpu, Readings { memory: self.memory(index, Some(on)), ..Readings::default() });
        }
        entry.done(gpu, self.gpu_readings(index))
    }

    fn gpu_readings(&self, index: usize) -> Readings {
        let one = &self.state.gpus[index];
        let figures = Figures::of(one.product.as_str());
        let limit = figures.limit_watts * 1000;
        let power = self.power_milliwatts(index);
        let activity = self.gpu_activity(index);
        let off = !one.mode.current;
        let share = f64::from(power) / f64::from(limit);
        let chip = 25.0 + 50.0 * share;
        Readings {
            memory: self.memory(index, None),
            utilisation: off
                .then(|| Utilisation { gpu: percent(activity.busy), memory: percent(activity.memory) }),
            encoder_percent: off.then_some(0),
            decoder_percent: off.then_some(0),
            power_milliwatts: Some(power),
            power_limit_milliwatts: Some(limit),
            energy_millijoules: Some(one.counters.energy_mj),
            temperature_celsius: Some(rounded(chip)),
            memory_temperature_celsius: Some(rounded(chip - 2.0 + 10.0 * share)),
            clocks: Some(Clocks {
                sm: if activity.busy > 0.0 { figures.sm_mhz } else { figures.sm_idle_mhz },
                memory: figures.memory_mhz,
            }),
            ecc: Some(one.counters.ecc_counts()),
            pcie_replays: Some(one.counters.pcie_replays),
            remapped_rows: Some(one.counters.remapped_rows),
            row_remap_failed: Some(one.counters.remap_failed),
        }
    }

    /// What a device does, whether NVML tells it or not: what profiling counters (GPM, DCGM) show. `None` when it is not
    /// there.
    #[must_use]
    pub fn activity(&self, device: &Device) -> Option<Activity> {
        let index = self.index_of(device.gpu())?;
        let Device::Mig { mig, .. } = device else { return Some(self.gpu_activity(index)) };
        let one = &self.state.gpus[index];
        let mut all = one.instances.iter().flat_map(|i| i.compute.iter().map(move |c| (i.id, c)));
        let (gi, ci) = all.find(|(_, c)| c.uuid == *mig).map(|(gi, c)| (gi, c.id))?;
        let share = self.share(index, gi, ci);
        let (busy, filled) = worked(one, Some((gi, ci)), share);
        let sm = (filled / share).min(1.0);
        Some(Activity { busy, sm, memory: sm / 2.0 })
    }

    /// What each process of a GPU gets, by pid.
    #[must_use]
    pub fn process_activity(&self, gpu: &tesela_model::driver::GpuUuid) -> Vec<ProcessActivity> {
        let Some(index) = self.index_of(gpu) else { return Vec::new() };
        let one = &self.state.gpus[index];
        let mut all = Vec::new();
        for on in places(one) {
            let share = on.map_or(1.0, |(gi, ci)| self.share(index, gi, ci));
            let (processes, clients) = clients(one, on);
            let rates = contention::sharing(share, &clients).rates;
            all.extend(processes.iter().zip(rates).map(|(p, rate)| ProcessActivity { pid: p.pid, on, rate }));
        }
        all.sort_by_key(|a| a.pid);
        all
    }

    fn gpu_activity(&self, index: usize) -> Activity {
        let one = &self.state.gpus[index];
        if one.health != Health::Healthy {
            return Activity::default();
        }
        let mut idle = 1.0;
        let mut sm = 0.0;
        for on in places(one) {
            let share = on.map_or(1.0, |(gi, ci)| self.share(index, gi, ci));
            let (busy, filled) = worked(one, on, share);
            idle *= 1.0 - busy;
            sm += filled;
        }
        let sm = f64::min(sm, 1.0);
        Activity { busy: 1.0 - idle, sm, memory: sm / 2.0 }
    }

    /// The part of the GPU that a compute instance has: of compute, or of memory where it has its GPU instance for itself.
    fn share(&self, index: usize, gi: u32, ci: u32) -> f64 {
        let found = || {
            let board = self.board(index)?;
            let one = self.state.gpus.get(index)?;
            let instance = one.instances.iter().find(|i| i.id == gi)?;
            let profile = board.profile(instance.profile)?;
            let compute = instance.compute.iter().find(|c| c.id == ci)?;
            let slices = profile.compute_profile(compute.profile)?.slices;
            let by_compute = f64::from(slices) / f64::from(board.slices());
            let by_memory = f64::from(profile.units) / f64::from(board.units());
            Some(if slices == profile.slices { by_compute.max(by_memory) } else { by_compute })
        };
        found().unwrap_or(1.0)
    }

    /// Power in mW: idle, and what is between that and the limit by the multiprocessors at work.
    pub(crate) fn power_milliwatts(&self, index: usize) -> u32 {
        let one = &self.state.gpus[index];
        if one.health == Health::Lost {
            return 0;
        }
        let figures = Figures::of(one.product.as_str());
        let (idle, limit) = (f64::from(figures.idle_watts), f64::from(figures.limit_watts));
        rounded((idle + (limit - idle) * self.gpu_activity(index).sm) * 1000.0)
    }

    /// Memory of a GPU, or of one of its GPU instances.
    pub(crate) fn memory(&self, index: usize, gpu_instance: Option<u32>) -> Option<MemoryUse> {
        let board = self.board(index)?;
        let one = self.state.gpus.get(index)?;
        let (mib, reserved) = match gpu_instance {
            None => (board.memory_mib(), board.memory_mib() / RESERVED_PART),
            Some(id) => (board.profile(one.instances.iter().find(|i| i.id == id)?.profile)?.memory_mib, 0),
        };
        let on = |p: &&Process| gpu_instance.is_none() || p.on.map(|(gi, _)| gi) == gpu_instance;
        let used = one.processes.iter().filter(on).map(|p| p.memory).sum();
        let (total, reserved) = (mib << 20, reserved << 20);
        Some(MemoryUse { total, reserved, used, free: total.saturating_sub(reserved).saturating_sub(used) })
    }
}

/// The devices of a GPU that have processes.
fn places(one: &Gpu) -> Vec<Option<(u32, u32)>> {
    let mut places = one.processes.iter().map(|p| p.on).collect::<Vec<_>>();
    places.sort_unstable();
    places.dedup();
    places
}

fn clients(one: &Gpu, on: Option<(u32, u32)>) -> (Vec<&Process>, Vec<Client>) {
    let there = one.processes.iter().filter(|p| p.on == on).collect::<Vec<_>>();
    let clients = there.iter().map(|p| Client { demand: p.demand, mps: p.kind == ProcessKind::Mps });
    let clients = clients.collect();
    (there, clients)
}

/// How long a device works, and how much of the GPU it fills over the time.
fn worked(one: &Gpu, on: Option<(u32, u32)>, share: f64) -> (f64, f64) {
    let (_, clients) = clients(one, on);
    let Sharing { rates, busy } = contention::sharing(share, &clients);
    let fill = |(client, rate): (&Client, &Rate)| f64::from(client.demand.fill) / 1000.0 * rate.progress;
    (busy, clients.iter().zip(&rates).map(fill).sum())
}

fn percent(share: f64) -> u32 {
    rounded(share * 100.0)
}

/// The nearest whole number; counters are never negative and far below the limit of the type.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
fn rounded(value: f64) -> u32 {
    value.round().clamp(0.0, f64::from(u32::MAX)) as u32
}
