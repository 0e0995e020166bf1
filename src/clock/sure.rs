//! The moment that has surely come: the clock of what is dropped for its age, and does not come back.
//!
//! In: another clock, whenever this one is asked, and how long the process has run by it. Out: the least of what that clock
//! said in the last [`HOURS`] in which it was asked, run on to now: a clock that jumps ahead is believed once it has kept to
//! that for a day, and one that is set back is believed at once. Each jump waits for itself, so that a machine that is paused
//! every night is behind by its last nights, and not for ever. Sleep of which the machine's own clocks tell
//! ([`Clock::monotonic`]) is no jump.
//!
//! What is known is [kept](SureClock::kept) over restarts: time in which no process ran is a jump like any other, and a
//! process that begins while the clock is wrong does not take its word either.
//!
//! What it does not promise: that nothing goes when the clock is wrong for more than a day.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::Serialize;

use super::Clock;

/// In how many hours a clock has to keep to what it says before it is believed: a day, whole.
pub const HOURS: usize = 25;
/// An hour, in milliseconds.
const HOUR_MS: u64 = 3_600_000;

/// What is known of a clock, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// How long processes have run, in milliseconds.
    ran_ms: u64,
    lows: VecDeque<Low>,
}

/// The least that the clock said in an hour of running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Low {
    hour: u64,
    /// By how much it was ahead of the time that was run, in milliseconds.
    ahead_ms: i64,
}

/// Tells the moment that has surely come.
pub struct SureClock {
    clock: Arc<dyn Clock>,
    /// The monotonic clock when what is known began to be added to.
    begun: Duration,
    ran_before_ms: u64,
    lows: Mutex<VecDeque<Low>>,
}

impl SureClock {
    /// Returns the sure time of a clock of which nothing is known, but a moment that has come, if there is one.
    pub fn since(clock: Arc<dyn Clock>, come: Option<Timestamp>) -> Self {
        let come = come.map(|come| Low { hour: 0, ahead_ms: come.as_millisecond() });
        Self::resume(clock, Kept { ran_ms: 0, lows: come.into_iter().collect() })
    }

    /// Returns the sure time of a clock of which something was kept.
    pub fn resume(clock: Arc<dyn Clock>, kept: Kept) -> Self {
        let begun = clock.monotonic();
        let sure = Self { clock, begun, ran_before_ms: kept.ran_ms, lows: Mutex::new(kept.lows) };
        sure.look();
        sure
    }

    /// Returns what is to be kept over a restart.
    pub fn kept(&self) -> Kept {
        let (ran_ms, _) = self.look();
        Kept { ran_ms, lows: self.lows.lock().clone() }
    }

    /// Looks at the clock; returns how long processes have run, and how far the sure time is ahead of that, both in
    /// milliseconds.
    fn look(&self) -> (u64, i64) {
        let ran = self.clock.monotonic().saturating_sub(self.begun);
        let ran_ms = self.ran_before_ms.saturating_add(ran.as_millis() as u64);
        let (hour, ahead_ms) = (ran_ms / HOUR_MS, self.clock.now().as_millisecond() - ran_ms as i64);
        let mut lows = self.lows.lock();
        match lows.back_mut() {
            Some(low) if low.hour == hour => low.ahead_ms = low.ahead_ms.min(ahead_ms),
            _ => lows.push_back(Low { hour, ahead_ms }),
        }
        while lows.len() > HOURS {
            lows.pop_front();
        }
        (ran_ms, lows.iter().map(|low| low.ahead_ms).fold(ahead_ms, i64::min))
    }
}

impl Clock for SureClock {
    fn now(&self) -> Timestamp {
        let (ran_ms, ahead_ms) = self.look();
        Timestamp::from_millisecond(ahead_ms.saturating_add_unsigned(ran_ms)).unwrap_or(Timestamp::MIN)
    }

    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::clock::ManualClock;

    const HOUR: Duration = Duration::from_secs(3600);
    const DAY: Duration = Duration::from_secs(86_400);

    struct World {
        clock: Arc<ManualClock>,
        sure: SureClock,
    }

    impl World {
        fn new() -> Self {
            let clock = Arc::new(ManualClock::new(Timestamp::from_second(1_000_000_000).unwrap()));
            Self { sure: SureClock::since(clock.clone(), None), clock }
        }

        /// Lets hours pass, in each of which it is looked at.
        fn run(&self, hours: u32) {
            for _ in 0..hours {
                self.clock.advance(HOUR);
                self.sure.now();
            }
        }

        fn jump(&self, hours: i64) {
            self.clock.set(self.clock.now() + SignedDuration::from_hours(hours));
        }

        /// Returns how far the sure time is behind the clock, in hours.
        fn behind(&self) -> i64 {
            self.clock.now().duration_since(self.sure.now()).as_hours()
        }

        fn restart(self) -> Self {
            let Self { clock, sure } = self;
            let kept = sure.kept();
            Self { sure: SureClock::resume(clock.clone(), kept), clock }
        }
    }

    #[test]
    fn a_clock_that_runs_evenly_is_believed() {
        let world = World::new();
        world.run(100);
        assert_eq!(world.behind(), 0);
    }

    #[test]
    fn a_jump_ahead_is_believed_after_a_day_and_one_back_at_once() {
        let world = World::new();
        world.jump(10_000);
        assert_eq!(world.behind(), 10_000);
        world.run(23);
        assert_eq!(world.behind(), 10_000);
        world.run(2);
        assert_eq!(world.behind(), 0);
        world.jump(-10_000);
        assert_eq!(world.behind(), 0);
        // Set right within the day, it has moved nothing.
        world.jump(10_000);
        world.run(20);
        world.jump(-10_000);
        world.run(20);
        assert_eq!(world.behind(), 0);
    }

    #[test]
    fn a_machine_that_is_paused_every_night_is_behind_by_its_last_nights_alone() {
        let world = World::new();
        for _ in 0..50 {
            world.run(16);
            world.jump(8);
        }
        assert_eq!(world.behind(), 16);
        world.run(16);
        assert_eq!(world.behind(), 8);
    }

    #[test]
    fn sleep_that_the_machines_own_clocks_tell_of_is_no_jump() {
        let world = World::new();
        for _ in 0..5 {
            world.run(2);
            world.clock.advance(22 * HOUR);
        }
        assert_eq!(world.behind(), 0);
    }

    #[test]
    fn processes_that_begin_while_the_clock_is_wrong_do_not_believe_it() {
        let mut world = World::new();
        world.run(30);
        world.jump(10_000);
        for _ in 0..10 {
            world.run(2);
            world = world.restart();
        }
        assert_eq!(world.behind(), 10_000);
        world.jump(-10_000);
        assert_eq!(world.restart().behind(), 0);
    }

    #[test]
    fn a_moment_that_has_come_is_all_that_is_known_at_first() {
        let World { clock, .. } = World::new();
        let sure = SureClock::since(clock.clone(), Some(clock.now() - DAY * 5));
        clock.advance(HOUR);
        assert_eq!(sure.now(), clock.now() - DAY * 5);
        // One that has not is no news.
        let sure = SureClock::since(clock.clone(), Some(clock.now() + DAY * 5));
        assert_eq!(sure.now(), clock.now());
    }
}
