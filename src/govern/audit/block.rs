//! Runs of entries that are found together: what the index knows of each, and the keys it is found under.
//!
//! A block is a run of at most [`BLOCK_ENTRIES`] entries of one segment and one hour. Its record tells where it
//! lies and which facts its entries have, how often; a request id is told by a checksum. One key a block, and one
//! for each name that occurs in it, is what recording costs the store; the entries are read off the journal.

use serde::Deserialize;
use serde::Serialize;

use crate::govern::keyring::Keyring;
use crate::id::Ulid;
use crate::scan::threat::Category;
use crate::scan::threat::Severity;
use crate::store::Key;
use crate::store::KeyRange;
use crate::store::Record;
use crate::store::prefix_range;

use super::log::Position;
use super::query::Query;
use super::stored::Outline;
use super::tally::Facts;
use super::tally::HOUR_MS;
use super::tally::named;

/// The most entries of a block: what a query reads to find one of them.
pub(super) const BLOCK_ENTRIES: usize = 256;

/// The record of each block, by its first id.
pub(super) const BLOCKS: &str = "audit_blocks";
/// The checksums of a block's request ids, by its first id.
pub(super) const REQUESTS: &str = "audit_block_requests";
const BY_TYPE: &str = "audit_blocks_by_event_type";
const BY_CATEGORY: &str = "audit_blocks_by_category";
const BY_SEVERITY: &str = "audit_blocks_by_severity";
/// By whom they are about, and by who did it.
const BY_ENTITY: &str = "audit_blocks_by_entity";
/// The tables whose keys end in a block's first id.
pub(super) const BLOCK_TABLES: [&str; 6] = [BLOCKS, REQUESTS, BY_TYPE, BY_CATEGORY, BY_SEVERITY, BY_ENTITY];

/// The longest text that is indexed, in bytes; longer ones are indexed by their beginning and then compared.
const INDEXED_TEXT_BYTES: usize = 256;
/// Texts up to here are never cut: cutting stops at a character's begin.
const WHOLE_TEXT_BYTES: usize = INDEXED_TEXT_BYTES - 4;

/// A run of entries of one segment and one hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Block {
    pub(super) segment: u64,
    /// Where its first frame begins and its last one ends.
    pub(super) offsets: (u64, u64),
    /// The id of its last entry; the first one's is its key.
    last: u128,
    rows: Vec<Row>,
}

/// Entries of a block that say the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    facts: Facts,
    /// The token of whom they are about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    entity: Option<String>,
    /// The token of who did it, where that is somebody else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    count: u64,
}

impl Record for Block {
    /// Version 1 held names instead of tokens, and not who did it.
    const VERSION: u32 = 2;
}

/// A block as it grows.
pub(super) struct Growing {
    pub(super) first: Ulid,
    last: Ulid,
    at: Position,
    end: u64,
    count: usize,
    rows: Vec<Row>,
    requests: Vec<u8>,
}

impl Growing {
    /// Returns the block that begins with an entry at a position.
    pub(super) fn begin(id: Ulid, at: Position) -> Self {
        let requests = Vec::with_capacity(BLOCK_ENTRIES * 4);
        Self { first: id, last: id, at, end: at.offset, count: 0, rows: Vec::new(), requests }
    }

    /// Tells whether an entry goes into this block.
    pub(super) fn takes(&self, id: Ulid, at: Position) -> bool {
        self.count < BLOCK_ENTRIES && at.segment == self.at.segment && hour(id) == hour(self.first)
    }

    /// Tells whether no further entry can go into this block, now that the journal goes on at `next`.
    pub(super) fn is_over(&self, next: Position) -> bool {
        self.count >= BLOCK_ENTRIES || next.segment > self.at.segment
    }

    /// Takes in the next entry, whose frame ends at `end`.
    pub(super) fn push(&mut self, entry: &Outline<'_>, keyring: &Keyring, end: u64) {
        let (category, severity, event_type) = (entry.category, entry.severity, entry.event_type());
        let (entity, actor) = (entry.entity(keyring), entry.actor(keyring));
        let entity = entity.as_deref().map(indexed_part);
        let by = actor.as_deref().map(indexed_part).filter(|by| Some(*by) != entity);
        let known = self.rows.iter_mut().rev().find(|row| {
            (row.facts.category, row.facts.severity) == (category, severity)
                && row.facts.event_type == event_type
                && row.entity.as_deref() == entity
                && row.by.as_deref() == by
        });
        match known {
            Some(row) => row.count += 1,
            None => self.rows.push(Row {
                facts: Facts { category, severity, event_type: event_type.to_owned() },
                entity: entity.map(str::to_owned),
                by: by.map(str::to_owned),
                count: 1,
            }),
        }
        if let Some(request) = entry.request_id() {
            self.requests.extend_from_slice(&print_of(request));
        }
        (self.last, self.end, self.count) = (entry.id, end, self.count + 1);
    }

    /// Returns where the block ends.
    pub(super) fn end(&self) -> Position {
        Position { offset: self.end, ..self.at }
    }

    /// Returns the record, and the checksums that go beside it.
    pub(super) fn finish(self) -> (Block, Vec<u8>) {
        let Self { at, end, last, rows, requests, .. } = self;
        let block = Block { segment: at.segment, offsets: (at.offset, end), last: last.0, rows };
        (block, requests)
    }
}

impl Block {
    /// Returns where its first frame begins.
    pub(super) fn start(&self) -> Position {
        Position { segment: self.segment, offset: self.offsets.0 }
    }

    /// Tells whether a frame at a position is one of its own.
    pub(super) fn holds(&self, at: Position) -> bool {
        at.segment == self.segment && (self.offsets.0..self.offsets.1).contains(&at.offset)
    }

    /// Returns the id of its last entry.
    pub(super) fn last(&self) -> Ulid {
        Ulid(self.last)
    }

    /// Tells whether an entry may hold to the query's facts and entity.
    pub(super) fn may_match(&self, query: &Query) -> bool {
        self.rows.iter().any(|row| row.fits(query))
    }

    /// Returns how many entries hold to the query's facts and entity, if the rows can tell.
    pub(super) fn count(&self, query: &Query) -> Option<u64> {
        let is_whole =
            |token: &Option<String>| token.as_ref().is_none_or(|token| token.len() <= WHOLE_TEXT_BYTES);
        let told = is_whole(&query.entity) && is_whole(&query.subject) && query.request_id.is_none();
        told.then(|| self.rows.iter().filter(|row| row.fits(query)).map(|row| row.count).sum())
    }

    /// Returns each combination of facts and how often it occurs.
    pub(super) fn facts(&self) -> impl Iterator<Item = (&Facts, u64)> {
        self.rows.iter().map(|row| (&row.facts, row.count))
    }

    /// Returns every key the block is found under, besides its own.
    pub(super) fn name_keys(&self, first: Ulid) -> Vec<(&'static str, Vec<u8>)> {
        let mut keys = Vec::new();
        for Row { facts, entity, by, .. } in &self.rows {
            let names = [
                (BY_TYPE, Some(facts.event_type.as_str())),
                (BY_CATEGORY, named(&Category::ALL, facts.category).map(|category| category.as_str())),
                (BY_SEVERITY, named(&Severity::ALL, facts.severity).map(|severity| severity.as_str())),
                (BY_ENTITY, entity.as_deref()),
                (BY_ENTITY, by.as_deref()),
            ];
            keys.extend(names.into_iter().filter_map(|(table, name)| Some((table, named_key(name?, first)))));
        }
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

impl Row {
    fn fits(&self, query: &Query) -> bool {
        let entity = query.entity.as_deref().map(indexed_part);
        let subject = query.subject.as_deref().map(indexed_part);
        self.facts.match_query(query)
            && (entity.is_none() || entity == self.entity.as_deref())
            && (subject.is_none() || subject == self.entity.as_deref() || subject == self.by.as_deref())
    }
}

/// Returns the hour of an entry, counted from 1970.
pub(super) fn hour(id: Ulid) -> u64 {
    id.unix_ms().div_euclid(HOUR_MS) as u64
}

/// Tells whether a block with these checksums may hold the request.
pub(super) fn may_hold_request(prints: &[u8], request: &str) -> bool {
    let wanted = print_of(request);
    prints.as_chunks::<4>().0.contains(&wanted)
}

/// Returns the table and the keys of the fewest blocks that can match, of those that begin before `end`.
pub(super) fn narrowest(query: &Query, end: Ulid) -> (&'static str, KeyRange) {
    let names = [
        (BY_ENTITY, query.entity.as_deref()),
        (BY_ENTITY, query.subject.as_deref()),
        (BY_TYPE, query.event_type.as_deref().filter(|name| *name != "exchange")),
        (BY_CATEGORY, query.category.map(|category| category.as_str())),
        (BY_SEVERITY, query.severity.map(|severity| severity.as_str())),
    ];
    let Some((table, name)) = names.into_iter().find_map(|(table, name)| Some((table, name?))) else {
        let end = (end.0 < u128::MAX).then(|| end.to_bytes());
        return (BLOCKS, KeyRange { start: Vec::new(), end });
    };
    let all = prefix_range(indexed_part(name));
    let end = if end.0 < u128::MAX { Some(named_key(name, end)) } else { all.end };
    (table, KeyRange { start: all.start, end })
}

/// Returns the block's first id, in which every key ends.
pub(super) fn first_of(key: &[u8]) -> Option<Ulid> {
    key.last_chunk::<16>().map(|id| Ulid(u128::from_be_bytes(*id)))
}

fn print_of(request: &str) -> [u8; 4] {
    crc32fast::hash(request.as_bytes()).to_le_bytes()
}

fn named_key(name: &str, id: Ulid) -> Vec<u8> {
    (indexed_part(name).to_owned(), id).to_bytes()
}

fn indexed_part(name: &str) -> &str {
    name.get(..name.floor_char_boundary(INDEXED_TEXT_BYTES)).unwrap_or(name)
}
