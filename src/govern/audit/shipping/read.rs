//! Answers from the entries of all nodes: from the rows in common, and from the end of this node's journal that is
//! not among them yet.
//!
//! The order is that of ids, newest first, and of nodes' names where ids should ever be the same. An id holds the moment
//! of recording by its node's clock, so that entries of different nodes lie to each other as their clocks do. A cursor
//! is an id: what is recorded or shipped after the first page is on no later one, unless a node that was cut off ships
//! what it recorded long ago.

use std::sync::Arc;

use jiff::Timestamp;

use super::Shipping;
use crate::govern::audit::About;
use crate::govern::audit::event::Entry;
use crate::govern::audit::export::BATCH_ENTRIES;
use crate::govern::audit::export::Export;
use crate::govern::audit::export::Exported;
use crate::govern::audit::export::FromShipped;
use crate::govern::audit::index::QueryError;
use crate::govern::audit::log::ReadError;
use crate::govern::audit::query::PAGE_ENTRIES_MAX;
use crate::govern::audit::query::Page;
use crate::govern::audit::query::Query;
use crate::govern::audit::stored;
use crate::id::Ulid;
use crate::store::Order;
use crate::store::StoreError;
use crate::store::archive::ArchiveFilter;
use crate::store::archive::ArchiveFound;
use crate::store::archive::ArchiveHead;
use crate::store::archive::ArchivePage;
use crate::store::archive::Counted;

/// Nobody's token.
const NOBODY: &str = "!";

impl Shipping {
    /// Answers a query: without the database, from this node's journal alone, and says so.
    pub(in crate::govern::audit) fn query(&self, query: &Query) -> Result<Page, QueryError> {
        if !(1..=PAGE_ENTRIES_MAX).contains(&query.limit) {
            return Err(QueryError::Limit);
        }
        if query.node.as_deref() == Some(&*self.node) {
            return self.own(query);
        }
        match self.query_all(query) {
            Err(QueryError::Store(error)) if query.node.is_none() => {
                tracing::warn!(%error, "the audit entries of other nodes could not be read");
                Ok(Page { is_complete: false, ..self.own(query)? })
            }
            page => page,
        }
    }

    /// Returns what the index says, as entries of this node.
    fn own(&self, query: &Query) -> Result<Page, QueryError> {
        let mut page = self.index.query(query)?;
        page.entries.iter_mut().for_each(|entry| entry.node = Some(Arc::clone(&self.node)));
        Ok(page)
    }

    fn query_all(&self, query: &Query) -> Result<Page, QueryError> {
        let head = self.known_head()?;
        let filter = self.filter(query, &head);
        // One more, which tells whether there is another page.
        let page = ArchivePage {
            order: Order::Descending,
            beyond: query.cursor.map(|cursor| (cursor, String::new())),
            limit: query.limit + 1,
        };
        let (found, total) = self.archive.search(&filter, &page, Counted::All)?;
        let mut entries = found.iter().map(|found| self.entry(found)).collect::<Result<Vec<_>, _>>()?;
        let (mut total, mut more) = (total, false);
        let mut is_complete = self.plain.of_others(&self.node, query)?.is_empty()
            && !(query.has_facets() && self.archive.is_unsorted(&filter)?);
        if query.node.is_none() {
            for part in self.unshipped(query, &head) {
                let own = self.own(&part)?;
                total += own.total;
                more |= own.cursor.is_some();
                is_complete &= own.is_complete;
                entries.extend(own.entries);
            }
        }
        entries.sort_by(|one, other| (other.id, &other.node).cmp(&(one.id, &one.node)));
        more |= entries.len() > query.limit;
        entries.truncate(query.limit);
        let cursor = entries.last().filter(|_| more).map(|entry| entry.id);
        Ok(Page { entries, total, cursor, is_complete })
    }

    /// Returns what is known of somebody on any node, or that some cannot be asked.
    pub(in crate::govern::audit) fn about(&self, query: &Query) -> Result<Option<About>, QueryError> {
        let unasked = self.plain.of_others(&self.node, query)?;
        let head = self.known_head()?;
        let filter = self.filter(query, &head);
        let found = ArchiveFilter { has_category: true, ..filter.clone() };
        let page = |order| ArchivePage { order, beyond: None, limit: 1 };
        let (oldest, mut events) = self.archive.search(&filter, &page(Order::Ascending), Counted::All)?;
        let (newest, _) = self.archive.search(&filter, &page(Order::Descending), Counted::No)?;
        let (_, mut with_findings) = self.archive.search(&found, &page(Order::Ascending), Counted::All)?;
        let mut ids = Vec::new();
        for found in oldest.iter().chain(&newest) {
            ids.push(self.entry(found)?.id);
        }
        for part in self.unshipped(query, &head) {
            let own = self.index.query(&Query { limit: 1, ..part.clone() })?;
            events += own.total;
            ids.extend(own.entries.first().map(|entry| entry.id));
            ids.extend(self.index.oldest(&part)?.map(|entry| entry.id));
            with_findings += self.index.query(&Query { is_alert: true, limit: 1, ..part.clone() })?.total;
        }
        let recorded =
            ids.iter().min().zip(ids.iter().max()).map(|(first, last)| (moment(*first), moment(*last)));
        let is_known = recorded.is_some() || !unasked.is_empty();
        Ok(is_known.then_some(About { events, with_findings, recorded, unasked }))
    }

    /// Returns when the earliest entry was recorded that any node has shipped, or keeps from the first release.
    pub(in crate::govern::audit) fn oldest(&self) -> Result<Option<Timestamp>, QueryError> {
        if !self.plain.of_others(&self.node, &Query::default())?.is_empty() {
            return Ok(Some(jiff::Timestamp::UNIX_EPOCH));
        }
        let page = ArchivePage { order: Order::Ascending, beyond: None, limit: 1 };
        let (found, _) = self.archive.search(&ArchiveFilter::default(), &page, Counted::No)?;
        let oldest = found.first().map(|found| self.entry(found)).transpose()?;
        let set_back = self.archive.earliest_set_back()?.and_then(|at| Timestamp::from_millisecond(at).ok());
        Ok(oldest.map(|entry| entry.timestamp()).into_iter().chain(set_back).min())
    }

    /// Returns what is to be asked of this node's journal: its first entries, where they are never shipped, and those
    /// that are not shipped yet.
    fn unshipped(&self, query: &Query, head: &ArchiveHead) -> Vec<Query> {
        let tail = Query { after: tail_of(head), ..query.clone() };
        let plain =
            self.progress.lock().plain.filter(|_| head.sequence > 0).map(|(newest, _)| moment(newest));
        let first =
            plain.map(|last| Query { to: Some(query.to.map_or(last, |to| to.min(last))), ..query.clone() });
        first.into_iter().chain([tail]).collect()
    }

    /// Returns what is asked for, as columns; what this node has not said it shipped is taken from its journal.
    fn filter(&self, query: &Query, head: &ArchiveHead) -> ArchiveFilter {
        let token = |name: &Option<String>| {
            let known = |name: &String| self.log.keyring.known(name).map(|token| token.as_ref().to_owned());
            name.as_ref().map(|name| known(name).unwrap_or_else(|| NOBODY.to_owned()))
        };
        ArchiveFilter {
            ids: query.first_id()..query.end_id(),
            recorded_ms: query.recorded_ms(),
            but: Some((self.node.as_ref().to_owned(), head.id)),
            node: query.node.clone(),
            category: query.category.map(|category| category.as_str().to_owned()),
            has_category: query.is_alert,
            severity: query.severity.map(|severity| severity.as_str().to_owned()),
            event_type: query.event_type.clone(),
            action: query.action.clone(),
            route: query.route.clone(),
            policy: query.policy.clone(),
            detector: query.detector.clone(),
            entity: token(&query.entity),
            subject: token(&query.subject),
            request_id: query.request_id.clone(),
        }
    }

    /// Begins an export of what all nodes have shipped, and of what this one has recorded by now.
    pub(in crate::govern::audit) fn export(self: &Arc<Self>, query: &Query) -> Result<Export, QueryError> {
        if query.node.as_deref() == Some(&*self.node) {
            return Export::begin(Arc::clone(&self.log), &self.index, query, Some(Arc::clone(&self.node)));
        }
        self.ship_all()?;
        let heads = self.archive.heads()?.into_iter().map(|head| (head.node, head.sequence)).collect();
        let filter = ArchiveFilter { but: None, ..self.filter(query, &self.known_head()?) };
        Ok(Export::of_shipped(FromShipped { shipping: Arc::clone(self), filter, heads, last: None }))
    }

    /// Returns the next entries of an export, and their numbers.
    pub(in crate::govern::audit) fn exported(
        &self,
        filter: &ArchiveFilter,
        beyond: Option<(Ulid, String)>,
    ) -> Result<Vec<(Exported, u64)>, QueryError> {
        let page = ArchivePage { order: Order::Ascending, beyond, limit: BATCH_ENTRIES };
        let (found, _) = self.archive.search(filter, &page, Counted::No)?;
        let exported = |found: &ArchiveFound| {
            let entry = self.entry(found)?;
            let damaged = |_| ReadError::DamagedRow { node: found.node.clone(), sequence: found.sequence };
            let (_, _, canonical) = stored::split(&found.payload).map_err(damaged)?;
            Ok((Exported { entry, canonical: canonical.to_vec() }, found.sequence))
        };
        found.iter().map(exported).collect()
    }

    fn known_head(&self) -> Result<ArchiveHead, StoreError> {
        let known = self.progress.lock().head.clone();
        known.map_or_else(|| self.archive.head(&self.node), Ok)
    }

    fn entry(&self, found: &ArchiveFound) -> Result<Entry, ReadError> {
        let damaged = |_| ReadError::DamagedRow { node: found.node.clone(), sequence: found.sequence };
        let mut entry = stored::entry(&found.payload, &self.log.keyring).map_err(damaged)?;
        entry.node = Some(found.node.as_str().into());
        Ok(entry)
    }
}

/// Returns what the newest shipped entry is; `None`: all of the journal is still to be shipped.
fn tail_of(head: &ArchiveHead) -> Option<Ulid> {
    (head.sequence > 0).then_some(head.id)
}

fn moment(id: Ulid) -> Timestamp {
    Timestamp::from_millisecond(id.unix_ms()).unwrap_or(Timestamp::MAX)
}
