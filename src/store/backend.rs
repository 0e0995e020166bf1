//! The seam: ordered bytes in named tables.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::hash::RandomState;
use std::ops::ControlFlow;

use tokio::sync::watch;

use super::KEY_BYTES_MAX;
use super::StoreError;
use super::VALUE_BYTES_MAX;
use super::archive::Archive;

/// What a scan shows each key and value to.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// Keeps ordered bytes in named tables. All calls may block on the disk.
pub trait Backend: Send + Sync + 'static {
    /// Returns the name shown to operators.
    fn name(&self) -> &'static str;

    /// Returns the value under a key.
    ///
    /// # Errors
    /// When the value cannot be read.
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Writes every change of a batch, over all its tables, or none of them.
    ///
    /// # Errors
    /// When nothing was written: [`StoreError::Conflict`] where a table is not at the version that the batch
    /// [expects](Batch::expect).
    fn apply(&self, batch: &Batch) -> Result<(), StoreError>;

    /// Shows the entries of a range in key order, either way, until `visit` breaks.
    ///
    /// # Errors
    /// When an entry cannot be read.
    fn scan(
        &self,
        table: &str,
        range: &KeyRange,
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError>;

    /// Comes back once all that was applied before the call would survive a power cut.
    ///
    /// # Errors
    /// When that cannot be promised.
    fn durable(&self) -> Result<(), StoreError>;

    /// Tells whether what is written arrives, as far as is known.
    fn is_sound(&self) -> bool {
        true
    }

    /// Finds out whether what is written arrives, and mends what can be mended; to be called every now and then. Nothing that
    /// was applied is lost by it.
    ///
    /// # Errors
    /// Why what is written does not arrive, for now.
    fn tend(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns the size of everything kept, in bytes.
    ///
    /// # Errors
    /// When the size cannot be found out.
    fn size_bytes(&self) -> Result<u64, StoreError>;

    /// Tells whether other processes may write, too: only then do tables have versions.
    fn is_shared(&self) -> bool;

    /// Returns the version of every table that was ever written: a number that rises by one with every batch.
    ///
    /// # Errors
    /// When they cannot be read.
    fn versions(&self) -> Result<BTreeMap<String, u64>, StoreError>;

    /// Returns the version of every table that was ever written, and its stamp.
    ///
    /// # Errors
    /// When they cannot be read.
    fn marks(&self) -> Result<BTreeMap<String, Mark>, StoreError> {
        let versions = self.versions()?;
        Ok(versions.into_iter().map(|(table, version)| (table, Mark { version, stamp: 0 })).collect())
    }

    /// Returns what became of a table since one of its versions; 0 asks for all of it.
    ///
    /// # Errors
    /// When that cannot be read.
    fn changes(&self, table: &str, after: u64) -> Result<Changes, StoreError>;

    /// Returns what is told when another process may have written something; `None`: nobody tells.
    fn told(&self) -> Option<watch::Receiver<u64>>;

    /// Returns where nodes keep what each of them wrote; `None`: there is one node.
    fn archive(&self) -> Option<Archive>;

    /// Forgets deletions that are long ago; who has not seen them by then reads whole tables.
    ///
    /// # Errors
    /// When the backend fails.
    fn forget_deletions(&self) -> Result<(), StoreError>;
}

/// What became of a table since one of its versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Keys and what they have now; `None`: they were deleted.
    pub entries: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// The version that the table is at with them.
    pub version: u64,
    /// The stamp of that version.
    pub stamp: i64,
    /// Whether the entries are the whole table, because what was deleted is not known that far back.
    pub is_whole: bool,
}

/// Where a table is. A database that lost its last commits may come to the same version by another way: the stamp, which
/// each batch brings, tells the two apart. An earlier release leaves the stamp of the version before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The version.
    pub version: u64,
    /// Its stamp.
    pub stamp: i64,
}

impl Mark {
    /// Tells whether the table cannot have come from here to another mark: some of what was written was lost.
    pub fn is_lost_at(self, now: Self) -> bool {
        now.version < self.version || (now.version == self.version && now.stamp != self.stamp)
    }
}

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Smallest key first.
    Ascending,
    /// Largest key first.
    Descending,
}

/// Keys from `start` (included) up to `end` (excluded; `None` is the end of the table).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRange {
    /// The smallest key of the range.
    pub start: Vec<u8>,
    /// The first key past the range.
    pub end: Option<Vec<u8>>,
}

/// Changes that belong together; a later change of a key replaces an earlier one.
#[derive(Clone, Debug)]
pub struct Batch {
    changes: Vec<Change>,
    expected: BTreeMap<String, u64>,
    is_quiet: bool,
    stamp: i64,
}

/// One change: a value to put, or none to delete the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The table.
    pub table: String,
    /// The key within the table.
    pub key: Vec<u8>,
    /// The new value; `None` deletes.
    pub value: Option<Vec<u8>>,
}

impl KeyRange {
    /// Returns the range of the whole table.
    pub fn all() -> Self {
        Self::default()
    }

    /// Returns the range of all keys that begin with `prefix`.
    pub fn prefix(prefix: &[u8]) -> Self {
        let mut end = prefix.to_vec();
        while let Some(last) = end.pop() {
            if last < u8::MAX {
                end.push(last + 1);
                return Self { start: prefix.to_vec(), end: Some(end) };
            }
        }
        Self { start: prefix.to_vec(), end: None }
    }

    /// Tells whether no key can be in the range.
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }
}

impl Default for Batch {
    fn default() -> Self {
        // As much of chance as a map's order has: it is no secret.
        let stamp = RandomState::new().hash_one(()) as i64;
        Self { changes: Vec::new(), expected: BTreeMap::new(), is_quiet: false, stamp }
    }
}

impl Batch {
    /// Adds a value to put.
    pub fn put(&mut self, table: &str, key: Vec<u8>, value: Vec<u8>) {
        self.changes.push(Change { table: table.to_owned(), key, value: Some(value) });
    }

    /// Adds a key to delete; it need not exist.
    pub fn delete(&mut self, table: &str, key: Vec<u8>) {
        self.changes.push(Change { table: table.to_owned(), key, value: None });
    }

    /// Lets the batch be written only if a table is still at a version, so that what was decided by what the
    /// table held is still right. Means nothing where nobody else writes.
    pub fn expect(&mut self, table: &str, version: u64) {
        self.expected.insert(table.to_owned(), version);
    }

    /// Lets other nodes find the batch when they look, without a word to them: for what is written all the time.
    pub fn quietly(&mut self) {
        self.is_quiet = true;
    }

    /// Tells whether other nodes need no word of the batch.
    pub fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Returns what tells the versions that it makes from others of the same numbers.
    pub fn stamp(&self) -> i64 {
        self.stamp
    }

    /// Returns the versions that tables are expected to have.
    pub fn expected(&self) -> &BTreeMap<String, u64> {
        &self.expected
    }

    /// Returns the changes in the order they were added.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Returns the tables that are changed, each once, in order.
    pub fn tables(&self) -> BTreeSet<&str> {
        self.changes.iter().map(|change| change.table.as_str()).collect()
    }

    /// Tells whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Returns what it takes in memory, in bytes: small changes are mostly what surrounds them.
    pub(super) fn bytes(&self) -> usize {
        let of = |change: &Change| {
            let within = change.table.len() + change.key.len() + change.value.as_ref().map_or(0, Vec::len);
            within + size_of::<Change>()
        };
        size_of::<Self>() + self.changes.iter().map(of).sum::<usize>()
    }

    pub(super) fn check(&self) -> Result<(), StoreError> {
        let fits = |change: &Change| {
            change.key.len() <= KEY_BYTES_MAX
                && change.value.as_ref().is_none_or(|value| value.len() <= VALUE_BYTES_MAX)
        };
        match self.changes.iter().find(|change| !fits(change)) {
            Some(change) => Err(StoreError::TooLarge { table: change.table.clone() }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next_one() {
        assert_eq!(KeyRange::prefix(b"ab").end, Some(b"ac".to_vec()));
        assert_eq!(KeyRange::prefix(&[b'a', 255]).end, Some(b"b".to_vec()));
        assert_eq!(KeyRange::prefix(&[255, 255]).end, None);
        assert!(!KeyRange::prefix(b"").is_empty());
    }

    #[test]
    fn what_is_past_its_limit_is_refused() {
        let mut batch = Batch::default();
        batch.put("t", vec![0; KEY_BYTES_MAX], vec![]);
        assert!(batch.check().is_ok());
        batch.put("t", vec![0; KEY_BYTES_MAX + 1], vec![]);
        assert!(matches!(batch.check(), Err(StoreError::TooLarge { table }) if table == "t"));
    }
}
