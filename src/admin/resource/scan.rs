//! `/v1/scan`: the threats in a text, whatever the policies think of them.
//!
//! Every detector looks, but those that `[detectors] disabled` switches off; allow-lists are a matter of
//! policies and do not count here.

use std::time::Duration;

use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::threat;
use super::threat::ScanOptions;
use super::threat::Threat;
use super::wire::object;
use crate::admin::Office;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::admin::error::ApiError;
use crate::govern::audit::AuditEvent;
use crate::govern::audit::AuditFinding;
use crate::llm::dialect::Channel;
use crate::policy::decision::Action;
use crate::policy::decision::Direction;
use crate::policy::inspect::layer3;
use crate::policy::inspect::names;
use crate::policy::ruleset::Ruleset;
use crate::redact::mask::sample;
use crate::scan::classifier::Unjudged;
use crate::scan::kind::Kind;
use crate::scan::spelling::Searched;
use crate::scan::threat::Confidence;
use crate::scan::threat::DetectorSet;
use crate::scan::threat::Finding;

/// The most findings that one audit entry names; its message tells how many there were.
pub const RECORDED_FINDINGS_MAX: usize = 100;

/// A text to scan.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScanRequest {
    /// The text.
    pub content: String,
    /// Which threats are looked for.
    #[serde(default, deserialize_with = "object")]
    pub options: ScanOptions,
}

/// The threats in a text.
#[derive(Serialize, ToSchema)]
pub struct ScanResult {
    /// Every threat, in the order of the text.
    pub threats: Vec<Threat>,
    /// 0 (nothing found) to 100.
    pub risk_score: u8,
    /// How long the scan took, in milliseconds.
    pub scan_time_ms: f64,
    /// The layers that fired: `l1_regex`, `l2_rules`, `l3_ml`.
    pub layers_triggered: Vec<&'static str>,
}

/// What a scan tells the caller, and what it tells the audit log.
struct Scanned {
    result: ScanResult,
    record: Findings,
    /// Whether all of it was judged: what was found is recorded either way, and is no answer where more may be there.
    judged: Result<(), Unjudged>,
}

/// What was found, as the audit log keeps it.
#[derive(Default)]
pub struct Findings {
    /// Every finding.
    pub all: Vec<AuditFinding>,
    /// The techniques of all findings.
    pub techniques: Vec<String>,
}

/// `POST /v1/scan`.
pub async fn scan(call: Call) -> Answer {
    let request: ScanRequest = call.json()?;
    let office = call.office.clone();
    let ruleset = office.reloader.handle().load();
    ensure_inspectable(&ruleset, request.content.len())?;
    let wanted = enabled(&office, &ruleset, request.options);
    let (revision, scan_ms) = (ruleset.revision, ruleset.limits.scan_ms);
    let scanning = {
        let office = office.clone();
        tokio::task::spawn_blocking(move || run(&office, &ruleset, &request.content, &wanted))
    };
    let Scanned { result, record, judged } = scanning.await.map_err(|_| office.panicked())??;
    record.note(&call, "scan", Action::Monitor, revision, None).await?;
    judged.map_err(|unjudged| match unjudged {
        Unjudged::Late => ApiError::Late(scan_ms),
        Unjudged::Failed => ApiError::Unjudged(unjudged),
    })?;
    ok(&result)
}

/// Refuses content that is longer than what is inspected.
///
/// # Errors
/// It is.
pub fn ensure_inspectable(ruleset: &Ruleset, bytes: usize) -> Result<(), ApiError> {
    let limit = ruleset.limits.max_inspect_bytes;
    if bytes > limit { Err(ApiError::TooLarge(limit)) } else { Ok(()) }
}

/// Returns the detectors that are asked for and not switched off for all.
fn enabled(office: &Office, ruleset: &Ruleset, options: ScanOptions) -> DetectorSet {
    let current = office.reloader.current();
    let disabled = current.document.root().get("detectors").and_then(|table| table.get("disabled"));
    let disabled: Vec<&str> =
        disabled.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let is_on = |id: &_| ruleset.kind(*id).is_some_and(|known| !disabled.contains(&known.name));
    options.wanted(ruleset).iter().filter(is_on).collect()
}

/// Scans a text. Blocks for as long as that takes.
fn run(office: &Office, ruleset: &Ruleset, content: &str, wanted: &DetectorSet) -> Result<Scanned, ApiError> {
    let began = office.clock.monotonic();
    let deadline = began + Duration::from_millis(ruleset.limits.scan_ms);
    let expired = || office.clock.monotonic() >= deadline;
    let mut judged = Ok(());
    let searched = ruleset.scanner.scan_spelt(content.as_bytes(), wanted);
    let findings = searched.map(|Searched { mut findings, spellings }| {
        let judge = layer3::Judge { ruleset, wanted, trial: None, expired: &expired };
        let of_person = (Direction::Request, Channel::User);
        judged = layer3::find(judge, content.as_bytes(), of_person, spellings, &mut findings);
        let named = names::find(ruleset, wanted, content.as_bytes(), Channel::User, &expired);
        if named.is_err() {
            judged = Err(Unjudged::Late);
        }
        findings.extend(named.unwrap_or_default());
        let of_rules = ruleset.layer2.over(content.as_bytes(), &findings, wanted);
        findings.extend(of_rules);
        if expired() {
            judged = Err(Unjudged::Late);
        }
        findings
    });
    let took = office.clock.monotonic().saturating_sub(began);
    office.telemetry.metrics.scanned(took);
    let findings = findings.map_err(|fault| ApiError::Unreadable(fault.to_string()))?;
    let found = || findings.iter().filter_map(|one| Some((one, ruleset.kind(one.detector)?)));
    let mut record = Findings::default();
    for (finding, kind) in found() {
        record.push(office, &kind, finding.confidence, Action::Monitor, sample_of(content, finding));
    }
    let result = ScanResult {
        threats: found().map(|(finding, kind)| show(content, finding, &kind)).collect(),
        risk_score: threat::risk(found().map(|(finding, kind)| threat::evidence(&kind, finding.confidence))),
        scan_time_ms: took.as_micros() as f64 / 1000.0,
        layers_triggered: threat::layers(findings.iter().map(|finding| finding.layer)),
    };
    Ok(Scanned { result, record, judged })
}

fn show(content: &str, finding: &Finding, kind: &Kind<'_>) -> Threat {
    Threat {
        category: kind.category.as_str(),
        detector: kind.name.to_owned(),
        severity: kind.severity.as_str(),
        pattern: kind.source.to_owned(),
        redacted_match: sample_of(content, finding),
        rule_id: kind.rule_id(),
        layer: finding.layer.as_str(),
        confidence: finding.confidence.as_unit(),
        start: finding.value.start,
        end: finding.value.end,
        techniques: kind.techniques.to_vec(),
        decoded_from: (!finding.decoded_from.0.is_empty()).then(|| finding.decoded_from.to_string()),
    }
}

fn sample_of(content: &str, finding: &Finding) -> String {
    sample(content.as_bytes().get(finding.value.clone()).unwrap_or_default())
}

impl Findings {
    /// Adds a finding, and counts it.
    pub fn push(
        &mut self,
        office: &Office,
        kind: &Kind<'_>,
        confidence: Confidence,
        action: Action,
        redacted: String,
    ) {
        let (category, severity) = (kind.category, kind.severity);
        office.telemetry.metrics.detected(category.as_str(), severity.as_str(), action.as_str());
        for technique in kind.techniques {
            if !self.techniques.contains(technique) {
                self.techniques.push(technique.clone());
            }
        }
        self.all.push(AuditFinding {
            detector: kind.name.to_owned(),
            category,
            severity,
            confidence: (confidence.as_unit() * 100.0).round() as u8,
            action: action.as_str().to_owned(),
            redacted,
        });
    }

    /// Tells the audit log what a call found; nothing where nothing was found.
    ///
    /// # Errors
    /// It could not be recorded, and nobody said that answers go on without it.
    pub async fn note(
        mut self,
        call: &Call,
        event_type: &str,
        action: Action,
        revision: u64,
        policy: Option<String>,
    ) -> Result<(), ApiError> {
        let count = self.all.len();
        let Some(gravest) = self.all.iter().max_by_key(|found| found.severity) else { return Ok(()) };
        let (category, severity) = (Some(gravest.category), Some(gravest.severity));
        self.all.truncate(RECORDED_FINDINGS_MAX);
        let event = AuditEvent {
            category,
            severity,
            action: action.as_str().to_owned(),
            findings: self.all,
            techniques: self.techniques,
            policy,
            revision: Some(revision),
            ..call
                .event(event_type, format!("{count} threats found in content that was sent to be looked at"))
        };
        let Err(error) = call.office.recorder.record(event).await else { return Ok(()) };
        tracing::error!(%error, "a scan could not be recorded in the audit log");
        if call.office.facts.without_record { Ok(()) } else { Err(ApiError::Unavailable) }
    }
}
