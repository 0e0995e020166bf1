//! Documents of the Elastic Common Schema, in the form that the bulk interface takes.
//!
//! Source: Elastic, "ECS field reference" (8.17) and "Bulk API". The id of a document is that of the entry, and
//! it is created, never replaced, so that what is sent twice is kept once.

use serde_json::Value;
use serde_json::json;

use super::PRODUCT;
use super::Teller;
use super::detectors;
use super::out_of_ten;
use super::plain::finding;
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
    let (kind, category) = classes(entry);
    let mut document = json!({
        "@timestamp": entry.timestamp().to_string(),
        "ecs": {"version": ECS_VERSION},
        "message": event.message,
        "event": {
            "id": entry.id.to_string(),
            "kind": kind,
            "category": [category],
            "type": [outcome_type(&event.action)],
            "action": event.event_type,
            "outcome": "success",
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

/// Returns `event.kind` and `event.category`.
fn classes(entry: &Entry) -> (&'static str, &'static str) {
    let event = &entry.event;
    match event.event_type.as_str() {
        _ if !event.findings.is_empty() => ("alert", "intrusion_detection"),
        "exchange" => ("event", "api"),
        kind if kind.contains("login") || kind.contains("session") || kind.contains("token") => {
            ("event", "authentication")
        }
        kind if kind.starts_with("key_") || kind.starts_with("user_") => ("event", "iam"),
        _ => ("event", "configuration"),
    }
}

fn outcome_type(action: &str) -> &'static str {
    match action {
        "block" | "deny" | "denied" | "refuse" => "denied",
        "allow" => "allowed",
        "create" | "created" => "creation",
        "delete" | "revoke" | "deleted" | "revoked" => "deletion",
        "redact" | "change" | "changed" => "change",
        _ => "info",
    }
}
