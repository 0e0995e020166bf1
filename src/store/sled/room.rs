//! Room for what sled writes behind: it is taken before a batch is, so that a full disk never reaches sled.
//!
//! A write that fails within sled may leave a page half parted, and reading stumbles over that as writing does.

use std::fs::File;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

/// How much is kept behind the end of the log beside a batch: as much as may be unproven, and the segments around it.
const BEHIND_END_BYTES: u64 = super::UNPROVEN_BYTES_MAX as u64 + (1 << 20);
/// How much more is kept at once, so that few batches have to ask for it.
const AHEAD_BYTES: u64 = 1 << 20;
/// Sled writes a page anew with what is added to it.
const WRITTEN_PER_BYTE: u64 = 2;
/// What is smaller than this is written to the log. The rest may become a file of its own.
const BLOB_BYTES_MIN: u64 = 8 << 10;
/// How many times such a batch has to fit on the disk.
const FREE_PER_BYTE: u64 = 4;

/// The room of a log.
pub(super) struct Room {
    directory: PathBuf,
    log: PathBuf,
    /// Where the log ended when it was last looked at.
    end: u64,
    /// Up to where there is room for it.
    kept_to: u64,
}

impl Room {
    /// The room of the log in a directory: none as yet.
    pub(super) fn of(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), log: directory.join(super::LOG), end: 0, kept_to: 0 }
    }

    /// Makes sure that a batch of so many bytes has room, and what is unproven.
    ///
    /// # Errors
    /// [`io::ErrorKind::StorageFull`]: there is none.
    pub(super) fn keep(&mut self, bytes: u64) -> io::Result<()> {
        if bytes >= BLOB_BYTES_MIN && free_bytes(&self.directory)? < bytes.saturating_mul(FREE_PER_BYTE) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let end = match std::fs::metadata(&self.log) {
            Ok(log) => log.len(),
            // Whoever syncs it will tell.
            Err(_) => return Ok(()),
        };
        let needed = BEHIND_END_BYTES + bytes.saturating_mul(WRITTEN_PER_BYTE);
        // Sled cuts off what it needs no more, and the room behind it.
        let is_cut = end < self.end;
        self.end = end;
        if !is_cut && end.saturating_add(needed) <= self.kept_to {
            return Ok(());
        }
        let log = File::options().write(true).open(&self.log)?;
        match rustix::fs::fallocate(&log, FallocateFlags::KEEP_SIZE, end, needed + AHEAD_BYTES) {
            Ok(()) => {
                self.kept_to = end.saturating_add(needed + AHEAD_BYTES);
                Ok(())
            }
            Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => Err(io::ErrorKind::StorageFull.into()),
            // Not every file system can: sled fails by itself there. It is asked for again with the next batch.
            Err(_) => Ok(()),
        }
    }
}

/// Returns how many bytes are free where a directory is.
pub(super) fn free_bytes(directory: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(directory)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}
