//! An opened directory of sled's.
//!
//! Opening writes: sled clears what lies behind the last entry of its log that it can read, and writes down where all pages
//! are, in a file `snap.NUMBER.generating` that gets its name once it is whole. On a full disk that file stays empty, and sled
//! takes it for the newest one ever after, and itself for damaged. Hence two precautions: a directory whose disk is full is
//! not opened, and what was not finished is removed before. Nothing is lost by the second: the file before it and the log
//! behind that are there until the new one has its name, and are read again.
//!
//! A copy of the log, to go back to where an opening fails, was thought of: it takes the room that is missing, and minutes for
//! a large store. Nor is the audit log's reserve given up for it: a gateway whose disk is full could record nothing for long.

use std::collections::BTreeSet;
use std::fs::File;
use std::fs::TryLockError;
use std::io;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::path::Path;
use std::time::Duration;

use super::Batch;
use super::LOG;
use super::StoreError;
use super::failed;
use super::room;

const TREE: &str = "tables";
/// Beside the tables: what is written to find out whether the disk takes anything. No table's name begins with a NUL.
const PROBE: &[u8] = b"\0probe";
/// Beside the tables, too: the number of the last batch.
const NUMBER: &[u8] = b"\0number";
/// Behind those, and before all tables: two pages of keys that never change.
const BETWEEN: &[u8] = b"\0~";
const BETWEEN_KEYS: u8 = 32;
/// Where the numbers begin of a store that was written when batches had none: above those of all revisions it may have had.
pub(super) const NUMBER_OF_OLD: u64 = 1_000_000;
const FLUSH_EVERY_MS: u64 = 500;
/// How much has to be free before a directory is opened.
const OPEN_FREE_BYTES_MIN: u64 = 4 << 20;
/// How the names of the files begin that say where all pages are, and how they end as long as they are not whole.
const SNAPSHOT: &str = "snap.";
const UNFINISHED: &str = ".generating";
/// How often it is tried to get the lock that whoever had the directory before has just let go of, or is about to: a
/// closed database keeps it until its threads have ended.
const LOCK_TRIES_MAX: u32 = 50;
const LOCK_TRY_EVERY: Duration = Duration::from_millis(20);

/// What sled cannot read on.
#[derive(Debug, thiserror::Error)]
#[error("its files are damaged, restore a backup (portcullis restore)")]
struct Damaged;

/// What an opened directory has.
pub(super) struct Found {
    /// The names of its tables.
    pub(super) tables: BTreeSet<String>,
    /// The number of the last batch; `None`: none was written, or when batches had no numbers.
    pub(super) number: Option<u64>,
}

/// A directory that is open.
pub(super) struct Opened {
    pub(super) database: sled::Db,
    pub(super) tree: sled::Tree,
}

impl Opened {
    /// Opens a directory, and leaves it as it is where there is no room for that; waits for a second at most, where somebody
    /// has it who may be about to let go of it.
    ///
    /// # Errors
    /// [`StoreError::InUse`], [`StoreError::Full`], and what sled fails at.
    pub(super) fn open(directory: &Path, cache_bytes: u64) -> Result<Self, StoreError> {
        for _ in 1..LOCK_TRIES_MAX {
            match Self::try_open(directory, cache_bytes) {
                Err(StoreError::InUse { .. }) => std::thread::sleep(LOCK_TRY_EVERY),
                opened => return opened,
            }
        }
        Self::try_open(directory, cache_bytes)
    }

    fn try_open(directory: &Path, cache_bytes: u64) -> Result<Self, StoreError> {
        remove_unfinished(directory)?;
        look_for_room(directory)?;
        let settings = sled::Config::new()
            .path(directory)
            .cache_capacity(cache_bytes)
            .flush_every_ms(Some(FLUSH_EVERY_MS));
        // Sled asserts some of what it expects of its files.
        let opened = catch_unwind(AssertUnwindSafe(|| settings.open())).map_err(|_| damaged())?;
        let database = opened.map_err(|error| match error {
            sled::Error::Io(io) if io.to_string().contains("could not acquire lock") => {
                StoreError::InUse { path: directory.to_owned() }
            }
            other => broken(other),
        })?;
        let opened = Self { tree: database.open_tree(TREE).map_err(broken)?, database };
        opened.part_from_tables()?;
        Ok(opened)
    }

    /// Keeps what changes with every batch in a page without tables: sled writes a page anew after some changes, and a page
    /// of records may be large.
    fn part_from_tables(&self) -> Result<(), StoreError> {
        let between = |number: u8| [BETWEEN, &[number]].concat();
        if self.tree.contains_key(between(BETWEEN_KEYS - 1)).map_err(broken)? {
            return Ok(());
        }
        let mut changes = sled::Batch::default();
        (0..BETWEEN_KEYS).for_each(|number| changes.insert(between(number), sled::IVec::default()));
        self.tree.apply_batch(changes).map_err(broken)
    }

    /// Returns the number of the last batch; `None`: none had one.
    pub(super) fn number(&self) -> Result<Option<u64>, StoreError> {
        let Some(bytes) = self.tree.get(NUMBER).map_err(broken)? else { return Ok(None) };
        let bytes = <[u8; size_of::<u64>()]>::try_from(&*bytes).map_err(|_| damaged())?;
        Ok(Some(u64::from_be_bytes(bytes)))
    }

    /// Writes a batch under its number.
    pub(super) fn apply(&self, batch: &Batch, number: u64) -> Result<(), StoreError> {
        let mut changes = sled::Batch::default();
        changes.insert(NUMBER, &number.to_be_bytes());
        for change in batch.changes() {
            let key = full_key(&change.table, &change.key);
            match &change.value {
                Some(value) => changes.insert(key, value.as_slice()),
                None => changes.remove(key),
            }
        }
        self.tree.apply_batch(changes).map_err(broken)
    }

    /// Writes a probe. Sled does not write what is there already, so each has a number.
    pub(super) fn probe(&self, number: u64) -> Result<(), StoreError> {
        self.tree.insert(PROBE, &number.to_be_bytes()).map(|_| ()).map_err(broken)
    }
}

impl Found {
    /// Looks at an opened directory.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn of(opened: &Opened) -> Result<Self, StoreError> {
        Ok(Self { tables: tables(&opened.tree)?, number: opened.number()? })
    }

    /// Returns the number of the last batch, where some had none, too.
    pub(super) fn last(&self) -> u64 {
        self.number.unwrap_or(if self.tables.is_empty() { 0 } else { NUMBER_OF_OLD })
    }

    /// Tells whether something is missing, as far as a mark tells, or a history without one.
    pub(super) fn lacks(&self, mark: Option<u64>, has_history: bool) -> bool {
        match mark {
            Some(mark) => self.number.unwrap_or(0) < mark,
            None => has_history && self.number.is_none() && self.tables.is_empty(),
        }
    }
}

/// Removes what an opening has left that did not come to its end. Whoever opens a directory locks its log.
fn remove_unfinished(directory: &Path) -> Result<(), StoreError> {
    let log = match File::options().write(true).open(directory.join(LOG)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        log => log.map_err(failed)?,
    };
    match log.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(StoreError::InUse { path: directory.to_owned() }),
        // Sled will say the same.
        Err(TryLockError::Error(_)) => return Ok(()),
    }
    for (name, _) in snapshots(directory).map_err(failed)? {
        if name.ends_with(UNFINISHED) {
            std::fs::remove_file(directory.join(name)).map_err(failed)?;
        }
    }
    Ok(())
}

/// Tells whether there is room to open a directory: for what sled always writes, and for another file of all pages, which
/// may be larger than the last one.
pub(super) fn look_for_room(directory: &Path) -> Result<(), StoreError> {
    let snapshots = snapshots(directory).map_err(failed)?;
    let newest_bytes = snapshots.into_iter().map(|(_, bytes)| bytes).max().unwrap_or(0);
    let needed_bytes = OPEN_FREE_BYTES_MIN.saturating_add(newest_bytes.saturating_mul(2));
    let free_bytes = room::free_bytes(directory).map_err(failed)?;
    match free_bytes < needed_bytes {
        true => Err(StoreError::Full { path: directory.to_owned(), free_bytes, needed_bytes }),
        false => Ok(()),
    }
}

/// Returns the names of the files that say where all pages are, and their lengths in bytes.
fn snapshots(directory: &Path) -> io::Result<Vec<(String, u64)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if let Ok(name) = entry.file_name().into_string()
            && name.starts_with(SNAPSHOT)
        {
            found.push((name, entry.metadata()?.len()));
        }
    }
    Ok(found)
}

/// Returns the names of all tables, from the first key of each.
fn tables(tree: &sled::Tree) -> Result<BTreeSet<String>, StoreError> {
    // Behind what is beside the tables, whose names are empty.
    let (mut names, mut from) = (BTreeSet::new(), vec![1]);
    while let Some(entry) = tree.range(from..).next() {
        let (key, _) = entry.map_err(broken)?;
        let name: Vec<u8> = key.iter().copied().take_while(|byte| *byte != 0).collect();
        names.insert(String::from_utf8_lossy(&name).into_owned());
        // Behind every key of this table, whose names end with a NUL.
        from = name;
        from.push(1);
    }
    Ok(names)
}

/// Returns a key behind its table's name; the NUL keeps `a` apart from `ab`.
pub(super) fn full_key(table: &str, key: &[u8]) -> Vec<u8> {
    [table.as_bytes(), &[0], key].concat()
}

/// Returns what sled failed at.
pub(super) fn broken(error: sled::Error) -> StoreError {
    failed(match error {
        sled::Error::Io(io) => io,
        sled::Error::Corruption { .. } => return damaged(),
        other => io::Error::other(other),
    })
}

/// Returns that something is not as it was written.
pub(super) fn damaged() -> StoreError {
    failed(io::Error::new(io::ErrorKind::InvalidData, Damaged))
}
