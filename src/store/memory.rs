//! State in memory: gone with the process.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::ops::ControlFlow;

use parking_lot::RwLock;

use super::Backend;
use super::Batch;
use super::KeyRange;
use super::Order;
use super::StoreError;
use super::Visit;

/// How many entries a scan copies at a time, so that `visit` runs without the lock.
const PAGE: usize = 256;

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// Ordered maps behind one lock.
#[derive(Default)]
pub(super) struct Memory {
    tables: RwLock<BTreeMap<String, Entries>>,
}

impl Memory {
    fn page(&self, table: &str, range: &KeyRange, order: Order) -> Vec<(Vec<u8>, Vec<u8>)> {
        if range.is_empty() {
            return Vec::new();
        }
        let tables = self.tables.read();
        let Some(entries) = tables.get(table) else { return Vec::new() };
        let end = range.end.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let found = entries.range::<Vec<u8>, _>((Bound::Included(&range.start), end));
        let copy = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
        match order {
            Order::Ascending => found.take(PAGE).map(copy).collect(),
            Order::Descending => found.rev().take(PAGE).map(copy).collect(),
        }
    }
}

impl Backend for Memory {
    fn name(&self) -> &'static str {
        "in-memory"
    }

    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.tables.read().get(table).and_then(|entries| entries.get(key)).cloned())
    }

    fn apply(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut tables = self.tables.write();
        for change in batch.changes() {
            let entries = tables.entry(change.table.clone()).or_default();
            match &change.value {
                Some(value) => entries.insert(change.key.clone(), value.clone()),
                None => entries.remove(&change.key),
            };
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
        let sizes = tables.values().flatten().map(|(key, value)| key.len() + value.len());
        Ok(sizes.sum::<usize>() as u64)
    }
}
