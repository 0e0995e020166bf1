//! Questions to the index: pages, totals, and the place behind an entry.

use std::ops::ControlFlow;
use std::ops::Range;

use super::Index;
use super::QueryError;
use super::damaged;
use crate::govern::audit::block;
use crate::govern::audit::block::Block;
use crate::govern::audit::block::REQUESTS;
use crate::govern::audit::event::Entry;
use crate::govern::audit::log::Position;
use crate::govern::audit::log::Reader;
use crate::govern::audit::query::PAGE_ENTRIES_MAX;
use crate::govern::audit::query::Page;
use crate::govern::audit::query::Query;
use crate::govern::audit::query::at_ms;
use crate::govern::audit::stored;
use crate::govern::audit::stored::Outline;
use crate::govern::audit::tally::HOUR_MS;
use crate::id::Ulid;
use crate::store::Key;
use crate::store::KeyRange;
use crate::store::Order;

/// How many keys are looked up at a time, newest first.
const LOOKED_UP: usize = 64;

/// Nobody's token.
const NOBODY: &str = "!";

/// A frame that holds to a query: where it lies, and its payload.
type Match = (Position, Vec<u8>);

impl Index {
    /// Answers a query from what is committed now.
    pub(in crate::govern::audit) fn query(&self, query: &Query) -> Result<Page, QueryError> {
        if !(1..=PAGE_ENTRIES_MAX).contains(&query.limit) {
            return Err(QueryError::Limit);
        }
        let indexed = self.catch_up()?;
        let query = &self.by_tokens(query, indexed)?;
        let end = query.end_id().min(query.cursor.unwrap_or(Ulid(u128::MAX)));
        let mut entries = Vec::new();
        // One more than asked for tells whether there is another page.
        self.walk(query, indexed, &(query.first_id()..end), |entry| {
            entries.push(entry);
            entries.len() <= query.limit
        })?;
        let more = entries.len() > query.limit;
        entries.truncate(query.limit);
        let cursor = entries.last().filter(|_| more).map(|entry: &Entry| entry.id);
        Ok(Page { entries, total: self.total(query)?, cursor })
    }

    /// Returns the query as the journal's entries are compared with it: by tokens.
    pub(in crate::govern::audit) fn resolved(&self, query: &Query) -> Result<Query, QueryError> {
        let indexed = self.catch_up()?;
        self.by_tokens(query, indexed)
    }

    /// Returns the oldest entry that holds to the query's names and facts.
    pub(in crate::govern::audit) fn oldest(&self, query: &Query) -> Result<Option<Entry>, QueryError> {
        let indexed = self.catch_up()?;
        let query = &self.by_tokens(query, indexed)?;
        let all = Ulid(0)..Ulid(u128::MAX);
        let mut found = Vec::new();
        self.each_oldest(query, |block| {
            found = self.matches_in(block, query, &all)?;
            Ok(found.is_empty())
        })?;
        if found.is_empty() {
            found = self.matches_after(indexed, query, &all)?;
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
        for name in names {
            let Some(token) = self.log.keyring.known(name) else { continue };
            let query = Query { subject: Some(token.as_ref().to_owned()), ..Query::default() };
            let mut is_there = false;
            self.each_oldest(&query, |block| {
                is_there = block.segment <= segment && block.may_match(&query);
                Ok(!is_there && block.segment <= segment)
            })?;
            if is_there {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Shows the blocks that may hold matches, oldest first, while `visit` wants more.
    fn each_oldest(
        &self,
        query: &Query,
        mut visit: impl FnMut(&Block) -> Result<bool, QueryError>,
    ) -> Result<(), QueryError> {
        let (table, mut range) = block::narrowest(query, Ulid(u128::MAX));
        loop {
            let mut keys = Vec::with_capacity(LOOKED_UP);
            self.store.scan(table, &range, Order::Ascending, &mut |key, _| {
                keys.push(key.to_vec());
                if keys.len() < LOOKED_UP { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            for first in keys.iter().filter_map(|key| block::first_of(key)) {
                if let Some(block) = self.blocks.get(&first)?
                    && !visit(&block)?
                {
                    return Ok(());
                }
            }
            let Some(mut last) = keys.pop() else { return Ok(()) };
            last.push(0);
            range.start = last;
        }
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
        let indexed = self.catch_up()?;
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

    /// Shows matching entries with the given ids, newest first, while `visit` wants more.
    fn walk(
        &self,
        query: &Query,
        indexed: Position,
        ids: &Range<Ulid>,
        mut visit: impl FnMut(Entry) -> bool,
    ) -> Result<(), QueryError> {
        let mut show = |found: Vec<Match>| -> Result<bool, QueryError> {
            for (at, payload) in found.into_iter().rev() {
                if !visit(stored::entry(&payload, &self.log.keyring).map_err(|_| damaged(at))?) {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        if show(self.matches_after(indexed, query, ids)?)? {
            self.each_block(query, indexed, ids, |_, block| show(self.matches_in(block, query, ids)?))?;
        }
        Ok(())
    }

    /// Counts all matches: whole hours by their tallies, the rest by blocks and one by one.
    fn total(&self, query: &Query) -> Result<u64, QueryError> {
        let ids = query.first_id()..query.end_id();
        let first_hour = (ids.start.unix_ms() + HOUR_MS - 1).div_euclid(HOUR_MS) as u64;
        let end_hour = query.to.map_or(u64::MAX, |_| block::hour(ids.end));
        let is_named = query.entity.is_some() || query.subject.is_some() || query.request_id.is_some();
        let by_hour = !is_named && first_hour < end_hour;
        // Tallies and cursor have to be of one moment.
        let (indexed, whole) = {
            let indexed = self.indexed.lock();
            let range = KeyRange { start: first_hour.to_bytes(), end: Some(end_hour.to_bytes()) };
            let hours =
                if by_hour { self.tallies.list(&range, Order::Ascending, usize::MAX)? } else { Vec::new() };
            (*indexed, hours.iter().map(|(_, tally)| tally.matching(query)).sum::<u64>())
        };
        let recent = self.matches_after(indexed, query, &ids)?.len() as u64;
        if !by_hour {
            return Ok(recent + self.count(query, indexed, ids)?);
        }
        let before = self.count(query, indexed, ids.start..hour_start(first_hour))?;
        let after =
            if query.to.is_some() { self.count(query, indexed, hour_start(end_hour)..ids.end)? } else { 0 };
        Ok(recent + before + whole + after)
    }

    /// Counts matches in blocks.
    fn count(&self, query: &Query, indexed: Position, ids: Range<Ulid>) -> Result<u64, QueryError> {
        let mut count = 0;
        self.each_block(query, indexed, &ids, |first, block| {
            let is_whole = ids.contains(&first) && ids.contains(&block.last());
            count += match block.count(query).filter(|_| is_whole) {
                Some(told) => told,
                None => self.matches_in(block, query, &ids)?.len() as u64,
            };
            Ok(true)
        })?;
        Ok(count)
    }

    /// Shows the blocks before `indexed` that may hold matches, newest first, while `visit` wants more.
    fn each_block(
        &self,
        query: &Query,
        indexed: Position,
        ids: &Range<Ulid>,
        mut visit: impl FnMut(Ulid, &Block) -> Result<bool, QueryError>,
    ) -> Result<(), QueryError> {
        if ids.is_empty() {
            return Ok(());
        }
        let (table, mut range) = block::narrowest(query, ids.end);
        loop {
            let mut keys = Vec::with_capacity(LOOKED_UP);
            self.store.scan(table, &range, Order::Descending, &mut |key, _| {
                keys.push(key.to_vec());
                if keys.len() < LOOKED_UP { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            for first in keys.iter().filter_map(|key| block::first_of(key)) {
                // Gone in the meantime, or come: neither is of the moment that is asked about.
                let Some(block) = self.blocks.get(&first)?.filter(|block| block.start() < indexed) else {
                    continue;
                };
                if block.last() < ids.start {
                    return Ok(());
                }
                if self.may_match(first, &block, query)? && !visit(first, &block)? {
                    return Ok(());
                }
            }
            match keys.pop() {
                Some(last) => range.end = Some(last),
                None => return Ok(()),
            }
        }
    }

    fn may_match(&self, first: Ulid, block: &Block, query: &Query) -> Result<bool, QueryError> {
        let Some(request) = query.request_id.as_deref().filter(|_| block.may_match(query)) else {
            return Ok(query.request_id.is_none() && block.may_match(query));
        };
        let prints = self.store.get(REQUESTS, &first.to_bytes())?;
        Ok(prints.is_some_and(|prints| block::may_hold_request(&prints, request)))
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

fn hour_start(hour: u64) -> Ulid {
    at_ms((hour as i64).saturating_mul(HOUR_MS))
}
