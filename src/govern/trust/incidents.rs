//! What was found in an agent's requests and stopped.
//!
//! What was blocked counts by its severity; what was redacted counts half, personal data excepted, which ordinary
//! work is full of; what was only monitored does not count. One call counts for its worst finding. Incidents fade
//! with [`HALF_LIFE_S`].

use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;

use super::Act;
use super::Found;
use super::Reason;
use super::decay::Decayed;
use super::remember;
use crate::policy::decision::Action;
use crate::scan::threat::Category;
use crate::scan::threat::Severity;

/// After so long an incident counts half.
pub const HALF_LIFE_S: f64 = 14.0 * 86_400.0;
/// Incidents of this weight leave 1/e of the factor.
const SCALE: f64 = 2.0;

/// The incidents of an agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Incidents {
    weight: Decayed,
    count: u64,
    reasons: Vec<Reason>,
}

impl Incidents {
    /// Takes one call into account; what was before it fades up to a moment.
    pub fn observe(&mut self, act: &Act, fades_to: Timestamp) {
        let worst = act.findings.iter().max_by(|one, other| weight(one).total_cmp(&weight(other)));
        let Some(worst) = worst.filter(|found| weight(found) > 0.0) else { return };
        self.weight.add(weight(worst), HALF_LIFE_S, fades_to);
        self.count += 1;
        let (severity, category) = (worst.severity.as_str(), worst.category.as_str());
        let text = format!("{category} of {severity} severity in a request, {}", worst.action.as_str());
        remember(&mut self.reasons, act.at, text);
    }

    /// Returns how many there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the factor, and what moved it.
    pub fn factor(&self, now: Timestamp) -> (f64, Vec<Reason>) {
        let weight = self.weight.at(HALF_LIFE_S, now);
        let text = format!("{} incidents weigh {weight:.2} (half-life 14 days)", self.count);
        let mut reasons = vec![Reason { at: None, text }];
        reasons.extend(self.reasons.iter().rev().cloned());
        ((-weight / SCALE).exp(), reasons)
    }
}

fn weight(found: &Found) -> f64 {
    let severity = match found.severity {
        Severity::Critical => 1.0,
        Severity::High => 0.5,
        Severity::Medium => 0.2,
        Severity::Low => 0.05,
    };
    match found.action {
        Action::Block => severity,
        Action::Redact if found.category != Category::Pii => severity / 2.0,
        Action::Redact | Action::Monitor | Action::Allow => 0.0,
    }
}
