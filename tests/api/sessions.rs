//! Sessions as browsers hold them: how they begin, what they open, who may use them, and how they end.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use portcullis::access::patience::Patience;
use portcullis::access::tier::Tier;
use portcullis::clock::Clock;
use portcullis::clock::SystemClock;
use portcullis::govern::audit;
use portcullis::govern::audit::AuditConfig;
use portcullis::store::Store;
use portcullis::telemetry::Telemetry;
use serde_json::Value;
use serde_json::json;

use crate::browser::Browser;
use crate::world::World;

const SESSION: &str = "portcullis-session";

fn world() -> World {
    World::start(Tier::Enterprise)
}

async fn recorded(world: &World, event_type: &str) -> Vec<Value> {
    let mut reader = Browser::open(world);
    reader.fields = vec![("x-api-key", world.key("admin").to_owned())];
    // What was recorded without waiting is on its way.
    for _ in 0..500 {
        let page = reader.get(&format!("/api/v1/audit?event_type={event_type}")).await;
        let page: Value = serde_json::from_str(&page.text).unwrap();
        let entries = page["entries"].as_array().unwrap().clone();
        if !entries.is_empty() {
            return entries;
        }
        tokio::task::yield_now().await;
    }
    Vec::new()
}

#[tokio::test]
async fn a_session_is_a_principal_like_its_key() {
    let world = world();
    for (role, path, status) in [
        ("auditor", "/api/v1/audit", 200),
        ("auditor", "/api/v1/config", 403),
        ("operator", "/api/v1/config", 200),
        ("operator", "/api/v1/sessions", 403),
        ("admin", "/api/v1/sessions", 200),
        ("agent", "/stats", 403),
    ] {
        let mut browser = Browser::open(&world);
        assert_eq!(browser.get(path).await.status, 401, "{path} before");
        browser.sign_in(role).await;
        assert_eq!(browser.get(path).await.status, status, "{role} {path}");
    }
    let mut browser = Browser::open(&world);
    browser.sign_in("analyst").await;
    let scanned = browser.call("POST", "/v1/scan", &json!({ "content": "x" }).to_string()).await;
    assert_eq!(scanned.status, 200, "{}", scanned.text);
    let entries = recorded(&world, "login").await;
    assert!(entries.iter().all(|entry| entry["message"] == "signed in with an API key"), "{entries:?}");
}

#[tokio::test]
async fn the_cookie_is_out_of_reach_and_new_at_every_sign_in() {
    let world = world();
    let mut browser = Browser::open(&world);
    // A value that somebody planted before never becomes a session.
    browser.jar.insert(SESSION.to_owned(), "A".repeat(43));
    let shown = browser.sign_in("admin").await;
    let cookies = shown.cookies();
    let [cookie] = cookies.as_slice() else { panic!("{cookies:?}") };
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Lax"), "{cookie}");
    let first = browser.jar[SESSION].clone();
    assert!(first.len() == 43 && first != "A".repeat(43));
    browser.sign_in("admin").await;
    assert_ne!(browser.jar[SESSION], first);
    let mut thief = Browser::open(&world);
    thief.jar.insert(SESSION.to_owned(), first);
    assert_eq!(thief.get("/api/v1/sessions").await.status, 401, "the one before has ended");
    // The name that only HTTPS carries is not taken here, nor two values at once.
    let mut odd = Browser::open(&world);
    odd.jar.insert(format!("__Host-{SESSION}"), browser.jar[SESSION].clone());
    assert_eq!(odd.get("/stats").await.status, 401);
    odd.fields = vec![("cookie", format!("{SESSION}={}; {SESSION}=other", browser.jar[SESSION]))];
    assert_eq!(odd.get("/stats").await.status, 401);
}

#[tokio::test]
async fn a_call_that_changes_something_has_to_come_from_a_page_of_ours() {
    let world = world();
    let mut browser = Browser::open(&world);
    browser.sign_in("admin").await;
    let origin = |origin: &str| vec![("origin", origin.to_owned())];
    let scan = json!({ "content": "x" }).to_string();
    let cases = [
        (Some("same-origin"), vec![], 200),
        (Some("same-origin"), origin("http://localhost:9090"), 200),
        (None, origin("http://localhost:9090"), 200),
        (None, vec![], 403),
        (None, origin("null"), 403),
        (None, origin("https://localhost:9090"), 403),
        (None, origin("http://localhost:9091"), 403),
        (None, origin("http://evil.example"), 403),
        (Some("same-origin"), origin("http://evil.example"), 403),
        (Some("same-site"), vec![], 403),
        (Some("cross-site"), vec![], 403),
        (Some("cross-site"), origin("http://localhost:9090"), 403),
        (Some("none"), vec![], 403),
        (Some("same-origin"), vec![("sec-fetch-site", "cross-site".to_owned())], 403),
    ];
    for (site, fields, status) in cases {
        browser.site = site;
        browser.fields.clone_from(&fields);
        let shown = browser.call("POST", "/v1/scan", &scan).await;
        assert_eq!(shown.status, status, "{site:?} {fields:?}: {}", shown.text);
    }
    // A key of its own is no browser's to add: such a call needs no page.
    browser.site = Some("cross-site");
    browser.fields = vec![("x-api-key", world.key("analyst").to_owned())];
    assert_eq!(browser.call("POST", "/v1/scan", &scan).await.status, 200);
    // Reading is not changing.
    browser.fields.clear();
    assert_eq!(browser.get("/stats").await.status, 200);
    for method in [Method::PUT, Method::DELETE] {
        let shown = browser.call(method.as_str(), "/api/v1/policies/none", "{}").await;
        assert_eq!(shown.status, 403, "{method}");
    }
}

#[tokio::test]
async fn leaving_takes_a_page_of_ours_or_an_answer() {
    let world = world();
    let html = ("accept", "text/html,application/xhtml+xml".to_owned());
    let cases = [
        (Some("same-origin"), vec![html.clone()], true),
        // A program asks for no page, and no foreign page reaches us with a cookie unless it navigates.
        (None, vec![], true),
        (Some("cross-site"), vec![html.clone()], false),
        (Some("same-site"), vec![html.clone()], false),
        (Some("none"), vec![html.clone()], false),
        (None, vec![html.clone()], false),
        (Some("same-origin"), vec![html, ("sec-purpose", "prefetch".to_owned())], false),
    ];
    for (site, fields, leaves) in cases {
        let mut browser = Browser::open(&world);
        browser.sign_in("admin").await;
        browser.site = site;
        browser.fields.clone_from(&fields);
        let shown = browser.get("/auth/logout").await;
        let case = format!("{site:?} {fields:?}");
        if leaves {
            assert_eq!((shown.status, shown.location()), (303, "/login"), "{case}");
            assert!(!browser.jar.contains_key(SESSION), "{case}");
            continue;
        }
        assert_eq!(shown.status, 200, "{case}");
        browser.site = Some("same-origin");
        browser.fields.clear();
        assert_eq!(browser.get("/stats").await.status, 200, "{case}: still signed in");
        let token = shown.text.split("name=\"token\" value=\"").nth(1).unwrap().split('"').next().unwrap();
        let wrong = browser.post("/auth/logout", &[("token", "wrong")]).await;
        assert_eq!(wrong.status, 403, "{case}");
        let left = browser.post("/auth/logout", &[("token", token)]).await;
        assert_eq!((left.status, left.location()), (303, "/login"), "{case}");
        assert_eq!(browser.get("/stats").await.status, 401, "{case}");
    }
    assert!(!recorded(&world, "logout").await.is_empty());
}

#[tokio::test]
async fn sessions_end_by_time_by_an_administrator_and_with_their_key() {
    let world = world();
    let mut idle = Browser::open(&world);
    idle.sign_in("auditor").await;
    world.clock.advance(Duration::from_secs(1799));
    assert_eq!(idle.get("/api/v1/audit").await.status, 200);
    world.clock.advance(Duration::from_secs(1800));
    assert_eq!(idle.get("/api/v1/audit").await.status, 401);

    let mut admin = Browser::open(&world);
    admin.sign_in("admin").await;
    let mut other = Browser::open(&world);
    other.sign_in("operator").await;
    let listed: Value = serde_json::from_str(&admin.get("/api/v1/sessions").await.text).unwrap();
    assert_eq!(listed["total"], 2, "{listed}");
    assert!(!listed.to_string().contains(&other.jar[SESSION]));
    let of = |role: &str| {
        let mut all = listed["sessions"].as_array().unwrap().iter();
        all.find(|entry| entry["role"] == role).unwrap().clone()
    };
    assert_eq!((&of("admin")["current"], &of("operator")["current"]), (&json!(true), &json!(false)));
    assert_eq!(of("operator")["method"], "api_key");
    let path = format!("/api/v1/sessions/{}", of("operator")["id"].as_str().unwrap());
    assert_eq!(other.call("DELETE", &path, "").await.status, 403);
    assert_eq!(admin.call("DELETE", &path, "").await.status, 200);
    assert_eq!(admin.call("DELETE", &path, "").await.status, 404);
    assert_eq!(other.get("/stats").await.status, 401);
    assert!(!recorded(&world, "session_revoked").await.is_empty());

    let mut keyed = Browser::open(&world);
    keyed.sign_in("service").await;
    let scan = json!({ "content": "x" }).to_string();
    assert_eq!(keyed.call("POST", "/v1/scan", &scan).await.status, 200);
    let keys: Value = serde_json::from_str(&admin.get("/api/v1/keys").await.text).unwrap();
    let key = keys["keys"].as_array().unwrap().iter().find(|key| key["role"] == "service").unwrap().clone();
    admin.call("DELETE", &format!("/api/v1/keys/{}", key["id"].as_str().unwrap()), "").await;
    assert_eq!(keyed.call("POST", "/v1/scan", &scan).await.status, 401, "the key's sessions end with it");
    let listed: Value = serde_json::from_str(&admin.get("/api/v1/sessions").await.text).unwrap();
    assert_eq!(listed["total"], 1, "{listed}");
}

#[tokio::test]
async fn who_guesses_passwords_on_the_page_is_told_when_to_come_back() {
    let world = world();
    let mut browser = Browser::open(&world);
    let mut guess = async || browser.post("/login", &[("username", "ada"), ("password", "wrong")]).await;
    let mut shown = guess().await;
    let mut tries = 1;
    while shown.status == 401 && tries < 20 {
        shown = guess().await;
        tries += 1;
    }
    assert_eq!((shown.status, shown.headers["retry-after"].to_str().unwrap()), (429, "1"), "{}", shown.text);
    assert!(shown.text.contains("Too many failed logins"), "{}", shown.text);
}

#[tokio::test]
async fn a_password_begins_a_session_that_ends_with_any_change_of_its_user() {
    let world = world();
    let mut admin = Browser::open(&world);
    assert!(!admin.get("/login").await.text.contains("name=\"username\""), "there is nobody with a password");
    admin.sign_in("admin").await;
    let user = json!({ "name": "ada", "password": "correct horse battery", "role": "auditor" });
    let made = admin.call("POST", "/api/v1/users", &user.to_string()).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let made: Value = serde_json::from_str(&made.text).unwrap();

    let mut browser = Browser::open(&world);
    assert!(browser.get("/login").await.text.contains("name=\"username\""));
    let form = |password: &'static str| [("username", "ada"), ("password", password)];
    let wrong = browser.post("/login", &form("wrong")).await;
    assert!(
        wrong.status == 401 && wrong.text.contains("The name or the password is wrong"),
        "{}",
        wrong.text
    );
    assert!(wrong.cookies().is_empty());
    let shown = browser.post("/login", &form("correct horse battery")).await;
    assert_eq!((shown.status, shown.location()), (303, "/"), "{}", shown.text);
    assert_eq!(browser.get("/api/v1/audit").await.status, 200);
    assert_eq!(browser.get("/api/v1/config").await.status, 403);
    let who: Value = serde_json::from_str(&browser.get("/api/v1/auth/whoami").await.text).unwrap();
    assert_eq!((&who["name"], &who["credential"]), (&json!("ada"), &json!("session")), "{who}");

    // A token of the session, for programs, ends with it.
    let granted = browser.call("POST", "/api/v1/auth/token", "").await;
    assert_eq!(granted.status, 200, "{}", granted.text);
    let granted: Value = serde_json::from_str(&granted.text).unwrap();
    let mut program = Browser::open(&world);
    program.site = None;
    program.fields = vec![("authorization", format!("Bearer {}", granted["access_token"].as_str().unwrap()))];
    assert_eq!(program.get("/api/v1/audit").await.status, 200);
    browser.site = Some("cross-site");
    assert_eq!(browser.call("POST", "/api/v1/auth/token", "").await.status, 403);
    browser.site = Some("same-origin");
    assert_eq!(browser.get("/auth/logout").await.status, 303);
    assert_eq!(program.get("/api/v1/audit").await.status, 401);

    browser.post("/login", &form("correct horse battery")).await;
    assert_eq!(browser.get("/api/v1/audit").await.status, 200);
    let path = format!("/api/v1/users/{}", made["id"].as_str().unwrap());
    let changed = admin.call("PATCH", &path, r#"{"role":"analyst"}"#).await;
    assert_eq!(changed.status, 200, "{}", changed.text);
    assert_eq!(browser.get("/api/v1/audit").await.status, 401, "whoever was changed signs in again");
    // An administrator's session stands for a key, which programs use themselves.
    assert_eq!(admin.call("POST", "/api/v1/auth/token", "").await.status, 400);
}

#[tokio::test]
async fn a_session_opens_nothing_on_the_data_plane() {
    let mut world = world();
    let mut browser = Browser::open(&world);
    browser.sign_in("admin").await;
    let jar = browser.jar.clone();
    world.router = portcullis::admin::router_on_proxy(world.office.clone());
    let mut there = Browser::open(&world);
    there.jar = jar;
    assert_eq!(there.get("/stats").await.status, 401);
    assert_eq!(there.get("/api/v1/sessions").await.status, 401);
    there.fields = vec![("x-api-key", world.key("analyst").to_owned())];
    assert_eq!(there.get("/stats").await.status, 200);
}

#[tokio::test]
async fn an_open_stream_ends_with_its_session_and_does_not_keep_it_alive() {
    let world = world();
    let mut browser = Browser::open(&world);
    browser.sign_in("auditor").await;
    let mut headers = http::HeaderMap::new();
    headers.insert("cookie", format!("{SESSION}={}", browser.jar[SESSION]).parse().unwrap());
    let own = world.office.own_session(&headers, &Patience::default()).await.unwrap().unwrap();
    let authenticator = &world.office.authenticator;
    let principal = world.office.holder(&own.record).unwrap();
    let counts = || authenticator.still_counts(&principal, world.clock.now());
    world.clock.advance(Duration::from_secs(1799));
    assert!(counts());
    world.clock.advance(Duration::from_secs(1));
    assert!(!counts(), "asking was no use of it");
    let mut other = Browser::open(&world);
    other.sign_in("auditor").await;
    headers.insert("cookie", format!("{SESSION}={}", other.jar[SESSION]).parse().unwrap());
    let own = world.office.own_session(&headers, &Patience::default()).await.unwrap().unwrap();
    let principal = world.office.holder(&own.record).unwrap();
    assert!(authenticator.sessions.revoke(&own.record.id, &Patience::default()).unwrap());
    assert!(!authenticator.still_counts(&principal, world.clock.now()));
}

/// Returns the id of the key of a role.
fn key_id(world: &World, role: &str) -> String {
    let found = world.office.keys.list().into_iter().find(|key| key.name == role);
    found.unwrap().id
}

#[tokio::test]
async fn what_was_begun_with_a_text_of_a_key_ends_with_that_text() {
    let world = world();
    let mut owner = Browser::open(&world);
    owner.fields = vec![("x-api-key", world.key("admin").to_owned())];
    let path = format!("/api/v1/keys/{}/rotate", key_id(&world, "auditor"));
    let mut thief = Browser::open(&world);
    thief.sign_in("auditor").await;
    let rotated = owner.call("POST", &path, &json!({ "overlap_s": 60 }).to_string()).await;
    assert_eq!(rotated.status, 200, "{}", rotated.text);
    let shown: Value = serde_json::from_str(&rotated.text).unwrap();
    let mut keeper = Browser::open(&world);
    let signed_in = keeper.post("/login", &[("key", shown["key"].as_str().unwrap())]).await;
    assert_eq!(signed_in.status, 303, "{}", signed_in.text);
    world.clock.advance(Duration::from_secs(59));
    assert_eq!(thief.get("/api/v1/audit").await.status, 200, "the text before counts for the overlap");
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(thief.get("/api/v1/audit").await.status, 401);
    assert_eq!(keeper.get("/api/v1/audit").await.status, 200);
    assert_eq!(owner.call("POST", &path, "{}").await.status, 200);
    assert_eq!(keeper.get("/api/v1/audit").await.status, 401);
}

#[tokio::test]
async fn no_token_is_issued_that_could_not_be_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(SystemClock);
    let config = AuditConfig { reserve_bytes: 0, ..AuditConfig::at(folder.path().to_owned()) };
    let metrics = Telemetry::new("1", "a").metrics;
    let silent = audit::open(config, Store::in_memory(), clock, metrics).unwrap();
    silent.writer.run(std::future::ready(())).await.unwrap();
    let world = World::start_as(Tier::Enterprise, |office| office.recorder = silent.recorder);
    let mut caller = Browser::open(&world);
    let wanted = json!({ "username": "ada", "password": "correct horse battery" }).to_string();
    let refused = caller.call("POST", "/api/v1/auth/token", &wanted).await;
    assert_eq!(refused.status, 503, "{}", refused.text);
}

#[tokio::test]
async fn a_wrong_key_gets_one_sentence_and_a_record() {
    let world = world();
    let mut browser = Browser::open(&world);
    for key in ["", "pk_wrong", "<script>alert(1)</script>"] {
        let shown = browser.post("/login", &[("key", key), ("next", "/x\"><script>")]).await;
        assert_eq!(shown.status, 401, "{key}");
        assert!(
            shown.text.contains("This key opens nothing.") && !shown.text.contains("<script"),
            "{}",
            shown.text
        );
        assert!(shown.cookies().is_empty());
    }
    let admin = world.key("admin").to_owned();
    for body in ["key=a&key=b", "\u{e9}", "next=/", &"k".repeat(20_000)] {
        assert_eq!(browser.call("POST", "/login", body).await.status, 400, "{body:.20}");
    }
    // A page elsewhere cannot sign anybody in.
    browser.site = Some("cross-site");
    assert_eq!(browser.post("/login", &[("key", &admin)]).await.status, 403);
    let entries = recorded(&world, "login_failed").await;
    assert!(entries.iter().all(|entry| entry["action"] == "block"));
    assert!(!format!("{entries:?}").contains("script"));
}

#[tokio::test]
async fn whoever_signs_in_goes_where_they_were_going_here() {
    let world = world();
    let key = world.key("admin").to_owned();
    for (next, place) in [
        ("/openapi.json", "/openapi.json"),
        ("//evil.example", "/"),
        ("https://evil.example/", "/"),
        ("/\\evil.example", "/"),
        ("/auth/logout", "/"),
        ("javascript:alert(1)", "/"),
    ] {
        let mut browser = Browser::open(&world);
        let shown = browser.post("/login", &[("key", &key), ("next", next)]).await;
        assert_eq!((shown.status, shown.location()), (303, place), "{next}");
        let query = form_urlencoded::Serializer::new(String::new()).append_pair("next", next).finish();
        let again = browser.get(&format!("/login?{query}")).await;
        assert_eq!((again.status, again.location()), (303, place), "{next}");
    }
}

#[tokio::test]
async fn every_page_says_what_a_browser_may_do() {
    let world = world();
    let mut browser = Browser::open(&world);
    let mut pages =
        vec![browser.get("/").await, browser.get("/login").await, browser.get("/auth/login").await];
    browser.sign_in("admin").await;
    pages.push(browser.get("/").await);
    browser.site = Some("cross-site");
    pages.push(browser.get("/auth/logout").await);
    for page in &pages {
        let policy = page.headers["content-security-policy"].to_str().unwrap();
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
            "form-action 'self'",
        ] {
            assert!(policy.contains(part) && !policy.contains("unsafe"), "{policy}");
        }
        for (name, value) in [
            ("x-frame-options", "DENY"),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "same-origin"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(page.headers[name], value);
        }
        let scripts = page.text.matches("<script").count();
        assert_eq!(
            scripts,
            page.text.matches("<script type=\"module\" src=\"/assets/").count(),
            "{}",
            page.text
        );
        assert!(!page.text.contains("style="), "{}", page.text);
    }
    assert!(pages[3].text.contains("id=\"who\">admin<"), "{}", pages[3].text);
    let style = browser.get("/assets/any/portcullis.css").await;
    assert_eq!(
        (style.status, &style.headers["content-type"]),
        (200, &"text/css; charset=utf-8".parse().unwrap())
    );
}

#[tokio::test]
async fn nobody_signs_in_where_the_session_would_travel_in_the_clear() {
    let world = World::start_as(Tier::Enterprise, |office| office.sign_in.cookies = None);
    let mut browser = Browser::open(&world);
    let key = world.key("admin").to_owned();
    let shown = browser.post("/login", &[("key", &key)]).await;
    assert!(shown.cookies().is_empty() && shown.text.contains("travel in the clear"), "{}", shown.text);
    assert!(browser.get("/login").await.text.contains("travel in the clear"));
}
