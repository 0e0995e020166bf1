//! Sessions: the calls of an agent without a long pause between them.

use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;

use super::Factors;
use super::Reason;
use super::profile::Profile;
use super::profile::Track;

/// The calls of an agent without a long pause between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Its id.
    pub id: String,
    /// When its first call was.
    pub started_at: Timestamp,
    /// When its last call was.
    pub last_seen: Timestamp,
    /// What its calls left behind.
    pub track: Track,
    /// Where the agent stood when it began.
    prior: Factors,
}

impl Session {
    /// Begins a session where the agent stands now.
    pub(super) fn begin(id: String, profile: &Profile, now: Timestamp) -> Self {
        let prior = profile.factors(now).0;
        Self { id, started_at: now, last_seen: now, track: Track::default(), prior }
    }

    /// Tells whether the session goes on at a moment.
    pub fn is_active(&self, idle_s: i64, now: Timestamp) -> bool {
        now.as_second() - self.last_seen.as_second() < idle_s
    }

    /// Returns the factors of the session, with what moved them: it begins where the agent stood.
    pub(super) fn factors(&self, profile: &Profile, now: Timestamp) -> (Factors, Factors<Vec<Reason>>) {
        self.track.factors(self.prior, &profile.track, now)
    }
}
