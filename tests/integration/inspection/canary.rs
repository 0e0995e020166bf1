//! A canary at every string of a body, key or value, is found; what is not touched stays as it was.

use portcullis::policy::decision::Action;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use super::Bench;
use super::Case;
use super::github_token;
use super::policy_of_all;

const MARK: &str = "THE-CANARY";

/// Requests and answers of every dialect, with all the places that hold text.
fn bodies() -> Vec<(&'static str, Value)> {
    let tool = json!({ "type": "function", "function": { "name": "f", "description": "d",
        "parameters": { "type": "object", "properties": { "p": { "type": "string", "enum": ["e"], "description": "x" } } } } });
    vec![
        (
            "openai",
            json!({ "model": "m", "stop": ["s"], "user": "u", "metadata": { "k": "v" }, "tools": [tool],
            "response_format": { "type": "json_schema", "json_schema": { "name": "n", "schema": { "title": "t" } } },
            "messages": [
                { "role": "system", "content": "c" }, { "role": "developer", "content": [{ "type": "text", "text": "t" }] },
                { "role": "user", "name": "n", "content": [{ "type": "image_url", "image_url": { "url": "u", "detail": "d" } },
                    { "type": "file", "file": { "filename": "f", "file_data": "d" } }, { "type": "input_audio", "input_audio": { "data": "d" } }] },
                { "role": "assistant", "content": null, "refusal": "r", "reasoning_content": "r",
                  "tool_calls": [{ "id": "i", "type": "function", "function": { "name": "n", "arguments": "a" } }] },
                { "role": "tool", "tool_call_id": "i", "content": "c" } ] }),
        ),
        (
            "openai",
            json!({ "model": "m", "instructions": "i", "previous_response_id": "p", "include": ["i"],
            "input": [{ "role": "user", "content": [{ "type": "input_text", "text": "t" }, { "type": "input_file", "filename": "f", "file_data": "d" }] },
                { "type": "function_call", "call_id": "c", "name": "n", "arguments": "a" },
                { "type": "function_call_output", "call_id": "c", "output": "o" },
                { "type": "reasoning", "summary": [{ "type": "summary_text", "text": "t" }], "encrypted_content": "e" }] }),
        ),
        ("openai", json!({ "model": "m", "prompt": ["p"], "suffix": "s" })),
        ("openai", json!({ "model": "m", "input": ["i", "j"], "encoding_format": "float" })),
        (
            "openai",
            json!({ "id": "i", "object": "chat.completion", "model": "m", "system_fingerprint": "f", "choices": [{ "index": 0,
            "message": { "role": "assistant", "content": "c", "refusal": "r", "reasoning_content": "r", "annotations": [{ "url_citation": { "url": "u", "title": "t" } }],
                "tool_calls": [{ "id": "i", "function": { "name": "n", "arguments": "a" } }] },
            "logprobs": { "content": [{ "token": "t", "top_logprobs": [{ "token": "t" }] }] }, "finish_reason": "stop" }] }),
        ),
        (
            "openai",
            json!({ "id": "i", "object": "response", "status": "completed", "error": { "message": "m" }, "output": [
            { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "t", "annotations": [{ "title": "t" }] }, { "type": "refusal", "refusal": "r" }] },
            { "type": "function_call", "name": "n", "arguments": "a" }, { "type": "reasoning", "summary": [{ "text": "t" }] }] }),
        ),
        (
            "anthropic",
            json!({ "model": "m", "max_tokens": 1, "system": [{ "type": "text", "text": "t" }], "metadata": { "user_id": "u" },
            "stop_sequences": ["s"], "tools": [{ "name": "n", "description": "d", "input_schema": { "properties": { "p": { "description": "d" } } } }],
            "messages": [{ "role": "user", "content": "c" },
                { "role": "user", "content": [{ "type": "text", "text": "t", "citations": [{ "cited_text": "c" }] },
                    { "type": "document", "title": "t", "context": "c", "source": { "type": "text", "media_type": "text/plain", "data": "d" } },
                    { "type": "image", "source": { "type": "base64", "data": "d" } },
                    { "type": "tool_result", "tool_use_id": "i", "content": [{ "type": "text", "text": "t" }] }] },
                { "role": "assistant", "content": [{ "type": "thinking", "thinking": "t", "signature": "s" }, { "type": "redacted_thinking", "data": "d" },
                    { "type": "tool_use", "id": "i", "name": "n", "input": { "k": ["v", { "k": "v" }] } }] }] }),
        ),
        (
            "anthropic",
            json!({ "id": "i", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn", "stop_sequence": "s",
            "content": [{ "type": "text", "text": "t" }, { "type": "thinking", "thinking": "t", "signature": "s" }, { "type": "tool_use", "id": "i", "name": "n", "input": { "k": "v" } }] }),
        ),
        (
            "gemini",
            json!({ "systemInstruction": { "parts": [{ "text": "t" }] }, "cachedContent": "c",
            "generationConfig": { "stopSequences": ["s"], "responseSchema": { "description": "d" } }, "labels": { "k": "v" },
            "tools": [{ "functionDeclarations": [{ "name": "n", "description": "d", "parameters": { "properties": { "p": { "description": "d" } } } }] }],
            "contents": [{ "role": "user", "parts": [{ "text": "t" }, { "inlineData": { "mimeType": "m", "data": "d" } }, { "fileData": { "fileUri": "u" } }] },
                { "role": "model", "parts": [{ "functionCall": { "name": "n", "args": { "k": "v" } } }, { "executableCode": { "language": "l", "code": "c" } }, { "thought": true, "text": "t", "thoughtSignature": "s" }] },
                { "role": "user", "parts": [{ "functionResponse": { "name": "n", "response": { "k": "v" } } }, { "codeExecutionResult": { "outcome": "o", "output": "o" } }] }] }),
        ),
        (
            "gemini",
            json!({ "modelVersion": "m", "responseId": "r", "promptFeedback": { "blockReason": "b" }, "candidates": [{ "index": 0, "finishReason": "STOP",
            "content": { "role": "model", "parts": [{ "text": "t" }, { "functionCall": { "name": "n", "args": { "k": "v" } } }] },
            "groundingMetadata": { "webSearchQueries": ["q"], "groundingChunks": [{ "web": { "uri": "u", "title": "t" } }] } }] }),
        ),
        (
            "ollama",
            json!({ "model": "m", "format": { "type": "object" }, "options": { "stop": ["s"] }, "keep_alive": "5m", "messages": [
            { "role": "system", "content": "c" }, { "role": "user", "content": "c", "images": ["i"] },
            { "role": "assistant", "content": "c", "thinking": "t", "tool_calls": [{ "function": { "name": "n", "arguments": { "k": "v" } } }] },
            { "role": "tool", "tool_name": "n", "content": "c" }], "tools": [{ "function": { "description": "d" } }] }),
        ),
        (
            "ollama",
            json!({ "model": "m", "prompt": "p", "suffix": "s", "system": "s", "template": "t", "images": ["i"] }),
        ),
        (
            "ollama",
            json!({ "model": "m", "created_at": "c", "done_reason": "stop", "done": true, "response": "r", "thinking": "t",
            "message": { "role": "assistant", "content": "c", "tool_calls": [{ "function": { "name": "n", "arguments": { "k": "v" } } }] } }),
        ),
        ("generic", json!({ "a": ["b", { "c": { "d": "e" } }], "unknown": { "deep": [[["x"]]] } })),
    ]
}

/// Returns the body with the mark in its `wanted`-th string, keys counted too; none past the last.
fn marked(body: &Value, wanted: usize) -> Option<Value> {
    fn place(value: &Value, left: &mut usize, done: &mut bool) -> Value {
        let mut hit = || {
            let is_it = *left == 0 && !*done;
            *done |= is_it;
            *left = left.saturating_sub(1);
            is_it
        };
        match value {
            Value::String(text) => {
                if hit() {
                    Value::String(format!("a {MARK} b"))
                } else {
                    Value::String(text.clone())
                }
            }
            Value::Array(all) => Value::Array(all.iter().map(|it| place(it, left, done)).collect()),
            Value::Object(all) => {
                let mut changed = Map::new();
                for (key, it) in all {
                    let mut hit = || {
                        let is_it = *left == 0 && !*done;
                        *done |= is_it;
                        *left = left.saturating_sub(1);
                        is_it
                    };
                    let key = if hit() { format!("a {MARK} b") } else { key.clone() };
                    let it = place(it, left, done);
                    changed.insert(key, it);
                }
                Value::Object(changed)
            }
            other => other.clone(),
        }
    }
    let (mut left, mut done) = (wanted, false);
    let changed = place(body, &mut left, &mut done);
    done.then_some(changed)
}

/// Tells whether two bodies are the same to the byte, or, where they hold `logprobs`, the same but for these: a body in
/// which something was masked has none.
fn is_same(left: &str, expected: &str) -> bool {
    fn emptied(body: &str) -> Value {
        fn empty(value: &mut Value) {
            match value {
                Value::Object(all) => all.iter_mut().for_each(|(key, it)| match key.as_str() {
                    "logprobs" | "logprobsResult" => *it = Value::Null,
                    _ => empty(it),
                }),
                Value::Array(all) => all.iter_mut().for_each(empty),
                _ => {}
            }
        }
        let mut body = serde_json::from_str(body).expect("JSON");
        empty(&mut body);
        body
    }
    left == expected || (expected.contains("\"logprobs") && emptied(left) == emptied(expected))
}

#[test]
fn a_canary_at_every_string_of_every_dialect_is_found() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let token = github_token(&bench);
    let escaped: String = token.chars().map(|c| format!("\\u{:04x}", c as u32)).collect();
    let (mut places, mut missed) = (0, Vec::new());
    for (dialect, body) in bodies() {
        let mut wanted = 0;
        while let Some(body) = marked(&body, wanted) {
            let text = body.to_string();
            for case in [Case::request("all", dialect), Case::response("all", dialect)] {
                // Written plainly where the place is even, in escapes where it is odd, and the other way round in answers.
                let plain =
                    (wanted % 2 == 0) == (case.direction == portcullis::policy::decision::Direction::Request);
                let sent = text.replace(MARK, if plain { &token } else { &escaped });
                let result = bench.whole(case, &mut bench.vault(), sent.as_bytes());
                let left =
                    result.cleared.map(|it| String::from_utf8(it.into_bytes().to_vec()).expect("UTF-8"));
                let expected = text.replace(MARK, "[REDACTED:github_token]");
                let is_as_expected = left.as_deref().is_some_and(|left| is_same(left, &expected));
                if result.action != Action::Redact || !is_as_expected {
                    missed.push(format!("{dialect} {:?}: {sent}\n  {left:?}", case.direction));
                }
                places += 1;
            }
            wanted += 1;
        }
    }
    assert!(missed.is_empty(), "{} of {places}:\n{}", missed.len(), missed.join("\n"));
    assert!(places > 800, "only {places} places");
}

#[test]
fn disguises_are_seen_through_in_every_dialect() {
    use base64::Engine as _;
    let bench = Bench::new(&policy_of_all("all", "block", ""));
    let token = github_token(&bench);
    let document = format!("Minutes of the meeting.\nThe key is {token}, keep it.\n");
    let base64 = base64::engine::general_purpose::STANDARD.encode(&document);
    let hex: String = document.bytes().map(|byte| format!("{byte:02x}")).collect();
    let percent: String = token.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let entities: String = token.chars().map(|c| format!("&#{};", c as u32)).collect();
    let invisible: String = token.chars().flat_map(|c| [c, '\u{200b}']).collect();
    let wide: String =
        token.chars().map(|c| char::from_u32(c as u32 + 0xfee0).filter(|_| c != '_').unwrap_or(c)).collect();
    let nested =
        serde_json::to_string(&json!({ "arguments": format!("{{\"k\":\"{token}\"}}") })).expect("JSON");
    let data_url = format!("data:text/plain;base64,{base64}");
    let (head, tail) = token.split_at(9);
    let coloured = format!("key=\x1b[1;32m{head}\x1b[0m\x1b[93m{tail}\x1b[0m");
    let written = format!("echo \\033[32m{token}\\e[0m");
    for disguise in [base64, data_url, hex, percent, entities, invisible, wide, nested, coloured, written] {
        for (dialect, body) in bodies() {
            let body = marked(&body, 1).expect("a string").to_string();
            let quoted = serde_json::to_string(&disguise).expect("text");
            let sent = body.replace(MARK, quoted.trim_matches('"'));
            let result = bench.whole(Case::request("all", dialect), &mut bench.vault(), sent.as_bytes());
            assert_eq!(result.action, Action::Block, "{dialect}: {sent}");
        }
    }
}

#[test]
fn only_the_bytes_of_the_value_change() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let body = format!(
        "{{ \"z\" :1.0,\"n\": 123456789012345678901234567890,\r\n\t\"f\":1e0, \"u\":\"\\u00e9\\/\\ud83d\\ude00 {MARK} \\u0041\", \
         \"messages\":[ {{\"role\":\"user\" , \"content\":\"é😀 \\\"{MARK}\\\" {MARK}\"}} ],\"neg\":-0.0,\"e\":[ ],\"a\":{{ }} }}\n"
    );
    let sent = body.replace(MARK, &github_token(&bench));
    for case in [Case::request("all", "openai"), Case::response("all", "openai")] {
        let result = bench.whole(case, &mut bench.vault(), sent.as_bytes());
        let left = result.cleared.expect("it may leave").into_bytes();
        assert_eq!(std::str::from_utf8(&left), Ok(&*body.replace(MARK, "[REDACTED:github_token]")));
    }
}
