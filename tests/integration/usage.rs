//! What is used is counted, in bodies and in streams.

use std::time::Duration;
use std::time::Instant;

use serde_json::Value;
use serde_json::json;

use crate::framing::POLICY;
use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::upstream::Step;
use crate::upstream::Upstream;
use crate::wire::PATIENCE;
use crate::wire::exchange;
use crate::wire::post;

pub const CHAT: &str = "/v1/chat/completions";
pub const ASK: &str =
    r#"{"model":"gpt-4o-mini","messages":[{"role":"user","content":"four words of text"}]}"#;
/// What a whole answer says it used: 100 tokens, of which ten are cached.
pub const ANSWER: &str = r#"{"id":"c","object":"chat.completion","model":"gpt-4o-mini-2024-07-18","choices":[{"index":0,"message":{"role":"assistant","content":"hello"}}],"usage":{"prompt_tokens":60,"completion_tokens":40,"total_tokens":100,"prompt_tokens_details":{"cached_tokens":10}}}"#;

/// Calls the management API with the first key; returns the status and the answer.
pub fn admin(gateway: &Gateway, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let (body, key) = (body.to_string(), gateway.admin_key());
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {}\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        gateway.admin,
        body.len()
    );
    let answer = exchange(gateway.admin, request.as_bytes());
    (answer.status, answer.json())
}

/// Waits until so many exchanges are counted: an exchange counts once its answer has left.
pub fn counted(gateway: &Gateway, requests: u64) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (status, usage) = admin(gateway, "GET", "/api/v1/analytics/usage", &json!({}));
        assert_eq!(status, 200, "{usage}");
        if usage["request_count"].as_u64() >= Some(requests) {
            return usage;
        }
        assert!(Instant::now() < deadline, "{usage}");
    }
}

#[test]
fn bodies_and_streams_of_every_dialect_are_counted() {
    let events = |events: &[&str]| -> Vec<Vec<u8>> {
        events.iter().map(|event| format!("data: {event}\n\n").into_bytes()).collect()
    };
    let sse = "text/event-stream";
    let anthropic = [
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-haiku-4-5-20251001\",\"content\":[],\"usage\":{\"input_tokens\":5,\"cache_read_input_tokens\":3,\"output_tokens\":1}}}\n\n",
        "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":9}}\n\n",
        "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    ]
    .map(|event| event.as_bytes().to_vec());
    let responses = events(&[
        r#"{"type":"response.completed","response":{"id":"r","object":"response","model":"o3-2025-04-16","output":[],"usage":{"input_tokens":7,"output_tokens":20,"total_tokens":27,"output_tokens_details":{"reasoning_tokens":15}}}}"#,
    ]);
    let chat = events(&[
        r#"{"id":"c","object":"chat.completion.chunk","model":"gpt-4o","choices":[{"index":0,"delta":{"content":"hi"}}]}"#,
        r#"{"id":"c","object":"chat.completion.chunk","model":"gpt-4o","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}"#,
        "[DONE]",
    ]);
    // A provider that tells no usage: 18 bytes were asked and 16 answered, four make a token.
    let silent = events(&[
        r#"{"id":"c","object":"chat.completion.chunk","model":"nobodys-model","choices":[{"index":0,"delta":{"content":"sixteen "}}]}"#,
        r#"{"id":"c","object":"chat.completion.chunk","model":"nobodys-model","choices":[{"index":0,"delta":{"content":"letters!"}}]}"#,
        "[DONE]",
    ]);
    let gemini = r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"hi"}]}}],"modelVersion":"gemini-2.5-flash","usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":2,"thoughtsTokenCount":3,"totalTokenCount":15,"promptTokensDetails":[{"modality":"AUDIO","tokenCount":4}]}}"#;
    let ollama = "{\"model\":\"llama3\",\"message\":{\"role\":\"assistant\",\"content\":\"hi\"},\"done\":false}\n{\"model\":\"llama3\",\"done\":true,\"prompt_eval_count\":8,\"eval_count\":9}\n";
    let streaming =
        |pieces: &[Vec<u8>]| Upstream::streaming(sse, &pieces.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let upstreams = [
        ("whole", CHAT, Upstream::answering("application/json", ANSWER)),
        ("chat", CHAT, streaming(&chat)),
        ("responses", "/v1/responses", streaming(&responses)),
        ("anthropic", "/v1/messages", streaming(&anthropic)),
        (
            "gemini",
            "/v1beta/models/gemini-2.5-flash:generateContent",
            Upstream::answering("application/json", gemini),
        ),
        ("ollama", "/api/chat", Upstream::answering("application/x-ndjson", ollama)),
        ("silent", CHAT, streaming(&silent)),
        ("failing", CHAT, Upstream::start(vec![Step::Close])),
    ];
    let route = |(name, _, upstream): &(&str, &str, Upstream)| {
        format!(
            "[[routes]]\nname = \"{name}\"\npath_prefix = \"/{name}\"\nstrip_prefix = true\nupstream = \"http://{}\"\n",
            upstream.address
        )
    };
    let routes: String = upstreams.iter().map(route).collect();
    let gateway = Gateway::start(&format!("{routes}{UNLIMITED}{POLICY}"));
    for (name, path, _) in &upstreams {
        let answer = exchange(gateway.proxy, &post(&format!("/{name}{path}"), "", ASK));
        assert_eq!(answer.status, if *name == "failing" { 502 } else { 200 }, "{name}: {}", answer.text());
    }
    let usage = counted(&gateway, 8);
    let of = |route: &str, figure: &str| {
        let routes = usage["by_route"].as_array().expect("a list");
        routes.iter().find(|it| it["route"] == route).map(|it| it[figure].clone()).unwrap_or_default()
    };
    let figures = |route: &str| {
        ["prompt_tokens", "completion_tokens", "total_tokens", "estimated_tokens"].map(|it| of(route, it))
    };
    assert_eq!(figures("whole"), [60, 40, 100, 0].map(Value::from));
    assert_eq!(figures("chat"), [3, 4, 7, 0].map(Value::from));
    assert_eq!(figures("responses"), [7, 20, 27, 0].map(Value::from));
    assert_eq!(figures("anthropic"), [8, 9, 17, 0].map(Value::from));
    assert_eq!(figures("gemini"), [10, 5, 15, 0].map(Value::from));
    assert_eq!(figures("ollama"), [8, 9, 17, 0].map(Value::from));
    assert_eq!(figures("silent"), [5, 4, 9, 9].map(Value::from));
    assert_eq!(figures("failing"), [0, 0, 0, 0].map(Value::from));
    let parts = [
        of("whole", "cached_tokens"),
        of("anthropic", "cached_tokens"),
        of("responses", "reasoning_tokens"),
        of("gemini", "reasoning_tokens"),
        of("gemini", "audio_prompt_tokens"),
        of("failing", "error_count"),
    ];
    assert_eq!(parts, [10, 3, 15, 3, 4, 1].map(Value::from), "{usage}");
    assert_eq!((&usage["total_tokens"], &usage["error_rate"]), (&json!(192), &json!(0.125)));
    let (_, cost) = admin(&gateway, "GET", "/api/v1/analytics/cost", &json!({}));
    let whole = &cost["by_model"]["gpt-4o-mini-2024-07-18"];
    // 50 fresh, 10 cached and 40 written at 0.15, 0.075 and 0.60 a million.
    assert_eq!(whole["cost"], json!(0.000_032_25), "{cost}");
    assert_eq!(cost["by_model"]["llama3"]["unpriced_tokens"], 17, "{cost}");
    assert_eq!(cost["by_model"]["llama3"]["price_source"], Value::Null, "{cost}");
    assert_eq!(cost["by_model"]["nobodys-model"]["cost"], json!(0.0), "{cost}");
    assert_eq!(cost["unpriced_tokens"], json!(26), "{cost}");
}

/// Figures are written every second, and what the store holds back is out within another half.
#[test]
fn a_kill_costs_no_more_than_is_said() {
    const BOUND: Duration = Duration::from_millis(1_500);
    /// What the machine may be late.
    const SLACK: Duration = Duration::from_millis(1_000);
    let upstream = Upstream::answering("application/json", ANSWER);
    let mut gateway = Gateway::in_front_of(upstream.address, POLICY);
    let mut answered = Vec::new();
    let began = Instant::now();
    while began.elapsed() < 2 * (BOUND + SLACK) {
        let answer = exchange(gateway.proxy, &post(CHAT, "", ASK));
        assert_eq!(answer.status, 200);
        answered.push(Instant::now());
    }
    let killed = Instant::now();
    gateway.crash_and_restart();
    let safe = answered.iter().filter(|at| **at + BOUND + SLACK < killed).count() as u64;
    let usage = counted(&gateway, safe);
    let known = usage["request_count"].as_u64().expect("a number");
    assert!((safe..=answered.len() as u64).contains(&known) && safe > 0, "{safe} {known} {}", answered.len());
    assert_eq!(usage["total_tokens"], json!(100 * known));
    // What is counted from now on is added to it.
    exchange(gateway.proxy, &post(CHAT, "", ASK));
    assert_eq!(counted(&gateway, known + 1)["total_tokens"], json!(100 * (known + 1)));
}

/// A name that held a key was masked to the caller, and kept and shown as that of a model.
#[test]
fn what_is_found_in_the_name_of_a_model_is_not_kept() {
    let name = ["AKIA", "QX7MZ3RTNV5WKP2D"].concat();
    let answer = ANSWER.replace("gpt-4o-mini-2024-07-18", &name);
    let upstream = Upstream::answering("application/json", &answer);
    let gateway = Gateway::start(&format!(
        "[[routes]]\nname = \"all\"\nupstream = \"http://{}\"\n{UNLIMITED}\
         [policies.default]\n[policies.default.categories.secrets]\nmode = \"redact\"\n",
        upstream.address
    ));
    let answer = exchange(gateway.proxy, &post(CHAT, "", ASK)).text();
    assert!(answer.contains("[REDACTED:") && !answer.contains(&name), "{answer}");
    let usage = counted(&gateway, 1);
    assert_eq!(usage["total_tokens"], 100, "{usage}");
    assert!(!usage.to_string().contains(&name), "{usage}");
    // What has a price is the name of a model, whatever else was found.
    let asked = ASK.replace("four words", &name);
    let upstream = Upstream::answering("application/json", ANSWER);
    let gateway = Gateway::start(&format!(
        "[[routes]]\nname = \"all\"\nupstream = \"http://{}\"\n{UNLIMITED}\
         [policies.default]\n[policies.default.categories.secrets]\nmode = \"redact\"\n",
        upstream.address
    ));
    assert_eq!(exchange(gateway.proxy, &post(CHAT, "", &asked)).status, 200);
    let usage = counted(&gateway, 1);
    assert_eq!(usage["by_model"]["gpt-4o-mini-2024-07-18"]["total_tokens"], 100, "{usage}");
}

#[test]
fn what_is_found_in_the_name_of_a_model_in_a_path_is_not_kept() {
    let name = ["AKIA", "QX7MZ3RTNV5WKP2D"].concat();
    let upstream = Upstream::answering("application/json", r#"{"candidates":[]}"#);
    let gateway = Gateway::start(&format!(
        "[[routes]]\nname = \"all\"\nupstream = \"http://{}\"\n{UNLIMITED}",
        upstream.address
    ));
    let ask = r#"{"contents":[{"parts":[{"text":"four words of text"}]}]}"#;
    for (name, kept) in [(name.as_str(), "redacted"), ("nobodys-model", "nobodys-model")] {
        exchange(gateway.proxy, &post(&format!("/v1beta/models/{name}:generateContent"), "", ask));
        let usage = counted(&gateway, if kept == name { 2 } else { 1 });
        assert_eq!(usage["by_model"][kept]["request_count"], 1, "{usage}");
        assert!(kept == name || !usage.to_string().contains(name), "{usage}");
    }
}
