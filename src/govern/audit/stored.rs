//! The stored form of entries, version 1: what the journal's frames hold and what the chain hashes.

use std::borrow::Cow;
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
use super::query::Query;
use super::tally;

const VERSION: u32 = 1;
const HASH_BYTES: usize = 32;
/// Room for an exchange without findings.
const BODY_BYTES_USUAL: usize = 512;

/// The bytes are not an entry this program can read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("unreadable audit entry")]
pub struct UnreadableEntry;

/// What is written of an entry after its version and id, its fields in the order that is hashed. Never change
/// it: add a version.
#[derive(Serialize)]
struct WrittenV1<'a> {
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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    findings: Vec<WrittenFindingV1<'a>>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    techniques: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_us: Option<u64>,
}

#[derive(Serialize)]
struct WrittenFindingV1<'a> {
    detector: &'a str,
    category: &'static str,
    severity: &'static str,
    confidence: u8,
    action: &'a str,
    redacted: &'a str,
}

/// An entry as it is read.
#[derive(Deserialize)]
struct ReadV1 {
    v: u32,
    id: String,
    event_type: String,
    #[serde(default)]
    category: Option<String>,
    #[serde(default)]
    severity: Option<String>,
    action: String,
    #[serde(default)]
    actor: Option<String>,
    #[serde(default)]
    entity: Option<String>,
    #[serde(default)]
    route: Option<String>,
    #[serde(default)]
    request_id: Option<String>,
    message: String,
    #[serde(default)]
    findings: Vec<ReadFindingV1>,
    #[serde(default)]
    techniques: Vec<String>,
    #[serde(default)]
    policy: Option<String>,
    #[serde(default)]
    revision: Option<u64>,
    #[serde(default)]
    latency_us: Option<u64>,
}

#[derive(Deserialize)]
struct ReadFindingV1 {
    detector: String,
    category: String,
    severity: String,
    confidence: u8,
    action: String,
    redacted: String,
}

/// What an entry is found by, without a copy of it.
pub(super) struct Outline<'a> {
    pub(super) id: Ulid,
    /// The category's code (see [`tally::code`]).
    pub(super) category: u8,
    /// The severity's code.
    pub(super) severity: u8,
    names: NamesV1<'a>,
}

#[derive(Deserialize)]
struct NamesV1<'a> {
    v: u32,
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    event_type: Text<'a>,
    #[serde(borrow, default)]
    category: Option<Text<'a>>,
    #[serde(borrow, default)]
    severity: Option<Text<'a>>,
    #[serde(borrow, default)]
    entity: Option<Text<'a>>,
    #[serde(borrow, default)]
    request_id: Option<Text<'a>>,
}

/// A text that is borrowed where it has no escapes, within an `Option` too.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Outline<'_> {
    pub(super) fn event_type(&self) -> &str {
        &self.names.event_type.0
    }

    pub(super) fn entity(&self) -> Option<&str> {
        self.names.entity.as_ref().map(|text| &*text.0)
    }

    pub(super) fn request_id(&self) -> Option<&str> {
        self.names.request_id.as_ref().map(|text| &*text.0)
    }

    /// Tells whether the entry holds to a query's filters, its times left aside.
    pub(super) fn matches(&self, query: &Query) -> bool {
        let holds = |wanted: &Option<String>, is: Option<&str>| wanted.is_none() || wanted.as_deref() == is;
        query.category.is_none_or(|wanted| self.category == tally::code(&Category::ALL, Some(wanted)))
            && query.severity.is_none_or(|wanted| self.severity == tally::code(&Severity::ALL, Some(wanted)))
            && query.event_type.as_ref().is_none_or(|wanted| self.event_type() == wanted)
            && holds(&query.entity, self.entity())
            && holds(&query.request_id, self.request_id())
    }
}

/// Returns what is written of an event, as far as it is known before it has an id.
pub(super) fn body(event: &AuditEvent) -> Vec<u8> {
    let written = WrittenV1 {
        event_type: &event.event_type,
        category: event.category.map(Category::as_str),
        severity: event.severity.map(Severity::as_str),
        action: &event.action,
        actor: event.actor.as_deref(),
        entity: event.entity.as_deref(),
        route: event.route.as_deref(),
        request_id: event.request_id.as_deref(),
        message: &event.message,
        findings: event.findings.iter().map(written_finding).collect(),
        techniques: &event.techniques,
        policy: event.policy.as_deref(),
        revision: event.revision,
        latency_us: event.latency_us,
    };
    let mut bytes = Vec::with_capacity(BODY_BYTES_USUAL);
    serde_json::to_writer(&mut bytes, &written).expect("strings and integers always have a JSON form");
    bytes
}

/// Appends the canonical bytes of the entry that an event's [`body`] becomes under an id.
pub(super) fn push_canonical(id: Ulid, body: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"v\":1,\"id\":\"");
    out.extend_from_slice(&id.to_text());
    out.extend_from_slice(b"\",");
    out.extend_from_slice(body.strip_prefix(b"{").unwrap_or(body));
}

/// Returns the canonical bytes of an event recorded under an id.
pub fn canonical(id: Ulid, event: &AuditEvent) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BODY_BYTES_USUAL);
    push_canonical(id, &body(event), &mut bytes);
    bytes
}

/// Appends a frame's payload for an event's [`body`] under an id: both hashes, then the canonical bytes. Returns
/// the entry's hash.
pub(super) fn push_payload(previous: Hash, id: Ulid, body: &[u8], out: &mut Vec<u8>) -> Hash {
    out.extend_from_slice(&previous.0);
    let hash_from = out.len();
    out.extend_from_slice(&[0; HASH_BYTES]);
    push_canonical(id, body, out);
    let Some((place, canonical)) =
        out.get_mut(hash_from..).and_then(|rest| rest.split_first_chunk_mut::<HASH_BYTES>())
    else {
        return previous;
    };
    let hash = Hash::of(previous, canonical);
    *place = hash.0;
    hash
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
    let stored: ReadV1 = serde_json::from_slice(canonical).map_err(|_| UnreadableEntry)?;
    if stored.v != VERSION {
        return Err(UnreadableEntry);
    }
    let id = stored.id.parse().map_err(|_| UnreadableEntry)?;
    Ok(Entry { id, event: event(stored)?, hash, previous_hash })
}

/// Returns what the entry of a frame's payload is found by.
pub(super) fn outline(payload: &[u8]) -> Result<Outline<'_>, UnreadableEntry> {
    let (_, _, canonical) = split(payload)?;
    let names: NamesV1<'_> = serde_json::from_slice(canonical).map_err(|_| UnreadableEntry)?;
    if names.v != VERSION {
        return Err(UnreadableEntry);
    }
    let id = names.id.0.parse().map_err(|_| UnreadableEntry)?;
    let category = names.category.as_ref().map(|text| named::<Category>(&text.0)).transpose()?;
    let severity = names.severity.as_ref().map(|text| named::<Severity>(&text.0)).transpose()?;
    let (category, severity) = (tally::code(&Category::ALL, category), tally::code(&Severity::ALL, severity));
    Ok(Outline { id, category, severity, names })
}

fn event(stored: ReadV1) -> Result<AuditEvent, UnreadableEntry> {
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

fn written_finding(finding: &AuditFinding) -> WrittenFindingV1<'_> {
    WrittenFindingV1 {
        detector: &finding.detector,
        category: finding.category.as_str(),
        severity: finding.severity.as_str(),
        confidence: finding.confidence,
        action: &finding.action,
        redacted: &finding.redacted,
    }
}

fn finding(stored: ReadFindingV1) -> Result<AuditFinding, UnreadableEntry> {
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

    fn payload(previous: Hash, hash: Hash, canonical: &[u8]) -> Vec<u8> {
        [previous.0.as_slice(), hash.0.as_slice(), canonical].concat()
    }

    #[test]
    fn version_one_stays_as_it_was() {
        let event = sample::event(11);
        assert_eq!(String::from_utf8(canonical(Ulid(11), &event)).unwrap(), FIXTURE_V1);
        let read = entry(&payload(Hash::default(), Hash([1; 32]), FIXTURE_V1.as_bytes())).unwrap();
        let expected = Entry { id: Ulid(11), event, hash: Hash([1; 32]), previous_hash: Hash::default() };
        assert_eq!(read, expected);
        let (mut written, previous) = (Vec::new(), Hash([7; 32]));
        let hash = push_payload(previous, Ulid(11), &body(&expected.event), &mut written);
        assert_eq!(hash, Hash::of(previous, FIXTURE_V1.as_bytes()));
        assert_eq!(written, payload(previous, hash, FIXTURE_V1.as_bytes()));
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
