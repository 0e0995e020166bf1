//! Changes of the configuration: what a patch, a removal and a profile leave in force is what is shown.

use portcullis::access::tier::Tier;
use serde_json::Value;
use serde_json::json;

use crate::browser::Browser;
use crate::world::World;

async fn told(operator: &mut Browser<'_>, method: &str, path: &str, body: &Value) -> Value {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let shown = operator.call(method, path, &body).await;
    assert_eq!(shown.status, 200, "{method} {path} {body}: {}", shown.text);
    serde_json::from_str(&shown.text).unwrap()
}

#[tokio::test]
async fn what_a_patch_takes_away_is_shown_as_it_is_in_force() {
    let world = World::start(Tier::Enterprise);
    let mut operator = Browser::open(&world);
    operator.fields = vec![("x-api-key", world.key("operator").to_owned())];
    let before = told(&mut operator, "GET", "/api/v1/config", &Value::Null).await;
    let other = json!({"limits": {"scan_ms": 9, "tiers": {"community": {"burst": 7}}}, "routes": []});
    told(&mut operator, "PUT", "/api/v1/config", &other).await;
    for patch in [
        json!({"limits": {"scan_ms": null, "tiers": {"community": {"burst": null}}}, "routes": null}),
        json!({"limits": {"tiers": null}, "a2a": null, "detectors": null}),
    ] {
        let after = told(&mut operator, "PUT", "/api/v1/config", &patch).await;
        let shown = told(&mut operator, "GET", "/api/v1/config", &Value::Null).await;
        for key in ["limits", "routes", "a2a", "detectors", "policies"] {
            assert_eq!((&after[key], &shown[key]), (&before[key], &before[key]), "{patch}");
        }
    }
}

#[tokio::test]
async fn a_profile_needs_no_policy_that_somebody_removed() {
    for profile in ["quickstart", "production", "professional"] {
        let world = World::start(Tier::Enterprise);
        let mut operator = Browser::open(&world);
        operator.fields = vec![("x-api-key", world.key("operator").to_owned())];
        let before = told(&mut operator, "GET", "/api/v1/policies/strict", &Value::Null).await;
        told(&mut operator, "DELETE", "/api/v1/policies/strict", &Value::Null).await;
        told(&mut operator, "PUT", "/api/v1/config", &json!({"limits": {"scan_ms": 9}})).await;
        let shown = told(&mut operator, "GET", "/api/v1/config", &Value::Null).await;
        assert!(shown["policies"].get("strict").is_none(), "another change does not bring it back");
        told(&mut operator, "POST", "/api/v1/profiles/apply", &json!({ "profile": profile })).await;
        let after = told(&mut operator, "GET", "/api/v1/policies/strict", &Value::Null).await;
        assert_eq!(after["definition"], before["definition"], "{profile}");
    }
}
