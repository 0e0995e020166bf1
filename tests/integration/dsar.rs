//! What every provider has of somebody, with the figures that really came about; and that all of it goes.

use std::fs;

use serde_json::Value;
use serde_json::json;

use crate::framing::POLICY;
use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::upstream::Upstream;
use crate::usage::ANSWER;
use crate::usage::ASK;
use crate::usage::CHAT;
use crate::usage::admin;
use crate::usage::counted;
use crate::wire::exchange;
use crate::wire::post;

/// Those that are answered: each tells of 100 tokens.
const ANSWERED: u64 = 3;
/// Those in which something is found, and which are blocked.
const BLOCKED: u64 = 2;

fn gateway(upstream: &Upstream) -> Gateway {
    let directory = tempfile::tempdir().expect("a temporary directory");
    fs::write(directory.path().join("provider.key"), "provider-one\n").expect("it is writable");
    let config = format!(
        "[audit]\ndurability = \"wait\"\n\n[[routes]]\nname = \"all\"\npath_prefix = \"/\"\nupstream = \"http://{}\"\n\
         policy = \"default\"\nauth = \"gateway_key\"\nprovider_key_file = \"provider.key\"\n\n{UNLIMITED}\n{POLICY}",
        upstream.address
    );
    fs::write(directory.path().join("gateway.toml"), config).expect("it is writable");
    Gateway::launched(directory, vec!["--config".to_owned(), "gateway.toml".to_owned()])
}

/// Begins a session by the page, as a browser does.
fn sign_in(gateway: &Gateway, key: &str) {
    let form = format!("key={key}");
    let request = format!(
        "POST /login HTTP/1.1\r\nhost: {}\r\nsec-fetch-site: same-origin\r\n\
         content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{form}",
        gateway.admin,
        form.len()
    );
    let answer = exchange(gateway.admin, request.as_bytes());
    assert_eq!(answer.status, 303, "{}", answer.text());
}

fn dsar(gateway: &Gateway, what: &str, entity: &str) -> Value {
    let path = format!("/api/v1/dsar/{what}");
    let (status, told) = admin(gateway, "POST", &path, &json!({ "entity_id": entity }));
    assert_eq!(status, 200, "{told}");
    told["providers"].clone()
}

#[test]
fn every_provider_tells_what_it_has_and_forgets_it() {
    let upstream = Upstream::answering("application/json", ANSWER);
    let mut gateway = gateway(&upstream);
    let new = json!({ "name": "marta", "role": "admin" });
    let (status, made) = admin(&gateway, "POST", "/api/v1/keys", &new);
    assert_eq!(status, 201, "{made}");
    let (id, key) = (made["id"].as_str().expect("an id"), made["key"].as_str().expect("a key"));
    let header = format!("authorization: Bearer {key}\r\n");
    let tool = r#"{"tools":[{"type":"function","function":{"name":"weather"}}],"#;
    for ask in [ASK.replacen('{', tool, 1), ASK.to_owned(), ASK.to_owned()].iter().take(ANSWERED as usize) {
        assert_eq!(exchange(gateway.proxy, &post(CHAT, &header, ask)).status, 200);
    }
    let leak = ASK.replace("four words", &format!("AKIA{}", "Z7VRSQ5TJN2WMPLX"));
    for _ in 0..BLOCKED {
        assert_eq!(exchange(gateway.proxy, &post(CHAT, &header, &leak)).status, 403);
    }
    (0..2).for_each(|_| sign_in(&gateway, key));
    counted(&gateway, ANSWERED + BLOCKED);
    // Its making, its exchanges and its two logins.
    let about = |gateway: &Gateway| {
        let (_, page) = admin(gateway, "GET", &format!("/api/v1/audit?entity={id}&limit=1000"), &Value::Null);
        page["total"].as_u64().expect("a total")
    };
    let recorded = about(&gateway);
    assert!(recorded >= ANSWERED + BLOCKED, "{recorded}");

    let told = dsar(&gateway, "export", "marta");
    assert_eq!(told["rbac"]["roles"], json!(["admin"]), "{told}");
    assert_eq!(told["ioc"], json!({ "matches": BLOCKED }), "{told}");
    assert_eq!(told["sessions"]["count"], 2, "{told}");
    assert_eq!(told["sessions"]["began"].as_array().map(Vec::len), Some(2), "{told}");
    let used = json!({ "days": 1, "requests": ANSWERED + BLOCKED, "tokens": ANSWERED * 100 });
    assert_eq!(told["analytics"], used, "{told}");
    assert_eq!(told["tools"], json!({ "pinned": 1 }), "{told}");
    let events = told["audit"]["events"].as_u64().expect("a count");
    assert!(events >= recorded, "what it did counts as well as what was done to it: {told}");
    assert_eq!(dsar(&gateway, "export", id)["ioc"], told["ioc"], "one entity by any name");

    gateway.end_and_restart();
    // What is counted of a day is not forgotten with the process.
    let (_, stats) = admin(&gateway, "GET", "/stats", &Value::Null);
    assert!(stats["requests_today"].as_u64() >= Some(ANSWERED + BLOCKED), "{stats}");
    assert_eq!(stats["threats_blocked"], BLOCKED, "{stats}");
    assert!(stats["avg_latency_ms"].as_f64() > Some(0.0), "{stats}");
    let erased = dsar(&gateway, "erase", "marta");
    let count = |name: &str| erased[name].as_u64().unwrap_or(0);
    assert_eq!((count("rbac"), count("ioc"), count("sessions")), (1, BLOCKED, 2), "{erased}");
    assert_eq!(count("tools"), 1, "{erased}");
    // Its figures of the day, and of the hour.
    assert!(count("analytics") >= 1 && count("audit") > events, "{erased}");
    assert_eq!((dsar(&gateway, "export", "marta"), dsar(&gateway, "export", id)), (json!({}), json!({})));
    assert_eq!(about(&gateway), 0);
    assert_eq!(exchange(gateway.proxy, &post(CHAT, &header, ASK)).status, 401);
    // What was used is not forgotten, only by whom.
    let usage = counted(&gateway, ANSWERED + BLOCKED);
    assert_eq!(usage["total_tokens"], ANSWERED * 100, "{usage}");
    assert!(!usage.to_string().contains(id), "{usage}");
}
