//! Runs of entries that were recorded while the clock stood before the newest id: ids only rise, so that theirs tell a later
//! moment than their own.
//!
//! In such a run ids and moments rise together, so that the entries of a time are those between two ids there, too. A
//! clock that is set back once more begins another run.

use std::ops::Range;
use std::ops::RangeTo;

use serde::Deserialize;
use serde::Serialize;

use crate::govern::audit::stored::Outline;
use crate::id::Ulid;

/// How many runs are told apart; entries of those before them are found by their ids.
const SKEWS_MAX: usize = 1024;

/// The runs of a journal, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Skews {
    runs: Vec<Skew>,
    /// Whether the last entry belongs to the last run.
    is_under_way: bool,
}

/// A run: its first and its last id, and when these were recorded, in Unix milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Skew {
    pub(super) ids: (Ulid, Ulid),
    pub(super) recorded_ms: (i64, i64),
}

/// A run as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SkewRecord {
    first: String,
    last: String,
    begin_unix_ms: i64,
    end_unix_ms: i64,
}

impl Skews {
    /// Returns what was stored; a run that was under way goes on as another.
    pub(super) fn load(records: &[SkewRecord]) -> Self {
        let run = |record: &SkewRecord| {
            let ids = (record.first.parse().ok()?, record.last.parse().ok()?);
            Some(Skew { ids, recorded_ms: (record.begin_unix_ms, record.end_unix_ms) })
        };
        Self { runs: records.iter().filter_map(run).collect(), is_under_way: false }
    }

    /// Returns what is to be stored.
    pub(super) fn records(&self) -> Vec<SkewRecord> {
        let record = |run: &Skew| SkewRecord {
            first: run.ids.0.to_string(),
            last: run.ids.1.to_string(),
            begin_unix_ms: run.recorded_ms.0,
            end_unix_ms: run.recorded_ms.1,
        };
        self.runs.iter().map(record).collect()
    }

    /// Takes note of the next entry.
    pub(super) fn note(&mut self, entry: &Outline<'_>) {
        let was_under_way = std::mem::replace(&mut self.is_under_way, entry.recorded_unix_ms().is_some());
        let Some(recorded_ms) = entry.recorded_unix_ms() else { return };
        let goes_on = |run: &&mut Skew| was_under_way && run.recorded_ms.1 <= recorded_ms;
        match self.runs.last_mut().filter(goes_on) {
            Some(run) => (run.ids.1, run.recorded_ms.1) = (entry.id, recorded_ms),
            None => {
                if self.runs.len() == SKEWS_MAX {
                    self.runs.remove(0);
                }
                let (ids, recorded_ms) = ((entry.id, entry.id), (recorded_ms, recorded_ms));
                self.runs.push(Skew { ids, recorded_ms });
            }
        }
    }

    /// Forgets the runs of which nothing is left.
    pub(super) fn forget(&mut self, gone: RangeTo<Ulid>) {
        self.runs.retain(|run| !gone.contains(&run.ids.1));
    }

    /// Returns the runs, in order.
    pub(super) fn runs(&self) -> Vec<Skew> {
        self.runs.clone()
    }
}

impl Skew {
    /// Returns the ids of the run.
    pub(super) fn range(&self) -> Range<Ulid> {
        self.ids.0..Ulid(self.ids.1.0.saturating_add(1))
    }

    /// Tells whether anything of the run was recorded between two moments, both included.
    pub(super) fn is_within(&self, from_ms: i64, to_ms: i64) -> bool {
        from_ms <= self.recorded_ms.1 && self.recorded_ms.0 <= to_ms
    }
}

/// Returns spans without the ids of a run.
pub(super) fn without(spans: Vec<Range<Ulid>>, run: &Range<Ulid>) -> Vec<Range<Ulid>> {
    let parts = |span: Range<Ulid>| [span.start..span.end.min(run.start), span.start.max(run.end)..span.end];
    spans.into_iter().flat_map(parts).filter(|part| part.start < part.end).collect()
}
