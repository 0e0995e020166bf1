//! Routes that take our keys: each in the place where an SDK puts its provider's, and the provider gets its own.

use std::fs;

use serde_json::Value;
use serde_json::json;

use crate::bedrock::Peer;
use crate::bedrock::passes;
use crate::bedrock::python;
use crate::framing::POLICY;
use crate::gateway::Gateway;
use crate::gateway::program;
use crate::upstream::Step;
use crate::upstream::Upstream;
use crate::wire::Response;
use crate::wire::exchange;

const BODY: &str = r#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#;
/// A variable that cargo sets for every test.
const VARIABLE: &str = "CARGO_PKG_NAME";

struct World {
    upstream: Upstream,
    gateway: Gateway,
}

fn route(upstream: &Upstream, name: &str, more: &str) -> String {
    format!(
        "[[routes]]\nname = \"{name}\"\npath_prefix = \"/{name}\"\nstrip_prefix = true\nupstream = \"http://{}\"\n\
         policy = \"default\"\nauth = \"gateway_key\"\n{more}\n",
        upstream.address
    )
}

fn world() -> World {
    world_with("")
}

fn world_with(more: &str) -> World {
    world_before(Upstream::answering("application/json", "{}"), more)
}

fn world_before(upstream: Upstream, more: &str) -> World {
    let directory = tempfile::tempdir().expect("a temporary directory");
    fs::write(directory.path().join("provider.key"), "provider-one\n").expect("it is writable");
    let file = "provider_key_file = \"provider.key\"";
    let config = [
        route(&upstream, "filed", file),
        route(&upstream, "other", file),
        route(&upstream, "varied", &format!("provider_key_env = \"{VARIABLE}\"")),
        route(&upstream, "keyless", ""),
        route(&upstream, "plain", "").replace("auth = \"gateway_key\"\n", ""),
        POLICY.to_owned(),
        more.to_owned(),
    ];
    fs::write(directory.path().join("gateway.toml"), config.concat()).expect("it is writable");
    let gateway = Gateway::launched(directory, vec!["--config".to_owned(), "gateway.toml".to_owned()]);
    World { upstream, gateway }
}

impl World {
    fn admin(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.managed(&self.gateway.admin_key(), method, path, body)
    }

    fn managed(&self, key: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = body.to_string();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            self.gateway.admin,
            body.len()
        );
        let answer = exchange(self.gateway.admin, request.as_bytes());
        (answer.status, answer.json())
    }

    fn key(&self, wanted: Value) -> (String, String) {
        let (status, made) = self.admin("POST", "/api/v1/keys", &wanted);
        assert_eq!(status, 201, "{made}");
        (made["key"].as_str().expect("a key").to_owned(), made["id"].as_str().expect("an id").to_owned())
    }

    fn call(&self, target: &str, fields: &str) -> Response {
        let request = format!(
            "POST {target} HTTP/1.1\r\nhost: a\r\n{fields}content-type: application/json\r\ncontent-length: {}\r\n\r\n{BODY}",
            BODY.len()
        );
        exchange(self.gateway.proxy, request.as_bytes())
    }

    /// Returns the fields of the one request that reached the provider, in lower case.
    fn forwarded(&self) -> String {
        let received = self.upstream.take();
        assert_eq!(received.len(), 1, "one request reaches the provider");
        String::from_utf8_lossy(&received[0].bytes).to_ascii_lowercase()
    }
}

#[test]
fn our_key_opens_a_route_and_the_provider_gets_its_own() {
    let world = world();
    let (key, id) = world.key(json!({ "name": "app", "role": "service" }));
    let places = [
        ("/filed/v1/chat/completions", "authorization", "bearer "),
        ("/filed/v1/messages", "x-api-key", ""),
        ("/filed/v1beta/models/m:generateContent", "x-goog-api-key", ""),
        ("/filed/openai/deployments/m/chat/completions?api-version=1", "api-key", ""),
    ];
    for (path, name, scheme) in places {
        let answer = world.call(path, &format!("{name}: {scheme}{key}\r\n"));
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
        let sent = world.forwarded();
        assert!(sent.contains(&format!("\r\n{name}: {scheme}provider-one\r\n")), "{sent}");
        assert!(!sent.contains("pk_"), "our key went to the provider: {sent}");
    }
    let bearer = format!("authorization: Bearer {key}\r\n");
    assert_eq!(world.call("/varied/v1/chat/completions", &bearer).status, 200);
    assert!(world.forwarded().contains("authorization: bearer portcullis\r\n"));
    let both = format!("{bearer}x-api-key: {key}\r\n");
    assert_eq!(world.call("/keyless/api/chat", &both).status, 200);
    let sent = world.forwarded();
    assert!(
        !sent.contains("authorization") && !sent.contains("x-api-key") && !sent.contains("pk_"),
        "{sent}"
    );

    // The audit log names the key, never what opens the route.
    let deadline = std::time::Instant::now() + crate::wire::PATIENCE;
    let page = loop {
        let (_, page) = world.admin("GET", "/api/v1/audit?event_type=exchange&limit=1", &json!({}));
        if page["total"].as_u64() > Some(0) {
            break page;
        }
        assert!(std::time::Instant::now() < deadline, "nothing was recorded");
    };
    assert_eq!(page["entries"][0]["actor"], json!(id), "{page}");
    assert!(!world.gateway.log().contains(&key) && !page.to_string().contains(&key));
    let (_, config) = world.admin("GET", "/api/v1/config", &json!({}));
    assert!(!config.to_string().contains("provider-one"));
}

/// Each provider looks in one place only; SDKs can be told to use another one, or both.
#[test]
fn official_clients_reach_their_provider_wherever_they_put_our_key() {
    let peer = Peer::start("keyed_peer.py", &[]);
    let keys = [
        ("anthropic", "sk-ant-api03-of-the-tests"),
        ("oauth", "sk-ant-oat01-of-the-tests"),
        ("openai", "sk-of-the-tests"),
        ("google", "AIza-of-the-tests"),
    ];
    let directory = tempfile::tempdir().expect("a temporary directory");
    let routes = keys.map(|(name, key)| {
        fs::write(directory.path().join(name), key).expect("it is writable");
        format!(
            "[[routes]]\nname = \"{name}\"\npath_prefix = \"/{name}\"\nupstream = \"http://{}\"\npolicy = \"default\"\n\
             auth = \"gateway_key\"\nwebsocket = true\nprovider_key_file = \"{name}\"\n",
            peer.address
        )
    });
    fs::write(directory.path().join("gateway.toml"), [&routes.concat(), POLICY].concat())
        .expect("it is writable");
    let gateway = Gateway::launched(directory, vec!["--config".to_owned(), "gateway.toml".to_owned()]);
    passes(python("keyed.py").arg(format!("http://{}", gateway.proxy)).arg(gateway.admin_key()));
}

#[test]
fn whoever_has_no_right_to_a_route_is_told_in_its_sdks_words() {
    let world = world();
    let (narrow, id) = world.key(json!({ "name": "narrow", "role": "service", "routes": ["filed"] }));
    let (auditor, _) = world.key(json!({ "name": "reader", "role": "auditor" }));
    let bearer = |key: &str| format!("authorization: Bearer {key}\r\n");
    let openai = "/filed/v1/chat/completions";
    assert_eq!(world.call(openai, &bearer(&narrow)).status, 200);
    // An empty credential is none.
    for fields in
        [format!("x-api-key: \r\n{}", bearer(&narrow)), format!("authorization: \r\nx-api-key: {narrow}\r\n")]
    {
        assert_eq!(world.call(openai, &fields).status, 200, "{fields}");
    }
    world.upstream.take();
    let (shown, shown_elsewhere) =
        (format!("{openai}?foo={narrow}"), format!("/plain/v1/chat/completions?foo={narrow}"));
    let cases = [
        (openai, String::new(), 401, "invalid_api_key"),
        (openai, bearer("sk-somebody-elses"), 401, "invalid_api_key"),
        (openai, "authorization: Basic eDp5\r\n".to_owned(), 401, "invalid_api_key"),
        (openai, format!("{}x-api-key: pk_b\r\n", bearer(&narrow)), 400, "ambiguous_credential"),
        (openai, format!("{}x-api-token: pk_b\r\n", bearer(&narrow)), 400, "ambiguous_credential"),
        (openai, bearer(&narrow).repeat(2), 400, "malformed_request"),
        ("/filed/%252e%252e/v1/chat/completions", bearer(&narrow), 400, "malformed_path"),
        ("/filed/v1/chat/completions?key=x", bearer(&narrow), 400, "credential_in_query"),
        ("/filed/v1/chat/completions?%6Bey=x", bearer(&narrow), 400, "credential_in_query"),
        (&shown, bearer(&narrow), 400, "credential_in_query"),
        (&shown_elsewhere, "authorization: Bearer sk-x\r\n".to_owned(), 400, "credential_in_query"),
        (openai, "authorization: \r\nx-api-key: \r\n".to_owned(), 401, "invalid_api_key"),
        ("/other/v1/chat/completions", bearer(&narrow), 403, "route_forbidden"),
        (openai, bearer(&auditor), 403, "route_forbidden"),
    ];
    for (path, fields, status, code) in cases {
        let answer = world.call(path, &fields);
        assert_eq!(answer.status, status, "{path} {fields}: {}", answer.text());
        assert_eq!(answer.json()["error"]["code"], code, "{}", answer.text());
        assert!(answer.header("x-ratelimit-remaining").is_some());
    }
    for query in [format!("foo={narrow}"), "secret=x".to_owned()] {
        let (status, told) = world.admin("GET", &format!("/api/v1/keys?{query}"), &json!({}));
        assert_eq!((status, told.to_string().contains("in the query")), (400, true), "{query}: {told}");
    }
    let anthropic = world.call("/filed/v1/messages", "x-api-key: pk_wrong\r\n");
    assert_eq!((anthropic.status, &anthropic.json()["error"]["type"]), (401, &json!("authentication_error")));
    let gemini = world.call("/filed/v1beta/models/m:generateContent", "");
    assert_eq!((gemini.status, &gemini.json()["error"]["status"]), (401, &json!("UNAUTHENTICATED")));
    assert_eq!(world.admin("DELETE", &format!("/api/v1/keys/{id}"), &json!({})).0, 200);
    assert_eq!(world.call(openai, &bearer(&narrow)).status, 401, "a revoked key opens nothing");
    assert!(world.upstream.take().is_empty(), "a refused request reached the provider");
}

#[test]
fn a_users_token_opens_what_its_role_may_until_the_user_changes() {
    let world = world();
    let user = json!({ "name": "Ada", "password": "correct horse battery", "role": "service" });
    let (status, made) = world.admin("POST", "/api/v1/users", &user);
    assert_eq!(status, 201, "{made}");
    let login = |password: &str| {
        let body = json!({ "username": "ada", "password": password }).to_string();
        let request = format!(
            "POST /api/v1/auth/token HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\n\r\n{body}",
            world.gateway.admin,
            body.len()
        );
        exchange(world.gateway.admin, request.as_bytes())
    };
    assert_eq!(login("correct horse batterz").status, 401);
    let answer = login("correct horse battery");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let token = answer.json()["access_token"].as_str().expect("a token").to_owned();
    for (path, fields, sent) in [
        (
            "/filed/v1/chat/completions",
            format!("authorization: Bearer {token}\r\n"),
            "authorization: bearer ",
        ),
        ("/filed/v1/chat/completions", format!("x-api-token: {token}\r\n"), "authorization: bearer "),
        ("/filed/v1/messages", format!("x-api-token: {token}\r\n"), "x-api-key: "),
    ] {
        assert_eq!(world.call(path, &fields).status, 200, "{path}");
        let forwarded = world.forwarded();
        assert!(forwarded.contains(&format!("\r\n{sent}provider-one\r\n")), "{forwarded}");
        assert!(!forwarded.contains("eyj"), "the token went to the provider: {forwarded}");
    }
    let id = made["id"].as_str().expect("an id");
    let (status, _) = world.admin("PATCH", &format!("/api/v1/users/{id}"), &json!({ "disabled": true }));
    assert_eq!(status, 200);
    let bearer = format!("authorization: Bearer {token}\r\n");
    assert_eq!(world.call("/filed/v1/chat/completions", &bearer).status, 401);
    assert!(world.upstream.take().is_empty());
    let log = world.gateway.log();
    assert!(!log.contains("correct horse") && !log.contains(&token), "a secret is in the log");
}

#[test]
fn a_limited_key_is_told_what_it_may_not_use() {
    let world = world();
    let (key, id) = world.key(json!({
        "name": "narrow", "role": "service", "routes": ["fil*"], "models": ["gpt-4o*"], "tools": ["search"],
    }));
    let call = |path: &str, body: &str| {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        exchange(world.gateway.proxy, request.as_bytes())
    };
    let chat = "/filed/v1/chat/completions";
    let tool = |name: &str| {
        format!(r#"{{"model":"gpt-4o","tools":[{{"type":"function","function":{{"name":"{name}"}}}}]}}"#)
    };
    assert_eq!(call(chat, r#"{"model":"gpt-4o-mini","messages":[]}"#).status, 200);
    assert_eq!(call(chat, &tool("search")).status, 200);
    world.upstream.take();
    let cases = [
        (chat, r#"{"model":"gpt-5","messages":[]}"#.to_owned(), "model_forbidden", "gpt-5"),
        (chat, r#"{"messages":[]}"#.to_owned(), "model_forbidden", "names none"),
        (chat, tool("run_shell"), "tool_forbidden", "run_shell"),
        (
            "/filed/v1/responses",
            r#"{"model":"gpt-4o","tools":[{"type":"image_generation","model":"gpt-image-1"}]}"#.to_owned(),
            "model_forbidden",
            "gpt-image-1",
        ),
        (
            chat,
            r#"{"model":"gpt-4o","tool_choice":{"type":"web_search"}}"#.to_owned(),
            "tool_forbidden",
            "web_search",
        ),
        (chat, r#"{"model":"gpt-4o","model":"gpt-5"}"#.to_owned(), "model_forbidden", "cannot be read"),
        ("/other/v1/chat/completions", r#"{"model":"gpt-4o"}"#.to_owned(), "route_forbidden", "route"),
    ];
    for (path, body, code, named) in cases {
        let answer = call(path, &body);
        let error = &answer.json()["error"];
        assert_eq!((answer.status, &error["code"]), (403, &json!(code)), "{body}: {}", answer.text());
        assert!(error["message"].as_str().is_some_and(|it| it.contains(named)), "{}", answer.text());
        assert_eq!(answer.header("x-should-retry"), Some("false"));
    }
    let anthropic = call("/filed/v1/messages", r#"{"model":"claude","messages":[],"max_tokens":1}"#);
    assert_eq!((anthropic.status, &anthropic.json()["error"]["type"]), (403, &json!("permission_error")));
    let gemini = call("/filed/v1beta/models/gemini-2:generateContent", r#"{"contents":[]}"#);
    assert_eq!((gemini.status, &gemini.json()["error"]["status"]), (403, &json!("PERMISSION_DENIED")));
    assert!(world.upstream.take().is_empty(), "a refused request reached the provider");
    // A change counts for the next request.
    let wider = json!({ "models": [], "tools": ["search", "run_*"] });
    assert_eq!(world.admin("PATCH", &format!("/api/v1/keys/{id}"), &wider).0, 200);
    assert_eq!(call(chat, r#"{"model":"gpt-5","messages":[]}"#).status, 200);
    assert_eq!(call(chat, &tool("run_shell")).status, 200);
}

#[test]
fn a_providers_key_is_exchanged_while_the_gateway_runs() {
    let world = world();
    let (key, _) = world.key(json!({ "name": "app", "role": "service" }));
    let bearer = format!("authorization: Bearer {key}\r\n");
    fs::write(world.gateway.directory().join("provider.key"), "provider-two").expect("it is writable");
    world.gateway.signal("HUP");
    let deadline = std::time::Instant::now() + crate::wire::PATIENCE;
    loop {
        assert_eq!(world.call("/filed/v1/chat/completions", &bearer).status, 200);
        if world.forwarded().contains("bearer provider-two\r\n") {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "the new key is not used");
    }
    // A key that cannot be read for a moment keeps serving as it was.
    fs::write(world.gateway.directory().join("provider.key"), "").expect("it is writable");
    world.gateway.signal("HUP");
    let deadline = std::time::Instant::now() + crate::wire::PATIENCE;
    while !world.gateway.log().contains("the route's provider key cannot be read") {
        assert!(std::time::Instant::now() < deadline, "an unreadable key is not told");
    }
    assert_eq!(world.call("/filed/v1/chat/completions", &bearer).status, 200);
    assert!(world.forwarded().contains("bearer provider-two\r\n"));
    // Whoever may change routes over the network may not thereby read files of this machine.
    let mut routes = world.admin("GET", "/api/v1/config", &json!({})).1["routes"].clone();
    routes[0]["provider_key_file"] = json!("/etc/hostname");
    let (status, told) = world.admin("PUT", "/api/v1/config", &json!({ "routes": routes }));
    assert_eq!(status, 400, "{told}");
    assert!(told.to_string().contains("only in the configuration file"), "{told}");
}

/// Providers repeat the key that they refuse; the caller never had it.
#[test]
fn no_answer_shows_a_providers_key() {
    let error = "{\"error\":{\"message\":\"Incorrect API key provided: provider-one.\"}}";
    let refused = format!(
        "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer error=\"provider-one is unknown\"\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{error}",
        error.len()
    );
    let begun = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
        data: {\"error\":{\"message\":\"key provi";
    let rest = "der-one is over its limit\"}}\n\n";
    let page = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 29\r\n\r\nis it provider-one? Mail prov";
    let sent = |text: &str| Step::Send(text.as_bytes().to_vec());
    let streamed = vec![sent(begun), sent(rest), Step::Close];
    for steps in [vec![sent(&refused)], streamed, vec![sent(page)]] {
        let world = world_before(Upstream::start(steps), "");
        let (key, _) = world.key(json!({ "name": "app", "role": "service" }));
        let answer = world.call("/filed/v1/chat/completions", &format!("authorization: Bearer {key}\r\n"));
        let shown = format!("{:?} {}", answer.header("www-authenticate"), answer.text());
        assert!(!shown.contains("provider-one") && shown.contains("************"), "{shown}");
        assert!(
            !shown.contains("Mail") || shown.ends_with("Mail prov"),
            "a begin that is none was lost: {shown}"
        );
        // Where the caller brings the provider's key itself, it is told of its own.
        let own = world.call("/plain/v1/chat/completions", "");
        assert!(own.text().contains("provider-one"), "{}", own.text());
    }
}

/// A key of ours is a secret like any other, with no word beside it.
#[test]
fn our_key_does_not_leave_in_a_prompt() {
    let world = world();
    let (key, _) = world.key(json!({ "name": "app", "role": "service" }));
    for content in [key.clone(), format!("({key})")] {
        let body = json!({ "model": "m", "messages": [{ "role": "user", "content": content }] }).to_string();
        let request = format!(
            "POST /plain/v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        assert_eq!(exchange(world.gateway.proxy, request.as_bytes()).status, 403, "{content}");
    }
    assert!(world.upstream.take().is_empty(), "our key reached the provider");
}

#[test]
fn an_operator_cannot_lead_a_providers_key_elsewhere() {
    let world = world();
    let elsewhere = Upstream::answering("application/json", "{}");
    let (key, _) = world.key(json!({ "name": "app", "role": "service" }));
    let (operator, _) = world.key(json!({ "name": "ops", "role": "operator" }));
    let before = world.admin("GET", "/api/v1/config", &json!({})).1;
    let (routes, revision) = (before["routes"].clone(), before["revision"].clone());
    let with = |key: &str, value: Value| {
        let mut routes = routes.clone();
        let at = routes.as_array().expect("a list").iter().position(|it| it["name"] == "varied");
        routes[at.expect("the route is there")][key] = value;
        json!({ "routes": routes })
    };
    let moved = with("upstream", json!(format!("http://{}", elsewhere.address)));
    let bearer = format!("authorization: Bearer {key}\r\n");
    for target in ["/api/v1/config", "/api/v1/config?dry_run=true"] {
        let (status, told) = world.managed(&operator, "PUT", target, &moved);
        assert_eq!(status, 403, "{told}");
        assert!(told["error"].as_str().is_some_and(|it| it.contains("provider_keys:move")), "{told}");
    }
    assert_eq!(world.managed(&operator, "PUT", "/api/v1/config", &with("websocket", json!(true))).0, 200);
    assert_eq!(world.call("/varied/v1/chat/completions", &bearer).status, 200);
    assert!(elsewhere.take().is_empty(), "the provider's key went elsewhere");
    world.upstream.take();

    // An admin may; and an operator may not bring back where it went then.
    assert_eq!(world.admin("PUT", "/api/v1/config", &moved).0, 200);
    assert_eq!(world.call("/varied/v1/chat/completions", &bearer).status, 200);
    assert_eq!(elsewhere.take().len(), 1);
    let back = json!({ "revision": revision });
    assert_eq!(world.managed(&operator, "POST", "/api/v1/config/rollback", &back).0, 403);
    assert_eq!(world.admin("POST", "/api/v1/config/rollback", &back).0, 200);
    assert_eq!(world.call("/varied/v1/chat/completions", &bearer).status, 200);
    assert!(world.forwarded().contains("bearer portcullis"));
}

#[test]
fn our_own_credentials_are_no_providers_business() {
    let world = world();
    let (status, made) = world.admin("POST", "/api/v1/keys", &json!({ "name": "app", "role": "service" }));
    let key = made["key"].as_str().expect("a key").to_owned();
    assert_eq!(status, 201);
    for (path, fields) in [
        ("/plain/v1/chat/completions".to_owned(), format!("authorization: Bearer {key}\r\n")),
        ("/plain/v1/messages".to_owned(), format!("x-api-key: {key}\r\n")),
        ("/plain/v1/chat/completions".to_owned(), format!("x-api-token: {key}\r\n")),
        (format!("/plain/v1beta/models/m:generateContent?key={key}"), String::new()),
    ] {
        let answer = world.call(&path, &fields);
        assert_eq!(answer.status, 401, "{path} {fields}: {}", answer.text());
        assert!(answer.text().contains("a credential of the gateway"), "{}", answer.text());
        assert_eq!(answer.header("www-authenticate"), Some("Bearer realm=\"portcullis\""));
    }
    assert!(world.upstream.take().is_empty(), "the provider was shown a key of ours");
}

/// Of two credentials only the provider knows which counts: with a new one beside it, a caller would be a new one.
#[test]
fn nobody_is_a_new_caller_with_each_request() {
    // Next to nothing comes back meanwhile.
    let world = world_with("[limits.tiers.community]\nrequests_per_minute = 1\nburst = 100\n");
    let (openai, anthropic) = ("/plain/v1/chat/completions", "/plain/v1/messages");
    let gemini = "/plain/v1beta/models/m:generateContent";
    let refused = [
        (openai, "authorization: Bearer real\r\nx-api-key: junk\r\n", "code", json!("ambiguous_credential")),
        (openai, "api-key: real\r\nauthorization: Bearer junk\r\n", "code", json!("ambiguous_credential")),
        (openai, "x-api-key: real\r\nx-api-key: junk\r\n", "code", json!("ambiguous_credential")),
        (
            anthropic,
            "x-api-key: real\r\nauthorization: Bearer junk\r\n",
            "type",
            json!("invalid_request_error"),
        ),
        (gemini, "x-goog-api-key: real\r\nx-api-key: junk\r\n", "status", json!("INVALID_ARGUMENT")),
        (
            "/plain/v1beta/models/m:generateContent?key=real",
            "x-api-key: junk\r\n",
            "status",
            json!("INVALID_ARGUMENT"),
        ),
    ];
    for (path, fields, name, expected) in refused {
        let answer = world.call(path, fields);
        assert_eq!(
            (answer.status, &answer.json()["error"][name]),
            (400, &expected),
            "{path} {fields}: {}",
            answer.text()
        );
    }
    assert_eq!(world.call(openai, "authorization: Bearer real junk\r\n").status, 401);
    assert!(world.upstream.take().is_empty(), "a refused request reached the provider");
    let caller = |path: &str, fields: &str| {
        let answer = world.call(path, fields);
        assert_eq!(answer.status, 200, "{path} {fields}: {}", answer.text());
        world.upstream.take();
        answer.header("x-ratelimit-remaining").and_then(|left| left.parse::<i64>().ok()).expect("a number")
    };
    // One caller however it writes its credential, and wherever.
    let first = caller(openai, "authorization: Bearer real\r\n");
    let same = [
        (openai, "authorization: bearer   real\r\n"),
        (openai, "authorization: Bearer real\r\napi-key: real\r\n"),
        (anthropic, "x-api-key: real\r\nauthorization: Bearer real\r\n"),
        (anthropic, "x-api-key: \r\nauthorization: Bearer real\r\n"),
        ("/plain/v1beta/models/m:generateContent?key=real", ""),
    ];
    for (path, fields) in same {
        let left = caller(path, fields);
        assert!(left < first, "{fields} is another caller: {left} of {first}");
    }
    // A signature is another one each time, of the same key.
    let signed = |signature: &str| {
        let scope = "AKIDEXAMPLE/20261125/eu-west-1/bedrock/aws4_request";
        let signature = format!("Credential={scope}, SignedHeaders=host, Signature={signature}");
        caller(openai, &format!("authorization: AWS4-HMAC-SHA256 {signature}\r\n"))
    };
    assert_eq!(signed("1f") - 1, signed("2e"));
}

/// Keys are made, listed, replaced and revoked from the shell.
#[test]
fn the_shell_manages_keys_with_a_key() {
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = Gateway::in_front_of(upstream.address, "");
    let admin = format!("http://{}", gateway.admin);
    let run = |key: &str, arguments: &[&str]| {
        let mut command = program();
        command.arg("key").args(arguments).args(["--admin", &admin]).env("PORTCULLIS_KEY", key);
        let output = command.output().expect("the program was built");
        let text = |bytes| String::from_utf8(bytes).expect("it writes text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let root = gateway.admin_key();
    let whoami = |key: &str| {
        let ask = format!(
            "GET /api/v1/auth/whoami HTTP/1.1\r\nhost: {}\r\nx-api-key: {key}\r\n\r\n",
            gateway.admin
        );
        exchange(gateway.admin, ask.as_bytes()).status
    };
    let (code, made, told) = run(&root, &["create", "--name", "ci", "--role", "service", "--route", "all"]);
    assert_eq!(code, Some(0), "{told}");
    let key = made.trim_end();
    assert!(key.starts_with("pk_") && !key.contains('\n') && !told.contains(key), "{made}{told}");
    assert_eq!(whoami(key), 200);
    let (code, listed, _) = run(&root, &["list"]);
    let row = listed.lines().find(|line| line.contains(" ci ")).expect("its row").to_owned();
    assert!(code == Some(0) && row.contains("service") && !listed.contains("pk_"), "{listed}");
    let id = row.split(' ').next().expect("an id").to_owned();
    let (_, listed, _) = run(&root, &["list", "--json"]);
    let answer: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
    assert!(answer["total"].as_u64() >= Some(2), "{answer}");

    let (code, renewed, told) = run(&root, &["rotate", &id]);
    assert!(code == Some(0) && renewed.starts_with("pk_") && renewed != made, "{told}");
    assert_eq!((whoami(key), whoami(renewed.trim_end())), (200, 200), "the text before counts for a while");
    let (code, rotated, told) = run(&root, &["rotate", &id, "--overlap", "0"]);
    assert!(code == Some(0) && rotated.starts_with("pk_") && rotated != renewed, "{told}");
    assert_eq!((whoami(renewed.trim_end()), whoami(rotated.trim_end())), (401, 200));
    let (code, said, _) = run(&root, &["revoke", &id]);
    assert!(code == Some(0) && said.contains(&id), "{said}");
    assert_eq!(whoami(rotated.trim_end()), 401);

    let (code, _, told) = run(rotated.trim_end(), &["list"]);
    assert!(code == Some(1) && told.contains("PORTCULLIS_KEY") && !told.contains("pk_"), "{told}");
    let (code, _, told) = run(&root, &["create", "--name", "x", "--role", "king"]);
    assert!(code == Some(1) && told.contains("400") && told.contains("role"), "{told}");
    assert_eq!(run(&root, &["revoke", "../signing"]).0, Some(2), "an id is no path");
    assert_eq!(run(&root, &["revoke", "nobody"]).0, Some(1));
}
