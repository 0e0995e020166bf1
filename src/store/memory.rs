//! State in memory: gone with the process.
//!
//! Keeps versions as a shared backend does, so that what follows other nodes can be tried in one process.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::ops::ControlFlow;

use parking_lot::RwLock;
use tokio::sync::watch;

use super::Backend;
use super::Batch;
use super::Changes;
use super::KeyRange;
use super::Mark;
use super::Order;
use super::StoreError;
use super::Visit;
use super::archive::Archive;

/// How many entries a scan copies at a time, so that `visit` runs without the lock.
const PAGE: usize = 256;
/// How many deletions of a table are remembered.
const DELETED_MAX: usize = 4096;

/// One table.
#[derive(Default)]
struct Entries {
    kept: BTreeMap<Vec<u8>, (Vec<u8>, u64)>,
    deleted: BTreeMap<Vec<u8>, u64>,
    version: u64,
    stamp: i64,
    /// Up to which version deletions were forgotten.
    floor: u64,
}

/// Ordered maps behind one lock.
pub(super) struct Memory {
    tables: RwLock<BTreeMap<String, Entries>>,
    told: watch::Sender<u64>,
}

impl Default for Memory {
    fn default() -> Self {
        Self { tables: RwLock::default(), told: watch::Sender::new(0) }
    }
}

impl Memory {
    fn page(&self, table: &str, range: &KeyRange, order: Order) -> Vec<(Vec<u8>, Vec<u8>)> {
        if range.is_empty() {
            return Vec::new();
        }
        let tables = self.tables.read();
        let Some(entries) = tables.get(table) else { return Vec::new() };
        let end = range.end.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let found = entries.kept.range::<Vec<u8>, _>((Bound::Included(&range.start), end));
        let copy = |(key, (value, _)): (&Vec<u8>, &(Vec<u8>, u64))| (key.clone(), value.clone());
        match order {
            Order::Ascending => found.take(PAGE).map(copy).collect(),
            Order::Descending => found.rev().take(PAGE).map(copy).collect(),
        }
    }
}

impl Entries {
    fn change(&mut self, key: &[u8], value: Option<&Vec<u8>>) {
        match value {
            Some(value) => {
                self.deleted.remove(key);
                self.kept.insert(key.to_vec(), (value.clone(), self.version));
            }
            None => {
                if self.kept.remove(key).is_some() {
                    self.deleted.insert(key.to_vec(), self.version);
                }
            }
        }
        if self.deleted.len() > DELETED_MAX {
            self.deleted.clear();
            self.floor = self.version;
        }
    }
}

impl Backend for Memory {
    fn name(&self) -> &'static str {
        "in-memory"
    }

    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let tables = self.tables.read();
        Ok(tables.get(table).and_then(|entries| entries.kept.get(key)).map(|(value, _)| value.clone()))
    }

    fn apply(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut tables = self.tables.write();
        let version = |name: &String| tables.get(name).map_or(0, |entries| entries.version);
        if batch.expected().iter().any(|(name, expected)| version(name) != *expected) {
            return Err(StoreError::Conflict);
        }
        for table in batch.tables() {
            let entries = tables.entry(table.to_owned()).or_default();
            (entries.version, entries.stamp) = (entries.version + 1, batch.stamp());
        }
        for change in batch.changes() {
            let entries = tables.entry(change.table.clone()).or_default();
            entries.change(&change.key, change.value.as_ref());
        }
        drop(tables);
        self.told.send_modify(|count| *count += 1);
        Ok(())
    }

    fn scan(
        &self,
        table: &str,
        range: &KeyRange,
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        let mut rest = range.clone();
        loop {
            let page = self.page(table, &rest, order);
            for (key, value) in &page {
                if visit(key, value) == ControlFlow::Break(()) {
                    return Ok(());
                }
            }
            let Some((last, _)) = page.into_iter().nth(PAGE - 1) else { return Ok(()) };
            match order {
                Order::Ascending => rest.start = [last.as_slice(), &[0]].concat(),
                Order::Descending => rest.end = Some(last),
            }
        }
    }

    fn durable(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn size_bytes(&self) -> Result<u64, StoreError> {
        let tables = self.tables.read();
        let kept = tables.values().flat_map(|entries| &entries.kept);
        Ok(kept.map(|(key, (value, _))| key.len() + value.len()).sum::<usize>() as u64)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn versions(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        let tables = self.tables.read();
        Ok(tables.iter().map(|(name, entries)| (name.clone(), entries.version)).collect())
    }

    fn marks(&self) -> Result<BTreeMap<String, Mark>, StoreError> {
        let tables = self.tables.read();
        let mark = |entries: &Entries| Mark { version: entries.version, stamp: entries.stamp };
        Ok(tables.iter().map(|(name, entries)| (name.clone(), mark(entries))).collect())
    }

    fn changes(&self, table: &str, after: u64) -> Result<Changes, StoreError> {
        let tables = self.tables.read();
        let Some(entries) = tables.get(table) else {
            return Ok(Changes { is_whole: true, ..Changes::default() });
        };
        let is_whole = after == 0 || after < entries.floor;
        let after = if is_whole { 0 } else { after };
        let kept = entries.kept.iter().filter(|(_, (_, version))| *version > after);
        let mut found: Vec<_> = kept.map(|(key, (value, _))| (key.clone(), Some(value.clone()))).collect();
        if !is_whole {
            let deleted = entries.deleted.iter().filter(|(_, version)| **version > after);
            found.extend(deleted.map(|(key, _)| (key.clone(), None)));
        }
        Ok(Changes { entries: found, version: entries.version, stamp: entries.stamp, is_whole })
    }

    fn told(&self) -> Option<watch::Receiver<u64>> {
        Some(self.told.subscribe())
    }

    fn archive(&self) -> Option<Archive> {
        None
    }

    fn forget_deletions(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
