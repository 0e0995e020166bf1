//! Texts in members of a stream's events that no dialect names: cut anywhere, they are one text all the same.

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
    let cases: [(&str, Option<&str>, StreamFormat, Payload, &str); 9] = [
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
