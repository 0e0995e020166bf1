//! Events of the Open Cybersecurity Schema Framework 1.8.0.
//!
//! What the scanner found is a Detection Finding (class 2004) with the profile `security_control`; everything else
//! is API Activity (class 6003). Source: schema.ocsf.io, 1.8.0.

use serde_json::Value;
use serde_json::json;

use super::Deed;
use super::PRODUCT;
use super::Teller;
use super::detectors;
use super::has_failed;
use super::plain::finding;
use super::plain::shadow;
use crate::govern::audit::Entry;
use crate::scan::threat::Severity;

const OCSF_VERSION: &str = "1.8.0";
const FINDINGS: u32 = 2;
const DETECTION_FINDING: u32 = 2004;
const CREATE: u32 = 1;
const APPLICATION_ACTIVITY: u32 = 6;
const API_ACTIVITY: u32 = 6003;
const READ: u32 = 2;
const UPDATE: u32 = 3;
const DELETE: u32 = 4;
const OTHER: u32 = 99;
const SUCCESS: u32 = 1;
const FAILURE: u32 = 2;
/// Types of events are numbered by class and activity.
const TYPES_PER_CLASS: u32 = 100;
/// What stands for a caller that nobody named.
const NOBODY: &str = "unknown";

/// Returns an entry as an event.
pub(in crate::govern::siem) fn event(entry: &Entry, teller: &Teller) -> Value {
    match entry.event.is_alert() {
        true => detection(entry, teller),
        false => activity(entry, teller),
    }
}

fn detection(entry: &Entry, teller: &Teller) -> Value {
    let event = &entry.event;
    let (action_id, disposition_id) = control(&event.action);
    let names = detectors(entry);
    json!({
        "category_uid": FINDINGS,
        "class_uid": DETECTION_FINDING,
        "activity_id": CREATE,
        "type_uid": DETECTION_FINDING * TYPES_PER_CLASS + CREATE,
        "severity_id": severity(entry),
        "time": entry.timestamp().as_millisecond(),
        "message": event.message,
        "metadata": metadata(entry, teller, &["security_control"]),
        "finding_info": {"uid": entry.id.to_string(), "title": names.join(", "), "types": names},
        "is_alert": action_id == 2 || event.severity >= Some(Severity::High),
        "action_id": action_id,
        "disposition_id": disposition_id,
        "actor": actor(entry),
        "evidences": event.findings.iter().map(|it| json!({"data": finding(it)})).collect::<Vec<_>>(),
        "unmapped": unmapped(entry),
    })
}

fn activity(entry: &Entry, teller: &Teller) -> Value {
    let event = &entry.event;
    let activity = match Deed::of(&event.event_type) {
        Deed::Created => CREATE,
        Deed::Read => READ,
        Deed::Changed => UPDATE,
        Deed::Deleted => DELETE,
        Deed::Other => OTHER,
    };
    json!({
        "category_uid": APPLICATION_ACTIVITY,
        "class_uid": API_ACTIVITY,
        "activity_id": activity,
        "type_uid": API_ACTIVITY * TYPES_PER_CLASS + activity,
        "status_id": if has_failed(entry) { FAILURE } else { SUCCESS },
        "severity_id": severity(entry),
        "time": entry.timestamp().as_millisecond(),
        "message": event.message,
        "metadata": metadata(entry, teller, &[]),
        "actor": actor(entry),
        "api": {"operation": event.event_type, "request": {"uid": event.request_id.as_deref().unwrap_or(NOBODY)}},
        "src_endpoint": {"uid": event.actor.as_deref().unwrap_or(NOBODY)},
        "unmapped": unmapped(entry),
    })
}

fn metadata(entry: &Entry, teller: &Teller, profiles: &[&str]) -> Value {
    json!({
        "version": OCSF_VERSION,
        "uid": entry.id.to_string(),
        "profiles": profiles,
        "log_name": "audit",
        "logger": {"uid": teller.node},
        "product": {"name": PRODUCT, "vendor_name": PRODUCT, "version": teller.version},
    })
}

fn actor(entry: &Entry) -> Value {
    json!({"user": {"uid": entry.event.actor.as_deref().unwrap_or(NOBODY)}})
}

/// What the schema has no place for.
fn unmapped(entry: &Entry) -> Value {
    let event = &entry.event;
    json!({
        "event_type": event.event_type, "action": event.action, "route": event.route, "entity": event.entity,
        "policy": event.policy, "shadow": event.shadow.as_ref().map(shadow), "revision": event.revision, "techniques": event.techniques,
        "latency_ms": event.latency_us.map(|us| us as f64 / 1000.0),
        "hash": entry.hash.to_string(), "previous_hash": entry.previous_hash.to_string(),
    })
}

/// Returns `action_id` and `disposition_id` of the profile `security_control`.
fn control(action: &str) -> (u32, u32) {
    match action {
        "allow" => (1, 1),
        "block" => (2, 2),
        "redact" => (4, 11),
        _ => (3, 17),
    }
}

fn severity(entry: &Entry) -> u32 {
    match entry.event.severity {
        None => 1,
        Some(Severity::Low) => 2,
        Some(Severity::Medium) => 3,
        Some(Severity::High) => 4,
        Some(Severity::Critical) => 5,
    }
}
