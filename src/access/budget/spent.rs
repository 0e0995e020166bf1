//! How amounts add up, and when they begin anew.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::Amount;
use super::DAY_S;
use super::Spent;

/// How many days an account may be ahead of the clock: nodes do not all begin them at one moment. What is further ahead was
/// counted by a clock that was wrong.
const DAYS_AHEAD_MAX: i64 = 1;

impl Amount {
    /// Returns as much, and no less than another amount.
    pub fn at_least(self, other: Self) -> Self {
        Self { tokens: self.tokens.max(other.tokens), cost: self.cost.max(other.cost) }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { tokens: self.tokens.saturating_add(other.tokens), cost: self.cost.saturating_add(other.cost) }
    }

    pub(super) fn minus(self, other: Self) -> Self {
        Self { tokens: self.tokens.saturating_sub(other.tokens), cost: self.cost.saturating_sub(other.cost) }
    }
}

impl Spent {
    /// Returns what was used in the day and the month of a moment.
    pub fn of(today: Amount, this_month: Amount, now: Timestamp) -> Self {
        let date = now.to_zoned(TimeZone::UTC).date();
        let month = i64::from(date.year()) * 12 + i64::from(date.month()) - 1;
        Self { day: now.as_second().div_euclid(DAY_S), month, today, this_month }
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.today == Amount::default() && self.this_month == Amount::default()
    }

    /// Returns what was used in the newer day and month of the two, by both.
    pub(super) fn and(self, other: Self) -> Self {
        self.joined(other, Amount::plus)
    }

    /// Returns what is left of it without another.
    pub(super) fn less(self, other: Self) -> Self {
        let same = |own: i64, of: i64, amount: Amount, gone: Amount| match own == of {
            true => amount.minus(gone),
            false => amount,
        };
        Self {
            today: same(self.day, other.day, self.today, other.today),
            this_month: same(self.month, other.month, self.this_month, other.this_month),
            ..self
        }
    }

    pub(super) fn joined(self, other: Self, join: fn(Amount, Amount) -> Amount) -> Self {
        let newer = |own: i64, of: i64, amount: Amount, more: Amount| match own.cmp(&of) {
            std::cmp::Ordering::Less => more,
            std::cmp::Ordering::Equal => join(amount, more),
            std::cmp::Ordering::Greater => amount,
        };
        Self {
            day: self.day.max(other.day),
            month: self.month.max(other.month),
            today: newer(self.day, other.day, self.today, other.today),
            this_month: newer(self.month, other.month, self.this_month, other.this_month),
        }
    }

    /// Returns it as it stands in the day and the month of another: what a clock that was wrong counted far ahead counts
    /// there, for else it would count nowhere until that day has come.
    pub(super) fn back_to(self, now: &Self) -> Self {
        match self.day > now.day.saturating_add(DAYS_AHEAD_MAX) {
            true => Self { day: now.day, month: self.month.min(now.month), ..self },
            false => self,
        }
    }

    /// Returns it in no earlier day and month than another: where the clock was set back a little, what is used counts in
    /// those that have begun.
    pub(super) fn not_before(self, begun: &Self) -> Self {
        Self { day: self.day.max(begun.day), month: self.month.max(begun.month), ..self }
    }

    /// Begins a new day or month; a clock that was set back begins none.
    pub(super) fn roll(&mut self, now: Timestamp) {
        let fresh = Self::of(Amount::default(), Amount::default(), now);
        if fresh.day > self.day {
            (self.day, self.today) = (fresh.day, fresh.today);
        }
        if fresh.month > self.month {
            (self.month, self.this_month) = (fresh.month, fresh.this_month);
        }
    }
}
