//! Sessions written down, and answered from.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tesela_model::driver::{
    Activation, Answer, Code, ComputeInstance, ComputeInstanceProfile, Device, DeviceEvent, DriverError,
    GpuDriver, GpuIdentity, GpuInstance, GpuInstanceProfile, GpuUuid, MigDevice, MigMode, MigUuid, Process,
    Readings, Versions,
};
use tesela_model::product::Placement;

/// What kind of document a record is.
const KIND: &str = "tesela-nvml-session";
/// Its version.
const VERSION: u32 = 1;

/// A question to a driver: a function of the port with its arguments.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "each is the function of the port of that name, with its arguments")]
pub enum Ask {
    Versions,
    Gpus,
    MigMode { gpu: GpuUuid },
    SetMigMode { gpu: GpuUuid, enabled: bool },
    GpuInstanceProfiles { gpu: GpuUuid },
    Placements { gpu: GpuUuid, profile: u32 },
    RemainingCapacity { gpu: GpuUuid, profile: u32 },
    GpuInstances { gpu: GpuUuid },
    CreateGpuInstance { gpu: GpuUuid, profile: u32, placement: Option<Placement> },
    DestroyGpuInstance { gpu: GpuUuid, gpu_instance: u32 },
    ComputeInstanceProfiles { gpu: GpuUuid, gpu_instance: u32 },
    ComputeInstances { gpu: GpuUuid, gpu_instance: u32 },
    CreateComputeInstance { gpu: GpuUuid, gpu_instance: u32, profile: u32, placement: Option<Placement> },
    DestroyComputeInstance { gpu: GpuUuid, gpu_instance: u32, compute_instance: u32 },
    MigDevices { gpu: GpuUuid },
    Processes { gpu: GpuUuid },
    Readings { gpu: GpuUuid, mig: Option<MigUuid> },
    WaitEvent,
}

impl Ask {
    /// The GPU it is about.
    fn gpu(&self) -> Option<&GpuUuid> {
        match self {
            Self::Versions | Self::Gpus | Self::WaitEvent => None,
            Self::MigMode { gpu }
            | Self::SetMigMode { gpu, .. }
            | Self::GpuInstanceProfiles { gpu }
            | Self::Placements { gpu, .. }
            | Self::RemainingCapacity { gpu, .. }
            | Self::GpuInstances { gpu }
            | Self::CreateGpuInstance { gpu, .. }
            | Self::DestroyGpuInstance { gpu, .. }
            | Self::ComputeInstanceProfiles { gpu, .. }
            | Self::ComputeInstances { gpu, .. }
            | Self::CreateComputeInstance { gpu, .. }
            | Self::DestroyComputeInstance { gpu, .. }
            | Self::MigDevices { gpu }
            | Self::Processes { gpu }
            | Self::Readings { gpu, .. } => Some(gpu),
        }
    }
}

/// A question with its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// What was asked.
    pub ask: Ask,
    /// `{"Ok": …}` or `{"Err": …}`, as the port's types serialise.
    pub answer: Value,
}

/// A record of a session: a JSON document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fixture {
    kind: String,
    version: u32,
    /// In the order they were asked.
    pub exchanges: Vec<Exchange>,
}

/// Why a text is no record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FixtureError {
    /// No JSON, or other keys.
    #[error("this is no record of a session: {0}; record one again")]
    Shape(#[from] serde_json::Error),
    /// Another kind of document.
    #[error("this is a {0:?}, not a {KIND:?}")]
    Kind(String),
    /// Another version.
    #[error("the record has version {0}, this program reads {VERSION}: record it again")]
    Version(u32),
}

impl Fixture {
    /// Reads a record.
    ///
    /// # Errors
    /// Why it is none.
    pub fn from_json(text: &str) -> Result<Self, FixtureError> {
        let fixture = serde_json::from_str::<Self>(text)?;
        match (fixture.kind.as_str(), fixture.version) {
            (KIND, VERSION) => Ok(fixture),
            (KIND, version) => Err(FixtureError::Version(version)),
            (kind, _) => Err(FixtureError::Kind(kind.to_owned())),
        }
    }

    /// Writes it, indented.
    ///
    /// # Errors
    /// Never in practice: all its parts are JSON.
    pub fn to_json(&self) -> Result<String, FixtureError> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

/// Passes questions on to a driver and writes them down with the answers.
#[derive(Debug)]
pub struct Recorder<D> {
    driver: D,
    exchanges: RefCell<Vec<Exchange>>,
}

impl<D: GpuDriver> Recorder<D> {
    /// A recorder before a driver.
    pub fn new(driver: D) -> Self {
        Self { driver, exchanges: RefCell::default() }
    }

    /// What was recorded so far.
    pub fn fixture(&self) -> Fixture {
        Fixture { kind: KIND.to_owned(), version: VERSION, exchanges: self.exchanges.borrow().clone() }
    }

    fn note<T: Serialize>(&self, ask: Ask, answer: Answer<T>) -> Answer<T> {
        // The port's types serialise: they have string keys and finite numbers. Were it not so, the answer is passed
        // on all the same, and a replay says that it lacks it.
        if let Ok(value) = serde_json::to_value(&answer) {
            self.exchanges.borrow_mut().push(Exchange { ask, answer: value });
        }
        answer
    }
}

/// Answers from a record. To the same question it gives the answers in the order they were given; the last one again
/// and again.
#[derive(Debug)]
pub struct Replay {
    answers: RefCell<BTreeMap<Ask, VecDeque<Value>>>,
}

impl Replay {
    /// A driver that answers from a record.
    #[must_use]
    pub fn new(fixture: Fixture) -> Self {
        let mut answers = BTreeMap::<Ask, VecDeque<Value>>::new();
        for Exchange { ask, answer } in fixture.exchanges {
            answers.entry(ask).or_default().push_back(answer);
        }
        Self { answers: RefCell::new(answers) }
    }

    /// The next answer to a question; [`Code::NoData`] when it was never asked.
    fn answer<T: DeserializeOwned>(&self, ask: &Ask) -> Answer<T> {
        let mut answers = self.answers.borrow_mut();
        let left = answers.get_mut(ask);
        let value =
            left.and_then(|left| if left.len() > 1 { left.pop_front() } else { left.front().cloned() });
        let read = value.and_then(|value| serde_json::from_value::<Answer<T>>(value).ok());
        read.unwrap_or_else(|| {
            let error = DriverError::new(format!("the record has no answer to {ask:?}"), Code::NoData);
            Err(match ask.gpu() {
                Some(gpu) => error.on(gpu),
                None => error,
            })
        })
    }
}

/// A driver before which every question goes through `$self.$way`: recorded, or replayed.
macro_rules! port {
    ($($name:ident($($arg:ident: $type:ty),*) -> $answer:ty = $ask:expr;)*) => {
        impl<D: GpuDriver> GpuDriver for Recorder<D> {
            $(fn $name(&self, $($arg: $type),*) -> Answer<$answer> {
                self.note($ask, self.driver.$name($($arg),*))
            })*
        }

        impl GpuDriver for Replay {
            $(fn $name(&self, $($arg: $type),*) -> Answer<$answer> {
                self.answer(&$ask)
            })*
        }
    };
}

port! {
    versions() -> Versions = Ask::Versions;
    gpus() -> Vec<Answer<GpuIdentity>> = Ask::Gpus;
    mig_mode(gpu: &GpuUuid) -> Option<MigMode> = Ask::MigMode { gpu: gpu.clone() };
    set_mig_mode(gpu: &GpuUuid, enabled: bool) -> Activation = Ask::SetMigMode { gpu: gpu.clone(), enabled };
    gpu_instance_profiles(gpu: &GpuUuid) -> Vec<GpuInstanceProfile> =
        Ask::GpuInstanceProfiles { gpu: gpu.clone() };
    placements(gpu: &GpuUuid, profile: u32) -> Vec<Placement> =
        Ask::Placements { gpu: gpu.clone(), profile };
    remaining_capacity(gpu: &GpuUuid, profile: u32) -> u32 =
        Ask::RemainingCapacity { gpu: gpu.clone(), profile };
    gpu_instances(gpu: &GpuUuid) -> Vec<GpuInstance> = Ask::GpuInstances { gpu: gpu.clone() };
    create_gpu_instance(gpu: &GpuUuid, profile: u32, placement: Option<Placement>) -> GpuInstance =
        Ask::CreateGpuInstance { gpu: gpu.clone(), profile, placement };
    destroy_gpu_instance(gpu: &GpuUuid, gpu_instance: u32) -> () =
        Ask::DestroyGpuInstance { gpu: gpu.clone(), gpu_instance };
    compute_instance_profiles(gpu: &GpuUuid, gpu_instance: u32) -> Vec<ComputeInstanceProfile> =
        Ask::ComputeInstanceProfiles { gpu: gpu.clone(), gpu_instance };
    compute_instances(gpu: &GpuUuid, gpu_instance: u32) -> Vec<ComputeInstance> =
        Ask::ComputeInstances { gpu: gpu.clone(), gpu_instance };
    create_compute_instance(
        gpu: &GpuUuid, gpu_instance: u32, profile: u32, placement: Option<Placement>
    ) -> ComputeInstance =
        Ask::CreateComputeInstance { gpu: gpu.clone(), gpu_instance, profile, placement };
    destroy_compute_instance(gpu: &GpuUuid, gpu_instance: u32, compute_instance: u32) -> () =
        Ask::DestroyComputeInstance { gpu: gpu.clone(), gpu_instance, compute_instance };
    mig_devices(gpu: &GpuUuid) -> Vec<MigDevice> = Ask::MigDevices { gpu: gpu.clone() };
    processes(gpu: &GpuUuid) -> Vec<Process> = Ask::Processes { gpu: gpu.clone() };
    readings(device: &Device) -> Readings = {
        let mig = match device {
            Device::Gpu(_) => None,
            Device::Mig { mig, .. } => Some(mig.clone()),
        };
        Ask::Readings { gpu: device.gpu().clone(), mig }
    };
    wait_event(_timeout: Duration) -> Option<DeviceEvent> = Ask::WaitEvent;
}
