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

fn reply(headers: &HeaderMap, body: &[u8], request: &Value, ask: &Ask) -> Response {
    let answer = answer(ask);
    if let Answer::Failure(status) = answer {
        return failure(status, "the prompt asked for this failure", &wire::fingerprint(body));
    }
    let model = wire::string(request, "model");
    let print = wire::fingerprint(body);
    let (asked, spent) = (tokens(&ask.text), openai::answer_tokens(&answer));
    let mut message = json!({"id": format!("msg_{print}"), "type": "message", "role": "assistant", "model": model,
        "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": asked, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
            "output_tokens": spent}});
    let (stop, block, streamed_block, text, is_call) = match answer {
        Answer::Text(text) => (
            "end_turn",
            json!({"type": "text", "text": text}),
            json!({"type": "text", "text": ""}),
            text,
            false,
        ),
        Answer::Call { name, arguments } => {
            let call = |input: Value| json!({"type": "tool_use", "id": format!("toolu_{print}"), "name": name, "input": input});
            ("tool_use", call(arguments.clone()), call(json!({})), arguments.to_string(), true)
        }
        Answer::Failure(_) => ("end_turn", Value::Null, Value::Null, String::new(), false),
    };
    if wire::flag(request, "stream") {
        message["usage"]["output_tokens"] = json!(1);
        let closing = json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null},
            "usage": {"output_tokens": spent}});
        let frames = frames(message, streamed_block, text, is_call, closing);
        return wire::streamed(wire::SSE, wire::pace(headers, model), frames);
    }
    message["content"] = json!([block]);
    message["stop_reason"] = json!(stop);
    wire::whole(StatusCode::OK, &message)
}

fn frames(message: Value, block: Value, text: String, is_call: bool, closing: Value) -> Frames {
    let event = |value: &Value| wire::named(wire::string(value, "type"), value);
    let opening = [
        json!({"type": "message_start", "message": message}),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        json!({"type": "ping"}),
    ];
    let spoken = pieces(text).map(move |piece| {
        let delta = if is_call {
            json!({"type": "input_json_delta", "partial_json": piece})
        } else {
            json!({"type": "text_delta", "text": piece})
        };
        json!({"type": "content_block_delta", "index": 0, "delta": delta})
    });
    let ending =
        [json!({"type": "content_block_stop", "index": 0}), closing, json!({"type": "message_stop"})];
    Box::new(opening.into_iter().chain(spoken).chain(ending).map(move |value| event(&value)))
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
