//! `/api/v1/detectors`: everything the running rules can find, with why and how.

use serde::Serialize;
use utoipa::ToSchema;

use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::policy::ruleset::Ruleset;
use crate::scan::threat::DetectorId;
use crate::scan::threat::Layer;

/// Detectors, kinds of models, and rules.
#[derive(Serialize, ToSchema)]
pub struct DetectorList {
    /// In the order of layers and packs.
    pub detectors: Vec<DetectorEntry>,
    /// How many.
    pub total: usize,
    /// The revision in force.
    pub revision: u64,
}

/// One thing that can be found.
#[derive(Serialize, ToSchema)]
pub struct DetectorEntry {
    /// Its name in findings.
    #[serde(rename = "type")]
    pub name: String,
    /// `secrets`, `pii`, `injection`, `exfiltration` or `custom`.
    pub category: &'static str,
    /// `critical`, `high`, `medium` or `low`.
    pub severity: &'static str,
    /// How sure it is on its own, 0 to 1.
    pub confidence: f64,
    /// `l1_regex` (a pattern), `l2_rules` (a condition over findings) or `l3_ml` (a model).
    pub layer: &'static str,
    /// The pattern or the condition as it is written, or the model's name.
    pub source: String,
    /// Ids of the techniques it is evidence of (MITRE ATLAS, OWASP).
    pub techniques: Vec<String>,
    /// Why it matters, in one sentence.
    pub why: String,
    /// The pack it comes from.
    pub pack: String,
    /// The version of that pack.
    pub pack_version: String,
}

/// `GET /api/v1/detectors`.
pub async fn list(call: Call) -> Answer {
    let ruleset = call.office.reloader.handle().load();
    let detectors: Vec<DetectorEntry> = ruleset.all().iter().filter_map(|id| entry(&ruleset, id)).collect();
    ok(&DetectorList { total: detectors.len(), detectors, revision: ruleset.revision })
}

fn entry(ruleset: &Ruleset, id: DetectorId) -> Option<DetectorEntry> {
    let kind = ruleset.kind(id)?;
    let layer = match (ruleset.scanner.detector(id), ruleset.layer2.rule(id)) {
        (Some(_), _) => Layer::L1Regex,
        (None, Some(_)) => Layer::L2Rules,
        (None, None) => Layer::L3Ml,
    };
    Some(DetectorEntry {
        name: kind.name.to_owned(),
        category: kind.category.as_str(),
        severity: kind.severity.as_str(),
        confidence: kind.confidence.as_unit(),
        layer: layer.as_str(),
        source: kind.source.to_owned(),
        techniques: kind.techniques.to_vec(),
        why: kind.why.to_owned(),
        pack: kind.pack.to_owned(),
        pack_version: kind.pack_version.to_owned(),
    })
}
