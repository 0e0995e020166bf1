//! The stored form of entries: what the journal's frames hold and what the chain hashes.
//!
//! Version 2 holds actor and entity as tokens of the [`Keyring`], so that the chain can forget them. Version 1 held
//! them as they were given; it is still read, and it stays readable until retention drops it.

use std::borrow::Cow;
use std::str::FromStr;
use std::sync::Arc;

use serde::Deserialize;
use serde::Serialize;

use crate::access::keyring::Keyring;
use crate::access::keyring::Standing;
use crate::id::Ulid;
use crate::scan::threat::Category;
use crate::scan::threat::Severity;
use crate::store::archive::ArchiveFacets;
use crate::store::archive::ArchiveRow;

use super::categories::Categories;
use super::chain::Hash;
use super::event::AuditEvent;
use super::event::AuditFinding;
use super::event::AuditShadow;
use super::event::Entry;
use super::query::Query;

/// The version whose actor and entity are no tokens.
const VERSION_PLAIN: u32 = 1;
const VERSION: u32 = 2;
/// What the canonical bytes of an entry begin with whose names are tokens.
const HEAD: &[u8] = b"{\"v\":2,\"id\":\"";
const HASH_BYTES: usize = 32;
/// Room for an exchange without findings.
const BODY_BYTES_USUAL: usize = 512;

/// The bytes are not an entry this program can read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("unreadable audit entry")]
pub struct UnreadableEntry;

/// What is written of an entry after its version and id, its fields in the order that is hashed. Never change what is
/// there: add a version. A field that most entries lack may be added at the end, absent where it says nothing: readers
/// of before pass it over, and hash the bytes as they are.
#[derive(Serialize)]
struct Written<'a> {
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
    findings: Vec<WrittenFinding<'a>>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    techniques: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shadow: Option<&'a AuditShadow>,
}

#[derive(Serialize)]
struct WrittenFinding<'a> {
    detector: &'a str,
    category: &'static str,
    severity: &'static str,
    confidence: u8,
    action: &'a str,
    redacted: &'a str,
}

/// An entry as it is read.
#[derive(Deserialize)]
struct Read {
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
    findings: Vec<ReadFinding>,
    #[serde(default)]
    techniques: Vec<String>,
    #[serde(default)]
    policy: Option<String>,
    #[serde(default)]
    revision: Option<u64>,
    #[serde(default)]
    latency_us: Option<u64>,
    #[serde(default)]
    shadow: Option<AuditShadow>,
    /// Where the clock was set back and the id, which never goes back, tells another moment.
    #[serde(default)]
    recorded_unix_ms: Option<i64>,
}

#[derive(Deserialize)]
struct ReadFinding {
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
    pub(super) category: Option<Category>,
    pub(super) severity: Option<Severity>,
    names: Names<'a>,
}

#[derive(Deserialize)]
struct Names<'a> {
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
    actor: Option<Text<'a>>,
    #[serde(borrow, default)]
    entity: Option<Text<'a>>,
    #[serde(borrow, default)]
    request_id: Option<Text<'a>>,
    #[serde(borrow)]
    action: Text<'a>,
    #[serde(borrow, default)]
    route: Option<Text<'a>>,
    #[serde(borrow, default)]
    policy: Option<Text<'a>>,
    #[serde(borrow, default)]
    findings: Vec<Found<'a>>,
    #[serde(default)]
    recorded_unix_ms: Option<i64>,
}

#[derive(Deserialize)]
struct Found<'a> {
    #[serde(borrow)]
    detector: Text<'a>,
    #[serde(borrow)]
    category: Text<'a>,
}

/// A text that is borrowed where it has no escapes, within an `Option` too.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Outline<'_> {
    pub(super) fn event_type(&self) -> &str {
        &self.names.event_type.0
    }

    /// Tells whether it holds names as they are.
    pub(super) fn is_plain(&self) -> bool {
        self.names.v == VERSION_PLAIN
    }

    /// Returns the token of whom or what it is about.
    pub(super) fn entity(&self, keyring: &Keyring) -> Option<Cow<'_, str>> {
        self.token(self.names.entity.as_ref()?, keyring)
    }

    /// Returns the token of who did it.
    pub(super) fn actor(&self, keyring: &Keyring) -> Option<Cow<'_, str>> {
        self.token(self.names.actor.as_ref()?, keyring)
    }

    fn token<'o>(&self, text: &'o Text<'_>, keyring: &Keyring) -> Option<Cow<'o, str>> {
        match self.names.v {
            VERSION_PLAIN => Some(Cow::Owned(keyring.seal(&text.0).as_ref().to_owned())),
            _ => Some(Cow::Borrowed(&*text.0)),
        }
    }

    /// Returns when it was recorded, where its id tells another moment.
    pub(super) fn recorded_unix_ms(&self) -> Option<i64> {
        self.names.recorded_unix_ms
    }

    pub(super) fn request_id(&self) -> Option<&str> {
        self.names.request_id.as_ref().map(|text| &*text.0)
    }

    pub(super) fn action(&self) -> &str {
        &self.names.action.0
    }

    /// Returns the route; empty where there is none.
    pub(super) fn route(&self) -> &str {
        self.names.route.as_ref().map_or("", |text| &text.0)
    }

    /// Returns the policy; empty where there is none.
    pub(super) fn policy(&self) -> &str {
        self.names.policy.as_ref().map_or("", |text| &text.0)
    }

    /// Returns the detector of each finding.
    pub(super) fn detectors(&self) -> impl Iterator<Item = &str> {
        self.names.findings.iter().map(|found| &*found.detector.0)
    }

    /// Returns the categories of all its findings, where they count as found.
    pub(super) fn categories(&self) -> Categories {
        let found = self.names.findings.iter().filter_map(|found| found.category.0.parse().ok());
        Categories::of(self.category, found)
    }

    /// Tells whether the entry holds to a query's filters, its times left aside. Names are asked for by token.
    pub(super) fn matches(&self, query: &Query, keyring: &Keyring) -> bool {
        let holds = |wanted: &Option<String>, is: Option<&str>| wanted.is_none() || wanted.as_deref() == is;
        let about =
            |wanted: &Option<String>| wanted.is_none() || holds(wanted, self.entity(keyring).as_deref());
        let by_or_about =
            |wanted: &Option<String>| about(wanted) || holds(wanted, self.actor(keyring).as_deref());
        query.category.is_none_or(|wanted| self.categories().has(wanted))
            && (!query.is_alert || self.category.is_some())
            && query.severity.is_none_or(|wanted| self.severity == Some(wanted))
            && query.event_type.as_ref().is_none_or(|wanted| self.event_type() == wanted)
            && holds(&query.action, Some(self.action()))
            && holds(&query.route, Some(self.route()))
            && holds(&query.policy, Some(self.policy()))
            && query.detector.as_ref().is_none_or(|wanted| self.detectors().any(|is| is == wanted))
            && about(&query.entity)
            && by_or_about(&query.subject)
            && holds(&query.request_id, self.request_id())
    }
}

/// Returns whom an event names, and how well they are known by it.
pub(super) fn names(event: &AuditEvent) -> impl Iterator<Item = (&str, Standing)> {
    let standing = |name: &str| match event.is_accepted {
        true => Standing::of(name).max(Standing::Caller),
        false => Standing::of(name),
    };
    let named = [&event.actor, &event.entity].into_iter().flatten();
    named.map(move |name| (name.as_str(), standing(name)))
}

/// Returns what is written of an event, as far as it is known before it has an id, with what `token` tells in the place
/// of each of its [`names`]. The keys of names that are new have to be safe ([`Keyring::flush`]) before it is.
pub(super) fn body_with(event: &AuditEvent, token: impl FnMut((&str, Standing)) -> Arc<str>) -> Vec<u8> {
    let mut tokens = names(event).map(token);
    let (actor, entity) =
        (event.actor.as_ref().and_then(|_| tokens.next()), event.entity.as_ref().and_then(|_| tokens.next()));
    let written = Written {
        event_type: &event.event_type,
        category: event.category.map(Category::as_str),
        severity: event.severity.map(Severity::as_str),
        action: &event.action,
        actor: actor.as_deref(),
        entity: entity.as_deref(),
        route: event.route.as_deref(),
        request_id: event.request_id.as_deref(),
        message: &event.message,
        findings: event.findings.iter().map(written_finding).collect(),
        techniques: &event.techniques,
        policy: event.policy.as_deref(),
        revision: event.revision,
        latency_us: event.latency_us,
        shadow: event.shadow.as_ref(),
    };
    let mut bytes = Vec::with_capacity(BODY_BYTES_USUAL);
    serde_json::to_writer(&mut bytes, &written).expect("strings and integers always have a JSON form");
    bytes
}

/// Returns what is written of an event, once all its names have keys.
#[cfg(test)]
pub(super) fn body(event: &AuditEvent, keyring: &Keyring) -> Vec<u8> {
    body_with(event, |(name, standing)| keyring.seal_as(name, standing))
}

/// Appends the canonical bytes of the entry that an event's [body](body_with) becomes under an id, which tells when it was
/// recorded.
pub(super) fn push_canonical(id: Ulid, body: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(HEAD);
    out.extend_from_slice(&id.to_text());
    out.extend_from_slice(b"\",");
    out.extend_from_slice(body.strip_prefix(b"{").unwrap_or(body));
}

/// Returns the [body](body_with) of an event that is recorded at another moment than its id tells.
pub(super) fn body_at(body: &[u8], unix_ms: i64) -> Vec<u8> {
    let open = body.strip_suffix(b"}").unwrap_or(body);
    [open, format!(",\"recorded_unix_ms\":{unix_ms}}}").as_bytes()].concat()
}

/// Appends a frame's payload for an event's [body](body_with) under an id: both hashes, then the canonical bytes. Returns
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

/// Returns the entry a frame's payload holds, with the names whose keys still exist.
pub(super) fn entry(payload: &[u8], keyring: &Keyring) -> Result<Entry, UnreadableEntry> {
    let (previous_hash, hash, canonical) = split(payload)?;
    let stored: Read = serde_json::from_slice(canonical).map_err(|_| UnreadableEntry)?;
    let id = stored.id.parse().map_err(|_| UnreadableEntry)?;
    if !(VERSION_PLAIN..=VERSION).contains(&stored.v) {
        return Err(UnreadableEntry);
    }
    let (is_sealed, recorded_unix_ms) = (stored.v != VERSION_PLAIN, stored.recorded_unix_ms);
    let mut event = event(stored)?;
    for name in [&mut event.actor, &mut event.entity].into_iter().flatten().filter(|_| is_sealed) {
        *name = keyring.shown(name);
    }
    Ok(Entry { node: None, id, recorded_unix_ms, event, hash, previous_hash })
}

/// Returns the entry of a frame's payload as it is shipped; `None` where its names are in plain text.
pub(super) fn row(sequence: u64, payload: &[u8]) -> Result<Option<ArchiveRow>, UnreadableEntry> {
    let outline = outline(payload)?;
    if outline.is_plain() {
        return Ok(None);
    }
    let facets = facets(&outline);
    let Outline { id, names, .. } = outline;
    let text = |text: Option<Text<'_>>| text.map(|text| text.0.into_owned());
    Ok(Some(ArchiveRow {
        sequence,
        id,
        recorded_ms: names.recorded_unix_ms,
        category: text(names.category),
        severity: text(names.severity),
        event_type: names.event_type.0.into_owned(),
        entity: text(names.entity),
        actor: text(names.actor),
        request_id: text(names.request_id),
        facets: Some(facets),
        payload: payload.to_vec(),
    }))
}

/// Returns what a shipped entry is found by, as long as it is not by its names or its facts.
pub(super) fn facets(outline: &Outline<'_>) -> ArchiveFacets {
    let mut detectors: Vec<String> = outline.detectors().map(str::to_owned).collect();
    detectors.sort_unstable();
    detectors.dedup();
    let text = |text: &Option<Text<'_>>| text.as_ref().map(|text| text.0.as_ref().to_owned());
    let others = outline.category.map(|gravest| {
        let all = outline.categories();
        all.iter().filter(|category| *category != gravest).map(|it| it.as_str().to_owned()).collect()
    });
    ArchiveFacets {
        action: outline.action().to_owned(),
        route: text(&outline.names.route),
        policy: text(&outline.names.policy),
        detectors,
        other_categories: others,
    }
}

/// Returns the id of an entry by its canonical bytes.
pub(super) fn id_of(canonical: &[u8]) -> Result<Ulid, UnreadableEntry> {
    let names: Names<'_> = serde_json::from_slice(canonical).map_err(|_| UnreadableEntry)?;
    names.id.0.parse().map_err(|_| UnreadableEntry)
}

/// Returns what the entry of a frame's payload is found by.
pub(super) fn outline(payload: &[u8]) -> Result<Outline<'_>, UnreadableEntry> {
    let (_, _, canonical) = split(payload)?;
    let names: Names<'_> = serde_json::from_slice(canonical).map_err(|_| UnreadableEntry)?;
    if !(VERSION_PLAIN..=VERSION).contains(&names.v) {
        return Err(UnreadableEntry);
    }
    let id = names.id.0.parse().map_err(|_| UnreadableEntry)?;
    let category = names.category.as_ref().map(|text| named::<Category>(&text.0)).transpose()?;
    let severity = names.severity.as_ref().map(|text| named::<Severity>(&text.0)).transpose()?;
    Ok(Outline { id, category, severity, names })
}

fn event(stored: Read) -> Result<AuditEvent, UnreadableEntry> {
    Ok(AuditEvent {
        event_type: stored.event_type,
        category: stored.category.as_deref().map(named::<Category>).transpose()?,
        severity: stored.severity.as_deref().map(named::<Severity>).transpose()?,
        action: stored.action,
        actor: stored.actor,
        entity: stored.entity,
        is_accepted: false,
        route: stored.route,
        request_id: stored.request_id,
        message: stored.message,
        findings: stored.findings.into_iter().map(finding).collect::<Result<_, _>>()?,
        techniques: stored.techniques,
        policy: stored.policy,
        revision: stored.revision,
        latency_us: stored.latency_us,
        shadow: stored.shadow,
    })
}

fn written_finding(finding: &AuditFinding) -> WrittenFinding<'_> {
    WrittenFinding {
        detector: &finding.detector,
        category: finding.category.as_str(),
        severity: finding.severity.as_str(),
        confidence: finding.confidence,
        action: &finding.action,
        redacted: &finding.redacted,
    }
}

fn finding(stored: ReadFinding) -> Result<AuditFinding, UnreadableEntry> {
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
mod tests;
