//! What is recorded: an event as it happened, an entry as it stands in the log.

use std::sync::Arc;

use jiff::Timestamp;

use crate::id::Ulid;
use crate::scan::threat::Category;
use crate::scan::threat::Severity;

use super::chain::Hash;

/// Something that happened, told by the edge where it did. The log adds its id, its time and its hashes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuditEvent {
    /// What happened, in snake_case, e.g. `exchange` or `key_created`.
    pub event_type: String,
    /// The gravest finding's category, where there is one.
    pub category: Option<Category>,
    /// The gravest finding's severity, where there is one.
    pub severity: Option<Severity>,
    /// What was done about it, e.g. `allow`, `monitor`, `redact`, `block`.
    pub action: String,
    /// Who did it: a key's id or a caller's keyed hash, never a credential.
    pub actor: Option<String>,
    /// Whom or what it is about.
    pub entity: Option<String>,
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

/// An event in its place in the chain.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Whose journal it is from; `None`: this node's.
    pub node: Option<Arc<str>>,
    /// Rises from entry to entry of a node; holds the moment of recording in its first 48 bits.
    pub id: Ulid,
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
        Timestamp::from_millisecond(self.id.unix_ms()).unwrap_or(Timestamp::MAX)
    }
}
