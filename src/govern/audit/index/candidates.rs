//! Finds the blocks that may hold matches, by ordered keys.

use std::ops::ControlFlow;
use std::ops::Range;

use super::Index;
use super::QueryError;
use super::Reach;
use crate::govern::audit::block;
use crate::govern::audit::block::Matches;
use crate::govern::audit::block::Path;
use crate::govern::audit::query::Query;
use crate::govern::audit::query::at_ms;
use crate::govern::audit::tally::HOUR_MS;
use crate::govern::audit::tally::Tally;
use crate::id::Ulid;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::StoreError;

/// How many keys are looked up at a time.
const LOOKED_UP: usize = 256;

/// A block that may hold matches.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    pub(super) first: Ulid,
    pub(super) matches: Matches,
}

/// Which blocks are looked for, and in which order.
pub(super) struct Search<'a> {
    /// Its names are tokens.
    pub(super) query: &'a Query,
    /// The ids among which matches are looked for.
    pub(super) ids: &'a Range<Ulid>,
    /// What was in blocks when the answer began.
    pub(super) reach: Reach,
    /// What is known of how often facts occur.
    pub(super) hours: &'a [(u64, Tally)],
    pub(super) order: Order,
}

impl Candidate {
    /// Tells, without a look at the block, that all its ids lie within a range: a block is of one hour.
    pub(super) fn lies_within(&self, ids: &Range<Ulid>) -> bool {
        ids.start <= self.first && hour_start(block::hour(self.first) + 1) <= ids.end
    }
}

impl Search<'_> {
    /// Returns the first ids of the blocks in which such ids may be: the first one may begin before them, in the
    /// same hour.
    fn firsts(&self) -> Range<Ulid> {
        let newest = self.reach.newest.filter(|_| !self.ids.is_empty());
        let end = newest.map_or(Ulid(0), |newest| self.ids.end.min(Ulid(newest.0.saturating_add(1))));
        hour_start(block::hour(self.ids.start)).min(end)..end
    }

    fn frequency(&self, fact: &Query) -> u64 {
        self.hours.iter().map(|(_, tally)| tally.matching(fact)).sum()
    }
}

impl Index {
    /// Shows the blocks that may hold matches, in order, while `visit` wants more.
    pub(super) fn each_candidate(
        &self,
        search: &Search<'_>,
        mut visit: impl FnMut(Candidate) -> Result<bool, QueryError>,
    ) -> Result<(), QueryError> {
        let firsts = search.firsts();
        if firsts.is_empty() {
            return Ok(());
        }
        if let Some(request) = &search.query.request_id {
            for candidate in self.with_request(request, firsts, search.order)? {
                if !visit(candidate)? {
                    break;
                }
            }
            return Ok(());
        }
        let path = Path::of(search.query, |fact| search.frequency(fact));
        let mut range = path.keys(&firsts);
        loop {
            let (candidates, next) = self.candidates(&path, &range, search.order)?;
            for candidate in candidates {
                if !visit(candidate)? {
                    return Ok(());
                }
            }
            match (next, search.order) {
                (None, _) => return Ok(()),
                (Some(last), Order::Descending) => range.end = Some(last),
                (Some(mut last), Order::Ascending) => {
                    last.push(0);
                    range.start = last;
                }
            }
        }
    }

    fn with_request(
        &self,
        request: &str,
        firsts: Range<Ulid>,
        order: Order,
    ) -> Result<Vec<Candidate>, QueryError> {
        let blocks = self.requests.blocks(request)?;
        let found =
            blocks.range(firsts).map(|first| Candidate { first: *first, matches: Matches::AtMost(1) });
        Ok(match order {
            Order::Ascending => found.collect(),
            Order::Descending => found.rev().collect(),
        })
    }

    /// Returns the candidates under the next keys of a range, and the last of these keys unless all were looked at.
    fn candidates(
        &self,
        path: &Path<'_>,
        range: &KeyRange,
        order: Order,
    ) -> Result<(Vec<Candidate>, Option<Vec<u8>>), QueryError> {
        let (mut found, mut looked_at, mut last, mut is_readable) = (Vec::new(), 0, None, true);
        self.store.scan(path.table(), range, order, &mut |key, share| {
            match (block::first_of(key), path.matches(share)) {
                (Some(first), Some(matches)) if matches.at_most() > 0 => {
                    found.push(Candidate { first, matches })
                }
                (Some(_), Some(_)) => {}
                _ => is_readable = false,
            }
            looked_at += 1;
            if is_readable && looked_at < LOOKED_UP {
                return ControlFlow::Continue(());
            }
            last = Some(key.to_vec());
            ControlFlow::Break(())
        })?;
        if !is_readable {
            return Err(StoreError::UnreadableRecord { table: path.table(), version: 0 }.into());
        }
        Ok((found, last))
    }
}

/// Returns the smallest id of an hour that is counted from 1970.
pub(super) fn hour_start(hour: u64) -> Ulid {
    at_ms((hour as i64).saturating_mul(HOUR_MS))
}
