//! Gemini's `generateContent` and `streamGenerateContent`, the latter as SSE and as a JSON array.

use std::iter::once;

use axum::body::Bytes;
use axum::extract::Path;
use axum::extract::Query;
use axum::http::HeaderMap;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
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

/// The query of a request; `alt=sse` asks for SSE in place of a JSON array.
#[derive(Deserialize)]
pub(super) struct Form {
    alt: Option<String>,
}

/// The parts of a chunk that are the same in all of them.
#[derive(Clone)]
struct Head {
    id: String,
    model: String,
    asked: u64,
    spent: u64,
}

/// `POST /v1beta/models/{model}:{method}`.
pub(super) async fn generate(
    Path(target): Path<String>,
    Query(form): Query<Form>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let reply = wire::read(&body).and_then(|request| {
        let ask = ask(&request)?;
        let (model, method) = target.split_once(':').unwrap_or((&target, ""));
        Ok(match method {
            "generateContent" => whole(model, &body, &ask),
            "streamGenerateContent" => {
                streamed(model, &body, &ask, &headers, form.alt.as_deref() == Some("sse"))
            }
            "countTokens" => wire::whole(StatusCode::OK, &json!({"totalTokens": tokens(&ask.text)})),
            _ => failure(StatusCode::NOT_FOUND, "the sample provider has no such method"),
        })
    });
    signed(reply.unwrap_or_else(|fault| failure(StatusCode::BAD_REQUEST, &fault.to_string())))
}

/// `GET /v1beta/models`.
pub(super) async fn models() -> Response {
    let methods = ["generateContent", "streamGenerateContent", "countTokens"];
    let model =
        json!({"name": "models/sample", "displayName": "Sample", "supportedGenerationMethods": methods});
    signed(wire::whole(StatusCode::OK, &json!({"models": [model]})))
}

fn ask(request: &Value) -> Result<Ask, Unreadable> {
    let turns = wire::array(request, "contents")?;
    let last = turns.last().and_then(|turn| turn.get("parts")).and_then(Value::as_array);
    let result = last.into_iter().flatten().find_map(|part| part.get("functionResponse"));
    let declared = request.get("tools").and_then(Value::as_array).into_iter().flatten();
    let mode = request.pointer("/toolConfig/functionCallingConfig/mode");
    // Google's own Python client writes this member with underscores; the API takes both.
    let schemas = ["parameters", "parametersJsonSchema", "parameters_json_schema"];
    Ok(Ask {
        text: wire::last_user(turns, "parts").map(wire::text_of).unwrap_or_default(),
        tools: declared
            .flat_map(|tool| wire::tools(tool.get("functionDeclarations"), "", &schemas))
            .collect(),
        tool_forced: mode.is_some_and(|mode| mode == "ANY"),
        tool_result: result.map(|result| result["response"].to_string()),
    })
}

impl Head {
    fn new(model: &str, body: &[u8], ask: &Ask, answer: &Answer) -> Self {
        let (asked, spent) = (tokens(&ask.text), openai::answer_tokens(answer));
        Self { id: wire::fingerprint(body), model: model.to_owned(), asked, spent }
    }

    fn wrap(&self, part: Value, finish: Option<&str>) -> Value {
        let mut candidate = json!({"content": {"parts": [part], "role": "model"}, "index": 0});
        let mut usage = json!({"promptTokenCount": self.asked, "totalTokenCount": self.asked});
        if let Some(finish) = finish {
            candidate["finishReason"] = json!(finish);
            usage["candidatesTokenCount"] = json!(self.spent);
            usage["totalTokenCount"] = json!(self.asked + self.spent);
        }
        json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": self.model, "responseId": self.id})
    }
}

fn whole(model: &str, body: &[u8], ask: &Ask) -> Response {
    let answer = answer(ask);
    let head = Head::new(model, body, ask, &answer);
    let part = match answer {
        Answer::Text(text) => json!({"text": text}),
        Answer::Call { name, arguments } => json!({"functionCall": {"name": name, "args": arguments}}),
        Answer::Failure(status) => return failure(status, "the prompt asked for this failure"),
    };
    wire::whole(StatusCode::OK, &head.wrap(part, Some("STOP")))
}

fn streamed(model: &str, body: &[u8], ask: &Ask, headers: &HeaderMap, sse: bool) -> Response {
    let answer = answer(ask);
    let head = Head::new(model, body, ask, &answer);
    let last = head.clone();
    let chunks: Box<dyn Iterator<Item = Value> + Send> = match answer {
        Answer::Text(text) => {
            let spoken = pieces(text).map(move |piece| head.wrap(json!({"text": piece}), None));
            Box::new(spoken.chain(once(last.wrap(json!({"text": ""}), Some("STOP")))))
        }
        // Gemini sends a call in one piece.
        Answer::Call { name, arguments } => Box::new(once(
            last.wrap(json!({"functionCall": {"name": name, "args": arguments}}), Some("STOP")),
        )),
        Answer::Failure(status) => return failure(status, "the prompt asked for this failure"),
    };
    let pause = wire::pace(headers, model);
    if sse {
        // Gemini ends its lines with CR LF, unlike the others.
        let frames = chunks.map(|chunk| Bytes::from(format!("data: {chunk}\r\n\r\n")));
        return wire::streamed(wire::SSE, pause, Box::new(frames));
    }
    wire::streamed(wire::JSON, pause, array(chunks))
}

/// Writes the chunks as the elements of one JSON array, each sent as soon as it is there.
fn array(chunks: Box<dyn Iterator<Item = Value> + Send>) -> Frames {
    let elements = chunks.enumerate().map(|(index, chunk)| {
        let before = if index == 0 { "[" } else { ",\r\n" };
        Bytes::from(format!("{before}{chunk}"))
    });
    Box::new(elements.chain(once(Bytes::from_static(b"]\r\n"))))
}

fn failure(status: StatusCode, message: &str) -> Response {
    let name = match status.as_u16() {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        500.. => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    };
    wire::whole(status, &json!({"error": {"code": status.as_u16(), "message": message, "status": name}}))
}

fn signed(response: Response) -> Response {
    let headers = [
        ("server-timing", "gfet4t7; dur=12"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "SAMEORIGIN"),
    ];
    wire::with_headers(response, &headers)
}
