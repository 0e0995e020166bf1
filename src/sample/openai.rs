//! OpenAI's chat completions, completions, embeddings, moderations and models.

use std::iter::once;

use axum::body::Bytes;
use axum::extract::Path;
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
use super::wire;
use super::wire::Frames;
use super::wire::Unreadable;

/// The moment every answer claims to be made at: answers depend on the request alone.
const CREATED: u64 = 1_760_000_000;
/// Most choices that one request gets.
const CHOICES_MAX: u64 = 8;
const EMBEDDING_LENGTH_MAX: u64 = 4096;
const EMBEDDING_LENGTH: u64 = 256;
const DONE: Bytes = Bytes::from_static(b"data: [DONE]\n\n");
const MODELS: [&str; 3] = ["sample", "sample-slow", "gpt-4o-mini"];

/// What all chunks of one answer have in common.
#[derive(Clone)]
struct Head {
    id: String,
    object: &'static str,
    model: String,
}

impl Head {
    fn wrap(&self, choices: Value) -> Value {
        json!({"id": self.id, "object": self.object, "created": CREATED, "model": self.model,
            "system_fingerprint": "fp_sample", "choices": choices})
    }
}

/// `POST /v1/chat/completions`.
pub(super) async fn chat(headers: HeaderMap, body: Bytes) -> Response {
    let reply = wire::read(&body).and_then(|request| {
        let ask = wire::ask_in_messages(&request)?;
        Ok(chat_reply(&headers, &body, &request, &ask))
    });
    signed(reply.unwrap_or_else(|fault| unreadable(&fault)), &body)
}

fn chat_reply(headers: &HeaderMap, body: &[u8], request: &Value, ask: &Ask) -> Response {
    let answer = answer(ask);
    if let Answer::Failure(status) = answer {
        return failure(status, "the prompt asked for this failure");
    }
    let streamed = wire::flag(request, "stream");
    let model = wire::string(request, "model").to_owned();
    let pause = wire::pace(headers, &model);
    let object = if streamed { "chat.completion.chunk" } else { "chat.completion" };
    let head = Head { id: format!("chatcmpl-{}", wire::fingerprint(body)), object, model };
    let choices = request.get("n").and_then(Value::as_u64).unwrap_or(1).clamp(1, CHOICES_MAX);
    let usage = usage(tokens(&ask.text), choices * answer_tokens(&answer));
    if streamed {
        let options = request.get("stream_options").unwrap_or(&Value::Null);
        let usage = wire::flag(options, "include_usage").then_some(usage);
        return wire::streamed(wire::SSE, pause, chat_frames(head, answer, choices, usage));
    }
    let (message, finish) = chat_message(&head, &answer);
    let choices: Vec<Value> = (0..choices)
        .map(|index| json!({"index": index, "message": message, "logprobs": null, "finish_reason": finish}))
        .collect();
    let mut body = head.wrap(Value::Array(choices));
    body["usage"] = usage;
    wire::whole(StatusCode::OK, &body)
}

fn chat_message(head: &Head, answer: &Answer) -> (Value, &'static str) {
    match answer {
        Answer::Text(text) => (json!({"role": "assistant", "content": text, "refusal": null}), "stop"),
        Answer::Call { name, arguments } => {
            let call = json!({"id": call_id(head), "type": "function",
                "function": {"name": name, "arguments": arguments.to_string()}});
            (
                json!({"role": "assistant", "content": null, "refusal": null, "tool_calls": [call]}),
                "tool_calls",
            )
        }
        Answer::Failure(_) => (Value::Null, "stop"),
    }
}

/// Makes the chunks of a chat; with several choices, each piece comes once for each of them.
fn chat_frames(head: Head, answer: Answer, choices: u64, usage: Option<Value>) -> Frames {
    let (opening, closing) = (head.clone(), head.clone());
    let chunk = |head: &Head, index: u64, delta: Value, finish: Value| {
        wire::data(
            &head.wrap(json!([{"index": index, "delta": delta, "logprobs": null, "finish_reason": finish}])),
        )
    };
    let (first, text, is_call) = match answer {
        Answer::Text(text) => (json!({"role": "assistant", "content": "", "refusal": null}), text, false),
        Answer::Call { name, arguments } => {
            let call = json!({"index": 0, "id": call_id(&head), "type": "function",
                "function": {"name": name, "arguments": ""}});
            (json!({"role": "assistant", "content": null, "tool_calls": [call]}), arguments.to_string(), true)
        }
        Answer::Failure(_) => (Value::Null, String::new(), false),
    };
    let opened = (0..choices).map(move |index| chunk(&opening, index, first.clone(), Value::Null));
    let spoken = pieces(text).flat_map(move |piece| {
        let delta = if is_call {
            json!({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
        } else {
            json!({"content": piece})
        };
        let head = head.clone();
        (0..choices).map(move |index| chunk(&head, index, delta.clone(), Value::Null))
    });
    let finish = if is_call { "tool_calls" } else { "stop" };
    let last = closing.clone();
    let closed = (0..choices).map(move |index| chunk(&closing, index, json!({}), json!(finish)));
    let counted = usage.into_iter().map(move |usage| {
        let mut chunk = last.wrap(json!([]));
        chunk["usage"] = usage;
        wire::data(&chunk)
    });
    Box::new(opened.chain(spoken).chain(closed).chain(counted).chain(once(DONE)))
}

/// `POST /v1/completions`.
pub(super) async fn completions(headers: HeaderMap, body: Bytes) -> Response {
    let reply = wire::read(&body).and_then(|request| {
        let prompt = request.get("prompt").ok_or(Unreadable::Member("prompt"))?;
        let ask = Ask { text: wire::text_of(prompt), ..Ask::default() };
        let model = wire::string(&request, "model").to_owned();
        let pause = wire::pace(&headers, &model);
        let head =
            Head { id: format!("cmpl-{}", wire::fingerprint(&body)), object: "text_completion", model };
        let text = match answer(&ask) {
            Answer::Text(text) => text,
            Answer::Call { arguments, .. } => arguments.to_string(),
            Answer::Failure(status) => return Ok(failure(status, "the prompt asked for this failure")),
        };
        Ok(if wire::flag(&request, "stream") {
            wire::streamed(wire::SSE, pause, completion_frames(head, text))
        } else {
            completion_whole(&head, &ask.text, &text)
        })
    });
    signed(reply.unwrap_or_else(|fault| unreadable(&fault)), &body)
}

fn completion_whole(head: &Head, prompt: &str, text: &str) -> Response {
    let choice = json!([{"index": 0, "text": text, "logprobs": null, "finish_reason": "stop"}]);
    let mut body = head.wrap(choice);
    body["usage"] = usage(tokens(prompt), tokens(text));
    wire::whole(StatusCode::OK, &body)
}

fn completion_frames(head: Head, text: String) -> Frames {
    let choice = |text: &str, finish: Value| json!([{"index": 0, "text": text, "logprobs": null, "finish_reason": finish}]);
    let end = wire::data(&head.wrap(choice("", json!("stop"))));
    let spoken = pieces(text).map(move |piece| wire::data(&head.wrap(choice(&piece, Value::Null))));
    Box::new(spoken.chain([end, DONE]))
}

/// `POST /v1/embeddings`: unit vectors that depend on the text alone.
pub(super) async fn embeddings(body: Bytes) -> Response {
    let reply = wire::read(&body).and_then(|request| {
        let input = request.get("input").ok_or(Unreadable::Member("input"))?;
        let texts: Vec<String> = match input {
            Value::Array(list) => list.iter().map(wire::text_of).collect(),
            one => vec![wire::text_of(one)],
        };
        let length = request.get("dimensions").and_then(Value::as_u64).unwrap_or(EMBEDDING_LENGTH);
        let base64 = wire::string(&request, "encoding_format") == "base64";
        let data: Vec<Value> = texts
            .iter()
            .enumerate()
            .map(|(index, text)| {
                let vector = embedding(text, length.clamp(1, EMBEDDING_LENGTH_MAX));
                json!({"object": "embedding", "index": index, "embedding": written(&vector, base64)})
            })
            .collect();
        let count: u64 = texts.iter().map(|text| tokens(text)).sum();
        Ok(wire::whole(
            StatusCode::OK,
            &json!({"object": "list", "data": data, "model": wire::string(&request, "model"),
                "usage": {"prompt_tokens": count, "total_tokens": count}}),
        ))
    });
    signed(reply.unwrap_or_else(|fault| unreadable(&fault)), &body)
}

fn embedding(text: &str, length: u64) -> Vec<f32> {
    let seed = crc32fast::hash(text.as_bytes());
    let raw = (0..length).map(|i| {
        let mixed = u64::from(seed).wrapping_add(i).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    });
    let raw: Vec<f32> = raw.collect();
    let norm = raw.iter().map(|x| x * x).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
    raw.iter().map(|x| x / norm).collect()
}

/// Writes a vector as numbers, or as the base64 of its little-endian floats (the SDKs ask for it).
fn written(vector: &[f32], base64: bool) -> Value {
    use base64::Engine;
    if !base64 {
        return json!(vector);
    }
    let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
    Value::from(base64::engine::general_purpose::STANDARD.encode(bytes))
}

/// `POST /v1/moderations`: nothing is ever flagged.
pub(super) async fn moderations(body: Bytes) -> Response {
    let reply = wire::read(&body).and_then(|request| {
        let input = request.get("input").ok_or(Unreadable::Member("input"))?;
        let count = input.as_array().map_or(1, Vec::len);
        let names = ["harassment", "hate", "self-harm", "sexual", "violence"];
        let flags: Value = names.iter().map(|name| ((*name).to_owned(), json!(false))).collect();
        let scores: Value = names.iter().map(|name| ((*name).to_owned(), json!(0.0001))).collect();
        let result = json!({"flagged": false, "categories": flags, "category_scores": scores});
        Ok(wire::whole(
            StatusCode::OK,
            &json!({"id": format!("modr-{}", wire::fingerprint(&body)), "model": "sample-moderation",
                "results": vec![result; count]}),
        ))
    });
    signed(reply.unwrap_or_else(|fault| unreadable(&fault)), &body)
}

/// `GET /v1/models`.
pub(super) async fn models() -> Response {
    let list: Vec<Value> = MODELS.iter().map(|name| described(name)).collect();
    signed(wire::whole(StatusCode::OK, &json!({"object": "list", "data": list})), b"models")
}

/// `GET /v1/models/{model}`: every name is a model.
pub(super) async fn model(Path(name): Path<String>) -> Response {
    signed(wire::whole(StatusCode::OK, &described(&name)), name.as_bytes())
}

fn described(name: &str) -> Value {
    json!({"id": name, "object": "model", "created": CREATED, "owned_by": "sample"})
}

/// Returns OpenAI's `usage`.
fn usage(prompt: u64, completion: u64) -> Value {
    json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion})
}

/// Returns how many tokens an answer is counted as.
pub(super) fn answer_tokens(answer: &Answer) -> u64 {
    match answer {
        Answer::Text(text) => tokens(text),
        Answer::Call { name, arguments } => tokens(name) + tokens(&arguments.to_string()),
        Answer::Failure(_) => 0,
    }
}

fn call_id(head: &Head) -> String {
    format!("call_{}", head.id.rsplit('-').next().unwrap_or_default())
}

/// Returns an error in OpenAI's shape.
pub(super) fn failure(status: StatusCode, message: &str) -> Response {
    let kind = match status {
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        status if status.is_server_error() => "server_error",
        _ => "invalid_request_error",
    };
    wire::whole(status, &json!({"error": {"message": message, "type": kind, "param": null, "code": null}}))
}

/// Returns the error for a request that cannot be understood.
pub(super) fn unreadable(fault: &Unreadable) -> Response {
    failure(StatusCode::BAD_REQUEST, &fault.to_string())
}

/// Adds the headers that OpenAI sends.
pub(super) fn signed(response: Response, body: &[u8]) -> Response {
    wire::with_headers(
        response,
        &[
            ("x-request-id", &format!("req_{}", wire::fingerprint(body))),
            ("openai-version", "2020-10-01"),
            ("openai-organization", "sample"),
            ("openai-processing-ms", "12"),
            ("x-ratelimit-limit-requests", "10000"),
            ("x-ratelimit-remaining-requests", "9999"),
            ("x-ratelimit-reset-requests", "6ms"),
        ],
    )
}
