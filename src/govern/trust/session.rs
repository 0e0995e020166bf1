//! Sessions: the calls of an agent without a long pause between them.

use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;

use super::Factors;
use super::Reason;
use super::TrustScore;
use super::Verdict;
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

/// A session as it is listed.
pub struct Listed {
    /// The session.
    pub session: Session,
    /// Whether it goes on.
    pub is_active: bool,
    /// What is thought of it, and whose it is.
    pub score: TrustScore,
}

impl Session {
    /// Begins a session where the agent stands.
    pub(super) fn begin(id: String, prior: Factors, now: Timestamp) -> Self {
        Self { id, started_at: now, last_seen: now, track: Track::default(), prior }
    }

    /// Tells whether the session goes on at a moment. One that was used far ahead of that was so by a clock that was.
    pub fn is_active(&self, idle_s: i64, now: Timestamp) -> bool {
        (now.as_second() - self.last_seen.as_second()).abs() < idle_s
    }

    /// Returns the factors of the session, with what moved them: it begins where the agent stood.
    pub(super) fn factors(&self, profile: &Profile, now: Timestamp) -> (Factors, Factors<Vec<Reason>>) {
        self.track.factors(self.prior, &profile.track, now)
    }

    /// Returns the score of the session of an agent.
    pub(super) fn score(&self, agent_id: &str, profile: &Profile, now: Timestamp) -> TrustScore {
        let (factors, reasons) = self.factors(profile, now);
        let score = factors.score();
        TrustScore {
            agent_id: agent_id.to_owned(),
            session_id: Some(self.id.clone()),
            score,
            verdict: Verdict::of(score),
            factors,
            reasons,
            last_updated: self.last_seen,
        }
    }
}
