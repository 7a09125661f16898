//! The state of a node, shared between processes through a file.
//!
//! Beside a machine file `node.yaml` lie `node.yaml.state`, what became of it, and `node.yaml.lock`, which whoever
//! changes the state holds meanwhile. A state is written as a whole into a new file that then takes the name, so
//! readers need no lock and see the old state or the new one; a process that dies leaves the old one.
//!
//! The state belongs to the machine that its file describes. When the file describes another machine, which comments
//! and layout do not make it, the state begins afresh: hardware was changed, and the node booted. A state that is cut
//! or of another version is refused and left alone.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tesela_formats::machine::read_machine;
use tesela_model::driver::Code;
use tesela_model::machine::Machine;
use tesela_sim::{MachineError, Simulator, StateError};

/// Largest machine file and state that are read.
const MOST_BYTES: u64 = 16 << 20;

/// Why a node cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A file cannot be read.
    #[error("{}: cannot be read: {error}", .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file cannot be written.
    #[error("{}: cannot be written: {error}; the state of an emulated node lies beside its machine file", .file.display())]
    Unwritable {
        /// The file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The machine file is wrong.
    #[error("{0}")]
    Machine(String),
    /// The machine cannot be.
    #[error("{}: {error}", .file.display())]
    Impossible {
        /// The machine file.
        file: PathBuf,
        /// Why.
        error: MachineError,
    },
    /// The state is cut, of another version, or contradicts itself.
    #[error("{}: {error}", .file.display())]
    State {
        /// The file with the state.
        file: PathBuf,
        /// What is wrong with it.
        error: StateError,
    },
}

impl StoreError {
    /// What a program is told.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Unreadable { error, .. } | Self::Unwritable { error, .. }
                if error.kind() == io::ErrorKind::PermissionDenied =>
            {
                Code::NoPermission
            }
            Self::Unreadable { .. } | Self::Machine(_) | Self::Impossible { .. } => Code::DriverNotLoaded,
            Self::State { error: StateError::Version { .. }, .. } => Code::LibRmVersionMismatch,
            Self::State { .. } | Self::Unwritable { .. } => Code::Unknown,
        }
    }
}

/// The line before the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    /// Which machine it is the state of.
    machine: String,
    /// When it began, in µs since the epoch.
    began: u64,
}

/// Which file was read: another one has taken its name when these differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    seconds: i64,
    nanoseconds: i64,
    length: u64,
}

/// A node, with its state as it was last seen.
#[derive(Debug)]
pub struct Store {
    state_file: PathBuf,
    lock_file: PathBuf,
    head: Head,
    stamp: Option<Stamp>,
    simulator: Simulator,
}

impl Store {
    /// Opens the node of a machine file; its state begins now where there is none, or none of this machine.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn open(machine_file: &Path) -> Result<Self, StoreError> {
        let bytes = read(machine_file)?;
        let machine = read_machine(&machine_file.display().to_string(), &bytes).map_err(|faults| {
            StoreError::Machine(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
        })?;
        // Absolute, so that the state stays the same when the program changes its folder.
        let file = fs::canonicalize(machine_file)
            .map_err(|error| StoreError::Unreadable { file: machine_file.into(), error })?;
        let simulator = Simulator::new(&machine)
            .map_err(|error| StoreError::Impossible { file: machine_file.into(), error })?;
        let mut store = Self {
            state_file: beside(&file, ".state"),
            lock_file: beside(&file, ".lock"),
            head: Head { machine: name_of(&machine), began: now_micros() },
            stamp: None,
            simulator,
        };
        store.begin()?;
        Ok(store)
    }

    /// Takes the state of this machine, or writes the one it begins with.
    fn begin(&mut self) -> Result<(), StoreError> {
        match self.written() {
            Ok(Some((head, simulator, stamp))) if head.machine == self.head.machine => {
                self.take(head, simulator, stamp);
                Ok(())
            }
            Err(error @ StoreError::State { .. }) => Err(error),
            Err(error @ StoreError::Unreadable { .. }) => Err(error),
            _ => {
                let _lock = self.lock()?;
                // Somebody else may have begun it meanwhile.
                match self.written()? {
                    Some((head, simulator, stamp)) if head.machine == self.head.machine => {
                        self.take(head, simulator, stamp);
                        Ok(())
                    }
                    _ => self.write(),
                }
            }
        }
    }

    /// The node as it is now, with what other processes did.
    ///
    /// # Errors
    /// Why its state cannot be read.
    pub fn look(&mut self) -> Result<&mut Simulator, StoreError> {
        let stamp = stamp(&self.state_file);
        if stamp.is_none() || stamp != self.stamp {
            match self.written()? {
                Some((head, simulator, stamp)) => self.take(head, simulator, stamp),
                // Removed by hand: it begins afresh, as the message of a damaged one advises.
                None => return Err(self.gone()),
            }
        }
        self.simulator.advance_to(Duration::from_micros(now_micros().saturating_sub(self.head.began)));
        Ok(&mut self.simulator)
    }

    /// The node as it was last looked at.
    #[must_use]
    pub fn seen(&self) -> &Simulator {
        &self.simulator
    }

    /// The same, for calls that change nothing of it.
    pub(crate) fn seen_mut(&mut self) -> &mut Simulator {
        &mut self.simulator
    }

    /// When it began, in µs since the epoch.
    pub(crate) fn began_micros(&self) -> u64 {
        self.head.began
    }

    /// Changes the node for every process, alone.
    ///
    /// # Errors
    /// Why its state cannot be read or written; nothing is changed then.
    pub fn change<T>(&mut self, act: impl FnOnce(&mut Simulator) -> T) -> Result<T, StoreError> {
        let _lock = self.lock()?;
        self.look()?;
        let before = self.simulator.state().revision;
        let answer = act(&mut self.simulator);
        if self.simulator.state().revision != before {
            self.write()?;
        }
        Ok(answer)
    }

    fn take(&mut self, head: Head, simulator: Simulator, stamp: Stamp) {
        self.head = head;
        self.simulator = simulator;
        self.stamp = Some(stamp);
    }

    fn gone(&self) -> StoreError {
        let error = io::Error::new(io::ErrorKind::NotFound, "it is gone; start the program again");
        StoreError::Unreadable { file: self.state_file.clone(), error }
    }

    /// What is written; `None` where nothing is.
    fn written(&self) -> Result<Option<(Head, Simulator, Stamp)>, StoreError> {
        let Some(stamp) = stamp(&self.state_file) else { return Ok(None) };
        let bytes = match read(&self.state_file) {
            Err(StoreError::Unreadable { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(None);
            }
            bytes => bytes?,
        };
        let wrong = |error| StoreError::State { file: self.state_file.clone(), error };
        let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
        let (head, state) = bytes.split_at(end);
        // The version first, so that a state of another version is not called cut.
        let simulator = Simulator::from_json(state).map_err(wrong)?;
        let head = serde_json::from_slice(head).map_err(|error| wrong(error.into()))?;
        Ok(Some((head, simulator, stamp)))
    }

    /// Waits until nobody else changes the node. The lock goes with the file, also when the process dies.
    #[expect(clippy::disallowed_methods, reason = "this is the module that keeps the state in a file")]
    fn lock(&self) -> Result<File, StoreError> {
        let file = &self.lock_file;
        let locked = File::create(file).and_then(|lock| lock.lock().map(|()| lock));
        locked.map_err(|error| StoreError::Unwritable { file: file.clone(), error })
    }

    /// Writes the state as a whole or not at all. The caller holds the lock.
    #[expect(clippy::disallowed_methods, reason = "this is the module that keeps the state in a file")]
    fn write(&mut self) -> Result<(), StoreError> {
        let part = beside(&self.state_file, ".new");
        let mut bytes = serde_json::to_vec(&self.head).unwrap_or_default();
        bytes.push(b'\n');
        bytes.extend(self.simulator.to_json());
        let written = File::create(&part)
            .and_then(|mut file| file.write_all(&bytes).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&part, &self.state_file));
        written.map_err(|error| StoreError::Unwritable { file: self.state_file.clone(), error })?;
        self.stamp = stamp(&self.state_file);
        Ok(())
    }
}

fn beside(file: &Path, end: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(end);
    name.into()
}

#[expect(clippy::disallowed_methods, reason = "this is the module that keeps the state in a file")]
fn read(file: &Path) -> Result<Vec<u8>, StoreError> {
    use std::io::Read as _;
    let unreadable = |error| StoreError::Unreadable { file: file.into(), error };
    let mut bytes = Vec::new();
    let opened = File::open(file).map_err(unreadable)?;
    opened.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MOST_BYTES) {
        let error = io::Error::new(io::ErrorKind::FileTooLarge, "larger than 16 MiB");
        return Err(unreadable(error));
    }
    Ok(bytes)
}

fn stamp(file: &Path) -> Option<Stamp> {
    let data = fs::metadata(file).ok()?;
    Some(Stamp {
        inode: data.ino(),
        seconds: data.mtime(),
        nanoseconds: data.mtime_nsec(),
        length: data.len(),
    })
}

#[expect(clippy::disallowed_methods, reason = "the clock of the node goes on while no program runs")]
fn now_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Which machine a file describes: FNV-1a (Fowler, Noll, Vo) of everything it says.
fn name_of(machine: &Machine) -> String {
    let all = format!("{machine:?}");
    let hash = all.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
