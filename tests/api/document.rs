//! The API document says what is served, and is whole.

use std::collections::BTreeSet;

use portcullis::admin::openapi::document;
use portcullis::admin::openapi::examples::examples;
use portcullis::admin::routes::Media;
use portcullis::admin::routes::routes;
use serde_json::Value;

use crate::transcript::is_as_kept;

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(table) => {
            if let Some(Value::String(target)) = table.get("$ref") {
                found.insert(target.clone());
            }
            table.values().for_each(|inner| references(inner, found));
        }
        Value::Array(items) => items.iter().for_each(|inner| references(inner, found)),
        _ => {}
    }
}

#[test]
fn every_route_is_described_and_every_reference_leads_somewhere() {
    let document: Value = serde_json::from_str(&document("1.2.3").to_json().unwrap()).unwrap();
    assert_eq!((&document["openapi"], &document["info"]["version"]), (&"3.1.0".into(), &"1.2.3".into()));
    for route in routes() {
        let operation = &document["paths"][route.path][route.method.as_str().to_ascii_lowercase()];
        assert_eq!(operation["summary"], route.summary, "{} {}", route.method, route.path);
    }
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(found.len() > 20, "{found:?}");
    for target in found {
        let pointer = target.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{target}");
    }
    let ids: Vec<&str> = routes_ids(&document);
    assert_eq!(ids.len(), ids.iter().collect::<BTreeSet<_>>().len(), "operation ids are unique");
}

/// The operations of JSON that no conversation shows: one gives the document itself, the others need a second party.
const WITHOUT_EXAMPLE: [&str; 4] = [
    "GET /openapi.json",
    "GET /api/v1/audit/checkpoint/cluster",
    "POST /auth/backchannel-logout",
    "DELETE /api/v1/sessions/{id}",
];

#[test]
fn every_operation_has_an_example() {
    let examples = examples();
    let mut missing = Vec::new();
    for route in routes().iter().filter(|route| route.media == Media::Json && route.success != 303) {
        let name = format!("{} {}", route.method, route.path);
        let example = examples.get(&name).cloned().unwrap_or_default();
        let is_whole = example.response.is_some() && route.request.is_some() == example.request.is_some();
        if !is_whole && !WITHOUT_EXAMPLE.contains(&name.as_str()) {
            missing.push(name);
        }
    }
    assert!(missing.is_empty(), "a conversation has to show: {missing:#?}");
}

#[test]
fn a_change_of_the_document_is_seen() {
    let document: Value = serde_json::from_str(&document("0.0.0").to_json().unwrap()).unwrap();
    is_as_kept(&format!("{}\n", serde_json::to_string_pretty(&document).unwrap()), "tests/api/openapi.json");
}

fn routes_ids(document: &Value) -> Vec<&str> {
    let paths = document["paths"].as_object().unwrap().values();
    let operations = paths.flat_map(|path| path.as_object().unwrap().values());
    operations.filter_map(|operation| operation["operationId"].as_str()).collect()
}
