//! State on disk: the only file that knows sled.
//!
//! One tree holds every table, each key behind its table's name, so that sled's atomic batch of one tree is
//! an atomic batch over all tables. `flush` of sled 0.34 is no more than `sync_file_range`: it neither syncs
//! the file's length nor empties the disk's cache. [`Backend::durable`] therefore adds `fdatasync` of sled's
//! log and of the blob files that are new since the last call.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::path::PathBuf;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::Backend;
use super::Batch;
use super::Changes;
use super::KeyRange;
use super::Order;
use super::Store;
use super::StoreError;
use super::Visit;
use super::archive::Archive;

const NAME: &str = "sled";
const TREE: &str = "tables";
const CACHE_BYTES: u64 = 32 << 20;
const FLUSH_EVERY_MS: u64 = 500;

struct Sled {
    database: sled::Db,
    tree: sled::Tree,
    directory: PathBuf,
    synced_blobs: Mutex<BTreeSet<OsString>>,
}

/// Opens the state in a directory, which is made if need be.
///
/// # Errors
/// [`StoreError::InUse`] when another process has it open; [`StoreError::Backend`] for everything else.
pub fn open_sled(directory: &Path) -> Result<Store, StoreError> {
    // sled makes its files for everybody to read.
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    let settings =
        sled::Config::new().path(directory).cache_capacity(CACHE_BYTES).flush_every_ms(Some(FLUSH_EVERY_MS));
    let database = settings.open().map_err(|error| match error {
        sled::Error::Io(io) if io.to_string().contains("could not acquire lock") => {
            StoreError::InUse { path: directory.to_owned() }
        }
        other => broken(other),
    })?;
    let tree = database.open_tree(TREE).map_err(broken)?;
    let directory = directory.to_owned();
    let tables = tables(&tree)?;
    let store = Store::new(Sled { database, tree, directory, synced_blobs: Mutex::default() });
    store.know(tables);
    Ok(store)
}

/// Returns the names of all tables, from the first key of each.
fn tables(tree: &sled::Tree) -> Result<BTreeSet<String>, StoreError> {
    let (mut names, mut from) = (BTreeSet::new(), Vec::new());
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

impl Sled {
    fn sync_blobs(&self) -> io::Result<()> {
        let folder = self.directory.join("blobs");
        if !folder.is_dir() {
            return Ok(());
        }
        let mut synced = self.synced_blobs.lock();
        let mut present = BTreeSet::new();
        for entry in std::fs::read_dir(&folder)? {
            present.insert(entry?.file_name());
        }
        for name in present.difference(&synced) {
            match File::open(folder.join(name)) {
                Ok(blob) => blob.sync_data()?,
                // Collected by sled in the meantime.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        if present != *synced {
            File::open(&folder)?.sync_all()?;
        }
        *synced = present;
        Ok(())
    }
}

impl Backend for Sled {
    fn name(&self) -> &'static str {
        NAME
    }

    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.tree.get(full_key(table, key)).map_err(broken)?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn apply(&self, batch: &Batch) -> Result<(), StoreError> {
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

    fn scan(
        &self,
        table: &str,
        range: &KeyRange,
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        if range.is_empty() {
            return Ok(());
        }
        let prefix = full_key(table, &[]);
        let start = full_key(table, &range.start);
        let end = match &range.end {
            Some(end) => full_key(table, end),
            None => KeyRange::prefix(&prefix).end.unwrap_or_default(),
        };
        let mut entries = self.tree.range(start..end);
        let step = |entries: &mut sled::Iter| match order {
            Order::Ascending => entries.next(),
            Order::Descending => entries.next_back(),
        };
        while let Some(entry) = step(&mut entries) {
            let (key, value) = entry.map_err(broken)?;
            let key = key.get(prefix.len()..).unwrap_or_default();
            if visit(key, &value) == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
    }

    fn durable(&self) -> Result<(), StoreError> {
        self.database.flush().map_err(broken)?;
        let log = File::open(self.directory.join("db")).map_err(failed)?;
        log.sync_data().map_err(failed)?;
        self.sync_blobs().map_err(failed)
    }

    fn size_bytes(&self) -> Result<u64, StoreError> {
        self.database.size_on_disk().map_err(broken)
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn versions(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        Ok(BTreeMap::new())
    }

    fn changes(&self, table: &str, after: u64) -> Result<Changes, StoreError> {
        let mut changes = Changes { is_whole: after == 0, ..Changes::default() };
        if changes.is_whole {
            self.scan(table, &KeyRange::all(), Order::Ascending, &mut |key, value| {
                changes.entries.push((key.to_vec(), Some(value.to_vec())));
                ControlFlow::Continue(())
            })?;
        }
        Ok(changes)
    }

    fn told(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    fn archive(&self) -> Option<Archive> {
        None
    }

    fn forget_deletions(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Returns a key behind its table's name; the NUL keeps `a` apart from `ab`.
fn full_key(table: &str, key: &[u8]) -> Vec<u8> {
    [table.as_bytes(), &[0], key].concat()
}

fn failed(source: io::Error) -> StoreError {
    StoreError::Backend { backend: NAME, source }
}

fn broken(error: sled::Error) -> StoreError {
    failed(match error {
        sled::Error::Io(io) => io,
        other => io::Error::other(other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_opening_is_told_why_it_fails() {
        let folder = tempfile::tempdir().unwrap();
        let _first = open_sled(folder.path()).unwrap();
        let Err(second) = open_sled(folder.path()) else { panic!("both opened") };
        assert!(matches!(&second, StoreError::InUse { path } if path == folder.path()), "{second:?}");
    }

    #[test]
    fn durable_writes_are_there_after_reopening() {
        let folder = tempfile::tempdir().unwrap();
        let mut batch = Batch::default();
        batch.put("t", b"small".to_vec(), b"1".to_vec());
        batch.put("t", b"large".to_vec(), vec![7; 1 << 20]);
        {
            let store = open_sled(folder.path()).unwrap();
            store.commit_durable(&batch).unwrap();
            assert!(store.size_bytes().unwrap() > 0);
        }
        let store = open_sled(folder.path()).unwrap();
        assert_eq!(store.get("t", b"small").unwrap(), Some(b"1".to_vec()));
        assert_eq!(store.get("t", b"large").unwrap(), Some(vec![7; 1 << 20]));
    }
}
