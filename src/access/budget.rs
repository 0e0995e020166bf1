//! Budgets: how many tokens, and how much money, a key may use in a day and in a month of UTC.
//!
//! Every exchange of a key with a budget first reserves what it is likely to use, and is settled at its end with
//! what it did use. It is refused where the budget is used up; and where its reservation does not fit beside those
//! under way, until they are settled. One exchange that is alone always passes while anything is left.
//!
//! So what a key uses beyond its budget is bounded: by what the exchanges under way use beyond their reservations,
//! and when the budget is nearly used up that is one exchange. A reservation holds the request's text (four bytes
//! a token) and as many tokens of answers as the request allows (`max_tokens` and its like, for each answer), or
//! what stands for a request that sets no such limit; those may go beyond it by one answer each.
//!
//! What was used is written once a second: a process that dies forgets up to 1.5 s of it, and the exchanges
//! that were under way. Where nodes share a store each adds what it used to what all have used; between two of
//! these moments a key can use on each node what is left of its budget as that node knows it.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::ToSpan;
use jiff::tz::TimeZone;
use parking_lot::Mutex;
use parking_lot::RwLock;
use serde::Deserialize;
use serde::Serialize;

use crate::store::Followed;
use crate::store::Fresh;
use crate::store::Record;
use crate::store::Store;
use crate::store::StoreError;

mod spent;

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

impl Record for Budget {
    const VERSION: u32 = 1;
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

impl Record for Spent {
    const VERSION: u32 = 1;
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
}

/// The budgets of all keys.
pub struct Budgets {
    budgets: Followed<String, Budget>,
    spent: Followed<String, Spent>,
    accounts: RwLock<HashMap<String, Arc<Mutex<Account>>>>,
}

/// One key's budget, and what it used of it.
#[derive(Default)]
struct Account {
    budget: Budget,
    /// What all nodes have used, as far as it is known here, with what is not written yet.
    spent: Spent,
    reserved: Amount,
    /// What is not written yet.
    fresh: Spent,
    /// As much of it as is being written.
    in_flight: Option<Spent>,
}

/// What one exchange reserved; given back when it is dropped.
pub struct Reservation {
    account: Arc<Mutex<Account>>,
    amount: Amount,
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

impl Account {
    /// Takes over what all nodes have used.
    fn take_over(&mut self, stored: Spent, is_own: bool) {
        if let Some(written) = self.in_flight.take().filter(|_| is_own) {
            self.fresh = self.fresh.less(written);
        }
        self.spent = stored.and(self.fresh);
    }

    /// Returns every limit, what was used of it, and what is reserved.
    fn limits(&self) -> [(Allowance, Option<u64>, u64, u64); 4] {
        let (budget, spent, reserved) = (&self.budget, &self.spent, self.reserved);
        [
            (Allowance::TokensPerDay, budget.tokens_per_day, spent.today.tokens, reserved.tokens),
            (Allowance::TokensPerMonth, budget.tokens_per_month, spent.this_month.tokens, reserved.tokens),
            (Allowance::CostPerDay, budget.cost_per_day, spent.today.cost, reserved.cost),
            (Allowance::CostPerMonth, budget.cost_per_month, spent.this_month.cost, reserved.cost),
        ]
    }

    fn check(&mut self, now: Timestamp) -> Result<(), BudgetFault> {
        self.spent.roll(now);
        // Of several that are used up, the one that lasts longest tells when to come back.
        let used_up =
            self.limits().into_iter().filter(|(_, limit, used, _)| limit.is_some_and(|it| *used >= it));
        let latest = used_up.map(|(of, ..)| (of.resets_at(now), of)).max_by_key(|(at, _)| *at);
        let Some((resets_at, of)) = latest else { return Ok(()) };
        let wait = Duration::try_from(resets_at.duration_since(now)).unwrap_or_default();
        Err(BudgetFault::Exhausted { of, resets_at, wait })
    }

    fn reserve(&mut self, tokens: u64, cost: Option<u64>, now: Timestamp) -> Result<Amount, BudgetFault> {
        self.check(now)?;
        if cost.is_none() && self.budget.limits_cost() {
            return Err(BudgetFault::Unpriced);
        }
        let amount = Amount { tokens, cost: cost.unwrap_or_default() };
        let wanted = |of| match of {
            Allowance::TokensPerDay | Allowance::TokensPerMonth => amount.tokens,
            Allowance::CostPerDay | Allowance::CostPerMonth => amount.cost,
        };
        let overlaps = |(of, limit, used, reserved): (Allowance, Option<u64>, u64, u64)| {
            let sum = used.saturating_add(reserved).saturating_add(wanted(of));
            reserved > 0 && limit.is_some_and(|limit| sum > limit)
        };
        if self.limits().into_iter().any(overlaps) {
            return Err(BudgetFault::Reserved);
        }
        self.reserved = self.reserved.plus(amount);
        Ok(amount)
    }
}

impl BudgetFault {
    /// Returns when to come back, where that helps.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Exhausted { wait, .. } => Some(*wait),
            Self::Reserved => Some(BUSY_WAIT),
            Self::Unpriced => None,
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
        };
        budgets.follow()?;
        Ok(budgets)
    }

    /// Takes over what other nodes changed, and what keys used there. Blocks.
    ///
    /// # Errors
    /// The store failed.
    pub fn follow(&self) -> Result<(), StoreError> {
        self.budgets.catch_up(|fresh| self.take_over(fresh))?;
        self.spent.catch_up(|fresh| self.take_over_spent(fresh))
    }

    fn take_over(&self, fresh: Vec<Fresh<String, Budget>>) {
        let mut accounts = self.accounts.write();
        for one in fresh {
            match one {
                Fresh::Anew => {
                    accounts.values().for_each(|account| account.lock().budget = Budget::default());
                }
                Fresh::Put { key, record, .. } => accounts.entry(key).or_default().lock().budget = record,
                Fresh::Gone { key } => {
                    accounts.remove(&key);
                }
            }
        }
    }

    fn take_over_spent(&self, fresh: Vec<Fresh<String, Spent>>) {
        for one in fresh {
            let Fresh::Put { key, record, is_own } = one else { continue };
            // What is written of a budget that was taken away meanwhile means nothing.
            if let Some(account) = self.account(&key) {
                account.lock().take_over(record, is_own);
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
                let is_new = self.account(id).is_none();
                self.budgets.table().put_in(batch, &key, &budget)?;
                Ok::<_, StoreError>(is_new)
            },
        )?;
        if let Some(account) = self.account(id).filter(|_| is_new) {
            let mut account = account.lock();
            account.fresh = account.fresh.and(spent);
            account.spent = account.spent.and(spent);
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
        let mut account = account.lock();
        account.spent.roll(now);
        Some((account.budget, account.spent))
    }

    /// Tells whether a key has anything left.
    ///
    /// # Errors
    /// It has not.
    pub fn check(&self, id: &str, now: Timestamp) -> Result<(), BudgetFault> {
        self.account(id).map_or(Ok(()), |account| account.lock().check(now))
    }

    /// Reserves tokens, and what they cost, for an exchange of a key; `None`: the key is unlimited.
    ///
    /// # Errors
    /// Nothing is left, or not enough beside the exchanges under way; or there is no telling the cost, and
    /// the budget limits it.
    pub fn reserve(
        &self,
        id: &str,
        tokens: u64,
        cost: Option<u64>,
        now: Timestamp,
    ) -> Result<Option<Reservation>, BudgetFault> {
        let Some(account) = self.account(id) else { return Ok(None) };
        let amount = account.lock().reserve(tokens, cost, now)?;
        Ok(Some(Reservation { account, amount }))
    }

    /// Writes what was used. Blocks on the disk.
    ///
    /// # Errors
    /// The store failed; the next call tries again.
    pub fn flush(&self) -> Result<(), StoreError> {
        self.spent.note(
            |fresh| self.take_over_spent(fresh),
            |batch| {
                batch.quietly();
                // Whoever takes a budget away waits, so that no line of it is written behind.
                let accounts = self.accounts.read();
                for (id, account) in accounts.iter() {
                    let mut account = account.lock();
                    let is_clean = account.fresh.is_nothing();
                    account.in_flight = (!is_clean).then_some(account.fresh);
                    if !is_clean {
                        self.spent.table().put_in(batch, id, &account.spent)?;
                    }
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

impl Reservation {
    /// Returns what is reserved.
    pub fn amount(&self) -> Amount {
        self.amount
    }

    /// Gives the reservation back and counts what was used instead.
    pub fn settle(self, used: Amount, now: Timestamp) {
        let mut account = self.account.lock();
        let used = Spent::of(used, used, now);
        account.spent.roll(now);
        account.spent = account.spent.and(used);
        account.fresh = account.fresh.and(used);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut account = self.account.lock();
        account.reserved = account.reserved.minus(self.amount);
    }
}

#[cfg(test)]
mod tests;
