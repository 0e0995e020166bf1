//! Documents of the Elastic Common Schema, in the form that the bulk interface takes.
//!
//! Source: Elastic, "ECS field reference" (8.17) and "Bulk API". The id of a document is that of the entry, and
//! it is created, never replaced, so that what is sent twice is kept once.

use serde_json::Value;
use serde_json::json;

use super::Deed;
use super::PRODUCT;
use super::Teller;
use super::detectors;
use super::has_failed;
use super::out_of_ten;
use super::plain::finding;
use super::plain::shadow;
use crate::clock::rfc3339;
use crate::govern::audit::Entry;

const ECS_VERSION: &str = "8.17.0";
const DATASET: &str = "portcullis.audit";
const NANOSECONDS_PER_MICROSECOND: u64 = 1000;

/// Returns the body of a request: for each entry a line of action and a line of document.
pub(in crate::govern::siem) fn bulk(
    entries: &[&Entry],
    index: &str,
    teller: &Teller,
) -> serde_json::Result<Vec<u8>> {
    let mut body = Vec::new();
    for entry in entries {
        serde_json::to_writer(&mut body, &json!({"create": {"_index": index, "_id": entry.id.to_string()}}))?;
        body.push(b'\n');
        serde_json::to_writer(&mut body, &document(entry, teller))?;
        body.push(b'\n');
    }
    Ok(body)
}

fn document(entry: &Entry, teller: &Teller) -> Value {
    let event = &entry.event;
    let (kind, category, types) = classes(entry);
    let mut document = json!({
        "@timestamp": rfc3339(entry.timestamp()),
        "ecs": {"version": ECS_VERSION},
        "message": event.message,
        "event": {
            "id": entry.id.to_string(),
            "kind": kind,
            "category": [category],
            "type": types,
            "action": event.event_type,
            "outcome": if has_failed(entry) { "failure" } else { "success" },
            "severity": out_of_ten(entry),
            "dataset": DATASET,
            "module": "portcullis",
            "hash": entry.hash.to_string(),
        },
        "observer": {"vendor": PRODUCT, "product": PRODUCT, "type": "gateway", "version": teller.version, "name": teller.node},
        "portcullis": {
            "action": event.action,
            "findings": event.findings.iter().map(finding).collect::<Vec<_>>(),
            "previous_hash": entry.previous_hash.to_string(),
        },
    });
    let optional = [
        ("/event/duration", event.latency_us.map(|us| json!(us * NANOSECONDS_PER_MICROSECOND))),
        ("/user/id", event.actor.as_ref().map(|actor| json!(actor))),
        ("/http/request/id", event.request_id.as_ref().map(|id| json!(id))),
        ("/rule/name", Some(detectors(entry)).filter(|names| !names.is_empty()).map(|names| json!(names))),
        ("/threat/technique/id", Some(&event.techniques).filter(|ids| !ids.is_empty()).map(|ids| json!(ids))),
        ("/portcullis/category", event.category.map(|category| json!(category.as_str()))),
        ("/portcullis/severity", event.severity.map(|severity| json!(severity.as_str()))),
        ("/portcullis/entity", event.entity.as_ref().map(|entity| json!(entity))),
        ("/portcullis/route", event.route.as_ref().map(|route| json!(route))),
        ("/portcullis/policy", event.policy.as_ref().map(|policy| json!(policy))),
        ("/portcullis/shadow", event.shadow.as_ref().map(|it| json!(shadow(it)))),
        ("/portcullis/revision", event.revision.map(|revision| json!(revision))),
    ];
    for (path, value) in optional {
        if let Some(value) = value {
            put(&mut document, path, value);
        }
    }
    document
}

/// Puts a value where a path of names leads; objects on the way are made.
fn put(document: &mut Value, path: &str, value: Value) {
    let mut place = document;
    for name in path.split('/').skip(1) {
        if !place.is_object() {
            *place = json!({});
        }
        let Some(object) = place.as_object_mut() else { return };
        place = object.entry(name.to_owned()).or_insert(Value::Null);
    }
    *place = value;
}

/// Returns `event.kind`, `event.category` and `event.type`; each category has types of its own.
fn classes(entry: &Entry) -> (&'static str, &'static str, &'static [&'static str]) {
    let event = &entry.event;
    let is_denied = event.action == "block";
    let passage: &[&str] = if is_denied { &["denied"] } else { &["allowed"] };
    match event.event_type.as_str() {
        _ if event.is_alert() => match event.action.as_str() {
            "block" | "allow" => ("alert", "intrusion_detection", passage),
            _ => ("alert", "intrusion_detection", &["info"]),
        },
        "exchange_begun" => ("event", "api", &["start"]),
        "access_denied" => ("event", "api", &["access", "denied"]),
        kind if kind.starts_with("exchange") || kind.starts_with("a2a_") => ("event", "api", passage),
        "login" | "login_failed" => ("event", "authentication", &["start"]),
        "logout" | "token_revoked" => ("event", "authentication", &["end"]),
        "session_revoked" => ("event", "session", &["end"]),
        kind if ["key_", "user_", "signing_key_"].iter().any(|of| kind.starts_with(of)) => {
            ("event", "iam", deed_types(kind, &["info"]))
        }
        kind => ("event", "configuration", deed_types(kind, &["access"])),
    }
}

/// Returns the types of what was done; `read` where it was only looked at.
fn deed_types(event_type: &str, read: &'static [&'static str]) -> &'static [&'static str] {
    match Deed::of(event_type) {
        Deed::Created => &["creation"],
        Deed::Read => read,
        Deed::Changed => &["change"],
        Deed::Deleted => &["deletion"],
        Deed::Other => &["info"],
    }
}
