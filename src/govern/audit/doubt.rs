//! Whether the clock can be believed when it says that entries are old: what is dropped for its age does not come back.
//!
//! In: the clock, when the log is opened and whenever something may be dropped. A clock that went another way than the time that
//! passed, or that says of a log that is opened that all of it is past its age, counts once it has said so for a day: by then
//! a time server, or somebody who reads the warning, has set it right.

use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;

use super::timing::OFF_MS_MAX;
use crate::clock::Clock;

/// For how long a clock that jumped is not believed.
const DOUBTED_FOR: Duration = Duration::from_secs(86_400);

/// What is known of the clock.
pub(super) struct Doubt(Mutex<Seen>);

struct Seen {
    last: (Timestamp, Duration),
    /// Until when it is doubted, on the monotonic clock.
    until: Option<Duration>,
}

impl Doubt {
    /// Looks at the clock beside a log whose newest entry was recorded at a moment, and that keeps entries for so long.
    pub(super) fn begin(clock: &dyn Clock, newest_unix_ms: Option<i64>, age: Option<Duration>) -> Self {
        let last = (clock.now(), clock.monotonic());
        let age_ms = age.map_or(i64::MAX, |age| i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
        let is_all_old =
            newest_unix_ms.is_some_and(|newest| newest.saturating_add(age_ms) < last.0.as_millisecond());
        Self(Mutex::new(Seen { last, until: is_all_old.then(|| last.1 + DOUBTED_FOR) }))
    }

    /// Looks at the clock again; tells whether it is doubted.
    pub(super) fn is_on(&self, clock: &dyn Clock) -> bool {
        let (wall, monotonic) = (clock.now(), clock.monotonic());
        let mut seen = self.0.lock();
        let (last_wall, last_monotonic) = std::mem::replace(&mut seen.last, (wall, monotonic));
        let passed_ms = monotonic.saturating_sub(last_monotonic).as_millis() as i64;
        let jump_ms = wall.as_millisecond() - last_wall.as_millisecond() - passed_ms;
        if jump_ms.unsigned_abs() > OFF_MS_MAX {
            seen.until = Some(monotonic + DOUBTED_FOR);
        }
        seen.until.is_some_and(|until| monotonic < until)
    }
}
