//! Counts by the hour, so that a total does not need to look at every entry.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::Serialize;

use crate::scan::threat::Category;
use crate::scan::threat::Severity;
use crate::store::Record;

use super::query::Query;

/// The length of a tally's hour, in milliseconds.
pub(super) const HOUR_MS: i64 = 3_600_000;

/// The facts of an entry that are counted and kept in the index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "(u8, u8, String)", into = "(u8, u8, String)")]
pub(super) struct Facts {
    pub(super) category: u8,
    pub(super) severity: u8,
    pub(super) event_type: String,
}

/// The same, borrowed.
#[derive(Clone, Copy)]
pub(super) struct FactsRef<'a> {
    pub(super) category: u8,
    pub(super) severity: u8,
    pub(super) event_type: &'a str,
}

impl From<(u8, u8, String)> for Facts {
    fn from((category, severity, event_type): (u8, u8, String)) -> Self {
        Self { category, severity, event_type }
    }
}

impl From<Facts> for (u8, u8, String) {
    fn from(Facts { category, severity, event_type }: Facts) -> Self {
        (category, severity, event_type)
    }
}

/// How many entries of an hour have which facts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tally {
    counts: Vec<(Facts, u64)>,
}

impl Record for Tally {
    /// Version 1 spelt the facts' fields out.
    const VERSION: u32 = 2;
}

impl Facts {
    pub(super) fn match_query(&self, query: &Query) -> bool {
        let Self { category, severity, ref event_type } = *self;
        FactsRef { category, severity, event_type }.match_query(query)
    }
}

impl FactsRef<'_> {
    /// Tells whether they hold to a query's category, severity and type.
    pub(super) fn match_query(&self, query: &Query) -> bool {
        query.category.is_none_or(|wanted| self.category == code(&Category::ALL, Some(wanted)))
            && query.severity.is_none_or(|wanted| self.severity == code(&Severity::ALL, Some(wanted)))
            && query.event_type.as_ref().is_none_or(|wanted| self.event_type == *wanted)
    }
}

impl Tally {
    /// Adds the counts of `more`.
    pub(super) fn add(&mut self, more: &BTreeMap<Facts, u64>) {
        for (facts, count) in more {
            match self.counts.iter_mut().find(|(known, _)| known == facts) {
                Some((_, known)) => *known += count,
                None => self.counts.push((facts.clone(), *count)),
            }
        }
    }

    /// Takes away the counts of `less`.
    pub(super) fn remove(&mut self, less: &BTreeMap<Facts, u64>) {
        for (facts, count) in &mut self.counts {
            *count = count.saturating_sub(less.get(facts).copied().unwrap_or(0));
        }
        self.counts.retain(|(_, count)| *count > 0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Returns how many entries hold to the query's facts.
    pub(super) fn matching(&self, query: &Query) -> u64 {
        self.counts.iter().filter(|(facts, _)| facts.match_query(query)).map(|(_, count)| count).sum()
    }
}

/// Returns a member's place among all, from 1; 0 stands for none.
pub(super) fn code<T: PartialEq>(all: &[T], member: Option<T>) -> u8 {
    member.and_then(|member| all.iter().position(|known| *known == member)).map_or(0, |place| place as u8 + 1)
}

/// Returns the member that a code stands for.
pub(super) fn named<T: Copy>(all: &[T], code: u8) -> Option<T> {
    all.get(usize::from(code).checked_sub(1)?).copied()
}
