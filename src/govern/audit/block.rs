//! Runs of entries that are found together: what the index knows of each, and the keys it is found under.
//!
//! A block is a run of at most [`BLOCK_ENTRIES`] entries of one segment and one hour. Its record tells where it
//! lies and which facts its entries have, how often; a request id is told by a checksum (see [`super::requests`]).
//! One key a block, and one for each name that occurs in it, is what recording costs the store; beside each name's
//! key lies its share, so that matches are counted, and blocks without any passed over, by ordered keys alone. The
//! entries themselves are read off the journal.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ops::Range;

use serde::Deserialize;
use serde::Serialize;

use crate::access::keyring::Keyring;
use crate::id::Ulid;
use crate::scan::threat::Category;
use crate::scan::threat::Severity;
use crate::store::Batch;
use crate::store::Key;
use crate::store::KeyRange;
use crate::store::Record;
use crate::store::Store;
use crate::store::StoreError;

use super::log::Position;
use super::query::Query;
use super::requests::print_of;
use super::stored::Outline;
use super::tally::Facts;
use super::tally::FactsRef;
use super::tally::HOUR_MS;
use super::tally::named;

/// The most entries of a block: what a query reads to find one of them.
pub(super) const BLOCK_ENTRIES: usize = 256;

/// The record of each block, by its first id.
pub(super) const BLOCKS: &str = "audit_blocks";
/// The tokens a block is found under, by its first id.
const TOKENS: &str = "audit_block_tokens";
const BY_TYPE: &str = "audit_blocks_by_event_type";
const BY_CATEGORY: &str = "audit_blocks_by_category";
const BY_SEVERITY: &str = "audit_blocks_by_severity";
/// By whom they are about, and by who did it.
const BY_ENTITY: &str = "audit_blocks_by_entity";
/// The tables whose keys end in a block's first id.
pub(super) const BLOCK_TABLES: [&str; 6] = [BLOCKS, TOKENS, BY_TYPE, BY_CATEGORY, BY_SEVERITY, BY_ENTITY];

/// The longest name that is indexed, in bytes; longer ones are indexed by their beginning and then compared.
const INDEXED_TEXT_BYTES: usize = 256;
/// Names up to here are never cut: cutting stops at a character's begin.
const WHOLE_TEXT_BYTES: usize = INDEXED_TEXT_BYTES - 4;

/// A run of entries of one segment and one hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Block {
    pub(super) segment: u64,
    /// Where its first frame begins and its last one ends.
    pub(super) offsets: (u64, u64),
    /// The id of its last entry; the first one's is its key.
    last: u128,
    facts: Vec<(Facts, u64)>,
}

impl Record for Block {
    /// Version 1 held names instead of tokens, version 2 every entry's token.
    const VERSION: u32 = 3;
}

/// The tokens a block is found under: which keys go when it goes.
#[derive(Serialize, Deserialize)]
struct Tokens(Vec<String>);

impl Record for Tokens {
    const VERSION: u32 = 1;
}

/// Entries of a block that say the same.
struct Row {
    facts: Facts,
    /// The token of whom they are about.
    entity: Option<String>,
    /// The token of who did it, where that is somebody else.
    by: Option<String>,
    count: u64,
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

    /// Adds the block to a batch; returns its record, and the checksums of its request ids.
    ///
    /// # Errors
    /// When the record has no stored form.
    pub(super) fn put_in(self, batch: &mut Batch, store: &Store) -> Result<(Block, Vec<u8>), StoreError> {
        let Self { first, at, end, last, rows, requests, .. } = self;
        let mut facts = BTreeMap::<&Facts, u64>::new();
        rows.iter().for_each(|row| *facts.entry(&row.facts).or_default() += row.count);
        let facts = facts.into_iter().map(|(facts, count)| (facts.clone(), count)).collect();
        let block = Block { segment: at.segment, offsets: (at.offset, end), last: last.0, facts };
        store.table(BLOCKS).put_in(batch, &first, &block)?;
        let tokens = rows.iter().flat_map(|row| [&row.entity, &row.by]).flatten().cloned();
        let tokens: BTreeSet<String> = tokens.collect();
        store.table(TOKENS).put_in(batch, &first, &Tokens(tokens.into_iter().collect()))?;
        for ((table, name), share) in shares(&rows) {
            batch.put(table, named_key(name, first), share.to_bytes());
        }
        Ok((block, requests))
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

    /// Returns each combination of facts and how often it occurs.
    pub(super) fn facts(&self) -> impl Iterator<Item = (&Facts, u64)> {
        self.facts.iter().map(|(facts, count)| (facts, *count))
    }

    /// Adds to a batch that the block goes, with every key it is found under.
    ///
    /// # Errors
    /// When the tokens it is found under cannot be read.
    pub(super) fn delete_in(&self, first: Ulid, batch: &mut Batch, store: &Store) -> Result<(), StoreError> {
        let tokens = store.table::<Ulid, Tokens>(TOKENS).get(&first)?;
        let tokens = tokens.map(|Tokens(tokens)| tokens).unwrap_or_default();
        let facts = self.facts.iter().flat_map(|(facts, _)| facts_names(facts));
        for (table, name) in facts.chain(tokens.iter().map(|token| (BY_ENTITY, token.as_str()))) {
            batch.delete(table, named_key(name, first));
        }
        [BLOCKS, TOKENS].into_iter().for_each(|table| batch.delete(table, first.to_bytes()));
        Ok(())
    }
}

/// What the entries of a block under one name say: it lies beside the key of that name.
#[derive(Default)]
struct Share(BTreeMap<(Facts, bool), u64>);

impl Share {
    /// Returns each combination of facts: whether it is about the name (or was done by it), how often it occurs,
    /// category, severity, and the type behind its length.
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for ((facts, is_about), count) in &self.0 {
            bytes.push(u8::from(*is_about));
            bytes.extend_from_slice(&(*count as u16).to_le_bytes());
            bytes.extend_from_slice(&[facts.category, facts.severity]);
            bytes.extend_from_slice(&(facts.event_type.len() as u16).to_le_bytes());
            bytes.extend_from_slice(facts.event_type.as_bytes());
        }
        bytes
    }
}

/// Returns the shares of all names of a block.
fn shares(rows: &[Row]) -> BTreeMap<(&'static str, &str), Share> {
    let mut shares = BTreeMap::<_, Share>::new();
    for row in rows {
        let entity = row.entity.as_deref().map(|name| ((BY_ENTITY, name), true));
        let by = row.by.as_deref().map(|name| ((BY_ENTITY, name), false));
        let facts = facts_names(&row.facts).map(|key| (key, true));
        for (key, is_about) in facts.chain(entity).chain(by) {
            *shares.entry(key).or_default().0.entry((row.facts.clone(), is_about)).or_default() += row.count;
        }
    }
    shares
}

fn facts_names(facts: &Facts) -> impl Iterator<Item = (&'static str, &str)> {
    let category = named(&Category::ALL, facts.category).map(|category| (BY_CATEGORY, category.as_str()));
    let severity = named(&Severity::ALL, facts.severity).map(|severity| (BY_SEVERITY, severity.as_str()));
    [Some((BY_TYPE, indexed_part(&facts.event_type))), category, severity].into_iter().flatten()
}

/// How many entries of a block may hold to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Matches {
    Exactly(u64),
    AtMost(u64),
}

impl Matches {
    pub(super) fn at_most(self) -> u64 {
        let (Self::Exactly(count) | Self::AtMost(count)) = self;
        count
    }
}

/// Where the blocks are found that may hold to a query: of all its filters, under the one that leaves the fewest.
pub(super) struct Path<'q> {
    query: &'q Query,
    table: &'static str,
    name: Option<&'q str>,
}

impl<'q> Path<'q> {
    /// Returns the path by a query's entity or subject, or else by the fact that `frequency` says is rarest.
    pub(super) fn of(query: &'q Query, frequency: impl Fn(&Query) -> u64) -> Self {
        let names = [query.entity.as_deref(), query.subject.as_deref()];
        if let Some(name) = names.into_iter().flatten().next() {
            return Self { query, table: BY_ENTITY, name: Some(name) };
        }
        let none = Query::default();
        let event_type = query.event_type.as_deref().map(|name| {
            let alone = Query { event_type: query.event_type.clone(), ..none.clone() };
            (frequency(&alone), BY_TYPE, name)
        });
        let category = query.category.map(|category| {
            let alone = Query { category: Some(category), ..none.clone() };
            (frequency(&alone), BY_CATEGORY, category.as_str())
        });
        let severity = query.severity.map(|severity| {
            let alone = Query { severity: Some(severity), ..none.clone() };
            (frequency(&alone), BY_SEVERITY, severity.as_str())
        });
        let rarest = [event_type, category, severity].into_iter().flatten().min_by_key(|(count, ..)| *count);
        match rarest {
            Some((_, table, name)) => Self { query, table, name: Some(name) },
            None => Self { query, table: BLOCKS, name: None },
        }
    }

    /// Returns the table whose keys name the blocks.
    pub(super) fn table(&self) -> &'static str {
        self.table
    }

    /// Returns the keys of the blocks with such first ids.
    pub(super) fn keys(&self, firsts: &Range<Ulid>) -> KeyRange {
        let key = |first: Ulid| self.name.map_or_else(|| first.to_bytes(), |name| named_key(name, first));
        KeyRange { start: key(firsts.start), end: Some(key(firsts.end)) }
    }

    /// Returns how many entries match, from what lies beside a block's key; `None` where that cannot be read.
    pub(super) fn matches(&self, share: &[u8]) -> Option<Matches> {
        let Query { entity, subject, .. } = self.query;
        if self.name.is_none() {
            return Some(Matches::AtMost(BLOCK_ENTRIES as u64));
        }
        let (mut rest, mut count) = (share, 0);
        while let Some((&[is_about, low, high, category, severity, short, long], after)) =
            rest.split_first_chunk::<7>()
        {
            let (name, after) = after.split_at_checked(usize::from(u16::from_le_bytes([short, long])))?;
            let facts = FactsRef { category, severity, event_type: std::str::from_utf8(name).ok()? };
            if facts.match_query(self.query) && (entity.is_none() || is_about == 1) {
                count += u64::from(u16::from_le_bytes([low, high]));
            }
            rest = after;
        }
        let is_told = self.name.is_some_and(|name| name.len() <= WHOLE_TEXT_BYTES)
            && (entity.is_none() || subject.is_none() || entity == subject);
        let matches = if is_told { Matches::Exactly(count) } else { Matches::AtMost(count) };
        rest.is_empty().then_some(matches)
    }
}

/// Returns the hour of an entry, counted from 1970.
pub(super) fn hour(id: Ulid) -> u64 {
    id.unix_ms().div_euclid(HOUR_MS) as u64
}

/// Returns the block's first id, in which every key ends.
pub(super) fn first_of(key: &[u8]) -> Option<Ulid> {
    key.last_chunk::<16>().map(|id| Ulid(u128::from_be_bytes(*id)))
}

fn named_key(name: &str, id: Ulid) -> Vec<u8> {
    (indexed_part(name).to_owned(), id).to_bytes()
}

fn indexed_part(name: &str) -> &str {
    name.get(..name.floor_char_boundary(INDEXED_TEXT_BYTES)).unwrap_or(name)
}
