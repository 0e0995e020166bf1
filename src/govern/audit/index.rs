//! Finds entries in the journal by what they say.
//!
//! The index holds nothing that is not in the journal: it reads the journal from its own cursor, and cursor
//! and blocks are written in one batch. If it is lost, stale or made for another journal, it is built anew.
//! It knows whole blocks of entries (see [`super::block`]); what came after the last whole one is read off the
//! journal. A page takes the newest blocks that can match, found by ordered keys, and reads them; a total is
//! counted from the keys and from the hours' tallies.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Deserialize;
use serde::Serialize;

use crate::id::Ulid;
use crate::store::Batch;
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
use super::log::Log;
use super::log::Position;
use super::log::ReadError;
use super::query::PAGE_ENTRIES_MAX;
use super::requests::REQUEST_TABLES;
use super::requests::Requests;
use super::segment;
use super::stored;
use super::tally::Facts;
use super::tally::Tally;

mod candidates;
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
    requests: Requests,
    /// How much of the journal lies in blocks; held while the index is changed.
    indexed: Mutex<Reach>,
}

/// How much of the journal lies in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reach {
    /// Where the last block ends.
    at: Position,
    /// The first id of the last block; `None` while there is no block.
    newest: Option<Ulid>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Cursor {
    segment: u64,
    offset: u64,
}

impl Record for Cursor {
    /// Version 1 was the cursor of an index of single entries, version 2 of one by names, version 3 of one whose
    /// keys told no counts.
    const VERSION: u32 = 4;
}

/// Changes of the index that are written together.
#[derive(Default)]
struct Changes {
    batch: Batch,
    blocks: usize,
    /// How far the last block that is added reaches.
    reach: Option<Reach>,
    hours: BTreeMap<u64, BTreeMap<Facts, u64>>,
}

impl Index {
    /// Opens the index of a journal, and empties it when it does not fit the journal.
    pub(super) fn open(store: Store, log: Arc<Log>) -> Result<Self, QueryError> {
        let (blocks, tallies, cursors) = (store.table(BLOCKS), store.table(TALLY), store.table(CURSOR));
        let indexed = Mutex::new(Reach { at: Position { segment: 0, offset: 0 }, newest: None });
        let requests = Requests::open(store.clone())?;
        let index = Self { log, store, blocks, tallies, cursors, requests, indexed };
        match index.cursors.get(&cursor_key()) {
            Ok(Some(cursor)) if index.fits(&cursor)? => {
                let at = Position { segment: cursor.segment, offset: cursor.offset };
                *index.indexed.lock() = Reach { at, newest: index.newest()?.map(|(first, _)| first) };
            }
            Ok(_) | Err(StoreError::UnreadableRecord { .. }) => index.clear()?,
            Err(error) => return Err(error.into()),
        }
        Ok(index)
    }

    /// Takes in every block that is whole, and returns how far the last one reaches.
    pub(super) fn catch_up(&self) -> Result<Reach, QueryError> {
        let mut indexed = self.indexed.lock();
        let mut reader = self.log.reader(indexed.at);
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
                block.delete_in(first, &mut changes.batch, &self.store)?;
                changes.count(first, &block);
            }
            if changes.blocks == 0 {
                let oldest = self.blocks.list(&KeyRange::all(), Order::Ascending, 1)?;
                let oldest = oldest.first().map_or(Ulid(u128::MAX), |(first, _)| *first);
                return Ok(self.requests.forget_before(oldest)?);
            }
            self.change_tallies(&mut changes, Tally::remove)?;
            self.store.commit(&changes.batch)?;
        }
    }

    fn put(&self, growing: Growing, changes: &mut Changes) -> Result<(), QueryError> {
        let (first, at) = (growing.first, growing.end());
        let (block, requests) = growing.put_in(&mut changes.batch, &self.store)?;
        self.requests.put_in(&mut changes.batch, first, requests);
        changes.count(first, &block);
        changes.reach = Some(Reach { at, newest: Some(first) });
        Ok(())
    }

    /// Writes blocks and the cursor behind them, and begins anew.
    fn write(&self, changes: &mut Changes, indexed: &mut Reach) -> Result<(), QueryError> {
        let mut changes = std::mem::take(changes);
        let Some(reach) = changes.reach else { return Ok(()) };
        self.change_tallies(&mut changes, Tally::add)?;
        let cursor = Cursor { segment: reach.at.segment, offset: reach.at.offset };
        self.cursors.put_in(&mut changes.batch, &cursor_key(), &cursor)?;
        self.store.commit(&changes.batch)?;
        *indexed = reach;
        Ok(self.requests.gather()?)
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
        let Some((first, block)) = self.newest()? else { return Ok(true) };
        let frame = self.log.frame_at(block.start()).ok().flatten();
        Ok(frame.is_some_and(|payload| stored::outline(&payload).is_ok_and(|entry| entry.id == first)))
    }

    fn newest(&self) -> Result<Option<(Ulid, Block)>, StoreError> {
        Ok(self.blocks.list(&KeyRange::all(), Order::Descending, 1)?.pop())
    }

    fn clear(&self) -> Result<(), QueryError> {
        self.requests.clear();
        for table in BLOCK_TABLES.into_iter().chain(REQUEST_TABLES).chain([TALLY, CURSOR]) {
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
