//! What is recorded: an event as it happened, an entry as it stands in the log.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;

use crate::id::Ulid;
use crate::scan::threat::Category;
use crate::scan::threat::Severity;

use super::chain::Hash;

/// Something that happened, told by the edge where it did. The log adds its id, its time and its hashes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuditEvent {
    /// What happened, in snake_case, e.g. `exchange` or `key_created`.
    pub event_type: String,
    /// The gravest finding's category, where there is one; of several as grave as each other, that of one about which
    /// most was done.
    pub category: Option<Category>,
    /// The gravest finding's severity, where there is one: no finding has a higher one, whatever was done about it.
    pub severity: Option<Severity>,
    /// What was done about it, e.g. `allow`, `monitor`, `redact`, `block`.
    pub action: String,
    /// Who did it: a key's id or a caller's keyed hash, never a credential.
    pub actor: Option<String>,
    /// Whom or what it is about.
    pub entity: Option<String>,
    /// Whether a provider took the actor's credential, which makes a caller of a stranger. It is not written down.
    pub is_accepted: bool,
    /// The name of the route, or the path of a management call.
    pub route: Option<String>,
    /// The request it belongs to.
    pub request_id: Option<String>,
    /// One sentence for people; never content.
    pub message: String,
    /// What the scanner found.
    pub findings: Vec<AuditFinding>,
    /// Technique ids (ATLAS, OWASP) of all findings.
    pub techniques: Vec<String>,
    /// The id of the policy that decided.
    pub policy: Option<String>,
    /// What the shadow policy would have done, where that is something else.
    pub shadow: Option<AuditShadow>,
    /// The revision of the ruleset that decided.
    pub revision: Option<u64>,
    /// How long it took, in microseconds.
    pub latency_us: Option<u64>,
}

/// One finding, without the text that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditFinding {
    /// The detector's name.
    pub detector: String,
    /// Its category.
    pub category: Category,
    /// Its severity.
    pub severity: Severity,
    /// How sure it was, in percent.
    pub confidence: u8,
    /// What was done about this finding.
    pub action: String,
    /// The match with all but its edges masked.
    pub redacted: String,
}

/// What a shadow policy would have done; it is stored, and hashed, in this form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuditShadow {
    /// The id of the shadow policy.
    pub policy: String,
    /// The strictest action it would have taken.
    pub action: String,
    /// The findings about which it would have decided otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<AuditForeseen>,
}

/// What a shadow policy would have done about what a detector found; stored in this form, too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuditForeseen {
    /// The detector's name.
    pub detector: String,
    /// The strictest action it would have taken about it.
    pub action: String,
}

impl AuditEvent {
    /// Tells whether it is to be counted as something that was found. An answer that only begins to leave is not: its
    /// findings are told again at its end.
    pub fn is_alert(&self) -> bool {
        self.category.is_some()
    }

    /// Tells whether something of a category was found, be it the gravest finding or another one.
    pub fn found(&self, category: Category) -> bool {
        let is_other = || self.findings.iter().any(|finding| finding.category == category);
        self.is_alert() && (self.category == Some(category) || is_other())
    }
}

impl AuditShadow {
    /// Returns each detector with its action, for formats that have no lists: `github_token block, iban redact`.
    pub fn told(&self) -> String {
        let told = self.findings.iter().map(|found| format!("{} {}", found.detector, found.action));
        told.collect::<Vec<_>>().join(", ")
    }
}

/// An event in its place in the chain.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Whose journal it is from; `None`: this node's.
    pub node: Option<Arc<str>>,
    /// Rises from entry to entry of a node; holds the moment of recording in its first 48 bits, as long as the clock does
    /// not go back.
    pub id: Ulid,
    /// The moment of recording where the clock went back, and the id therefore tells a later one.
    pub recorded_unix_ms: Option<i64>,
    /// What happened.
    pub event: AuditEvent,
    /// SHA-256 over the previous hash and the entry's canonical bytes.
    pub hash: Hash,
    /// The hash of the entry before; all zero for the first one ever.
    pub previous_hash: Hash,
}

impl Entry {
    /// Returns the moment of recording, to the millisecond.
    pub fn timestamp(&self) -> Timestamp {
        let unix_ms = self.recorded_unix_ms.unwrap_or(self.id.unix_ms());
        Timestamp::from_millisecond(unix_ms).unwrap_or(Timestamp::MAX)
    }
}
