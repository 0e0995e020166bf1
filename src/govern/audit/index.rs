//! Finds entries in the journal by what they say.
//!
//! The index holds nothing that is not in the journal: it reads the journal from its own cursor, and cursor
//! and blocks are written in one batch. If it is lost, stale or made for another journal, it is built anew.
//! It knows whole blocks of entries (see [`super::block`]); what came after the last whole one is read off the
//! journal. A page takes the newest blocks that can match, found by ordered keys, and reads them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Deserialize;
use serde::Serialize;

use crate::id::Ulid;
use crate::store::Batch;
use crate::store::Key;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::Record;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::Table;

use super::block;
use super::block::BLOCK_TABLES;
use super::block::BLOCKS;
use super::block::Block;
use super::block::Growing;
use super::block::REQUESTS;
use super::log::Log;
use super::log::Position;
use super::log::ReadError;
use super::query::PAGE_ENTRIES_MAX;
use super::segment;
use super::stored;
use super::tally::Facts;
use super::tally::Tally;

mod search;

const TALLY: &str = "audit_tally";
const CURSOR: &str = "audit_cursor";

/// How many blocks go into the index with one batch.
const BATCH_BLOCKS: usize = 16;
/// How many keys are removed with one batch.
const BATCH_KEYS: usize = 2000;

/// Why a question about the log could not be answered.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// `limit` is 0 or past [`PAGE_ENTRIES_MAX`].
    #[error("limit must lie between 1 and {PAGE_ENTRIES_MAX}")]
    Limit,
    /// The journal could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The index could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The task that looked was cancelled.
    #[error("the audit query was interrupted")]
    Interrupted,
}

/// The index of one journal. All calls may block on the disk.
pub(super) struct Index {
    log: Arc<Log>,
    store: Store,
    blocks: Table<Ulid, Block>,
    tallies: Table<u64, Tally>,
    cursors: Table<String, Cursor>,
    /// The position up to which the journal lies in blocks; held while the index is changed.
    indexed: Mutex<Position>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Cursor {
    segment: u64,
    offset: u64,
}

impl Record for Cursor {
    /// Version 1 was the cursor of an index of single entries, version 2 of one by names.
    const VERSION: u32 = 3;
}

/// Changes of the index that are written together.
#[derive(Default)]
struct Changes {
    batch: Batch,
    blocks: usize,
    /// Where the last block that is added ends.
    end: Option<Position>,
    hours: BTreeMap<u64, BTreeMap<Facts, u64>>,
}

impl Index {
    /// Opens the index of a journal, and empties it when it does not fit the journal.
    pub(super) fn open(store: Store, log: Arc<Log>) -> Result<Self, QueryError> {
        let (blocks, tallies, cursors) = (store.table(BLOCKS), store.table(TALLY), store.table(CURSOR));
        let indexed = Mutex::new(Position { segment: 0, offset: 0 });
        let index = Self { log, store, blocks, tallies, cursors, indexed };
        match index.cursors.get(&cursor_key()) {
            Ok(Some(cursor)) if index.fits(&cursor)? => {
                *index.indexed.lock() = Position { segment: cursor.segment, offset: cursor.offset };
            }
            Ok(_) | Err(StoreError::UnreadableRecord { .. }) => index.clear()?,
            Err(error) => return Err(error.into()),
        }
        Ok(index)
    }

    /// Takes in every block that is whole, and returns where the last one ends.
    pub(super) fn catch_up(&self) -> Result<Position, QueryError> {
        let mut indexed = self.indexed.lock();
        let mut reader = self.log.reader(*indexed);
        let (mut growing, mut changes) = (None::<Growing>, Changes::default());
        while let Some((at, payload)) = reader.next()? {
            let entry = stored::outline(payload).map_err(|_| damaged(at))?;
            if let Some(whole) = growing.take_if(|block| !block.takes(entry.id, at)) {
                self.put(whole, &mut changes)?;
                if changes.blocks >= BATCH_BLOCKS {
                    self.write(&mut changes, &mut indexed)?;
                }
            }
            let end = segment::frame_end(at.offset, payload);
            growing.get_or_insert_with(|| Growing::begin(entry.id, at)).push(&entry, &self.log.keyring, end);
        }
        if let Some(whole) = growing.filter(|block| block.is_over(reader.position())) {
            self.put(whole, &mut changes)?;
        }
        self.write(&mut changes, &mut indexed)?;
        Ok(*indexed)
    }

    /// Forgets the entries of all segments up to and including `segment`, which must be closed.
    pub(super) fn forget(&self, segment: u64) -> Result<(), QueryError> {
        self.catch_up()?;
        let _changing = self.indexed.lock();
        loop {
            let oldest = self.blocks.list(&KeyRange::all(), Order::Ascending, BATCH_BLOCKS)?;
            let mut changes = Changes::default();
            for (first, block) in oldest.into_iter().filter(|(_, block)| block.segment <= segment) {
                let own = [BLOCKS, REQUESTS].map(|table| (table, first.to_bytes()));
                let keys = own.into_iter().chain(block.name_keys(first));
                keys.for_each(|(table, key)| changes.batch.delete(table, key));
                changes.count(first, &block);
            }
            if changes.blocks == 0 {
                return Ok(());
            }
            self.change_tallies(&mut changes, Tally::remove)?;
            self.store.commit(&changes.batch)?;
        }
    }

    fn put(&self, growing: Growing, changes: &mut Changes) -> Result<(), QueryError> {
        let (first, end) = (growing.first, growing.end());
        let (block, requests) = growing.finish();
        self.blocks.put_in(&mut changes.batch, &first, &block)?;
        if !requests.is_empty() {
            changes.batch.put(REQUESTS, first.to_bytes(), requests);
        }
        for (table, key) in block.name_keys(first) {
            changes.batch.put(table, key, Vec::new());
        }
        changes.count(first, &block);
        changes.end = Some(end);
        Ok(())
    }

    /// Writes blocks and the cursor behind them, and begins anew.
    fn write(&self, changes: &mut Changes, indexed: &mut Position) -> Result<(), QueryError> {
        let mut changes = std::mem::take(changes);
        let Some(end) = changes.end else { return Ok(()) };
        self.change_tallies(&mut changes, Tally::add)?;
        let cursor = Cursor { segment: end.segment, offset: end.offset };
        self.cursors.put_in(&mut changes.batch, &cursor_key(), &cursor)?;
        self.store.commit(&changes.batch)?;
        *indexed = end;
        Ok(())
    }

    fn change_tallies(
        &self,
        changes: &mut Changes,
        change: impl Fn(&mut Tally, &BTreeMap<Facts, u64>),
    ) -> Result<(), QueryError> {
        for (hour, counts) in &changes.hours {
            let mut tally = self.tallies.get(hour)?.unwrap_or_default();
            change(&mut tally, counts);
            if tally.is_empty() {
                self.tallies.delete_in(&mut changes.batch, hour);
            } else {
                self.tallies.put_in(&mut changes.batch, hour, &tally)?;
            }
        }
        Ok(())
    }

    /// Tells whether the cursor, and the newest block of the index, are of this journal.
    fn fits(&self, cursor: &Cursor) -> Result<bool, QueryError> {
        let indexed = Position { segment: cursor.segment, offset: cursor.offset };
        if indexed > self.log.committed() {
            return Ok(false);
        }
        let newest = self.blocks.list(&KeyRange::all(), Order::Descending, 1)?;
        let Some((first, block)) = newest.first() else { return Ok(true) };
        let frame = self.log.frame_at(block.start()).ok().flatten();
        Ok(frame.is_some_and(|payload| stored::outline(&payload).is_ok_and(|entry| entry.id == *first)))
    }

    fn clear(&self) -> Result<(), QueryError> {
        for table in BLOCK_TABLES.into_iter().chain([TALLY, CURSOR]) {
            loop {
                let mut batch = Batch::default();
                self.store.scan(table, &KeyRange::all(), Order::Ascending, &mut |key, _| {
                    batch.delete(table, key.to_vec());
                    if batch.changes().len() < BATCH_KEYS {
                        ControlFlow::Continue(())
                    } else {
                        ControlFlow::Break(())
                    }
                })?;
                if batch.is_empty() {
                    break;
                }
                self.store.commit(&batch)?;
            }
        }
        Ok(())
    }
}

impl Changes {
    fn count(&mut self, first: Ulid, block: &Block) {
        let hour = self.hours.entry(block::hour(first)).or_default();
        for (facts, count) in block.facts() {
            *hour.entry(facts.clone()).or_default() += count;
        }
        self.blocks += 1;
    }
}

fn cursor_key() -> String {
    "journal".to_owned()
}

fn damaged(at: Position) -> ReadError {
    ReadError::Damaged { segment: at.segment, offset: at.offset }
}

#[cfg(test)]
mod tests;
