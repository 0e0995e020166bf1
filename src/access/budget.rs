//! Budgets: how many tokens, and how much money, a key may use in a day and in a month of UTC.
//!
//! Every exchange of a key with a budget first reserves what it is likely to use, and is settled at its end with
//! what it did use. It is refused where the budget is used up; and where its reservation does not fit beside those
//! under way, until they are settled. One exchange that is alone always passes while anything is left.
//!
//! So what a key uses beyond its budget is bounded: by what the exchanges under way use beyond their reservations,
//! and when the budget is nearly used up that is one exchange. A reservation holds the request's text (four bytes
//! a token, two of what is written without spaces; files aside) and as many tokens of answers as the request allows (`max_tokens` and its like, for each answer), or
//! what stands for a request that sets no such limit; those may go beyond it by one answer each.
//!
//! What was used is written once a second: a process that dies forgets up to 1.5 s of it, and the exchanges
//! that were under way. Where nodes share a store each adds what it used to what all have used. Where they share more
//! ([`shared`]) all nodes decide together about each reservation before its exchange passes, so that a key uses no more
//! beyond its budget at all of them than it could at one; else, and while nobody can be asked, a key can use on each node
//! what is left of its budget as that node knows it, between two of these moments.
//!
//! A clock that goes ahead begins a day, as nobody can know that it is wrong. One that goes back begins none: what is used
//! counts on in the day that has begun, or, if that is further ahead than tomorrow, what was counted there counts today.

mod account;
mod calendar;
mod reservation;
pub mod shared;
mod spent;
mod stored;

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use jiff::ToSpan;
use jiff::tz::TimeZone;
use parking_lot::Mutex;
use parking_lot::RwLock;
use serde::Deserialize;
use serde::Serialize;
use tokio::sync::mpsc;

use self::account::Account;
pub use self::reservation::Reservation;
use self::shared::Asking;
use self::shared::Changed;
use self::shared::Question;
use self::shared::Standing;
use self::shared::Told;
use self::stored::Granted;
use self::stored::Used;
use crate::access::patience::Patience;
use crate::store::Followed;
use crate::store::Fresh;
use crate::store::Store;
use crate::store::StoreError;

/// How often what was used is written.
const FLUSH: Duration = Duration::from_secs(1);
/// When to come back where only exchanges under way stand in the way.
const BUSY_WAIT: Duration = Duration::from_secs(1);
const DAY_S: i64 = 86_400;

/// What a key may use; `None` is unlimited. Money is in millionths of a millionth of the currency of the prices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Tokens in a day.
    pub tokens_per_day: Option<u64>,
    /// Tokens in a month.
    pub tokens_per_month: Option<u64>,
    /// Money in a day.
    pub cost_per_day: Option<u64>,
    /// Money in a month.
    pub cost_per_month: Option<u64>,
}

/// What a key used in the current day and month.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// The day, counted from 1970.
    day: i64,
    /// The month: twelve times the year, and the month from 0.
    month: i64,
    /// In the day.
    pub today: Amount,
    /// In the month.
    pub this_month: Amount,
}

/// Tokens, and what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Tokens.
    pub tokens: u64,
    /// Money, in the unit of [`Budget`].
    pub cost: u64,
}

/// One limit of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowance {
    /// Tokens in a day.
    TokensPerDay,
    /// Tokens in a month.
    TokensPerMonth,
    /// Money in a day.
    CostPerDay,
    /// Money in a month.
    CostPerMonth,
}

/// Why an exchange is not paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BudgetFault {
    /// The budget is used up.
    #[error("this API key has used up its budget of {}; it begins anew at {resets_at}", .of.as_str())]
    Exhausted {
        /// Which limit.
        of: Allowance,
        /// When it begins anew.
        resets_at: Timestamp,
        /// How long that is from now.
        wait: Duration,
    },
    /// What is left is reserved for exchanges under way.
    #[error("what is left of this API key's budget is reserved for its requests under way")]
    Reserved,
    /// It cannot be told what the exchange costs.
    #[error("this API key has a budget of money, and the model that is asked for has no price here")]
    Unpriced,
    /// It starts work whose use nobody will see.
    #[error("this API key has a budget, and what is asked for is work whose use cannot be told")]
    Unmetered,
    /// It cannot be told what the other nodes have used of it.
    #[error("what is left of this API key's budget cannot be told at the moment")]
    Away,
}

/// The budgets of all keys.
pub struct Budgets {
    budgets: Followed<String, Granted>,
    spent: Followed<String, Used>,
    accounts: RwLock<HashMap<String, Arc<Mutex<Account>>>>,
    /// The keys of budgets of which it was not looked yet what was used.
    unread: Mutex<BTreeSet<String>>,
    /// What this process goes by in what it writes.
    process: u64,
    /// How often it wrote.
    written: AtomicU64,
    /// Asks all nodes, where they share budgets.
    asking: OnceLock<Asking>,
    changed: Arc<Changed>,
}

impl Budget {
    /// Tells whether it limits anything.
    pub fn is_limited(&self) -> bool {
        *self != Self::default()
    }

    /// Tells whether it limits money.
    pub fn limits_cost(&self) -> bool {
        self.cost_per_day.is_some() || self.cost_per_month.is_some()
    }
}

impl Allowance {
    fn as_str(self) -> &'static str {
        match self {
            Self::TokensPerDay => "tokens for the day",
            Self::TokensPerMonth => "tokens for the month",
            Self::CostPerDay => "money for the day",
            Self::CostPerMonth => "money for the month",
        }
    }

    /// Returns when the limit begins anew.
    pub fn resets_at(self, now: Timestamp) -> Timestamp {
        let today = now.to_zoned(TimeZone::UTC).date();
        let next = match self {
            Self::TokensPerDay | Self::CostPerDay => today.checked_add(1.day()),
            Self::TokensPerMonth | Self::CostPerMonth => today.first_of_month().checked_add(1.month()),
        };
        let next = next.ok().and_then(|date| date.to_zoned(TimeZone::UTC).ok());
        next.map_or(Timestamp::MAX, |at| at.timestamp())
    }
}

impl BudgetFault {
    /// Returns when to come back, where that helps.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Exhausted { wait, .. } => Some(*wait),
            Self::Reserved | Self::Away => Some(BUSY_WAIT),
            Self::Unpriced | Self::Unmetered => None,
        }
    }
}

impl Budgets {
    /// Reads the budgets of a store, and what was used of them.
    ///
    /// # Errors
    /// The store failed.
    pub fn open(store: &Store) -> Result<Self, StoreError> {
        let budgets = Self {
            budgets: Followed::new(store.table("key_budgets")),
            spent: Followed::new(store.table("key_spent")),
            accounts: RwLock::default(),
            unread: Mutex::default(),
            process: Granted::number(),
            written: AtomicU64::new(0),
            asking: OnceLock::new(),
            changed: Arc::default(),
        };
        budgets.catch_up()?;
        // All that there is was read.
        budgets.unread.lock().clear();
        Ok(budgets)
    }

    /// Takes over what other nodes changed, and what keys used there. Blocks.
    ///
    /// # Errors
    /// The store failed.
    pub fn follow(&self) -> Result<(), StoreError> {
        self.catch_up()?;
        // What was used of a budget may have been shown before the budget was.
        let unread = std::mem::take(&mut *self.unread.lock());
        for key in &unread {
            let read = self.spent.between(|| {
                let used = self.spent.table().get(key)?;
                let shown = used.map(|record| Fresh::Put { key: key.clone(), record, is_own: false });
                self.take_over_spent(shown.into_iter().collect());
                Ok(())
            });
            if let Err(error) = read {
                self.unread.lock().extend(unread);
                return Err(error);
            }
        }
        Ok(())
    }

    fn catch_up(&self) -> Result<(), StoreError> {
        self.budgets.catch_up(|fresh| self.take_over(fresh))?;
        self.spent.catch_up(|fresh| self.take_over_spent(fresh))
    }

    fn take_over(&self, fresh: Vec<Fresh<String, Granted>>) {
        let (mut accounts, mut before) = (self.accounts.write(), HashMap::new());
        for one in fresh {
            match one {
                Fresh::Anew => before = std::mem::take(&mut *accounts),
                Fresh::Put { key, record: Granted { budget, grant }, .. } => {
                    let known = accounts.remove(&key).or_else(|| before.remove(&key));
                    // One that was taken away and given again begins with what is known of it.
                    let same = known.filter(|known| grant == 0 || known.lock().grant == grant);
                    let account = same.unwrap_or_else(|| {
                        self.unread.lock().insert(key.clone());
                        Arc::new(Mutex::new(Account::of(grant)))
                    });
                    account.lock().budget = budget;
                    accounts.insert(key, account);
                }
                Fresh::Gone { key } => drop(accounts.remove(&key)),
            }
        }
    }

    fn take_over_spent(&self, fresh: Vec<Fresh<String, Used>>) {
        for one in fresh {
            let Fresh::Put { key, record, .. } = one else { continue };
            // What is written of a budget that was taken away meanwhile means nothing.
            let Some(account) = self.account(&key) else { continue };
            if account.lock().take_over(record, self.process) {
                self.changed.note(&key.into());
            }
        }
    }

    /// Gives a key a budget, or another one; `spent` is what a key without one is known to have used already.
    /// Blocks on the disk.
    ///
    /// # Errors
    /// The store failed, and nothing changed.
    pub fn set(&self, id: &str, budget: Budget, spent: Spent) -> Result<(), StoreError> {
        let key = id.to_owned();
        let is_new = self.budgets.change(
            |fresh| self.take_over(fresh),
            |batch| {
                let known = self.account(id).map(|account| account.lock().grant);
                let grant = known.unwrap_or_else(Granted::number);
                self.budgets.table().put_in(batch, &key, &Granted { budget, grant })?;
                Ok::<_, StoreError>(known.is_none())
            },
        )?;
        if let Some(account) = self.account(id).filter(|_| is_new) {
            account.lock().count(spent);
            self.changed.note(&key.into());
        }
        Ok(())
    }

    /// Takes a key's budget away: it is unlimited, or revoked. Blocks on the disk.
    ///
    /// # Errors
    /// The store failed, and nothing changed.
    pub fn remove(&self, id: &str) -> Result<bool, StoreError> {
        self.budgets.change(
            |fresh| self.take_over(fresh),
            |batch| {
                if self.account(id).is_none() {
                    return Ok(false);
                }
                self.budgets.table().delete_in(batch, &id.to_owned());
                batch.delete(self.spent.table().name(), id.as_bytes().to_vec());
                Ok(true)
            },
        )
    }

    /// Returns a key's budget and what it used of it; `None`: it is unlimited.
    pub fn of(&self, id: &str, now: Timestamp) -> Option<(Budget, Spent)> {
        let account = self.account(id)?;
        let account = account.lock();
        Some((account.budget, account.spent(self.changed.calendar().now(now))))
    }

    /// Tells whether a key has anything left.
    ///
    /// # Errors
    /// It has not.
    pub fn check(&self, id: &str, now: Timestamp) -> Result<(), BudgetFault> {
        let now = self.changed.calendar().now(now);
        self.account(id).map_or(Ok(()), |account| account.lock().check(now))
    }

    /// Lets all nodes decide together from now on, and returns where the questions come out; a request that
    /// has waited for so long, all in all, is answered with `alone`.
    pub fn share(&self, alone: Told, in_all: Duration) -> mpsc::Receiver<Question> {
        let (asking, questions) = Asking::channel(alone, in_all);
        let is_first = self.asking.set(asking).is_ok();
        debug_assert!(is_first, "budgets are shared once");
        self.changed.begin();
        questions
    }

    /// Returns the keys of which other nodes are to be told.
    pub fn changed(&self) -> &Arc<Changed> {
        &self.changed
    }

    /// Returns what is known here of a key's budget; `None`: it is unlimited.
    pub fn standing(&self, id: &str, now: Timestamp) -> Option<Standing> {
        Some(self.account(id)?.lock().standing(self.changed.calendar().now(now)))
    }

    /// Returns a reservation of nothing for an exchange of a key; `None`: the key is unlimited.
    pub fn hold(&self, id: &str) -> Option<Reservation> {
        Some(Reservation::none(id, self.account(id)?, &self.changed))
    }

    /// Reserves tokens, and what they cost, instead of what an exchange holds; returns what it holds then.
    ///
    /// # Errors
    /// Nothing is left, or not enough beside the exchanges under way; or there is no telling the cost, and
    /// the budget limits it; or what other nodes used. Then what was reserved stays so.
    pub async fn change(
        &self,
        mut held: Reservation,
        (tokens, cost): (u64, Option<u64>),
        now: Timestamp,
        patience: &Patience,
    ) -> (Reservation, Result<(), BudgetFault>) {
        let now = self.changed.calendar().now(now);
        let wanted = match held.wanted(tokens, cost, now) {
            Ok(wanted) => wanted,
            Err(fault) => return (held, Err(fault)),
        };
        match self.asking.get() {
            Some(asking) => asking.ask(held, (wanted, now), patience).await,
            None => {
                let changed = held.change(wanted, now);
                (held, changed)
            }
        }
    }

    /// Writes what was used. Blocks on the disk.
    ///
    /// # Errors
    /// The store failed; the next call tries again. What was written all the same is not written twice.
    pub fn flush(&self) -> Result<(), StoreError> {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        self.spent.note(
            |fresh| self.take_over_spent(fresh),
            |batch| {
                batch.quietly();
                // Whoever takes a budget away waits, so that no line of it is written behind.
                let accounts = self.accounts.read();
                for (id, account) in accounts.iter() {
                    let used = account.lock().take_unwritten(self.process, number);
                    used.map_or(Ok(()), |used| self.spent.table().put_in(batch, id, &used))?;
                }
                Ok(())
            },
        )
    }

    /// Writes what was used every second, until `shutdown` resolves.
    pub async fn run(self: Arc<Self>, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        let mut tick = tokio::time::interval(FLUSH);
        loop {
            let is_over = tokio::select! {
                biased;
                () = &mut shutdown => true,
                _ = tick.tick() => false,
            };
            let budgets = Arc::clone(&self);
            match tokio::task::spawn_blocking(move || budgets.flush()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, "what keys used could not be written"),
                Err(_) => tracing::error!("writing what keys used panicked"),
            }
            if is_over {
                return;
            }
        }
    }

    fn account(&self, id: &str) -> Option<Arc<Mutex<Account>>> {
        self.accounts.read().get(id).cloned()
    }
}

#[cfg(test)]
mod tests;
