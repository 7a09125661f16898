//! One GPU from here to there, step by step.

use tesela_model::driver::{Activation, Answer, Code, DriverError, Process};
use tesela_model::product::Placement;

use super::patience::Patience;
use super::{Event, Options, Outcome, Ports, Stop, Writer};
use crate::goal::{Goal, GoalCompute};
use crate::journal::{End, Made, Open, Record, Subject};
use crate::observe::{Live, LiveCompute, LiveInstance, is_on, live};
use crate::plan::Holder;
use crate::steps::{Seat, Step, seat_name, steps};

/// How often a creation is tried on the way forward when resources are said to be missing: those of what was just
/// destroyed may come back a moment later, those that somebody else took do not.
const TRIES_TO_CREATE: u32 = 5;

/// Works on one GPU.
pub(crate) struct Carrier<'c, 'p> {
    number: usize,
    subject: &'c Subject,
    writer: &'c mut Writer,
    ports: &'c mut Ports<'p>,
    options: &'c Options,
    patience: Patience,
    /// Whether the journal says that work on it began.
    begun: bool,
    undoing: bool,
    /// GPU instances that this change made.
    made: Vec<Made>,
    /// A step that may or may not have been taken.
    intent: Option<Step>,
    paused: Vec<String>,
}

type Done = Result<(), Stop>;

impl<'c, 'p> Carrier<'c, 'p> {
    pub(crate) fn new(
        number: usize,
        subject: &'c Subject,
        writer: &'c mut Writer,
        ports: &'c mut Ports<'p>,
        options: &'c Options,
    ) -> Self {
        let patience = Patience::new(options.in_use, options);
        let (made, paused) = (Vec::new(), Vec::new());
        let (begun, undoing, intent) = (false, false, None);
        Self { number, subject, writer, ports, options, patience, begun, undoing, made, intent, paused }
    }

    /// The same after a crash, with what the journal knows.
    pub(crate) fn again(mut self, open: &Open<'_>) -> Self {
        self.begun = true;
        self.undoing = open.undo.is_some();
        self.made.clone_from(&open.made);
        self.intent = open.intent.cloned();
        self
    }

    /// Checks that the GPU is as the plan saw it and that nobody is on what goes. Nothing is done to it before.
    pub(crate) fn begin(&mut self) -> Done {
        let now = self.look()?;
        if Goal::of(&now) != self.subject.original {
            return Err(Stop::Changed);
        }
        self.nobody_there(&now)?;
        self.write(&Record::Begin { gpu: self.number })?;
        self.begun = true;
        Ok(())
    }

    /// Goes to the target.
    pub(crate) fn forward(&mut self) -> Done {
        let subject = self.subject;
        self.go(&subject.target)
    }

    /// What is left to do when the way forward ended: back, unless there is nothing to take back or no way.
    pub(crate) fn stopped(&mut self, stop: Stop) -> Outcome {
        match &stop {
            Stop::Lost(_) if self.begun => return self.end(End::Lost, Outcome::Lost(stop)),
            Stop::Lost(_) => return Outcome::Lost(stop),
            _ if !self.begun => return Outcome::Untouched(stop),
            Stop::NeedsReboot { .. } => return self.end(End::NeedsReboot, Outcome::NeedsReboot(stop)),
            // Without a journal nothing may be done, so it cannot go back either.
            Stop::Journal(_) => return Outcome::Between { undo: stop.clone(), stop },
            _ => {}
        }
        (self.ports.progress)(&Event::Undo { gpu: &self.subject.uuid, why: &stop });
        let noted = self.write(&Record::Undo { gpu: self.number, why: stop.to_string() });
        self.returned(stop, noted)
    }

    /// Goes back and says how that ended.
    pub(crate) fn returned(&mut self, stop: Stop, noted: Done) -> Outcome {
        match noted.and_then(|()| self.back()) {
            Ok(()) => self.end(End::RolledBack, Outcome::RolledBack(stop)),
            Err(undo @ Stop::Lost(_)) => self.end(End::Lost, Outcome::Lost(undo)),
            Err(undo) => {
                self.resume();
                Outcome::Between { stop, undo }
            }
        }
    }

    fn back(&mut self) -> Done {
        self.undoing = true;
        self.patience = Patience::new(self.options.in_use, self.options);
        let subject = self.subject;
        self.go(&subject.original)
    }

    /// Notes the end.
    pub(crate) fn end(&mut self, end: End, outcome: Outcome) -> Outcome {
        self.resume();
        // The state is reached; where that cannot be noted, the next run finds it so.
        let _ = self.write(&Record::Ended { gpu: self.number, end }).and_then(|()| self.sync());
        outcome
    }

    fn go(&mut self, goal: &Goal) -> Done {
        let mut now = self.look()?;
        self.nobody_else(&now)?;
        for step in steps(&now, goal) {
            self.patience.anew();
            self.take(&mut now, &step)?;
        }
        self.verify(goal)
    }

    /// Takes one step: noted before, noted after.
    fn take(&mut self, now: &mut Live, step: &Step) -> Done {
        self.write(&Record::Intent { gpu: self.number, step: step.clone() })?;
        self.sync()?;
        let what = step.told(&self.subject.names);
        (self.ports.progress)(&Event::Step { gpu: &self.subject.uuid, what });
        let made = match step {
            Step::DestroyCompute { seat, compute } => self.destroy_compute(now, step, *seat, *compute)?,
            Step::DestroyInstance { seat } => self.destroy_instance(now, step, *seat)?,
            Step::SetMode { on } => return self.set_mode(now, step, *on),
            Step::Reset => self.reset(step)?,
            Step::CreateInstance { seat } => return self.create_instance(now, step, *seat),
            Step::CreateCompute { seat, compute } => self.create_compute(now, step, *seat, *compute)?,
        };
        self.taken(made)
    }

    fn taken(&mut self, made: Option<Made>) -> Done {
        self.made.extend(made);
        self.intent = None;
        self.write(&Record::Taken { gpu: self.number, made })
    }

    fn destroy_compute(
        &mut self,
        now: &mut Live,
        step: &Step,
        seat: Seat,
        at: Placement,
    ) -> Result<Option<Made>, Stop> {
        let Some(instance) = now.instances.iter_mut().find(|i| i.seat() == seat) else { return Ok(None) };
        let Some(index) = instance.compute.iter().position(|c| c.placement == at) else { return Ok(None) };
        let (id, compute) = (instance.id, instance.compute[index].id);
        self.call(step, Some((id, Some(compute))), |c| {
            gone(c.ports.driver.destroy_compute_instance(&c.subject.uuid, id, compute))
        })?;
        instance.compute.remove(index);
        Ok(None)
    }

    fn destroy_instance(&mut self, now: &mut Live, step: &Step, seat: Seat) -> Result<Option<Made>, Stop> {
        let Some(index) = now.instances.iter().position(|i| i.seat() == seat) else { return Ok(None) };
        let id = now.instances[index].id;
        self.call(step, Some((id, None)), |c| {
            gone(c.ports.driver.destroy_gpu_instance(&c.subject.uuid, id))
        })?;
        now.instances.remove(index);
        Ok(None)
    }

    fn create_instance(&mut self, now: &mut Live, step: &Step, seat: Seat) -> Done {
        let found = self.call(step, None, |c| {
            c.ports.driver.create_gpu_instance(&c.subject.uuid, seat.profile, Some(seat.placement))
        })?;
        let there = Seat { profile: found.profile, placement: found.placement };
        self.taken(Some(Made { id: found.id, seat: there }))?;
        if there != seat {
            let what = format!("made {}", seat_name(&self.subject.names, there));
            return Err(Stop::Unlike { what });
        }
        let (id, compute) = (found.id, Vec::new());
        now.instances.push(LiveInstance { id, profile: seat.profile, placement: seat.placement, compute });
        Ok(())
    }

    fn create_compute(
        &mut self,
        now: &mut Live,
        step: &Step,
        seat: Seat,
        wanted: GoalCompute,
    ) -> Result<Option<Made>, Stop> {
        let unlike = |what: &str| Stop::Unlike { what: what.to_owned() };
        let Some(instance) = now.instances.iter_mut().find(|i| i.seat() == seat) else {
            return Err(unlike("the GPU instance is not there"));
        };
        let id = instance.id;
        let offered =
            self.call(step, None, |c| c.ports.driver.compute_instance_profiles(&c.subject.uuid, id))?;
        let fits = offered.iter().filter(|p| p.slices == wanted.slices);
        // Of two profiles of one size the plain one has the lower enum value.
        let chosen = fits.min_by_key(|p| (Some(p.id) != wanted.profile, p.profile_enum));
        let profile = chosen.ok_or_else(|| unlike("it offers no compute instance of that size"))?.id;
        let alone = offered.iter().all(|p| p.slices <= wanted.slices);
        // One that fills its GPU instance has one place only, and older drivers do not take it.
        let place = wanted.start.filter(|_| !alone).map(|start| Placement { start, size: wanted.slices });
        let made = self.call(step, None, |c| {
            c.ports.driver.create_compute_instance(&c.subject.uuid, id, profile, place)
        })?;
        let (id, placement) = (made.id, made.placement);
        instance.compute.push(LiveCompute { id, profile: made.profile, placement, mig: None });
        Ok(None)
    }

    fn set_mode(&mut self, now: &mut Live, step: &Step, on: bool) -> Done {
        let asked = self.call(step, None, |c| {
            match c.ports.driver.set_mig_mode(&c.subject.uuid, on)? {
                // It waits for the GPU to be idle, and is asked again.
                Activation::Pending(Code::InUse) => {
                    Err(DriverError::new("nvmlDeviceSetMigMode", Code::InUse).on(&c.subject.uuid))
                }
                other => Ok(other),
            }
        });
        let waits = match asked {
            Ok(activation) => activation != Activation::Done,
            Err(Stop::InUse { .. }) if self.subject.needs_reset => true,
            Err(stop) => return Err(stop),
        };
        self.taken(None)?;
        if waits {
            if self.ports.reset.is_none() {
                return Err(Stop::NeedsReboot { on });
            }
            self.patience.anew();
            self.take(now, &Step::Reset)?;
        }
        *now = self.look()?;
        if now.mode.current != on {
            return Err(Stop::Unlike { what: format!("MIG is {}", if on { "off" } else { "on" }) });
        }
        Ok(())
    }

    fn reset(&mut self, step: &Step) -> Result<Option<Made>, Stop> {
        self.call(step, None, |c| match c.ports.reset {
            Some(reset) => reset.reset(&c.subject.uuid),
            None => Ok(()),
        })?;
        Ok(None)
    }

    /// Calls the driver, again and again while somebody uses what it is about.
    fn call<T>(
        &mut self,
        step: &Step,
        on: Option<(u32, Option<u32>)>,
        what: impl Fn(&Self) -> Answer<T>,
    ) -> Result<T, Stop> {
        let creates = matches!(step, Step::CreateInstance { .. } | Step::CreateCompute { .. });
        let mut tries = 0;
        loop {
            let error = match what(self) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            tries += 1;
            let again = match error.code {
                Code::InUse => true,
                Code::GpuIsLost | Code::GpuNotFound | Code::NoPermission => false,
                // On the way back any other refusal is hoped to pass: giving up would leave the GPU between.
                _ if self.undoing => true,
                Code::InsufficientResources => creates && tries < TRIES_TO_CREATE,
                _ => false,
            };
            if !again {
                return Err(self.refused(step.told(&self.subject.names), error));
            }
            if !self.wait(step, on)? {
                if error.code != Code::InUse {
                    return Err(self.refused(step.told(&self.subject.names), error));
                }
                let (waited, holders) = (self.patience.waited(), self.holders(on));
                return Err(Stop::InUse { step: step.told(&self.subject.names), waited, holders });
            }
        }
    }

    fn refused(&self, step: String, error: DriverError) -> Stop {
        match error.code {
            Code::GpuIsLost | Code::GpuNotFound => Stop::Lost(error),
            _ => Stop::Refused { step, error },
        }
    }

    /// Waits a little for somebody to let go; after a while it pauses clients that may be the reason.
    fn wait(&mut self, step: &Step, on: Option<(u32, Option<u32>)>) -> Result<bool, Stop> {
        let what = step.told(&self.subject.names);
        let holders = self.holders(on);
        let visible = !holders.is_empty();
        (self.ports.progress)(&Event::Waiting { gpu: &self.subject.uuid, what, holders });
        if !visible
            && self.patience.is_long()
            && let Some(client) = self.ports.ladder.next(&self.subject.uuid, &self.paused)
        {
            self.write(&Record::Paused { client: client.clone() })?;
            self.sync()?;
            self.ports.ladder.pause(&client);
            (self.ports.progress)(&Event::Paused { client: &client });
            self.paused.push(client);
        }
        Ok(self.patience.wait(self.ports.clock))
    }

    /// Lets every paused client go on.
    fn resume(&mut self) {
        while let Some(client) = self.paused.pop() {
            self.ports.ladder.resume(&client);
            // Where it cannot be noted, the next run lets it go on once more.
            let _ = self.write(&Record::Resumed { client });
        }
    }

    /// Who is on an instance, or on the GPU, as far as the driver tells.
    fn holders(&self, on: Option<(u32, Option<u32>)>) -> Vec<Holder> {
        let found = self.ports.driver.processes(&self.subject.uuid).unwrap_or_default();
        let there = |p: &&Process| on.is_none_or(|(instance, compute)| is_on(p, instance, compute));
        Holder::of(&found.iter().filter(there).cloned().collect::<Vec<_>>())
    }

    /// Waits until nobody is on what goes.
    fn nobody_there(&mut self, now: &Live) -> Done {
        let mut patience = Patience::new(self.options.wait_for_processes, self.options);
        let goal = &self.subject.target;
        let steps = steps(now, goal);
        let whole = now.mode.current != goal.mig;
        let goes = |step: &Step| match step {
            Step::DestroyCompute { seat, compute } => {
                let instance = now.instances.iter().find(|i| i.seat() == *seat)?;
                let compute = instance.compute.iter().find(|c| c.placement == *compute)?;
                Some((instance.id, Some(compute.id)))
            }
            Step::DestroyInstance { seat } => {
                now.instances.iter().find(|i| i.seat() == *seat).map(|i| (i.id, None))
            }
            _ => None,
        };
        loop {
            let all = self.ports.driver.processes(&self.subject.uuid);
            let all = all.map_err(|error| self.refused("read its processes".to_owned(), error))?;
            let on = |step: &&Step| goes(step).is_some_and(|(i, c)| all.iter().any(|p| is_on(p, i, c)));
            let first = if whole && !all.is_empty() { steps.first() } else { steps.iter().find(on) };
            let Some(step) = first else { return Ok(()) };
            let there = |p: &&Process| whole || goes(step).is_some_and(|(i, c)| is_on(p, i, c));
            let holders = Holder::of(&all.iter().filter(there).cloned().collect::<Vec<_>>());
            let what = step.told(&self.subject.names);
            let (gpu, what_now) = (&self.subject.uuid, what.clone());
            (self.ports.progress)(&Event::Waiting { gpu, what: what_now, holders: holders.clone() });
            if !patience.wait(self.ports.clock) {
                return Err(Stop::InUse { step: what, waited: patience.waited(), holders });
            }
        }
    }

    /// Refuses to work on a GPU on which somebody else works too.
    fn nobody_else(&self, now: &Live) -> Done {
        let subject = self.subject;
        let (intent, made) = (self.intent.as_ref(), self.made.clone());
        let open = Open { gpu: self.number, subject, undo: None, intent, made };
        match now.instances.iter().find(|i| !open.explains(i)) {
            None => Ok(()),
            Some(other) => Err(Stop::Foreign { instance: seat_name(&subject.names, other.seat()) }),
        }
    }

    fn look(&self) -> Result<Live, Stop> {
        live(self.ports.driver, &self.subject.uuid)
            .map_err(|error| self.refused("read the GPU".to_owned(), error))
    }

    fn verify(&self, goal: &Goal) -> Done {
        match steps(&self.look()?, goal).first() {
            None => Ok(()),
            Some(step) => {
                let what = format!("it would still have to {}", step.told(&self.subject.names));
                Err(Stop::Unlike { what })
            }
        }
    }

    fn write(&mut self, record: &Record) -> Done {
        if let Record::Intent { step, .. } = record {
            self.intent = Some(step.clone());
        }
        self.writer.write(self.ports.disk, record).map_err(Stop::Journal)
    }

    fn sync(&mut self) -> Done {
        self.writer.sync(self.ports.disk).map_err(Stop::Journal)
    }
}

/// That it is not there any more is what was wanted.
fn gone(answer: Answer<()>) -> Answer<()> {
    match answer {
        Err(error) if error.code == Code::NotFound => Ok(()),
        other => other,
    }
}
