//! Finds matches within one group, be it in the store or still growing.

use std::borrow::Cow;
use std::ops::Range;

use super::Index;
use super::QueryError;
use super::group::COLUMN_ENTRIES;
use super::group::COLUMNS;
use super::group::Column;
use super::group::Growing;
use super::group::Head;
use super::group::STRIDE;
use super::group::column_key;
use super::is_damage;
use super::kinds::KindSet;
use super::postings;
use super::postings::Asked;
use super::postings::POSTINGS;
use super::postings::Place;
use crate::govern::audit::log::Position;
use crate::govern::audit::stored;
use crate::id::Ulid;
use crate::store::Order;
use crate::store::Store;
use crate::store::StoreError;

/// A group as it is looked at.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) head: &'a Head,
    source: Source<'a>,
}

/// Where the group is.
#[derive(Clone, Copy)]
enum Source<'a> {
    Growing(&'a Growing),
    Stored(&'a Store),
}

/// Where a frame is found: so many frames after the one that begins at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) from: Position,
    pub(super) frames: usize,
}

impl<'a> View<'a> {
    /// Returns a view of a group that grows.
    pub(super) fn of_growing(growing: &'a Growing) -> Self {
        Self { head: &growing.head, source: Source::Growing(growing) }
    }

    /// Returns a view of a group in the store.
    pub(super) fn of_stored(head: &'a Head, store: &'a Store) -> Self {
        Self { head, source: Source::Stored(store) }
    }

    /// Returns the places of the entries with such ids.
    pub(super) fn within(&self, ids: &Range<Ulid>, index: &Index) -> Result<Range<usize>, QueryError> {
        let entries = self.head.entries;
        let begin = if ids.start <= self.head.first { 0 } else { self.place_of(ids.start, index)? };
        let end = if ids.end > self.head.last { entries } else { self.place_of(ids.end, index)? };
        Ok(begin..end.max(begin))
    }

    /// Counts matches among the entries at these places.
    pub(super) fn count(
        &self,
        asked: &Asked,
        kinds: &KindSet,
        within: &Range<usize>,
    ) -> Result<u64, StoreError> {
        let is_whole = *within == (0..self.head.entries);
        match (asked.all_of(), self.source) {
            ([], _) if kinds.is_all() => Ok(within.len() as u64),
            ([], Source::Stored(_)) if is_whole => Ok(self.head.count(kinds)),
            ([one_of], Source::Stored(store)) if is_whole => {
                let mut count = 0;
                for print in one_of {
                    let part = store.get(POSTINGS, &postings::key(*print, self.head.first))?;
                    let told = part.map(|part| postings::count(&part, *print, kinds).ok_or_else(unreadable));
                    count += told.transpose()?.unwrap_or_default();
                }
                Ok(count)
            }
            _ => {
                let found = self.places(asked, kinds, within, Order::Ascending, usize::MAX)?;
                Ok(found.len() as u64)
            }
        }
    }

    /// Returns the places of matches among these places, in order; no more than `limit` of them where no names are
    /// asked for.
    pub(super) fn places(
        &self,
        asked: &Asked,
        kinds: &KindSet,
        within: &Range<usize>,
        order: Order,
        limit: usize,
    ) -> Result<Vec<usize>, StoreError> {
        if asked.all_of().is_empty() {
            return self.places_of_kinds(kinds, within, order, limit);
        }
        let mut common = None::<Vec<Place>>;
        for one_of in asked.all_of() {
            let mut found = Vec::new();
            for print in one_of {
                self.push_places(*print, kinds, &mut found)?;
            }
            found.sort_unstable();
            if let Some(known) = common {
                found.retain(|place| known.binary_search(place).is_ok());
            }
            if found.is_empty() {
                return Ok(Vec::new());
            }
            common = Some(found);
        }
        let found = common.unwrap_or_default().into_iter().map(usize::from);
        let mut found: Vec<usize> = found.filter(|place| within.contains(place)).collect();
        if order == Order::Descending {
            found.reverse();
        }
        Ok(found)
    }

    fn places_of_kinds(
        &self,
        kinds: &KindSet,
        within: &Range<usize>,
        order: Order,
        limit: usize,
    ) -> Result<Vec<usize>, StoreError> {
        let columns = within.start / COLUMN_ENTRIES..within.end.div_ceil(COLUMN_ENTRIES);
        let mut found = Vec::new();
        for nth in 0..columns.len() {
            let number = match order {
                Order::Ascending => columns.start + nth,
                Order::Descending => columns.end - 1 - nth,
            };
            let Some(column) = self.column(number)? else { continue };
            let from = number * COLUMN_ENTRIES;
            let here = (from..).zip(&column.kinds);
            let here = here.filter(|(place, kind)| within.contains(place) && kinds.has(**kind));
            let here = here.map(|(place, _)| place);
            match order {
                Order::Ascending => found.extend(here.take(limit - found.len())),
                Order::Descending => {
                    let all: Vec<usize> = here.collect();
                    found.extend(all.into_iter().rev().take(limit - found.len()));
                }
            }
            if found.len() >= limit {
                break;
            }
        }
        Ok(found)
    }

    /// Returns where the entries at these places are found; those that are gone are left out.
    pub(super) fn spots(&self, places: &[usize]) -> Result<Vec<Spot>, StoreError> {
        let mut found = Vec::with_capacity(places.len());
        for same in places.chunk_by(|one, next| one / COLUMN_ENTRIES == next / COLUMN_ENTRIES) {
            let Some(number) = same.first().map(|place| place / COLUMN_ENTRIES) else { continue };
            let Some(column) = self.column(number)? else { continue };
            for place in same {
                let offset = column.offsets.get(place % COLUMN_ENTRIES / STRIDE);
                let from = offset.map(|offset| self.position(*offset));
                found.extend(from.map(|from| Spot { from, frames: place % STRIDE }));
            }
        }
        Ok(found)
    }

    /// Returns where the first entry is whose id is not below `id`, as one that the group holds.
    pub(super) fn spot_of(&self, id: Ulid, index: &Index) -> Result<Option<Spot>, QueryError> {
        let place = self.place_of(id, index)?;
        Ok(self.spots(&[place])?.pop())
    }

    /// Returns how many entries of the group have ids below `id`, as far as damage lets it be known.
    fn place_of(&self, id: Ulid, index: &Index) -> Result<usize, QueryError> {
        let mut offsets = Vec::new();
        for number in 0..self.head.columns() {
            offsets.extend(self.column(number)?.iter().flat_map(|column| column.offsets.iter().copied()));
        }
        let (mut low, mut high) = (0, offsets.len());
        while low < high {
            let middle = (low + high) / 2;
            match self.first_readable(middle, offsets.get(middle..high).unwrap_or_default(), index)? {
                Some((stride, first)) if first < id => low = stride + 1,
                _ => high = middle,
            }
        }
        // The stride before this one begins below the id.
        let Some(stride) = low.checked_sub(1) else { return Ok(0) };
        let Some(from) = offsets.get(stride).map(|offset| self.position(*offset)) else { return Ok(0) };
        let (mut reader, mut place) = (index.log.short_reader(from), stride * STRIDE);
        while place < self.head.entries.min((stride + 1) * STRIDE) {
            let read = reader.next();
            let is_below = match is_damage(&read) {
                true => index.pass_over(&mut reader, self.head)?,
                false => match read? {
                    Some((_, payload)) => stored::outline(payload).map_or(true, |entry| entry.id < id),
                    None => false,
                },
            };
            if !is_below {
                break;
            }
            place += 1;
        }
        Ok(place)
    }

    /// Returns the first stride, from the one of a number on, whose first entry can be read, and its id.
    fn first_readable(
        &self,
        number: usize,
        offsets: &[u32],
        index: &Index,
    ) -> Result<Option<(usize, Ulid)>, QueryError> {
        for (stride, offset) in (number..).zip(offsets) {
            let at = self.position(*offset);
            let first = super::id_at(&index.log, at);
            if !is_damage(&first) {
                return Ok(first?.map(|first| (stride, first)));
            }
            let mut reader = index.log.short_reader(at);
            if is_damage(&reader.next()) {
                index.pass_over(&mut reader, self.head)?;
            }
        }
        Ok(None)
    }

    fn position(&self, offset: u32) -> Position {
        let start = self.head.start();
        Position { offset: start.offset + u64::from(offset), ..start }
    }

    /// Returns a column; `None`: the group is gone.
    fn column(&self, number: usize) -> Result<Option<Cow<'a, Column>>, StoreError> {
        match self.source {
            Source::Growing(growing) => Ok(growing.columns.get(number).map(Cow::Borrowed)),
            Source::Stored(store) => {
                let bytes = store.get(COLUMNS, &column_key(self.head.first, number))?;
                Ok(bytes.map(|bytes| Column::from_bytes(&bytes)).transpose()?.map(Cow::Owned))
            }
        }
    }

    fn push_places(&self, print: u64, kinds: &KindSet, found: &mut Vec<Place>) -> Result<(), StoreError> {
        match self.source {
            Source::Growing(growing) => {
                postings::push_growing(&growing.postings, print, kinds, found);
                Ok(())
            }
            Source::Stored(store) => match store.get(POSTINGS, &postings::key(print, self.head.first))? {
                Some(part) => postings::push_places(&part, print, kinds, found).ok_or_else(unreadable),
                None => Ok(()),
            },
        }
    }
}

fn unreadable() -> StoreError {
    StoreError::UnreadableRecord { table: POSTINGS, version: 0 }
}
