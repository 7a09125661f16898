//! The journal: what was there, what is to be there, and each step before it is taken.
//!
//! A file of records, only ever appended to. It begins with [`MAGIC`]; a record is a head of 16 bytes (length of the
//! body, its number from 0, CRC-32 of the body, CRC-32 of those twelve bytes; little endian) and a body of JSON. A
//! record is on the disk before the driver is called for it.
//!
//! What is read back is exact or refused. A record that a crash cut short at the end of the file is left out: nothing
//! had been done for it. Anything else that does not fit, a changed byte or another program's file, is an error that
//! says how to go on.

use serde::{Deserialize, Serialize};
use tesela_model::driver::GpuUuid;

use crate::goal::Goal;
use crate::observe::LiveInstance;
use crate::steps::{Names, Seat, Step};

/// First bytes of every journal.
pub const MAGIC: &[u8; 8] = b"TESELAMJ";
/// Version of the records.
pub const VERSION: u32 = 1;
/// Bytes of a record's head.
const HEAD: usize = 16;
/// No body is longer: the first record of a node with 16 GPUs of 56 instances each stays below.
const MOST_BODY: usize = 4 << 20;

/// A GPU of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Subject {
    /// Which.
    pub uuid: GpuUuid,
    /// What was there.
    pub original: Goal,
    /// What is to be there.
    pub target: Goal,
    /// Whether a change of its mode needs a reset.
    pub needs_reset: bool,
    /// Names of its profiles, for messages.
    pub names: Names,
}

/// How a GPU of a change ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum End {
    /// As wanted.
    Done,
    /// As before.
    RolledBack,
    /// Nothing was done to it.
    Untouched,
    /// The mode waits for a reboot.
    NeedsReboot,
    /// The GPU was lost; nothing can be said of it.
    Lost,
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Record {
    /// The first: the whole change.
    Change {
        /// [`VERSION`].
        version: u32,
        /// The GPUs, in the order of the work. Others refer to them by index.
        gpus: Vec<Subject>,
    },
    /// Work on a GPU begins.
    Begin {
        /// Which.
        gpu: usize,
    },
    /// A step is about to be taken.
    Intent {
        /// On which GPU.
        gpu: usize,
        /// Which step.
        step: Step,
    },
    /// The step of the last intent was taken.
    Taken {
        /// On which GPU.
        gpu: usize,
        /// For a GPU instance that was made: where the driver put it.
        made: Option<Made>,
    },
    /// The change of a GPU is given up; from now on it goes back.
    Undo {
        /// Which.
        gpu: usize,
        /// Why.
        why: String,
    },
    /// A client of the GPUs was paused.
    Paused {
        /// Which, in the words of whoever pauses.
        client: String,
    },
    /// It goes on.
    Resumed {
        /// Which.
        client: String,
    },
    /// Work on a GPU has ended.
    Ended {
        /// Which.
        gpu: usize,
        /// How.
        end: End,
    },
    /// Everything has ended.
    Closed,
}

/// A GPU instance that this change made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Made {
    /// The driver's number.
    pub id: u32,
    /// Profile and place.
    pub seat: Seat,
}

/// Why a journal cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// Another program's file.
    #[error("it is not a journal of Tesela: it does not begin with {}", String::from_utf8_lossy(MAGIC))]
    Foreign,
    /// Written by a version that this one does not read.
    #[error("it was written by another version of Tesela (format {found}, this one reads {VERSION})")]
    Version {
        /// Its format.
        found: u32,
    },
    /// Bytes that were changed.
    #[error("record {record} at byte {offset} is damaged: {what}")]
    Damaged {
        /// Number of the record, from 0.
        record: usize,
        /// Where it begins.
        offset: usize,
        /// What does not fit.
        what: String,
    },
}

/// A journal as read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Journal {
    /// The records, in order.
    pub records: Vec<Record>,
    /// Bytes that hold them, [`MAGIC`] included. A cut record may stand behind.
    pub length: usize,
    /// Whether one does.
    pub cut: bool,
}

/// The bytes of a new journal with its first record.
///
/// # Errors
/// When the change is larger than a record may be.
pub fn first(record: &Record) -> Result<Vec<u8>, JournalError> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(encode(0, record)?);
    Ok(bytes)
}

/// The bytes of one record.
///
/// # Errors
/// When it is larger than a record may be.
pub fn encode(number: usize, record: &Record) -> Result<Vec<u8>, JournalError> {
    let damaged = |what: String| JournalError::Damaged { record: number, offset: 0, what };
    let body = serde_json::to_vec(record).map_err(|error| damaged(error.to_string()))?;
    let length = u32::try_from(body.len()).ok().filter(|_| body.len() <= MOST_BODY);
    let (Some(length), Ok(count)) = (length, u32::try_from(number)) else {
        return Err(damaged("it is longer than a record may be".to_owned()));
    };
    let mut bytes = Vec::with_capacity(HEAD + body.len());
    for word in [length, count, crc32fast::hash(&body)] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes.extend(body);
    Ok(bytes)
}

/// Reads a journal.
///
/// # Errors
/// When it is foreign, of another version, or damaged anywhere but in a record cut short at its end.
pub fn read(bytes: &[u8]) -> Result<Journal, JournalError> {
    let Some(mut rest) = bytes.strip_prefix(MAGIC.as_slice()) else {
        // Cut while it was made: nothing had been done.
        let begun = MAGIC.starts_with(bytes);
        return if begun {
            Ok(Journal { cut: !bytes.is_empty(), ..Journal::default() })
        } else {
            Err(JournalError::Foreign)
        };
    };
    let mut journal = Journal { records: Vec::new(), length: MAGIC.len(), cut: false };
    while !rest.is_empty() {
        let number = journal.records.len();
        let damaged = |what: &str| JournalError::Damaged {
            record: number,
            offset: journal.length,
            what: what.to_owned(),
        };
        match next(rest, number) {
            Next::Record(body, behind) => {
                let record = parse(body, number, journal.length)?;
                check(&journal.records, &record).map_err(damaged)?;
                journal.length += HEAD + body.len();
                journal.records.push(record);
                rest = behind;
            }
            Next::Cut => {
                journal.cut = true;
                break;
            }
            Next::Damaged(what) => return Err(damaged(what)),
        }
    }
    Ok(journal)
}

enum Next<'a> {
    /// Its body, and what stands behind it.
    Record(&'a [u8], &'a [u8]),
    Cut,
    Damaged(&'static str),
}

fn next(bytes: &[u8], number: usize) -> Next<'_> {
    let Some((head, rest)) = bytes.split_at_checked(HEAD) else { return Next::Cut };
    let word = |at: usize| {
        let mut four = [0; 4];
        four.copy_from_slice(&head[at..at + 4]);
        u32::from_le_bytes(four)
    };
    if crc32fast::hash(&head[..12]) != word(12) {
        // A file system may have made the file longer and not yet written what belongs there.
        let unwritten = rest.iter().all(|b| *b == 0);
        return if unwritten { Next::Cut } else { Next::Damaged("its head does not match its checksum") };
    }
    if usize::try_from(word(4)).ok() != Some(number) {
        return Next::Damaged("records before it are missing");
    }
    let length = usize::try_from(word(0)).unwrap_or(usize::MAX);
    if length > MOST_BODY {
        return Next::Damaged("it is longer than a record may be");
    }
    let Some((body, behind)) = rest.split_at_checked(length) else { return Next::Cut };
    if crc32fast::hash(body) == word(8) {
        return Next::Record(body, behind);
    }
    // Only the last one can be half written.
    if behind.iter().all(|b| *b == 0) {
        Next::Cut
    } else {
        Next::Damaged("its body does not match its checksum")
    }
}

fn parse(body: &[u8], record: usize, offset: usize) -> Result<Record, JournalError> {
    #[derive(Deserialize)]
    struct First {
        change: Version,
    }
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    if record == 0
        && let Ok(First { change: Version { version } }) = serde_json::from_slice(body)
        && version != VERSION
    {
        return Err(JournalError::Version { found: version });
    }
    serde_json::from_slice(body).map_err(|error| JournalError::Damaged {
        record,
        offset,
        what: error.to_string(),
    })
}

/// Whether a record may follow these.
fn check(before: &[Record], record: &Record) -> Result<(), &'static str> {
    let gpus = match before.first() {
        None if matches!(record, Record::Change { .. }) => return Ok(()),
        None => return Err("the first record is not that of a change"),
        Some(Record::Change { gpus, .. }) => gpus.len(),
        // The first is always a change, by the line above.
        Some(_) => 0,
    };
    if before.last() == Some(&Record::Closed) {
        return Err("it stands behind the last record");
    }
    match record {
        Record::Change { .. } => Err("it begins a second change"),
        Record::Begin { gpu }
        | Record::Intent { gpu, .. }
        | Record::Taken { gpu, .. }
        | Record::Undo { gpu, .. }
        | Record::Ended { gpu, .. }
            if *gpu >= gpus =>
        {
            Err("it speaks of a GPU that the change does not have")
        }
        _ => Ok(()),
    }
}

/// A GPU on which work was begun and has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open<'a> {
    /// Its index in the change.
    pub gpu: usize,
    /// Who it is, and where it was to go.
    pub subject: &'a Subject,
    /// Why it was on its way back, if it was.
    pub undo: Option<&'a str>,
    /// The step that may or may not have been taken.
    pub intent: Option<&'a Step>,
    /// GPU instances that this change made.
    pub made: Vec<Made>,
}

impl Journal {
    /// Whether something is left to finish.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.records.is_empty() && self.records.last() != Some(&Record::Closed)
    }

    /// The GPUs of the change.
    #[must_use]
    pub fn subjects(&self) -> &[Subject] {
        match self.records.first() {
            Some(Record::Change { gpus, .. }) => gpus,
            _ => &[],
        }
    }

    /// GPUs on which work was begun and has not ended.
    #[must_use]
    pub fn open(&self) -> Vec<Open<'_>> {
        let mut open = Vec::<Open<'_>>::new();
        for record in &self.records {
            let of = |open: &mut Vec<Open<'_>>, gpu: usize| open.iter().position(|o| o.gpu == gpu);
            match record {
                Record::Begin { gpu } => {
                    if let Some(subject) = self.subjects().get(*gpu) {
                        let made = Vec::new();
                        open.push(Open { gpu: *gpu, subject, undo: None, intent: None, made });
                    }
                }
                Record::Ended { gpu, .. } => open.retain(|o| o.gpu != *gpu),
                Record::Intent { gpu, step } => {
                    if let Some(at) = of(&mut open, *gpu) {
                        open[at].intent = Some(step);
                    }
                }
                Record::Taken { gpu, made } => {
                    if let Some(at) = of(&mut open, *gpu) {
                        open[at].intent = None;
                        open[at].made.extend(made);
                    }
                }
                Record::Undo { gpu, why } => {
                    if let Some(at) = of(&mut open, *gpu) {
                        open[at].undo = Some(why);
                    }
                }
                Record::Change { .. } | Record::Paused { .. } | Record::Resumed { .. } | Record::Closed => {}
            }
        }
        open
    }

    /// Clients that were paused and do not go on yet, the last one first.
    #[must_use]
    pub fn paused(&self) -> Vec<&str> {
        let mut paused = Vec::new();
        for record in &self.records {
            match record {
                Record::Paused { client } => paused.insert(0, client.as_str()),
                Record::Resumed { client } => paused.retain(|p| p != client),
                _ => {}
            }
        }
        paused
    }
}

impl Open<'_> {
    /// Whether this change may have made the instance: it is one of those it leads to or came from, one it noted, or
    /// the empty one that the open step makes.
    #[must_use]
    pub fn explains(&self, live: &LiveInstance) -> bool {
        let seat = live.seat();
        let stands = |goal: &Goal| goal.at(seat.profile, seat.placement).is_some();
        let noted = self.made.contains(&Made { id: live.id, seat });
        let open = matches!(self.intent, Some(Step::CreateInstance { seat: s }) if s.profile == seat.profile);
        stands(&self.subject.original)
            || stands(&self.subject.target)
            || noted
            || (open && live.compute.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<Record> {
        let off = Goal::off();
        let on = Goal { mig: true, instances: Vec::new() };
        let subject = Subject {
            uuid: GpuUuid::new("GPU-1"),
            original: off,
            target: on,
            needs_reset: false,
            names: Names::from([(19, "1g.5gb".to_owned())]),
        };
        vec![
            Record::Change { version: VERSION, gpus: vec![subject] },
            Record::Begin { gpu: 0 },
            Record::Intent { gpu: 0, step: Step::SetMode { on: true } },
            Record::Taken { gpu: 0, made: None },
            Record::Ended { gpu: 0, end: End::Done },
            Record::Closed,
        ]
    }

    fn bytes(records: &[Record]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for (number, record) in records.iter().enumerate() {
            bytes.extend(encode(number, record).unwrap());
        }
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        let journal = read(&bytes(&sample())).unwrap();
        assert_eq!(journal.records, sample());
        assert!(!journal.cut && !journal.is_open() && journal.open().is_empty());
        assert_eq!(first(&sample()[0]).unwrap(), bytes(&sample()[..1]));
    }

    #[test]
    fn cut_anywhere_it_is_a_beginning_of_itself() {
        let whole = bytes(&sample());
        for length in 0..whole.len() {
            let journal = read(&whole[..length]).unwrap();
            let records = journal.records.len();
            assert_eq!(journal.records, sample()[..records], "cut at {length}");
            assert!(journal.length <= length || length < MAGIC.len());
            assert_eq!(journal.cut, journal.length != length && length > 0, "cut at {length}");
            // Space that the file system gave and did not fill is no damage.
            let mut padded = whole[..length].to_vec();
            padded.resize(whole.len() + 100, 0);
            if length >= MAGIC.len() {
                assert_eq!(read(&padded).unwrap().records, journal.records, "padded at {length}");
            }
        }
    }

    #[test]
    fn a_changed_byte_is_never_another_record() {
        let whole = bytes(&sample());
        let last = whole.len() - encode(5, &sample()[5]).unwrap().len();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x41;
            match read(&changed) {
                // Only the last record can look half written.
                Ok(journal) => {
                    assert!(at >= last, "byte {at} of {last}");
                    assert!(journal.cut && journal.records == sample()[..5]);
                }
                Err(JournalError::Foreign) => assert!(at < MAGIC.len()),
                Err(JournalError::Damaged { .. }) => assert!(at >= MAGIC.len()),
                Err(other) => panic!("{other}"),
            }
        }
    }

    #[test]
    fn what_is_foreign_or_newer_is_told() {
        assert_eq!(read(b"{\"mig\": true}"), Err(JournalError::Foreign));
        let newer = Record::Change { version: 2, gpus: Vec::new() };
        assert_eq!(read(&first(&newer).unwrap()), Err(JournalError::Version { found: 2 }));
        let swapped = bytes(&sample()[1..]);
        assert!(matches!(read(&swapped), Err(JournalError::Damaged { record: 0, .. })));
        let mut missing = bytes(&sample()[..2]);
        missing.extend(encode(3, &sample()[3]).unwrap());
        assert!(read(&missing).unwrap_err().to_string().contains("missing"));
        let mut beyond = sample()[..1].to_vec();
        beyond.push(Record::Begin { gpu: 1 });
        assert!(read(&bytes(&beyond)).unwrap_err().to_string().contains("does not have"));
    }

    #[test]
    fn what_is_open_is_known() {
        let mut records = sample();
        records.truncate(3);
        let journal = read(&bytes(&records)).unwrap();
        assert!(journal.is_open());
        let open = journal.open();
        assert_eq!(open[0].intent, Some(&Step::SetMode { on: true }));
        assert_eq!(open[0].undo, None);
        records.push(Record::Undo { gpu: 0, why: "in use".into() });
        records.push(Record::Paused { client: "dcgm-exporter".into() });
        let journal = read(&bytes(&records)).unwrap();
        assert_eq!(journal.open()[0].undo, Some("in use"));
        assert_eq!(journal.paused(), ["dcgm-exporter"]);
    }
}
