//! Entries for the tests of this folder.

use std::sync::Arc;

use crate::access::keyring::Keyring;
use crate::id::Ulid;
use crate::scan::threat::Category;
use crate::scan::threat::Severity;

use super::chain::ChainCheck;
use super::chain::ChainFault;
use super::chain::Hash;
use super::event::AuditEvent;
use super::event::AuditFinding;
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
        is_accepted: false,
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
        shadow: None,
        revision: Some(3),
        latency_us: Some(1500),
    }
}

/// Returns a keyring on a file that goes with it.
pub(super) fn keyring() -> Arc<Keyring> {
    let folder = tempfile::tempdir().unwrap();
    // The file lives on without its name.
    Arc::new(Keyring::open(&folder.path().join("keys")).unwrap())
}

/// A link of a chain.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) id: Ulid,
    pub(super) hash: Hash,
    pub(super) previous_hash: Hash,
    pub(super) canonical: Vec<u8>,
}

impl Link {
    /// Shows the link to a check.
    pub(super) fn check(&self, check: &mut ChainCheck) -> Result<(), ChainFault> {
        check.push(self.id, self.previous_hash, self.hash, &self.canonical)
    }
}

/// Returns a valid chain of entries.
pub(super) fn chain(length: usize) -> Vec<Link> {
    let (mut previous_hash, keyring) = (Hash::default(), keyring());
    let mut link = |number: usize| {
        let (id, mut canonical) = (Ulid(number as u128 + 1), Vec::new());
        stored::push_canonical(id, &stored::body(&event(number), &keyring), &mut canonical);
        let hash = Hash::of(previous_hash, &canonical);
        let link = Link { id, hash, previous_hash, canonical };
        previous_hash = hash;
        link
    };
    (0..length).map(&mut link).collect()
}
