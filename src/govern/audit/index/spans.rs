//! Which ids are asked for: one span of them, as a rule. Where the clock was set back, runs of ids that tell another
//! moment than their entries are left out of it, and what was recorded in the time that is asked for is added.

use std::ops::Range;

use super::Index;
use super::QueryError;
use super::skews;
use super::skews::Skew;
use crate::govern::audit::query::Query;
use crate::govern::audit::stored;
use crate::id::Ulid;

impl Index {
    /// Returns the ids of the entries that were recorded in the time that a query asks for, as spans in rising order.
    pub(in crate::govern::audit) fn spans(&self, query: &Query) -> Result<Vec<Range<Ulid>>, QueryError> {
        let by_id = query.first_id()..query.end_id();
        let Some((from_ms, to_ms)) = query.recorded_ms() else { return Ok(vec![by_id]) };
        let runs = self.current()?.0.skews.runs();
        let (mut spans, mut found) = (vec![by_id], Vec::new());
        for run in &runs {
            spans = skews::without(spans, &run.range());
            if run.is_within(from_ms, to_ms) {
                let start = self.first_of_run(run, |recorded_ms| recorded_ms >= from_ms)?;
                let end = self.first_of_run(run, |recorded_ms| recorded_ms > to_ms)?;
                found.push(start.max(query.newest_known())..end);
            }
        }
        spans.extend(found);
        spans.retain(|span| span.start < span.end);
        spans.sort_by_key(|span| span.start);
        Ok(spans)
    }

    /// Returns the first id of a run from which on entries were recorded late enough; the one behind it where none was.
    fn first_of_run(&self, run: &Skew, is_late: impl Fn(i64) -> bool) -> Result<Ulid, QueryError> {
        let (Range { start, end }, (begin_ms, end_ms)) = (run.range(), run.recorded_ms);
        if is_late(begin_ms) || !is_late(end_ms) {
            return Ok(if is_late(begin_ms) { start } else { end });
        }
        let (mut low, mut high) = (start.0, end.0);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.recorded_from(Ulid(middle))? {
                Some(recorded_ms) if !is_late(recorded_ms) => low = middle + 1,
                _ => high = middle,
            }
        }
        Ok(Ulid(low))
    }

    /// Returns when the first entry from an id on was recorded, where that is not when its id tells.
    fn recorded_from(&self, id: Ulid) -> Result<Option<i64>, QueryError> {
        let at = self.position_after(Ulid(id.0.saturating_sub(1)))?;
        let payload = self.log.frame_at(at)?;
        Ok(payload.and_then(|payload| stored::outline(&payload).ok()?.recorded_unix_ms()))
    }
}
