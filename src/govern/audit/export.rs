//! Entries on their way out, oldest first, each with the bytes that its hash is of.
//!
//! As JSON lines an export can be verified by whoever has it (see [`super::verify`]): a first line says what it is,
//! each further line holds an entry's canonical bytes with both hashes, beside the names that the gateway could
//! still read; the last one is a signed checkpoint over the whole file.

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
use super::stored;
use crate::id::Ulid;

/// How many entries are looked at for one batch.
const LOOKED_AT: usize = 2048;
/// How many entries a batch holds.
const BATCH_ENTRIES: usize = 256;

/// An export under way.
pub struct Export {
    log: Arc<Log>,
    query: Query,
    ids: Range<Ulid>,
    next: Position,
    end: Position,
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
    /// The format's version.
    pub portcullis_audit_export: u32,
    /// The node whose log it is of.
    pub origin: String,
    /// When it was begun.
    pub exported_at: String,
    /// Whether entries were left out: then they do not follow one another.
    pub filtered: bool,
}

/// A line that holds an entry.
#[derive(Serialize, Deserialize)]
pub(super) struct Line<'a> {
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
    /// Begins an export of what is committed now.
    pub(super) fn begin(log: Arc<Log>, index: &Index, query: &Query) -> Result<Self, QueryError> {
        let query = index.resolved(query)?;
        let ids = query.first_id()..query.end_id();
        let next = match ids.start {
            Ulid(0) => log.start(),
            Ulid(first) => index.position_after(Ulid(first - 1))?,
        };
        let end = log.committed();
        Ok(Self { log, query, ids, next, end })
    }

    /// Returns the next entries, oldest first; none once it is over, which a short batch does not mean.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn next_batch(&mut self) -> Result<Vec<Exported>, QueryError> {
        loop {
            if self.next >= self.end {
                return Ok(Vec::new());
            }
            let (log, query, ids) = (Arc::clone(&self.log), self.query.clone(), self.ids.clone());
            let (from, end) = (self.next, self.end);
            let read = tokio::task::spawn_blocking(move || read(&log, &query, &ids, from..end));
            let (found, next) = read.await.map_err(|_| QueryError::Interrupted)??;
            self.next = next;
            if !found.is_empty() {
                return Ok(found);
            }
        }
    }
}

fn read(
    log: &Log,
    query: &Query,
    ids: &Range<Ulid>,
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
        if at >= place.end || outline.id >= ids.end {
            return Ok((found, place.end));
        }
        if ids.contains(&outline.id) && outline.matches(query, &log.keyring) {
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
        let Entry { event, hash, previous_hash, .. } = &self.entry;
        serde_json::to_string(&Line {
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
