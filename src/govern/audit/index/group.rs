//! Groups: runs of entries of one segment that are indexed together.
//!
//! A group has a head, which tells where it lies and how many entries of each kind it has; columns, which tell each
//! entry's kind and where it lies; and postings ([`super::postings`]). The last group grows in memory, and is written
//! once it is whole: nothing of it is ever written twice.

use std::collections::BTreeMap;

use super::kinds::KindNumber;
use super::kinds::KindSet;
use super::postings;
use super::postings::POSTINGS;
use super::postings::Place;
use super::postings::Posting;
use crate::access::keyring::Keyring;
use crate::govern::audit::log::Position;
use crate::govern::audit::stored::Outline;
use crate::id::Ulid;
use crate::store::Batch;
use crate::store::Key;
use crate::store::StoreError;

/// The head of each group, by its first id.
pub(super) const GROUPS: &str = "audit_groups";
/// The columns of each group, by its first id and their numbers.
pub(super) const COLUMNS: &str = "audit_group_columns";

/// The most entries of a group.
pub(super) const GROUP_ENTRIES: usize = 1 << 15;
/// A group with so many postings takes no further entries.
const POSTINGS_FULL: usize = 1 << 18;
/// How many entries a column tells of.
pub(super) const COLUMN_ENTRIES: usize = 1 << 12;
/// The place of one entry in so many is written down; those between are found from there.
pub(super) const STRIDE: usize = 16;

/// What is known of a group as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) first: Ulid,
    pub(super) last: Ulid,
    pub(super) segment: u64,
    /// Where its first frame begins and its last one ends.
    pub(super) offsets: (u64, u64),
    /// The edition of the kinds it tells of.
    pub(super) edition: u64,
    pub(super) entries: usize,
    /// How many entries have which kind; of a group that is whole.
    counts: Vec<(KindNumber, u16)>,
}

/// Some entries of a group, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Column {
    /// Where one in [`STRIDE`] begins, from the group's begin.
    pub(super) offsets: Vec<u32>,
    pub(super) kinds: Vec<KindNumber>,
}

/// The group that is being added to.
pub(super) struct Growing {
    pub(super) head: Head,
    pub(super) columns: Vec<Column>,
    pub(super) postings: Vec<Posting>,
}

impl Head {
    /// Returns where the group begins.
    pub(super) fn start(&self) -> Position {
        Position { segment: self.segment, offset: self.offsets.0 }
    }

    /// Returns where the group ends.
    pub(super) fn end(&self) -> Position {
        Position { segment: self.segment, offset: self.offsets.1 }
    }

    /// Returns the ids between which those of the group are.
    pub(super) fn around(&self) -> (Ulid, Ulid) {
        (Ulid(self.first.0.saturating_sub(1)), Ulid(self.last.0.saturating_add(1)))
    }

    /// Returns how many entries of a whole group are of one of the kinds.
    pub(super) fn count(&self, kinds: &KindSet) -> u64 {
        if kinds.is_all() {
            return self.entries as u64;
        }
        self.counts.iter().filter(|(kind, _)| kinds.has(*kind)).map(|(_, count)| u64::from(*count)).sum()
    }

    /// Returns how many columns it has.
    pub(super) fn columns(&self) -> usize {
        self.entries.div_ceil(COLUMN_ENTRIES)
    }

    /// Reads what was written under a group's first id.
    pub(super) fn from_bytes(first: &[u8], bytes: &[u8]) -> Result<Self, StoreError> {
        let unreadable = StoreError::UnreadableRecord { table: GROUPS, version: 0 };
        Self::read(first, bytes).ok_or(unreadable)
    }

    fn read(first: &[u8], bytes: &[u8]) -> Option<Self> {
        let (last, rest) = bytes.split_first_chunk::<16>()?;
        let (numbers, rest) = rest.split_at_checked(5 * 8)?;
        let &[segment, start, end, edition, entries] = numbers.as_chunks::<8>().0 else { return None };
        let (counts, []) = rest.as_chunks::<4>() else { return None };
        let count = |[a, b, c, d]: &[u8; 4]| (u16::from_le_bytes([*a, *b]), u16::from_le_bytes([*c, *d]));
        Some(Self {
            first: Ulid::from_bytes(first)?,
            last: Ulid(u128::from_le_bytes(*last)),
            segment: u64::from_le_bytes(segment),
            offsets: (u64::from_le_bytes(start), u64::from_le_bytes(end)),
            edition: u64::from_le_bytes(edition),
            entries: usize::try_from(u64::from_le_bytes(entries)).ok()?,
            counts: counts.iter().map(count).collect(),
        })
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.last.0.to_le_bytes().to_vec();
        for number in [self.segment, self.offsets.0, self.offsets.1, self.edition, self.entries as u64] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for (kind, count) in &self.counts {
            bytes.extend_from_slice(&kind.to_le_bytes());
            bytes.extend_from_slice(&count.to_le_bytes());
        }
        bytes
    }

    /// Adds to a batch that the group goes.
    pub(super) fn delete_in(&self, batch: &mut Batch) {
        (0..self.columns()).for_each(|column| batch.delete(COLUMNS, column_key(self.first, column)));
        postings::keys(self.first).for_each(|key| batch.delete(POSTINGS, key));
        batch.delete(GROUPS, self.first.to_bytes());
    }
}

impl Column {
    /// Reads what was written of a column.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, StoreError> {
        Self::read(bytes).ok_or(StoreError::UnreadableRecord { table: COLUMNS, version: 0 })
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (count, rest) = bytes.split_first_chunk::<4>()?;
        let count = u32::from_le_bytes(*count) as usize;
        let (offsets, kinds) = rest.split_at_checked(count.div_ceil(STRIDE) * 4)?;
        let (kinds, []) = kinds.as_chunks::<2>() else { return None };
        (kinds.len() == count).then(|| Self {
            offsets: offsets.as_chunks::<4>().0.iter().map(|it| u32::from_le_bytes(*it)).collect(),
            kinds: kinds.iter().map(|it| KindNumber::from_le_bytes(*it)).collect(),
        })
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = (self.kinds.len() as u32).to_le_bytes().to_vec();
        self.offsets.iter().for_each(|offset| bytes.extend_from_slice(&offset.to_le_bytes()));
        self.kinds.iter().for_each(|kind| bytes.extend_from_slice(&kind.to_le_bytes()));
        bytes
    }
}

impl Growing {
    /// Returns the group that begins with an entry at a position.
    pub(super) fn begin(first: Ulid, at: Position, edition: u64) -> Self {
        let Position { segment, offset } = at;
        let head = Head {
            first,
            last: first,
            segment,
            offsets: (offset, offset),
            edition,
            entries: 0,
            counts: Vec::new(),
        };
        Self { head, columns: Vec::new(), postings: Vec::new() }
    }

    /// Tells whether an entry at a position goes into this group, which holds so many at most.
    pub(super) fn takes(&self, at: Position, entries_max: usize) -> bool {
        !self.is_full(entries_max)
            && at.segment == self.head.segment
            && u32::try_from(at.offset - self.head.offsets.0).is_ok()
    }

    /// Tells whether no further entry can go into this group, now that the journal goes on at `next`.
    pub(super) fn is_over(&self, next: Position, entries_max: usize) -> bool {
        self.is_full(entries_max) || next.segment > self.head.segment
    }

    fn is_full(&self, entries_max: usize) -> bool {
        self.head.entries >= entries_max || self.postings.len() >= POSTINGS_FULL
    }

    /// Takes in the next entry, which lies at these offsets of the segment.
    pub(super) fn push(
        &mut self,
        entry: &Outline<'_>,
        kind: KindNumber,
        keyring: &Keyring,
        (begin, end): (u64, u64),
    ) {
        let place = self.head.entries;
        if place.is_multiple_of(COLUMN_ENTRIES) {
            self.columns.push(Column::default());
        }
        if let Some(column) = self.columns.last_mut() {
            if place.is_multiple_of(STRIDE) {
                column.offsets.push((begin - self.head.offsets.0) as u32);
            }
            column.kinds.push(kind);
        }
        self.postings.extend(Posting::of_entry(entry, keyring, kind, place as Place));
        (self.head.last, self.head.offsets.1, self.head.entries) = (entry.id, end, place + 1);
    }

    /// Adds the group to a batch.
    pub(super) fn put_in(&self, batch: &mut Batch) {
        let first = self.head.first;
        let mut counts = BTreeMap::<KindNumber, u16>::new();
        for kind in self.columns.iter().flat_map(|column| &column.kinds) {
            *counts.entry(*kind).or_default() += 1;
        }
        let head = Head { counts: counts.into_iter().collect(), ..self.head.clone() };
        batch.put(GROUPS, first.to_bytes(), head.to_bytes());
        for (number, column) in self.columns.iter().enumerate() {
            batch.put(COLUMNS, column_key(first, number), column.to_bytes());
        }
        for (key, part) in postings::parts(first, self.postings.clone()) {
            batch.put(POSTINGS, key, part);
        }
    }
}

/// Returns the key of a group's column.
pub(super) fn column_key(group: Ulid, number: usize) -> Vec<u8> {
    let mut key = group.to_bytes();
    key.push(number as u8);
    key
}
