//! How an answer is put on the wire: whole, or as events with pauses between them.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::http::HeaderName;
use axum::http::HeaderValue;
use axum::http::StatusCode;
use axum::http::header;
use axum::response::IntoResponse;
use axum::response::Response;
use futures_util::stream;
use serde_json::Value;

use super::answer::Ask;
use super::answer::Tool;

/// Name of the request header that asks for a pause before each event, in milliseconds.
const DELAY_HEADER: &str = "x-sample-delay-ms";
/// Longest pause that can be asked for.
const DELAY_MAX: Duration = Duration::from_secs(10);
/// Models whose name ends so answer at a reader's pace.
const SLOW_SUFFIX: &str = "-slow";
const SLOW_DELAY: Duration = Duration::from_millis(40);

pub(super) const SSE: HeaderValue = HeaderValue::from_static("text/event-stream; charset=utf-8");
pub(super) const NDJSON: HeaderValue = HeaderValue::from_static("application/x-ndjson");
pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=UTF-8");

/// The events of a streamed answer, made one at a time as they are sent.
pub(super) type Frames = Box<dyn Iterator<Item = Bytes> + Send>;

/// A request body is not what the dialect asks for.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    /// It is not JSON.
    #[error("the body is not valid JSON")]
    Json(#[source] serde_json::Error),
    /// A member that the dialect cannot do without is missing or of the wrong type.
    #[error("`{0}` is missing or of the wrong type")]
    Member(&'static str),
}

/// Returns the pause before each event that a request asks for.
pub(super) fn pace(headers: &HeaderMap, model: &str) -> Duration {
    let asked = headers.get(DELAY_HEADER).and_then(|value| value.to_str().ok()?.parse().ok());
    let usual = if model.ends_with(SLOW_SUFFIX) { SLOW_DELAY } else { Duration::ZERO };
    asked.map_or(usual, Duration::from_millis).min(DELAY_MAX)
}

/// Returns a complete JSON answer.
pub(super) fn whole(status: StatusCode, body: &Value) -> Response {
    let content_type = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    (status, content_type, body.to_string()).into_response()
}

/// Returns an answer whose frames are sent one after the other, each after a pause.
pub(super) fn streamed(content_type: HeaderValue, pause: Duration, frames: Frames) -> Response {
    let body = stream::unfold(frames, move |mut frames| async move {
        let frame = frames.next()?;
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        Some((Ok::<_, Infallible>(frame), frames))
    });
    let headers =
        [(header::CONTENT_TYPE, content_type), (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))];
    (headers, Body::from_stream(body)).into_response()
}

/// Adds headers that the real providers send with each answer.
pub(super) fn with_headers(mut response: Response, headers: &[(&'static str, &str)]) -> Response {
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    response
}

/// Writes an SSE event without a name, as OpenAI and Gemini do.
pub(super) fn data(value: &Value) -> Bytes {
    Bytes::from(format!("data: {value}\n\n"))
}

/// Writes an SSE event with a name, as Anthropic and OpenAI's responses do.
pub(super) fn named(event: &str, value: &Value) -> Bytes {
    Bytes::from(format!("event: {event}\ndata: {value}\n\n"))
}

/// Reads a request body.
pub(super) fn read(body: &[u8]) -> Result<Value, Unreadable> {
    serde_json::from_slice(body).map_err(Unreadable::Json)
}

/// Returns a member that must be an array, as `messages` must.
pub(super) fn array<'a>(body: &'a Value, member: &'static str) -> Result<&'a [Value], Unreadable> {
    body.get(member).and_then(Value::as_array).map(Vec::as_slice).ok_or(Unreadable::Member(member))
}

/// Returns a member that is a string, or nothing at all.
pub(super) fn string<'a>(body: &'a Value, member: &str) -> &'a str {
    body.get(member).and_then(Value::as_str).unwrap_or_default()
}

/// Returns whether a member is `true`.
pub(super) fn flag(body: &Value, member: &str) -> bool {
    body.get(member).and_then(Value::as_bool).unwrap_or(false)
}

/// Returns the text of a content: a string, a part with `text` or `content`, or a list of such.
pub(super) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().map(text_of).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
        }
        Value::Object(part) => {
            part.get("text").or_else(|| part.get("content")).map(text_of).unwrap_or_default()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

/// Returns the content of the last turn whose `role` is `user`, or that has no role.
pub(super) fn last_user<'a>(turns: &'a [Value], content: &str) -> Option<&'a Value> {
    let of_user = |turn: &&Value| matches!(string(turn, "role"), "user" | "");
    turns.iter().rev().find(of_user).and_then(|turn| turn.get(content))
}

/// Reads OpenAI's and Ollama's `messages` and `tools`.
pub(super) fn ask_in_messages(body: &Value) -> Result<Ask, Unreadable> {
    let messages = array(body, "messages")?;
    let result = messages.last().filter(|last| string(last, "role") == "tool");
    let choice = body.get("tool_choice");
    Ok(Ask {
        text: last_user(messages, "content").map(text_of).unwrap_or_default(),
        tools: tools(body.get("tools"), "function", &["parameters"]),
        tool_forced: choice.is_some_and(|choice| choice == "required" || choice.is_object()),
        tool_result: result.map(|turn| text_of(&turn["content"])),
    })
}

/// Reads a list of tools whose declaration is in the member `inside` of each, or is the tool
/// itself where there is no such member; its schema is in the first of `schemas` that it has.
pub(super) fn tools(list: Option<&Value>, inside: &str, schemas: &[&str]) -> Vec<Tool> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.map(|tool| {
        let declared = tool.get(inside).unwrap_or(tool);
        let schema = schemas.iter().find_map(|name| declared.get(name));
        Tool { name: string(declared, "name").to_owned(), schema: schema.cloned().unwrap_or(Value::Null) }
    })
    .collect()
}

/// Returns 24 hexadecimal digits that depend on the request alone, for identifiers in answers.
pub(super) fn fingerprint(body: &[u8]) -> String {
    let low = crc32fast::hash(body);
    let middle = crc32fast::hash(&low.to_le_bytes());
    let high = crc32fast::hash(&middle.to_le_bytes());
    format!("{low:08x}{middle:08x}{high:08x}")
}
