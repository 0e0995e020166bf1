//! Ollama's chat and generate, streamed as NDJSON unless the request says otherwise.

use std::iter::once;

use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::Value;
use serde_json::json;

use super::answer::Answer;
use super::answer::Ask;
use super::answer::answer;
use super::answer::pieces;
use super::answer::tokens;
use super::openai;
use super::wire;
use super::wire::Frames;
use super::wire::Unreadable;

/// The moment every answer claims to be made at: answers depend on the request alone.
const CREATED_AT: &str = "2025-10-09T08:53:20.000000Z";

/// Where a piece of the answer stands in a line: `message.content` or `response`.
#[derive(Clone, Copy)]
enum Method {
    Chat,
    Generate,
}

/// `POST /api/chat`.
pub(super) async fn chat(headers: HeaderMap, body: Bytes) -> Response {
    let reply = wire::read(&body).and_then(|request| {
        let ask = wire::ask_in_messages(&request)?;
        Ok(reply(Method::Chat, &headers, &request, &ask))
    });
    reply.unwrap_or_else(|fault| failure(StatusCode::BAD_REQUEST, &fault.to_string()))
}

/// `POST /api/generate`.
pub(super) async fn generate(headers: HeaderMap, body: Bytes) -> Response {
    let reply = wire::read(&body).and_then(|request| {
        let prompt = request.get("prompt").and_then(Value::as_str).ok_or(Unreadable::Member("prompt"))?;
        let ask = Ask { text: prompt.to_owned(), ..Ask::default() };
        Ok(reply(Method::Generate, &headers, &request, &ask))
    });
    reply.unwrap_or_else(|fault| failure(StatusCode::BAD_REQUEST, &fault.to_string()))
}

/// `GET /api/tags`.
pub(super) async fn tags() -> Response {
    let model = json!({"name": "sample:latest", "model": "sample:latest", "modified_at": CREATED_AT,
        "size": 0, "digest": "", "details": {"format": "none", "family": "sample"}});
    wire::whole(StatusCode::OK, &json!({"models": [model]}))
}

/// `GET /api/version`.
pub(super) async fn version() -> Response {
    wire::whole(StatusCode::OK, &json!({"version": "0.12.0"}))
}

impl Method {
    fn line(self, model: &str, text: &str) -> Value {
        match self {
            Self::Chat => json!({"model": model, "created_at": CREATED_AT,
                "message": {"role": "assistant", "content": text}, "done": false}),
            Self::Generate => {
                json!({"model": model, "created_at": CREATED_AT, "response": text, "done": false})
            }
        }
    }
}

fn reply(method: Method, headers: &HeaderMap, request: &Value, ask: &Ask) -> Response {
    let answer = answer(ask);
    let model = wire::string(request, "model").to_owned();
    let spent = openai::answer_tokens(&answer);
    let mut calls = Value::Null;
    let text = match answer {
        Answer::Text(text) => text,
        Answer::Call { name, arguments } => {
            calls = json!([{"function": {"name": name, "arguments": arguments}}]);
            String::new()
        }
        Answer::Failure(status) => return failure(status, "the prompt asked for this failure"),
    };
    let streamed = request.get("stream").and_then(Value::as_bool).unwrap_or(true);
    let pause = wire::pace(headers, &model);
    let mut last = method.line(&model, if streamed { "" } else { &text });
    if !calls.is_null() && !streamed {
        last["message"]["tool_calls"] = calls.clone();
    }
    finish(&mut last, tokens(&ask.text), spent);
    if streamed {
        return wire::streamed(wire::NDJSON, pause, frames(method, model, text, calls, last));
    }
    wire::whole(StatusCode::OK, &last)
}

fn frames(method: Method, model: String, text: String, calls: Value, last: Value) -> Frames {
    let line = |value: &Value| Bytes::from(format!("{value}\n"));
    // Ollama sends a call in one piece.
    let called = (!calls.is_null()).then(|| {
        let mut value = method.line(&model, "");
        value["message"]["tool_calls"] = calls;
        value
    });
    let spoken = pieces(text).map(move |piece| method.line(&model, &piece));
    Box::new(called.into_iter().chain(spoken).chain(once(last)).map(move |value| line(&value)))
}

/// Makes a line the last one: it says why the answer ended and what it cost, in nanoseconds.
fn finish(line: &mut Value, asked: u64, spent: u64) {
    line["done"] = json!(true);
    line["done_reason"] = json!("stop");
    line["total_duration"] = json!(12_000_000);
    line["load_duration"] = json!(1_000_000);
    line["prompt_eval_count"] = json!(asked);
    line["prompt_eval_duration"] = json!(1_000_000);
    line["eval_count"] = json!(spent);
    line["eval_duration"] = json!(10_000_000);
}

fn failure(status: StatusCode, message: &str) -> Response {
    wire::whole(status, &json!({"error": message}))
}
