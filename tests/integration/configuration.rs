//! Changes over the network: what is only tried, what is made of something old, and what is refused by its name.

use serde_json::Value;
use serde_json::json;

use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::wire::Response;
use crate::wire::exchange;

/// One route, which the policy `default` decides on.
const ROUTE: &str = "[[routes]]\nname = \"all\"\npath_prefix = \"/all\"\nupstream = \"http://127.0.0.1:9\"\n";
/// What digest nothing has.
const STALE: &str = "if-match: \"0\"\r\n";

/// Sends a request with the administrator's key.
fn ask(gateway: &Gateway, method: &str, path: &str, fields: &str, body: &str) -> Response {
    let (key, length) = (gateway.admin_key(), body.len());
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\n{fields}\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    exchange(gateway.admin, request.as_bytes())
}

fn gateway() -> Gateway {
    Gateway::start(&format!("{UNLIMITED}{ROUTE}"))
}

fn read(gateway: &Gateway, path: &str) -> Value {
    let answer = ask(gateway, "GET", path, "", "");
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

/// Every change of the configuration, and what it is about.
fn changes() -> Vec<(&'static str, &'static str, &'static str)> {
    vec![
        ("PUT", "/api/v1/config", r#"{"limits":{"scan_ms":1999}}"#),
        ("POST", "/api/v1/config/rollback", r#"{"revision":1}"#),
        ("POST", "/api/v1/profiles/apply", r#"{"profile":"high-security"}"#),
        ("POST", "/api/v1/policies", r#"{"id":"new","fail_mode":"open"}"#),
        ("PUT", "/api/v1/policies/mine", r#"{"fail_mode":"closed"}"#),
        ("DELETE", "/api/v1/policies/mine", ""),
    ]
}

#[test]
fn what_is_only_tried_changes_nothing() {
    let gateway = gateway();
    let made = ask(&gateway, "POST", "/api/v1/policies", "", r#"{"id":"mine","fail_mode":"open"}"#);
    assert_eq!(made.status, 201, "{}", made.text());
    let (before, events) = (read(&gateway, "/api/v1/config"), "/api/v1/audit?limit=1000");
    let recorded = || {
        let page = read(&gateway, events);
        let entries = page["entries"].as_array().expect("entries").iter();
        let of_rules = |entry: &&Value| !entry["revision"].is_null() && entry["event_type"] != "exchange";
        entries.filter(of_rules).count()
    };
    let known = recorded();
    for (method, path, body) in changes() {
        let tried = ask(&gateway, method, &format!("{path}?dry_run=true"), "", body);
        let told = tried.json();
        assert_eq!((tried.status, &told["dry_run"]), (200, &json!(true)), "{method} {path}: {told}");
        assert_eq!(told["revision"], 2, "{method} {path}");
        assert!(!told["changed"].as_array().expect("keys").is_empty(), "{method} {path}: {told}");
        assert_eq!(read(&gateway, "/api/v1/config"), before, "{method} {path}");
    }
    assert_eq!(recorded(), known, "what was tried is no change");
    for (method, path, body) in changes() {
        let odd = ask(&gateway, method, &format!("{path}?dry_runn=true"), "", body);
        assert_eq!(odd.status, 400, "{method} {path}: {}", odd.text());
        assert!(odd.text().contains("dry_runn"), "{}", odd.text());
    }
    let unknown = ask(&gateway, "DELETE", "/api/v1/policies/default?dry_run=true", "", "");
    assert_eq!(unknown.status, 409, "a trial is refused as the change would be: {}", unknown.text());
    assert_eq!(read(&gateway, "/api/v1/config"), before);
}

#[test]
fn no_change_is_made_of_what_is_not_in_force() {
    let gateway = gateway();
    let made = ask(&gateway, "POST", "/api/v1/policies", "", r#"{"id":"mine","fail_mode":"open"}"#);
    assert_eq!(made.status, 201, "{}", made.text());
    for (method, path, body) in changes() {
        for path in [path.to_owned(), format!("{path}?dry_run=true")] {
            let stale = ask(&gateway, method, &path, STALE, body);
            assert_eq!(stale.status, 412, "{method} {path}: {}", stale.text());
        }
    }
    assert_eq!(read(&gateway, "/api/v1/config")["revision"], 2);
    for (method, path, body) in changes() {
        if method == "PUT" && path.ends_with("mine") {
            // The way back took it along.
            let made = r#"{"id":"mine","fail_mode":"open"}"#;
            assert_eq!(ask(&gateway, "POST", "/api/v1/policies", "", made).status, 201);
        }
        let fresh = ask(&gateway, "GET", "/api/v1/config", "", "");
        let fresh = format!("if-match: {}\r\n", fresh.header("etag").expect("a digest"));
        let answer = ask(&gateway, method, path, &fresh, body);
        assert!((200..300).contains(&answer.status), "{method} {path}: {}", answer.text());
    }
}

#[test]
fn what_the_caller_has_already_is_not_sent_again() {
    let gateway = gateway();
    let first = ask(&gateway, "GET", "/api/v1/config", "", "");
    let etag = first.header("etag").expect("a digest").to_owned();
    let asked =
        |tags: &str| ask(&gateway, "GET", "/api/v1/config", &format!("if-none-match: {tags}\r\n"), "");
    for tags in [etag.clone(), format!("\"0\", {etag}"), format!("W/{etag}"), "*".to_owned()] {
        let told = asked(&tags);
        assert_eq!((told.status, told.body.len()), (304, 0), "{tags}");
        assert_eq!(told.header("etag"), Some(etag.as_str()), "{tags}");
    }
    assert_eq!(asked("\"0\"").json(), first.json());
    let changed = ask(&gateway, "PUT", "/api/v1/config", "", r#"{"limits":{"scan_ms":1999}}"#);
    assert_eq!(changed.status, 200, "{}", changed.text());
    assert_eq!(asked(&etag).json()["revision"], 2);
}

#[test]
fn a_page_of_revisions_tells_how_many_there_are() {
    let gateway = gateway();
    for scan_ms in [1997, 1998, 1999] {
        let patch = json!({ "limits": { "scan_ms": scan_ms } }).to_string();
        assert_eq!(ask(&gateway, "PUT", "/api/v1/config", "", &patch).status, 200);
    }
    let page = read(&gateway, "/api/v1/config/revisions?limit=2");
    assert_eq!((&page["total"], page["revisions"].as_array().map(Vec::len)), (&json!(4), Some(2)), "{page}");
}

#[test]
fn a_parameter_that_nobody_reads_is_refused() {
    let gateway = gateway();
    for (method, path) in [
        ("GET", "/api/v1/compliance/live"),
        ("GET", "/api/v1/detectors"),
        ("GET", "/api/v1/keys"),
        ("GET", "/api/v1/legal-holds"),
        ("GET", "/api/v1/config"),
        ("POST", "/api/v1/keys"),
        ("POST", "/v1/scan"),
    ] {
        let answer = ask(&gateway, method, &format!("{path}?limit=1"), "", "{}");
        assert_eq!(answer.status, 400, "{method} {path}: {}", answer.text());
        assert!(answer.text().contains("takes no parameters"), "{}", answer.text());
    }
    let probed = ask(&gateway, "GET", "/health?probe=1", "", "");
    assert_eq!(probed.status, 200, "whoever probes may write what they like");
}

/// A key that changes only with a restart is named where it is, and may be said as it is.
#[test]
fn what_needs_a_restart_is_named_and_may_be_said_again() {
    let gateway = gateway();
    let put = |patch: &Value| ask(&gateway, "PUT", "/api/v1/config", "", &patch.to_string());
    let shown = read(&gateway, "/api/v1/config");
    let header_ms = &shown["proxy"]["timeouts"]["header_ms"];
    let refused = put(&json!({ "proxy": { "timeouts": { "header_ms": 5 } }, "limits": { "scan_ms": 1999 } }));
    assert_eq!(refused.status, 400, "{}", refused.text());
    let faults = json!(["api: proxy.timeouts.header_ms: changes only with a restart"]);
    assert_eq!(refused.json()["faults"], faults);
    let same = json!({ "proxy": { "timeouts": { "header_ms": header_ms } }, "limits": { "scan_ms": 1999 } });
    let made = put(&same);
    assert_eq!((made.status, &made.json()["limits"]["scan_ms"]), (200, &json!(1999)), "{}", made.text());
    let alone = put(&json!({ "proxy": { "timeouts": { "header_ms": header_ms } }, "admin": {} }));
    assert_eq!((alone.status, &alone.json()["revision"]), (200, &json!(2)), "{}", alone.text());
}

/// What waits for a restart is told whatever else a file says, and each difference once.
#[test]
fn a_file_in_which_only_what_needs_a_restart_changed_is_told_of() {
    const WAITS: &str = "these keys change only with a restart";
    let gateway = gateway();
    let (base, one) = (format!("{UNLIMITED}{ROUTE}"), "[admin]\nmax_streams = 7\n");
    let two = format!("{one}[proxy]\nmax_headers = 77\n");
    gateway.rewrite(&format!("{one}{base}"));
    gateway.signal("HUP");
    gateway.wait_for_log(WAITS, 1);
    assert!(gateway.log().contains("admin.max_streams"), "{}", gateway.log());
    gateway.rewrite(&format!("{two}{base}"));
    gateway.signal("HUP");
    gateway.wait_for_log(WAITS, 2);
    // The same again, beside a rule that changes: there is nothing new to tell.
    gateway.rewrite(&format!("{two}[limits]\nscan_ms = 1999\n{base}"));
    gateway.signal("HUP");
    gateway.wait_for_log("rules reloaded", 1);
    let log = gateway.log();
    let told: Vec<&str> = log.lines().filter(|line| line.contains(WAITS)).collect();
    assert_eq!(told.len(), 2, "{log}");
    assert!(!told[1].contains("admin.max_streams") && told[1].contains("proxy.max_headers"), "{}", told[1]);
    let shown = read(&gateway, "/api/v1/config");
    assert_ne!(shown["admin"]["max_streams"], 7, "it is not in force");
}

/// A policy is written as it is read: what is as it was changes nothing, and what was changed is.
#[test]
fn a_policy_is_written_as_it_is_read() {
    let gateway = gateway();
    let path = "/api/v1/policies/default";
    let put = |body: &Value| ask(&gateway, "PUT", path, "", &body.to_string());
    let (shown, revision) = (read(&gateway, path), read(&gateway, "/api/v1/config")["revision"].clone());
    let same = put(&shown);
    assert_eq!((same.status, same.json()), (200, shown.clone()), "{}", same.text());
    assert_eq!(read(&gateway, "/api/v1/config")["revision"], revision, "nothing changed");
    let mut wanted = shown.clone();
    wanted["description"] = json!("Of mine.");
    wanted["categories"]["pii"]["enabled"] = json!(false);
    wanted["categories"]["exfiltration"]["mode"] = json!("block");
    wanted["categories"]["injection"]["threshold"] = json!("low");
    let made = put(&wanted);
    assert_eq!(made.status, 200, "{}", made.text());
    let now = made.json();
    assert_eq!((&now["description"], &now["enabled"]), (&json!("Of mine."), &json!(true)));
    let pii = &now["categories"]["pii"];
    assert_eq!(
        (&pii["enabled"], &pii["mode"], &pii["request"]),
        (&json!(false), &json!("off"), &json!("off"))
    );
    let exfiltration = &now["categories"]["exfiltration"];
    assert_eq!((&exfiltration["request"], &exfiltration["response"]), (&json!("block"), &json!("block")));
    assert_eq!(now["categories"]["injection"]["threshold"], "low");
    for key in ["allow", "detectors", "shadow"] {
        assert_eq!(
            now["definition"].get(key),
            shown["definition"].get(key),
            "what is not shown stays: {key}"
        );
    }
    // The keys of a policy file still replace the whole.
    let whole = put(&now["definition"]);
    assert_eq!((whole.status, &whole.json()["categories"]), (200, &now["categories"]), "{}", whole.text());
    let small = put(&json!({ "fail_mode": "open" }));
    assert_eq!(small.json()["definition"], json!({ "fail_mode": "open" }), "{}", small.text());
}

#[test]
fn a_policy_is_added_as_it_would_be_read() {
    let gateway = gateway();
    let post = |body: &Value| ask(&gateway, "POST", "/api/v1/policies", "", &body.to_string());
    let made = post(&json!({
        "id": "mine", "name": "Mine", "description": "My own.", "enabled": true, "mode": "block", "fail_mode": "closed",
        "categories": {
            "secrets": { "enabled": true, "mode": "block", "threshold": "high" },
            "pii": { "enabled": false },
            "custom": { "enabled": true },
        },
        "routes": [],
    }));
    assert_eq!(made.status, 201, "{}", made.text());
    let now = made.json();
    let modes = ["secrets", "pii", "custom", "injection"].map(|name| now["categories"][name]["mode"].clone());
    assert_eq!(modes, ["block", "off", "block", "monitor"].map(|mode| json!(mode)), "{now}");
    assert_eq!((&now["name"], &now["mode"]), (&json!("Mine"), &json!("block")));
    let mut copy = read(&gateway, "/api/v1/policies/default");
    for key in ["created_at", "updated_at", "routes"] {
        copy.as_object_mut().expect("a policy").remove(key);
    }
    copy["id"] = json!("copy");
    let copied = post(&copy);
    assert_eq!(
        (copied.status, &copied.json()["definition"]),
        (201, &copy["definition"]),
        "{}",
        copied.text()
    );
    let off = post(&json!({ "id": "off", "enabled": false }));
    assert_eq!((off.status, &off.json()["enabled"]), (201, &json!(false)), "{}", off.text());
}

/// What cannot be set is named, with what to do, and nothing of the change is made.
#[test]
fn what_of_a_policy_cannot_be_set_is_named() {
    let gateway = gateway();
    let path = "/api/v1/policies/default";
    let shown = read(&gateway, path);
    for (pointer, value, told) in [
        ("/id", json!("other"), "policies.default.id: does not change"),
        ("/routes", json!(["mine"]), "policies.default.routes: cannot be set here"),
        ("/created_at", json!("2020-01-01T00:00:00Z"), "policies.default.created_at: is told by the gateway"),
        ("/enabled", json!("yes"), "policies.default.enabled: expected true or false"),
        ("/mode", json!("blok"), "policies.default.mode: expected off, monitor, redact or block"),
        ("/mode", json!("off"), "policies.default.enabled: is true, and yet the mode is off"),
        ("/categories/pii/mode", json!("blok"), "policies.default.categories.pii.mode"),
        (
            "/categories/pii/mode",
            json!("off"),
            "policies.default.categories.pii.enabled: is true without a mode",
        ),
        ("/definition", json!(1), "policies.default.definition: expected an object"),
    ] {
        let mut wanted = shown.clone();
        *wanted.pointer_mut(pointer).expect("it is shown") = value;
        let refused = ask(&gateway, "PUT", path, "", &wanted.to_string());
        let faults = refused.json()["faults"].to_string();
        assert_eq!(refused.status, 400, "{pointer}: {}", refused.text());
        assert!(faults.contains(told), "{pointer}: {faults}");
    }
    let contradictory =
        json!({ "id": "odd", "mode": "monitor", "categories": { "pii": { "mode": "block" } } });
    let refused = ask(&gateway, "POST", "/api/v1/policies", "", &contradictory.to_string());
    assert_eq!(refused.status, 400, "{}", refused.text());
    assert!(refused.text().contains("policies.odd.mode: is the strictest mode"), "{}", refused.text());
    assert_eq!(read(&gateway, path), shown);
}
