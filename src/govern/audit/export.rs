//! Entries on their way out, oldest first, each with the bytes that its hash is of.
//!
//! As JSON lines an export can be verified by whoever has it (see [`super::verify`]): a first line says what it is,
//! each further line holds an entry's canonical bytes with both hashes, beside the names that the gateway could
//! still read; the last one is a signed checkpoint over the whole file. Where nodes share a database each line names its
//! node as well, and each node's entries are a chain of their own.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;
use serde::Serialize;
use serde_json::value::RawValue;

use super::chain::Hash;
use super::event::Entry;
use super::index::Index;
use super::index::QueryError;
use super::log::Log;
use super::log::Position;
use super::log::ReadError;
use super::query::Query;
use super::shipping::Shipping;
use super::stored;
use crate::id::Ulid;
use crate::store::archive::ArchiveFilter;

/// How many entries are looked at for one batch.
const LOOKED_AT: usize = 2048;
/// How many entries a batch holds.
pub(super) const BATCH_ENTRIES: usize = 256;

/// An export under way.
pub struct Export {
    source: Source,
}

/// Where it is taken from.
enum Source {
    Journal(FromJournal),
    Shipped(FromShipped),
}

struct FromJournal {
    log: Arc<Log>,
    query: Query,
    /// What is asked for, in rising order.
    ids: Vec<Range<Ulid>>,
    next: Position,
    end: Position,
    node: Option<Arc<str>>,
}

/// The entries of all nodes, as far as they were shipped when it began.
pub(super) struct FromShipped {
    pub(super) shipping: Arc<Shipping>,
    pub(super) filter: ArchiveFilter,
    pub(super) heads: BTreeMap<String, u64>,
    /// The last one that was looked at, and its node.
    pub(super) last: Option<(Ulid, String)>,
}

/// An entry, and the bytes its hash is of.
#[derive(Clone, Debug, PartialEq)]
pub struct Exported {
    /// What it says, as far as its names can be read.
    pub entry: Entry,
    /// Its canonical bytes.
    pub canonical: Vec<u8>,
}

/// The first line of an export.
#[derive(Debug, Serialize, Deserialize)]
pub struct ExportHead {
    /// The format's version: 1 is of one node, in 2 each line names its node.
    pub portcullis_audit_export: u32,
    /// The node whose log it is of, or which made it of all nodes' logs.
    pub origin: String,
    /// When it was begun.
    pub exported_at: String,
    /// Whether entries were left out: then they do not follow one another.
    pub filtered: bool,
}

/// A line that holds an entry.
#[derive(Serialize, Deserialize)]
pub(super) struct Line<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<String>,
    #[serde(borrow)]
    pub(super) record: &'a RawValue,
    pub(super) hash: String,
    pub(super) previous_hash: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    actor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    entity: Option<String>,
}

impl Export {
    /// Begins an export of what is committed now in a node's own journal.
    pub(super) fn begin(
        log: Arc<Log>,
        index: &Index,
        query: &Query,
        node: Option<Arc<str>>,
    ) -> Result<Self, QueryError> {
        let query = index.resolved(query);
        let ids = index.spans(&query)?;
        let end = log.committed();
        let next = match ids.first().map(|ids| ids.start) {
            Some(Ulid(0)) => log.start(),
            Some(Ulid(first)) => index.position_after(Ulid(first - 1))?,
            None => end,
        };
        Ok(Self { source: Source::Journal(FromJournal { log, query, ids, next, end, node }) })
    }

    /// Begins an export of what was shipped.
    pub(super) fn of_shipped(from: FromShipped) -> Self {
        Self { source: Source::Shipped(from) }
    }

    /// Tells whether its lines have to name their nodes.
    pub fn is_of_all_nodes(&self) -> bool {
        matches!(self.source, Source::Shipped(_))
    }

    /// Returns the next entries, oldest first; none once it is over, which a short batch does not mean.
    ///
    /// # Errors
    /// When the journal, or what was shipped, cannot be read.
    pub async fn next_batch(&mut self) -> Result<Vec<Exported>, QueryError> {
        match &mut self.source {
            Source::Journal(journal) => journal.next_batch().await,
            Source::Shipped(shipped) => shipped.next_batch().await,
        }
    }
}

impl FromJournal {
    async fn next_batch(&mut self) -> Result<Vec<Exported>, QueryError> {
        loop {
            if self.next >= self.end {
                return Ok(Vec::new());
            }
            let (log, query, ids) = (Arc::clone(&self.log), self.query.clone(), self.ids.clone());
            let (from, end) = (self.next, self.end);
            let read = tokio::task::spawn_blocking(move || read(&log, &query, &ids, from..end));
            let (mut found, next) = read.await.map_err(|_| QueryError::Interrupted)??;
            self.next = next;
            if !found.is_empty() {
                found.iter_mut().for_each(|exported| exported.entry.node = self.node.clone());
                return Ok(found);
            }
        }
    }
}

impl FromShipped {
    async fn next_batch(&mut self) -> Result<Vec<Exported>, QueryError> {
        loop {
            let (shipping, filter, after) =
                (Arc::clone(&self.shipping), self.filter.clone(), self.last.clone());
            let read = tokio::task::spawn_blocking(move || shipping.exported(&filter, after));
            let found = read.await.map_err(|_| QueryError::Interrupted)??;
            let Some((exported, _)) = found.last() else { return Ok(Vec::new()) };
            let node = exported.entry.node.as_deref().unwrap_or_default().to_owned();
            self.last = Some((exported.entry.id, node));
            // What was shipped since it began would leave a gap behind it.
            let was_there = |(exported, sequence): &(Exported, u64)| {
                let head = exported.entry.node.as_deref().and_then(|node| self.heads.get(node));
                head.is_some_and(|head| sequence <= head)
            };
            let found: Vec<Exported> =
                found.into_iter().filter(was_there).map(|(exported, _)| exported).collect();
            if !found.is_empty() {
                return Ok(found);
            }
        }
    }
}

fn read(
    log: &Log,
    query: &Query,
    ids: &[Range<Ulid>],
    place: Range<Position>,
) -> Result<(Vec<Exported>, Position), QueryError> {
    let mut reader = log.reader(place.start);
    let (mut found, mut looked_at) = (Vec::new(), 0);
    while found.len() < BATCH_ENTRIES
        && looked_at < LOOKED_AT
        && let Some((at, payload)) = reader.next()?
    {
        looked_at += 1;
        let damaged = |_| ReadError::Damaged { segment: at.segment, offset: at.offset };
        let outline = stored::outline(payload).map_err(damaged)?;
        if at >= place.end || ids.last().is_none_or(|last| outline.id >= last.end) {
            return Ok((found, place.end));
        }
        if ids.iter().any(|ids| ids.contains(&outline.id)) && outline.matches(query, &log.keyring) {
            let (_, _, canonical) = stored::split(payload).map_err(damaged)?;
            let entry = stored::entry(payload, &log.keyring).map_err(damaged)?;
            found.push(Exported { entry, canonical: canonical.to_vec() });
        }
    }
    // At the end of what is committed the reader stands where the next frame will be.
    let next = if looked_at == 0 { place.end } else { reader.position() };
    Ok((found, next))
}

impl Exported {
    /// Returns it as one line of JSON.
    ///
    /// # Errors
    /// The bytes are no JSON, which is damage.
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        let Entry { node, event, hash, previous_hash, .. } = &self.entry;
        serde_json::to_string(&Line {
            node: node.as_deref().map(str::to_owned),
            record: serde_json::from_slice(&self.canonical)?,
            hash: hash.to_string(),
            previous_hash: previous_hash.to_string(),
            actor: event.actor.clone(),
            entity: event.entity.clone(),
        })
    }
}

impl Line<'_> {
    /// Returns both hashes: the one before, and its own.
    pub(super) fn hashes(&self) -> Option<(Hash, Hash)> {
        Some((self.previous_hash.parse().ok()?, self.hash.parse().ok()?))
    }
}
