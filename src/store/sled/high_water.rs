//! How far a store had come, told by files beside it: whoever opens it sees whether all is there that was safe.
//!
//! Sled ends its log where it cannot read on. After a crash that is right. A byte that flipped on the disk takes with it all
//! that lies behind, in the same silence, and a directory that is gone is a new one. So each batch has a number, which is
//! written in it, and the number of the last one that is surely on the disk stands in a file outside of the store's directory.
//! A store that is behind its mark has lost something, and is opened for an operator's word alone.
//!
//! The mark is written in place with each sync, which those who wait at the same time share, and never before it: a mark
//! is never ahead of a store that is whole. Its own sync comes once a second, with what is tended anyway. A power cut in between costs
//! that much of what it vouches for, and nothing of the store; a sync of its own with each would double what every change
//! waits for.
//!
//! What it does not see: a log that is damaged in its midst. Where that is older than the last opening, sled reads it when it
//! needs it, and fails; where it is younger, sled passes over the rest of that segment (512 KiB) and goes on with the next, if
//! there is one. A process that wrote more than that since it began may so lose changes behind which the numbers go on.

use std::fs::File;
use std::io;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

const MARK: &str = "store.mark";
/// An operator's word to go on with what is left.
const ACCEPTANCE: &str = "store.accept-loss";
/// What the last opening found missing, for whoever looks later.
const FINDING: &str = "store.lost";
/// How many digits a number has in the file: none is longer.
const DIGITS: usize = 20;

/// The files beside a store that tell how far it had come, and what is known of it from elsewhere.
#[derive(Clone, Debug)]
pub struct HighWater {
    folder: PathBuf,
    has_history: bool,
}

/// The mark of a store that is open.
pub(super) struct Mark {
    file: File,
    number: Mutex<u64>,
    /// Whether it was written since it was synced.
    is_unsynced: AtomicBool,
}

impl HighWater {
    /// Returns the files in a folder, which must not be the store's own.
    pub fn of(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), has_history: false }
    }

    /// Says that the store cannot be new: something beside it was written after it.
    pub fn with_history(self) -> Self {
        Self { has_history: true, ..self }
    }

    /// Tells whether the store cannot be new, whatever its mark says.
    pub(super) fn has_history(&self) -> bool {
        self.has_history
    }

    /// Tells whether there is a mark: a store was there once.
    pub fn has_mark(&self) -> bool {
        self.folder.join(MARK).exists()
    }

    /// Returns the file that lets a store be opened that has lost something.
    pub fn acceptance(&self) -> PathBuf {
        self.folder.join(ACCEPTANCE)
    }

    /// Tells whether the next opening goes on with what is left.
    pub fn is_loss_accepted(&self) -> bool {
        self.acceptance().exists()
    }

    /// Lets that word count no more. It is given for one start.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn forget_acceptance(&self) -> io::Result<()> {
        remove(&self.acceptance())
    }

    /// Returns what the last opening found missing, in words; `None`: nothing.
    pub fn finding(&self) -> Option<String> {
        std::fs::read_to_string(self.folder.join(FINDING)).ok()
    }

    /// Writes down what an opening found missing. That it cannot be written keeps nobody from being told otherwise.
    pub(super) fn note_finding(&self, found: &str) {
        if let Err(error) = std::fs::write(self.folder.join(FINDING), found) {
            tracing::warn!(%error, "what is missing of the store could not be written down for `doctor`");
        }
    }

    /// Forgets what an earlier opening found missing.
    pub(super) fn forget_finding(&self) -> io::Result<()> {
        remove(&self.folder.join(FINDING))
    }

    /// Returns the number of the last batch that was safe; `None`: there is no mark, or none that can be read.
    pub(super) fn number(&self) -> io::Result<Option<u64>> {
        match std::fs::read_to_string(self.folder.join(MARK)) {
            Ok(text) => {
                let number = parsed(&text);
                if number.is_none() {
                    tracing::warn!(file = MARK, "the mark of the store cannot be read, and is made anew");
                }
                Ok(number)
            }
            Err(error) if [ErrorKind::NotFound, ErrorKind::InvalidData].contains(&error.kind()) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Mark {
    /// Opens the mark in a folder, which stands at a number, or at none; it is made if need be.
    pub(super) fn open(high_water: &HighWater, number: Option<u64>) -> io::Result<Self> {
        let path = high_water.folder.join(MARK);
        let is_new = !path.exists();
        let file = File::options().write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        if is_new {
            File::open(&high_water.folder)?.sync_all()?;
        }
        if number.is_none() {
            file.set_len(0)?;
        }
        Ok(Self { file, number: Mutex::new(number.unwrap_or(0)), is_unsynced: AtomicBool::default() })
    }

    /// Returns the number of the last batch that is on the disk, as far as it is known.
    pub(super) fn number(&self) -> u64 {
        *self.number.lock()
    }

    /// Notes that all batches up to a number are on the disk.
    pub(super) fn note(&self, number: u64) -> io::Result<()> {
        let mut noted = self.number.lock();
        if number > *noted {
            self.file.write_all_at(text_of(number).as_bytes(), 0)?;
            *noted = number;
            self.is_unsynced.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Syncs what was noted. Where that fails it is tried again: the sync of the store, which tells, fails there, too.
    pub(super) fn settle(&self) {
        if self.is_unsynced.swap(false, Ordering::AcqRel) && self.file.sync_data().is_err() {
            self.is_unsynced.store(true, Ordering::Release);
        }
    }
}

/// Returns a number twice: one that has changed by itself is no number. All of them are as long.
fn text_of(number: u64) -> String {
    format!("{number:0DIGITS$} {number:0DIGITS$}\n")
}

fn parsed(text: &str) -> Option<u64> {
    let (number, again) = text.strip_suffix('\n')?.split_once(' ')?;
    number.parse().ok().filter(|_| number == again && number.len() == DIGITS)
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_comes_back_and_never_goes_back() {
        let folder = tempfile::tempdir().unwrap();
        let high_water = HighWater::of(folder.path());
        assert_eq!((high_water.number().unwrap(), high_water.has_mark()), (None, false));
        let mark = Mark::open(&high_water, None).unwrap();
        [7, u64::MAX, 9].into_iter().for_each(|number| mark.note(number).unwrap());
        mark.settle();
        assert_eq!(high_water.number().unwrap(), Some(u64::MAX));
    }

    #[test]
    fn a_mark_that_has_changed_by_itself_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let (high_water, whole) = (HighWater::of(folder.path()), text_of(1_234));
        assert_eq!(parsed(&whole), Some(1_234));
        for at in 0..whole.len() {
            let mut changed = whole.clone().into_bytes();
            changed[at] ^= 1;
            std::fs::write(folder.path().join(MARK), &changed).unwrap();
            assert_eq!(high_water.number().unwrap(), None, "byte {at}");
            assert_eq!(parsed(&whole[..at]), None, "{at} bytes");
        }
    }
}
