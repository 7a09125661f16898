//! One executor at a time on a node.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

/// Holds the lock as long as it lives. The file stays; who holds it is what counts.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody else is at work.
    #[error("another executor{} is changing MIG on this node ({})", .pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default(), .path.display())]
    Held {
        /// Its process, where it wrote it down; in its own container's numbering.
        pid: Option<u32>,
        /// The lock.
        path: PathBuf,
    },
    /// The file cannot be made or locked.
    #[error("{}: cannot be locked: {error}", .path.display())]
    File {
        /// The lock.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// Name of the lock in its folder.
pub const LOCK: &str = "mig.lock";

impl Lock {
    /// Takes the lock of a folder, without waiting.
    ///
    /// # Errors
    /// When another holds it, or the file cannot be used.
    pub fn take(folder: &Path) -> Result<Self, LockError> {
        let path = folder.join(LOCK);
        let fail = |error| LockError::File { path: path.clone(), error };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(fail)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // Without a number the message is shorter, no more.
                let _ = file.take(32).read_to_string(&mut text);
                return Err(LockError::Held { pid: text.trim().parse().ok(), path });
            }
            Err(TryLockError::Error(error)) => return Err(fail(error)),
        }
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        written.map_err(|error| LockError::File { path: path.clone(), error })?;
        Ok(Self { _file: file })
    }
}
