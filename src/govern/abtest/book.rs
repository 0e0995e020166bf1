//! All tests, in the store and in memory: made, started, asked, counted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::AbTest;
use super::AbTestError;
use super::Metrics;
use super::NewTest;
use super::Outcome;
use super::Report;
use super::Status;
use super::TESTS_MAX;
use super::Trip;
use super::assign;
use super::recent::Recent;
use super::recent::Seen;
use super::stored::StoredTest;
use super::tally::Source;
use super::tally::Tally;
use super::validate;
use crate::clock::Clock;
use crate::policy::inspect::layer3::Trial;
use crate::scan::classifier::shelf::Shelf;
use crate::store::Batch;
use crate::store::Followed;
use crate::store::Fresh;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::Table;

/// How often counts of live traffic are written.
const WRITE_EVERY: Duration = Duration::from_secs(1);

/// All tests.
pub struct AbTests {
    tests: Followed<String, StoredTest>,
    tallies: Table<String, Tally>,
    held: Mutex<BTreeMap<String, Held>>,
    /// The test that routes live traffic.
    live: ArcSwapOption<Live>,
}

/// One test in memory.
struct Held {
    test: AbTest,
    tally: Tally,
    recent: Recent,
    is_dirty: bool,
}

/// What routing needs of a test: a variant without a trial has tripped its guard rail.
struct Live {
    test: AbTest,
    is_stopped: Vec<bool>,
}

/// A request that takes part in a test.
#[derive(Debug)]
pub struct Enrolled {
    test_id: String,
    variant: usize,
    /// Which variants got requests when this one came.
    open: Vec<bool>,
    /// What the third layer goes by, and what it measures.
    pub trial: Trial,
}

impl AbTests {
    /// Reads all tests of a store, and the counts of this node, which are in a store of its own where it shares
    /// the first.
    ///
    /// # Errors
    /// The store failed.
    pub fn open(store: &Store, local: &Store) -> Result<Self, StoreError> {
        let tests = Followed::new(store.table("abtests"));
        let tallies = local.table("abtest_tallies");
        let book = Self { tests, tallies, held: Mutex::default(), live: ArcSwapOption::empty() };
        let stored = book.tests.table().list(&KeyRange::all(), Order::Ascending, TESTS_MAX)?;
        let unreadable = || StoreError::UnreadableRecord { table: "abtests", version: 1 };
        stored.into_iter().try_for_each(|(id, test)| test.read(id).map(|_| ()).ok_or_else(unreadable))?;
        book.follow()?;
        Ok(book)
    }

    /// Takes over what other nodes made of tests. Blocks.
    ///
    /// # Errors
    /// The store failed.
    pub fn follow(&self) -> Result<(), StoreError> {
        self.tests.catch_up(|fresh| self.take_over(fresh))
    }

    fn take_over(&self, fresh: Vec<Fresh<String, StoredTest>>) {
        let mut held = self.held.lock();
        // What is read anew is still known: counts are kept here alone.
        let mut known = BTreeMap::new();
        for one in fresh {
            match one {
                Fresh::Anew => known = std::mem::take(&mut *held),
                Fresh::Gone { key } => {
                    held.remove(&key);
                }
                Fresh::Put { key, record, .. } => match record.read(key.clone()) {
                    Some(test) => {
                        held.extend(known.remove_entry(&key));
                        self.hold(&mut held, test);
                    }
                    None => {
                        tracing::error!(id = key, "another node has stored an A/B test that cannot be read");
                    }
                },
            }
        }
        self.choose_live(&held);
    }

    /// Holds a test as it is now, with the counts there are of it.
    fn hold(&self, held: &mut BTreeMap<String, Held>, test: AbTest) {
        if let Some(known) = held.get_mut(&test.id) {
            if test.status == Status::Started && known.test.status != Status::Started {
                known.tally.restart();
                known.is_dirty = true;
            }
            known.test = test;
            return;
        }
        let tally = self.tallies.get(&test.id).unwrap_or_else(|error| {
            tracing::error!(%error, id = test.id, "the counts of an A/B test cannot be read, they begin anew");
            None
        });
        let tally = tally.unwrap_or_else(|| Tally::of(&test));
        held.insert(test.id.clone(), Held { test, tally, recent: Recent::default(), is_dirty: false });
    }

    /// Changes tests by what all nodes know of them.
    fn deciding<T>(
        &self,
        decide: impl FnMut(&mut Batch) -> Result<T, AbTestError>,
    ) -> Result<T, AbTestError> {
        self.tests.change(|fresh| self.take_over(fresh), decide)
    }

    /// Makes a test. Blocks for the disk, as all that changes a test does.
    ///
    /// # Errors
    /// See [`AbTestError`].
    pub fn create(
        &self,
        id: String,
        new: NewTest,
        shelf: &Shelf,
        now: Timestamp,
    ) -> Result<AbTest, AbTestError> {
        let test = new.read(id, shelf, now)?;
        self.deciding(|batch| {
            if self.held.lock().len() >= TESTS_MAX {
                return Err(AbTestError::TooMany);
            }
            Ok(self.tests.table().put_in(batch, &test.id, &StoredTest::of(&test))?)
        })?;
        Ok(test)
    }

    /// Returns all tests, oldest first.
    pub fn list(&self) -> Vec<AbTest> {
        let mut tests: Vec<AbTest> = self.held.lock().values().map(|held| held.test.clone()).collect();
        tests.sort_by(|one, other| (one.created_at, &one.id).cmp(&(other.created_at, &other.id)));
        tests
    }

    /// Returns a test, and what is known of its variants.
    ///
    /// # Errors
    /// There is none.
    pub fn read(&self, id: &str) -> Result<(AbTest, Vec<Metrics>), AbTestError> {
        let held = self.held.lock();
        let held = held.get(id).ok_or(AbTestError::Unknown)?;
        Ok((held.test.clone(), held.tally.metrics(&held.test)))
    }

    /// Tells whether live traffic is routed by a test.
    pub fn is_live(&self, id: &str) -> bool {
        self.live.load().as_ref().is_some_and(|live| live.test.id == id)
    }

    /// Starts a test, from whatever state; its guard rails begin anew.
    ///
    /// # Errors
    /// See [`AbTestError`].
    pub fn start(&self, id: &str, now: Timestamp) -> Result<AbTest, AbTestError> {
        self.change(id, |test| {
            if test.status != Status::Started {
                test.started_at = Some(now);
            }
            (test.status, test.is_archived, test.updated_at) = (Status::Started, false, now);
        })
    }

    /// Stops a test, from whatever state.
    ///
    /// # Errors
    /// See [`AbTestError`].
    pub fn stop(&self, id: &str, now: Timestamp) -> Result<AbTest, AbTestError> {
        self.change(id, |test| (test.status, test.updated_at) = (Status::Stopped, now))
    }

    /// Stops a test and puts it away.
    ///
    /// # Errors
    /// See [`AbTestError`].
    pub fn archive(&self, id: &str, now: Timestamp) -> Result<AbTest, AbTestError> {
        self.change(id, |test| {
            (test.status, test.is_archived, test.updated_at) = (Status::Stopped, true, now);
        })
    }

    /// Deletes a test that does not run, with its counts.
    ///
    /// # Errors
    /// See [`AbTestError`].
    pub fn delete(&self, id: &str) -> Result<(), AbTestError> {
        self.deciding(|batch| {
            if self.held.lock().get(id).ok_or(AbTestError::Unknown)?.test.status == Status::Started {
                return Err(AbTestError::Started);
            }
            self.tests.table().delete_in(batch, &id.to_owned());
            Ok(())
        })?;
        Ok(self.tallies.delete(&id.to_owned())?)
    }

    /// Returns the name of the variant that a request belongs to, whatever state the test is in.
    ///
    /// # Errors
    /// See [`AbTestError`].
    pub fn assign(&self, id: &str, request_id: &str) -> Result<String, AbTestError> {
        let held = self.held.lock();
        let test = &held.get(id).ok_or(AbTestError::Unknown)?.test;
        validate::request_id(request_id)?;
        let found = test.variants.get(place(test, request_id).ok_or(AbTestError::Unknown)?);
        Ok(found.ok_or(AbTestError::Unknown)?.name.clone())
    }

    /// Counts an outcome that is fed back. It is on the disk when this returns.
    ///
    /// # Errors
    /// See [`AbTestError`].
    pub fn report(&self, id: &str, report: &Report) -> Result<(), AbTestError> {
        let mut all = self.held.lock();
        let held = all.get_mut(id).ok_or(AbTestError::Unknown)?;
        report.check()?;
        let at = held.test.variants.iter().position(|variant| variant.name == report.variant);
        let at = at.ok_or(AbTestError::UnknownVariant)?;
        let known = report.request_id.as_deref().map(|id| held.recent_of(id, at)).transpose()?.flatten();
        let Report { detected, false_positive, latency_ms, .. } = *report;
        match known {
            Some(Seen::Reported) => return Err(AbTestError::Repeated),
            Some(Seen::Live { detected }) => held.tally.add_feedback(at, detected && false_positive),
            None => {
                let latency_us = (latency_ms * 1e3) as u64;
                let outcome = Outcome { detected, false_positive, blocked: false, latency_us };
                held.tally.count(at, outcome, Source::Reported);
                // Without an id that the test assigned, results come in whatever mixture somebody sends them.
                if report.request_id.is_some() {
                    held.tally.compare(&held.test, at, detected, |_| true);
                }
            }
        }
        if let Some(request_id) = &report.request_id {
            held.recent.note(request_id, Seen::Reported);
        }
        self.tallies.put(&id.to_owned(), &held.tally)?;
        held.is_dirty = false;
        drop(all);
        self.tallies.store().durable()?;
        Ok(())
    }

    /// Returns how a request takes part in the test that routes live traffic.
    ///
    /// Nothing where no test does, where the variant was stopped by its guard rail, or where the shelf has not got
    /// its model any more: the usual model judges then, and nothing is counted.
    pub fn enrol(&self, request_id: &str, shelf: &Shelf, clock: &Arc<dyn Clock>) -> Option<Enrolled> {
        let live = self.live.load();
        let Live { test, is_stopped } = live.as_deref()?;
        let variant = place(test, request_id)?;
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
        held.recent.note(request_id, Seen::Live { detected: outcome.detected });
        held.tally.count(enrolled.variant, outcome, Source::Live);
        let is_open = |place: usize| enrolled.open.get(place) == Some(&true);
        held.tally.compare(&held.test, enrolled.variant, outcome.detected, is_open);
        held.is_dirty = true;
        let trip = held.tally.guard(held.test.guard_rail, enrolled.variant, now)?;
        let variant = held.test.variants.get(enrolled.variant)?.name.clone();
        self.choose_live(&all);
        Some((enrolled.test_id.clone(), variant, trip))
    }

    /// Returns how many outcomes were fed back in all tests, and how many were told to be false positives.
    pub fn reported(&self) -> (u64, u64) {
        let held = self.held.lock();
        held.values()
            .map(|held| held.tally.reported())
            .fold((0, 0), |sum, (all, wrong)| (sum.0 + all, sum.1 + wrong))
    }

    /// Writes counts of live traffic until `shutdown` resolves, and once more then.
    pub async fn run(self: Arc<Self>, shutdown: impl Future<Output = ()>) {
        tokio::pin!(shutdown);
        loop {
            let is_over = tokio::select! {
                () = &mut shutdown => true,
                () = tokio::time::sleep(WRITE_EVERY) => false,
            };
            let book = Arc::clone(&self);
            match tokio::task::spawn_blocking(move || book.flush()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!(%error, "counts of A/B tests could not be written"),
                Err(_) => tracing::error!("writing counts of A/B tests panicked"),
            }
            if is_over {
                return;
            }
        }
    }

    /// Writes the counts that changed.
    ///
    /// # Errors
    /// The store failed; they are written the next time.
    pub fn flush(&self) -> Result<(), StoreError> {
        let mut held = self.held.lock();
        let mut batch = Batch::default();
        for (id, held) in held.iter().filter(|(_, held)| held.is_dirty) {
            self.tallies.put_in(&mut batch, id, &held.tally)?;
        }
        if batch.is_empty() {
            return Ok(());
        }
        self.tallies.store().commit(&batch)?;
        held.values_mut().for_each(|held| held.is_dirty = false);
        Ok(())
    }

    fn change(&self, id: &str, change: impl Fn(&mut AbTest)) -> Result<AbTest, AbTestError> {
        let changed = self.deciding(|batch| {
            let mut test = self.held.lock().get(id).ok_or(AbTestError::Unknown)?.test.clone();
            change(&mut test);
            self.tests.table().put_in(batch, &test.id, &StoredTest::of(&test))?;
            Ok(test)
        })?;
        self.flush()?;
        Ok(changed)
    }

    /// Lets the test that was started first route live traffic.
    fn choose_live(&self, held: &BTreeMap<String, Held>) {
        let started = held.values().filter(|held| held.test.status == Status::Started);
        let first = started.min_by_key(|held| (held.test.started_at, held.test.id.clone()));
        self.live.store(first.map(|held| {
            let is_stopped = held.tally.variants.iter().map(|tally| tally.trip.is_some()).collect();
            Arc::new(Live { test: held.test.clone(), is_stopped })
        }));
    }
}

impl Held {
    /// Returns how a request was counted, if it is one of the variant at a place.
    fn recent_of(&self, request_id: &str, at: usize) -> Result<Option<Seen>, AbTestError> {
        match place(&self.test, request_id) == Some(at) {
            true => Ok(self.recent.get(request_id)),
            false => Err(AbTestError::NotAssigned),
        }
    }
}

fn place(test: &AbTest, request_id: &str) -> Option<usize> {
    assign::variant(request_id, test.variants.iter().map(|variant| variant.weight))
}
