//! Live subscribers: each reads the log itself, from its own place, so none can miss or repeat an entry.

use std::sync::Arc;

use tokio::sync::watch;

use super::event::Entry;
use super::index::QueryError;
use super::log::Log;
use super::log::Position;
use super::log::ReadError;
use super::stored;

/// How many entries a subscriber is given at a time.
const BATCH_ENTRIES: usize = 256;

/// One subscriber's place in the log.
pub struct Tail {
    log: Arc<Log>,
    next: Position,
    committed: watch::Receiver<Position>,
}

impl Tail {
    pub(super) fn new(log: Arc<Log>, next: Position) -> Self {
        let committed = log.committed.subscribe();
        Self { log, next, committed }
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
            let (entries, next) = read.await.map_err(|_| QueryError::Interrupted)??;
            self.next = next;
            if !entries.is_empty() {
                return Ok(entries);
            }
            self.committed.changed().await.map_err(|_| QueryError::Interrupted)?;
        }
    }
}

fn read(log: &Log, from: Position) -> Result<(Vec<Entry>, Position), ReadError> {
    let mut reader = log.reader(from);
    let mut entries = Vec::new();
    while entries.len() < BATCH_ENTRIES
        && let Some((at, payload)) = reader.next()?
    {
        let entry = stored::entry(payload, &log.keyring)
            .map_err(|_| ReadError::Damaged { segment: at.segment, offset: at.offset })?;
        entries.push(entry);
    }
    Ok((entries, reader.position()))
}
