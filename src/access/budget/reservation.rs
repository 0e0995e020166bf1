//! What one exchange holds of its key's budget.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;

use super::Amount;
use super::BudgetFault;
use super::Spent;
use super::account::Account;
use super::shared::Changed;
use super::shared::Standing;

/// What one exchange reserved; given back when it is dropped.
pub struct Reservation {
    id: Arc<str>,
    account: Arc<Mutex<Account>>,
    changed: Arc<Changed>,
    amount: Amount,
}

impl Reservation {
    /// Returns one of nothing yet.
    pub(super) fn none(id: &str, account: Arc<Mutex<Account>>, changed: &Arc<Changed>) -> Self {
        Self { id: id.into(), account, changed: Arc::clone(changed), amount: Amount::default() }
    }

    /// Returns another one for the same key, of nothing yet.
    pub(super) fn beside(&self) -> Self {
        Self::none(&self.id, Arc::clone(&self.account), &self.changed)
    }

    /// Returns what is reserved.
    pub fn amount(&self) -> Amount {
        self.amount
    }

    /// Returns the key that pays.
    pub(super) fn key(&self) -> &Arc<str> {
        &self.id
    }

    /// Returns what is known here of the key's budget.
    pub(super) fn standing(&self, now: Timestamp) -> Standing {
        self.account.lock().standing(self.changed.calendar().now(now))
    }

    /// Returns what is to be reserved, where anything is left as far as it is known here.
    pub(super) fn wanted(
        &self,
        tokens: u64,
        cost: Option<u64>,
        now: Timestamp,
    ) -> Result<Amount, BudgetFault> {
        self.account.lock().wanted(tokens, cost, now)
    }

    /// Reserves another amount instead, by what this node knows.
    ///
    /// # Errors
    /// Nothing is left, or not enough beside the exchanges under way; then what was reserved stays so.
    pub(super) fn change(&mut self, wanted: Amount, now: Timestamp) -> Result<(), BudgetFault> {
        let mut account = self.account.lock();
        account.reserved = account.reserved.minus(self.amount);
        let changed = account.reserve(wanted, now);
        match changed {
            Ok(()) => self.amount = wanted,
            Err(_) => account.reserved = account.reserved.plus(self.amount),
        }
        drop(account);
        self.changed.note(&self.id);
        changed
    }

    /// Holds another amount instead, which all nodes have granted.
    pub(super) fn grant(&mut self, wanted: Amount) {
        let mut account = self.account.lock();
        account.reserved = account.reserved.minus(self.amount).plus(wanted);
        self.amount = wanted;
    }

    /// Gives the reservation back and counts what was used instead.
    pub fn settle(mut self, used: Amount, now: Timestamp) {
        let now = self.changed.calendar().now(now);
        let mut account = self.account.lock();
        account.count(Spent::of(used, used, now));
        account.reserved = account.reserved.minus(self.amount);
        drop(account);
        self.amount = Amount::default();
        self.changed.note(&self.id);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.amount == Amount::default() {
            return;
        }
        let mut account = self.account.lock();
        account.reserved = account.reserved.minus(self.amount);
        drop(account);
        self.changed.note(&self.id);
    }
}
