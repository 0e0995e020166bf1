//! What the deployment tries and vouches for: A/B tests, trust in agents, attestations, signing keys.

use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use portcullis::access::tier::Tier;
use portcullis::clock::Clock;
use portcullis::govern::trust::Act;
use portcullis::govern::trust::Sizes;
use serde_json::Value;

use crate::transcript::Transcript;
use crate::transcript::ask;
use crate::world::World;

#[tokio::test]
async fn signing() {
    let mut t = Transcript::begin("signing");
    let told = t.say("the public keys, for everybody", ask("GET", "/.well-known/jwks.json")).await;
    let first = told.body["keys"][0]["kid"].clone();
    t.say("how old they are", ask("GET", "/api/v1/signing/keys").by("operator")).await;
    let rotate = |body: &str| ask("POST", "/api/v1/signing/rotate").by("admin").body(body);
    let told = t.say("a new key", rotate(r#"{"withdraw": false}"#)).await;
    assert_ne!(told.body["kid"], first);
    let told = t.say("both are published", ask("GET", "/.well-known/jwks.json")).await;
    assert_eq!(told.body["keys"][1]["kid"], first);
    t.say("a new key, and the others withdrawn", rotate(r#"{"withdraw": true}"#)).await;
    let told = t.say("one is published", ask("GET", "/.well-known/jwks.json")).await;
    assert_eq!(told.body["keys"].as_array().map(Vec::len), Some(1));
    t.say("neither way", rotate("{}")).await;
    t.end();
}

#[tokio::test]
async fn abtest() {
    let mut t = Transcript::begin("abtest");
    let tests = "/api/v1/abtest/tests";
    let create = |variants: &str| {
        let body =
            format!(r#"{{"name": "strictness", "description": "Is off worse?", "variants": {variants}}}"#);
        ask("POST", tests).by("admin").body(body)
    };
    let two = r#"[{"name": "usual", "weight": 90, "model_ref": "default"}, {"name": "none", "weight": 10, "model_ref": "off"}]"#;
    let told = t.say("a test", create(two)).await;
    let one = format!("{tests}/{}", told.body["id"].as_str().unwrap());
    let path = |name: &str| format!("{one}/{name}");
    t.say("one variant", create(r#"[{"name": "a", "weight": 1, "model_ref": "default"}]"#)).await;
    let odd = r#"[{"name": "a", "weight": 1, "model_ref": "default"}, {"name": "b", "weight": 1, "model_ref": "x"}]"#;
    t.say("an unknown model", create(odd)).await;
    t.say("a role that may not", ask("POST", tests).by("operator").body("{}")).await;
    let assign = path("assign");
    let asked = |id: &str| ask("POST", &assign).by("service").body(format!(r#"{{"request_id": "{id}"}}"#));
    // The hash of `foobar` is 20 modulo 100, that of `request-4` is 95.
    let told = t.say("a request of the first variant", asked("foobar")).await;
    assert_eq!(told.body["variant"], "usual");
    let told = t.say("a request of the second", asked("request-4")).await;
    assert_eq!(told.body["variant"], "none");
    t.say("a request without an id", asked("")).await;
    let (start, stop, archive) = (path("start"), path("stop"), path("archive"));
    t.say("started", ask("POST", &start).by("operator")).await;
    t.say("deleted while it runs", ask("DELETE", &one).by("admin")).await;
    let result = path("result");
    let feed = |body: &str| ask("POST", &result).by("service").body(body);
    let plain = r#"{"variant_name": "usual", "detected": true, "false_positive": true, "latency_ms": 1.5}"#;
    t.say("a result", feed(plain)).await;
    let named = r#"{"variant_name": "none", "detected": false, "false_positive": false, "latency_ms": 0, "request_id": "request-4"}"#;
    t.say("a result of a request", feed(named)).await;
    t.say("the same again", feed(named)).await;
    t.say("a result of another variant's request", feed(&named.replace("request-4", "foobar"))).await;
    t.say("an unknown variant", feed(&plain.replace("usual", "other"))).await;
    for (title, latency) in
        [("negative", "-1"), ("huge", "1e300"), ("not a number", "NaN"), ("infinite", "1e999")]
    {
        t.say(&format!("a latency that is {title}"), feed(&plain.replace("1.5", latency))).await;
    }
    let metrics = path("metrics");
    t.say("what is known", ask("GET", &metrics).by("operator")).await;
    t.say("stopped", ask("POST", &stop).by("operator")).await;
    t.say("stopped again", ask("POST", &stop).by("operator")).await;
    t.say("the test", ask("GET", &one).by("operator")).await;
    t.say("put away", ask("POST", &archive).by("operator")).await;
    t.say("the tests", ask("GET", tests).by("operator")).await;
    t.say("with those put away", ask("GET", "/api/v1/abtest/tests?archived=true").by("operator")).await;
    t.say("deleted", ask("DELETE", &one).by("admin")).await;
    t.say("gone", ask("GET", &metrics).by("operator")).await;
    t.say("a request of what is gone", asked("x")).await;
    t.end();
}

/// Lets an agent call, and be attested.
fn agent_at_work(world: &World) {
    let act = |second: i64, denied: Option<&'static str>| Act {
        at: world.clock.now() + jiff::SignedDuration::from_secs(second),
        capability: Some(if denied.is_some() { "payments" } else { "search" }.to_owned()),
        tools: Vec::new(),
        denied,
        cause: None,
        sizes: denied.is_none().then_some(Sizes { request_bytes: 1000, response_bytes: 4000 }),
        findings: Vec::new(),
    };
    (0..5).for_each(|second| drop(world.office.trust.observe("crawler", &act(second, None))));
    world.office.trust.observe("crawler", &act(5, Some("A2A_CAP_DENIED")));
    world.office.trust.flush(world.clock.now()).unwrap();
}

#[tokio::test]
async fn trust() {
    let mut t = Transcript::begin("trust");
    agent_at_work(&t.world);
    t.world.clock.advance(Duration::from_secs(10));
    let get = |path: &'static str| ask("GET", path).by("auditor");
    t.say("the framework lives", ask("GET", "/api/v1/trust/health")).await;
    t.say("the newest attestation", get("/api/v1/trust/attestations/latest?agent=crawler")).await;
    t.say("a score", get("/api/v1/trust/score?agent=crawler")).await;
    t.say("and why", get("/api/v1/trust/score?agent=crawler&explain=true")).await;
    let told = t.say("sessions", get("/api/v1/trust/sessions?active=true&agent=crawler")).await;
    let path =
        format!("/api/v1/trust/score?session={}", told.body["sessions"][0]["session_id"].as_str().unwrap());
    t.say("a session's score", ask("GET", &path).by("auditor")).await;
    t.say("sessions that are over", get("/api/v1/trust/sessions?active=false")).await;
    t.say("an unknown agent", get("/api/v1/trust/score?agent=nobody")).await;
    t.say("an unknown session", get("/api/v1/trust/score?session=nobody")).await;
    t.say("nobody", get("/api/v1/trust/score")).await;
    t.say("both", get("/api/v1/trust/score?agent=a&session=b")).await;
    t.say("a role that may not", ask("GET", "/api/v1/trust/score?agent=crawler").by("operator")).await;
    t.say("attestations since then", get("/api/v1/trust/attestations?agent=crawler&since=4102444800")).await;
    let told = t
        .say("and since now", get("/api/v1/trust/attestations?agent=crawler&since=2026-05-01T12:00:00Z"))
        .await;
    assert_eq!(told.body["count"], 1);
    t.say("since no time", get("/api/v1/trust/attestations?agent=crawler&since=yesterday")).await;
    t.say("of nobody", get("/api/v1/trust/attestations/latest")).await;
    t.say("of an unknown agent", get("/api/v1/trust/attestations/latest?agent=nobody")).await;
    let asked = |path: &'static str| ask("POST", path).by("admin").body(r#"{"entity_id": "crawler"}"#);
    let told = t.say("what a data subject is told", asked("/api/v1/dsar/export")).await;
    assert_eq!(told.body["providers"]["trust"]["attestations"], 1);
    let told = t.say("and forgotten", asked("/api/v1/dsar/erase")).await;
    assert_eq!(told.body["providers"]["trust"], 3);
    t.say("it is unknown again", get("/api/v1/trust/score?agent=crawler")).await;
    t.end();
}

#[tokio::test]
async fn trust_needs_a_tier() {
    let paths = [
        "score?agent=crawler",
        "sessions",
        "attestations?agent=crawler",
        "attestations/latest?agent=crawler",
    ];
    for (tier, expected) in [(Tier::Community, 403), (Tier::Developer, 403), (Tier::Professional, 200)] {
        let world = World::start(tier);
        agent_at_work(&world);
        for path in paths {
            let request = Request::get(format!("/api/v1/trust/{path}")).header("host", "localhost");
            let request = request.header("x-api-key", world.key("auditor")).body(Body::empty()).unwrap();
            let answer = world.send(request).await;
            assert_eq!(answer.status().as_u16(), expected, "{path} {tier:?}");
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            let told = format!("trust needs tier Professional or above; here it is {}", tier.title());
            let is_told = String::from_utf8_lossy(&body).contains(&told);
            assert_eq!(is_told, expected == 403, "{path} {tier:?}");
        }
        let request = Request::get("/api/v1/trust/health").header("host", "localhost");
        assert_eq!(world.send(request.body(Body::empty()).unwrap()).await.status().as_u16(), 200);
    }
}

/// Returns what Python says of an attestation; nothing where there is no Python with the package.
fn python_says(folder: &Path, jwks: &Value, attestation: &Value, now: &str) -> Option<String> {
    let (keys, attested) = (folder.join("jwks.json"), folder.join("attestation.json"));
    std::fs::write(&keys, jwks.to_string()).unwrap();
    std::fs::write(&attested, attestation.to_string()).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = root.join("tests/clients/verify_attestation.py");
    let has_package = |python: &PathBuf| {
        let asked = Command::new(python).args(["-c", "import cryptography"]).output();
        asked.is_ok_and(|asked| asked.status.success())
    };
    let pythons = [root.join("target/clients/venv/bin/python"), "python3".into()];
    let python = pythons.into_iter().find(has_package)?;
    let said = Command::new(python).arg(script).args([keys, attested]).arg(now).output().unwrap();
    assert!(said.stderr.is_empty(), "{}", String::from_utf8_lossy(&said.stderr));
    Some(String::from_utf8_lossy(&said.stdout).trim().to_owned())
}

#[tokio::test]
async fn an_attestation_is_verified_by_who_shares_no_code_with_us() {
    let mut t = Transcript::begin("unkept");
    // No clock stands at whole seconds.
    t.world.clock.advance(Duration::from_nanos(123_456_789));
    agent_at_work(&t.world);
    let folder = tempfile::tempdir().unwrap();
    let now = "2026-05-01T13:00:00Z";
    let jwks = t.say("", ask("GET", "/.well-known/jwks.json")).await.body;
    let latest = "/api/v1/trust/attestations/latest?agent=crawler";
    let attested = t.say("", ask("GET", latest).by("auditor")).await.body;
    let says = |jwks: &Value, attested: &Value, now: &str| python_says(folder.path(), jwks, attested, now);
    let Some(said) = says(&jwks, &attested, now) else {
        panic!("no Python with `cryptography`: tests/clients/setup.sh installs one");
    };
    assert_eq!(said, "verified");
    let forged = |change: &dyn Fn(&mut Value)| {
        let mut changed = attested.clone();
        change(&mut changed);
        says(&jwks, &changed, now).unwrap()
    };
    assert_eq!(forged(&|it| it["statements"][0]["score"] = 100.into()), "statements is not what was signed");
    assert_eq!(forged(&|it| it["agent_id"] = "other".into()), "agent_id is not what was signed");
    let payload = forged(&|it| {
        let text = it["signature"]["payload"].as_str().unwrap().replacen('J', "K", 1);
        it["signature"]["payload"] = text.into();
    });
    assert_eq!(payload, "the signature is wrong");
    assert_eq!(says(&jwks, &attested, "2026-05-03T00:00:00Z").unwrap(), "it does not count at that moment");
    // A new key signs from now on; what the old one signed still counts.
    t.world.office.signing.rotate(t.world.clock.now()).unwrap();
    let rotated = t.say("", ask("GET", "/.well-known/jwks.json")).await.body;
    assert_eq!(rotated["keys"].as_array().map(Vec::len), Some(2));
    assert_eq!(says(&rotated, &attested, now).unwrap(), "verified");
    t.world.clock.advance(Duration::from_secs(7200));
    agent_at_work(&t.world);
    let later = t.say("", ask("GET", latest).by("auditor")).await.body;
    assert_ne!(later["signature"]["signatures"], attested["signature"]["signatures"]);
    assert_eq!(says(&rotated, &later, "2026-05-01T15:00:00Z").unwrap(), "verified");
    assert_eq!(says(&jwks, &later, "2026-05-01T15:00:00Z").unwrap(), "no published key has that name");
    t.world.office.signing.withdraw(t.world.clock.now()).unwrap();
    let withdrawn = t.say("", ask("GET", "/.well-known/jwks.json")).await.body;
    assert_eq!(says(&withdrawn, &attested, now).unwrap(), "no published key has that name");
    t.world.office.trust.flush(t.world.clock.now()).unwrap();
    let anew = t.say("", ask("GET", latest).by("auditor")).await.body;
    assert_eq!(says(&withdrawn, &anew, "2026-05-01T15:00:00Z").unwrap(), "verified");
}
