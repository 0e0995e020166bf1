//! The API document says what is served, and is whole.

use std::collections::BTreeSet;

use portcullis::access::tier::Tier;
use portcullis::admin::openapi::document;
use portcullis::admin::openapi::examples::examples;
use portcullis::admin::routes::Media;
use portcullis::admin::routes::routes;
use serde_json::Value;

use crate::browser::Browser;
use crate::transcript::is_as_kept;
use crate::world::World;

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

#[test]
fn every_operation_has_an_example() {
    let examples = examples();
    let mut missing = Vec::new();
    for route in routes().iter().filter(|route| route.media == Media::Json && route.success != 303) {
        let name = format!("{} {}", route.method, route.path);
        let example = examples.get(&name).cloned().unwrap_or_default();
        let is_whole = route.response.is_some() == example.response.is_some()
            && route.request.is_some() == example.request.is_some();
        if !is_whole {
            missing.push(name);
        }
    }
    assert!(missing.is_empty(), "a conversation has to show, or elsewhere.json: {missing:#?}");
}

/// Returns every operation's body of success in JSON: its name, the schema and the example.
fn successes(document: &Value) -> Vec<(String, &Value, &Value)> {
    let mut found = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let answers = operation["responses"].as_object().unwrap().iter();
            let good = answers.filter(|(status, _)| status.starts_with('2'));
            let bodies = good.filter_map(|(_, answer)| answer["content"].get("application/json"));
            found.extend(bodies.map(|body| (format!("{method} {path}"), &body["schema"], &body["example"])));
        }
    }
    found
}

fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let target = schema["$ref"].as_str().map(|target| target.strip_prefix('#').unwrap());
    target.map_or(schema, |pointer| document.pointer(pointer).unwrap())
}

/// Tells whether a value has every field that a schema says must be there, and is a word where only some are, all the way
/// down.
fn fits(document: &Value, schema: &Value, value: &Value) -> bool {
    let schema = resolved(document, schema);
    let all = |key: &str| schema[key].as_array().into_iter().flatten();
    let has_required = all("required").all(|name| value.get(name.as_str().unwrap()).is_some());
    let properties = schema["properties"].as_object().into_iter().flatten();
    let mut fields = properties.filter_map(|(name, inner)| Some((inner, value.get(name)?)));
    let mut one_of = all("oneOf").peekable();
    let mut words = all("enum").peekable();
    let items = value.as_array().into_iter().flatten();
    has_required
        && (words.peek().is_none() || words.any(|word| word == value))
        && items.into_iter().all(|item| schema.get("items").is_none_or(|inner| fits(document, inner, item)))
        && fields.all(|(inner, value)| fits(document, inner, value))
        && all("allOf").all(|part| fits(document, part, value))
        && (one_of.peek().is_none() || one_of.any(|one| fits(document, one, value)))
}

#[test]
fn every_answer_of_json_has_fields_and_its_example_has_them_too() {
    let document: Value = serde_json::from_str(&document("1.2.3").to_json().unwrap()).unwrap();
    let all = successes(&document);
    assert!(all.len() > 80, "{}", all.len());
    for (name, schema, example) in all {
        let schema = resolved(&document, schema);
        let is_told = ["properties", "items", "oneOf", "allOf"].iter().any(|key| schema.get(key).is_some());
        assert!(is_told, "{name} answers with anything at all: {schema}");
        assert!(!example.is_null() && fits(&document, schema, example), "{name}: {example}");
    }
    let told = &document["paths"]["/api/v1/config"]["get"]["responses"]["200"]["content"];
    let config = resolved(&document, &told["application/json"]["schema"]).to_string();
    assert!(config.contains("revision") && config.contains("ConfigDocument"), "{config}");
}

#[test]
fn what_else_is_taken_and_given_is_told() {
    let document: Value = serde_json::from_str(&document("1.2.3").to_json().unwrap()).unwrap();
    let answers = |path: &str, method: &str| {
        let told = document["paths"][path][method]["responses"].as_object().unwrap();
        told.keys().cloned().collect::<BTreeSet<String>>()
    };
    for path in [
        "/api/v1/audit/export",
        "/api/v1/audit/checkpoint",
        "/api/v1/trust/score",
        "/api/v1/trust/sessions",
        "/api/v1/trust/attestations",
        "/api/v1/trust/attestations/latest",
    ] {
        assert!(answers(path, "get").contains("404"), "{path}");
    }
    for (path, method) in [("/api/v1/policies", "post"), ("/api/v1/policies/{id}", "delete")] {
        assert!(answers(path, method).contains("412"), "{method} {path}");
    }
    for (path, media) in [
        ("/api/v1/audit/export", ["application/x-ndjson", "text/csv"]),
        ("/api/v1/compliance", ["application/json", "text/html"]),
        ("/metrics", ["application/openmetrics-text", "text/plain"]),
        ("/api/v1/metrics", ["application/openmetrics-text", "text/plain"]),
    ] {
        let told = document["paths"][path]["get"]["responses"]["200"]["content"].as_object().unwrap();
        assert_eq!(told.keys().collect::<Vec<_>>(), media);
    }
    let stream = document["paths"]["/api/v1/audit/stream"]["get"]["parameters"].as_array().unwrap();
    let field = stream.iter().find(|told| told["name"] == "Last-Event-ID").unwrap();
    assert_eq!((&field["in"], &field["required"]), (&"header".into(), &false.into()));
    let severity = stream.iter().find(|told| told["name"] == "severity").unwrap();
    assert_eq!(severity["schema"]["enum"].as_array().map(Vec::len), Some(4));
    let status = &document["components"]["schemas"]["HoldEntry"]["properties"]["status"];
    assert_eq!(status["enum"], serde_json::json!(["active", "released"]));
}

#[test]
fn every_way_to_authenticate_is_told() {
    let document: Value = serde_json::from_str(&document("1.2.3").to_json().unwrap()).unwrap();
    let schemes = document["components"]["securitySchemes"].as_object().unwrap();
    let places: Vec<_> = schemes.values().map(|scheme| scheme["name"].as_str().unwrap_or("bearer")).collect();
    let known = ["X-API-Key", "X-API-Token", "bearer", "__Host-portcullis-session", "portcullis-session"];
    assert_eq!(places.iter().collect::<BTreeSet<_>>(), known.iter().collect::<BTreeSet<_>>());
    assert!(schemes.values().all(|scheme| scheme["description"].is_string()), "{schemes:?}");
    let taken = document["paths"]["/api/v1/config"]["get"]["security"].as_array().unwrap();
    let taken: BTreeSet<_> = taken.iter().flat_map(|one| one.as_object().unwrap().keys()).collect();
    assert_eq!(taken, schemes.keys().collect::<BTreeSet<_>>());
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

/// Whatever stands beside the sentence of a refusal is a field of its schema.
#[tokio::test]
async fn every_field_of_a_refusal_is_told() {
    let document: Value = serde_json::from_str(&document("1.2.3").to_json().unwrap()).unwrap();
    let told = &document["components"]["schemas"]["Failure"]["properties"];
    let world = World::start(Tier::Enterprise);
    let mut admin = Browser::open(&world);
    admin.fields = vec![("x-api-key", world.key("admin").to_owned())];
    let test = r#"{"name": "n", "variants": [{"name": "a", "weight": 1, "model_ref": "default"},
                  {"name": "b", "weight": 1, "model_ref": "none"}]}"#;
    for (method, path, body, field) in [
        ("POST", "/api/v1/profiles/apply", r#"{"profile": "none"}"#, "valid_profiles"),
        ("POST", "/api/v1/screen", r#"{"prompt": "x", "policy": "none"}"#, "valid_policies"),
        ("POST", "/api/v1/screen", r#"{"body": {}, "dialect": "none"}"#, "valid_dialects"),
        ("POST", "/api/v1/abtest/tests", test, "valid_models"),
        ("GET", "/api/v1/compliance?framework=none", "", "valid_frameworks"),
        ("GET", "/api/v1/compliance/evidence?check=none", "", "valid_checks"),
        ("PUT", "/api/v1/config", r#"{"limits": {"scan_ms": 0}}"#, "faults"),
    ] {
        let shown = admin.call(method, path, body).await;
        assert_eq!(shown.status, 400, "{path}: {}", shown.text);
        let refusal: Value = serde_json::from_str(&shown.text).unwrap();
        assert!(refusal[field].is_array(), "{path}: {refusal}");
        let mut fields = refusal.as_object().unwrap().keys();
        assert!(fields.all(|name| told[name]["description"].is_string()), "{field}");
        assert_eq!(told[field]["items"]["type"], "string", "{field}");
    }
}
