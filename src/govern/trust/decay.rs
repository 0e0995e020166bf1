//! Sums that fade.

use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;

/// A sum of which a half is left after each half-life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Decayed {
    sum: f64,
    at: i64,
}

impl Decayed {
    /// Adds to the sum. A clock that went back fades nothing.
    pub(super) fn add(&mut self, amount: f64, half_life_s: f64, now: Timestamp) {
        let now = now.as_second().max(self.at);
        self.sum = self.sum * factor(now - self.at, half_life_s) + amount;
        self.at = now;
    }

    /// Returns what is left of the sum.
    pub(super) fn at(&self, half_life_s: f64, now: Timestamp) -> f64 {
        self.sum * factor(now.as_second() - self.at, half_life_s)
    }
}

/// Returns what is left of one after so many seconds.
pub(super) fn factor(seconds: i64, half_life_s: f64) -> f64 {
    (-(seconds.max(0) as f64) / half_life_s).exp2()
}
