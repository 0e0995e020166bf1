//! An audit entry in the words of each platform.

pub(super) mod cef;
pub(super) mod ecs;
pub(super) mod hec;
pub(super) mod leef;
pub(super) mod ocsf;
pub(super) mod plain;
pub(super) mod syslog;

use crate::govern::audit::Entry;
use crate::scan::threat::Severity;

/// Who tells: the same in every message of a process.
#[derive(Clone, Debug)]
pub(super) struct Teller {
    /// The release.
    pub(super) version: String,
    /// The node's name.
    pub(super) node: String,
}

/// The product's name in headers.
const PRODUCT: &str = "Portcullis";

/// Returns a severity on a scale of 0 (nothing was found) to 10.
fn out_of_ten(entry: &Entry) -> u8 {
    match entry.event.severity {
        None => 0,
        Some(Severity::Low) => 3,
        Some(Severity::Medium) => 5,
        Some(Severity::High) => 8,
        Some(Severity::Critical) => 10,
    }
}

/// What a call did to what it was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Created,
    Read,
    Changed,
    Deleted,
    Other,
}

impl Deed {
    /// Returns what the name of an event's type tells: its last word says it.
    fn of(event_type: &str) -> Self {
        match event_type.rsplit('_').next() {
            Some("created" | "taken") => Self::Created,
            Some("exported") => Self::Read,
            Some("changed" | "rotated" | "applied" | "reloaded" | "started" | "stopped" | "archived") => {
                Self::Changed
            }
            Some("deleted" | "removed" | "revoked" | "released" | "erased") => Self::Deleted,
            _ => Self::Other,
        }
    }
}

/// Tells whether what was tried did not come about: it was refused, or broke off.
fn has_failed(entry: &Entry) -> bool {
    let event = &entry.event;
    let last_word = event.event_type.rsplit('_').next().unwrap_or_default();
    event.action == "block" || matches!(last_word, "failed" | "denied" | "refused" | "blocked")
}

/// Returns the names of the detectors that found something, each once.
fn detectors(entry: &Entry) -> Vec<&str> {
    let mut names: Vec<&str> = entry.event.findings.iter().map(|finding| finding.detector.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;

    use super::*;
    use crate::govern::audit::AuditEvent;
    use crate::id::Ulid;
    use crate::scan::threat::Category;

    fn entry(event_type: &str, action: &str, category: Option<Category>) -> Entry {
        let event = AuditEvent {
            event_type: event_type.to_owned(),
            action: action.to_owned(),
            category,
            ..AuditEvent::default()
        };
        let (hash, previous_hash) = Default::default();
        Entry { node: None, id: Ulid(1), recorded_unix_ms: None, event, hash, previous_hash }
    }

    fn teller() -> Teller {
        Teller { version: "0".to_owned(), node: "node".to_owned() }
    }

    fn ecs_of(entry: &Entry) -> Value {
        let body = ecs::bulk(&[entry], "index", &teller()).unwrap();
        let line = body.split(|byte| *byte == b'\n').nth(1).unwrap();
        let event = &serde_json::from_slice::<Value>(line).unwrap()["event"];
        json!([event["kind"], event["category"][0], event["type"], event["outcome"]])
    }

    #[test]
    fn what_failed_arrives_as_a_failure_and_under_its_own_name() {
        let cases = [
            ("login", "allow", json!(["event", "authentication", ["start"], "success"]), (99, 1)),
            ("login_failed", "block", json!(["event", "authentication", ["start"], "failure"]), (99, 2)),
            ("logout", "allow", json!(["event", "authentication", ["end"], "success"]), (99, 1)),
            ("session_revoked", "allow", json!(["event", "session", ["end"], "success"]), (4, 1)),
            ("access_denied", "block", json!(["event", "api", ["access", "denied"], "failure"]), (99, 2)),
            ("exchange", "redact", json!(["event", "api", ["allowed"], "success"]), (99, 1)),
            ("exchange", "block", json!(["event", "api", ["denied"], "failure"]), (99, 2)),
            ("exchange_begun", "allow", json!(["event", "api", ["start"], "success"]), (99, 1)),
            ("a2a_granted", "allow", json!(["event", "api", ["allowed"], "success"]), (99, 1)),
            ("a2a_denied", "block", json!(["event", "api", ["denied"], "failure"]), (99, 2)),
            ("key_created", "allow", json!(["event", "iam", ["creation"], "success"]), (1, 1)),
            ("user_deleted", "allow", json!(["event", "iam", ["deletion"], "success"]), (4, 1)),
            ("policy_changed", "allow", json!(["event", "configuration", ["change"], "success"]), (3, 1)),
            ("config_refused", "block", json!(["event", "configuration", ["info"], "failure"]), (99, 2)),
            ("erasure_failed", "block", json!(["event", "configuration", ["info"], "failure"]), (99, 2)),
            ("audit_exported", "allow", json!(["event", "configuration", ["access"], "success"]), (2, 1)),
        ];
        for (event_type, action, expected, activity) in cases {
            let entry = entry(event_type, action, None);
            assert_eq!(ecs_of(&entry), expected, "{event_type}");
            let told = ocsf::event(&entry, &teller());
            let found = (&told["activity_id"], &told["status_id"]);
            assert_eq!(found, (&json!(activity.0), &json!(activity.1)), "{event_type}");
        }
    }

    #[test]
    fn a_finding_is_an_alert_whatever_was_done_about_it() {
        for (action, kind, outcome) in
            [("block", "denied", "failure"), ("redact", "info", "success"), ("allow", "allowed", "success")]
        {
            let entry = entry("exchange", action, Some(Category::Secrets));
            assert_eq!(ecs_of(&entry), json!(["alert", "intrusion_detection", [kind], outcome]));
            // In this class it would tell how far somebody has got with the finding.
            assert_eq!(ocsf::event(&entry, &teller())["status_id"], Value::Null);
        }
    }
}
