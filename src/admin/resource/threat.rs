//! A finding as it is shown: what it is, where, how sure, with its middle masked.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde::Serialize;
use utoipa::ToSchema;

use crate::policy::ruleset::Ruleset;
use crate::scan::kind::Kind;
use crate::scan::score::Evidence;
use crate::scan::score::risk_score;
use crate::scan::threat::Category;
use crate::scan::threat::Confidence;
use crate::scan::threat::DetectorSet;
use crate::scan::threat::Layer;

/// One threat.
#[derive(Serialize, ToSchema)]
pub struct Threat {
    /// `secrets`, `pii`, `injection`, `exfiltration` or `custom`.
    pub category: &'static str,
    /// The detector's name.
    #[serde(rename = "type")]
    pub detector: String,
    /// `critical`, `high`, `medium` or `low`.
    pub severity: &'static str,
    /// The pattern that matched.
    pub pattern: String,
    /// The matched text with its middle masked.
    pub redacted_match: String,
    /// The pack, its version and the detector.
    pub rule_id: String,
    /// The layer that fired.
    pub layer: &'static str,
    /// How sure the detector is, 0 to 1.
    pub confidence: f64,
    /// Where the value begins, in bytes of its text.
    pub start: usize,
    /// Where the value ends, in bytes of its text.
    pub end: usize,
    /// Technique ids (ATLAS, OWASP).
    pub techniques: Vec<String>,
    /// What had to be undone to see the match; absent for plain text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decoded_from: Option<String>,
}

/// Which threats are looked for; absent means true, but for names.
#[derive(Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScanOptions {
    /// Credentials of people and machines.
    pub scan_secrets: Option<bool>,
    /// Personal data.
    pub scan_pii: Option<bool>,
    /// Prompt injection and jailbreaks.
    pub scan_injection: Option<bool>,
    /// Names of people, addresses, places and organisations. Absent means: where the policy names them, and in a scan
    /// without a policy not at all.
    pub scan_names: Option<bool>,
}

impl ScanOptions {
    fn wants(self, category: Category) -> bool {
        let option = match category {
            Category::Secrets => self.scan_secrets,
            Category::Pii => self.scan_pii,
            Category::Injection => self.scan_injection,
            Category::Exfiltration | Category::Custom => None,
        };
        option.unwrap_or(true)
    }

    /// Returns the detectors and rules that these options ask for where no policy does.
    pub fn wanted(self, ruleset: &Ruleset) -> DetectorSet {
        self.chosen(ruleset, |_| false)
    }

    /// Returns the detectors and rules that these options leave to a policy.
    pub fn left(self, ruleset: &Ruleset) -> DetectorSet {
        self.chosen(ruleset, |category| self.wants(category))
    }

    fn chosen(self, ruleset: &Ruleset, wants_names: impl Fn(Category) -> bool) -> DetectorSet {
        let all = ruleset.all();
        let is_chosen = |id: &_| {
            ruleset.kind(*id).is_some_and(|kind| match ruleset.is_named_only(*id) {
                true => self.scan_names.unwrap_or_else(|| wants_names(kind.category)),
                false => self.wants(kind.category),
            })
        };
        all.iter().filter(is_chosen).collect()
    }
}

/// Returns what a finding weighs in the risk of its text.
pub fn evidence(kind: &Kind<'_>, confidence: Confidence) -> Evidence {
    Evidence { severity: kind.severity, confidence, category: kind.category }
}

/// Returns the risk of a text, 0 to 100.
pub fn risk(evidence: impl IntoIterator<Item = Evidence>) -> u8 {
    risk_score(evidence)
}

/// Returns the layers that fired, each once.
pub fn layers(layers: impl IntoIterator<Item = Layer>) -> Vec<&'static str> {
    let names: BTreeSet<&'static str> = layers.into_iter().map(Layer::as_str).collect();
    names.into_iter().collect()
}
