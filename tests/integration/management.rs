//! The management plane, and clients that do not wait for its answers or send more than was asked for.

use std::time::Instant;

use serde_json::json;

use crate::answers::encode;
use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::wire::Client;
use crate::wire::PATIENCE;
use crate::wire::Response;
use crate::wire::exchange;
use crate::wire::post;

/// How many clients make a change.
const CLIENTS: usize = 30;

fn gateway() -> Gateway {
    Gateway::start(UNLIMITED)
}

/// Writes the request that makes a key of a name.
fn making_key(gateway: &Gateway, name: &str) -> Vec<u8> {
    let body = json!({ "name": name, "role": "analyst" }).to_string();
    let (key, length) = (gateway.admin_key(), body.len());
    format!(
        "POST /api/v1/keys HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Returns how many keys were made, as the audit log has it.
fn recorded(gateway: &Gateway) -> u64 {
    let key = gateway.admin_key();
    let request = format!(
        "GET /api/v1/audit?event_type=key_created HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\n\r\n"
    );
    exchange(gateway.admin, request.as_bytes()).json()["total"].as_u64().expect("a total")
}

#[test]
fn a_change_whose_client_does_not_wait_is_recorded_all_the_same() {
    let gateway = gateway();
    for number in 0..CLIENTS {
        let mut client = Client::connect(gateway.admin);
        client.send(&making_key(&gateway, &format!("key-{number}")));
    }
    let deadline = Instant::now() + PATIENCE;
    while recorded(&gateway) < CLIENTS as u64 {
        assert!(Instant::now() < deadline, "{} of {CLIENTS} changes were recorded", recorded(&gateway));
    }
}

#[test]
fn bytes_behind_a_request_do_not_end_its_call() {
    let gateway = gateway();
    for number in 0..CLIENTS {
        let mut client = Client::connect(gateway.admin);
        client.send(&making_key(&gateway, &format!("key-{number}")));
        client.send(b"GET / HTTP/1.1\r\n");
        let answer = client.response().expect("an answer");
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    assert_eq!(recorded(&gateway), CLIENTS as u64);
}

/// Returns the status that a browser with a session gets.
fn status(gateway: &Gateway, method: &str, path: &str, fields: &str, body: &str) -> (u16, Option<String>) {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {}\r\nsec-fetch-site: same-origin\r\n{fields}content-length: {}\r\n\r\n{body}",
        gateway.admin,
        body.len()
    );
    let answer = exchange(gateway.admin, request.as_bytes());
    let cookie = answer.header("set-cookie").and_then(|set| set.split(';').next()).map(str::to_owned);
    (answer.status, cookie)
}

#[test]
fn a_session_that_was_ended_stays_ended_after_a_crash() {
    let mut gateway = gateway();
    let form = format!("key={}", gateway.admin_key());
    let (_, cookie) = status(&gateway, "POST", "/login", "", &form);
    let cookie = format!("cookie: {}\r\n", cookie.expect("a session"));
    assert_eq!(status(&gateway, "GET", "/api/v1/sessions", &cookie, "").0, 200);
    gateway.crash_and_restart();
    assert_eq!(status(&gateway, "GET", "/api/v1/sessions", &cookie, "").0, 200);
    assert_eq!(status(&gateway, "GET", "/auth/logout", &cookie, "").0, 303);
    gateway.crash_and_restart();
    assert_eq!(status(&gateway, "GET", "/api/v1/sessions", &cookie, "").0, 401);
}

/// Sends a request with the administrator's key.
fn ask(gateway: &Gateway, method: &str, path: &str, body: &str) -> Response {
    let (key, length) = (gateway.admin_key(), body.len());
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    exchange(gateway.admin, request.as_bytes())
}

/// Fields have names: an array of their values in some order is no body.
#[test]
fn an_array_is_no_body() {
    let gateway = gateway();
    for (path, body) in [
        ("/api/v1/legal-holds", r#"["ada","user","a suit","counsel"]"#),
        ("/api/v1/dsar/erase", r#" ["ada"]"#),
        ("/api/v1/profiles/apply", r#"["quickstart"]"#),
        ("/api/v1/keys", "[]"),
    ] {
        let answer = ask(&gateway, "POST", path, body);
        assert_eq!(answer.status, 400, "{path}: {}", answer.text());
        assert!(answer.text().contains("expected an object"), "{path}: {}", answer.text());
    }
    assert_eq!(ask(&gateway, "GET", "/api/v1/legal-holds", "").json(), json!([]));
}

/// Who reads the first of two members of one name and who reads the last would not put the same in force.
#[test]
fn rules_are_changed_by_what_has_one_meaning() {
    let gateway = gateway();
    let policy = r#"{"id":"twice","categories":{"pii":{"mode":"block","mode":"off"}}}"#;
    for (method, path, body) in [
        ("PUT", "/api/v1/config", r#"{"limits":{"json_depth_max":60},"limits":{"json_depth_max":61}}"#),
        ("POST", "/api/v1/policies", policy),
        ("PUT", "/api/v1/policies/default", r#"{"name":"a","name":"b"}"#),
    ] {
        let answer = ask(&gateway, method, path, body);
        assert_eq!(answer.status, 400, "{path}: {}", answer.text());
        assert!(answer.text().contains("has a name twice at line 1"), "{path}: {}", answer.text());
    }
    for (body, expected) in
        [("null", "expected an object"), (r#"{"revision":"1"}"#, "expected a whole number")]
    {
        let answer = ask(&gateway, "POST", "/api/v1/config/rollback", body);
        assert!(answer.status == 400 && answer.text().contains(expected), "{}", answer.text());
    }
    // A digest that a script forgot to fill in is none that fits.
    let (key, body) = (gateway.admin_key(), r#"{"limits":{"json_depth_max":60}}"#);
    let request = format!(
        "PUT /api/v1/config HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\nif-match:\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(exchange(gateway.admin, request.as_bytes()).status, 412);
    assert_eq!(ask(&gateway, "GET", "/api/v1/config", "").json()["revision"], 1);
}

/// A time without a zone is one in UTC, as all times here are, and a day is all of it.
#[test]
fn times_are_asked_for_with_and_without_a_zone_and_by_the_day() {
    let gateway = gateway();
    assert_eq!(ask(&gateway, "POST", "/api/v1/keys", r#"{"name":"a","role":"analyst"}"#).status, 201);
    let entries = ask(&gateway, "GET", "/api/v1/audit?event_type=key_created", "").json();
    let at = entries["entries"][0]["timestamp"].as_str().expect("a time").to_owned();
    let (day, bare) = (at[..10].to_owned(), at.trim_end_matches('Z').to_owned());
    let total = |query: String| {
        let answer = ask(&gateway, "GET", &format!("/api/v1/audit?event_type=key_created&{query}"), "");
        assert_eq!(answer.status, 200, "{query}: {}", answer.text());
        answer.json()["total"].as_u64().expect("a total")
    };
    for (query, expected) in [
        (format!("from={at}&to={at}"), 1),
        (format!("from={bare}&to={bare}"), 1),
        (format!("from={day}T23:59:59.999"), 0),
        (format!("to={day}T00:00"), 0),
        (format!("from={day}&to={day}"), 1),
        (format!("to={day}"), 1),
    ] {
        assert_eq!(total(query.clone()), expected, "{query}");
    }
    let hours = format!("/api/v1/analytics/usage?from={day}T00:30&to={day}T01:30");
    let usage = ask(&gateway, "GET", &hours, "").json();
    assert_eq!(usage["period_start"], format!("{day}T00:00:00.000Z"), "{usage}");
    assert_eq!(usage["period_end"], format!("{day}T02:00:00.000Z"), "{usage}");
}

/// Whoever asks for the head alone is told how long the answer is.
#[test]
fn a_head_tells_the_length_of_what_get_answers() {
    let gateway = gateway();
    let length = ask(&gateway, "GET", "/version", "").body.len();
    let mut client = Client::connect(gateway.admin);
    client.send(b"HEAD /version HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let head = client.head().expect("a head");
    assert_eq!((head.status, head.header("content-length")), (200, Some(length.to_string().as_str())));
}

/// White space around a name is nobody's; a name that nobody can have is under no hold.
#[test]
fn a_hold_is_on_a_name_without_the_space_around_it() {
    let gateway = gateway();
    let hold =
        json!({ "entity_id": " ada ", "entity_type": "user", "reason": "a suit", "issued_by": "counsel" });
    let made = ask(&gateway, "POST", "/api/v1/legal-holds", &hold.to_string());
    assert_eq!((made.status, &made.json()["entity_id"]), (201, &json!("ada")));
    let long = "a".repeat(600);
    for (name, held) in [("ada", true), ("%20ada", true), (long.as_str(), false)] {
        let told = ask(&gateway, "GET", &format!("/api/v1/legal-holds/check/{name}"), "");
        assert_eq!((told.status, &told.json()["under_hold"]), (200, &json!(held)), "{name}");
    }
    let erased = ask(&gateway, "POST", "/api/v1/dsar/erase", r#"{"entity_id":"ada "}"#);
    assert_eq!(erased.status, 409, "{}", erased.text());
}

/// A failed login says whose account it was for, and nothing of a name that is nobody's.
#[test]
fn a_failed_login_names_the_account_alone() {
    let gateway = gateway();
    let user = json!({ "name": "ada", "password": "correct horse battery", "role": "analyst" });
    let made = ask(&gateway, "POST", "/api/v1/users", &user.to_string());
    assert_eq!(made.status, 201, "{}", made.text());
    for name in ["Ada", "hunter2hunter2"] {
        let login = json!({ "username": name, "password": "wrong" }).to_string();
        let (admin, length) = (gateway.admin, login.len());
        let request = format!(
            "POST /api/v1/auth/token HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{login}"
        );
        assert_eq!(exchange(admin, request.as_bytes()).status, 401);
    }
    let deadline = Instant::now() + PATIENCE;
    let entries = loop {
        let page = ask(&gateway, "GET", "/api/v1/audit?event_type=login_failed", "").json();
        let entries = page["entries"].as_array().cloned().unwrap_or_default();
        if entries.len() == 2 {
            break entries;
        }
        assert!(Instant::now() < deadline, "{page}");
    };
    let named: Vec<_> = entries.iter().rev().map(|entry| entry["entity"].clone()).collect();
    assert_eq!(named, [made.json()["id"].clone(), json!(null)]);
}

/// Many write for ever as the last second of the year 9999.
#[test]
fn the_last_second_of_the_calendar_is_a_moment() {
    let gateway = gateway();
    for to in ["9999-12-31", "9999-12-31T23:59:59Z", "9999-12-30T23:00:00.5Z"] {
        let answer = ask(&gateway, "GET", &format!("/api/v1/audit?to={to}"), "");
        assert_eq!(answer.status, 200, "{to}: {}", answer.text());
    }
    for to in ["10000-01-01", "9999-12-32", "9999-13-01T00:00:00Z", "forever"] {
        assert_eq!(ask(&gateway, "GET", &format!("/api/v1/audit?to={to}"), "").status, 400, "{to}");
    }
}

/// Rules that a file changed while nothing ran are as much a change as any.
#[test]
fn a_file_that_changed_while_the_gateway_was_down_is_recorded() {
    let mut gateway = gateway();
    let changes = |gateway: &Gateway| -> Vec<String> {
        let page = ask(gateway, "GET", "/api/v1/audit?event_type=config_changed", "").json();
        let entries = page["entries"].as_array().expect("entries").iter();
        entries.map(|entry| entry["message"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let wait_for = |gateway: &Gateway, told: &[&str]| {
        let deadline = Instant::now() + PATIENCE;
        while changes(gateway) != told {
            assert!(Instant::now() < deadline, "{:?}", changes(gateway));
        }
    };
    let stop = |gateway: &mut Gateway| {
        gateway.signal("TERM");
        gateway.wait_for_end();
    };
    stop(&mut gateway);
    gateway.crash_and_restart();
    assert_eq!(changes(&gateway), Vec::<String>::new());
    stop(&mut gateway);
    gateway.rewrite(&format!("{UNLIMITED}[detectors]\ndisabled = [\"email_address\"]\n"));
    gateway.crash_and_restart();
    let first = "revision 2 came from a file and changed detectors";
    wait_for(&gateway, &[first]);
    gateway
        .rewrite(&format!("[limits]\nscan_ms = 1999\n{UNLIMITED}[policies.default]\nfail_mode = \"open\"\n"));
    gateway.signal("HUP");
    wait_for(&gateway, &["revision 3 came from a file and changed detectors, limits, policies", first]);
}

#[test]
fn a_change_of_a_policy_is_recorded_with_its_name() {
    let gateway = gateway();
    let change = |method, path, body, status| {
        let answer = ask(&gateway, method, path, body);
        assert_eq!(answer.status, status, "{}", answer.text());
    };
    change("POST", "/api/v1/policies", r#"{"id": "mine", "fail_mode": "open"}"#, 201);
    change("PUT", "/api/v1/policies/mine", r#"{"fail_mode": "closed"}"#, 200);
    change("DELETE", "/api/v1/policies/mine", "", 200);
    for (event, revision) in [("policy_created", 2), ("policy_changed", 3), ("policy_removed", 4)] {
        let page = ask(&gateway, "GET", &format!("/api/v1/audit?event_type={event}"), "").json();
        let entry = &page["entries"][0];
        assert_eq!((&entry["policy"], &entry["revision"]), (&json!("mine"), &json!(revision)), "{page}");
        assert_eq!(entry["message"], format!("revision {revision} changed the policy mine"));
    }
}

/// The audit log is on the disk whatever the store: so is who must not be erased from it.
#[test]
fn a_hold_outlives_a_process_that_keeps_its_state_in_memory() {
    let mut gateway = Gateway::start(&format!("{UNLIMITED}[store]\nin_memory = true\n"));
    let hold =
        json!({ "entity_id": "ada", "entity_type": "user", "reason": "a suit", "issued_by": "counsel" });
    let made = ask(&gateway, "POST", "/api/v1/legal-holds", &hold.to_string());
    assert_eq!(made.status, 201, "{}", made.text());
    let id = made.json()["id"].as_str().expect("an id").to_owned();
    let is_held = |gateway: &Gateway| ask(gateway, "GET", "/api/v1/legal-holds/check/ada", "").json();
    for _ in 0..2 {
        gateway.crash_and_restart();
        assert_eq!(is_held(&gateway), json!({ "under_hold": true }));
        let erased = ask(&gateway, "POST", "/api/v1/dsar/erase", r#"{"entity_id":"ada"}"#);
        assert_eq!(erased.status, 409, "{}", erased.text());
    }
    assert_eq!(ask(&gateway, "DELETE", &format!("/api/v1/legal-holds/{id}"), "").status, 200);
    gateway.crash_and_restart();
    assert_eq!(is_held(&gateway), json!({ "under_hold": false }));
}

/// A path of ours is found by its one spelling, whatever the request writes, and is answered by it.
#[test]
fn own_paths_of_the_data_plane_are_answered_in_every_spelling() {
    let gateway = Gateway::start(&format!("[admin]\nalso_on_proxy = true\n{UNLIMITED}"));
    let ask = |method: &str, path: &str| {
        exchange(gateway.proxy, format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes())
            .status
    };
    for path in [
        "/health",
        "//health",
        "/./health",
        "/%68ealth",
        "/x/../version",
        "//health?a=%2e",
        "/api//v1/health",
    ] {
        assert_eq!(ask("GET", path), 200, "{path}");
    }
    assert_eq!([ask("GET", "/v1//scan"), ask("GET", "/api/v1/./keys")], [405, 401]);
    assert_eq!([ask("GET", "/health/"), ask("GET", "/healt%2568")], [404, 404]);
    let posted = post("/v1//scan", &format!("x-api-key: {}\r\n", gateway.admin_key()), r#"{"content":"a"}"#);
    assert_eq!(exchange(gateway.proxy, &posted).status, 200);
}

#[test]
fn bodies_in_a_content_coding_are_refused_by_that_name() {
    let gateway = gateway();
    let key = gateway.admin_key();
    let coded = encode("gzip", br#"{"content":"a"}"#);
    for address in [gateway.admin, gateway.proxy] {
        let send = |coding: &str, body: &[u8]| {
            let mut request = format!(
                "POST /v1/scan HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n\
                 content-encoding: {coding}\r\ncontent-length: {}\r\n\r\n",
                body.len()
            )
            .into_bytes();
            request.extend_from_slice(body);
            exchange(address, &request)
        };
        let refused = send("gzip", &coded);
        assert_eq!(refused.status, 415, "{}", refused.text());
        let told = refused.json()["error"].as_str().map(str::to_owned).expect("a reason");
        assert!(told.contains("content coding"), "{told}");
        assert_eq!(send("Identity", br#"{"content":"a"}"#).status, 200);
        assert_eq!(send("gzip", b"").status, 400, "nothing is no JSON, in whatever coding");
    }
}
