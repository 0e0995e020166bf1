//! Trust in agents: a score from what the gateway saw an agent do, explained factor by factor, and attested.
//!
//! In: one [`Act`] for each call of an agent whose certificate vouches for it; nothing that an agent says of itself, and
//! nothing that others say in its name. Out: scores, for an agent's life and for a session ([`Trust`]), and signed
//! attestations ([`attestation`]).
//!
//! | factor | weight | what moves it |
//! |---|---|---|
//! | `contract_compliance` | 0.40 | capabilities and calls that were granted against those that were denied ([`compliance`]) |
//! | `behavioral_anomaly` | 0.30 | sizes, rates, hours and tools against the agent's own baseline ([`behaviour`]) |
//! | `historical_incidents` | 0.20 | what was found in the agent's requests and stopped, fading with time ([`incidents`]) |
//! | `capability_drift` | 0.10 | how far the mix of capabilities moved from what it was ([`drift`]) |
//!
//! Every factor is from 0 to 1, and 1 is good. A new agent starts at [`NEUTRAL`] in each. Bad news count at once;
//! good ones only as far as the agent is known, and it becomes known by [`profile::CREDITS_PER_HOUR`] calls an hour at
//! most: nobody buys trust by a burst of harmless calls, nor drowns an incident in them.
//!
//! All is a function of acts and times; the clock is asked by [`Trust::run`] alone, and that by which all fades
//! ([`Trust::aged_by`]). What is kept is bounded.

pub mod attestation;
pub mod behaviour;
mod book;
pub mod compliance;
mod decay;
pub mod drift;
pub mod incidents;
pub mod profile;
mod session;
mod shelf;
mod statement;

use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;

pub use self::book::Trust;
pub use self::book::TrustConfig;
pub use self::book::TrustError;
pub use self::book::Turn;
pub use self::session::Listed;
pub use self::session::Session;
use crate::access::a2a::denial::Cause;
use crate::access::a2a::map;
use crate::policy::decision::Action;
use crate::scan::threat::Category;
use crate::scan::threat::Severity;

/// Where every factor of a new agent stands.
pub const NEUTRAL: f64 = 0.6;
/// From this score on an agent is trusted.
pub const TRUSTED_FROM: f64 = 75.0;
/// Below this score an agent is blocked, where that is enforced.
pub const BLOCKED_BELOW: f64 = 50.0;
/// The most agents that are known, as many as a capability map may have; past it the one that was silent longest is
/// forgotten, and one that is blocked only where all are.
pub const AGENTS_MAX: usize = map::AGENTS_MAX;
/// The most sessions that are listed at once, the newest.
pub const LISTED_MAX: usize = 10_000;
/// The longest name that is kept, of an agent, a capability or a tool, in bytes.
pub const NAME_BYTES_MAX: usize = 256;
/// The most reasons that are kept for a factor.
pub const REASONS_MAX: usize = 10;

/// What an agent did: one call.
#[derive(Clone, Debug, PartialEq)]
pub struct Act {
    /// When.
    pub at: Timestamp,
    /// The capability it asked for, where it can be named.
    pub capability: Option<String>,
    /// The tools it called.
    pub tools: Vec<String>,
    /// Why it was denied, in the contract's code; none: it was granted.
    pub denied: Option<&'static str>,
    /// What it was, where the code does not tell.
    pub cause: Option<Cause>,
    /// How much was said; none where the call was refused before its body was read: that tells nothing of the agent.
    pub sizes: Option<Sizes>,
    /// What was found in its request.
    pub findings: Vec<Found>,
}

/// How much was said in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The bytes of the request's body.
    pub request_bytes: u64,
    /// The bytes of the answer's body.
    pub response_bytes: u64,
}

/// Something that was found in an agent's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// What kind of harm it is about.
    pub category: Category,
    /// How bad it is.
    pub severity: Severity,
    /// What was done about it.
    pub action: Action,
}

/// What moved a factor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reason {
    /// When, where it was at one moment.
    pub at: Option<Timestamp>,
    /// What, in a sentence with its figures.
    pub text: String,
}

/// A value for each factor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Factors<T = f64> {
    /// Whether the agent keeps to what it was granted.
    pub contract_compliance: T,
    /// Whether it behaves as it always did.
    pub behavioral_anomaly: T,
    /// Whether its requests were harmless.
    pub historical_incidents: T,
    /// Whether it uses what it always used.
    pub capability_drift: T,
}

/// What the gateway thinks of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// It keeps to its contract, and is known well enough to say so.
    Trusted,
    /// It is new, or did what needs a look.
    Suspicious,
    /// It did what should stop it.
    Blocked,
}

/// A score, and what it was made of.
#[derive(Clone, Debug, PartialEq)]
pub struct TrustScore {
    /// Whose.
    pub agent_id: String,
    /// Of which session; none: of the agent's life.
    pub session_id: Option<String>,
    /// From 0 to 100.
    pub score: f64,
    /// What that means.
    pub verdict: Verdict,
    /// What it was made of.
    pub factors: Factors,
    /// What moved each factor.
    pub reasons: Factors<Vec<Reason>>,
    /// When the agent did something last.
    pub last_updated: Timestamp,
}

/// The weight of each factor.
pub const WEIGHTS: Factors = Factors {
    contract_compliance: 0.40,
    behavioral_anomaly: 0.30,
    historical_incidents: 0.20,
    capability_drift: 0.10,
};

impl Factors {
    /// Returns the score of these factors: 0 to 100, with one decimal.
    pub fn score(&self) -> f64 {
        let sum = self.contract_compliance * WEIGHTS.contract_compliance
            + self.behavioral_anomaly * WEIGHTS.behavioral_anomaly
            + self.historical_incidents * WEIGHTS.historical_incidents
            + self.capability_drift * WEIGHTS.capability_drift;
        (sum.clamp(0.0, 1.0) * 1000.0).round() / 10.0
    }

    /// Returns the factors as they are shown: with four decimals.
    pub fn rounded(self) -> Self {
        self.zip(self, |factor, _| (factor * 1e4).round() / 1e4)
    }
}

impl<T> Factors<T> {
    /// Returns one value for each factor, made of the values of two sets.
    pub fn zip<U, V>(self, other: Factors<U>, join: impl Fn(T, U) -> V) -> Factors<V> {
        Factors {
            contract_compliance: join(self.contract_compliance, other.contract_compliance),
            behavioral_anomaly: join(self.behavioral_anomaly, other.behavioral_anomaly),
            historical_incidents: join(self.historical_incidents, other.historical_incidents),
            capability_drift: join(self.capability_drift, other.capability_drift),
        }
    }
}

impl Verdict {
    /// Returns what a score means.
    pub fn of(score: f64) -> Self {
        match score {
            score if score >= TRUSTED_FROM => Self::Trusted,
            score if score >= BLOCKED_BELOW => Self::Suspicious,
            _ => Self::Blocked,
        }
    }

    /// Returns the name used in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trusted => "TRUSTED",
            Self::Suspicious => "SUSPICIOUS",
            Self::Blocked => "BLOCKED",
        }
    }
}

/// Keeps the newest reasons.
fn remember(reasons: &mut Vec<Reason>, at: Timestamp, text: String) {
    if reasons.len() >= REASONS_MAX {
        reasons.remove(0);
    }
    reasons.push(Reason { at: Some(at), text });
}

/// Returns a name cut to what is kept of it.
fn shortened(name: &str) -> &str {
    name.get(..name.floor_char_boundary(NAME_BYTES_MAX)).unwrap_or(name)
}

#[cfg(test)]
mod tests;
