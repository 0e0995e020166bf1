//! The clock beside the log: whether it has jumped, and how far the newest entry is ahead of it.
//!
//! In: the clock, at every turn of the writer. Out: what operators are warned of. Entries keep their order whatever the
//! clock does (see [`crate::id`]), and say when they were recorded where their ids no longer tell (see [`super::stored`]).

use std::sync::atomic::AtomicI64;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;

use crate::clock::Clock;

/// How far a clock may be off before somebody is warned.
pub(super) const OFF_MS_MAX: u64 = 5 * 60 * 1000;

/// What is known of the clock; written by the one writer.
#[derive(Debug, Default)]
pub(super) struct Timing {
    jumped_ms: AtomicI64,
    ahead_ms: AtomicU64,
}

/// What is wrong with the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClockWarning {
    /// The wall clock went another way than the time that passed.
    #[error("the clock has jumped by {seconds} seconds since the process began")]
    Jumped {
        /// How far in all, below zero where it went back.
        seconds: i64,
    },
    /// It is behind the newest entry, whose id later ones have to be above.
    #[error("the clock is {seconds} seconds behind the newest audit entry, by whose id entries are ordered")]
    Behind {
        /// How far.
        seconds: u64,
    },
}

/// Compares the clock with itself.
#[derive(Debug, Default)]
pub(super) struct ClockWatch {
    last: Option<(Timestamp, Duration)>,
}

impl ClockWatch {
    /// Looks at the clock, and at how far the newest entry is ahead of it.
    pub(super) fn look(&mut self, clock: &dyn Clock, ahead_ms: u64, timing: &Timing) {
        let (wall, monotonic) = (clock.now(), clock.monotonic());
        if let Some((last_wall, last_monotonic)) = self.last.replace((wall, monotonic)) {
            let passed = monotonic.saturating_sub(last_monotonic).as_millis() as i64;
            let jump = wall.as_millisecond() - last_wall.as_millisecond() - passed;
            if jump.unsigned_abs() > OFF_MS_MAX {
                let jumped = timing.jumped_ms.fetch_add(jump, Ordering::Relaxed) + jump;
                tracing::warn!(jump_ms = jump, jumped_ms = jumped, now = %wall, "the clock has jumped");
            }
        }
        let was_behind = timing.ahead_ms.swap(ahead_ms, Ordering::Relaxed) > OFF_MS_MAX;
        if !was_behind && ahead_ms > OFF_MS_MAX {
            tracing::warn!(ahead_ms, now = %wall, "the clock is behind the newest audit entry");
        }
    }
}

impl Timing {
    /// Returns what is wrong now.
    pub(super) fn warnings(&self) -> Vec<ClockWarning> {
        let (jumped, ahead) = (self.jumped_ms.load(Ordering::Relaxed), self.ahead_ms.load(Ordering::Relaxed));
        let jumped =
            (jumped.unsigned_abs() > OFF_MS_MAX).then_some(ClockWarning::Jumped { seconds: jumped / 1000 });
        let behind = (ahead > OFF_MS_MAX).then_some(ClockWarning::Behind { seconds: ahead / 1000 });
        jumped.into_iter().chain(behind).collect()
    }
}
