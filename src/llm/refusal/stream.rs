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

/// Returns the end that raises.
pub(super) fn error(refusal: &Refusal, wire: Wire, track: &StreamTrack) -> Vec<u8> {
    let end = match (track.format, wire) {
        // A frame leaves whole or not at all: nothing is to be closed before this one.
        (StreamFormat::AmazonEvents, _) => return amazon_end(refusal),
        // It has no words but its own: that it ends too early is all that can be told.
        (StreamFormat::Text, _) => return Vec::new(),
        (StreamFormat::Ndjson, Wire::OllamaChat | Wire::OllamaGenerate) => {
            format!("{}\n", body::ollama_error(refusal))
        }
        (StreamFormat::Ndjson, _) => format!("{}\n", body::error(refusal, wire)),
        (StreamFormat::TypedLines, _) => format!("3:{}\n", json!(refusal.message)),
        (StreamFormat::JsonArray, _) => array_end(&body::error(refusal, wire), track),
        (StreamFormat::Sse, Wire::OpenAiChat | Wire::OpenAiCompletions | Wire::Bedrock | Wire::Generic) => {
            format!("{}{DONE}", data(&body::error(refusal, wire)))
        }
        (StreamFormat::Sse, Wire::OpenAiResponses) => named("error", &responses_error(refusal, track)),
        (StreamFormat::Sse, Wire::JsonRpc) => named("message", &body::rpc_error(refusal)),
        (StreamFormat::Sse, Wire::Anthropic) => named("error", &body::anthropic_error(refusal)),
        (StreamFormat::Sse, Wire::Cohere) => cohere_end(Some(refusal), track),
        (StreamFormat::Sse, Wire::Gemini | Wire::OllamaChat | Wire::OllamaGenerate) => {
            data(&body::error(refusal, wire))
        }
    };
    after_break(end, track)
}

/// Returns the end that reads as a refusal of the model.
pub(super) fn graceful(refusal: &Refusal, wire: Wire, track: &StreamTrack) -> Vec<u8> {
    let end = match wire {
        // The end of an enveloped stream is its model's own, which this is not told.
        _ if track.format == StreamFormat::AmazonEvents => return amazon_end(refusal),
        _ if track.format == StreamFormat::Text => return Vec::new(),
        _ if track.format == StreamFormat::TypedLines => {
            "d:{\"finishReason\":\"content-filter\"}\n".to_owned()
        }
        Wire::OpenAiChat | Wire::OpenAiCompletions => {
            format!("{}{DONE}", data(&openai_end(refusal, wire, track)))
        }
        Wire::OpenAiResponses => {
            let response = body::incomplete_response(refusal, track, json!([]));
            let event = json!({
                "type": "response.incomplete", "sequence_number": track.next_sequence_number, "response": response,
            });
            named("response.incomplete", &event)
        }
        Wire::Anthropic => anthropic_end(refusal, track),
        Wire::Gemini => gemini_end(track),
        Wire::Cohere if track.format == StreamFormat::Sse => cohere_end(None, track),
        Wire::OllamaChat | Wire::OllamaGenerate => format!("{}\n", body::ollama_done(wire, track, "")),
        // No graceful end is known: silence would read as success.
        Wire::Bedrock | Wire::Cohere | Wire::JsonRpc | Wire::Generic => return error(refusal, wire, track),
    };
    after_break(end, track)
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

fn anthropic_end(refusal: &Refusal, track: &StreamTrack) -> String {
    let mut end = String::new();
    if !track.message_started {
        let message = json!({
            "id": format!("msg_{}", refusal.request_id), "type": "message", "role": "assistant",
            "model": track.model.as_deref().unwrap_or_default(), "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": { "input_tokens": 0, "output_tokens": 0 },
        });
        end.push_str(&named("message_start", &json!({ "type": "message_start", "message": message })));
    }
    for index in &track.open {
        end.push_str(&named("content_block_stop", &json!({ "type": "content_block_stop", "index": index })));
    }
    let delta = json!({
        "type": "message_delta",
        "delta": { "stop_reason": "refusal", "stop_sequence": null },
        "usage": { "output_tokens": track.output_tokens },
    });
    end.push_str(&named("message_delta", &delta));
    end.push_str(&named("message_stop", &json!({ "type": "message_stop" })));
    end
}

/// Ends what is open, then the message: with an error that is told, or without a word.
fn cohere_end(told: Option<&Refusal>, track: &StreamTrack) -> String {
    let mut end = String::new();
    for index in &track.open {
        end.push_str(&named("content-end", &json!({ "type": "content-end", "index": index })));
    }
    let mut delta = json!({ "finish_reason": "ERROR" });
    if let Some(refusal) = told {
        delta["error"] = json!(refusal.message);
    }
    end.push_str(&named("message-end", &json!({ "type": "message-end", "id": track.id, "delta": delta })));
    end.push_str(DONE);
    end
}

fn gemini_end(track: &StreamTrack) -> String {
    let chunk = json!({
        "candidates": [{ "finishReason": "SAFETY", "index": 0 }],
        "modelVersion": track.model.as_deref().unwrap_or_default(),
    });
    match track.format {
        StreamFormat::JsonArray => array_end(&chunk, track),
        StreamFormat::Sse
        | StreamFormat::Ndjson
        | StreamFormat::TypedLines
        | StreamFormat::AmazonEvents
        | StreamFormat::Text => data(&chunk),
    }
}

/// Adds a last element and closes the array. Nothing can follow one that is closed.
fn array_end(element: &Value, track: &StreamTrack) -> String {
    match (track.closed, track.payloads) {
        (true, _) => String::new(),
        (false, 0) => format!("[{element}\n]\n"),
        (false, _) => format!(",\n{element}\n]\n"),
    }
}

fn data(payload: &Value) -> String {
    format!("data: {payload}\n\n")
}

fn named(event: &str, payload: &Value) -> String {
    format!("event: {event}\ndata: {payload}\n\n")
}
