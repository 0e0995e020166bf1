//! Whole bodies: errors, and answers that refuse.

use serde_json::Value;
use serde_json::json;

use super::Refusal;
use super::StreamTrack;
use crate::llm::dialect::Wire;

/// What JSON-RPC leaves to servers, and neither A2A nor MCP nor their SDKs use for something else.
const RPC_REFUSED: i64 = -32050;
/// Who refuses, in Gemini's error details.
const ERROR_DOMAIN: &str = "portcullis";

/// Returns the error in the provider's shape.
pub(super) fn error(refusal: &Refusal, wire: Wire) -> Value {
    match wire {
        Wire::OpenAiChat | Wire::OpenAiCompletions | Wire::OpenAiResponses | Wire::Generic => {
            json!({ "error": openai_error(refusal) })
        }
        Wire::Anthropic => anthropic_error(refusal),
        Wire::Gemini => json!({ "error": gemini_error(refusal) }),
        Wire::JsonRpc => rpc_error(refusal),
        Wire::Cohere => cohere_error(refusal),
        Wire::Bedrock => bedrock_error(refusal),
        Wire::OllamaChat | Wire::OllamaGenerate => ollama_error(refusal),
    }
}

/// Returns the error as a message on a socket: Realtime's error event, where that is spoken.
pub(super) fn socket(refusal: &Refusal, wire: Wire) -> Value {
    match wire {
        Wire::OpenAiChat | Wire::OpenAiCompletions | Wire::OpenAiResponses | Wire::Generic => {
            let mut told = openai_error(refusal);
            told["event_id"] = Value::Null;
            json!({ "type": "error", "event_id": format!("event_{}", refusal.request_id), "error": told })
        }
        Wire::Anthropic
        | Wire::Bedrock
        | Wire::Cohere
        | Wire::Gemini
        | Wire::JsonRpc
        | Wire::OllamaChat
        | Wire::OllamaGenerate => error(refusal, wire),
    }
}

/// Returns an answer to the call itself, so that the SDK hands it to whoever waits for that.
pub(super) fn rpc_error(refusal: &Refusal) -> Value {
    let id = refusal.call_id.as_deref().and_then(|id| serde_json::from_str(id).ok()).unwrap_or(Value::Null);
    let data = json!({ "code": refusal.code, "status": refusal.status, "request_id": refusal.request_id });
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": RPC_REFUSED, "message": refusal.message, "data": data } })
}

pub(super) fn openai_error(refusal: &Refusal) -> Value {
    let names = refusal.names();
    json!({ "message": refusal.message, "type": names.openai, "param": null, "code": refusal.code })
}

pub(super) fn anthropic_error(refusal: &Refusal) -> Value {
    let names = refusal.names();
    json!({
        "type": "error",
        "error": { "type": names.anthropic, "message": refusal.message, "code": refusal.code },
        "request_id": refusal.request_id,
    })
}

pub(super) fn gemini_error(refusal: &Refusal) -> Value {
    let names = refusal.names();
    json!({
        "code": refusal.status,
        "message": refusal.message,
        "status": names.gemini,
        "details": [{
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": refusal.code.to_ascii_uppercase(),
            "domain": ERROR_DOMAIN,
            "metadata": { "request_id": refusal.request_id },
        }],
    })
}

fn cohere_error(refusal: &Refusal) -> Value {
    json!({ "id": refusal.request_id, "message": refusal.message, "error_type": refusal.code })
}

/// SDKs take the name of the exception from `__type`, unless there is a `code`.
pub(super) fn bedrock_error(refusal: &Refusal) -> Value {
    json!({
        "__type": refusal.names().amazon, "message": refusal.message,
        "reason": refusal.code, "request_id": refusal.request_id,
    })
}

pub(super) fn ollama_error(refusal: &Refusal) -> Value {
    json!({ "error": refusal.message, "code": refusal.code })
}

/// Returns the answer of a model that refuses.
pub(super) fn graceful(refusal: &Refusal, wire: Wire, track: &StreamTrack) -> Value {
    let (message, model) = (&refusal.message, track.model.as_deref().unwrap_or_default());
    let id = |prefix: &str| track.id.clone().unwrap_or_else(|| format!("{prefix}{}", refusal.request_id));
    match wire {
        Wire::OpenAiChat => json!({
            "id": id("chatcmpl-"), "object": "chat.completion", "created": track.created, "model": model,
            "choices": [{
                "index": 0,
                "message": { "role": "assistant", "content": message, "refusal": message },
                "logprobs": null,
                "finish_reason": "content_filter",
            }],
        }),
        Wire::OpenAiCompletions => json!({
            "id": id("cmpl-"), "object": "text_completion", "created": track.created, "model": model,
            "choices": [{ "index": 0, "text": message, "logprobs": null, "finish_reason": "content_filter" }],
        }),
        Wire::OpenAiResponses => {
            let output = json!([{
                "id": format!("msg_{}", refusal.request_id), "type": "message", "role": "assistant",
                "status": "incomplete", "content": [{ "type": "refusal", "refusal": message }],
            }]);
            incomplete_response(refusal, track, output)
        }
        Wire::Anthropic => json!({
            "id": id("msg_"), "type": "message", "role": "assistant", "model": model,
            "content": [{ "type": "text", "text": message }],
            "stop_reason": "refusal", "stop_sequence": null,
            "usage": { "input_tokens": 0, "output_tokens": track.output_tokens },
        }),
        Wire::Gemini => json!({
            "candidates": [{
                "content": { "role": "model", "parts": [{ "text": message }] },
                "finishReason": "SAFETY", "index": 0,
            }],
            "modelVersion": model,
        }),
        // Cohere knows no reason of its own for this: any but an error would read as success.
        Wire::Cohere => json!({
            "id": id(""), "finish_reason": "ERROR",
            "message": { "role": "assistant", "content": [{ "type": "text", "text": message }] },
            "usage": { "tokens": { "input_tokens": 0, "output_tokens": track.output_tokens } },
        }),
        Wire::OllamaChat | Wire::OllamaGenerate => ollama_done(wire, track, message),
        // A JSON-RPC call has a result or an error, nothing between; and what a model on Bedrock would say is its own.
        Wire::JsonRpc | Wire::Bedrock | Wire::Generic => error(refusal, wire),
    }
}

/// Returns a Responses object that has just begun.
pub(super) fn begun_response(refusal: &Refusal, track: &StreamTrack) -> Value {
    let mut response = incomplete_response(refusal, track, json!([]));
    response["status"] = json!("in_progress");
    response["incomplete_details"] = Value::Null;
    response
}

/// Returns a Responses object that stopped at the content filter.
pub(super) fn incomplete_response(refusal: &Refusal, track: &StreamTrack, output: Value) -> Value {
    let id = track.id.clone().unwrap_or_else(|| format!("resp_{}", refusal.request_id));
    json!({
        "id": id, "object": "response", "created_at": track.created, "model": track.model.as_deref().unwrap_or_default(),
        "status": "incomplete", "incomplete_details": { "reason": "content_filter" }, "error": null,
        "instructions": null, "metadata": {}, "output": output, "parallel_tool_calls": true,
        "temperature": null, "tool_choice": "auto", "tools": [], "top_p": null,
    })
}

/// Returns Ollama's last message.
pub(super) fn ollama_done(wire: Wire, track: &StreamTrack, text: &str) -> Value {
    let mut done = json!({
        "model": track.model.as_deref().unwrap_or_default(), "created_at": track.created_at,
        "done": true, "done_reason": "content_filter",
    });
    match wire {
        Wire::OllamaGenerate => done["response"] = json!(text),
        _ => done["message"] = json!({ "role": "assistant", "content": text }),
    }
    done
}
