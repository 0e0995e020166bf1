//! State on disk, behind one seam.
//!
//! In: typed records under typed keys ([`Table`]). Out: the same records, in key order. Below the tables
//! lies a [`Backend`]: ordered bytes in named tables, with batches that are written whole or not at all.
//! There are three: [`open_sled`] on disk, [`open_postgres`] for deployments that share a database, and
//! [`Store::in_memory`] for tests and for gateways that forget all but what the audit log needs; one conformance suite is
//! run against all of them.
//!
//! Where several processes write, each table has a version, which rises with every batch. What a process
//! decides by what it read it writes with the version it read ([`Batch::expect`]), and begins anew when that
//! is [no longer the table's](StoreError::Conflict); what it keeps in memory follows by a
//! [`Followed`].
//!
//! An ordinary write survives the death of the process once the backend's next flush is over; a write that
//! must survive a power cut is made with the `_durable` calls, which come back after `fdatasync`. Callers
//! that wait at the same time share one sync.
//!
//! Where what is written does not arrive any more, on a full disk say, [`Store::is_sound`] says so and writes fail, until
//! [`Store::run`] has mended that; what was taken before is not lost by it.
//!
//! What was safe and is there no more, because a disk changed it or somebody removed it, [`open_sled_marked`] tells.
//!
//! The audit log does not live here, only what can be rebuilt from it: see [`crate::govern::audit`].

pub mod archive;
mod backend;
pub mod backup;
pub mod config;
#[cfg(test)]
pub(crate) mod conformance;
#[cfg(test)]
pub(crate) mod faulty;
#[cfg(test)]
pub(crate) mod fixture;
mod followed;
mod group;
mod key;
mod memory;
mod postgres;
mod sled;
mod table;

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use parking_lot::RwLock;
use tokio::sync::watch;

use self::archive::Archive;
pub use self::backend::Backend;
pub use self::backend::Batch;
pub use self::backend::Change;
pub use self::backend::Changes;
pub use self::backend::KeyRange;
pub use self::backend::Mark;
pub use self::backend::Order;
pub use self::backend::Visit;
pub use self::followed::Followed;
pub use self::followed::Fresh;
pub use self::key::Key;
pub use self::key::prefix_range;
pub use self::postgres::PostgresFacts;
pub use self::postgres::PostgresFault;
pub use self::postgres::ask_postgres;
pub use self::postgres::open_postgres;
pub use self::sled::HighWater;
pub use self::sled::open_sled;
pub use self::sled::open_sled_marked;
pub use self::table::Record;
pub use self::table::Table;
pub use self::table::TableChanges;

/// The largest value that may be stored, in bytes.
pub const VALUE_BYTES_MAX: usize = 8 << 20;
/// The longest key that may be stored, in bytes.
pub const KEY_BYTES_MAX: usize = 1024;
/// How often it is looked whether what is written arrives.
const TEND_EVERY: Duration = Duration::from_secs(1);

/// Why state could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process owns the directory: stop it, or name another directory.
    #[error("the state in {} is in use by another process", path.display())]
    InUse {
        /// The directory that was to be opened.
        path: PathBuf,
    },
    /// What was safe on the disk is there no more: restore a backup, or say that what is left will do.
    #[error(
        "the state in {} has lost {}: restore a backup (portcullis restore); or make an empty file {} to go on with what is \
         left, once, and to lose the rest for good", path.display(), Lost(*missing), acceptance.display()
    )]
    Lost {
        /// The directory that was opened.
        path: PathBuf,
        /// How many of the last batches are missing; `None`: as many as there were.
        missing: Option<u64>,
        /// The file that says that what is left will do.
        acceptance: PathBuf,
    },
    /// There is no room to open the directory, which was left as it is: make room.
    #[error(
        "the state in {} was not opened, and left as it is: its disk has {} KiB free, and opening takes up to {} KiB: make \
         room", path.display(), free_bytes >> 10, needed_bytes >> 10
    )]
    Full {
        /// The directory that was to be opened.
        path: PathBuf,
        /// How much is free.
        free_bytes: u64,
        /// How much has to be.
        needed_bytes: u64,
    },
    /// The backend failed to read or write.
    #[error("the {backend} store failed: {source}")]
    Backend {
        /// The name of the backend.
        backend: &'static str,
        /// What it said.
        source: std::io::Error,
    },
    /// A stored record cannot be read: it is damaged, or newer than this program.
    #[error("a record of table {table} is version {version}, which this program cannot read")]
    UnreadableRecord {
        /// The table the record is in.
        table: &'static str,
        /// The version the record claims; 0 when not even that can be read.
        version: u32,
    },
    /// A record cannot be expressed in its stored form.
    #[error("a record for table {table} cannot be written")]
    UnwritableRecord {
        /// The table the record was meant for.
        table: &'static str,
        /// Why not.
        source: serde_json::Error,
    },
    /// A key or a value is past its limit.
    #[error("an entry for table {table} is too large")]
    TooLarge {
        /// The table the entry was meant for.
        table: String,
    },
    /// Another process wrote first; nothing was written. Read again, and decide anew.
    #[error("another node changed the same state first")]
    Conflict,
    /// The database does not answer, or has too many calls waiting already.
    #[error("the {backend} store is away")]
    Away {
        /// The name of the backend.
        backend: &'static str,
    },
    /// The sync that should have made the write safe failed; the write may be lost with the power.
    #[error("a write could not be made durable")]
    NotDurable,
}

/// Says how much is lost.
struct Lost(Option<u64>);

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(batches) => write!(f, "its last {batches} changes, which were safe on the disk"),
            None => {
                f.write_str("all that was safe on the disk: it is new, and the audit log beside it is not")
            }
        }
    }
}

/// A handle on all state; cheap to clone.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    backend: Box<dyn Backend>,
    /// How often it was found that what had been written was lost.
    losses: AtomicU64,
    /// Held exclusively while all tables are read as of one moment, and shared by every write.
    moment: RwLock<()>,
    /// The names of all tables that were found, asked for, or written to.
    tables: Mutex<BTreeSet<String>>,
    sync: group::GroupSync,
}

impl Store {
    /// Returns a store on the given backend.
    pub fn new(backend: impl Backend) -> Self {
        let shared = Shared {
            backend: Box::new(backend),
            losses: AtomicU64::new(0),
            moment: RwLock::default(),
            tables: Mutex::default(),
            sync: group::GroupSync::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns a store that forgets everything when it is dropped.
    pub fn in_memory() -> Self {
        Self::new(memory::Memory::default())
    }

    /// Returns the typed table of the given name.
    pub fn table<K: Key, V: Record>(&self, name: &'static str) -> Table<K, V> {
        self.shared.tables.lock().insert(name.to_owned());
        Table::new(self.clone(), name)
    }

    /// Calls `read` with the names of all tables, while nobody writes through this handle or its clones.
    pub fn at_one_moment<T>(&self, read: impl FnOnce(&BTreeSet<String>) -> T) -> T {
        let _nobody_else = self.shared.moment.write();
        let tables = self.shared.tables.lock().clone();
        read(&tables)
    }

    /// Notes tables that were found.
    fn know(&self, tables: BTreeSet<String>) {
        self.shared.tables.lock().extend(tables);
    }

    /// Writes a batch, whole or not at all.
    ///
    /// # Errors
    /// When a key or value is past its limit or the backend fails; then nothing was written.
    pub fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        batch.check()?;
        let _writing = self.shared.moment.read();
        self.note_written(batch);
        self.shared.backend.apply(batch)
    }

    /// Notes the tables of a batch: what is written belongs to a backup, whether or not anybody asked for its table.
    fn note_written(&self, batch: &Batch) {
        let mut known = self.shared.tables.lock();
        for table in batch.tables() {
            if !known.contains(table) {
                known.insert(table.to_owned());
            }
        }
    }

    /// Writes a batch and comes back once it would survive a power cut. Blocks for a disk sync.
    ///
    /// # Errors
    /// As [`Store::commit`], and when the sync fails.
    pub fn commit_durable(&self, batch: &Batch) -> Result<(), StoreError> {
        self.commit(batch)?;
        self.durable()
    }

    /// Comes back once everything written before the call would survive a power cut.
    ///
    /// # Errors
    /// When the sync fails.
    pub fn durable(&self) -> Result<(), StoreError> {
        self.shared.sync.sync(|| {
            self.shared.backend.durable().inspect_err(|error| {
                tracing::error!(backend = self.backend_name(), %error, "what was written may not be safe");
            })
        })
    }

    /// Tells whether what is written arrives, as far as is known. Does not block on the disk.
    pub fn is_sound(&self) -> bool {
        self.shared.backend.is_sound()
    }

    /// Looks every second whether what is written arrives, and mends what can be mended, until `shutdown` resolves.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        tokio::pin!(shutdown);
        let mut was_sound = true;
        loop {
            tokio::select! {
                () = &mut shutdown => return,
                () = tokio::time::sleep(TEND_EVERY) => {}
            }
            let store = self.clone();
            let tended = tokio::task::spawn_blocking(move || store.shared.backend.tend()).await;
            let backend = self.backend_name();
            match tended {
                Ok(Ok(())) if !was_sound => tracing::warn!(backend, "the store is written to again"),
                Ok(Err(error)) if was_sound => {
                    tracing::error!(backend, %error, "the store cannot be written to");
                }
                Ok(_) => {}
                Err(_) => tracing::error!(backend, "looking after the store panicked"),
            }
            was_sound = self.is_sound();
        }
    }

    /// Returns the value under a key.
    ///
    /// # Errors
    /// When the backend fails.
    pub fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.shared.backend.get(table, key)
    }

    /// Shows the entries of a range to `visit`, in order, until it says stop.
    ///
    /// # Errors
    /// When the backend fails.
    pub fn scan(
        &self,
        table: &str,
        range: &KeyRange,
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        self.shared.backend.scan(table, range, order, visit)
    }

    /// Tells whether other processes may write to the same tables.
    pub fn is_shared(&self) -> bool {
        self.shared.backend.is_shared()
    }

    /// Returns the version of every table that was ever written; nothing where nobody else writes.
    ///
    /// # Errors
    /// When the backend fails.
    pub fn versions(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        self.shared.backend.versions()
    }

    /// Returns the version of every table that was ever written, and its stamp; nothing where nobody else writes.
    ///
    /// # Errors
    /// When the backend fails.
    pub fn marks(&self) -> Result<BTreeMap<String, Mark>, StoreError> {
        self.shared.backend.marks()
    }

    /// Lets everything that was read of tables count no more: some of what was written was lost.
    pub fn note_loss(&self) {
        self.shared.losses.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns how often that was so.
    pub fn losses(&self) -> u64 {
        self.shared.losses.load(Ordering::Acquire)
    }

    /// Returns what became of a table since one of its versions; 0 asks for all of it.
    ///
    /// # Errors
    /// When the backend fails.
    pub fn changes(&self, table: &str, after: u64) -> Result<Changes, StoreError> {
        self.shared.backend.changes(table, after)
    }

    /// Returns what changes whenever another process may have written something; `None`: nobody tells.
    pub fn told(&self) -> Option<watch::Receiver<u64>> {
        self.shared.backend.told()
    }

    /// Forgets deletions that are long ago; one node does it, from time to time.
    ///
    /// # Errors
    /// When the backend fails.
    pub fn forget_deletions(&self) -> Result<(), StoreError> {
        self.shared.backend.forget_deletions()
    }

    /// Returns what the state takes on disk, in bytes; what it takes in memory where there is no disk.
    ///
    /// # Errors
    /// When the backend fails.
    pub fn size_bytes(&self) -> Result<u64, StoreError> {
        self.shared.backend.size_bytes()
    }

    /// Returns where nodes keep what each of them wrote for itself; `None`: nobody else writes here.
    pub fn archive(&self) -> Option<Archive> {
        self.shared.backend.archive()
    }

    /// Returns the name of the backend, as shown to operators.
    pub fn backend_name(&self) -> &'static str {
        self.shared.backend.name()
    }
}
