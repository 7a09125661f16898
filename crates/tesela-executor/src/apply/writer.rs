//! Adds records to the journal.

use crate::disk::Disk;
use crate::journal::{Record, encode};

/// Counts the records. After one that could not be written nothing more is: behind half a record the journal would be
/// damaged, and without the record nothing may be done.
pub(crate) struct Writer {
    next: usize,
    broken: Option<String>,
}

impl Writer {
    /// Behind so many records.
    pub(crate) fn at(next: usize) -> Self {
        Self { next, broken: None }
    }

    /// Adds a record; it is for good only after the next sync.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn write(&mut self, disk: &mut dyn Disk, record: &Record) -> Result<(), String> {
        self.sound()?;
        let bytes = encode(self.next, record).map_err(|error| error.to_string());
        let written = bytes.and_then(|bytes| disk.append(&bytes).map_err(|error| error.to_string()));
        self.next += 1;
        self.note(written)
    }

    /// Waits until every record is for good.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn sync(&mut self, disk: &mut dyn Disk) -> Result<(), String> {
        self.sound()?;
        let synced = disk.sync().map_err(|error| error.to_string());
        self.note(synced)
    }

    fn sound(&self) -> Result<(), String> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    fn note(&mut self, result: Result<(), String>) -> Result<(), String> {
        self.broken = result.clone().err();
        result
    }
}
