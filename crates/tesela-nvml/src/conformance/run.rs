//! What asks a driver, case by case.

use std::collections::BTreeMap;
use std::fmt;

use tesela_model::driver::{
    Activation, Answer, Code, GpuDriver, GpuInstance, GpuInstanceProfile, GpuReset, GpuUuid, MigUuid,
};
use tesela_model::product::Placement;

use super::case::{Case, Scene, Step};
use super::laws;

/// A driver under test, and how to bring about what cases need. What a bench cannot do, it leaves out; cases that need it
/// are skipped, and the report says so.
pub trait Bench {
    /// Sets a scene: a node with one GPU.
    ///
    /// # Errors
    /// Why it cannot.
    fn set(&mut self, _: &Scene) -> Result<(), String> {
        Err("this bench sets no scenes".to_owned())
    }

    /// The driver.
    fn driver(&self) -> &dyn GpuDriver;

    /// The same driver to a caller without rights.
    fn unprivileged(&self) -> Option<&dyn GpuDriver> {
        None
    }

    /// What resets a GPU.
    fn reset(&self) -> Option<&dyn GpuReset> {
        None
    }

    /// A process comes to compute instance 0 of a GPU instance, or to the whole GPU.
    ///
    /// # Errors
    /// Why it cannot.
    fn start(&mut self, _gpu: &GpuUuid, _pid: u32, _gpu_instance: Option<u32>) -> Result<(), String> {
        Err("this bench starts no processes".to_owned())
    }

    /// It ends.
    ///
    /// # Errors
    /// Why it cannot.
    fn end(&mut self, _gpu: &GpuUuid, _pid: u32) -> Result<(), String> {
        Err("this bench ends no processes".to_owned())
    }
}

/// What may be done to the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading alone.
    Read,
    /// Everything: modes, instances, resets.
    Write,
}

/// An answer that was not the one expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The case.
    pub case: String,
    /// Who says what is expected.
    pub source: String,
    /// Number of the step, from 1.
    pub step: usize,
    /// What was expected and what was found.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, step {}: {} ({})", self.case, self.step, self.what, self.source)
    }
}

/// What came of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Cases that held.
    pub passed: Vec<String>,
    /// Cases that did not run, and why.
    pub skipped: Vec<(String, String)>,
    /// Cases that did not hold.
    pub failed: Vec<Failure>,
}

/// Runs cases on a bench.
pub fn run(cases: &[Case], bench: &mut dyn Bench, access: Access) -> Report {
    let mut report = Report::default();
    for case in cases {
        if case.writes() && access == Access::Read {
            report.skipped.push((case.name.clone(), "it changes the GPU".to_owned()));
            continue;
        }
        match one(case, bench) {
            Ok(()) => report.passed.push(case.name.clone()),
            Err(Stop::Skip(why)) => report.skipped.push((case.name.clone(), why)),
            Err(Stop::Fail(step, what)) => report.failed.push(Failure {
                case: case.name.clone(),
                source: case.source.clone(),
                step,
                what,
            }),
        }
    }
    report
}

enum Stop {
    Skip(String),
    Fail(usize, String),
}

fn one(case: &Case, bench: &mut dyn Bench) -> Result<(), Stop> {
    if let Some(scene) = &case.scene {
        bench.set(scene).map_err(Stop::Skip)?;
    }
    let gpus = bench.driver().gpus().map_err(|e| Stop::Fail(0, e.to_string()))?;
    // A lost GPU is no fault of the driver.
    for gpu in gpus.into_iter().flatten() {
        let mut actor = Actor::new(bench, gpu.uuid).map_err(|what| Stop::Fail(0, what))?;
        for (index, step) in case.steps.iter().enumerate() {
            actor.step(step).map_err(|stop| match stop {
                Fault::Skip(why) => Stop::Skip(why),
                Fault::Wrong(what) => Stop::Fail(index + 1, what),
            })?;
        }
    }
    Ok(())
}

enum Fault {
    Skip(String),
    Wrong(String),
}

impl From<String> for Fault {
    fn from(what: String) -> Self {
        Self::Wrong(what)
    }
}

struct Actor<'b> {
    bench: &'b mut dyn Bench,
    gpu: GpuUuid,
    profiles: Vec<GpuInstanceProfile>,
    named: BTreeMap<String, GpuInstance>,
}

impl<'b> Actor<'b> {
    fn new(bench: &'b mut dyn Bench, gpu: GpuUuid) -> Result<Self, String> {
        let profiles = match bench.driver().gpu_instance_profiles(&gpu) {
            Ok(profiles) => profiles,
            // Old drivers tell of profiles only with MIG on.
            Err(error) if error.code == Code::NotSupported => Vec::new(),
            Err(error) => return Err(error.to_string()),
        };
        let there = bench.driver().gpu_instances(&gpu);
        let named = there.into_iter().flatten().collect::<Vec<_>>();
        let mut actor = Self { bench, gpu, profiles, named: BTreeMap::new() };
        actor.name(named);
        Ok(actor)
    }

    /// Instances of the scene are called by their position: scenes list them by start.
    fn name(&mut self, mut there: Vec<GpuInstance>) {
        there.sort_by_key(|i| i.placement.start);
        self.named = there.into_iter().enumerate().map(|(n, i)| (n.to_string(), i)).collect();
    }

    fn driver(&self) -> &dyn GpuDriver {
        self.bench.driver()
    }

    fn profile(&self, name: &str) -> Result<&GpuInstanceProfile, String> {
        let found = self.profiles.iter().find(|p| p.name.as_deref() == Some(name));
        found.ok_or_else(|| format!("the driver has no profile {name}"))
    }

    fn instance(&self, name: &str) -> Result<GpuInstance, String> {
        self.named.get(name).copied().ok_or_else(|| format!("no instance is called {name}"))
    }

    fn step(&mut self, step: &Step) -> Result<(), Fault> {
        match step {
            Step::Laws => {
                let denied = self.driver().gpu_instances(&self.gpu).err();
                if denied.is_some_and(|e| e.code == Code::NoPermission) {
                    return Err(Fault::Skip("it needs root or the capability file mig/config".to_owned()));
                }
                Ok(laws::check(self.driver(), &self.gpu, &self.profiles)?)
            }
            Step::Profiles(expected) => Ok(self.profiles_are(expected)?),
            Step::Placements { profile, starts, size } => Ok(self.placements_are(profile, starts, *size)?),
            Step::Mode { current, pending } => {
                let mode = self.driver().mig_mode(&self.gpu).map_err(|e| e.to_string())?;
                let found = mode.map(|m| (m.current, m.pending));
                Ok(equal("mode now and later", &found, &Some((*current, *pending)))?)
            }
            Step::SetMode { on, waits, refused } => {
                let answer = self.driver().set_mig_mode(&self.gpu, *on);
                let Some(activation) = judge("setting the mode", answer, *refused)? else { return Ok(()) };
                let expected = waits.map_or(Activation::Done, Activation::Pending);
                Ok(equal("activation", &activation, &expected)?)
            }
            Step::Create { .. } => Ok(self.create(step)?),
            Step::CreateUnknown { id, refused } => {
                let answer = self.driver().create_gpu_instance(&self.gpu, *id, None);
                Ok(judge("creating", answer, Some(*refused)).map(|_| ())?)
            }
            Step::Destroy { instance, refused } => {
                let id = self.instance(instance)?.id;
                let answer = self.driver().destroy_gpu_instance(&self.gpu, id);
                Ok(judge("destroying", answer, *refused).map(|_| ())?)
            }
            Step::DestroyUnknown { id, refused } => {
                let answer = self.driver().destroy_gpu_instance(&self.gpu, *id);
                Ok(judge("destroying", answer, Some(*refused)).map(|_| ())?)
            }
            Step::CreateCompute { .. } => Ok(self.create_compute(step)?),
            Step::DestroyCompute { instance, id, refused } => {
                let gi = self.instance(instance)?.id;
                let answer = self.driver().destroy_compute_instance(&self.gpu, gi, *id);
                Ok(judge("destroying a compute instance", answer, *refused).map(|_| ())?)
            }
            other => self.look(other),
        }
    }

    /// Steps that look at what is there, or act around the driver.
    fn look(&mut self, step: &Step) -> Result<(), Fault> {
        match step {
            Step::Capacity { profile, count, refused } => {
                let id = self.profile(profile)?.id;
                let answer = self.driver().remaining_capacity(&self.gpu, id);
                let Some(found) = judge("asking for capacity", answer, *refused)? else { return Ok(()) };
                Ok(equal(&format!("capacity for {profile}"), &found, count)?)
            }
            Step::Full => {
                for profile in &self.profiles {
                    let found = self.driver().remaining_capacity(&self.gpu, profile.id);
                    let what = format!("capacity for {:?}", profile.name);
                    equal(&what, &found.map_err(|e| e.to_string())?, &0)?;
                }
                Ok(())
            }
            Step::Instances(expected) => Ok(self.instances_are(expected)?),
            Step::Devices(expected) => {
                let found = self.driver().mig_devices(&self.gpu).map_err(|e| e.to_string())?;
                Ok(equal("MIG devices", &found.len(), expected)?)
            }
            Step::Renew { instance } => Ok(self.renew(instance)?),
            Step::Start { pid, instance } => {
                let on = instance.as_deref().map(|name| self.instance(name)).transpose()?.map(|i| i.id);
                let gpu = self.gpu.clone();
                self.bench.start(&gpu, *pid, on).map_err(Fault::Skip)
            }
            Step::End { pid } => {
                let gpu = self.gpu.clone();
                self.bench.end(&gpu, *pid).map_err(Fault::Skip)
            }
            Step::Reset { refused } => {
                let reset =
                    self.bench.reset().ok_or_else(|| Fault::Skip("nothing resets here".to_owned()))?;
                Ok(judge("resetting", reset.reset(&self.gpu), *refused).map(|_| ())?)
            }
            Step::Unprivileged => self.unprivileged(),
            _ => Err(Fault::Wrong("a step that nobody carries out".to_owned())),
        }
    }

    fn create(&mut self, step: &Step) -> Result<(), String> {
        let Step::Create { profile, start, lands, id, name, refused } = step else { return Ok(()) };
        let known = self.profile(profile)?.id;
        let size =
            self.driver().placements(&self.gpu, known).ok().and_then(|all| all.first().map(|p| p.size));
        let placement = start.map(|start| Placement { start, size: size.unwrap_or(1) });
        let answer = self.driver().create_gpu_instance(&self.gpu, known, placement);
        let Some(made) = judge(&format!("creating {profile}"), answer, *refused)? else { return Ok(()) };
        equal("profile of the new instance", &made.profile, &known)?;
        if let Some(start) = lands.or(*start) {
            equal(&format!("start of {profile}"), &made.placement.start, &start)?;
        }
        if let Some(id) = id {
            equal(&format!("id of {profile}"), &made.id, id)?;
        }
        if let Some(name) = name {
            self.named.insert(name.clone(), made);
        }
        Ok(())
    }

    fn create_compute(&mut self, step: &Step) -> Result<(), String> {
        let Step::CreateCompute { instance, slices, start, id, refused } = step else { return Ok(()) };
        let gi = self.instance(instance)?.id;
        let profiles = self.driver().compute_instance_profiles(&self.gpu, gi).map_err(|e| e.to_string())?;
        // A profile that the instance lacks has an id that no profile has.
        let known = profiles.iter().find(|p| p.slices == *slices).map_or(999, |p| p.id);
        let placement = start.map(|start| Placement { start, size: *slices });
        let answer = self.driver().create_compute_instance(&self.gpu, gi, known, placement);
        let what = format!("creating a compute instance of {slices} slices");
        let Some(made) = judge(&what, answer, *refused)? else { return Ok(()) };
        if let Some(start) = start {
            equal("start of the compute instance", &made.placement.start, start)?;
        }
        if let Some(id) = id {
            equal("id of the compute instance", &made.id, id)?;
        }
        Ok(())
    }

    fn profiles_are(&self, expected: &[(String, u32, u32, u32)]) -> Result<(), String> {
        let mut found = self
            .profiles
            .iter()
            .map(|p| (p.name.clone().unwrap_or_default(), p.id, p.profile_enum, p.max_instances));
        let mut found = found.by_ref().collect::<Vec<_>>();
        let mut expected = expected.to_vec();
        found.sort();
        expected.sort();
        equal("profiles", &found, &expected)
    }

    fn placements_are(&self, profile: &str, starts: &[u32], size: u32) -> Result<(), String> {
        let id = self.profile(profile)?.id;
        let mut found = self.driver().placements(&self.gpu, id).map_err(|e| e.to_string())?;
        found.sort();
        let expected = starts.iter().map(|start| Placement { start: *start, size }).collect::<Vec<_>>();
        equal(&format!("placements of {profile}"), &found, &expected)
    }

    fn instances_are(&self, expected: &[(String, u32)]) -> Result<(), String> {
        let there = self.driver().gpu_instances(&self.gpu).map_err(|e| e.to_string())?;
        let name = |id: u32| self.profiles.iter().find(|p| p.id == id).and_then(|p| p.name.clone());
        let mut found = there
            .iter()
            .map(|i| (name(i.profile).unwrap_or_default(), i.placement.start))
            .collect::<Vec<_>>();
        found.sort_by_key(|(_, start)| *start);
        equal("GPU instances", &found.as_slice(), &expected)
    }

    fn renew(&mut self, name: &str) -> Result<(), String> {
        let before = self.instance(name)?;
        let uuid = self.mig_uuid(before.id)?;
        let said = |e: tesela_model::driver::DriverError| e.to_string();
        let compute = self.driver().compute_instances(&self.gpu, before.id).map_err(said)?;
        for one in &compute {
            self.driver().destroy_compute_instance(&self.gpu, before.id, one.id).map_err(said)?;
        }
        self.driver().destroy_gpu_instance(&self.gpu, before.id).map_err(said)?;
        let again = self.driver().create_gpu_instance(&self.gpu, before.profile, Some(before.placement));
        let again = again.map_err(said)?;
        equal("id of the instance made again", &again.id, &before.id)?;
        for one in &compute {
            let made = self.driver().create_compute_instance(&self.gpu, again.id, one.profile, None);
            equal("id of the compute instance made again", &made.map_err(said)?.id, &one.id)?;
        }
        if self.mig_uuid(again.id)? == uuid {
            return Err("the MIG device made again has the UUID of the one before".to_owned());
        }
        Ok(())
    }

    fn mig_uuid(&self, gpu_instance: u32) -> Result<MigUuid, String> {
        let devices = self.driver().mig_devices(&self.gpu).map_err(|e| e.to_string())?;
        let found = devices.into_iter().find(|d| d.gpu_instance == gpu_instance);
        found.map(|d| d.uuid).ok_or_else(|| "the instance shows no MIG device".to_owned())
    }

    fn unprivileged(&self) -> Result<(), Fault> {
        let none = || Fault::Skip("everybody has all rights here".to_owned());
        let user = self.bench.unprivileged().ok_or_else(none)?;
        let gpu = &self.gpu;
        user.gpu_instance_profiles(gpu).map_err(|e| e.to_string())?;
        user.mig_mode(gpu).map_err(|e| e.to_string())?;
        user.mig_devices(gpu).map_err(|e| e.to_string())?;
        let id = self.profiles.first().map_or(0, |p| p.id);
        let no = Some(Code::NoPermission);
        judge("placements", user.placements(gpu, id), no)?;
        judge("capacity", user.remaining_capacity(gpu, id), no)?;
        judge("GPU instances", user.gpu_instances(gpu), no)?;
        judge("creating", user.create_gpu_instance(gpu, id, None), no)?;
        judge("destroying", user.destroy_gpu_instance(gpu, 0), no)?;
        judge("setting the mode", user.set_mig_mode(gpu, false), no)?;
        Ok(())
    }
}

fn equal<T: PartialEq + fmt::Debug>(what: &str, found: &T, expected: &T) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: expected {expected:?}, found {found:?}"))
}

/// The value of an answer that had to succeed and did; nothing for a refusal that had to be and was.
fn judge<T: fmt::Debug>(what: &str, answer: Answer<T>, refused: Option<Code>) -> Result<Option<T>, String> {
    match (answer, refused) {
        (Ok(value), None) => Ok(Some(value)),
        (Err(error), Some(code)) if error.code == code => Ok(None),
        (Ok(value), Some(code)) => Err(format!("{what}: expected {code}, found {value:?}")),
        (Err(error), Some(code)) => Err(format!("{what}: expected {code}, found {}", error.code)),
        (Err(error), None) => Err(format!("{what}: {error}")),
    }
}
