//! What of the journal cannot be read, and which entries may have been there.
//!
//! A gap is a stretch of a segment that is damaged. Its entries lie between the last one before it and the first one
//! behind it, so that every query that asks for ids between these may miss some.

use std::collections::BTreeMap;
use std::ops::Range;
use std::ops::RangeTo;

use serde::Deserialize;
use serde::Serialize;

use crate::govern::audit::log::Position;
use crate::id::Ulid;

/// How many gaps of a segment are told apart; what comes to light beyond them counts as part of the last one.
const GAPS_OF_SEGMENT_MAX: usize = 16;

/// The gaps of a journal, by where they begin.
#[derive(Default)]
pub(super) struct Gaps(BTreeMap<Position, Gap>);

/// A gap: where it ends, and the ids between which its entries lie.
#[derive(Clone, Copy)]
struct Gap {
    end: u64,
    after: Ulid,
    before: Ulid,
}

/// A gap as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct GapRecord {
    segment: u64,
    begin: u64,
    end: u64,
    after: String,
    before: String,
}

impl Gaps {
    /// Returns what was stored.
    pub(super) fn load(records: &[GapRecord]) -> Self {
        let gap = |record: &GapRecord| {
            let at = Position { segment: record.segment, offset: record.begin };
            // What cannot be read of the ids could be any.
            let after = record.after.parse().unwrap_or(Ulid(0));
            let before = record.before.parse().unwrap_or(Ulid(u128::MAX));
            (at, Gap { end: record.end, after, before })
        };
        Self(records.iter().map(gap).collect())
    }

    /// Returns what is to be stored.
    pub(super) fn records(&self) -> Vec<GapRecord> {
        let record = |(at, gap): (&Position, &Gap)| GapRecord {
            segment: at.segment,
            begin: at.offset,
            end: gap.end,
            after: gap.after.to_string(),
            before: gap.before.to_string(),
        };
        self.0.iter().map(record).collect()
    }

    /// Takes note of a gap whose entries lie between two ids; tells whether it is news.
    pub(super) fn note(&mut self, at: Position, end: u64, (after, before): (Ulid, Ulid)) -> bool {
        let segment = Position { offset: 0, ..at }..=Position { offset: u64::MAX, ..at };
        let count = self.0.range(segment.clone()).count();
        let known = self.0.range_mut(segment).rev().find(|(begin, gap)| {
            let is_within = begin.offset <= at.offset && at.offset < gap.end;
            is_within || count >= GAPS_OF_SEGMENT_MAX
        });
        match known {
            Some((_, gap)) => {
                let is_more = end > gap.end;
                gap.end = gap.end.max(end);
                gap.after = gap.after.min(after);
                gap.before = gap.before.max(before);
                is_more
            }
            None => {
                self.0.insert(at, Gap { end, after, before });
                true
            }
        }
    }

    /// Takes note of the first entry behind the last gap.
    pub(super) fn end_before(&mut self, id: Ulid) {
        for (_, gap) in self.0.iter_mut().rev().take_while(|(_, gap)| gap.before == Ulid(u128::MAX)) {
            gap.before = id;
        }
    }

    /// Forgets the gaps of some segments.
    pub(super) fn forget(&mut self, segments: RangeTo<u64>) {
        self.0 = self.0.split_off(&Position { segment: segments.end, offset: 0 });
    }

    /// Forgets the gaps from a position on.
    pub(super) fn forget_from(&mut self, at: Position) {
        drop(self.0.split_off(&at));
    }

    /// Tells whether entries with such ids may be missing.
    pub(super) fn may_hold(&self, ids: &Range<Ulid>) -> bool {
        self.0.values().any(|gap| gap.after.0.saturating_add(1) < ids.end.0 && ids.start < gap.before)
    }

    /// Tells whether something is missing up to the end of a segment.
    pub(super) fn is_any_up_to(&self, segment: u64) -> bool {
        self.0.keys().next().is_some_and(|first| first.segment <= segment)
    }

    /// Returns where the gaps begin.
    pub(super) fn begins(&self) -> Vec<Position> {
        self.0.keys().copied().collect()
    }

    /// Returns how many bytes cannot be read.
    pub(super) fn bytes(&self) -> u64 {
        self.0.iter().map(|(at, gap)| gap.end.saturating_sub(at.offset)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(segment: u64, offset: u64) -> Position {
        Position { segment, offset }
    }

    #[test]
    fn what_lies_between_its_neighbours_may_be_missing() {
        let mut gaps = Gaps::default();
        assert!(gaps.note(at(2, 100), 200, (Ulid(10), Ulid(u128::MAX))));
        assert!(!gaps.note(at(2, 150), 200, (Ulid(10), Ulid(u128::MAX))), "it is known");
        gaps.end_before(Ulid(13));
        for (ids, expected) in [(0..11, false), (0..12, true), (12..13, true), (13..99, false), (0..99, true)]
        {
            assert_eq!(gaps.may_hold(&(Ulid(ids.start)..Ulid(ids.end))), expected, "{ids:?}");
        }
        let gaps = Gaps::load(&gaps.records());
        assert!(gaps.may_hold(&(Ulid(12)..Ulid(13))) && !gaps.may_hold(&(Ulid(13)..Ulid(14))));
        assert_eq!((gaps.bytes(), gaps.begins()), (100, vec![at(2, 100)]));
    }

    #[test]
    fn there_is_no_end_of_damage_but_of_gaps() {
        let mut gaps = Gaps::default();
        for number in 0..1000 {
            let begin = number * 10;
            gaps.note(at(3, begin), begin + 1, (Ulid(u128::from(number)), Ulid(u128::from(number) + 2)));
        }
        assert_eq!(gaps.begins().len(), GAPS_OF_SEGMENT_MAX);
        assert!((0..1000).all(|number| gaps.may_hold(&(Ulid(number + 1)..Ulid(number + 2)))));
        assert!(gaps.is_any_up_to(3) && !gaps.is_any_up_to(2));
        gaps.forget(..4);
        assert!(gaps.begins().is_empty());
    }
}
