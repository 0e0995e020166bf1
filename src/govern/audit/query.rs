//! What may be asked of the log.

use jiff::Timestamp;

use crate::id::Ulid;
use crate::scan::threat::Category;
use crate::scan::threat::Severity;

use super::event::Entry;

/// The most entries one page may hold.
pub const PAGE_ENTRIES_MAX: usize = 1000;
/// How many entries a page holds when nobody says.
pub const PAGE_ENTRIES_DEFAULT: usize = 100;

/// Filters, all of which must hold, and a page.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// Recorded at this moment or later.
    pub from: Option<Timestamp>,
    /// Recorded at this moment or earlier, to the millisecond.
    pub to: Option<Timestamp>,
    /// With a finding of this category, be it the gravest or another one.
    pub category: Option<Category>,
    /// Only such in which something was found.
    pub is_alert: bool,
    /// Of this severity.
    pub severity: Option<Severity>,
    /// Of this type.
    pub event_type: Option<String>,
    /// Where this was done about it.
    pub action: Option<String>,
    /// On this route, or under this path.
    pub route: Option<String>,
    /// Decided by this policy.
    pub policy: Option<String>,
    /// With a finding of this detector.
    pub detector: Option<String>,
    /// About this entity.
    pub entity: Option<String>,
    /// About this entity, or done by it.
    pub subject: Option<String>,
    /// Of this request.
    pub request_id: Option<String>,
    /// Of this node; [`super::AuditLog`] of a node that shares nothing has entries of its own only.
    pub node: Option<String>,
    /// Newer than this entry.
    pub after: Option<Ulid>,
    /// Older than this entry: the cursor of the page before.
    pub cursor: Option<Ulid>,
    /// How many entries to return, 1 to [`PAGE_ENTRIES_MAX`].
    pub limit: usize,
}

/// One page of the answer, newest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The entries.
    pub entries: Vec<Entry>,
    /// How many entries hold to the filters on all pages together.
    pub total: u64,
    /// Asks for the next page; `None` on the last one.
    pub cursor: Option<Ulid>,
    /// Whether all entries were looked at; not so while the database that nodes share is away, nor where another node has
    /// entries of the first release that may match, nor as long as entries that an earlier release shipped are still to
    /// be sorted in by what the query asks for, nor while the index is built anew, nor where the journal is damaged at the time that is asked for.
    pub is_complete: bool,
}

impl Default for Query {
    fn default() -> Self {
        Self {
            from: None,
            to: None,
            category: None,
            is_alert: false,
            severity: None,
            event_type: None,
            action: None,
            route: None,
            policy: None,
            detector: None,
            entity: None,
            subject: None,
            request_id: None,
            node: None,
            after: None,
            cursor: None,
            limit: PAGE_ENTRIES_DEFAULT,
        }
    }
}

impl Query {
    /// Tells whether an entry holds to the filters, those of time left aside. Names are compared as they are shown.
    pub fn admits(&self, entry: &Entry) -> bool {
        let event = &entry.event;
        let is = |wanted: &Option<String>, name: &Option<String>| wanted.is_none() || wanted == name;
        self.category.is_none_or(|wanted| event.found(wanted))
            && (!self.is_alert || event.is_alert())
            && self.severity.is_none_or(|wanted| event.severity == Some(wanted))
            && self.event_type.as_ref().is_none_or(|wanted| event.event_type == *wanted)
            && self.action.as_ref().is_none_or(|wanted| event.action == *wanted)
            && is(&self.route, &event.route)
            && is(&self.policy, &event.policy)
            && self
                .detector
                .as_ref()
                .is_none_or(|wanted| event.findings.iter().any(|finding| finding.detector == *wanted))
            && is(&self.entity, &event.entity)
            && (is(&self.subject, &event.entity) || is(&self.subject, &event.actor))
            && is(&self.request_id, &event.request_id)
    }

    /// Tells whether it asks for an action, a route, a policy, a detector or a category.
    pub(super) fn has_facets(&self) -> bool {
        self.category.is_some()
            || [&self.action, &self.route, &self.policy, &self.detector].into_iter().any(Option::is_some)
    }

    /// Returns the smallest id that may match, of entries that were recorded when their ids tell.
    pub(super) fn first_id(&self) -> Ulid {
        self.from.map_or(Ulid(0), |from| at_ms(ceil_ms(from))).max(self.newest_known())
    }

    /// Returns the smallest id above the entry that matches are newer than.
    pub(super) fn newest_known(&self) -> Ulid {
        self.after.map_or(Ulid(0), |after| Ulid(after.0.saturating_add(1)))
    }

    /// Returns the first and the last millisecond in which matches were recorded, where there are bounds.
    pub(super) fn recorded_ms(&self) -> Option<(i64, i64)> {
        let is_bound = self.from.is_some() || self.to.is_some();
        is_bound.then(|| (self.from.map_or(i64::MIN, ceil_ms), self.to.map_or(i64::MAX, floor_ms)))
    }

    /// Returns the id that is past every match, on whatever page, of entries that were recorded when their ids tell.
    pub(super) fn end_id(&self) -> Ulid {
        self.to.map_or(Ulid(u128::MAX), |to| at_ms(floor_ms(to).saturating_add(1)))
    }
}

/// Returns the smallest id of a millisecond.
pub(super) fn at_ms(unix_ms: i64) -> Ulid {
    Ulid((unix_ms.max(0) as u128) << 80)
}

fn floor_ms(at: Timestamp) -> i64 {
    at.as_nanosecond().div_euclid(1_000_000) as i64
}

fn ceil_ms(at: Timestamp) -> i64 {
    (at.as_nanosecond() + 999_999).div_euclid(1_000_000) as i64
}
