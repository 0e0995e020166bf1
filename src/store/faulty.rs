//! A backend of tests, whose reads and writes end as the test wants.

use std::collections::BTreeMap;

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

/// A store in front of which something else decides what becomes of a read or a write.
pub(crate) struct Faulty<R, W> {
    /// What is read, and written to if at all.
    pub(crate) store: Store,
    /// Whether it can be read.
    pub(crate) read: R,
    /// Makes a write, or does not.
    pub(crate) write: W,
    /// Whether it counts as one that several nodes share.
    pub(crate) is_shared: bool,
}

impl<R, W> Backend for Faulty<R, W>
where
    R: Fn() -> Result<(), StoreError> + Send + Sync + 'static,
    W: Fn(&Store, &Batch) -> Result<(), StoreError> + Send + Sync + 'static,
{
    fn name(&self) -> &'static str {
        "faulty"
    }

    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        (self.read)()?;
        self.store.get(table, key)
    }

    fn apply(&self, batch: &Batch) -> Result<(), StoreError> {
        (self.write)(&self.store, batch)
    }

    fn scan(
        &self,
        table: &str,
        range: &KeyRange,
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        (self.read)()?;
        self.store.scan(table, range, order, visit)
    }

    fn durable(&self) -> Result<(), StoreError> {
        self.store.durable()
    }

    fn size_bytes(&self) -> Result<u64, StoreError> {
        self.store.size_bytes()
    }

    fn is_shared(&self) -> bool {
        self.is_shared
    }

    fn versions(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        self.store.versions()
    }

    fn changes(&self, table: &str, after: u64) -> Result<Changes, StoreError> {
        self.store.changes(table, after)
    }

    fn told(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    fn archive(&self) -> Option<Archive> {
        None
    }

    fn forget_deletions(&self) -> Result<(), StoreError> {
        self.store.forget_deletions()
    }
}
