//! Refusals as each provider's SDK reads them.

use serde_json::Value;
use serde_json::json;

use super::*;
use crate::llm::json::JsonLimits;
use crate::llm::json::walk;
use crate::llm::stream::PIECE_BYTES_MAX;
use crate::llm::stream::StreamFormat;
use crate::llm::stream::StreamParser;

fn refusal(status: u16, code: &'static str) -> Refusal {
    Refusal {
        status,
        code,
        message: "blocked by \"policy\"\n".into(),
        request_id: "R1".into(),
        call_id: Some("7".into()),
    }
}

fn json_of(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

/// A track that has sent these bytes.
fn track(format: StreamFormat, sent: &str) -> StreamTrack {
    let mut track = StreamTrack::new(format);
    let mut parser = StreamParser::new(format, PIECE_BYTES_MAX);
    let mut pieces = parser.push(sent.as_bytes()).unwrap();
    pieces.extend(parser.finish().unwrap());
    for piece in pieces {
        let payload = piece.payload();
        let doc = walk(&payload, &JsonLimits::STRICT).ok();
        track.sent(&piece, doc.as_ref().map(|doc| (&*payload, doc)));
    }
    track
}

/// The events after those sent: name and payload.
fn events(format: StreamFormat, bytes: &[u8]) -> Vec<(Option<String>, String)> {
    let mut parser = StreamParser::new(format, PIECE_BYTES_MAX);
    let mut pieces = parser.push(bytes).unwrap();
    pieces.extend(parser.finish().unwrap());
    assert!(pieces.iter().all(|piece| piece.terminated));
    let payload =
        |piece: &crate::llm::stream::StreamPiece| String::from_utf8(piece.payload().into_owned()).unwrap();
    pieces
        .iter()
        .filter(|piece| piece.has_payload())
        .map(|piece| (piece.event.clone(), payload(piece)))
        .collect()
}

#[test]
fn a_block_is_403_in_every_shape() {
    let blocked = refusal(403, CONTENT_BLOCKED);
    let message = blocked.message.clone();
    let openai = json!({"error": {"message": message, "type": "invalid_request_error", "param": null, "code": "content_blocked"}});
    assert_eq!(json_of(&blocked.error_body(Wire::OpenAiChat)), openai);
    let anthropic = json_of(&blocked.error_body(Wire::Anthropic));
    assert_eq!(
        (&anthropic["type"], &anthropic["error"]["type"]),
        (&json!("error"), &json!("permission_error"))
    );
    assert_eq!(anthropic["request_id"], "R1");
    let gemini = json_of(&blocked.error_body(Wire::Gemini));
    assert_eq!(
        (&gemini["error"]["code"], &gemini["error"]["status"]),
        (&json!(403), &json!("PERMISSION_DENIED"))
    );
    assert_eq!(gemini["error"]["details"][0]["reason"], "CONTENT_BLOCKED");
    assert_eq!(json_of(&blocked.error_body(Wire::Cohere))["message"], message);
    assert_eq!(json_of(&blocked.error_body(Wire::OllamaChat))["error"], message);
    for wire in [
        Wire::OpenAiChat,
        Wire::OpenAiResponses,
        Wire::Anthropic,
        Wire::Gemini,
        Wire::OllamaChat,
        Wire::Generic,
    ] {
        assert_eq!(blocked.status_for(wire), 403);
    }
}

#[test]
fn statuses_and_types_are_the_providers_own() {
    // (status, code, OpenAI, Anthropic, Gemini)
    let cases = [
        (400, "unreadable", "invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT"),
        (401, "unauthorized", "authentication_error", "authentication_error", "UNAUTHENTICATED"),
        (403, CONTENT_BLOCKED, "invalid_request_error", "permission_error", "PERMISSION_DENIED"),
        (403, "forbidden", "permission_error", "permission_error", "PERMISSION_DENIED"),
        (404, "not_found", "invalid_request_error", "not_found_error", "NOT_FOUND"),
        (413, "too_large", "invalid_request_error", "request_too_large", "INVALID_ARGUMENT"),
        (415, "media_type", "invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT"),
        (429, "rate_limited", "rate_limit_error", "rate_limit_error", "RESOURCE_EXHAUSTED"),
        (500, "internal", "server_error", "api_error", "INTERNAL"),
        (502, "bad_gateway", "server_error", "api_error", "UNAVAILABLE"),
        (503, "unavailable", "server_error", "overloaded_error", "UNAVAILABLE"),
        (504, "timeout", "server_error", "timeout_error", "DEADLINE_EXCEEDED"),
    ];
    for (status, code, openai, anthropic, gemini) in cases {
        let refusal = refusal(status, code);
        let error = |wire| json_of(&refusal.error_body(wire))["error"].clone();
        let chat = error(Wire::OpenAiChat);
        assert_eq!((&chat["type"], &chat["code"]), (&json!(openai), &json!(code)));
        assert_eq!(error(Wire::Anthropic)["type"], anthropic);
        assert_eq!(
            (&error(Wire::Gemini)["status"], &error(Wire::Gemini)["code"]),
            (&json!(gemini), &json!(status))
        );
        let expected = if status == 503 { 529 } else { status };
        assert_eq!(
            (refusal.status_for(Wire::Anthropic), refusal.status_for(Wire::Gemini)),
            (expected, status)
        );
    }
}

#[test]
fn stream_errors_are_those_that_sdks_raise() {
    let blocked = refusal(403, CONTENT_BLOCKED);
    let chat = track(StreamFormat::Sse, "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{}}]}\n\n");
    let end = events(StreamFormat::Sse, &blocked.stream_error(Wire::OpenAiChat, &chat));
    assert_eq!(json_of(end[0].1.as_bytes())["error"]["code"], "content_blocked");
    assert_eq!(end[1], (None, "[DONE]".into()));

    let responses =
        track(StreamFormat::Sse, "data: {\"type\":\"response.created\",\"sequence_number\":4}\n\n");
    let end = events(StreamFormat::Sse, &blocked.stream_error(Wire::OpenAiResponses, &responses));
    let event = json_of(end[0].1.as_bytes());
    assert_eq!(end[0].0.as_deref(), Some("error"));
    assert_eq!((&event["type"], &event["sequence_number"]), (&json!("error"), &json!(5)));
    assert_eq!(
        (&event["code"], &event["error"]["code"]),
        (&json!("content_blocked"), &json!("content_blocked"))
    );

    let end = events(StreamFormat::Sse, &blocked.stream_error(Wire::Anthropic, &chat));
    assert_eq!(end[0].0.as_deref(), Some("error"));
    assert_eq!(json_of(end[0].1.as_bytes())["error"]["type"], "permission_error");

    let end = events(StreamFormat::Sse, &blocked.stream_error(Wire::Gemini, &chat));
    assert_eq!(json_of(end[0].1.as_bytes())["error"]["code"], 403);

    let lines = track(StreamFormat::Ndjson, "{\"model\":\"m\"}\n");
    let end = events(StreamFormat::Ndjson, &blocked.stream_error(Wire::OllamaChat, &lines));
    assert_eq!(json_of(end[0].1.as_bytes())["error"], blocked.message);
}

#[test]
fn an_array_stays_an_array() {
    let blocked = refusal(403, CONTENT_BLOCKED);
    for (sent, elements) in [("", 1), ("[{\"a\":1}", 2), ("[{\"a\":1}\n,\r\n{\"b\":2}", 3)] {
        let track = track(StreamFormat::JsonArray, sent);
        for end in [blocked.stream_error(Wire::Gemini, &track), blocked.stream_graceful(Wire::Gemini, &track)]
        {
            let whole = json_of(&[sent.as_bytes(), &end].concat());
            assert_eq!(whole.as_array().unwrap().len(), elements, "{sent}");
        }
    }
    let closed = track(StreamFormat::JsonArray, "[{\"a\":1}]");
    assert!(blocked.stream_error(Wire::Gemini, &closed).is_empty());
}

#[test]
fn graceful_ends_finish_what_is_open() {
    let blocked = refusal(403, CONTENT_BLOCKED);
    let chat = track(
        StreamFormat::Sse,
        concat!(
            "data: {\"id\":\"x\",\"created\":9,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{}},{\"index\":1,\"delta\":{}}]}\n\n",
            "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
        ),
    );
    let end = events(StreamFormat::Sse, &blocked.stream_graceful(Wire::OpenAiChat, &chat));
    let chunk = json_of(end[0].1.as_bytes());
    assert_eq!((&chunk["id"], &chunk["created"], &chunk["model"]), (&json!("x"), &json!(9), &json!("m")));
    assert_eq!(chunk["choices"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&chunk["choices"][0]["index"], &chunk["choices"][0]["finish_reason"]),
        (&json!(1), &json!("content_filter"))
    );
    assert_eq!(end[1].1, "[DONE]");

    let anthropic = track(
        StreamFormat::Sse,
        concat!(
            "data: {\"type\":\"message_start\",\"message\":{\"id\":\"a\",\"model\":\"m\"}}\n\n",
            "data: {\"type\":\"content_block_start\",\"index\":0}\n\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
            "data: {\"type\":\"content_block_start\",\"index\":1}\n\n",
        ),
    );
    let end = events(StreamFormat::Sse, &blocked.stream_graceful(Wire::Anthropic, &anthropic));
    let names: Vec<&str> = end.iter().filter_map(|(name, _)| name.as_deref()).collect();
    assert_eq!(names, ["content_block_stop", "message_delta", "message_stop"]);
    assert_eq!(json_of(end[0].1.as_bytes())["index"], 1);
    assert_eq!(json_of(end[1].1.as_bytes())["delta"]["stop_reason"], "refusal");

    let cohere = track(
        StreamFormat::Sse,
        concat!(
            "event: message-start\ndata: {\"type\":\"message-start\",\"id\":\"c\"}\n\n",
            "data: {\"type\":\"content-start\",\"index\":0}\n\ndata: {\"type\":\"content-end\",\"index\":0}\n\n",
            "data: {\"type\":\"content-start\",\"index\":1}\n\n",
        ),
    );
    for (bytes, told) in [
        (blocked.stream_graceful(Wire::Cohere, &cohere), Value::Null),
        (blocked.stream_error(Wire::Cohere, &cohere), json!(blocked.message)),
    ] {
        let end = events(StreamFormat::Sse, &bytes);
        let names: Vec<&str> = end.iter().filter_map(|(name, _)| name.as_deref()).collect();
        assert_eq!(names, ["content-end", "message-end"]);
        assert_eq!(json_of(end[0].1.as_bytes())["index"], 1);
        let last = json_of(end[1].1.as_bytes());
        assert_eq!((&last["id"], &last["delta"]["finish_reason"]), (&json!("c"), &json!("ERROR")));
        assert_eq!(last["delta"]["error"], told);
        assert_eq!(end[2].1, "[DONE]");
    }

    let fresh = StreamTrack::new(StreamFormat::Sse);
    let end = events(StreamFormat::Sse, &blocked.stream_graceful(Wire::Anthropic, &fresh));
    assert_eq!(end[0].0.as_deref(), Some("message_start"));
    let end = events(StreamFormat::Sse, &blocked.stream_graceful(Wire::Gemini, &fresh));
    assert_eq!(json_of(end[0].1.as_bytes())["candidates"][0]["finishReason"], "SAFETY");

    let lines = track(StreamFormat::Ndjson, "{\"model\":\"m\",\"created_at\":\"2026-01-01T00:00:00Z\"}\n");
    let end = events(StreamFormat::Ndjson, &blocked.stream_graceful(Wire::OllamaGenerate, &lines));
    let done = json_of(end[0].1.as_bytes());
    assert_eq!(
        (&done["done"], &done["done_reason"], &done["response"]),
        (&json!(true), &json!("content_filter"), &json!(""))
    );
    assert_eq!(done["created_at"], "2026-01-01T00:00:00Z");
}

#[test]
fn every_end_is_framed_as_the_stream_is() {
    let blocked = refusal(403, CONTENT_BLOCKED);
    // The API, and what its graceful end says, however the stream is framed.
    let table = [
        (Wire::OpenAiChat, "/choices/0/finish_reason", json!("content_filter")),
        (Wire::OpenAiCompletions, "/choices/0/finish_reason", json!("content_filter")),
        (Wire::OpenAiResponses, "/response/incomplete_details/reason", json!("content_filter")),
        (Wire::Anthropic, "/delta/stop_reason", json!("refusal")),
        (Wire::Gemini, "/candidates/0/finishReason", json!("SAFETY")),
        (Wire::Cohere, "", Value::Null),
        (Wire::Bedrock, "/reason", json!("content_blocked")),
        (Wire::OllamaChat, "/done_reason", json!("content_filter")),
        (Wire::OllamaGenerate, "/done_reason", json!("content_filter")),
        (Wire::JsonRpc, "/error/data/code", json!("content_blocked")),
        (Wire::Generic, "/error/code", json!("content_blocked")),
    ];
    for (format, before) in [
        (StreamFormat::Sse, "data: {\"text\":\"Hi\"}\n\n"),
        (StreamFormat::Ndjson, "{\"text\":\"Hi\"}\n"),
        (StreamFormat::JsonArray, "[{\"text\":\"Hi\"}"),
    ] {
        let track = track(format, before);
        for (wire, pointer, told) in &table {
            // Cohere ends its events, and the lines of its first version, without an error.
            let (pointer, told) = match (*wire, format) {
                (Wire::Cohere, StreamFormat::Sse) => ("/delta/finish_reason", json!("ERROR")),
                (Wire::Cohere, _) => ("/finish_reason", json!("ERROR")),
                _ => (*pointer, told.clone()),
            };
            let graceful = blocked.stream_graceful(*wire, &track);
            let says = |payload: &Value| payload.pointer(pointer) == Some(&told);
            let payloads = payloads(format, before, &graceful);
            assert!(payloads.iter().any(says), "{wire:?} {format:?}: {payloads:?}");
            let error = blocked.stream_error(*wire, &track);
            let is_told = |payload: &Value| payload.to_string().contains("blocked by");
            let payloads = self::payloads(format, before, &error);
            assert!(payloads.iter().any(is_told), "{wire:?} {format:?}: {payloads:?}");
        }
    }
}

/// The payloads of an end, read as a client of this framing does that knows no other.
fn payloads(format: StreamFormat, before: &str, end: &[u8]) -> Vec<Value> {
    let end = std::str::from_utf8(end).unwrap();
    match format {
        StreamFormat::Sse => {
            assert!(end.ends_with("\n\n"), "{end}");
            let data = end.lines().filter_map(|line| line.strip_prefix("data: "));
            data.filter(|data| *data != "[DONE]").map(|data| json_of(data.as_bytes())).collect()
        }
        StreamFormat::JsonArray => {
            let whole = json_of(format!("{before}{end}").as_bytes());
            whole.as_array().unwrap()[1..].to_vec()
        }
        StreamFormat::Ndjson | StreamFormat::TypedLines | StreamFormat::AmazonEvents | StreamFormat::Text => {
            assert!(end.ends_with('\n'), "{end}");
            end.lines().map(|line| json_of(line.as_bytes())).collect()
        }
    }
}

/// A track of a response whose items are followed, and that has sent these events.
fn response(events: &[Value]) -> StreamTrack {
    let mut track = StreamTrack::new(StreamFormat::Sse);
    track.follow_items();
    let mut parser = StreamParser::new(StreamFormat::Sse, PIECE_BYTES_MAX);
    for (number, event) in events.iter().enumerate() {
        let mut event = event.clone();
        event["sequence_number"] = json!(number);
        for piece in parser.push(format!("data: {event}\n\n").as_bytes()).unwrap() {
            let payload = piece.payload();
            let doc = walk(&payload, &JsonLimits::STRICT).unwrap();
            track.sent(&piece, Some((&*payload, &doc)));
            track.left(piece.original());
        }
    }
    track
}

fn begun() -> Vec<Value> {
    let part = |text: &str| json!({ "type": "output_text", "text": text, "annotations": [] });
    let message = |id: &str| json!({ "id": id, "type": "message", "role": "assistant", "status": "in_progress", "content": [] });
    let thought = json!({ "id": "rs", "type": "reasoning", "summary": [] });
    let whole =
        json!({ "id": "rs", "type": "reasoning", "summary": [{ "type": "summary_text", "text": "So." }] });
    let call = json!({ "id": "fc", "type": "function_call", "call_id": "c", "name": "run", "arguments": "" });
    vec![
        json!({ "type": "response.created", "response": { "id": "resp_1", "created_at": 5, "model": "m", "output": [] } }),
        json!({ "type": "response.output_item.added", "output_index": 0, "item": thought }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": whole }),
        json!({ "type": "response.output_item.added", "output_index": 1, "item": call }),
        json!({ "type": "response.function_call_arguments.delta", "item_id": "fc", "output_index": 1, "delta": "{\"a\":" }),
        json!({ "type": "response.output_item.added", "output_index": 2, "item": message("msg") }),
        json!({ "type": "response.content_part.added", "item_id": "msg", "output_index": 2, "content_index": 0, "part": part("") }),
        json!({ "type": "response.output_text.delta", "item_id": "msg", "output_index": 2, "content_index": 0, "delta": "One." }),
        json!({ "type": "response.output_text.done", "item_id": "msg", "output_index": 2, "content_index": 0, "text": "One." }),
        json!({ "type": "response.content_part.done", "item_id": "msg", "output_index": 2, "content_index": 0, "part": part("One.") }),
        json!({ "type": "response.content_part.added", "item_id": "msg", "output_index": 2, "content_index": 1, "part": part("") }),
        json!({ "type": "response.output_text.delta", "item_id": "msg", "output_index": 2, "content_index": 1, "delta": "Tw\u{f6}" }),
        json!({ "type": "response.output_text.delta", "item_id": "msg", "output_index": 2, "content_index": 1, "delta": " it" }),
    ]
}

#[test]
fn a_response_ends_its_items_first_and_tells_them_again() {
    let blocked = refusal(403, CONTENT_BLOCKED);
    let track = response(&begun());
    let end = events(StreamFormat::Sse, &blocked.stream_graceful(Wire::OpenAiResponses, &track));
    let told: Vec<Value> = end.iter().map(|(_, payload)| json_of(payload.as_bytes())).collect();
    let names: Vec<&str> = told.iter().filter_map(|event| event["type"].as_str()).collect();
    let expected = [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.incomplete",
    ];
    assert_eq!(names, expected);
    assert!(end.iter().zip(&names).all(|((name, _), kind)| name.as_deref() == Some(*kind)));
    let numbers: Vec<u64> = told.iter().filter_map(|event| event["sequence_number"].as_u64()).collect();
    assert_eq!(numbers, [13, 14, 15, 16]);
    let text = &told[0];
    assert_eq!(
        (&text["text"], &text["content_index"], &text["item_id"]),
        (&json!("Tw\u{f6} it"), &json!(1), &json!("msg"))
    );
    assert_eq!((&text["output_index"], &text["logprobs"]), (&json!(2), &json!([])));
    assert_eq!(told[1]["part"], json!({ "type": "output_text", "text": "Tw\u{f6} it", "annotations": [] }));
    let message = &told[2]["item"];
    assert_eq!((&message["id"], &message["status"]), (&json!("msg"), &json!("incomplete")));
    assert_eq!(message["content"][0]["text"], "One.");
    // What was whole, and what is ended here; the call that has no end is not told.
    let response = &told[3]["response"];
    let ids: Vec<&str> =
        response["output"].as_array().unwrap().iter().filter_map(|it| it["id"].as_str()).collect();
    assert_eq!(
        (ids, &response["id"], &response["status"]),
        (vec!["rs", "msg"], &json!("resp_1"), &json!("incomplete"))
    );
    assert_eq!(response["output"][0]["summary"][0]["text"], "So.");
    assert_eq!(&response["output"][1], message);
}

#[test]
fn a_response_of_which_nothing_left_begins_before_it_ends() {
    let end = refusal(403, CONTENT_BLOCKED).stream_graceful(Wire::OpenAiResponses, &response(&[]));
    let end = events(StreamFormat::Sse, &end);
    let told: Vec<Value> = end.iter().map(|(_, payload)| json_of(payload.as_bytes())).collect();
    assert_eq!(
        (&told[0]["type"], &told[1]["type"]),
        (&json!("response.created"), &json!("response.incomplete"))
    );
    assert_eq!(told[0]["response"]["id"], told[1]["response"]["id"]);
    assert_eq!(
        (&told[0]["response"]["status"], &told[1]["sequence_number"]),
        (&json!("in_progress"), &json!(1))
    );
}

#[test]
fn a_response_too_large_to_be_told_again_ends_nothing_and_tells_nothing() {
    let mut sent = begun();
    let last = sent.last().unwrap().clone();
    let long = |delta: String| {
        let mut event = last.clone();
        event["delta"] = json!(delta);
        event
    };
    sent.extend((0..9).map(|_| long("word ".repeat(6 << 10))));
    let end = refusal(403, CONTENT_BLOCKED).stream_graceful(Wire::OpenAiResponses, &response(&sent));
    let end = events(StreamFormat::Sse, &end);
    let [(_, only)] = end.as_slice() else { panic!("{} events", end.len()) };
    assert_eq!(json_of(only.as_bytes())["response"]["output"], json!([]));
}

#[test]
fn a_broken_line_is_closed_first() {
    let blocked = refusal(403, CONTENT_BLOCKED);
    let broken = track(StreamFormat::Sse, "data: {\"cho");
    assert!(blocked.stream_error(Wire::OpenAiChat, &broken).starts_with(b"\n\ndata: {\"error\""));
    let broken = track(StreamFormat::Ndjson, "{\"cho");
    assert!(blocked.stream_error(Wire::OllamaChat, &broken).starts_with(b"\n{"));
}

#[test]
fn whole_answers_refuse_as_the_model_would() {
    let blocked = refusal(403, CONTENT_BLOCKED);
    let mut track = StreamTrack::new(StreamFormat::Sse);
    let body = br#"{"id":"x","model":"m","created":3}"#;
    track.read(body, &walk(body, &JsonLimits::STRICT).unwrap());
    let answer = |wire| json_of(&blocked.graceful_body(wire, &track));
    let chat = answer(Wire::OpenAiChat);
    assert_eq!((&chat["id"], &chat["choices"][0]["finish_reason"]), (&json!("x"), &json!("content_filter")));
    assert_eq!(chat["choices"][0]["message"]["refusal"], blocked.message);
    assert_eq!(answer(Wire::Anthropic)["stop_reason"], "refusal");
    assert_eq!(answer(Wire::Gemini)["candidates"][0]["finishReason"], "SAFETY");
    assert_eq!(answer(Wire::OpenAiResponses)["output"][0]["content"][0]["type"], "refusal");
    assert_eq!(answer(Wire::OpenAiCompletions)["choices"][0]["text"], blocked.message);
    let cohere = answer(Wire::Cohere);
    assert_eq!(cohere["message"]["content"][0]["text"], blocked.message);
    assert_eq!((&cohere["finish_reason"], &cohere["id"]), (&json!("ERROR"), &json!("x")));
    assert_eq!(answer(Wire::OllamaChat)["message"]["content"], blocked.message);
    assert_eq!(answer(Wire::Generic)["error"]["code"], "content_blocked");
}
