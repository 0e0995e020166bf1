//! Questions to the index: pages, totals, and the place behind an entry.

use std::ops::Range;

use super::Index;
use super::QueryError;
use super::Reach;
use super::candidates::Search;
use super::candidates::hour_start;
use super::damaged;
use crate::govern::audit::block;
use crate::govern::audit::block::Block;
use crate::govern::audit::block::Matches;
use crate::govern::audit::event::Entry;
use crate::govern::audit::log::Position;
use crate::govern::audit::log::Reader;
use crate::govern::audit::query::PAGE_ENTRIES_MAX;
use crate::govern::audit::query::Page;
use crate::govern::audit::query::Query;
use crate::govern::audit::stored;
use crate::govern::audit::stored::Outline;
use crate::govern::audit::tally::Tally;
use crate::id::Ulid;
use crate::store::Key;
use crate::store::KeyRange;
use crate::store::Order;

/// Nobody's token.
const NOBODY: &str = "!";

/// A frame that holds to a query: where it lies, and its payload.
type Match = (Position, Vec<u8>);

/// The part of the log an answer is about.
struct Snapshot {
    /// What lies in blocks.
    reach: Reach,
    /// The whole hours within the asked time that are in blocks, and their tallies; none where names are asked for.
    hours: Vec<(u64, Tally)>,
    /// The matches that are in no block yet.
    recent: Vec<Match>,
}

impl Snapshot {
    fn search<'a>(&'a self, query: &'a Query, ids: &'a Range<Ulid>) -> Search<'a> {
        Search { query, ids, reach: self.reach, hours: &self.hours, order: Order::Descending }
    }
}

impl Index {
    /// Answers a query from what is committed now.
    pub(in crate::govern::audit) fn query(&self, query: &Query) -> Result<Page, QueryError> {
        if !(1..=PAGE_ENTRIES_MAX).contains(&query.limit) {
            return Err(QueryError::Limit);
        }
        let reach = self.catch_up()?;
        let query = &self.by_tokens(query, reach.at)?;
        let snapshot = self.snapshot(query)?;
        let total = self.total(query, &snapshot)?;
        let mut entries = self.newest_matches(query, snapshot, total)?;
        let more = entries.len() > query.limit;
        entries.truncate(query.limit);
        let cursor = entries.last().filter(|_| more).map(|entry: &Entry| entry.id);
        Ok(Page { entries, total, cursor, is_complete: true })
    }

    /// Returns the query as the journal's entries are compared with it: by tokens.
    pub(in crate::govern::audit) fn resolved(&self, query: &Query) -> Result<Query, QueryError> {
        let reach = self.catch_up()?;
        self.by_tokens(query, reach.at)
    }

    /// Returns the oldest entry that holds to the query, its cursor left aside.
    pub(in crate::govern::audit) fn oldest(&self, query: &Query) -> Result<Option<Entry>, QueryError> {
        let reach = self.catch_up()?;
        let query = &self.by_tokens(query, reach.at)?;
        let all = query.first_id()..query.end_id();
        let mut found = Vec::new();
        let search = Search { query, ids: &all, reach, hours: &[], order: Order::Ascending };
        self.each_candidate(&search, |candidate| {
            if let Some(block) = self.blocks.get(&candidate.first)? {
                found = self.matches_in(&block, query, &all)?;
            }
            Ok(found.is_empty())
        })?;
        if found.is_empty() {
            found = self.matches_after(reach.at, query, &all)?;
        }
        let Some((at, payload)) = found.first() else { return Ok(None) };
        Ok(Some(stored::entry(payload, &self.log.keyring).map_err(|_| damaged(*at))?))
    }

    /// Tells whether a segment, or one before it, has entries about or by one of the names.
    pub(in crate::govern::audit) fn tells_of(
        &self,
        segment: u64,
        names: &[String],
    ) -> Result<bool, QueryError> {
        let reach = *self.indexed.lock();
        let all = Ulid(0)..Ulid(u128::MAX);
        for name in names {
            let Some(token) = self.log.keyring.known(name) else { continue };
            let query = Query { subject: Some(token.as_ref().to_owned()), ..Query::default() };
            let mut is_there = false;
            let search = Search { query: &query, ids: &all, reach, hours: &[], order: Order::Ascending };
            self.each_candidate(&search, |candidate| {
                let block = self.blocks.get(&candidate.first)?;
                is_there = block.as_ref().is_some_and(|block| block.segment <= segment);
                Ok(block.is_none())
            })?;
            if is_there {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the query with tokens for its names; a name without a token is one that nothing is known of.
    fn by_tokens(&self, query: &Query, indexed: Position) -> Result<Query, QueryError> {
        let token = |name: &Option<String>| -> Result<Option<String>, QueryError> {
            let Some(name) = name else { return Ok(None) };
            let known = || self.log.keyring.known(name).map(|token| token.as_ref().to_owned());
            if let Some(token) = known() {
                return Ok(Some(token));
            }
            // Entries of version 1 that are in no block yet: their names get tokens as they are looked at.
            let nobody = Query { entity: Some(NOBODY.to_owned()), ..Query::default() };
            self.matches_after(indexed, &nobody, &(Ulid(0)..Ulid(u128::MAX)))?;
            Ok(Some(known().unwrap_or_else(|| NOBODY.to_owned())))
        };
        Ok(Query { entity: token(&query.entity)?, subject: token(&query.subject)?, ..query.clone() })
    }

    /// Returns the position of the first entry whose id is above `id`.
    pub(in crate::govern::audit) fn position_after(&self, id: Ulid) -> Result<Position, QueryError> {
        let indexed = self.catch_up()?.at;
        let next = Ulid(id.0.saturating_add(1)).to_bytes();
        let until = KeyRange { start: Vec::new(), end: Some(next.clone()) };
        let around = self.blocks.list(&until, Order::Descending, 1)?.into_iter().map(|(_, block)| block);
        let from = KeyRange { start: next, end: None };
        let after = self.blocks.list(&from, Order::Ascending, 1)?.into_iter().map(|(_, block)| block);
        let place = around.filter(|block| block.last() > id).chain(after).next();
        let mut reader = self.log.reader(place.map_or(indexed, |block| block.start()));
        while let Some((at, payload)) = reader.next()? {
            if outline(at, payload)?.id > id {
                return Ok(at);
            }
        }
        Ok(reader.position())
    }

    /// Takes in what an answer needs that changes while blocks are written.
    fn snapshot(&self, query: &Query) -> Result<Snapshot, QueryError> {
        let ids = query.first_id()..query.end_id();
        let whole = whole_hours(query);
        let is_named = query.entity.is_some() || query.subject.is_some() || query.request_id.is_some();
        // Tallies and reach have to be of one moment.
        let (reach, hours) = {
            let indexed = self.indexed.lock();
            let range = KeyRange { start: whole.start.to_bytes(), end: Some(whole.end.to_bytes()) };
            let hours = match is_named || whole.is_empty() {
                true => Vec::new(),
                false => self.tallies.list(&range, Order::Ascending, usize::MAX)?,
            };
            (*indexed, hours)
        };
        Ok(Snapshot { reach, hours, recent: self.matches_after(reach.at, query, &ids)? })
    }

    /// Counts all matches: whole hours by their tallies, the rest by the blocks' keys, edges one by one.
    fn total(&self, query: &Query, snapshot: &Snapshot) -> Result<u64, QueryError> {
        let ids = query.first_id()..query.end_id();
        let recent = snapshot.recent.len() as u64;
        let (Some((first, _)), Some((last, _))) = (snapshot.hours.first(), snapshot.hours.last()) else {
            return Ok(recent + self.count(query, snapshot, ids)?);
        };
        let whole: u64 = snapshot.hours.iter().map(|(_, tally)| tally.matching(query)).sum();
        let before = self.count(query, snapshot, ids.start..hour_start(*first))?;
        let after = match query.to {
            Some(_) => self.count(query, snapshot, hour_start(last + 1)..ids.end)?,
            None => 0,
        };
        Ok(recent + before + whole + after)
    }

    /// Counts matches in blocks.
    fn count(&self, query: &Query, snapshot: &Snapshot, ids: Range<Ulid>) -> Result<u64, QueryError> {
        let mut count = 0;
        self.each_candidate(&snapshot.search(query, &ids), |candidate| {
            count += match candidate.matches {
                Matches::Exactly(told) if candidate.lies_within(&ids) => told,
                matches => self.count_in(candidate.first, matches, query, &ids)?,
            };
            Ok(true)
        })?;
        Ok(count)
    }

    /// Counts matches in a block that may reach out of the asked time, or whose key does not tell.
    fn count_in(
        &self,
        first: Ulid,
        matches: Matches,
        query: &Query,
        ids: &Range<Ulid>,
    ) -> Result<u64, QueryError> {
        let Some(block) = self.blocks.get(&first)? else { return Ok(0) };
        match matches {
            Matches::Exactly(told) if ids.contains(&first) && ids.contains(&block.last()) => Ok(told),
            _ => Ok(self.matches_in(&block, query, ids)?.len() as u64),
        }
    }

    /// Returns the newest matches before the query's cursor, one more than its limit if there are so many.
    fn newest_matches(
        &self,
        query: &Query,
        mut snapshot: Snapshot,
        total: u64,
    ) -> Result<Vec<Entry>, QueryError> {
        let ids = query.first_id()..query.end_id().min(query.cursor.unwrap_or(Ulid(u128::MAX)));
        let wanted = match query.cursor {
            Some(_) => query.limit + 1,
            None => (query.limit + 1).min(usize::try_from(total).unwrap_or(usize::MAX)),
        };
        let recent = match query.cursor {
            Some(_) => self.matches_after(snapshot.reach.at, query, &ids)?,
            None => std::mem::take(&mut snapshot.recent),
        };
        let mut entries = Vec::new();
        let mut take = |found: Vec<Match>| -> Result<bool, QueryError> {
            for (at, payload) in found.into_iter().rev().take(wanted - entries.len()) {
                entries.push(stored::entry(&payload, &self.log.keyring).map_err(|_| damaged(at))?);
            }
            Ok(entries.len() < wanted)
        };
        if take(recent)? {
            self.each_candidate(&snapshot.search(query, &ids), |candidate| {
                match self.blocks.get(&candidate.first)? {
                    Some(block) => take(self.matches_in(&block, query, &ids)?),
                    None => Ok(true),
                }
            })?;
        }
        Ok(entries)
    }

    fn matches_in(&self, block: &Block, query: &Query, ids: &Range<Ulid>) -> Result<Vec<Match>, QueryError> {
        self.matches(self.log.reader(block.start()), query, ids, |at| block.holds(at))
    }

    /// Returns the frames that hold to the query, as long as they lie `within`.
    fn matches(
        &self,
        mut reader: Reader<'_>,
        query: &Query,
        ids: &Range<Ulid>,
        within: impl Fn(Position) -> bool,
    ) -> Result<Vec<Match>, QueryError> {
        let mut found = Vec::new();
        while let Some((at, payload)) = reader.next()? {
            if !within(at) {
                break;
            }
            let entry = outline(at, payload)?;
            if ids.contains(&entry.id) && entry.matches(query, &self.log.keyring) {
                found.push((at, payload.to_vec()));
            }
        }
        Ok(found)
    }

    fn matches_after(
        &self,
        indexed: Position,
        query: &Query,
        ids: &Range<Ulid>,
    ) -> Result<Vec<Match>, QueryError> {
        self.matches(self.log.reader(indexed), query, ids, |_| true)
    }
}

fn outline(at: Position, payload: &[u8]) -> Result<Outline<'_>, QueryError> {
    stored::outline(payload).map_err(|_| damaged(at).into())
}

/// Returns the hours that lie wholly within the asked time, counted from 1970.
fn whole_hours(query: &Query) -> Range<u64> {
    // An hour counts as whole only from its first id on.
    let first = match query.first_id() {
        Ulid(0) => 0,
        Ulid(start) => block::hour(Ulid(start - 1)) + 1,
    };
    first..query.to.map_or(u64::MAX, |_| block::hour(query.end_id()))
}
