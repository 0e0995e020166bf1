//! State on disk: this file and those below it alone know sled.
//!
//! One tree holds every table, each key behind its table's name, so that sled's atomic batch of one tree is
//! an atomic batch over all tables. `flush` of sled 0.34 is no more than `sync_file_range`: it neither syncs
//! the file's length nor empties the disk's cache. [`Backend::durable`] therefore adds `fdatasync` of sled's
//! log and of the blob files that are new since the last call.
//!
//! A write that fails ends every later write of an opened sled, whatever becomes of the disk, and may end reading, too. Batches
//! are therefore refused before sled sees them where [`Room`] has none for them. Where a write fails all the same, what no flush
//! has proven written was kept in memory: [`Backend::tend`] opens the directory anew and applies those batches again, in their
//! order, so that nothing that was taken is lost. Until then writes fail at once.
//!
//! What sled cannot read when a directory is opened it leaves out without a word: [`HighWater`] tells.

mod high_water;
mod opened;
mod room;

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use parking_lot::RwLock;
use tokio::sync::watch;

pub use self::high_water::HighWater;
use self::high_water::Mark;
use self::opened::Found;
use self::opened::NUMBER_OF_OLD;
use self::opened::Opened;
use self::opened::broken;
use self::opened::damaged;
use self::opened::full_key;
use self::opened::look_for_room;
use self::room::Room;
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
/// The name of the file that is sled's log.
const LOG: &str = "db";
/// How much of it is kept in memory where nobody says.
const CACHE_BYTES: u64 = 32 << 20;
/// How much may be kept in memory that no flush has proven written.
const UNPROVEN_BYTES_MAX: usize = 4 << 20;
/// How long it is waited for those who read; it is tried again after that.
const REOPEN_WAIT_MAX: Duration = Duration::from_secs(1);
/// How often a write is probed after the last batch: sled writes behind, and the first probe may come before.
const PROBES_PER_WRITE: u32 = 2;

struct Sled {
    directory: PathBuf,
    cache_bytes: u64,
    /// `None`: it was closed to be opened anew, and that has failed so far.
    opened: RwLock<Option<Opened>>,
    /// Held while a batch is applied: batches are kept in the order in which they were.
    writes: Mutex<Writes>,
    /// Whether a write has failed since the directory was opened.
    has_failed: AtomicBool,
    /// Whether a batch was refused for want of room, and there is none as yet.
    is_full: AtomicBool,
    /// Whether the last sync failed.
    is_unsynced: AtomicBool,
    synced_blobs: Mutex<BTreeSet<OsString>>,
    /// `None`: nobody asks how far the store had come.
    mark: Option<Mark>,
}

struct Writes {
    /// What was applied and is not proven written.
    unproven: VecDeque<Batch>,
    unproven_bytes: usize,
    /// The number of the last batch that was proven written.
    proven: u64,
    probes_due: u32,
    /// How many probes were written so far.
    probes: u64,
    /// How many bytes the last batch had that there was no room for.
    refused_bytes: usize,
    room: Room,
}

/// Opens the state in a directory, which is made if need be.
///
/// # Errors
/// [`StoreError::InUse`] when another process has it open; [`StoreError::Full`] when there is no room to open it;
/// [`StoreError::Backend`] for everything else.
pub fn open_sled(directory: &Path) -> Result<Store, StoreError> {
    // sled makes its files for everybody to read.
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    let opened = Opened::open(directory, CACHE_BYTES)?;
    let found = Found::of(&opened)?;
    let store = Store::new(Sled::of(directory, CACHE_BYTES, opened, found.last()));
    store.know(found.tables);
    Ok(store)
}

/// Does the same for a store that has a mark, which it is held against; some so many bytes of what was read and written are
/// kept in memory. Where something is missing that was safe once, the store is returned only if an operator said so: then with
/// a number that no revision or the like had reached.
///
/// # Errors
/// As [`open_sled`], and [`StoreError::Lost`].
pub fn open_sled_marked(
    directory: &Path,
    cache_bytes: u64,
    high_water: &HighWater,
) -> Result<(Store, Option<u64>), StoreError> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    let opened = Opened::open(directory, cache_bytes)?;
    let found = Found::of(&opened)?;
    let mark = high_water.number().map_err(failed)?;
    let goes_on = high_water.is_loss_accepted();
    if found.lacks(mark, high_water.has_history()) && !goes_on {
        let missing = mark.map(|mark| mark.saturating_sub(found.number.unwrap_or(0)));
        let (path, acceptance) = (directory.to_owned(), high_water.acceptance());
        let lost = StoreError::Lost { path, missing, acceptance };
        high_water.note_finding(&lost.to_string());
        return Err(lost);
    }
    // Where nothing tells how far it had come, it had come no farther than a store without numbers.
    let last = found.last().max(mark.unwrap_or(if goes_on { NUMBER_OF_OLD } else { 0 }));
    let marked = Some(Mark::open(high_water, mark).map_err(failed)?);
    let sled = Sled { mark: marked, ..Sled::of(directory, cache_bytes, opened, last) };
    if goes_on || found.number.is_none() {
        // From here on it has a number that fits its mark.
        sled.apply(&Batch::default())?;
    }
    sled.durable()?;
    high_water.forget_finding().map_err(failed)?;
    let store = Store::new(sled);
    store.know(found.tables);
    Ok((store, goes_on.then_some(last)))
}

impl Writes {
    /// Behind the last batch, by its number.
    fn behind(last: u64, directory: &Path) -> Self {
        Self {
            unproven: VecDeque::new(),
            unproven_bytes: 0,
            proven: last,
            probes_due: 0,
            probes: 0,
            refused_bytes: 0,
            room: Room::of(directory),
        }
    }

    /// Keeps a batch that was applied; tells whether there are so many that they have to be proven.
    fn keep(&mut self, batch: &Batch) -> bool {
        self.unproven_bytes += batch.bytes();
        self.unproven.push_back(batch.clone());
        self.probes_due = PROBES_PER_WRITE;
        self.unproven_bytes > UNPROVEN_BYTES_MAX
    }

    /// Returns the number of the last batch that was applied.
    fn last(&self) -> u64 {
        self.proven + self.unproven.len() as u64
    }

    /// Lets go of all batches up to a number.
    fn prove(&mut self, up_to: u64) {
        while self.proven < up_to
            && let Some(batch) = self.unproven.pop_front()
        {
            self.unproven_bytes -= batch.bytes();
            self.proven += 1;
        }
    }
}

impl Sled {
    fn of(directory: &Path, cache_bytes: u64, opened: Opened, last: u64) -> Self {
        Self {
            directory: directory.to_owned(),
            cache_bytes,
            opened: RwLock::new(Some(opened)),
            writes: Mutex::new(Writes::behind(last, directory)),
            has_failed: AtomicBool::default(),
            is_full: AtomicBool::default(),
            is_unsynced: AtomicBool::default(),
            synced_blobs: Mutex::default(),
            mark: None,
        }
    }

    fn with<T>(&self, act: impl FnOnce(&Opened) -> Result<T, StoreError>) -> Result<T, StoreError> {
        // Whoever is shown an entry may ask for another, while the directory waits to be opened anew.
        match &*self.opened.read_recursive() {
            Some(opened) => act(opened),
            None => Err(StoreError::Away { backend: NAME }),
        }
    }

    /// Waits until all batches so far are in sled's log, and returns the number of the last. Not under the lock of writes:
    /// while sled has failed, only the next write wakes who waits for a flush.
    fn flush(&self) -> Result<u64, StoreError> {
        let last = self.writes.lock().last();
        let flushed = self.with(|opened| opened.database.flush().map_err(broken));
        match &flushed {
            Ok(_) => self.writes.lock().prove(last),
            Err(_) => self.has_failed.store(true, Ordering::Release),
        }
        flushed.map(|_| last)
    }

    /// Finds out whether the disk takes what was written behind.
    fn probe(&self) -> Result<(), StoreError> {
        let mut writes = self.writes.lock();
        if writes.probes_due == 0 || self.has_failed.load(Ordering::Acquire) {
            return Ok(());
        }
        writes.probes_due -= 1;
        writes.probes += 1;
        let probed = self.with(|opened| opened.probe(writes.probes));
        self.has_failed.fetch_or(probed.is_err(), Ordering::AcqRel);
        probed
    }

    /// Makes sure that there is room for a batch of so many bytes.
    fn keep_room(&self, writes: &mut Writes, bytes: usize) -> Result<(), StoreError> {
        writes.room.keep(bytes as u64).map_err(|error| {
            writes.refused_bytes = bytes;
            self.is_full.store(true, Ordering::Release);
            failed(error)
        })
    }

    /// Finds out whether there is room again for what was refused last.
    fn make_room(&self) -> Result<(), StoreError> {
        let mut writes = self.writes.lock();
        let refused = writes.refused_bytes;
        self.keep_room(&mut writes, refused)?;
        self.is_full.store(false, Ordering::Release);
        Ok(())
    }

    /// Opens the directory anew, and applies what was not proven written.
    fn reopen(&self) -> Result<(), StoreError> {
        look_for_room(&self.directory)?;
        // Wakes those who wait for a flush that never comes.
        let _ = self.with(|opened| opened.probe(u64::MAX));
        let busy = || failed(io::ErrorKind::ResourceBusy.into());
        let mut opened = self.opened.try_write_for(REOPEN_WAIT_MAX).ok_or_else(busy)?;
        let mut writes = self.writes.try_lock_for(REOPEN_WAIT_MAX).ok_or_else(busy)?;
        drop(opened.take());
        let anew = Opened::open(&self.directory, self.cache_bytes)?;
        if let Some(mark) = &self.mark
            && anew.number()?.unwrap_or(0) < mark.number()
        {
            return Err(damaged());
        }
        let mut numbered = writes.unproven.iter().zip(writes.proven.saturating_add(1)..);
        let again = numbered.try_for_each(|(batch, number)| anew.apply(batch, number));
        *opened = Some(anew);
        again?;
        self.has_failed.store(false, Ordering::Release);
        writes.probes_due = PROBES_PER_WRITE;
        writes.room = Room::of(&self.directory);
        Ok(())
    }

    fn sync(&self) -> Result<(), StoreError> {
        let last = self.flush()?;
        let log = File::open(self.directory.join(LOG)).map_err(failed)?;
        log.sync_data().map_err(failed)?;
        self.sync_blobs().map_err(failed)?;
        self.mark.as_ref().map_or(Ok(()), |mark| mark.note(last)).map_err(failed)
    }

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
        let value = self.with(|opened| opened.tree.get(full_key(table, key)).map_err(broken))?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn apply(&self, batch: &Batch) -> Result<(), StoreError> {
        let must_prove = {
            let mut writes = self.writes.lock();
            if self.has_failed.load(Ordering::Acquire) {
                return Err(StoreError::Away { backend: NAME });
            }
            self.keep_room(&mut writes, batch.bytes())?;
            let number = writes.last().saturating_add(1);
            let applied = self.with(|opened| opened.apply(batch, number));
            self.has_failed.fetch_or(applied.is_err(), Ordering::AcqRel);
            applied?;
            writes.keep(batch)
        };
        if must_prove {
            // The batch is applied all the same, and is kept where the flush fails.
            let _ = self.flush();
        }
        Ok(())
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
        let step = |entries: &mut sled::Iter| match order {
            Order::Ascending => entries.next(),
            Order::Descending => entries.next_back(),
        };
        self.with(|opened| {
            let mut entries = opened.tree.range(start..end);
            while let Some(entry) = step(&mut entries) {
                let (key, value) = entry.map_err(broken)?;
                let key = key.get(prefix.len()..).unwrap_or_default();
                if visit(key, &value) == ControlFlow::Break(()) {
                    break;
                }
            }
            Ok(())
        })
    }

    fn durable(&self) -> Result<(), StoreError> {
        let synced = self.sync();
        self.is_unsynced.store(synced.is_err(), Ordering::Release);
        synced
    }

    fn size_bytes(&self) -> Result<u64, StoreError> {
        self.with(|opened| opened.database.size_on_disk().map_err(broken))
    }

    fn is_sound(&self) -> bool {
        let troubles = [&self.has_failed, &self.is_full, &self.is_unsynced];
        !troubles.iter().any(|trouble| trouble.load(Ordering::Acquire))
    }

    fn tend(&self) -> Result<(), StoreError> {
        let probed = self.probe();
        if self.has_failed.load(Ordering::Acquire) {
            return self.reopen();
        }
        probed?;
        if self.is_full.load(Ordering::Acquire) {
            self.make_room()?;
        }
        if self.is_unsynced.load(Ordering::Acquire) {
            self.durable()?;
        }
        if let Some(mark) = &self.mark {
            mark.settle();
        }
        Ok(())
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

fn failed(source: io::Error) -> StoreError {
    StoreError::Backend { backend: NAME, source }
}

#[cfg(test)]
mod tests;
