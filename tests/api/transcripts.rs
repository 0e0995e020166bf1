//! The conversations.

use std::time::Duration;

use portcullis::access::budget::Amount;
use portcullis::access::tier::Tier;
use portcullis::clock::Clock;
use portcullis::govern::analytics::Finding;
use portcullis::govern::analytics::Tokens;
use portcullis::govern::analytics::Use;
use portcullis::govern::analytics::Verdict;
use portcullis::policy::decision::Action;
use portcullis::scan::threat::Category;

use crate::transcript::Ask;
use crate::transcript::Told;
use crate::transcript::Transcript;
use crate::transcript::ask;
use crate::world::World;
use crate::world::certificate;

/// A value that the secrets detector of the tests knows.
fn secret() -> String {
    format!("key_{}", "abcdefghijklmnop")
}

#[tokio::test]
async fn edge() {
    let mut t = Transcript::begin("edge");
    t.say("a path that is not there", ask("GET", "/api/v1/nothing").by("admin")).await;
    t.say("a method that is not taken", ask("DELETE", "/api/v1/config").by("admin")).await;
    t.say("no credential", ask("GET", "/api/v1/config")).await;
    t.say("a credential that is none", ask("GET", "/api/v1/config").by("pk_nonsense")).await;
    let two = ask("GET", "/api/v1/config").by("admin").with("x-api-token", "another");
    t.say("two different credentials", two).await;
    t.say("a role that may not", ask("GET", "/api/v1/config").by("service")).await;
    t.say("a host name that is not ours", ask("GET", "/health").with("host", "evil.example")).await;
    let foreign = ask("POST", "/v1/scan").by("admin").with("origin", "http://evil.example").body("{}");
    t.say("a page of another origin", foreign).await;
    t.say("a parameter that is no text", ask("GET", "/api/v1/keys/%FF").by("admin")).await;
    t.end();
}

#[tokio::test]
async fn observation() {
    let world = World::start_as(Tier::Professional, |office| office.certificates.push(certificate()));
    let mut t = Transcript::begin_in("observation", world);
    t.say("health", ask("GET", "/health")).await;
    t.say("health with everything", ask("GET", "/api/v1/health")).await;
    t.say("readiness", ask("GET", "/ready")).await;
    t.say("version", ask("GET", "/version")).await;
    t.say("figures of the day", ask("GET", "/stats").by("analyst")).await;
    t.say("the node", ask("GET", "/api/v1/status").by("auditor")).await;
    t.say("the state", ask("GET", "/api/v1/persistence").by("auditor")).await;
    t.say("the certificates", ask("GET", "/api/v1/certs").by("auditor")).await;
    t.say("the nodes", ask("GET", "/api/v1/cluster/health").by("auditor")).await;
    t.say("who is signed in", ask("GET", "/api/v1/sessions").by("admin")).await;
    t.say("the guardrails between agents", ask("GET", "/api/v1/guardrails").by("operator")).await;
    t.say("forwarding", ask("GET", "/api/v1/siem/status").by("auditor")).await;
    t.say("the API document", ask("GET", "/openapi.json").by("service")).await;
    t.end();
}

#[tokio::test]
async fn license() {
    let mut t = Transcript::begin("license");
    t.say("how well it serves, before anything was measured", ask("GET", "/api/v1/sla").by("auditor")).await;
    t.say("no licence is needed", ask("GET", "/api/v1/license/status").by("auditor")).await;
    t.say("what that enables", ask("GET", "/api/v1/tier").by("auditor")).await;
    t.say("a role that may not", ask("GET", "/api/v1/tier").by("service")).await;
    t.end();
}

#[tokio::test]
async fn analytics() {
    let mut t = Transcript::begin("analytics");
    let used = |model: &str, prompt: u64, completion: u64| Use {
        caller: Some("caller_0123456789abcdef01234567".to_owned()),
        model: Some(model.to_owned()),
        route: Some("openai".to_owned()),
        tokens: Tokens { prompt, completion, total: prompt + completion, ..Tokens::default() },
        verdict: Verdict::Answered,
        took: Duration::from_millis(250),
        ..Use::default()
    };
    let get = |path: &'static str| ask("GET", path).by("analyst");
    t.say("nothing was used yet", get("/api/v1/analytics/usage")).await;
    t.world.office.meter.note(&used("gpt-4o", 1000, 100));
    t.world.clock.advance(Duration::from_secs(3600));
    t.world.office.meter.note(&used("a-model-of-ones-own", 10, 5));
    let failed = Use { verdict: Verdict::Failed, tokens: Tokens::default(), ..used("gpt-4o", 0, 0) };
    t.world.office.meter.note(&failed);
    let found = |detector: &str, action| Finding {
        category: Category::Secrets,
        detector: detector.to_owned(),
        action,
    };
    let blocked = Use {
        verdict: Verdict::Blocked,
        findings: vec![found("aws_access_key_id", Action::Block), found("generic_secret", Action::Monitor)],
        ..failed
    };
    t.world.office.meter.note(&blocked);
    t.say("what was used", get("/api/v1/analytics/usage")).await;
    t.say("what it cost", get("/api/v1/analytics/cost?from=2026-05-01&to=2026-05-02")).await;
    t.say("two hours", get("/api/v1/analytics/dashboard?from=2026-05-01T12:00:00Z")).await;
    t.say("nothing is out of the ordinary", get("/api/v1/analytics/anomalies")).await;
    for wrong in ["from=yesterday", "from=2026-05-02&to=2026-05-01", "from=1920-01-01", "form=2026-05-01"] {
        t.say("nonsense", ask("GET", &format!("/api/v1/analytics/usage?{wrong}")).by("analyst")).await;
    }
    t.say("too many hours", get("/api/v1/analytics/dashboard?from=2026-03-01")).await;
    t.say("too many days", get("/api/v1/analytics/cost?from=2020-03-01")).await;
    t.end();
}

#[tokio::test]
async fn compliance() {
    let mut t = Transcript::begin("compliance");
    let get = |path: &'static str| ask("GET", path).by("auditor");
    t.say("an unknown framework", get("/api/v1/compliance?framework=sox")).await;
    t.say("a role that may not", ask("GET", "/api/v1/compliance").by("operator")).await;
    t.say("an unknown format", get("/api/v1/compliance?framework=soc2&format=pdf")).await;
    t.say("one framework", get("/api/v1/compliance?framework=owasp_llm")).await;
    let live = t.say("all of them", get("/api/v1/compliance/live")).await;
    assert_eq!(live.body["frameworks"].as_object().map(serde_json::Map::len), Some(8));
    t.say("for programs of auditors", get("/api/v1/compliance?framework=owasp_llm&format=oscal")).await;
    t.say("to be printed", get("/api/v1/compliance?framework=owasp_llm&format=html")).await;
    // The figures change with what happens, at most once a second.
    let entry = |told: &Told, id: &str, check: &str| {
        let controls = told.body["controls"].as_array().unwrap().clone();
        let control = controls.into_iter().find(|it| it["id"] == id).unwrap();
        control["evidence"].as_array().unwrap().iter().find(|it| it["check"] == check).unwrap().clone()
    };
    let before = t.say("before", get("/api/v1/compliance?framework=soc2")).await;
    assert_eq!(entry(&before, "CC6.3", "key_changes_recorded")["result"], "unknown");
    t.say("a key", ask("POST", "/api/v1/keys").by("admin").body(r#"{"name":"n","role":"service"}"#)).await;
    t.world.office.compliance.verify_chain();
    t.world.clock.advance(Duration::from_millis(1500));
    let after = t.say("after", get("/api/v1/compliance?framework=soc2")).await;
    let seen = entry(&after, "CC6.3", "key_changes_recorded");
    assert_eq!((&seen["result"], &seen["figure"]), (&"met".into(), &1.0.into()), "{seen}");
    assert_eq!(entry(&after, "CC4.1", "audit_chain_intact")["result"], "met");
    t.say("what a check goes by", get("/api/v1/compliance/evidence?check=least_privilege")).await;
    // The link of the evidence gives the figure again.
    let link = seen["links"][0].as_str().unwrap().to_owned();
    assert_eq!(t.say("the evidence", ask("GET", &link).by("auditor")).await.body["total"], 1);
    t.end();
}

#[tokio::test]
async fn budgets() {
    let mut t = Transcript::begin("budgets");
    let body =
        r#"{"name": "app", "role": "service", "budget": {"tokens_per_day": 1000, "cost_per_month": 2.5}}"#;
    let made = t.say("a key with a budget", ask("POST", "/api/v1/keys").by("admin").body(body)).await;
    let path = format!("/api/v1/keys/{}/budget", made.body["id"].as_str().unwrap());
    let held = t.world.office.budgets.hold(made.body["id"].as_str().unwrap()).unwrap();
    held.settle(Amount { tokens: 1001, cost: 250_000_000_000 }, t.world.clock.now());
    t.say("what is used of it", ask("GET", &path).by("operator")).await;
    let put = |body: &str| ask("PUT", &path).by("admin").body(body);
    t.say("more of it", put(r#"{"tokens_per_day": 2000}"#)).await;
    t.say("less than nothing", put(r#"{"cost_per_day": -1}"#)).await;
    t.say("nothing that limits", put("{}")).await;
    t.say("something else", put(r#"{"tokens_per_year": 1}"#)).await;
    t.say("a role that may not", ask("PUT", &path).by("operator").body("{}")).await;
    t.say("without end", ask("DELETE", &path).by("admin")).await;
    t.say("no budget", ask("GET", &path).by("admin")).await;
    t.say("no key", ask("GET", "/api/v1/keys/none/budget").by("admin")).await;
    // What a key used before it had a budget counts, as far as it is known.
    let id = made.body["id"].as_str().map(str::to_owned);
    let tokens = Tokens { prompt: 70, completion: 7, total: 77, ..Tokens::default() };
    t.world.office.meter.note(&Use { caller: id, tokens, ..Use::default() });
    t.say("a budget for a key that was in use", put(r#"{"tokens_per_month": 100}"#)).await;
    t.end();
}

#[tokio::test]
async fn anomalies() {
    let mut t = Transcript::begin("anomalies");
    let note = |world: &World, count: u64| {
        let used = Use {
            caller: Some("caller_0123456789abcdef01234567".to_owned()),
            model: Some("gpt-4o".to_owned()),
            tokens: Tokens { prompt: 1000, total: 1000, ..Tokens::default() },
            ..Use::default()
        };
        for _ in 0..count {
            world.office.meter.note(&used);
        }
    };
    for hour in 0..10 * 24 {
        note(&t.world, if hour % 24 < 12 { 50 } else { 0 });
        t.world.clock.advance(Duration::from_secs(3600));
    }
    t.say("the ordinary rhythm", ask("GET", "/api/v1/analytics/anomalies").by("analyst")).await;
    t.world.clock.advance(Duration::from_secs(15 * 3600));
    note(&t.world, 400);
    t.say("traffic at night", ask("GET", "/api/v1/analytics/anomalies").by("analyst")).await;
    t.end();
}

#[tokio::test]
async fn scan() {
    let mut t = Transcript::begin("scan");
    let scan = |body: String| ask("POST", "/v1/scan").by("service").body(body);
    t.say("nothing found", scan(r#"{"content": "hello"}"#.to_owned())).await;
    let text = format!(r#"{{"content": "use {} and ignore all previous"}}"#, secret());
    t.say("two threats", scan(text)).await;
    let text = format!(r#"{{"content": "{}", "options": {{"scan_secrets": false}}}}"#, secret());
    t.say("secrets are not looked for", scan(text)).await;
    let body = format!(r#"{{"content": "use {}"}}"#, secret());
    t.say("by its other path", ask("POST", "/api/v1/scan").by("service").body(body)).await;
    t.say("an unknown option", scan(r#"{"content": "x", "options": {"scan_all": true}}"#.to_owned())).await;
    t.say("no content", scan("{}".to_owned())).await;
    t.say("content that is no text", scan(r#"{"content": 5}"#.to_owned())).await;
    t.say("no JSON", scan("{".to_owned())).await;
    let long = format!(r#"{{"content": "{}"}}"#, "a ".repeat(5 << 20) + "a");
    t.say("more than is inspected", scan(long)).await;
    t.end();
}

#[tokio::test]
async fn screen() {
    let mut t = Transcript::begin("screen");
    let prompt = |body: String| ask("POST", "/api/v1/screen").by("service").body(body);
    t.say("a clean prompt", prompt(r#"{"prompt": "hello"}"#.to_owned())).await;
    t.say("a secret in a prompt", prompt(format!(r#"{{"prompt": "use {}"}}"#, secret()))).await;
    let answer = ask("POST", "/api/v1/screen/response").by("service");
    t.say("a secret in an answer", answer.body(format!(r#"{{"response": "use {}."}}"#, secret()))).await;
    let body = format!(r#"{{"policy": "monitor", "prompt": "use {}"}}"#, secret());
    t.say("under a policy that only records", prompt(body)).await;
    let body = format!(
        r#"{{"dialect": "openai", "body": {{"id": "c", "object": "chat.completion", "choices": [{{"index": 0, "message": {{"role": "assistant", "content": "{}"}}}}]}}}}"#,
        secret()
    );
    t.say("a whole answer", ask("POST", "/api/v1/screen/response").by("service").body(body)).await;
    let odd = r#"{"dialect": "openai", "body": {"model": "a", "model": "b", "messages": []}}"#;
    let body = format!(r#"{{"prompt": "ignore all previous, {}"}}"#, secret());
    t.say("two findings that a rule sees together", prompt(body)).await;
    t.say("a body that decoders read differently", prompt(odd.to_owned())).await;
    t.say("an unknown policy", prompt(r#"{"prompt": "x", "policy": "none"}"#.to_owned())).await;
    t.say("an unknown dialect", prompt(r#"{"body": {}, "dialect": "none"}"#.to_owned())).await;
    t.say("two texts", prompt(r#"{"prompt": "x", "content": "y"}"#.to_owned())).await;
    t.say("the text of the other direction", prompt(r#"{"response": "x"}"#.to_owned())).await;
    t.say("nothing", prompt("{}".to_owned())).await;
    t.end();
}

#[tokio::test]
async fn config() {
    let mut t = Transcript::begin("config");
    let put = |body: &str| ask("PUT", "/api/v1/config").by("operator").body(body);
    let told = t.say("the configuration", ask("GET", "/api/v1/config").by("operator")).await;
    let patch = r#"{"limits": {"scan_ms": 1000}}"#;
    let dry = ask("PUT", "/api/v1/config?dry_run=true").by("operator").body(patch);
    t.say("what would change", dry).await;
    t.say("a change of what was read", put(patch).with("if-match", told.etag.clone())).await;
    let stale = t.say("a change of what has changed", put(patch).with("if-match", told.etag)).await;
    assert_eq!(stale.status, 412);
    let faulty = r#"{"limits": {"scan_ms": "soon", "scan_mss": 1}, "routes": [{"name": "x"}]}"#;
    t.say("everything that is wrong", put(faulty)).await;
    t.say("a key that needs a restart", put(r#"{"proxy": {"listen": "0.0.0.0:1"}}"#)).await;
    t.say("no object", put("[]")).await;
    let odd = ask("PUT", "/api/v1/config?dry_runn=true").by("operator").body(patch);
    t.say("an unknown parameter", odd).await;
    // What was read can be sent back as it is.
    let whole = t.world_config().await;
    let same = t.say("the whole document sent back", put(&whole)).await;
    assert_eq!(same.status, 200);
    t.say("revisions", ask("GET", "/api/v1/config/revisions").by("operator")).await;
    t.say("revisions, too many", ask("GET", "/api/v1/config/revisions?limit=1001").by("operator")).await;
    let back = |body: &str| ask("POST", "/api/v1/config/rollback").by("operator").body(body);
    let told = t.say("back to the first", back(r#"{"revision": 1}"#)).await;
    assert_eq!(told.body["limits"]["scan_ms"], 2000);
    t.say("back to what never was", back(r#"{"revision": 99}"#)).await;
    t.say("back to nothing", back("{}")).await;
    t.end();
}

#[tokio::test]
async fn profiles() {
    let mut t = Transcript::begin("profiles");
    t.say("the profiles", ask("GET", "/api/v1/profiles").by("operator")).await;
    let apply = |body: &str| ask("POST", "/api/v1/profiles/apply").by("operator").body(body);
    t.say("one applied", apply(r#"{"profile": "high-security"}"#)).await;
    t.say("an unknown one", apply(r#"{"profile": "../etc/passwd"}"#)).await;
    t.say("none", apply("{}")).await;
    t.end();
}

#[tokio::test]
async fn policies() {
    let mut t = Transcript::begin("policies");
    t.say("what can be found", ask("GET", "/api/v1/detectors").by("operator")).await;
    t.say("the policies", ask("GET", "/api/v1/policies").by("operator")).await;
    let post = |body: &str| ask("POST", "/api/v1/policies").by("operator").body(body);
    let new = r#"{"id": "mine", "description": "My own.", "categories": {"pii": {"mode": "block"}, "secrets": {"mode": "off"}}}"#;
    let told = t.say("a new one", post(new)).await;
    assert_eq!((told.status, &told.body["categories"]["pii"]["mode"]), (201, &"block".into()));
    t.say("the same again", post(new)).await;
    t.say("a faulty one", post(r#"{"id": "odd", "categories": {"pii": {"mode": "blok"}}}"#)).await;
    t.say("a name that is none", post(r#"{"id": "a b"}"#)).await;
    fn put<'a>(path: &'a str, body: &str) -> Ask<'a> {
        ask("PUT", path).by("operator").body(body)
    }
    let told = t.say("it replaced", put("/api/v1/policies/mine", r#"{"fail_mode": "open"}"#)).await;
    assert_eq!(told.body["definition"], serde_json::json!({ "fail_mode": "open" }));
    t.say("an unknown one replaced", put("/api/v1/policies/none", "{}")).await;
    t.say("one read", ask("GET", "/api/v1/policies/mine").by("operator")).await;
    t.say("an unknown one read", ask("GET", "/api/v1/policies/none").by("operator")).await;
    t.say("one in use removed", ask("DELETE", "/api/v1/policies/default").by("operator")).await;
    t.say("one removed", ask("DELETE", "/api/v1/policies/mine").by("operator")).await;
    t.say("one removed again", ask("DELETE", "/api/v1/policies/mine").by("operator")).await;
    t.end();
}

#[tokio::test]
async fn keys() {
    let mut t = Transcript::begin("keys");
    let post = |body: &str| ask("POST", "/api/v1/keys").by("admin").body(body);
    let told = t
        .say("a new key", post(r#"{"name": "ci", "role": "service", "expires_at": "2026-06-01T00:00:00Z"}"#))
        .await;
    let (id, key) = (told.body["id"].as_str().unwrap(), told.body["key"].as_str().unwrap());
    t.say(
        "it works",
        ask("POST", "/v1/scan").with("authorization", format!("Bearer {key}")).body(r#"{"content": "x"}"#),
    )
    .await;
    t.say("what is known of it", ask("GET", &format!("/api/v1/keys/{id}")).by("admin")).await;
    t.say("an operator sees lower roles only", ask("GET", "/api/v1/keys").by("operator")).await;
    t.say("an unknown role", post(r#"{"name": "x", "role": "root"}"#)).await;
    t.say("more than the deployment has", post(r#"{"name": "x", "role": "service", "tier": "enterprise"}"#))
        .await;
    t.say(
        "a key that would be dead",
        post(r#"{"name": "x", "role": "service", "expires_at": "2020-01-01T00:00:00Z"}"#),
    )
    .await;
    t.say("no name", post(r#"{"name": " ", "role": "service"}"#)).await;
    t.say("a field that is none", post(r#"{"name": "x", "role": "service", "rolle": "x"}"#)).await;
    let path = format!("/api/v1/keys/{id}");
    let patch = |body: &str| ask("PATCH", &path).by("admin").body(body.to_owned());
    let lists = r#"{"models": ["gpt-4o*"], "tools": ["search"], "expires_at": null, "name": "ci of main"}"#;
    t.say("it changed", patch(lists)).await;
    t.say("a change of nothing", patch("{}")).await;
    t.say("a name that turns what is around it", patch("{\"name\": \"a\\u202eb\"}")).await;
    t.say("an empty model", patch(r#"{"models": [""]}"#)).await;
    t.say("a field that cannot be changed", patch(r#"{"id": "x"}"#)).await;
    let rotate = format!("{path}/rotate");
    let rotate = |body: &str| ask("POST", &rotate).by("admin").body(body.to_owned());
    let told = t.say("its text replaced", rotate(r#"{"overlap_s": 60}"#)).await;
    let (old, key) = (key, told.body["key"].as_str().unwrap());
    let scan = |key: &str| ask("POST", "/v1/scan").with("x-api-token", key).body(r#"{"content": "x"}"#);
    t.say("the new one works", scan(key)).await;
    t.say("and so does the old one", scan(old)).await;
    t.world.clock.advance(std::time::Duration::from_secs(60));
    t.say("but not for ever", scan(old)).await;
    t.say("too long an overlap", rotate(r#"{"overlap_s": 9999999}"#)).await;
    t.say("it revoked", ask("DELETE", &path).by("admin")).await;
    t.say("it works no more", ask("POST", "/v1/scan").with("x-api-key", key).body(r#"{"content": "x"}"#))
        .await;
    t.say("it revoked again", ask("DELETE", &format!("/api/v1/keys/{id}")).by("admin")).await;
    let all = t.say("all keys", ask("GET", "/api/v1/keys").by("admin")).await;
    let admin = all.body["keys"].as_array().unwrap().iter().find(|key| key["role"] == "admin").unwrap();
    let last = format!("/api/v1/keys/{}", admin["id"].as_str().unwrap());
    t.say("the last admin revoked", ask("DELETE", &last).by("admin")).await;
    t.end();
}

#[tokio::test]
async fn audit() {
    let mut t = Transcript::begin("audit");
    let scan = ask("POST", "/v1/scan").by("service").with("x-request-id", "r-1");
    t.say("a scan to be found again", scan.body(format!(r#"{{"content": "{}"}}"#, secret()))).await;
    t.say("a call to be turned away", ask("GET", "/api/v1/config").by("service").with("x-request-id", "r-2"))
        .await;
    // The log is written by a task of its own; a recorded change comes back only once it is written.
    let profile = ask("POST", "/api/v1/profiles/apply").by("admin").with("x-request-id", "r-3");
    t.say("a change", profile.body(r#"{"profile": "developer"}"#)).await;
    fn get(path: &str) -> Ask<'_> {
        ask("GET", path).by("auditor")
    }
    t.say("everything", get("/api/v1/audit")).await;
    for query in [
        "category=secrets&severity=critical",
        "category=pii",
        "request_id=r-2",
        "action=block",
        "route=%2Fapi%2Fv1%2Fconfig",
        "policy=default&action=block",
        "detector=key",
        "detector=key&category=pii",
        "event_type=profile_applied&from=2026-05-01&to=2026-05-01T12:00:00Z",
        "from=2026-05-02T00:00:00Z",
        "entity=nobody",
    ] {
        let path = format!("/api/v1/audit?{query}");
        t.say("by filters", get(&path)).await;
    }
    let page = t.say("one at a time", get("/api/v1/audit?limit=1")).await;
    let next = format!("/api/v1/audit?limit=1&cursor={}", page.body["cursor"].as_str().unwrap());
    t.say("the next", get(&next)).await;
    for query in [
        "limit=0",
        "limit=1001",
        "limit=many",
        "category=none",
        "severity=none",
        "from=yesterday",
        "from=2026-05-01T12:00:00+01:00",
        "from=2026-05-02&to=2026-05-01",
        "cursor=x",
        "unknown=1",
        "limit=1&limit=2",
        "entity=",
        "action=",
    ] {
        let path = format!("/api/v1/audit?{query}");
        let told = t.say("a bad parameter", get(&path)).await;
        assert_eq!(told.status, 400, "{query}");
    }
    t.say("a stream of another time", get("/api/v1/audit/stream?from=x")).await;
    t.say("a stream of another node", get("/api/v1/audit/stream?node=elsewhere")).await;
    t.say("a stream of what does not exist", get("/api/v1/audit/stream?category=weather")).await;
    t.say("where the log is now", ask("GET", "/api/v1/audit/checkpoint").by("auditor")).await;
    t.end();
}

#[tokio::test]
async fn legal_holds() {
    let mut t = Transcript::begin("legal_holds");
    let post = |body: &str| ask("POST", "/api/v1/legal-holds").by("operator").body(body);
    let hold = |entity: &str| {
        format!(
            r#"{{"entity_id": "{entity}", "entity_type": "user", "reason": "case 12", "issued_by": "counsel@example.com"}}"#
        )
    };
    t.say("a hold", post(&hold("alice@example.com"))).await;
    t.say("another", post(&hold("bob"))).await;
    for field in ["alice@example.com", "user", "case 12", "counsel@example.com"] {
        let told = t.say("an empty field", post(&hold("alice@example.com").replace(field, " "))).await;
        assert_eq!(told.status, 400, "{field}");
    }
    t.say("a field is missing", post(r#"{"entity_id": "a"}"#)).await;
    fn get(path: &str) -> Ask<'_> {
        ask("GET", path).by("auditor")
    }
    t.say("one", get("/api/v1/legal-holds/hold_1")).await;
    for id in ["hold_99", "hold_01", "99", "hold_x"] {
        let path = format!("/api/v1/legal-holds/{id}");
        let told = t.say("one that is not there", get(&path)).await;
        assert!(told.status == 404 && told.body["error"].as_str().unwrap().contains(id));
    }
    t.say("whether one is held", get("/api/v1/legal-holds/check/alice%40example.com")).await;
    t.say("whether nobody is", get("/api/v1/legal-holds/check/nobody")).await;
    let erase = r#"{"entity_id": "alice@example.com"}"#;
    let told = t.say("an erasure of one", ask("POST", "/api/v1/dsar/erase").by("admin").body(erase)).await;
    let blocked = serde_json::json!({ "entity_id": "alice@example.com", "blocked_by": "legal_hold" });
    assert_eq!((told.status, told.body), (409, blocked));
    let release = ask("DELETE", "/api/v1/legal-holds/hold_1").by("operator");
    t.say("it released", release).await;
    t.say("it released again", ask("DELETE", "/api/v1/legal-holds/hold_1").by("operator")).await;
    t.say("what was never there released", ask("DELETE", "/api/v1/legal-holds/hold_9").by("operator")).await;
    t.say("whether it is held now", get("/api/v1/legal-holds/check/alice%40example.com")).await;
    t.say("all, the released one on record", get("/api/v1/legal-holds")).await;
    t.say("what was recorded", get("/api/v1/audit?entity=alice%40example.com")).await;
    t.say("a role that may not", ask("POST", "/api/v1/legal-holds").by("auditor").body("{}")).await;
    t.end();
}

#[tokio::test]
async fn dsar() {
    let mut t = Transcript::begin("dsar");
    let post = |path: &'static str, entity: &str| {
        ask("POST", path).by("admin").body(format!(r#"{{"entity_id": "{entity}"}}"#))
    };
    let (export, erase) = ("/api/v1/dsar/export", "/api/v1/dsar/erase");
    let keys = t.say("the keys", ask("GET", "/api/v1/keys").by("admin")).await;
    let analyst = keys.body["keys"].as_array().unwrap().iter().find(|key| key["role"] == "analyst").unwrap();
    let analyst = analyst["id"].as_str().unwrap().to_owned();
    let body = format!(r#"{{"content": "use {}"}}"#, secret());
    t.say("somebody does something", ask("POST", "/v1/scan").by("analyst").body(body)).await;
    // A change comes back only once all that was recorded before it is written.
    t.say("nothing is known of somebody else", post(export, "nobody")).await;
    let told = t.say("what is known of it", post(export, &analyst)).await;
    assert_eq!(told.body["providers"]["ioc"], serde_json::json!({ "matches": 1 }));
    assert_eq!(told.body["providers"]["rbac"]["roles"], serde_json::json!(["analyst"]));
    let told = t.say("it erased", post(erase, &analyst)).await;
    assert_eq!(told.body["providers"], serde_json::json!({ "audit": 2, "ioc": 1, "rbac": 1 }));
    t.say("its key is gone", ask("GET", "/stats").by("analyst")).await;
    let told = t.say("nothing is known of it any more", post(export, &analyst)).await;
    assert_eq!(told.body["providers"], serde_json::json!({}));
    t.say("it erased again", post(erase, "nobody else")).await;
    t.say("what was recorded, without whom", ask("GET", "/api/v1/audit").by("auditor")).await;
    t.say("nobody", post(export, "")).await;
    t.say("too long a name", post(erase, &"x".repeat(257))).await;
    t.say("a role that may not", ask("POST", erase).by("operator").body(r#"{"entity_id": "x"}"#)).await;
    t.end();
}

#[tokio::test]
async fn users() {
    let mut t = Transcript::begin("users");
    let post = |body: &str| ask("POST", "/api/v1/users").by("admin").body(body);
    let ada = r#"{"name": "Ada", "password": "correct horse battery", "role": "auditor"}"#;
    let told = t.say("a new user", post(ada)).await;
    let id = told.body["id"].as_str().unwrap().to_owned();
    let user = format!("/api/v1/users/{id}");
    t.say("one that looks like it", post(&ada.replace("Ada", "\u{ff41}da"))).await;
    t.say("a name in two scripts", post(&ada.replace("Ada", "\u{430}da"))).await;
    t.say("a weak password", post(&ada.replace("correct horse battery", "password"))).await;
    t.say("an unknown role", post(&ada.replace("auditor", "root"))).await;
    t.say("more than the deployment has", post(&ada.replace('}', r#", "tier": "enterprise"}"#))).await;
    t.say("a field that is none", post(&ada.replace("role", "rolle"))).await;
    let login = |password: &str| {
        let body = format!(r#"{{"username": "ada", "password": "{password}"}}"#);
        ask("POST", "/api/v1/auth/token").body(body)
    };
    let told = t.say("a login", login("correct horse battery")).await;
    let token = told.body["access_token"].as_str().unwrap().to_owned();
    t.say("a wrong password", login("correct horse batterz")).await;
    let nobody = r#"{"username": "nobody", "password": "correct horse battery"}"#;
    t.say("an unknown name", ask("POST", "/api/v1/auth/token").body(nobody)).await;
    t.say("no password", ask("POST", "/api/v1/auth/token").body(r#"{"username": "ada"}"#)).await;
    fn by<'a>(method: &'a str, path: &'a str, token: &str) -> Ask<'a> {
        ask(method, path).with("authorization", format!("Bearer {token}"))
    }
    t.say("who that is", by("GET", "/api/v1/auth/whoami", &token)).await;
    t.say("what its role may", by("GET", "/api/v1/audit?event_type=none", &token)).await;
    t.say("what its role may not", by("GET", "/api/v1/config", &token)).await;
    t.say("the token in the query", ask("GET", &format!("/stats?access_token={token}"))).await;
    t.say("a token and a key", by("GET", "/api/v1/auth/whoami", &token).by("admin")).await;
    t.say("it ended", by("POST", "/api/v1/auth/revoke", &token)).await;
    t.say("it counts no more", by("GET", "/api/v1/auth/whoami", &token)).await;
    t.say("a key is not ended so", ask("POST", "/api/v1/auth/revoke").by("admin")).await;
    let told = t.say("another login", login("correct horse battery")).await;
    let token = told.body["access_token"].as_str().unwrap().to_owned();
    let other = r#"{"token_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}"#;
    t.say("somebody else's token", by("POST", "/api/v1/auth/revoke", &token).body(other)).await;
    t.say("the same by an admin", ask("POST", "/api/v1/auth/revoke").by("admin").body(other)).await;
    let odd = ask("POST", "/api/v1/auth/revoke").by("admin").body(r#"{"token": "a.b.c"}"#);
    t.say("what is no token", odd).await;
    let patch = |body: &str| ask("PATCH", &user).by("admin").body(body.to_owned());
    t.say("the user changed", patch(r#"{"role": "analyst", "tier": "developer"}"#)).await;
    t.say("its token is over", by("GET", "/api/v1/auth/whoami", &token)).await;
    let told = t.say("a third login", login("correct horse battery")).await;
    let token = told.body["access_token"].as_str().unwrap().to_owned();
    t.say("the user disabled", patch(r#"{"disabled": true, "tier": null}"#)).await;
    t.say("its token is over, too", by("GET", "/api/v1/auth/whoami", &token)).await;
    t.say("it cannot log in, and is not told why", login("correct horse battery")).await;
    t.say("a change of nothing", patch("{}")).await;
    t.say("all users", ask("GET", "/api/v1/users").by("admin")).await;
    t.say("an operator sees none", ask("GET", "/api/v1/users").by("operator")).await;
    t.say("one user", ask("GET", &user).by("admin")).await;
    let hold = serde_json::json!({
        "entity_id": "ada", "entity_type": "user", "reason": "case 12", "issued_by": "counsel@example.com"
    });
    let held = ask("POST", "/api/v1/legal-holds").by("admin").body(hold.to_string());
    t.say("it is held, by its name", held).await;
    let told = t.say("a hold keeps it", ask("DELETE", &user).by("admin")).await;
    assert_eq!(told.body, serde_json::json!({ "entity_id": id, "blocked_by": "legal_hold" }));
    t.say("it released", ask("DELETE", "/api/v1/legal-holds/hold_1").by("admin")).await;
    t.say("it deleted", ask("DELETE", &user).by("admin")).await;
    t.say("it deleted again", ask("DELETE", &user).by("admin")).await;
    t.say("it changed", patch(r#"{"disabled": false}"#)).await;
    t.say("what the log says", ask("GET", "/api/v1/audit?event_type=user_changed").by("auditor")).await;
    t.end();
}
