//! Adds records to the journal.

use crate::disk::Disk;
use crate::journal::{Record, encode};

/// Counts the records.
pub(crate) struct Writer {
    next: usize,
}

impl Writer {
    /// Behind so many records.
    pub(crate) fn at(next: usize) -> Self {
        Self { next }
    }

    /// Adds a record; it is for good only after the next sync.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn write(&mut self, disk: &mut dyn Disk, record: &Record) -> Result<(), String> {
        let bytes = encode(self.next, record).map_err(|error| error.to_string())?;
        disk.append(&bytes).map_err(|error| error.to_string())?;
        self.next += 1;
        Ok(())
    }
}
