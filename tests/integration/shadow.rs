//! A policy beside the one that decides: it changes nothing, and what it would have done is recorded, counted and told.

use std::fs;
use std::time::Instant;

use serde_json::Value;
use serde_json::json;

use crate::answers::handshake;
use crate::framing::secret;
use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::gateway::program;
use crate::sockets::said;
use crate::sockets::wait_for_texts;
use crate::upstream::Step;
use crate::upstream::Upstream;
use crate::usage::ASK;
use crate::usage::CHAT;
use crate::usage::admin;
use crate::wire::Client;
use crate::wire::PATIENCE;
use crate::wire::Response;
use crate::wire::exchange;
use crate::wire::post;

const POLICIES: &str = "[limits]\nscan_ms = 60000\n\
    [policies.lenient]\nfail_mode = \"closed\"\nshadow = \"harder\"\n\
    [policies.lenient.categories.secrets]\nmode = \"monitor\"\n\
    [policies.lenient.categories.pii]\nmode = \"redact\"\n\
    [policies.harder]\nfail_mode = \"open\"\n\
    [policies.harder.categories.secrets]\nmode = \"block\"\nonly = \"validated_or_high\"\n\
    [policies.harder.categories.pii]\nmode = \"redact\"\n";
const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
    sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

fn route(name: &str, upstream: &Upstream) -> String {
    format!(
        "[[routes]]\nname = \"{name}\"\npath_prefix = \"/{name}\"\nstrip_prefix = true\nwebsocket = true\n\
         upstream = \"http://{}\"\npolicy = \"lenient\"\n",
        upstream.address
    )
}

fn get(gateway: &Gateway, path: &str) -> Response {
    let key = gateway.admin_key();
    let ask = format!("GET {path} HTTP/1.1\r\nhost: {}\r\nx-api-key: {key}\r\n\r\n", gateway.admin);
    exchange(gateway.admin, ask.as_bytes())
}

/// Returns the one entry of a route, once it is there.
fn entry(gateway: &Gateway, route: &str) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let path = format!("/api/v1/audit?event_type=exchange&route={route}");
        let (_, mut told) = admin(gateway, "GET", &path, &Value::Null);
        if told["total"] == 1 {
            return told["entries"][0].take();
        }
        assert!(Instant::now() < deadline, "{route}: {told}");
    }
}

/// Expects what the shadow would have done of an entry, and that its finding of a key was only recorded.
fn would_block(entry: &Value) {
    let shadow = &entry["shadow"];
    assert_eq!((&shadow["policy"], &shadow["action"]), (&json!("harder"), &json!("block")), "{entry}");
    let key = json!({ "type": "aws_access_key_id", "action": "block" });
    assert!(shadow["findings"].as_array().is_some_and(|all| all.contains(&key)), "{entry}");
    assert_eq!((&entry["action"], &entry["policy"]), (&json!("monitor"), &json!("lenient")), "{entry}");
    let message = entry["message"].as_str().unwrap_or_default();
    assert!(message.contains("the shadow policy would block"), "{entry}");
}

#[test]
fn what_a_shadow_would_have_done_is_in_the_entry_the_metrics_and_the_export() {
    let event = |text: &str| {
        let delta = json!({ "choices": [{ "index": 0, "delta": { "content": text } }] });
        format!("data: {delta}\n\n").into_bytes()
    };
    let pieces =
        [event("the key is "), event(&secret()), event(" as it seems"), b"data: [DONE]\n\n".to_vec()];
    let whole = Upstream::answering("application/json", "{}");
    let streaming = Upstream::streaming("text/event-stream", &pieces.each_ref().map(Vec::as_slice));
    let socket = Upstream::start(vec![Step::Send(SWITCH.into())]);
    let routes = ["asked", "clean", "alike", "broken"].map(|name| route(name, &whole));
    let routes = routes.concat() + &route("streamed", &streaming) + &route("socket", &socket);
    let gateway = Gateway::start(&format!("{routes}{UNLIMITED}{POLICIES}"));
    let ask = |name: &str, body: &str| exchange(gateway.proxy, &post(&format!("/{name}{CHAT}"), "", body));
    let with = |text: &str| ASK.replace("four words", text);

    let answer = ask("asked", &with(&secret()));
    assert_eq!((answer.status, answer.header("x-portcullis-action")), (200, Some("monitor")));
    would_block(&entry(&gateway, "asked"));
    assert_eq!(ask("streamed", ASK).body, pieces.concat());
    would_block(&entry(&gateway, "streamed"));
    let mut client = Client::connect(gateway.proxy);
    client.send(&handshake("/socket/v1/realtime?model=m"));
    assert_eq!(client.head().expect("a head").status, 101);
    client.send(&said(&json!({ "type": "session.update", "session": { "instructions": secret() } })));
    wait_for_texts(&socket, 1);
    drop(client);
    would_block(&entry(&gateway, "socket"));

    // What both decide alike is no difference.
    ask("clean", ASK);
    ask("alike", &with("my card is 4111 1111 1111 1111"));
    assert_eq!(entry(&gateway, "clean")["shadow"], Value::Null);
    let alike = entry(&gateway, "alike");
    assert_eq!((&alike["action"], &alike["shadow"]), (&json!("redact"), &Value::Null), "{alike}");
    // What nobody can read meets the fail mode of each.
    assert_eq!(ask("broken", "{").status, 400);
    let broken = entry(&gateway, "broken");
    let lets_pass = json!({ "policy": "harder", "action": "monitor", "findings": [] });
    assert_eq!((&broken["action"], &broken["shadow"]), (&json!("block"), &lets_pass), "{broken}");

    let metrics = get(&gateway, "/metrics").text();
    for line in [
        "portcullis_shadow_differences_total{action=\"block\",decided=\"monitor\",policy=\"harder\"} 3",
        "portcullis_shadow_differences_total{action=\"monitor\",decided=\"block\",policy=\"harder\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    exports(&gateway);
}

/// The export has it in columns of its own, and verifies.
fn exports(gateway: &Gateway) {
    let table = get(gateway, "/api/v1/audit/export?format=csv&route=asked").text();
    let (head, row) = table.split_once("\r\n").expect("a head and a row");
    assert!(head.contains(",policy,shadow_policy,shadow_action,shadow_findings,revision,"), "{head}");
    assert!(row.contains("\"lenient\",\"harder\",\"block\",\""), "{row}");
    assert!(row.contains("aws_access_key_id block"), "{row}");
    let lines = get(gateway, "/api/v1/audit/export").body;
    let keys = get(gateway, "/.well-known/jwks.json").body;
    let [export, trusted] = [("export.jsonl", lines), ("jwks.json", keys)].map(|(name, bytes)| {
        let path = gateway.directory().join(name);
        fs::write(&path, bytes).expect("the directory is writable");
        path
    });
    let mut verify = program();
    verify.args(["audit", "verify"]).arg(export).arg("--keys").arg(trusted);
    let output = verify.output().expect("the program was built");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
}
