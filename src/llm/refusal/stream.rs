//! Ends of streams: with an error that SDKs raise, or as a refusal that they take for an answer.

use serde_json::Value;
use serde_json::json;

use super::Refusal;
use super::StreamTrack;
use super::body;
use crate::llm::dialect::Wire;
use crate::llm::eventstream;
use crate::llm::stream::StreamFormat;

const DONE: &str = "data: [DONE]\n\n";

/// What is said at the end of a stream, before it is framed as the stream is.
#[derive(Default)]
struct End {
    events: Vec<Event>,
    /// Whether server-sent events say in the end that they are over.
    says_done: bool,
}

/// One event: its name, where it has one, and its payload.
struct Event {
    name: Option<&'static str>,
    payload: Value,
}

/// Returns the end that raises.
pub(super) fn error(refusal: &Refusal, wire: Wire, track: &StreamTrack) -> Vec<u8> {
    framed(&error_end(refusal, wire, track), &format!("3:{}\n", json!(refusal.message)), refusal, track)
}

/// Returns the end that reads as a refusal of the model.
pub(super) fn graceful(refusal: &Refusal, wire: Wire, track: &StreamTrack) -> Vec<u8> {
    let line = "d:{\"finishReason\":\"content-filter\"}\n";
    framed(&graceful_end(refusal, wire, track), line, refusal, track)
}

fn error_end(refusal: &Refusal, wire: Wire, track: &StreamTrack) -> End {
    if track.format != StreamFormat::Sse {
        return match wire {
            Wire::Cohere => cohere_lines_end(Some(refusal)),
            _ => End::of(body::error(refusal, wire)),
        };
    }
    match wire {
        Wire::OpenAiChat | Wire::OpenAiCompletions | Wire::Bedrock | Wire::Generic => {
            End::of(body::error(refusal, wire)).done()
        }
        Wire::OpenAiResponses => End::named("error", responses_error(refusal, track)),
        Wire::JsonRpc => End::named("message", body::rpc_error(refusal)),
        Wire::Anthropic => End::named("error", body::anthropic_error(refusal)),
        Wire::Cohere => cohere_end(Some(refusal), track),
        Wire::Gemini | Wire::OllamaChat | Wire::OllamaGenerate => End::of(body::error(refusal, wire)),
    }
}

fn graceful_end(refusal: &Refusal, wire: Wire, track: &StreamTrack) -> End {
    match wire {
        Wire::OpenAiChat | Wire::OpenAiCompletions => End::of(openai_end(refusal, wire, track)).done(),
        Wire::OpenAiResponses => responses_end(refusal, track),
        Wire::Anthropic => anthropic_end(refusal, track),
        Wire::Gemini => End::of(gemini_end(track)),
        Wire::Cohere if track.format == StreamFormat::Sse => cohere_end(None, track),
        Wire::Cohere => cohere_lines_end(None),
        Wire::OllamaChat | Wire::OllamaGenerate => End::of(body::ollama_done(wire, track, "")),
        // No graceful end is known: silence would read as success.
        Wire::Bedrock | Wire::JsonRpc | Wire::Generic => error_end(refusal, wire, track),
    }
}

impl End {
    /// Returns the end that is one event without a name.
    fn of(payload: Value) -> Self {
        let mut end = Self::default();
        end.events.push(Event { name: None, payload });
        end
    }

    /// Returns the end that is one event of that name.
    fn named(name: &'static str, payload: Value) -> Self {
        let mut end = Self::default();
        end.say(name, payload);
        end
    }

    fn say(&mut self, name: &'static str, payload: Value) {
        self.events.push(Event { name: Some(name), payload });
    }

    fn done(mut self) -> Self {
        self.says_done = true;
        self
    }
}

/// Frames the end as the stream is framed. `typed` says the same in the one line that typed lines have for it.
fn framed(end: &End, typed: &str, refusal: &Refusal, track: &StreamTrack) -> Vec<u8> {
    let text = match track.format {
        // A frame leaves whole or not at all: nothing is to be closed before this one. The end of an enveloped stream is
        // its model's own, which this is not told.
        StreamFormat::AmazonEvents => return amazon_end(refusal),
        // It has no words but its own: that it ends too early is all that can be told.
        StreamFormat::Text => return Vec::new(),
        StreamFormat::TypedLines => typed.to_owned(),
        StreamFormat::Sse => {
            let events: String = end.events.iter().map(sent).collect();
            events + if end.says_done { DONE } else { "" }
        }
        StreamFormat::Ndjson => end.events.iter().map(|event| format!("{}\n", event.payload)).collect(),
        StreamFormat::JsonArray => array_end(&end.events, track),
    };
    after_break(text, track)
}

/// An event that was cut in its middle is closed first, so that the end is an event of its own.
fn after_break(end: String, track: &StreamTrack) -> Vec<u8> {
    let separator = match (track.mid_event, track.format) {
        (true, StreamFormat::Sse) => "\n\n",
        (true, StreamFormat::Ndjson | StreamFormat::TypedLines) => "\n",
        (true, StreamFormat::JsonArray | StreamFormat::AmazonEvents | StreamFormat::Text) | (false, _) => "",
    };
    [separator.as_bytes(), end.as_bytes()].concat()
}

/// One of the exceptions that a stream of Bedrock may end in; SDKs raise it.
fn amazon_end(refusal: &Refusal) -> Vec<u8> {
    eventstream::exception(refusal.names().amazon_stream, body::bedrock_error(refusal).to_string().as_bytes())
}

/// Flat fields as documented, and the error object that makes SDKs raise.
fn responses_error(refusal: &Refusal, track: &StreamTrack) -> Value {
    json!({
        "type": "error",
        "code": refusal.code,
        "message": refusal.message,
        "param": null,
        "sequence_number": track.next_sequence_number,
        "error": body::openai_error(refusal),
    })
}

/// Ends what is open, then the response, which tells once more what it has said.
fn responses_end(refusal: &Refusal, track: &StreamTrack) -> End {
    let mut end = End::default();
    let mut number = track.next_sequence_number;
    let mut say = |name: &'static str, mut event: Value| {
        event["type"] = json!(name);
        event["sequence_number"] = json!(number);
        number = number.saturating_add(1);
        end.say(name, event);
    };
    if !track.message_started {
        let response = body::begun_response(refusal, track);
        say("response.created", json!({ "response": response }));
    }
    let output = track.items.as_ref().map(|items| items.end(&mut say)).unwrap_or_default();
    let response = body::incomplete_response(refusal, track, json!(output));
    say("response.incomplete", json!({ "response": response }));
    end
}

fn openai_end(refusal: &Refusal, wire: Wire, track: &StreamTrack) -> Value {
    let open: Vec<u64> = match track.choices_seen {
        true => track.open.iter().copied().collect(),
        false => vec![0],
    };
    let (object, prefix) = match wire {
        Wire::OpenAiCompletions => ("text_completion", "cmpl-"),
        _ => ("chat.completion.chunk", "chatcmpl-"),
    };
    let choice = |index: u64| match wire {
        Wire::OpenAiCompletions => {
            json!({ "index": index, "text": "", "logprobs": null, "finish_reason": "content_filter" })
        }
        _ => json!({ "index": index, "delta": {}, "logprobs": null, "finish_reason": "content_filter" }),
    };
    json!({
        "id": track.id.clone().unwrap_or_else(|| format!("{prefix}{}", refusal.request_id)),
        "object": object,
        "created": track.created,
        "model": track.model.as_deref().unwrap_or_default(),
        "choices": open.into_iter().map(choice).collect::<Vec<Value>>(),
    })
}

fn anthropic_end(refusal: &Refusal, track: &StreamTrack) -> End {
    let mut end = End::default();
    if !track.message_started {
        let message = json!({
            "id": format!("msg_{}", refusal.request_id), "type": "message", "role": "assistant",
            "model": track.model.as_deref().unwrap_or_default(), "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": { "input_tokens": 0, "output_tokens": 0 },
        });
        end.say("message_start", json!({ "type": "message_start", "message": message }));
    }
    for index in &track.open {
        end.say("content_block_stop", json!({ "type": "content_block_stop", "index": index }));
    }
    let delta = json!({
        "type": "message_delta",
        "delta": { "stop_reason": "refusal", "stop_sequence": null },
        "usage": { "output_tokens": track.output_tokens },
    });
    end.say("message_delta", delta);
    end.say("message_stop", json!({ "type": "message_stop" }));
    end
}

/// Ends what is open, then the message: with an error that is told, or without a word.
fn cohere_end(told: Option<&Refusal>, track: &StreamTrack) -> End {
    let mut end = End::default();
    for index in &track.open {
        end.say("content-end", json!({ "type": "content-end", "index": index }));
    }
    let mut delta = json!({ "finish_reason": "ERROR" });
    if let Some(refusal) = told {
        delta["error"] = json!(refusal.message);
    }
    end.say("message-end", json!({ "type": "message-end", "id": track.id, "delta": delta }));
    end.done()
}

/// The last event of the first version's lines: whoever reads them waits for it, and takes any other line for no end.
fn cohere_lines_end(told: Option<&Refusal>) -> End {
    let mut end = json!({
        "event_type": "stream-end",
        "is_finished": true,
        "finish_reason": "ERROR",
        "response": { "text": "", "finish_reason": "ERROR" },
    });
    if let Some(refusal) = told {
        end["error"] = json!(refusal.message);
    }
    End::of(end)
}

fn gemini_end(track: &StreamTrack) -> Value {
    json!({
        "candidates": [{ "finishReason": "SAFETY", "index": 0 }],
        "modelVersion": track.model.as_deref().unwrap_or_default(),
    })
}

/// Adds the last elements and closes the array. Nothing can follow one that is closed.
fn array_end(events: &[Event], track: &StreamTrack) -> String {
    let elements: Vec<String> = events.iter().map(|event| event.payload.to_string()).collect();
    let elements = elements.join(",\n");
    match (track.closed, track.payloads) {
        (true, _) => String::new(),
        (false, 0) => format!("[{elements}\n]\n"),
        (false, _) => format!(",\n{elements}\n]\n"),
    }
}

/// Writes a server-sent event.
fn sent(event: &Event) -> String {
    match event.name {
        Some(name) => format!("event: {name}\ndata: {}\n\n", event.payload),
        None => format!("data: {}\n\n", event.payload),
    }
}
