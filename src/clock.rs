//! The only home of time: what asks for it takes a [`Clock`], so that tests can move it.

pub mod sure;

use std::sync::OnceLock;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use rustix::time::ClockId;
use rustix::time::clock_gettime;

/// Returns a moment as it is told to others: ISO 8601 in UTC, with milliseconds and always of one width, so that texts
/// sort as moments do.
pub fn rfc3339(at: Timestamp) -> String {
    format!("{at:.3}")
}

/// Tells the time, on the wall and since the process began.
pub trait Clock: Send + Sync + 'static {
    /// Returns the wall-clock time in UTC.
    fn now(&self) -> Timestamp;

    /// Returns the time since an arbitrary fixed moment, in which the machine may have slept; it never goes back.
    fn monotonic(&self) -> Duration;
}

/// The machine's own clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn monotonic(&self) -> Duration {
        static START: OnceLock<Duration> = OnceLock::new();
        // `Instant` stands still while a machine is suspended: its clock would seem to have jumped.
        let since_boot = Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default();
        since_boot.saturating_sub(*START.get_or_init(|| since_boot))
    }
}

/// A clock that stands still until it is told to move.
#[derive(Debug)]
pub struct ManualClock {
    state: Mutex<(Timestamp, Duration)>,
}

impl ManualClock {
    /// Returns a clock that shows `now`.
    pub fn new(now: Timestamp) -> Self {
        Self { state: Mutex::new((now, Duration::ZERO)) }
    }

    /// Sets the wall clock alone, as an operator does, or a time server.
    pub fn set(&self, now: Timestamp) {
        self.state.lock().0 = now;
    }

    /// Moves both the wall clock and the monotonic clock forward.
    pub fn advance(&self, by: Duration) {
        let mut state = self.state.lock();
        state.0 = state.0.checked_add(by).expect("tests stay within the calendar");
        state.1 += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.state.lock().0
    }

    fn monotonic(&self) -> Duration {
        self.state.lock().1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_of_one_width() {
        for (at, told) in [
            ("2026-05-01T12:00:00Z", "2026-05-01T12:00:00.000Z"),
            ("2026-05-01T12:00:00.5Z", "2026-05-01T12:00:00.500Z"),
            ("2026-05-01T12:00:00.123456789Z", "2026-05-01T12:00:00.123Z"),
        ] {
            assert_eq!(rfc3339(at.parse().unwrap()), told);
        }
    }
}
