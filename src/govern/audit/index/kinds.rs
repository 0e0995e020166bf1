//! The kinds of entries: what entries say but for names, detectors, moments and words, each kind under a number.
//!
//! Most entries say what others have said before them. A kind is written down once, and every entry of it costs two
//! bytes; whether entries hold to a query is decided once a kind. Kinds are numbered within an edition: when an edition
//! is full, the next one begins with the next group, so that what is held in memory stays small however many kinds
//! there come to be. An edition goes with its last group.
//!
//! Detectors are no part of a kind: there are as many sets of them as there are texts, and every new set would be a kind.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::govern::audit::categories::Categories;
use crate::govern::audit::query::Query;
use crate::govern::audit::stored::Outline;
use crate::scan::threat::Severity;
use crate::store::Batch;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::Store;
use crate::store::StoreError;

/// The kinds, by edition and number.
pub(super) const KINDS: &str = "audit_kinds";

/// How many kinds an edition holds at most; a number fits two bytes.
const KINDS_MAX: usize = 1 << 14;
/// An edition whose kinds take so many bytes is full.
const KINDS_BYTES_MAX: usize = 4 << 20;

/// The number of a kind within its edition.
pub(super) type KindNumber = u16;

/// The edition that is being added to.
pub(super) struct Kinds {
    edition: u64,
    kinds: Vec<Arc<[u8]>>,
    numbers: HashMap<Arc<[u8]>, KindNumber>,
    bytes: usize,
    bytes_max: usize,
    /// How many of them are in the store.
    saved: usize,
    scratch: Vec<u8>,
}

/// The kinds of an edition that hold to a query.
pub(super) enum KindSet {
    All,
    Some(Vec<bool>),
}

impl Kinds {
    /// Returns an edition without kinds.
    pub(super) fn empty(edition: u64) -> Self {
        Self {
            edition,
            kinds: Vec::new(),
            numbers: HashMap::new(),
            bytes: 0,
            bytes_max: KINDS_BYTES_MAX,
            saved: 0,
            scratch: Vec::new(),
        }
    }

    /// Returns an edition as it is in the store.
    pub(super) fn load(store: &Store, edition: u64) -> Result<Self, StoreError> {
        let mut kinds = Self::empty(edition);
        each_stored(store, edition, |kind| kinds.add(kind))?;
        kinds.saved = kinds.kinds.len();
        Ok(kinds)
    }

    /// Returns which edition it is.
    pub(super) fn edition(&self) -> u64 {
        self.edition
    }

    /// Returns the number of an entry's kind, a new one if need be; `None`: the edition is full.
    pub(super) fn number(&mut self, entry: &Outline<'_>) -> Option<KindNumber> {
        let mut kind = std::mem::take(&mut self.scratch);
        kind.clear();
        push_kind(entry, &mut kind);
        let is_full = self.kinds.len() >= KINDS_MAX || self.bytes >= self.bytes_max;
        let known = self.numbers.get(kind.as_slice()).copied();
        let number = known.or_else(|| (!is_full).then(|| self.add(&kind)));
        self.scratch = kind;
        number
    }

    /// Begins the next edition.
    pub(super) fn begin_next(&mut self) {
        *self = Self { bytes_max: self.bytes_max, ..Self::empty(self.edition + 1) };
    }

    /// Adds to a batch what is not in the store.
    pub(super) fn put_in(&self, batch: &mut Batch) {
        for (number, kind) in (0..=KindNumber::MAX).zip(&self.kinds).skip(self.saved) {
            batch.put(KINDS, key(self.edition, number), kind.to_vec());
        }
    }

    /// Notes that the batch was written.
    pub(super) fn note_saved(&mut self) {
        self.saved = self.kinds.len();
    }

    /// Returns those that hold to a query.
    pub(super) fn matching(&self, query: &Query) -> KindSet {
        match asks_for_kinds(query) {
            true => KindSet::Some(self.kinds.iter().map(|kind| holds(kind, query)).collect()),
            false => KindSet::All,
        }
    }

    /// Lets editions be full early.
    #[cfg(test)]
    pub(super) fn fill_at(&mut self, bytes: usize) {
        self.bytes_max = bytes;
    }

    fn add(&mut self, kind: &[u8]) -> KindNumber {
        let (kind, number) = (Arc::<[u8]>::from(kind), self.kinds.len() as KindNumber);
        self.bytes += kind.len();
        self.kinds.push(Arc::clone(&kind));
        self.numbers.insert(kind, number);
        number
    }
}

impl KindSet {
    /// Returns the kinds of a stored edition that hold to a query.
    pub(super) fn load(store: &Store, edition: u64, query: &Query) -> Result<Self, StoreError> {
        if !asks_for_kinds(query) {
            return Ok(Self::All);
        }
        let mut kinds = Vec::new();
        each_stored(store, edition, |kind| kinds.push(holds(kind, query)))?;
        Ok(Self::Some(kinds))
    }

    /// Tells whether all kinds hold to the query.
    pub(super) fn is_all(&self) -> bool {
        matches!(self, Self::All)
    }

    /// Tells whether a kind holds to the query.
    pub(super) fn has(&self, kind: KindNumber) -> bool {
        match self {
            Self::All => true,
            Self::Some(kinds) => kinds.get(usize::from(kind)).copied().unwrap_or_default(),
        }
    }
}

/// Returns the keys of all editions before one.
pub(super) fn before(edition: u64) -> KeyRange {
    KeyRange { start: Vec::new(), end: Some(key(edition, 0)) }
}

fn key(edition: u64, number: KindNumber) -> Vec<u8> {
    [edition.to_be_bytes().as_slice(), &number.to_be_bytes()].concat()
}

fn each_stored<T>(store: &Store, edition: u64, mut visit: impl FnMut(&[u8]) -> T) -> Result<(), StoreError> {
    let (mut numbers, mut is_readable) = (0..=KindNumber::MAX, true);
    let range = KeyRange::prefix(&edition.to_be_bytes());
    store.scan(KINDS, &range, Order::Ascending, &mut |found, kind| {
        is_readable &= numbers.next().is_some_and(|number| found == key(edition, number));
        visit(kind);
        ControlFlow::Continue(())
    })?;
    is_readable.then_some(()).ok_or(StoreError::UnreadableRecord { table: KINDS, version: 0 })
}

/// Writes an entry's kind: each text behind its length; an empty text stands for none.
fn push_kind(entry: &Outline<'_>, out: &mut Vec<u8>) {
    let categories = entry.categories().written();
    let severity = entry.severity.map_or("", Severity::as_str);
    for text in [&*categories, severity, entry.event_type(), entry.action(), entry.route(), entry.policy()] {
        out.extend_from_slice(&(text.len() as u32).to_le_bytes());
        out.extend_from_slice(text.as_bytes());
    }
}

fn texts(kind: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = kind;
    std::iter::from_fn(move || {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (text, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        rest = after;
        Some(text)
    })
}

fn asks_for_kinds(query: &Query) -> bool {
    query.category.is_some()
        || query.is_alert
        || query.severity.is_some()
        || texts_of(query).into_iter().any(|text| text.is_some())
}

/// Returns the texts of a kind that a query asks for, in their order behind the severity.
fn texts_of(query: &Query) -> [Option<&str>; 4] {
    [&query.event_type, &query.action, &query.route, &query.policy].map(|text| text.as_deref())
}

/// Tells whether entries of a kind hold to what a query asks for beside names, detectors and times.
fn holds(kind: &[u8], query: &Query) -> bool {
    let mut texts = texts(kind);
    let categories = texts.next().and_then(|text| str::from_utf8(text).ok()).unwrap_or_default();
    let categories = Categories::read(categories);
    if (query.is_alert && categories.is_empty())
        || query.category.is_some_and(|wanted| !categories.has(wanted))
    {
        return false;
    }
    let severity = query.severity.map(Severity::as_str);
    std::iter::once(severity).chain(texts_of(query)).all(|wanted| {
        let text = texts.next();
        wanted.is_none_or(|wanted| text == Some(wanted.as_bytes()))
    })
}
