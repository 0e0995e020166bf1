//! What an attestation says.

use jiff::Timestamp;
use serde::Serialize;

use super::Factors;
use super::TrustScore;
use super::profile::Profile;

/// A statement about an agent.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Statement {
    /// Where it stands.
    TrustScore {
        /// From 0 to 100.
        score: f64,
        /// `TRUSTED`, `SUSPICIOUS` or `BLOCKED`.
        verdict: &'static str,
        /// What the score was made of.
        factors: Factors,
    },
    /// What it rests on.
    Observations {
        /// When the agent was seen first.
        first_seen: Timestamp,
        /// When it was seen last.
        last_seen: Timestamp,
        /// How many calls were seen.
        calls: u64,
        /// How many of them were incidents.
        incidents: u64,
    },
}

impl Statement {
    /// Returns what there is to say of an agent.
    pub(super) fn all(score: &TrustScore, profile: &Profile) -> Vec<Self> {
        vec![
            Self::TrustScore {
                score: score.score,
                verdict: score.verdict.as_str(),
                factors: score.factors.rounded(),
            },
            Self::Observations {
                first_seen: profile.first_seen,
                last_seen: profile.last_seen,
                calls: profile.track.acts(),
                incidents: profile.track.incidents(),
            },
        ]
    }
}
