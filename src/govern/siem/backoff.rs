//! How long to wait after a failure: twice as long each time, up to a limit, and never in step with others; or as long
//! as the receiver asks, within reason.

use std::hash::BuildHasher;
use std::hash::RandomState;
use std::time::Duration;

/// The longest that a receiver may ask to be left alone.
const ASKED_MAX: Duration = Duration::from_secs(15 * 60);

/// The waits of one sink.
#[derive(Debug)]
pub(super) struct Backoff {
    min: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    pub(super) fn new(min: Duration, max: Duration) -> Self {
        Self { min, max: max.max(min), failures: 0 }
    }

    /// Forgets what failed.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Returns how long to wait after one more failure: between half and all of the doubled time, up to the limit; or
    /// what the receiver asked for, where that is longer, up to [`ASKED_MAX`].
    pub(super) fn next(&mut self, asked: Option<Duration>) -> Duration {
        let full = self.min.saturating_mul(1 << self.failures.min(20)).min(self.max);
        self.failures = self.failures.saturating_add(1);
        // A hasher with random keys is dice enough for this.
        let dice = RandomState::new().hash_one(self.failures) % 1024;
        let waited = full / 2 + (full / 2).mul_f64(dice as f64 / 1023.0);
        asked.map_or(waited, |asked| asked.min(ASKED_MAX).max(waited))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_limit_and_start_anew_after_a_success() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
        for full in [100, 200, 400, 800, 1600, 2000, 2000] {
            let wait = backoff.next(None).as_millis();
            assert!((full / 2..=full).contains(&wait), "{wait} of {full}");
        }
        backoff.reset();
        assert!(backoff.next(None) <= Duration::from_millis(100));
        assert_eq!(backoff.next(Some(Duration::from_secs(1))), Duration::from_secs(1), "the receiver's word");
        assert_eq!(
            backoff.next(Some(Duration::from_secs(60))),
            Duration::from_secs(60),
            "whatever our limit"
        );
        assert_eq!(backoff.next(Some(Duration::from_secs(86_400))), ASKED_MAX, "within reason");
    }
}
