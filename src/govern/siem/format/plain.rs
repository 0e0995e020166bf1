//! An entry as the management API shows it.

use serde::Serialize;

use crate::clock::rfc3339;
use crate::govern::audit::AuditFinding;
use crate::govern::audit::AuditShadow;
use crate::govern::audit::Entry;

/// An entry in JSON, with the API's names.
#[derive(Serialize)]
pub(in crate::govern::siem) struct Plain<'a> {
    id: String,
    timestamp: String,
    event_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    category: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    severity: Option<&'static str>,
    action: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entity: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    route: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    message: &'a str,
    findings: Vec<PlainFinding<'a>>,
    /// How many findings there are, where they are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    findings_omitted: Option<usize>,
    techniques: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shadow: Option<PlainShadow<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_ms: Option<f64>,
    hash: String,
    previous_hash: String,
}

/// What a shadow policy would have done.
#[derive(Serialize)]
pub(in crate::govern::siem) struct PlainShadow<'a> {
    policy: &'a str,
    action: &'a str,
    findings: Vec<PlainForeseen<'a>>,
}

#[derive(Serialize)]
struct PlainForeseen<'a> {
    #[serde(rename = "type")]
    detector: &'a str,
    action: &'a str,
}

/// One finding, redacted.
#[derive(Serialize)]
pub(in crate::govern::siem) struct PlainFinding<'a> {
    #[serde(rename = "type")]
    detector: &'a str,
    category: &'static str,
    severity: &'static str,
    confidence: f64,
    action: &'a str,
    redacted_match: &'a str,
}

impl<'a> Plain<'a> {
    /// Returns an entry with all its findings.
    pub(in crate::govern::siem) fn of(entry: &'a Entry) -> Self {
        let event = &entry.event;
        Self {
            id: entry.id.to_string(),
            timestamp: rfc3339(entry.timestamp()),
            event_type: &event.event_type,
            category: event.category.map(|category| category.as_str()),
            severity: event.severity.map(|severity| severity.as_str()),
            action: &event.action,
            actor: event.actor.as_deref(),
            entity: event.entity.as_deref(),
            route: event.route.as_deref(),
            request_id: event.request_id.as_deref(),
            message: &event.message,
            findings: event.findings.iter().map(finding).collect(),
            findings_omitted: None,
            techniques: &event.techniques,
            policy: event.policy.as_deref(),
            shadow: event.shadow.as_ref().map(shadow),
            revision: event.revision,
            latency_ms: event.latency_us.map(|latency| latency as f64 / 1000.0),
            hash: entry.hash.to_string(),
            previous_hash: entry.previous_hash.to_string(),
        }
    }

    /// Returns it without its findings, for receivers that take no long messages.
    pub(in crate::govern::siem) fn brief(entry: &'a Entry) -> Self {
        Self { findings: Vec::new(), findings_omitted: Some(entry.event.findings.len()), ..Self::of(entry) }
    }
}

/// Returns what a shadow policy would have done in JSON's names.
pub(in crate::govern::siem) fn shadow(shadow: &AuditShadow) -> PlainShadow<'_> {
    let findings = shadow.findings.iter();
    PlainShadow {
        policy: &shadow.policy,
        action: &shadow.action,
        findings: findings.map(|it| PlainForeseen { detector: &it.detector, action: &it.action }).collect(),
    }
}

/// Returns a finding in JSON's names.
pub(in crate::govern::siem) fn finding(finding: &AuditFinding) -> PlainFinding<'_> {
    PlainFinding {
        detector: &finding.detector,
        category: finding.category.as_str(),
        severity: finding.severity.as_str(),
        confidence: f64::from(finding.confidence) / 100.0,
        action: &finding.action,
        redacted_match: &finding.redacted,
    }
}
