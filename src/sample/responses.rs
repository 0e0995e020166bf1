//! OpenAI's responses.

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

const CREATED: u64 = 1_760_000_000;

/// The one output item of an answer, as its events need it.
struct Item {
    id: String,
    /// The words, or the arguments of the call.
    text: String,
    /// The name of the called tool.
    tool: Option<String>,
}

/// `POST /v1/responses`.
pub(super) async fn responses(headers: HeaderMap, body: Bytes) -> Response {
    let reply = wire::read(&body).and_then(|request| {
        let ask = ask(&request)?;
        Ok(reply(&headers, &body, &request, &ask))
    });
    openai::signed(reply.unwrap_or_else(|fault| openai::unreadable(&fault)), &body)
}

fn ask(request: &Value) -> Result<Ask, Unreadable> {
    let tools = wire::tools(request.get("tools"), "function", &["parameters"]);
    let choice = request.get("tool_choice");
    let tool_forced = choice.is_some_and(|choice| choice == "required" || choice.is_object());
    let (text, tool_result) = match request.get("input") {
        Some(Value::String(text)) => (text.clone(), None),
        Some(Value::Array(items)) => {
            let result = items.last().filter(|last| wire::string(last, "type") == "function_call_output");
            let text = wire::last_user(items, "content").map(wire::text_of).unwrap_or_default();
            (text, result.map(|item| wire::text_of(&item["output"])))
        }
        _ => return Err(Unreadable::Member("input")),
    };
    Ok(Ask { text, tools, tool_forced, tool_result })
}

fn reply(headers: &HeaderMap, body: &[u8], request: &Value, ask: &Ask) -> Response {
    let answer = answer(ask);
    let print = wire::fingerprint(body);
    let spent = openai::answer_tokens(&answer);
    let item = match answer {
        Answer::Text(text) => Item { id: format!("msg_{print}"), text, tool: None },
        Answer::Call { name, arguments } => {
            Item { id: format!("fc_{print}"), text: arguments.to_string(), tool: Some(name) }
        }
        Answer::Failure(status) => return openai::failure(status, "the prompt asked for this failure"),
    };
    let model = wire::string(request, "model");
    let envelope = json!({"id": format!("resp_{print}"), "object": "response", "created_at": CREATED,
        "model": model, "error": null, "incomplete_details": null, "instructions": request["instructions"],
        "metadata": {}, "parallel_tool_calls": true, "temperature": 1.0, "top_p": 1.0,
        "tool_choice": "auto", "tools": request.get("tools").cloned().unwrap_or_else(|| json!([]))});
    let asked = tokens(&ask.text);
    let usage = json!({"input_tokens": asked, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": spent, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": asked + spent});
    if wire::flag(request, "stream") {
        return wire::streamed(wire::SSE, wire::pace(headers, model), frames(&envelope, item, &usage));
    }
    wire::whole(StatusCode::OK, &in_state(&envelope, "completed", json!([item.written("completed")]), &usage))
}

fn in_state(envelope: &Value, status: &str, output: Value, usage: &Value) -> Value {
    let mut response = envelope.clone();
    response["status"] = json!(status);
    response["output"] = output;
    response["usage"] = usage.clone();
    response
}

impl Item {
    fn part(text: &str) -> Value {
        json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
    }

    /// Returns the item as it stands in `output`; it is empty while it is in progress.
    fn written(&self, status: &str) -> Value {
        let text = if status == "completed" { self.text.as_str() } else { "" };
        match &self.tool {
            Some(name) => json!({"id": self.id, "type": "function_call", "status": status,
                "call_id": self.id.replace("fc_", "call_"), "name": name, "arguments": text}),
            None => {
                let content = if text.is_empty() { json!([]) } else { json!([Self::part(text)]) };
                json!({"id": self.id, "type": "message", "status": status, "role": "assistant", "content": content})
            }
        }
    }

    /// Returns the events between `output_item.added` and `output_item.done`.
    fn events(&self) -> Box<dyn Iterator<Item = (&'static str, Value)> + Send> {
        let (id, text) = (self.id.clone(), self.text.clone());
        if let Some(name) = &self.tool {
            let done = json!({"item_id": id, "output_index": 0, "name": name, "arguments": text});
            let spoken = pieces(text).map(move |piece| {
                (
                    "response.function_call_arguments.delta",
                    json!({"item_id": id, "output_index": 0, "delta": piece}),
                )
            });
            return Box::new(spoken.chain([("response.function_call_arguments.done", done)]));
        }
        let place = json!({"item_id": id, "output_index": 0, "content_index": 0});
        let with = move |name: &str, value: Value| {
            let mut event = place.clone();
            event[name] = value;
            event
        };
        let opened = ("response.content_part.added", with("part", Self::part("")));
        let mut text_done = with("text", json!(text));
        text_done["logprobs"] = json!([]);
        let closed = [
            ("response.output_text.done", text_done),
            ("response.content_part.done", with("part", Self::part(&text))),
        ];
        let spoken = pieces(text).map(move |piece| {
            let mut delta = with("delta", json!(piece));
            delta["logprobs"] = json!([]);
            ("response.output_text.delta", delta)
        });
        Box::new(std::iter::once(opened).chain(spoken).chain(closed))
    }
}

fn frames(envelope: &Value, item: Item, usage: &Value) -> Frames {
    let begun = json!({"response": in_state(envelope, "in_progress", json!([]), &Value::Null)});
    let output = json!([item.written("completed")]);
    let ended = json!({"response": in_state(envelope, "completed", output, usage)});
    let added = json!({"output_index": 0, "item": item.written("in_progress")});
    let done = json!({"output_index": 0, "item": item.written("completed")});
    let opening = [
        ("response.created", begun.clone()),
        ("response.in_progress", begun),
        ("response.output_item.added", added),
    ];
    let closing = [("response.output_item.done", done), ("response.completed", ended)];
    let events = opening.into_iter().chain(item.events()).chain(closing).enumerate();
    Box::new(events.map(|(number, (name, mut event))| {
        event["type"] = json!(name);
        event["sequence_number"] = json!(number);
        wire::named(name, &event)
    }))
}
