//! An opened directory of sled's.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::Batch;
use super::StoreError;
use super::failed;

const TREE: &str = "tables";
/// Beside the tables: what is written to find out whether the disk takes anything. No table's name begins with a NUL.
const PROBE: &[u8] = b"\0probe";
const FLUSH_EVERY_MS: u64 = 500;
/// How often it is tried to get the lock that the database before has just let go of.
const LOCK_TRIES_MAX: u32 = 50;
const LOCK_TRY_EVERY: Duration = Duration::from_millis(20);

/// A directory that is open.
pub(super) struct Opened {
    pub(super) database: sled::Db,
    pub(super) tree: sled::Tree,
}

impl Opened {
    pub(super) fn open(directory: &Path, cache_bytes: u64) -> Result<Self, StoreError> {
        let settings = sled::Config::new()
            .path(directory)
            .cache_capacity(cache_bytes)
            .flush_every_ms(Some(FLUSH_EVERY_MS));
        let database = settings.open().map_err(|error| match error {
            sled::Error::Io(io) if io.to_string().contains("could not acquire lock") => {
                StoreError::InUse { path: directory.to_owned() }
            }
            other => broken(other),
        })?;
        let tree = database.open_tree(TREE).map_err(broken)?;
        Ok(Self { database, tree })
    }

    /// Opens a directory that this process has just closed.
    pub(super) fn open_again(directory: &Path, cache_bytes: u64) -> Result<Self, StoreError> {
        for _ in 1..LOCK_TRIES_MAX {
            match Self::open(directory, cache_bytes) {
                Err(StoreError::InUse { .. }) => std::thread::sleep(LOCK_TRY_EVERY),
                opened => return opened,
            }
        }
        Self::open(directory, cache_bytes)
    }

    pub(super) fn apply(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut changes = sled::Batch::default();
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

/// Returns the names of all tables, from the first key of each.
pub(super) fn tables(tree: &sled::Tree) -> Result<BTreeSet<String>, StoreError> {
    // Behind the probe, whose name is empty.
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
        other => io::Error::other(other),
    })
}
