//! Events between peers are whole messages, and are read as whole bodies are.

use portcullis::llm::stream::StreamFormat;
use serde_json::json;

use super::Bench;
use super::Case;
use super::End;
use super::policy_of_all;

#[test]
fn a_secret_that_only_its_name_tells_is_found_in_an_event_too() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let value = "tR7!mq2Zx";
    let message =
        json!({ "jsonrpc": "2.0", "id": 1, "result": { "structuredContent": { "password": value } } });
    for dialect in ["mcp", "a2a"] {
        let case = Case::response("all", dialect);
        let whole = bench.whole(case, &mut bench.vault(), message.to_string().as_bytes());
        let seen = bench.seen(whole.observations);
        assert!(!seen.is_empty(), "{dialect}");
        let stream = format!("event: message\ndata: {message}\n\n");
        let streamed = bench.stream(case, StreamFormat::Sse, &mut bench.vault(), [stream.as_bytes()]);
        assert_eq!(streamed.seen, seen, "{dialect}");
        let left = String::from_utf8(streamed.out).expect("UTF-8");
        assert!(!left.contains(value) && streamed.end == End::Finished, "{dialect}: {left}");
    }
}

#[test]
fn an_event_that_takes_too_long_is_not_read_to_its_end() {
    let mut bench = Bench::new(&policy_of_all("all", "redact", "fail_mode = \"closed\""));
    let event = |payload: &str| format!("data: {payload}\n\n");
    let events = [
        (
            "mcp",
            event(r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"all is well"}]}}"#),
        ),
        ("openai", event(r#"{"choices":[{"index":0,"delta":{"content":"all is well"}}]}"#)),
    ];
    for (is_late, end) in [(false, End::Finished), (true, End::Unreadable)] {
        bench.is_late = is_late;
        for (dialect, event) in &events {
            let case = Case::response("all", dialect);
            let streamed = bench.stream(case, StreamFormat::Sse, &mut bench.vault(), [event.as_bytes()]);
            assert_eq!(streamed.end, end, "{dialect}");
        }
    }
}
