//! The meter: counts every exchange once, and keeps hours and days on disk.
//!
//! In memory is only what came since the last write, by hour; a write reads the records of those hours and
//! days, adds to them, and puts them back in one batch. So nothing has to be loaded at a start, a clock that
//! was set back counts where it should, and a write that failed is simply made later. Where nodes share a store each
//! adds its own, so that all show the figures of all, as of a second ago.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use parking_lot::Mutex;
use parking_lot::RwLock;

use super::figures::Figures;
use super::figures::Roll;
use super::figures::Use;
use super::period::Day;
use super::period::Hour;
use super::period::Period;
use super::period::Span;
use super::price::Cost;
use super::price::PriceList;
use super::stored::RollRecord;
use crate::access::keyring::Keyring;
use crate::clock::Clock;
use crate::store::Batch;
use crate::store::Key;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::Table;

/// How often figures are written. A process that dies loses what came since, and what the store had not
/// written out itself (half a second): 1.5 s of figures at most.
pub const FLUSH: Duration = Duration::from_secs(1);
/// How many hours are kept.
pub const HOURS_KEPT: u64 = 62 * 24;
/// How many days are kept.
pub const DAYS_KEPT: u64 = 800;
/// How often figures are added anew because other nodes were faster.
const ADDS_MAX: usize = 50;
/// How many records are read, changed or removed at a time.
const PAGE: usize = 200;

/// Counts what is used; shared by the planes.
pub struct Meter {
    hours: Table<u64, RollRecord>,
    days: Table<u64, RollRecord>,
    prices: ArcSwap<PriceList>,
    /// What came since the last write.
    fresh: Mutex<BTreeMap<Hour, Roll>>,
    /// Held while figures move from memory to disk, and by whoever reads both.
    moving: RwLock<()>,
    /// Seals the names of callers in what is stored.
    keyring: Arc<Keyring>,
    clock: Arc<dyn Clock>,
}

impl Meter {
    /// Returns the meter over the figures of a store.
    pub fn new(store: &Store, keyring: Arc<Keyring>, clock: Arc<dyn Clock>, prices: PriceList) -> Self {
        Self {
            hours: store.table("usage_hours"),
            days: store.table("usage_days"),
            prices: ArcSwap::from_pointee(prices),
            fresh: Mutex::default(),
            moving: RwLock::default(),
            keyring,
            clock,
        }
    }

    /// Counts one exchange that ends now, and returns what it cost.
    pub fn note(&self, used: &Use) -> Cost {
        let now = self.clock.now();
        let cost = self.prices.load().cost(used.model.as_deref(), &used.tokens, now);
        let figures = Figures::of(used, cost);
        self.fresh.lock().entry(Hour::of(now)).or_default().note(used, &figures);
        cost
    }

    /// Returns the prices in force.
    pub fn prices(&self) -> Arc<PriceList> {
        self.prices.load_full()
    }

    /// Puts other prices in force; what was counted keeps its cost.
    pub fn set_prices(&self, prices: PriceList) {
        self.prices.store(Arc::new(prices));
    }

    /// Returns the time by which it counts.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Writes what is new. Blocks on the disk.
    ///
    /// # Errors
    /// The store failed; nothing is lost, the next call tries again.
    pub fn flush(&self) -> Result<(), StoreError> {
        let _moving = self.moving.write();
        self.write()
    }

    /// Writes what is new; the caller holds the lock of what moves.
    fn write(&self) -> Result<(), StoreError> {
        let fresh = std::mem::take(&mut *self.fresh.lock());
        if fresh.is_empty() {
            return Ok(());
        }
        let written = self.put(&fresh);
        if written.is_err() {
            let mut later = self.fresh.lock();
            fresh.iter().for_each(|(hour, roll)| later.entry(*hour).or_default().merge(roll));
        }
        written
    }

    fn put(&self, fresh: &BTreeMap<Hour, Roll>) -> Result<(), StoreError> {
        self.adding(|batch| self.add(fresh, batch))
    }

    /// Writes a batch that was made of what the records are, anew as long as other nodes are faster.
    fn adding(&self, make: impl Fn(&mut Batch) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let store = self.hours.store();
        for _ in 0..ADDS_MAX {
            let (versions, mut batch) = (store.versions()?, Batch::default());
            make(&mut batch)?;
            batch.quietly();
            if store.is_shared() {
                let version = |table: &Table<u64, RollRecord>| versions.get(table.name()).copied();
                for table in [&self.hours, &self.days] {
                    batch.expect(table.name(), version(table).unwrap_or_default());
                }
            }
            match store.commit(&batch) {
                Err(StoreError::Conflict) => {}
                outcome => return outcome,
            }
        }
        Err(StoreError::Conflict)
    }

    fn add(&self, fresh: &BTreeMap<Hour, Roll>, batch: &mut Batch) -> Result<(), StoreError> {
        let mut days: BTreeMap<Day, Roll> = BTreeMap::new();
        for (hour, roll) in fresh {
            days.entry(hour.day()).or_default().merge(roll);
            let sum = self.added(&self.hours, hour.0, roll)?;
            self.hours.put_in(batch, &hour.0, &sum)?;
        }
        for (day, roll) in &days {
            let sum = self.added(&self.days, day.0, roll)?;
            self.days.put_in(batch, &day.0, &sum)?;
        }
        // A record must not be there before the keys of the names in it.
        self.keyring.flush().map_err(|_| StoreError::NotDurable)
    }

    /// Returns the record under a key with `fresh` added to it.
    fn added(
        &self,
        table: &Table<u64, RollRecord>,
        key: u64,
        fresh: &Roll,
    ) -> Result<RollRecord, StoreError> {
        let kept = table.get(&key)?.map(|record| record.opened(&self.keyring));
        let mut sum = kept.unwrap_or_default();
        sum.merge(fresh);
        Ok(RollRecord::of(&sum, &self.keyring))
    }

    /// Writes what is new every [`FLUSH`], and removes what is too old by the `sure` clock, until `shutdown` resolves.
    pub async fn run(self: Arc<Self>, sure: Arc<dyn Clock>, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        let mut tick = tokio::time::interval(FLUSH);
        let mut swept = None;
        loop {
            let is_over = tokio::select! {
                biased;
                () = &mut shutdown => true,
                _ = tick.tick() => false,
            };
            let hour = Hour::of(sure.now());
            let sweeps = swept.replace(hour) != Some(hour);
            let meter = Arc::clone(&self);
            let work = tokio::task::spawn_blocking(move || {
                let flushed = meter.flush();
                if sweeps { flushed.and_then(|()| meter.sweep(hour)) } else { flushed }
            });
            match work.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, "the usage figures could not be written"),
                Err(_) => tracing::error!("writing the usage figures panicked"),
            }
            if is_over {
                return;
            }
        }
    }

    /// Removes records that are too old. Blocks on the disk.
    fn sweep(&self, now: Hour) -> Result<(), StoreError> {
        let oldest =
            [(&self.hours, now.back(HOURS_KEPT).0), (&self.days, now.day().0.saturating_sub(DAYS_KEPT))];
        for (table, first) in oldest {
            let mut batch = Batch::default();
            for (key, _) in table.list(&range(0, first), Order::Ascending, PAGE)? {
                table.delete_in(&mut batch, &key);
            }
            if !batch.is_empty() {
                table.store().commit(&batch)?;
            }
        }
        Ok(())
    }

    /// Returns the hours of a period that have figures, in order. Blocks on the disk.
    ///
    /// # Errors
    /// The store failed.
    pub fn hours(&self, period: Period) -> Result<BTreeMap<Hour, Roll>, StoreError> {
        let _still = self.moving.read();
        self.hours_of(period)
    }

    /// Returns the figures of a period by day, the hours at its ends included. Blocks on the disk.
    ///
    /// # Errors
    /// The store failed.
    pub fn by_day(&self, period: Period) -> Result<BTreeMap<Day, Roll>, StoreError> {
        let _still = self.moving.read();
        let mut found: BTreeMap<Day, Roll> = BTreeMap::new();
        for span in period.spans() {
            match span {
                Span::Days(from, to) => found.extend(self.days_of(from, to)?),
                Span::Hours(from, to) => {
                    for (hour, roll) in self.hours_of(Period { from, to })? {
                        found.entry(hour.day()).or_default().merge(&roll);
                    }
                }
            }
        }
        Ok(found)
    }

    fn hours_of(&self, period: Period) -> Result<BTreeMap<Hour, Roll>, StoreError> {
        let kept =
            self.hours.list(&range(period.from.0, period.to.0), Order::Ascending, HOURS_KEPT as usize)?;
        let mut found: BTreeMap<Hour, Roll> =
            kept.into_iter().map(|(hour, record)| (Hour(hour), record.opened(&self.keyring))).collect();
        for (hour, roll) in self.fresh.lock().range(period.from..period.to) {
            found.entry(*hour).or_default().merge(roll);
        }
        Ok(found)
    }

    fn days_of(&self, from: Day, to: Day) -> Result<BTreeMap<Day, Roll>, StoreError> {
        let kept = self.days.list(&range(from.0, to.0), Order::Ascending, DAYS_KEPT as usize)?;
        let mut found: BTreeMap<Day, Roll> =
            kept.into_iter().map(|(day, record)| (Day(day), record.opened(&self.keyring))).collect();
        for (hour, roll) in self.fresh.lock().range(from.first_hour()..to.first_hour()) {
            found.entry(hour.day()).or_default().merge(roll);
        }
        Ok(found)
    }

    /// Returns what one caller used, by day, as far as it is named. Blocks on the disk.
    ///
    /// # Errors
    /// The store failed.
    pub fn of_caller(&self, caller: &str) -> Result<BTreeMap<Day, Figures>, StoreError> {
        let _still = self.moving.read();
        let days = self.days_of(Day(0), Day(u64::MAX))?;
        let of = |(day, roll): (Day, Roll)| Some((day, *roll.callers.named.get(caller)?));
        Ok(days.into_iter().filter_map(of).collect())
    }

    /// Returns every caller that some hour or day names. Blocks on the disk.
    ///
    /// # Errors
    /// The store failed.
    pub fn named_callers(&self) -> Result<BTreeSet<String>, StoreError> {
        let _still = self.moving.read();
        let mut callers = BTreeSet::new();
        for table in [&self.hours, &self.days] {
            let mut from = 0;
            loop {
                let page = table.list(&range(from, u64::MAX), Order::Ascending, PAGE)?;
                let Some((last, _)) = page.last() else { break };
                from = last.saturating_add(1);
                let rolls = page.into_iter().map(|(_, record)| record.opened(&self.keyring));
                callers.extend(rolls.flat_map(|roll| roll.callers.named.into_keys()));
            }
        }
        callers.extend(self.fresh.lock().values().flat_map(|roll| roll.callers.named.keys().cloned()));
        Ok(callers)
    }

    /// Adds a caller's figures to those of others everywhere, so that nothing names it; returns in how many
    /// hours and days it was named. Blocks on the disk.
    ///
    /// # Errors
    /// The store failed, and the caller may still be named.
    pub fn forget_caller(&self, caller: &str) -> Result<u64, StoreError> {
        let _moving = self.moving.write();
        self.write()?;
        Ok(self.forget(&self.hours, caller)? + self.forget(&self.days, caller)?)
    }

    /// Forgets a caller in every record of a table, and comes back once the disk has, too.
    fn forget(&self, table: &Table<u64, RollRecord>, caller: &str) -> Result<u64, StoreError> {
        let (mut count, mut from) = (0, 0);
        loop {
            let page = table.list(&range(from, u64::MAX), Order::Ascending, PAGE)?;
            let Some((last, _)) = page.last() else { return Ok(count) };
            let named = |record: RollRecord| record.opened(&self.keyring).callers.named.contains_key(caller);
            count += page.iter().filter(|(_, record)| named(record.clone())).count() as u64;
            let (first, last) = (from, last.saturating_add(1));
            from = last;
            self.adding(|batch| {
                for (key, record) in table.list(&range(first, last), Order::Ascending, PAGE)? {
                    let mut roll = record.opened(&self.keyring);
                    if roll.callers.forget(caller) {
                        table.put_in(batch, &key, &RollRecord::of(&roll, &self.keyring))?;
                    }
                }
                Ok(())
            })?;
            table.store().durable()?;
        }
    }
}

fn range(from: u64, to: u64) -> KeyRange {
    KeyRange { start: from.to_bytes(), end: Some(to.to_bytes()) }
}

#[cfg(test)]
mod tests;
