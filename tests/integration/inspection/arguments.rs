//! What a model gives to tools: JSON within a string, and JSON of its own.

use portcullis::llm::stream::StreamFormat;
use portcullis::policy::decision::Action;
use serde_json::Value;
use serde_json::json;

use super::Bench;
use super::Case;
use super::End;
use super::policy_of_all;
use super::valid;

/// Masks everything.
fn bench() -> Bench {
    Bench::new(&policy_of_all("mask", "redact", ""))
}

/// Returns what of a stream of OpenAI's is arguments.
fn arguments_of(out: &[u8]) -> String {
    let out = std::str::from_utf8(out).expect("UTF-8");
    let events = out.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    let pieces = events.map(|data| {
        let event: Value = serde_json::from_str(data).expect("JSON");
        let piece = &event["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"];
        piece.as_str().unwrap_or_default().to_owned()
    });
    pieces.collect()
}

fn event(delta: &Value, reason: Option<&str>) -> String {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": reason });
    format!("data: {}\n\n", json!({ "object": "chat.completion.chunk", "choices": [choice] }))
}

fn call(arguments: &str) -> Value {
    json!({ "tool_calls": [{ "index": 0, "function": { "name": "pay", "arguments": arguments } }] })
}

#[test]
fn masked_arguments_are_still_json_streamed_or_not() {
    let bench = bench();
    let card = valid(&bench, "payment_card_bare", 1);
    let arguments = format!(
        r#"{{"note":"for\nann.lee@example.org\u0021","card number":{card},"cards":[{card},7],"n":1.50}}"#
    );
    let check = |masked: &str, how: &str| {
        let parsed: Value = serde_json::from_str(masked).unwrap_or_else(|_| panic!("{how}: {masked}"));
        let note = parsed["note"].as_str().unwrap();
        assert!(
            note.starts_with("for\n") && note.ends_with('!') && !note.contains("ann.lee"),
            "{how}: {note}"
        );
        assert!(parsed["card number"].is_string() && parsed["cards"][0].is_string(), "{how}: {masked}");
        assert_eq!((&parsed["cards"][1], &parsed["n"]), (&json!(7), &json!(1.5)));
        assert!(!masked.contains(&card) && masked.ends_with(r#","n":1.50}"#), "{how}: {masked}");
    };
    let case = Case::response("mask", "openai");
    let message = json!({ "role": "assistant", "tool_calls": [{ "id": "c", "type": "function",
        "function": { "name": "pay", "arguments": arguments } }] });
    let body = json!({ "object": "chat.completion", "choices": [{ "index": 0, "message": message }] });
    let whole = bench.whole(case, &mut bench.vault(), body.to_string().as_bytes());
    let out: Value = serde_json::from_slice(&whole.cleared.unwrap().into_bytes()).unwrap();
    check(out["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"].as_str().unwrap(), "whole");
    for step in [1, 2, 3, 5, 16, 1000] {
        let letters: Vec<char> = arguments.chars().collect();
        let pieces = letters.chunks(step).map(|piece| event(&call(&String::from_iter(piece)), None));
        let stream = pieces.collect::<String>() + &event(&json!({}), Some("tool_calls")) + "data: [DONE]\n\n";
        let streamed = bench.stream(case, StreamFormat::Sse, &mut bench.vault(), [stream.as_bytes()]);
        assert_eq!((streamed.end, streamed.action), (End::Finished, Action::Redact));
        check(&arguments_of(&streamed.out), &format!("in pieces of {step}"));
    }
}

#[test]
fn values_of_tools_are_read_under_their_names_and_numbers_are_read() {
    let bench = bench();
    let card = valid(&bench, "payment_card_bare", 1);
    let number: u64 = card.parse().unwrap();
    let input =
        json!({ "card": number, "to": { "credit cards": [card, number] }, "at": 1_732_190_400_123_u64 });
    let anthropic = json!({ "model": "m", "max_tokens": 9, "messages": [{ "role": "assistant",
        "content": [{ "type": "tool_use", "id": "t", "name": "pay", "input": input }] }] });
    let gemini = json!({ "candidates": [{ "index": 0, "content": { "role": "model",
        "parts": [{ "functionCall": { "name": "pay", "args": input } }] } }] });
    let ollama = json!({ "model": "m", "created_at": "now", "done": false, "message": { "role": "assistant",
        "content": "", "tool_calls": [{ "function": { "name": "pay", "arguments": input } }] } });
    let mcp = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "pay", "arguments": input } });
    for (case, body, path) in [
        (Case::request("mask", "anthropic"), anthropic, "/messages/0/content/0/input"),
        (Case::response("mask", "gemini"), gemini, "/candidates/0/content/parts/0/functionCall/args"),
        (Case::response("mask", "ollama"), ollama, "/message/tool_calls/0/function/arguments"),
        (Case::request("mask", "mcp"), mcp, "/params/arguments"),
    ] {
        let check = |out: &[u8], how: &str| {
            let out: Value = serde_json::from_slice(out).unwrap();
            let masked = out.pointer(path).unwrap();
            assert!(!masked.to_string().contains(&card), "{} {how}: {masked}", case.dialect);
            assert!(masked["card"].is_string() && masked["to"]["credit cards"][1].is_string(), "{masked}");
            assert_eq!(masked["at"], 1_732_190_400_123_u64);
        };
        let text = body.to_string();
        let whole = bench.whole(case, &mut bench.vault(), text.as_bytes());
        check(&whole.cleared.unwrap().into_bytes(), "whole");
        let (format, stream) = match case.dialect {
            "ollama" => (StreamFormat::Ndjson, text + "\n"),
            "gemini" => (StreamFormat::Sse, format!("data: {text}\n\n")),
            _ => continue,
        };
        let streamed = bench.stream(case, format, &mut bench.vault(), [stream.as_bytes()]);
        assert_eq!(streamed.end, End::Finished);
        let event = streamed.out.strip_prefix(b"data: ").unwrap_or(&streamed.out);
        check(event.trim_ascii(), "streamed");
    }
}

#[test]
fn what_tools_are_usually_given_goes_untouched() {
    let bench = Bench::new("");
    let input = json!({ "id": 739_201_845_u64, "issue": 1_000_234_567_u64, "since": 1_732_190_400_123_u64,
        "rows": [123_456_789, 987_654_321_012_u64], "path": "src/main.rs", "line": 12, "q": "a \"b\"\\n",
        "run": "cargo test -- --nocapture", "score": 0.123456789012, "offset": -123_456_789_012_i64 });
    let body = json!({ "model": "m", "max_tokens": 9, "messages": [{ "role": "assistant",
        "content": [{ "type": "tool_use", "id": "t", "name": "read", "input": input }] },
        { "role": "assistant", "content": [{ "type": "text", "text": input.to_string() }] }] });
    let case = Case::request("default", "anthropic");
    let inspection = bench.whole(case, &mut bench.vault(), body.to_string().as_bytes());
    assert_eq!(inspection.action, Action::Allow, "{:?}", bench.seen(inspection.observations));
    assert_eq!(inspection.cleared.unwrap().into_bytes(), body.to_string());
}
