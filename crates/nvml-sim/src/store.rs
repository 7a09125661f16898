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
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::tree;
use serde::{Deserialize, Serialize};
use tesela_formats::diagnostic::Diagnostics;
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
    #[error(transparent)]
    Machine(Diagnostics),
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

/// The file that was read, or written. It is held open, so that no other file gets its number; one that has another
/// number has taken its name.
#[derive(Debug)]
struct Seen {
    device: u64,
    inode: u64,
    _file: File,
}

impl Seen {
    fn of(file: File) -> io::Result<Self> {
        let data = file.metadata()?;
        Ok(Self { device: data.dev(), inode: data.ino(), _file: file })
    }

    /// Whether it still has its name.
    fn is(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|data| (data.dev(), data.ino()) == (self.device, self.inode))
    }
}

/// A node, with its state as it was last seen.
#[derive(Debug)]
pub struct Store {
    state_file: PathBuf,
    lock_file: PathBuf,
    head: Head,
    file: Option<Seen>,
    simulator: Simulator,
}

impl Store {
    /// Opens the node of a machine file; its state begins now where there is none, or none of this machine.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn open(machine_file: &Path) -> Result<Self, StoreError> {
        let (bytes, _) = read(machine_file)?;
        let machine =
            read_machine(&machine_file.display().to_string(), &bytes).map_err(StoreError::Machine)?;
        // Absolute, so that the state stays the same when the program changes its folder.
        let file = fs::canonicalize(machine_file)
            .map_err(|error| StoreError::Unreadable { file: machine_file.into(), error })?;
        let simulator = Simulator::new(&machine)
            .map_err(|error| StoreError::Impossible { file: machine_file.into(), error })?;
        let mut store = Self {
            state_file: beside(&file, ".state"),
            lock_file: beside(&file, ".lock"),
            head: Head { machine: name_of(&machine), began: now_micros() },
            file: None,
            simulator,
        };
        store.begin()?;
        Ok(store)
    }

    /// Takes the state of this machine, or writes the one it begins with.
    fn begin(&mut self) -> Result<(), StoreError> {
        match self.written() {
            Ok(Some((head, simulator, file))) if head.machine == self.head.machine => {
                self.take(head, simulator, file);
                Ok(())
            }
            Err(error @ StoreError::State { .. }) => Err(error),
            Err(error @ StoreError::Unreadable { .. }) => Err(error),
            _ => {
                let _lock = self.lock()?;
                // Somebody else may have begun it meanwhile.
                match self.written()? {
                    Some((head, simulator, file)) if head.machine == self.head.machine => {
                        self.take(head, simulator, file);
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
        if !self.file.as_ref().is_some_and(|file| file.is(&self.state_file)) {
            match self.written()? {
                Some((head, simulator, file)) => self.take(head, simulator, file),
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
        // Until it is written, what is in memory is nobody's: a failure below has it read again.
        let file = self.file.take();
        let answer = act(&mut self.simulator);
        if self.simulator.state().revision == before {
            self.file = file;
        } else {
            self.write()?;
            self.render()?;
        }
        Ok(answer)
    }

    /// Keeps the files that programs look for true, where somebody had them made.
    fn render(&self) -> Result<(), StoreError> {
        let folder = self.tree_folder();
        if !folder.is_dir() {
            return Ok(());
        }
        tree::write(&folder, &tree::entries(self.simulator.state()))
            .map_err(|error| StoreError::Unwritable { file: folder, error })
    }

    /// Makes the files that programs look for (`tree`), and from now on keeps them true. Returns their root.
    ///
    /// # Errors
    /// Why they cannot be written.
    #[expect(clippy::disallowed_methods, reason = "this is the module that keeps the state in files")]
    pub fn render_tree(&mut self) -> Result<PathBuf, StoreError> {
        let _lock = self.lock()?;
        self.look()?;
        let folder = self.tree_folder();
        let made = fs::create_dir_all(&folder);
        made.map_err(|error| StoreError::Unwritable { file: folder.clone(), error })?;
        self.render()?;
        Ok(folder)
    }

    fn tree_folder(&self) -> PathBuf {
        self.state_file.with_extension("tree")
    }

    fn take(&mut self, head: Head, simulator: Simulator, file: Seen) {
        self.head = head;
        self.simulator = simulator;
        self.file = Some(file);
    }

    fn gone(&self) -> StoreError {
        let error = io::Error::new(io::ErrorKind::NotFound, "it is gone; start the program again");
        StoreError::Unreadable { file: self.state_file.clone(), error }
    }

    /// What is written; `None` where nothing is.
    fn written(&self) -> Result<Option<(Head, Simulator, Seen)>, StoreError> {
        let (bytes, file) = match read(&self.state_file) {
            Err(StoreError::Unreadable { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(None);
            }
            read => read?,
        };
        let wrong = |error| StoreError::State { file: self.state_file.clone(), error };
        let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
        let (head, state) = bytes.split_at(end);
        // The version first, so that a state of another version is not called cut.
        let simulator = Simulator::from_json(state).map_err(wrong)?;
        let head = serde_json::from_slice(head).map_err(|error| wrong(error.into()))?;
        let unreadable = |error| StoreError::Unreadable { file: self.state_file.clone(), error };
        Ok(Some((head, simulator, Seen::of(file).map_err(unreadable)?)))
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
        let write = || {
            let mut file = File::create(&part)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&part, &self.state_file)?;
            Seen::of(file)
        };
        let written =
            write().map_err(|error| StoreError::Unwritable { file: self.state_file.clone(), error })?;
        self.file = Some(written);
        Ok(())
    }
}

fn beside(file: &Path, end: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// All of a file, and the file.
#[expect(clippy::disallowed_methods, reason = "this is the module that keeps the state in a file")]
fn read(path: &Path) -> Result<(Vec<u8>, File), StoreError> {
    let unreadable = |error| StoreError::Unreadable { file: path.into(), error };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    (&file).take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MOST_BYTES) {
        return Err(unreadable(io::Error::new(io::ErrorKind::FileTooLarge, "larger than 16 MiB")));
    }
    Ok((bytes, file))
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
