//! Entries for the tests of this folder.

use crate::id::Ulid;
use crate::scan::threat::Category;
use crate::scan::threat::Severity;

use super::chain::Hash;
use super::event::AuditEvent;
use super::event::AuditFinding;
use super::event::Entry;
use super::stored;

/// Returns an event that is all its own by number.
pub(super) fn event(number: usize) -> AuditEvent {
    let (category, severity) = (Category::ALL[number % 5], Severity::ALL[number / 5 % 4]);
    AuditEvent {
        event_type: if number % 7 == 6 { "key_created".into() } else { "exchange".into() },
        category: Some(category),
        severity: Some(severity),
        action: "block".into(),
        actor: Some("key-1".into()),
        entity: Some(format!("user-{}", number % 10)),
        route: Some("chat".into()),
        request_id: Some(format!("r-{number}")),
        message: format!("event {number}"),
        findings: vec![AuditFinding {
            detector: "github_token".into(),
            category,
            severity,
            confidence: 90,
            action: "block".into(),
            redacted: "gh…yz".into(),
        }],
        techniques: vec!["AML.T0057".into()],
        policy: Some("default".into()),
        revision: Some(3),
        latency_us: Some(1500),
    }
}

/// Returns a valid chain of entries.
pub(super) fn chain(length: usize) -> Vec<Entry> {
    let mut previous_hash = Hash::default();
    let mut link = |number: usize| {
        let (id, event) = (Ulid(number as u128 + 1), event(number));
        let hash = Hash::of(previous_hash, &stored::canonical(id, &event));
        let entry = Entry { id, event, hash, previous_hash };
        previous_hash = hash;
        entry
    };
    (0..length).map(&mut link).collect()
}
