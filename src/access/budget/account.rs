//! One key's budget: what was used of it, and what is reserved.

use std::time::Duration;

use jiff::Timestamp;

use super::Allowance;
use super::Amount;
use super::Budget;
use super::BudgetFault;
use super::Spent;
use super::shared::Standing;
use super::stored::Used;
use super::stored::written;

/// How many writes of which nobody has said what became of them are remembered.
const IN_DOUBT_MAX: usize = 16;

/// One key's budget, and what it used of it.
#[derive(Default)]
pub(super) struct Account {
    pub(super) budget: Budget,
    /// Which budget of the key it is.
    pub(super) grant: u64,
    /// What all nodes have used, as far as it is written and known here.
    stored: Used,
    pub(super) reserved: Amount,
    /// What is not written yet, as far as it is known here.
    fresh: Spent,
    /// How much of it was to be written, by number; of these at most one thing was written.
    in_doubt: Vec<(u64, Spent)>,
}

impl Account {
    /// Returns the account of a budget of which nothing is known to be used.
    pub(super) fn of(grant: u64) -> Self {
        Self { grant, ..Self::default() }
    }

    /// Takes over what all nodes have used; tells whether that has something in it that this process wrote and did not
    /// know to be written.
    pub(super) fn take_over(&mut self, stored: Used, process: u64) -> bool {
        // An earlier release does not tell which budget of the key it is.
        if stored.grant != self.grant && stored.grant != 0 && self.grant != 0 {
            return false;
        }
        let last = stored.last_of(process);
        let found = self.in_doubt.iter().find(|(number, _)| Some(*number) == last).map(|(_, spent)| *spent);
        if let Some(written) = found {
            self.fresh = self.fresh.less(written);
            // Whatever else was tried expected what was there before.
            self.in_doubt.clear();
        }
        self.stored = stored;
        found.is_some()
    }

    /// Returns what all nodes have used in the day and the month of a moment, with what is not written yet.
    pub(super) fn spent(&self, now: Timestamp) -> Spent {
        let [stored, fresh] = self.parts(now);
        let mut spent = stored.and(fresh);
        spent.roll(now);
        spent
    }

    /// Returns what is written and what is not, by the clock as it is now.
    fn parts(&self, now: Timestamp) -> [Spent; 2] {
        let now = Spent::of(Amount::default(), Amount::default(), now);
        [self.stored.spent, self.fresh].map(|spent| spent.back_to(&now))
    }

    /// Counts what was used, now.
    pub(super) fn count(&mut self, used: Spent) {
        if used.is_nothing() {
            return;
        }
        let in_doubt = self.in_doubt.iter_mut().map(|(_, spent)| spent);
        for spent in [&mut self.stored.spent, &mut self.fresh].into_iter().chain(in_doubt) {
            *spent = spent.back_to(&used);
        }
        let begun = self.stored.spent.and(self.fresh);
        self.fresh = self.fresh.and(used.not_before(&begun));
    }

    /// Returns what a process is to write where there is something new, under a number that is new as well, or of a try
    /// that is known to have failed.
    pub(super) fn take_unwritten(&mut self, process: u64, number: u64) -> Option<Used> {
        if self.fresh.is_nothing() {
            return None;
        }
        self.in_doubt.retain(|(before, _)| *before != number);
        if self.in_doubt.len() == IN_DOUBT_MAX {
            self.in_doubt.remove(0);
        }
        self.in_doubt.push((number, self.fresh));
        let writers = written(&self.stored.writers, process, number);
        Some(Used { spent: self.stored.spent.and(self.fresh), grant: self.grant, writers })
    }

    /// Returns what is known here, as it is told to other nodes.
    pub(super) fn standing(&self, now: Timestamp) -> Standing {
        let Spent { day, month, .. } = self.spent(now);
        let of = |spent: &Spent| {
            let today = if spent.day == day { spent.today } else { Amount::default() };
            let this_month = if spent.month == month { spent.this_month } else { Amount::default() };
            [today, this_month]
        };
        let [stored, fresh] = self.parts(now).map(|spent| of(&spent));
        let (budget, grant, reserved) = (self.budget, self.grant, self.reserved);
        Standing { budget, grant, day, month, stored, fresh, reserved }
    }

    /// Returns every limit, what was used of it, and what is reserved.
    fn limits(&self, now: Timestamp) -> [(Allowance, Option<u64>, u64, u64); 4] {
        let (budget, spent, reserved) = (&self.budget, self.spent(now), self.reserved);
        [
            (Allowance::TokensPerDay, budget.tokens_per_day, spent.today.tokens, reserved.tokens),
            (Allowance::TokensPerMonth, budget.tokens_per_month, spent.this_month.tokens, reserved.tokens),
            (Allowance::CostPerDay, budget.cost_per_day, spent.today.cost, reserved.cost),
            (Allowance::CostPerMonth, budget.cost_per_month, spent.this_month.cost, reserved.cost),
        ]
    }

    pub(super) fn check(&self, now: Timestamp) -> Result<(), BudgetFault> {
        let used_up =
            self.limits(now).into_iter().filter(|(_, limit, used, _)| limit.is_some_and(|it| *used >= it));
        exhausted(used_up.map(|(of, ..)| of), now).map_or(Ok(()), Err)
    }

    /// Returns what an exchange is to reserve, where anything is left and its cost is known.
    pub(super) fn wanted(
        &self,
        tokens: u64,
        cost: Option<u64>,
        now: Timestamp,
    ) -> Result<Amount, BudgetFault> {
        self.check(now)?;
        if cost.is_none() && self.budget.limits_cost() {
            return Err(BudgetFault::Unpriced);
        }
        Ok(Amount { tokens, cost: cost.unwrap_or_default() })
    }

    pub(super) fn reserve(&mut self, amount: Amount, now: Timestamp) -> Result<(), BudgetFault> {
        self.check(now)?;
        let wanted = |of| match of {
            Allowance::TokensPerDay | Allowance::TokensPerMonth => amount.tokens,
            Allowance::CostPerDay | Allowance::CostPerMonth => amount.cost,
        };
        let overlaps = |(of, limit, used, reserved): (Allowance, Option<u64>, u64, u64)| {
            let sum = used.saturating_add(reserved).saturating_add(wanted(of));
            reserved > 0 && wanted(of) > 0 && limit.is_some_and(|limit| sum > limit)
        };
        if self.limits(now).into_iter().any(overlaps) {
            return Err(BudgetFault::Reserved);
        }
        self.reserved = self.reserved.plus(amount);
        Ok(())
    }
}

/// Returns why nothing is paid where limits are used up: of several, the one that lasts longest tells when to come back.
pub(super) fn exhausted(used_up: impl Iterator<Item = Allowance>, now: Timestamp) -> Option<BudgetFault> {
    let (resets_at, of) = used_up.map(|of| (of.resets_at(now), of)).max_by_key(|(at, _)| *at)?;
    let wait = Duration::try_from(resets_at.duration_since(now)).unwrap_or_default();
    Some(BudgetFault::Exhausted { of, resets_at, wait })
}
