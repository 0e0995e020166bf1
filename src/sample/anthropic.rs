//! Anthropic's messages.

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

/// `POST /v1/messages`.
pub(super) async fn messages(headers: HeaderMap, body: Bytes) -> Response {
    let reply = wire::read(&body).and_then(|request| {
        let ask = ask(&request)?;
        Ok(reply(&headers, &body, &request, &ask))
    });
    signed(reply.unwrap_or_else(|fault| unreadable(&fault)), &body)
}

/// `POST /v1/messages/count_tokens`.
pub(super) async fn count_tokens(body: Bytes) -> Response {
    let reply = wire::read(&body).and_then(|request| {
        let ask = ask(&request)?;
        Ok(wire::whole(StatusCode::OK, &json!({"input_tokens": tokens(&ask.text)})))
    });
    signed(reply.unwrap_or_else(|fault| unreadable(&fault)), &body)
}

fn ask(request: &Value) -> Result<Ask, Unreadable> {
    let turns = wire::array(request, "messages")?;
    let last = turns.last().and_then(|turn| turn.get("content")).and_then(Value::as_array);
    let result = last.into_iter().flatten().find(|part| wire::string(part, "type") == "tool_result");
    let choice = wire::string(request.get("tool_choice").unwrap_or(&Value::Null), "type");
    Ok(Ask {
        text: wire::last_user(turns, "content").map(wire::text_of).unwrap_or_default(),
        tools: wire::tools(request.get("tools"), "custom", &["input_schema"]),
        tool_forced: matches!(choice, "any" | "tool"),
        tool_result: result.map(|part| wire::text_of(&part["content"])),
    })
}

/// The one content block of an answer.
enum Block {
    Text(String),
    ToolUse { id: String, name: String, input: Value },
}

impl Block {
    fn stop_reason(&self) -> &'static str {
        match self {
            Self::Text(_) => "end_turn",
            Self::ToolUse { .. } => "tool_use",
        }
    }

    fn whole(&self) -> Value {
        match self {
            Self::Text(text) => json!({"type": "text", "text": text}),
            Self::ToolUse { id, name, input } => {
                json!({"type": "tool_use", "id": id, "name": name, "input": input})
            }
        }
    }

    /// Returns the block as `content_block_start` shows it.
    fn empty(&self) -> Value {
        match self {
            Self::Text(_) => json!({"type": "text", "text": ""}),
            Self::ToolUse { id, name, .. } => {
                json!({"type": "tool_use", "id": id, "name": name, "input": {}})
            }
        }
    }

    fn deltas(self) -> Box<dyn Iterator<Item = Value> + Send> {
        match self {
            Self::Text(text) => {
                Box::new(pieces(text).map(|piece| json!({"type": "text_delta", "text": piece})))
            }
            Self::ToolUse { input, .. } => {
                let written = pieces(input.to_string());
                Box::new(written.map(|piece| json!({"type": "input_json_delta", "partial_json": piece})))
            }
        }
    }
}

fn reply(headers: &HeaderMap, body: &[u8], request: &Value, ask: &Ask) -> Response {
    let answer = answer(ask);
    let print = wire::fingerprint(body);
    let (asked, spent) = (tokens(&ask.text), openai::answer_tokens(&answer));
    let block = match answer {
        Answer::Text(text) => Block::Text(text),
        Answer::Call { name, arguments } => {
            Block::ToolUse { id: format!("toolu_{print}"), name, input: arguments }
        }
        Answer::Failure(status) => return failure(status, "the prompt asked for this failure", &print),
    };
    let model = wire::string(request, "model");
    let mut message = json!({"id": format!("msg_{print}"), "type": "message", "role": "assistant", "model": model,
        "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": asked, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
            "output_tokens": 1}});
    if wire::flag(request, "stream") {
        return wire::streamed(wire::SSE, wire::pace(headers, model), frames(&message, block, spent));
    }
    message["content"] = json!([block.whole()]);
    message["stop_reason"] = json!(block.stop_reason());
    message["usage"]["output_tokens"] = json!(spent);
    wire::whole(StatusCode::OK, &message)
}

fn frames(message: &Value, block: Block, spent: u64) -> Frames {
    let opening = [
        json!({"type": "message_start", "message": message}),
        json!({"type": "content_block_start", "index": 0, "content_block": block.empty()}),
        json!({"type": "ping"}),
    ];
    let ending = [
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "usage": {"output_tokens": spent},
            "delta": {"stop_reason": block.stop_reason(), "stop_sequence": null}}),
        json!({"type": "message_stop"}),
    ];
    let spoken =
        block.deltas().map(|delta| json!({"type": "content_block_delta", "index": 0, "delta": delta}));
    let events = opening.into_iter().chain(spoken).chain(ending);
    Box::new(events.map(|event| wire::named(wire::string(&event, "type"), &event)))
}

fn failure(status: StatusCode, message: &str, print: &str) -> Response {
    let kind = match status.as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    let body = json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": format!("req_{print}")});
    wire::whole(status, &body)
}

fn unreadable(fault: &Unreadable) -> Response {
    failure(StatusCode::BAD_REQUEST, &fault.to_string(), "unreadable")
}

fn signed(response: Response, body: &[u8]) -> Response {
    wire::with_headers(
        response,
        &[
            ("request-id", &format!("req_{}", wire::fingerprint(body))),
            ("anthropic-organization-id", "sample"),
            ("anthropic-ratelimit-requests-limit", "4000"),
            ("anthropic-ratelimit-requests-remaining", "3999"),
            ("anthropic-ratelimit-requests-reset", "2026-01-01T00:00:00Z"),
        ],
    )
}
