//! What becomes of answers that are under way when what lets their callers have them counts no more.

use std::fs;
use std::time::Instant;

use serde_json::Value;
use serde_json::json;

use crate::answers::handshake;
use crate::framing::POLICY;
use crate::gateway::Gateway;
use crate::privacy::holding;
use crate::sockets::refused;
use crate::upstream::Step;
use crate::upstream::Upstream;
use crate::upstream::chunk;
use crate::upstream::chunked_head;
use crate::wire::Client;
use crate::wire::Events;
use crate::wire::PATIENCE;
use crate::wire::exchange;
use crate::wire::post;

const ALICE: &str = "alice.lidell@example.org";
const SSE: &str = "text/event-stream";
const EVENT: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\n";
const BODY: &str = r#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#;
/// Limits that nobody here meets, but that there are: who has none is not counted.
const LIMITS: &str = "[limits.tiers.community]\nrequests_per_minute = 1000000\nburst = 1000000\n";

struct World {
    gateway: Gateway,
}

impl World {
    fn start(upstream: &Upstream, limits: &str) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        fs::write(directory.path().join("provider.key"), "provider-one\n").expect("it is writable");
        let policy = POLICY.replacen("[limits]\n", &format!("[limits]\n{limits}"), 1);
        let config = format!(
            "[[routes]]\nname = \"keyed\"\npath_prefix = \"/\"\nupstream = \"http://{}\"\npolicy = \"default\"\n\
             auth = \"gateway_key\"\nprovider_key_file = \"provider.key\"\ndialect = \"openai\"\nwebsocket = true\n\
             {policy}{LIMITS}",
            upstream.address
        );
        fs::write(directory.path().join("gateway.toml"), config).expect("it is writable");
        let arguments = vec!["--config".to_owned(), "gateway.toml".to_owned()];
        Self { gateway: Gateway::launched(directory, arguments) }
    }

    fn admin(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nx-api-key: {}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            self.gateway.admin,
            self.gateway.admin_key(),
            body.len()
        );
        let answer = exchange(self.gateway.admin, request.as_bytes());
        (answer.status, answer.json())
    }

    /// Makes a key; returns its text and its id.
    fn key(&self, more: Value) -> (String, String) {
        let mut wanted = json!({ "name": "n", "role": "service", "tier": "community" });
        wanted.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        let (status, made) = self.admin("POST", "/api/v1/keys", &wanted.to_string());
        assert_eq!(status, 201, "{made}");
        let text = |field: &str| made[field].as_str().expect("a text").to_owned();
        (text("key"), text("id"))
    }

    /// Erases somebody; returns how much of them there was.
    fn erase(&self, entity: &str) -> u64 {
        let body = json!({ "entity_id": entity }).to_string();
        let (status, told) = self.admin("POST", "/api/v1/dsar/erase", &body);
        assert_eq!(status, 200, "{told}");
        told["providers"]["rbac"].as_u64().expect("a count")
    }

    fn revoke(&self, id: &str) {
        assert_eq!(self.admin("DELETE", &format!("/api/v1/keys/{id}"), "").0, 200);
    }

    /// Asks with a key, over a connection that stays open.
    fn asked(&self, key: &str) -> Client {
        let mut client = Client::connect(self.gateway.proxy);
        client.send(&post("/v1/chat/completions", &format!("authorization: Bearer {key}\r\n"), BODY));
        client
    }

    /// Asks for a WebSocket with a key; returns the status and the connection.
    fn upgraded(&self, key: &str) -> (u16, Client) {
        let asking = String::from_utf8(handshake("/v1/realtime")).expect("text");
        let mut client = Client::connect(self.gateway.proxy);
        client.send(asking.replacen("\r\n", &format!("\r\nauthorization: Bearer {key}\r\n"), 1).as_bytes());
        (client.head().expect("a head").status, client)
    }

    /// Waits for the entry of an exchange that was refused with a code.
    fn recorded(&self, code: &str) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (_, told) = self.admin("GET", "/api/v1/audit?event_type=exchange", "");
            let is_it = |entry: &&Value| entry["message"].as_str().is_some_and(|it| it.contains(code));
            if let Some(entry) = told["entries"].as_array().into_iter().flatten().find(is_it) {
                return entry.clone();
            }
            assert!(Instant::now() < deadline, "{code}: {told}");
        }
    }
}

/// A provider that switches and says much more than connections hold on their way.
fn flooding() -> Upstream {
    let switch = b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
                   sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
    let sound = [&b"\x82\x7e\xea\x60"[..], &[0x91, 0x01].repeat(30_000)].concat();
    Upstream::start(vec![Step::Send([&switch[..], &sound.repeat(1_100)].concat()), Step::Wait])
}

fn switching() -> Upstream {
    let switch = b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
                   sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n\x81\x05first";
    Upstream::start(vec![Step::Send(switch.to_vec())])
}

#[test]
fn a_stream_ends_with_the_right_of_its_key() {
    let begun = vec![Step::Send(chunked_head(SSE)), Step::Send(chunk(EVENT.as_bytes())), Step::Wait];
    let upstream = Upstream::start(begun);
    let world = World::start(&upstream, "");
    let [(revoked, id), (narrowed, other), (expiring, third), (kept, _)] =
        [(); 4].map(|()| world.key(json!({})));
    let mut streams = [&revoked, &narrowed, &expiring, &kept].map(|key| world.asked(key));
    for stream in &mut streams {
        assert_eq!(stream.head().expect("a head").status, 200);
        assert_eq!(Events::of(stream).event().expect("it is whole").as_deref(), Some(EVENT.as_bytes()));
    }
    world.revoke(&id);
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(3);
    for (key, change) in
        [(&other, json!({ "routes": ["another"] })), (&third, json!({ "expires_at": soon.to_string() }))]
    {
        let (status, told) = world.admin("PATCH", &format!("/api/v1/keys/{key}"), &change.to_string());
        assert_eq!(status, 200, "{told}");
    }
    for stream in &mut streams[..3] {
        let told = Events::of(stream).event().expect("it is whole").expect("an event");
        let told = String::from_utf8(told).expect("text");
        assert!(
            told.contains("invalid_api_key") && told.contains("revoked, has expired or has lost the route"),
            "{told}"
        );
        while stream.piece().expect("it ends as streams do").is_some() {}
    }
    upstream.wait_until(|received| received.iter().filter(|it| it.closed).count() == 3);
    assert_eq!(world.recorded("invalid_api_key")["action"], "block");
    // What ended was not an accident, and neither key opens anything new.
    for gone in [&revoked, &expiring] {
        let answer = world.asked(gone).response().expect("a whole response");
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (401, &json!("invalid_api_key")));
    }
    assert_eq!(upstream.received().iter().filter(|it| !it.closed).count(), 1, "the last key still counts");
}

/// Erasing somebody leaves them nothing that is under way: neither a stream, nor what they follow of the record.
#[test]
fn open_answers_end_with_the_erasure_of_their_holder() {
    let begun = vec![Step::Send(chunked_head(SSE)), Step::Send(chunk(EVENT.as_bytes())), Step::Wait];
    let upstream = Upstream::start(begun);
    let world = World::start(&upstream, "");
    let ((alice, _), (bob, _)) = (world.key(json!({ "name": ALICE })), world.key(json!({ "name": "bob" })));
    let (follower, _) = world.key(json!({ "name": ALICE, "role": "auditor" }));
    let mut streams = [&alice, &bob].map(|key| world.asked(key));
    for stream in &mut streams {
        assert_eq!(stream.head().expect("a head").status, 200);
        assert_eq!(Events::of(stream).event().expect("it is whole").as_deref(), Some(EVENT.as_bytes()));
    }
    let mut record = Client::connect(world.gateway.admin);
    let follow =
        format!("GET /api/v1/audit/stream HTTP/1.1\r\nhost: localhost\r\nx-api-key: {follower}\r\n\r\n");
    record.send(follow.as_bytes());
    assert_eq!(record.head().expect("a head").status, 200);
    assert_eq!(world.erase(ALICE), 2);
    let told = Events::of(&mut streams[0]).event().expect("it is whole").expect("an event");
    assert!(String::from_utf8_lossy(&told).contains("invalid_api_key"), "{}", told.escape_ascii());
    while streams[0].piece().expect("it ends as streams do").is_some() {}
    while record.piece().expect("it ends as streams do").is_some() {}
    upstream.wait_until(|received| received.iter().filter(|it| it.closed).count() == 1);
    assert_eq!(world.recorded("invalid_api_key")["action"], "block");
    // What is written down of that end does not bring back who was erased.
    assert_eq!(holding(&world.gateway.directory().join("state"), ALICE.as_bytes()), Vec::<String>::new());
    let (_, export) = world.admin("POST", "/api/v1/dsar/export", &json!({ "entity_id": ALICE }).to_string());
    assert!(export["providers"]["rbac"].is_null(), "{export}");
    assert_eq!(upstream.received().iter().filter(|it| !it.closed).count(), 1, "nobody else's ends");
}

#[test]
fn a_socket_ends_with_the_erasure_of_its_holder() {
    let upstream = switching();
    let world = World::start(&upstream, "");
    let ((alice, _), (bob, _)) = (world.key(json!({ "name": ALICE })), world.key(json!({ "name": "bob" })));
    let [mut hers, mut his] = [&alice, &bob].map(|key| {
        let (told, mut client) = world.upgraded(key);
        assert_eq!((told, client.raw(7)), (101, b"\x81\x05first".to_vec()));
        client
    });
    assert_eq!(world.erase(ALICE), 1);
    refused(&mut hers, "invalid_api_key");
    assert!(hers.is_closed(), "who was erased keeps a connection");
    upstream.wait_until(|received| received.iter().filter(|it| it.closed).count() == 1);
    his.send(b"\x81\x8a\0\0\0\0still here");
    upstream.wait_until(|received| received.iter().any(|it| it.bytes.ends_with(b"still here")));
}

#[test]
fn a_whole_answer_is_not_for_who_counts_no_more() {
    let answer =
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 26\r\n\r\n{\"output\":";
    let upstream = Upstream::start(vec![Step::Send(answer.to_vec()), Step::Wait]);
    let world = World::start(&upstream, "");
    let (key, id) = world.key(json!({}));
    let mut client = world.asked(&key);
    upstream.wait_until(|received| received.len() == 1);
    world.revoke(&id);
    let told = client.response().expect("a whole response");
    assert_eq!((told.status, &told.json()["error"]["code"]), (401, &json!("invalid_api_key")));
    assert!(told.text().contains("meanwhile"), "{}", told.text());
    upstream.wait_until(|received| received.iter().all(|it| it.closed));
}

#[test]
fn an_upgraded_connection_ends_with_its_key_and_each_caller_has_so_many() {
    let upstream = switching();
    let world = World::start(&upstream, "upgraded_connections_per_caller = 2\n");
    let ((one, id), (other, _)) = (world.key(json!({})), world.key(json!({})));
    let mut open: Vec<Client> = Vec::new();
    for (key, status) in [(&one, 101), (&one, 101), (&one, 429), (&other, 101)] {
        let (told, mut client) = world.upgraded(key);
        assert_eq!(told, status);
        if status == 101 {
            assert_eq!(client.raw(7), b"\x81\x05first");
            open.push(client);
        }
    }
    // Requests are counted apart.
    assert_eq!(world.asked(&one).head().expect("a head").status, 502, "it is no switch of protocols");
    drop(open.remove(0));
    let deadline = Instant::now() + PATIENCE;
    let (mut told, mut again) = world.upgraded(&one);
    while told == 429 {
        assert!(Instant::now() < deadline, "the place of a closed connection is not given again");
        (told, again) = world.upgraded(&one);
    }
    assert_eq!((told, again.raw(7)), (101, b"\x81\x05first".to_vec()));
    world.revoke(&id);
    for socket in [&mut open[0], &mut again] {
        refused(socket, "invalid_api_key");
        assert!(socket.is_closed(), "a revoked key keeps its connections");
    }
    // The other caller's goes on.
    // Masked with nothing: it reads as it is written.
    open[1].send(b"\x81\x8a\0\0\0\0still here");
    upstream.wait_until(|received| received.iter().any(|it| it.bytes.ends_with(b"still here")));
}

/// It was asked between two writes only, and who does not read let one of them last for minutes.
#[test]
fn a_caller_that_does_not_read_keeps_no_socket_without_its_key() {
    let upstream = flooding();
    let world = World::start(&upstream, "");
    let (key, id) = world.key(json!({}));
    let (told, mut client) = world.upgraded(&key);
    assert_eq!((told, client.raw(2)), (101, b"\x82\x7e".to_vec()));
    world.revoke(&id);
    upstream.wait_until(|received| received.iter().all(|it| it.closed));
    assert_eq!(world.recorded("invalid_api_key")["action"], "block");
}
