//! Carries plans out: one GPU after the other, each step in the journal before it is taken, and back again when it
//! cannot be finished. No process is ever ended.

mod carry;
mod patience;
mod writer;

use std::time::Duration;

use tesela_model::driver::{DriverError, GpuDriver, GpuReset, GpuUuid};

pub(crate) use self::carry::Carrier;
pub(crate) use self::writer::Writer;
use crate::disk::Disk;
use crate::journal::{End, Journal, JournalError, Record, Subject, VERSION, first, read};
use crate::plan::{Change, GpuPlan, Holder};

/// Time, from outside.
pub trait Clock {
    /// Time since some fixed moment.
    fn now(&self) -> Duration;

    /// Waits.
    fn sleep(&self, time: Duration);
}

/// Clients of the GPUs that can be paused when the driver says "in use" although no process is there: monitors such as
/// the DCGM exporter first, then others (mig.md 7.1).
pub trait Ladder {
    /// The next client to pause, beside those that are; `None` when there is none left.
    fn next(&self, gpu: &GpuUuid, paused: &[String]) -> Option<String>;

    /// Pauses a client. The journal names it already.
    fn pause(&mut self, client: &str);

    /// Lets a client go on. After a crash it is called for those that the journal names.
    fn resume(&mut self, client: &str);
}

/// No client can be paused.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoLadder;

impl Ladder for NoLadder {
    fn next(&self, _: &GpuUuid, _: &[String]) -> Option<String> {
        None
    }

    fn pause(&mut self, _: &str) {}

    fn resume(&mut self, _: &str) {}
}

/// What the executor works with.
pub struct Ports<'a> {
    /// The GPUs.
    pub driver: &'a dyn GpuDriver,
    /// Resets GPUs, where that is allowed.
    pub reset: Option<&'a dyn GpuReset>,
    /// The journal.
    pub disk: &'a mut dyn Disk,
    /// Time.
    pub clock: &'a dyn Clock,
    /// Clients that can be paused.
    pub ladder: &'a mut dyn Ladder,
    /// Is told what happens.
    pub progress: &'a mut dyn FnMut(&Event<'_>),
}

/// How long is waited for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// For processes to end on instances that go, before anything is done; zero does not wait.
    pub wait_for_processes: Duration,
    /// For the driver to stop saying "in use", in all on one GPU, and as long again for the way back.
    pub in_use: Duration,
    /// The first pause between two tries; each next one is twice as long.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            wait_for_processes: Duration::ZERO,
            in_use: Duration::from_secs(30),
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(2),
        }
    }
}

/// What happens.
#[derive(Debug)]
pub enum Event<'a> {
    /// A step is taken.
    Step {
        /// The GPU.
        gpu: &'a GpuUuid,
        /// In words.
        what: String,
    },
    /// It waits for somebody.
    Waiting {
        /// The GPU.
        gpu: &'a GpuUuid,
        /// For which step.
        what: String,
        /// For whom, as far as can be seen.
        holders: Vec<Holder>,
    },
    /// A client was paused.
    Paused {
        /// Which.
        client: &'a str,
    },
    /// The change is given up and goes back.
    Undo {
        /// The GPU.
        gpu: &'a GpuUuid,
        /// Why.
        why: &'a Stop,
    },
}

/// Why a change did not go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// The GPU fell off the bus.
    #[error("the GPU was lost ({0})")]
    Lost(DriverError),
    /// The driver refused a step.
    #[error("cannot {step}: {error}")]
    Refused {
        /// The step in words.
        step: String,
        /// What the driver said.
        error: DriverError,
    },
    /// Somebody stayed too long.
    #[error("cannot {step}: still in use after {} s, by {}", .waited.as_secs_f32(), whom(.holders))]
    InUse {
        /// The step in words.
        step: String,
        /// How long was waited.
        waited: Duration,
        /// Who is there, as far as can be seen.
        holders: Vec<Holder>,
    },
    /// The mode waits.
    #[error("MIG {} takes effect at the next reboot, or at once with a reset of the GPU", if *.on { "on" } else { "off" })]
    NeedsReboot {
        /// Which mode.
        on: bool,
    },
    /// The GPU is no longer as it was when the plan was made.
    #[error("the GPU has changed since the plan was made; plan again")]
    Changed,
    /// Something is there that this change did not make.
    #[error(
        "{instance} is there, and neither the layout from before nor the new one has it: somebody else changed the GPU \
         meanwhile. Remove it, or move the journal away to take the GPU as it is"
    )]
    Foreign {
        /// The instance.
        instance: String,
    },
    /// The driver did something else than it said.
    #[error("the driver says that it is done, but {what}")]
    Unlike {
        /// What is not as it should be.
        what: String,
    },
    /// An earlier run gave the change up, and was ended before it had gone back.
    #[error("given up by an earlier run: {0}")]
    Earlier(String),
    /// The journal cannot be written; without it nothing is done.
    #[error(
        "the journal cannot be written ({0}); nothing more was done. Make room and run the same command again"
    )]
    Journal(String),
}

fn whom(holders: &[Holder]) -> String {
    if holders.is_empty() {
        return "a client of the driver that its list of processes does not show: a monitor such as DCGM, or another \
                manager"
            .to_owned();
    }
    crate::plan::told(holders)
}

/// What became of one GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was as wanted.
    Unchanged,
    /// It is as wanted now.
    Done,
    /// It is as before.
    RolledBack(Stop),
    /// Nothing was done to it: the plan is blocked.
    Blocked,
    /// Nothing was done to it: something came between.
    Untouched(Stop),
    /// The mode waits for a reboot; nothing else was done.
    NeedsReboot(Stop),
    /// The GPU was lost.
    Lost(Stop),
    /// It is neither as wanted nor as before, and the journal says so: the next run goes on.
    Between {
        /// What kept it from going on.
        stop: Stop,
        /// What kept it from going back.
        undo: Stop,
    },
}

/// Why nothing was begun.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The journal cannot be read or begun.
    #[error("the journal cannot be used: {0}")]
    Disk(#[from] std::io::Error),
    /// The journal is not one, or damaged.
    #[error("the journal cannot be used: {0}")]
    Journal(#[from] JournalError),
    /// A change before this one has not ended.
    #[error("an earlier change has not ended")]
    Unfinished,
    /// None of the GPUs of the journal is on this node.
    #[error("the journal is of another node: {0} and the other GPUs in it are not here")]
    OtherNode(GpuUuid),
    /// The driver cannot be asked.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

/// Carries plans out, in their order. A GPU that cannot be finished goes back to what it was; the others go on.
///
/// # Errors
/// When nothing was begun: an earlier change has not ended, or the journal cannot be used.
pub fn apply(
    plans: &[GpuPlan],
    ports: &mut Ports<'_>,
    options: &Options,
) -> Result<Vec<Outcome>, ApplyError> {
    if let Some(bytes) = ports.disk.read()?
        && read(&bytes)?.is_open()
    {
        return Err(ApplyError::Unfinished);
    }
    let work = plans.iter().map(|plan| subject(plan, options)).collect::<Vec<_>>();
    let gpus = work.iter().filter_map(|w| w.as_ref().ok()).cloned().collect::<Vec<_>>();
    if gpus.is_empty() {
        return Ok(work.into_iter().map(|w| w.err().unwrap_or(Outcome::Unchanged)).collect());
    }
    let change = Record::Change { version: VERSION, gpus };
    ports.disk.replace(&first(&change)?)?;
    let mut writer = Writer::at(1);
    let mut outcomes = Vec::new();
    let mut number = 0;
    for one in work {
        outcomes.push(match one {
            Err(outcome) => outcome,
            Ok(subject) => {
                let outcome = change_one(number, &subject, &mut writer, ports, options);
                number += 1;
                outcome
            }
        });
    }
    close(&mut writer, ports, &outcomes);
    Ok(outcomes)
}

/// What a plan gives the executor to do; else what became of its GPU.
fn subject(plan: &GpuPlan, options: &Options) -> Result<Subject, Outcome> {
    let waits = !options.wait_for_processes.is_zero();
    match &plan.blocked {
        Some(blocked) if !(blocked.may_pass() && waits) => return Err(Outcome::Blocked),
        _ => {}
    }
    match (&plan.original, &plan.goal) {
        (Some(original), Some(target)) if plan.change != Change::None => Ok(Subject {
            uuid: plan.identity.uuid.clone(),
            original: original.clone(),
            target: target.clone(),
            needs_reset: plan.needs_reset,
            names: plan.names.clone(),
        }),
        _ => Err(Outcome::Unchanged),
    }
}

fn change_one(
    number: usize,
    subject: &Subject,
    writer: &mut Writer,
    ports: &mut Ports<'_>,
    options: &Options,
) -> Outcome {
    let mut carrier = Carrier::new(number, subject, writer, ports, options);
    match carrier.begin().and_then(|()| carrier.forward()) {
        Ok(()) => carrier.end(End::Done, Outcome::Done),
        Err(stop) => carrier.stopped(stop),
    }
}

/// Ends the journal when every GPU has ended. Where that cannot be written the next run finds nothing left to do.
pub(crate) fn close(writer: &mut Writer, ports: &mut Ports<'_>, outcomes: &[Outcome]) {
    let open = |o: &Outcome| matches!(o, Outcome::Between { .. } | Outcome::Untouched(Stop::Journal(_)));
    if !outcomes.iter().any(open) && writer.write(ports.disk, &Record::Closed).is_ok() {
        let _ = writer.sync(ports.disk);
    }
}

/// Reads the journal, so that somebody can be told what stands in it.
///
/// # Errors
/// When it cannot be read, or is not one.
pub fn journal(disk: &mut dyn Disk) -> Result<Option<Journal>, ApplyError> {
    Ok(match disk.read()? {
        Some(bytes) => Some(read(&bytes)?),
        None => None,
    })
}
