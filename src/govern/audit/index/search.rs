//! Questions to the index: pages, totals, and the place behind an entry.

use std::collections::BTreeMap;
use std::ops::Range;

use jiff::Timestamp;

use super::HEADS;
use super::Index;
use super::QueryError;
use super::State;
use super::group::Head;
use super::is_damage;
use super::kinds::KindSet;
use super::postings::Asked;
use super::view::Spot;
use super::view::View;
use crate::govern::audit::event::Entry;
use crate::govern::audit::log::Position;
use crate::govern::audit::log::ReadError;
use crate::govern::audit::query::PAGE_ENTRIES_MAX;
use crate::govern::audit::query::Page;
use crate::govern::audit::query::Query;
use crate::govern::audit::stored;
use crate::id::Ulid;
use crate::store::Key;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::StoreError;

/// Nobody's token.
const NOBODY: &str = "!";

/// How many entries of a request are read to be counted; those beyond are counted by their prints alone.
const VERIFIED_ENTRIES_MAX: u64 = 1000;

/// A query under way.
struct Search<'a> {
    index: &'a Index,
    /// Its names are tokens.
    query: &'a Query,
    asked: Asked,
    /// The ids that hold to the query, its cursor left aside.
    ids: Range<Ulid>,
    /// The same of those before the cursor.
    page: Range<Ulid>,
    order: Order,
    /// The first id that was not in the store when it began.
    growing: Ulid,
    /// Which kinds hold to the query, by their edition.
    kinds: BTreeMap<u64, KindSet>,
    /// How many entries may still be read to be counted.
    verified_left: u64,
}

/// What is found in one group.
#[derive(Default)]
struct Found {
    total: u64,
    /// Where the page's matches are, in order, and in which group.
    spots: Vec<Spot>,
    group: Option<Head>,
}

impl Index {
    /// Answers a query from what is committed now, as far as it is taken in.
    pub(in crate::govern::audit) fn query(&self, query: &Query) -> Result<Page, QueryError> {
        if !(1..=PAGE_ENTRIES_MAX).contains(&query.limit) {
            return Err(QueryError::Limit);
        }
        let wanted = query.limit + 1;
        let query = &self.by_tokens(query);
        let spans = self.spans(query)?;
        let (state, is_all) = self.current()?;
        let begin = |ids| Search::begin(self, query, &state, ids, Order::Descending);
        let mut searches: Vec<Search<'_>> = spans.into_iter().rev().map(begin).collect();
        let is_taken_in = |search: &Search<'_>| is_all || search.ids.end.0 <= state.last.0.saturating_add(1);
        let is_taken_in = searches.iter().all(is_taken_in);
        let newest = searches.iter_mut().map(|search| search.within_growing(&state, wanted));
        let newest: Vec<Found> = newest.collect::<Result<_, _>>()?;
        drop(state);
        let (mut total, mut entries) = (0, Vec::new());
        for (search, found) in searches.iter().zip(&newest) {
            total += found.total;
            entries.extend(search.read(found, wanted - entries.len())?);
        }
        // What is in the store is older than what grows, in whatever span.
        let mut is_read = true;
        for search in &mut searches {
            let read = search.each_group(|search, head| {
                let missing = wanted - entries.len();
                let found = search.within_group(head, missing)?;
                total += found.total;
                entries.extend(search.read(&found, missing)?);
                Ok(true)
            });
            is_read &= is_unless_away(read)?;
        }
        let more = entries.len() > query.limit;
        entries.truncate(query.limit);
        let cursor = entries.last().filter(|_| more).map(|entry: &Entry| entry.id);
        let gaps = self.gaps.lock();
        let is_complete = is_taken_in && is_read && !searches.iter().any(|search| gaps.may_hold(&search.ids));
        Ok(Page { entries, total, cursor, is_complete })
    }

    /// Returns the query as the journal's entries are compared with it: by tokens.
    pub(in crate::govern::audit) fn resolved(&self, query: &Query) -> Query {
        self.by_tokens(query)
    }

    /// Returns the oldest entry that holds to the query, its cursor left aside, as far as entries are taken in.
    pub(in crate::govern::audit) fn oldest(&self, query: &Query) -> Result<Option<Entry>, QueryError> {
        let query = &Query { cursor: None, ..self.by_tokens(query) };
        for ids in self.spans(query)? {
            let oldest = self.oldest_of(query, ids)?;
            if oldest.is_some() {
                return Ok(oldest);
            }
        }
        Ok(None)
    }

    /// Returns the earliest moment at which any entry was recorded; `None`: there is none. It is that of the oldest one, but
    /// where the clock was set back.
    pub(in crate::govern::audit) fn earliest(&self) -> Result<Option<Timestamp>, QueryError> {
        let oldest = self.oldest(&Query::default())?.map(|entry| entry.timestamp());
        let (state, _) = self.current()?;
        let set_back = state.skews.runs().into_iter().map(|run| run.recorded_ms.0);
        let set_back = set_back.filter_map(|at| Timestamp::from_millisecond(at).ok());
        Ok(oldest.map(|oldest| set_back.fold(oldest, Timestamp::min)))
    }

    fn oldest_of(&self, query: &Query, ids: Range<Ulid>) -> Result<Option<Entry>, QueryError> {
        let (state, _) = self.current()?;
        let mut search = Search::begin(self, query, &state, ids, Order::Ascending);
        let newest = search.within_growing(&state, 1)?;
        drop(state);
        let mut oldest = None;
        search.each_group(|search, head| {
            let found = search.within_group(head, 1)?;
            oldest = search.read(&found, 1)?.pop();
            Ok(oldest.is_none())
        })?;
        match oldest {
            Some(oldest) => Ok(Some(oldest)),
            None => Ok(search.read(&newest, 1)?.pop()),
        }
    }

    /// Tells whether a segment, or one before it, has entries about or by one of the names. What cannot be read may be.
    pub(in crate::govern::audit) fn tells_of(
        &self,
        segment: u64,
        names: &[String],
    ) -> Result<bool, QueryError> {
        if names.is_empty() {
            return Ok(false);
        }
        // Only then is it known what cannot be read.
        self.catch_up()?;
        if self.gaps.lock().is_any_up_to(segment) {
            return Ok(true);
        }
        for name in names {
            let Some(token) = self.log.keyring.known(name) else { continue };
            let query = Query { subject: Some(token.as_ref().to_owned()), ..Query::default() };
            let state = self.state.lock();
            let all = query.first_id()..query.end_id();
            let mut search = Search::begin(self, &query, &state, all, Order::Ascending);
            let growing = state.growing.as_ref().filter(|growing| growing.head.segment <= segment);
            let mut is_there = growing.is_some() && search.within_growing(&state, 0)?.total > 0;
            drop(state);
            search.each_group(|search, head| {
                let is_asked = head.segment <= segment;
                is_there |= is_asked && search.within_group(head, 0)?.total > 0;
                Ok(is_asked && !is_there)
            })?;
            if is_there {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the position of the first entry whose id is above `id`; where the store cannot be read, by the journal alone.
    pub(in crate::govern::audit) fn position_after(&self, id: Ulid) -> Result<Position, QueryError> {
        match self.indexed_position_after(id) {
            Ok(position) => Ok(position),
            Err(error) => {
                is_unless_away(Err(error))?;
                Ok(self.first_above(id, self.log.begin_up_to(id, self.log.start())?)?)
            }
        }
    }

    fn indexed_position_after(&self, id: Ulid) -> Result<Position, QueryError> {
        let next = Ulid(id.0.saturating_add(1));
        let (state, is_all) = self.current()?;
        if !is_all && id >= state.last {
            let from = state.next;
            drop(state);
            return Ok(self.first_above(id, self.log.begin_up_to(id, from)?)?);
        }
        let from = KeyRange { start: next.to_bytes(), end: None };
        let after = self.heads(&from, Order::Ascending, 1)?.pop().map(|head| head.start());
        let growing = state.growing.as_ref().map(View::of_growing);
        let until = KeyRange { start: Vec::new(), end: Some(next.to_bytes()) };
        let around = self.heads(&until, Order::Descending, 1)?.pop();
        let around = around.as_ref().map(|head| View::of_stored(head, &self.store));
        let around =
            around.into_iter().chain(growing).find(|view| (view.head.first..=view.head.last).contains(&next));
        let spot = match around {
            Some(view) => view.spot_of(next, self)?,
            None => None,
        };
        if let Some(Spot { from, .. }) = spot {
            return Ok(self.first_above(id, from)?);
        }
        let begun = growing.filter(|view| view.head.first > id).map(|view| view.head.start());
        Ok(after.or(begun).unwrap_or(state.next).max(self.log.start()))
    }

    /// Returns the position of the first entry whose id is above `id`, which is not before `from`.
    fn first_above(&self, id: Ulid, from: Position) -> Result<Position, ReadError> {
        let mut reader = self.log.short_reader(from);
        while let Some((at, payload)) = reader.next_readable()? {
            if stored::outline(payload).is_ok_and(|entry| entry.id > id) {
                return Ok(at);
            }
        }
        Ok(reader.position())
    }

    /// Returns the query with tokens for its names; a name without a token is one that nothing is known of.
    fn by_tokens(&self, query: &Query) -> Query {
        let token = |name: &Option<String>| {
            let known = self.log.keyring.known(name.as_deref()?);
            Some(known.map_or_else(|| NOBODY.to_owned(), |token| token.as_ref().to_owned()))
        };
        Query { entity: token(&query.entity), subject: token(&query.subject), ..query.clone() }
    }
}

/// Tells whether something was read; it was not where the store fails, which is no fault of what is asked.
fn is_unless_away(read: Result<(), QueryError>) -> Result<bool, QueryError> {
    match read {
        Ok(()) => Ok(true),
        Err(QueryError::Store(error @ (StoreError::Backend { .. } | StoreError::Away { .. }))) => {
            tracing::warn!(%error, "the audit index cannot be read for now");
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

impl<'a> Search<'a> {
    fn begin(index: &'a Index, query: &'a Query, state: &State, ids: Range<Ulid>, order: Order) -> Self {
        Self {
            index,
            query,
            asked: Asked::by(query),
            page: ids.start..ids.end.min(query.cursor.unwrap_or(Ulid(u128::MAX))),
            ids,
            order,
            growing: state
                .growing
                .as_ref()
                .map_or(Ulid(state.last.0.saturating_add(1)), |growing| growing.head.first),
            kinds: BTreeMap::from([(state.kinds.edition(), state.kinds.matching(query))]),
            verified_left: VERIFIED_ENTRIES_MAX,
        }
    }

    /// Finds what is not in the store yet.
    fn within_growing(&mut self, state: &State, wanted: usize) -> Result<Found, QueryError> {
        let view = state.growing.as_ref().map(View::of_growing);
        view.map_or_else(|| Ok(Found::default()), |view| self.find(view, wanted))
    }

    /// Finds what is in a group in the store.
    fn within_group(&mut self, head: &Head, wanted: usize) -> Result<Found, QueryError> {
        if !self.kinds.contains_key(&head.edition) {
            match KindSet::load(&self.index.store, head.edition, self.query) {
                Ok(kinds) => drop(self.kinds.insert(head.edition, kinds)),
                // Its kinds go with the last of their groups, bit by bit.
                Err(StoreError::UnreadableRecord { .. }) if self.index.is_dropped(head)? => {
                    return Ok(Found::default());
                }
                Err(error) => return Err(error.into()),
            }
        }
        let index = self.index;
        self.find(View::of_stored(head, &index.store), wanted)
    }

    /// Counts matches, and finds as many as are wanted.
    fn find(&mut self, view: View<'_>, wanted: usize) -> Result<Found, QueryError> {
        let Some(kinds) = self.kinds.get(&view.head.edition) else { return Ok(Found::default()) };
        let is_there = |ids: &Range<Ulid>| ids.start <= view.head.last && view.head.first < ids.end;
        if !is_there(&self.ids) {
            return Ok(Found::default());
        }
        let within = view.within(&self.ids, self.index)?;
        let mut total = view.count(&self.asked, kinds, &within)?;
        // Callers choose request ids, and can choose two of one print; the tokens of names nobody chooses.
        if self.query.request_id.is_some() && (1..=self.verified_left).contains(&total) {
            self.verified_left -= total;
            let places = view.places(&self.asked, kinds, &within, self.order, usize::MAX)?;
            let found = Found { total, spots: view.spots(&places)?, group: Some(view.head.clone()) };
            total = self.read(&found, usize::MAX)?.len() as u64;
        }
        if total == 0 || wanted == 0 || !is_there(&self.page) {
            return Ok(Found { total, ..Found::default() });
        }
        // What was counted is all that is looked for: a look at what lies beyond would find nothing.
        let (within, wanted) = match self.query.cursor {
            Some(_) => (view.within(&self.page, self.index)?, wanted),
            None => (within, wanted.min(usize::try_from(total).unwrap_or(wanted))),
        };
        let places = view.places(&self.asked, kinds, &within, self.order, wanted)?;
        Ok(Found { total, spots: view.spots(&places)?, group: Some(view.head.clone()) })
    }

    /// Shows the groups in the store in which matches may be, in order, while `visit` wants more.
    fn each_group(
        &mut self,
        mut visit: impl FnMut(&mut Self, &Head) -> Result<bool, QueryError>,
    ) -> Result<(), QueryError> {
        let mut range = self.groups()?;
        while !range.is_empty() {
            let heads = self.index.heads(&range, self.order, HEADS)?;
            let Some(last) = heads.last().map(|head| head.first) else { return Ok(()) };
            for head in &heads {
                if !visit(self, head)? {
                    return Ok(());
                }
            }
            match self.order {
                Order::Descending => range.end = Some(last.to_bytes()),
                Order::Ascending => range.start = Ulid(last.0.saturating_add(1)).to_bytes(),
            }
        }
        Ok(())
    }

    /// Returns the keys of the groups in which such ids may be: the first one may begin before them.
    fn groups(&self) -> Result<KeyRange, StoreError> {
        let until =
            KeyRange { start: Vec::new(), end: Some(Ulid(self.ids.start.0.saturating_add(1)).to_bytes()) };
        let around = self.index.heads(&until, Order::Descending, 1)?.pop();
        let start = around.map_or(self.ids.start, |head| head.first);
        Ok(KeyRange { start: start.to_bytes(), end: Some(self.ids.end.min(self.growing).to_bytes()) })
    }

    /// Reads matches, as many as are wanted; those that are gone, or are none after all, or are damaged are left out.
    fn read(&self, found: &Found, wanted: usize) -> Result<Vec<Entry>, QueryError> {
        let (mut entries, mut rest) = (Vec::new(), found.spots.as_slice());
        let Some(group) = &found.group else { return Ok(entries) };
        while entries.len() < wanted && !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(wanted - entries.len()));
            for same in now.chunk_by(|one, next| one.from == next.from) {
                self.read_together(same, group, &mut entries)?;
            }
            rest = later;
        }
        Ok(entries)
    }

    /// Reads matches of a group that lie close together.
    fn read_together(
        &self,
        spots: &[Spot],
        group: &Head,
        entries: &mut Vec<Entry>,
    ) -> Result<(), QueryError> {
        let Some(from) = spots.first().map(|spot| spot.from) else { return Ok(()) };
        let last = spots.iter().map(|spot| spot.frames).max().unwrap_or_default();
        let (mut reader, mut found) = (self.index.log.short_reader(from), Vec::new());
        for frames in 0..=last {
            let read = reader.next();
            if is_damage(&read) {
                // Behind more than one entry it is not known which one follows.
                if self.index.pass_over(&mut reader, group)? { continue } else { break }
            }
            let Some((at, payload)) = read? else { break };
            if frames == 0 && at != from {
                break;
            }
            if spots.iter().any(|spot| spot.frames == frames) {
                found.extend(self.matching(at, payload, group));
            }
        }
        if self.order == Order::Descending {
            found.reverse();
        }
        entries.append(&mut found);
        Ok(())
    }

    /// Returns an entry, if it holds to the query and can be read.
    fn matching(&self, at: Position, payload: &[u8], group: &Head) -> Option<Entry> {
        let keyring = &self.index.log.keyring;
        let is_none = stored::outline(payload).is_ok_and(|entry| !entry.matches(self.query, keyring));
        if is_none {
            return None;
        }
        let entry = stored::entry(payload, keyring);
        if entry.is_err() {
            self.index.note_unreadable(at, payload, group);
        }
        entry.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::govern::audit::index::group::GROUPS;
    use crate::govern::audit::index::kinds::KINDS;
    use crate::govern::audit::index::tests::filled;
    use crate::govern::audit::index::tests::keys;
    use crate::store::Batch;

    #[test]
    fn a_group_whose_kinds_are_on_their_way_out_has_no_matches_and_one_that_lost_them_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let (_journal, store, index) = filled(folder.path(), 200);
        index.state.lock().kinds.fill_at(1000);
        let query = Query { action: Some("block".into()), ..Query::default() };
        assert_eq!(index.query(&query).unwrap().total, 200);
        let state = index.state.lock();
        let all = query.first_id()..query.end_id();
        let mut search = Search::begin(&index, &query, &state, all, Order::Descending);
        drop(state);
        let oldest = index.heads(&KeyRange::all(), Order::Ascending, 1).unwrap().remove(0);
        let mut batch = Batch::default();
        batch.delete(KINDS, keys(&store, KINDS).remove(0));
        store.commit(&batch).unwrap();
        assert!(search.within_group(&oldest, 10).is_err());
        let mut batch = Batch::default();
        batch.delete(GROUPS, oldest.first.to_bytes());
        store.commit(&batch).unwrap();
        assert_eq!(search.within_group(&oldest, 10).unwrap().total, 0);
    }
}
