//! The part of live traffic in tests: which variant judges a request, and what came of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::AbTest;
use super::AbTests;
use super::Outcome;
use super::Status;
use super::Trip;
use super::book::Held;
use super::book::place;
use super::recent::Seen;
use crate::clock::Clock;
use crate::policy::inspect::layer3::Trial;
use crate::scan::classifier::shelf::Shelf;

/// What routing needs of a test: a variant without a trial has tripped its guard rail.
pub(super) struct Live {
    test: AbTest,
    is_stopped: Vec<bool>,
}

/// A request that takes part in a test.
#[derive(Debug)]
pub struct Enrolled {
    test_id: String,
    pub(super) variant: usize,
    /// Which variants got requests when this one came.
    pub(super) open: Vec<bool>,
    /// What the third layer goes by, and what it measures.
    pub trial: Trial,
}

impl AbTests {
    /// Tells whether live traffic is routed by a test.
    pub fn is_live(&self, id: &str) -> bool {
        self.live.load().as_ref().is_some_and(|live| live.test.id == id)
    }

    /// Returns how a request takes part in the test that routes live traffic; `id` is one that the gateway made, since
    /// whoever chooses it chooses what judges the request.
    ///
    /// Nothing where no test does, where the variant was stopped by its guard rail, or where the shelf has not got
    /// its model any more: the usual model judges then, and nothing is counted.
    pub fn enrol(&self, id: &str, shelf: &Shelf, clock: &Arc<dyn Clock>) -> Option<Enrolled> {
        let live = self.live.load();
        let Live { test, is_stopped } = live.as_deref()?;
        let variant = place(test, id)?;
        let pairs = test.variants.iter().zip(is_stopped);
        let open: Vec<bool> =
            pairs.map(|(variant, is_stopped)| !is_stopped && variant.model_ref.is_on(shelf)).collect();
        let model = test.variants.get(variant)?.model_ref.clone();
        open.get(variant)?.then(|| Enrolled {
            test_id: test.id.clone(),
            variant,
            open,
            trial: Trial::new(model, Arc::clone(clock)),
        })
    }

    /// Counts what came of a request that took part; returns the test's and the variant's name and the guard rail
    /// that held because of it.
    pub fn observe(
        &self,
        enrolled: &Enrolled,
        request_id: &str,
        outcome: Outcome,
        now: Timestamp,
    ) -> Option<(String, String, Trip)> {
        let mut all = self.held.lock();
        let held = all.get_mut(&enrolled.test_id)?;
        if held.test.status != Status::Started || held.recent.get(request_id).is_some() {
            return None;
        }
        held.recent.note(request_id, Seen::Live { variant: enrolled.variant, detected: outcome.detected });
        held.observe(enrolled, outcome);
        let trip = held.tally.guard(held.test.guard_rail, enrolled.variant, now)?;
        let variant = held.test.variants.get(enrolled.variant)?.name.clone();
        self.choose_live(&all);
        Some((enrolled.test_id.clone(), variant, trip))
    }

    /// Lets the test that was started first route live traffic.
    pub(super) fn choose_live(&self, held: &BTreeMap<String, Held>) {
        let started = held.values().filter(|held| held.test.status == Status::Started);
        let first = started.min_by_key(|held| (held.test.started_at, held.test.id.clone()));
        self.live.store(first.map(|held| {
            let is_stopped = held.tally.variants.iter().map(|tally| tally.trip.is_some()).collect();
            Arc::new(Live { test: held.test.clone(), is_stopped })
        }));
    }
}
