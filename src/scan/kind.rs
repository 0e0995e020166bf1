//! What a finding can be of: a detector, a model's kind or a rule, as policies, records and answers know it.

use crate::scan::classifier::card::Learned;
use crate::scan::detector::Detector;
use crate::scan::rule::Rule;
use crate::scan::threat::Category;
use crate::scan::threat::Confidence;
use crate::scan::threat::Severity;

/// What every detector, every kind of a model and every rule says of itself.
#[derive(Clone, Copy, Debug)]
pub struct Kind<'a> {
    /// Its type, in snake case, unique over detectors and rules.
    pub name: &'a str,
    /// What kind of harm it is about.
    pub category: Category,
    /// How bad a real finding is.
    pub severity: Severity,
    /// How sure it is on its own.
    pub confidence: Confidence,
    /// The pattern or the condition, as it was written.
    pub source: &'a str,
    /// Ids of the techniques it is evidence of (MITRE ATLAS, OWASP).
    pub techniques: &'a [String],
    /// Why it matters, in one sentence.
    pub why: &'a str,
    /// The pack it comes from.
    pub pack: &'a str,
    /// The version of that pack.
    pub pack_version: &'a str,
}

impl Kind<'_> {
    /// Returns the id by which it is found in its pack: `pack@version/name`.
    pub fn rule_id(&self) -> String {
        format!("{}@{}/{}", self.pack, self.pack_version, self.name)
    }
}

impl<'a> From<&'a Detector> for Kind<'a> {
    fn from(detector: &'a Detector) -> Self {
        Self {
            name: &detector.name,
            category: detector.category,
            severity: detector.severity,
            confidence: detector.confidence,
            source: detector.pattern.source(),
            techniques: &detector.techniques,
            why: &detector.why,
            pack: &detector.pack,
            pack_version: &detector.pack_version,
        }
    }
}

impl<'a> From<&'a Rule> for Kind<'a> {
    fn from(rule: &'a Rule) -> Self {
        Self {
            name: &rule.id,
            category: rule.category,
            severity: rule.severity,
            confidence: rule.confidence,
            source: rule.when.source(),
            techniques: &rule.techniques,
            why: &rule.why,
            pack: &rule.pack,
            pack_version: &rule.pack_version,
        }
    }
}

impl<'a> From<&'a Learned> for Kind<'a> {
    fn from(learned: &'a Learned) -> Self {
        Self {
            name: &learned.name,
            category: learned.category,
            severity: learned.severity,
            confidence: Confidence::HIGH,
            source: &learned.model,
            techniques: &learned.techniques,
            why: &learned.why,
            pack: &learned.model,
            pack_version: &learned.version,
        }
    }
}
