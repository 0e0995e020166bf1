//! The figures of the current UTC day: requests, threats blocked, time taken. They begin with what earlier processes have
//! counted, as far as that was kept: exchanges with providers.

use jiff::Timestamp;
use parking_lot::Mutex;

const SECONDS_PER_DAY: i64 = 86_400;

/// Figures that begin anew at midnight UTC.
#[derive(Debug, Default)]
pub struct Today {
    figures: Mutex<Figures>,
}

/// The figures of one day.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    day: i64,
    /// Requests answered.
    pub requests: u64,
    /// Exchanges that a policy blocked.
    pub threats_blocked: u64,
    latency_us: u128,
}

impl Today {
    /// Adds what earlier processes have counted on the day that `now` lies in: requests, those of them that a policy
    /// blocked, and the time that they took together.
    pub fn resume(&self, now: Timestamp, requests: u64, threats_blocked: u64, latency_us: u64) {
        let mut figures = self.figures.lock();
        figures.roll(now);
        figures.requests += requests;
        figures.threats_blocked += threats_blocked;
        figures.latency_us += u128::from(latency_us);
    }

    /// Counts one exchange.
    pub fn count(&self, now: Timestamp, latency_us: u64, was_blocked: bool) {
        let mut figures = self.figures.lock();
        figures.roll(now);
        figures.requests += 1;
        figures.threats_blocked += u64::from(was_blocked);
        figures.latency_us += u128::from(latency_us);
    }

    /// Returns the figures of the day that `now` lies in.
    pub fn figures(&self, now: Timestamp) -> Figures {
        let mut figures = self.figures.lock();
        figures.roll(now);
        *figures
    }
}

impl Figures {
    /// Returns the mean time an exchange took, in milliseconds; 0 before the first.
    pub fn latency_ms_mean(&self) -> f64 {
        match self.requests {
            0 => 0.0,
            requests => self.latency_us as f64 / requests as f64 / 1000.0,
        }
    }

    fn roll(&mut self, now: Timestamp) {
        let day = now.as_second().div_euclid(SECONDS_PER_DAY);
        // Around midnight some are a moment late; a clock that is further back was ahead and has been set right.
        if day > self.day || day + 1 < self.day {
            *self = Self { day, ..Self::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_begin_anew_at_midnight() {
        let today = Today::default();
        let evening = Timestamp::from_second(SECONDS_PER_DAY * 20_000 - 1).unwrap();
        let morning = Timestamp::from_second(SECONDS_PER_DAY * 20_000).unwrap();
        today.count(evening, 1000, false);
        today.count(evening, 3000, true);
        let figures = today.figures(evening);
        assert_eq!((figures.requests, figures.threats_blocked, figures.latency_ms_mean()), (2, 1, 2.0));
        today.resume(evening, 2, 1, 8000);
        let figures = today.figures(evening);
        assert_eq!((figures.requests, figures.threats_blocked, figures.latency_ms_mean()), (4, 2, 3.0));
        assert_eq!((today.figures(morning).requests, today.figures(morning).latency_ms_mean()), (0, 0.0));
    }

    #[test]
    fn days_end_after_a_clock_was_ahead_and_set_right() {
        let today = Today::default();
        let on = |day: i64| Timestamp::from_second(SECONDS_PER_DAY * day).unwrap();
        today.count(on(25_000), 1000, false);
        for day in [20_000, 20_001] {
            today.count(on(day), 1000, false);
            assert_eq!(today.figures(on(day)).requests, 1);
        }
        let late = Timestamp::from_second(SECONDS_PER_DAY * 20_001 - 1).unwrap();
        today.count(late, 1000, false);
        assert_eq!(today.figures(on(20_001)).requests, 2, "what comes late takes nothing with it");
    }
}
