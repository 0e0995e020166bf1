//! What counts say: intervals for a rate, and a test of two rates that may be looked at whenever one likes.
//!
//! The test is an *e-process*: a bet against "both variants detect at the same rate" that starts with 1 and is
//! expected not to grow as long as that is so. Each outcome multiplies it by the likelihood that a forecast of its
//! own variant gave it, over that of the forecast for both together, forecasts being made before the outcome is
//! seen (Turner, Ly, Grünwald: *Generic E-variables for exact sequential k-sample tests that allow for optional
//! stopping*, Journal of Statistical Planning and Inference 230, 2024). Requests come to variants by a hash of
//! their ids, so under the hypothesis outcomes do not depend on the variant, and the expectation of each factor is
//! exactly 1, whatever the rate. By Ville's inequality the bet ever reaches 1/α with a probability of α at most;
//! so 1/largest is a p-value that stays valid however often somebody looks, and whenever the test is stopped
//! because of it (Johari, Koomen, Pekelis, Walsh: *Always Valid Inference*, Operations Research 70, 2022). That
//! holds for any number of requests, without an approximation.
//!
//! That holds as long as both variants get their share of the requests: whoever feeds the bet leaves out what came
//! while one of them got none.
//!
//! The interval is Wilson's (1927). It is for one look at one rate: it does not decide.

use serde::Deserialize;
use serde::Serialize;

/// Below this p-value a difference is called real.
pub const SIGNIFICANCE_LEVEL: f64 = 0.05;
/// The share of intervals that hold the true rate.
pub const INTERVAL_CONFIDENCE: f64 = 0.95;
/// The quantile of the normal distribution for [`INTERVAL_CONFIDENCE`].
const Z: f64 = 1.959_963_984_540_054;

/// How many outcomes there were, and how many of them were detections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// All.
    pub all: u64,
    /// Detections.
    pub hits: u64,
}

/// Whose outcome it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// Of the first variant.
    Control,
    /// Of the variant that is compared with it.
    Other,
}

/// A bet against "the rates are the same", as it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    control: Count,
    other: Count,
    log_bet: f64,
    log_best: f64,
}

impl Count {
    fn add(&mut self, hit: bool) {
        self.all += 1;
        self.hits += u64::from(hit);
    }

    /// Returns the share of hits; zero where there is nothing.
    pub fn rate(self) -> f64 {
        if self.all == 0 { 0.0 } else { self.hits as f64 / self.all as f64 }
    }

    /// Returns the ends of Wilson's interval; from zero to one where there is nothing.
    pub fn interval(self) -> (f64, f64) {
        if self.all == 0 {
            return (0.0, 1.0);
        }
        let (n, p) = (self.all as f64, self.rate());
        let center = (p + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
        let half = Z / (1.0 + Z * Z / n) * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
        // Of none, and of all, one end is known: what rounding would make of it is not.
        let low = if self.hits == 0 { 0.0 } else { (center - half).max(0.0) };
        let high = if self.hits == self.all { 1.0 } else { (center + half).min(1.0) };
        (low, high)
    }

    /// Returns what is forecast of the next outcome: the rate so far, begun with one outcome of `prior`.
    fn forecast(self, prior: f64) -> f64 {
        (self.hits as f64 + prior) / (self.all as f64 + 1.0)
    }
}

impl Evidence {
    /// Takes an outcome; `share` of the requests of both variants come to the other one.
    pub fn observe(&mut self, arm: Arm, share: f64, hit: bool) {
        let (control, other) = (self.control, self.other);
        let together = Count { all: control.all + other.all, hits: control.hits + other.hits };
        let prior = together.forecast(0.5);
        let forecasts = (control.forecast(prior), other.forecast(prior));
        let both = (1.0 - share) * forecasts.0 + share * forecasts.1;
        let own = match arm {
            Arm::Control => forecasts.0,
            Arm::Other => forecasts.1,
        };
        self.log_bet += match hit {
            true => (own / both).ln(),
            false => ((1.0 - own) / (1.0 - both)).ln(),
        };
        self.log_best = self.log_best.max(self.log_bet);
        match arm {
            Arm::Control => self.control.add(hit),
            Arm::Other => self.other.add(hit),
        }
    }

    /// Returns how many outcomes of both variants were bet on.
    pub fn compared(&self) -> u64 {
        self.control.all + self.other.all
    }

    /// Returns the rate of the other variant less that of the first one, by the outcomes that were bet on; `None` as long
    /// as one of them has none.
    pub fn difference(&self) -> Option<f64> {
        self.has_both().then(|| self.other.rate() - self.control.rate())
    }

    /// Returns a p-value that stays valid under peeking, corrected for so many comparisons (Bonferroni); `None` as long
    /// as one of the variants has no outcome.
    pub fn p_value(&self, comparisons: usize) -> Option<f64> {
        self.has_both().then(|| ((-self.log_best).exp() * comparisons as f64).min(1.0))
    }

    fn has_both(&self) -> bool {
        self.control.all > 0 && self.other.all > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers from zero to one that are the same in every run (xorshift64*).
    struct Numbers(u64);

    impl Numbers {
        fn next(&mut self) -> f64 {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    /// Returns how many of `runs` tests ever called a difference real while somebody looked at every outcome.
    fn called(runs: usize, outcomes: usize, share: f64, rates: (f64, f64)) -> usize {
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        let run = |_: &usize| {
            let mut evidence = Evidence::default();
            for _ in 0..outcomes {
                let arm = if numbers.next() < share { Arm::Other } else { Arm::Control };
                let rate = if arm == Arm::Other { rates.1 } else { rates.0 };
                evidence.observe(arm, share, numbers.next() < rate);
            }
            evidence.p_value(1).is_some_and(|p_value| p_value <= SIGNIFICANCE_LEVEL)
        };
        (0..runs).filter(run).count()
    }

    #[test]
    fn who_peeks_at_equal_variants_is_rarely_fooled() {
        for rate in [0.01, 0.1, 0.5] {
            for share in [0.5, 0.1] {
                let fooled = called(400, 1500, share, (rate, rate));
                // 20 of 400 are allowed in expectation; 32 would be past three standard deviations.
                assert!(fooled <= 32, "{fooled} of 400 at rate {rate}, share {share}");
            }
        }
    }

    #[test]
    fn a_real_difference_is_found() {
        for (share, rates) in [(0.5, (0.1, 0.2)), (0.5, (0.01, 0.05)), (0.1, (0.1, 0.25))] {
            let found = called(50, 4000, share, rates);
            assert!(found >= 48, "{found} of 50 at {rates:?}, share {share}");
        }
    }

    #[test]
    fn intervals_are_wilsons() {
        // Brown, Cai, DasGupta (2001) give the formula; these ends were computed from it in Python.
        let cases = [((10, 0), (0.0, 0.2775)), ((10, 10), (0.7225, 1.0)), ((100, 20), (0.1334, 0.2888))];
        for ((all, hits), (low, high)) in cases {
            let found = Count { all, hits }.interval();
            assert!((found.0 - low).abs() < 1e-4 && (found.1 - high).abs() < 1e-4, "{found:?}");
        }
        assert_eq!(Count::default().interval(), (0.0, 1.0));
        for all in 1..500 {
            assert_eq!(Count { all, hits: 0 }.interval().0, 0.0, "0 of {all}");
            assert_eq!(Count { all, hits: all }.interval().1, 1.0, "{all} of {all}");
        }
    }

    #[test]
    fn nothing_seen_says_nothing() {
        assert_eq!(Evidence::default().p_value(3), None);
        let mut evidence = Evidence::default();
        (0..1000).for_each(|_| evidence.observe(Arm::Control, 0.5, true));
        let said = (evidence.difference(), evidence.p_value(1), evidence.compared());
        assert_eq!(said, (None, None, 1000), "one variant alone shows no difference");
        evidence.observe(Arm::Other, 0.5, true);
        assert_eq!((evidence.difference(), evidence.compared()), (Some(0.0), 1001));
        assert!(evidence.p_value(1).is_some_and(|p_value| p_value > SIGNIFICANCE_LEVEL));
    }
}
