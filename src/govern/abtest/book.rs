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
use super::assign;
use super::live::Enrolled;
use super::live::Live;
use super::recent::Recent;
use super::recent::Seen;
use super::reported::REPORTED_MAX;
use super::reported::ReportedIds;
use super::stored::StoredTest;
use super::tally::Source;
use super::tally::Tally;
use super::validate;
use crate::id::Ulid;
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
    pub(super) reported_ids: ReportedIds,
    pub(super) held: Mutex<BTreeMap<String, Held>>,
    /// Who writes counts: one at a time, so that none overtakes a newer one.
    writing: Mutex<()>,
    /// The test that routes live traffic.
    pub(super) live: ArcSwapOption<Live>,
}

/// One test in memory.
pub(super) struct Held {
    pub(super) test: AbTest,
    pub(super) tally: Tally,
    pub(super) recent: Recent,
    /// How often the counts changed, and at which change they were written last.
    changes: u64,
    written: u64,
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
        let reported_ids = ReportedIds::new(store);
        let (held, writing, live) = (Mutex::default(), Mutex::default(), ArcSwapOption::empty());
        let book = Self { tests, tallies, reported_ids, held, writing, live };
        let stored = book.tests.table().list(&KeyRange::all(), Order::Ascending, TESTS_MAX)?;
        let unreadable = || StoreError::UnreadableRecord { table: "abtests", version: 1 };
        for (id, test) in stored {
            // Counts that cannot be read would begin anew, and be written over.
            book.tallies.get(&id)?;
            test.read(id).ok_or_else(unreadable)?;
        }
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
                known.changes += 1;
            }
            known.test = test;
            return;
        }
        let tally = self.tallies.get(&test.id).unwrap_or_else(|error| {
            tracing::error!(%error, id = test.id, "the counts of an A/B test cannot be read, they begin anew");
            None
        });
        let tally = tally.unwrap_or_else(|| Tally::of(&test));
        let (recent, changes, written) = (Recent::default(), 0, 0);
        held.insert(test.id.clone(), Held { test, tally, recent, changes, written });
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
        self.reported_ids.forget(id)?;
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
    /// See [`AbTestError`]. Where the store failed it is counted all the same, and written once the store is back.
    pub fn report(&self, id: &str, report: &Report) -> Result<(), AbTestError> {
        let request_id = report.request_id.as_deref();
        let was_reported = request_id.map(|request_id| self.reported_ids.has(id, request_id)).transpose()?;
        let routes = self.is_live(id);
        let is_kept = {
            let mut held = self.held.lock();
            let held = held.get_mut(id).ok_or(AbTestError::Unknown)?;
            held.report(report, was_reported == Some(true), routes)?
        };
        self.flush()?;
        self.tallies.store().durable()?;
        match request_id.filter(|_| is_kept) {
            Some(request_id) => Ok(self.reported_ids.note(id, request_id)?),
            None => Ok(()),
        }
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
        let mut is_written = true;
        loop {
            let is_over = tokio::select! {
                () = &mut shutdown => true,
                () = tokio::time::sleep(WRITE_EVERY) => false,
            };
            let book = Arc::clone(&self);
            match tokio::task::spawn_blocking(move || book.flush()).await {
                Ok(outcome) => tell_change(&mut is_written, outcome),
                Err(_) => tracing::error!("writing counts of A/B tests panicked"),
            }
            if is_over {
                return;
            }
        }
    }

    /// Writes the counts that changed. Live traffic does not wait for the disk with it.
    ///
    /// # Errors
    /// The store failed; they are written the next time.
    pub fn flush(&self) -> Result<(), StoreError> {
        let _writing = self.writing.lock();
        let changed = self.changed();
        if changed.is_empty() {
            return Ok(());
        }
        let mut batch = Batch::default();
        for (id, _, tally) in &changed {
            self.tallies.put_in(&mut batch, id, tally)?;
        }
        self.tallies.store().commit(&batch)?;
        let mut all = self.held.lock();
        for (id, changes, _) in changed {
            if let Some(held) = all.get_mut(&id) {
                held.written = changes;
            }
        }
        Ok(())
    }

    /// Returns the counts that are not written yet, and which change of them it was.
    fn changed(&self) -> Vec<(String, u64, Tally)> {
        let all = self.held.lock();
        let changed = all.iter().filter(|(_, held)| held.changes != held.written);
        changed.map(|(id, held)| (id.clone(), held.changes, held.tally.clone())).collect()
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
}

impl Held {
    /// Counts what was fed back; `was_reported` for that request before, which makes it wrong. Tells whether it is to be
    /// kept that it was.
    fn report(&mut self, report: &Report, was_reported: bool, routes: bool) -> Result<bool, AbTestError> {
        report.check()?;
        let at = self.test.variants.iter().position(|variant| variant.name == report.variant);
        let at = at.ok_or(AbTestError::UnknownVariant)?;
        let known = report.request_id.as_deref().map(|id| self.recent_of(id, at)).transpose()?.flatten();
        let is_kept = self.tally.reported().0 < REPORTED_MAX;
        let Report { detected, false_positive, latency_ms, .. } = *report;
        match known {
            Some(Seen::Reported) => return Err(AbTestError::Repeated),
            _ if was_reported => return Err(AbTestError::Repeated),
            Some(Seen::Live { detected, .. }) => self.tally.add_feedback(at, detected && false_positive),
            None if self.may_be_counted(report, routes) => self.tally.add_feedback(at, false_positive),
            None => {
                let latency_us = (latency_ms * 1e3) as u64;
                let outcome = Outcome { detected, false_positive, blocked: false, latency_us };
                self.tally.count(at, outcome, Source::Reported);
                // Without an id that the test assigned, results come in whatever mixture somebody sends them.
                if report.request_id.is_some() && is_kept {
                    self.tally.compare(&self.test, at, detected, |_| true);
                }
            }
        }
        if let Some(request_id) = &report.request_id {
            self.recent.note(request_id, Seen::Reported);
        }
        self.changes += 1;
        Ok(is_kept)
    }

    /// Tells whether live traffic may have counted the request, here or elsewhere: the test routes it, or has, and a
    /// gateway has named the request since the test was created.
    fn may_be_counted(&self, report: &Report, routes: bool) -> bool {
        if !routes && !self.tally.has_live() {
            return false;
        }
        let id = report.request_id.as_deref().and_then(|id| id.parse::<Ulid>().ok());
        id.is_some_and(|id| id.unix_ms() >= self.test.created_at.as_millisecond())
    }

    /// Returns how a request was counted, if it is one of the variant at a place: that which judged it, or else that
    /// which its id belongs to.
    fn recent_of(&self, request_id: &str, at: usize) -> Result<Option<Seen>, AbTestError> {
        let seen = self.recent.get(request_id);
        let variant = match seen {
            Some(Seen::Live { variant, .. }) => Some(variant),
            Some(Seen::Reported) | None => place(&self.test, request_id),
        };
        if variant == Some(at) { Ok(seen) } else { Err(AbTestError::NotAssigned) }
    }

    /// Counts what came of a live request.
    pub(super) fn observe(&mut self, enrolled: &Enrolled, outcome: Outcome) {
        self.tally.count(enrolled.variant, outcome, Source::Live);
        let is_open = |place: usize| enrolled.open.get(place) == Some(&true);
        self.tally.compare(&self.test, enrolled.variant, outcome.detected, is_open);
        self.changes += 1;
    }
}

/// Says once that counts wait for the store, and once that they are written again.
fn tell_change(is_written: &mut bool, outcome: Result<(), StoreError>) {
    match (*is_written, &outcome) {
        (true, Err(error)) => tracing::error!(%error, "counts of A/B tests wait: they cannot be written"),
        (false, Ok(())) => tracing::info!("counts of A/B tests are written again"),
        _ => {}
    }
    *is_written = outcome.is_ok();
}

pub(super) fn place(test: &AbTest, request_id: &str) -> Option<usize> {
    assign::variant(request_id, test.variants.iter().map(|variant| variant.weight))
}
