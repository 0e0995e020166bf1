//! Finds entries in the journal by what they say.
//!
//! The index holds nothing that is not in the journal: it reads the journal from its own cursor, and cursor
//! and groups are written in one batch. If it is lost, stale, of an earlier release or made for another journal, it is
//! built anew. It knows entries by groups (see [`group`]) of some ten thousands. What came after the last whole group
//! grows in memory, and is read off the journal again when the process begins.
//!
//! A query goes through the heads of all groups, newest first: a head tells how many entries of each kind there are,
//! so that a total is counted, and a group without a match is passed over, without a look at any entry. What a page
//! shows is read from the journal, where the groups' columns say it lies.
//!
//! What is new is taken in a piece at a time (see [`taking`]), so that nobody waits for an index that is built anew: until
//! it is, an answer is of what was taken in, and says so.
//!
//! What of the journal is damaged is left out, and written down with the cursor (see [`gaps`]): an answer that may miss
//! entries for it says so. Once it can be read again, the next start builds the index anew. What was taken in before the
//! process began is not read for that, but looked through meanwhile (see [`patrol`]).

use std::ops::ControlFlow;
use std::ops::RangeTo;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

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

use super::log::Log;
use super::log::Position;
use super::log::ReadError;
use super::query::PAGE_ENTRIES_MAX;
use super::stored;

mod gaps;
mod group;
mod kinds;
mod patrol;
mod postings;
mod search;
mod skews;
mod spans;
mod taking;
mod view;

use self::gaps::GapRecord;
use self::gaps::Gaps;
use self::group::COLUMNS;
use self::group::GROUP_ENTRIES;
use self::group::GROUPS;
use self::group::Growing;
use self::group::Head;
use self::kinds::KINDS;
use self::kinds::Kinds;
use self::patrol::Patrol;
use self::postings::POSTINGS;
use self::skews::SkewRecord;
use self::skews::Skews;
use self::taking::Pace;

const CURSOR: &str = "audit_cursor";
/// The tables of the index; they are emptied in this order, so that none of it counts once some of it is gone.
const TABLES: [&str; 5] = [CURSOR, GROUPS, COLUMNS, POSTINGS, KINDS];
/// The tables of indexes of earlier releases.
const LEFT_BEHIND: [&str; 16] = [
    "audit_blocks",
    "audit_block_tokens",
    "audit_blocks_by_event_type",
    "audit_blocks_by_category",
    "audit_blocks_by_severity",
    "audit_blocks_by_entity",
    "audit_block_facets",
    "audit_blocks_by_detector",
    "audit_blocks_by_policy",
    "audit_blocks_by_route",
    "audit_blocks_by_action",
    "audit_block_requests",
    "audit_request_groups",
    "audit_requests",
    "audit_tally",
    "audit_facet_tally",
];

/// How many heads of groups are read at a time.
const HEADS: usize = 64;
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
    /// Another process ships as this node.
    #[error("another process runs as this node")]
    Held,
    /// The index is being built anew, and what was asked for needs all of it.
    #[error("the audit index is being built anew, try again later")]
    Behind,
}

/// The index of one journal. All calls may block on the disk.
pub(super) struct Index {
    log: Arc<Log>,
    store: Store,
    cursors: Table<String, Cursor>,
    /// How many entries a group holds at most.
    entries_max: usize,
    pace: Pace,
    /// Whether nothing is left of earlier releases.
    is_swept: AtomicBool,
    /// Held while the index is changed.
    state: Mutex<State>,
    /// What of the journal was found damaged; locked after the state.
    gaps: Mutex<Gaps>,
    /// How far what was taken in before has been looked through.
    patrol: Mutex<Patrol>,
}

/// What is known of the end of the journal.
struct State {
    /// Where the last group in the store ends.
    at: Position,
    /// Where the journal is read on.
    next: Position,
    /// The newest entry that was taken in.
    last: Ulid,
    /// Whether nothing was taken in since the last gap.
    is_behind_gap: bool,
    kinds: Kinds,
    growing: Option<Growing>,
    /// Where the clock stood before the newest id.
    skews: Skews,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Cursor {
    segment: u64,
    offset: u64,
    /// The edition of the kinds that the last group tells of.
    edition: u64,
    /// What could not be read before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gaps: Vec<GapRecord>,
    /// What was recorded at other moments than ids tell; `None`: whoever built the index did not look.
    #[serde(default)]
    skews: Option<Vec<SkewRecord>>,
}

impl Record for Cursor {
    /// Version 1 was the cursor of an index of single entries, version 2 of one by names, version 3 of one whose
    /// keys told no counts, versions 4 and 5 of one of small blocks, without facets and with them, version 6 of one
    /// whose kinds told detectors, version 7 of one whose kinds told the gravest finding's category alone.
    const VERSION: u32 = 8;
}

impl State {
    /// Returns the state behind everything up to a position.
    fn behind(at: Position, last: Ulid, kinds: Kinds, skews: Skews) -> Self {
        Self { at, next: at, last, is_behind_gap: false, kinds, growing: None, skews }
    }

    fn empty() -> Self {
        Self::behind(Position { segment: 0, offset: 0 }, Ulid(0), Kinds::empty(0), Skews::default())
    }
}

impl Index {
    /// Opens the index of a journal, and empties it when it does not fit the journal.
    pub(super) fn open(store: Store, log: Arc<Log>) -> Result<Self, QueryError> {
        let index = Self {
            log,
            cursors: store.table(CURSOR),
            store,
            entries_max: GROUP_ENTRIES,
            pace: Pace::USUAL,
            is_swept: AtomicBool::new(false),
            state: Mutex::new(State::empty()),
            gaps: Mutex::default(),
            patrol: Mutex::default(),
        };
        match index.stored_state() {
            Ok(Some((state, gaps))) => {
                *index.gaps.lock() = gaps;
                // What was dropped by a process that ended before this was written down.
                index.drop_groups(..index.log.start().segment, state.kinds.edition())?;
                *index.patrol.lock() = Patrol::up_to(state.at);
                *index.state.lock() = state;
            }
            Ok(None) | Err(QueryError::Store(StoreError::UnreadableRecord { .. })) => {
                while index.empty(&TABLES)? {}
            }
            Err(error) => return Err(error),
        }
        Ok(index)
    }

    /// Forgets the entries of all segments up to and including `segment`, which must be closed.
    pub(super) fn forget(&self, segment: u64) -> Result<(), QueryError> {
        self.catch_up()?;
        let edition = self.state.lock().kinds.edition();
        self.drop_groups(..segment.saturating_add(1), edition)?;
        let oldest = self.heads(&KeyRange::all(), Order::Ascending, 1)?.pop();
        if let Some(oldest) = oldest {
            self.state.lock().skews.forget(..oldest.first);
        }
        Ok(())
    }

    /// Drops the groups of some segments, and the kinds that only they tell of; `edition` is that of the newest kinds.
    fn drop_groups(&self, segments: RangeTo<u64>, edition: u64) -> Result<(), QueryError> {
        self.gaps.lock().forget(segments);
        loop {
            let oldest = self.heads(&KeyRange::all(), Order::Ascending, HEADS)?;
            let mut batch = Batch::default();
            for head in oldest.iter().filter(|head| segments.contains(&head.segment)) {
                head.delete_in(&mut batch);
            }
            if batch.is_empty() {
                let edition = oldest.first().map_or(edition, |head| head.edition);
                while self.remove(KINDS, &kinds::before(edition))? {}
                return Ok(());
            }
            self.store.commit(&batch)?;
        }
    }

    /// Removes some of what indexes of earlier releases left behind; tells whether there may be more.
    pub(super) fn sweep(&self) -> Result<bool, QueryError> {
        if self.is_swept.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let is_more = self.empty(&LEFT_BEHIND)?;
        self.is_swept.store(!is_more, Ordering::Relaxed);
        Ok(is_more)
    }

    /// Returns what is in the store; `None`: nothing that fits the journal.
    fn stored_state(&self) -> Result<Option<(State, Gaps)>, QueryError> {
        let key = cursor_key();
        let Some(cursor) = self.cursors.get(&key)? else { return Ok(None) };
        let Cursor { segment, offset, edition, gaps, skews } = cursor;
        let Some(skews) = skews else { return Ok(None) };
        let at = Position { segment, offset };
        if at > self.log.committed() {
            return Ok(None);
        }
        let mut gaps = Gaps::load(&gaps);
        gaps.forget(..self.log.start().segment);
        // They are met again.
        gaps.forget_from(at);
        if gaps.begins().into_iter().any(|begin| !self.is_damaged_at(begin)) {
            tracing::warn!("what was damaged of the audit journal is not any more: its index is built anew");
            return Ok(None);
        }
        let newest = self.heads(&KeyRange::all(), Order::Descending, 1)?.pop();
        let last = newest.as_ref().map_or(Ulid(0), |newest| newest.last);
        let is_whole = match newest {
            Some(newest) => {
                let first = id_at(&self.log, newest.start());
                newest.end() == at && first.ok().flatten() == Some(newest.first)
            }
            // Every entry that was taken in has been dropped since.
            None => segment < self.log.start().segment,
        };
        if !is_whole {
            return Ok(None);
        }
        let kinds = Kinds::load(&self.store, edition)?;
        Ok(Some((State::behind(at, last, kinds, Skews::load(&skews)), gaps)))
    }

    /// Tells whether what begins at a position is still there, and cannot be read.
    fn is_damaged_at(&self, at: Position) -> bool {
        let mut reader = self.log.short_reader(at);
        let is_readable = match reader.next() {
            Ok(Some((found, payload))) => found != at || stored::outline(payload).is_ok(),
            Ok(None) => true,
            Err(_) => reader.position() != at,
        };
        !is_readable
    }

    /// Returns the heads of groups by a range of their first ids.
    fn heads(&self, range: &KeyRange, order: Order, limit: usize) -> Result<Vec<Head>, StoreError> {
        let mut heads = Vec::new();
        self.store.scan(GROUPS, range, order, &mut |key, bytes| {
            heads.push(Head::from_bytes(key, bytes));
            if heads.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        heads.into_iter().collect()
    }

    /// Tells whether a group has been dropped since its head was read.
    fn is_dropped(&self, group: &Head) -> Result<bool, StoreError> {
        Ok(self.store.get(GROUPS, &group.first.to_bytes())?.is_none())
    }

    /// Removes some keys of tables; tells whether there may be more.
    fn empty(&self, tables: &[&'static str]) -> Result<bool, QueryError> {
        for table in tables {
            if self.remove(table, &KeyRange::all())? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes some keys of a range; tells whether there were any.
    fn remove(&self, table: &'static str, range: &KeyRange) -> Result<bool, QueryError> {
        let mut batch = Batch::default();
        self.store.scan(table, range, Order::Ascending, &mut |key, _| {
            batch.delete(table, key.to_vec());
            if batch.changes().len() < BATCH_KEYS {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        if batch.is_empty() {
            return Ok(false);
        }
        self.store.commit(&batch)?;
        Ok(true)
    }
}

fn cursor_key() -> String {
    "journal".to_owned()
}

/// Tells whether an error says that what is read is damaged, there alone.
fn is_damage<T>(read: &Result<T, ReadError>) -> bool {
    matches!(read, Err(ReadError::Damaged { .. }))
}

/// Returns the id of the entry at a position; `None`: there is none any more.
fn id_at(log: &Log, at: Position) -> Result<Option<Ulid>, ReadError> {
    let damaged = |_| ReadError::Damaged { segment: at.segment, offset: at.offset };
    let payload = log.frame_at(at)?;
    payload.map(|payload| stored::outline(&payload).map(|entry| entry.id).map_err(damaged)).transpose()
}

#[cfg(test)]
mod tests;
