//! What nodes keep in common of what each of them wrote for itself: rows that follow one another, node by node.
//!
//! In: rows, each node's own in their order. Out: the rows of all nodes that hold to a filter, ordered by id and, where
//! ids should ever be the same, by node; or those of one node in the order in which it wrote them. A row never changes,
//! and goes only from the beginning of its node's ([`Archive::drop_first`]).

use std::collections::BTreeMap;
use std::ops::Range;

use super::Order;
pub use super::postgres::Archive;
pub use super::postgres::Counted;
use crate::id::Ulid;

/// The length of a tallied hour, in milliseconds.
pub(super) const HOUR_MS: i64 = 3_600_000;
/// The length of a day, in milliseconds.
pub(super) const DAY_MS: i64 = 86_400_000;

/// Makes the table of rows before the first start, so that it is partitioned by day (whole days since 1970): each
/// partition is made with `FOR VALUES FROM (day) TO (day + 1)`, or by an extension that does so ahead of time. For
/// PostgreSQL and YugabyteDB.
pub const PARTITIONED: &str = "
    CREATE TABLE portcullis_audit (
        node text NOT NULL, seq bigint NOT NULL, day bigint NOT NULL, id bytea NOT NULL, category text,
        severity text, event_type text NOT NULL, entity text, actor text, request_id text, payload bytea NOT NULL,
        PRIMARY KEY (node, seq, day)
    ) PARTITION BY RANGE (day)";

/// The hash of a payload, as its writer made it.
pub type RowHash = [u8; 32];

/// How far a node's rows are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveHead {
    /// The node.
    pub node: String,
    /// The number of its newest row, from 1 on; 0: there never was one.
    pub sequence: u64,
    /// That row's id.
    pub id: Ulid,
    /// That row's hash.
    pub hash: RowHash,
    /// The number of the newest row that was dropped.
    pub floor: u64,
    /// The hash before the oldest row that is left.
    pub floor_hash: RowHash,
}

/// A row: what it is found by, and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveRow {
    /// Its place among its node's rows, from 1 on.
    pub sequence: u64,
    /// Rises from row to row of a node.
    pub id: Ulid,
    /// When it was recorded, in Unix milliseconds, where its id tells another moment, because the clock was set back;
    /// `None` also of what an earlier release has written.
    pub recorded_ms: Option<i64>,
    /// The category of its gravest finding.
    pub category: Option<String>,
    /// Its severity.
    pub severity: Option<String>,
    /// What happened.
    pub event_type: String,
    /// The token of whom it is about.
    pub entity: Option<String>,
    /// The token of who did it.
    pub actor: Option<String>,
    /// The request.
    pub request_id: Option<String>,
    /// What else it is found by; `None`: a release wrote it that knew of none, and it was not [added](Archive::sort_in)
    /// yet.
    pub facets: Option<ArchiveFacets>,
    /// What it holds.
    pub payload: Vec<u8>,
}

/// What a row is found by since there are facets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveFacets {
    /// What was done.
    pub action: String,
    /// The route.
    pub route: Option<String>,
    /// The policy.
    pub policy: Option<String>,
    /// The detectors of its findings, each once, in order.
    pub detectors: Vec<String>,
    /// The categories of its other findings, each once, in order; `None`: nothing was found, or a release wrote it that
    /// knew the gravest one's alone, and they were not [added](Archive::sort_in) yet.
    pub other_categories: Option<Vec<String>>,
}

/// A row that is not found by its facets yet, and where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveUnsorted {
    /// Whose it is, and its place among that node's.
    pub found: ArchiveFound,
    /// Its day.
    pub(super) day: i64,
}

/// A row that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveFound {
    /// Whose it is.
    pub node: String,
    /// Its place among that node's.
    pub sequence: u64,
    /// What it holds.
    pub payload: Vec<u8>,
}

/// What rows have to hold to, all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveFilter {
    /// Within these.
    pub ids: Range<Ulid>,
    /// Instead, of rows whose ids do not tell when they were recorded: between these moments, in Unix milliseconds, both
    /// included; `None`: they count by their ids as well.
    pub recorded_ms: Option<(i64, i64)>,
    /// Not those of a node that are newer than this: they are known from elsewhere.
    pub but: Option<(String, Ulid)>,
    /// Of this node.
    pub node: Option<String>,
    /// With a finding of this category.
    pub category: Option<String>,
    /// Of any category.
    pub has_category: bool,
    /// Of this severity.
    pub severity: Option<String>,
    /// Of this type.
    pub event_type: Option<String>,
    /// Where this was done.
    pub action: Option<String>,
    /// Of this route.
    pub route: Option<String>,
    /// Of this policy.
    pub policy: Option<String>,
    /// With a finding of this detector.
    pub detector: Option<String>,
    /// About this token.
    pub entity: Option<String>,
    /// About or by this token.
    pub subject: Option<String>,
    /// Of this request.
    pub request_id: Option<String>,
}

/// Which of the rows that were found are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivePage {
    /// Which come first.
    pub order: Order,
    /// Those that come after this id of this node.
    pub beyond: Option<(Ulid, String)>,
    /// The most there are to be.
    pub limit: usize,
}

impl Default for ArchiveFilter {
    fn default() -> Self {
        Self {
            ids: Ulid(0)..Ulid(u128::MAX),
            recorded_ms: None,
            but: None,
            node: None,
            category: None,
            has_category: false,
            severity: None,
            event_type: None,
            action: None,
            route: None,
            policy: None,
            detector: None,
            entity: None,
            subject: None,
            request_id: None,
        }
    }
}

impl ArchiveFilter {
    /// Tells whether something is asked for of which no tallies are kept: somebody, a single request, or a facet.
    pub(super) fn is_named(&self) -> bool {
        self.entity.is_some() || self.subject.is_some() || self.request_id.is_some() || self.has_facets()
    }

    /// Tells whether a facet is asked for.
    pub(super) fn has_facets(&self) -> bool {
        [&self.action, &self.route, &self.policy, &self.detector].into_iter().any(Option::is_some)
    }

    /// Returns the whole hours within the asked time, counted from 1970.
    pub(super) fn whole_hours(&self) -> Range<i64> {
        let first = match self.ids.start {
            Ulid(0) => 0,
            Ulid(start) => hour(Ulid(start - 1)) + 1,
        };
        let end = if self.ids.end == Ulid(u128::MAX) { i64::MAX } else { hour(self.ids.end) };
        first..end
    }
}

/// Facts that are tallied: hour, category, severity, type.
pub(super) type Facts<'a> = (i64, &'a str, &'a str, &'a str);

/// Counts rows by what is tallied.
pub(super) fn tallies(rows: &[ArchiveRow]) -> BTreeMap<Facts<'_>, i64> {
    let mut counts = BTreeMap::new();
    for row in rows {
        let facts = (
            hour(row.id),
            row.category.as_deref().unwrap_or_default(),
            row.severity.as_deref().unwrap_or_default(),
            row.event_type.as_str(),
        );
        *counts.entry(facts).or_default() += 1;
    }
    counts
}

/// What is told of a row's findings but for the gravest one: its id, their categories, its severity and its type.
pub(super) type Others<'a> = (Ulid, &'a [String], &'a str, &'a str);

impl ArchiveRow {
    /// Returns what it tells of its findings but for the gravest one.
    pub(super) fn others(&self) -> Others<'_> {
        let others = self.facets.as_ref().and_then(|facets| facets.other_categories.as_deref());
        let severity = self.severity.as_deref().unwrap_or_default();
        (self.id, others.unwrap_or_default(), severity, &self.event_type)
    }
}

/// Counts rows by each category that is not their gravest one.
pub(super) fn other_tallies<'a>(rows: impl IntoIterator<Item = Others<'a>>) -> BTreeMap<Facts<'a>, i64> {
    let mut counts = BTreeMap::new();
    for (id, categories, severity, event_type) in rows {
        for category in categories {
            *counts.entry((hour(id), category.as_str(), severity, event_type)).or_default() += 1;
        }
    }
    counts
}

/// Returns the hour of an id, counted from 1970.
pub(super) fn hour(id: Ulid) -> i64 {
    id.unix_ms().div_euclid(HOUR_MS)
}

/// Returns the first id of an hour.
pub(super) fn hour_start(hour: i64) -> Ulid {
    Ulid(((hour.max(0) as u128) * (HOUR_MS as u128)) << 80)
}

#[cfg(test)]
mod tests;
