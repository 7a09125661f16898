//! After a crash: every GPU whose change had begun is finished, or brought back to what it was.
//!
//! The journal tells what was there and what is to be there, and the driver what is there now; the steps between are
//! computed anew, so it does not matter where the crash was, or whether the machine was started again since.

use tesela_model::driver::GpuUuid;

use crate::apply::{ApplyError, Carrier, Options, Outcome, Ports, Stop, Writer, close};
use crate::journal::{End, Journal, Record, read};

/// What became of the GPUs of an earlier change that had not ended.
pub type Recovered = Vec<(GpuUuid, Outcome)>;

/// Ends an earlier change, if there is one that had not ended. GPUs on which nothing had been done are left alone.
///
/// # Errors
/// When the journal cannot be used, or is of another node.
pub fn recover(ports: &mut Ports<'_>, options: &Options) -> Result<Recovered, ApplyError> {
    let Some(bytes) = ports.disk.read()? else { return Ok(Vec::new()) };
    let journal = read(&bytes)?;
    if !journal.is_open() {
        return Ok(Vec::new());
    }
    let open = journal.open();
    on_this_node(ports, &journal)?;
    if journal.cut {
        ports.disk.cut(journal.length as u64)?;
    }
    let mut writer = Writer::at(journal.records.len());
    for client in journal.paused() {
        ports.ladder.resume(client);
        let resumed = Record::Resumed { client: client.to_owned() };
        writer.write(ports.disk, &resumed).map_err(std::io::Error::other)?;
    }
    let mut found = Vec::new();
    for one in &open {
        let mut carrier = Carrier::new(one.gpu, one.subject, &mut writer, ports, options).again(one);
        let outcome = match one.undo {
            Some(why) => carrier.returned(Stop::Earlier(why.to_owned()), Ok(())),
            None => match carrier.forward() {
                Ok(()) => carrier.end(End::Done, Outcome::Done),
                Err(stop) => carrier.stopped(stop),
            },
        };
        found.push((one.subject.uuid.clone(), outcome));
    }
    let outcomes = found.iter().map(|(_, outcome)| outcome.clone()).collect::<Vec<_>>();
    close(&mut writer, ports, &outcomes);
    Ok(found)
}

/// A journal of which no GPU is here was brought here from somewhere else.
fn on_this_node(ports: &Ports<'_>, journal: &Journal) -> Result<(), ApplyError> {
    let here = ports.driver.gpus()?;
    let is_here = |uuid: &GpuUuid| {
        here.iter().any(|gpu| match gpu {
            Ok(identity) => identity.uuid == *uuid,
            Err(error) => error.gpu.as_ref().is_none_or(|gpu| gpu == uuid),
        })
    };
    match journal.subjects() {
        [first, ..] if !journal.subjects().iter().any(|s| is_here(&s.uuid)) => {
            Err(ApplyError::OtherNode(first.uuid.clone()))
        }
        _ => Ok(()),
    }
}
