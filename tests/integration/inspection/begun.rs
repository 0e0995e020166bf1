//! Texts that begin in the event that announces their place: clients put the deltas behind what it says, so a value
//! that is cut there is one value.

use portcullis::llm::stream::StreamFormat;
use portcullis::policy::decision::Action;
use serde_json::Value;
use serde_json::json;

use super::Bench;
use super::Case;
use super::End;
use super::github_token;
use super::policy_of_all;

const MASK: &str = "[REDACTED:github_token]";

/// An event with a text, and where it is.
type Payload = (fn(&str) -> Value, &'static str);

/// A dialect, the event that announces, and the one that goes on.
const BEGUN: [(&str, Payload, Payload); 13] = [
    (
        "openai",
        (
            |it| json!({ "type": "response.content_part.added", "output_index": 0, "content_index": 0, "part": { "type": "output_text", "text": it } }),
            "/part/text",
        ),
        (
            |it| json!({ "type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": it }),
            "/delta",
        ),
    ),
    (
        "openai",
        (
            |it| json!({ "type": "response.output_item.added", "output_index": 1, "item": { "type": "message", "content": [{ "type": "output_text", "text": it }] } }),
            "/item/content/0/text",
        ),
        (
            |it| json!({ "type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": it }),
            "/delta",
        ),
    ),
    (
        "openai",
        (
            |it| json!({ "type": "response.created", "response": { "id": "r", "output": [{ "type": "message", "content": [{ "type": "output_text", "text": it }] }] } }),
            "/response/output/0/content/0/text",
        ),
        (
            |it| json!({ "type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": it }),
            "/delta",
        ),
    ),
    (
        "openai",
        (
            |it| json!({ "type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 0, "part": { "type": "summary_text", "text": it } }),
            "/part/text",
        ),
        (
            |it| json!({ "type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": it }),
            "/delta",
        ),
    ),
    (
        "openai",
        (
            |it| json!({ "type": "response.output_item.added", "output_index": 0, "item": { "type": "function_call", "name": "f", "arguments": it } }),
            "/item/arguments",
        ),
        (
            |it| json!({ "type": "response.function_call_arguments.delta", "output_index": 0, "delta": it }),
            "/delta",
        ),
    ),
    (
        "openai",
        (
            |it| json!({ "type": "response.output_item.added", "output_index": 0, "item": { "type": "mcp_call", "name": "f", "arguments": it } }),
            "/item/arguments",
        ),
        (
            |it| json!({ "type": "response.mcp_call_arguments.delta", "output_index": 0, "delta": it }),
            "/delta",
        ),
    ),
    (
        "openai",
        (
            |it| json!({ "type": "response.output_item.added", "output_index": 0, "item": { "type": "custom_tool_call", "name": "f", "input": it } }),
            "/item/input",
        ),
        (
            |it| json!({ "type": "response.custom_tool_call_input.delta", "output_index": 0, "delta": it }),
            "/delta",
        ),
    ),
    (
        "openai",
        (
            |it| json!({ "type": "response.output_item.added", "output_index": 0, "item": { "type": "code_interpreter_call", "code": it } }),
            "/item/code",
        ),
        (
            |it| json!({ "type": "response.code_interpreter_call_code.delta", "output_index": 0, "delta": it }),
            "/delta",
        ),
    ),
    (
        "openai",
        (
            |it| json!({ "type": "thread.message.created", "id": "m", "content": [{ "type": "text", "text": { "value": it } }] }),
            "/content/0/text/value",
        ),
        (
            |it| json!({ "type": "thread.message.delta", "id": "m", "delta": { "content": [{ "index": 0, "type": "text", "text": { "value": it } }] } }),
            "/delta/content/0/text/value",
        ),
    ),
    (
        "openai",
        (
            |it| json!({ "choices": [{ "index": 0, "delta": { "tool_calls": [{ "index": 0, "id": "c", "function": { "name": it } }] } }] }),
            "/choices/0/delta/tool_calls/0/function/name",
        ),
        (
            |it| json!({ "choices": [{ "index": 0, "delta": { "tool_calls": [{ "index": 0, "function": { "name": it } }] } }] }),
            "/choices/0/delta/tool_calls/0/function/name",
        ),
    ),
    (
        "openai",
        (
            |it| json!({ "choices": [{ "index": 0, "message": { "role": "assistant", "content": it } }] }),
            "/choices/0/message/content",
        ),
        (
            |it| json!({ "choices": [{ "index": 0, "message": { "role": "assistant", "content": it } }] }),
            "/choices/0/message/content",
        ),
    ),
    (
        "openai",
        (|it| json!({ "output": { "choices": [{ "told": it }] } }), "/output/choices/0/told"),
        (|it| json!({ "output": { "choices": [{ "told": it }] } }), "/output/choices/0/told"),
    ),
    (
        "anthropic",
        (
            |it| json!({ "type": "message_start", "message": { "id": "m", "role": "assistant", "content": [{ "type": "text", "text": it }] } }),
            "/message/content/0/text",
        ),
        (
            |it| json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": it } }),
            "/delta/text",
        ),
    ),
];

/// The first event was read alone, and the deltas without it: both halves of a value left.
#[test]
fn a_value_that_begins_where_its_place_is_announced_never_leaves_wherever_it_is_cut() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let token = github_token(&bench);
    let text = format!("It is {token} so");
    for (dialect, (begin, begins_at), (go_on, goes_on_at)) in BEGUN {
        for cut in 1..text.len() {
            let (first, rest) = text.split_at(cut);
            let (second, third) = rest.split_at(rest.len() / 2);
            let payloads = [begin(first), go_on(second), go_on(third)];
            let events = payloads.map(|it| {
                let kind = it.get("type").and_then(Value::as_str).map(|kind| format!("event: {kind}\n"));
                format!("{}data: {it}\n\n", kind.unwrap_or_default())
            });
            let case = Case::response("all", dialect);
            let stream = events.concat();
            let result =
                bench.stream(case, StreamFormat::Sse, &mut bench.vault(), stream.as_bytes().chunks(4096));
            let at = format!("{dialect} {begins_at} {cut}");
            assert_eq!((result.end, result.action), (End::Finished, Action::Redact), "{at}");
            let out = String::from_utf8(result.out).expect("UTF-8");
            let payloads = out.lines().filter_map(|line| line.strip_prefix("data: "));
            let said = payloads.enumerate().map(|(nth, it)| {
                let payload: Value = serde_json::from_str(it).expect("JSON");
                let place = if nth == 0 { begins_at } else { goes_on_at };
                payload.pointer(place).and_then(Value::as_str).expect("a text").to_owned()
            });
            assert_eq!(said.collect::<String>(), text.replace(&token, MASK), "{at}");
        }
    }
}

/// Thoughts between the parts of an answer parted a value in it, which left whole.
#[test]
fn thoughts_between_parts_of_an_answer_part_no_value_in_it() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let token = github_token(&bench);
    let text = format!("It is {token} so");
    let part = |it: &str, thought: bool| json!({ "candidates": [{ "index": 0, "content": { "role": "model", "parts": [{ "text": it, "thought": thought }] } }] });
    for cut in 1..text.len() {
        let (first, second) = text.split_at(cut);
        let payloads = [part(first, false), part(" so it may be ", true), part(second, false)];
        let events = payloads.map(|it| format!("data: {it}\n\n")).concat();
        let case = Case::response("all", "gemini");
        let result = bench.stream(case, StreamFormat::Sse, &mut bench.vault(), [events.as_bytes()]);
        assert_eq!((result.end, result.action), (End::Finished, Action::Redact), "{cut}");
        let out = String::from_utf8(result.out).expect("UTF-8");
        let payloads = out.lines().filter_map(|line| line.strip_prefix("data: "));
        let parts = payloads.map(|it| serde_json::from_str::<Value>(it).expect("JSON"));
        let parts = parts.map(|it| it["candidates"][0]["content"]["parts"][0].clone());
        let said: String = parts
            .filter(|part| part["thought"] == false)
            .filter_map(|part| Some(part["text"].as_str()?.to_owned()))
            .collect();
        assert_eq!(said, text.replace(&token, MASK), "{cut}");
    }
}

/// Each piece was the begin of a value by itself, too short to wait for: all of them left, and only the end was refused.
#[test]
fn a_value_that_others_interrupt_again_and_again_does_not_leave_piece_by_piece() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let token = github_token(&bench);
    let choice = |delta: Value| json!({ "choices": [{ "index": 0, "delta": delta }] });
    let called = |it: &str| json!([{ "index": 0, "function": { "arguments": it } }]);
    let block =
        |index: u8, delta: Value| json!({ "type": "content_block_delta", "index": index, "delta": delta });
    let part = |part: Value| json!({ "candidates": [{ "index": 0, "content": { "role": "model", "parts": [part] } }] });
    let ollama = |message: Value| json!({ "model": "m", "message": message, "done": false });
    type Event<'a> = &'a dyn Fn(&str) -> Value;
    // What says a piece and where, and what interrupts it: with white space, which no piece has.
    let cases: [(&str, Event<'_>, &str, Event<'_>); 6] = [
        ("openai", &|it| choice(json!({ "content": it })), "/choices/0/delta/content", &|it| {
            choice(json!({ "tool_calls": called(it) }))
        }),
        (
            "openai",
            &|it| choice(json!({ "reasoning_content": it })),
            "/choices/0/delta/reasoning_content",
            &|it| choice(json!({ "content": it })),
        ),
        (
            "openai",
            &|it| json!({ "type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": it }),
            "/delta",
            &|it| json!({ "type": "response.function_call_arguments.delta", "output_index": 1, "delta": it }),
        ),
        ("anthropic", &|it| block(0, json!({ "type": "text_delta", "text": it })), "/delta/text", &|it| {
            block(1, json!({ "type": "input_json_delta", "partial_json": it }))
        }),
        ("gemini", &|it| part(json!({ "text": it })), "/candidates/0/content/parts/0/text", &|it| {
            part(json!({ "text": it, "thought": true }))
        }),
        (
            "ollama",
            &|it| ollama(json!({ "role": "assistant", "thinking": it })),
            "/message/thinking",
            &|it| ollama(json!({ "role": "assistant", "content": it })),
        ),
    ];
    for (dialect, say, place, interrupt) in cases {
        for length in 1..8 {
            let pieces = token.as_bytes().chunks(length).map(|it| std::str::from_utf8(it).expect("ASCII"));
            let events = pieces.flat_map(|piece| [say(piece), interrupt("1 ")]).chain([say(" so")]);
            let stream: String = events.map(|it| format!("data: {it}\n\n")).collect();
            let case = Case::response("all", dialect);
            let result = bench.stream(case, StreamFormat::Sse, &mut bench.vault(), [stream.as_bytes()]);
            let left = String::from_utf8(result.out).expect("UTF-8");
            assert_eq!(
                (result.end, result.action),
                (End::Finished, Action::Redact),
                "{dialect} {length}: {left}"
            );
            let events = left.lines().filter_map(|line| line.strip_prefix("data: "));
            let events = events.map(|it| serde_json::from_str::<Value>(it).expect("JSON"));
            let said: String = events
                .filter_map(|event| event.pointer(place)?.as_str().map(str::to_owned))
                .filter(|piece| piece != "1 ")
                .collect();
            let (head, rest) = said.split_once(MASK).unwrap_or_else(|| panic!("{dialect} {length}: {said}"));
            assert!(head.len() < 8 && token.starts_with(head), "{dialect} {length}: {said}");
            assert_eq!(rest, " so", "{dialect} {length}: {said}");
        }
    }
}
