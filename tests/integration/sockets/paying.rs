//! What a key pays for on a socket, and what one that is limited may ask for there.

use serde_json::Value;
use serde_json::json;

use super::read_event;
use super::refused;
use super::said;
use super::session::Shop;
use super::session::answered;
use super::session::item;
use super::session::provider;
use super::session::reply;
use crate::usage::admin;
use crate::wire::Client;

fn ask(case: &str, max: u64) -> Vec<u8> {
    said(&json!({ "type": "response.create",
        "response": { "max_output_tokens": max, "metadata": { "case": case } } }))
}

/// A provider that answers only who asks with `answer`, and tells everybody else that it has heard.
fn shop() -> Shop {
    let provider = provider(|said| match said["response"]["metadata"]["case"].as_str() {
        Some("answer") => reply(&["All ", "is ", "well."]),
        _ => vec![json!({ "type": "rate_limits.updated", "rate_limits": [] })],
    });
    Shop::open(provider, "")
}

fn opened(shop: &Shop, key: &str) -> Client {
    let (status, mut client) = shop.upgraded(key);
    assert_eq!((status, &read_event(&mut client)["type"]), (101, &json!("session.created")));
    client
}

fn heard(client: &mut Client) {
    assert_eq!(read_event(client)["type"], "rate_limits.updated");
}

/// Whoever asked twice at once, and left when the first answer was there, once had the second for nothing.
#[test]
fn an_answer_that_was_asked_for_is_paid_before_it_says_anything() {
    let shop = shop();
    let (key, id) = shop.key(&json!({ "tokens_per_day": 10_000 }));
    let mut client = opened(&shop, &key);
    let words = item("user", &"word ".repeat(80));
    client.send(&[ask("answer", 50), said(&words), ask("silent", 500)].concat());
    assert_eq!(answered(&mut client), "All is well.");
    shop.settled(&id, 100);
    drop(client);
    // What it was told, four bytes a token, and as much as it might have answered.
    shop.settled(&id, 100 + 100 + 500);
    // Who says something and asks for nothing has used nothing.
    let (key, id) = shop.key(&json!({ "tokens_per_day": 10_000 }));
    let mut client = opened(&shop, &key);
    client.send(&ask("answer", 50));
    assert_eq!(answered(&mut client), "All is well.");
    client.send(&said(&words));
    heard(&mut client);
    drop(client);
    shop.settled(&id, 100);
    // The exchange itself is counted at its end.
    let mut client = opened(&shop, &key);
    client.send(&ask("answer", 50));
    answered(&mut client);
    shop.settled(&id, 200);
}

#[test]
fn a_session_reserves_what_it_asks_for_and_nothing_while_it_is_idle() {
    let shop = shop();
    let (key, _) = shop.key(&json!({ "tokens_per_day": 1000 }));
    let (mut idle, mut first, mut second) = (opened(&shop, &key), opened(&shop, &key), opened(&shop, &key));
    let limit = json!({ "type": "session.update", "session": { "max_output_tokens": 900 } });
    first.send(&said(&limit));
    heard(&mut first);
    second.send(&ask("silent", 500));
    heard(&mut second);
    // What a session allows an answer counts once one is asked for.
    first.send(&said(&json!({ "type": "response.create" })));
    refused(&mut first, "budget_reserved");
    idle.send(&ask("silent", 400));
    heard(&mut idle);
    // Nobody has room for more.
    second.send(&ask("silent", 700));
    refused(&mut second, "budget_reserved");
}

#[test]
fn a_model_without_a_price_is_refused_before_a_session_begins() {
    let shop = shop();
    let (key, _) = shop.key(&json!({ "cost_per_month": 5 }));
    for path in ["/ws/v1/realtime?model=nobodys-model", "/ws/v1/realtime"] {
        assert_eq!(shop.upgraded_at(path, &key).0, 403, "{path}");
    }
    let mut client = shop.upgraded_at("/ws/v1/realtime?model=gpt-4o-mini", &key);
    assert_eq!((client.0, &read_event(&mut client.1)["type"]), (101, &json!("session.created")));
}

#[test]
fn a_limited_key_opens_a_session_with_its_model_and_asks_for_its_tools() {
    let shop = shop();
    let wanted = json!({ "name": "narrow", "role": "service", "models": ["gpt-real*"], "tools": ["search"] });
    let (_, made) = admin(&shop.gateway, "POST", "/api/v1/keys", &wanted);
    let key = made["key"].as_str().expect("a key");
    for (path, status) in [
        ("/ws/v1/realtime?model=gpt-realtime", 101),
        ("/ws/v1/realtime?model=gpt-4o-audio", 403),
        ("/ws/v1/realtime?model=gpt-realtime&model=gpt-5", 403),
        ("/ws/v1/realtime", 403),
    ] {
        assert_eq!(shop.upgraded_at(path, key).0, status, "{path}");
    }
    let tool = |name: &str| json!([{ "type": "function", "name": name, "parameters": {} }]);
    let update = |session: Value| json!({ "type": "session.update", "session": session });
    let mut client = opened(&shop, key);
    client.send(&said(&update(json!({ "model": "gpt-realtime-mini", "tools": tool("search") }))));
    heard(&mut client);
    for (message, code) in [
        (update(json!({ "tools": tool("run_shell") })), "tool_forbidden"),
        (update(json!({ "tools": [{ "type": "mcp", "server_label": "shell" }] })), "tool_forbidden"),
        (update(json!({ "model": "gpt-5" })), "model_forbidden"),
        (update(json!({ "prompt": { "id": "pmpt_1" } })), "model_forbidden"),
        (json!({ "type": "session.update", "Session": { "model": "gpt-5" } }), "model_forbidden"),
        (json!({ "type": "response.create", "response": { "tools": tool("run_shell") } }), "tool_forbidden"),
        (
            json!({ "type": "response.create", "response": { "tool_choice": { "type": "function", "name": "rm" } } }),
            "tool_forbidden",
        ),
    ] {
        let mut client = opened(&shop, key);
        client.send(&said(&message));
        refused(&mut client, code);
    }
}
