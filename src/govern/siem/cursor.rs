//! A sink's place in the log and its figures, as they are stored.

use serde::Deserialize;
use serde::Serialize;

use crate::id::Ulid;
use crate::store::Record;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::Table;

const TABLE: &str = "siem_cursors";

/// What is kept of a sink.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub(super) struct Cursor {
    /// The last entry that is done with, as text; none before the first.
    pub(super) after: Option<String>,
    /// The last entry that the platform surely has, as text, where those up to `after` are in doubt: whoever takes the
    /// place over begins behind it.
    #[serde(default)]
    pub(super) settled: Option<String>,
    /// The last entry up to which all are counted, as text, where `after` has gone back behind it.
    #[serde(default)]
    pub(super) counted: Option<String>,
    /// How many entries the platform has taken, however often each was sent.
    pub(super) forwarded: u64,
    /// How many attempts failed.
    pub(super) errors: u64,
    /// How many entries it refused for good.
    pub(super) dead: u64,
    /// How many entries retention dropped before they could be sent.
    #[serde(default)]
    pub(super) missed: u64,
    /// When it took the last one, in Unix milliseconds.
    pub(super) last_forward_ms: Option<i64>,
}

impl Record for Cursor {
    const VERSION: u32 = 1;
}

impl Cursor {
    /// Returns the last entry that is done with.
    pub(super) fn place(&self) -> Option<Ulid> {
        self.after.as_ref().and_then(|id| id.parse().ok())
    }

    /// Returns the last entry up to which all are counted.
    pub(super) fn counted(&self) -> Option<Ulid> {
        let counted = self.counted.as_ref().and_then(|id| id.parse().ok());
        counted.max(self.place())
    }

    /// Moves the place; what was counted stays counted.
    pub(super) fn move_to(&mut self, place: Ulid) {
        self.counted = self.counted().filter(|counted| *counted > place).map(|counted| counted.to_string());
        self.after = Some(place.to_string());
    }

    /// Returns the figures with the place where whoever takes it over begins.
    pub(super) fn taken_over(mut self) -> Self {
        if let Some(settled) = self.settled.take().and_then(|id| id.parse().ok()) {
            self.move_to(settled);
        }
        self
    }
}

/// The places of all sinks.
#[derive(Clone)]
pub(super) struct Cursors(Table<String, Cursor>);

impl Cursors {
    pub(super) fn new(store: &Store) -> Self {
        Self(store.table(TABLE))
    }

    /// Returns what is kept of a sink, if it was ever run.
    pub(super) fn read(&self, sink: &str) -> Result<Option<Cursor>, StoreError> {
        self.0.get(&sink.to_owned())
    }

    /// Keeps a sink's place; after a power cut it may be an earlier one, so that entries are sent twice.
    pub(super) fn write(&self, sink: &str, cursor: &Cursor) -> Result<(), StoreError> {
        self.0.put(&sink.to_owned(), cursor)
    }
}
