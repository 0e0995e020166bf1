//! Hours and days of UTC, and spans of them.

use jiff::Timestamp;

/// Seconds of an hour.
pub const HOUR_S: i64 = 3_600;
/// Hours of a day: UTC has no others.
pub const DAY_H: u64 = 24;

/// A whole hour, counted from 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hour(pub u64);

/// A whole day, counted from 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(pub u64);

/// Whole hours from the first up to the last, which is not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// The first hour.
    pub from: Hour,
    /// The hour after the last one.
    pub to: Hour,
}

/// A part of a period that is kept in one kind of record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// Hours, from the first up to the last, which is not part of it.
    Hours(Hour, Hour),
    /// Whole days, from the first up to the last, which is not part of it.
    Days(Day, Day),
}

impl Hour {
    /// Returns the hour in which a moment lies; the first one for what lies before.
    pub fn of(at: Timestamp) -> Self {
        Self(u64::try_from(at.as_second().div_euclid(HOUR_S)).unwrap_or_default())
    }

    /// Returns the day it lies in.
    pub fn day(self) -> Day {
        Day(self.0 / DAY_H)
    }

    /// Returns which hour of its day it is, 0 to 23.
    pub fn of_day(self) -> u64 {
        self.0 % DAY_H
    }

    /// Tells whether it is of a Saturday or a Sunday.
    pub fn is_of_weekend(self) -> bool {
        // The first day of all, 1970-01-01, was a Thursday.
        matches!((self.0 / DAY_H + 4) % 7, 0 | 6)
    }

    /// Returns when it begins.
    pub fn begins(self) -> Timestamp {
        let seconds = i64::try_from(self.0).unwrap_or(i64::MAX).saturating_mul(HOUR_S);
        Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
    }

    /// Returns the hour so many hours before, or the first.
    pub fn back(self, hours: u64) -> Self {
        Self(self.0.saturating_sub(hours))
    }
}

impl Day {
    /// Returns its first hour.
    pub fn first_hour(self) -> Hour {
        Hour(self.0.saturating_mul(DAY_H))
    }

    /// Returns when it begins.
    pub fn begins(self) -> Timestamp {
        self.first_hour().begins()
    }
}

impl Period {
    /// Returns the hours that a span of time touches; at least one.
    pub fn touching(from: Timestamp, to: Timestamp) -> Self {
        let first = Hour::of(from);
        let last = Hour::of(to);
        let is_whole = to > from && last.begins() == to;
        Self { from: first, to: if is_whole { last } else { Hour(last.0 + 1) } }
    }

    /// Returns it in whole days where its hours are no longer known one by one.
    pub fn known(self, oldest: Hour) -> Self {
        let down = |hour: Hour| if hour < oldest { hour.day().first_hour() } else { hour };
        let up = |hour: Hour| match down(hour) {
            midnight if midnight < hour => Day(midnight.day().0 + 1).first_hour(),
            hour => hour,
        };
        Self { from: down(self.from), to: up(self.to) }
    }

    /// Returns how many hours it has.
    pub fn hours(self) -> u64 {
        self.to.0.saturating_sub(self.from.0)
    }

    /// Returns its hours in order.
    pub fn each_hour(self) -> impl DoubleEndedIterator<Item = Hour> {
        (self.from.0..self.to.0).map(Hour)
    }

    /// Cuts it into whole days and the hours around them.
    pub fn spans(self) -> Vec<Span> {
        let first = Day(self.from.0.div_ceil(DAY_H));
        let last = self.to.day();
        if first >= last {
            return vec![Span::Hours(self.from, self.to)];
        }
        let all = [
            Span::Hours(self.from, first.first_hour()),
            Span::Days(first, last),
            Span::Hours(last.first_hour(), self.to),
        ];
        all.into_iter().filter(|span| !span.is_empty()).collect()
    }
}

impl Span {
    fn is_empty(&self) -> bool {
        match self {
            Self::Hours(from, to) => from >= to,
            Self::Days(from, to) => from >= to,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_period_is_the_hours_it_touches() {
        let cases = [
            ("2026-02-28T23:10:00Z", "2026-02-28T23:20:00Z", 1),
            ("2026-02-28T23:00:00Z", "2026-03-01T01:00:00Z", 2),
            ("2026-02-28T23:59:59Z", "2026-03-01T00:00:01Z", 2),
            ("2026-02-28T23:00:00Z", "2026-02-28T23:00:00Z", 1),
            ("2024-02-28T00:00:00Z", "2024-03-01T00:00:00Z", 48),
        ];
        for (from, to, hours) in cases {
            assert_eq!(Period::touching(at(from), at(to)).hours(), hours, "{from} {to}");
        }
    }

    #[test]
    fn old_hours_are_asked_for_by_the_day() {
        let period = |from, to| Period { from: Hour(from), to: Hour(to) };
        assert_eq!(period(5, 30).known(Hour(100)), period(0, 48));
        assert_eq!(period(5, 200).known(Hour(100)), period(0, 200));
        assert_eq!(period(101, 200).known(Hour(100)), period(101, 200));
        assert_eq!(period(24, 48).known(Hour(100)), period(24, 48));
    }

    #[test]
    fn spans_cover_a_period_once() {
        for from in 0..60 {
            for to in from + 1..130 {
                let period = Period { from: Hour(from), to: Hour(to) };
                let mut covered: Vec<u64> = Vec::new();
                for span in period.spans() {
                    match span {
                        Span::Hours(from, to) => covered.extend(from.0..to.0),
                        Span::Days(from, to) => covered.extend(from.first_hour().0..to.first_hour().0),
                    }
                }
                assert_eq!(covered, (from..to).collect::<Vec<_>>());
            }
        }
    }
}
