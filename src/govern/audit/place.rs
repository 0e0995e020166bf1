//! The keys of the index, and what stands under them: where an entry lies, and the facts that are counted.

use crate::id::Ulid;
use crate::store::Key;
use crate::store::KeyRange;
use crate::store::prefix_range;

use super::event::Entry;
use super::log::Position;
use super::query::Query;
use super::tally::Facts;

pub(super) const BY_ID: &str = "audit_by_id";
const BY_TYPE: &str = "audit_by_event_type";
const BY_CATEGORY: &str = "audit_by_category";
const BY_SEVERITY: &str = "audit_by_severity";
const BY_ENTITY: &str = "audit_by_entity";
const BY_REQUEST: &str = "audit_by_request";
/// The tables with one key an entry.
pub(super) const ENTRY_TABLES: [&str; 6] = [BY_ID, BY_TYPE, BY_CATEGORY, BY_SEVERITY, BY_ENTITY, BY_REQUEST];

/// The longest text that is indexed, in bytes; longer ones are indexed by their beginning and then compared.
const INDEXED_TEXT_BYTES: usize = 256;
const POSITION_BYTES: usize = 16;

/// Returns every key an entry is found under.
pub(super) fn keys(entry: &Entry) -> Vec<(&'static str, Vec<u8>)> {
    let event = &entry.event;
    let named = |table, name: Option<&str>| name.map(|name| (table, named_key(name, entry.id)));
    let mut keys = vec![(BY_ID, entry.id.to_bytes())];
    keys.extend(named(BY_TYPE, Some(&event.event_type)));
    keys.extend(named(BY_CATEGORY, event.category.map(|category| category.as_str())));
    keys.extend(named(BY_SEVERITY, event.severity.map(|severity| severity.as_str())));
    keys.extend(named(BY_ENTITY, event.entity.as_deref()));
    keys.extend(named(BY_REQUEST, event.request_id.as_deref()));
    keys
}

fn named_key(name: &str, id: Ulid) -> Vec<u8> {
    (indexed_part(name).to_owned(), id).to_bytes()
}

fn indexed_part(name: &str) -> &str {
    name.get(..name.floor_char_boundary(INDEXED_TEXT_BYTES)).unwrap_or(name)
}

/// Returns the table and the keys with the fewest entries that can match.
pub(super) fn narrowest(query: &Query, first: Ulid, end: Ulid) -> (&'static str, KeyRange) {
    let names = [
        (BY_REQUEST, query.request_id.as_deref()),
        (BY_ENTITY, query.entity.as_deref()),
        (BY_TYPE, query.event_type.as_deref().filter(|name| *name != "exchange")),
        (BY_CATEGORY, query.category.map(|category| category.as_str())),
        (BY_SEVERITY, query.severity.map(|severity| severity.as_str())),
        (BY_TYPE, query.event_type.as_deref()),
    ];
    let found = names.into_iter().find_map(|(table, name)| Some((table, name?)));
    let Some((table, name)) = found else {
        let end = (end.0 < u128::MAX).then(|| end.to_bytes());
        return (BY_ID, KeyRange { start: first.to_bytes(), end });
    };
    let past =
        if end.0 < u128::MAX { Some(named_key(name, end)) } else { prefix_range(indexed_part(name)).end };
    (table, KeyRange { start: named_key(name, first), end: past })
}

pub(super) fn names_match(entry: &Entry, query: &Query) -> bool {
    let holds = |wanted: &Option<String>, is: &Option<String>| wanted.is_none() || wanted == is;
    holds(&query.entity, &entry.event.entity) && holds(&query.request_id, &entry.event.request_id)
}

pub(super) fn encode_place(at: Position, facts: &Facts) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(POSITION_BYTES + 2 + facts.event_type.len());
    bytes.extend_from_slice(&at.segment.to_be_bytes());
    bytes.extend_from_slice(&at.offset.to_be_bytes());
    bytes.extend_from_slice(&[facts.category, facts.severity]);
    bytes.extend_from_slice(facts.event_type.as_bytes());
    bytes
}

pub(super) fn decode_place(value: &[u8]) -> Option<(Position, Facts)> {
    let (segment, rest) = value.split_first_chunk::<8>()?;
    let (offset, rest) = rest.split_first_chunk::<8>()?;
    let ([category, severity], event_type) = rest.split_first_chunk::<2>()?;
    let position = Position { segment: u64::from_be_bytes(*segment), offset: u64::from_be_bytes(*offset) };
    let event_type = String::from_utf8(event_type.to_vec()).ok()?;
    Some((position, Facts { category: *category, severity: *severity, event_type }))
}
