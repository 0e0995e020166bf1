//! Texts in members of a stream's events that no dialect names: cut anywhere, they are one text all the same.

use bytes::Bytes;
use portcullis::llm::stream::StreamFormat;
use portcullis::policy::decision::Action;
use portcullis::policy::decision::Cleared;
use portcullis::policy::stream::StreamInspector;
use serde_json::Value;
use serde_json::json;

use super::Bench;
use super::Case;
use super::End;
use super::github_token;
use super::policy_of_all;

const MASK: &str = "[REDACTED:github_token]";

/// Writes a payload as an event of a dialect.
fn event(name: Option<&str>, format: StreamFormat, payload: &Value) -> String {
    match (format, name) {
        (StreamFormat::Ndjson, _) => format!("{payload}\n"),
        (_, Some(name)) => format!("event: {name}\ndata: {payload}\n\n"),
        (_, None) => format!("data: {payload}\n\n"),
    }
}

#[test]
fn a_value_in_a_member_that_nobody_names_never_leaves_wherever_it_is_cut() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let token = github_token(&bench);
    let text = format!("It is {token} so");
    type Payload = fn(&str) -> Value;
    let cases: [(&str, Option<&str>, StreamFormat, Payload, &str); 11] = [
        (
            "openai",
            Some("thread.message.delta"),
            StreamFormat::Sse,
            |it| json!({ "id": "msg_1", "object": "thread.message.delta", "delta": { "content": [{ "index": 0, "type": "text", "text": { "value": it, "annotations": [] } }] } }),
            "/delta/content/0/text/value",
        ),
        (
            "openai",
            Some("thread.run.step.delta"),
            StreamFormat::Sse,
            |it| json!({ "id": "step_1", "object": "thread.run.step.delta", "delta": { "step_details": { "type": "tool_calls", "tool_calls": [{ "index": 0, "id": "call_1", "type": "code_interpreter", "code_interpreter": { "input": it, "outputs": [] } }] } } }),
            "/delta/step_details/tool_calls/0/code_interpreter/input",
        ),
        (
            "openai",
            None,
            StreamFormat::Sse,
            |it| json!({ "type": "response.narration.delta", "item_id": "i", "output_index": 0, "narration": it }),
            "/narration",
        ),
        (
            "openai",
            None,
            StreamFormat::Sse,
            |it| json!({ "choices": [{ "index": 0, "delta": { "x": { "narration": it } } }] }),
            "/choices/0/delta/x/narration",
        ),
        (
            "anthropic",
            Some("content_block_delta"),
            StreamFormat::Sse,
            |it| json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "narration_delta", "narration": it } }),
            "/delta/narration",
        ),
        (
            "gemini",
            None,
            StreamFormat::Sse,
            |it| json!({ "candidates": [{ "index": 0, "content": { "parts": [{ "narration": it }] } }] }),
            "/candidates/0/content/parts/0/narration",
        ),
        (
            "ollama",
            None,
            StreamFormat::Ndjson,
            |it| json!({ "model": "m", "message": { "role": "assistant", "narration": it }, "done": false }),
            "/message/narration",
        ),
        (
            "cohere",
            None,
            StreamFormat::Sse,
            |it| json!({ "type": "narration-delta", "index": 0, "delta": { "message": { "narration": it } } }),
            "/delta/message/narration",
        ),
        (
            "cohere",
            None,
            StreamFormat::Ndjson,
            |it| json!({ "is_finished": false, "event_type": "tool-calls-chunk", "text": it }),
            "/text",
        ),
        (
            "cohere",
            None,
            StreamFormat::Ndjson,
            |it| json!({ "is_finished": false, "event_type": "tool-calls-chunk", "tool_call_delta": { "index": 0, "parameters": it } }),
            "/tool_call_delta/parameters",
        ),
        (
            "generic",
            None,
            StreamFormat::Sse,
            |it| json!({ "delta": { "narration": it } }),
            "/delta/narration",
        ),
    ];
    for (dialect, name, format, payload, pointer) in cases {
        for cut in 0..=text.len() {
            let (first, second) = text.split_at(cut);
            let events = [first, second].map(|it| event(name, format, &payload(it))).concat();
            let case = Case::response("all", dialect);
            let result =
                bench.stream(case, format, &mut bench.vault(), events.as_bytes().chunks(events.len()));
            let at = format!("{dialect} {pointer} {cut}");
            assert_eq!((result.end, result.action), (End::Finished, Action::Redact), "{at}");
            let out = String::from_utf8(result.out).expect("UTF-8");
            let payloads = out.lines().filter_map(|line| match format {
                StreamFormat::Ndjson => Some(line),
                _ => line.strip_prefix("data: "),
            });
            let said = payloads.filter(|it| !it.is_empty()).filter_map(|it| {
                let payload: Value = serde_json::from_str(it).expect("JSON");
                payload.pointer(pointer)?.as_str().map(str::to_owned)
            });
            assert_eq!(said.collect::<String>(), text.replace(&token, MASK), "{at}");
            let clean = ["It ", "is so."].map(|it| event(name, format, &payload(it))).concat();
            let result = bench.stream(case, format, &mut bench.vault(), clean.as_bytes().chunks(7));
            assert_eq!((result.end, result.action), (End::Finished, Action::Allow), "{at}");
            assert_eq!(String::from_utf8_lossy(&result.out), clean, "{at}");
        }
    }
}

/// A dialect, the name of an event, its payload, and where the text is in it.
type Place = (&'static str, Option<&'static str>, StreamFormat, fn(&str) -> Value, &'static str);

/// Places beside what comes in pieces.
const BESIDE: [Place; 14] = [
    ("generic", None, StreamFormat::Sse, |it| json!({ "type": "x", "fragment": it }), "/fragment"),
    (
        "generic",
        None,
        StreamFormat::Ndjson,
        |it| json!({ "state": "in_progress", "step": "2", "rows": [{ "cells": ["total", it] }] }),
        "/rows/0/cells/1",
    ),
    (
        "gemini",
        None,
        StreamFormat::Sse,
        |it| json!({ "candidates": [{ "index": 0, "content": { "parts": [{ "novel": { "narration": [it] } }] } }] }),
        "/candidates/0/content/parts/0/novel/narration/0",
    ),
    (
        "gemini",
        None,
        StreamFormat::Sse,
        |it| json!({ "candidates": [{ "index": 0, "narration": { "told": it } }], "modelVersion": "g", "responseId": "r" }),
        "/candidates/0/narration/told",
    ),
    ("gemini", None, StreamFormat::Sse, |it| json!({ "narration": it, "usageMetadata": {} }), "/narration"),
    (
        "ollama",
        None,
        StreamFormat::Ndjson,
        |it| json!({ "model": "m", "message": { "role": "assistant", "novel": { "narration": it } }, "done": false }),
        "/message/novel/narration",
    ),
    (
        "ollama",
        None,
        StreamFormat::Ndjson,
        |it| json!({ "model": "m", "narration": it, "done": false }),
        "/narration",
    ),
    (
        "anthropic",
        Some("narration"),
        StreamFormat::Sse,
        |it| json!({ "type": "narration", "index": 0, "narration": it }),
        "/narration",
    ),
    (
        "anthropic",
        Some("content_block_start"),
        StreamFormat::Sse,
        |it| json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "novel", "told": { "narration": it } } }),
        "/content_block/told/narration",
    ),
    (
        "bedrock",
        None,
        StreamFormat::Sse,
        |it| json!({ "narration": it, "narration_token_count": 1 }),
        "/narration",
    ),
    (
        "cohere",
        None,
        StreamFormat::Ndjson,
        |it| json!({ "is_finished": false, "event_type": "narration", "narration": it }),
        "/narration",
    ),
    (
        "a2a",
        None,
        StreamFormat::Sse,
        |it| {
            json!({ "jsonrpc": "2.0", "id": 1, "result": { "kind": "status-update", "taskId": "t", "contextId": "c", "final": false,
            "status": { "state": "working", "message": { "kind": "message", "role": "agent", "messageId": "m",
                "parts": [{ "kind": "data", "data": { "place": "Rome", "found": [it] } }] } } } })
        },
        "/result/status/message/parts/0/data/found/0",
    ),
    (
        "a2a",
        None,
        StreamFormat::Sse,
        |it| {
            json!({ "jsonrpc": "2.0", "id": 1, "result": { "artifactUpdate": { "taskId": "t", "artifact": { "artifactId": "a",
            "parts": [{ "data": { "found": it } }] } } } })
        },
        "/result/artifactUpdate/artifact/parts/0/data/found",
    ),
    (
        "a2a",
        None,
        StreamFormat::Sse,
        |it| {
            json!({ "jsonrpc": "2.0", "id": 1, "result": { "kind": "artifact-update", "taskId": "t",
            "artifact": { "artifactId": "a", "parts": [], "metadata": { "found": it } } } })
        },
        "/result/artifact/metadata/found",
    ),
];

/// Returns the texts at a place of all payloads of a stream, one after another.
fn said(out: &[u8], format: StreamFormat, pointer: &str) -> String {
    let out = std::str::from_utf8(out).expect("UTF-8");
    let payloads = out.lines().filter_map(|line| match format {
        StreamFormat::Ndjson => Some(line),
        _ => line.strip_prefix("data: "),
    });
    let texts = payloads.filter(|it| !it.is_empty()).filter_map(|it| {
        let payload: Value = serde_json::from_str(it).expect("JSON");
        payload.pointer(pointer)?.as_str().map(str::to_owned)
    });
    texts.collect()
}

/// A value that was cut over two events in a member that is named nowhere came out: each event was read alone.
#[test]
fn a_value_beside_what_comes_in_pieces_never_leaves_wherever_it_is_cut() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let token = github_token(&bench);
    let text = format!("It is {token} so");
    for (dialect, name, format, payload, pointer) in BESIDE {
        let run = |pieces: &[&str], size: usize| {
            let events: String = pieces.iter().map(|it| event(name, format, &payload(it))).collect();
            let case = Case::response("all", dialect);
            bench.stream(case, format, &mut bench.vault(), events.as_bytes().chunks(size))
        };
        for cut in 0..=text.len() {
            let (first, second) = text.split_at(cut);
            let at = format!("{dialect} {pointer} {cut}");
            for pieces in
                [vec![first, second], vec![first, &second[..second.len() / 2], &second[second.len() / 2..]]]
            {
                let result = run(&pieces, 4096);
                assert_eq!((result.end, result.action), (End::Finished, Action::Redact), "{at}");
                assert_eq!(said(&result.out, format, pointer), text.replace(&token, MASK), "{at}");
                let seen = result.seen.iter().filter(|seen| seen.0 == "github_token").count();
                assert_eq!(seen, 1, "{at}");
            }
        }
        let bytewise: Vec<&str> = (0..text.len()).map(|at| &text[at..=at]).collect();
        let whole = run(&bytewise, 4096);
        assert_eq!(said(&whole.out, format, pointer), text.replace(&token, MASK), "{dialect} {pointer}");
        for size in [1, 7] {
            assert_eq!(run(&bytewise, size).out, whole.out, "{dialect} {pointer} in chunks of {size}");
        }
        // What begins as a value does is waited for without words before it, too.
        for cut in 12..token.len() {
            let result = run(&[&token[..cut], &token[cut..]], 4096);
            assert_eq!(said(&result.out, format, pointer), MASK, "{dialect} {pointer} {cut}");
        }
        // Where less of it has left, the rest does not follow.
        for cut in 1..8 {
            let result = run(&[&token[..cut], &token[cut..]], 4096);
            let (left, at) = (said(&result.out, format, pointer), format!("{dialect} {pointer} {cut}"));
            assert_eq!((result.end, result.action), (End::Finished, Action::Redact), "{at}");
            assert!(left.starts_with(&token[..cut]) && !left.contains(&token[cut..]), "{at}: {left}");
        }
    }
}

/// A key of letters alone has pieces that are written as names and states are.
#[test]
fn a_key_of_letters_in_short_pieces_of_a_member_that_nobody_names_does_not_leave() {
    const LEFT_BYTES_MAX: usize = 14;
    let bench = Bench::new("");
    type Payload = fn(&str) -> Value;
    let cases: [(&str, Payload, &str); 3] = [
        ("generic", |it| json!({ "t": it }), "/t"),
        ("generic", |it| json!({ "p": "/message/content/parts/0", "o": "append", "v": it }), "/v"),
        (
            "openai",
            |it| json!({ "object": "chat.completion.chunk", "choices": [{ "index": 0, "delta": {}, "foo": it }] }),
            "/choices/0/foo",
        ),
    ];
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let mut drawn = (1_u64..).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).map(|it| it as usize);
    for at in 0..24 {
        let tail: String =
            drawn.by_ref().take(16).map(|it| char::from(letters[it % letters.len()])).collect();
        let (begin, rest) = tail.split_at(2);
        // Where a piece comes twice in a row, it is one all the same.
        let key =
            if at % 2 == 0 { format!("AKIA{tail}") } else { format!("AKIA{begin}{begin}{}", &rest[2..]) };
        let text = format!("{}{key};", ["key=", "Your key: ", "(("][at % 3]);
        for (dialect, payload, pointer) in cases {
            for length in 1..=4 {
                let pieces = text.as_bytes().chunks(length).map(|it| std::str::from_utf8(it).expect("ASCII"));
                let events: String = pieces.map(|it| event(None, StreamFormat::Sse, &payload(it))).collect();
                let case = Case::response("default", dialect);
                let events = events.split_inclusive("\n\n").map(str::as_bytes);
                let result = bench.stream(case, StreamFormat::Sse, &mut bench.vault(), events);
                let left = said(&result.out, StreamFormat::Sse, pointer);
                // Letters that sound like a word are seen to be none a little later.
                let parts = (0..=key.len() - LEFT_BYTES_MAX).map(|from| &key[from..from + LEFT_BYTES_MAX]);
                let leaked: Vec<&str> = parts.filter(|part| left.contains(part)).collect();
                assert!(leaked.is_empty(), "{dialect} {pointer}, pieces of {length}: {left}");
            }
        }
    }
}

#[test]
fn a_member_that_is_begun_in_a_blocks_start_is_gone_on_with_in_its_deltas() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let token = github_token(&bench);
    let text = format!("It is {token} so");
    for cut in 0..=text.len() {
        let (first, second) = text.split_at(cut);
        let start = json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "narration", "narration": first } });
        let delta = json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "narration_delta", "narration": second } });
        let events = [
            event(Some("content_block_start"), StreamFormat::Sse, &start),
            event(Some("content_block_delta"), StreamFormat::Sse, &delta),
        ];
        let case = Case::response("all", "anthropic");
        let result = bench.stream(case, StreamFormat::Sse, &mut bench.vault(), [events.concat().as_bytes()]);
        assert_eq!((result.end, result.action), (End::Finished, Action::Redact), "{cut}");
        let left = ["/content_block/narration", "/delta/narration"]
            .map(|at| said(&result.out, StreamFormat::Sse, at));
        assert_eq!(left.concat(), text.replace(&token, MASK), "{cut}");
    }
}

#[test]
fn a_member_that_is_said_whole_each_time_hides_the_value_at_every_length() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let token = github_token(&bench);
    let text = format!("Well then, the key is {token} and that is all.");
    let grown = (20..text.len()).step_by(5).chain([text.len()]).map(|end| &text[..end]);
    let events: String =
        grown.map(|it| event(None, StreamFormat::Sse, &json!({ "type": "x", "fragment": it }))).collect();
    let case = Case::response("all", "generic");
    let result = bench.stream(case, StreamFormat::Sse, &mut bench.vault(), [events.as_bytes()]);
    let left = String::from_utf8(result.out).expect("UTF-8");
    assert!(result.end == End::Finished && !left.contains(&token[..6]), "{left}");
    assert!(left.contains(&text.replace(&token, MASK)), "{left}");
}

#[test]
fn states_names_and_counters_hold_nothing_back_and_are_no_text() {
    let bench = Bench::new("");
    const STATES: [&str; 3] = ["queued", "in_progress", "completed"];
    const CELLS: [&str; 3] = ["total", "Berlin", "OK"];
    type Payload = fn(usize) -> Value;
    let cases: [(&str, Payload); 9] = [
        (
            "generic",
            |at| json!({ "type": "x", "phase": "thinking", "seq": at.to_string(), "delta": "So it is, " }),
        ),
        ("generic", |at| json!({ "phase": STATES[at % 3], "run_id": format!("run-3f2a9c{at}") })),
        (
            "generic",
            |at| json!({ "id": "a", "created_at": format!("2026-11-25T23:04:{}Z", 10 + at), "engine": "us-east-1" }),
        ),
        ("generic", |at| json!({ "event": "row", "cell": CELLS[at % 3] })),
        (
            "ollama",
            |at| json!({ "model": "m", "created_at": format!("2026-11-25T23:04:{}Z", 10 + at), "message": { "role": "assistant", "content": "So it is, " }, "note": "fast", "done": false }),
        ),
        (
            "anthropic",
            |_| json!({ "type": "message_start", "message": { "id": "msg_01", "type": "message", "role": "assistant", "model": "claude-3-5", "content": [], "stop_reason": null, "usage": { "service_tier": "standard", "inference_geo": "not_available" } } }),
        ),
        (
            "gemini",
            |_| json!({ "candidates": [{ "content": { "role": "model", "parts": [{ "functionCall": { "name": "weather", "args": { "city": "Berlin", "unit": "celsius" } } }] } }] }),
        ),
        ("gemini", |at| {
            json!({ "candidates": [{ "content": { "role": "model", "parts": [{ "text": "So it is, " }] }, "avgLogprobs": -0.1,
                "safetyRatings": [{ "category": "HARM_CATEGORY_HARASSMENT", "probability": "NEGLIGIBLE" }] }],
                "usageMetadata": { "trafficType": "ON_DEMAND", "promptTokensDetails": [{ "modality": "TEXT", "tokenCount": 3 }] },
                "modelVersion": "gemini-2.5-pro", "createTime": format!("2026-11-25T23:04:{}Z", 10 + at), "responseId": "3QbpZ6" })
        }),
        (
            "a2a",
            |_| json!({ "jsonrpc": "2.0", "id": 1, "result": { "parts": [{ "kind": "data", "data": { "city": "Berlin", "status": "found" } }], "messageId": "m", "role": "agent", "kind": "message" } }),
        ),
    ];
    for (dialect, payload) in cases {
        bench.with_inspector(Case::response("default", dialect), |inspector| {
            let (mut judge, mut out) = (StreamInspector::new(StreamFormat::Sse, 1 << 20), Vec::new());
            for at in 0..24 {
                let event = event(None, StreamFormat::Sse, &payload(at));
                judge.push(inspector, &mut bench.vault(), event.as_bytes(), &mut out);
                assert_eq!(out.len(), at + 1, "{dialect}: it waits: {event}");
            }
            assert_eq!(judge.action(), Action::Allow, "{dialect}");
        });
    }
}

#[test]
fn what_is_said_of_a_member_is_over_when_an_event_goes_on_without_it() {
    let bench = Bench::new("");
    let started = event(None, StreamFormat::Sse, &json!({ "type": "started", "note": "Looking for it now" }));
    let key = event(None, StreamFormat::Sse, &json!({ "type": "started", "trace": "4Bf92f3577b34dA6" }));
    let next = event(None, StreamFormat::Sse, &json!({ "type": "x", "delta": "So it is, " }));
    for first in [started, key] {
        bench.with_inspector(Case::response("default", "generic"), |inspector| {
            let (mut judge, mut out) = (StreamInspector::new(StreamFormat::Sse, 1 << 20), Vec::new());
            for event in [&first, &next] {
                judge.push(inspector, &mut bench.vault(), event.as_bytes(), &mut out);
            }
            assert_eq!((out.len(), judge.held_bytes()), (2, 0), "{first}");
        });
    }
}

#[test]
fn an_event_of_more_members_than_are_followed_is_read_all_the_same() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let token = github_token(&bench);
    let many = |said: &str| {
        let members: serde_json::Map<String, Value> =
            (0..400).map(|at| (format!("m{at}"), json!(format!("({at}) {said}")))).collect();
        event(None, StreamFormat::Sse, &Value::Object(members))
    };
    let events = [many("so"), many(&token), many(", on")].concat();
    let case = Case::response("all", "generic");
    let result = bench.stream(case, StreamFormat::Sse, &mut bench.vault(), [events.as_bytes()]);
    assert_eq!((result.end, result.action), (End::Finished, Action::Redact));
    assert_eq!(String::from_utf8_lossy(&result.out), events.replace(&token, MASK));
}

/// A dialect, what a message of it says, and where.
type Told = (&'static str, fn(&str) -> Value, &'static str);

/// On a socket such members were read message by message, and a value that was cut over two of them came out.
#[test]
fn of_a_value_that_is_cut_over_messages_of_a_socket_the_rest_does_not_follow_and_nothing_waits() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let token = github_token(&bench);
    let texts = ["", " so"].map(|end| format!("It is {token}{end}"));
    let places: [Told; 4] = [
        (
            "openai",
            |it| json!({ "type": "response.narration.added", "response_id": "r", "narration": it }),
            "/narration",
        ),
        (
            "openai",
            |it| json!({ "type": "mcp_list_tools.narration", "item_id": "i", "told": { "of": it } }),
            "/told/of",
        ),
        (
            "gemini",
            |it| json!({ "serverContent": { "narration": { "told": it } } }),
            "/serverContent/narration/told",
        ),
        ("gemini", |it| json!({ "narration": it }), "/narration"),
    ];
    for ((dialect, message, pointer), text) in
        places.iter().flat_map(|it| texts.each_ref().map(|text| (it, text)))
    {
        for cut in 1..text.len() {
            let at = format!("{dialect} {pointer} {cut} of {}", text.len());
            bench.with_inspector(Case::response("all", dialect), |inspector| {
                let (mut judge, mut out) = (StreamInspector::new(StreamFormat::Ndjson, 1 << 20), Vec::new());
                for (count, said) in [&text[..cut], &text[cut..]].into_iter().enumerate() {
                    let said = Bytes::from(message(said).to_string());
                    judge.message(inspector, &mut bench.vault(), said, &mut out);
                    assert_eq!(out.len(), count + 1, "{at}: it waits");
                }
                assert_eq!(judge.action(), Action::Redact, "{at}");
                let left = out.into_iter().map(Cleared::into_bytes).map(|it| {
                    let message: Value = serde_json::from_slice(&it).expect("JSON");
                    message.pointer(pointer).and_then(Value::as_str).expect("a text").to_owned()
                });
                let left: Vec<String> = left.collect();
                assert!(left[0].starts_with("It is"[..cut.min(5)].trim_end()), "{at}: {left:?}");
                assert!(
                    text.ends_with(&token) || left[1].ends_with(&text[cut.max(text.len() - 3)..]),
                    "{at}: {left:?}"
                );
                let tail = token.get(cut.saturating_sub("It is ".len())..).filter(|tail| tail.len() > 3);
                let tail = tail.unwrap_or(&token);
                assert!(!left[1].contains(tail) && !left.concat().contains(&token), "{at}: {left:?}");
            });
        }
    }
}

/// What a part of a text says under its id, and where.
type Part = (fn(&str, &str) -> Value, &'static str);

/// Texts of the UI message streams of Vercel's AI SDK stand beside one another, told apart by their ids.
#[test]
fn texts_that_ids_tell_apart_are_judged_each_for_itself() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let token = github_token(&bench);
    let text = format!("It is {token} so");
    let parts: [Part; 3] = [
        (|id, it| json!({ "type": "text-delta", "id": id, "delta": it }), "/delta"),
        (|id, it| json!({ "type": "reasoning-delta", "id": id, "delta": it }), "/delta"),
        (
            |id, it| json!({ "type": "tool-input-delta", "toolCallId": id, "inputTextDelta": it }),
            "/inputTextDelta",
        ),
    ];
    for (part, pointer) in parts {
        for cut in 0..=text.len() {
            let (first, second) = text.split_at(cut);
            let payloads =
                [part("a", first), part("b", "and more of "), part("a", second), part("b", "it here")];
            let events: String =
                payloads.iter().map(|payload| event(None, StreamFormat::Sse, payload)).collect();
            let case = Case::response("all", "generic");
            let stream = events + "data: [DONE]\n\n";
            let result = bench.stream(case, StreamFormat::Sse, &mut bench.vault(), [stream.as_bytes()]);
            assert_eq!((result.end, result.action), (End::Finished, Action::Redact), "{pointer} {cut}");
            let out = String::from_utf8(result.out).expect("UTF-8");
            let events = out.lines().filter_map(|line| line.strip_prefix("data: {"));
            let texts = events.map(|it| serde_json::from_str::<Value>(&format!("{{{it}")).expect("JSON"));
            let of_one = texts.filter(|it| it["id"] == "a" || it["toolCallId"] == "a");
            let said: String =
                of_one.filter_map(|it| it.pointer(pointer)?.as_str().map(str::to_owned)).collect();
            assert_eq!(said, text.replace(&token, MASK), "{pointer} {cut}");
            assert!(out.contains("and more of ") && out.contains("it here"), "{out}");
        }
    }
}
