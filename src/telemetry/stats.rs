//! Today's statistics; the day is a day of UTC.

use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;

const SECONDS_A_DAY: i64 = 86_400;

/// Counts the requests of the day under way.
#[derive(Debug, Default)]
pub struct Stats {
    day: Mutex<Day>,
}

/// The statistics of today so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Today {
    /// How many requests came.
    pub requests_today: u64,
    /// How many threats were blocked.
    pub threats_blocked: u64,
    /// How long a request took on average, in milliseconds; 0 when there was none.
    pub avg_latency_ms: f64,
}

#[derive(Debug, Default)]
struct Day {
    number: i64,
    requests: u64,
    threats_blocked: u64,
    latency: Duration,
}

impl Stats {
    /// Counts a request that ended at `now`.
    pub fn count(&self, now: Timestamp, latency: Duration, threats_blocked: u64) {
        let mut day = self.day.lock();
        day.turn(now);
        day.requests += 1;
        day.threats_blocked += threats_blocked;
        day.latency = day.latency.saturating_add(latency);
    }

    /// Returns what was counted on the day of `now`.
    pub fn today(&self, now: Timestamp) -> Today {
        let mut day = self.day.lock();
        day.turn(now);
        let requests = day.requests.max(1) as f64;
        Today {
            requests_today: day.requests,
            threats_blocked: day.threats_blocked,
            avg_latency_ms: day.latency.as_secs_f64() * 1000.0 / requests,
        }
    }
}

impl Day {
    /// Begins anew when the day has changed; a clock that is set back by less than a day changes nothing.
    fn turn(&mut self, now: Timestamp) {
        let number = now.as_second().div_euclid(SECONDS_A_DAY);
        if number > self.number || number + 1 < self.number {
            *self = Self { number, ..Self::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_day_begins_at_midnight_in_utc() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let stats = Stats::default();
        stats.count(at("2026-03-01T23:59:59Z"), Duration::from_millis(10), 2);
        stats.count(at("2026-03-01T23:59:59.9Z"), Duration::from_millis(20), 0);
        let expected = Today { requests_today: 2, threats_blocked: 2, avg_latency_ms: 15.0 };
        assert_eq!(stats.today(at("2026-03-01T23:59:59.99Z")), expected);
        assert_eq!(stats.today(at("2026-03-02T00:00:00Z")), Today::default());
        stats.count(at("2026-03-01T23:59:59Z"), Duration::from_millis(4), 1);
        assert_eq!(stats.today(at("2026-03-02T00:00:01Z")).requests_today, 1);
    }
}
