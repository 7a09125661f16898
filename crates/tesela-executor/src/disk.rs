//! Where the journal lies.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// What the journal needs of a disk. Tests kill the executor before and after each call.
pub trait Disk {
    /// All bytes; `None` where there is no journal.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read(&mut self) -> io::Result<Option<Vec<u8>>>;

    /// Puts a new journal in place of the old one: as a whole or not at all, and for good.
    ///
    /// # Errors
    /// When it cannot be written.
    fn replace(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Adds bytes at the end. They are for good only after [`Disk::sync`].
    ///
    /// # Errors
    /// When they cannot be written.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Waits until what was added is for good.
    ///
    /// # Errors
    /// When the disk says that it is not.
    fn sync(&mut self) -> io::Result<()>;

    /// Takes away what stands behind `length`, for good.
    ///
    /// # Errors
    /// When it cannot be written.
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

/// A journal larger than this is none of ours: a change of 16 GPUs writes less than 1 MiB.
const MOST_BYTES: u64 = 64 << 20;

/// A journal in a folder of the machine.
#[derive(Debug)]
pub struct FileDisk {
    path: PathBuf,
    /// Open for adding.
    file: Option<File>,
}

/// Name of the journal in its folder.
pub const JOURNAL: &str = "mig.journal";

impl FileDisk {
    /// The journal of this folder, which must exist.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self { path: folder.join(JOURNAL), file: None }
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn file(&mut self) -> io::Result<&mut File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => options().append(true).open(&self.path)?,
        };
        Ok(self.file.insert(file))
    }
}

/// Only its owner may read the journal: it names processes of others.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes the names in a folder last, as a file's own sync does not.
#[expect(clippy::disallowed_methods, reason = "the rim that keeps the journal")]
fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

impl Disk for FileDisk {
    #[expect(clippy::disallowed_methods, reason = "the rim that keeps the journal")]
    fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is larger than any journal"));
        }
        Ok(Some(bytes))
    }

    #[expect(clippy::disallowed_methods, reason = "the rim that keeps the journal")]
    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file = None;
        let new = self.path.with_extension("journal.new");
        let mut file = options().write(true).create(true).truncate(true).open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&new, &self.path)?;
        sync_folder(&self.path)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file()?.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file()?.sync_all()
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.file = None;
        let file = options().write(true).open(&self.path)?;
        file.set_len(length)?;
        file.sync_all()
    }
}

/// Makes the folder of journal and lock, for its owner alone.
///
/// # Errors
/// When it cannot be made.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}
