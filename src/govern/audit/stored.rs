//! The stored form of entries, version 1: what the journal's frames hold and what the chain hashes.

use std::str::FromStr;

use serde::Deserialize;
use serde::Serialize;

use crate::id::Ulid;
use crate::scan::threat::Category;
use crate::scan::threat::Severity;

use super::chain::Hash;
use super::event::AuditEvent;
use super::event::AuditFinding;
use super::event::Entry;

const VERSION: u32 = 1;
const HASH_BYTES: usize = 32;

/// The bytes are not an entry this program can read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("unreadable audit entry")]
pub struct UnreadableEntry;

/// One entry, its fields in the order that is hashed. Never change it: add a version.
#[derive(Serialize, Deserialize)]
struct StoredV1 {
    v: u32,
    id: String,
    event_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    category: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    severity: Option<String>,
    action: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    actor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    entity: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    route: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    message: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    findings: Vec<StoredFindingV1>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    techniques: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    latency_us: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct StoredFindingV1 {
    detector: String,
    category: String,
    severity: String,
    confidence: u8,
    action: String,
    redacted: String,
}

/// Returns the canonical bytes of an event recorded under an id.
pub fn canonical(id: Ulid, event: &AuditEvent) -> Vec<u8> {
    let stored = StoredV1 {
        v: VERSION,
        id: id.to_string(),
        event_type: event.event_type.clone(),
        category: event.category.map(|category| category.as_str().to_owned()),
        severity: event.severity.map(|severity| severity.as_str().to_owned()),
        action: event.action.clone(),
        actor: event.actor.clone(),
        entity: event.entity.clone(),
        route: event.route.clone(),
        request_id: event.request_id.clone(),
        message: event.message.clone(),
        findings: event.findings.iter().map(stored_finding).collect(),
        techniques: event.techniques.clone(),
        policy: event.policy.clone(),
        revision: event.revision,
        latency_us: event.latency_us,
    };
    serde_json::to_vec(&stored).expect("strings and integers always have a JSON form")
}

/// Returns a frame's payload: both hashes, then the canonical bytes.
pub(super) fn payload(previous: Hash, hash: Hash, canonical: &[u8]) -> Vec<u8> {
    [previous.0.as_slice(), hash.0.as_slice(), canonical].concat()
}

/// Returns the previous hash, the hash and the canonical bytes of a frame's payload.
pub(super) fn split(payload: &[u8]) -> Result<(Hash, Hash, &[u8]), UnreadableEntry> {
    let (previous, rest) = payload.split_first_chunk::<HASH_BYTES>().ok_or(UnreadableEntry)?;
    let (hash, canonical) = rest.split_first_chunk::<HASH_BYTES>().ok_or(UnreadableEntry)?;
    Ok((Hash(*previous), Hash(*hash), canonical))
}

/// Returns the entry a frame's payload holds.
pub(super) fn entry(payload: &[u8]) -> Result<Entry, UnreadableEntry> {
    let (previous_hash, hash, canonical) = split(payload)?;
    let stored: StoredV1 = serde_json::from_slice(canonical).map_err(|_| UnreadableEntry)?;
    if stored.v != VERSION {
        return Err(UnreadableEntry);
    }
    let id = stored.id.parse().map_err(|_| UnreadableEntry)?;
    Ok(Entry { id, event: event(stored)?, hash, previous_hash })
}

fn event(stored: StoredV1) -> Result<AuditEvent, UnreadableEntry> {
    Ok(AuditEvent {
        event_type: stored.event_type,
        category: stored.category.as_deref().map(named::<Category>).transpose()?,
        severity: stored.severity.as_deref().map(named::<Severity>).transpose()?,
        action: stored.action,
        actor: stored.actor,
        entity: stored.entity,
        route: stored.route,
        request_id: stored.request_id,
        message: stored.message,
        findings: stored.findings.into_iter().map(finding).collect::<Result<_, _>>()?,
        techniques: stored.techniques,
        policy: stored.policy,
        revision: stored.revision,
        latency_us: stored.latency_us,
    })
}

fn stored_finding(finding: &AuditFinding) -> StoredFindingV1 {
    StoredFindingV1 {
        detector: finding.detector.clone(),
        category: finding.category.as_str().to_owned(),
        severity: finding.severity.as_str().to_owned(),
        confidence: finding.confidence,
        action: finding.action.clone(),
        redacted: finding.redacted.clone(),
    }
}

fn finding(stored: StoredFindingV1) -> Result<AuditFinding, UnreadableEntry> {
    Ok(AuditFinding {
        detector: stored.detector,
        category: named(&stored.category)?,
        severity: named(&stored.severity)?,
        confidence: stored.confidence,
        action: stored.action,
        redacted: stored.redacted,
    })
}

fn named<T: FromStr>(name: &str) -> Result<T, UnreadableEntry> {
    name.parse().map_err(|_| UnreadableEntry)
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    /// Written by the first release; must stay readable, byte for byte, for ever.
    const FIXTURE_V1: &str = concat!(
        r#"{"v":1,"id":"0000000000000000000000000B","event_type":"exchange","category":"pii","#,
        r#""severity":"high","action":"block","actor":"key-1","entity":"user-1","route":"chat","#,
        r#""request_id":"r-11","message":"event 11","findings":[{"detector":"github_token","#,
        r#""category":"pii","severity":"high","confidence":90,"action":"block","redacted":"gh…yz"}],"#,
        r#""techniques":["AML.T0057"],"policy":"default","revision":3,"latency_us":1500}"#,
    );

    #[test]
    fn version_one_stays_as_it_was() {
        let event = sample::event(11);
        assert_eq!(String::from_utf8(canonical(Ulid(11), &event)).unwrap(), FIXTURE_V1);
        let read = entry(&payload(Hash::default(), Hash([1; 32]), FIXTURE_V1.as_bytes())).unwrap();
        assert_eq!(read, Entry { id: Ulid(11), event, hash: Hash([1; 32]), previous_hash: Hash::default() });
    }

    #[test]
    fn absent_fields_stay_absent() {
        let event = AuditEvent { event_type: "started".into(), ..AuditEvent::default() };
        let bytes = canonical(Ulid(1), &event);
        assert!(!String::from_utf8(bytes.clone()).unwrap().contains("null"));
        assert_eq!(entry(&payload(Hash::default(), Hash::default(), &bytes)).unwrap().event, event);
    }

    #[test]
    fn garbage_is_not_an_entry() {
        let newer = FIXTURE_V1.replace("\"v\":1", "\"v\":2");
        let cases: [&[u8]; 3] = [b"", &[0; 64], newer.as_bytes()];
        for case in cases {
            assert_eq!(entry(&payload(Hash::default(), Hash::default(), case)), Err(UnreadableEntry));
        }
        assert_eq!(entry(b"short"), Err(UnreadableEntry));
    }
}
