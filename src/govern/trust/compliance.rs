//! Whether an agent keeps to what it was granted: calls that passed the guardrails against calls that did not.
//!
//! Each denial weighs by what it says of the agent: a wrong signature or somebody else's capability much, a rate
//! that was exceeded little, and what the gateway alone cannot tell nothing. Both sides fade with [`HALF_LIFE_S`], and a
//! few granted calls are taken for granted, so that one slip at the beginning does not condemn anybody.

use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;

use super::Act;
use super::Reason;
use super::decay::Decayed;
use super::remember;
use crate::access::a2a::denial::Cause;

/// After so long a call counts half.
pub const HALF_LIFE_S: f64 = 7.0 * 86_400.0;
/// Granted calls that everybody is given at the beginning.
const GIVEN: f64 = 5.0;

/// How heavy a denial weighs for one of these causes, whatever its code: clocks that differ are no attack, and what the
/// gateway does not know is not the agent's doing.
const CAUSES: &[(Cause, f64)] = &[
    (Cause::Forgotten, 0.0),
    (Cause::Stale, 0.25),
    (Cause::Unremembered, 0.25),
    (Cause::Untimed, 0.25),
    (Cause::Untold, 0.0),
    (Cause::Unverifiable, 0.0),
];

/// How heavy a denial weighs, against one granted call.
const WEIGHTS: &[(&str, f64)] = &[
    ("A2A_CAP_DENIED", 3.0),
    ("A2A_CAP_MISSING", 1.0),
    ("A2A_INTEGRITY_INVALID", 5.0),
    ("A2A_INTEGRITY_MALFORMED", 2.0),
    ("A2A_INTEGRITY_MISSING", 2.0),
    ("A2A_LICENSE_INVALID", 2.0),
    ("A2A_LICENSE_MISSING", 1.0),
    ("A2A_RATE_LIMITED", 0.25),
];

/// The calls of an agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Compliance {
    granted: Decayed,
    denied: Decayed,
    reasons: Vec<Reason>,
}

impl Compliance {
    /// Takes one call into account; what was before it fades up to a moment.
    pub fn observe(&mut self, act: &Act, fades_to: Timestamp) {
        let Some(code) = act.denied else { return self.granted.add(1.0, HALF_LIFE_S, fades_to) };
        let weight = weight(code, act.cause);
        if weight > 0.0 {
            self.denied.add(weight, HALF_LIFE_S, fades_to);
            let asked = act.capability.as_deref().unwrap_or("no capability that can be named");
            let why = act.cause.map_or(String::new(), |cause| format!(": {}", cause.as_str()));
            remember(&mut self.reasons, act.at, format!("denied with {code}, asking for {asked}{why}"));
        }
    }

    /// Returns the factor, and what moved it.
    pub fn factor(&self, now: Timestamp) -> (f64, Vec<Reason>) {
        let (granted, denied) = (self.granted.at(HALF_LIFE_S, now), self.denied.at(HALF_LIFE_S, now));
        let sums = format!("granted calls weigh {granted:.1}, denied ones {denied:.1} (half-life 7 days)");
        let mut reasons = vec![Reason { at: None, text: sums }];
        reasons.extend(self.reasons.iter().rev().cloned());
        ((granted + GIVEN) / (granted + GIVEN + denied), reasons)
    }
}

/// Returns how heavy a denial weighs; what is the gateway's own fault, or was not said by the agent, weighs nothing.
fn weight(code: &str, cause: Option<Cause>) -> f64 {
    if let Some((_, weight)) = CAUSES.iter().find(|(known, _)| Some(*known) == cause) {
        return *weight;
    }
    WEIGHTS.iter().find(|(known, _)| *known == code).map_or(0.0, |(_, weight)| *weight)
}
