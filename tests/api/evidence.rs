//! What a report rests on can be seen again by whoever reads it: every link is open to auditors, and gives the figure.

use std::collections::BTreeMap;

use axum::body::Body;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Request;
use http_body_util::BodyExt;
use portcullis::access::tier::Tier;
use serde_json::Value;
use sha2::Digest;
use sha2::Sha256;

use crate::world::World;

async fn asked(world: &World, path: &str) -> (u16, Value) {
    let request = Request::get(path).header("host", "localhost").header("x-api-key", world.key("auditor"));
    let response = world.send(request.body(Body::empty()).unwrap()).await;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

async fn changed(world: &World, method: &str, path: &str, body: &str) -> Value {
    let request = Request::builder().method(method).uri(path).header("host", "localhost");
    let request = request.header("x-api-key", world.key("admin")).header("content-type", "application/json");
    let response = world.send(request.body(Body::from(body.to_owned())).unwrap()).await;
    assert!(response.status().is_success(), "{method} {path} {}", response.status());
    let body = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap()
}

/// Every check that a framework asks, once, as an auditor is told; of those that are narrowed, every form.
async fn every_check(world: &World) -> BTreeMap<String, Value> {
    let mut checks = BTreeMap::new();
    let (_, list) = asked(world, "/api/v1/compliance").await;
    for framework in list["valid_names"].as_array().unwrap() {
        let path = format!("/api/v1/compliance?framework={}", framework.as_str().unwrap());
        let (status, report) = asked(world, &path).await;
        assert_eq!(status, 200, "{report}");
        let controls = report["controls"].as_array().unwrap().clone();
        for evidence in controls.iter().flat_map(|control| control["evidence"].as_array().unwrap()) {
            let link = evidence["links"][0].as_str().unwrap();
            let narrowed = link.split_once("&techniques=").map_or("", |(_, ids)| ids);
            let name = format!("{} {narrowed}", evidence["check"].as_str().unwrap());
            checks.insert(name.trim_end().to_owned(), evidence.clone());
        }
    }
    checks
}

#[tokio::test]
async fn every_link_is_open_to_auditors_and_gives_the_figure() {
    let world = World::start(Tier::Enterprise);
    let key = changed(&world, "POST", "/api/v1/keys", r#"{"name":"n","role":"service"}"#).await;
    let path = format!("/api/v1/keys/{}", key["id"].as_str().unwrap());
    changed(&world, "POST", &format!("{path}/rotate"), "{}").await;
    changed(&world, "DELETE", &path, "").await;
    world.office.compliance.verify_chain();
    // What comes after the chain was verified is not of its figure.
    world.clock.advance(std::time::Duration::from_secs(2));
    changed(&world, "POST", "/api/v1/keys", r#"{"name":"m","role":"service"}"#).await;
    let checks = every_check(&world).await;
    assert!(checks.len() > 50, "{} checks", checks.len());
    assert_eq!(checks["key_changes_recorded"]["figure"], 4.0, "{}", checks["key_changes_recorded"]);
    for (name, evidence) in &checks {
        let mut total = 0.0;
        for link in evidence["links"].as_array().unwrap() {
            let link = link.as_str().unwrap();
            let (status, told) = asked(&world, link).await;
            assert_eq!(status, 200, "{name}: {link} {told}");
            if link.starts_with("/api/v1/audit") {
                total += told["total"].as_f64().unwrap();
            } else if link.contains("/evidence") {
                assert_eq!(told["figure"], evidence["figure"], "{name}");
                assert!(evidence["result"] == "unknown" || told["items_total"] != 0, "{name}: {told}");
            }
        }
        let is_counted = evidence["links"][0].as_str().unwrap().starts_with("/api/v1/audit");
        if let Some(figure) = evidence["figure"].as_f64().filter(|_| is_counted) {
            assert_eq!(figure, total, "{evidence}");
        }
    }
}

#[tokio::test]
async fn a_check_that_is_not_known_is_answered_with_those_that_are() {
    let world = World::start(Tier::Enterprise);
    for path in ["/api/v1/compliance/evidence", "/api/v1/compliance/evidence?check=keys_of_gold"] {
        let (status, told) = asked(&world, path).await;
        assert_eq!((status, &told["error"]), (400, &"check: expected the name of a check".into()), "{path}");
        let known = told["valid_checks"].as_array().unwrap();
        assert!(known.contains(&"access_in_use".into()), "{told}");
    }
    let (_, told) = asked(&world, "/api/v1/compliance/evidence?check=least_privilege").await;
    let items = told["items"].as_array().unwrap();
    // What is not as it should be comes first.
    assert_eq!((&items[0]["good"], &items[0]["observed"]), (&false.into(), &"its role is admin".into()));
}

#[tokio::test]
async fn a_check_is_narrowed_to_techniques_that_can_be_read() {
    let world = World::start(Tier::Enterprise);
    let path = "/api/v1/compliance/evidence?check=techniques_looked_for&techniques=AML.T9999";
    let (status, told) = asked(&world, path).await;
    assert_eq!((status, &told["result"], &told["items_total"]), (200, &"unmet".into(), &1.into()), "{told}");
    let item = &told["items"][0];
    let expected = "no detector and no rule is evidence of it";
    assert_eq!((&item["name"], &item["observed"]), (&"AML.T9999".into(), &expected.into()));
    for wrong in ["check=keys_expire&techniques=AML.T0051", "check=techniques_looked_for&techniques=a,,b"] {
        let (status, told) = asked(&world, &format!("/api/v1/compliance/evidence?{wrong}")).await;
        assert_eq!(status, 400, "{told}");
    }
}

/// The page that is printed lets nothing act, whatever a framework of one's own may hold, and is still styled.
#[tokio::test]
async fn the_page_of_a_report_lets_only_its_own_style_act() {
    let world = World::start(Tier::Professional);
    let path = "/api/v1/compliance?framework=soc2&format=html";
    let request = Request::get(path).header("host", "localhost").header("x-api-key", world.key("auditor"));
    let answer = world.send(request.body(Body::empty()).unwrap()).await;
    let policy = answer.headers()["content-security-policy"].to_str().unwrap().to_owned();
    let page = answer.into_body().collect().await.unwrap().to_bytes();
    let page = String::from_utf8(page.to_vec()).unwrap();
    let style = page.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
    let digest = STANDARD.encode(Sha256::digest(style));
    assert!(policy.starts_with(&format!("default-src 'none'; style-src 'sha256-{digest}'; ")), "{policy}");
    assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
    assert!(!page.contains("style=\"") && !page.contains("<script"));
}
