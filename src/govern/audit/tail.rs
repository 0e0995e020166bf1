//! Live subscribers: each reads the log itself, from its own place, so none can miss or repeat an entry.
//!
//! Where nodes share a database a subscriber follows all of them: this node's entries off its journal, as soon as they
//! are safe, and those of the others once they are shipped (see [`super::shipping`]). Without the database its own
//! entries go on, and the others' follow when it is back. Entries that cannot be read any more are left out.

use std::sync::Arc;

use tokio::sync::watch;

use super::AuditLog;
use super::event::Entry;
use super::index::QueryError;
use super::log::Log;
use super::log::Position;
use super::log::ReadError;
use super::seen::Seen;
use super::shipping::OthersTail;
use super::stored;
use crate::id::Ulid;

/// How many entries a subscriber is given at a time.
const BATCH_ENTRIES: usize = 256;

impl AuditLog {
    /// Returns how many bytes of this node's log lie behind an entry. Blocks.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn bytes_after(&self, id: Ulid) -> Result<u64, QueryError> {
        let from = self.index.position_after(id)?;
        Ok(self.log.bytes_between(from, self.log.committed()))
    }
}

/// One subscriber's place in the log.
pub struct Tail {
    log: Arc<Log>,
    next: Position,
    committed: watch::Receiver<Position>,
    /// Whether entries before the next ones have been dropped unread.
    has_gap: bool,
}

impl Tail {
    pub(super) fn new(log: Arc<Log>, next: Position) -> Self {
        let committed = log.committed.subscribe();
        Self { log, next, committed, has_gap: false }
    }

    /// Returns a subscriber's place behind an entry that it has seen.
    pub(super) fn behind(log: Arc<Log>, next: Position, seen: Ulid) -> Result<Self, ReadError> {
        let has_gap = seen > Ulid(0) && log.may_have_dropped_after(seen)?;
        Ok(Self { has_gap, ..Self::new(log, next) })
    }

    /// Returns the next entries, oldest first; waits until there is at least one. Dropping the call and
    /// calling again loses nothing.
    ///
    /// # Errors
    /// When the journal cannot be read, or its writer is gone and everything has been read.
    pub async fn next_batch(&mut self) -> Result<Vec<Entry>, QueryError> {
        loop {
            self.committed.borrow_and_update();
            let (log, from) = (self.log.clone(), self.next);
            let read = tokio::task::spawn_blocking(move || read(&log, from));
            let (entries, next, has_gap) = read.await.map_err(|_| QueryError::Interrupted)??;
            self.next = next;
            self.has_gap |= has_gap;
            if !entries.is_empty() {
                return Ok(entries);
            }
            self.committed.changed().await.map_err(|_| QueryError::Interrupted)?;
        }
    }
}

/// A subscriber's place in the logs of all nodes.
pub struct Following {
    /// The name of this node, where there are others.
    node: Option<Arc<str>>,
    own: Option<Tail>,
    others: Option<OthersTail>,
    seen: Seen,
    /// The last entry of this node that was given, or seen before.
    last_own: Ulid,
}

/// Entries of this node that are missing, because retention dropped them before they were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// What is missing was recorded after this one.
    pub after: Ulid,
    /// And before this one.
    pub before: Ulid,
}

impl Following {
    pub(super) fn new(own: Option<Tail>, shared: Option<(Arc<str>, OthersTail)>, seen: Seen) -> Self {
        let (node, others) = shared.unzip();
        let last_own = node.as_ref().map_or_else(|| seen.newest(), |node| seen.of(node));
        Self { node, own, others, seen, last_own }
    }

    /// Returns what is missing before entries that were given just now, and not passed yet; tells it once.
    pub fn gap_before(&mut self, entries: &[Entry]) -> Option<Gap> {
        let own = self.own.as_mut().filter(|own| own.has_gap)?;
        let before = entries.iter().find(|entry| entry.node.is_none())?.id;
        own.has_gap = false;
        Some(Gap { after: self.last_own, before })
    }

    /// Returns the next entries, each node's oldest first; waits until there is at least one. Dropping the call and
    /// calling again loses nothing.
    ///
    /// # Errors
    /// As [`Tail::next_batch`].
    pub async fn next_batch(&mut self) -> Result<Vec<Entry>, QueryError> {
        match (&mut self.own, &mut self.others) {
            (Some(own), None) => own.next_batch().await,
            (None, Some(others)) => others.next_batch().await,
            (Some(own), Some(others)) => tokio::select! {
                entries = own.next_batch() => entries,
                entries = others.next_batch() => entries,
            },
            (None, None) => Err(QueryError::Interrupted),
        }
    }

    /// Takes note of an entry that was given; each one has to be shown.
    pub fn pass(&mut self, entry: &Entry) {
        if entry.node.is_none() {
            self.last_own = entry.id;
        }
        if let Some(node) = entry.node.as_ref().or(self.node.as_ref()) {
            self.seen.note(node, entry.id);
        }
    }

    /// Returns what a subscriber comes back with that was given nothing yet.
    pub fn beginning(&self) -> String {
        match self.node {
            Some(_) => self.seen.told(),
            None => self.last_own.to_string(),
        }
    }

    /// Returns what a subscriber comes back with behind the entry that was passed last.
    pub fn place(&self, entry: &Entry) -> String {
        match self.node {
            Some(_) => self.seen.behind(entry),
            None => entry.id.to_string(),
        }
    }
}

/// Returns entries from a position on, the position behind them, and whether there were some before that are gone.
/// What is damaged is passed over: the index says so.
fn read(log: &Log, from: Position) -> Result<(Vec<Entry>, Position, bool), ReadError> {
    let has_gap = log.has_dropped_from(from)?;
    let mut reader = log.reader(from);
    let mut entries = Vec::new();
    while entries.len() < BATCH_ENTRIES
        && let Some((_, payload)) = reader.next_readable()?
    {
        entries.extend(stored::entry(payload, &log.keyring));
    }
    Ok((entries, reader.position(), has_gap))
}
