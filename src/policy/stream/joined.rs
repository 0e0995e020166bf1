//! Texts that are read as one beside their own lanes: what is parted over artifacts, or over artifacts and messages.
//!
//! Such a text only tells what its parts do not: a match within the text of one lane, or of one that joins fewer, is told
//! there. It is neither read by a model nor searched for names or placeholders, and its bytes are counted where they are
//! said. It holds back the last unbroken piece of what may be a value, and no sentence: one that is found in it all the
//! same, after its begin has left, ends the stream.

use std::collections::VecDeque;
use std::ops::Range;

use super::StreamInspector;
use super::held::Held;
use super::held::Segment;
use super::stop::Stop;
use crate::llm::dialect::LaneKey;
use crate::llm::json::JsonString;
use crate::policy::inspect::Inspector;
use crate::redact::token::Vault;

/// How many changes from lane to lane are remembered; a match that begins before them counts as parted.
const RUNS_MAX: usize = 4096;

/// Which lanes a joined text is made of.
#[derive(Debug, Default)]
pub(super) struct Runs {
    runs: VecDeque<Run>,
}

/// Text of one lane, without any of another between.
#[derive(Debug)]
struct Run {
    /// Where it begins in the joined text.
    start: usize,
    slot: usize,
}

impl Runs {
    /// Notes that text of a lane, at `place` of that, stands at `start` of the joined text.
    fn note(&mut self, start: usize, (slot, place): (usize, usize)) {
        if place > 0 && self.runs.back().is_some_and(|run| run.slot == slot) {
            return;
        }
        if self.runs.len() == RUNS_MAX {
            self.runs.pop_front();
        }
        self.runs.push_back(Run { start, slot });
    }

    /// Tells whether no text is joined.
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Tells whether a range of the joined text is all of one lane, which has it in the same way.
    pub(super) fn is_of_one(&self, range: &Range<usize>) -> bool {
        let behind = self.runs.partition_point(|run| run.start <= range.start);
        behind > 0 && self.runs.get(behind).is_none_or(|next| range.end <= next.start)
    }

    /// Returns the parts of a range of the joined text, each of one lane.
    pub(super) fn parts(&self, range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let behind = self.runs.partition_point(|run| run.start <= range.start);
        let borders = self.runs.range(behind..).map(|run| run.start);
        let ends = borders.take_while(move |start| *start < range.end).chain([range.end]);
        ends.scan(range.start, |start, end| Some(std::mem::replace(start, end)..end))
    }
}

impl StreamInspector {
    /// Feeds a text to its lane, and to those that it is joined in. What was found in the text alone are the observations
    /// from `told` on. A match that blocks stops the lane that it is in; the others take the text all the same.
    pub(super) fn said(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        held: &mut Held,
        (key, string): (LaneKey, &JsonString),
        (text, told): (&[u8], usize),
    ) -> Result<(), Stop> {
        let joined = inspector.dialect.joined(&key);
        if joined.is_empty() || text.is_empty() {
            return self.continued(inspector, vault, held, (key, string), (text, told));
        }
        let mut stop = None;
        match self.continued(inspector, vault, held, (key.clone(), string), (text, told)) {
            Err(Stop::Finding(found)) => stop = Some(found),
            fed => fed?,
        }
        let Some(own) = self.by_key.get(&key).copied() else { return Ok(()) };
        let mut known = (own, self.lanes[own].fed - text.len());
        for key in joined {
            let slot = self.joined_slot(inspector, key)?;
            let start = self.lanes[slot].fed;
            match self.join(inspector, vault, held, (slot, known), (string, text)) {
                Err(Stop::Finding(found)) => drop(stop.get_or_insert(found)),
                fed => fed?,
            }
            // What one joins, the next knows as one.
            known = (slot, start);
        }
        stop.map_or(Ok(()), |found| Err(Stop::Finding(found)))
    }

    /// Feeds a text to a joined one; `known` tells which other text has it, and where there.
    fn join(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        held: &mut Held,
        (slot, known): (usize, (usize, usize)),
        (string, text): (&JsonString, &[u8]),
    ) -> Result<(), Stop> {
        let entry = &mut self.lanes[slot];
        entry.resume()?;
        let start = entry.fed;
        entry.runs.note(start, known);
        held.segments.push(Segment { slot, text: start..start + text.len(), string: string.clone() });
        self.feed(inspector, vault, slot, text)
    }

    fn joined_slot(&mut self, inspector: &Inspector<'_>, key: LaneKey) -> Result<usize, Stop> {
        match self.by_key.get(&key) {
            Some(slot) => Ok(*slot),
            None => self.open(inspector, key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_one_lane_is_known_from_what_is_parted() {
        let mut runs = Runs::default();
        assert!(runs.is_empty());
        for (start, known) in [(0, (1, 0)), (5, (1, 5)), (9, (2, 0)), (12, (1, 9)), (20, (1, 0))] {
            runs.note(start, known);
        }
        for (range, is_of_one) in [
            (0..9, true),
            (4..7, true),
            (8..10, false),
            (9..12, true),
            (11..13, false),
            (12..20, true),
            (19..21, false),
            (20..99, true),
        ] {
            assert_eq!(runs.is_of_one(&range), is_of_one, "{range:?}");
            assert_eq!(runs.parts(range.clone()).count() == 1, is_of_one, "{range:?}");
        }
        assert_eq!(runs.parts(8..13).collect::<Vec<_>>(), [8..9, 9..12, 12..13]);
        // What lies too far back is told rather than left out.
        for at in 0..RUNS_MAX {
            runs.note(100 + at, (at % 2, at));
        }
        assert!(!runs.is_of_one(&(0..9)));
    }
}
