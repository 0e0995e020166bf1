//! Finds entries in the journal by what they say.
//!
//! The index holds nothing that is not in the journal: it reads the journal from its own cursor, and cursor
//! and keys are written in one batch. If it is lost, stale or made for another journal, it is built anew.
//! Every key ends in the entry's id, so a page is read off the end of a key range and never costs a scan.

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

use super::event::Entry;
use super::log::Log;
use super::log::Position;
use super::log::ReadError;
use super::place::BY_ID;
use super::place::ENTRY_TABLES;
use super::place::decode_place;
use super::place::encode_place;
use super::place::keys;
use super::place::names_match;
use super::place::narrowest;
use super::query::PAGE_ENTRIES_MAX;
use super::query::Page;
use super::query::Query;
use super::query::at_ms;
use super::stored;
use super::tally::Facts;
use super::tally::HOUR_MS;
use super::tally::Tally;

const TALLY: &str = "audit_tally";
const CURSOR: &str = "audit_cursor";

/// How many entries go into the index with one batch.
const BATCH_ENTRIES: usize = 500;

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
    tallies: Table<u64, Tally>,
    cursors: Table<String, Cursor>,
    /// The position up to which the journal is indexed; held while the index is changed.
    indexed: Mutex<Position>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Cursor {
    segment: u64,
    offset: u64,
}

impl Record for Cursor {
    const VERSION: u32 = 1;
}

/// What is written with each batch beside the keys.
#[derive(Default)]
struct Hours(BTreeMap<u64, BTreeMap<Facts, u64>>);

impl Index {
    /// Opens the index of a journal, and empties it when it does not fit the journal.
    pub(super) fn open(store: Store, log: Arc<Log>) -> Result<Self, QueryError> {
        let (tallies, cursors) = (store.table(TALLY), store.table::<String, Cursor>(CURSOR));
        let index =
            Self { indexed: Mutex::new(Position { segment: 0, offset: 0 }), log, store, tallies, cursors };
        match index.cursors.get(&cursor_key()) {
            Ok(Some(cursor)) if index.fits(&cursor)? => {
                *index.indexed.lock() = Position { segment: cursor.segment, offset: cursor.offset };
            }
            Ok(_) | Err(StoreError::UnreadableRecord { .. }) => index.clear()?,
            Err(error) => return Err(error.into()),
        }
        Ok(index)
    }

    /// Takes in everything that is committed.
    pub(super) fn catch_up(&self) -> Result<Position, QueryError> {
        let mut indexed = self.indexed.lock();
        let mut reader = self.log.reader(*indexed);
        loop {
            let (mut batch, mut hours, mut count) = (Batch::default(), Hours::default(), 0);
            while count < BATCH_ENTRIES
                && let Some((at, payload)) = reader.next()?
            {
                let entry = decode(at, &payload)?;
                let facts = Facts::of(&entry.event);
                let value = encode_place(at, &facts);
                keys(&entry).into_iter().for_each(|(table, key)| batch.put(table, key, value.clone()));
                hours.count(entry.id, facts);
                count += 1;
            }
            if count == 0 {
                return Ok(*indexed);
            }
            let next = reader.position();
            self.change_tallies(&mut batch, &hours, Tally::add)?;
            let cursor = Cursor { segment: next.segment, offset: next.offset };
            self.cursors.put_in(&mut batch, &cursor_key(), &cursor)?;
            self.store.commit(&batch)?;
            *indexed = next;
        }
    }

    /// Forgets the entries of all segments up to and including `segment`.
    pub(super) fn forget(&self, segment: u64) -> Result<(), QueryError> {
        self.catch_up()?;
        let _changing = self.indexed.lock();
        let mut reader = self.log.reader(self.log.start());
        loop {
            let (mut batch, mut hours, mut count) = (Batch::default(), Hours::default(), 0);
            while count < BATCH_ENTRIES && reader.position().segment <= segment {
                let Some((at, payload)) = reader.next()? else { break };
                let entry = decode(at, &payload)?;
                if at.segment > segment || self.store.get(BY_ID, &entry.id.to_bytes())?.is_none() {
                    continue;
                }
                keys(&entry).into_iter().for_each(|(table, key)| batch.delete(table, key));
                hours.count(entry.id, Facts::of(&entry.event));
                count += 1;
            }
            if count == 0 {
                return Ok(());
            }
            self.change_tallies(&mut batch, &hours, Tally::remove)?;
            self.store.commit(&batch)?;
        }
    }

    /// Answers a query from what is committed now.
    pub(super) fn query(&self, query: &Query) -> Result<Page, QueryError> {
        if !(1..=PAGE_ENTRIES_MAX).contains(&query.limit) {
            return Err(QueryError::Limit);
        }
        self.catch_up()?;
        let end = query.end_id().min(query.cursor.unwrap_or(Ulid(u128::MAX)));
        let mut entries = Vec::new();
        // One more than asked for tells whether there is another page.
        self.walk(query, query.first_id(), end, |entry| {
            entries.push(entry);
            entries.len() <= query.limit
        })?;
        let more = entries.len() > query.limit;
        entries.truncate(query.limit);
        let cursor = entries.last().filter(|_| more).map(|entry: &Entry| entry.id);
        Ok(Page { entries, total: self.total(query)?, cursor })
    }

    /// Returns the position of the first entry whose id is above `id`.
    pub(super) fn position_after(&self, id: Ulid) -> Result<Position, QueryError> {
        let end = self.catch_up()?;
        let range = KeyRange { start: Ulid(id.0.saturating_add(1)).to_bytes(), end: None };
        let mut found = None;
        self.store.scan(BY_ID, &range, Order::Ascending, &mut |_, value| {
            found = decode_place(value);
            ControlFlow::Break(())
        })?;
        Ok(found.map_or(end, |(position, _)| position))
    }

    /// Shows matching entries with ids from `first` to before `end`, newest first, while `visit` wants more.
    fn walk(
        &self,
        query: &Query,
        first: Ulid,
        end: Ulid,
        mut visit: impl FnMut(Entry) -> bool,
    ) -> Result<(), QueryError> {
        let (table, range) = narrowest(query, first, end);
        let mut fault = None;
        self.store.scan(table, &range, Order::Descending, &mut |_, value| {
            let Some((position, facts)) = decode_place(value) else { return ControlFlow::Continue(()) };
            if !facts.match_query(query) {
                return ControlFlow::Continue(());
            }
            match self.entry_at(position) {
                Ok(Some(entry)) if names_match(&entry, query) && !visit(entry.clone()) => {
                    ControlFlow::Break(())
                }
                Ok(_) => ControlFlow::Continue(()),
                Err(error) => {
                    fault = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        fault.map_or(Ok(()), Err)
    }

    /// Counts all matches: whole hours by their tallies, the rest one by one.
    fn total(&self, query: &Query) -> Result<u64, QueryError> {
        let (first, end) = (query.first_id(), query.end_id());
        if query.entity.is_some() || query.request_id.is_some() {
            let mut count = 0;
            self.walk(query, first, end, |_| {
                count += 1;
                true
            })?;
            return Ok(count);
        }
        let first_hour = (first.unix_ms() + HOUR_MS - 1).div_euclid(HOUR_MS) as u64;
        let end_hour = query.to.map_or(u64::MAX, |_| end.unix_ms().div_euclid(HOUR_MS) as u64);
        if first_hour >= end_hour {
            return self.count(query, first, end);
        }
        let range = KeyRange { start: first_hour.to_bytes(), end: Some(end_hour.to_bytes()) };
        let tallies = self.tallies.list(&range, Order::Ascending, usize::MAX)?;
        let whole: u64 = tallies.iter().map(|(_, tally)| tally.matching(query)).sum();
        let before = self.count(query, first, hour_start(first_hour))?;
        let after = if query.to.is_some() { self.count(query, hour_start(end_hour), end)? } else { 0 };
        Ok(before + whole + after)
    }

    /// Counts by the facts in the index alone.
    fn count(&self, query: &Query, first: Ulid, end: Ulid) -> Result<u64, QueryError> {
        let (table, range) = narrowest(query, first, end);
        let mut count = 0;
        self.store.scan(table, &range, Order::Ascending, &mut |_, value| {
            count += u64::from(decode_place(value).is_some_and(|(_, facts)| facts.match_query(query)));
            ControlFlow::Continue(())
        })?;
        Ok(count)
    }

    fn change_tallies(
        &self,
        batch: &mut Batch,
        hours: &Hours,
        change: impl Fn(&mut Tally, &BTreeMap<Facts, u64>),
    ) -> Result<(), QueryError> {
        for (hour, counts) in &hours.0 {
            let mut tally = self.tallies.get(hour)?.unwrap_or_default();
            change(&mut tally, counts);
            if tally.is_empty() {
                self.tallies.delete_in(batch, hour);
            } else {
                self.tallies.put_in(batch, hour, &tally)?;
            }
        }
        Ok(())
    }

    /// Tells whether the cursor, and the newest entry of the index, are of this journal.
    fn fits(&self, cursor: &Cursor) -> Result<bool, QueryError> {
        let indexed = Position { segment: cursor.segment, offset: cursor.offset };
        if indexed > self.log.committed() {
            return Ok(false);
        }
        let mut newest = None;
        self.store.scan(BY_ID, &KeyRange::all(), Order::Descending, &mut |key, value| {
            newest = Ulid::from_bytes(key).zip(decode_place(value));
            ControlFlow::Break(())
        })?;
        let Some((id, (position, _))) = newest else { return Ok(true) };
        Ok(self.entry_at(position).ok().flatten().is_some_and(|entry| entry.id == id))
    }

    /// Returns the entry at a position, or `None` when its segment is gone.
    fn entry_at(&self, position: Position) -> Result<Option<Entry>, QueryError> {
        let frame = self.log.frame_at(position)?;
        Ok(frame.map(|payload| decode(position, &payload)).transpose()?)
    }

    fn clear(&self) -> Result<(), QueryError> {
        for table in ENTRY_TABLES.into_iter().chain([TALLY, CURSOR]) {
            loop {
                let mut batch = Batch::default();
                self.store.scan(table, &KeyRange::all(), Order::Ascending, &mut |key, _| {
                    batch.delete(table, key.to_vec());
                    if batch.changes().len() < BATCH_ENTRIES * 4 {
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

impl Hours {
    fn count(&mut self, id: Ulid, facts: Facts) {
        let hour = id.unix_ms().div_euclid(HOUR_MS) as u64;
        *self.0.entry(hour).or_default().entry(facts).or_default() += 1;
    }
}

fn cursor_key() -> String {
    "journal".to_owned()
}

fn hour_start(hour: u64) -> Ulid {
    at_ms((hour as i64).saturating_mul(HOUR_MS))
}

fn decode(at: Position, payload: &[u8]) -> Result<Entry, ReadError> {
    stored::entry(payload).map_err(|_| ReadError::Damaged { segment: at.segment, offset: at.offset })
}

#[cfg(test)]
#[path = "index/tests.rs"]
mod tests;
