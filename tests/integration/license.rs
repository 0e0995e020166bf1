//! A licence from its making to its end: the command line makes it, the gateway obeys it while it runs.

use std::fs;
use std::path::Path;
use std::time::Instant;

use serde_json::Value;
use serde_json::json;

use crate::gateway::Gateway;
use crate::gateway::program;
use crate::upstream::Upstream;
use crate::usage::admin;
use crate::wire::PATIENCE;
use crate::wire::exchange;
use crate::wire::post;

const UNLIMITED: &str = "2147483647";

/// Runs the program in a directory; returns its exit code and what it said.
fn portcullis(directory: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let ran = program().args(arguments).current_dir(directory).output();
    let ran = ran.expect("the program was built");
    (ran.status.code(), String::from_utf8_lossy(&ran.stdout).trim().to_owned())
}

fn issue(directory: &Path, tier: &str, more: &[&str]) -> String {
    let mut arguments =
        vec!["license", "issue", "--key", "sign.pem", "--subject", "Northwind", "--tier", tier];
    arguments.extend(["--expires", "2199-01-01T00:00:00Z"]);
    arguments.extend(more);
    let (code, token) = portcullis(directory, &arguments);
    assert_eq!(code, Some(0));
    token
}

fn keygen(directory: &Path, key: &str, public: &str) {
    let (code, _) = portcullis(directory, &["license", "keygen", "--key", key, "--public", public]);
    assert_eq!(code, Some(0));
}

fn ask(gateway: &Gateway, path: &str) -> (u16, Value) {
    let key = gateway.admin_key();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\nx-api-key: {key}\r\n\r\n", gateway.admin);
    let answer = exchange(gateway.admin, request.as_bytes());
    (answer.status, answer.json())
}

fn wait_until_valid(gateway: &Gateway, valid: bool) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (_, status) = ask(gateway, "/api/v1/license/status");
        if status["valid"] == json!(valid) {
            return status;
        }
        assert!(Instant::now() < deadline, "the licence did not become valid = {valid}: {status}");
    }
}

#[test]
fn a_licence_is_obeyed_while_it_counts() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    keygen(directory.path(), "sign.pem", "trusted.pem");
    let token = issue(directory.path(), "enterprise", &["--feature", "extra"]);
    fs::write(directory.path().join("license.jwt"), &token).expect("the directory is writable");
    let upstream = Upstream::answering("application/json", "{}");
    let config = format!(
        "[license]\nfile = \"license.jwt\"\ntrusted_keys = [\"trusted.pem\"]\n[[routes]]\nname = \"x\"\npath_prefix = \"/\"\n\
         upstream = \"http://{}\"\ndialect = \"openai\"\npolicy = \"default\"\n",
        upstream.address
    );
    fs::write(directory.path().join("gateway.toml"), config).expect("the directory is writable");
    let gateway = Gateway::launched(directory, vec!["--config".to_owned(), "gateway.toml".to_owned()]);
    let limit = || {
        let answer = exchange(gateway.proxy, &post("/v1/embeddings", "", "{}"));
        (answer.status, answer.header("x-ratelimit-limit").unwrap_or_default().to_owned())
    };

    let (_, status) = ask(&gateway, "/api/v1/license/status");
    assert_eq!(status["expires"], "2199-01-01T00:00:00Z");
    assert_eq!((&status["tier"], &status["valid"]), (&json!("enterprise"), &json!(true)));
    assert_eq!(limit(), (200, UNLIMITED.to_owned()));
    let (_, tier) = ask(&gateway, "/api/v1/tier");
    let features = tier["features"].as_array().expect("a list");
    assert!(features.contains(&json!("extra")) && features.contains(&json!("unlimited_requests")), "{tier}");

    // A key that was given no tier is entitled to what the deployment is, before and after; one with a tier keeps it.
    let keys = |method: &str, path: &str, body: Value| admin(&gateway, method, path, &body).1;
    let made = |body: Value| {
        let made = keys("POST", "/api/v1/keys", body);
        (format!("/api/v1/keys/{}", made["id"].as_str().expect("an id")), made["tier"].clone())
    };
    let (free, told) = made(json!({ "name": "free", "role": "service" }));
    assert_eq!(told, "enterprise");
    let (small, told) = made(json!({ "name": "small", "role": "service", "tier": "developer" }));
    assert_eq!(told, "developer");
    // Whoever has less than the deployment is told what they have.
    let few = keys("POST", "/api/v1/keys", json!({ "name": "few", "role": "analyst", "tier": "developer" }));
    let request = format!(
        "GET /api/v1/tier HTTP/1.1\r\nhost: localhost\r\nx-api-key: {}\r\n\r\n",
        few["key"].as_str().expect("a key")
    );
    let tier = exchange(gateway.admin, request.as_bytes()).json();
    assert_eq!(tier["tier"], "developer", "{tier}");
    let features = tier["features"].as_array().expect("a list");
    assert!(
        !features.contains(&json!("extra")) && !features.contains(&json!("unlimited_requests")),
        "{tier}"
    );
    let tiers = || [&free, &small].map(|path| ask(&gateway, path).1["tier"].clone());

    // Somebody else's signature: the tier falls back and health says so, and traffic goes on.
    let file = gateway.directory().join("license.jwt");
    keygen(gateway.directory(), "other.pem", "other_public.pem");
    fs::rename(gateway.directory().join("sign.pem"), gateway.directory().join("first.pem"))
        .expect("it is there");
    fs::rename(gateway.directory().join("other.pem"), gateway.directory().join("sign.pem"))
        .expect("it is there");
    fs::write(&file, issue(gateway.directory(), "enterprise", &[])).expect("the directory is writable");
    let status = wait_until_valid(&gateway, false);
    assert_eq!(
        (&status["tier"], &status["reason"]),
        (&json!("community"), &json!("no trusted key has signed the licence"))
    );
    // Nobody vouches for what it says of its end, but it says it.
    assert_eq!(status["expires"], "2199-01-01T00:00:00Z", "{status}");
    assert_eq!(limit(), (200, "60".to_owned()));
    let (code, health) = ask(&gateway, "/health");
    assert_eq!((code, &health["dependencies"]["license"]), (503, &json!("down")));
    assert_eq!(health["reasons"]["license"], "no trusted key has signed the licence");
    assert_eq!(tiers(), ["community", "community"]);
    let (late, told) = made(json!({ "name": "late", "role": "service" }));
    assert_eq!(told, "community");
    let recorded = |message: &str| {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (_, log) = ask(&gateway, "/api/v1/audit?limit=100");
            // None is shown to whoever asks more often than the tier allows.
            let mut entries = log["entries"].as_array().into_iter().flatten();
            if entries.any(|it| it["event_type"] == "license_changed" && it["message"] == message) {
                return;
            }
            assert!(Instant::now() < deadline, "nothing says `{message}`: {log}");
        }
    };
    recorded("no trusted key has signed the licence: the tier is community");

    // The key is exchanged while the gateway runs, and the licence counts.
    let directory = gateway.directory();
    fs::rename(directory.join("other_public.pem"), directory.join("trusted.pem")).expect("it is there");
    wait_until_valid(&gateway, true);
    assert_eq!(limit(), (200, UNLIMITED.to_owned()));
    assert_eq!(ask(&gateway, "/health").0, 200);
    assert_eq!(tiers(), ["enterprise", "developer"]);
    assert_eq!(ask(&gateway, &late).1["tier"], "enterprise", "it was made under a smaller licence");
    keys("PATCH", &small, json!({ "tier": null }));
    assert_eq!(tiers(), ["enterprise", "enterprise"]);
    recorded("a licence counts until 2199-01-01T00:00:00Z: the tier is enterprise");

    // What is half there for longer than a copy takes is no licence: whoever is asked says the same.
    fs::write(&file, "half").expect("the directory is writable");
    let status = wait_until_valid(&gateway, false);
    assert_eq!(status["reason"], "the licence is malformed");
    assert!(status["expires"].is_null(), "{status}");
    let (code, health) = ask(&gateway, "/health");
    assert_eq!((code, &health["dependencies"]["license"]), (503, &json!("down")));
    assert_eq!(health["reasons"]["license"], "the licence is malformed");
}

#[test]
fn inspect_tells_what_a_licence_says_and_whether_it_counts() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let at = directory.path();
    keygen(at, "sign.pem", "trusted.pem");
    keygen(at, "stranger.pem", "stranger_public.pem");
    fs::write(at.join("license.jwt"), issue(at, "professional", &["--agent", "billing"]))
        .expect("it is writable");
    let inspect = |more: &[&str]| {
        let (code, said) = portcullis(at, &[&["license", "inspect", "license.jwt"], more].concat());
        (code, serde_json::from_str::<Value>(&said).expect("JSON"))
    };
    let (code, said) = inspect(&[]);
    assert_eq!((code, &said["tier"], &said["agent"]), (Some(0), &json!("professional"), &json!("billing")));
    assert_eq!((&said["verified"], &said["valid"]), (&json!(false), &json!(null)));
    let (_, said) = inspect(&["--trusted", "trusted.pem"]);
    assert_eq!((&said["verified"], &said["valid"]), (&json!(true), &json!(true)));
    let (code, said) = inspect(&["--trusted", "stranger_public.pem"]);
    assert_eq!((code, &said["verified"], &said["valid"]), (Some(1), &json!(false), &json!(false)));
    let token = issue(at, "developer", &["--not-before", "2198-01-01T00:00:00Z"]);
    fs::write(at.join("license.jwt"), token).expect("it is writable");
    let (code, said) = inspect(&["--trusted", "trusted.pem"]);
    assert_eq!((code, &said["verified"], &said["valid"]), (Some(1), &json!(true), &json!(false)));
    assert_eq!(said["not_before"], "2198-01-01T00:00:00Z");
    let mode =
        fs::metadata(at.join("sign.pem")).map(|facts| std::os::unix::fs::MetadataExt::mode(&facts) & 0o777);
    assert_eq!(mode.expect("the key is there"), 0o600);
    let arguments = ["license", "keygen", "--key", "sign.pem", "--public", "trusted.pem"];
    assert_eq!(portcullis(at, &arguments).0, Some(1), "a key is never overwritten");
    let trusted = fs::read(at.join("trusted.pem")).expect("the key is there");
    for (key, public) in [("fresh.pem", "trusted.pem"), ("both.pem", "both.pem")] {
        let arguments = ["license", "keygen", "--key", key, "--public", public];
        assert_eq!(portcullis(at, &arguments).0, Some(1), "{arguments:?}");
        assert!(!at.join(key).exists(), "half a pair is left behind");
    }
    assert_eq!(fs::read(at.join("trusted.pem")).expect("it is there"), trusted);
    let nobody = ["license", "issue", "--key", "sign.pem", "--subject", " ", "--tier", "developer"];
    let nobody = [&nobody[..], &["--expires", "2199-01-01T00:00:00Z"]].concat();
    assert_eq!(portcullis(at, &nobody).0, Some(1), "a licence of nobody");
    let past = ["--tier", "developer", "--expires", "2001-01-01T00:00:00Z"];
    let issue = ["license", "issue", "--key", "sign.pem", "--subject", "x"];
    assert_eq!(portcullis(at, &[&issue[..], &past].concat()).0, Some(1));
}
